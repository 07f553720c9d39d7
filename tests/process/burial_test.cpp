#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <random>
#include <thread>
#include <vector>

#include "process/liveness.hpp"
#include "process/participant.hpp"
#include "process/recovery.hpp"
#include "support/process_child.hpp"
#include "support/process_lock.hpp"

// Burying by many at once, and by buriers that are killed.

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

SlotState state_of(const engine::View& view, SlotIndex s) {
  return engine::unpack_slot(RealPolicy::load(view.slot(s).id)).state;
}

// A session that holds `held` locks, waits for `waits` that `holder` has, and left one entry prepared.
struct Victim {
  SlotIndex slot = 0;
  Child child;
};

constexpr int held_locks = 40;
constexpr int waited_locks = 40;
constexpr engine::Sizes sizes{.names = 128, .entries = 512, .sessions = 16};

Victim make_victim(const OwnSegment& segment) {
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    for (int n = 0; n < held_locks; ++n) {
      const Ops lock = make_lock(*me, "held-" + std::to_string(n));
      if (lock.acquire_or_queue(new_entry(*me), 1, 0).step != engine::Step::acquired) return 1;
    }
    for (int n = 0; n < waited_locks; ++n) {
      const Ops lock = make_lock(*me, "waited-" + std::to_string(n));
      if (lock.acquire_or_queue(new_entry(*me), 1, 0).step != engine::Step::queued) return 2;
    }
    const Ops lock = make_lock(*me, "held-0");
    const EntryIndex i = new_entry(*me);
    RealPolicy::store(segment.view().entry(i).status,
                      engine::pack(engine::Status{Phase::prepared, lock.index(), lock.load().seq + 1}));
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto slot = static_cast<SlotIndex>(child.wait_ready());
  return {slot, std::move(child)};
}

// Somebody else: holds what the victim waits for, and queues behind it on what it holds.
struct Bystander {
  std::unique_ptr<Participant> me;
  std::vector<EntryIndex> holds;
  std::vector<std::uint64_t> tokens;
  std::vector<EntryIndex> waits;
  std::vector<EntryIndex> waits_behind;

  explicit Bystander(const OwnSegment& segment) : me(Participant::join(segment.mapping())) {
    // The ring would bury before the test does.
    me->keeper().stop();
    for (int n = 0; n < waited_locks; ++n) {
      holds.push_back(new_entry(*me));
      tokens.push_back(make_lock(*me, "waited-" + std::to_string(n)).acquire_or_queue(holds.back(), 1, 0).seq);
    }
  }
  void queue_behind() {
    for (int n = 0; n < held_locks; ++n) {
      waits.push_back(new_entry(*me));
      make_lock(*me, "held-" + std::to_string(n)).acquire_or_queue(waits.back(), 1, 0);
    }
  }
  void check_all_is_right() {
    for (int n = 0; n < held_locks; ++n) {
      const Ops lock = make_lock(*me, "held-" + std::to_string(n));
      lock.finish_now();
      const core::Control c = lock.load();
      EXPECT_EQ(c.used, 1U) << n;
      EXPECT_EQ(c.tail, engine::nil_entry) << n;
      EXPECT_EQ(lock.status(waits[static_cast<std::size_t>(n)]).phase, Phase::held) << n;
      EXPECT_EQ(engine::unpack_handoff(RealPolicy::load(lock.record().previous)).loss, Loss::died) << n;
    }
    for (int n = 0; n < waited_locks; ++n) {
      const Ops lock = make_lock(*me, "waited-" + std::to_string(n));
      const auto k = static_cast<std::size_t>(n);
      EXPECT_TRUE(lock.holds(holds[k], tokens[k])) << n;
      EXPECT_EQ(lock.load().tail, engine::nil_entry) << n;
    }
    for (std::uint32_t c = 0; c < me->mapping().view().header().chunk_high.raw; ++c) {
      const std::uint64_t owner = RealPolicy::load(me->mapping().view().chunk(c));
      EXPECT_TRUE(owner == 0 || engine::unpack_owner(owner).slot == me->slot()) << c;
    }
  }
};

void kill_for_good(const OwnSegment& segment, Victim& victim) {
  victim.child.kill(SIGKILL);
  victim.child.wait();
  ASSERT_TRUE(eventually([&] { return life_of(*segment.mapping(), victim.slot).life == Life::dead; }));
}

TEST(Burial, ReleasesCancelsAndFrees) {
  OwnSegment segment(sizes);
  Bystander bystander(segment);
  Victim victim = make_victim(segment);
  ASSERT_GT(victim.slot, 0U);
  bystander.queue_behind();
  EXPECT_FALSE(bury(*segment.mapping(), victim.slot)) << "it lives";
  kill_for_good(segment, victim);
  EXPECT_TRUE(bury(*segment.mapping(), victim.slot));
  EXPECT_TRUE(bury(*segment.mapping(), victim.slot)) << "again does nothing";
  EXPECT_EQ(state_of(segment.view(), victim.slot), SlotState::free);
  bystander.check_all_is_right();
}

TEST(Burial, ByEightAtOnce) {
  for (int round = 0; round < 10; ++round) {
    OwnSegment segment(sizes);
    Bystander bystander(segment);
    std::vector<Child> buriers;
    Victim victim = make_victim(segment);
    bystander.queue_behind();
    for (int n = 0; n < 8; ++n) {
      buriers.emplace_back([&](const Child::Line& line) {
        line.ready();
        line.await_go();
        return bury(*segment.mapping(), victim.slot) ? 0 : 1;
      });
    }
    for (const Child& b : buriers) ASSERT_EQ(b.wait_ready(), 0);
    kill_for_good(segment, victim);
    for (const Child& b : buriers) b.go();
    for (Child& b : buriers) EXPECT_EQ(b.wait(), 0);
    EXPECT_EQ(state_of(segment.view(), victim.slot), SlotState::free);
    bystander.check_all_is_right();
  }
}

// A timer that kills this very process: hits a burial that takes 100 us better than a parent could.
void die_in(std::int64_t ns) {
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer{};
  ::timer_create(CLOCK_MONOTONIC, &event, &timer);
  const itimerspec when{{0, 0}, {ns / 1'000'000'000, ns % 1'000'000'000}};
  ::timer_settime(timer, 0, &when, nullptr);
}

// F9
TEST(Burial, OfBuriersThatAreKilled) {
  std::mt19937 random(20240917);
  int killed_in_the_middle = 0;
  constexpr int rounds = 30;
  constexpr int attempts = 8;
  for (int round = 0; round < rounds; ++round) {
    OwnSegment segment(sizes);
    Bystander bystander(segment);
    Victim victim = make_victim(segment);
    bystander.queue_behind();
    kill_for_good(segment, victim);
    for (int attempt = 0; attempt < attempts; ++attempt) {
      Child burier([&](const Child::Line&) {
        // From one microsecond to some milliseconds, each scale equally often: an instrumented burial takes longer.
        const std::int64_t scale = std::int64_t{1'000} << std::uniform_int_distribution<int>(0, 11)(random);
        die_in(std::uniform_int_distribution<std::int64_t>(scale, 2 * scale)(random));
        return bury(*segment.mapping(), victim.slot) ? 0 : 1;
      });
      burier.wait();
      if (state_of(segment.view(), victim.slot) == SlotState::dying) ++killed_in_the_middle;
      random.discard(2);
    }
    EXPECT_TRUE(bury(*segment.mapping(), victim.slot));
    EXPECT_EQ(state_of(segment.view(), victim.slot), SlotState::free);
    bystander.check_all_is_right();
  }
  std::printf("killed in the middle of a burial: %d of %d\n", killed_in_the_middle, rounds * attempts);
  EXPECT_GT(killed_in_the_middle, 0) << "else this test shows nothing";
}

// A burier that slept through the dead one's chunk becoming somebody else's touches nothing.
TEST(Burial, LateBurierHarmsNobody) {
  OwnSegment segment(sizes);
  Bystander bystander(segment);
  Victim victim = make_victim(segment);
  bystander.queue_behind();
  const std::uint64_t incarnation =
      engine::unpack_slot(RealPolicy::load(segment.view().slot(victim.slot).id)).incarnation;
  kill_for_good(segment, victim);
  ASSERT_TRUE(bury(*segment.mapping(), victim.slot, incarnation));
  const auto next = Participant::join(segment.mapping());
  ASSERT_EQ(next->slot(), victim.slot);
  const Ops lock = make_lock(*next, "own");
  const EntryIndex i = new_entry(*next);
  const auto got = lock.try_acquire(i, 1, 0);
  EXPECT_TRUE(bury(*segment.mapping(), victim.slot, incarnation));
  EXPECT_TRUE(lock.holds(i, got.seq));
  EXPECT_TRUE(next->usable());
}

// The kernel wakes one of those who wait for the dead; who buries wakes the others.
TEST(Burial, WakesAllWhoWaitForTheDead) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  const engine::Word32& life = segment.view().slot(s).life;
  const engine::WaitOn on{&life, RealPolicy::load(life)};
  std::vector<engine::Woken> how(3, engine::Woken::timed_out);
  std::vector<std::thread> waiters;
  for (engine::Woken& mine : how) {
    waiters.emplace_back([&] { mine = RealPolicy::wait({&on, 1}, RealPolicy::now_ns() + test::watchdog_ns); });
  }
  // One that is not asleep yet finds the word changed: it shows less, and fails nothing.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  child.kill(SIGKILL);
  child.wait();
  EXPECT_TRUE(eventually([&] { return bury(*segment.mapping(), s); }));
  for (std::thread& waiter : waiters) waiter.join();
  for (const engine::Woken mine : how) EXPECT_NE(mine, engine::Woken::timed_out);
}

// It had claimed a record for a name, and the name was in no chain yet.
TEST(Burial, SetsAClaimedRecordFree) {
  OwnSegment segment;
  const auto me = Participant::join(segment.mapping());
  make_lock(*me, "first");
  make_lock(*me, "second");
  const std::lock_guard guard(me->names_mutex());
  engine::NameIndex<RealPolicy> names(segment.view());
  const auto second = names.find("second");
  ASSERT_TRUE(second);
  ASSERT_EQ(names.remove(*second, me->slot(),
                         [&] { return Ops(segment.view(), second->record, second->generation).close(); }),
            engine::Removal::removed);
  Child child([&](const Child::Line& line) {
    const auto one = Participant::join(segment.mapping());
    engine::Word64& directory = segment.view().directory(second->record);
    RealPolicy::store(segment.view().slot(one->slot()).claiming, second->record + 1U);
    RealPolicy::cas(directory, RealPolicy::load(directory),
                    engine::pack(engine::RecordId{engine::RecordState::claimed, one->slot(), second->generation + 1}));
    line.ready(one->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  child.kill(SIGKILL);
  child.wait();
  EXPECT_TRUE(eventually([&] { return bury(*segment.mapping(), s); }));
  EXPECT_EQ(engine::unpack_record(RealPolicy::load(segment.view().directory(second->record))).state,
            engine::RecordState::free);
}

// It robbed a holder, and died before it told anybody: none of its own entries leads to that word.
TEST(Burial, SettlesTheWordThatTheDeadOneHelped) {
  OwnSegment segment;
  Bystander bystander(segment);
  Participant& me = *bystander.me;
  const Ops lock = make_lock(me, "deploy");
  const EntryIndex holder = new_entry(me);
  const EntryIndex waiter = new_entry(me);
  ASSERT_EQ(lock.acquire_or_queue(holder, 1, 0).step, engine::Step::acquired);
  ASSERT_EQ(lock.acquire_or_queue(waiter, 1, 0).step, engine::Step::queued);
  Child child([&](const Child::Line& line) {
    const auto robber = Participant::join(segment.mapping());
    RealPolicy::store(segment.view().slot(robber->slot()).helping, lock.index() + 1U);
    const core::Control c = lock.load();
    const core::Release r = core::release(c, holder, 1, 1, lock.head_of(c), true);
    RealPolicy::store(
        segment.view().entry(holder).handoff,
        engine::pack(engine::Handoff{r.grantee, Loss::forced, engine::handoff_stamp(lock.index(), r.next.seq)}));
    if (!RealPolicy::cas(lock.record().control, c, r.next)) return 1;
    line.ready(robber->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  ASSERT_GT(s, 0U);
  ASSERT_EQ(lock.status(waiter).phase, Phase::waiting);
  child.kill(SIGKILL);
  child.wait();
  EXPECT_TRUE(eventually([&] { return bury(*segment.mapping(), s); }));
  EXPECT_EQ(lock.status(waiter).phase, Phase::held);
  EXPECT_EQ(lock.status(holder).phase, Phase::lost);
}

// What a session held must stay in sight of `segment check` when it cannot be freed.
TEST(Burial, OfADamagedSessionKeepsItsSlot) {
  OwnSegment segment;
  segment.damaged_on_purpose();
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    line.ready(new_entry(*me));
    line.await_go();
    return 0;
  });
  const std::int64_t ready = child.wait_ready();
  ASSERT_GE(ready, 0);
  const auto i = static_cast<EntryIndex>(ready);
  const SlotIndex s = engine::unpack_owner(RealPolicy::load(segment.view().owner_of(i))).slot;
  RealPolicy::store(segment.view().entry(i).status,
                    engine::pack(engine::Status{Phase::held, segment.view().geo.sizes.names + 7, 5}));
  child.kill(SIGKILL);
  child.wait();
  ASSERT_TRUE(eventually([&] { return life_of(*segment.mapping(), s).life == Life::dead; }));
  EXPECT_FALSE(bury(*segment.mapping(), s));
  EXPECT_EQ(state_of(segment.view(), s), SlotState::dying);
}

// The ring: nobody waits for anything, nobody reaps, and the dead one is gone soon.
TEST(Ring, DeathIsNoticedWithNobodyWaiting) {
  OwnSegment segment;
  std::vector<Child> members;
  std::vector<SlotIndex> slots;
  for (int n = 0; n < 5; ++n) {
    members.emplace_back([&](const Child::Line& line) {
      const auto me = Participant::join(segment.mapping());
      make_lock(*me, "lock-" + std::to_string(me->slot())).try_acquire(new_entry(*me), 1, 0);
      line.ready(me->slot());
      line.await_go();
      return 0;
    });
    slots.push_back(static_cast<SlotIndex>(members.back().wait_ready()));
  }
  for (std::size_t n = 0; n < slots.size(); ++n) {
    const std::uint64_t next = slots[(n + 1) % slots.size()] + 1U;
    EXPECT_TRUE(eventually([&] { return RealPolicy::load(segment.view().slot(slots[n]).watching) == next; })) << n;
  }
  // Two neighbours at once, then another.
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) members[n].kill(SIGKILL);
  for (const std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
    EXPECT_TRUE(eventually([&] { return state_of(segment.view(), slots[n]) == SlotState::free; })) << n;
  }
  EXPECT_TRUE(eventually([&] { return RealPolicy::load(segment.view().slot(slots[0]).watching) == slots[3] + 1U; }));
  EXPECT_TRUE(eventually([&] { return RealPolicy::load(segment.view().slot(slots[3]).watching) == slots[0] + 1U; }));
}

TEST(Ring, StoppedPredecessorDoesNotBlockAJoin) {
  OwnSegment segment;
  Child first([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(first.wait_ready());
  first.kill(SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(first.pid(), &status, WUNTRACED), first.pid());
  const auto me = Participant::join(segment.mapping());
  EXPECT_TRUE(me->usable());
  EXPECT_EQ(RealPolicy::load(segment.view().slot(s).watching), 0U);
  first.kill(SIGCONT);
  EXPECT_TRUE(eventually([&] { return RealPolicy::load(segment.view().slot(s).watching) == me->slot() + 1U; }));
}

TEST(Ring, LeavingWhileOthersWatch) {
  OwnSegment segment;
  std::vector<Child> members;
  for (int n = 0; n < 6; ++n) {
    members.emplace_back([&](const Child::Line& line) {
      line.ready();
      line.await_go();
      for (int round = 0; round < 100; ++round) {
        const auto me = Participant::join(segment.mapping());
        if (!me->usable()) return 1;
        make_lock(*me, "shared").try_acquire(new_entry(*me), 1, 0);
      }
      return 0;
    });
  }
  for (const Child& m : members) ASSERT_EQ(m.wait_ready(), 0);
  for (const Child& m : members) m.go();
  for (Child& m : members) EXPECT_EQ(m.wait(), 0);
  for (SlotIndex s = 1; s < segment.view().header().slot_high.raw; ++s) {
    EXPECT_EQ(state_of(segment.view(), s), SlotState::free) << s;
  }
  const auto me = Participant::join(segment.mapping());
  EXPECT_EQ(make_lock(*me, "shared").try_acquire(new_entry(*me), 1, 0).step, engine::Step::acquired);
}

}  // namespace
}  // namespace shmcoord::process
