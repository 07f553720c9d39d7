#pragma once

#include <chrono>
#include <string>
#include <string_view>

// Durations as people write them, on a command line and in a file.

namespace shmcoord::base {

inline constexpr std::chrono::nanoseconds longest_duration = std::chrono::hours{24 * 3650};

enum class Zero : bool { refused, allowed };

/// "250ms", "1.5s", "2m", "1h"; more than zero and at most ten years. A bare "0" (or zero of a unit) only where it is
/// allowed. Nothing when `text` is one; else what is wrong with it, to be put behind the quoted text.
[[nodiscard]] std::string_view parse_duration(std::string_view text, Zero zero,
                                              std::chrono::nanoseconds& duration) noexcept;

/// As a text that parse_duration() reads as just this: "5s", "1.5ms", "0.000001ms".
[[nodiscard]] std::string exact_duration(std::chrono::nanoseconds duration);

}  // namespace shmcoord::base
