#pragma once

#include "engine/journal.hpp"

// Whether changes are journaled: only while somebody listens, unless the segment was made to keep them always.
// A session may subscribe several times; its mark counts.
//
// The word {epoch:62 | state:2} is off, starting or on; changes are told in both of the last. Who subscribes marks its
// session slot first, then:
//   off       CAS to starting, with the next epoch
//   starting  walk all primitives and sessions, and mark each as journaled up to where it stands, if the word is still
//             the one we read: what happened before is nobody's business. Append a `started` record, so that an append
//             that was begun before (J2 in journal.hpp) fails. CAS to on.
//   on        CAS to on with the next epoch; the end of the journal is where this subscriber begins to read.
// Any number may walk at once, and a late walker does no harm: it read a sequence, then saw that the word was still
// starting, so what it marks is older than every subscriber's beginning.
// Who unsubscribes, or buries a subscriber, takes its mark away, reads the word, looks whether any session that lives
// is marked, and CASes the word to off. A subscriber that came meanwhile has changed the epoch, or is seen.
//
// What if we die here: a subscriber is buried like everybody, and its mark goes with it; a walk is begun anew by the
// next one.

namespace shmcoord::engine {

template <class P>
class JournalSwitch {
 public:
  explicit JournalSwitch(const View& view) noexcept : view_(view) {}

  [[nodiscard]] static JournalState state_of(std::uint64_t raw) noexcept { return static_cast<JournalState>(raw & 3U); }

  /// Where to begin reading: whatever is changed from now on stands there or behind it. The ring's pages exist.
  JournalEnd subscribe(SlotIndex self) const noexcept {
    P::add(view_.slot(self).subscribed, 1);  // before the look at the word; pairs with turn_off()
    for (;;) {
      const std::uint64_t seen = P::load(word());
      if (state_of(seen) == JournalState::on) {
        if (!P::keeps(Safety::subscriber_changes_epoch) || P::cas(word(), seen, next(seen, JournalState::on))) break;
      } else if (state_of(seen) == JournalState::off) {
        P::cas(word(), seen, next(seen, JournalState::starting));
      } else {
        if (P::keeps(Safety::start_marks_all)) mark_all(seen);
        JournalDraft started;
        started.head.told = Told::started;
        if (P::keeps(Safety::start_is_told)) Journal<P>(view_).notice(started);
        if (P::cas(word(), seen, next(seen, JournalState::on))) break;
      }
    }
    return Journal<P>(view_).end();
  }

  void unsubscribe(SlotIndex self) const noexcept {
    if (P::add(view_.slot(self).subscribed, ~std::uint32_t{0}) == 1) turn_off();
  }

  /// If nobody listens any more.
  void turn_off() const noexcept {
    if ((view_.header().flags & journal_always) != 0) return;
    P::fence();
    for (;;) {
      const std::uint64_t seen = P::load(word());
      if (state_of(seen) == JournalState::off || anybody_listens()) return;
      if (P::cas(word(), seen, next(seen, JournalState::off))) return;
    }
  }

 private:
  [[nodiscard]] Word64& word() const noexcept { return view_.header().journal; }
  static std::uint64_t next(std::uint64_t seen, JournalState state) noexcept {
    return ((seen >> 2U) + 1) << 2U | static_cast<std::uint64_t>(state);
  }

  [[nodiscard]] bool anybody_listens() const noexcept {
    const std::uint64_t high = P::load(view_.header().slot_high);
    for (SlotIndex s = 1; s < high && view_.has_slot(s); ++s) {
      if (!view_.slot_exists(s) || P::load(view_.slot(s).subscribed) == 0) continue;
      const SlotState state = unpack_slot(P::load(view_.slot(s).id)).state;
      if (state == SlotState::alive || state == SlotState::fenced) return true;
    }
    return false;
  }

  void mark_all(std::uint64_t starting) const noexcept {
    const Journal<P> journal(view_);
    const auto mark = [&](const JournalOrigin& origin) {
      if (P::load(word()) == starting || !P::keeps(Safety::start_marks_before)) {
        Journal<P>::raise(journal.journaled(origin), origin.seq);
      }
    };
    const std::uint64_t records = P::load(view_.header().record_high);
    for (RecordIndex r = 0; r < records && view_.has_record(r); ++r) {
      if (!view_.record_exists(r) || P::load(view_.record(r).generation) == 0) continue;
      mark({JournalSource::record, r, P::load_seq(view_.record(r).control)});
    }
    const std::uint64_t slots = P::load(view_.header().slot_high);
    for (SlotIndex s = 1; s < slots && view_.has_slot(s); ++s) {
      if (!view_.slot_exists(s)) continue;
      const SlotId id = unpack_slot(P::load(view_.slot(s).id));
      const bool joined = id.state == SlotState::alive || id.state == SlotState::fenced || id.state == SlotState::dying;
      if (joined) mark({JournalSource::session, s, session_seq(id.incarnation, SessionStage::joined)});
    }
  }

  const View& view_;
};

}  // namespace shmcoord::engine
