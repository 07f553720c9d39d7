#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/export.hpp"
#include "shmcoord/results.hpp"
#include "shmcoord/session.hpp"

// What happens in a segment, as it is told to whoever subscribes: every change of a lock or semaphore, in its order,
// once, whoever is killed where. Nothing is told, and nobody pays, while nobody subscribes (unless the segment keeps a
// journal always: SegmentOptions::journal).

namespace shmcoord {

/// S1-30, S1-49, S1-129, C-14, C-58.
enum class EventKind : std::uint8_t {
  lock_acquired,
  lock_released,
  lock_denied,     ///< busy: somebody else has it (C-5)
  lock_reclaimed,  ///< taken from `holder`, for the reason `why`
  lock_stale,      ///< `holder` could be robbed now
  semaphore_acquired,
  semaphore_released,  ///< without a holder: there is more room than before
  semaphore_denied,
  semaphore_reclaimed,
  semaphore_stale,
  session_joined,
  session_left,
  session_died,
  guard_registered,
  guard_removed,
  guard_evaluating,
  guard_passed,
  guard_failed,
  pipeline_blocked,
  pipeline_resumed,
  pipeline_failed,
  pipeline_completed,
  phase_entered,
  phase_left,
  journal_started,  ///< what happened before was not written down
  journal_lost,     ///< the reader was too slow: `lost` changes were overwritten before it read them
};

/// "lock:acquired". What patterns are matched with (C-28).
[[nodiscard]] SHMCOORD_EXPORT std::string_view to_string(EventKind kind) noexcept;
/// Of exactly such a name; nothing for any other.
[[nodiscard]] SHMCOORD_EXPORT std::optional<EventKind> event_kind_from(std::string_view name) noexcept;

/// A value; what a field does not apply to has it empty.
struct SHMCOORD_EXPORT Event {
  EventKind kind = EventKind::journal_started;
  /// Place in the journal, from 1. A hand-over is one change and two events, released and acquired; both have it.
  std::uint64_t number = 0;
  std::string subject = {};      ///< the lock, semaphore, guard or pipeline; of a session its label
  std::string holder = {};       ///< whom it is about; empty: it gave no id
  std::string other = {};        ///< of reclaimed: who got it by that; of denied: who has it
  std::string reason = {};       ///< of acquired: the hold's; of guard:failed: why; of a session: its command
  Loss why = Loss::none;         ///< of reclaimed and stale
  std::uint64_t token = 0;       ///< of the holder's hold
  std::uint32_t weight = 0;      ///< acquired: all that it has now; released, reclaimed: given back; denied: asked for
  bool shared = false;           ///< of a lock: held with others
  std::uint32_t available = 0;   ///< of a semaphore, behind the change
  std::int32_t pid = 0;          ///< of the holder, in its own namespace; 0: not known, or bound to none
  std::uint64_t session_id = 0;  ///< of a session
  std::uint64_t lost = 0;        ///< of journal:lost
  std::chrono::steady_clock::time_point at = {};  ///< when it was written down, to a tick (1 to 4 ms)

  [[nodiscard]] std::string_view name() const noexcept { return to_string(kind); }
};

/// Delivers events to a callback until it is destroyed.
///
/// One thread of the session reads the journal, and hands each event to the subscriptions whose patterns match (C-28);
/// each of those has a thread that calls it, in order, one event after the other. A callback may do whatever it likes
/// but destroy its own subscription, and delays nobody else; what it throws is ignored. One that is slower than what
/// happens gets `journal:lost` for what it misses, whatever its patterns.
///
/// Everything that is changed after the constructor returned is delivered. Destroying it waits for a callback that
/// runs. If the process dies here: nothing is left behind, and the journal is off when it was the
/// last that listened. After leaving, in a forked child, or when the segment is gone nothing is delivered any more.
/// Errors of the constructor: invalid_argument (a pattern that can match nothing), no_space (4 MiB for the journal),
/// and as every call of a session. Thread-safe (S0-77, S1-131, S1-155).
class SHMCOORD_EXPORT Subscription {
 public:
  using Callback = std::function<void(const Event&)>;
  Subscription(Session& session, std::vector<std::string> patterns, Callback callback);
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;
  Subscription(Subscription&&) noexcept;
  Subscription& operator=(Subscription&&) noexcept;
  ~Subscription();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Tells an event of the caller's own, about guards and pipelines: `kind`, `subject`, `holder`, `other`, `reason` (cut
/// at 4096 bytes). Nothing happens while nobody listens. Unlike a change it can get lost, with its process.
SHMCOORD_EXPORT void publish(Session& session, const Event& event);

}  // namespace shmcoord
