#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/chunks.hpp"
#include "engine/control.hpp"
#include "engine/wait.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// As safety_sim_test, for waiters and for chunks of entries: the smallest story for each line that keeps somebody from
// sleeping for ever, or from losing what is his.

namespace shmcoord::engine {
namespace {

using sim::expect_good;
using sim::is_dead;
using sim::is_finished;
using sim::require;
using sim::Segment;
using P = sim::SimPolicy;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);
constexpr auto force = [](const Entry&) { return Loss::forced; };

// What a waiter is told; each story changes the part that it is about.
struct Around {
  const Segment& segment;
  unsigned process;
  bool bury(SlotIndex slot, std::int64_t) const {
    segment.bury(Segment::process_of(slot));
    return true;
  }
  std::int64_t check_holders(const ControlOps<P>&, Watched&) const { return never; }
  bool stop_requested() const { return false; }
  bool deadlocked() const { return false; }
  bool usable() const { return true; }
  SlotIndex self() const { return Segment::slot_of(process); }
};

template <class World>
void wait_for_grant(const Segment& segment, RecordIndex r, World&& around, std::uint32_t pauses = 0) {
  const ControlOps<P> ops = segment.ops(r);
  const EntryIndex i = Segment::entry_of(around.process);
  SpinBudget spin{.pauses = pauses};
  const WaitEnd end = Waiter<P, std::remove_reference_t<World>>(ops, i, around).wait(never, spin);
  require(end == WaitEnd::granted, "the wait ended for no reason");
}

template <class World>
void wait_and_release(const Segment& segment, RecordIndex r, World&& around, std::uint32_t pauses = 0) {
  wait_for_grant(segment, r, around, pauses);
  const EntryIndex i = Segment::entry_of(around.process);
  require(segment.ops(r).release(i, segment.token(r, around.process)).step == Step::released, "the release failed");
}

// One holds and one waits in words 0 and up, from the start.
void hold_and_queue(const Segment& segment, RecordIndex r, EntryIndex holder, EntryIndex waiter) {
  for (const EntryIndex i : {holder, waiter}) segment.view().entry(i).weight.raw = 1;
  require(segment.ops(r).try_acquire(holder, 1, 0).step == Step::acquired, "the start went wrong");
  require(segment.ops(r).acquire_or_queue(waiter, 1, 0).step == Step::queued, "the start went wrong");
}

TEST(Waiting, NoGrantIsMissedWithOrWithoutFutexWaitv) {
  for (const bool several_words : {true, false}) {
    Segment segment(1);
    sim::Scenario s;
    segment.name_words(s);
    s.on_start([&] {
      segment.reset();
      hold_and_queue(segment, 0, first, second);
    });
    s.task("b", [&] { wait_and_release(segment, 0, Around{segment, 1}); });
    s.task("a", [&] {
      require(segment.ops(0).release(first, segment.token(0, 0)).step == Step::released, "the release failed");
    });
    s.at_end([&] { segment.require_idle(); });
    expect_good(s, {.preemptions = 2, .several_words = several_words});
  }
}

// Called while it still has to wait, it spins, and is granted at any moment of that.
TEST(Waiting, WhoSpinsMissesNoGrant) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    hold_and_queue(segment, 0, first, second);
    segment.view().entry(third).weight.raw = 1;
    require(segment.ops(0).acquire_or_queue(third, 1, 0).step == Step::queued, "the start went wrong");
    P::store(segment.view().entry(first).since_ns, static_cast<std::uint64_t>(P::now_ns()));
  });
  s.task("b", [&] { wait_and_release(segment, 0, Around{segment, 1}, 2); });
  s.task("c", [&] { wait_and_release(segment, 0, Around{segment, 2}, 2); });
  s.task("a", [&] {
    require(segment.ops(0).release(first, segment.token(0, 0)).step == Step::released, "the release failed");
  });
  s.at_end([&] { segment.require_idle(); });
  expect_good(s, {.preemptions = 2});
}

TEST(Waiting, TheOneBehindTheGranteeIsCalledWhereHoldsAreShort) {
  for (const bool is_short : {true, false}) {
    Segment segment(1);
    sim::Scenario s;
    segment.name_words(s);
    s.on_start([&] {
      segment.reset();
      hold_and_queue(segment, 0, first, second);
      segment.view().entry(third).weight.raw = 1;
      require(segment.ops(0).acquire_or_queue(third, 1, 0).step == Step::queued, "the start went wrong");
      for (const EntryIndex i : {second, third}) P::store(segment.view().entry(i).wake, wake_parked);
    });
    s.task("a", [&] {
      const std::int64_t since = P::now_ns() - (is_short ? 0 : short_hold_ns);
      P::store(segment.view().entry(first).since_ns, static_cast<std::uint64_t>(since));
      require(segment.ops(0).release(first, segment.token(0, 0)).step == Step::released, "the release failed");
      require(P::load(segment.view().entry(second).wake) == wake_called, "the grantee was not called");
      const std::uint32_t behind = P::load(segment.view().entry(third).wake);
      require(behind == (is_short ? wake_called : wake_parked), "the one behind it was called, or was not");
      require(segment.ops(0).status(third).phase == Phase::waiting, "the one behind it does not wait any more");
    });
    expect_good(s, {});
  }
}

// The one who let it in died before it let in the next, who fits too; somebody finished the word and no more.
TEST(Waiting, WhoWasLetInLetsInTheNext) {
  Segment segment(3);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    for (const auto& [i, weight] : {std::pair{first, 3U}, {second, 1U}, {third, 1U}}) {
      segment.view().entry(i).weight.raw = weight;
      require(segment.ops(0).acquire_or_queue(i, weight, 0).step != Step::corrupt, "the start went wrong");
    }
  });
  s.task("b", [&] {
    wait_for_grant(segment, 0, Around{segment, 1});
    sim::await([] { return is_finished(1); });
    segment.ops(0).release(second, segment.token(0, 1));
  });
  s.task("c", [&] { wait_and_release(segment, 0, Around{segment, 2}); });
  const sim::TaskIndex holder = s.mortal("a", [&] { segment.ops(0).release(first, 2); });
  s.task("a, another thread", [&] {
    sim::await([=] { return is_dead(holder) || is_finished(holder); });
    if (segment.ops(0).holds(first, 2)) segment.ops(0).release(first, 2);
    segment.ops(0).finish_now();
  });
  s.at_end([&] { segment.require_idle(); });
  expect_good(s, {.preemptions = 1, .deaths = 1});
}

struct Judging : Around {
  std::int64_t check_holders(const ControlOps<P>& ops, Watched&) const {
    ops.reclaim(first, [](const Entry&) { return Loss::stale; });
    return never;
  }
};

TEST(Waiting, TheHeadJudgesTheHolder) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    hold_and_queue(segment, 0, first, second);
  });
  s.task("b", [&] { wait_and_release(segment, 0, Judging{{segment, 1}}); });
  s.at_end([&] { segment.require_idle(); });
  expect_good(s, {.preemptions = 1});
}

// The holder dies; the kernel tells one of the two who wait for it in two words, and that one is stopped before the
// death is confirmed.
struct Noticing : Around {
  bool stopped = false;
  bool noticed = false;
  bool bury(SlotIndex, std::int64_t) {
    noticed = true;
    if (stopped) sim::await([] { return is_finished(1); });
    return false;
  }
  bool stop_requested() const { return noticed; }
};

TEST(Waiting, TheNoticeOfADeathIsPassedOn) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    hold_and_queue(segment, 0, first, second);
    hold_and_queue(segment, 1, first + 1, third);
  });
  const auto wait = [&](RecordIndex r, unsigned process) {
    Noticing around{{segment, process}, process == 1};
    SpinBudget spin{.pauses = 0};
    const ControlOps<P> ops = segment.ops(r);
    const WaitEnd end = Waiter<P, Noticing>(ops, Segment::entry_of(process), around).wait(never, spin);
    require(end == WaitEnd::stopped, "the wait ended for no reason");
  };
  s.task("b", [&] { wait(0, 1); });  // sleeps first, so that it is the one whom the kernel wakes
  s.task("c", [&] { wait(1, 2); });
  s.task("kernel", [&] { segment.announce_death(0); });
  expect_good(s, {.preemptions = 1});
}

// Two hold, and one of them dies: not the one whom the record names.
struct Seeing : Around {
  std::int64_t check_holders(const ControlOps<P>& ops, Watched& watched) const {
    for (const EntryIndex i : {second, first}) {
      if (ops.status(i).phase == Phase::held) watched.add(segment.view(), P::load(segment.view().owner_of(i)));
    }
    return never;
  }
};

TEST(Waiting, TheHeadIsToldOfEachHoldersDeath) {
  Segment segment(2);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    for (const EntryIndex i : {first, second, third}) {
      segment.view().entry(i).weight.raw = 1;
      require(segment.ops(0).acquire_or_queue(i, 1, 0).step != Step::corrupt, "the start went wrong");
    }
  });
  s.task("c", [&] { wait_and_release(segment, 0, Seeing{{segment, 2}}); });
  s.task("kernel", [&] { segment.announce_death(0); });
  expect_good(s, {.preemptions = 2});
}

// Whoever should have told it is gone and nobody buries it: it looks by itself after a second, which here is no stall.
constexpr sim::Options patient{.preemptions = 0, .deaths = 1, .stall_after_ns = 2 * recheck_ns};

TEST(Waiting, AfterASecondItLooksByItself) {
  Segment segment(1);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    hold_and_queue(segment, 0, first, second);
  });
  s.task("b", [&] { wait_and_release(segment, 0, Around{segment, 1}); });
  s.mortal("c", [&] { segment.ops(0).reclaim(first, force); });
  const sim::TaskIndex robber = 1;
  s.task("a", [&] {  // if the robber did nothing
    sim::await([] { return is_dead(robber) || is_finished(robber); });
    const core::Control c = segment.ops(0).load();
    if (c.op != core::Op::reclaim && c.used != 0 && segment.ops(0).holds(first, 2)) segment.ops(0).release(first, 2);
  });
  expect_good(s, patient);
}

TEST(Waiting, AfterASecondItGrantsWhomSomebodyForgot) {
  Segment segment(3);
  sim::Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    segment.reset();
    const ControlOps<P> ops = segment.ops(0);
    for (const auto& [i, weight] : {std::pair{first, 2U}, {second, 2U}, {third, 1U}}) {
      segment.view().entry(i).weight.raw = weight;
      require(ops.acquire_or_queue(i, weight, 0).step != Step::corrupt, "the start went wrong");
    }
  });
  s.task("c", [&] { wait_and_release(segment, 0, Around{segment, 2}); });
  s.mortal("b", [&] { segment.ops(0).cancel(second); });
  const sim::TaskIndex canceller = 1;
  s.task("b, another thread", [&] {  // if it did nothing
    sim::await([] { return is_dead(canceller) || is_finished(canceller); });
    if (is_dead(canceller) && segment.ops(0).status(second).phase == Phase::waiting) {
      if (segment.ops(0).load().seq == 4) segment.ops(0).cancel(second);
    }
  });
  expect_good(s, patient);
}

// --- chunks ------------------------------------------------------------------------------------------------------

TEST(ChunkSim, NoneIsClaimedBeyondWhatABurialScans) {
  Segment segment(1);
  const View& view = segment.view();
  AllPagesExist pages;
  sim::Scenario s;
  s.on_start([&] {
    segment.reset();
    view.header().chunk_high.raw = 0;
    view.header().chunk_hint.raw = 0;
    for (std::uint32_t c = 0; c < view.geo.chunk_count; ++c) view.chunk(c).raw = 0;
  });
  for (unsigned p = 0; p < 2; ++p) {
    s.mortal("claim", [&, p] { Chunks<P>(view).claim(pages, pack_owner({Segment::slot_of(p), 100U + p})); });
  }
  s.at_end([&] {
    for (std::uint32_t c = 0; c < view.geo.chunk_count; ++c) {
      require(view.chunk(c).raw == 0 || c < view.header().chunk_high.raw, "a claimed chunk is out of sight");
    }
  });
  expect_good(s, {.preemptions = 2, .deaths = 2});
}

TEST(ChunkSim, ALateBurierFreesNoChunkOfTheNextOwner) {
  Segment segment(1);
  const View& view = segment.view();
  AllPagesExist pages;
  const std::uint64_t dead = pack_owner({Segment::slot_of(0), 100});
  const std::uint64_t next = pack_owner({Segment::slot_of(0), 101});
  sim::Scenario s;
  s.on_start([&] {
    segment.reset();
    view.header().chunk_high.raw = view.geo.chunk_count;
    view.header().chunk_hint.raw = 0;
  });
  s.task("late", [&] { Chunks<P>(view).free(0, dead); });
  s.task("first", [&] {
    Chunks<P>(view).free(0, dead);
    require(Chunks<P>(view).claim(pages, next).chunk == 0, "the scenario is not what it should be");
  });
  s.at_end([&] { require(view.chunk(0).raw == next, "the next owner's chunk was freed"); });
  expect_good(s, {.preemptions = 2});
}

}  // namespace
}  // namespace shmcoord::engine
