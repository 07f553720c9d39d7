#include <poll.h>
#include <sys/mman.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "support/face_fixture.hpp"

// The public lock, alone and with other processes.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

class LockFace : public testing::FaceTest {};

const HolderId a{"pipeline:a"};
const HolderId b{"worker:b"};

TEST_F(LockFace, ScopedLockAndToken) {
  Session session{segment_, {.label = "tester"}};
  Lock lock{session, "deploy"};
  {
    const std::scoped_lock hold{lock};
    EXPECT_GE(lock.token(), 1U);
    EXPECT_TRUE(lock.is_current(lock.token()));
    EXPECT_FALSE(lock.lost());
  }
  EXPECT_EQ(lock.token(), 0U);
  EXPECT_FALSE(lock.holder());
}

// S0-12, S0-13, S0-15, C-4, C-48.
TEST_F(LockFace, OutcomesByHolder) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  const AcquireOutcome first = lock.try_acquire(a, {.reason = "rev=abc"});
  ASSERT_EQ(first.result, AcquireResult::acquired);
  EXPECT_FALSE(first.previous);
  const AcquireOutcome again = lock.try_acquire(a);
  EXPECT_EQ(again.result, AcquireResult::extended);
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(lock.holder()->reason, "rev=abc");
  EXPECT_EQ(lock.try_acquire(a, {.reason = "rev=def"}).result, AcquireResult::extended);
  const AcquireOutcome other = lock.try_acquire(b);
  EXPECT_EQ(other.result, AcquireResult::busy);
  EXPECT_EQ(other.token, 0U);
  ASSERT_TRUE(other.current);
  EXPECT_EQ(other.current->holder, a.str());
  EXPECT_EQ(other.current->reason, "rev=def");
  EXPECT_EQ(other.current->pid, ::getpid());
  EXPECT_EQ(other.current->token, first.token);
}

// S0-18 … S0-21.
TEST_F(LockFace, ReleaseOutcomes) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  EXPECT_EQ(lock.release(a).result, ReleaseResult::already_free);
  ASSERT_TRUE(lock.try_acquire(a));
  EXPECT_EQ(lock.release(b).result, ReleaseResult::not_owner);
  EXPECT_EQ(lock.heartbeat(b).result, HeartbeatResult::not_owner);
  EXPECT_EQ(lock.heartbeat(a).result, HeartbeatResult::refreshed);
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
  EXPECT_EQ(lock.release(a).result, ReleaseResult::already_free);
}

// S2-8.
TEST_F(LockFace, TokensGrow) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  std::uint64_t last = 0;
  for (int i = 0; i < 6; ++i) {
    const AcquireOutcome got = lock.acquire(i % 2 == 0 ? a : b);
    ASSERT_TRUE(got);
    EXPECT_GT(got.token, last);
    last = got.token;
    EXPECT_EQ(lock.release(i % 2 == 0 ? a : b).result, ReleaseResult::released);
    EXPECT_FALSE(lock.is_current(last));
  }
}

// C-31: not re-entrant, and the same thread is told instead of hanging (F36).
TEST_F(LockFace, LockingTwiceInOneThreadThrows) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  lock.lock();
  try {
    lock.lock();
    ADD_FAILURE() << "second lock() returned";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::resource_deadlock_would_occur);
  }
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST_F(LockFace, ThreadsOfOneHandleExcludeEachOther) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  std::int64_t counter = 0;  // not atomic: the lock is what makes it right
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5'000; ++i) {
        const std::scoped_lock hold{lock};
        ++counter;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(counter, 4 * 5'000);
}

TEST_F(LockFace, ProcessesExcludeEachOther) {
  auto* const counter = static_cast<volatile std::int64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::vector<std::unique_ptr<Child>> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(std::make_unique<Child>([&](int) {
      Session session{segment_};
      Lock lock{session, "deploy"};
      for (int i = 0; i < 5'000; ++i) {
        const std::scoped_lock hold{lock};
        *counter = *counter + 1;
      }
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(*counter, 4 * 5'000);
}

TEST_F(LockFace, TimedWaitsEnd) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  EXPECT_FALSE(lock.try_lock_for(20ms));
  EXPECT_FALSE(lock.try_lock_until(std::chrono::steady_clock::now() + 20ms));
  EXPECT_FALSE(lock.try_lock_until(std::chrono::system_clock::now() - 1h));
  const auto before = std::chrono::steady_clock::now();
  const AcquireOutcome late = lock.acquire(b, {}, 50ms);
  EXPECT_EQ(late.result, AcquireResult::timed_out);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 50ms);
  ASSERT_TRUE(late.current);
  EXPECT_EQ(late.current->holder, a.str());
  EXPECT_EQ(lock.acquire(b, {}, 0s).result, AcquireResult::busy);
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
  EXPECT_TRUE(lock.try_lock_for(1h));
  lock.unlock();
}

// S3-16 for a capacity of one.
TEST_F(LockFace, CancelledWaitLeavesTheQueue) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  std::stop_source stop;
  std::thread stopper([&] { stop.request_stop(); });
  EXPECT_EQ(lock.acquire(b, {}, std::nullopt, stop.get_token()).result, AcquireResult::cancelled);
  stopper.join();
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
  EXPECT_TRUE(lock.try_acquire(a));
}

// S2-9, S2-10, S2-11, C-30, C-51: in manual mode only the holder's own beats count.
TEST_F(LockFace, TtlExpiresUnlessRenewed) {
  Session owner{segment_, {.manual_heartbeat = true}};
  Session rival{segment_};
  Lock owned{owner, "deploy"};
  Lock wanted{rival, "deploy"};
  const AcquireOutcome first = owned.try_acquire(a, {.ttl = 200ms});
  ASSERT_TRUE(first);
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(50ms);
    ASSERT_EQ(owned.renew(a, 200ms).result, HeartbeatResult::refreshed);
    EXPECT_EQ(wanted.try_acquire(b).result, AcquireResult::busy);
  }
  const AcquireOutcome taken = wanted.acquire(b, {}, 10s);
  EXPECT_EQ(taken.result, AcquireResult::reclaimed);
  EXPECT_GT(taken.token, first.token);
  ASSERT_TRUE(taken.previous);
  EXPECT_EQ(taken.previous->why, Loss::expired);
  EXPECT_EQ(taken.previous->holder, a.str());
  EXPECT_FALSE(owned.is_current(first.token));
  const HeartbeatOutcome beat = owned.heartbeat(a);
  EXPECT_EQ(beat.result, HeartbeatResult::not_owner);
  ASSERT_TRUE(beat.lost);
  EXPECT_EQ(beat.lost->why, Loss::expired);
  EXPECT_EQ(beat.lost->by, b.str());
}

TEST_F(LockFace, AutomaticSessionsKeepAShortTtl) {
  Session owner{segment_};
  Session rival{segment_};
  Lock owned{owner, "deploy"};
  Lock wanted{rival, "deploy"};
  ASSERT_TRUE(owned.try_acquire(a, {.ttl = 300ms}));
  EXPECT_EQ(wanted.acquire(b, {}, 1200ms).result, AcquireResult::timed_out);
  EXPECT_EQ(owned.release(a).result, ReleaseResult::released);
}

TEST_F(LockFace, StaleHolderIsReclaimed) {
  Session owner{segment_, {.manual_heartbeat = true}};
  Session rival{segment_};
  Lock owned{owner, "deploy", {.stale_threshold = 100ms}};
  Lock wanted{rival, "deploy"};
  ASSERT_TRUE(owned.try_acquire(a));
  const AcquireOutcome taken = wanted.acquire(b, {}, 10s);
  EXPECT_EQ(taken.result, AcquireResult::reclaimed);
  EXPECT_EQ(taken.previous->why, Loss::stale);
  const ReleaseOutcome late = owned.release(a);
  EXPECT_EQ(late.result, ReleaseResult::not_owner);
  ASSERT_TRUE(late.lost);
  EXPECT_EQ(late.lost->why, Loss::stale);
}

// C-2.
TEST_F(LockFace, MaxHoldDurationEndsAHoldInSpiteOfHeartbeats) {
  Session owner{segment_};
  Session rival{segment_};
  Lock owned{owner, "deploy", {.max_hold_duration = 150ms}};
  Lock wanted{rival, "deploy"};
  ASSERT_TRUE(owned.try_acquire(a));
  const AcquireOutcome taken = wanted.acquire(b, {}, 10s);
  EXPECT_EQ(taken.result, AcquireResult::reclaimed);
  EXPECT_EQ(taken.previous->why, Loss::held_too_long);
}

// F1, F2: no reaper runs; told once, and the one after it is not.
TEST_F(LockFace, KilledHolderIsReportedOnce) {
  Child holder([&](int ready) {
    Session session{segment_};
    Lock lock{session, "deploy"};
    if (lock.try_acquire(a)) say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session{segment_};
  Lock lock{session, "deploy"};
  EXPECT_EQ(lock.try_acquire(b).result, AcquireResult::busy);
  const pid_t pid = holder.pid();
  holder.kill(SIGKILL);
  const AcquireOutcome got = lock.acquire(b, {}, 10s);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->why, Loss::died);
  EXPECT_EQ(got.previous->holder, a.str());
  EXPECT_EQ(got.previous->pid, pid);
  EXPECT_EQ(lock.release(b).result, ReleaseResult::released);
  EXPECT_FALSE(lock.acquire(b).previous);
}

// Its name needs a row of its own, whose page must be there before the robbery.
TEST_F(LockFace, ARobbedHolderOfTheLongestIdIsNamedInFull) {
  const HolderId longest{std::string(255, 'h')};
  Session session{segment_};
  Session manual{segment_, {.manual_heartbeat = true}};
  {
    Lock expires{manual, "expires"};
    ASSERT_TRUE(expires.acquire(longest, {.ttl = 1ms}));
    const AcquireOutcome got = Lock(session, "expires").acquire(b, {}, 10s);
    ASSERT_TRUE(got.previous);
    EXPECT_EQ(got.previous->holder, longest.str());
  }
  Child holder([&](int ready) {
    Session own{segment_};
    Lock lock{own, "dies"};
    if (lock.try_acquire(longest)) say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  holder.kill(SIGKILL);
  const AcquireOutcome got = Lock(session, "dies").acquire(b, {}, 10s);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->holder, longest.str());
}

TEST_F(LockFace, KilledImplicitHolderIsReportedToLock) {
  Child holder([&](int ready) {
    Session session{segment_};
    Lock lock{session, "deploy"};
    lock.lock();
    say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  holder.kill(SIGKILL);
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_lock_for(10s));
  ASSERT_TRUE(lock.previous());
  EXPECT_EQ(lock.previous()->why, Loss::died);
  lock.unlock();
  lock.lock();
  EXPECT_FALSE(lock.previous());
  lock.unlock();
}

// F7 in small, F6: dead waiters are skipped, the rest is served in order.
TEST_F(LockFace, DeadWaitersAreSkipped) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  std::vector<std::unique_ptr<Child>> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.push_back(std::make_unique<Child>([&, i](int ready) {
      Session mine{segment_};
      Lock theirs{mine, "deploy"};
      const HolderId me("waiter:" + std::to_string(i));
      say(ready, 'w');
      if (theirs.acquire(me)) say(ready, 'h');
      (void)theirs.release(me);
      ::pause();
    }));
    ASSERT_EQ(waiters.back()->next(), 'w');
    // In the queue before the next one starts.
    std::this_thread::sleep_for(30ms);
  }
  for (const std::size_t dead : {0U, 3U, 7U}) {
    waiters[dead]->kill(SIGKILL);
    waiters[dead]->wait();
  }
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
  for (const std::size_t alive : {1U, 2U, 4U, 5U, 6U}) EXPECT_EQ(waiters[alive]->next(), 'h') << alive;
}

// F21.
TEST_F(LockFace, ForkedChildIsNotAParticipant) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  Lock other{session, "other"};
  other.lock();
  Child child([&](int ready) {
    std::error_code ec;
    (void)lock.release(a, ec);
    say(ready, ec == Errc::not_a_participant ? 'n' : 'x');
    other.unlock();
    { const Lock gone(std::move(other)); }
    { const Session gone(std::move(session)); }
    Session anew{segment_};
    Lock mine{anew, "deploy"};
    say(ready, mine.try_acquire(b).result == AcquireResult::busy ? 'b' : 'x');
  });
  EXPECT_EQ(child.next(), 'n');
  EXPECT_EQ(child.next(), 'b');
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(session.alive());
  EXPECT_EQ(lock.heartbeat(a).result, HeartbeatResult::refreshed);
  EXPECT_FALSE(other.lost());
  Session stranger{segment_};
  Lock wanted{stranger, "other"};
  EXPECT_EQ(wanted.try_acquire(b).result, AcquireResult::busy) << "the child gave back its parent's lock";
  other.unlock();
  EXPECT_TRUE(wanted.try_acquire(b));
}

// A hold by id belongs to the session, not to the handle.
TEST_F(LockFace, AHoldOutlivesItsHandle) {
  Session session{segment_};
  { ASSERT_TRUE((Lock{session, "deploy"}.try_acquire(a))); }
  for (int i = 0; i < 30; ++i) Lock other{session, "other" + std::to_string(i)};
  Lock again{session, "deploy"};
  EXPECT_EQ(again.heartbeat(a).result, HeartbeatResult::refreshed);
  EXPECT_EQ(again.release(a).result, ReleaseResult::released);
}

// F24.
TEST_F(LockFace, ReleasedByAnotherThread) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  std::thread([&] { EXPECT_EQ(lock.release(a).result, ReleaseResult::released); }).join();
  lock.lock();
  std::thread([&] { lock.unlock(); }).join();
  EXPECT_TRUE(lock.try_acquire(a));
}

// F25.
TEST_F(LockFace, LeavingReleases) {
  Session stays{segment_};
  Lock mine{stays, "deploy"};
  {
    Session leaves{segment_};
    Lock theirs{leaves, "deploy"};
    ASSERT_TRUE(theirs.try_acquire(a));
    EXPECT_EQ(mine.try_acquire(b).result, AcquireResult::busy);
    leaves.leave();
    std::error_code ec;
    (void)theirs.try_acquire(a, {}, ec);
    EXPECT_EQ(ec, Errc::session_dead);
  }
  EXPECT_EQ(mine.try_acquire(b).result, AcquireResult::acquired);
}

TEST_F(LockFace, WaitFdBecomesReadable) {
  Session holder{segment_};
  Session waiter{segment_};
  Lock held{holder, "deploy"};
  Lock wanted{waiter, "deploy"};
  ASSERT_TRUE(held.try_acquire(a));
  const int fd = wanted.wait_fd(b);
  pollfd p{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 50), 0);
  EXPECT_EQ(wanted.try_acquire(b).result, AcquireResult::busy);
  EXPECT_EQ(held.release(a).result, ReleaseResult::released);
  ASSERT_EQ(::poll(&p, 1, 10'000), 1);
  EXPECT_EQ(wanted.acquire(b).result, AcquireResult::acquired);
  EXPECT_EQ(held.try_acquire(a).result, AcquireResult::busy);
  EXPECT_EQ(wanted.release(b).result, ReleaseResult::released);
  const int free_fd = wanted.wait_fd(b);
  pollfd q{free_fd, POLLIN, 0};
  ASSERT_EQ(::poll(&q, 1, 10'000), 1);
  wanted.cancel_wait(b);
  EXPECT_TRUE(held.try_acquire(a));
}

TEST_F(LockFace, OnLostIsCalledOnce) {
  Session owner{segment_, {.manual_heartbeat = true}};
  Session rival{segment_};
  Lock owned{owner, "deploy"};
  Lock wanted{rival, "deploy"};
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  owned.on_lost(
      [&](const HolderId& id, const Lost& lost) { say(ends[1], id == a && lost.why == Loss::expired ? 'l' : 'x'); });
  ASSERT_TRUE(owned.try_acquire(a, {.ttl = 100ms}));
  ASSERT_TRUE(wanted.acquire(b, {}, 10s));
  char c = 0;
  ASSERT_EQ(::read(ends[0], &c, 1), 1);
  EXPECT_EQ(c, 'l');
  pollfd p{ends[0], POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 1'500), 0) << "told twice";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_F(LockFace, GuardReleasesAndTells) {
  Session session{segment_, {.manual_heartbeat = true}};
  Session rival{segment_};
  Lock lock{session, "deploy"};
  Lock wanted{rival, "deploy"};
  {
    LockGuard guard{lock, a};
    EXPECT_GE(guard.token(), 1U);
    EXPECT_FALSE(guard.lost());
    EXPECT_EQ(wanted.try_acquire(b).result, AcquireResult::busy);
  }
  EXPECT_FALSE(lock.holder());
  LockGuard guard{lock, a, {.ttl = 50ms}};
  ASSERT_TRUE(wanted.acquire(b, {}, 10s));
  EXPECT_TRUE(guard.lost());
}

// C-26.
TEST_F(LockFace, ExplicitConfigurationMustAgree) {
  Session session{segment_};
  Lock lock{session, "deploy", {.stale_threshold = 30s}};
  Lock attached{session, "deploy"};
  Lock same{session, "deploy", {.stale_threshold = 30s}};
  Session other{segment_};
  try {
    Lock differs{other, "deploy", {.stale_threshold = 31s}};
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::config_differs);
    EXPECT_NE(std::string(e.what()).find("30"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("31"), std::string::npos) << e.what();
  }
  EXPECT_THROW((Lock{session, "deploy", {.stale_threshold = 31s}}), Error);
}

TEST_F(LockFace, BadInputIsRefusedAndChangesNothing) {
  Session session{segment_};
  EXPECT_THROW((Lock{session, ""}), Error);
  EXPECT_THROW((Lock{session, std::string(256, 'x')}), Error);
  EXPECT_THROW((Lock{session, "a\nb"}), Error);
  EXPECT_THROW((Lock{session, "x", {.stale_threshold = 0s}}), Error);
  Lock lock{session, std::string(255, 'x')};
  EXPECT_THROW((void)lock.try_acquire(HolderId("")), Error);
  EXPECT_THROW((void)lock.try_acquire(HolderId(std::string(256, 'h'))), Error);
  EXPECT_THROW((void)lock.try_acquire(a, {.ttl = -1s}), Error);
  EXPECT_THROW((void)lock.try_acquire(a, {.reason = std::string(4097, 'r')}), Error);
  EXPECT_FALSE(lock.holder());
  const std::string long_holder(255, 'h');
  const std::string long_reason(4096, 'r');
  ASSERT_TRUE(lock.try_acquire(HolderId(long_holder), {.reason = long_reason}));
  EXPECT_EQ(lock.holder()->holder, long_holder);
  EXPECT_EQ(lock.holder()->reason, long_reason);
}

// C-37, and tokens grow over a removal.
TEST_F(LockFace, Removal) {
  Session session{segment_};
  std::optional<Lock> lock{std::in_place, session, "deploy"};
  const AcquireOutcome got = lock->try_acquire(a);
  ASSERT_TRUE(got);
  EXPECT_THROW(Lock::remove(session, "deploy"), Error);
  EXPECT_THROW(Lock::remove(session, "absent"), Error);
  ASSERT_EQ(lock->release(a).result, ReleaseResult::released);
  Lock::remove(session, "deploy");
  EXPECT_FALSE(lock->holder());
  EXPECT_FALSE(lock->is_current(got.token));
  EXPECT_EQ(lock->release(a).result, ReleaseResult::already_free);
  EXPECT_EQ(lock->heartbeat(a).result, HeartbeatResult::not_owner);
  EXPECT_THROW(Lock::remove(session, "deploy"), Error) << "none of these made it anew";
  const AcquireOutcome later = lock->try_acquire(a);
  ASSERT_TRUE(later);
  EXPECT_GT(later.token, got.token);
  Lock other{session, "deploy"};
  EXPECT_EQ(other.try_acquire(a).result, AcquireResult::extended) << "handles of one name stay handles of one lock";
}

TEST_F(LockFace, ForcedRemovalFailsWaiters) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  ASSERT_TRUE(lock.try_acquire(a));
  std::error_code ec;
  std::thread waiter([&] { (void)lock.acquire(b, {}, std::nullopt, {}, ec); });
  std::this_thread::sleep_for(50ms);
  Lock::remove(session, "deploy", true);
  waiter.join();
  EXPECT_EQ(ec, Errc::name_removed);
}

TEST_F(LockFace, ErrorCodeTwins) {
  std::error_code ec;
  EXPECT_FALSE(Segment::open("no-such-segment-here", {}, ec));
  EXPECT_EQ(ec, Errc::segment_not_found);
  EXPECT_FALSE(Segment::create(name_, {}, ec));
  EXPECT_EQ(ec, Errc::segment_exists);
  auto session = Session::join(segment_, {}, ec);
  ASSERT_TRUE(session);
  EXPECT_FALSE(ec);
  EXPECT_FALSE(Lock::attach(*session, "", {}, ec));
  EXPECT_EQ(ec, Errc::invalid_argument);
  auto lock = Lock::attach(*session, "deploy", {}, ec);
  ASSERT_TRUE(lock);
  lock->lock(ec);
  EXPECT_FALSE(ec);
  lock->lock(ec);
  EXPECT_EQ(ec, Errc::deadlock);
  lock->unlock();
}

// C-50: one id in two sessions is two holders; in one session, two handles are one.
TEST_F(LockFace, WhoIsTheSameHolder) {
  Session one{segment_};
  Session two{segment_};
  Lock first{one, "deploy"};
  Lock second{one, "deploy"};
  Lock stranger{two, "deploy"};
  ASSERT_TRUE(first.try_acquire(a));
  EXPECT_EQ(second.try_acquire(a).result, AcquireResult::extended);
  EXPECT_EQ(stranger.try_acquire(a).result, AcquireResult::busy);
  EXPECT_EQ(second.release(a).result, ReleaseResult::released);
}

// By neither lease had it run out: the old one was long, and the new one begins with the renewal.
TEST_F(LockFace, ARenewalToAShorterTtlKeepsTheHold) {
  const auto contend = [&](int ready) {
    Session session{segment_};
    Lock lock{session, "deploy"};
    say(ready, 'r');
    for (;;) {
      if (lock.try_acquire(b)) (void)lock.release(b);
    }
  };
  Child first(contend);
  Child second(contend);
  ASSERT_EQ(first.next(), 'r');
  ASSERT_EQ(second.next(), 'r');
  Session session{segment_, {.manual_heartbeat = true}};
  Lock lock{session, "deploy"};
  for (int i = 0; i < 2'500; ++i) {
    ASSERT_TRUE(lock.acquire(a, {.ttl = 1h}));
    std::this_thread::sleep_for(600us);  // longer than the next ttl
    ASSERT_EQ(lock.renew(a, 500us).result, HeartbeatResult::refreshed) << "renewal " << i;
    (void)lock.release(a);
  }
}

}  // namespace
}  // namespace shmcoord
