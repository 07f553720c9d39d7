#pragma once

#include "core/control_machine.hpp"
#include "engine/journal.hpp"
#include "engine/notice.hpp"
#include "engine/view.hpp"

// Finishing: making true in the entries what the control word already says.
//
// Problem. An operation changes one control word by one CAS, but its effect is spread: the entry it names changes
// phase, neighbours change links, somebody is woken. Whoever won the CAS may be killed or stopped before any of that.
// So nobody relies on the winner: whoever comes next brings the word's *last* operation to its end before it does its
// own. There is never more than one unfinished operation on a word, because no CAS follows an unfinished one.
//
// Invariants.
//   F1  Only the CAS on the control word decides. Finishing never decides; it is a function of the word and of what the
//       entries said when it was current.
//   F2  A finisher reads all it needs, then makes sure that the word still has the sequence it started from, then
//       changes each part by CAS from exactly what it read. If the word moved on, somebody finished; nothing is left to
//       do. If a part changed meanwhile, another finisher of the same operation did it: links and statuses are stamped
//       with the sequence, so the same value is never written twice and a late CAS fails.
//   F3  Events first (journal.hpp). Then links, and of a reclaim the notice; then the grantee's `held` and the call to
//       it; then the phase of the entry that the word names last. So an entry that left the word (free, lost)
//       is proof that its operation is finished: only then may it be used again, which overwrites the hand-off field
//       that the finishers need. A grantee that sees itself held must still finish.
//       What is *added* to an amount (a merge, a member) stands in the amount before the entry that brings it leaves
//       the word or becomes a member: whoever finds that entry changed need not look at the amount.
//   F4  An owner may leave its own acquire and its own plain release unfinished, since its next operation on the word
//       follows from them: it reads `prepared` stamped with its token as held. Everybody else finishes them.
//   F5  The owner prepares its entry with plain stores: only when it is not in the word (its own release or cancel
//       succeeded, or it was never published). A late finisher's CAS then either lands before the store and is
//       overwritten, or fails, because status and links carry a sequence or record that cannot be the old one.
//
// If we die here: between any two steps the next finisher repeats what is missing. After the last status and before the
// wake-up: every finisher of the same sequence repeats the call while the waiter has not run (`wake_called`), the
// waiter watches the life word of the process before it, and in any case looks again every second.
//
// What the models (tests/model/control.pml) found, and the rules above answer: freeing the releaser before its grantee
// is held (its entry was reused, the hand-off field overwritten, the grant lost for good); taking a mark off by
// finishing (the same status word came back, and a late finisher took off a later mark, so that a robbed holder was
// told "refreshed").
//
// What was rejected: letting the winner of the CAS do the rest alone (a stopped winner stalls everybody); one
// operation descriptor that helpers execute (an allocation and a cache miss on the uncontended path).

namespace shmcoord::engine {

template <class P>
class Finisher {
 public:
  Finisher(const View& view, RecordIndex record) noexcept : view_(view), record_(record), rec_(view.record(record)) {}

  /// Brings the operation that made `c` to its end. False: an index points outside of the tables (corruption).
  bool finish(const core::Control& c) const noexcept {
    const EntryIndex touched = core::touched(c);
    if (touched == nil_entry && c.op != core::Op::resize) return true;
    if (!core::plausible(c) || (c.tail != nil_entry && !view_.entry_exists(c.tail))) return false;
    if (touched != nil_entry && !view_.entry_exists(touched)) return false;
    if (Journal<P>::wanted(view_) && P::keeps(Safety::finisher_tells)) Journal<P>(view_).tell(record_, c);
    switch (c.op) {
      case core::Op::acquire: return acquired(c);
      case core::Op::enqueue: return enqueued(c);
      case core::Op::release: return released(c, Loss::none);
      case core::Op::handoff:
      case core::Op::reclaim: {
        const Handoff h = unpack_handoff(P::load(view_.entry(c.last).handoff));
        if (h.stamp != handoff_stamp(record_, c.seq) && P::keeps(Safety::handoff_stamp))
          return true;  // its owner went on, so it was finished
        if (h.entry != nil_entry && !view_.entry_exists(h.entry)) return false;
        // The notice before anybody is let in who must hear it.
        if (h.loss != Loss::none && P::keeps(Safety::notice_before_grantee)) told(c, h.loss);
        if (!P::keeps(Safety::releaser_last)) released(c, h.loss);
        if (h.entry != nil_entry) granted(c, h.entry);
        if (h.loss != Loss::none && !P::keeps(Safety::notice_before_grantee)) told(c, h.loss);
        return released(c, h.loss);
      }
      case core::Op::grant: return granted(c, c.last);
      case core::Op::cancel: return cancelled(c);
      case core::Op::queue_first: return queued_first(c);
      case core::Op::merge:
      case core::Op::shrink: return weight_moved(c);
      case core::Op::join: return joined(c);
      case core::Op::leave: return left(c);
      case core::Op::resize: return resized(c);
      case core::Op::keep:
      case core::Op::none:
      case core::Op::close: return true;
    }
    return false;
  }

  /// Wakes the entry's waiter if it sleeps. What there is to see was changed before.
  static void call(Entry& e) noexcept {
    const std::uint32_t wake = P::load(e.wake);
    if (wake == wake_awake) return;
    if (wake == wake_parked && P::keeps(Safety::call_changes_word)) P::cas(e.wake, wake_parked, wake_called);
    P::wake(e.wake, 1);
  }

  /// Makes the keeper of the entry's owner look at its holds; one that is being buried has none any more.
  void signal_owner(EntryIndex i) const noexcept {
    const std::uint64_t owner = P::load(view_.owner_of(i));
    if (owner == 0) return;
    const SlotIndex s = unpack_owner(owner).slot;
    if (!view_.slot_exists(s) || s == detached_slot) return;
    if (unpack_slot(P::load(view_.slot(s).id)).state == SlotState::dying) return;
    P::add(view_.slot(s).signal, 1);
    P::wake(view_.slot(s).signal, 1);
  }

 private:
  [[nodiscard]] bool current(const core::Control& c) const noexcept { return P::load_seq(rec_.control) == c.seq; }
  template <Safety line>
  [[nodiscard]] bool current(const core::Control& c) const noexcept {
    return current(c) || !P::keeps(line);
  }
  [[nodiscard]] std::uint64_t stamp(const core::Control& c) const noexcept { return link_stamp(record_, c.seq); }
  [[nodiscard]] std::uint64_t to(Phase phase, std::uint64_t seq) const noexcept {
    return pack(Status{phase, record_, seq & stamp_mask});
  }
  [[nodiscard]] bool mine(const Status& s, Phase phase) const noexcept {
    return s.phase == phase && (s.record == record_ || !P::keeps(Safety::status_record));
  }

  void point(Word64& link, std::uint64_t read, EntryIndex entry, const core::Control& c) const noexcept {
    if (!P::keeps(Safety::link_stamps)) {
      P::cas(link, read, pack(Link{entry, 0}));
    } else if (unpack_link(read).stamp != stamp(c)) {
      P::cas(link, read, pack(Link{entry, stamp(c)}));
    }
  }

  // The same of a weight or a capacity: what is added to it must not be added twice.
  void set_amount(Word64& word, std::uint64_t read, std::uint64_t amount, const core::Control& c) const noexcept {
    const std::uint64_t most = core::max_capacity;
    if (unpack_amount(read).stamp == stamp(c) && P::keeps(Safety::amount_stamps)) return;
    P::cas(word, read, pack(Amount{static_cast<std::uint32_t>(amount < most ? amount : most), stamp(c)}));
  }

  bool acquired(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t before = to(Phase::prepared, c.seq);
    const std::uint64_t holder = P::load(rec_.holder);
    if (P::load(e.status) != before || !current(c)) return true;
    if (P::keeps(Safety::holder_hint)) point(rec_.holder, holder, c.last, c);
    P::cas(e.status, before, to(Phase::held, c.seq));
    return true;
  }

  bool enqueued(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t before = to(Phase::prepared, c.seq);
    if (P::load(e.status) != before) return true;
    const Link ahead = unpack_link(P::load(e.prev));
    if (ahead.entry != nil_entry) {
      if (!view_.entry_exists(ahead.entry)) return false;
      Entry& a = view_.entry(ahead.entry);
      const std::uint64_t link = P::load(a.next);
      if (!current<Safety::enqueued_current>(c)) return true;
      point(a.next, link, c.last, c);
    } else if (!current<Safety::enqueued_current>(c)) {
      return true;
    }
    P::cas(e.status, before, to(Phase::waiting, c.seq));
    return true;
  }

  // As an enqueue, but between the tail and the head that was.
  bool queued_first(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t before = to(Phase::prepared, c.seq);
    const EntryIndex behind = unpack_link(P::load(e.next)).entry;
    if (P::load(e.status) != before) return true;
    if (c.tail == nil_entry || !view_.entry_exists(behind)) return !current(c);
    Entry& tail = view_.entry(c.tail);
    Entry& b = view_.entry(behind);
    const std::uint64_t tail_next = P::load(tail.next);
    const std::uint64_t b_prev = P::load(b.prev);
    if (!current<Safety::enqueued_current>(c)) return true;
    point(tail.next, tail_next, c.last, c);
    point(b.prev, b_prev, c.last, c);
    P::cas(e.status, before, to(Phase::waiting, c.seq));
    return true;
  }

  // The next holder will be told who was robbed (C-52): once, so a word that has this stamp, also one that the next
  // holder emptied already, is left alone.
  void told(const core::Control& c, Loss loss) const noexcept {
    const Handoff news{c.last, loss, handoff_stamp(record_, c.seq)};
    for (;;) {
      const std::uint64_t previous = P::load(rec_.previous);
      if (unpack_handoff(previous).stamp == news.stamp && P::keeps(Safety::told_once)) return;
      if (!current<Safety::told_current>(c)) return;
      write_notice<P>(view_, record_, c.last, c.seq, [&] { return current<Safety::notice_current>(c); });
      // Not only finishers change it: the robbed one may have taken, just now, the news of who was robbed before it.
      if (P::cas(rec_.previous, previous, pack(news)) || !P::keeps(Safety::told_again)) return;
    }
  }

  // The releasing side of release, handoff and reclaim.
  bool released(const core::Control& c, Loss loss) const noexcept {
    Entry& e = view_.entry(c.last);
    // `prepared` at the sequence before is an acquire that its owner left unfinished (F4); a later stamp is its next
    // try.
    const std::uint64_t unfinished = to(Phase::prepared, c.seq - 1);
    for (;;) {
      const std::uint64_t raw = P::load(e.status);
      const Status s = unpack_status(raw);
      const bool began = raw == unfinished && P::keeps(Safety::released_unfinished);
      if (!mine(s, Phase::held) && !mine(s, Phase::marked) && !began) return true;
      if (!current<Safety::released_current>(c)) return true;
      // A detached holder has nobody who would come back to take the news: its entry is free at once.
      const bool alone = (P::load(e.flags) & entry_detached) != 0 && P::keeps(Safety::detached_is_not_told);
      const bool tell = loss != Loss::none && !alone;
      if (P::cas(e.status, raw, to(tell ? Phase::lost : Phase::free, c.seq))) {
        if (tell && P::keeps(Safety::loss_signals_owner)) signal_owner(c.last);
        return true;
      }
    }
  }

  bool granted(const core::Control& c, EntryIndex grantee) const noexcept {
    Entry& e = view_.entry(grantee);
    const std::uint64_t raw = P::load(e.status);
    const std::uint64_t held = to(Phase::held, c.seq);
    if (raw == held) {
      if (P::keeps(Safety::grant_calls_again)) call(e);
      return true;
    }
    if (!mine(unpack_status(raw), Phase::waiting)) return true;
    Entry* const tail = c.tail == nil_entry ? nullptr : &view_.entry(c.tail);
    const std::uint64_t tail_next = tail == nullptr ? 0 : P::load(tail->next);
    const std::uint64_t next = P::load(e.next);
    const std::uint64_t since = P::load(e.since_ns);
    const std::uint64_t holder = P::load(rec_.holder);
    const bool async = (P::load(e.flags) & entry_async) != 0;
    const auto now = static_cast<std::uint64_t>(P::now_ns());
    if (!current<Safety::granted_current>(c)) return true;
    if (tail != nullptr) point(tail->next, tail_next, unpack_link(next).entry, c);
    // The hold's clock starts now; the grantee may sleep, and a ttl must not have run out while it waited.
    if (since != now && P::keeps(Safety::grant_restarts_clock)) P::cas(e.since_ns, since, now);
    if (P::keeps(Safety::holder_hint)) point(rec_.holder, holder, grantee, c);
    P::cas(e.status, raw, held);
    call(e);
    if (async && P::keeps(Safety::grant_signals_owner)) signal_owner(grantee);
    return true;
  }

  bool cancelled(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t raw = P::load(e.status);
    const std::uint64_t out = to(Phase::free, c.seq);
    const bool async = (P::load(e.flags) & entry_async) != 0;
    // It may have been taken out by somebody else, who died before the call.
    const auto tell = [&] {
      if (!P::keeps(Safety::cancel_calls_it)) return;
      call(e);
      if (async) signal_owner(c.last);
    };
    if (raw == out && P::keeps(Safety::cancel_calls_again)) tell();
    if (!mine(unpack_status(raw), Phase::waiting)) return true;
    const EntryIndex behind = unpack_link(P::load(e.next)).entry;
    const EntryIndex ahead = unpack_link(P::load(e.prev)).entry;
    if (c.tail != nil_entry) {
      if (!view_.entry_exists(behind)) return false;
      Entry& tail = view_.entry(c.tail);
      const std::uint64_t tail_next = P::load(tail.next);
      const Link round = unpack_link(tail_next);
      if (round.entry == c.last || (round.stamp == stamp(c) && P::keeps(Safety::cancel_of_the_last))) {
        // It was the head or the tail: only the link that closes the circle changes.
        if (!current<Safety::cancelled_links_current>(c)) return true;
        point(tail.next, tail_next, behind, c);
      } else {
        if (!view_.entry_exists(ahead)) return !current<Safety::cancelled_links_current>(c);
        Entry& a = view_.entry(ahead);
        Entry& b = view_.entry(behind);
        const std::uint64_t a_next = P::load(a.next);
        const std::uint64_t b_prev = P::load(b.prev);
        if (!current<Safety::cancelled_links_current>(c)) return true;
        if (unpack_link(a_next).entry == c.last) point(a.next, a_next, behind, c);
        if (unpack_link(b_prev).entry == c.last) point(b.prev, b_prev, ahead, c);
      }
    }
    if (!current<Safety::cancelled_current>(c)) return true;
    P::cas(e.status, raw, out);
    tell();
    // The one behind watches the process before it, which is another one now.
    if (c.tail != nil_entry && P::keeps(Safety::cancel_calls_successor)) call(view_.entry(behind));
    return true;
  }

  // A merge or a shrink: the weight first, then, of a merge, the phase of the part.
  bool weight_moved(const core::Control& c) const noexcept {
    const bool merge = c.op == core::Op::merge;
    Entry& e = view_.entry(c.last);
    const Handoff h = unpack_handoff(P::load(e.handoff));
    // Its owner went on, so it was finished.
    if (h.stamp != handoff_stamp(record_, c.seq) && P::keeps(Safety::weight_moved_stamp)) return true;
    if (merge && !view_.entry_exists(h.entry)) return !current(c);
    Entry& whole = merge ? view_.entry(h.entry) : e;
    const std::uint64_t had = P::load(whole.weight);
    const std::uint64_t part = P::load(e.weight);
    if (!current<Safety::weight_moved_current>(c)) return true;
    const std::uint64_t sum = std::uint64_t{unpack_amount(had).amount} + unpack_amount(part).amount;
    if (!P::keeps(Safety::merged_part_last) && merge) released(c, Loss::none);
    set_amount(whole.weight, had, merge ? sum : h.entry, c);
    return !merge || released(c, Loss::none);
  }

  bool resized(const core::Control& c) const noexcept {
    const std::uint64_t had = P::load(rec_.capacity);
    if (current<Safety::resized_current>(c)) set_amount(rec_.capacity, had, c.last, c);
    return true;
  }

  // The capacity first: the phase is the proof that it was changed.
  bool joined(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t before = to(Phase::prepared, c.seq);
    const std::uint64_t had = P::load(rec_.capacity);
    const std::uint32_t share = unpack_amount(P::load(e.weight)).amount;
    if (P::load(e.status) != before || !current<Safety::resized_current>(c)) return true;
    if (!P::keeps(Safety::member_last)) P::cas(e.status, before, to(Phase::member, c.seq));
    set_amount(rec_.capacity, had, std::uint64_t{unpack_amount(had).amount} + share, c);
    P::cas(e.status, before, to(Phase::member, c.seq));
    return true;
  }

  bool left(const core::Control& c) const noexcept {
    Entry& e = view_.entry(c.last);
    const std::uint64_t had = P::load(rec_.capacity);
    const std::uint32_t share = unpack_amount(P::load(e.weight)).amount;
    const std::uint64_t raw = P::load(e.status);
    if (!mine(unpack_status(raw), Phase::member) || !current<Safety::resized_current>(c)) return true;
    const std::uint32_t capacity = unpack_amount(had).amount;
    set_amount(rec_.capacity, had, capacity > share ? capacity - share : 0, c);
    P::cas(e.status, raw, to(Phase::free, c.seq));
    return true;
  }

  const View& view_;
  RecordIndex record_;
  Record& rec_;
};

}  // namespace shmcoord::engine
