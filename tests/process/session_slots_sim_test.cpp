#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "process/session_slots.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// Session slots under the deterministic scheduler: processes join, take a lock, leave or are killed at any step; the
// kernel ends first their keeper and then the rest of them; reapers, waiters, joiners and the ring of keepers look and
// bury whenever they like. The code is that of real sessions; only the kernel is simulated, as tests/model/life.pml has
// it.

namespace shmcoord::process {
namespace {

using engine::Chunks;
using engine::ControlOps;
using engine::EntryIndex;
using engine::pack;
using engine::SessionSlot;
using engine::SlotId;
using engine::SlotState;
using sim::await;
using sim::is_dead;
using sim::is_finished;
using sim::judge;
using sim::Plain;
using sim::require;
using sim::Scenario;
using P = sim::SimPolicy;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
constexpr unsigned processes = 3;
constexpr unsigned nobody = 99;

class World {
 public:
  enum class Start : std::uint8_t { empty, joined, joined_but_one };
  World(SlotIndex slots, Start start)
      : slots_(slots), joined_(start != Start::empty), late_(start == Start::joined_but_one) {
    segment_.name_words(scenario_);
    for (SlotIndex s = 1; s <= processes; ++s) {
      const std::string who = "s" + std::to_string(s) + ".";
      scenario_.name(&row(s).id, who + "id");
      scenario_.name(&row(s).life, who + "life");
      scenario_.name(&row(s).signal, who + "signal");
      scenario_.name(&row(s).watching, who + "watching");
      scenario_.name(&byte_[s], who + "byte");
    }
    scenario_.on_start([this] { reset(); });
    scenario_.at_end([this] { require_nothing_left(); });
  }
  [[nodiscard]] Scenario& scenario() noexcept { return scenario_; }
  std::int64_t look_again_ns = never;  // of keepers; the real ones do each second

  // --- the kernel ----------------------------------------------------------------------------------------------------

  // What the kernel tells is never old, so each question is a locked operation.
  struct Kernel {
    World* world;
    unsigned me;
    [[nodiscard]] bool owns(SlotIndex s) const { return me != nobody && P::add(world->byte_[s], 0) == me + 1; }
    [[nodiscard]] bool lock(SlotIndex s) const { return P::cas(world->byte_[s], 0, me + 1); }
    void unlock(SlotIndex s) const { P::cas(world->byte_[s], me + 1, 0); }
    [[nodiscard]] bool bytes_free(SlotIndex s) const { return P::add(world->byte_[s], 0) == 0; }
    [[nodiscard]] bool inherited_free(SlotIndex) const { return true; }
    [[nodiscard]] ProcessState state_of(const SessionSlot& slot) const {
      const unsigned who = world->described_[static_cast<std::size_t>(&slot - &world->row(0))];
      if (who == nobody) return ProcessState::unknown;
      return P::add(world->ended_[who], 0) != 0 ? ProcessState::exiting : ProcessState::running;
    }
    [[nodiscard]] static bool earlier_boot(const SessionSlot&) { return false; }
    static void prepare_notices(const ChunkList&) {}
  };
  using Slots = SessionSlots<P, Kernel>;
  [[nodiscard]] Slots slots(unsigned who) noexcept { return {segment_.view(), Kernel{this, who}}; }

  /// Ends what is left of those that were killed: the keeper (its notice), every task, the byte. Stands for the ring,
  /// too, where there is none: a waiter may be granted by one that dies before it calls.
  void kernel(bool is_ring = false) {
    for (;;) {
      await([this] { return next_dead() != nobody || all_over(); });
      const unsigned dead = next_dead();
      if (dead == nobody) return;
      known_ = known_ | 1U << dead;
      for (SlotIndex s = 1; s <= slots_; ++s) end_keeper(dead, s);
      P::add(ended_[dead], 1);
      for (SlotIndex s = 1; s <= slots_; ++s) P::cas(byte_[s], dead + 1, 0);
      if (is_ring) reaper(1);
    }
  }

  // --- a session -----------------------------------------------------------------------------------------------------

  void process(unsigned p) {
    const Slots mine = slots(p);
    for (const Look look : {Look::quick, Look::thorough}) {
      for (SlotIndex s = 1; s <= slots_; ++s) {
        const std::uint64_t incarnation = mine.claim(s, look);
        if (incarnation == 0) continue;
        become(p, s, incarnation);
        use(p, s, incarnation);
        leave(p, s, incarnation);
        return;
      }
    }
  }

  void become(unsigned p, SlotIndex s, std::uint64_t incarnation) {
    const Slots mine = slots(p);
    mine.reset_life(s);
    described_[s] = p;
    P::store(row(s).watching, 0);
    P::store(row(s).life, tid(p));
    require(mine.become_alive(s, incarnation), "a session that has its byte was declared dead");
  }

  void use(unsigned p, SlotIndex s, std::uint64_t incarnation) {
    const auto [outcome, chunk] = Chunks<P>(segment_.view()).claim(pages_, engine::pack_owner({s, incarnation}));
    require(outcome == Chunks<P>::Outcome::claimed, "no chunk is left: one leaked");
    const EntryIndex i = chunk * engine::entries_per_chunk;
    const ControlOps<P> ops = segment_.ops(0);
    require(ops.status(i).phase == engine::Phase::free || ops.status(i).phase == engine::Phase::lost,
            "the chunk's last owner left something in it");
    P::store(segment_.view().entry(i).weight, 1);
    P::store(segment_.view().entry(i).wake, engine::wake_awake);
    engine::Result r = ops.acquire_or_queue(i, 1, P::now_ns());
    if (r.step == engine::Step::queued) {
      Around around{*this, p, s};
      engine::SpinBudget spin{.pauses = 0};
      const engine::WaitEnd end = engine::Waiter<P, Around>(ops, i, around).wait(never, spin);
      require(end == engine::WaitEnd::granted, "the wait ended for no reason");
      r.seq = engine::seq_of_stamp(ops.status(i).stamp, P::load_seq(ops.record().control));
    } else {
      require(r.step == engine::Step::acquired, "acquire failed");
    }
    require(inside_ == nobody || P::add(ended_[inside_], 0) != 0, "two are inside, and the other one still runs");
    inside_ = p;
    (void)P::load(row(s).id);  // somebody else may come now
    require(inside_ == p, "somebody else was let in");
    inside_ = nobody;
    require(ops.release(i, r.seq).step == engine::Step::released, "the hold was taken away");
  }

  void leave(unsigned p, SlotIndex s, std::uint64_t incarnation) {
    const Slots mine = slots(p);
    require(mine.bury_entries(s, incarnation, engine::Burial::leaving), "leaving found damage");
    end_keeper(p, s);
    mine.bury_left(s, incarnation);
    Kernel{this, p}.unlock(s);
  }

  // --- those who look after others -----------------------------------------------------------------------------------

  void reaper(unsigned looks) {
    for (unsigned n = 0; n < looks; ++n) {
      for (SlotIndex s = 1; s <= slots_; ++s) {
        slots(nobody).bury(s, engine::unpack_slot(P::load(row(s).id)).incarnation);
      }
    }
  }

  /// The keeper of a session that is in slot p + 1.
  void keeper(unsigned p) {
    const auto begin = [this] {
      note_buried();
      return Look::quick;
    };
    const auto end = [this](const Neighbour& next) {
      note_buried();
      const std::int64_t again = next.unconfirmed ? 1'000'000 : look_again_ns;
      return again == never ? never : P::now_ns() + again;
    };
    slots(p).keep(p + 1, stopping_, begin, end);
  }
  /// The main thread of one that joins in slot p + 1; its keeper is a task of its own.
  void joiner(unsigned p) {
    const SlotIndex s = p + 1;
    const std::uint64_t incarnation = slots(p).claim(s, Look::quick);
    require(incarnation != 0, "a free slot could not be had");
    become(p, s, incarnation);
    alive_ = 1;
    slots(p).wait_until_watched(s, P::now_ns() + 50'000'000, 5'000'000);
    joined_late_ = 1;
  }
  void late_keeper(unsigned p) {
    await([this] { return alive_ != 0; });
    keeper(p);
  }
  /// Lets the keepers go home when every death was noticed; if one is not, all sleep for ever, and that is reported.
  void closer() {
    await([this] { return quiet(); });
    P::store(stopping_, 1);
    for (SlotIndex s = 1; s <= slots_; ++s) slots(nobody).call(row(s));
  }

 private:
  struct Around {
    World& world;
    unsigned process;
    SlotIndex slot;
    bool bury(SlotIndex s, std::int64_t) noexcept {
      const std::uint64_t incarnation = engine::unpack_slot(P::load(world.row(s).id)).incarnation;
      const Slots slots = world.slots(process);
      return slots.life_of(s, {}, Look::quick).life == Life::dead && slots.bury(s, incarnation);
    }
    std::int64_t check_holders(const ControlOps<P>&, engine::Watched&) const noexcept { return never; }
    bool stop_requested() const noexcept { return false; }
    bool deadlocked() const noexcept { return false; }
    bool usable() const noexcept { return true; }
    SlotIndex self() const noexcept { return slot; }
  };

  [[nodiscard]] SessionSlot& row(SlotIndex s) const noexcept { return segment_.view().slot(s); }
  // Equal in all of them: they may be of several PID namespaces.
  static std::uint32_t tid(unsigned) noexcept { return engine::life_waiters | 1; }

  // The life word is the keeper's, or the kernel leaves it alone.
  void end_keeper(unsigned p, SlotIndex s) {
    if (described_[s] != p || P::add(byte_[s], 0) != p + 1) return;
    if (!P::cas(row(s).life, tid(p), engine::life_waiters | engine::life_died)) return;
    P::wake(row(s).life, 1);
  }

  [[nodiscard]] unsigned next_dead() const {
    for (unsigned p = 0; p < processes; ++p) {
      if (is_dead(p) && (known_ >> p & 1U) == 0) return p;
    }
    return nobody;
  }
  [[nodiscard]] bool all_over() const {
    for (unsigned p = 0; p < processes; ++p) {
      if (!is_dead(p) && !is_finished(p)) return false;
    }
    return true;
  }

  void note_buried() {
    for (unsigned p = 0; p < processes; ++p) {
      if (is_dead(p) && engine::unpack_slot(P::load(row(p + 1).id)).state == SlotState::free) {
        buried_ = buried_ | 1U << p;
      }
    }
  }
  // Every death was noticed, unless nobody is left, and whoever joins has joined.
  [[nodiscard]] bool quiet() const {
    if (next_dead() != nobody || (late_ && joined_late_ == 0)) return false;
    bool anybody = false;
    bool noticed = true;
    for (unsigned p = 0; p < processes; ++p) {
      anybody = anybody || !is_dead(p);
      noticed = noticed && (!is_dead(p) || (buried_ >> p & 1U) != 0);
    }
    return noticed || !anybody;
  }

  void reset() {
    segment_.reset();
    known_ = 0;
    buried_ = 0;
    alive_ = 0;
    joined_late_ = 0;
    inside_ = nobody;
    stopping_.raw = 0;
    for (auto& w : byte_) w.raw = 0;
    for (auto& w : ended_) w.raw = 0;
    for (auto& d : described_) d = nobody;
    for (unsigned p = 0; p < processes; ++p) {
      const SlotIndex s = p + 1;
      segment_.view().chunk(p).raw = 0;
      const bool there = joined_ && !(late_ && s == processes);
      row(s).id.raw = pack(SlotId{there ? SlotState::alive : SlotState::free, 100U + p});
      row(s).life.raw = there ? tid(p) : 0;
      row(s).flags.raw = 0;
      row(s).watching.raw = 0;
      if (!there) continue;
      byte_[s].raw = p + 1;
      described_[s] = p;
    }
    segment_.view().header().slot_high.raw = slots_ + 1;
    segment_.view().header().chunk_high.raw = 0;
  }

  // Whoever died and was not noticed is buried now; then nothing is anybody's.
  void require_nothing_left() {
    for (SlotIndex s = 1; s <= slots_ && !joined_; ++s) {
      const SlotId id = engine::unpack_slot(P::load(row(s).id));
      require(slots(nobody).bury(s, id.incarnation), "a session that has ended could not be buried");
      require(engine::unpack_slot(P::load(row(s).id)).state == SlotState::free, "a slot is not free at the end");
      require(P::add(byte_[s], 0) == 0, "a byte is locked at the end");
    }
    for (unsigned c = 0; c < processes; ++c) require(P::load(segment_.view().chunk(c)) == 0, "a chunk leaked");
    segment_.require_idle();
  }

  const SlotIndex slots_;
  const bool joined_;
  const bool late_;
  sim::Segment segment_{1};
  engine::AllPagesExist pages_;
  Scenario scenario_;
  std::array<engine::Word32, processes + 1> byte_{};  // of each slot: process + 1 that has it locked
  std::array<engine::Word32, processes> ended_{};     // no task of it runs any more
  engine::Word32 stopping_;
  std::array<Plain<unsigned>, processes + 1> described_{};
  Plain<unsigned> known_ = 0;   // deaths that the kernel works on
  Plain<unsigned> buried_ = 0;  // deaths that a keeper saw buried
  Plain<unsigned> alive_ = 0;
  Plain<unsigned> joined_late_ = 0;
  Plain<unsigned> inside_ = nobody;
};

void add_processes(World& w, unsigned live, unsigned mortals, bool ring = false) {
  for (unsigned p = 0; p < processes; ++p) {
    const std::string name(1, sim::Segment::name_of(p));
    const auto body = [&w, p, live] {
      if (p < live) w.process(p);
    };
    if (p < mortals) {
      w.scenario().mortal(name, body);
    } else {
      w.scenario().task(name, body);
    }
  }
  w.scenario().task("kernel", [&w, ring] { w.kernel(ring); });
}

TEST(SessionSlotsSim, one_slot_goes_from_a_dead_owner_to_the_next) {
  World w(1, World::Start::empty);
  add_processes(w, 2, 2);
  judge("two in turn", w.scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}

TEST(SessionSlotsSim, reapers_bury_one_session_together_while_another_joins) {
  World w(1, World::Start::empty);
  add_processes(w, 2, 1);
  w.scenario().task("reaper", [&w] { w.reaper(2); });
  w.scenario().mortal("another reaper", [&w] { w.reaper(1); });
  judge("two reapers", w.scenario(), {.preemptions = 2, .deaths = 2}, {.deaths = 2});
}

TEST(SessionSlotsSim, a_waiter_comes_through_when_the_holder_dies) {
  World w(2, World::Start::empty);
  add_processes(w, 2, 2, true);
  judge("holder and waiter", w.scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}

// No keeper looks again after a while here: a death that nobody is told of is a failure.
TEST(SessionSlotsSim, the_ring_notices_every_death) {
  World w(3, World::Start::joined);
  for (unsigned p = 0; p < processes; ++p) {
    w.scenario().mortal("keeper " + std::to_string(p), [&w, p] { w.keeper(p); });
  }
  w.scenario().task("kernel", [&w] { w.kernel(); });
  w.scenario().task("closer", [&w] { w.closer(); });
  judge("ring", w.scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}

void add_ring_and_joiner(World& w) {
  for (unsigned p = 0; p + 1 < processes; ++p) {
    w.scenario().mortal("keeper " + std::to_string(p), [&w, p] { w.keeper(p); });
  }
  w.scenario().mortal("joiner's keeper", [&w] { w.late_keeper(processes - 1); });
  w.scenario().task("joiner", [&w] { w.joiner(processes - 1); });
  w.scenario().task("kernel", [&w] { w.kernel(); });
  w.scenario().task("closer", [&w] { w.closer(); });
}

TEST(SessionSlotsSim, the_ring_takes_in_who_joins) {
  World w(3, World::Start::joined_but_one);
  add_ring_and_joiner(w);
  judge("joiner", w.scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 1});
}

// Where two watch one, the kernel wakes one of them. If that one is killed before it tells the other, only the look of
// each second remains.
TEST(SessionSlotsSim, the_last_resort_is_the_look_of_each_second) {
  World w(3, World::Start::joined_but_one);
  w.look_again_ns = 1'000'000'000;
  add_ring_and_joiner(w);
  constexpr std::int64_t stall_ns = 1'500'000'000;
  judge("two deaths", w.scenario(), {.preemptions = 1, .deaths = 2, .stall_after_ns = stall_ns},
        {.deaths = 2, .stall_after_ns = stall_ns});
}

}  // namespace
}  // namespace shmcoord::process
