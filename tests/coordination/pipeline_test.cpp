#include "shmcoord/pipeline.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

// The rules of a pipeline: each step in each state, and walks at random.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using C = GuardCondition;
using Step = Pipeline::Step;

GuardOutcome passed() { return GuardPassed{}; }
GuardOutcome failed(GuardAction action, const std::string& reason = "not yet") {
  return GuardFailed{"g", std::move(action), reason};
}

/// "pipeline:blocked build (not yet)" for each.
std::vector<std::string> told(const std::vector<Event>& effects) {
  std::vector<std::string> texts;
  for (const Event& e : effects) {
    texts.push_back(std::string(e.name()) + " " + e.other + (e.reason.empty() ? "" : " (" + e.reason + ")"));
  }
  return texts;
}
using Told = std::vector<std::string>;

/// The whole of it, to see that nothing else changed.
std::string text_of(const Pipeline& p) {
  std::string text(to_string(p.status()));
  text += " " + p.phase().name + " " + std::to_string(static_cast<int>(p.step()));
  if (p.blocked()) text += " blocked: " + p.blocked()->waiting_on;
  if (!p.failure().empty()) text += " failed: " + p.failure();
  return text;
}

Pipeline guarded() {
  return {"release",
          {{.name = "build",
            .command = {"make"},
            .guards = PhaseGuards().with_pre(C::lock_free("main")).with_post(C::file_exists("out"))},
           {.name = "deploy", .command = {"deploy"}, .guards = PhaseGuards().with_pre(C::lock_free("host"))}}};
}

Pipeline holding() {
  return {"p",
          {{.name = "a",
            .command = {"make"},
            .guards = PhaseGuards().with_pre(C::lock_free("l")).with_post(C::file_exists("out")),
            .locks = {"main"},
            .permits = {{"agents", 2}}},
           {.name = "b", .locks = {"main"}}}};
}

TEST(Pipeline, GoesThroughItsPhasesAndTellsEach) {
  Step s = guarded().start();
  EXPECT_EQ(text_of(s.pipeline), "running build 0");
  EXPECT_EQ(told(s.effects), Told{});
  ASSERT_TRUE(s.pipeline.guard_to_evaluate());
  EXPECT_EQ(s.pipeline.guard_to_evaluate()->name, "release/build/pre");
  EXPECT_FALSE(s.pipeline.runs_command());

  s = s.pipeline.apply_guard_result(GuardType::pre, passed());
  EXPECT_EQ(told(s.effects), (Told{"phase:entered build"}));
  EXPECT_TRUE(s.pipeline.runs_command());
  EXPECT_FALSE(s.pipeline.guard_to_evaluate());

  s = s.pipeline.finish_phase();
  EXPECT_EQ(told(s.effects), Told{});
  ASSERT_TRUE(s.pipeline.guard_to_evaluate());
  EXPECT_EQ(s.pipeline.guard_to_evaluate()->name, "release/build/post");
  EXPECT_EQ(s.pipeline.guard_to_evaluate()->condition, C::file_exists("out"));

  s = s.pipeline.apply_guard_result(GuardType::post, passed());
  EXPECT_EQ(told(s.effects), (Told{"phase:left build"}));
  EXPECT_EQ(s.pipeline.guard_to_evaluate()->name, "release/deploy/pre");
  s = s.pipeline.apply_guard_result(GuardType::pre, passed());
  s = s.pipeline.finish_phase();
  EXPECT_EQ(told(s.effects), (Told{"phase:left deploy", "pipeline:completed deploy"}));
  EXPECT_EQ(text_of(s.pipeline), "done deploy 3");
  EXPECT_FALSE(s.pipeline.guard_to_evaluate());
  EXPECT_EQ(s.effects[0].subject, "release");
}

TEST(Pipeline, WithoutGuardsIsOnlyItsCommands) {
  Step s = Pipeline{"p", {{.name = "a"}, {.name = "b", .command = {"x"}}}}.start();
  EXPECT_EQ(told(s.effects), (Told{"phase:entered a"}));
  EXPECT_FALSE(s.pipeline.runs_command()) << "there is none in it";
  s = s.pipeline.finish_phase();
  EXPECT_EQ(told(s.effects), (Told{"phase:left a", "phase:entered b"}));
  EXPECT_TRUE(s.pipeline.runs_command());
  s = s.pipeline.finish_phase();
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::done);
}

TEST(Pipeline, IsBlockedWithTheReasonAndResumed) {
  const Step started = guarded().start();
  Step s = started.pipeline.apply_guard_result(GuardType::pre, failed(Block{}, "lock 'main' is held by 'ci'"));
  EXPECT_EQ(told(s.effects), (Told{"pipeline:blocked build (lock 'main' is held by 'ci')"}));
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::blocked);
  ASSERT_TRUE(s.pipeline.blocked());
  EXPECT_EQ(*s.pipeline.blocked(),
            (PhaseBlocked{"lock 'main' is held by 'ci'", "release/build/pre", "lock_free(main)", {"lock:*"}, 0ns}));
  ASSERT_TRUE(s.pipeline.guard_to_evaluate()) << "it is evaluated again";
  EXPECT_FALSE(s.pipeline.runs_command());

  s = s.pipeline.apply_guard_result(GuardType::pre, failed(Block{}, "lock 'main' is held by 'ci'"));
  EXPECT_EQ(told(s.effects), Told{}) << "for the same reason: nothing new";
  s = s.pipeline.apply_guard_result(GuardType::pre, failed(Block{}, "lock 'main' is held by 'nightly'"));
  EXPECT_EQ(told(s.effects), Told{}) << "nor for another one, which others would be woken by for ever";
  EXPECT_EQ(s.pipeline.blocked()->waiting_on, "lock 'main' is held by 'nightly'");
  s = s.pipeline.apply_guard_result(GuardType::pre, passed());
  EXPECT_EQ(told(s.effects), (Told{"pipeline:resumed build", "phase:entered build"}));
  EXPECT_FALSE(s.pipeline.blocked());
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::running);
}

// C-24.
TEST(Pipeline, APostGuardThatFailedIsAskedAgainWithoutRunningThePhaseAgain) {
  Step s = guarded().start().pipeline.apply_guard_result(GuardType::pre, passed()).pipeline.finish_phase();
  s = s.pipeline.apply_guard_result(GuardType::post, failed(Block{}));
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::blocked);
  EXPECT_EQ(s.pipeline.blocked()->guard_id, "release/build/post");
  EXPECT_FALSE(s.pipeline.runs_command());
  EXPECT_THROW((void)s.pipeline.finish_phase(), Error);
  s = s.pipeline.apply_guard_result(GuardType::post, passed());
  EXPECT_EQ(told(s.effects), (Told{"pipeline:resumed build", "phase:left build"}));
  EXPECT_EQ(s.pipeline.phase().name, "deploy");
}

// C-23.
TEST(Pipeline, TheActionDecides) {
  const Pipeline p = guarded().start().pipeline;
  Step s = p.apply_guard_result(GuardType::pre, failed(Warn{}, "dirty"));
  EXPECT_EQ(told(s.effects), (Told{"guard:failed release (dirty)", "phase:entered build"}));
  EXPECT_EQ(s.effects[0].subject, "release/build/pre");
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::running);

  s = p.apply_guard_result(GuardType::pre, failed(Retry{5s}));
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::blocked);
  EXPECT_EQ(s.pipeline.blocked()->retry_after, 5s);

  s = p.apply_guard_result(GuardType::pre, failed(Fail{"give up"}, "the lock is held"));
  EXPECT_EQ(told(s.effects), (Told{"pipeline:failed build (give up: the lock is held)"}));
  EXPECT_EQ(text_of(s.pipeline), "failed build 0 failed: give up: the lock is held");
  EXPECT_TRUE(is_over(s.pipeline.status()));

  EXPECT_TRUE(Pipeline::can_proceed_with_guard(passed()));
  EXPECT_TRUE(Pipeline::can_proceed_with_guard(failed(Warn{})));
  for (const GuardAction& action : {GuardAction(Block{}), GuardAction(Retry{1s}), GuardAction(Fail{"x"})}) {
    EXPECT_FALSE(Pipeline::can_proceed_with_guard(failed(action)));
  }
}

TEST(Pipeline, APhaseIsEnteredWhenItHoldsWhatItNeeds) {
  Step s = holding().start().pipeline.apply_guard_result(GuardType::pre, passed());
  EXPECT_EQ(told(s.effects), Told{}) << "it is not in yet";
  EXPECT_EQ(s.pipeline.step(), PhaseStep::acquiring);
  EXPECT_FALSE(s.pipeline.guard_to_evaluate());
  EXPECT_FALSE(s.pipeline.runs_command());
  s = s.pipeline.wait_for_holds("lock 'main', held by 'ci'");
  EXPECT_EQ(told(s.effects), (Told{"pipeline:blocked a (lock 'main', held by 'ci')"}));
  EXPECT_EQ(*s.pipeline.blocked(), (PhaseBlocked{"lock 'main', held by 'ci'", {}, {}, {"lock:*", "semaphore:*"}, 0ns}));
  EXPECT_EQ(told(s.pipeline.wait_for_holds("semaphore 'agents'").effects), Told{});
  s = s.pipeline.holds_acquired();
  EXPECT_EQ(told(s.effects), (Told{"pipeline:resumed a", "phase:entered a"}));
  EXPECT_TRUE(s.pipeline.runs_command());
  EXPECT_EQ(told(s.pipeline.holds_acquired().effects), Told{}) << "of another runner, who acquired it anew";
  s = s.pipeline.finish_phase().pipeline.apply_guard_result(GuardType::post, passed());
  EXPECT_EQ(told(s.effects), (Told{"phase:left a"}));
  EXPECT_EQ(s.pipeline.step(), PhaseStep::acquiring) << "a phase without a guard before it";
  s = s.pipeline.holds_acquired();
  EXPECT_EQ(told(s.effects), (Told{"phase:entered b"}));
  EXPECT_EQ(s.pipeline.finish_phase().pipeline.status(), PipelineStatus::done);
}

TEST(Pipeline, WhoGoesOnBeginsWhereItWas) {
  const Pipeline entering = holding().start().pipeline;
  const Pipeline acquiring = entering.apply_guard_result(GuardType::pre, passed()).pipeline;
  const Pipeline inside = acquiring.holds_acquired().pipeline;
  const Pipeline leaving = inside.finish_phase().pipeline;
  const Pipeline second = leaving.apply_guard_result(GuardType::post, passed()).pipeline;
  const auto resumed = [](const Pipeline& p) {
    const Step s = p.resume();
    EXPECT_EQ(told(s.effects), (Told{"pipeline:resumed " + p.phase().name}));
    return text_of(s.pipeline);
  };
  EXPECT_EQ(text_of(holding().resume().pipeline), "running a 0");
  EXPECT_EQ(resumed(entering), "running a 0");
  EXPECT_EQ(resumed(acquiring), "running a 0") << "the guard is to hold when the phase is entered";
  EXPECT_EQ(resumed(acquiring.wait_for_holds("x").pipeline), "running a 0");
  EXPECT_EQ(resumed(inside), "running a 2") << "the command is run again";
  EXPECT_EQ(resumed(leaving), "running a 3") << "it is not";
  EXPECT_EQ(resumed(leaving.apply_guard_result(GuardType::post, failed(Block{})).pipeline), "running a 3");
  EXPECT_EQ(resumed(second), "running b 1") << "no guard to go back to";
  EXPECT_EQ(resumed(inside.finish_phase("exit code 2").pipeline), "running a 2");
  EXPECT_EQ(resumed(leaving.fail("lost lock 'main'").pipeline), "running a 3");
  EXPECT_EQ(told(leaving.fail("lost lock 'main'").effects), (Told{"pipeline:failed a (phase 'a': lost lock 'main')"}));
}

// In each state that there is.
TEST(Pipeline, ItsProgressIsReadBackAsItWas) {
  const Pipeline entering = holding().start().pipeline;
  const Pipeline acquiring = entering.apply_guard_result(GuardType::pre, passed()).pipeline;
  const Pipeline inside = acquiring.holds_acquired().pipeline;
  const Pipeline leaving = inside.finish_phase().pipeline;
  const Pipeline last = leaving.apply_guard_result(GuardType::post, passed()).pipeline.holds_acquired().pipeline;
  for (const Pipeline& p : {holding(), entering, acquiring, inside, leaving, last, last.finish_phase().pipeline,
                            entering.apply_guard_result(GuardType::pre, failed(Block{}, "no \"x\"")).pipeline,
                            leaving.apply_guard_result(GuardType::post, failed(Block{}, "é")).pipeline,
                            acquiring.wait_for_holds("x").pipeline, inside.wait_for_holds("x").pipeline,
                            inside.finish_phase("exit code 2").pipeline, inside.cancel().pipeline}) {
    const Pipeline read = holding().with_progress(p.progress());
    EXPECT_EQ(text_of(read), text_of(p));
    EXPECT_EQ(read.blocked(), p.blocked());
    EXPECT_EQ(read.progress(), p.progress());
  }
}

TEST(Pipeline, ItsProgressFitsIntoTheReasonOfAHold) {
  const Pipeline entering = holding().start().pipeline;
  for (const std::string& piece : {std::string("long "), std::string("\\"), std::string("\x01"), std::string("é")}) {
    std::string reason;
    while (reason.size() < 10'000) reason += piece;
    const Pipeline p = entering.apply_guard_result(GuardType::pre, failed(Block{}, reason)).pipeline;
    EXPECT_LE(p.progress().size(), 4096U);
    const Pipeline read = holding().with_progress(p.progress());
    EXPECT_GT(read.blocked()->waiting_on.size(), 400U);
  }
}

TEST(Pipeline, WhatIsNoProgressOfItIsRefused) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      (void)holding().with_progress(text);
      return "taken";
    } catch (const Error& e) {
      return e.errc() == Errc::invalid_argument ? e.what() : "another error";
    }
  };
  const auto says = [&](const std::string& part, const std::string& text) {
    EXPECT_NE(message(text).find(part), std::string::npos) << part << ": " << message(text);
  };
  says("taken", R"({"status":"running","phase":"b","step":"inside"})");
  says("not an object", "");
  says("not an object", "[]");
  says("'gone' is not known", R"({"status":"gone","phase":"b","step":"inside"})");
  says("'out' is not known", R"({"status":"running","phase":"b","step":"out"})");
  says("no phase 'c'", R"({"status":"running","phase":"c","step":"inside"})");
  says("\"phase\" is no text", R"({"status":"running","phase":7,"step":"inside"})");
  says("taken", R"({"status":"waiting","phase":"a","step":"entering"})");
  says("was in no phase", R"({"status":"waiting","phase":"b","step":"entering"})");
  says("was in no phase", R"({"status":"waiting","phase":"a","step":"inside"})");
  says("was in no phase", R"({"status":"waiting","phase":"a","step":"entering","failure":"x"})");
  says("has no such guard", R"({"status":"running","phase":"b","step":"entering"})");
  says("has no such guard", R"({"status":"running","phase":"b","step":"leaving"})");
  says("cannot be blocked on ''", R"({"status":"blocked","phase":"a","step":"entering"})");
  says("cannot be blocked on 'guard'", R"({"status":"blocked","phase":"a","step":"inside","on":"guard"})");
  says("cannot be blocked on 'holds'", R"({"status":"blocked","phase":"a","step":"entering","on":"holds"})");
}

TEST(Pipeline, WhatItIsWokenBy) {
  const auto woken_by = [](const PhaseGuards& guards) {
    const Pipeline p{"p", {{.name = "a", .guards = guards}}};
    return p.start().pipeline.apply_guard_result(GuardType::pre, failed(Block{})).pipeline.blocked()->wake_on;
  };
  const PhaseGuards pre = PhaseGuards().with_pre(C::all({C::lock_free("l"), C::semaphore_available("s")}));
  EXPECT_EQ(woken_by(pre), (std::vector<std::string>{"lock:*", "semaphore:*"}));
  EXPECT_EQ(woken_by(pre.with_wake_on({"session:left"})), (std::vector<std::string>{"session:left"}));
}

TEST(Pipeline, ACommandThatFailsEndsIt) {
  Step s = guarded().start().pipeline.apply_guard_result(GuardType::pre, passed());
  s = s.pipeline.finish_phase("exit code 2");
  EXPECT_EQ(told(s.effects), (Told{"pipeline:failed build (phase 'build': exit code 2)"}));
  EXPECT_EQ(s.pipeline.status(), PipelineStatus::failed);
}

// Each state that there is, and what is refused in it. A refusal changes nothing: each step is another value.
TEST(Pipeline, WhatDoesNotFitToTheStateIsRefused) {
  const Pipeline waiting = guarded();
  const Pipeline entering = waiting.start().pipeline;
  const Pipeline inside = entering.apply_guard_result(GuardType::pre, passed()).pipeline;
  const Pipeline leaving = inside.finish_phase().pipeline;
  const Pipeline blocked_before = entering.apply_guard_result(GuardType::pre, failed(Block{})).pipeline;
  const Pipeline blocked_behind = leaving.apply_guard_result(GuardType::post, failed(Retry{1s})).pipeline;
  const Pipeline done = leaving.apply_guard_result(GuardType::post, passed())
                            .pipeline.apply_guard_result(GuardType::pre, passed())
                            .pipeline.finish_phase()
                            .pipeline;
  const Pipeline failing = inside.finish_phase("no").pipeline;
  const Pipeline cancelled = blocked_before.cancel().pipeline;
  const Pipeline acquiring = holding().start().pipeline.apply_guard_result(GuardType::pre, passed()).pipeline;
  const Pipeline blocked_on_holds = acquiring.wait_for_holds("lock 'main'").pipeline;
  const Pipeline holding_inside = acquiring.holds_acquired().pipeline;
  EXPECT_EQ(cancelled.status(), PipelineStatus::cancelled);
  EXPECT_FALSE(cancelled.blocked());
  EXPECT_EQ(told(blocked_before.cancel().effects), (Told{"pipeline:failed build (cancelled)"}));

  struct Row {
    const char* state;
    const Pipeline* pipeline;
    std::set<std::string> allowed;
  };
  const std::map<std::string, std::function<void(const Pipeline&)>> inputs{
      {"start", [](const Pipeline& p) { (void)p.start(); }},
      {"pre", [](const Pipeline& p) { (void)p.apply_guard_result(GuardType::pre, passed()); }},
      {"post", [](const Pipeline& p) { (void)p.apply_guard_result(GuardType::post, failed(Block{})); }},
      {"finish", [](const Pipeline& p) { (void)p.finish_phase(); }},
      {"cancel", [](const Pipeline& p) { (void)p.cancel(); }},
      {"resume", [](const Pipeline& p) { (void)p.resume(); }},
      {"fail", [](const Pipeline& p) { (void)p.fail("no"); }},
      {"wait", [](const Pipeline& p) { (void)p.wait_for_holds("lock 'main'"); }},
      {"holds", [](const Pipeline& p) { (void)p.holds_acquired(); }},
  };
  const std::set<std::string> always{"cancel", "resume", "fail"};
  const auto and_always = [&](std::set<std::string> more) {
    more.insert(always.begin(), always.end());
    return more;
  };
  for (const Row& row :
       {Row{"waiting", &waiting, {"start", "resume", "cancel"}}, Row{"entering", &entering, and_always({"pre"})},
        Row{"inside", &inside, and_always({"finish"})}, Row{"leaving", &leaving, and_always({"post"})},
        Row{"blocked before", &blocked_before, and_always({"pre"})},
        Row{"blocked behind", &blocked_behind, and_always({"post"})},
        Row{"acquiring", &acquiring, and_always({"wait", "holds"})},
        Row{"blocked on holds", &blocked_on_holds, and_always({"wait", "holds"})},
        Row{"inside, holding", &holding_inside, and_always({"finish", "wait", "holds"})}, Row{"done", &done, {}},
        Row{"failed", &failing, {"resume"}}, Row{"cancelled", &cancelled, {}}}) {
    for (const auto& [name, input] : inputs) {
      const std::string before = text_of(*row.pipeline);
      bool refused = false;
      try {
        input(*row.pipeline);
      } catch (const Error& e) {
        refused = e.errc() == Errc::invalid_argument;
      }
      EXPECT_EQ(refused, !row.allowed.contains(name)) << row.state << ", " << name;
      EXPECT_EQ(text_of(*row.pipeline), before);
    }
  }
}

TEST(Pipeline, WhatCannotBeOneIsRefused) {
  const auto message = [](const std::string& id, std::vector<GuardedPhase> phases) -> std::string {
    try {
      const Pipeline p(id, std::move(phases));
      return "taken";
    } catch (const Error& e) {
      return e.errc() == Errc::invalid_argument ? e.what() : "another error";
    }
  };
  const auto says = [&](const std::string& part, const std::string& id, std::vector<GuardedPhase> phases) {
    const std::string said = message(id, std::move(phases));
    EXPECT_NE(said.find(part), std::string::npos) << part << ": " << said;
  };
  says("the id of the pipeline '' is empty", "", {{.name = "a"}});
  says("has no phases", "p", {});
  says("two phases 'a'", "p", {{.name = "a"}, {.name = "b"}, {.name = "a"}});
  says("the name of phase 2", "p", {{.name = "a"}, {.name = "b\n"}});
  says("holds 'l' twice", "p", {{.name = "a", .locks = {"l"}, .permits = {{"l", 1}}}});
  says("holds 'p', which is the pipeline itself", "p", {{.name = "a", .locks = {"p"}}});
  says("the weight", "p", {{.name = "a", .permits = {{"s", 0}}}});
  says("lock '' is empty", "p", {{.name = "a", .guards = PhaseGuards().with_pre(C::lock_free(""))}});
  says("matches no event", "p",
       {{.name = "a", .guards = PhaseGuards().with_pre(C::lock_free("l")).with_wake_on({"lok:*"})}});
  says("the delay of a retry", "p", {{.name = "a", .guards = PhaseGuards().with_post(C::lock_free("l"), Retry{0s})}});
  says("taken", "p", {{.name = "a", .locks = {"l"}, .permits = {{"s", 2}}}});
}

// Whatever its guards and commands answer: no phase is entered twice or out of turn, none is entered before the one
// before was left, and what is told adds up to where it is.
TEST(Pipeline, NeverGoesBack) {
  std::minstd_rand random(20'261'129);
  for (int walk = 0; walk < 2'000; ++walk) {
    std::vector<GuardedPhase> phases;
    const std::size_t count = 1 + random() % 5;
    for (std::size_t n = 0; n < count; ++n) {
      GuardedPhase phase{.name = "phase " + std::to_string(n)};
      if (random() % 2 == 0) phase.guards = phase.guards.with_pre(C::lock_free("l"));
      if (random() % 2 == 0) phase.guards = phase.guards.with_post(C::lock_free("l"));
      if (random() % 2 == 0) phase.locks = {"main"};
      phases.push_back(phase);
    }
    Step s = Pipeline("p", phases).start();
    std::size_t entered = 0;
    std::size_t left = 0;
    bool blocked = false;
    bool taken_over = false;
    for (int steps = 0;; ++steps) {
      ASSERT_LT(steps, 1'000);
      for (const Event& e : s.effects) {
        if (e.kind == EventKind::phase_entered) {
          ASSERT_EQ(entered, left);
          ASSERT_EQ(e.other, "phase " + std::to_string(entered++));
        }
        if (e.kind == EventKind::phase_left) {
          ASSERT_EQ(e.other, "phase " + std::to_string(left++));
          ASSERT_EQ(entered, left);
        }
        if (e.kind == EventKind::pipeline_blocked) blocked = true;
        if (e.kind == EventKind::pipeline_resumed) {
          ASSERT_TRUE(blocked || taken_over);
          blocked = false;
        }
      }
      const Pipeline& p = s.pipeline;
      ASSERT_EQ(p.blocked().has_value(), p.status() == PipelineStatus::blocked);
      ASSERT_TRUE(blocked || p.status() != PipelineStatus::blocked);
      ASSERT_EQ(Pipeline("p", phases).with_progress(p.progress()).progress(), p.progress());
      taken_over = random() % 20 == 0 && p.status() != PipelineStatus::done && p.status() != PipelineStatus::cancelled;
      if (is_over(p.status()) && !taken_over) break;
      if (taken_over) {
        s = p.resume();
      } else if (random() % 100 == 0) {
        s = p.cancel();
      } else if (p.step() == PhaseStep::acquiring) {
        s = random() % 2 == 0 ? p.wait_for_holds("x") : p.holds_acquired();
      } else if (const auto guard = p.guard_to_evaluate()) {
        const GuardType type = p.step() == PhaseStep::entering ? GuardType::pre : GuardType::post;
        const std::vector<GuardOutcome> outcomes{passed(), failed(Block{}), failed(Block{}, "other"), failed(Warn{}),
                                                 failed(Retry{1s})};
        s = p.apply_guard_result(type, random() % 50 == 0 ? failed(Fail{"x"}) : outcomes[random() % outcomes.size()]);
      } else {
        s = p.finish_phase(random() % 50 == 0 ? "no" : "");
      }
    }
    const bool done = s.pipeline.status() == PipelineStatus::done;
    ASSERT_EQ(done, left == count);
    ASSERT_LE(entered - left, 1U);
  }
}

}  // namespace
}  // namespace shmcoord
