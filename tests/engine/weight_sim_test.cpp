#include <gtest/gtest.h>

#include <cstdint>

#include "engine/control.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"
#include "support/sim_weights.hpp"

// What has a capacity above one: holds that grow and shrink, capacities that change, quotas, upgrades. The smallest
// stories, one for each line that keeps a promise; everybody at once in weight_play_sim_test.cpp.

namespace shmcoord::engine {
namespace {

using sim::expect_good;
using sim::is_dead;
using sim::is_finished;
using sim::queue;
using sim::require;
using sim::Scenario;
using sim::Segment;
using sim::segment_of;
using sim::take;
using P = sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;
constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex first_part = first + 1;  // of the same process: what it wants more
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);
constexpr auto force = [](const Entry&) { return Loss::forced; };

// --- one after the other -----------------------------------------------------------------------------------------

class Weights : public testing::Test {
 protected:
  void capacity(std::uint32_t n) const { ops.record().capacity.raw = pack(Amount{n, 0}); }
  [[nodiscard]] Entry& entry(EntryIndex i) const { return segment.view().entry(i); }
  [[nodiscard]] std::uint32_t used() const { return ops.load().used; }

  Segment segment = segment_of(4);
  ControlOps<P> ops = segment.ops(0);
};

TEST_F(Weights, AHoldTakesInWhatItsOwnerGotBesides) {
  const std::uint64_t token = take(ops, first, 1);
  const std::uint64_t more = take(ops, first_part, 2);
  ASSERT_EQ(ops.merge(first, token, 1, first_part, more).step, Step::merged);
  EXPECT_EQ(ops.weight_of(first), 3U);
  EXPECT_EQ(ops.status(first_part).phase, Phase::free);
  EXPECT_EQ(used(), 3U);
  EXPECT_TRUE(ops.finish_now());
  EXPECT_EQ(ops.weight_of(first), 3U) << "finished twice, added once";
  EXPECT_TRUE(ops.holds(first, token)) << "the token of the hold stays";
  ASSERT_EQ(ops.release(first, token).step, Step::released);
  EXPECT_EQ(used(), 0U);
}

TEST_F(Weights, WhatWasLostTakesNothingIn) {
  const std::uint64_t token = take(ops, first, 1);
  const std::uint64_t more = take(ops, first_part, 2);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  EXPECT_EQ(ops.merge(first, token, 1, first_part, more).step, Step::gone);
  ASSERT_EQ(ops.release(first_part, more).step, Step::released);
  EXPECT_EQ(ops.merge(first, token, 1, first_part, more).step, Step::gone);
  EXPECT_EQ(used(), 0U);
}

TEST_F(Weights, AFinishedMergeIsNotFinishedWithWhatItsPartDoesElsewhere) {
  const std::uint64_t token = take(ops, first, 1);
  ASSERT_EQ(ops.merge(first, token, 1, first_part, take(ops, first_part, 1)).step, Step::merged);
  // The part is robbed on another word, and its hand-off field names somebody there.
  const ControlOps<P> other = segment.ops(1);
  take(other, first_part, 3);
  queue(other, second, 2);
  ASSERT_EQ(other.reclaim(first_part, force).step, Step::reclaimed);
  EXPECT_TRUE(ops.finish_now());
  EXPECT_EQ(ops.weight_of(second), 2U);
  EXPECT_EQ(ops.weight_of(first), 2U);
}

TEST_F(Weights, ALateFinisherAddsNothing) {
  const std::uint64_t token = take(ops, first, 1);
  ASSERT_EQ(ops.merge(first, token, 1, first_part, take(ops, first_part, 1)).step, Step::merged);
  const core::Control old = ops.load();
  ASSERT_EQ(ops.shrink(first, token, ops.weight_of(first), 1).step, Step::shrunk);
  EXPECT_TRUE(ops.finish(old));
  EXPECT_EQ(ops.weight_of(first), 1U);
  ASSERT_EQ(ops.resize(3).step, Step::resized);
  const core::Control resized = ops.load();
  ASSERT_EQ(ops.resize(2).step, Step::resized);
  EXPECT_TRUE(ops.finish(resized));
  EXPECT_EQ(ops.capacity(), 2U);
}

TEST_F(Weights, AHoldThatGetsSmallerLetsIn) {
  const std::uint64_t token = take(ops, first, 4);
  queue(ops, second, 1);
  queue(ops, third, 2);
  ASSERT_EQ(ops.shrink(first, token, ops.weight_of(first), 1).step, Step::shrunk);
  EXPECT_EQ(ops.weight_of(first), 1U);
  EXPECT_EQ(ops.status(second).phase, Phase::held);
  EXPECT_EQ(ops.status(third).phase, Phase::held);
  EXPECT_EQ(used(), 4U);
  ASSERT_EQ(ops.release(first, token).step, Step::released);
  EXPECT_EQ(used(), 3U);
}

TEST_F(Weights, MoreRoomLetsInWhoFits) {
  capacity(1);
  take(ops, first, 1);
  queue(ops, second, 1);
  queue(ops, third, 1);
  ASSERT_EQ(ops.resize(2).step, Step::resized);
  EXPECT_EQ(ops.status(second).phase, Phase::held);
  EXPECT_EQ(ops.status(third).phase, Phase::waiting);
  ASSERT_EQ(ops.resize(core::max_capacity).step, Step::resized);
  EXPECT_EQ(ops.capacity(), core::max_capacity);
  EXPECT_EQ(ops.status(third).phase, Phase::held);
}

// C-35: who can never fit any more leaves at once, the others stay, and nobody is let in until it fits.
TEST_F(Weights, LessRoomTurnsAwayWhoCanNeverFit) {
  const std::uint64_t token = take(ops, first, 4);
  queue(ops, second, 2);
  queue(ops, third, 4);
  queue(ops, first_part, 1);
  entry(third).flags.raw = entry_async;
  ASSERT_EQ(ops.resize(2).step, Step::resized);
  EXPECT_EQ(ops.status(second).phase, Phase::waiting);
  EXPECT_EQ(ops.status(third).phase, Phase::free);
  EXPECT_NE(segment.view().slot(Segment::slot_of(2)).signal.raw, 0U) << "its keeper is told, for its descriptor";
  EXPECT_EQ(used(), 4U) << "who holds may finish";
  EXPECT_EQ(ops.try_acquire(third, 1, 0).step, Step::busy);
  EXPECT_EQ(ops.acquire_or_queue(third, 3, 0).step, Step::impossible);
  ASSERT_EQ(ops.release(first, token).step, Step::released);
  EXPECT_EQ(ops.status(second).phase, Phase::held);
  EXPECT_EQ(ops.status(first_part).phase, Phase::waiting);
}

// The one who made it smaller died on the way; whoever comes next finds the head in the way of the others.
TEST_F(Weights, AHeadThatCanNeverFitStandsInNobodysWay) {
  const std::uint64_t token = take(ops, first, 4);
  queue(ops, second, 3);
  queue(ops, third, 1);
  capacity(2);
  ASSERT_EQ(ops.release(first, token).step, Step::released);
  ops.settle();
  EXPECT_EQ(ops.status(second).phase, Phase::free);
  EXPECT_EQ(ops.status(third).phase, Phase::held);
}

TEST_F(Weights, WhatAWaiterHasBesidesCounts) {
  take(ops, first, 2);
  entry(first_part).beside.raw = 2;
  ops.set_weight(first_part, 3);
  EXPECT_EQ(ops.acquire_or_queue(first_part, 3, 0).step, Step::impossible) << "2 and 3 are more than 4";
  take(ops, second, 1);
  queue(ops, first_part, 2);
  ASSERT_EQ(ops.resize(3).step, Step::resized);
  EXPECT_EQ(ops.status(first_part).phase, Phase::free);
}

TEST_F(Weights, AQuotaGrowsAndShrinksWithItsMembers) {
  capacity(0);
  for (const EntryIndex i : {first, second}) {
    ops.set_weight(i, 2);
    ASSERT_EQ(ops.join(i).step, Step::joined);
    EXPECT_TRUE(ops.finish_now());
  }
  EXPECT_EQ(ops.capacity(), 4U);
  EXPECT_EQ(ops.status(first).phase, Phase::member);
  ops.record().per_session.raw = 2;
  EXPECT_FALSE(ops.close()) << "nobody holds, but they would be members of the next name";
  take(ops, third, 3);
  ASSERT_EQ(ops.leave(first).step, Step::left);
  EXPECT_EQ(ops.capacity(), 2U);
  EXPECT_EQ(ops.leave(first).step, Step::gone);
  EXPECT_EQ(ops.status(first).phase, Phase::free);
  segment.bury(1);
  EXPECT_EQ(ops.capacity(), 0U);
  ops.set_weight(first, core::max_capacity);
  ASSERT_EQ(ops.join(first).step, Step::joined);
  ops.set_weight(first_part, 1);
  EXPECT_EQ(ops.join(first_part).step, Step::impossible);
}

TEST_F(Weights, AnUpgradeGoesFirstAndASecondOneIsTold) {
  capacity(2);
  const std::uint64_t a = take(ops, first, 1);
  const std::uint64_t b = take(ops, second, 1);
  queue(ops, third, 2);
  ops.set_weight(first_part, 1);
  EXPECT_EQ(ops.try_acquire_first(first_part, 1, 0).step, Step::busy);
  entry(first_part).flags.raw = entry_first;
  ASSERT_EQ(ops.acquire_or_queue_first(first_part, 1, 0).step, Step::queued);
  ops.set_weight(second + 1, 1);
  EXPECT_EQ(ops.acquire_or_queue_first(second + 1, 1, 0).step, Step::deadlock);
  EXPECT_TRUE(ops.holds(second, b)) << "and keeps what it has";
  ASSERT_EQ(ops.release(second, b).step, Step::released);
  ASSERT_EQ(ops.status(first_part).phase, Phase::held);
  ASSERT_EQ(ops.merge(first, a, 1, first_part, segment.token(0, 0, 1)).step, Step::merged);
  EXPECT_EQ(ops.weight_of(first), 2U);
  ASSERT_EQ(ops.release(first, a).step, Step::released);
  EXPECT_EQ(ops.status(third).phase, Phase::held);
}

TEST_F(Weights, AnUpgradeThatFitsPassesThoseWhoWait) {
  capacity(2);
  take(ops, first, 1);
  queue(ops, third, 2);
  ops.set_weight(first_part, 1);
  EXPECT_EQ(ops.try_acquire_first(first_part, 1, 0).step, Step::acquired);
  EXPECT_EQ(ops.status(third).phase, Phase::waiting);
}

TEST_F(Weights, WhoIsTakenOutByForceFindsOutWhy) {
  take(ops, first, 4);
  for (const bool forced : {true, false}) {
    queue(ops, second, 1);
    ASSERT_EQ(ops.cancel(second, forced ? Loss::forced : Loss::none).step, Step::cancelled);
    EXPECT_EQ(segment.wait(0, 1, never), forced ? WaitEnd::closed : WaitEnd::impossible);
  }
}

// --- two at once -------------------------------------------------------------------------------------------------

// Nobody told it that the capacity became smaller.
TEST(WeightSim, AWaiterThatCanNeverFitFindsItOutByItself) {
  Segment segment = segment_of(3);
  const ControlOps<P> ops = segment.ops(0);
  Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    take(ops, first, 3);
    queue(ops, second, 1);
    queue(ops, third, 3);
  });
  s.task("c", [&] {
    require(segment.wait(0, 2, never) == WaitEnd::impossible, "it waits for more than there is");
    require(ops.cancel(third).step == Step::cancelled, "it does not wait");
  });
  s.task("somebody", [&] { P::store(ops.record().capacity, pack(Amount{2, 0})); });
  expect_good(s, {.preemptions = 2, .stall_after_ns = 2 * recheck_ns});
}

// Who makes the capacity smaller finds a wait for too much, and falls asleep; that one leaves by itself, and queues for
// less with the same entry.
TEST(WeightSim, AWaitForLessIsNotTakenForTheOneBefore) {
  Segment segment = segment_of(3);
  const ControlOps<P> ops = segment.ops(0);
  Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    take(ops, first, 3);
    queue(ops, second, 3);
  });
  s.task("c", [&] { ops.resize(2); });
  s.task("b", [&] {
    const Step left = ops.cancel(second).step;
    require(left == Step::cancelled || left == Step::gone, "the cancel failed");
    ops.set_weight(second, 1);
    require(ops.acquire_or_queue(second, 1, 0).step == Step::queued, "it does not wait");
  });
  s.at_end([&] {
    require(ops.finish_now() && ops.status(second).phase == Phase::waiting, "a wait that fits was taken out");
  });
  expect_good(s, {.preemptions = 2});
}

// A finisher of the merge that slept, and the next hold of that entry with the same weight as before.
TEST(WeightSim, ALateFinisherOfAMergeChangesNoLaterHold) {
  Segment segment = segment_of(4);
  const ControlOps<P> ops = segment.ops(0);
  Scenario s;
  segment.name_words(s);
  core::Control merge;
  std::uint64_t token = 0;
  s.on_start([&] {
    segment.reset();
    token = take(ops, first, 1);
    const std::uint64_t more = take(ops, first_part, 1);
    require(ops.finish_now() && ops.merge(first, token, 1, first_part, more).step == Step::merged,
            "the start went wrong");
    merge = ops.load();
    // As if nobody had finished it yet.
    segment.view().entry(first).weight.raw = pack(Amount{1, 0});
    segment.view().entry(first_part).status.raw = pack(Status{Phase::held, 0, more});
  });
  s.task("late", [&] { ops.finish(merge); });
  s.task("a", [&] {
    require(ops.finish_now() && ops.release(first, token).step == Step::released, "the release failed");
    take(ops, first, 1);
  });
  s.at_end([&] {
    require(ops.finish_now(), "damage");
    require(ops.weight_of(first) == 1 && ops.load().used == 1, "the next hold has the weight of the last");
  });
  expect_good(s, {.preemptions = 3});
}

// The merger dies on its way, and its part is used elsewhere as soon as it is free.
TEST(WeightSim, APartIsFreeOnlyWhenItsWeightWasAdded) {
  Segment segment = segment_of(4);
  const ControlOps<P> ops = segment.ops(0);
  Scenario s;
  segment.name_words(s);
  std::uint64_t token = 0;
  std::uint64_t more = 0;
  s.on_start([&] {
    segment.reset();
    token = take(ops, first, 1);
    more = take(ops, first_part, 1);
  });
  const sim::TaskIndex a = s.mortal("a", [&] { ops.merge(first, token, 1, first_part, more); });
  s.task("a, another thread", [&] {
    sim::await([=] { return is_dead(a) || is_finished(a); });
    if (ops.status(first_part).phase != Phase::free) return;
    take(segment.ops(1), first_part, 1);
    require(segment.ops(1).reclaim(first_part, force).step == Step::reclaimed, "the reclaim failed");
  });
  s.task("somebody", [&] { ops.finish_now(); });
  s.at_end([&] {
    require(ops.finish_now(), "damage");
    const bool merged = ops.weight_of(first) == 2;
    require(merged || ops.holds(first_part, more), "the weight of the part is lost");
  });
  expect_good(s, {.preemptions = 1, .deaths = 1});
}

}  // namespace
}  // namespace shmcoord::engine
