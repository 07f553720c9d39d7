#include "process/clock.hpp"

#include <time.h>

#include "engine/real_policy.hpp"

namespace shmcoord::process {

std::int64_t Clock::now_ns() const noexcept { return engine::RealPolicy::now_ns(); }

std::int64_t Clock::wall_ns() const noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

const Clock& real_clock() noexcept {
  static const Clock clock;
  return clock;
}

}  // namespace shmcoord::process
