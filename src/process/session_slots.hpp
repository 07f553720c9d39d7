#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/fixed_vector.hpp"
#include "core/lease.hpp"
#include "engine/bury_entry.hpp"
#include "engine/chunks.hpp"
#include "engine/control.hpp"
#include "engine/journal_switch.hpp"
#include "engine/layout.hpp"
#include "engine/name_index.hpp"
#include "engine/real_policy.hpp"
#include "engine/safety.hpp"
#include "engine/view.hpp"
#include "process/identity.hpp"
#include "process/liveness.hpp"
#include "shmcoord/error.hpp"

// The slot of a session, from one owner to the next: claimed, watched by its neighbour, judged, buried, free again.
//
//   free -> joining     by whoever has the slot's byte locked; raises the incarnation
//   joining -> alive    when the life word is the keeper's; then the neighbour in the ring is told to watch
//   alive -> dying      by the owner, after the kernel ended the life word, or by anybody who has the proof
//   (liveness.hpp) dying -> free       by anybody, when nothing is left that belongs to the incarnation (recovery.hpp)
//
// Written over a policy P, like the engine, and over what the kernel knows, so that real processes and the
// deterministic scheduler run the same steps. A Kernel has
//   owns(slot)            has this process locked the slot's byte?
//   lock(slot)            tries to; false: somebody has it
//   unlock(slot)
//   bytes_free(slot)      are both bytes free, as seen from outside?
//   inherited_free(slot)  is the byte that a command may have inherited?
//   state_of(slot row)    of the process that the slot describes (ProcessState)
//   earlier_boot(slot row)
//   prepare_notices(chunks)  room for what the next holders will be told
//
// What if we die here: each step is a CAS from what was read, and each can be done by anybody, several times, late.

namespace shmcoord::process {

constexpr std::size_t chunks_at_first = 8;  // few, so that what the session held first is free soon
constexpr std::size_t chunks_at_once = 64;
using ChunkList = base::FixedVector<std::uint32_t, chunks_at_once>;

constexpr std::int64_t look_again_without_waitv_ns = 100'000'000;

/// Whom a keeper watches.
struct Neighbour {
  SlotIndex slot = engine::detached_slot;  // detached_slot: nobody
  std::uint32_t life = 0;
  bool unconfirmed = false;  // somebody on the way is dying
};

template <class P, class Kernel>
class SessionSlots {
  using View = engine::View;
  using SessionSlot = engine::SessionSlot;
  using SlotId = engine::SlotId;
  using SlotState = engine::SlotState;
  using Safety = engine::Safety;

 public:
  SessionSlots(const View& view, Kernel kernel) noexcept : view_(view), kernel_(kernel) {}

  // --- joining -------------------------------------------------------------------------------------------------------

  /// The incarnation, if we got the slot: its byte is locked and it is `joining`. 0: it is somebody's. Its page exists.
  std::uint64_t claim(SlotIndex s, Look look) const {
    SessionSlot& slot = view_.slot(s);
    std::uint64_t raw = P::load(slot.id);
    if (engine::unpack_slot(raw).state != SlotState::free) {
      const std::uint64_t incarnation = engine::unpack_slot(raw).incarnation;
      if (life_of(s, incarnation, look).life != Life::dead || !bury(s, incarnation)) return 0;
      raw = P::load(slot.id);
      if (engine::unpack_slot(raw).state != SlotState::free) return 0;
    }
    if (!kernel_.lock(s)) return 0;
    engine::Word64& high = view_.header().slot_high;
    for (std::uint64_t h = P::load(high); h <= s; h = P::load(high)) P::cas(high, h, s + 1U);
    const std::uint64_t incarnation =
        engine::unpack_slot(raw).incarnation + (P::keeps(Safety::slot_has_new_incarnation) ? 1 : 0);
    if (P::cas(slot.id, raw, engine::pack(SlotId{SlotState::joining, incarnation}))) return incarnation;
    kernel_.unlock(s);
    return 0;
  }

  /// The life word of the one before; whoever still waits for its end is called.
  void reset_life(SlotIndex s) const noexcept {
    P::store(view_.slot(s).life, 0);
    P::wake(view_.slot(s).life);
  }

  /// False: it was declared dead meanwhile.
  [[nodiscard]] bool become_alive(SlotIndex s, std::uint64_t incarnation) const noexcept {
    return P::cas(view_.slot(s).id, engine::pack(SlotId{SlotState::joining, incarnation}),
                  engine::pack(SlotId{SlotState::alive, incarnation}));
  }

  /// Until the neighbour before us watches us, or the deadline: it may be stopped, and all look again each second.
  void wait_until_watched(SlotIndex self, std::int64_t deadline_ns, std::int64_t look_again_ns) const noexcept {
    SessionSlot& s = view_.slot(self);
    for (SlotIndex told = self;;) {
      const std::uint32_t signal = P::load(s.signal);
      const SlotIndex p = predecessor(self);
      if (p == self) return;
      SessionSlot& other = view_.slot(p);
      if (P::load(other.watching) == self + 1U) return;
      if (told != p) {
        told = p;
        call(other);
      }
      const std::int64_t now = P::now_ns();
      if (now >= deadline_ns) return;
      const engine::WaitOn word{&s.signal, signal};
      P::wait({&word, 1}, std::min(deadline_ns, now + look_again_ns));
    }
  }

  // --- the ring ------------------------------------------------------------------------------------------------------

  /// Buries the dead on the way to the next one that is alive.
  Neighbour look_around(SlotIndex self, Look look) const {
    const SlotIndex count = this->count();
    Neighbour next;
    for (SlotIndex n = 1; n < count; ++n) {
      const SlotIndex s = (self + n) % count;
      SessionSlot& other = view_.slot(s);
      if (s == engine::detached_slot || s == self) continue;
      if (!view_.slot_exists(s)) continue;
      const SlotId id = engine::unpack_slot(P::load(other.id));
      if (id.state == SlotState::free || id.state == SlotState::permanent) continue;
      const std::uint32_t life = P::load(other.life);
      const bool died = (life & engine::life_died) != 0;
      if (died && P::keeps(Safety::keeper_tells_others)) P::wake(other.life);  // the kernel woke one of those who wait
      switch (life_of(s, id.incarnation, look).life) {
        case Life::dead:
          if (P::keeps(Safety::keeper_buries)) bury(s, id.incarnation);
          break;
        case Life::dying: next.unconfirmed = true; break;
        case Life::alive:
        case Life::unknown:
          if (id.state == SlotState::joining) break;
          if ((P::load(other.flags) & engine::slot_no_life_word) != 0) break;
          next.slot = s;
          next.life = life;
          return next;
      }
    }
    return next;
  }

  /// A keeper's rounds, until `stopping` is set and the slot called. `begin()` does what else is due, and says how
  /// thoroughly to look; `end(next)` says until when to sleep.
  template <class Begin, class End>
  void keep(SlotIndex self, const engine::Word32& stopping, Begin&& begin, End&& end) const {
    SessionSlot& s = view_.slot(self);
    bool several_words = true;  // futex_waitv works
    for (;;) {
      const std::uint32_t signal = P::load(s.signal);
      // Behind the signal, which is changed after it: else we would sleep over it.
      if (P::load(stopping) != 0) return;
      const Look look = begin();
      const Neighbour next = look_around(self, look);
      watch(self, next.slot);
      const std::array<engine::WaitOn, 2> words{engine::WaitOn{&s.signal, signal},
                                                {&view_.slot(next.slot).life, next.life}};
      const bool both = several_words && next.slot != engine::detached_slot;
      const std::int64_t until =
          several_words ? end(next) : std::min(end(next), P::now_ns() + look_again_without_waitv_ns);
      const engine::Woken how = P::wait(std::span(words.data(), both ? 2 : 1), until);
      several_words = several_words && how != engine::Woken::unsupported;
    }
  }

  void watch(SlotIndex self, SlotIndex next) const noexcept {
    SessionSlot& s = view_.slot(self);
    const std::uint64_t name = next == engine::detached_slot ? 0 : next + 1U;
    if (P::load(s.watching) == name) return;
    P::store(s.watching, name);
    if (name != 0) call(view_.slot(next));
  }

  /// Makes the slot's keeper look around.
  void call(SessionSlot& slot) const noexcept {
    P::add(slot.signal, 1);
    P::wake(slot.signal);
  }

  // --- judging -------------------------------------------------------------------------------------------------------

  /// Of that incarnation, or of whoever is in the slot.
  [[nodiscard]] LifeReport life_of(SlotIndex s, std::optional<std::uint64_t> incarnation, Look look) const {
    if (!view_.slot_exists(s)) return {Life::dead, Proof::buried};
    const SessionSlot& slot = view_.slot(s);
    for (;;) {
      const std::uint64_t raw = P::load(slot.id);
      const SlotId id = engine::unpack_slot(raw);
      if (P::keeps(Safety::slot_incarnation) && incarnation &&
          !engine::same_incarnation(id.incarnation, *incarnation)) {
        return {Life::dead, Proof::buried};
      }
      const LifeReport report = examine(s, id, look);
      // What was looked at belongs to one incarnation only if that is still there.
      if (P::load(slot.id) == raw || !P::keeps(Safety::slot_same_again)) return report;
    }
  }

  // --- burying -------------------------------------------------------------------------------------------------------

  /// True: nothing keeps that incarnation from being buried any more, or it is buried. False: it is not proven dead.
  bool declare_dead(SlotIndex s, std::uint64_t incarnation, Look look) const {
    if (!view_.slot_exists(s)) return true;
    SessionSlot& slot = view_.slot(s);
    for (;;) {
      const std::uint64_t raw = P::load(slot.id);
      const SlotId id = engine::unpack_slot(raw);
      if (!engine::same_incarnation(id.incarnation, incarnation) || id.state == SlotState::free) return true;
      if (id.state == SlotState::permanent) return false;
      if (id.state == SlotState::dying) return true;
      const Life life = life_of(s, id.incarnation, look).life;
      if (life != Life::dead && P::keeps(Safety::death_is_proven)) return false;
      P::cas(slot.id, raw, engine::pack(SlotId{SlotState::dying, id.incarnation}));
    }
  }

  /// True: that incarnation is buried now (by us or by others). False: it is not proven dead, or the segment is
  /// damaged.
  bool bury(SlotIndex s, std::uint64_t incarnation) const {
    if (!declare_dead(s, incarnation, Look::thorough)) return false;
    if (!view_.slot_exists(s)) return true;
    const SlotId id = engine::unpack_slot(P::load(view_.slot(s).id));
    const bool unburied = id.state == SlotState::dying && engine::same_incarnation(id.incarnation, incarnation);
    return !unburied || finish_burial(s, id.incarnation);
  }

  /// After the kernel ended the life word of its own: sets the slot free.
  void bury_left(SlotIndex s, std::uint64_t incarnation) const {
    for (const SlotState from : {SlotState::alive, SlotState::fenced, SlotState::joining}) {
      P::cas(view_.slot(s).id, engine::pack(SlotId{from, incarnation}),
             engine::pack(SlotId{SlotState::dying, incarnation}));
    }
    finish_burial(s, incarnation);
  }

  /// Everything that belongs to the session. False: the segment is damaged.
  bool bury_entries(SlotIndex slot, std::uint64_t incarnation, engine::Burial why) const {
    const std::uint64_t mine = engine::pack_owner({slot, incarnation});
    bool sound = true;
    ChunkList found;
    std::size_t enough = chunks_at_first;
    const auto bury_found = [&] {
      if (why != engine::Burial::leaving) kernel_.prepare_notices(found);
      for (std::size_t k = 0; k < found.size(); ++k) {
        if (k + 1 < found.size()) fetch_ahead(found[k + 1]);
        sound = bury_chunk(found[k], mine, why) && sound;
      }
      found = {};
      enough = chunks_at_once;
    };
    engine::Chunks<P>(view_).for_each([&](std::uint32_t chunk, std::uint64_t owner) {
      if (owner != mine) return;
      found.push_back(chunk);
      if (found.size() == enough) bury_found();
    });
    bury_found();
    return sound;
  }

 private:
  // What it held has been told of. It may have died before it could say that it joined. Nobody listens for it any more.
  void tell_of_end(SlotIndex s, std::uint64_t incarnation) const noexcept {
    if (!engine::Journal<P>::wanted(view_) || !P::keeps(Safety::burial_tells)) return;
    const engine::Journal<P> journal(view_);
    journal.tell_session(s, incarnation, engine::SessionStage::joined);
    journal.tell_session(s, incarnation, engine::SessionStage::ended);
    if (P::load(view_.slot(s).subscribed) != 0) engine::JournalSwitch<P>(view_).turn_off();
  }

  [[nodiscard]] SlotIndex count() const noexcept {
    return static_cast<SlotIndex>(std::min<std::uint64_t>(P::load(view_.header().slot_high), view_.geo.sizes.sessions));
  }

  // The next one before us that is alive; ourselves if there is none.
  [[nodiscard]] SlotIndex predecessor(SlotIndex self) const noexcept {
    const SlotIndex count = this->count();
    for (SlotIndex n = 1; n < count; ++n) {
      const SlotIndex p = (self + count - n) % count;
      if (p == engine::detached_slot || p == self) continue;
      const SessionSlot& other = view_.slot(p);
      if (!view_.slot_exists(p)) continue;
      const SlotState state = engine::unpack_slot(P::load(other.id)).state;
      if (state != SlotState::alive && state != SlotState::fenced) continue;
      if ((P::load(other.life) & engine::life_died) == 0) return p;
    }
    return self;
  }

  // Two intervals of its own without a beat.
  static bool silent(const SessionSlot& slot) noexcept {
    const auto last = static_cast<std::int64_t>(P::load(slot.heartbeat_ns));
    const auto interval = static_cast<std::int64_t>(P::load(slot.beat_interval_ns));
    return core::age_ns(last, P::now_ns()) / 2 > interval;
  }

  // The byte alone is lost when its process closes another descriptor of the file, so it needs a second witness: the
  // process, or, where that cannot be seen or has become another program by exec, the heartbeat.
  [[nodiscard]] LifeReport without_life_word(SlotIndex s) const {
    if (!kernel_.bytes_free(s)) return {Life::alive, Proof::byte_lock};
    if (!P::keeps(Safety::lone_byte_has_witness)) return {Life::dead, Proof::process_and_byte};
    const SessionSlot& slot = view_.slot(s);
    const ProcessState state = kernel_.state_of(slot);
    if (state == ProcessState::gone || state == ProcessState::exiting) return {Life::dead, Proof::process_and_byte};
    return {silent(slot) ? Life::dead : Life::unknown, Proof::heartbeat_and_byte};
  }

  [[nodiscard]] LifeReport owner_died(SlotIndex s, Look look) const {
    if (!P::keeps(Safety::byte_confirms_death) || kernel_.bytes_free(s)) {
      return {Life::dead, Proof::life_word_and_byte};
    }
    if (look == Look::quick) return {Life::dying, Proof::life_word_and_byte};
    const ProcessState state = kernel_.state_of(view_.slot(s));
    const bool ended = state == ProcessState::exiting || state == ProcessState::gone;
    if ((ended || !P::keeps(Safety::tasks_confirm_death)) &&
        (kernel_.inherited_free(s) || !P::keeps(Safety::inherited_byte_confirms))) {
      return {Life::dead, Proof::life_word_and_tasks};
    }
    return {Life::dying, Proof::life_word_and_byte};
  }

  [[nodiscard]] LifeReport no_notice(SlotIndex s, Look look) const {
    if (look == Look::quick || !kernel_.bytes_free(s)) return {Life::alive, Proof::life_word};
    switch (kernel_.state_of(view_.slot(s))) {
      case ProcessState::gone:
      case ProcessState::exiting: return {Life::dead, Proof::process_and_byte};
      case ProcessState::running:
        return {P::keeps(Safety::running_is_alive) ? Life::alive : Life::dead, Proof::life_word};
      case ProcessState::unknown: return {Life::unknown, Proof::heartbeat_only};
    }
    return {};
  }

  [[nodiscard]] LifeReport examine(SlotIndex s, const SlotId& id, Look look) const {
    const SessionSlot& slot = view_.slot(s);
    switch (id.state) {
      case SlotState::free:
      case SlotState::dying: return {Life::dead, Proof::buried};
      case SlotState::permanent: return {Life::alive, Proof::permanent};
      case SlotState::joining:
        if (kernel_.owns(s) || (P::keeps(Safety::joiner_has_byte) && !kernel_.bytes_free(s)))
          return {Life::alive, Proof::byte_lock};
        return {Life::dead, Proof::joiner_gone};
      case SlotState::alive:
      case SlotState::fenced: break;
    }
    if (P::keeps(Safety::earlier_boot_is_dead) && kernel_.earlier_boot(slot)) return {Life::dead, Proof::earlier_boot};
    if (P::keeps(Safety::own_slot_is_alive) && kernel_.owns(s)) return {Life::alive, Proof::own_process};
    if ((P::load(slot.flags) & engine::slot_no_life_word) != 0) return without_life_word(s);
    if ((P::load(slot.life) & engine::life_died) != 0) return owner_died(s, look);
    return no_notice(s, look);
  }

  // From `dying` on, which anybody may do, several times.
  bool finish_burial(SlotIndex s, std::uint64_t incarnation) const {
    SessionSlot& slot = view_.slot(s);
    const auto still_dying = [&] { return P::load(slot.id) == engine::pack(SlotId{SlotState::dying, incarnation}); };
    if (!still_dying()) return true;
    if (P::keeps(Safety::burial_wakes)) P::wake(slot.life);
    bool sound = true;
    try {
      if (P::keeps(Safety::burial_recovers_claim)) engine::NameIndex<P>(view_).recover_claim(s);
    } catch (const Error&) {
      sound = false;
    }
    sound = bury_entries(s, incarnation, engine::Burial::dead) && sound;
    help_record(P::load(slot.helping));
    if (P::keeps(Safety::burial_wakes)) P::wake(slot.life);
    tell_of_end(s, incarnation);
    // A session that cannot be buried whole keeps its slot: what it held must stay in sight of `segment check`.
    if (!sound && P::keeps(Safety::unsound_keeps_slot)) return !still_dying();
    P::cas(slot.id, engine::pack(SlotId{SlotState::dying, incarnation}),
           engine::pack(SlotId{SlotState::free, incarnation}));
    return true;
  }

  // All entries of the chunk; frees it unless its session may still run. False: the segment is damaged here.
  [[nodiscard]] bool bury_chunk(std::uint32_t chunk, std::uint64_t owner, engine::Burial why) const {
    bool whole = true;
    for (engine::EntryIndex i = 0; i < engine::entries_per_chunk; ++i) {
      whole = engine::bury_entry<P>(view_, chunk * engine::entries_per_chunk + i, owner, why) && whole;
    }
    const bool keep = why == engine::Burial::robbed && P::keeps(Safety::robbed_keeps_chunk);
    if (whole && !keep) engine::Chunks<P>(view_).free(chunk, owner);
    return whole;
  }

  // The names of one session may lie anywhere: without this, burial is little else than waiting for memory. A hint
  // only, so it may look at words that change.
  void fetch_ahead(std::uint32_t chunk) const noexcept {
    for (engine::EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const engine::EntryIndex i = chunk * engine::entries_per_chunk + n;
      const engine::RecordIndex r = engine::unpack_status(engine::RealPolicy::load(view_.entry(i).status)).record;
      if (!view_.has_record(r)) continue;
      __builtin_prefetch(&view_.record(r), 1);
      __builtin_prefetch(&view_.notice(r), 1);
    }
  }

  // What a third party (who robs a holder, or grants in somebody's stead) left unfinished when it died: none of its own
  // entries leads to that word.
  void help_record(std::uint64_t helping) const {
    if (!P::keeps(Safety::burial_settles_helped)) return;
    if (helping == 0 || !view_.record_exists(static_cast<engine::RecordIndex>(helping - 1))) return;
    const auto r = static_cast<engine::RecordIndex>(helping - 1);
    engine::ControlOps<P>(view_, r, P::load(view_.record(r).generation)).evict();
  }

  const View& view_;
  Kernel kernel_;
};

}  // namespace shmcoord::process
