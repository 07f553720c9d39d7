#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "shmcoord/deadlock.hpp"
#include "shmcoord/holder_id.hpp"
#include "shmcoord/results.hpp"
#include "shmcoord/session.hpp"

namespace shmcoord {

namespace detail {

inline constexpr std::chrono::nanoseconds longest_wait = std::chrono::hours{24 * 3650};

/// Any duration, cut to what a wait may last.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds to_wait(const std::chrono::duration<Rep, Period>& d) {
  using Seconds = std::chrono::duration<double>;
  if (std::chrono::duration_cast<Seconds>(d) >= std::chrono::duration_cast<Seconds>(longest_wait)) return longest_wait;
  return std::chrono::ceil<std::chrono::nanoseconds>(d);
}

/// Calls wait_for(timeout) until it succeeds or the deadline has passed. Clock may be one that jumps, so the rest is
/// measured again after each wait.
template <class Clock, class Duration, class WaitFor>
bool until(const std::chrono::time_point<Clock, Duration>& deadline, WaitFor&& wait_for) {
  for (auto now = Clock::now();; now = Clock::now()) {
    if (wait_for(to_wait(deadline - now))) return true;
    if (Clock::now() >= deadline) return false;
  }
}

}  // namespace detail

/// What a lock is created with. A field that is given must agree with an existing lock of that name (C-26); one that is
/// not given takes the default for a new lock and anything for an existing one.
struct LockOptions {
  std::optional<std::chrono::nanoseconds> stale_threshold =
      {};  ///< default 60 s: heartbeat age that frees the lock (C-1)
  std::optional<std::chrono::nanoseconds> heartbeat_interval = {};  ///< default 15 s
  std::optional<std::chrono::nanoseconds> max_hold_duration =
      {};                                            ///< default none: longest hold, heartbeats or not (C-2)
  std::optional<std::chrono::nanoseconds> ttl = {};  ///< default none: ttl of holds that name none (C-51)
};

struct AcquireOptions {
  std::optional<std::string_view> reason = {};  ///< for people, up to 4096 bytes; kept when absent on extending (C-48)
  std::optional<std::chrono::nanoseconds> ttl = {};  ///< replaces the stale threshold for this hold (C-51)
  bool gives_up = false;  ///< of wait_fd(): the caller ends the wait by itself, so that it closes no deadlock
};

/// Who holds or held.
struct HolderInfo {
  std::string holder = {};   ///< id; empty: an implicit one (lock())
  std::string label = {};    ///< of its session
  std::string command = {};  ///< of its process
  std::string reason = {};
  std::int32_t pid = 0;  ///< as its own PID namespace counts; 0 unknown. For people, never an identity
  std::chrono::nanoseconds held_for{};
  std::uint64_t token = 0;
};

/// Who lost the lock before, told once to the next holder (C-52).
struct Previous {
  std::string holder = {};  ///< empty if it was implicit or could not be recorded
  std::int32_t pid = 0;
  Loss why = Loss::none;
};

/// Told to a holder that lost its hold.
struct Lost {
  Loss why = Loss::none;  ///< none: not known any more
  std::string by = {};    ///< who has it now; empty: nobody
};

struct AcquireOutcome {
  AcquireResult result = AcquireResult::busy;
  std::uint64_t token = 0;  ///< fencing token, >= 1, strictly growing per name (S2-4, S2-8); 0 when not held
  std::optional<Previous> previous = {};   ///< once after a reclaim
  std::optional<HolderInfo> current = {};  ///< who holds it, when it is busy or timed out
  /// Who waits for whom, when it is a deadlock; the caller comes first. Empty when another one upgrades.
  std::vector<DeadlockMember> circle = {};

  [[nodiscard]] explicit operator bool() const noexcept { return is_held(result); }
};

struct ReleaseOutcome {
  ReleaseResult result = ReleaseResult::not_owner;
  std::optional<Lost> lost = {};
  std::uint64_t token = 0;  ///< of the hold that was released
};

struct HeartbeatOutcome {
  HeartbeatResult result = HeartbeatResult::not_owner;
  std::optional<Lost> lost;
};

/// A lock between processes (and threads): one holder, FIFO, with fencing tokens. A handle: move-only, cheap, usable by
/// several threads at once.
///
/// Two faces on one lock. `lock()` and friends name no holder, like std::timed_mutex: use std::scoped_lock; not
/// re-entrant; two threads that share a handle exclude each other. Calls with a HolderId name one: acquiring again
/// extends (S0-13), and any thread may release.
///
/// A name that nobody holds or waits for may be removed, or given up for others when the segment's table of names is
/// full. A handle does not notice: its next acquire makes the name anew, as it was configured, and tokens go on
/// growing.
///
/// Errors (thrown as Error): name_removed (only to who was waiting), config_differs (made anew otherwise by somebody
/// else), session_dead, not_a_participant, table_full, no_space, segment_corrupt, invalid_argument. Everyday answers
/// are values. Nothing on the acquire and release path allocates, unless there is news to tell (previous, current,
/// lost). If the process dies here, at any instruction: the lock is free for the next one at once, who is told (S0-23).
class SHMCOORD_EXPORT Lock {
 public:
  /// Attaches to the lock of that name, creating it if there is none. Errors: wrong_type, config_differs (both sides in
  /// the text), table_full, no_space, invalid_argument.
  Lock(Session& session, std::string_view name, const LockOptions& options = {});
  static std::optional<Lock> attach(Session& session, std::string_view name, const LockOptions& options,
                                    std::error_code& ec) noexcept;

  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  Lock(Lock&&) noexcept;
  Lock& operator=(Lock&&) noexcept;
  /// Releases what lock() still holds through this handle. Holds by id stay until released or the session leaves.
  ~Lock();

  // --- TimedLockable (C-31) ---

  /// Waits, FIFO. Throws Error: deadlock if this thread holds it through this handle already, or if the wait closes a
  /// circle of waits (SessionOptions::detect_deadlocks).
  void lock();
  void lock(std::error_code& ec) noexcept;
  [[nodiscard]] bool try_lock();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) {
    return lock_within(detail::to_wait(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::until(deadline, [&](std::chrono::nanoseconds timeout) { return lock_within(timeout); });
  }
  /// Like std::mutex: the caller must hold it. If it was lost meanwhile, does nothing; lost() tells.
  void unlock() noexcept;
  /// Token of this thread's lock(); 0 if it holds none through this handle.
  [[nodiscard]] std::uint64_t token() const noexcept;
  /// Was this thread's lock() lost (reclaimed, forced, segment gone)? False may be outdated at once.
  [[nodiscard]] bool lost() const;
  /// While held by this thread's lock(): who lost it before, if this is the first holder after a reclaim (C-52). Repair
  /// what the lock protects then.
  [[nodiscard]] std::optional<Previous> previous() const;

  // --- by holder (S0-11 … S0-22, S1-24 … S1-28) ---

  /// One try: acquired, extended, reclaimed or busy. Does not overtake a live waiter (C-35).
  [[nodiscard]] AcquireOutcome try_acquire(const HolderId& holder, const AcquireOptions& options = {});
  /// Waits in FIFO order; also timed_out, cancelled, deadlock. Without a timeout it waits for ever. A timeout of 0 is
  /// one try.
  [[nodiscard]] AcquireOutcome acquire(const HolderId& holder, const AcquireOptions& options = {},
                                       std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
                                       const std::stop_token& stop = {});
  [[nodiscard]] AcquireOutcome try_acquire(const HolderId& holder, const AcquireOptions& options,
                                           std::error_code& ec) noexcept;
  [[nodiscard]] AcquireOutcome acquire(const HolderId& holder, const AcquireOptions& options,
                                       std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop,
                                       std::error_code& ec) noexcept;

  /// released, not_owner (with why it was lost, if it ever was the caller's) or already_free.
  ReleaseOutcome release(const HolderId& holder);
  ReleaseOutcome release(const HolderId& holder, std::error_code& ec) noexcept;
  /// `refreshed` is a promise: the hold was not taken away before this call.
  [[nodiscard]] HeartbeatOutcome heartbeat(const HolderId& holder);
  /// Gives the hold a new ttl, counted from now; same token.
  [[nodiscard]] HeartbeatOutcome renew(const HolderId& holder, std::chrono::nanoseconds ttl);

  /// Does this session's hold by that id and token still stand? False is final.
  [[nodiscard]] bool stands(const HolderId& holder, std::uint64_t token) const;
  /// Is this token the one of the present holder? Ask it where the protected resource is changed.
  [[nodiscard]] bool is_current(std::uint64_t token) const;
  /// Who holds it now, as far as it can be seen without waiting; nullopt: free.
  [[nodiscard]] std::optional<HolderInfo> holder() const;
  [[nodiscard]] const std::string& name() const noexcept;

  // --- being told ---

  /// `callback` runs in the session's own thread, once for each hold by id that this session loses on this lock
  /// (reclaimed, forced, segment gone); for lock(), ask lost(). It must be short and must not destroy the Session. At
  /// most one per handle; an empty one removes it, and it never runs after its removal or the handle's destruction
  /// returned.
  void on_lost(std::function<void(const HolderId&, const Lost&)> callback);

  /// Queues for the lock without blocking and returns a descriptor that becomes readable (poll, epoll) when the lock is
  /// held, or the wait ended otherwise, or never can (deadlock); the session's thread writes it, and takes away within
  /// a second what a holder lost by its lease. Then call acquire() with the same holder, which returns at once. The
  /// descriptor belongs to the lock: it is closed by release(), cancel_wait() or the destructor.
  [[nodiscard]] int wait_fd(const HolderId& holder, const AcquireOptions& options = {});
  /// Leaves the queue, or gives the lock back if it was granted meanwhile. A hold that acquire() has returned stays;
  /// only its descriptor is closed.
  void cancel_wait(const HolderId& holder);

  /// Removes the name. Errors: in_use while held or waited for, unless forced; not_found. Waiters of a removed
  /// lock fail at once with name_removed (C-37). Tokens of a later lock of that name go on growing.
  static void remove(Session& session, std::string_view name, bool force = false);

 private:
  friend struct detail::Access;
  struct State;

  bool lock_within(std::chrono::nanoseconds timeout);

  std::unique_ptr<State> state_;
};

/// RAII hold of a named holder (S2-6). The destructor releases; a hold that was lost is left alone. Acquiring extends
/// what the holder has already, so that of two guards of one holder the first to end gives it back.
class SHMCOORD_EXPORT LockGuard {
 public:
  /// Waits for the lock. Throws Error as Lock::acquire does, and Errc::deadlock where that would answer so.
  LockGuard(Lock& lock, HolderId holder, const AcquireOptions& options = {});
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;
  LockGuard(LockGuard&&) noexcept;
  LockGuard& operator=(LockGuard&&) noexcept;
  ~LockGuard();

  [[nodiscard]] std::uint64_t token() const noexcept { return token_; }
  /// Has the hold been lost? False may be outdated at once: fence with the token where it matters.
  [[nodiscard]] bool lost() const;
  [[nodiscard]] const std::optional<Previous>& previous() const noexcept { return previous_; }
  void release();

 private:
  Lock* lock_ = nullptr;
  HolderId holder_;
  std::uint64_t token_ = 0;
  std::optional<Previous> previous_;
};

}  // namespace shmcoord
