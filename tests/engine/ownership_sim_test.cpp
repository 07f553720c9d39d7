#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "engine/chunks.hpp"
#include "engine/detached.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// Who owns an entry, under the deterministic scheduler: chunks are claimed, freed, handed over to the permanent slot
// and recovered from the dead, while somebody who slept still believes in an earlier life of the slot or the chunk; and
// a hold is taken by several at once.

namespace {

using shmcoord::engine::AllPagesExist;
using shmcoord::engine::Burial;
using shmcoord::engine::bury_entry;
using shmcoord::engine::Chunks;
using shmcoord::engine::ControlOps;
using shmcoord::engine::detached_slot;
using shmcoord::engine::entries_per_chunk;
using shmcoord::engine::Entry;
using shmcoord::engine::EntryIndex;
using shmcoord::engine::pack_owner;
using shmcoord::engine::Phase;
using shmcoord::engine::Result;
using shmcoord::engine::Step;
using shmcoord::engine::WaitEnd;
using shmcoord::sim::is_dead;
using shmcoord::sim::is_finished;
using shmcoord::sim::judge;
using shmcoord::sim::long_form;
using shmcoord::sim::Plain;
using shmcoord::sim::require;
using shmcoord::sim::Scenario;
using shmcoord::sim::Segment;
using P = shmcoord::sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;
constexpr std::uint32_t chunks = Segment::processes;

bool over(unsigned task) { return is_dead(task) || is_finished(task); }

// Segment starts with a chunk for each process; here some belong to nobody, and the marks say so.
void set_free(const Segment& segment, std::uint32_t first, std::uint32_t end) {
  for (std::uint32_t c = first; c < end; ++c) P::store(segment.view().chunk(c), 0);
  P::store(segment.view().header().chunk_high, first);
}

void require_no_owner(const Segment& segment) {
  for (std::uint32_t c = 0; c < chunks; ++c) {
    require(P::load(segment.view().chunk(c)) == 0, "a chunk is still somebody's: nobody will ever find it");
  }
}

TEST(OwnershipSim, a_chunk_is_claimed_by_one_and_recovered_from_the_dead) {
  Segment segment(1);
  AllPagesExist pages;
  Scenario s;
  segment.name_words(s);
  std::array<Plain<unsigned>, chunks> user;
  s.on_start([&] {
    segment.reset();
    set_free(segment, 0, chunks);
    for (auto& u : user) u = 0;
  });
  for (const unsigned p : {0U, 1U}) {
    s.mortal(p == 0 ? "a" : "b", [&, p] {
      const Chunks<P> table(segment.view());
      for (int round = 0; round < 2; ++round) {
        const Chunks<P>::Claim c = table.claim(pages, Segment::owner_word(p));
        require(c.outcome == Chunks<P>::Outcome::claimed, "a table with room is full");
        require(user[c.chunk] == 0 || is_dead(user[c.chunk] - 1), "two have one chunk");
        user[c.chunk] = p + 1;
        require(P::load(segment.view().chunk(c.chunk)) == Segment::owner_word(p), "the claim is not there");
        user[c.chunk] = 0;
        require(table.free(c.chunk, Segment::owner_word(p)), "the chunk was taken away");
      }
    });
  }
  for (const char* name : {"reaper", "second reaper"}) {
    s.task(name, [&] {
      const Chunks<P> table(segment.view());
      for (const unsigned p : {0U, 1U}) {
        shmcoord::sim::await([p] { return over(p); });
        if (!is_dead(p)) continue;
        table.for_each([&](std::uint32_t c, std::uint64_t owner) {
          if (owner == Segment::owner_word(p)) table.free(c, owner);
        });
      }
    });
  }
  s.at_end([&] { require_no_owner(segment); });
  judge("chunks", s, {.preemptions = long_form() ? 4U : 2U, .deaths = 1}, {.deaths = 2});
}

// a holds and b waits. Two bury a; whoever is first frees the chunk, which the next life of the slot takes and uses at
// once on another word, while the second burier still means the dead one.
TEST(OwnershipSim, a_late_burier_leaves_the_slots_next_life_alone) {
  Segment segment(1);
  AllPagesExist pages;
  Scenario s;
  segment.name_words(s);
  const EntryIndex first = Segment::entry_of(0);
  const EntryIndex queued = Segment::entry_of(1);
  const std::uint64_t next_life = pack_owner({Segment::slot_of(0), 900});
  s.on_start([&] {
    segment.reset();
    P::store(segment.view().header().chunk_high, chunks);
    for (const EntryIndex i : {first, queued}) P::store(segment.view().entry(i).weight, 1);
    require(segment.ops(0).try_acquire(first, 1, P::now_ns()).step == Step::acquired, "the start went wrong");
    require(segment.ops(0).acquire_or_queue(queued, 1, P::now_ns()).step == Step::queued, "the start went wrong");
  });
  s.mortal("a", [&] { segment.ops(0).release(first, 2); });
  s.task("b", [&] {
    require(segment.wait(0, 1, never) == WaitEnd::granted, "the wait ended for no reason");
    const Result r = segment.ops(0).release(queued, segment.token(0, 1));
    require(r.step == Step::released, "the waiter's release failed");
  });
  const auto bury = [&] {
    shmcoord::sim::await([] { return over(0); });
    if (!is_dead(0)) return;
    const std::uint64_t dead = Segment::owner_word(0);
    for (EntryIndex n = 0; n < entries_per_chunk; ++n) {
      require(bury_entry<P>(segment.view(), first + n, dead, Burial::dead), "the burial found damage");
    }
    Chunks<P>(segment.view()).free(0, dead);
  };
  s.task("reaper", [&] {
    shmcoord::sim::await([] { return over(0); });
    if (is_dead(0)) segment.announce_death(0);
    bury();
    if (!is_dead(0)) Chunks<P>(segment.view()).free(0, Segment::owner_word(0));  // it left
    shmcoord::engine::Word32& life = segment.view().slot(Segment::slot_of(0)).life;
    P::store(life, 0);
    P::wake(life);
    const Chunks<P>::Claim c = Chunks<P>(segment.view()).claim(pages, next_life);
    require(c.outcome == Chunks<P>::Outcome::claimed && c.chunk == 0, "the chunk is not free after the burial");
    P::store(segment.view().entry(first).weight, 1);
    const Result r = segment.ops(1).try_acquire(first, 1, P::now_ns());
    require(r.step == Step::acquired, "the next life's acquire failed");
    require(segment.ops(1).release(first, r.seq).step == Step::released, "the next life was robbed");
    segment.ops(1).finish_now();
    require(P::load(segment.view().chunk(0)) == next_life, "the next life's chunk was taken away");
  });
  s.task("second reaper", bury);
  s.at_end([&] { segment.require_idle(); });
  judge("next life", s, {.preemptions = long_form() ? 3U : 1U, .deaths = 1}, {.deaths = 1});
}

// A hold that is to outlive its process: acquired in a chunk that is still the process's own, handed over to the
// permanent slot, forced open by somebody, its chunk freed by whoever finds it empty and used by the next one.
TEST(OwnershipSim, a_detached_hold_is_the_dead_ones_or_nobodys_and_its_chunk_comes_back) {
  Segment segment(1);
  AllPagesExist pages;
  Scenario s;
  segment.name_words(s);
  const EntryIndex first = Segment::entry_of(0);
  const std::uint64_t permanent = pack_owner({detached_slot, 77});
  const auto force = [&] { return segment.ops(0).reclaim(first, [](const Entry&) { return shmcoord::Loss::forced; }); };
  s.on_start([&] {
    segment.reset();
    P::store(segment.view().header().chunk_high, chunks);
    Entry& e = segment.view().entry(first);
    P::store(e.weight, 1);
    P::store(e.flags, shmcoord::engine::entry_detached);
  });
  s.mortal("a", [&] {
    require(segment.ops(0).try_acquire(first, 1, P::now_ns()).step == Step::acquired, "the acquire failed");
    segment.ops(0).finish_now();
    if (!Chunks<P>(segment.view()).hand_over(0, Segment::owner_word(0), permanent)) return;
    shmcoord::engine::tidy_detached<P>(segment.view(), first);
  });
  s.task("operator", [&] {
    const Result r = force();
    require(r.step == Step::reclaimed || r.step == Step::gone, "the force failed");
    shmcoord::engine::tidy_detached<P>(segment.view(), first);
  });
  s.task("reaper", [&] {
    shmcoord::sim::await([] { return over(0); });
    if (!is_dead(0)) return;
    segment.announce_death(0);
    const std::uint64_t dead = Segment::owner_word(0);
    for (EntryIndex n = 0; n < entries_per_chunk; ++n) {
      require(bury_entry<P>(segment.view(), first + n, dead, Burial::dead), "the burial found damage");
    }
    Chunks<P>(segment.view()).free(0, dead);
  });
  s.task("next", [&] {
    const Chunks<P>::Claim c = Chunks<P>(segment.view()).claim(pages, Segment::owner_word(2));
    if (c.outcome != Chunks<P>::Outcome::claimed) return;
    require(c.chunk == 0, "a chunk of somebody else");
    P::store(segment.view().entry(first).flags, 0);
    const Result r = segment.ops(1).try_acquire(first, 1, P::now_ns());
    require(r.step == Step::acquired, "the next owner's acquire failed");
    require(P::load(segment.view().chunk(0)) == Segment::owner_word(2), "the next owner's chunk was taken away");
    require(segment.ops(1).release(first, r.seq).step == Step::released, "the next owner was robbed");
    segment.ops(1).finish_now();
    require(Chunks<P>(segment.view()).free(0, Segment::owner_word(2)), "the next owner's chunk was taken away");
  });
  s.at_end([&] {
    const std::uint64_t owner = P::load(segment.view().chunk(0));
    require(owner == 0 || owner == permanent, "a chunk of the dead was not freed");
    if (owner == permanent) {
      force();
      shmcoord::engine::tidy_detached<P>(segment.view(), first);
    }
    require(P::load(segment.view().chunk(0)) == 0, "the chunk of a detached hold did not come back");
    segment.require_idle();
  });
  judge("detached", s, {.preemptions = long_form() ? 4U : 2U, .deaths = 1}, {.deaths = 1});
}

// Two who force the lock open at once, against its holder who gives it back: one of the three has done it.
TEST(OwnershipSim, two_force_it_open_while_its_holder_leaves) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  const EntryIndex held = Segment::entry_of(0);
  const EntryIndex queued = Segment::entry_of(1);
  std::uint64_t token = 0;
  Plain<int> ended;
  s.on_start([&] {
    segment.reset();
    ended = 0;
    for (const EntryIndex i : {held, queued}) P::store(segment.view().entry(i).weight, 1);
    token = segment.ops(0).try_acquire(held, 1, P::now_ns()).seq;
    require(segment.ops(0).acquire_or_queue(queued, 1, P::now_ns()).step == Step::queued, "the start went wrong");
  });
  s.task("a", [&] {
    const Result r = segment.ops(0).release(held, token);
    require(r.step == Step::released || r.step == Step::gone, "the release failed");
    if (r.step == Step::released) ended = ended + 1;
  });
  s.task("b", [&] {
    require(segment.wait(0, 1, never) == WaitEnd::granted, "the wait ended for no reason");
    const Result r = segment.ops(0).release(queued, segment.token(0, 1));
    require(r.step == Step::released, "the waiter's release failed");
  });
  for (const char* name : {"c", "operator"}) {
    s.task(name, [&] {
      const Result r = segment.ops(0).reclaim(held, [](const Entry&) { return shmcoord::Loss::forced; });
      require(r.step == Step::reclaimed || r.step == Step::gone, "the force failed");
      if (r.step == Step::reclaimed) ended = ended + 1;
    });
  }
  s.at_end([&] {
    require(ended == 1, "the hold did not end once");
    segment.require_idle();
  });
  judge("forced", s, {.preemptions = long_form() ? 3U : 2U});
}

}  // namespace
