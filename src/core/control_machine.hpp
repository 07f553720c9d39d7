#pragma once

#include "core/control_word.hpp"

// The pure transitions of the control word, for any capacity and weight. The engine reads the facts that a transition
// needs from the entries (they cannot change while the sequence stands still), asks here for the next word, and applies
// it with one CAS. A lock is capacity 1 and weight 1.
//
// Invariants, kept by every transition and asserted by the tests:
//   I1  seq grows by exactly one.
//   I2  used grows only up to capacity (a lowered capacity may leave used above it; then it only shrinks).
//   I3  a grant always goes to the head; nobody who is not queued is let in while somebody waits (FIFO, C-35). Only one
//       who holds already, and whom all in the queue wait for, may queue before them (queue_first).
//   I4  hand-off is one step: a release whose head now fits grants it in the same word.

namespace shmcoord::core {

/// What the queue looks like, read from the entries: the head and its weight, nil and 0 when nobody waits.
struct Head {
  EntryIndex entry = nil_entry;
  std::uint32_t weight = 0;
};

constexpr bool fits(const Control& c, std::uint32_t capacity, std::uint32_t weight) noexcept {
  return c.used <= capacity && weight <= capacity - c.used;
}

/// May a newcomer be let in at once? Not past anybody who waits.
constexpr bool admits(const Control& c, std::uint32_t capacity, std::uint32_t weight) noexcept {
  return c.tail == nil_entry && fits(c, capacity, weight);
}

/// May the head be granted now? True only for a moment, or after a death or a cancelled head: whoever sees it grants.
constexpr bool head_fits(const Control& c, std::uint32_t capacity, const Head& head) noexcept {
  return head.entry != nil_entry && head.weight != 0 && fits(c, capacity, head.weight);
}

constexpr Control acquire(const Control& c, EntryIndex entry, std::uint32_t weight) noexcept {
  return {c.seq + 1, c.used + weight, c.tail, entry, Op::acquire};
}

constexpr Control enqueue(const Control& c, EntryIndex entry) noexcept {
  return {c.seq + 1, c.used, entry, entry, Op::enqueue};
}

constexpr EntryIndex tail_without_head(const Control& c, EntryIndex head) noexcept {
  return head == c.tail ? nil_entry : c.tail;
}

constexpr Control grant(const Control& c, const Head& head) noexcept {
  return {c.seq + 1, c.used + head.weight, tail_without_head(c, head.entry), head.entry, Op::grant};
}

struct Release {
  Control next;
  EntryIndex grantee;  // nil: nobody was waiting, or the head does not fit
};

/// Gives back `weight`; hands on to the head when it now fits (I4). `reclaim`: the holder is being robbed.
constexpr Release release(const Control& c, EntryIndex entry, std::uint32_t weight, std::uint32_t capacity,
                          const Head& head, bool reclaim) noexcept {
  Control next{c.seq + 1, c.used >= weight ? c.used - weight : 0, c.tail, entry, reclaim ? Op::reclaim : Op::release};
  if (!head_fits(next, capacity, head)) return {next, nil_entry};
  next.used += head.weight;
  next.tail = tail_without_head(c, head.entry);
  if (!reclaim) next.op = Op::handoff;
  return {next, head.entry};
}

/// `next` and `prev` are the neighbours in the circle; prev counts only when the entry is the tail and not alone.
constexpr Control cancel(const Control& c, EntryIndex entry, EntryIndex next, EntryIndex prev) noexcept {
  const EntryIndex tail = c.tail != entry ? c.tail : next == entry ? nil_entry : prev;
  return {c.seq + 1, c.used, tail, entry, Op::cancel};
}

constexpr Control keep(const Control& c, EntryIndex entry) noexcept {
  return {c.seq + 1, c.used, c.tail, entry, Op::keep};
}

/// Before the head: for who holds already what those in the queue wait for.
constexpr Control queue_first(const Control& c, EntryIndex entry) noexcept {
  return {c.seq + 1, c.used, c.tail, entry, Op::queue_first};
}

/// What the hold `part` has becomes part of another hold of its owner's.
constexpr Control merge(const Control& c, EntryIndex part) noexcept {
  return {c.seq + 1, c.used, c.tail, part, Op::merge};
}

/// A hold of `had` keeps `weight`.
constexpr Control shrink(const Control& c, EntryIndex entry, std::uint32_t had, std::uint32_t weight) noexcept {
  const std::uint32_t less = had > weight ? had - weight : 0;
  return {c.seq + 1, c.used >= less ? c.used - less : 0, c.tail, entry, Op::shrink};
}

/// The capacity is not in the word: finishing writes it. It may fall below what is in use (I2).
constexpr Control resize(const Control& c, std::uint32_t capacity) noexcept {
  return {c.seq + 1, c.used, c.tail, capacity, Op::resize};
}
constexpr Control join(const Control& c, EntryIndex entry) noexcept {
  return {c.seq + 1, c.used, c.tail, entry, Op::join};
}
constexpr Control leave(const Control& c, EntryIndex entry) noexcept {
  return {c.seq + 1, c.used, c.tail, entry, Op::leave};
}

constexpr bool idle(const Control& c) noexcept { return c.used == 0 && c.tail == nil_entry; }

/// Only from an idle word (C-37): the caller checks idle() first.
constexpr Control close(const Control& c) noexcept { return {c.seq + 1, 0, nil_entry, nil_entry, Op::close}; }

}  // namespace shmcoord::core
