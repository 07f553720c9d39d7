#include "shmcoord/guard_flag.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shmcoord/testing.hpp"
#include "support/face_fixture.hpp"

// Registered guards, with real processes. Waiters run in threads or children; whoever kills them looks what is left.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using C = GuardCondition;
using testing::Child;

bool passed(const GuardOutcome& outcome) { return std::holds_alternative<GuardPassed>(outcome); }
std::string reason(const GuardOutcome& outcome) {
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  return failed == nullptr ? "passed" : failed->reason;
}
template <class F>
Errc error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.errc();
  }
  return Errc{};
}

/// Files as this process sees them.
class RealFiles final : public GuardFiles {
 public:
  bool exists(const std::string& path, const GuardDeadline&) override {
    asked.fetch_add(1);
    return std::filesystem::exists(path);
  }
  bool contains(const std::string& path, const std::string& pattern, const GuardDeadline&) override {
    std::ifstream in(path);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    return all.find(pattern) != std::string::npos;
  }
  std::atomic<int> asked = 0;
};

class GuardFlags : public testing::FaceTest {
 protected:
  GuardFlags() : directory_(std::filesystem::temp_directory_path() / name_) {
    std::filesystem::create_directories(directory_);
  }
  ~GuardFlags() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] GuardExecutor executor() const {
    return GuardExecutor{{.primitives = primitives_of(segment_), .sessions = sessions_of(segment_), .files = files_}};
  }
  [[nodiscard]] std::string path(const std::string& file) const { return (directory_ / file).string(); }
  static void write(const std::string& path, const std::string& text = "") { std::ofstream(path) << text; }
  /// One that needs several parts.
  static Guard long_guard(const std::string& name, char word) {
    std::vector<C> all;
    for (int i = 0; i < 40; ++i) all.push_back(C::lock_free(std::string(200, word) + std::to_string(i)));
    return {name, C::all(all), Block{}, {}};
  }

  std::filesystem::path directory_;
  std::shared_ptr<RealFiles> files_ = std::make_shared<RealFiles>();
};

TEST_F(GuardFlags, IsThereForEverybodyUntilItIsRemoved) {
  const Guard release{"release", C::parse("lock_free(main) && !file_exists('.hold')"), Retry{5s}, {"lock:released"}};
  Child adder([&](int) {
    Session session{segment_};
    (void)GuardFlag::add(session, release);
  });
  EXPECT_EQ(adder.wait(), 0);
  Session session{segment_};
  const GuardFlag flag{session, "release"};
  EXPECT_EQ(flag.guard().condition, release.condition);
  EXPECT_EQ(flag.guard().on_failure, release.on_failure);
  EXPECT_EQ(flag.guard().wake_on, release.wake_on);
  EXPECT_FALSE(flag.verdict());
  (void)GuardFlag::add(session, release);  // again is fine
  ASSERT_EQ(GuardFlag::list(segment_).size(), 1U);
  GuardFlag::remove(session, "release");
  EXPECT_TRUE(GuardFlag::list(segment_).empty());
  EXPECT_EQ(error_of([&] { (void)GuardFlag(session, "release"); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)flag.guard(); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { GuardFlag::remove(session, "release"); }), Errc::not_found);
}

TEST_F(GuardFlags, AnotherDefinitionIsRefusedWithBoth) {
  Session session{segment_};
  (void)GuardFlag::add(session, {"g", C::lock_free("a"), Block{}, {}});
  try {
    (void)GuardFlag::add(session, {"g", C::lock_free("b"), Block{}, {}});
    FAIL() << "it was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::config_differs);
    EXPECT_NE(std::string(e.what()).find("lock_free(a)"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("lock_free(b)"), std::string::npos) << e.what();
  }
  EXPECT_EQ(GuardFlag(session, "g").guard().condition, C::lock_free("a"));
}

TEST_F(GuardFlags, ANameIsOfOneKind) {
  Session session{segment_};
  const Lock lock{session, "lock"};
  const Semaphore semaphore{session, "semaphore", {.capacity = 2}};
  (void)GuardFlag::add(session, {"guard", C::lock_free("lock"), Block{}, {}});
  for (const char* taken : {"lock", "semaphore"}) {
    EXPECT_EQ(error_of([&] {
                (void)GuardFlag::add(session, {taken, C::lock_free("x"), Block{}, {}});
              }),
              Errc::wrong_type);
    EXPECT_EQ(error_of([&] { (void)GuardFlag(session, taken); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { GuardFlag::remove(session, taken); }), Errc::wrong_type);
  }
  EXPECT_EQ(error_of([&] { (void)Lock(session, "guard"); }), Errc::wrong_type);
  EXPECT_EQ(error_of([&] { Lock::remove(session, "guard", true); }), Errc::wrong_type);
  EXPECT_EQ(error_of([&] { (void)executor().evaluate(C::lock_free("guard"), {}); }), Errc{});
}

TEST_F(GuardFlags, WhatCannotBeIsRefusedAndMakesNothing) {
  Session session{segment_};
  const auto refused = [&](const Guard& guard) {
    return error_of([&] { (void)GuardFlag::add(session, guard); }) == Errc::invalid_argument;
  };
  EXPECT_TRUE(refused({"", C::lock_free("a"), Block{}, {}}));
  EXPECT_TRUE(refused({"g", C::lock_free(""), Block{}, {}}));
  EXPECT_TRUE(refused({"g", C::lock_free("a"), Retry{0s}, {}}));
  EXPECT_TRUE(refused({"g", C::lock_free("a"), Block{}, {"lo*k"}}));
  EXPECT_TRUE(refused({"g", C::lock_free("a"), Fail{std::string(5000, 'x')}, {}}));
  EXPECT_TRUE(GuardFlag::list(segment_).empty());
}

TEST_F(GuardFlags, ALongDefinitionIsThereWholeOrNotAtAllWhenItsAdderIsKilledAnywhere) {
  const Guard a = long_guard("long", 'a');
  const Guard b = long_guard("long", 'b');
  std::mt19937 random(4711);
  int there = 0;
  for (int round = 0; round < 60; ++round) {
    Child adder([&](int ready) {
      Session session{segment_};
      testing::say(ready, 'r');
      (void)GuardFlag::add(session, round % 2 == 0 ? a : b);
      testing::say(ready, 'd');
      ::pause();
    });
    ASSERT_EQ(adder.next(), 'r');
    ::usleep(static_cast<unsigned>(random() % 600));
    adder.kill(SIGKILL);
    adder.wait();
    Session session{segment_};
    const auto seen = GuardFlag::list(segment_);
    if (!seen.empty()) {
      ++there;
      EXPECT_EQ(seen[0].guard.condition, round % 2 == 0 ? a.condition : b.condition);
      EXPECT_EQ(error_of([&] { (void)GuardFlag::add(session, round % 2 == 0 ? b : a); }), Errc::config_differs);
    } else {
      (void)GuardFlag::add(session, b);
      EXPECT_EQ(GuardFlag(session, "long").guard().condition, b.condition);
    }
    GuardFlag::remove(session, "long");
  }
  std::cout << "complete when killed: " << there << " of 60\n";
}

TEST_F(GuardFlags, ManyWhoAddDifferentOnesAgreeOnOne) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::unique_ptr<Child>> adders;
    for (int i = 0; i < 4; ++i) {
      adders.push_back(std::make_unique<Child>([&, i](int ready) {
        Session session{segment_};
        const Guard mine = long_guard("raced", static_cast<char>('a' + i));
        const Errc error = error_of([&] { (void)GuardFlag::add(session, mine); });
        const bool is_mine = GuardFlag(session, "raced").guard().condition == mine.condition;
        testing::say(ready, (error == Errc{}) == is_mine ? (is_mine ? 'm' : 'o') : 'x');
      }));
    }
    std::string said;
    for (const auto& adder : adders) said += adder->next();
    std::sort(said.begin(), said.end());
    EXPECT_EQ(said, "mooo");
    Session session{segment_};
    GuardFlag::remove(session, "raced");
  }
}

// --- verdicts -------------------------------------------------------------------------------------------------------

TEST_F(GuardFlags, guard_evaluation) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main"), Block{}, {}});
  Lock lock{session, "main"};
  EXPECT_TRUE(passed(flag.evaluate(executor())));
  ASSERT_TRUE(flag.verdict());
  EXPECT_TRUE(flag.verdict()->passed);
  EXPECT_EQ(flag.verdict()->reason, "");
  EXPECT_EQ(flag.verdict()->pid, ::getpid());
  lock.lock();
  const std::string why = reason(flag.evaluate(executor()));
  EXPECT_NE(why.find("main"), std::string::npos) << why;
  EXPECT_FALSE(flag.verdict()->passed);
  EXPECT_EQ(flag.verdict()->reason, why);
  lock.unlock();
  const auto listed = GuardFlag::list(segment_);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].verdict->reason, why);
}

TEST_F(GuardFlags, guard_evaluation_deterministic) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.primitives->held_lock("main", {"me"}).free_permits("agents", 1);
  const GuardExecutor ask{fakes.ports()};
  GuardFlag flag = GuardFlag::add(
      session, {"g", C::parse("any(lock_free(main), all(semaphore_available(agents), lock_held(main, you)))"), {}, {}});
  const GuardOutcome first = flag.evaluate(ask);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(flag.evaluate(ask), first);
  EXPECT_EQ(flag.verdict()->reason, reason(first));
}

TEST_F(GuardFlags, AReasonThatIsTooLongIsCutAtACharacter) {
  Session session{segment_};
  std::string name;
  for (int i = 0; i < 85; ++i) name += "ä";
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free(name) && C::lock_free(name), Block{}, {}});
  testing::FakePorts fakes;
  fakes.primitives->fails(name, std::string(200, 'x') + std::string("äöü"));
  const std::string why = reason(flag.evaluate(GuardExecutor{fakes.ports()}));
  ASSERT_GT(why.size(), 255U);
  const std::string kept = flag.verdict()->reason;
  EXPECT_LE(kept.size(), 254U);
  EXPECT_TRUE(kept.ends_with("…")) << kept;
  EXPECT_EQ(why.find(kept.substr(0, kept.size() - 3)), 0U);
}

TEST_F(GuardFlags, AnEvaluatorThatIsKilledLeavesAWholeVerdictOrNone) {
  Session session{segment_};
  GuardFlag flag = GuardFlag::add(session, {"g", C::lock_free("main"), Block{}, {}});
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    Child evaluator([&](int ready) {
      Session own{segment_};
      GuardFlag same{own, "g"};
      testing::FakePorts fakes;
      testing::say(ready, 'r');
      for (int i = 0;; ++i) {
        fakes.primitives->fails("main", std::string(100, static_cast<char>('a' + i % 26)));
        (void)same.evaluate(GuardExecutor{fakes.ports()});
      }
    });
    ASSERT_EQ(evaluator.next(), 'r');
    ::usleep(static_cast<unsigned>(random() % 2000));
    evaluator.kill(SIGKILL);
    evaluator.wait();
    const auto seen = flag.verdict();
    if (seen && !seen->passed) {
      ASSERT_GE(seen->reason.size(), 100U);
      const std::string tail = seen->reason.substr(seen->reason.size() - 100);
      EXPECT_EQ(tail, std::string(100, tail[0]));
    }
    if (round % 10 == 9) {
      EXPECT_TRUE(passed(flag.evaluate(executor())));
      EXPECT_TRUE(flag.verdict()->passed);
    }
  }
}

// --- waiting --------------------------------------------------------------------------------------------------------

// S1-150.
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
TEST_F(GuardFlags, TheCompositionsOfTheSpecificationRun) {
  Session session{segment_};
  testing::FakePorts fakes;
  fakes.repository->branch("y");
  GuardPorts ports = fakes.ports();
  ports.primitives = primitives_of(segment_);
  ports.files = files_;
  const GuardExecutor ask{ports};
  const Semaphore agents{session, "agents", {.capacity = 2}};
  GuardFlag all = GuardFlag::add(
      session, {"all", C::all({C::lock_free("main-branch"), C::semaphore_available("agents", 1)}), Block{}, {}});
  GuardFlag any = GuardFlag::add(session, {"any", C::any({C::branch_exists("x"), C::branch_exists("y")}), Block{}, {}});
  GuardFlag none = GuardFlag::add(session, {"not", C::negation(C::file_exists(path(".lock"))), Block{}, {}});
  for (GuardFlag* flag : {&all, &any, &none}) EXPECT_TRUE(passed(flag->wait(ask, {}))) << flag->name();
  Lock main{session, "main-branch"};
  main.lock();
  write(path(".lock"));
  EXPECT_FALSE(passed(all.evaluate(ask)));
  EXPECT_FALSE(passed(none.evaluate(ask)));
  main.unlock();
}

}  // namespace
}  // namespace shmcoord
