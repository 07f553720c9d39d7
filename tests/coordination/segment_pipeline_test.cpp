#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "coordination/segment_pipeline_fixture.hpp"

// Pipelines in a segment: running, waiting, cancelling, taking over. Runners run in threads or children; whoever kills
// them looks what is left.

namespace shmcoord {
namespace {

// Verification of the requirements on phases: blocks with the reason, is woken by the event, goes on (S1-132 to S1-136,
// S1-150).
TEST_F(SegmentPipelines, pipeline_gating) {
  Session session{segment_};
  Heard heard(session, {"pipeline:*", "phase:*", "guard:*"});
  Lock main{session, "main"};
  ASSERT_TRUE(main.try_acquire(HolderId("ci")));
  GuardedPhase build = phase("build");
  build.guards = PhaseGuards().with_pre(C::lock_free("main")).with_post(C::file_exists(path("out")));
  SegmentPipeline p = SegmentPipeline::add(session, {"release", {build, phase("deploy")}});
  EXPECT_EQ(status("release"), PipelineStatus::waiting);
  std::vector<std::string> ran;
  auto result = Result::busy;
  std::thread runs([&] {
    Session own{segment_};
    SegmentPipeline same(own, "release");
    result = same.run(executor(), options(ran));
  });
  wait_for("release", PipelineStatus::blocked);
  const PipelineListing blocked = look("release");
  ASSERT_TRUE(blocked.pipeline.blocked());
  EXPECT_EQ(blocked.pipeline.blocked()->guard_id, "release/build/pre");
  EXPECT_NE(blocked.pipeline.blocked()->waiting_on.find("held by 'ci'"), std::string::npos)
      << blocked.pipeline.blocked()->waiting_on;
  EXPECT_EQ(blocked.pipeline.blocked()->wake_on, std::vector<std::string>{"lock:*"});
  ASSERT_TRUE(blocked.runner);
  EXPECT_EQ(blocked.runner->pid, ::getpid());
  EXPECT_TRUE(blocked.runner->alive);

  (void)main.release(HolderId("ci"));
  while (look("release").pipeline.step() != PhaseStep::leaving) ::usleep(1000);
  wait_for("release", PipelineStatus::blocked);
  EXPECT_EQ(look("release").pipeline.blocked()->guard_id, "release/build/post");
  write(path("out"));
  runs.join();
  EXPECT_EQ(result, Result::done);
  EXPECT_EQ(ran, (std::vector<std::string>{"build", "deploy"})) << "the post guard did not run it again (C-24)";
  EXPECT_EQ(status("release"), PipelineStatus::done);
  EXPECT_FALSE(look("release").runner);
  ASSERT_TRUE(heard.has("pipeline:completed release deploy"));
  EXPECT_EQ(
      heard.all(),
      (std::vector<std::string>{
          "guard:evaluating release/build/pre release", "guard:failed release/build/pre release",
          "pipeline:blocked release build", "guard:passed release/build/pre release", "pipeline:resumed release build",
          "phase:entered release build", "guard:evaluating release/build/post release",
          "guard:failed release/build/post release", "pipeline:blocked release build",
          "guard:passed release/build/post release", "pipeline:resumed release build", "phase:left release build",
          "phase:entered release deploy", "phase:left release deploy", "pipeline:completed release deploy"}));
}

TEST_F(SegmentPipelines, APhaseHoldsItsLocksUntilItIsLeft) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 3}};
  GuardedPhase build = phase("build");
  build.locks = {"main"};
  build.permits = {{"agents", 2}};
  build.guards = PhaseGuards().with_post(C::file_exists(path("out")));
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {build, phase("deploy")}});
  PipelineRunOptions o;
  std::vector<std::string> seen;
  const auto held = [&] {
    Session other{segment_};
    const auto lock = Lock{other, "main"}.holder();
    return (lock ? lock->holder : "free") + " " + std::to_string(agents.available());
  };
  o.run_command = [&](const PhaseRun& run) {
    std::string tokens;
    for (const auto& [name, token] : run.tokens) tokens += " " + name + (token == 0 ? " 0" : "");
    seen.push_back(run.pipeline.phase().name + " " + held() + tokens);
    return std::string();
  };
  o.on_change = [&](const Pipeline& now) {
    if (now.blocked()) {
      seen.push_back("blocked " + held());
      write(path("out"));
    }
  };
  EXPECT_EQ(p.run(executor(), o), Result::done);
  EXPECT_EQ(seen,
            (std::vector<std::string>{"build pipeline:p 1 main agents", "blocked pipeline:p 1", "deploy free 3"}));
}

TEST_F(SegmentPipelines, ItSaysWhatItsPhaseWaitsFor) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 3}};
  Permit two{agents, 2};
  GuardedPhase build = phase("build");
  build.permits = {{"agents", 2}};
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {build}});
  std::vector<std::string> ran;
  PipelineRunOptions o = options(ran);
  std::string waiting;
  o.on_change = [&](const Pipeline& now) {
    if (!now.blocked()) return;
    waiting = now.blocked()->guard_id + now.blocked()->waiting_on;
    EXPECT_EQ(status("p"), PipelineStatus::blocked);
    std::thread([&] { two.release(); }).join();
  };
  EXPECT_EQ(p.run(executor(), o), Result::done);
  EXPECT_EQ(waiting, "semaphore 'agents', 1 of 3 free, and 2 needed");
  EXPECT_EQ(ran, std::vector<std::string>{"build"});
}

TEST_F(SegmentPipelines, WhatItCannotHaveFailsThePhase) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 3}};
  GuardedPhase build = phase("build");
  std::vector<std::string> ran;
  const auto fails = [&](const std::string& id, const PhasePermits& permits) {
    build.permits = {permits};
    SegmentPipeline p = SegmentPipeline::add(session, {id, {build}});
    EXPECT_EQ(p.run(executor(), options(ran)), Result::failed);
    return p.look().pipeline.failure();
  };
  EXPECT_NE(fails("missing", {"nobody", 1}).find("no semaphore 'nobody'"), std::string::npos);
  EXPECT_NE(fails("much", {"agents", 4}).find("capacity"), std::string::npos);
  EXPECT_TRUE(ran.empty());
  // It can be resumed when that was put right.
  agents.resize(4);
  SegmentPipeline p(session, "much");
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
}

TEST_F(SegmentPipelines, AKilledRunnerIsSeenFreesAllAndIsFollowed) {
  Session session{segment_};
  GuardedPhase build = phase("build");
  build.locks = {"main"};
  build.guards = PhaseGuards().with_pre(C::lock_free("other"));
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {phase("first"), build, phase("last")}});
  // Killed in the first phase, by one who comes back in the second, and is killed again.
  for (int killed = 0; killed < 2; ++killed) {
    Child child([&](int ready) {
      Session own{segment_};
      SegmentPipeline same(own, "p");
      PipelineRunOptions o;
      o.run_command = [&](const PhaseRun& run) {
        if (static_cast<int>(run.pipeline.current()) == killed) {
          testing::say(ready, 'i');
          ::pause();
        }
        return std::string();
      };
      (void)same.run(executor(), o);
    });
    ASSERT_EQ(child.next(), 'i');
    EXPECT_EQ(p.run(executor(), {.run_command = [](const PhaseRun&) { return std::string(); }}), Result::busy);
    child.kill(SIGKILL);
    const auto runs = [](const PipelineListing& seen) { return seen.runner && seen.runner->alive; };
    while (runs(look("p"))) ::usleep(1000);
    const PipelineListing left = look("p");
    EXPECT_EQ(left.pipeline.status(), PipelineStatus::running);
    EXPECT_EQ(left.pipeline.phase().name, killed == 0 ? "first" : "build");
    EXPECT_EQ(left.pipeline.step(), PhaseStep::inside);
    if (killed == 1) {
      Session other{segment_};
      EXPECT_TRUE(Lock(other, "main").acquire(HolderId("x"), {}, 60s));
    }
  }
  std::vector<std::string> ran;
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
  EXPECT_EQ(ran, (std::vector<std::string>{"build", "last"})) << "the command whose end is not written down, again";
}

TEST_F(SegmentPipelines, IsCancelledWhoeverRunsIt) {
  Session session{segment_};
  Heard heard(session, {"pipeline:failed"});
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {phase("a"), phase("b")}});
  auto result = Result::busy;
  std::thread runs([&] {
    Session own{segment_};
    SegmentPipeline same(own, "p");
    PipelineRunOptions o;
    o.run_command = [](const PhaseRun& run) {
      while (!run.stop.stop_requested()) ::usleep(1000);
      return std::string("ended");
    };
    result = same.run(executor(), o);
  });
  while (look("p").pipeline.step() != PhaseStep::inside) ::usleep(1000);
  EXPECT_TRUE(p.cancel());
  runs.join();
  EXPECT_EQ(result, Result::cancelled);
  EXPECT_EQ(status("p"), PipelineStatus::cancelled);
  EXPECT_FALSE(p.cancel()) << "it is over";
  std::vector<std::string> ran;
  EXPECT_EQ(p.run(executor(), options(ran)), Result::cancelled) << "for good";
  EXPECT_TRUE(ran.empty());
  ASSERT_TRUE(heard.has("pipeline:failed p a"));
  EXPECT_EQ(heard.all().size(), 1U);
}

TEST_F(SegmentPipelines, IsCancelledWhileItWaitsOrNobodyRunsIt) {
  Session session{segment_};
  Lock main{session, "main"};
  ASSERT_TRUE(main.try_acquire(HolderId("ci")));
  for (const bool by_guard : {true, false}) {
    const std::string id = by_guard ? "guarded" : "locked";
    GuardedPhase build = phase("build");
    if (by_guard) build.guards = PhaseGuards().with_pre(C::lock_free("main"));
    if (!by_guard) build.locks = {"main"};
    SegmentPipeline p = SegmentPipeline::add(session, {id, {build}});
    auto result = Result::busy;
    std::thread runs([&] {
      Session own{segment_};
      std::vector<std::string> ran;
      SegmentPipeline same(own, id);
      result = same.run(executor(), options(ran));
    });
    wait_for(id, PipelineStatus::blocked);
    EXPECT_TRUE(p.cancel());
    runs.join();
    EXPECT_EQ(result, Result::cancelled);
  }
  SegmentPipeline alone = SegmentPipeline::add(session, {"alone", {phase("a")}});
  EXPECT_TRUE(alone.cancel());
  EXPECT_EQ(status("alone"), PipelineStatus::cancelled);
}

TEST_F(SegmentPipelines, ALostLockFailsThePhaseAndALostRunnerEndsTheRun) {
  Session session{segment_};
  Session operators{segment_};
  GuardedPhase build = phase("build");
  build.locks = {"main"};
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {build}});
  const auto take_away = [&](const std::string& name, engine::Kind kind, const std::string& from) {
    const auto& state = detail::Access::usable_state(operators);
    const auto client = process::PrimitiveClient::find(state->participant, name, kind);
    for (const PermitHolder& h : client->holders()) {
      if (!h.holder.starts_with(from)) continue;
      EXPECT_TRUE(client->force_release(h.holder));
    }
  };
  const auto run_and = [&](const std::function<void()>& meanwhile) {
    PipelineRunOptions o;
    o.run_command = [&](const PhaseRun& run) {
      std::thread(meanwhile).join();
      while (!run.stop.stop_requested()) ::usleep(1000);
      return std::string("ended");
    };
    return p.run(executor(), o);
  };
  EXPECT_EQ(run_and([&] { take_away("main", engine::Kind::lock, "pipeline:p"); }), Result::failed);
  EXPECT_NE(p.look().pipeline.failure().find("lost lock 'main'"), std::string::npos) << p.look().pipeline.failure();
  EXPECT_EQ(run_and([&] { take_away("p", engine::Kind::pipeline, "runner "); }), Result::lost);
  EXPECT_EQ(status("p"), PipelineStatus::running);
  std::vector<std::string> ran;
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
}

TEST_F(SegmentPipelines, WhoIsStoppedLeavesItToBeResumed) {
  Session session{segment_};
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {phase("a"), phase("b")}});
  std::stop_source stop;
  PipelineRunOptions o;
  o.stop = stop.get_token();
  std::vector<std::string> ran;
  o.run_command = [&](const PhaseRun& run) {
    ran.push_back(run.pipeline.phase().name);
    stop.request_stop();
    return std::string(ran.size() == 1 ? "" : "interrupted");
  };
  EXPECT_EQ(p.run(executor(), o), Result::stopped);
  EXPECT_EQ(look("p").pipeline.phase().name, "b") << "what was done is done";
  stop = {};
  o.stop = stop.get_token();
  EXPECT_EQ(p.run(executor(), o), Result::stopped) << "an interrupted command says nothing about the phase";
  EXPECT_EQ(status("p"), PipelineStatus::running);
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
  EXPECT_EQ(ran, (std::vector<std::string>{"a", "b", "b"}));
}

TEST_F(SegmentPipelines, OneThatIsOverIsBegunAnewAndNoOther) {
  Session session{segment_};
  const Pipeline one{"p", {phase("a")}};
  const Pipeline other{"p", {phase("b")}};
  std::vector<std::string> ran;
  SegmentPipeline p = SegmentPipeline::add(session, one);
  EXPECT_NO_THROW((void)SegmentPipeline::add(session, one)) << "it waits, as it was";
  EXPECT_EQ(error_of([&] { (void)SegmentPipeline::add(session, other); }), Errc::config_differs);
  EXPECT_EQ(p.run(executor(), {.run_command = [](const PhaseRun&) { return std::string("exit code 1"); }}),
            Result::failed);
  EXPECT_NO_THROW((void)SegmentPipeline::add(session, other)) << "it failed";
  EXPECT_EQ(look("p").pipeline.phases()[0].name, "b");
  EXPECT_EQ(status("p"), PipelineStatus::waiting);
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
  EXPECT_NO_THROW((void)SegmentPipeline::add(session, one)) << "it is done";
  {
    Child child = runner("p");
    ASSERT_EQ(child.next(), 'i');
    EXPECT_EQ(error_of([&] { (void)SegmentPipeline::add(session, one); }), Errc::in_use);
    EXPECT_EQ(error_of([&] { SegmentPipeline::remove(session, "p"); }), Errc::in_use);
    child.kill(SIGKILL);
  }
  EXPECT_EQ(error_of([&] { (void)SegmentPipeline::add(session, one); }), Errc::in_use) << "it is to be resumed";
  EXPECT_EQ(error_of([&] { (void)Lock(session, "p"); }), Errc::wrong_type);
  EXPECT_NO_THROW(SegmentPipeline::remove(session, "p"));
  EXPECT_EQ(error_of([&] { (void)p.look(); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { SegmentPipeline::remove(session, "p"); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { (void)SegmentPipeline(session, "p"); }), Errc::not_found);
  EXPECT_TRUE(SegmentPipeline::list(segment_).empty());
}

TEST_F(SegmentPipelines, WaitsForAnotherOne) {
  Session session{segment_};
  GuardedPhase after = phase("after");
  after.guards = PhaseGuards().with_pre(C::all({C::pipeline_complete("first"), C::negation(C::lock_held("x"))}));
  SegmentPipeline second = SegmentPipeline::add(session, {"second", {after}});
  SegmentPipeline first = SegmentPipeline::add(session, {"first", {phase("a")}});
  std::vector<std::string> ran;
  auto result = Result::busy;
  std::thread runs([&] {
    Session own{segment_};
    SegmentPipeline same(own, "second");
    result = same.run(executor(), options(ran));
  });
  wait_for("second", PipelineStatus::blocked);
  std::vector<std::string> ran_first;
  PipelineRunOptions o = options(ran_first);
  o.run_command = [&](const PhaseRun&) {
    const auto port = pipelines_of(segment_);
    EXPECT_EQ(port->state("first", {}).phase, "a");
    EXPECT_FALSE(port->state("first", {}).complete);
    EXPECT_EQ(port->state("second", {}).phase, "") << "it is not in yet";
    EXPECT_THROW((void)port->state("third", {}), std::runtime_error);
    return std::string();
  };
  EXPECT_EQ(first.run(executor(), o), Result::done);
  runs.join();
  EXPECT_EQ(result, Result::done);
  EXPECT_EQ(pipelines_of(segment_)->state("first", {}), (PipelineState{"", true}));
}

TEST_F(SegmentPipelines, TwoThreadsOfOneSessionAreTwoRunners) {
  Session session{segment_};
  SegmentPipeline p = SegmentPipeline::add(session, {"p", {phase("a")}});
  PipelineRunOptions o;
  o.run_command = [&](const PhaseRun&) {
    auto second = Result::done;
    std::thread([&] { second = p.run(executor(), o); }).join();
    EXPECT_EQ(second, Result::busy);
    return std::string();
  };
  EXPECT_EQ(p.run(executor(), o), Result::done);
}

// A guard of a phase by itself (S1-130), and what wakes it (S1-131).
TEST_F(SegmentPipelines, AGuardOfAPhaseIsToldWithThePipeline) {
  Session session{segment_};
  Heard heard(session, {"guard:"});
  const Guard guard{"p/a/pre", C::lock_held("main"), Block{}, {}};
  EXPECT_FALSE(passed(evaluate_phase_guard(session, "p", guard, executor())));
  Lock main{session, "main"};
  ASSERT_TRUE(main.try_acquire(HolderId("x")));
  EXPECT_TRUE(passed(evaluate_phase_guard(session, "p", guard, executor())));
  ASSERT_TRUE(heard.has("guard:passed p/a/pre p"));
  EXPECT_EQ(heard.all(), (std::vector<std::string>{"guard:evaluating p/a/pre p", "guard:failed p/a/pre p",
                                                   "guard:evaluating p/a/pre p", "guard:passed p/a/pre p"}));
}

}  // namespace
}  // namespace shmcoord
