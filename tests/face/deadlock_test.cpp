#include "shmcoord/deadlock.hpp"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "process/deadlock.hpp"
#include "support/face_fixture.hpp"

// Deadlocks between threads and processes: the youngest wait is told, nobody else is, and nobody is who only waits
// long.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

const HolderId a{"pipeline:a"};
const HolderId b{"worker:b"};
const HolderId c{"worker:c"};

class DeadlockFace : public testing::FaceTest {
 protected:
  /// And a wait that begins now is a younger one: waits begin by the coarse clock.
  void until_waiting_longer(std::size_t count) const {
    until_waiting(count);
    const std::int64_t now = engine::RealPolicy::now_ns();
    while (engine::RealPolicy::coarse_now_ns() <= now) std::this_thread::sleep_for(1ms);
  }
  /// What a look finds now; nobody is told.
  [[nodiscard]] std::vector<process::FoundDeadlock> found() const {
    return process::find_deadlocks(*detail::Access::mapping(segment_), engine::RealPolicy::now_ns());
  }
};

TEST_F(DeadlockFace, TheYoungestOfTwoHoldersIsToldTheCircle) {
  Session session{segment_, {.label = "first"}};
  Session other{segment_, {.label = "second"}};
  Lock left{session, "left"};
  Lock right{session, "right"};
  Lock their_left{other, "left"};
  Lock their_right{other, "right"};
  ASSERT_TRUE(left.try_acquire(a));
  ASSERT_TRUE(their_right.try_acquire(b));
  auto waits = std::async(std::launch::async, [&] { return right.acquire(a); });
  until_waiting_longer(1);
  const AcquireOutcome got = their_left.acquire(b);
  ASSERT_EQ(got.result, AcquireResult::deadlock);
  EXPECT_EQ(got.token, 0U);
  ASSERT_EQ(got.circle.size(), 2U);
  EXPECT_EQ(got.circle[0].holder, b.str());
  EXPECT_EQ(got.circle[0].label, "second");
  EXPECT_EQ(got.circle[0].pid, ::getpid());
  EXPECT_EQ(got.circle[0].waits_for, "lock 'left'");
  EXPECT_GE(got.circle[0].waiting_for, 1s);
  EXPECT_EQ(got.circle[0].holds, "lock 'right'");
  EXPECT_EQ(got.circle[1].holder, a.str());
  EXPECT_EQ(got.circle[1].label, "first");
  EXPECT_EQ(got.circle[1].waits_for, "lock 'right'");
  EXPECT_EQ(got.circle[1].holds, "lock 'left'");
  EXPECT_GE(got.circle[1].held_for, got.circle[1].waiting_for);
  const std::string text = to_string(got.circle);
  EXPECT_EQ(text.rfind("'worker:b' (pid ", 0), 0U) << text;
  EXPECT_NE(text.find(" has waited for lock 'left' for 1."), std::string::npos) << text;
  EXPECT_NE(text.find("; 'pipeline:a' (pid "), std::string::npos) << text;
  EXPECT_NE(text.find(" has held lock 'left' for "), std::string::npos) << text;
  EXPECT_EQ(their_right.release(b).result, ReleaseResult::released) << "it keeps what it had";
  EXPECT_EQ(waits.get().result, AcquireResult::acquired) << "the other one goes on";
}

TEST_F(DeadlockFace, LockThrowsInTheThreadThatClosedTheCircle) {
  Session session{segment_};
  Lock left{session, "left"};
  Lock right{session, "right"};
  left.lock();
  std::jthread other([&] {
    const std::scoped_lock has(right);
    const std::scoped_lock wants(left);
  });
  until_waiting_longer(1);
  try {
    right.lock();
    FAIL() << "nobody gave it";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), std::errc::resource_deadlock_would_occur);
    EXPECT_NE(std::string(e.what()).find("lock 'right' would never be free: thread "), std::string::npos) << e.what();
  }
  left.unlock();
}

// F36: through two handles of one thread.
TEST_F(DeadlockFace, AThreadThatWaitsForItselfIsTold) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  Lock same{session, "deploy"};
  const std::scoped_lock has(lock);
  EXPECT_THROW(same.lock(), Error);
  Session elsewhere{segment_};
  Lock theirs{elsewhere, "deploy"};
  EXPECT_FALSE(theirs.try_lock_for(1500ms)) << "of another session nobody knows that it is the same thread";
}

TEST_F(DeadlockFace, BetweenProcessesAndThroughASemaphore) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  Semaphore pool{session, "pool", {.capacity = 4}};
  ASSERT_TRUE(pool.try_acquire(a, 2));
  Child child([&](int ready) {
    Session mine{segment_};
    Lock theirs{mine, "deploy"};
    Semaphore same{mine, "pool"};
    if (!theirs.try_acquire(b)) return;
    say(ready, 'h');
    const bool got = static_cast<bool>(same.acquire(b, 3));
    say(ready, got ? 'g' : 'x');
  });
  ASSERT_EQ(child.next(), 'h');
  until_waiting_longer(1);
  const AcquireOutcome got = lock.acquire(a);
  ASSERT_EQ(got.result, AcquireResult::deadlock);
  EXPECT_EQ(got.circle[1].pid, child.pid());
  EXPECT_EQ(got.circle[1].waits_for, "semaphore 'pool'");
  (void)pool.release(a);
  EXPECT_EQ(child.next(), 'g');
}

TEST_F(DeadlockFace, AWaitWithoutAThreadIsToldByItsDescriptor) {
  Session session{segment_};
  Lock left{session, "left"};
  Semaphore right{session, "right", {.capacity = 1}};
  ASSERT_TRUE(left.try_acquire(a));
  ASSERT_TRUE(right.try_acquire(b));
  const int older = right.wait_fd(a);
  until_waiting_longer(1);
  pollfd ready{left.wait_fd(b), POLLIN, 0};
  EXPECT_EQ(left.acquire(b, {}, 0ns).result, AcquireResult::busy) << "it has its place in the queue";
  ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
  const AcquireOutcome got = left.acquire(b, {}, 0ns);
  ASSERT_EQ(got.result, AcquireResult::deadlock);
  EXPECT_EQ(got.circle.size(), 2U);
  EXPECT_EQ(waiters(), 1U);
  ready = {older, POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0) << "nobody else is told";
  (void)right.release(b);
  ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
  EXPECT_EQ(right.acquire(a, 1, {}, 0ns).result, PermitResult::acquired);
}

// What ends by itself keeps nobody for ever.
TEST_F(DeadlockFace, NobodyIsAccusedWhereATimeoutOrALeaseWillDo) {
  Session session{segment_};
  Session manual{segment_, {.manual_heartbeat = true}};
  Lock left{session, "left"};
  Lock right{session, "right"};
  Lock bounded{session, "bounded", {.max_hold_duration = 3s}};
  Lock theirs{manual, "theirs"};
  struct Circle {
    const char* what;
    Lock* first;
    Lock* second;
    std::optional<std::chrono::nanoseconds> timeout;
  };
  for (const Circle& circle : {Circle{"a timeout", &left, &right, 2500ms}, {"a maximum", &bounded, &right, {}}}) {
    ASSERT_TRUE(circle.first->try_acquire(a));
    ASSERT_TRUE(circle.second->try_acquire(b));
    auto waits = std::async(std::launch::async, [&] {
      AcquireOutcome got = circle.second->acquire(a, {}, circle.timeout);
      (void)circle.first->release(a);
      return got;
    });
    until_waiting_longer(1);
    EXPECT_TRUE(circle.first->acquire(b)) << circle.what;
    (void)circle.second->release(b);
    EXPECT_EQ(waits.get().result, circle.timeout ? AcquireResult::timed_out : AcquireResult::acquired) << circle.what;
    (void)circle.second->release(a);
    (void)circle.first->release(b);
  }
  ASSERT_TRUE(theirs.try_acquire(a, {.ttl = 2500ms}));
  Lock same{session, "theirs"};
  ASSERT_TRUE(left.try_acquire(b));
  auto waits = std::async(std::launch::async, [&] { return Lock{manual, "left"}.acquire(a); });
  until_waiting_longer(1);
  EXPECT_TRUE(same.acquire(b)) << "a lease that nobody renews";
  (void)left.release(b);
  EXPECT_TRUE(waits.get());
}

TEST_F(DeadlockFace, AnUpgradeIsExplainedByTheOtherHalf) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  Lock lock{session, "deploy"};
  tree.lock_shared();
  lock.lock();
  std::jthread reads([&] {
    tree.lock_shared();
    lock.lock();  // the older wait, which goes on
    lock.unlock();
    tree.unlock_shared();
  });
  until_waiting_longer(1);
  try {
    tree.upgrade();
    ADD_FAILURE() << "somebody else reads";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("has waited for lock 'deploy'"), std::string::npos) << text;
    EXPECT_NE(text.find("has held lock 'deploy'"), std::string::npos) << text;
  }
  lock.unlock();
  tree.unlock_shared();
}

TEST_F(DeadlockFace, ASecondHolderThatRunsIsNoDeadlock) {
  Session session{segment_};
  Session other{segment_};
  Lock lock{session, "deploy"};
  Lock theirs{other, "deploy"};
  Semaphore pool{session, "pool", {.capacity = 2}};
  Semaphore same{other, "pool"};
  ASSERT_TRUE(pool.try_acquire(a));
  ASSERT_TRUE(pool.try_acquire(c));
  ASSERT_TRUE(theirs.try_acquire(b));
  auto waits = std::async(std::launch::async, [&] { return same.acquire(b); });
  until_waiting_longer(1);
  EXPECT_EQ(lock.acquire(a, {}, 2500ms).result, AcquireResult::timed_out) << "c may give back";
  EXPECT_TRUE(found().empty());
  (void)pool.release(c);
  EXPECT_EQ(waits.get().result, PermitResult::acquired);
}

TEST_F(DeadlockFace, TwoWhoWantMoreOfASemaphoreThanTheyHave) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  ASSERT_TRUE(pool.try_acquire(a, 2));
  ASSERT_TRUE(pool.try_acquire(b, 2));
  auto waits = std::async(std::launch::async, [&] { return pool.acquire(a, 4); });
  until_waiting_longer(1);
  const PermitOutcome got = pool.acquire(b, 3);
  ASSERT_EQ(got.result, PermitResult::deadlock);
  EXPECT_EQ(got.weight, 2U) << "it keeps what it had";
  EXPECT_EQ(got.circle.size(), 2U);
  (void)pool.release(b);
  EXPECT_EQ(waits.get().result, PermitResult::increased);
}

TEST_F(DeadlockFace, WhoWaitsBehindADeadlockIsServedAfterIt) {
  Session session{segment_};
  Lock left{session, "left"};
  Lock right{session, "right"};
  ASSERT_TRUE(left.try_acquire(a));
  ASSERT_TRUE(right.try_acquire(b));
  auto old = std::async(std::launch::async, [&] { return right.acquire(a); });
  until_waiting_longer(1);
  auto victim = std::async(std::launch::async, [&] {
    AcquireOutcome got = left.acquire(b);
    (void)right.release(b);
    return got;
  });
  until_waiting_longer(2);
  auto behind = std::async(std::launch::async, [&] { return left.acquire(c); });
  EXPECT_EQ(victim.get().result, AcquireResult::deadlock);
  EXPECT_TRUE(old.get());
  (void)left.release(a);
  EXPECT_EQ(behind.get().result, AcquireResult::acquired);
}

TEST_F(DeadlockFace, WhoWantsNoPartInItWaitsOn) {
  Session session{segment_, {.detect_deadlocks = false}};
  Lock left{session, "left"};
  Lock right{session, "right"};
  ASSERT_TRUE(left.try_acquire(a));
  ASSERT_TRUE(right.try_acquire(b));
  std::jthread waits([&] { (void)right.acquire(a, {}, 10s); });
  until_waiting_longer(1);
  EXPECT_EQ(left.acquire(b, {}, 2500ms).result, AcquireResult::timed_out);
  (void)right.release(b);
}

// What moves is not accused: the victims of a busy segment all have waited in a circle.
TEST_F(DeadlockFace, NobodyIsAccusedWhileAllMove) {
  constexpr int threads = 8;
  std::vector<std::jthread> all;
  std::atomic<int> rounds{0};
  const auto end = std::chrono::steady_clock::now() + 3s;
  for (int n = 0; n < threads; ++n) {
    all.emplace_back([&, n] {
      Session session{segment_};
      Lock left{session, "left"};
      Lock right{session, "right"};
      Semaphore pool{session, "pool", {.capacity = 3}};
      const HolderId me{"worker:" + std::to_string(n)};
      while (std::chrono::steady_clock::now() < end) {
        // In one order, so that there is never a circle.
        EXPECT_TRUE(left.acquire(me));
        EXPECT_TRUE(pool.acquire(me, 1 + static_cast<std::uint32_t>(n) % 3));
        EXPECT_TRUE(right.acquire(me));
        ++rounds;
        (void)left.release(me);
        (void)pool.release(me);
        (void)right.release(me);
      }
    });
  }
  while (std::chrono::steady_clock::now() < end) EXPECT_TRUE(found().empty());
  all.clear();
  EXPECT_GT(rounds, threads);
}

}  // namespace
}  // namespace shmcoord
