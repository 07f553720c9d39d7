#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "shmcoord/coordination_manager.hpp"
#include "support/face_fixture.hpp"
#include "support/manager_world.hpp"

// What only one of the stores does: copies, what a manager shares with everybody else in its segment, and deaths; and
// threads, over both. That both answer alike: manager_conformance_test.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

Errc error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.errc();
  }
  return Errc{};
}

const HolderId a("a");
const HolderId b("b");

// --- in this process -------------------------------------------------------------------------------------------------

// C-45, S0-81.
TEST(ManagerInProcess, ACopyIsASnapshotThatGoesItsOwnWay) {
  const auto clock = std::make_shared<testing::FakeClock>();
  CoordinationManager first(clock);
  (void)first.acquire_lock("l", a, "rev=1");
  first.ensure_semaphore({"s", 3});
  (void)first.acquire_semaphore("s", a, 2);
  first.register_guard({"g", GuardCondition::lock_free("l")});
  CoordinationManager second = first;
  EXPECT_TRUE(second.get_lock("l")->is_held_by(a));
  EXPECT_EQ(second.get_lock("l")->holders[0].reason, "rev=1");
  EXPECT_EQ(second.get_semaphore("s")->used_slots(), 2U);
  EXPECT_TRUE(second.get_guard("g"));
  EXPECT_EQ(second.release_lock("l", a).result, ReleaseResult::released);
  EXPECT_EQ(second.release_semaphore("s", a).result, PermitRelease::released);
  EXPECT_TRUE(second.unregister_guard("g"));
  EXPECT_TRUE(first.get_lock("l")->is_held_by(a));
  EXPECT_EQ(first.get_semaphore("s")->used_slots(), 2U);
  EXPECT_TRUE(first.get_guard("g"));
  clock->advance(61s);
  EXPECT_EQ(first.reclaim_stale().size(), 4U) << "the clock is the same";
  second = first;
  EXPECT_TRUE(second.get_lock("l")->is_free());
}

TEST(ManagerInProcess, NeedsAClock) {
  EXPECT_EQ(error_of([] { const CoordinationManager none(std::shared_ptr<const Clock>{}); }), Errc::invalid_argument);
  const CoordinationManager by_default;
  EXPECT_EQ(by_default.clock(), steady());
  const auto before = steady()->now();
  EXPECT_LE(before, steady()->now());
}

// --- over a segment --------------------------------------------------------------------------------------------------

class ManagerOverSegment : public testing::FaceTest {};

// C-45; the state is the same as that of Lock, Semaphore and GuardFlag.
TEST_F(ManagerOverSegment, IsOneOfManyHandles) {
  Session session(segment_);
  CoordinationManager manager(session);
  CoordinationManager copy = manager;
  EXPECT_TRUE(manager.acquire_lock("l", a));
  EXPECT_EQ(copy.release_lock("l", a).result, ReleaseResult::released);

  Session other(segment_);
  Lock lock(other, "l");
  EXPECT_TRUE(lock.try_acquire(a));
  const auto got = manager.acquire_lock("l", a);
  EXPECT_EQ(got.outcome.result, AcquireResult::busy) << "the same id in another session is another holder (C-50)";
  EXPECT_EQ(manager.heartbeat_lock("l", a), HeartbeatResult::not_owner);
  EXPECT_EQ(manager.release_lock("l", a).result, ReleaseResult::not_owner);
  EXPECT_EQ(manager.get_lock("l")->holders.size(), 1U);
  lock.release(a);
  EXPECT_TRUE(manager.acquire_lock("l", a));
  EXPECT_EQ(lock.try_acquire(b).result, AcquireResult::busy);

  manager.ensure_semaphore({"s", 4});
  Semaphore permits(other, "s");
  EXPECT_TRUE(permits.try_acquire(b, 3));
  EXPECT_EQ(manager.acquire_semaphore("s", a, 2).outcome.available, 1U);
  EXPECT_EQ(manager.get_semaphore("s")->used_slots(), 3U);

  manager.register_guard({"g", GuardCondition::lock_free("l")});
  EXPECT_EQ(GuardFlag(other, "g").guard().condition.str(), "lock_free(l)");
  GuardFlag::remove(other, "g");
  EXPECT_FALSE(manager.get_guard("g"));
}

// A shared lock has several holders.
TEST_F(ManagerOverSegment, SeesWhoSharesALock) {
  Session session(segment_);
  Session reader(segment_);
  CoordinationManager manager(session);
  SharedLock shared(reader, "tree");
  shared.lock_shared();
  EXPECT_FALSE(manager.get_lock("tree")->is_free());
  EXPECT_FALSE(manager.build_coordination_inputs().locks.at("tree"));
  EXPECT_FALSE(manager.acquire_lock("tree", a));
  shared.unlock_shared();
  EXPECT_TRUE(manager.acquire_lock("tree", a));
}

TEST_F(ManagerOverSegment, OutlivesItsSessionAndSaysSo) {
  std::optional<CoordinationManager> manager;
  {
    Session session(segment_);
    manager.emplace(session);
    EXPECT_TRUE(manager->acquire_lock("l", a));
  }
  EXPECT_EQ(error_of([&] { (void)manager->acquire_lock("l", a); }), Errc::session_dead);
  EXPECT_EQ(error_of([&] { (void)manager->get_lock("l"); }), Errc::session_dead);
  EXPECT_EQ(error_of([&] { (void)manager->release_lock("l", a); }), Errc::session_dead);
  EXPECT_EQ(error_of([&] { (void)manager->maintain(); }), Errc::session_dead);
  EXPECT_EQ(error_of([&] { manager->register_guard({"g", GuardCondition::lock_free("l")}); }), Errc::session_dead);
  Session again(segment_);
  EXPECT_TRUE(CoordinationManager(again).acquire_lock("l", a));
}

// C-51: the session's thread renews what it holds, so a pass takes nothing from a live one.
TEST_F(ManagerOverSegment, ALiveSessionLosesNothing) {
  Session session(segment_, {.heartbeat_interval = 10ms});
  CoordinationManager manager(session);
  manager.ensure_lock({"l", 20s});
  ASSERT_TRUE(manager.acquire_lock("l", a));
  const engine::Mapping& mapping = *detail::Access::mapping(segment_);
  for (const auto& e : process::take_snapshot(mapping, 0, process::Detail::brief).entries) {
    engine::RealPolicy::store(mapping.view().entry(e.entry).since_ns, 1);  // acquired long ago
  }
  EXPECT_TRUE(manager.maintain().empty());
  EXPECT_EQ(manager.get_lock("l")->holders[0].lapsed, Loss::none);
  EXPECT_LT(manager.get_lock("l")->holders[0].heartbeat_age, 20s);
}

// What the journal tells while a manager warns and takes: each once.
TEST_F(ManagerOverSegment, SubscribersHearEachWarningOnce) {
  test::Play<test::SegmentWorld> w;
  w.manager.ensure_lock({"l", 100s});
  Session listener(w.segment);
  std::mutex mutex;
  std::vector<std::string> heard;
  std::atomic<bool> done = false;
  const Subscription all(listener, {"lock:*"}, [&](const Event& e) {
    const std::scoped_lock lock(mutex);
    heard.push_back(std::string(e.name()) + ' ' + e.holder);
    if (e.holder == "end" && e.kind == EventKind::lock_released) done = true;
  });
  w.lock("l", "a");
  w.pass(105s);
  (void)w.tick();
  (void)w.maintain();
  w.lock("l", "end");
  w.unlock("l", "end");
  while (!done) std::this_thread::yield();
  const std::scoped_lock lock(mutex);
  EXPECT_EQ(heard, (std::vector<std::string>{"lock:acquired a", "lock:stale a", "lock:reclaimed a", "lock:released a",
                                             "lock:acquired end", "lock:released end"}));
}

// A process that holds through a manager is killed: another's manager gets what it had, and is told.
TEST_F(ManagerOverSegment, WhatAKilledProcessHeldIsFree) {
  for (const bool by_maintenance : {false, true}) {
    Child holder([&](int ready) {
      Session session(segment_);
      CoordinationManager manager(session);
      manager.ensure_semaphore({"s", 3});
      if (manager.acquire_lock("l", a, "deploying") && manager.acquire_semaphore("s", a, 3)) say(ready, 'h');
      ::pause();
    });
    ASSERT_EQ(holder.next(), 'h');
    Session session(segment_);
    CoordinationManager manager(session);
    EXPECT_FALSE(manager.acquire_lock("l", b));
    EXPECT_FALSE(manager.acquire_semaphore("s", b, 1));
    const pid_t pid = holder.pid();
    EXPECT_EQ(manager.get_lock("l")->holders[0].pid, pid);
    EXPECT_TRUE(manager.maintain().empty()) << "it lives";
    holder.kill(SIGKILL);
    holder.wait();
    // Whoever buries it first: this call, or the session's thread.
    Effects effects;
    if (by_maintenance) {
      while (!manager.get_lock("l")->is_free() || manager.get_semaphore("s")->used_slots() != 0) {
        for (Event& e : manager.maintain()) effects.push_back(std::move(e));
      }
    }
    auto lock = manager.acquire_lock("l", b);
    while (!lock) lock = manager.acquire_lock("l", b);
    ASSERT_TRUE(lock.outcome.previous);
    EXPECT_EQ(lock.outcome.previous->holder, "a");
    EXPECT_EQ(lock.outcome.previous->why, Loss::died);
    for (Event& e : lock.effects) effects.push_back(std::move(e));
    auto permits = manager.acquire_semaphore("s", b, 3);
    while (!permits) permits = manager.acquire_semaphore("s", b, 3);
    EXPECT_EQ(permits.outcome.previous->why, Loss::died);
    for (const Event& e : effects) {
      if (e.kind == EventKind::lock_reclaimed) {
        EXPECT_EQ(e.holder, "a");
        EXPECT_EQ(e.why, Loss::died);
        EXPECT_EQ(e.pid, pid);
      }
    }
    EXPECT_EQ(manager.release_lock("l", b).result, ReleaseResult::released);
    EXPECT_EQ(manager.release_semaphore("s", b).result, PermitRelease::released);
  }
}

// The dead are taken from by the call itself where nobody else is there to bury them.
TEST_F(ManagerOverSegment, AnAcquireTellsWhatItTookFromTheDead) {
  Session session(segment_);
  CoordinationManager manager(session);
  manager.ensure_semaphore({"s", 4});
  int told = 0;
  for (int n = 0; n < 50 && told == 0; ++n) {
    Child holder([&](int ready) {
      Session mine(segment_);
      CoordinationManager theirs(mine);
      if (theirs.acquire_semaphore("s", a, 3)) say(ready, 'h');
      ::pause();
    });
    ASSERT_EQ(holder.next(), 'h');
    holder.kill(SIGKILL);
    auto got = manager.acquire_semaphore("s", b, 2);
    while (!got) got = manager.acquire_semaphore("s", b, 2);
    EXPECT_EQ(got.outcome.previous->why, Loss::died);
    if (got.effects.front().kind == EventKind::semaphore_reclaimed) {
      ++told;
      ASSERT_EQ(got.effects.size(), 3U);
      EXPECT_EQ(got.effects[0].holder, "a");
      EXPECT_EQ(got.effects[0].other, "b");
      EXPECT_EQ(got.effects[0].why, Loss::died);
      EXPECT_EQ(got.effects[0].weight, 3U);
      EXPECT_EQ(got.effects[1].kind, EventKind::semaphore_acquired);
      EXPECT_EQ(got.effects[2].kind, EventKind::semaphore_released);
      EXPECT_EQ(got.effects[2].available, 2U);
    }
    manager.release_semaphore("s", b);
  }
  if (told == 0) GTEST_SKIP() << "the session's own thread was faster each time";
}

// Who is proven dead holds nothing for a guard, whether or not it was buried.
TEST_F(ManagerOverSegment, GuardsDoNotWaitForTheDead) {
  Session session(segment_);
  CoordinationManager manager(session);
  manager.ensure_semaphore({"s", 4});
  const auto port = primitives_of(manager);
  for (int n = 0; n < 50; ++n) {
    Child holder([&](int ready) {
      Session mine(segment_);
      CoordinationManager theirs(mine);
      if (theirs.acquire_lock("l", a) && theirs.acquire_semaphore("s", a, 3)) say(ready, 'h');
      ::pause();
    });
    ASSERT_EQ(holder.next(), 'h');
    ASSERT_FALSE(manager.build_coordination_inputs().locks.at("l"));
    holder.kill(SIGKILL);
    holder.wait();
    const auto lock = port->lock("l");
    const auto permits = port->semaphore("s");
    const GuardInputs inputs = manager.build_coordination_inputs();
    ASSERT_TRUE(lock && lock->free && lock->holders.empty());
    ASSERT_EQ(permits, 4U);
    ASSERT_TRUE(inputs.locks.at("l"));
    ASSERT_FALSE(inputs.lock_holders.contains("l"));
    ASSERT_EQ(inputs.semaphores.at("s"), 4U);
  }
}

// A forked child is no participant.
TEST_F(ManagerOverSegment, AForkedChildIsToldSo) {
  Session session(segment_);
  CoordinationManager manager(session);
  ASSERT_TRUE(manager.acquire_lock("l", a));
  Child child([&](int ready) {
    const bool refused = error_of([&] { (void)manager.acquire_lock("l", a); }) == Errc::not_a_participant &&
                         error_of([&] { (void)manager.maintain(); }) == Errc::not_a_participant;
    say(ready, refused ? 'y' : 'n');
  });
  EXPECT_EQ(child.next(), 'y');
  EXPECT_TRUE(manager.get_lock("l")->is_held_by(a));
}

// --- threads ---------------------------------------------------------------------------------------------------------

template <class World>
class ManagerThreads : public ::testing::Test {
 protected:
  World world;
};
using Both = ::testing::Types<test::LocalWorld, test::SegmentWorld>;
TYPED_TEST_SUITE(ManagerThreads, Both);

// S1-146, S1-153: each sees a whole state, and no two hold what is for one.
TYPED_TEST(ManagerThreads, OneHolderAndNeverMoreThanTheCapacity) {
  constexpr std::uint32_t capacity = 5;
  constexpr int threads = 4;
  constexpr int rounds = 300;
  CoordinationManager& manager = this->world.manager;
  manager.ensure_semaphore({"s", capacity});
  std::atomic<int> in_lock = 0;
  std::atomic<std::uint32_t> in_use = 0;
  std::atomic<int> wrong = 0;
  std::atomic<int> locked = 0;
  std::atomic<int> taken = 0;
  std::atomic<int> running = threads;
  const auto judge = [&](bool good) {
    if (!good) ++wrong;
  };
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const HolderId me("thread" + std::to_string(t));
      for (int n = 0; n < rounds; ++n) {
        if (manager.acquire_lock("l", me)) {
          ++locked;
          judge(++in_lock == 1);
          judge(manager.get_lock("l")->is_held_by(me));
          --in_lock;
          judge(manager.release_lock("l", me).result == ReleaseResult::released);
        }
        const auto weight = static_cast<std::uint32_t>(1 + (n + t) % 3);
        if (manager.acquire_semaphore("s", me, weight)) {
          ++taken;
          judge((in_use += weight) <= capacity);
          judge(manager.heartbeat_semaphore("s", me) == HeartbeatResult::refreshed);
          in_use -= weight;
          judge(manager.release_semaphore("s", me).effects.size() == 1);
        }
      }
      --running;
    });
  }
  while (running != 0) {
    judge(manager.get_semaphore("s")->used_slots() <= capacity);
    judge(manager.maintain().empty());
    (void)CoordinationManager(manager);
  }
  all.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(locked, 0);
  EXPECT_GT(taken, 0);
  EXPECT_TRUE(manager.get_lock("l")->is_free());
  EXPECT_EQ(manager.get_semaphore("s")->available_slots(), capacity);
}

}  // namespace
}  // namespace shmcoord
