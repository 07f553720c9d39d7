#include "coordination/guard_flag_fixture.hpp"

// Registered guards, with real processes: the definition and its verdict.

namespace shmcoord {
namespace {

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
TEST_F(GuardFlags, OneThatIsRefusedForWantOfRoomLeavesNothing) {
  const std::string name = name_ + "-small";
  {
    const Segment small = Segment::create(name, {.names = 40, .entries = 64, .sessions = 8});
    Session session{small};
    std::vector<C> all;
    for (int n = 0; n < 150; ++n) all.push_back(C::file_exists(std::string(400, 'x') + std::to_string(n)));
    EXPECT_EQ(error_of([&] { (void)GuardFlag::add(session, {"big", C::all(all), Block{}, {}}); }), Errc::table_full);
    const process::Picture picture =
        process::take_picture(*detail::Access::mapping(small), engine::RealPolicy::now_ns());
    EXPECT_TRUE(picture.locks.empty()) << "not even the name";
    EXPECT_TRUE(picture.snapshot.entries.empty());
    Lock lock{session, "zz"};
    EXPECT_TRUE(lock.try_acquire(HolderId{"q"})) << "there is room again";
    (void)GuardFlag::add(session, {"big", C::lock_free("zz"), Block{}, {}});
  }
  Segment::remove(name, true);
}

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
