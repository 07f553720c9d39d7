#pragma once

#include <chrono>
#include <memory>
#include <stop_token>

#include "shmcoord/export.hpp"

namespace shmcoord {

/// What time it is, as an argument that can be replaced (C-43): what decides by time, and what sleeps, is given one.
/// The wall clock decides nothing. Of a segment the engine's own clock counts, CLOCK_MONOTONIC, which all processes of
/// the host share; it cannot be replaced. For tests: testing::FakeClock. Usable from several threads at once.
class SHMCOORD_EXPORT Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  virtual ~Clock();
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  /// Never goes back.
  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// Sleeps until then, or until the stop comes. True: it is time.
  virtual bool wait_until(TimePoint at, const std::stop_token& stop) const;

 protected:
  Clock() = default;
};

/// CLOCK_MONOTONIC: does not step, and stands still while the host is suspended.
[[nodiscard]] SHMCOORD_EXPORT std::shared_ptr<const Clock> steady();

}  // namespace shmcoord
