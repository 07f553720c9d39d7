#pragma once

#include <cstddef>
#include <string_view>

// Which events are meant by a pattern (C-28). Wherever a pattern is taken, it is judged here.
//
//   lock:released   exactly that          lock:*   `*` stands for one whole segment between colons
//   lock:           all that begin so     lock:**  `**` at the end stands for one segment or more
//   * or **         every event           (empty)  none
//
// No event's name contains `*` or an empty segment, so a pattern that could never match is a mistake, and
// check_pattern() says so where it is given.

namespace shmcoord::core {

/// Nothing when a pattern can match; else what is wrong, to be put behind the quoted pattern.
constexpr std::string_view check_pattern(std::string_view pattern) noexcept {
  if (pattern.empty()) return "is empty, which matches nothing";
  if (pattern.size() > 255) return "is longer than 255 bytes";
  for (;;) {
    const std::size_t colon = pattern.find(':');
    const std::string_view segment = pattern.substr(0, colon);
    const bool last = colon == std::string_view::npos;
    if (segment.empty() && !last) return "has an empty segment";
    if (segment == "**" && !last) return "has `**` before its end";
    if (segment != "*" && segment != "**" && segment.find('*') != std::string_view::npos) {
      return "has a `*` inside of a word; it stands for a whole segment";
    }
    for (const char c : segment) {
      if (static_cast<unsigned char>(c) <= ' ' || c == '\x7F') return "contains a blank or a control character";
    }
    if (last) return {};
    pattern.remove_prefix(colon + 1);
  }
}

constexpr bool pattern_matches(std::string_view pattern, std::string_view event) noexcept {
  if (pattern.empty() || event.empty()) return false;
  if (pattern == "*" || pattern == "**") return true;
  for (;;) {
    const std::size_t pattern_colon = pattern.find(':');
    const std::size_t event_colon = event.find(':');
    const std::string_view wanted = pattern.substr(0, pattern_colon);
    const std::string_view segment = event.substr(0, event_colon);
    const bool pattern_ends = pattern_colon == std::string_view::npos;
    const bool event_ends = event_colon == std::string_view::npos;
    if (pattern_ends && (wanted.empty() || wanted == "**")) return true;  // a prefix matched, and something follows it
    if (wanted != segment && wanted != "*") return false;
    if (pattern_ends || event_ends) return pattern_ends && event_ends;
    pattern.remove_prefix(pattern_colon + 1);
    event.remove_prefix(event_colon + 1);
  }
}

}  // namespace shmcoord::core
