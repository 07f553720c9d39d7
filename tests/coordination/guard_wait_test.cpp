#include "coordination/guard_flag_fixture.hpp"

// Waiting for registered guards. Waiters run in threads or children; whoever kills them looks what is left.

namespace shmcoord {
namespace {

TEST_F(GuardFlags, event_driven_wake) {
  Child holder([&](int ready) {
    Session session{segment_};
    Lock lock{session, "main"};
    lock.lock();
    testing::say(ready, 'h');
    while (GuardFlag::list(segment_).empty() || !GuardFlag::list(segment_)[0].verdict) ::usleep(1000);
    lock.unlock();
    testing::say(ready, 'r');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main"), Block{}, {}});
  EXPECT_TRUE(passed(flag.wait(executor(), {.recheck = 1h})));
  EXPECT_TRUE(flag.verdict()->passed);
}

TEST_F(GuardFlags, AWaiterPassesWhenTheHolderIsKilled) {
  Child holder([&](int ready) {
    Session session{segment_};
    Semaphore agents{session, "agents", {.capacity = 1}};
    const Permit one{agents};
    testing::say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::semaphore_available("agents"), Block{}, {}});
  std::thread killer([&] {
    while (!flag.verdict()) ::usleep(1000);
    holder.kill(SIGKILL);
  });
  EXPECT_TRUE(passed(flag.wait(executor(), {.recheck = 1h})));
  killer.join();
}

TEST_F(GuardFlags, AFileIsNoticedWhenItComesGoesAndChanges) {
  Session session{segment_};
  GuardFlag comes = GuardFlag::add(session, {"comes", C::file_exists(path("a/b/ready")), Block{}, {}});
  GuardFlag goes = GuardFlag::add(session, {"goes", C::file_not_exists(path("gone")), Block{}, {}});
  GuardFlag changes = GuardFlag::add(session, {"changes", C::file_contains(path("log"), "done"), Block{}, {}});
  write(path("gone"));
  write(path("log"), "begun\n");
  std::thread maker([&] {
    for (const GuardFlag* flag : {&comes, &goes, &changes}) {
      while (!flag->verdict()) ::usleep(1000);
    }
    std::filesystem::create_directories(directory_ / "a/b");
    write(path("a/b/ready"));
    std::filesystem::remove(path("gone"));
    std::ofstream(path("log"), std::ios::app) << "done\n";
  });
  std::vector<std::thread> waiters;
  std::atomic<int> through = 0;
  for (GuardFlag* flag : {&comes, &goes, &changes}) {
    waiters.emplace_back([&, flag] { through += passed(flag->wait(executor(), {.recheck = 1h})) ? 1 : 0; });
  }
  for (std::thread& waiter : waiters) waiter.join();
  maker.join();
  EXPECT_EQ(through, 3);
}

TEST_F(GuardFlags, EachLinkOnTheWayToAFileIsNoticed) {
  for (const char* const directory : {"d1", "d2", "d3"}) std::filesystem::create_directories(path(directory));
  write(path("d2/c"), "no");
  write(path("d3/x"), "yes");
  std::filesystem::create_symlink("../d2/c", path("d1/b"));
  std::filesystem::create_symlink("d1/b", path("a"));
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::file_contains(path("a"), "yes"), Block{}, {}});
  std::stop_source stop;
  std::atomic<bool> passes = false;
  std::thread waiter([&] {
    // Without a second look at files that nothing was told of.
    passes = passed(flag.wait(executor(), {.stop = stop.get_token(), .recheck = 1h}));
  });
  while (!flag.verdict()) ::usleep(1000);
  ::usleep(50'000);
  std::filesystem::create_symlink("../d3/x", path("d1/new"));
  std::filesystem::rename(path("d1/new"), path("d1/b"));
  for (int n = 0; n < 20'000 && !passes; ++n) ::usleep(1000);
  EXPECT_TRUE(passes) << "the link in the middle was not watched";
  stop.request_stop();
  waiter.join();
}

TEST_F(GuardFlags, AFileThatChangesByAnotherNameIsSeenInTheEnd) {
  std::filesystem::create_directories(path("far"));
  write(path("a"), "no");
  std::filesystem::create_hard_link(path("a"), path("far/b"));
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::file_contains(path("a"), "yes"), Block{}, {}});
  std::thread writer([&] {
    while (!flag.verdict()) ::usleep(1000);
    write(path("far/b"), "yes");
  });
  EXPECT_TRUE(passed(flag.wait(executor(), {.timeout = 60s, .recheck = 20ms})));
  writer.join();
}

TEST_F(GuardFlags, TwoThatWakeEachOtherComeToRest) {
  std::atomic<int> runs = 0;
  class Counting final : public GuardCommands {
   public:
    explicit Counting(std::atomic<int>& runs) : runs_(runs) {}
    CommandResult run(const std::string&, const GuardDeadline&) override {
      return {false, "run " + std::to_string(runs_.fetch_add(1))};  // each time another reason
    }

   private:
    std::atomic<int>& runs_;
  };
  const GuardExecutor ask{{.commands = std::make_shared<Counting>(runs)}};
  std::stop_source stop;
  std::vector<std::thread> waiters;
  Session session{segment_};
  for (const char* const name : {"p1", "p2"}) {
    (void)GuardFlag::add(session, {name, C::command("x"), Block{}, {"guard:*"}});
    waiters.emplace_back([&, name] {
      GuardFlag flag{session, name};
      (void)flag.wait(ask, {.stop = stop.get_token(), .recheck = 1h});
    });
  }
  while (runs < 2) ::usleep(1000);
  ::usleep(500'000);
  stop.request_stop();
  for (std::thread& one : waiters) one.join();
  EXPECT_LT(runs, 20);
}

TEST_F(GuardFlags, AWaitEndsWithItsTimeAndWithItsStop) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_held("main"), Block{}, {}});
  const auto began = std::chrono::steady_clock::now();
  const GuardOutcome late = flag.wait(executor(), {.timeout = 150ms});
  EXPECT_GE(std::chrono::steady_clock::now() - began, 150ms);
  EXPECT_FALSE(may_proceed(late));
  EXPECT_FALSE(may_proceed(flag.wait(executor(), {.timeout = 0s})));
  std::stop_source stop;
  std::thread stopper([&] {
    ::usleep(50'000);
    stop.request_stop();
  });
  EXPECT_FALSE(may_proceed(flag.wait(executor(), {.stop = stop.get_token()})));
  stopper.join();
  GuardFlag::remove(session, "g");
  EXPECT_EQ(error_of([&] { (void)flag.wait(executor(), {}); }), Errc::not_found);
}

TEST_F(GuardFlags, ARemovalIsToldToWhoWaits) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_held("main"), Block{}, {}});
  std::thread remover([&] {
    while (!flag.verdict()) ::usleep(1000);
    GuardFlag::remove(session, "g");
  });
  EXPECT_EQ(error_of([&] { (void)flag.wait(executor(), {}); }), Errc::name_removed);
  remover.join();
}

// Whatever it asks, also where nothing but the segment could wake it.
TEST_F(GuardFlags, AWaitEndsWithItsSegment) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_held("main"), Block{}, {}});
  std::thread remover([&] {
    while (!flag.verdict()) ::usleep(1000);
    Segment::remove(name_, true);
  });
  EXPECT_EQ(error_of([&] { (void)flag.wait(executor(), {}); }), Errc::segment_gone);
  remover.join();
  (void)Segment::create(name_);  // as the fixture wants to find it
}

// Each reason once and in its order, whatever others find meanwhile.
TEST_F(GuardFlags, AWaitTellsWhatItFinds) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_held("a") && C::lock_held("b"), Block{}, {}});
  Lock a{session, "a"};
  Lock b{session, "b"};
  std::vector<std::string> told;
  const auto tell = [&](const GuardOutcome& outcome) {
    told.push_back(reason(outcome));
    (void)flag.evaluate(GuardExecutor{{}});  // somebody who sees no segment
    if (told.size() < 3) (told.size() == 1 ? a : b).lock();
  };
  const GuardOutcome outcome = flag.wait(executor(), {.timeout = 60s, .on_outcome = tell});
  EXPECT_TRUE(passed(outcome));
  EXPECT_EQ(told, (std::vector<std::string>{"lock 'a' is free", "lock 'b' is free", "passed"}));
  a.unlock();
  b.unlock();
  EXPECT_THROW((void)flag.wait(executor(), {.on_outcome = [](const auto&) { throw std::runtime_error("enough"); }}),
               std::runtime_error);
}

// C-23.
TEST_F(GuardFlags, TheActionDecidesWhatAFailureIs) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.commands->command("check", false);
  const GuardExecutor ask{fakes.ports()};
  GuardFlag warn = GuardFlag::add(session, {"warn", C::command("check"), Warn{}, {}});
  const GuardOutcome warned = warn.wait(ask, {});
  EXPECT_FALSE(passed(warned));
  EXPECT_TRUE(may_proceed(warned));
  GuardFlag fail = GuardFlag::add(session, {"fail", C::command("check"), Fail{"no"}, {}});
  const GuardOutcome failed = fail.wait(ask, {});
  EXPECT_FALSE(may_proceed(failed));
  EXPECT_EQ(std::get<GuardFailed>(failed).action, GuardAction(Fail{"no"}));
  GuardFlag retry = GuardFlag::add(session, {"retry", C::command("check"), Retry{20ms}, {}});
  std::thread repair([&] {
    while (fakes.commands->asked("check") < 6) ::usleep(1000);
    fakes.commands->command("check", true);
  });
  EXPECT_TRUE(passed(retry.wait(ask, {.recheck = 1h})));
  repair.join();
}

TEST_F(GuardFlags, WhatCannotNotifyIsAskedAgainAtTheInterval) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.commands->command("check", false);
  GuardFlag flag = GuardFlag::add(session, {"g", C::command("check"), Block{}, {}});
  std::thread repair([&] {
    while (fakes.commands->asked("check") < 5) ::usleep(1000);
    fakes.commands->command("check", true);
  });
  EXPECT_TRUE(passed(flag.wait(GuardExecutor{fakes.ports()}, {.recheck = 20ms})));
  repair.join();
}

// A command is not run because somebody takes a lock that the condition does not name, or one that does not change.
TEST_F(GuardFlags, EventsThatChangeNothingRunNoCommand) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.commands->command("check", false);
  GuardPorts ports = fakes.ports();
  ports.primitives = primitives_of(segment_);
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main") && C::command("check"), Block{}, {}});
  std::stop_source stop;
  std::thread waiter([&] { (void)flag.wait(GuardExecutor{ports}, {.stop = stop.get_token(), .recheck = 1h}); });
  while (!flag.verdict()) ::usleep(1000);
  Lock other{session, "other"};
  for (int i = 0; i < 100; ++i) {
    other.lock();
    other.unlock();
  }
  ::usleep(200'000);
  EXPECT_EQ(fakes.commands->asked("check"), 1U);
  Lock main{session, "main"};
  main.lock();
  // Locks are asked last: only a verdict about the lock says that it was seen held.
  const auto is_about_main = [&] {
    const auto seen = flag.verdict();  // none while it is being written
    return seen && seen->reason.find("main") != std::string::npos;
  };
  while (!is_about_main()) ::usleep(1000);
  EXPECT_EQ(fakes.commands->asked("check"), 2U);
  main.unlock();
  while (fakes.commands->asked("check") < 3) ::usleep(1000);
  stop.request_stop();
  waiter.join();
}

TEST_F(GuardFlags, APatternOfItsOwnWakesIt) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.commands->command("check", false);
  GuardFlag flag = GuardFlag::add(session, {"g", C::command("check"), Block{}, {"guard:*", "lock:released"}});
  std::thread waiter([&] { EXPECT_TRUE(passed(flag.wait(GuardExecutor{fakes.ports()}, {.recheck = 1h}))); });
  while (!flag.verdict()) ::usleep(1000);
  ::usleep(100'000);
  EXPECT_EQ(fakes.commands->asked("check"), 1U) << "it wakes itself";
  fakes.commands->command("check", true);
  Lock any{session, "any"};
  any.lock();
  any.unlock();
  waiter.join();
}

TEST_F(GuardFlags, AKilledWaiterIsMissedByNobody) {
  Session session{segment_};
  Lock lock{session, "main"};
  lock.lock();
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main"), Block{}, {}});
  for (int round = 0; round < 10; ++round) {
    Child waiter([&](int ready) {
      Session own{segment_};
      GuardFlag same{own, "g"};
      testing::say(ready, 'w');
      (void)same.wait(executor(), {});
    });
    ASSERT_EQ(waiter.next(), 'w');
    ::usleep(static_cast<unsigned>(round) * 500);
    waiter.kill(SIGKILL);
    waiter.wait();
  }
  std::thread waiter([&] { EXPECT_TRUE(passed(flag.wait(executor(), {.recheck = 1h}))); });
  const auto is_mine = [&] {
    const auto seen = flag.verdict();
    return seen && seen->pid == ::getpid();
  };
  while (!is_mine()) ::usleep(1000);
  lock.unlock();
  waiter.join();
}

TEST_F(GuardFlags, AWaiterSleeps) {
  Session session{segment_};
  Lock lock{session, "main"};
  lock.lock();
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main"), Block{}, {}});
  std::atomic<int> tid = 0;
  std::stop_source stop;
  std::thread waiter([&] {
    tid = ::gettid();
    (void)flag.wait(executor(), {.stop = stop.get_token()});
  });
  while (!flag.verdict()) ::usleep(1000);
  const auto switches = [&] {
    std::ifstream status("/proc/self/task/" + std::to_string(tid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("voluntary_ctxt_switches:")) return std::stoi(line.substr(24));
    }
    return -1;
  };
  ::usleep(200'000);
  const int before = switches();
  ::usleep(3'000'000);
  EXPECT_LE(switches() - before, 5);
  stop.request_stop();
  waiter.join();
}

// S1-151.

}  // namespace
}  // namespace shmcoord
