#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

// C++ text, seen coarsely enough for rules about it: which part is code, which files it includes, which words it uses.
// Not a parser. What it gets wrong (macros that paste tokens, line continuations inside a word) nobody here writes, and
// a rule that misses one trick still catches the honest mistake it is there for.

namespace tidy {

inline bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The text with comments, and the insides of string and character literals, replaced by blanks; lines stay lines.
inline std::string code_of(std::string_view text) {
  std::string out(text);
  std::size_t i = 0;
  const auto blank_until = [&](std::size_t end) {
    for (end = std::min(end, out.size()); i < end; ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  const auto after = [&](std::string_view what, std::size_t from) {
    const auto at = text.find(what, from);
    return at == std::string_view::npos ? text.size() : at + what.size();
  };
  while (i < text.size()) {
    const auto rest = text.substr(i);
    if (rest.starts_with("//")) {
      blank_until(std::min(text.find('\n', i), text.size()));
    } else if (rest.starts_with("/*")) {
      blank_until(after("*/", i + 2));
    } else if (rest.starts_with("R\"") && (i == 0 || !is_word_char(text[i - 1]))) {
      const auto open = std::min(text.find('(', i), text.size());
      const std::string close = ")" + std::string(text.substr(i + 2, open - i - 2)) + "\"";
      blank_until(after(close, open));
    } else if (text[i] == '"' || (text[i] == '\'' && (i == 0 || !is_word_char(text[i - 1])))) {
      auto end = i + 1;
      while (end < text.size() && text[end] != text[i] && text[end] != '\n') end += text[end] == '\\' ? 2U : 1U;
      blank_until(end + 1);
    } else {
      ++i;
    }
  }
  return out;
}

inline std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

struct Include {
  std::size_t line = 0;
  std::string name;     // between the brackets or quotes
  bool angled = false;  // <...>, a library's
};

inline std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> found;
  const std::string code = code_of(text);
  const auto code_lines = lines_of(code);
  const auto text_lines = lines_of(text);
  for (std::size_t n = 0; n < code_lines.size(); ++n) {
    const auto hash = code_lines[n].find_first_not_of(" \t");
    if (hash == std::string_view::npos || code_lines[n][hash] != '#') continue;
    const auto word = code_lines[n].find_first_not_of(" \t", hash + 1);
    if (word == std::string_view::npos || !code_lines[n].substr(word).starts_with("include")) continue;
    const auto open = text_lines[n].find_first_of("<\"", word);
    if (open == std::string_view::npos) continue;
    const bool angled = text_lines[n][open] == '<';
    const auto close = text_lines[n].find(angled ? '>' : '"', open + 1);
    if (close == std::string_view::npos) continue;
    found.push_back({n + 1, std::string(text_lines[n].substr(open + 1, close - open - 1)), angled});
  }
  return found;
}

/// Where `word` stands in `text` with no letter, digit or underscore on either side (unless `word` itself ends there in
/// something that is none).
inline bool has_word(std::string_view text, std::string_view word) {
  for (auto at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const auto end = at + word.size();
    const bool left = at == 0 || !is_word_char(word.front()) || !is_word_char(text[at - 1]);
    const bool right = end == text.size() || !is_word_char(word.back()) || !is_word_char(text[end]);
    if (left && right) return true;
  }
  return false;
}

inline std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Columns as a reader counts them: UTF-8 continuation bytes take none.
inline std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace tidy
