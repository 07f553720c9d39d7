#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "coordination/condition_fields.hpp"
#include "shmcoord/condition.hpp"

// Conditions as one line of text.
//
//   either   := both { "||" both }            one is itself, more are an Any
//   both     := negated { "&&" negated }      likewise an All
//   negated  := "!" negated | "(" either ")" | call
//   call     := NAME "(" [ argument { "," argument } ] ")"
//   argument := either, of all, any and not;  word, of the others
//   word     := one or more of: BARE, "…", '…'   side by side, as in a shell: label="my label"
//
// What str() writes, parse() reads as an equal condition: parentheses keep an All in an All apart from one All, and
// all(x), any() are written as such. A column counts characters, since that is what an editor shows.

namespace shmcoord {
namespace {

using coordination::all_type_names;
using coordination::check_word;
using coordination::fields_of;
using coordination::What;

constexpr std::string_view not_bare = "()!&|,'\"\\ \t\n\r\v\f";

constexpr std::string_view expectation = "expect=";  // of a command; a word that only looks like it is quoted

bool is_bare(std::string_view word) {
  return !word.empty() && !word.starts_with(expectation) && word.find_first_of(not_bare) == std::string_view::npos &&
         std::none_of(word.begin(), word.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// --- writing --------------------------------------------------------------------------------------------------------

std::string written(std::string_view word) {
  if (is_bare(word)) return std::string(word);
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else {
      text += c;
    }
  }
  return text + '"';
}

void write(const GuardCondition& condition, std::string& text);

// In parentheses, if it would mean something else without.
void write_part(const GuardCondition& part, bool in_both, std::string& text) {
  const auto is_chain = [&]<class Composite>(const Composite* c) { return c != nullptr && c->conditions.size() > 1; };
  const bool any = is_chain(std::get_if<Any>(&part.kind()));
  const bool all = is_chain(std::get_if<All>(&part.kind()));
  const bool apart = any || (all && in_both);
  if (apart) text += '(';
  write(part, text);
  if (apart) text += ')';
}

template <class Composite>
void write_chain(const Composite& c, std::string_view name, std::string_view between, std::string& text) {
  constexpr bool both = std::is_same_v<Composite, All>;
  if (c.conditions.size() < 2) {
    text += std::string(name) + '(';
    if (!c.conditions.empty()) write(c.conditions.front(), text);
    text += ')';
    return;
  }
  for (std::size_t i = 0; i < c.conditions.size(); ++i) {
    if (i > 0) text += between;
    write_part(c.conditions[i], both, text);
  }
}

void write(const GuardCondition& condition, std::string& text) {
  std::visit(
      [&]<class Kind>(const Kind& c) {
        if constexpr (std::is_same_v<Kind, All>) {
          write_chain(c, "all", " && ", text);
        } else if constexpr (std::is_same_v<Kind, Any>) {
          write_chain(c, "any", " || ", text);
        } else if constexpr (std::is_same_v<Kind, Not>) {
          text += '!';
          if (c.condition != nullptr) write_part(*c.condition, true, text);
        } else {
          std::string arguments;
          const auto add = [&](const std::string& word) { arguments += (arguments.empty() ? "" : ", ") + word; };
          fields_of(c, [&]<class T>(std::string_view, const T& value, What) {
            if constexpr (std::is_same_v<T, std::string>) {
              add(written(value));
            } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
              if (value) add(written(*value));
            } else if constexpr (std::is_same_v<T, std::uint32_t>) {
              add(std::to_string(value));
            } else if constexpr (std::is_same_v<T, bool>) {
              if (!value) add("expect=failure");
            } else if constexpr (std::is_same_v<T, IssueStatus>) {
              add(std::string(to_string(value)));
            } else {
              static_assert(std::is_same_v<T, IssueFilter>);
              if (const std::string filter = value.str(); !filter.empty()) add(written(filter));
            }
          });
          text += std::string(condition.type()) + '(' + arguments + ')';
        }
      },
      condition.kind());
}

// --- reading --------------------------------------------------------------------------------------------------------

struct Word {
  std::string text;
  std::size_t at = 0;  // byte
  bool bare = true;    // without quotes
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  GuardCondition read() {
    if (text_.size() > GuardCondition::max_text) {
      throw ConditionError(0, "the condition is longer than " + std::to_string(GuardCondition::max_text) + " bytes");
    }
    GuardCondition condition = either(1);
    skip_blanks();
    if (at_ < text_.size()) expected(R"(`&&`, `||` or the end)");
    condition.check();
    return condition;
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& what) const {
    std::size_t column = 1;
    for (std::size_t i = 0; i < at && i < text_.size(); ++column) i += character(i);
    throw ConditionError(column, what);
  }
  [[noreturn]] void expected(std::string_view what) const {
    const std::string_view here = text_.substr(at_, at_ < text_.size() ? character(at_) : 0);
    fail(at_, "expected " + std::string(what) + ", found " +
                  (here.empty() ? std::string("the end") : "'" + base::printable(here) + "'"));
  }
  // Bytes of the character at i.
  [[nodiscard]] std::size_t character(std::size_t i) const {
    char32_t code = 0;
    return std::max<std::size_t>(1, base::utf8_sequence(text_.substr(i), &code));
  }

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r\v\f").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  // Of parentheses, too: what is nested costs stack. How deep the conditions are, check() says in the end: never less
  // deep than this.
  void check_depth(std::size_t depth) const {
    if (depth > GuardCondition::max_depth) {
      fail(at_, "conditions are nested more than " + std::to_string(GuardCondition::max_depth) + " deep");
    }
  }
  void count() {
    if (++count_ > GuardCondition::max_conditions) {
      fail(at_, "there are more than " + std::to_string(GuardCondition::max_conditions) + " conditions");
    }
  }

  template <class Composite, class Next>
  GuardCondition chain(std::string_view between, std::size_t depth, const Next& next) {
    GuardCondition first = next(depth);
    if (!take(between)) return first;
    count();
    Composite all;
    all.conditions.push_back(std::move(first));
    do {
      all.conditions.push_back(next(depth));
    } while (take(between));
    return all;
  }
  GuardCondition either(std::size_t depth) {
    return chain<Any>("||", depth, [this](std::size_t d) { return both(d); });
  }
  GuardCondition both(std::size_t depth) {
    return chain<All>("&&", depth, [this](std::size_t d) { return negated(d); });
  }

  GuardCondition negated(std::size_t depth) {
    skip_blanks();
    check_depth(depth);
    if (take("!")) {
      count();
      return GuardCondition::negation(negated(depth + 1));
    }
    if (take("(")) {
      GuardCondition inner = either(depth + 1);
      if (!take(")")) expected("`)`, `&&` or `||`");
      return inner;
    }
    return call(depth);
  }

  GuardCondition call(std::size_t depth) {
    count();
    const std::size_t name_at = at_;
    while (at_ < text_.size() && not_bare.find(text_[at_]) == std::string_view::npos) ++at_;
    const std::string_view name = text_.substr(name_at, at_ - name_at);
    if (name.empty()) expected("a condition such as lock_free(NAME), `!` or `(`");
    std::optional<GuardCondition> condition;
    const bool known = coordination::with_type(name, [&]<class Kind>(Kind kind) {
      if (!take("(")) expected("`(` behind " + std::string(name));
      if constexpr (std::is_same_v<Kind, Not>) {
        kind.condition = std::make_shared<const GuardCondition>(either(depth + 1));
        if (!take(")")) expected("`)`, `&&` or `||`");
        condition = std::move(kind);
      } else if constexpr (coordination::is_composite<Kind>) {
        kind.conditions = conditions(depth + 1);
        condition = std::move(kind);
      } else {
        read_fields(kind, name, words());
        condition = std::move(kind);
      }
    });
    if (!known) {
      fail(name_at, "there is no condition '" + base::shortened(name, 60) + "'; there are " + all_type_names());
    }
    return *std::move(condition);
  }

  std::vector<GuardCondition> conditions(std::size_t depth) {
    std::vector<GuardCondition> list;
    if (take(")")) return list;
    for (;;) {
      list.push_back(either(depth));
      if (take(")")) return list;
      if (!take(",")) expected("`,`, `)`, `&&` or `||`");
    }
  }

  std::vector<Word> words() {
    std::vector<Word> list;
    if (take(")")) return list;
    for (;;) {
      list.push_back(word());
      if (take(")")) return list;
      if (!take(",")) expected("`,` or `)`");
    }
  }

  Word word() {
    skip_blanks();
    Word word{{}, at_, true};
    for (;;) {
      const char c = at_ < text_.size() ? text_[at_] : ')';
      if (c == '"' || c == '\'') {
        quoted(c, word.text);
        word.bare = false;
      } else if (not_bare.find(c) == std::string_view::npos) {
        word.text += c;
        ++at_;
      } else {
        break;
      }
    }
    if (word.at == at_) expected("a word, in quotes if it has blanks or one of ()!&|,\\");
    return word;
  }

  void quoted(char quote, std::string& word) {
    const std::size_t open = at_++;
    for (;; ++at_) {
      if (at_ == text_.size()) fail(open, "the quote that begins here has no end");
      char c = text_[at_];
      if (c == quote) break;
      if (c == '\\' && quote == '"') {
        ++at_;
        const char escaped = at_ < text_.size() ? text_[at_] : '\0';
        if (escaped != '"' && escaped != '\\' && escaped != 'n' && escaped != 't') {
          expected(R"(`"`, `\`, `n` or `t` behind a backslash)");
        }
        c = escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
      }
      word += c;
    }
    ++at_;
  }

  template <class Kind>
  void read_fields(Kind& kind, std::string_view name, std::vector<Word> words) {
    const std::size_t end = at_ - 1;  // the `)`
    std::size_t next = 0;
    const auto good = [&](const Word& w, std::string_view field, What what) {
      if (const std::string_view why = check_word(w.text, what); !why.empty()) {
        fail(w.at, std::string(field) + " '" + base::shortened(w.text, 60) + "' " + std::string(why));
      }
      return w.text;
    };
    if constexpr (std::is_same_v<Kind, Command>) read_expectation(kind.expect_success, words);
    fields_of(kind, [&]<class T>(std::string_view field, T& value, What what) {
      if constexpr (std::is_same_v<T, bool>) {
        // Read before all others.
      } else if constexpr (std::is_same_v<T, IssueFilter>) {
        value = read_filter(words);
        next = words.size();
      } else if (next < words.size()) {
        const Word& w = words[next++];
        if constexpr (std::is_same_v<T, IssueStatus>) {
          value = read_status(w);
        } else if constexpr (std::is_same_v<T, std::uint32_t>) {
          value = read_number(w, field);
        } else {
          value = good(w, field, what);
        }
      } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, IssueStatus>) {
        fail(end, "expected the " + std::string(field == "expected" ? "status" : field) + " of " + std::string(name) +
                      ", found ')'");
      }
    });
    if (next < words.size()) {
      fail(words[next].at, "expected `)`: " + std::string(name) + " takes no more, found '" +
                               base::shortened(words[next].text, 60) + "'");
    }
  }

  IssueStatus read_status(const Word& w) const {
    if (const auto status = issue_status_from(w.text)) return *status;
    fail(w.at,
         "expected " + std::string(coordination::issue_statuses) + ", found '" + base::shortened(w.text, 60) + "'");
  }

  std::uint32_t read_number(const Word& w, std::string_view field) const {
    std::uint32_t number = 0;
    const char* const last = w.text.data() + w.text.size();
    const auto [stop, error] = std::from_chars(w.text.data(), last, number);
    if (error == std::errc() && stop == last && number != 0) return number;
    fail(w.at,
         "expected a whole number from 1 as " + std::string(field) + ", found '" + base::shortened(w.text, 60) + "'");
  }

  // expect=success or expect=failure, the last of the words.
  void read_expectation(bool& value, std::vector<Word>& words) {
    if (words.size() < 2 || !words.back().bare || !words.back().text.starts_with(expectation)) return;
    const std::string_view wanted = std::string_view(words.back().text).substr(expectation.size());
    if (wanted != "success" && wanted != "failure") {
      fail(words.back().at,
           "expected expect=success or expect=failure, found '" + base::shortened(words.back().text, 60) + "'");
    }
    value = wanted == "success";
    words.pop_back();
  }

  IssueFilter read_filter(const std::vector<Word>& words) {
    IssueFilter filter;
    for (const Word& w : words) {
      try {
        IssueFilter part = IssueFilter::parse(w.text);
        const auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
        append(filter.ids, part.ids);
        append(filter.labels, part.labels);
        append(filter.statuses, part.statuses);
      } catch (const ConditionError& e) {
        fail(w.at, e.what());
      }
    }
    return filter;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t count_ = 0;
};

}  // namespace

std::string GuardCondition::str() const {
  std::string text;
  write(*this, text);
  return text;
}

GuardCondition GuardCondition::parse(std::string_view text) {
  GuardCondition condition = Reader(text).read();
  condition.check();  // as JSON it may be too long
  return condition;
}

// --- filters --------------------------------------------------------------------------------------------------------

std::string IssueFilter::str() const {
  std::string text;
  const auto add = [&](std::string_view key, std::string_view value) {
    text += (text.empty() ? "" : ",") + std::string(key) + '=';
    for (const char c : value) {
      if (c == ',' || c == '\\') text += '\\';
      text += c;
    }
  };
  for (const std::string& id : ids) add("id", id);
  for (const std::string& label : labels) add("label", label);
  for (const IssueStatus status : statuses) add("status", to_string(status));
  return text;
}

IssueFilter IssueFilter::parse(std::string_view text) {
  IssueFilter filter;
  const auto add = [&](std::string_view part, const std::string& value) {
    const std::string_view key = part.substr(0, part.find('='));
    const auto bad = [&](const std::string& what) {
      throw ConditionError(0, what + " in the issue filter '" + base::shortened(text, 100) +
                                  "'; it is made of id=…, label=… and status=…, with commas between");
    };
    if (key.size() == part.size()) bad("'" + base::shortened(part, 60) + "' has no `=`");
    if (const std::string_view why = check_word(value, What::word); !why.empty()) {
      bad(base::shortened(key, 60) + " " + std::string(why));
    }
    if (key == "id") {
      filter.ids.push_back(value);
    } else if (key == "label") {
      filter.labels.push_back(value);
    } else if (key == "status") {
      const auto status = issue_status_from(value);
      if (!status) {
        bad("'" + base::shortened(value, 60) + "' is none of " + std::string(coordination::issue_statuses));
      }
      filter.statuses.push_back(*status);
    } else {
      bad("the key '" + base::shortened(key, 60) + "' is not known");
    }
  };
  while (!text.empty()) {
    std::string value;
    bool in_value = false;
    std::size_t end = 0;
    for (; end < text.size() && text[end] != ','; ++end) {
      if (text[end] == '\\' && end + 1 < text.size()) ++end;
      if (in_value) value += text[end];
      in_value = in_value || text[end] == '=';
    }
    add(text.substr(0, end), value);
    if (end + 1 == text.size()) add("", "");  // a comma with nothing behind it
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return filter;
}

}  // namespace shmcoord
