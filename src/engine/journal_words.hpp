#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/words.hpp"

// What the words of the journal mean. The journal is a ring of 128-bit words; a position counts words since the
// segment was made and never wraps. A record takes as many words as it needs, one behind the other:
//
//   word   {stamp:32 | 12 bytes of payload}       stamp: {lap:30 | voided | start}
//   record JournalHead, then the texts (name, holder, reason, other), zeroes, and in its last two bytes its length
//
// Each word is set by one CAS, from the word of an earlier lap, by whoever gets there first; so a word tells by itself
// whether it belongs to this record, and a record is whole when its last word is written (journal.hpp).

namespace shmcoord::engine {

inline constexpr std::uint32_t least_journal = 4'096;  // words; two of the longest records
inline constexpr std::uint32_t most_journal = 1U << 26U;
inline constexpr std::size_t journal_word_bytes = 12;
inline constexpr std::uint32_t max_journal_words = (1U << 10U) - 1;

/// Of the switch, its low two bits; in states with the lowest one set changes are told (journal_switch.hpp).
enum class JournalState : std::uint8_t { off = 0, on = 1, starting = 3 };

/// Where a record's content can be read again by whoever completes it.
enum class JournalSource : std::uint8_t {
  none = 0,     // nothing was ever appended
  record = 1,   // a primitive: the last operation of its control word
  session = 2,  // a session slot
  notice = 3,   // nowhere: only its writer knows it
};

/// The second half of the tail: whose record ends there. {index:20 | words:10 | source:2 | low half of the sequence:32}
struct JournalClaim {
  JournalSource source = JournalSource::none;
  std::uint32_t index = 0;
  std::uint32_t words = 0;
  std::uint32_t seq = 0;
};
constexpr std::uint64_t pack(const JournalClaim& c) noexcept {
  return std::uint64_t{c.index & core::index_mask} | std::uint64_t{c.words} << 20U |
         static_cast<std::uint64_t>(c.source) << 30U | std::uint64_t{c.seq} << 32U;
}
constexpr JournalClaim unpack_claim(std::uint64_t raw) noexcept {
  return {static_cast<JournalSource>(raw >> 30U & 3U), static_cast<std::uint32_t>(raw & core::index_mask),
          static_cast<std::uint32_t>(raw >> 20U & max_journal_words), static_cast<std::uint32_t>(raw >> 32U)};
}

/// A stage in a session's life; its sequence in the journal is {incarnation | stage:2}.
enum class SessionStage : std::uint8_t { joined = 1, ended = 2 };
constexpr std::uint64_t session_seq(std::uint64_t incarnation, SessionStage stage) noexcept {
  return incarnation << 2U | static_cast<std::uint64_t>(stage);
}

/// What a record tells. One operation of a primitive is one record, also where it is two events.
enum class Told : std::uint8_t {
  nothing = 0,      // voided
  acquired = 1,     // holder
  released = 2,     // holder
  handed_over = 3,  // holder released, other acquired
  reclaimed = 4,    // holder was robbed, nobody got it by that
  taken_over = 5,   // holder was robbed, other acquired
  room = 6,         // there may be more permits now
  session_joined = 7,
  session_left = 8,
  session_died = 9,
  denied = 10,  // notices, from here on
  stale = 11,
  started = 12,  // the journal was off before; what happened then is not in it
  named = 13,    // an event of its own name
};

enum ToldFlag : std::uint16_t {
  told_semaphore = 1,
  told_loss_shift = 1,  // the next three bits: Loss
  told_loss_mask = 14,
  told_brief = 16,  // only the first half of the head is there; the rest follows from it
};

/// Payload of the first words, in this order. All of a lock's plain acquires and releases are brief: each word costs
/// its writer a CAS, and a lock is let in by its next owner only after that.
struct JournalHead {
  std::uint32_t number_low = 0;  // of the record, from 1
  std::uint16_t number_high = 0;
  std::uint16_t words = 0;
  Told told = Told::nothing;
  JournalSource source = JournalSource::none;
  std::uint16_t flags = 0;  // ToldFlag
  // Second word.
  std::uint32_t seq_low = 0;  // of the source
  std::uint32_t seq_high = 0;
  std::uint8_t name_bytes = 0;
  std::uint8_t holder_bytes = 0;
  std::uint16_t reason_bytes = 0;
  // Third.
  std::uint32_t time_low = 0;  // CLOCK_MONOTONIC to its tick, when it was written down
  std::uint32_t time_high = 0;
  std::int32_t pid = 0;  // of the holder
  // Fourth.
  std::uint32_t token_low = 0;  // of the holder's hold; of a session: its id
  std::uint32_t token_high = 0;
  std::uint32_t weight = 0;  // of the holder
  // Fifth.
  std::uint32_t used = 0;  // behind it
  std::uint32_t capacity = 0;
  std::uint32_t other_weight = 0;
  // Sixth.
  std::uint32_t index = 0;  // of the source; of an event of somebody's own: which
  std::int32_t other_pid = 0;
  std::uint8_t other_bytes = 0;
  std::uint8_t unused[3] = {};

  [[nodiscard]] constexpr std::uint64_t number() const noexcept {
    return number_low | std::uint64_t{number_high} << 32U;
  }
  [[nodiscard]] constexpr std::uint64_t seq() const noexcept { return seq_low | std::uint64_t{seq_high} << 32U; }
  [[nodiscard]] constexpr std::uint64_t time_ns() const noexcept { return time_low | std::uint64_t{time_high} << 32U; }
  [[nodiscard]] constexpr std::uint64_t token() const noexcept { return token_low | std::uint64_t{token_high} << 32U; }
  constexpr void set_token(std::uint64_t token) noexcept {
    token_low = static_cast<std::uint32_t>(token);
    token_high = static_cast<std::uint32_t>(token >> 32U);
  }
  [[nodiscard]] constexpr std::size_t text_bytes() const noexcept {
    return std::size_t{name_bytes} + holder_bytes + reason_bytes + other_bytes;
  }

  /// What the second half of a brief head would say of the token and the weight.
  [[nodiscard]] constexpr std::uint64_t brief_token() const noexcept {
    return told == Told::acquired ? seq() : seq() - 1;
  }
  [[nodiscard]] constexpr bool can_be_brief() const noexcept {
    return (told == Told::acquired || told == Told::released) && flags == 0 && weight == core::max_capacity &&
           token() == brief_token();
  }
  [[nodiscard]] constexpr std::size_t head_bytes() const noexcept {
    return (flags & told_brief) != 0 ? brief_head_bytes : whole_head_bytes;
  }
  static constexpr std::size_t brief_head_bytes = 36;
  static constexpr std::size_t whole_head_bytes = 72;
};
static_assert(sizeof(JournalHead) == JournalHead::whole_head_bytes);
inline constexpr std::uint32_t least_journal_words = 4;

inline constexpr std::size_t journal_trailer_bytes = 2;
constexpr std::uint16_t journal_words_of(const JournalHead& head) noexcept {
  return static_cast<std::uint16_t>(
      (head.head_bytes() + head.text_bytes() + journal_trailer_bytes + journal_word_bytes - 1) / journal_word_bytes);
}

/// The low 32 bits of a word.
struct JournalStamp {
  std::uint32_t lap = 0;
  bool start = false;
  bool voided = false;
};
inline constexpr std::uint32_t journal_lap_mask = (1U << 30U) - 1;
constexpr std::uint32_t pack(const JournalStamp& s) noexcept {
  return std::uint32_t{s.start} | std::uint32_t{s.voided} << 1U | s.lap << 2U;
}
constexpr JournalStamp unpack_stamp(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word >> 2U) & journal_lap_mask, (word & 1U) != 0, (word >> 1U & 1U) != 0};
}
/// From 1, so that memory that was never written belongs to no lap. The ring has 2^ring_bits words: no division, which
/// would cost more than the rest of what is done with a word.
constexpr std::uint32_t journal_lap(std::uint64_t position, unsigned ring_bits) noexcept {
  return static_cast<std::uint32_t>(((position >> ring_bits) + 1) & journal_lap_mask);
}

}  // namespace shmcoord::engine
