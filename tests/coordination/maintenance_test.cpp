#include "shmcoord/maintenance.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/face_fixture.hpp"
#include "support/manager_world.hpp"

// Maintenance by a clock that a test moves. Nothing here measures time; what hangs is ended by ctest.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::FakeClock;
using testing::say;

const HolderId a("a");
const HolderId b("b");

void ignore(const std::exception_ptr& /*unused*/) {}

template <class World>
class BothStores : public ::testing::Test {
 protected:
  std::vector<std::string> heard() {
    std::vector<std::string> lines;
    lines.swap(lines_);
    return lines;
  }
  MaintenanceHooks listening() {
    return {.on_effect = [this](const Event& e) { lines_.push_back(world.scribe(e)); }};
  }

  test::Play<World> world;

 private:
  std::vector<std::string> lines_;
};
using Both = ::testing::Types<test::LocalWorld, test::SegmentWorld>;
TYPED_TEST_SUITE(BothStores, Both);

// S1-138, S1-144, C-16.
TYPED_TEST(BothStores, APassWarnsAndThenTakes) {
  auto& w = this->world;
  Maintenance maintenance(w.manager, {}, this->listening());
  w.manager.ensure_lock({"l", 100s});
  w.manager.ensure_semaphore({"s", 2, 100s});
  w.lock("l", "a");
  w.take("s", "a", 2);
  maintenance.tick();
  EXPECT_TRUE(this->heard().empty());
  w.pass(105s);
  maintenance.tick();
  EXPECT_EQ(this->heard(), (std::vector<std::string>{"lock:stale l a stale #1", "semaphore:stale s a stale #1 w2 free0",
                                                     "lock:reclaimed l a stale #1", "lock:released l a #1",
                                                     "semaphore:reclaimed s a stale #1 w2 free2",
                                                     "semaphore:released s a #1 w2 free2"}));
  EXPECT_EQ(w.sees("l"), "free") << "the manager's own state, not a copy's";
  maintenance.tick();
  EXPECT_TRUE(this->heard().empty());
}

TYPED_TEST(BothStores, WithoutReclaimItOnlyWarns) {
  auto& w = this->world;
  Maintenance maintenance(w.manager, {.reclaim_stale = false}, this->listening());
  w.manager.ensure_lock({"l", 100s});
  w.lock("l", "a");
  w.pass(105s);
  maintenance.tick();
  maintenance.tick();
  EXPECT_EQ(this->heard(), std::vector<std::string>{"lock:stale l a stale #1"});
  EXPECT_EQ(w.sees("l"), "held a stale");
}

// S1-142.
TYPED_TEST(BothStores, WhoIsKnownToLiveIsRefreshedFirst) {
  auto& w = this->world;
  std::set<std::string> alive{"a"};
  MaintenanceHooks hooks = this->listening();
  hooks.is_alive = [&](const HolderId& holder) { return alive.contains(holder.str()); };
  Maintenance maintenance(w.manager, {}, std::move(hooks));
  w.manager.ensure_lock({"l", 100s});
  w.manager.ensure_semaphore({"s", 3, 100s});
  w.lock("l", "a");
  w.take("s", "a");
  w.take("s", "b");
  w.pass(105s);
  maintenance.tick();
  EXPECT_EQ(w.sees("l"), "held a");
  EXPECT_EQ(w.sees("s"), "1+2 a:1");
  EXPECT_EQ(this->heard().size(), 3U);
  alive.clear();
  w.pass(105s);
  maintenance.tick();
  EXPECT_EQ(w.sees("l"), "free");
  EXPECT_EQ(w.sees("s"), "0+3");
}

// Not where the session beats by itself.
TEST(MaintenanceOverSegment, LeavesHeartbeatsToTheSession) {
  test::SegmentWorld w;
  Session automatic(w.segment);
  CoordinationManager manager(automatic);
  ASSERT_TRUE(manager.acquire_lock("l", a));
  int asked = 0;
  Maintenance(manager, {}, {.is_alive = [&](const HolderId&) { return ++asked != 0; }}).tick();
  EXPECT_EQ(asked, 0);
  Maintenance(w.manager, {}, {.is_alive = [&](const HolderId&) { return ++asked != 0; }}).tick();
  EXPECT_EQ(asked, 1);
}

TEST(MaintenanceTick, ThrowsWhatAHookThrowsWhenTheRestWasTold) {
  const auto clock = std::make_shared<FakeClock>();
  CoordinationManager manager(clock);
  ASSERT_TRUE(manager.acquire_lock("l", a));
  clock->advance(61s);
  Maintenance maintenance(manager, {}, {.on_effect = [](const Event&) { throw std::runtime_error("full"); }});
  EXPECT_THROW(maintenance.tick(), std::runtime_error);
  EXPECT_FALSE(manager.get_lock("l")->is_free()) << "nothing is taken that could not be warned of";
}

TEST(MaintenanceTick, NeedsAnIntervalAboveZero) {
  const CoordinationManager manager;
  for (const auto bad : {0ns, -1ns}) {
    try {
      const Maintenance maintenance(manager, {.interval = bad});
      ADD_FAILURE() << bad.count();
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::invalid_argument);
    }
  }
  EXPECT_EQ(MaintenanceConfig{}.interval, 30s);
  EXPECT_TRUE(MaintenanceConfig{}.reclaim_stale);
}

// S1-143: at once, then at each interval, and not before.
TEST(MaintenanceThreads, RunsAtTheInterval) {
  const auto clock = std::make_shared<FakeClock>();
  CoordinationManager manager(clock);
  std::atomic<int> passes = 0;
  MaintenanceHooks hooks;
  hooks.is_alive = [&](const HolderId&) { return ++passes != 0; };  // asked once in a pass: there is one holder
  ASSERT_TRUE(manager.acquire_lock("l", a));
  const MaintenanceThread thread(Maintenance(manager, {.interval = 10s}, hooks), ignore);
  clock->await_waiting(1);
  EXPECT_EQ(passes, 1);
  for (int n = 2; n < 20; ++n) {
    clock->advance(9s);
    clock->await_waiting(1);
    EXPECT_EQ(passes, n - 1);
    clock->advance(1s);
    clock->await_waiting(1);
    EXPECT_EQ(passes, n);
  }
  clock->advance(1h);
  clock->await_waiting(1);
  EXPECT_EQ(passes, 20) << "what was missed is not made up for";
}

TEST(MaintenanceThreads, WhatGoesWrongIsReportedAndThePassesGoOn) {
  const auto clock = std::make_shared<FakeClock>();
  CoordinationManager manager(clock);
  ASSERT_TRUE(manager.acquire_lock("l", a));
  std::vector<std::string> reported;
  MaintenanceHooks hooks;
  hooks.is_alive = [&](const HolderId&) -> bool { throw std::runtime_error("cannot be asked"); };
  const auto on_error = [&](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      reported.emplace_back(e.what());
    }
  };
  const MaintenanceThread thread(Maintenance(manager, {.interval = 10s}, hooks), on_error);
  clock->await_waiting(1);
  clock->advance(10s);
  clock->await_waiting(1);
  EXPECT_EQ(reported, (std::vector<std::string>{"cannot be asked", "cannot be asked"}));
}

TEST(MaintenanceThreads, NeedsSomebodyWhoIsTold) {
  try {
    const MaintenanceThread thread(Maintenance(CoordinationManager()), {});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::invalid_argument);
  }
}

// With the host's clock and an interval of hours: the destructor does not sleep through it.
TEST(MaintenanceThreads, EndsAtOnce) {
  for (int n = 0; n < 200; ++n) {
    const MaintenanceThread thread(Maintenance(CoordinationManager(), {.interval = 24h}), ignore);
  }
}

// S1-12: the host's clock, without anybody who moves it.
TEST(MaintenanceThreads, GoesByTheHostsClock) {
  CoordinationManager manager;
  ASSERT_TRUE(manager.acquire_lock("l", a));
  std::mutex mutex;
  std::condition_variable changed;
  int passes = 0;
  MaintenanceHooks hooks;
  hooks.is_alive = [&](const HolderId&) {
    const std::scoped_lock lock(mutex);
    ++passes;
    changed.notify_all();
    return true;
  };
  const auto before = steady()->now();
  const MaintenanceThread thread(Maintenance(manager, {.interval = 2ms}, hooks), ignore);
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return passes >= 5; });
  EXPECT_GE(steady()->now() - before, 8ms);
}

// Beside threads that use the manager.
TEST(MaintenanceThreads, WorksBesideTheManagersOwnCalls) {
  const auto clock = std::make_shared<FakeClock>();
  CoordinationManager manager(clock);
  std::atomic<int> taken = 0;
  const MaintenanceThread thread(Maintenance(manager, {.interval = 1s},
                                             {.on_effect =
                                                  [&](const Event& e) {
                                                    if (e.kind == EventKind::lock_reclaimed) ++taken;
                                                  }}),
                                 ignore);
  for (int n = 0; n < 100; ++n) {
    ASSERT_TRUE(manager.acquire_lock("l", a));
    clock->await_waiting(1);
    clock->advance(61s);
    clock->await_waiting(1);
    ASSERT_TRUE(manager.acquire_lock("l", b)) << "taken from a";
    ASSERT_EQ(manager.release_lock("l", b).result, ReleaseResult::released);
  }
  EXPECT_EQ(taken, 100);
}

class MaintenanceInProcesses : public testing::FaceTest {};

// A process with a thread that maintains is killed, or forks: others go on, and the child does not wait for it.
TEST_F(MaintenanceInProcesses, AForkedChildHasNoSuchThread) {
  const auto clock = std::make_shared<FakeClock>();
  auto thread = std::make_unique<MaintenanceThread>(Maintenance(CoordinationManager(clock)), ignore);
  clock->await_waiting(1);
  Child child([&](int ready) {
    thread.reset();
    say(ready, 'y');
  });
  EXPECT_EQ(child.next(), 'y');
}

TEST_F(MaintenanceInProcesses, BuriesWhatAKilledProcessHeld) {
  Child holder([&](int ready) {
    Session session(segment_);
    CoordinationManager manager(session);
    if (manager.acquire_lock("l", a)) say(ready, 'h');
    const MaintenanceThread thread(Maintenance(manager, {.interval = 1ms}), ignore);
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session(segment_);
  CoordinationManager manager(session);
  const MaintenanceThread thread(Maintenance(manager, {.interval = 1ms}), ignore);
  holder.kill(SIGKILL);
  while (!manager.get_lock("l")->is_free()) ::usleep(1000);
  EXPECT_EQ(manager.acquire_lock("l", b).outcome.previous->why, Loss::died);
}

}  // namespace
}  // namespace shmcoord
