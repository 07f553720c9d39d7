#pragma once

#include <cstdint>

#include "engine/control.hpp"

// Taking one grant entry out of whatever control word it is in, and making it free: because its session died, leaves,
// or is being robbed of everything by the operator.
//
// Several may bury the same session, each may be killed at any step, and each may fall asleep in here and wake up when
// the session's slot, its chunk and this very entry belong to somebody else. Hence:
//   B1  Guard. The chunk word names slot and incarnation, which never repeat. It is read *after* the entry's status was
//       read at a control word that still stands: then the status was the dead one's. What follows is a CAS on that
//       very control word; it fails if anybody, also another burier, was faster.
//   B2  A hold is reclaimed, a wait cancelled, through the word (control.hpp).
//   B3  `prepared` after finishing the word was never published: prepared -> free by CAS. The status word must not come
//       back: if its sequence is still to come, another owner of the entry could prepare the same word, and a late CAS
//       of ours would free it under its hands. So that sequence is used up first (Op::keep, which changes nothing
//       else).
//   B4  The status of a free entry still names its last record. Settling that record comes last, and is repeated by
//   whoever
//       comes after a burier that died, since a chunk is freed only when all of its entries went through here.

namespace shmcoord::engine {

enum class Burial : std::uint8_t {
  leaving,  // by the owner: its holds are released, not reclaimed
  dead,     // proven: Loss::died
  robbed,   // by the operator, while the owner may still run: Loss::forced; what it prepares at this moment stays its
            // own
};

template <class P>
class EntryBurial {
 public:
  /// `owner`: the chunk word that names the session.
  EntryBurial(const View& view, EntryIndex entry, std::uint64_t owner, Burial why) noexcept
      : view_(view), i_(entry), e_(view.entry(entry)), owner_(owner), why_(why) {}

  /// True: the entry is in no word any more, or no longer the session's. False: the segment is damaged here.
  bool run() const noexcept {
    for (;;) {
      const std::uint64_t raw = P::load(e_.status);
      if (!owned() || raw == 0) return true;
      const Status s = unpack_status(raw);
      if (!view_.record_exists(s.record)) return false;
      Record& rec = view_.record(s.record);
      const ControlOps<P> ops(view_, s.record, P::load(rec.generation));
      if (s.phase == Phase::free || s.phase == Phase::lost) {
        // A robbed owner that still runs takes the news of its loss itself.
        if (s.phase == Phase::lost && why_ != Burial::robbed && !P::cas(e_.status, raw, free_again(s))) continue;
        if (ops.generation() != 0 && P::keeps(Safety::burial_settles)) {
          // Of a quota the capacity may be smaller by one who is gone.
          if (P::load(rec.per_session) != 0) {
            ops.evict();
          } else {
            ops.settle();
          }
        }
        return true;
      }
      const core::Control c = ops.load();
      const bool finishes = P::keeps(Safety::burial_finishes);
      if (c.op != core::Op::close && (!core::plausible(c) || (finishes && !ops.finish(c)))) {
        if (P::load_seq(rec.control) == c.seq && P::load(e_.status) == raw) return false;
        continue;
      }
      if (P::keeps(Safety::burial_status_again) && P::load(e_.status) != raw) continue;
      const bool current = P::load_seq(rec.control) == c.seq && P::load(rec.generation) == ops.generation();
      if (!current) continue;
      if (!owned()) return true;
      switch (step(ops, c, s, raw)) {
        case Next::again: continue;
        case Next::done: return true;
        case Next::damaged: return false;
      }
    }
  }

 private:
  enum class Next : std::uint8_t { again, done, damaged };

  [[nodiscard]] bool owned() const noexcept { return P::load(view_.owner_of(i_)) == owner_; }
  static std::uint64_t free_again(Status s) noexcept {
    s.phase = Phase::free;
    return pack(s);
  }

  // The entry had status `raw` while its word was the finished c, and was the session's.
  Next step(const ControlOps<P>& ops, const core::Control& c, const Status& s, std::uint64_t raw) const noexcept {
    switch (s.phase) {
      case Phase::prepared:
        if (why_ == Burial::robbed && P::keeps(Safety::robbed_keeps_prepared)) return Next::done;
        if (c.op != core::Op::close && s.stamp == ((c.seq + 1) & stamp_mask) &&
            P::keeps(Safety::burial_uses_up_sequence)) {
          if (c.seq >= core::seq_limit) return Next::damaged;
          const core::Control n = core::keep(c, i_);
          if (P::cas(ops.record().control, c, n)) ops.finish(n);
          return Next::again;
        }
        P::cas(e_.status, raw, free_again(s));
        return Next::again;
      case Phase::waiting: return c.op == core::Op::close ? Next::damaged : cancel(ops, c);
      case Phase::held:
      case Phase::marked: return c.op == core::Op::close || ops.generation() == 0 ? Next::damaged : take(ops, c, s);
      case Phase::member: return c.op == core::Op::close ? Next::damaged : leave(ops, c);
      case Phase::free:
      case Phase::lost: return Next::again;
    }
    return Next::damaged;
  }

  Next cancel(const ControlOps<P>& ops, const core::Control& c) const noexcept {
    const EntryIndex next = unpack_link(P::load(e_.next)).entry;
    const EntryIndex prev = unpack_link(P::load(e_.prev)).entry;
    // The CAS below would fail as well; but links of another moment must not be taken for damage.
    if (P::load_seq(ops.record().control) != c.seq || !owned()) return Next::again;
    if (c.seq >= core::seq_limit || c.tail == nil_entry || !view_.entry_exists(next)) {
      return Next::damaged;
    }
    if (c.tail == i_ && next != i_ && !view_.entry_exists(prev)) return Next::damaged;
    const core::Control n = core::cancel(c, i_, next, prev);
    if (P::cas(ops.record().control, c, n)) ops.finish(n);
    return Next::again;
  }

  Next leave(const ControlOps<P>& ops, const core::Control& c) const noexcept {
    if (c.seq >= core::seq_limit) return Next::damaged;
    const core::Control n = core::leave(c, i_);
    if (P::cas(ops.record().control, c, n)) ops.finish(n);
    return Next::again;
  }

  Next take(const ControlOps<P>& ops, const core::Control& c, const Status& s) const noexcept {
    Result r{Step::gone};
    if (why_ == Burial::leaving) {
      r = ops.release(i_, seq_of_stamp(s.stamp, c.seq));
      ops.finish_now();
    } else {
      const Loss loss = why_ == Burial::dead ? Loss::died : Loss::forced;
      r = ops.reclaim(
          i_, [&](const Entry&) { return owned() || !P::keeps(Safety::burial_judges_owner) ? loss : Loss::none; });
    }
    return r.step == Step::exhausted || r.step == Step::corrupt ? Next::damaged : Next::again;
  }

  const View& view_;
  EntryIndex i_;
  Entry& e_;
  std::uint64_t owner_;
  Burial why_;
};

template <class P>
bool bury_entry(const View& view, EntryIndex entry, std::uint64_t owner, Burial why) noexcept {
  return EntryBurial<P>(view, entry, owner, why).run();
}

}  // namespace shmcoord::engine
