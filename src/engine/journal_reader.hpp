#pragma once

#include <string>
#include <vector>

#include "engine/journal.hpp"

// Reading the journal, from a position on.
//
// A word tells by its stamp whether it is still of the lap that the reader is in, so nothing is locked and nobody waits
// for a reader: who is too slow finds a later lap, is told how many records went by, and goes on in the middle of what
// there is. A record that is not whole is the last one; the reader completes it like anybody (its writer may be dead).

namespace shmcoord::engine {

/// One change, as it stands in the journal.
struct JournalRecord {
  JournalHead head;
  std::uint64_t position = 0;  // where it begins
  std::string name = {};
  std::string holder = {};
  std::string reason = {};
  std::string other = {};
};

enum class JournalRead : std::uint8_t {
  record,
  nothing,     // there is no more yet
  unfinished,  // the last record is not whole; only told to who looks and changes nothing
  lapped,      // records were overwritten before they were read: so many are lost
  damaged,
};

template <class P>
class JournalReader {
 public:
  /// From where a subscriber begins; or from the oldest record that there is, where that number is expected.
  JournalReader(const View& view, const JournalEnd& from) noexcept
      : view_(&view), journal_(view), position_(from.position), expected_(from.number) {}
  JournalReader(const View& view, std::uint64_t number) noexcept : JournalReader(view, JournalEnd{0, number}) {
    skip_to(0);
  }

  /// All that there is, without completing what is not whole.
  static JournalReader only_looking(const View& view) noexcept {
    JournalReader reader(view, std::uint64_t{0});
    reader.completes_ = false;
    return reader;
  }

  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] bool at_end() const noexcept { return P::load_seq(view_->header().journal_tail) == position_; }

  /// `lost` is set when it was lapped.
  JournalRead next(JournalRecord& record, std::uint64_t& lost) {
    for (bool completed = false;;) {
      // The tail's line is what writers fight for: it is looked at only when all that was there then has been read.
      if (position_ >= known_end_) known_end_ = P::load_seq(view_->header().journal_tail);
      if (position_ >= known_end_) return position_ == known_end_ ? JournalRead::nothing : JournalRead::damaged;
      const Fetch fetched = fetch(record);
      switch (fetched) {
        case Fetch::whole:
        case Fetch::voided:
          if (const std::uint64_t number = record.head.number(); expected_ != 0 && number > expected_) {
            lost = number - expected_;
            expected_ = number;
            return JournalRead::lapped;
          }
          position_ += record.head.words;
          expected_ = record.head.number() + 1;
          if (fetched == Fetch::whole) return JournalRead::record;
          completed = false;
          continue;
        case Fetch::unfinished:
          // Only the last one can be; and all before the tail are whole when that is.
          if (!completes_ && is_last()) return JournalRead::unfinished;
          if (completed || (completes_ && !journal_.complete(journal_.load_tail()))) return JournalRead::damaged;
          completed = true;
          continue;
        case Fetch::lapped: {
          // Not to the very oldest: that would be overwritten next. Who wrote a later lap moved the tail first.
          const std::uint64_t before = position_;
          skip_to(journal_.ring() / 2);
          if (position_ <= before) return JournalRead::damaged;
          completed = false;
          continue;
        }
        case Fetch::damaged: return JournalRead::damaged;
      }
    }
  }

  /// Sleeps until there is more, `ready()` and somebody says so by interrupt(), or the deadline.
  template <class Ready>
  void wait(std::int64_t deadline_ns, Ready&& ready) const noexcept {
    Word32& word = view_->header().journal_parked;
    const std::uint32_t seen = P::load(word);
    const std::uint32_t parked = seen | detail::reader_parked;
    if (seen != parked && !P::cas(word, seen, parked)) return;
    P::fence();  // parked before the last look; pairs with call_readers()
    if (!at_end() || ready()) return;
    const WaitOn on{&word, parked};
    P::wait({&on, 1}, deadline_ns);
  }

 private:
  enum class Fetch : std::uint8_t { whole, voided, unfinished, lapped, damaged };

  Fetch fetch(JournalRecord& record) {
    if (!journal_.exists(position_, 1)) return Fetch::damaged;
    const auto first = journal_.look(position_);
    if (first.lap != 0) return first.lap < 0 ? Fetch::unfinished : Fetch::lapped;
    if (!first.stamp.start) return Fetch::damaged;
    record.head = {};
    bytes_.resize(journal_word_bytes);
    Journal<P>::payload_of(first.word, bytes_.data());
    std::memcpy(static_cast<void*>(&record.head), bytes_.data(), journal_word_bytes);
    const std::uint32_t words = record.head.words;
    if (words < least_journal_words || words > max_journal_words || !journal_.exists(position_, words)) {
      return Fetch::damaged;
    }
    bytes_.resize(words * journal_word_bytes);
    bool voided = first.stamp.voided;
    for (std::uint32_t n = 1; n < words; ++n) {
      const auto seen = journal_.look(position_ + n);
      if (seen.lap != 0) return seen.lap < 0 ? Fetch::unfinished : Fetch::lapped;
      voided = voided || seen.stamp.voided;
      Journal<P>::payload_of(seen.word, &bytes_[n * journal_word_bytes]);
    }
    if (voided) return Fetch::voided;
    if (words * journal_word_bytes < record.head.head_bytes()) return Fetch::damaged;
    std::memcpy(static_cast<void*>(&record.head), bytes_.data(), record.head.head_bytes());
    if (journal_words_of(record.head) > words) return Fetch::damaged;
    if ((record.head.flags & told_brief) != 0) {
      record.head.set_token(record.head.brief_token());
      record.head.weight = core::max_capacity;
    }
    std::size_t at = record.head.head_bytes();
    const auto text = [&](std::string& to, std::size_t bytes) {
      to.assign(&bytes_[at], bytes);
      at += bytes;
    };
    text(record.name, record.head.name_bytes);
    text(record.holder, record.head.holder_bytes);
    text(record.reason, record.head.reason_bytes);
    text(record.other, record.head.other_bytes);
    record.position = position_;
    return Fetch::whole;
  }

  [[nodiscard]] bool is_last() const noexcept {
    const core::Packed tail = journal_.load_tail();
    return tail.seq - unpack_claim(tail.bits).words == position_;
  }

  // To the first record that begins `spare` words behind the oldest word, or to the end if there is none.
  void skip_to(std::uint64_t spare) noexcept {
    const std::uint64_t end = known_end_ = P::load_seq(view_->header().journal_tail);
    const std::uint64_t oldest = end > journal_.ring() ? end - journal_.ring() + spare : 0;
    for (position_ = std::min(end, oldest); position_ < end; ++position_) {
      if (!journal_.exists(position_, 1)) return;
      const auto seen = journal_.look(position_);
      if (seen.lap > 0 || (seen.lap == 0 && seen.stamp.start)) return;  // or lapped again, which next() finds
    }
  }

  const View* view_;
  Journal<P> journal_;
  std::uint64_t position_;
  std::uint64_t known_end_ = 0;
  std::uint64_t expected_;  // number of the next record; 0: not known
  bool completes_ = true;
  std::vector<char> bytes_;
};

}  // namespace shmcoord::engine
