#pragma once

#include "core/control_machine.hpp"
#include "engine/finish.hpp"
#include "engine/view.hpp"

// The operations on one control word: load it, finish its last operation, ask the pure machine for the next word, CAS.
//
// Protocol of an operation on entry i (crash analysis in finish.hpp):
//   1  prepare i's own fields; 2  load the word and finish what it says; 3  pure transition; 4  CAS; 5  finish. Who
//      leaves 5 to others (F4 in finish.hpp) still tells the journal, if anybody listens.
//   A process that dies before 4 changed nothing but its own entry, which is `prepared` at most: whoever buries its
//   session finishes the word and then finds that entry still prepared, so it was never published, and frees it. One
//   that dies after 4 is finished by whoever comes next.
// What a transition needs to know of the queue (who is the head, how heavy) is read from the entries between 2 and 4.
// It may be garbage if the word moved on; then the CAS fails and nothing was decided with it.
//
// Reclaiming from a holder that may be alive: the entry is marked first (held -> marked), the lease is judged again
// after the mark, and only then the word is CASed. An owner that beats writes its heartbeat, then looks at its status;
// if it is marked it uses up the sequence (Op::keep), so the reclaimer's CAS fails. Of {heartbeat, look at mark}
// against {mark, look at heartbeat} one side sees the other: a holder that was told "refreshed" keeps its hold. A mark
// is never taken off while the hold lasts, because then the same status word would come back and a late CAS could hit
// the wrong one; a hold that was marked once pays one CAS of the word for each explicit heartbeat.
//
// Thread-safety: any number of processes on the word; an entry's own operations by one thread at a time. Modelled with
// finishing, burial and reclaim in tests/model/control.pml.

namespace shmcoord::engine {

enum class Step : std::uint8_t {
  acquired,
  queued,
  busy,
  released,
  cancelled,
  granted,  // a cancel came too late: the entry holds
  gone,     // the entry is not (or no longer) in the state that the call is about
  fresh,    // not reclaimed: the lease is good after all
  refreshed,
  reclaimed,
  merged,
  shrunk,
  resized,
  joined,
  left,
  impossible,  // more than there is, also if nobody else had anything: waiting would never end
  deadlock,    // who is first in the queue waits for the caller, and the caller would wait for it
  closed,      // the name was removed; look it up again
  corrupt,
  exhausted,  // the sequence has reached its end: this name can give no more tokens
};

/// About what it takes to wake somebody up, and what that one spins then.
inline constexpr std::int64_t short_hold_ns = 20'000;

struct Result {
  Step step;
  std::uint64_t seq = 0;  // of the operation; for acquired and granted: the fencing token
};

template <class P>
class ControlOps {
 public:
  ControlOps(const View& view, RecordIndex record, std::uint64_t generation) noexcept
      : view_(&view), rec_(&view.record(record)), record_(record), generation_(generation) {}

  [[nodiscard]] Record& record() const noexcept { return *rec_; }
  [[nodiscard]] RecordIndex index() const noexcept { return record_; }
  [[nodiscard]] std::uint64_t generation() const noexcept { return generation_; }
  [[nodiscard]] const View& view() const noexcept { return *view_; }
  [[nodiscard]] core::Control load() const noexcept { return P::load(record().control); }

  /// Takes `weight` at once, or answers busy; never past somebody who waits. The entry must be the caller's and out of
  /// use.
  Result try_acquire(EntryIndex i, std::uint32_t weight, std::int64_t now_ns) const noexcept {
    if (const Result r = retake(i, weight, now_ns); r.step == Step::acquired) return r;
    return take(i, weight, now_ns, Place::nowhere);
  }

  /// Takes `weight` at once, or queues at the tail.
  Result acquire_or_queue(EntryIndex i, std::uint32_t weight, std::int64_t now_ns) const noexcept {
    if (const Result r = retake(i, weight, now_ns); r.step == Step::acquired) return r;
    return take(i, weight, now_ns, Place::tail);
  }

  /// For a caller that holds already what everybody in the queue waits for (an upgrade): takes `weight` at once, also
  /// past those who wait, or queues before them. `deadlock`: the head does the same, and so waits for the caller.
  Result acquire_or_queue_first(EntryIndex i, std::uint32_t weight, std::int64_t now_ns) const noexcept {
    return take(i, weight, now_ns, Place::first);
  }
  /// The same without waiting.
  Result try_acquire_first(EntryIndex i, std::uint32_t weight, std::int64_t now_ns) const noexcept {
    return take(i, weight, now_ns, Place::nowhere_but_first);
  }

  /// Before the owner of an entry that is in no word changes what is written in it: what it left unfinished of its own
  /// last operations needs no finishing any more, and nobody tells of it with the new texts.
  void set_aside(EntryIndex i) const noexcept {
    Status s = status(i);
    if (s.phase != Phase::prepared || !P::keeps(Safety::entry_is_set_aside)) return;
    s.phase = Phase::free;
    P::store(view_->entry(i).status, pack(s));
  }

  /// Gives back what entry i holds since `token`, granting the head in the same CAS if it fits now.
  [[gnu::always_inline]] inline Result release(EntryIndex i, std::uint64_t token) const noexcept {
    // Nobody came since the acquire: its own word is still there, and nothing has to be looked at.
    const std::uint32_t weight = weight_of(i);
    if (token < core::seq_limit && P::cas(record().control, core::Packed{token, alone(weight, i, core::Op::acquire)},
                                          core::Packed{token + 1, alone(0, i, core::Op::release)})) {
      tell({token + 1, 0, nil_entry, i, core::Op::release});
      return {Step::released, token + 1};
    }
    return release_contended(i, token);
  }

  /// Takes a waiting entry out of the queue. `granted`: it holds; the grant won. `why`: by force, which its owner finds
  /// in the hand-off field.
  Result cancel(EntryIndex i, Loss why = Loss::none) const noexcept {
    return cancel_if(i, why, [] { return true; });
  }
  /// The same if `may()` agrees, asked at the word that is changed; else `fresh`.
  template <class May>
  Result cancel_if(EntryIndex i, Loss why, May&& may) const noexcept {
    Entry& e = view_->entry(i);
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_cancel) && !finish(c)) return {Step::corrupt};
      const Status st = status(i);
      const EntryIndex next = unpack_link(P::load(e.next)).entry;
      const EntryIndex prev = unpack_link(P::load(e.prev)).entry;
      if (P::keeps(Safety::cancel_current) && P::load_seq(record().control) != c.seq) continue;
      if (st.record != record_) return {Step::gone};
      if (st.phase == Phase::held || st.phase == Phase::marked) return {Step::granted, seq_of_stamp(st.stamp, c.seq)};
      if (st.phase != Phase::waiting) return {Step::gone};
      if (!may()) return {Step::fresh};
      if (at_end(c.seq)) return {Step::exhausted};
      if (c.tail == nil_entry || !view_->entry_exists(next) ||
          (c.tail == i && next != i && !view_->entry_exists(prev))) {
        return {Step::corrupt};
      }
      const core::Control n = core::cancel(c, i, next, prev);
      if (why != Loss::none && !prepare_handoff(c, i, {nil_entry, why})) continue;
      if (!P::cas(record().control, c, n)) continue;
      if (!finish(n)) return {Step::corrupt};
      if (P::keeps(Safety::settle_after_cancel)) settle();
      return {Step::cancelled, n.seq};
    }
  }

  /// Takes the hold of entry i away. `judge(entry)` says why it may be taken, or Loss::none; it is asked after the mark
  /// has been set, so that a heartbeat that was acknowledged counts.
  template <class Judge>
  Result reclaim(EntryIndex i, Judge&& judge) const noexcept {
    Entry& e = view_->entry(i);
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_reclaim) && !finish(c)) return {Step::corrupt};
      const std::uint64_t raw = P::load(e.status);
      Status st = unpack_status(raw);
      if (P::load_seq(record().control) != c.seq) continue;
      if (st.record != record_ || (st.phase != Phase::held && st.phase != Phase::marked)) return {Step::gone};
      const Loss before = P::keeps(Safety::judge_after_mark) ? Loss::none : judge(e);
      if (st.phase == Phase::held && P::keeps(Safety::mark_before_judging)) {
        st.phase = Phase::marked;
        if (!P::cas(e.status, raw, pack(st))) continue;
      }
      P::fence();  // mark before the heartbeat is read; pairs with heartbeat()
      const Loss loss = P::keeps(Safety::judge_after_mark) ? judge(e) : before;
      if (loss == Loss::none) return {Step::fresh};  // the mark stays: see above
      const Result r = give_back(c, i, loss);
      if (r.step != Step::busy) return r;
    }
  }

  /// An explicit sign of life of the hold since `token`. `refreshed` is a promise: the hold was not taken before it.
  Result heartbeat(EntryIndex i, std::uint64_t token, std::int64_t now_ns) const noexcept {
    Entry& e = view_->entry(i);
    const auto beat = static_cast<std::uint64_t>(now_ns);
    if (P::keeps(Safety::beat_before_look)) P::store(e.heartbeat_ns, beat);
    P::fence();  // heartbeat before the status is read; pairs with reclaim()
    for (;;) {
      const Status st = status(i);
      if (!P::keeps(Safety::beat_before_look)) P::store(e.heartbeat_ns, beat);
      if (st.record != record_) return {Step::gone};
      if (P::keeps(Safety::beat_own_hold) && st.stamp != (token & stamp_mask)) return {Step::gone};
      if (st.phase == Phase::held || st.phase == Phase::prepared) return {Step::refreshed, token};
      if (st.phase != Phase::marked) return {Step::gone};
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_beat) && !finish(c)) return {Step::corrupt};
      // Still this very hold: a mark never comes off, so an equal status is the same one.
      const Status now = status(i);
      if (P::keeps(Safety::beat_whole_status) ? now != st : now.phase != st.phase) continue;
      if (!P::keeps(Safety::beat_passes_over) || pass_over(c, i)) return {Step::refreshed, token};
    }
  }

  /// Is the entry's hold since `token` still its own? A read; true may be outdated at once, false is final.
  [[nodiscard]] bool holds(EntryIndex i, std::uint64_t token) const noexcept {
    const Status st = status(i);
    return st.record == record_ && (st.stamp == (token & stamp_mask) || !P::keeps(Safety::holds_token)) &&
           (st.phase == Phase::held || st.phase == Phase::marked || st.phase == Phase::prepared);
  }

  /// Adds what `part` holds since `part_token` to the hold of entry i since `token`, which has `had`; `part` is free
  /// then. Both are the caller's. `gone`: one of them is not held any more, or entry i has another weight by now.
  Result merge(EntryIndex i, std::uint64_t token, std::uint32_t had, EntryIndex part,
               std::uint64_t part_token) const noexcept {
    return move_weight(
        i, token, had, part, part_token, [&](const core::Control& c) { return core::merge(c, part); }, {i},
        Step::merged);
  }

  /// The hold of entry i since `token`, which has `had`, keeps `weight` of it: at least 1.
  Result shrink(EntryIndex i, std::uint64_t token, std::uint32_t had, std::uint32_t weight) const noexcept {
    const Result r = move_weight(
        i, token, had, i, token, [&](const core::Control& c) { return core::shrink(c, i, had, weight); }, {weight},
        Step::shrunk);
    if (r.step == Step::shrunk && P::keeps(Safety::settle_after_shrink)) settle();
    return r;
  }

  /// Sets the capacity, 1 to max_capacity, lets in who fits now, and takes out of the queue who never will.
  Result resize(std::uint32_t capacity) const noexcept {
    return change_capacity(Step::resized, [&](const core::Control& c) { return core::resize(c, capacity); });
  }

  /// Of a quota: the weight of entry i, which is out of use, becomes part of the capacity until leave() or the burial
  /// of its session. `impossible`: the capacity would be above max_capacity.
  Result join(EntryIndex i) const noexcept {
    return change_capacity(
        Step::joined,
        [&](const core::Control& c) {
          P::store(view_->entry(i).status, pack(Status{Phase::prepared, record_, (c.seq + 1) & stamp_mask}));
          return core::join(c, i);
        },
        [&] { return capacity() + weight_of(i) <= core::max_capacity ? Step::acquired : Step::impossible; },
        // It may be prepared, by a CAS that failed.
        [&] {
          P::store(view_->entry(i).status, pack(Status{Phase::free, record_, 0}));
        });
  }
  Result leave(EntryIndex i) const noexcept {
    return change_capacity(
        Step::left, [&](const core::Control& c) { return core::leave(c, i); },
        [&] {
          const Status s = status(i);
          return s.phase == Phase::member && s.record == record_ ? Step::acquired : Step::gone;
        },
        [] {});
  }

  /// Takes those out of the queue who wait for more than there is, and lets in who fits then. After a capacity became
  /// smaller. It may pass one by whose neighbours move meanwhile; that one finds it out by itself, within a second.
  void evict() const noexcept {
    finish_now();
    EntryIndex at = head_of(load()).entry;
    for (std::uint64_t steps = 0; at != nil_entry && steps < 2ULL * view_->geo.entry_count(); ++steps) {
      const Entry& e = view_->entry(at);
      const Status s = status(at);
      // Granted or gone while it was looked at: the links lead nowhere any more, so from the head again.
      if (s.phase != Phase::waiting || s.record != record_) {
        at = head_of(load()).entry;
        continue;
      }
      const EntryIndex next = unpack_link(P::load(e.next)).entry;
      const bool last = load().tail == at || !view_->entry_exists(next);
      const auto never = [&] { return need_of(at) > capacity(); };
      // Judged again at the word that is changed: meanwhile it may have left by itself and be in the queue for less.
      if (never()) cancel_if(at, Loss::none, [&] { return never() || !P::keeps(Safety::evict_judges_again); });
      if (last) break;
      at = next;
    }
    settle();
  }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return unpack_amount(P::load(record().capacity)).amount; }
  [[nodiscard]] std::uint32_t weight_of(EntryIndex i) const noexcept {
    return unpack_amount(P::load(view_->entry(i).weight)).amount;
  }
  /// What there must be for it to be let in some day.
  [[nodiscard]] std::uint32_t need_of(EntryIndex i) const noexcept {
    return weight_of(i) + P::load(view_->entry(i).beside);
  }
  /// By the owner of an entry that is in no word.
  void set_weight(EntryIndex i, std::uint32_t weight) const noexcept {
    Word64& word = view_->entry(i).weight;
    P::store(word, pack(Amount{weight, P::keeps(Safety::weight_keeps_stamp) ? unpack_amount(P::load(word)).stamp : 0}));
  }

  /// Grants heads that fit, and takes those out of the queue who never will: after a death, a cancelled head, or a
  /// stopped canceller there may be some.
  void settle() const noexcept {
    for (;;) {
      const core::Control c = load();
      // Finished also when nobody waits any more: the one who was granted last may not have been called yet.
      if (usable(c) != Step::acquired) return;
      if (c.tail == nil_entry && !P::keeps(Safety::finish_when_none_waits)) return;
      if ((P::keeps(Safety::finish_before_settle) && !finish(c)) || c.tail == nil_entry) return;
      const core::Head head = head_of(c);
      const std::uint32_t amount = capacity();
      const bool never = head.entry != nil_entry && need_of(head.entry) > amount && P::keeps(Safety::settle_evicts);
      if ((!never && !core::head_fits(c, amount, head)) || at_end(c.seq)) {
        if (P::load_seq(record().control) != c.seq) continue;
        return;
      }
      // The neighbour before a head does not matter (core::cancel).
      const core::Control n =
          never ? core::cancel(c, head.entry, unpack_link(P::load(view_->entry(head.entry).next)).entry, nil_entry)
                : core::grant(c, head);
      if (P::cas(record().control, c, n)) finish(n);
    }
  }

  /// Uses up a sequence, which is nobody else's then, and changes nothing else; `i` is any entry, for people who look
  /// at the word.
  Result use_up_sequence(EntryIndex i) const noexcept {
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_verdict) && !finish(c)) return {Step::corrupt};
      if (at_end(c.seq)) return {Step::exhausted};
      if (pass_over(c, i)) return {Step::refreshed, c.seq + 1};
    }
  }

  /// Moves an idle word to `close`, so that the name can be removed: no operation follows. False: held or waited for.
  /// True also when it was closed already.
  bool close() const noexcept {
    return close_if([](const Record&) { return true; });
  }
  /// The same, if `may(record)` agrees; what that sees of the record cannot have been changed by an operation since.
  template <class May>
  bool close_if(May&& may) const noexcept {
    for (;;) {
      const core::Control c = load();
      if (P::keeps(Safety::close_generation) && P::load(record().generation) != generation_) {
        return false;  // another life of the record
      }
      if (c.op == core::Op::close) return true;
      const bool finished = !P::keeps(Safety::finish_before_close) || finish(c);
      // Who joined a quota would be taken for a member of the record's next life.
      const bool joined = P::load(record().per_session) != 0 && capacity() != 0 && P::keeps(Safety::members_keep_open);
      if (!finished || joined || !core::idle(c) || (P::keeps(Safety::recycle_condition) && !may(record()))) {
        if (P::load_seq(record().control) != c.seq) continue;
        return false;
      }
      if (P::cas(record().control, c, core::close(c))) return true;
    }
  }

  /// Brings the word's last operation to its end. False: corrupt.
  bool finish(const core::Control& c) const noexcept { return Finisher<P>(*view_, record_).finish(c); }
  bool finish_now() const noexcept { return finish(load()); }

  [[nodiscard]] Status status(EntryIndex i) const noexcept { return unpack_status(P::load(view_->entry(i).status)); }

  /// The head of the queue of a finished word; may be none or garbage if the word moved on.
  [[nodiscard]] core::Head head_of(const core::Control& c) const noexcept {
    if (c.tail == nil_entry || !view_->entry_exists(c.tail)) return {};
    const EntryIndex head = unpack_link(P::load(view_->entry(c.tail).next)).entry;
    if (!view_->entry_exists(head)) return {};
    // Of damaged links a head that does not wait could be granted for ever.
    const Status s = status(head);
    if (s.phase != Phase::waiting || s.record != record_) return {};
    return {head, weight_of(head)};
  }

 private:
  // Of an operation of the caller's own that it leaves unfinished.
  [[gnu::always_inline]] inline void tell(const core::Control& c) const noexcept {
    if (Journal<P>::wanted(*view_) && P::keeps(Safety::owner_tells)) [[unlikely]] {
      Journal<P>(*view_).tell(record_, c);
    }
  }

  [[gnu::noinline]] Result release_contended(EntryIndex i, std::uint64_t token) const noexcept {
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      const bool untouched = c.seq == token && c.op == core::Op::acquire;  // its own, unfinished (F4)
      if (!untouched) {
        if (P::keeps(Safety::finish_before_release) && !finish(c)) return {Step::corrupt};
        if (!holds(i, token)) {
          if (P::load_seq(record().control) != c.seq) continue;
          return {Step::gone};
        }
      }
      const Result r = give_back(c, i, Loss::none);
      if (r.step != Step::busy) return r;
    }
  }

  static constexpr std::uint64_t alone(std::uint32_t used, EntryIndex i, core::Op op) noexcept {
    return core::pack_bits({0, used, nil_entry, i, op});
  }

  // The uncontended path, without taking the word apart: the word still says that this entry released it and nobody
  // came since. Same transition, same preparation as take(); anything else is left to take().
  [[gnu::always_inline]] inline Result retake(EntryIndex i, std::uint32_t weight, std::int64_t now_ns) const noexcept {
    Record& rec = record();
    const core::Packed p = P::guess(rec.control);
    if (p.bits != alone(0, i, core::Op::release) ||
        (P::keeps(Safety::retake_generation) && P::load(rec.generation) != generation_) ||
        (P::keeps(Safety::retake_fits) && weight > capacity()) || lets_in_nobody(p.seq)) {
      return {Step::busy};
    }
    Entry& e = view_->entry(i);
    P::store(e.since_ns, static_cast<std::uint64_t>(now_ns));
    P::store(e.status, pack(Status{Phase::prepared, record_, (p.seq + 1) & stamp_mask}));
    if (!P::cas(rec.control, p, core::Packed{p.seq + 1, alone(weight, i, core::Op::acquire)})) return {Step::busy};
    tell({p.seq + 1, weight, nil_entry, i, core::Op::acquire});
    return {Step::acquired, p.seq + 1};
  }

  static constexpr bool at_end(std::uint64_t seq) noexcept {
    return P::keeps(Safety::sequence_end) && seq >= core::seq_limit;
  }

  // Or the tokens that a snapshot reserved are used up (layout.hpp).
  [[nodiscard]] bool lets_in_nobody(std::uint64_t seq) const noexcept {
    const std::uint64_t reserved = P::load(view_->header().token_reserved);
    return at_end(seq) || (P::keeps(Safety::reservation_end) && reserved != 0 && seq >= reserved);
  }

  // acquired: go on.
  [[nodiscard]] Step usable(const core::Control& c) const noexcept {
    if (P::keeps(Safety::handle_generation) && P::load(record().generation) != generation_) return Step::closed;
    if (P::keeps(Safety::closed_word) && c.op == core::Op::close) return Step::closed;
    if (!core::plausible(c)) return Step::corrupt;
    return Step::acquired;
  }

  enum class Place : std::uint8_t { nowhere, tail, first, nowhere_but_first };

  [[gnu::noinline]] Result take(EntryIndex i, std::uint32_t weight, std::int64_t now_ns, Place place) const noexcept {
    Record& rec = record();
    Entry& e = view_->entry(i);
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      // The caller's own plain release needs no finishing: preparing the entry anew is its end (F4).
      const bool own = c.op == core::Op::release && c.last == i;
      if (!own && P::keeps(Safety::finish_before_take) && !finish(c)) return {Step::corrupt};
      if (lets_in_nobody(c.seq)) return {Step::exhausted};
      const std::uint32_t capacity = this->capacity();
      const std::uint64_t prepared = pack(Status{Phase::prepared, record_, (c.seq + 1) & stamp_mask});
      const bool past_others = place == Place::first || place == Place::nowhere_but_first;
      if (past_others ? core::fits(c, capacity, weight) : core::admits(c, capacity, weight)) {
        P::store(e.since_ns, static_cast<std::uint64_t>(now_ns));
        P::store(e.status, prepared);
        const core::Control n = core::acquire(c, i, weight);
        if (!P::cas(rec.control, c, n)) continue;
        tell(n);
        return {Step::acquired, n.seq};
      }
      const core::Head head = head_of(c);
      if (core::head_fits(c, capacity, head) && P::keeps(Safety::settle_before_queueing)) {
        settle();
        continue;
      }
      const bool never = weight + P::load(e.beside) > capacity;
      const bool head_is_first = place == Place::first && head.entry != nil_entry &&
                                 (P::load(view_->entry(head.entry).flags) & entry_first) != 0;
      if (place == Place::nowhere || place == Place::nowhere_but_first || never || head_is_first) {
        if (P::load_seq(rec.control) != c.seq) continue;
        if (P::keeps(Safety::busy_leaves_entry_free))
          P::store(e.status, pack(Status{Phase::free, record_, c.seq & stamp_mask}));
        return {never ? Step::impossible : head_is_first ? Step::deadlock : Step::busy, c.seq};
      }
      if (c.tail != nil_entry && head.entry == nil_entry) {
        if (P::load_seq(rec.control) != c.seq) continue;
        return {Step::corrupt};
      }
      const std::uint64_t stamp = link_stamp(record_, c.seq + 1);
      P::store(e.since_ns, static_cast<std::uint64_t>(now_ns));
      P::store(e.prev, pack(Link{c.tail, stamp}));
      P::store(e.next, pack(Link{c.tail == nil_entry ? i : head.entry, stamp}));
      P::store(e.status, prepared);
      const core::Control n =
          place == Place::first && c.tail != nil_entry ? core::queue_first(c, i) : core::enqueue(c, i);
      if (!P::cas(rec.control, c, n)) continue;
      return {finish(n) ? Step::queued : Step::corrupt, n.seq};
    }
  }

  // One attempt to release or reclaim at the finished word c; busy: try again.
  Result give_back(const core::Control& c, EntryIndex i, Loss loss) const noexcept {
    if (at_end(c.seq)) return {Step::exhausted};
    const core::Head head = head_of(c);
    core::Release r = core::release(c, i, weight_of(i), capacity(), head, loss != Loss::none);
    if (loss != Loss::none && !P::keeps(Safety::reclaim_raises_sequence)) r.next.seq = c.seq;
    if (r.next.op != core::Op::release && !prepare_handoff(c, i, {r.grantee, loss})) return {Step::busy};
    if (!P::cas(record().control, c, r.next)) return {Step::busy};
    if (r.next.op == core::Op::release) {
      tell(r.next);
    } else if (!finish(r.next)) {
      return {Step::corrupt};
    }
    if (r.grantee != nil_entry) {
      const bool more = r.next.tail != nil_entry && r.next.used < capacity();
      if (more && P::keeps(Safety::settle_after_grant)) settle();
      if (loss == Loss::none) call_ahead(i);
    }
    return {loss != Loss::none ? Step::reclaimed : Step::released, r.next.seq};
  }

  // Where holds are as short as a wake-up, the one behind the grantee wakes up while that holds, not after it; it spins
  // for a moment then (Waiter). A hint: nobody relies on it. Entry i is the caller's, and was released just now.
  void call_ahead(EntryIndex i) const noexcept {
    const EntryIndex head = head_of(load()).entry;
    if (head == nil_entry) return;
    const auto since_ns = static_cast<std::int64_t>(P::load(view_->entry(i).since_ns));
    if (P::now_ns() - since_ns < short_hold_ns) Finisher<P>::call(view_->entry(head));
  }

  // The hand-off field must be right before the word says so, and must not change once it has the stamp of the
  // operation after c. False: try again.
  bool prepare_handoff(const core::Control& c, EntryIndex i, Handoff plan) const noexcept {
    Entry& e = view_->entry(i);
    plan.stamp = handoff_stamp(record_, c.seq + 1);
    const std::uint64_t raw = P::load(e.handoff);
    const Handoff read = unpack_handoff(raw);
    if (read.stamp != plan.stamp || !P::keeps(Safety::handoff_adopted)) {
      if (P::keeps(Safety::handoff_current) && P::load_seq(record().control) != c.seq) return false;
      return P::cas(e.handoff, raw, pack(plan));
    }
    const bool same_intent =
        (read.loss == Loss::none) == (plan.loss == Loss::none) && read.moves_weight == plan.moves_weight;
    if (same_intent || !P::keeps(Safety::handoff_intents)) return true;
    // Owner and reclaimer meet, and the other one's intent may become true at this very sequence. Move on by one.
    pass_over(c, i);
    return false;
  }

  // A merge or a shrink: `last` is its entry, `plan` its hand-off field.
  template <class Next>
  Result move_weight(EntryIndex i, std::uint64_t token, std::uint32_t had, EntryIndex last, std::uint64_t last_token,
                     Next&& next, Handoff plan, Step done) const noexcept {
    plan.moves_weight = true;
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_move) && !finish(c)) return {Step::corrupt};
      if (!holds(i, token) || weight_of(i) != had || !holds(last, last_token)) {
        if (P::load_seq(record().control) != c.seq) continue;
        return {Step::gone};
      }
      if (at_end(c.seq)) return {Step::exhausted};
      const core::Control n = next(c);
      if (!prepare_handoff(c, last, plan) || !P::cas(record().control, c, n)) continue;
      return {finish(n) ? done : Step::corrupt, n.seq};
    }
  }

  // `may()`: acquired if it may go on, asked at a finished word; `refused()` tidies up if not.
  template <class Next, class May, class Refused>
  Result change_capacity(Step done, Next&& next, May&& may, Refused&& refused) const noexcept {
    for (;;) {
      const core::Control c = load();
      if (const Step s = usable(c); s != Step::acquired) return {s};
      if (P::keeps(Safety::finish_before_resize) && !finish(c)) return {Step::corrupt};
      if (const Step s = may(); s != Step::acquired) {
        if (P::load_seq(record().control) != c.seq) continue;
        refused();
        return {s};
      }
      if (at_end(c.seq)) return {Step::exhausted};
      const core::Control n = next(c);
      if (!P::cas(record().control, c, n)) continue;
      if (!finish(n)) return {Step::corrupt};
      if (P::keeps(Safety::evict_after_resize)) evict();
      return {done, n.seq};
    }
  }
  template <class Next>
  Result change_capacity(Step done, Next&& next) const noexcept {
    return change_capacity(
        done, next, [] { return Step::acquired; }, [] {});
  }

  // Uses up the sequence after `c`, and changes nothing else: every CAS that was prepared at `c` fails. False: somebody
  // else was first.
  bool pass_over(const core::Control& c, EntryIndex i) const noexcept {
    const core::Control n = core::keep(c, i);
    return P::cas(record().control, c, n);
  }

  const View* view_;
  Record* rec_;
  RecordIndex record_;
  std::uint64_t generation_;
};

}  // namespace shmcoord::engine
