#include "shmcoord/guard_executor.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "process/snapshot.hpp"
#include "shmcoord/testing.hpp"
#include "support/face_fixture.hpp"

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using C = GuardCondition;

struct Fakes : testing::FakePorts {
  GuardExecutor executor{ports()};

  bool passes(const C& condition) const {
    return executor.evaluate(condition, {}) == ConditionResult(ConditionPassed{});
  }
  std::string reason(const C& condition, const GuardExecutor::Limits& limits = {}) const {
    const GuardOutcome said = executor.evaluate(Guard{"g", condition, Block{}, {}}, limits);
    const auto* const failed = std::get_if<GuardFailed>(&said);
    return failed == nullptr ? "passed" : failed->reason;
  }
};

TEST(GuardExecutor, AsksEachPortForItsOwn) {
  const Fakes f;
  f.primitives->free_lock("free").held_lock("held", {"me"}).free_permits("s", 2);
  f.issues->issue("7", IssueStatus::blocked, {"x"}).issue("8", IssueStatus::done);
  f.repository->branch("x").branch("clean").merged("fix", "main");
  f.files->file("there", {"x"});
  f.sessions->alive("builder");
  f.pipelines->pipeline("p", "test").pipeline("over", "", true);
  f.commands->command("true", true).command("false", false);
  for (const C& c :
       {C::lock_free("free"), C::lock_held("held"), C::lock_held("held", "me"), C::semaphore_available("s", 2),
        C::no_blocked_issues({.labels = {"x"}}), C::issue_status("8", IssueStatus::done), C::branch_exists("x"),
        C::branch_not_exists("absent"), C::branch_clean("clean"), C::branch_merged("fix", "main"),
        C::file_exists("there"), C::file_not_exists("x"), C::file_contains("there", "x"), C::session_alive("builder"),
        C::pipeline_in_phase("p", "test"), C::pipeline_complete("over"), C::command("true"),
        C::command("false", false)}) {
    if (c.type() == "no_blocked_issues") {
      EXPECT_FALSE(f.passes(c));
    } else {
      EXPECT_TRUE(f.passes(c)) << c.str();
    }
    EXPECT_NE(f.passes(!c), f.passes(c)) << c.str();
  }
}

// C-18.
TEST(GuardExecutor, AnUnknownLockIsFreeAndAnUnknownSemaphoreIsAFailure) {
  const Fakes f;
  EXPECT_EQ(f.reason(C::lock_free("unknown")), "passed");
  EXPECT_EQ(f.reason(C::semaphore_available("unknown")),
            "the state of semaphore 'unknown' is not known: there is no such semaphore");
  EXPECT_NE(f.reason(!C::semaphore_available("unknown")), "passed");
}

TEST(GuardExecutor, APortThatThrowsIsAFailureWithItsReason) {
  const Fakes f;
  f.repository->fails("throws", "not a git repository");
  f.repository->fails("throws-anything", std::nullopt);
  f.files->file("there");
  EXPECT_EQ(f.reason(C::branch_not_exists("throws")),
            "whether branch 'throws' exists is not known: not a git repository");
  EXPECT_EQ(f.reason(C::branch_exists("throws-anything")),
            "whether branch 'throws-anything' exists is not known: for a reason that is not known");
  EXPECT_EQ(f.reason(C::branch_exists("throws") || C::file_exists("there")), "passed");
  const GuardExecutor nothing{{}};
  const GuardInputs inputs = nothing.gather(C::parse("lock_free(a) && command(b) && branch_exists(c)"), {});
  EXPECT_EQ(inputs.failures.size(), 3U);
  EXPECT_EQ(inputs.failures.at({GuardInputKind::lock_state, "a"}), "no segment to ask");
  EXPECT_EQ(inputs.failures.at({GuardInputKind::custom_check, "b"}), "no commands to ask");
  EXPECT_EQ(inputs.failures.at({GuardInputKind::branch_exists, "c"}), "no repository to ask");
}

TEST(GuardExecutor, ACommandThatFailedTellsHow) {
  const Fakes f;
  f.commands->command("make", false, "exit code 2: no rule").command("test", false);
  EXPECT_EQ(f.reason(C::command("make")), "command 'make' failed: exit code 2: no rule");
  EXPECT_EQ(f.reason(C::command("test") && C::command("make")), "command 'test' failed");
  EXPECT_EQ(f.reason(C::command("none", false)), "how command 'none' ends is not known: it cannot be run");
}

// All are in the port at the same time, or this would not come to an end.
TEST(GuardExecutor, SlowOnesAreAskedSideBySide) {
  const Fakes f;
  std::vector<C> all;
  for (int n = 0; n < 8; ++n) {
    const std::string name = "b" + std::to_string(n);
    f.repository->branch(name).hangs(name);
    all.push_back(C::branch_exists(name));
  }
  std::thread helper([&] {
    f.repository->await_hanging(8);
    f.repository->let_go();
  });
  EXPECT_TRUE(f.passes(C::all(all)));
  helper.join();
}

TEST(GuardExecutor, ManyAreAskedByFewThreads) {
  const Fakes f;
  std::vector<C> all;
  for (int n = 0; n < 500; ++n) {
    const std::string name = "b" + std::to_string(n);
    f.repository->branch(name).hangs(name);
    all.push_back(C::branch_exists(name));
  }
  std::thread helper([&] {
    f.repository->await_hanging(16);
    f.repository->let_go();
  });
  EXPECT_TRUE(f.passes(C::all(all)));
  helper.join();
  EXPECT_EQ(f.repository->most_at_once(), 16U);
  EXPECT_EQ(f.repository->asked(), 500U);
  EXPECT_EQ(f.repository->asked("b7"), 1U);
}

TEST(GuardExecutor, WhoHangsCostsNoMoreThanTheDeadline) {
  const Fakes f;
  f.repository->branch("hangs").hangs("hangs");
  f.files->file("there");
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(f.reason(C::branch_exists("hangs") && C::file_exists("there"), {.timeout = 50ms, .stop = {}}),
            "whether branch 'hangs' exists is not known: no answer in time");
  EXPECT_GE(std::chrono::steady_clock::now() - began, 50ms);
  // What answered is known all the same.
  EXPECT_EQ(f.reason(C::branch_exists("hangs") || C::file_exists("there"), {.timeout = 500ms, .stop = {}}), "passed");
  f.repository->await_hanging(0);  // whoever heeds the deadline is told, and comes back
}

TEST(GuardExecutor, WhoDoesNotHeedTheDeadlineIsLeftBehind) {
  const Fakes f;
  f.repository->hangs("deaf", testing::Fake::Heeds::nothing);
  EXPECT_EQ(f.reason(C::branch_exists("deaf"), {.timeout = 20ms, .stop = {}}),
            "whether branch 'deaf' exists is not known: no answer in time");
  f.repository->await_hanging(1);
  f.repository->let_go();
  f.repository->await_hanging(0);
}

TEST(GuardExecutor, AStopEndsIt) {
  const Fakes f;
  f.repository->hangs("hangs");
  std::stop_source stop;
  std::thread stopper([&] {
    f.repository->await_hanging(1);
    stop.request_stop();
  });
  EXPECT_EQ(f.reason(C::branch_exists("hangs"), {.timeout = 1h, .stop = stop.get_token()}),
            "whether branch 'hangs' exists is not known: asking was stopped");
  stopper.join();
  f.repository->await_hanging(0);
}

// --- a segment -----------------------------------------------------------------------------------------------------

class GuardOfASegment : public testing::FaceTest {
 protected:
  GuardExecutor executor_{{.primitives = primitives_of(segment_), .sessions = sessions_of(segment_)}};

  std::string reason(const char* text) {
    const GuardOutcome said = executor_.evaluate(Guard{"g", C::parse(text), Block{}, {}}, {});
    const auto* const failed = std::get_if<GuardFailed>(&said);
    return failed == nullptr ? "passed" : failed->reason;
  }
};

TEST_F(GuardOfASegment, SaysWhatIsTrueOfIt) {
  EXPECT_EQ(reason("lock_free(main)"), "passed");  // there is none, and none is made by looking
  EXPECT_EQ(reason("lock_held(main)"), "lock 'main' is free");
  EXPECT_EQ(reason("semaphore_available(agents)"),
            "the state of semaphore 'agents' is not known: there is no such semaphore");
  EXPECT_EQ(reason("session_alive(builder)"), "session 'builder' is not alive");
  Session session{segment_, {.label = "builder"}};
  EXPECT_EQ(reason("session_alive(builder)"), "passed");
  Lock main{session, "main"};
  EXPECT_EQ(reason("lock_free(main)"), "passed");
  const HolderId me("pipeline:42");
  ASSERT_TRUE(main.try_acquire(me));
  EXPECT_EQ(reason("lock_free(main)"), "lock 'main' is held by 'pipeline:42'");
  EXPECT_EQ(reason("lock_held(main, pipeline:42)"), "passed");
  EXPECT_EQ(reason("lock_held(main, you)"), "lock 'main' is held by 'pipeline:42', not by 'you'");
  (void)main.release(me);
  main.lock();  // a holder without an id
  EXPECT_EQ(reason("lock_free(main)"), "lock 'main' is held");
  EXPECT_EQ(reason("lock_held(main)"), "passed");
  main.unlock();
  Semaphore agents{session, "agents", {.capacity = 4}};
  ASSERT_TRUE(agents.try_acquire(me, 3));
  EXPECT_EQ(reason("semaphore_available(agents)"), "passed");
  EXPECT_EQ(reason("semaphore_available(agents, 2)"), "semaphore 'agents' has 1 free, 2 are needed");
  EXPECT_EQ(reason("lock_free(agents)"), "the state of lock 'agents' is not known: it is a semaphore, not a lock");
  EXPECT_EQ(reason("semaphore_available(main)"),
            "the state of semaphore 'main' is not known: it is a lock, not a semaphore");
}

// Nobody else is there to bury it; a guard waits for the dead as little as a lock does.
TEST_F(GuardOfASegment, WhoIsDeadHoldsNothing) {
  testing::Child holder([&](int ready) {
    Session session{segment_, {.label = "dies"}};
    Lock main{session, "main"};
    Semaphore agents{session, "agents", {.capacity = 4}};
    const HolderId me("dies");
    testing::say(ready, main.try_acquire(me) && agents.try_acquire(me, 3) ? 'h' : 'x');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  EXPECT_EQ(reason("lock_free(main)"), "lock 'main' is held by 'dies'");
  EXPECT_EQ(reason("session_alive(dies) && !semaphore_available(agents, 2)"), "passed");
  holder.kill(SIGKILL);
  holder.wait();
  EXPECT_EQ(reason("lock_free(main) && semaphore_available(agents, 4) && !session_alive(dies)"), "passed");
}

// No write access is needed, and nothing is made.
TEST_F(GuardOfASegment, LookingChangesNothing) {
  Session session{segment_};
  Lock main{session, "main"};
  main.lock();
  const auto& mapping = *detail::Access::mapping(segment_);
  const auto names = [&] { return process::names_in_use(mapping.view()); };
  const auto before = names();
  EXPECT_EQ(reason("!lock_free(main) && lock_free(other) && !session_alive(nobody)"), "passed");
  EXPECT_EQ(names(), before);
  main.unlock();
}

}  // namespace
}  // namespace shmcoord
