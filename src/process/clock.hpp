#pragma once

#include <chrono>
#include <cstdint>

#include "shmcoord/clock.hpp"

// The host's clocks (C-43).
//
// Everything that decides uses CLOCK_MONOTONIC, which all processes of one host share, which never steps, and which
// does not run while the host is suspended, so that leases do not expire in a sleeping laptop. The wall clock is for
// people to read and decides nothing.
//
// The functions of this layer take the time as a number and leave the clock to their caller; what is above it and must
// work with another clock takes the public Clock, of which this is one.

namespace shmcoord::process {

class Clock final : public shmcoord::Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override { return TimePoint(std::chrono::nanoseconds(now_ns())); }
  /// CLOCK_MONOTONIC, exact.
  [[nodiscard]] std::int64_t now_ns() const noexcept;
  /// Nanoseconds since 1970, for display only.
  [[nodiscard]] std::int64_t wall_ns() const noexcept;
};

/// Lives for ever, usable from every thread.
[[nodiscard]] const Clock& real_clock() noexcept;

}  // namespace shmcoord::process
