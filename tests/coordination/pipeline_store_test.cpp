#include "coordination/pipeline_store.hpp"

#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "coordination/segment_pipeline_fixture.hpp"
#include "process/clock.hpp"
#include "shmcoord/snapshot.hpp"

// What lies in the segment of a pipeline: which of several states counts, and what those who come at once make of it.

namespace shmcoord {
namespace {

class StoredPipelines : public SegmentPipelines {
 protected:
  StoredPipelines() : session_(segment_) {
    (void)SegmentPipeline::add(session_, definition_);
    client_ = process::PrimitiveClient::find(participant(), "p", engine::Kind::pipeline);
  }
  [[nodiscard]] const std::shared_ptr<process::Participant>& participant() {
    return detail::Access::usable_state(session_)->participant;
  }
  [[nodiscard]] coordination::StoredPipeline found() {
    return *coordination::find_pipeline(participant()->mapping(), "p");
  }
  /// As somebody might write it who was overtaken, at any time.
  void write(std::uint64_t run, const std::string& tag, const Pipeline& state, std::string definition = {}) {
    if (definition.empty()) definition = found().text.tag;
    coordination::keep(*client_, "state of " + definition + " in " + std::to_string(run) + " by " + tag,
                       state.progress(), "state");
  }

  /// As who removes it does first.
  void take_part() {
    const auto seen = coordination::look_at(participant()->mapping(), engine::Kind::pipeline, "p");
    (void)client_->release(coordination::parts_of_text(*seen).at(0));
  }

  const Pipeline definition_{"p", {phase("a"), phase("b")}};
  const Pipeline inside_ = definition_.start().pipeline;
  const Pipeline second_ = inside_.finish_phase().pipeline;
  const Pipeline done_ = second_.finish_phase().pipeline;
  Session session_;
  std::unique_ptr<process::PrimitiveClient> client_;
};

TEST_F(StoredPipelines, TheLaterStateCountsUnlessItsWriterWasOvertaken) {
  write(5, "1", inside_);
  EXPECT_EQ(found().pipeline.progress(), inside_.progress());
  write(5, "2", second_);
  EXPECT_EQ(found().pipeline.progress(), second_.progress());
  write(4, "3", done_);
  EXPECT_EQ(found().pipeline.progress(), second_.progress()) << "by an earlier runner";
  write(7, "4", inside_);
  EXPECT_EQ(found().pipeline.progress(), inside_.progress());
  write(7, "5", second_, "another");
  EXPECT_EQ(found().pipeline.progress(), inside_.progress()) << "of another definition by that name";
  EXPECT_EQ(found().idle.size(), 4U);
  EXPECT_EQ(found().run, 7U);
  write(7, "6", inside_.cancel().pipeline);
  write(9, "7", done_);
  EXPECT_EQ(found().pipeline.status(), PipelineStatus::cancelled) << "nothing comes after that";
}

TEST_F(StoredPipelines, WhatDoesNotCountIsTakenAwayByWhoeverGoesOn) {
  write(5, "1", inside_);
  write(5, "2", second_);
  write(4, "3", inside_);
  std::vector<std::string> ran;
  SegmentPipeline p(session_, "p");
  EXPECT_EQ(p.run(executor(), options(ran)), Result::done);
  EXPECT_EQ(ran, std::vector<std::string>{"b"});
  EXPECT_TRUE(found().idle.empty());
  EXPECT_EQ(client_->holders().size(), 2U) << "the definition and the state";
}

// Somebody was about to cancel, came too late for that, and died: what he left must not come to count when the state is
// given back that kept it from that.
TEST_F(StoredPipelines, WhatCameTooLateNeverCounts) {
  write(5, "1", inside_);
  PipelineRunOptions o;
  o.run_command = [&](const PhaseRun& run) {
    if (run.pipeline.phase().name == "a") write(5, "2", inside_.cancel().pipeline);
    EXPECT_EQ(found().pipeline.status(), PipelineStatus::running);
    return std::string();
  };
  SegmentPipeline p(session_, "p");
  EXPECT_EQ(p.run(executor(), o), Result::done);
  EXPECT_EQ(found().pipeline.status(), PipelineStatus::done);
  EXPECT_TRUE(found().idle.empty());
}

// Whoever cancelled died before he took the hold away.
TEST_F(StoredPipelines, ARunnerSeesThatItWasCancelledThoughItHasItsHold) {
  PipelineRunOptions o;
  std::vector<std::string> ran;
  o.run_command = [&](const PhaseRun& run) {
    ran.push_back(run.pipeline.phase().name);
    if (ran.back() == "b") write(found().run, "1", second_.cancel().pipeline);
    return std::string();
  };
  SegmentPipeline p(session_, "p");
  EXPECT_EQ(p.run(executor(), o), Result::cancelled);
  EXPECT_EQ(found().pipeline.status(), PipelineStatus::cancelled);
  EXPECT_EQ(ran, (std::vector<std::string>{"a", "b"}));
}

// Who takes over writes before anything else, so that the one before cannot any more.
TEST_F(StoredPipelines, WhoWasReplacedWritesInVain) {
  write(5, "1", inside_);
  PipelineRunOptions o;
  o.run_command = [&](const PhaseRun& run) {
    if (run.pipeline.phase().name == "a") write(5, "2", inside_.finish_phase("too late").pipeline);
    EXPECT_EQ(found().pipeline.status(), PipelineStatus::running);
    return std::string();
  };
  SegmentPipeline p(session_, "p");
  EXPECT_EQ(p.run(executor(), o), Result::done);
}

// What a removal that was killed left, and what is there besides, goes with the next one.
TEST_F(StoredPipelines, WhatIsLeftOfOneGoesToo) {
  write(5, "1", done_);
  take_part();
  EXPECT_TRUE(SegmentPipeline::list(segment_).empty());
  EXPECT_EQ(error_of([&] { (void)SegmentPipeline(session_, "p"); }), Errc::not_found);
  SegmentPipeline::remove(session_, "p");
  EXPECT_TRUE(client_->holders().empty());
  (void)SegmentPipeline::add(session_, definition_);
  EXPECT_EQ(status("p"), PipelineStatus::waiting);
}

// Nobody else would use the name, and what lies there would stay for ever.
TEST_F(StoredPipelines, WhatADeadOneLeftIsTakenAwayByTheReaper) {
  const auto& mapping = participant()->mapping();
  const auto now_ns = [] { return process::real_clock().now_ns(); };
  const auto by = [](const process::Participant& who) {
    return " by " + std::to_string(who.slot()) + "." + std::to_string(who.incarnation());
  };
  auto gone = process::Participant::join(participant()->shared_mapping());
  const std::string by_gone = by(*gone);
  const std::string by_us = by(*participant());
  gone.reset();
  process::PrimitiveClient other(participant(), "q", {.kind = engine::Kind::pipeline});
  coordination::keep(*client_, "part 1/2 of 7" + by_gone, "{", "part");
  coordination::keep(other, "part 1/2 of 8" + by_us, "{", "part");
  coordination::keep(other, "state of 9 in 3 by 4", "{}", "state");
  std::vector<coordination::Remains> all = coordination::all_remains(mapping, now_ns());
  ASSERT_EQ(all.size(), 1U) << "of 'q' somebody may be about to write the rest";
  EXPECT_EQ(all[0].name, "p");
  EXPECT_EQ(all[0].kind, engine::Kind::pipeline);
  coordination::take_away(participant(), all[0]);
  EXPECT_EQ(client_->holders().size(), 1U) << "the definition";
  EXPECT_EQ(status("p"), PipelineStatus::waiting);

  (void)other.release("part 1/2 of 8" + by_us);
  coordination::keep(other, "part 2/2 of 8" + by_gone, "}", "part");
  all = coordination::all_remains(mapping, now_ns());
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "q");
  EXPECT_EQ(all[0].holders.size(), 2U) << "the state too: it is of an earlier text";
  coordination::take_away(participant(), all[0]);
  EXPECT_FALSE(process::look_at(mapping, "q")) << "the name too";
  EXPECT_TRUE(coordination::all_remains(mapping, now_ns()).empty());
}

// Its maker lives, and whoever removed it was killed half way: what is left has the weight that only one can have.
TEST_F(StoredPipelines, WhoAddsTakesAwayWhatAKilledRemovalLeft) {
  const std::string holder =
      "part 2/2 of 8 by " + std::to_string(participant()->slot()) + "." + std::to_string(participant()->incarnation());
  process::PrimitiveClient other(participant(), "q", {.kind = engine::Kind::pipeline});
  process::Request last;
  last.holder = holder;
  last.weight = coordination::text_weight;
  last.no_lease = true;
  last.detached = true;
  ASSERT_TRUE(other.acquire(last, process::try_once));
  (void)SegmentPipeline::add(session_, Pipeline{"q", {phase("a")}});
  EXPECT_EQ(status("q"), PipelineStatus::waiting);
  EXPECT_EQ(other.holders().size(), 1U);
}

TEST_F(StoredPipelines, WhoReadsNonsenseSaysSo) {
  write(5, "1", inside_);
  coordination::keep(*client_, "state of " + found().text.tag + " in 6 by 2", "{\"status\":\"gone\"}", "state");
  EXPECT_EQ(error_of([&] { (void)SegmentPipeline(session_, "p"); }), Errc::segment_corrupt);
  EXPECT_TRUE(SegmentPipeline::list(segment_).empty());
  EXPECT_NO_THROW(SegmentPipeline::remove(session_, "p"));
}

// Two who cancel, one who resumes, all at once: one end, and all agree.
TEST_F(StoredPipelines, CancelAndResumeAgree) {
  for (int round = 0; round < 50; ++round) {
    (void)SegmentPipeline::add(session_, definition_);
    std::atomic<int> cancelled = 0;
    auto result = Result::busy;
    std::vector<std::thread> threads;
    for (int n = 0; n < 2; ++n) {
      threads.emplace_back([&] {
        Session own{segment_};
        SegmentPipeline p(own, "p");
        if (p.cancel()) ++cancelled;
      });
    }
    threads.emplace_back([&] {
      Session own{segment_};
      SegmentPipeline p(own, "p");
      result = p.run(executor(), {.run_command = [](const PhaseRun&) { return std::string(); }});
    });
    for (std::thread& t : threads) t.join();
    const PipelineStatus end = status("p");
    ASSERT_TRUE(is_over(end)) << to_string(end);
    ASSERT_EQ(cancelled > 0, end == PipelineStatus::cancelled) << cancelled;
    ASSERT_LE(cancelled, 1) << "the other one came too late";
    ASSERT_EQ(result, end == PipelineStatus::cancelled ? Result::cancelled : Result::done);
  }
}

// Everything at once, of one name: each is told what may happen to it, nothing is left, and it can be begun again.
TEST_F(StoredPipelines, AddedRunCancelledAndRemovedByAllAtOnce) {
  std::atomic<int> added = 0;
  std::atomic<int> ran = 0;
  std::vector<std::thread> threads;
  threads.reserve(6);
  for (int n = 0; n < 6; ++n) {
    threads.emplace_back([&, n] {
      Session own{segment_};
      for (int round = 0; round < 1000; ++round) {
        try {
          if (n < 2) {
            (void)SegmentPipeline::add(own, definition_);
            ++added;
          } else if (n == 2) {
            SegmentPipeline::remove(own, "p");
          } else if (n == 3) {
            (void)SegmentPipeline(own, "p").cancel();
          } else {
            SegmentPipeline p(own, "p");
            const Result result = p.run(executor(), {.run_command = [](const PhaseRun&) { return std::string(); }});
            if (result == Result::done) ++ran;
          }
        } catch (const Error& e) {
          EXPECT_TRUE(e.errc() == Errc::in_use || e.errc() == Errc::not_found) << e.what();
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_GT(added, 0);
  try {
    SegmentPipeline::remove(session_, "p");
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::not_found);
  }
  (void)SegmentPipeline::add(session_, definition_);
  std::vector<std::string> names;
  EXPECT_EQ(SegmentPipeline(session_, "p").run(executor(), options(names)), Result::done);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(client_->holders().size(), 2U) << "the definition and the state";
  std::printf("added %d times, run %d times\n", added.load(), ran.load());
}

TEST_F(StoredPipelines, ComesBackFromASnapshotWithoutItsRunner) {
  const std::string file = path("snapshot.json");
  const std::string again = path("again.json");
  {
    Child child = runner("p");
    ASSERT_EQ(child.next(), 'i');
    EXPECT_EQ(save_snapshot(segment_, file).pipelines, 1U);
    child.kill(SIGKILL);
  }
  const std::string name = name_ + "-restored";
  EXPECT_EQ(restore_snapshot(file, name).restored.pipelines, 1U);
  {
    const Segment restored = Segment::open(name);
    const std::vector<PipelineListing> all = SegmentPipeline::list(restored);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0].pipeline.progress(), inside_.progress());
    EXPECT_FALSE(all[0].runner);
    (void)save_snapshot(restored, again);
    Session session{restored};
    SegmentPipeline p(session, "p");
    std::vector<std::string> ran;
    EXPECT_EQ(p.run(executor(), options(ran)), Result::done) << "also of those tokens that were given out since";
    EXPECT_EQ(ran, (std::vector<std::string>{"a", "b"}));
  }
  const auto line = [](const std::string& from) {
    std::ifstream in(from);
    std::string text;
    std::getline(in, text);
    std::getline(in, text);
    return text;
  };
  EXPECT_EQ(line(again), line(file));
  Segment::remove(name, true);
}

}  // namespace
}  // namespace shmcoord
