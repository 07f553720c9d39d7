#pragma once

#include <cstdint>

// The control word: everything that decides about one primitive, in 128 bits that one CAS changes.
//
// Packing. `seq` has 64 bits of its own, because it is the ABA guard, the ticket and the fencing token at once and must
// never wrap: at 200 million operations a second (faster than any measured uncontended pair) 2^53, the limit that keeps
// a token exact in JSON, is 1.4 years of doing nothing but locking one name; `seq_limit` refuses before it is passed.
// The other half holds used:20, tail:20, last:20, op:4. There is no head: the waiters form a circle, so the head is
// entry(tail).next. That is what makes room for the undivided sequence (three indices, an amount and a full sequence do
// not fit in 128 bits), and it saves a link write on every enqueue; an uncontended operation never looks at the head.
// All sixteen operations are taken; the eleven bits above seq_limit are what there is for more.
//
// Legal to be wrong: nothing in the word. What the word's last operation did to the entries may not be there yet:
// whoever comes next finishes it first (engine/control.hpp). Garbage never looks valid: seq 0 and seq above seq_limit
// are invalid, so zeroes, 0xAB… and 0xFF… are.

namespace shmcoord::core {

using EntryIndex = std::uint32_t;   // grant entry, 20 bits
using RecordIndex = std::uint32_t;  // record of a name, 20 bits
using SlotIndex = std::uint32_t;    // session slot

inline constexpr unsigned index_bits = 20;
inline constexpr std::uint32_t index_mask = (1U << index_bits) - 1;
inline constexpr EntryIndex nil_entry = index_mask;
inline constexpr std::uint32_t max_entries = index_mask;   // nil is not an entry
inline constexpr std::uint32_t max_capacity = index_mask;  // 2^20 - 1 permits
inline constexpr std::uint64_t seq_limit = (1ULL << 53) - 1;

/// The last operation on the word. Its entry is `last`; what finishing it means is written in engine/finish.hpp.
enum class Op : std::uint8_t {
  none = 0,     // born; no entry
  acquire = 1,  // last: prepared -> held
  release = 2,  // last: held -> free; nobody is granted
  handoff = 3,  // last: held -> free; the head (named in last's hand-off field): waiting -> held
  enqueue = 4,  // last: prepared -> waiting, at the tail
  grant = 5,    // last, the head: waiting -> held
  cancel = 6,   // last: waiting -> free, from wherever it stands
  reclaim = 7,  // last: held -> lost; as handoff when its hand-off field names somebody
  keep = 8,     // the sequence is used up so that what was prepared at it fails; last: whose sake it was for
  close = 9,    // the name is being removed; no entry; nothing follows
  // Only of what has a capacity above 1.
  merge = 10,        // last: held -> free; its weight goes to the hold that its hand-off field names
  shrink = 11,       // last: held, and from now on with the weight that its hand-off field says
  resize = 12,       // no entry: `last` is the new capacity
  join = 13,         // last: prepared -> member; its weight is added to the capacity
  leave = 14,        // last: member -> free; its weight is taken from the capacity
  queue_first = 15,  // last: prepared -> waiting, before the head
};

struct Control {
  std::uint64_t seq = 0;
  std::uint32_t used = 0;
  EntryIndex tail = nil_entry;  // nil: nobody waits
  EntryIndex last = nil_entry;
  Op op = Op::none;

  friend constexpr bool operator==(const Control&, const Control&) = default;
};

constexpr std::uint64_t pack_bits(const Control& c) noexcept {
  return std::uint64_t{c.used} | std::uint64_t{c.tail} << 20U | std::uint64_t{c.last} << 40U |
         std::uint64_t{static_cast<std::uint8_t>(c.op)} << 60U;
}

constexpr Control unpack(std::uint64_t seq, std::uint64_t bits) noexcept {
  return {seq, static_cast<std::uint32_t>(bits & index_mask), static_cast<EntryIndex>(bits >> 20U & index_mask),
          static_cast<EntryIndex>(bits >> 40U & index_mask), static_cast<Op>(bits >> 60U)};
}

/// The word as it lies in memory; what the uncontended path compares and writes without taking it apart.
struct Packed {
  std::uint64_t seq = 0;
  std::uint64_t bits = 0;
};
constexpr Packed pack(const Control& c) noexcept { return {c.seq, pack_bits(c)}; }

/// The entry that the last operation touched; nil where there is none.
constexpr EntryIndex touched(const Control& c) noexcept { return c.op == Op::resize ? nil_entry : c.last; }

/// False for zeroed, poisoned or foreign memory.
constexpr bool plausible(const Control& c) noexcept {
  return c.seq != 0 && c.seq <= seq_limit &&
         (c.op == Op::resize || (c.op == Op::none || c.op == Op::close) == (c.last == nil_entry));
}

}  // namespace shmcoord::core
