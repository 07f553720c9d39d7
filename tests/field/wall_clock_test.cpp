#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "process/clock.hpp"
#include "support/face_fixture.hpp"

// F26: the wall clock steps by an hour, either way. This program's clock_gettime() stands in for that of libc, for the
// library's calls and for those of the C++ library, so no right to set the host's clock is needed.

namespace {
std::atomic<long> step_s{0};
std::atomic<long> coarse_lag_s{0};
}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* now) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, id, now));
  if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) now->tv_sec += step_s.load();
  if (id == CLOCK_MONOTONIC_COARSE) now->tv_sec -= coarse_lag_s.load();
  return result;
}

namespace shmcoord::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class WallClock : public FaceTest {
 protected:
  ~WallClock() override {
    step_s = 0;
    coarse_lag_s = 0;
  }

  const HolderId holder_{"holder"};
  const HolderId other_{"other"};
};

TEST_F(WallClock, F26_StepsReachThisProgram) {
  const std::int64_t before = process::real_clock().wall_ns();
  step_s = 3600;
  EXPECT_GE(process::real_clock().wall_ns() - before, 3'600'000'000'000);
}

TEST_F(WallClock, F26_NobodyIsRobbedByAStep) {
  Session session{segment_, {.heartbeat_interval = 100ms}};
  Lock lock{session, "x", {.stale_threshold = 1s, .heartbeat_interval = 100ms}};
  ASSERT_TRUE(lock.acquire(holder_, {.ttl = 30s}));
  for (const long step : {3600L, -3600L}) {
    step_s = step;
    const auto end = steady_clock::now() + 300ms;  // several beats and looks
    while (steady_clock::now() < end) {
      ASSERT_EQ(lock.try_acquire(other_).result, AcquireResult::busy) << step;
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_FALSE(lock.acquire(other_, {}, 50ms)) << step;
    EXPECT_EQ(lock.heartbeat(holder_).result, HeartbeatResult::refreshed) << step;
  }
}

TEST_F(WallClock, F26_ALeaseStillEndsWhenItShould) {
  Session session{segment_, {.manual_heartbeat = true}};
  Lock lock{session, "x"};
  ASSERT_TRUE(lock.acquire(holder_, {.ttl = 200ms}));
  step_s = -3600;
  EXPECT_EQ(lock.acquire(other_, {}, 30s).result, AcquireResult::reclaimed);
}

// Seen on a busy virtual machine: its coarse clock lay 14 ms back, and holds of 20 ms were robbed after six.
TEST_F(WallClock, NobodyIsRobbedEarlyBecauseTheCoarseClockLags) {
  coarse_lag_s = 600;
  Session keeper{segment_};
  Session manual{segment_, {.manual_heartbeat = true}};
  const LockOptions bounded{.max_hold_duration = 60s};
  const LockOptions plain{};
  const auto is_safe = [&](Session& session, const char* name, const LockOptions& options, const AcquireOptions& how) {
    Lock lock{session, name, options};
    ASSERT_TRUE(lock.acquire(holder_, how)) << name;
    EXPECT_EQ(lock.try_acquire(other_).result, AcquireResult::busy) << name;
    EXPECT_FALSE(lock.acquire(other_, {}, 1ms)) << name;
    // The same for who waited: its hold begins when it is granted.
    ASSERT_TRUE(lock.wait_fd(other_) >= 0) << name;
    ASSERT_EQ(lock.release(holder_).result, ReleaseResult::released) << name;
    ASSERT_TRUE(lock.acquire(other_)) << name;
    EXPECT_EQ(lock.try_acquire(holder_).result, AcquireResult::busy) << name;
  };
  is_safe(keeper, "bounded", bounded, {});
  is_safe(manual, "with a ttl", plain, {.ttl = 60s});
  is_safe(manual, "beaten by hand", plain, {});
}

}  // namespace
}  // namespace shmcoord::testing
