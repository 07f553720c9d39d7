#include "process/clock.hpp"

#include <time.h>

#include "engine/real_policy.hpp"

namespace shmcoord::process {

using engine::RealPolicy;

namespace {

class RealClock final : public Clock {
 public:
  [[nodiscard]] std::int64_t now_ns() const noexcept override { return RealPolicy::now_ns(); }
  [[nodiscard]] std::int64_t wall_ns() const noexcept override {
    timespec t{};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
};

}  // namespace

const Clock& real_clock() noexcept {
  static const RealClock clock;
  return clock;
}

std::int64_t FakeClock::now_ns() const noexcept { return static_cast<std::int64_t>(RealPolicy::load(now_)); }

void FakeClock::set(std::int64_t now_ns) noexcept { RealPolicy::store(now_, static_cast<std::uint64_t>(now_ns)); }

void FakeClock::advance(std::int64_t by_ns) noexcept {
  for (;;) {
    const std::uint64_t now = RealPolicy::load(now_);
    if (RealPolicy::cas(now_, now, now + static_cast<std::uint64_t>(by_ns))) return;
  }
}

}  // namespace shmcoord::process
