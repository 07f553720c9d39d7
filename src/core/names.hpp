#pragma once

#include <cstddef>
#include <string_view>

#include "base/utf8.hpp"

// What a name (of a lock, a semaphore, a holder, a segment) may look like. Names are printed by people's tools, put
// into JSON and compared byte by byte, so they are valid UTF-8 without control characters; nothing is normalised or
// folded.

namespace shmcoord::core {

inline constexpr std::size_t max_name_bytes = 255;

/// Nothing when `name` is good; else what is wrong, to be put behind the quoted name: "is empty", "is longer than 255
/// bytes".
constexpr std::string_view check_name(std::string_view name) noexcept {
  if (name.empty()) return "is empty";
  if (name.size() > max_name_bytes) return "is longer than 255 bytes";
  while (!name.empty()) {
    char32_t code = 0;
    const std::size_t length = base::utf8_sequence(name, &code);
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
