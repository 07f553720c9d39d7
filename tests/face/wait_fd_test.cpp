#include <poll.h>

#include <chrono>
#include <string>

#include "support/face_fixture.hpp"

// Who waits by a descriptor alone: nobody of the session is blocked in acquire(), and nobody reaps.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;

class WaitFd : public testing::FaceTest {
 protected:
  static bool readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, 20'000) == 1;
  }
};

const HolderId a{"a"};
const HolderId b{"b"};

TEST_F(WaitFd, IsToldWhenALeaseRunsOut) {
  Session silent{segment_, {.manual_heartbeat = true}};
  Session session{segment_};
  Lock theirs{silent, "deploy"};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(theirs.try_acquire(a, {.ttl = 30ms}));
  ASSERT_TRUE(readable(lock.wait_fd(b)));
  const AcquireOutcome got = lock.acquire(b, {}, 0ns);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous.has_value());
  EXPECT_EQ(got.previous->why, Loss::expired);
}

TEST_F(WaitFd, IsToldWhenOneOfSeveralLeasesRunsOut) {
  Session silent{segment_, {.manual_heartbeat = true}};
  Session session{segment_};
  Semaphore theirs{silent, "pool", {.capacity = 3}};
  Semaphore pool{session, "pool"};
  ASSERT_TRUE(theirs.try_acquire(a, 1, {.ttl = 30ms}));
  ASSERT_TRUE(pool.try_acquire(a, 2));
  ASSERT_TRUE(readable(pool.wait_fd(b)));
  EXPECT_TRUE(pool.acquire(b, 1, {}, 0ns));
  EXPECT_EQ(pool.holders().size(), 2U) << "the live one kept its own";
}

TEST_F(WaitFd, IsToldThatTheSegmentIsGone) {
  const std::string name = name_ + "-gone";
  const Segment segment = Segment::create(name, {.names = 8, .entries = 64, .sessions = 8});
  Session session{segment};
  Session other{segment};
  Lock theirs{other, "deploy"};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(theirs.try_acquire(a));
  const int fd = lock.wait_fd(b);
  ASSERT_EQ(::unlink(segment.path().c_str()), 0);
  ASSERT_TRUE(readable(fd));
  std::error_code ec;
  (void)lock.acquire(b, {}, 0ns, {}, ec);
  EXPECT_EQ(ec, Errc::segment_gone);
}

}  // namespace
}  // namespace shmcoord
