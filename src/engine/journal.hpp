#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "engine/journal_report.hpp"

// The journal: every change of a lock, a semaphore or a session, in a ring that any number of processes write and read.
//
// Problem. A change is decided by one CAS on one control word; whoever made it may be killed before anybody hears of
// it. The event must be there all the same, exactly once, and behind the one before it; and while nobody listens,
// nobody may pay for it.
//
// Protocol. Telling of an operation belongs to finishing it, and comes first in it: before an entry changes its status,
// and so before the next CAS of that word. Whoever finishes tells:
//   1  load the tail, and complete the record that ends there, whosesoever it is;
//   2  if the primitive's `journaled` has reached the operation's sequence, it has been told;
//   3  CAS the tail to {its end + length, whose record that is};
//   4  complete it: write its words, then raise `journaled`.
// Invariants.
//   J1  One record is not complete at most: the last one. For 3 comes after 1.
//   J2  A change is in the ring at most once. `journaled` is read after the tail was, and every record before that tail
//       is complete, so a change that was claimed before is seen in it; one claimed later makes the CAS of 3 fail.
//   J3  Who completes reads the words' old content and the source's content, makes sure that the source still is what
//       the record tells of (its control word has that sequence), then that the tail still is the record's end, and
//       only then changes each word by CAS from exactly what it read. The first makes the content right, the second
//       protects a later lap. An entry is only read while its status says that the operation is not finished, and its
//       texts do not change: an owner that leaves its release unfinished sets the entry aside before it writes others
//       into it (ControlOps::set_aside). All who complete a record write the same bytes but for the time, which is one
//       word.
//   J4  A record whose source moved on cannot be told any more, and is voided: what is not written of it is written as
//       `voided`, and readers pass over it. That happens only around the moment when journaling starts (below), or to
//       a notice.
// Who is killed before 3 changed nothing; after it, the next one completes, at the latest whoever buries its session,
// since that finishes the word. Before the call to the readers: the call is repeated (call_readers); a reader looks
// once a second in any case.
//
// When journaling starts. The switch (journal_switch.hpp) is one word beside others that everybody reads and hardly
// anybody writes. It is looked at after the CAS of an operation: a change that comes after the switch is told by
// whoever made it or finishes it. An owner may leave its own acquire and release unfinished, but not untold. What was
// changed *before* and never finished would be told late, so whoever starts journaling marks every word as journaled
// up to where it stands, and only then listens.
//
// A notice (denied, stale, and what has no word to come from) is known only to its writer. Others give it a moment to
// write it down, then void it; it tries again. Notices can get lost: with their writer.

namespace shmcoord::engine {

/// What a record of the journal is about, and how far that has come.
struct JournalOrigin {
  JournalSource source = JournalSource::none;
  std::uint32_t index = 0;
  std::uint64_t seq = 0;
};

/// Where the journal ends, and what number the next record gets.
struct JournalEnd {
  std::uint64_t position = 0;
  std::uint64_t number = 0;
};

namespace detail {

inline constexpr std::uint32_t reader_parked = 1;
inline constexpr std::uint32_t reader_called = 2;
inline constexpr int journal_patience = 200;  // looks at somebody else's notice before it is voided
inline constexpr int journal_notice_tries = 16;
inline constexpr int journal_claims = 16;  // for one change; more than one or two: the segment is damaged

/// Bytes [from, from + count) of a record.
template <class P>
void copy_journal_bytes(const JournalDraft& draft, std::size_t from, char* to, std::size_t count) noexcept {
  std::memset(to, 0, count);
  const auto part = [&](std::size_t at, std::size_t bytes, auto&& load) {
    const std::size_t first = std::max(at, from);
    const std::size_t end = std::min(at + bytes, from + count);
    if (first < end) load(first - at, to + (first - from), end - first);
  };
  const auto plain = [](const void* bytes) {
    return [bytes](std::size_t skip, char* dst, std::size_t n) {
      std::memcpy(dst, static_cast<const char*>(bytes) + skip, n);
    };
  };
  std::size_t at = draft.head.head_bytes();
  part(0, at, plain(&draft.head));
  const std::array<std::size_t, 4> lengths = draft.lengths();
  for (std::size_t t = 0; t < lengths.size(); ++t) {
    const JournalText& text = draft.texts[t];
    if (lengths[t] == 0) continue;
    if (text.shared) {
      part(at, lengths[t],
           [&](std::size_t skip, char* dst, std::size_t n) { load_text<P>(text.row, text.from + skip, dst, n); });
    } else {
      part(at, lengths[t], plain(text.row));
    }
    at += lengths[t];
  }
  const std::uint16_t words = draft.head.words;
  part(words * journal_word_bytes - sizeof words, sizeof words, plain(&words));
}

}  // namespace detail

template <class P>
class Journal {
 public:
  explicit Journal(const View& view) noexcept
      : view_(&view), ring_(view.geo.sizes.journal), ring_bits_(static_cast<unsigned>(std::countr_zero(ring_))) {}

  /// Does anybody want to hear of it? A load of a word that hardly ever changes.
  [[nodiscard]] static bool wanted(const View& view) noexcept { return (P::load(view.header().journal) & 1U) != 0; }

  /// Tells of the operation that made `c`, unless that was done.
  [[gnu::noinline]] void tell(RecordIndex r, const core::Control& c) const noexcept {
    if (!OperationReport<P>::is_told(c.op)) return;
    tell({JournalSource::record, r, c.seq});
  }

  /// Tells how far a session has come. Before that goes on.
  void tell_session(SlotIndex s, std::uint64_t incarnation, SessionStage stage) const noexcept {
    tell({JournalSource::session, s, session_seq(incarnation, stage)});
  }

  /// What only the caller knows. False: it could not be written down.
  bool notice(JournalDraft draft) const noexcept {
    draft.head.source = JournalSource::notice;
    draft.head.words = journal_words_of(draft.head);
    for (int n = 0; n < detail::journal_notice_tries; ++n) {
      const core::Packed tail = load_tail();
      if (!complete(tail)) return false;
      const core::Packed next{tail.seq + draft.head.words,
                              pack(JournalClaim{JournalSource::notice, 0, draft.head.words, 0})};
      if (!P::cas(view_->header().journal_tail, tail, next)) continue;
      JournalDraft copy = draft;
      write(
          next, copy, [](JournalDraft&) { return true; }, [](const JournalDraft&) { return true; });
      if (is_real(next)) {
        call_readers();
        return true;
      }
    }
    return false;
  }

  [[nodiscard]] core::Packed load_tail() const noexcept { return core::pack(P::load(view_->header().journal_tail)); }

  /// Where who begins to read now begins.
  [[nodiscard]] JournalEnd end() const noexcept {
    for (;;) {
      const core::Packed tail = load_tail();
      if (!complete(tail)) return {tail.seq, 0};
      const std::uint64_t number = number_at(tail.seq);
      if (load_tail().seq == tail.seq) return {tail.seq, number};
    }
  }

  /// Brings the record that ends at that tail to its end. False: the segment is damaged here.
  bool complete(const core::Packed& tail) const noexcept {
    const JournalClaim claim = unpack_claim(tail.bits);
    if (claim.source == JournalSource::none) return true;
    if (claim.words < least_journal_words || claim.words > tail.seq || claim.words > ring_ / 2) return false;
    if (!exists(tail.seq - claim.words, claim.words)) return false;
    if (!is_written(tail.seq - 1)) {
      const auto origin = origin_of(claim);
      if (claim.source == JournalSource::notice) await(tail);
      const auto describe_it = [&](JournalDraft& draft) { return origin && describe(*origin, draft); };
      JournalDraft draft;
      if (!describe_it(draft)) draft = {};
      write(tail, draft, describe_it, [&](const JournalDraft& d) { return current(*origin, d); });
    }
    mark(tail, claim);
    return true;
  }

  /// Wakes the readers that sleep. Who is killed inside leaves `called` behind, and the next one calls again.
  void call_readers() const noexcept {
    Word32& word = view_->header().journal_parked;
    for (;;) {
      const std::uint32_t seen = P::load(word);
      if ((seen & (detail::reader_parked | detail::reader_called)) == 0) return;
      const std::uint32_t called = ((seen | 3U) + 1) | detail::reader_called;  // another number, and not parked
      if (!P::cas(word, seen, called)) continue;
      P::wake(word);
      P::cas(word, called, called & ~detail::reader_called);
      return;
    }
  }

  /// Makes readers look again.
  void interrupt() const noexcept {
    P::add(view_->header().journal_parked, 4);
    P::wake(view_->header().journal_parked);
  }

  /// A word, and whether it is of the lap that the position is in: below 0 of an earlier one, above 0 of a later one.
  struct Seen {
    core::Packed word;
    JournalStamp stamp;
    int lap = 0;
  };
  [[nodiscard]] Seen look(std::uint64_t position) const noexcept {
    const core::Packed word = core::pack(P::load(at(position)));
    const JournalStamp stamp = unpack_stamp(word.seq);
    const std::uint32_t ahead = (stamp.lap - journal_lap(position, ring_bits_)) & journal_lap_mask;
    return {word, stamp, ahead == 0 ? 0 : ahead <= journal_lap_mask / 2 ? 1 : -1};
  }
  static void payload_of(const core::Packed& word, char* to) noexcept {
    const auto four = static_cast<std::uint32_t>(word.seq >> 32U);
    std::memcpy(to, &four, sizeof four);
    std::memcpy(to + sizeof four, &word.bits, sizeof word.bits);
  }
  [[nodiscard]] bool exists(std::uint64_t position, std::uint32_t words) const noexcept {
    const std::uint64_t first = position & (ring_ - 1);
    const std::uint64_t there = std::min<std::uint64_t>(words, ring_ - first);
    return view_->pages_exist(view_->geo.journal + first * sizeof(Word128), there * sizeof(Word128)) &&
           (there == words || view_->pages_exist(view_->geo.journal, (words - there) * sizeof(Word128)));
  }
  [[nodiscard]] std::uint32_t ring() const noexcept { return ring_; }

  /// The sequence up to which the origin was told.
  [[nodiscard]] Word64& journaled(const JournalOrigin& o) const noexcept {
    return o.source == JournalSource::record ? view_->record(o.index).journaled : view_->slot(o.index).journaled;
  }
  static void raise(Word64& word, std::uint64_t to) noexcept {
    for (std::uint64_t seen = P::load(word); seen < to; seen = P::load(word)) P::cas(word, seen, to);
  }

 private:
  [[nodiscard]] Word128& at(std::uint64_t position) const noexcept { return view_->journal(position & (ring_ - 1)); }

  void tell(const JournalOrigin& origin) const noexcept {
    Word64& journaled = this->journaled(origin);
    if (P::load(journaled) < origin.seq) {
      for (int claims = 0; claims < detail::journal_claims;) {
        const core::Packed tail = load_tail();
        if (P::keeps(Safety::journal_completes_before) && !complete(tail)) return;
        if (P::keeps(Safety::journal_looks_again) && P::load(journaled) >= origin.seq) break;
        JournalDraft draft;
        if (!describe(origin, draft)) return;
        if (!current(origin, draft)) continue;  // or only a late finisher came by
        const JournalClaim claim{origin.source, origin.index, draft.head.words, static_cast<std::uint32_t>(origin.seq)};
        const core::Packed next{tail.seq + claim.words, pack(claim)};
        if (!exists(tail.seq, claim.words)) return;
        if (!P::cas(view_->header().journal_tail, tail, next)) continue;
        ++claims;
        write(
            next, draft, [&](JournalDraft& d) { return describe(origin, d); },
            [&](const JournalDraft& d) { return current(origin, d); });
        mark(next, claim);
      }
    }
    if (P::keeps(Safety::journal_calls)) call_readers();
  }

  // Of a claim, whose sequence is cut. Nothing: that is not what is going on there any more.
  [[nodiscard]] std::optional<JournalOrigin> origin_of(const JournalClaim& claim) const noexcept {
    std::uint64_t seq = 0;
    if (claim.source == JournalSource::record) {
      if (!view_->record_exists(claim.index)) return std::nullopt;
      seq = P::load_seq(view_->record(claim.index).control);
    } else if (claim.source == JournalSource::session) {
      if (!view_->slot_exists(claim.index)) return std::nullopt;
      const std::uint64_t incarnation = unpack_slot(P::load(view_->slot(claim.index).id)).incarnation;
      seq = session_seq(incarnation, static_cast<SessionStage>(claim.seq & 3U));
    } else {
      return std::nullopt;
    }
    if (static_cast<std::uint32_t>(seq) != claim.seq) return std::nullopt;
    return JournalOrigin{claim.source, claim.index, seq};
  }

  [[nodiscard]] bool current(const JournalOrigin& o, const JournalDraft& draft) const noexcept {
    if (!P::keeps(Safety::journal_source_current)) return true;
    if (o.source == JournalSource::record) {
      for (const JournalWitness& w : draft.witnesses) {
        if (w.entry == nil_entry) continue;
        Entry& e = view_->entry(w.entry);
        if (P::load(e.status) != w.status || P::load(e.text_version) != w.text_version) return false;
      }
      return P::load_seq(view_->record(o.index).control) == o.seq;
    }
    const SlotId id = unpack_slot(P::load(view_->slot(o.index).id));
    const bool ended = id.state == SlotState::dying;
    if (o.seq == session_seq(id.incarnation, SessionStage::ended)) return ended;
    return o.seq == session_seq(id.incarnation, SessionStage::joined) &&
           (ended || id.state == SlotState::alive || id.state == SlotState::fenced);
  }

  [[nodiscard]] bool describe(const JournalOrigin& o, JournalDraft& draft) const noexcept {
    if (o.source == JournalSource::record) {
      const core::Control c = P::load(view_->record(o.index).control);
      return c.seq == o.seq && OperationReport<P>(*view_, o.index, c).write(draft);
    }
    SessionSlot& slot = view_->slot(o.index);
    draft = {};
    if (!current(o, draft)) return false;
    JournalHead& h = draft.head;
    const bool left = (P::load(slot.flags) & slot_leaving) != 0;
    h.told = (o.seq & 3U) == static_cast<std::uint64_t>(SessionStage::joined) ? Told::session_joined
             : left                                                           ? Told::session_left
                                                                              : Told::session_died;
    h.source = JournalSource::session;
    h.index = o.index;
    h.pid = RealPolicy::get(slot.pid);
    draft.set_seq(o.seq);
    draft.set_token(RealPolicy::get(slot.session_id));
    h.name_bytes = static_cast<std::uint8_t>(line_bytes(slot.label.data(), slot.label.size()));
    h.reason_bytes = line_bytes(slot.command.data(), slot.command.size());
    draft.texts[0] = {slot.label.data(), 0};
    draft.texts[2] = {slot.command.data(), 0};
    h.words = journal_words_of(h);
    return true;
  }
  static std::uint16_t line_bytes(const char* row, std::size_t size) noexcept {
    std::size_t n = 0;
    for (; n < size; n += 8) {
      char eight[8];
      load_text<P>(row, n, eight, sizeof eight);
      const auto* const end = static_cast<const char*>(std::memchr(eight, 0, sizeof eight));
      if (end != nullptr) return static_cast<std::uint16_t>(n + static_cast<std::size_t>(end - eight));
    }
    return static_cast<std::uint16_t>(size);
  }

  [[nodiscard]] bool is_written(std::uint64_t position) const noexcept {
    return unpack_stamp(P::load_seq(at(position))).lap == journal_lap(position, ring_bits_);
  }
  [[nodiscard]] bool is_tail(const core::Packed& tail) const noexcept {
    return P::load_seq(view_->header().journal_tail) == tail.seq || !P::keeps(Safety::journal_tail_current);
  }
  // A notice is written in well under a microsecond, unless its writer was interrupted just there.
  void await(const core::Packed& tail) const noexcept {
    for (int n = 0; n < detail::journal_patience && !is_written(tail.seq - 1); ++n) P::pause();
  }

  // The number of the record that begins there: that of the one before, plus one.
  [[nodiscard]] std::uint64_t number_at(std::uint64_t begin) const noexcept {
    if (begin == 0 || !exists(begin - 1, 1)) return 1;
    char last[journal_word_bytes];
    payload_of(core::pack(P::load(at(begin - 1))), last);
    std::uint16_t words = 0;
    std::memcpy(&words, last + sizeof last - sizeof words, sizeof words);
    if (words > begin || words > ring_ / 2 || !exists(begin - words, 1)) return 1;
    JournalHead head;
    char first[journal_word_bytes];
    payload_of(core::pack(P::load(at(begin - words))), first);
    std::memcpy(static_cast<void*>(&head), first, sizeof first);
    return head.number() + 1;
  }

  // Writes what is not written yet of the record that ends at that tail (J3), from a draft, which is described anew
  // when it is not current any more; voids it when it cannot be described any more.
  template <class Describe, class Current>
  void write(const core::Packed& tail, JournalDraft& draft, Describe&& describe, Current&& current) const noexcept {
    constexpr std::size_t at_once = 16;
    const std::uint32_t words = unpack_claim(tail.bits).words;
    const std::uint64_t begin = tail.seq - words;
    const std::uint64_t number = number_at(begin);
    const auto now = static_cast<std::uint64_t>(P::coarse_now_ns());
    const auto finish_draft = [&] {
      const bool can = draft.head.words == words;
      if (!can) draft = {};
      draft.head.words = static_cast<std::uint16_t>(words);
      draft.head.number_low = static_cast<std::uint32_t>(number);
      draft.head.number_high = static_cast<std::uint16_t>(number >> 32U);
      draft.head.time_low = static_cast<std::uint32_t>(now);
      draft.head.time_high = static_cast<std::uint32_t>(now >> 32U);
      return can;
    };
    bool real = finish_draft();
    std::array<core::Packed, at_once> read;
    std::array<char, at_once * journal_word_bytes> bytes;
    for (std::uint32_t first = 0; first < words; first += at_once) {
      const std::size_t count = std::min<std::size_t>(at_once, words - first);
      for (std::size_t n = 0; n < count; ++n) read[n] = P::guess(at(begin + first + n));
      for (;;) {
        detail::copy_journal_bytes<P>(draft, first * journal_word_bytes, bytes.data(), count * journal_word_bytes);
        if (!is_tail(tail)) return;
        if (!real || current(draft)) break;
        if (!describe(draft)) draft = {};  // a late finisher came by; or it moved on
        real = finish_draft();
      }
      if (!is_tail(tail)) return;  // after `current`, and after the words were read
      for (std::size_t n = 0; n < count; ++n) {
        const std::uint64_t position = begin + first + n;
        const std::uint32_t lap = journal_lap(position, ring_bits_);
        if (unpack_stamp(read[n].seq).lap == lap) continue;
        std::uint32_t four = 0;
        core::Packed word{};
        std::memcpy(&four, &bytes[n * journal_word_bytes], sizeof four);
        std::memcpy(&word.bits, &bytes[n * journal_word_bytes + sizeof four], sizeof word.bits);
        word.seq = pack(JournalStamp{lap, position == begin, !real}) | std::uint64_t{four} << 32U;
        P::cas(at(position), read[n], word);
      }
    }
  }

  // Only of a record that was not voided: what was is told again, if it can be.
  void mark(const core::Packed& tail, const JournalClaim& claim) const noexcept {
    if (claim.source == JournalSource::notice) return;
    const core::Packed second = P::guess(at(tail.seq - claim.words + 1));
    if (!is_tail(tail) || unpack_stamp(second.seq).voided) return;
    const std::uint64_t seq = second.seq >> 32U | second.bits << 32U;
    const JournalOrigin origin{claim.source, claim.index, seq};
    // The ring may be damaged.
    if (claim.source == JournalSource::record ? !view_->record_exists(claim.index) : !view_->slot_exists(claim.index))
      return;
    if (static_cast<std::uint32_t>(seq) == claim.seq) raise(journaled(origin), seq);
  }

  [[nodiscard]] bool is_real(const core::Packed& tail) const noexcept {
    const std::uint32_t words = unpack_claim(tail.bits).words;
    for (std::uint64_t p = tail.seq - words; p < tail.seq; ++p) {
      const Seen seen = look(p);
      if (seen.lap < 0 || (seen.lap == 0 && seen.stamp.voided)) return false;
    }
    return true;
  }

  const View* view_;
  std::uint32_t ring_;  // words, a power of two
  unsigned ring_bits_;
};

}  // namespace shmcoord::engine
