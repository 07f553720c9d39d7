#include "process/participant.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "process/byte_lock.hpp"
#include "process/liveness.hpp"
#include "process/recovery.hpp"
#include "support/process_child.hpp"
#include "support/process_lock.hpp"

namespace shmcoord::process {
namespace {

using engine::Phase;
using engine::RealPolicy;
using engine::SlotState;
using test::Child;
using test::Common;
using test::eventually;
using test::make_lock;
using test::new_entry;
using test::Ops;
using test::OwnSegment;
using ::testing::HasSubstr;

SlotState state_of(const engine::View& view, SlotIndex s) {
  return engine::unpack_slot(RealPolicy::load(view.slot(s).id)).state;
}

Errc error_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& e) {
    if (text != nullptr) *text = e.what();
    return e.errc();
  }
  return Errc{};
}

TEST(Participant, JoinsAndLeaves) {
  OwnSegment segment;
  SlotIndex slot = 0;
  {
    const auto me =
        Participant::join(segment.mapping(), {.label = "builder", .heartbeat_interval = std::chrono::seconds(5)});
    slot = me->slot();
    EXPECT_NE(slot, engine::detached_slot);
    EXPECT_TRUE(me->usable());
    EXPECT_EQ(state_of(segment.view(), slot), SlotState::alive);
    const engine::SessionSlot& s = segment.view().slot(slot);
    EXPECT_STREQ(s.label.data(), "builder");
    EXPECT_EQ(s.pid, ::getpid());
    EXPECT_EQ(RealPolicy::load(s.life) & engine::life_tid_mask, s.keeper_tid);
    EXPECT_NE(RealPolicy::load(s.life) & engine::life_waiters, 0U);
    EXPECT_EQ(life_of(*segment.mapping(), slot).life, Life::alive);
    EXPECT_EQ(life_of(*segment.mapping(), slot, me->incarnation() + 1).life, Life::dead);
    me->leave();
    EXPECT_FALSE(me->usable());
    EXPECT_EQ(error_of([&] { static_cast<void>(me->take_entry()); }), Errc::session_dead);
  }
  EXPECT_EQ(state_of(segment.view(), slot), SlotState::free);
  EXPECT_NE(RealPolicy::load(segment.view().slot(slot).life) & engine::life_died, 0U) << "only the kernel ends it";
}

TEST(Participant, LongLabelsAreCutBetweenCharacters) {
  OwnSegment segment;
  std::string label;
  while (label.size() < 200) label += "\xC3\xA9";  // two bytes each
  const auto me = Participant::join(segment.mapping(), {.label = label});
  const std::string shown(segment.view().slot(me->slot()).label.data());
  EXPECT_LT(shown.size(), 128U);
  EXPECT_TRUE(shown.ends_with("\xC3\xA9\xE2\x80\xA6")) << shown;
}

TEST(Participant, RefusesBadIntervals) {
  OwnSegment segment;
  using namespace std::chrono_literals;
  for (const std::chrono::nanoseconds bad : {0ns, -1ns, std::chrono::nanoseconds::max()}) {
    EXPECT_EQ(
        error_of([&] { auto p = Participant::join(segment.mapping(), {.label = "", .heartbeat_interval = bad}); }),
        Errc::invalid_argument);
  }
}

TEST(Participant, TwoInOneProcessHaveTwoSlots) {
  OwnSegment segment;
  const auto a = Participant::join(segment.mapping());
  auto b = Participant::join(segment.mapping());
  EXPECT_NE(a->slot(), b->slot());
  const SlotIndex slot = b->slot();
  const std::uint64_t incarnation = b->incarnation();
  b.reset();
  EXPECT_EQ(state_of(segment.view(), slot), SlotState::free);
  EXPECT_TRUE(a->usable()) << "leaving one must not drop the locks of the other";
  EXPECT_EQ(life_of(*segment.mapping(), a->slot()).life, Life::alive);
  Child other([&](const Child::Line&) {
    return probe_slot(*segment.mapping(), a->slot()) == ByteState::locked &&
                   probe_slot(*segment.mapping(), slot) == ByteState::free
               ? 0
               : 1;
  });
  EXPECT_EQ(other.wait(), 0);
  b = Participant::join(segment.mapping());
  EXPECT_EQ(b->slot(), slot);
  EXPECT_EQ(b->incarnation(), incarnation + 1);
}

// F21
TEST(Participant, ForkedChildIsNone) {
  OwnSegment segment;
  auto me = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  const EntryIndex i = new_entry(*me);
  const auto got = lock.try_acquire(i, 1, 0);
  ASSERT_EQ(got.step, engine::Step::acquired);
  Child child([&](const Child::Line&) {
    if (me->usable()) return 1;
    if (error_of([&] { static_cast<void>(me->take_entry()); }) != Errc::not_a_participant) return 2;
    me->give_back(i);
    me->leave();
    me.reset();
    auto own = Participant::join(segment.mapping());  // it may join anew
    if (!own->usable() || own->slot() == 1) return 3;
    own.reset();
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(me->usable());
  EXPECT_TRUE(lock.holds(i, got.seq));
  EXPECT_EQ(life_of(*segment.mapping(), me->slot()).life, Life::alive);
  Child other([&](const Child::Line&) { return life_of(*segment.mapping(), me->slot()).life == Life::alive ? 0 : 1; });
  EXPECT_EQ(other.wait(), 0);
}

// F25: what was held is free, what was waited for is not waited for, and the next waiter has it.
TEST(Participant, LeavingWhileHoldingReleases) {
  OwnSegment segment;
  auto a = Participant::join(segment.mapping());
  auto b = Participant::join(segment.mapping());
  const Ops lock = make_lock(*a, "deploy");
  const EntryIndex first = new_entry(*a);
  const EntryIndex second = new_entry(*a);
  const EntryIndex third = new_entry(*b);
  ASSERT_EQ(lock.acquire_or_queue(first, 1, 0).step, engine::Step::acquired);
  ASSERT_EQ(lock.acquire_or_queue(second, 1, 0).step, engine::Step::queued);
  ASSERT_EQ(lock.acquire_or_queue(third, 1, 0).step, engine::Step::queued);
  a.reset();
  EXPECT_EQ(lock.status(third).phase, Phase::held);
  const core::Control c = lock.load();
  EXPECT_EQ(c.used, 1U);
  EXPECT_EQ(c.tail, engine::nil_entry);
  EXPECT_EQ(engine::unpack_handoff(RealPolicy::load(lock.record().previous)).loss, Loss::none) << "a leave robs nobody";
  EXPECT_EQ(RealPolicy::load(segment.view().owner_of(first)), 0U);
}

TEST(Participant, EntriesAreTakenAndGivenBack) {
  OwnSegment segment({.names = 8, .entries = 64, .sessions = 4});
  const auto me = Participant::join(segment.mapping());
  std::set<EntryIndex> taken;
  for (int n = 0; n < 64; ++n) EXPECT_TRUE(taken.insert(me->take_entry()).second);
  std::string text;
  EXPECT_EQ(error_of([&] { static_cast<void>(me->take_entry()); }, &text), Errc::table_full);
  EXPECT_THAT(text, HasSubstr("64 entries"));
  for (const EntryIndex i : taken) me->give_back(i);
  std::set<EntryIndex> again;
  for (int n = 0; n < 64; ++n) again.insert(me->take_entry());
  EXPECT_EQ(again, taken);
}

TEST(Participant, GivingBackFinishesAnUnfinishedRelease) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  const EntryIndex i = new_entry(*me);
  const auto got = lock.try_acquire(i, 1, 0);
  ASSERT_EQ(lock.release(i, got.seq).step, engine::Step::released);
  ASSERT_NE(lock.status(i).phase, Phase::free) << "the owner may leave its plain release unfinished";
  me->give_back(i);
  EXPECT_EQ(lock.status(i).phase, Phase::free);
  EXPECT_EQ(me->take_entry(), i);
}

// Many processes claim chunks; nobody gets an entry that another has.
TEST(Participant, ChunksAreClaimedByOneOnly) {
  OwnSegment segment({.names = 8, .entries = 1024, .sessions = 16});
  constexpr int processes = 8;
  constexpr int each = 100;
  struct Seen {
    std::atomic<int> owners[1024];
    std::atomic<int> clashes;
  };
  Common<Seen> seen;
  std::vector<Child> children;
  for (int n = 0; n < processes; ++n) {
    children.emplace_back([&](const Child::Line& line) {
      line.ready();
      line.await_go();
      for (int round = 0; round < 20; ++round) {
        const auto me = Participant::join(segment.mapping());
        std::vector<EntryIndex> mine;
        for (int k = 0; k < each; ++k) mine.push_back(me->take_entry());
        for (const EntryIndex i : mine) seen->clashes += seen->owners[i].fetch_add(1) != 0;
        for (const EntryIndex i : mine) seen->owners[i].fetch_sub(1);
      }
      return 0;
    });
  }
  for (const Child& c : children) ASSERT_EQ(c.wait_ready(), 0);
  for (const Child& c : children) c.go();
  for (Child& c : children) EXPECT_EQ(c.wait(), 0);
  EXPECT_EQ(seen->clashes.load(), 0);
  for (std::uint32_t c = 0; c < segment.view().geo.chunk_count; ++c)
    EXPECT_EQ(RealPolicy::load(segment.view().chunk(c)), 0U);
}

// F13
TEST(Participant, AllSlotsTakenByTheLivingNamesThem) {
  OwnSegment segment({.names = 8, .entries = 64, .sessions = 4});
  const auto a = Participant::join(segment.mapping(), {.label = "first"});
  Child child([&](const Child::Line& line) {
    const auto b = Participant::join(segment.mapping(), {.label = "second"});
    const auto c = Participant::join(segment.mapping(), {.label = "third"});
    line.ready();
    line.await_go();
    return 0;
  });
  ASSERT_EQ(child.wait_ready(), 0);
  std::string text;
  EXPECT_EQ(error_of([&] { auto p = Participant::join(segment.mapping()); }, &text), Errc::table_full);
  EXPECT_THAT(text, HasSubstr("all 3 session slots"));
  EXPECT_THAT(text, HasSubstr("\"first\""));
  EXPECT_THAT(text, HasSubstr("\"third\""));
  EXPECT_THAT(text, HasSubstr("pid " + std::to_string(child.pid())));
}

// F12, F13: nobody but the joiners cleans up here, since all that could have noticed die as well.
TEST(Participant, SlotsOfTheDeadAreRecycled) {
  OwnSegment segment({.names = 8, .entries = 64, .sessions = 4});
  for (int round = 0; round < 20; ++round) {
    Child child([&](const Child::Line& line) {
      const auto a = Participant::join(segment.mapping());
      const auto b = Participant::join(segment.mapping());
      const auto c = Participant::join(segment.mapping());
      static_cast<void>(c->take_entry());
      line.ready();
      line.await_go();
      return 0;
    });
    ASSERT_EQ(child.wait_ready(), 0) << round;
    child.kill(SIGKILL);
    child.wait();
  }
  const auto me = Participant::join(segment.mapping());
  EXPECT_GE(me->incarnation(), 20U);
}

TEST(Participant, DetachedHoldSurvivesAndItsChunkIsFreedAtTheEnd) {
  OwnSegment segment;
  EntryIndex i = 0;
  std::uint64_t token = 0;
  auto me = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  i = me->take_detached_entry();
  RealPolicy::store(segment.view().entry(i).weight, 1);
  RealPolicy::store(segment.view().entry(i).flags, engine::entry_detached);
  token = lock.try_acquire(i, 1, 0).seq;
  ASSERT_TRUE(me->commit_detached(i));
  me.reset();
  EXPECT_TRUE(lock.holds(i, token));
  EXPECT_EQ(life_of_entry(*segment.mapping(), i).proof, Proof::heartbeat_only);
  sweep(*segment.mapping(), RealPolicy::now_ns(), {.reclaim_stale = false});
  EXPECT_TRUE(lock.holds(i, token));
  ASSERT_EQ(lock.release(i, token).step, engine::Step::released);  // leaves the entry to be finished
  tidy_detached(segment.view(), i);
  EXPECT_EQ(RealPolicy::load(segment.view().owner_of(i)), 0U);
}

// A burier of the first detached life of a chunk may have slept until the second.
TEST(Participant, NoChunkWordOfADetachedHoldComesBack) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  const auto life_of_chunk = [&] {
    const EntryIndex i = me->take_detached_entry();
    EXPECT_EQ(i, 0U);
    RealPolicy::store(segment.view().entry(i).weight, 1);
    RealPolicy::store(segment.view().entry(i).flags, engine::entry_detached);
    const std::uint64_t token = lock.try_acquire(i, 1, 0).seq;
    EXPECT_TRUE(me->commit_detached(i));
    const std::uint64_t owner = RealPolicy::load(segment.view().owner_of(i));
    EXPECT_EQ(lock.release(i, token).step, engine::Step::released);
    tidy_detached(segment.view(), i);
    return owner;
  };
  const std::uint64_t first = life_of_chunk();
  EXPECT_NE(life_of_chunk(), first);
}

// Whoever gave the detached hold back was killed before it could free the chunk, and no reaper runs.
TEST(Participant, WhatNobodyUsesIsTakenWhenNoEntryIsLeft) {
  OwnSegment segment({.names = 8, .entries = 16, .sessions = 8});
  auto me = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  const EntryIndex i = me->take_detached_entry();
  RealPolicy::store(segment.view().entry(i).weight, 1);
  RealPolicy::store(segment.view().entry(i).flags, engine::entry_detached);
  const std::uint64_t token = lock.try_acquire(i, 1, 0).seq;
  ASSERT_TRUE(me->commit_detached(i));
  for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) static_cast<void>(me->take_entry());
  EXPECT_EQ(error_of([&] { static_cast<void>(me->take_entry()); }), Errc::table_full);
  EXPECT_TRUE(lock.holds(i, token));
  ASSERT_EQ(lock.release(i, token).step, engine::Step::released);
  EXPECT_NO_THROW(static_cast<void>(me->take_entry()));
}

TEST(Participant, DetachedHoldThatIsNotCommittedDiesWithUs) {
  OwnSegment segment;
  auto other = Participant::join(segment.mapping());
  const Ops lock = make_lock(*other, "deploy");
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    const EntryIndex i = me->take_detached_entry();
    RealPolicy::store(segment.view().entry(i).weight, 1);
    RealPolicy::store(segment.view().entry(i).flags, engine::entry_detached);
    line.ready(lock.try_acquire(i, 1, 0).step == engine::Step::acquired ? 1 : 0);
    line.await_go();
    return 0;
  });
  ASSERT_EQ(child.wait_ready(), 1);
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return core::idle(lock.load()); })) << "its ring neighbour buries it";
}

// A claim that it recovered, or a word that it settled, would be what somebody else did long ago.
TEST(Participant, StartsWithoutTheNotesOfTheLastOwner) {
  OwnSegment segment;
  segment.mapping()->ensure_slot(1);
  RealPolicy::store(segment.view().slot(1).claiming, 1);
  RealPolicy::store(segment.view().slot(1).helping, 1);
  const auto me = Participant::join(segment.mapping());
  ASSERT_EQ(me->slot(), 1U);
  EXPECT_EQ(RealPolicy::load(segment.view().slot(1).claiming), 0U);
  EXPECT_EQ(RealPolicy::load(segment.view().slot(1).helping), 0U);
}

TEST(Participant, NotesWhichWordItHelps) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  const engine::Word64& helping = segment.view().slot(me->slot()).helping;
  {
    const Participant::Helping note(*me, 3);
    EXPECT_EQ(RealPolicy::load(helping), 4U);
  }
  EXPECT_EQ(RealPolicy::load(helping), 0U);
}

// Whoever leaves sets the slot free before it unlocks the byte.
TEST(Participant, ASlotWhoseByteIsOursIsNotLockedAgain) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  EXPECT_FALSE(lock_slot(*segment.mapping(), me->slot()));
}

TEST(Participant, RemovedSegmentIsNotUsable) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  Common<std::atomic<int>> ticks;
  me->keeper().add_tick([&] { ++*ticks; });
  engine::Mapping::remove(segment.name());
  EXPECT_FALSE(me->usable());
  EXPECT_EQ(error_of([&] { me->require_usable(); }), Errc::segment_gone);
  const int before = ticks->load();
  EXPECT_TRUE(eventually([&] { return ticks->load() > before; }));
}

TEST(Participant, UnlinkedSegmentIsNoticed) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  ::unlink(segment.mapping()->path().c_str());
  EXPECT_TRUE(eventually([&] { return !me->usable(); }));
  EXPECT_EQ(error_of([&] { me->require_usable(); }), Errc::segment_gone);
}

TEST(Participant, FencedSessionIsToldAndItsHoldsAreGone) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  const auto next = Participant::join(segment.mapping());
  const Ops lock = make_lock(*me, "deploy");
  const EntryIndex i = new_entry(*me);
  const auto got = lock.try_acquire(i, 1, 0);
  EXPECT_TRUE(fence(*segment.mapping(), me->slot(), me->incarnation()));
  EXPECT_FALSE(fence(*segment.mapping(), me->slot(), me->incarnation() + 1));
  EXPECT_FALSE(me->usable());
  EXPECT_EQ(error_of([&] { me->require_usable(); }), Errc::session_dead);
  EXPECT_EQ(RealPolicy::load(segment.view().owner_of(i)), engine::pack_owner({me->slot(), me->incarnation()}))
      << "it may be writing to its entries";
  EXPECT_FALSE(lock.holds(i, got.seq));
  EXPECT_EQ(lock.status(i).phase, Phase::lost);
  EXPECT_EQ(lock.try_acquire(new_entry(*next), 1, 0).step, engine::Step::acquired);
  EXPECT_EQ(lock.release(i, got.seq).step, engine::Step::gone);
  const SlotIndex slot = me->slot();
  EXPECT_FALSE(bury(*segment.mapping(), slot)) << "it still runs";
  me->leave();
  EXPECT_EQ(state_of(segment.view(), slot), SlotState::free);
}

TEST(Keeper, TicksEndWithTheirRemoval) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  std::atomic<int> calls{0};
  std::atomic<bool> inside{false};
  const auto id = me->keeper().add_tick([&] {
    inside = true;
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    inside = false;
  });
  me->keeper().poke();
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  me->keeper().remove_tick(id);
  EXPECT_FALSE(inside.load()) << "it must be over";
  const int before = calls;
  me->keeper().poke();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(calls, before);
}

TEST(Keeper, TickMayRemoveItself) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  std::atomic<int> calls{0};
  std::atomic<std::uint64_t> id{0};
  id = me->keeper().add_tick([&] {
    if (id == 0) return;
    ++calls;
    me->keeper().remove_tick(id);
  });
  me->keeper().poke();
  ASSERT_TRUE(eventually([&] { return calls == 1; }));
  me->keeper().poke();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(calls, 1);
}

TEST(Keeper, BeatsByItselfAndFasterWhenAsked) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());  // every 15 s
  const engine::SessionSlot& s = segment.view().slot(me->slot());
  const std::uint64_t first = RealPolicy::load(s.heartbeat_ns);
  me->keeper().need_interval(10'000'000);
  EXPECT_TRUE(eventually([&] { return RealPolicy::load(s.heartbeat_ns) > first + 50'000'000; }));
  EXPECT_EQ(RealPolicy::load(s.beat_interval_ns), 10'000'000U);
  me->keeper().drop_interval(10'000'000);
  me->keeper().poke();
  EXPECT_TRUE(eventually([&] { return RealPolicy::load(s.beat_interval_ns) == 15'000'000'000U; }));
}

TEST(Keeper, ManualModeLeavesTheHeartToTheHolder) {
  OwnSegment segment;
  const auto me = Participant::join(
      segment.mapping(), {.label = "", .manual_heartbeat = true, .heartbeat_interval = std::chrono::milliseconds(5)});
  const engine::SessionSlot& s = segment.view().slot(me->slot());
  const std::uint64_t first = RealPolicy::load(s.heartbeat_ns);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(RealPolicy::load(s.heartbeat_ns), first);
  me->beat(RealPolicy::now_ns());
  EXPECT_GT(RealPolicy::load(s.heartbeat_ns), first);
}

}  // namespace
}  // namespace shmcoord::process
