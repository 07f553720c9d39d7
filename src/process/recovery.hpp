#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/layout.hpp"
#include "engine/view.hpp"
#include "process/liveness.hpp"

// Burying the dead, and what the reaper would do.
//
// bury() is run by whoever notices first: the ring neighbour, a waiter, a joiner that needs the slot, the reaper; by
// several at once; and each of them may be killed anywhere. Every step is a CAS from exactly what was read, and the
// order makes each step find again what the one before left:
//   1 alive -> dying                     only after the proof; from here everybody may help
//   2 an unfinished claim of a name      (engine/name_index.hpp)
//   3 each entry of each chunk           out of its control word, waiters granted (engine/bury_entry.hpp)
//   4 chunk -> free                      only when all of its entries are free and their words settled
//   5 wake all on the life word          the kernel woke one
//   6 dying -> free                      the incarnation stays; the next joiner raises it and resets the life word
// A helper that sleeps through a whole later life of the slot does no harm: chunks name slot *and* incarnation, and an
// entry is touched only while its chunk still names the dead one (bury_entry.hpp).

namespace shmcoord::process {

using engine::RecordIndex;

/// True: that incarnation is buried now (by us or by others). False: it is not proven dead.
bool bury(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation);
/// The first step of it, after which anybody may do any part of the rest (bury_entry.hpp). False: it is not proven
/// dead.
bool declare_dead(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation, Look look);
/// Of whoever is in the slot now.
bool bury(const Mapping& mapping, SlotIndex slot);

/// Robs a session that may still run, by the operator: its holds are lost (forced), its calls answer session_dead, the
/// slot stays until its process ends. False: no such live session.
bool fence(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation);

// Parts of a clean leave (participant.hpp), by the owner itself.
/// Releases and cancels all that the session has, and frees its chunks. False: the segment is damaged.
bool release_everything(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation);
/// After the kernel ended the life word: sets the slot free.
void bury_left(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation);

/// Brings every word that somebody holds or waits for to its end, grants waiters that somebody forgot, and frees
/// detached chunks that emptied out.
void finish_words(const Mapping& mapping);

// --- what is there ---------------------------------------------------

struct SessionView {
  SlotIndex slot = 0;
  std::uint64_t incarnation = 0;
  engine::SlotState state = engine::SlotState::free;
  std::uint64_t session_id = 0;
  std::uint32_t flags = 0;  // SlotFlag
  LifeReport life;
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint64_t pid_namespace = 0;  // 0: it saw no /proc when it joined
  std::uint64_t start_time = 0;     // likewise
  std::int64_t joined_ns = 0;
  std::int64_t heartbeat_ns = 0;
  std::int64_t beat_interval_ns = 0;
  std::string label;
  std::string command;
};

struct EntryView {
  EntryIndex entry = 0;
  SlotIndex slot = 0;  // owner; 0: detached
  std::uint64_t incarnation = 0;
  engine::Phase phase = engine::Phase::free;  // what it is once its word's last operation is finished
  RecordIndex record = 0;
  std::uint32_t weight = 0;
  std::uint32_t flags = 0;  // EntryFlag
  std::int64_t since_ns = 0;
  std::int64_t last_sign_ns = 0;
  std::uint64_t token = 0;          // of a hold
  bool bound_process_gone = false;  // detached only
  Loss lease = Loss::none;          // why its lease may be taken now
  std::string name;                 // of the record
  engine::Kind kind = engine::Kind::lock;
  std::string holder;
  std::string reason;
};

struct Snapshot {
  std::vector<SessionView> sessions;
  std::vector<EntryView> entries;  // not free
};

/// brief: entries without name, texts, lease and bound process, for who looks at the locks themselves.
enum class Detail : std::uint8_t { full, brief };

/// Reads everything without changing anything and without touching a page that does not exist; works on a read-only
/// mapping. Not one moment in time: entries may have moved on while it was taken.
[[nodiscard]] Snapshot take_snapshot(const Mapping& mapping, std::int64_t now_ns, Detail detail = Detail::full);
/// Of it, what is about one slot, which must exist; and about one record: the entries that name it.
[[nodiscard]] SessionView session_view(const Mapping& mapping, SlotIndex slot);
[[nodiscard]] std::vector<EntryIndex> entries_of(const engine::View& view, RecordIndex record);

// --- what to do about it ---------------------------------------------------

struct Action {
  enum class Kind : std::uint8_t { release_hold, cancel_wait, free_entry, bury_session, reclaim_lease };
  Kind kind;
  SlotIndex slot = 0;
  std::uint64_t incarnation = 0;
  EntryIndex entry = 0;
  RecordIndex record = 0;
  Loss why = Loss::none;
  engine::Kind name_kind = engine::Kind::lock;
  std::string name = {};    // of the record; of a session empty, as what follows
  std::string holder = {};  // empty also: an implicit one
  std::int32_t pid = 0;
  std::uint32_t weight = 0;
  std::uint64_t token = 0;  // of a hold
  std::string text = {};    // one line for people, without the verb's tense: "lock deploy of pipeline:42 (pid 7): died"
};
[[nodiscard]] std::string_view to_string(Action::Kind kind) noexcept;

struct SweepOptions {
  bool reclaim_stale = true;
  bool dry_run = false;
  bool warn = true;  // tells of each lease that it is about to take (C-16)
};

/// What a sweep would do, as a pure function of what it saw: a session's entries first, then the session itself, and
/// leases in the end.
[[nodiscard]] std::vector<Action> plan(const Snapshot& snapshot, const SweepOptions& options);

struct SweepReport {
  std::vector<Action> planned;
  std::vector<Action> taken;    // holds that were taken away; also by others who buried the same session meanwhile
  std::uint32_t buried = 0;     // sessions
  std::uint32_t reclaimed = 0;  // leases, and detached holds whose process is gone
  std::uint32_t unsure = 0;     // sessions that are dying but not confirmed
};

/// One pass of the reaper: buries all dead, takes expired leases, grants waiters that somebody forgot.
SweepReport sweep(const Mapping& mapping, std::int64_t now_ns, const SweepOptions& options = {});

}  // namespace shmcoord::process
