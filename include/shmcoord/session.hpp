#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "shmcoord/segment.hpp"

namespace shmcoord {

struct SessionOptions {
  std::string label = {};  ///< for people: who this is; cut to 127 bytes
  /// Who shows that the holder lives. Automatic: a thread of the session beats, so only a dead or stopped process goes
  /// stale. Manual: heartbeat() and renew() of each hold, so a hung program goes stale too (S1-142, C-51).
  bool manual_heartbeat = false;
  std::chrono::nanoseconds heartbeat_interval = std::chrono::seconds{15};
  /// A wait without a timeout that closes a circle of such waits, of threads and holders of any session, ends with
  /// `deadlock` after a second or two: the one that began last. What ends by itself closes no circle (timeouts, leases
  /// that run out, max_hold_duration). That somebody else will help cannot be known: another thread that gives back
  /// what this one acquired or what this holder has (a Permit or a MultiHold that moves), or a resize. A program that
  /// relies on it gives the wait a timeout, or switches this off; circles through its waits are then found by nobody.
  bool detect_deadlocks = true;
};

/// One participant. Joining takes a slot in the segment and starts one thread (all signals blocked) that proves to the
/// others that the process lives, however it may end.
///
/// The destructor leaves: holds are released, waits cancelled. Locks of a session must not outlive it: their calls fail
/// with Errc::session_dead. Thread-safe. A forked child is not a participant: its copies answer Errc::not_a_participant
/// and its destructors touch nothing; it may join anew. After exec the session is dead.
/// If the process dies here: whatever it held is free within a moment, in every case, even without a reaper.
class SHMCOORD_EXPORT Session {
 public:
  /// Errors: Errc::table_full (all slots are taken by live sessions, named in the text), no_space, segment_gone.
  explicit Session(const Segment& segment, const SessionOptions& options = {});
  static std::optional<Session> join(const Segment& segment, const SessionOptions& options,
                                     std::error_code& ec) noexcept;

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  /// Releases everything and leaves. Idempotent.
  void leave() noexcept;

  /// Random, never 0; as printed by `shmcoord inspect`.
  [[nodiscard]] std::uint64_t id() const noexcept;
  /// False once left, fenced, forked, or the segment is gone.
  [[nodiscard]] bool alive() const noexcept;
  [[nodiscard]] const Segment& segment() const noexcept;

 private:
  friend struct detail::Access;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace shmcoord
