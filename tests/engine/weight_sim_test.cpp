#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "engine/control.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// What has a capacity above one: holds that grow and shrink, capacities that change, quotas, upgrades. First the
// smallest stories, one for each line that keeps a promise; then everybody at once, with a death at every operation.

namespace shmcoord::engine {
namespace {

using sim::expect_good;
using sim::is_dead;
using sim::is_finished;
using sim::judge;
using sim::long_form;
using sim::Plain;
using sim::require;
using sim::Scenario;
using sim::Segment;
using P = sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;
constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex first_part = first + 1;  // of the same process: what it wants more
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);
constexpr auto force = [](const Entry&) { return Loss::forced; };

Segment segment_of(std::uint32_t capacity) {
  Segment segment(capacity);
  segment.entries_in_use = 2;
  return segment;
}

/// Out of use before, and out of the queue if it must wait.
std::uint64_t take(const ControlOps<P>& ops, EntryIndex i, std::uint32_t weight) {
  ops.set_weight(i, weight);
  const Result r = ops.try_acquire(i, weight, 0);
  require(r.step == Step::acquired, "there is room, and it is not let in");
  return r.seq;
}
void queue(const ControlOps<P>& ops, EntryIndex i, std::uint32_t weight) {
  ops.set_weight(i, weight);
  require(ops.acquire_or_queue(i, weight, 0).step == Step::queued, "there is no room, and it does not wait");
}

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
  ASSERT_EQ(ops.merge(first, token, first_part, more).step, Step::merged);
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
  EXPECT_EQ(ops.merge(first, token, first_part, more).step, Step::gone);
  EXPECT_TRUE(ops.holds(first_part, more));
  ASSERT_EQ(ops.release(first_part, more).step, Step::released);
  EXPECT_EQ(ops.merge(first, token, first_part, more).step, Step::gone);
  EXPECT_EQ(used(), 0U);
}

TEST_F(Weights, AFinishedMergeIsNotFinishedWithWhatItsPartDoesElsewhere) {
  const std::uint64_t token = take(ops, first, 1);
  ASSERT_EQ(ops.merge(first, token, first_part, take(ops, first_part, 1)).step, Step::merged);
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
  ASSERT_EQ(ops.merge(first, token, first_part, take(ops, first_part, 1)).step, Step::merged);
  const core::Control old = ops.load();
  ASSERT_EQ(ops.shrink(first, token, 1).step, Step::shrunk);
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
  ASSERT_EQ(ops.shrink(first, token, 1).step, Step::shrunk);
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
  ASSERT_EQ(ops.merge(first, a, first_part, segment.token(0, 0, 1)).step, Step::merged);
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
    require(ops.finish_now() && ops.merge(first, token, first_part, more).step == Step::merged, "the start went wrong");
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
  const sim::TaskIndex a = s.mortal("a", [&] { ops.merge(first, token, first_part, more); });
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

// --- everybody at once -------------------------------------------------------------------------------------------

/// Processes a, b and c over word 0, each with its own part in the play; whoever dies is buried.
class Play {
 public:
  explicit Play(std::uint32_t capacity) : segment_(segment_of(capacity)), ops_(segment_.ops(0)) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      for (auto& in : inside_) in = 0;
      if (start_) start_();
    });
    scenario_.at_end([this] {
      if (end_) end_();
      segment_.require_idle();
    });
  }
  void start(std::function<void()> what) { start_ = std::move(what); }
  void end(std::function<void()> what) { end_ = std::move(what); }
  void mortal(std::function<void(unsigned)> body) {
    const unsigned p = processes_++;
    scenario_.mortal(std::string(1, Segment::name_of(p)), [p, body = std::move(body)] { body(p); });
  }
  void reaper() {
    scenario_.task("reaper", [this] {
      unsigned known = 0;
      const auto unburied = [this, &known] {
        for (unsigned p = 0; p < processes_; ++p) {
          if (is_dead(p) && (known >> p & 1U) == 0) return p;
        }
        return processes_;
      };
      const auto all_over = [this] {
        for (unsigned p = 0; p < processes_; ++p) {
          if (!is_dead(p) && !is_finished(p)) return false;
        }
        return true;
      };
      for (;;) {
        sim::await([&] { return all_over() || unburied() < processes_; });
        const unsigned dead = unburied();
        if (dead == processes_) return;
        known |= 1U << dead;
        segment_.announce_death(dead);
        segment_.bury(dead);
      }
    });
  }

  /// What the process believes that it has, from now on.
  void inside(unsigned p, std::uint32_t weight, std::uint32_t most) {
    inside_[p] = weight;
    std::uint32_t sum = 0;
    for (unsigned q = 0; q < processes_; ++q) sum += is_dead(q) ? 0 : std::uint32_t{inside_[q]};
    require(sum <= most, "more inside than the capacity");
  }
  /// Takes it, waiting if need be. 0: never, because of what `end` was.
  std::uint64_t acquire(unsigned p, std::uint32_t weight, EntryIndex nth = 0) {
    const EntryIndex i = Segment::entry_of(p) + nth;
    ops_.set_weight(i, weight);
    P::store(segment_.view().entry(i).wake, wake_awake);
    const Result r = ops_.acquire_or_queue(i, weight, 0);
    if (r.step == Step::acquired) return r.seq;
    if (r.step == Step::impossible) return 0;
    require(r.step == Step::queued, "the acquire failed");
    return wait(p, nth);
  }
  std::uint64_t wait(unsigned p, EntryIndex nth) {
    const WaitEnd end = segment_.wait(0, p, never, nth);
    if (end == WaitEnd::granted) return segment_.token(0, p, nth);
    require(end == WaitEnd::impossible, "the wait ended for no reason");
    const Result c = ops_.cancel(Segment::entry_of(p) + nth);
    if (c.step == Step::granted) return c.seq;
    return 0;
  }
  void release(unsigned p, std::uint64_t token) {
    inside_[p] = 0;
    require(ops_.release(Segment::entry_of(p), token).step == Step::released, "the release failed");
  }

  [[nodiscard]] const Segment& segment() const noexcept { return segment_; }
  [[nodiscard]] const ControlOps<P>& ops() const noexcept { return ops_; }
  void judge(const char* what, unsigned preemptions, unsigned deaths) const {
    const unsigned more = long_form() ? 1 : 0;
    sim::judge(what, scenario_, {.preemptions = preemptions + more, .deaths = deaths}, {.deaths = 2 * deaths});
  }

 private:
  Segment segment_;
  ControlOps<P> ops_;
  Scenario scenario_;
  std::function<void()> start_;
  std::function<void()> end_;
  unsigned processes_ = 0;
  std::array<Plain<std::uint32_t>, Segment::processes> inside_{};
};

// a takes one and then one more, by queueing for it; b takes two.
void increases(Play& play, unsigned p) {
  const std::uint64_t token = play.acquire(p, 1);
  play.inside(p, 1, 3);
  P::store(play.segment().view().entry(Segment::entry_of(p) + 1).beside, 1);
  const std::uint64_t more = play.acquire(p, 1, 1);
  require(more != 0, "there is room for one more");
  play.inside(p, 2, 3);
  const Result r = play.ops().merge(Segment::entry_of(p), token, Segment::entry_of(p) + 1, more);
  require(r.step == Step::merged, "the increase failed");
  play.release(p, token);
}
void visits(Play& play, unsigned p, std::uint32_t weight, std::uint32_t most) {
  const std::uint64_t token = play.acquire(p, weight);
  if (token == 0) return;
  play.inside(p, weight, most);
  play.release(p, token);
}

TEST(WeightSim, an_increase_among_others) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(3);
    play.mortal([&](unsigned p) { increases(play, p); });
    play.mortal([&](unsigned p) { visits(play, p, 2, 3); });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

// a holds all; b waits for all and c for one; the operator takes one away, and may die on the way.
TEST(WeightSim, a_resize_turns_away_who_can_never_fit) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(3);
    std::uint64_t token = 0;
    play.start([&] {
      token = take(play.ops(), first, 3);
      queue(play.ops(), second, 3);
    });
    play.mortal([&](unsigned p) { play.release(p, token); });
    play.mortal([&](unsigned p) {
      const std::uint64_t got = play.wait(p, 0);
      if (got == 0) return;
      play.inside(p, 3, 3);
      play.release(p, got);
    });
    play.mortal([&](unsigned p) {
      const Segment::Helping helping(play.segment(), p, 0);
      require(play.ops().resize(2).step == Step::resized, "the resize failed");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

TEST(WeightSim, a_resize_lets_in_who_fits_then) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(1);
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.mortal([&](unsigned p) {
      const Segment::Helping helping(play.segment(), p, 0);
      require(play.ops().resize(2).step == Step::resized, "the resize failed");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

// Two who hold want all of it: one waits for the other, who is told; a writer waits behind both.
void upgrades(Play& play, unsigned p, std::uint64_t token) {
  const EntryIndex mine = Segment::entry_of(p);
  play.inside(p, 1, 2);
  play.ops().set_weight(mine + 1, 1);
  P::store(play.segment().view().entry(mine + 1).beside, 1);
  P::store(play.segment().view().entry(mine + 1).flags, entry_first);
  const Result r = play.ops().acquire_or_queue_first(mine + 1, 1, 0);
  if (r.step == Step::deadlock) return play.release(p, token);
  require(r.step == Step::queued || r.step == Step::acquired, "the upgrade failed");
  const std::uint64_t more = r.step == Step::queued ? play.wait(p, 1) : r.seq;
  play.inside(p, 2, 2);
  require(play.ops().merge(mine, token, mine + 1, more).step == Step::merged, "the merge failed");
  play.release(p, token);
}

TEST(WeightSim, two_upgrade_at_once) {
  for (const unsigned deaths : {0U, 1U}) {
    for (const bool writer : {false, true}) {
      Play play(2);
      std::array<std::uint64_t, 2> token{};
      play.start([&] {
        token = {take(play.ops(), first, 1), take(play.ops(), second, 1)};
        if (writer) queue(play.ops(), third, 2);
      });
      play.mortal([&](unsigned p) { upgrades(play, p, token[p]); });
      play.mortal([&](unsigned p) { upgrades(play, p, token[p]); });
      if (writer) {
        play.mortal([&](unsigned p) {
          const std::uint64_t got = play.wait(p, 0);
          play.inside(p, 2, 2);
          play.release(p, got);
        });
      }
      play.reaper();
      play.judge(writer ? "with a writer" : "two", writer ? 1 : 2 - deaths, deaths);
    }
  }
}

// A writer becomes a reader while readers wait.
TEST(WeightSim, a_downgrade_lets_in_readers) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(2);
    play.mortal([&](unsigned p) {
      const std::uint64_t token = play.acquire(p, 2);
      play.inside(p, 2, 2);
      play.inside(p, 1, 2);
      require(play.ops().shrink(Segment::entry_of(p), token, 1).step == Step::shrunk, "the downgrade failed");
      play.release(p, token);
    });
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2, deaths);
  }
}

// Each brings two and takes one; whoever dies takes its two away.
TEST(WeightSim, a_quota_is_what_its_members_brought) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(0);
    play.start([&] { play.ops().record().per_session.raw = 2; });
    const auto member = [&](unsigned p) {
      const EntryIndex share = Segment::entry_of(p) + 1;
      play.ops().set_weight(share, 2);
      require(play.ops().join(share).step == Step::joined, "the join failed");
      visits(play, p, 1, 4);
      require(play.ops().leave(share).step == Step::left, "the leave failed");
    };
    play.mortal(member);
    play.mortal(member);
    play.end([&] {
      require(play.ops().finish_now() && play.ops().capacity() == 0, "the capacity is not what the members brought");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2, deaths);
  }
}

// One who stays: of the other one's death nothing may be missing, and nothing be left.
TEST(WeightSim, a_member_that_dies_takes_its_own_share) {
  Play play(0);
  play.start([&] {
    play.ops().record().per_session.raw = 2;
    play.ops().set_weight(second + 1, 2);
    require(play.ops().join(second + 1).step == Step::joined, "the start went wrong");
  });
  play.mortal([&](unsigned p) {
    const EntryIndex share = Segment::entry_of(p) + 1;
    play.ops().set_weight(share, 2);
    require(play.ops().join(share).step == Step::joined, "the join failed");
  });
  play.mortal([&](unsigned p) { visits(play, p, 1, 4); });
  play.end([&] {
    const std::uint32_t left = (is_dead(0) ? 0U : 2U) + (is_dead(1) ? 0U : 2U);
    require(play.ops().finish_now() && play.ops().capacity() == left, "the capacity is not what the members brought");
    for (const unsigned p : {0U, 1U}) {
      const Step step = is_dead(p) ? Step::left : play.ops().leave(Segment::entry_of(p) + 1).step;
      require(step == Step::left, "the leave failed");
    }
  });
  play.reaper();
  play.judge("one death", 2, 1);
}

}  // namespace
}  // namespace shmcoord::engine
