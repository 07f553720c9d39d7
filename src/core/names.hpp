#pragma once

#include <cstddef>
#include <string_view>

// What a name (of a lock, a semaphore, a holder, a segment) may look like. Names are printed by people's tools, put
// into JSON and compared byte by byte, so they are valid UTF-8 without control characters; nothing is normalised or
// folded.

namespace shmcoord::core {

inline constexpr std::size_t max_name_bytes = 255;

namespace detail {

/// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 when there is none (overlong, surrogate, cut off,
/// above U+10FFFF). `*code` gets the code point.
constexpr std::size_t utf8_sequence(std::string_view text, char32_t* code) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    *code = first;
    return 1;
  }
  const std::size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  char32_t value = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    value = value << 6U | (byte(i) & 0x3FU);
  }
  const char32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return 0;
  *code = value;
  return length;
}

}  // namespace detail

/// Nothing when `name` is good; else what is wrong, to be put behind the quoted name: "is empty", "is longer than 255
/// bytes".
constexpr std::string_view check_name(std::string_view name) noexcept {
  if (name.empty()) return "is empty";
  if (name.size() > max_name_bytes) return "is longer than 255 bytes";
  while (!name.empty()) {
    char32_t code = 0;
    const std::size_t length = detail::utf8_sequence(name, &code);
    if (length == 0) return "is not valid UTF-8";
    if (code < 0x20 || (code >= 0x7F && code <= 0x9F)) return "contains a control character";
    name.remove_prefix(length);
  }
  return {};
}

static_assert(check_name("deploy").empty() && check_name("stra\xC3\x9F"
                                                         "e")
                                                  .empty());
static_assert(check_name("") == "is empty");
static_assert(check_name("\xC0\x80") == "is not valid UTF-8" && check_name("\xED\xA0\x80") == "is not valid UTF-8");
static_assert(check_name("a\nb") == "contains a control character" &&
              check_name("\xC2\x85") == "contains a control character");

}  // namespace shmcoord::core
