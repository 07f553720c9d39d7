#pragma once

#include <algorithm>
#include <array>

#include "engine/entry_text.hpp"
#include "engine/journal_words.hpp"
#include "engine/view.hpp"

// What there is to say about the last operation of a control word: which change it was, and where the texts stand.
//
// Read from the entries before the operation is finished in them (journal.hpp, J3): what an entry says is only taken
// while its status says that this very operation is still to be done to it, and that status, with the version of its
// texts, is kept as a witness; whoever writes the report down makes sure that the witnesses still say the same. Of a
// damaged segment it may say anything, but reads nothing outside of the tables.

namespace shmcoord::engine {

/// Text of a record, in shared memory or its writer's own.
struct JournalText {
  const char* row = nullptr;
  std::size_t from = 0;
  bool shared = true;
};

/// An entry that was read for it, as it was.
struct JournalWitness {
  EntryIndex entry = nil_entry;
  std::uint64_t status = 0;
  std::uint32_t text_version = 0;
};

struct JournalDraft {
  JournalHead head;
  std::array<JournalText, 4> texts;  // name, holder, reason, other; their lengths are in the head
  std::array<JournalWitness, 2> witnesses;

  [[nodiscard]] std::array<std::size_t, 4> lengths() const noexcept {
    return {head.name_bytes, head.holder_bytes, head.reason_bytes, head.other_bytes};
  }
  void set_seq(std::uint64_t seq) noexcept {
    head.seq_low = static_cast<std::uint32_t>(seq);
    head.seq_high = static_cast<std::uint32_t>(seq >> 32U);
  }
  void set_token(std::uint64_t token) noexcept { head.set_token(token); }
  void set_loss(Loss loss) noexcept {
    head.flags = static_cast<std::uint16_t>(head.flags | static_cast<unsigned>(loss) << told_loss_shift);
  }
};

/// What the last operation of a control word is to be told as.
template <class P>
class OperationReport {
 public:
  OperationReport(const View& view, RecordIndex r, const core::Control& c) noexcept
      : view_(view), r_(r), rec_(view.record(r)), c_(c) {}

  /// False: it is none that is told, or the word moved on, so it was.
  bool write(JournalDraft& d) const noexcept {
    d = {};
    // The parts of a guard or a pipeline are nobody's hold; they tell of themselves by notices.
    if (is_registered(static_cast<Kind>(P::load(rec_.kind))) || !describe(d)) return false;
    JournalHead& h = d.head;
    h.source = JournalSource::record;
    h.index = r_;
    d.set_seq(c_.seq);
    h.used = c_.used;
    if (h.capacity == 0) h.capacity = capacity();
    if (P::load(rec_.kind) == static_cast<std::uint32_t>(Kind::semaphore)) {
      h.flags = static_cast<std::uint16_t>(h.flags | told_semaphore);
    }
    name(d);
    if (h.can_be_brief()) h.flags = told_brief;
    h.words = journal_words_of(h);
    return true;
  }

  static constexpr bool is_told(core::Op op) noexcept {
    using enum core::Op;
    return op != enqueue && op != queue_first && op != cancel && op != keep && op != none && op != close && op != leave;
  }

 private:
  [[nodiscard]] std::uint32_t capacity() const noexcept { return unpack_amount(P::load(rec_.capacity)).amount; }
  [[nodiscard]] std::uint32_t weight(EntryIndex i) const noexcept {
    return unpack_amount(P::load(view_.entry(i).weight)).amount;
  }
  // Is what the operation does to the entry still to be done? Its status is a witness then.
  bool unfinished(JournalDraft& d, EntryIndex i, bool leaves) const noexcept {
    const std::uint64_t raw = P::load(view_.entry(i).status);
    const Status s = unpack_status(raw);
    const bool held = s.phase == Phase::held || s.phase == Phase::marked;
    const bool began = s.phase == Phase::prepared && s.stamp == ((c_.seq - (leaves ? 1 : 0)) & stamp_mask);
    const bool comes = s.phase == Phase::waiting || began;
    JournalWitness& free = d.witnesses[d.witnesses[0].entry == nil_entry ? 0 : 1];
    free = {i, raw, P::load(view_.entry(i).text_version)};
    return s.record == r_ && (leaves ? held || began : comes);
  }
  // Gets more for a hold that there is: what that has is told when both are one.
  [[nodiscard]] bool is_part(EntryIndex i) const noexcept { return P::load(view_.entry(i).beside) != 0; }
  [[nodiscard]] std::uint64_t token(EntryIndex i) const noexcept {
    return seq_of_stamp(unpack_status(P::load(view_.entry(i).status)).stamp, c_.seq);
  }

  bool describe(JournalDraft& d) const noexcept {
    using enum core::Op;
    JournalHead& h = d.head;
    if (c_.op == resize) {
      h.told = Told::room;
      h.capacity = c_.last;
      return c_.used < c_.last;
    }
    if (!is_told(c_.op) || !view_.entry_exists(c_.last)) return false;
    const bool comes = c_.op == acquire || c_.op == grant || c_.op == join;
    if (!unfinished(d, c_.last, !comes)) return false;
    if (c_.op == join) {
      h.told = Told::room;
      h.capacity = std::min(capacity() + weight(c_.last), core::max_capacity);
      return c_.used < h.capacity;
    }
    if (c_.op == acquire || c_.op == grant) {
      return !is_part(c_.last) && holder(d, Told::acquired, c_.last, weight(c_.last), c_.seq, true);
    }
    if (c_.op == release) return holder(d, Told::released, c_.last, weight(c_.last), token(c_.last), false);
    const Handoff plan = unpack_handoff(P::load(view_.entry(c_.last).handoff));
    if (plan.stamp != handoff_stamp(r_, c_.seq)) return false;
    if (c_.op == merge) {
      if (!view_.entry_exists(plan.entry) || !unfinished(d, plan.entry, true)) return false;
      const std::uint32_t sum = std::min(weight(plan.entry) + weight(c_.last), core::max_capacity);
      return holder(d, Told::acquired, plan.entry, sum, token(plan.entry), true);
    }
    if (c_.op == shrink) return shrunk(d, plan.entry);
    // A hand-off or a reclaim.
    const bool robbed = plan.loss != Loss::none;
    if (!holder(d, robbed ? Told::reclaimed : Told::released, c_.last, weight(c_.last), token(c_.last), false)) {
      return false;
    }
    d.set_loss(plan.loss);
    if (plan.entry == nil_entry || !view_.entry_exists(plan.entry)) return true;
    if (!unfinished(d, plan.entry, false)) return false;
    if (is_part(plan.entry)) return true;
    h.told = robbed ? Told::taken_over : Told::handed_over;
    h.other_weight = weight(plan.entry);
    h.other_pid = pid(plan.entry);
    std::size_t holder_bytes = 0;
    std::size_t reason_bytes = 0;
    const char* const row = texts(plan.entry, &holder_bytes, &reason_bytes);
    h.other_bytes = static_cast<std::uint8_t>(holder_bytes);
    h.reason_bytes = static_cast<std::uint16_t>(reason_bytes);
    d.texts[3] = {row, 0};
    d.texts[2] = {row, holder_bytes};
    return true;
  }

  // Of a semaphore it is what came back; of a lock that is shared from now on, the hold as it is now.
  bool shrunk(JournalDraft& d, std::uint32_t left) const noexcept {
    const Amount before = unpack_amount(P::load(view_.entry(c_.last).weight));
    if (before.stamp == link_stamp(r_, c_.seq)) return false;  // finished
    const std::uint32_t had = before.amount;
    if (P::load(rec_.kind) == static_cast<std::uint32_t>(Kind::semaphore)) {
      return holder(d, Told::released, c_.last, had > left ? had - left : 0, token(c_.last), false);
    }
    return holder(d, Told::acquired, c_.last, left, token(c_.last), true);
  }

  bool holder(JournalDraft& d, Told told, EntryIndex i, std::uint32_t weight, std::uint64_t token,
              bool with_reason) const noexcept {
    d.head.told = told;
    d.head.weight = weight;
    d.head.pid = pid(i);
    d.set_token(token);
    std::size_t holder_bytes = 0;
    std::size_t reason_bytes = 0;
    const char* const row = texts(i, &holder_bytes, &reason_bytes);
    d.head.holder_bytes = static_cast<std::uint8_t>(holder_bytes);
    d.texts[1] = {row, 0};
    if (with_reason) {
      d.head.reason_bytes = static_cast<std::uint16_t>(reason_bytes);
      d.texts[2] = {row, holder_bytes};
    }
    return true;
  }

  const char* texts(EntryIndex i, std::size_t* holder_bytes, std::size_t* reason_bytes) const noexcept {
    Entry& e = view_.entry(i);
    const std::uint32_t holder = P::load(detail::length_word(e.holder_bytes));
    const std::uint32_t reason = P::load(detail::length_word(e.reason_bytes));
    const char* const row = detail::text_row(view_, i, holder, reason);
    *holder_bytes = row == nullptr ? 0 : holder;
    *reason_bytes = row == nullptr ? 0 : reason;
    return row;
  }

  [[nodiscard]] std::int32_t pid(EntryIndex i) const noexcept {
    if (const std::int32_t bound = RealPolicy::get(view_.entry(i).bound_pid); bound != 0) return bound;
    const std::uint64_t owner = P::load(view_.owner_of(i));
    const SlotIndex s = owner == 0 ? detached_slot : unpack_owner(owner).slot;
    return s != detached_slot && view_.slot_exists(s) ? RealPolicy::get(view_.slot(s).pid) : 0;
  }

  void name(JournalDraft& d) const noexcept {
    const std::uint32_t bytes = P::load(rec_.name_bytes);
    if (bytes > max_name) return;
    const char* const row = bytes <= inline_name_bytes ? rec_.name.data() : view_.long_name(r_);
    if (bytes > inline_name_bytes && !view_.pages_exist(view_.offset_of(row), long_name_bytes)) return;
    d.head.name_bytes = static_cast<std::uint8_t>(bytes);
    d.texts[0] = {row, 0};
  }

  const View& view_;
  RecordIndex r_;
  Record& rec_;
  const core::Control& c_;
};

}  // namespace shmcoord::engine
