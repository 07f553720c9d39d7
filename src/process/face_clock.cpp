#include <condition_variable>
#include <mutex>

#include "process/clock.hpp"

namespace shmcoord {

Clock::~Clock() = default;

bool Clock::wait_until(TimePoint at, const std::stop_token& stop) const {
  std::mutex mutex;
  std::condition_variable_any sleep;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    const auto left = at - now();
    if (left <= TimePoint::duration::zero()) return true;
    sleep.wait_for(lock, stop, left, [] { return false; });
  }
  return false;
}

std::shared_ptr<const Clock> steady() {
  return {std::shared_ptr<const Clock>(), &process::real_clock()};  // nobody has to delete it
}

}  // namespace shmcoord
