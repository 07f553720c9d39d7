#pragma once

#include <cstdint>

#include "core/control_word.hpp"
#include "core/lease.hpp"

// The shared words of the segment and what their bits mean. A word is a plain integer: only a policy (real_policy.hpp,
// or the simulated one of the tests) reads or changes it, so that the same engine runs on real atomics and under the
// deterministic scheduler.

namespace shmcoord::engine {

using core::EntryIndex;
using core::nil_entry;
using core::RecordIndex;
using core::SlotIndex;

struct Word32 {
  std::uint32_t raw = 0;
};
struct Word64 {
  std::uint64_t raw = 0;
};
struct alignas(16) Word128 {
  std::uint64_t seq = 0;
  std::uint64_t bits = 0;
};
static_assert(sizeof(Word32) == 4 && sizeof(Word64) == 8 && sizeof(Word128) == 16);

// --- entry status: phase:3 | stamp:41 | record:20 ------------------------------------------------------------------
// The record's index is part of the word, because a late helper of one control word would otherwise free the entry that
// meanwhile holds another (the model shows the leaked permit). The stamp is the low 41 bits of the sequence of the
// operation that wrote the phase; for `prepared` it is the sequence that the operation is going to have. (record, seq)
// is never used twice, also not when the record is recycled for another name (tokens start above the segment's floor),
// so a late helper's CAS could succeed wrongly only if it slept for exactly a multiple of 2^41 operations of that word.

enum class Phase : std::uint8_t {
  free = 0,
  prepared = 1,  // its owner is about to CAS the control word, or has and did not finish
  waiting = 2,   // in the queue
  held = 3,
  marked = 4,  // held, and somebody is about to take it away because its lease ran out
  lost = 5,    // taken away; the owner has not been told yet
  member = 6,  // its weight is part of the capacity as long as its session lives
};

inline constexpr unsigned stamp_bits = 41;
inline constexpr std::uint64_t stamp_mask = (1ULL << stamp_bits) - 1;

struct Status {
  Phase phase = Phase::free;
  RecordIndex record = 0;
  std::uint64_t stamp = 0;

  friend constexpr bool operator==(const Status&, const Status&) = default;
};

constexpr std::uint64_t pack(const Status& s) noexcept {
  return static_cast<std::uint64_t>(s.phase) | (s.stamp & stamp_mask) << 3U | std::uint64_t{s.record} << 44U;
}
constexpr Status unpack_status(std::uint64_t raw) noexcept {
  return {static_cast<Phase>(raw & 7U), static_cast<RecordIndex>(raw >> 44U), raw >> 3U & stamp_mask};
}

/// The full sequence behind a stamp: the largest one that is not above `now_seq`.
constexpr std::uint64_t seq_of_stamp(std::uint64_t stamp, std::uint64_t now_seq) noexcept {
  return now_seq - ((now_seq - stamp) & stamp_mask);
}

// --- link: entry:20 | stamp:44 ---------------------------------------------------------------------------------------
// A neighbour in the circle of waiters, or the holder hint of a record. The stamp is the sequence of the operation that
// wrote the link, shifted by an offset of the record's own, so that equal sequences of two records do not look alike.

inline constexpr std::uint64_t link_stamp_mask = (1ULL << 44U) - 1;

constexpr std::uint64_t link_stamp(RecordIndex record, std::uint64_t seq) noexcept {
  return (seq + record * 0x9E3779B97F5ULL) & link_stamp_mask;
}

struct Link {
  EntryIndex entry = nil_entry;
  std::uint64_t stamp = 0;

  friend constexpr bool operator==(const Link&, const Link&) = default;
};

constexpr std::uint64_t pack(const Link& l) noexcept { return std::uint64_t{l.entry} | l.stamp << 20U; }
constexpr Link unpack_link(std::uint64_t raw) noexcept {
  return {static_cast<EntryIndex>(raw & core::index_mask), raw >> 20U};
}

// --- amount: amount:20 | stamp:44 ------------------------------------------------------------------------------------
// The weight of an entry or the capacity of a record, with the stamp of the operation that changed it last. The owner
// of an entry that is out of use sets its weight anew with a plain store, and leaves the stamp as it is: after a merge
// no value from before it comes back, so a late finisher of the merge fails.

struct Amount {
  std::uint32_t amount = 0;
  std::uint64_t stamp = 0;

  friend constexpr bool operator==(const Amount&, const Amount&) = default;
};

constexpr std::uint64_t pack(const Amount& a) noexcept {
  return std::uint64_t{a.amount & core::index_mask} | a.stamp << 20U;
}
constexpr Amount unpack_amount(std::uint64_t raw) noexcept {
  return {static_cast<std::uint32_t>(raw & core::index_mask), raw >> 20U};
}

// --- hand-off field and `previous` notice: entry:20 | loss:3 | moves weight:1 | stamp:40 -----------------------------
// In an entry (`handoff`): what the operation with that stamp does beside the entry itself. Of a release or reclaim:
// whom it grants (nil: nobody), and why it was a reclaim; of a cancel by force: why. With the bit: to which hold the
// weight goes (merge), or what weight is left (shrink). Written by CAS before the control word; a value that already
// has the stamp is adopted, never changed, because somebody may have acted on it. In a record (`previous`): who was
// robbed of it last, until the next holder has been told.

inline constexpr std::uint64_t handoff_stamp_mask = (1ULL << 40U) - 1;

struct Handoff {
  EntryIndex entry = nil_entry;
  Loss loss = Loss::none;
  std::uint64_t stamp = 0;
  bool moves_weight = false;

  friend constexpr bool operator==(const Handoff&, const Handoff&) = default;
};

constexpr std::uint64_t handoff_stamp(RecordIndex record, std::uint64_t seq) noexcept {
  return link_stamp(record, seq) & handoff_stamp_mask;
}
constexpr std::uint64_t pack(const Handoff& h) noexcept {
  return std::uint64_t{h.entry} | std::uint64_t{static_cast<std::uint8_t>(h.loss)} << 20U |
         std::uint64_t{h.moves_weight} << 23U | h.stamp << 24U;
}
constexpr Handoff unpack_handoff(std::uint64_t raw) noexcept {
  return {static_cast<EntryIndex>(raw & core::index_mask), static_cast<Loss>(raw >> 20U & 7U), raw >> 24U,
          (raw >> 23U & 1U) != 0};
}

// --- wake word of an entry -------------------------------------------------------------------------------------------
// The futex that its waiter sleeps on. Set to `parked` before the waiter looks at its status for the last time; a waker
// changes what there is to see first, then makes it `called` and calls the kernel. `called` stays until the waiter
// runs, so that whoever finishes the same operation later repeats the call: a waker may be killed just before the
// system call.

inline constexpr std::uint32_t wake_awake = 0;
inline constexpr std::uint32_t wake_parked = 1;
inline constexpr std::uint32_t wake_called = 2;

// --- life word of a session slot -------------------------------------------------------------------------------------
// Thread id of the keeper (in its own PID namespace) with FUTEX_WAITERS always set; the kernel alone sets
// FUTEX_OWNER_DIED.

inline constexpr std::uint32_t life_waiters = 0x80000000U;
inline constexpr std::uint32_t life_died = 0x40000000U;
inline constexpr std::uint32_t life_tid_mask = 0x3fffffffU;

}  // namespace shmcoord::engine
