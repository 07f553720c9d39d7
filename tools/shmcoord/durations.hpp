#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/duration.hpp"

// Durations as people write and read them.

namespace shmcoord::tool {

/// The command line is wrong: exit 64. The text names the bad word and says what to do.
struct UsageError {
  std::string text;
  std::string excerpt = {};  // lines to stand under it: what was typed, and where in it
};

using base::Zero;

/// As base::parse_duration(). Throws UsageError that names `option`, e.g. "--ttl".
[[nodiscard]] std::chrono::nanoseconds parse_duration(std::string_view option, std::string_view text,
                                                      Zero zero = Zero::refused);

/// Would parse_duration() take it?
[[nodiscard]] bool is_duration(std::string_view text);

/// "0.4s", "12s", "3m12s", "2h05m", "3d04h"; negative counts as zero.
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);
[[nodiscard]] inline std::string format_duration_ns(std::int64_t ns) {
  return format_duration(std::chrono::nanoseconds{ns});
}

}  // namespace shmcoord::tool
