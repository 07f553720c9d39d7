#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <stdexcept>

#include "process/clock.hpp"
#include "shmcoord/guard_executor.hpp"

// How long a port may still take. Every loop in here that may be long asks between two steps.

namespace shmcoord::adapters {

[[nodiscard]] inline std::chrono::nanoseconds time_left(std::chrono::steady_clock::time_point at) {
  return at.time_since_epoch() - std::chrono::nanoseconds(process::real_clock().now_ns());
}

[[nodiscard]] inline bool is_over(const GuardDeadline& deadline) {
  return deadline.stop.stop_requested() || time_left(deadline.at) <= std::chrono::nanoseconds::zero();
}

[[noreturn]] inline void throw_over(const GuardDeadline& deadline) {
  throw std::runtime_error(deadline.stop.stop_requested() ? "it was stopped" : "it did not end in time");
}

inline void check_time(const GuardDeadline& deadline) {
  if (is_over(deadline)) throw_over(deadline);
}

/// For poll(): rounded up, so that the time is over when it returns 0.
[[nodiscard]] inline int poll_timeout(std::chrono::nanoseconds left) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<decltype(ms)>(ms, 0, INT_MAX));
}

}  // namespace shmcoord::adapters
