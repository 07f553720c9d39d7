#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/layout.hpp"
#include "process/identity.hpp"
#include "process/recovery.hpp"

// The whole segment as people want to see it: every lock with its holder and its waiters in order.
//
// Problem. The control word decides, but what it decided last may not have reached the entries yet (engine/finish.hpp),
// and whoever looks has no right to finish it: looking needs no write access and changes nothing. So meaning_of() says
// what an entry *will be* once the word's operation has been finished; it mirrors Finisher, and its test compares the
// two for every operation. A lock is read between two equal sequences of its word, so what is shown of one lock was
// true at one moment. Two locks may be shown at two moments. If a lock moves faster than it can be read, the last try
// is shown, with settled = false.
//
// Entries are listed before words are read, so holders that came in between are missing from what was listed. Then what
// they hold is less than the word says, and it is all listed and looked at again.
//
// Any bytes are tolerated: indices are checked, walks are bounded, pages that do not exist are not touched, and a word
// that cannot be true makes the lock `damaged` instead of being believed.
//
// Cost: one pass over sessions and entries (take_snapshot), one over names; entries are joined to names by sorting.

namespace shmcoord::process {

enum class Role : std::uint8_t { none, waiting, held, member };

struct Meaning {
  Role role = Role::none;
  bool marked = false;      // held, but somebody is about to take it because its lease ran out
  std::uint64_t token = 0;  // held: the fencing token; 0 if the bytes cannot be a token

  friend constexpr bool operator==(const Meaning&, const Meaning&) = default;
};

/// What an entry with that status means under the word c of that record. `handoff` is the hand-off field of entry
/// c.last.
[[nodiscard]] constexpr Meaning meaning_of(const core::Control& c, RecordIndex record, EntryIndex entry,
                                           const engine::Status& status, const engine::Handoff& handoff) noexcept {
  using engine::Phase;
  if (!core::plausible(c) || status.record != record) return {};
  const bool last = entry == core::touched(c);
  const bool in_hold = status.phase == Phase::held || status.phase == Phase::marked;
  const auto prepared_at = [&](std::uint64_t seq) {
    return status == engine::Status{Phase::prepared, record, seq & engine::stamp_mask};
  };
  const bool gives_up = last && (in_hold || prepared_at(c.seq - 1));
  const Meaning granted_now{Role::held, false, c.seq};
  switch (c.op) {
    case core::Op::acquire:
      if (last && prepared_at(c.seq)) return granted_now;
      break;
    case core::Op::enqueue:
    case core::Op::queue_first:
      if (last && prepared_at(c.seq)) return {Role::waiting, false, 0};
      break;
    case core::Op::release:
      if (gives_up) return {};
      break;
    case core::Op::handoff:
    case core::Op::reclaim:
      if (handoff.stamp != engine::handoff_stamp(record, c.seq)) break;  // finished, and its owner went on
      if (gives_up) return {};
      if (entry == handoff.entry && status.phase == Phase::waiting) return granted_now;
      break;
    case core::Op::grant:
      if (last && status.phase == Phase::waiting) return granted_now;
      break;
    case core::Op::cancel:
      if (last && status.phase == Phase::waiting) return {};
      break;
    case core::Op::merge:
      if (handoff.stamp == engine::handoff_stamp(record, c.seq) && gives_up) return {};
      break;
    case core::Op::join:
      if (last && prepared_at(c.seq)) return {Role::member, false, 0};
      break;
    case core::Op::leave:
      if (last && status.phase == Phase::member) return {};
      break;
    case core::Op::shrink:
    case core::Op::resize:
    case core::Op::keep:
    case core::Op::none:
    case core::Op::close: break;
  }
  if (status.phase == Phase::waiting) return {Role::waiting, false, 0};
  if (status.phase == Phase::member) return {Role::member, false, 0};
  if (!in_hold) return {};
  const std::uint64_t token = engine::seq_of_stamp(status.stamp, c.seq);
  const bool marked = status.phase == Phase::marked;
  return {Role::held, marked, token <= c.seq ? token : 0};
}

/// Likewise the weight of an entry; `last` is the weight of the entry that the word touched.
[[nodiscard]] constexpr std::uint32_t weight_to_be(const core::Control& c, RecordIndex record, EntryIndex entry,
                                                   const engine::Amount& weight, const engine::Amount& last,
                                                   const engine::Handoff& handoff) noexcept {
  const bool moved = handoff.moves_weight && handoff.stamp == engine::handoff_stamp(record, c.seq);
  if (!moved || weight.stamp == engine::link_stamp(record, c.seq)) return weight.amount;
  if (c.op == core::Op::merge && entry == handoff.entry) return weight.amount + last.amount;
  return c.op == core::Op::shrink && entry == c.last ? handoff.entry : weight.amount;
}

/// Likewise the capacity.
[[nodiscard]] constexpr std::uint32_t capacity_to_be(const core::Control& c, RecordIndex record,
                                                     const engine::Amount& capacity,
                                                     const engine::Amount& last) noexcept {
  if (capacity.stamp == engine::link_stamp(record, c.seq)) return capacity.amount;
  if (c.op == core::Op::resize) return c.last;
  if (c.op == core::Op::join) return capacity.amount + last.amount;
  if (c.op == core::Op::leave) return capacity.amount > last.amount ? capacity.amount - last.amount : 0;
  return capacity.amount;
}

/// One who holds or waits.
struct GrantView {
  EntryIndex entry = 0;
  SlotIndex slot = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t session_id = 0;  // 0: detached, or not known any more
  std::string holder;            // empty: implicit
  std::string reason;
  std::string label;
  std::string command;
  std::int32_t pid = 0;
  std::uint32_t thread = 0;  // that acquires or waits; 0 unknown
  std::uint32_t beside = 0;  // of a wait for more: what it has already
  std::uint32_t weight = 0;
  std::uint32_t flags = 0;  // EntryFlag
  std::int64_t since_ns = 0;
  std::int64_t last_sign_ns = 0;
  std::int64_t ttl_ns = 0;  // 0 none
  std::uint64_t token = 0;
  bool marked = false;
  LifeReport life;
  Sight sight = Sight::seen;  // of the process that a detached hold is bound to
  Loss lease = Loss::none;    // why its lease may be taken now
};

/// Who lost the lock, as the next holder will be told.
struct PreviousView {
  Loss why = Loss::none;
  std::string holder;
  std::int32_t pid = 0;
};

struct LockView {
  RecordIndex record = 0;
  std::uint64_t generation = 0;
  std::string name;
  engine::Kind kind = engine::Kind::lock;
  std::uint64_t seq = 0;
  std::uint32_t capacity = 0;
  std::uint32_t per_session = 0;  // of a quota
  std::uint32_t members = 0;      // of a quota: sessions that joined it
  std::uint64_t shares = 0;       // and what they brought
  std::uint32_t used = 0;
  std::int64_t stale_threshold_ns = 0;
  std::int64_t heartbeat_interval_ns = 0;
  std::int64_t default_ttl_ns = 0;
  std::int64_t max_hold_ns = 0;
  std::vector<GrantView> holders;
  std::vector<GrantView> waiters;  // in the order in which they will be served
  std::optional<PreviousView> previous;
  bool settled = true;
  bool damaged = false;
  bool queue_whole = true;  // the circle leads through all waiters; else they are in the order of arrival
};

struct Picture {
  std::int64_t now_ns = 0;
  Snapshot snapshot;                 // sessions as the reaper sees them, entries in brief
  std::vector<LockView> locks;       // by name; other kinds too
  std::vector<std::string> unknown;  // names that were asked for and are not there
};

/// How many names there are, with those that are being made or removed.
[[nodiscard]] std::uint64_t names_in_use(const engine::View& view) noexcept;

/// Everything, or only the locks with these names. Works on a read-only mapping and writes nothing. A name index that
/// cannot be walked throws Error(segment_corrupt).
[[nodiscard]] Picture take_picture(const Mapping& mapping, std::int64_t now_ns,
                                   const std::vector<std::string>& names = {});

/// One name as it was at one moment, for whoever decides by it; nothing: there is none. Throws segment_corrupt.
[[nodiscard]] std::optional<LockView> look_at(const Mapping& mapping, std::string_view name);

}  // namespace shmcoord::process
