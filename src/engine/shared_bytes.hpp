#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "engine/words.hpp"

// Text in shared memory, which may change under its reader. A reader copies (or compares) first and then asks whether
// what it copied was stable (a version, a generation, a bucket's sequence); until then it believes nothing but its own
// bounds. So these copies need no atomicity as a whole, only words that are loaded and stored as words: a policy's
// acquire and release put the later check behind the copy, and the writer's earlier warning before its bytes. Rows
// start on 8 bytes and are a multiple of 8 long; what follows the text in its last word is written as zeroes.

namespace shmcoord::engine {

namespace detail {
inline Word64& text_word(char* row, std::size_t at) noexcept { return *reinterpret_cast<Word64*>(row + at / 8 * 8); }
inline const Word64& text_word(const char* row, std::size_t at) noexcept {
  return *reinterpret_cast<const Word64*>(row + at / 8 * 8);
}
}  // namespace detail

/// Writes two texts, one behind the other, into a row.
template <class P>
void store_text(char* row, std::string_view first, std::string_view second = {}) noexcept {
  const std::size_t bytes = first.size() + second.size();
  for (std::size_t at = 0; at < bytes; at += 8) {
    char eight[8] = {};
    for (std::size_t i = at; i < bytes && i < at + 8; ++i) {
      eight[i - at] = i < first.size() ? first[i] : second[i - first.size()];
    }
    std::uint64_t raw = 0;
    std::memcpy(&raw, eight, sizeof raw);
    P::store(detail::text_word(row, at), raw);
  }
}

/// Copies bytes [from, from + bytes) of a row.
template <class P>
void load_text(const char* row, std::size_t from, char* to, std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const std::uint64_t raw = P::load(detail::text_word(row, from + done));
    const std::size_t skip = (from + done) % 8;
    const std::size_t take = bytes - done < 8 - skip ? bytes - done : 8 - skip;
    std::memcpy(to + done, reinterpret_cast<const char*>(&raw) + skip, take);
    done += take;
  }
}

/// The row's text up to its first NUL.
template <class P>
[[nodiscard]] std::string load_line(const char* row, std::size_t bytes) {
  std::string text(bytes, '\0');
  load_text<P>(row, 0, text.data(), bytes);
  text.resize(std::min(text.find('\0'), bytes));
  return text;
}

/// Are the first bytes of a row this text?
template <class P>
bool text_equals(const char* row, std::string_view text) noexcept {
  for (std::size_t at = 0; at < text.size(); at += 8) {
    const std::uint64_t raw = P::load(detail::text_word(row, at));
    const std::size_t take = text.size() - at < 8 ? text.size() - at : 8;
    if (std::memcmp(&raw, text.data() + at, take) != 0) return false;
  }
  return true;
}

}  // namespace shmcoord::engine
