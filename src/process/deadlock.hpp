#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/layout.hpp"
#include "engine/real_policy.hpp"
#include "shmcoord/deadlock.hpp"

// Deadlocks between the waiters of a segment, of all sessions, names and kinds.
//
// The waits and the holds of a segment become a graph of actors (core/wait_graph.hpp): the thread, for what was
// acquired without naming a holder; the holder's id in its session, or without one if it is detached (C-50). Who waits
// by an id keeps its thread from going on too.
//
// Nobody is accused falsely. What is read one after the other need not have been true at one time. So where a circle is
// suspected, the words of the locks and semaphores that take part are read first, then everything else once more, and
// it counts if these words have not moved since: then all of it was true at once, and a deadlock does not end by
// itself. What an entry is, is said by its word (process/snapshot.hpp), which may not have been finished. What ends
// by itself keeps nobody for ever: a wait with a timeout, a hold whose lease runs out although its process lives. What
// is not seen (an entry that is being prepared, a session that wants none of this) counts as somebody who runs. What
// cannot be known is that others will help: another thread that gives back what this one acquired, or what this holder
// has; an operator; a resize. Programs that rely on that wait with a timeout, or switch it off (SessionOptions).
//
// Each session looks for itself, by whichever of its threads has waited for a second (for waits of wait_fd(): by its
// keeper), at most once a second and for at most a twentieth of its time; it tells those of its own waits that are
// victims. The victim is the wait that began
// last (by the coarse clock), and whoever closes a circle begins to wait by that: so it is found a second later by its
// own thread, and nobody has to tell another process anything.
//
// If we die here: nothing was written. A victim gives up its place as with any cancelled wait.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

class Participant;

struct FoundDeadlock {
  engine::EntryIndex victim = engine::nil_entry;
  std::uint64_t status = 0;  // of that entry: the word that says which of its waits it is
  engine::SlotIndex slot = 0;
  std::uint64_t incarnation = 0;
  std::int64_t since_ns = 0;
  std::vector<DeadlockMember> circle;     // the victim first
  std::vector<engine::EntryIndex> waits;  // of all who wait for each other
};

/// All of them. Writes nothing; a read-only mapping will do.
[[nodiscard]] std::vector<FoundDeadlock> find_deadlocks(const engine::Mapping& mapping, std::int64_t now_ns);

/// A session's look at deadlocks. Thread-safe.
class DeadlockWatch {
 public:
  static constexpr std::int64_t patience_ns = 1'000'000'000;

  /// For somebody who has waited for long. Wakes those of the session's waiters that are victims; they are then
  /// `told`.
  void look(Participant& who, std::int64_t now_ns);
  /// Is the wait a victim, and of what?
  [[nodiscard]] bool is_told(engine::EntryIndex entry, std::uint64_t status) noexcept;
  [[nodiscard]] std::vector<DeadlockMember> take(engine::EntryIndex entry) noexcept;

 private:
  struct Told {
    std::uint64_t status;
    std::vector<DeadlockMember> circle;
  };

  engine::Word64 next_ns_;  // nobody looks before
  engine::Word32 count_;    // of told_, to be asked without the mutex
  std::mutex looking_;      // held while one looks
  std::mutex mutex_;        // guards the next one
  std::map<engine::EntryIndex, Told> told_;
};

}  // namespace shmcoord::process
