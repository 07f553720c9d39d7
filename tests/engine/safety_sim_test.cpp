#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/bury_entry.hpp"
#include "engine/control.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// What the big scenarios (control_sim_test, name_index_sim_test) would not notice if it were gone, found by taking each
// line away (tests/mutation/run): the smallest story for each.

namespace shmcoord::engine {
namespace {

using sim::expect_good;
using sim::require;
using sim::Segment;
using P = sim::SimPolicy;

constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);
constexpr auto force = [](const Entry&) { return Loss::forced; };

// --- one after the other -----------------------------------------------------------------------------------------

class Engine : public testing::Test {
 protected:
  explicit Engine(std::uint32_t capacity = 1) : segment(capacity), ops(segment.ops(0)) {
    for (const EntryIndex i : {first, second, third}) entry(i).weight.raw = 1;
  }
  [[nodiscard]] Entry& entry(EntryIndex i) const { return segment.view().entry(i); }
  [[nodiscard]] SessionSlot& slot(unsigned process) const { return segment.view().slot(Segment::slot_of(process)); }
  void set_word(const core::Control& c) const { ops.record().control = {c.seq, core::pack_bits(c)}; }

  Segment segment;
  ControlOps<P> ops;
};

class EngineOfThree : public Engine {
 protected:
  EngineOfThree() : Engine(3) {}
};

TEST_F(Engine, AHandleOfAnEarlierLifeChangesNothing) {
  ops.record().generation.raw = 2;
  const ControlOps<P> now(segment.view(), 0, 2);
  const Result got = now.try_acquire(first, 1, 0);
  ASSERT_EQ(now.release(first, got.seq).step, Step::released);
  const core::Control before = now.load();
  EXPECT_EQ(ops.try_acquire(first, 1, 0).step, Step::closed);
  EXPECT_FALSE(ops.close());
  EXPECT_EQ(now.load(), before);
}

TEST_F(EngineOfThree, NobodyTakesMoreThanThereIs) {
  const Result got = ops.try_acquire(first, 3, 0);
  entry(first).weight.raw = 3;
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  EXPECT_EQ(ops.try_acquire(first, 4, 0).step, Step::impossible);
  EXPECT_EQ(ops.acquire_or_queue(first, 4, 0).step, Step::impossible);
  EXPECT_EQ(ops.load().used, 0U);
}

TEST_F(Engine, NothingFollowsOnTheLastSequence) {
  constexpr std::uint64_t last = core::seq_limit;
  const core::Control idle{.seq = last};
  set_word(idle);
  EXPECT_EQ(ops.try_acquire(first, 1, 0).step, Step::exhausted);
  EXPECT_EQ(ops.load(), idle);
  const core::Control released{.seq = last, .last = first, .op = core::Op::release};
  set_word(released);
  EXPECT_EQ(ops.try_acquire(first, 1, 0).step, Step::exhausted);
  EXPECT_EQ(ops.load(), released);
  const core::Control held{.seq = last, .used = 1, .last = first, .op = core::Op::acquire};
  set_word(held);
  entry(first).status.raw = pack(Status{Phase::held, 0, last & stamp_mask});
  EXPECT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::exhausted);
  EXPECT_EQ(ops.release(first, last).step, Step::exhausted);
  EXPECT_EQ(ops.reclaim(first, force).step, Step::exhausted);
  EXPECT_EQ(ops.load(), held);
}

TEST_F(Engine, NobodyIsLetInBeyondWhatASnapshotReserved) {
  const std::uint64_t reserved = ops.load().seq + 1;
  const Result got = ops.try_acquire(first, 1, 0);
  ASSERT_EQ(got.seq, reserved);
  segment.view().header().token_reserved.raw = reserved;
  EXPECT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::exhausted);
  EXPECT_EQ(ops.release(first, got.seq).step, Step::released) << "a hold ends all the same";
  EXPECT_EQ(ops.try_acquire(first, 1, 0).step, Step::exhausted) << "the short way";
  EXPECT_EQ(ops.try_acquire(second, 1, 0).step, Step::exhausted);
  segment.view().header().token_reserved.raw = reserved + 100;
  EXPECT_EQ(ops.try_acquire(first, 1, 0).step, Step::acquired);
  EXPECT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  segment.view().header().token_reserved.raw = reserved;
  EXPECT_EQ(ops.release(first, ops.load().seq - 1).step, Step::released);
  EXPECT_TRUE(ops.status(second).phase == Phase::held) << "who waits already is let in";
  segment.view().header().token_reserved.raw = 0;
}

TEST_F(Engine, WhoWasToldBusyHasItsEntryFree) {
  const Result got = ops.try_acquire(first, 1, 0);
  entry(second).status.raw = pack(Status{Phase::prepared, 0, got.seq});  // of a CAS that failed
  EXPECT_EQ(ops.try_acquire(second, 1, 0).step, Step::busy);
  EXPECT_EQ(ops.status(second).phase, Phase::free);
}

TEST_F(Engine, ClosingBringsTheLastReleaseToItsEnd) {
  const Result got = ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  ASSERT_NE(ops.status(first).phase, Phase::free) << "the owner may leave its plain release unfinished";
  EXPECT_TRUE(ops.close());
  EXPECT_EQ(ops.status(first).phase, Phase::free);
}

TEST_F(Engine, ARobbedSessionKeepsWhatItPrepares) {
  const std::uint64_t prepared = pack(Status{Phase::prepared, 0, ops.load().seq + 1});
  entry(first).status.raw = prepared;
  const core::Control before = ops.load();
  EXPECT_TRUE(bury_entry<P>(segment.view(), first, segment.view().owner_of(first).raw, Burial::robbed));
  EXPECT_EQ(entry(first).status.raw, prepared);
  EXPECT_EQ(ops.load(), before);
}

TEST_F(Engine, KeepersAreToldOfLossesAndOfPollableGrants) {
  ops.try_acquire(first, 1, 0);
  entry(second).flags.raw = entry_async;
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  EXPECT_EQ(slot(0).signal.raw, 1U) << "robbed";
  EXPECT_EQ(slot(1).signal.raw, 1U) << "granted";
}

TEST_F(Engine, AHoldsClockStartsWithItsGrant) {
  const Result got = ops.try_acquire(first, 1, 0);
  constexpr std::int64_t long_ago = -1'000'000'000;
  ASSERT_EQ(ops.acquire_or_queue(second, 1, long_ago).step, Step::queued);
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  EXPECT_EQ(entry(second).since_ns.raw, 0U) << "the simulated clock stands at 0";
}

TEST_F(Engine, ARobbedDetachedEntryIsFreeAtOnce) {
  entry(first).flags.raw = entry_detached;
  ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  EXPECT_EQ(ops.status(first).phase, Phase::free);
}

TEST_F(EngineOfThree, WhoFitsIsLetIn) {
  const auto queue = [&](EntryIndex i, std::uint32_t weight) {
    entry(i).weight.raw = weight;
    ASSERT_EQ(ops.acquire_or_queue(i, weight, 0).step, Step::queued);
  };
  entry(first).weight.raw = 2;
  const Result got = ops.try_acquire(first, 2, 0);
  queue(second, 2);
  queue(third, 1);
  ASSERT_EQ(ops.cancel(second).step, Step::cancelled);
  EXPECT_EQ(ops.status(third).phase, Phase::held) << "after a cancel";
  ASSERT_EQ(ops.release(third, seq_of_stamp(ops.status(third).stamp, ops.load().seq)).step, Step::released);
  ops.record().capacity.raw = 2;
  queue(second, 1);
  queue(third, 1);
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  EXPECT_EQ(ops.status(second).phase, Phase::held) << "after a hand-off";
  EXPECT_EQ(ops.status(third).phase, Phase::held) << "behind the one that was granted";
}

TEST_F(Engine, ANewcomerGrantsAHeadThatFits) {
  ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  ops.record().capacity.raw = 2;  // as if its grantor had died on the way
  EXPECT_EQ(ops.acquire_or_queue(third, 1, 0).step, Step::queued);
  EXPECT_EQ(ops.status(second).phase, Phase::held);
}

TEST_F(Engine, WhoIsTakenOutOfTheQueueIsCalledAndSoIsTheNext) {
  ops.try_acquire(first, 1, 0);
  for (const EntryIndex i : {second, third}) {
    ASSERT_EQ(ops.acquire_or_queue(i, 1, 0).step, Step::queued);
    entry(i).wake.raw = wake_parked;
  }
  ASSERT_EQ(ops.cancel(second).step, Step::cancelled);
  EXPECT_EQ(entry(second).wake.raw, wake_called);
  EXPECT_EQ(entry(third).wake.raw, wake_called) << "it watches another now";
}

// The first finisher died between the grant and the call.
TEST_F(Engine, WhoFindsAGrantFinishedCallsAllTheSame) {
  const Result got = ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  entry(second).wake.raw = wake_parked;
  EXPECT_TRUE(ops.finish_now());
  EXPECT_EQ(entry(second).wake.raw, wake_called);
}

// The same, and nobody waits any more.
TEST_F(Engine, SettlingCallsTheLastOneThatWasGranted) {
  const Result got = ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  ASSERT_EQ(ops.release(first, got.seq).step, Step::released);
  entry(second).wake.raw = wake_parked;
  ops.settle();
  EXPECT_EQ(entry(second).wake.raw, wake_called);
}

TEST_F(Engine, TheNextHolderHearsOnce) {
  ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  const Result robbed = ops.reclaim(first, force);
  ASSERT_EQ(robbed.step, Step::reclaimed);
  ASSERT_TRUE(ops.holds(second, robbed.seq)) << "let in by the very word that robs";
  EXPECT_EQ(segment.take_news(0, robbed.seq).loss, Loss::forced);
  EXPECT_TRUE(ops.finish_now());
  EXPECT_EQ(segment.take_news(0, robbed.seq).loss, Loss::none);
}

TEST_F(Engine, AnOldTokenHoldsNothing) {
  const Result old = ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  entry(first).status.raw = 0;  // told
  const Result now = ops.try_acquire(first, 1, 0);
  ops.finish_now();
  EXPECT_EQ(now.seq, old.seq + 2) << "the reclaim has a sequence of its own, and so stamps of its own";
  EXPECT_FALSE(ops.holds(first, old.seq));
  EXPECT_EQ(ops.release(first, old.seq).step, Step::gone);
  EXPECT_EQ(ops.heartbeat(first, old.seq, 1).step, Step::gone);
  EXPECT_TRUE(ops.holds(first, now.seq));
}

TEST_F(Engine, ANoticeThatIsNotWholeIsNone) {
  ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  segment.view().notice(0).words[1].seq ^= 1;  // of another robbery
  const Result next = ops.try_acquire(second, 1, 0);
  const Segment::News news = segment.take_news(0, next.seq);
  EXPECT_EQ(news.loss, Loss::forced);
  EXPECT_EQ(news.pid, 0);
  EXPECT_EQ(news.holder, '\0');
}

// The burier before died between the two.
TEST_F(Engine, TheWordOfAnEntryThatIsFreeAlreadyIsSettledToo) {
  ops.try_acquire(first, 1, 0);
  ASSERT_EQ(ops.acquire_or_queue(second, 1, 0).step, Step::queued);
  entry(third).status.raw = pack(Status{Phase::free, 0, 1});
  ops.record().capacity.raw = 2;
  EXPECT_TRUE(bury_entry<P>(segment.view(), third, segment.view().owner_of(third).raw, Burial::dead));
  EXPECT_EQ(ops.status(second).phase, Phase::held);
}

// --- late finishers ----------------------------------------------------------------------------------------------

// One that slept since its word was current, and wakes when its entry stands in the same way in a later word.
class LateFinisher : public Engine {
 protected:
  void expect_that_finishing_changes_nothing(const core::Control& old) const {
    ops.finish_now();
    const auto all = [&] {
      std::vector<std::uint64_t> words;
      for (const EntryIndex i : {first, second, third}) {
        const Entry& e = entry(i);
        words.insert(words.end(), {e.status.raw, e.next.raw, e.prev.raw, e.handoff.raw, e.since_ns.raw, e.wake.raw});
      }
      const Record& r = ops.record();
      words.insert(words.end(), {r.holder.raw, r.previous.raw, r.control.seq, r.control.bits});
      return words;
    };
    const auto before = all();
    EXPECT_TRUE(ops.finish(old));
    EXPECT_EQ(all(), before);
  }
  std::uint64_t take(EntryIndex i) const { return ops.try_acquire(i, 1, 0).seq; }
  void queue(EntryIndex i) const { ASSERT_EQ(ops.acquire_or_queue(i, 1, 0).step, Step::queued); }
  void release(EntryIndex i) const {
    ops.finish_now();
    const std::uint64_t token = seq_of_stamp(ops.status(i).stamp, ops.load().seq);
    ASSERT_EQ(ops.release(i, token).step, Step::released);
  }
};

TEST_F(LateFinisher, OfARelease) {
  take(first);
  release(first);
  const core::Control old = ops.load();
  take(first);
  expect_that_finishing_changes_nothing(old);
}

TEST_F(LateFinisher, OfAHandOff) {
  take(first);
  queue(second);
  release(first);
  const core::Control old = ops.load();
  ASSERT_EQ(old.op, core::Op::handoff);
  release(second);
  take(third);
  queue(second);
  expect_that_finishing_changes_nothing(old);
  EXPECT_EQ(ops.status(second).phase, Phase::waiting);
}

TEST_F(LateFinisher, OfACancel) {
  take(first);
  queue(second);
  queue(third);
  ASSERT_EQ(ops.cancel(second).step, Step::cancelled);
  const core::Control old = ops.load();
  queue(second);
  expect_that_finishing_changes_nothing(old);
  EXPECT_EQ(ops.status(second).phase, Phase::waiting);
}

TEST_F(LateFinisher, OfACancelOfTheOnlyOne) {
  take(first);
  queue(second);
  ASSERT_EQ(ops.cancel(second).step, Step::cancelled);
  const core::Control old = ops.load();
  queue(second);
  expect_that_finishing_changes_nothing(old);
  EXPECT_EQ(ops.status(second).phase, Phase::waiting);
}

TEST_F(LateFinisher, OfAReclaimWhoseNewsWasTaken) {
  take(first);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  const core::Control old = ops.load();
  const std::uint64_t token = take(second);
  ASSERT_EQ(segment.take_news(0, token).loss, Loss::forced);
  expect_that_finishing_changes_nothing(old);
}

TEST_F(LateFinisher, OfAReclaimWhoseEntryIsRobbedElsewhere) {
  take(first);
  queue(second);
  ASSERT_EQ(ops.reclaim(first, force).step, Step::reclaimed);
  const core::Control old = ops.load();
  entry(first).status.raw = 0;  // told
  const ControlOps<P> other = segment.ops(1);
  ASSERT_EQ(other.try_acquire(first, 1, 0).step, Step::acquired);
  ASSERT_EQ(other.acquire_or_queue(third, 1, 0).step, Step::queued);
  ASSERT_EQ(other.reclaim(first, force).step, Step::reclaimed);
  expect_that_finishing_changes_nothing(old);
}

TEST_F(LateFinisher, OfAHandOffWhoseEntryIsRobbedElsewhere) {
  take(first);
  queue(second);
  release(first);
  const ControlOps<P> other = segment.ops(1);
  ASSERT_EQ(other.try_acquire(first, 1, 0).step, Step::acquired);
  ASSERT_EQ(other.reclaim(first, force).step, Step::reclaimed);
  EXPECT_TRUE(ops.finish_now());
  EXPECT_EQ(unpack_handoff(ops.record().previous.raw).loss, Loss::none) << "nobody was robbed of this word";
}

// The release is unfinished, as its owner may leave it, and its entry holds another word by now.
TEST_F(LateFinisher, OfAReleaseWhoseEntryHoldsAnotherWord) {
  take(first);
  release(first);
  const ControlOps<P> other = segment.ops(1);
  const Result got = other.try_acquire(first, 1, 0);
  other.finish_now();
  ops.finish_now();
  EXPECT_TRUE(other.holds(first, got.seq));
}

// Finishing that began while the word stood, and ends when it moved on.
TEST(LateFinisherSim, OfAnEnqueueChangesNoLaterLink) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  const ControlOps<P> ops = segment.ops(0);
  core::Control old;
  s.on_start([&] {
    segment.reset();
    for (const EntryIndex i : {first, second, third}) segment.view().entry(i).weight.raw = 1;
    require(ops.try_acquire(first, 1, 0).step == Step::acquired, "the start went wrong");
    require(ops.acquire_or_queue(third, 1, 0).step == Step::queued, "the start went wrong");
    // Queues behind it, and stops before it finishes that.
    const core::Control c = ops.load();
    old = core::enqueue(c, second);
    const std::uint64_t stamp = link_stamp(0, old.seq);
    Entry& e = segment.view().entry(second);
    e.prev.raw = pack(Link{third, stamp});
    e.next.raw = pack(Link{third, stamp});
    e.status.raw = pack(Status{Phase::prepared, 0, old.seq});
    require(P::cas(ops.record().control, c, old), "the start went wrong");
  });
  s.task("late", [&] { ops.finish(old); });
  s.task("others", [&] {
    ops.finish_now();
    ops.release(first, 2);
    ops.release(third, segment.token(0, 2));
    require(ops.acquire_or_queue(third, 1, 0).step == Step::queued, "the scenario is not what it should be");
  });
  s.at_end([&] { require(ops.head_of(ops.load()).entry == third, "the head is lost"); });
  expect_good(s, {.preemptions = 2});
}

// --- owner and others --------------------------------------------------------------------------------------------

TEST(HandOffSim, WhoGaveItBackIsNotCalledRobbed) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  const ControlOps<P> ops = segment.ops(0);
  sim::Plain<bool> released;
  sim::Plain<bool> reclaimed;
  s.on_start([&] {
    segment.reset();
    released = false;
    reclaimed = false;
    for (const EntryIndex i : {first, second}) segment.view().entry(i).weight.raw = 1;
    require(ops.try_acquire(first, 1, 0).step == Step::acquired, "the start went wrong");
    require(ops.acquire_or_queue(second, 1, 0).step == Step::queued, "the start went wrong");
  });
  s.task("a", [&] { released = ops.release(first, 2).step == Step::released; });
  s.task("c", [&] { reclaimed = ops.reclaim(first, force).step == Step::reclaimed; });
  s.at_end([&] {
    require(released != reclaimed, "given back and robbed, or neither");
    require((segment.take_news(0, segment.token(0, 1)).loss != Loss::none) == reclaimed, "the news is wrong");
    require(ops.status(first).phase == (reclaimed ? Phase::lost : Phase::free), "the owner is told what is wrong");
  });
  expect_good(s, {.preemptions = 3});
}

// A burier falls asleep; another one buries, and the entry is the next owner's, who does with it what the dead did.
void expect_that_the_next_owner_keeps_its_hold(bool prepared) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  const ControlOps<P> ops = segment.ops(0);
  const std::uint64_t dead = pack_owner({Segment::slot_of(0), 100});
  sim::Plain<std::uint64_t> token;
  s.on_start([&] {
    segment.reset();
    token = 0;
    segment.view().entry(first).weight.raw = 1;
    if (prepared) {
      segment.view().entry(first).status.raw = pack(Status{Phase::prepared, 0, ops.load().seq + 1});
    } else {
      require(ops.try_acquire(first, 1, 0).step == Step::acquired, "the start went wrong");
    }
  });
  s.task("late", [&] { bury_entry<P>(segment.view(), first, dead, Burial::dead); });
  s.task("first", [&] {
    segment.bury(0);
    P::store(segment.view().owner_of(first), pack_owner({Segment::slot_of(0), 101}));
    const Result got = ops.try_acquire(first, 1, 0);
    require(got.step == Step::acquired, "the lock is not free");
    token = got.seq;
  });
  s.at_end([&] {
    ops.finish_now();
    require(ops.holds(first, token), "the next owner's hold was taken");
  });
  expect_good(s, {.preemptions = 3});
}

TEST(BurialSim, ALateBurierTakesNoHoldOfTheNextOwner) { expect_that_the_next_owner_keeps_its_hold(false); }
TEST(BurialSim, ALateBurierFreesNothingThatTheNextOwnerPrepares) { expect_that_the_next_owner_keeps_its_hold(true); }

}  // namespace
}  // namespace shmcoord::engine
