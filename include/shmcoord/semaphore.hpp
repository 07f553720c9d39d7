#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "shmcoord/holder_id.hpp"
#include "shmcoord/lock.hpp"
#include "shmcoord/results.hpp"
#include "shmcoord/session.hpp"

namespace shmcoord {

/// What a semaphore is created with: a capacity, or a quota. Without either a handle attaches to one that exists
/// (C-26). A field that is given must agree with an existing semaphore of that name.
struct SemaphoreOptions {
  std::optional<std::uint32_t> capacity = {};  ///< permits there are, 1 to 1,048,575 (S0-25, S1-37, C-12)
  /// Instead of a capacity: each session that opens a handle joins, and brings so many permits until it ends. The
  /// capacity is what those who joined brought, and shrinks with each of them that leaves or dies.
  std::optional<std::uint32_t> per_session = {};
  std::optional<std::chrono::nanoseconds> stale_threshold = {};     ///< default 60 s, as of a lock (S1-37)
  std::optional<std::chrono::nanoseconds> heartbeat_interval = {};  ///< default 15 s
  std::optional<std::chrono::nanoseconds> ttl = {};  ///< default none: ttl of holds that name none (C-51)
};

struct PermitOutcome {
  PermitResult result = PermitResult::full;
  std::uint32_t weight = 0;     ///< what the holder has after this call; 0: nothing
  std::uint32_t available = 0;  ///< when it is not held: permits free just now, which others may have come first for
  std::uint64_t token = 0;      ///< fencing token of the hold, >= 1, growing per name; an increase keeps it
  std::optional<Previous> previous = {};    ///< once after a reclaim: the last one who lost what it held (C-52)
  std::vector<DeadlockMember> circle = {};  ///< who waits for whom, when it is a deadlock; the caller comes first

  [[nodiscard]] explicit operator bool() const noexcept { return is_held(result); }
};

struct PermitReleaseOutcome {
  PermitRelease result = PermitRelease::not_holder;
  std::optional<Lost> lost;  ///< if it ever was the caller's and was lost
  std::uint64_t token = 0;   ///< of the hold that was released
  std::uint32_t weight = 0;  ///< that it gave back
};

/// One who holds permits.
struct PermitHolder : HolderInfo {
  std::uint32_t weight = 0;
};

/// A weighted counting semaphore between processes (and threads) that cannot leak: every permit has a holder, and all
/// that a holder had comes back when it releases, dies, or goes silent for longer than its lease (S0-24 … S0-40,
/// S2-24). A handle: move-only, cheap, usable by several threads at once.
///
/// FIFO (C-35): who waits is served in the order in which it came, a big request is not overtaken by small ones behind
/// it, and a try does not overtake anybody who waits. All or nothing: a weight is never granted in part (S0-38).
///
/// Who asks for more than it has (S0-30) gets what is missing in addition, or waits for that at the end of the queue
/// while it keeps what it has. Two who do so can wait for each other; give such waits a timeout.
///
/// A semaphore stays until it is removed. A handle that gave its capacity or quota makes a removed one anew with its
/// next acquire, as a handle of a lock does.
///
/// Errors (thrown as Error): not_found (no capacity was given and there is no such semaphore), wrong_type,
/// config_differs (both sides in the text), name_removed (only to who was waiting), session_dead, not_a_participant,
/// table_full, no_space, segment_corrupt, invalid_argument (weight 0). Everyday answers are values. Nothing on the
/// acquire and release path allocates unless there is news to tell. If the process dies here, at any instruction: its
/// permits are free for the next ones at once, exactly once.
class SHMCOORD_EXPORT Semaphore {
 public:
  Semaphore(Session& session, std::string_view name, const SemaphoreOptions& options = {});
  static std::optional<Semaphore> attach(Session& session, std::string_view name, const SemaphoreOptions& options,
                                         std::error_code& ec) noexcept;

  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;
  Semaphore(Semaphore&&) noexcept;
  Semaphore& operator=(Semaphore&&) noexcept;
  /// Permits must not outlive the handle that they were made with. Holds by id stay until released or the session
  /// leaves; so does a share in a quota.
  ~Semaphore();

  /// One try: acquired, already_held, increased or full (S0-28 … S0-33). Takes away first what others lost, if it does
  /// not fit otherwise (S1-45). More than the capacity is `full` at once, also when waiting (C-12).
  [[nodiscard]] PermitOutcome try_acquire(const HolderId& holder, std::uint32_t weight = 1,
                                          const AcquireOptions& options = {});
  /// Waits in FIFO order; also timed_out, cancelled, deadlock. Without a timeout it waits for ever. A timeout of 0 is
  /// one try. `full`: the capacity is, or became, smaller than what is asked for (C-35).
  [[nodiscard]] PermitOutcome acquire(const HolderId& holder, std::uint32_t weight = 1,
                                      const AcquireOptions& options = {},
                                      std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
                                      const std::stop_token& stop = {});
  [[nodiscard]] PermitOutcome try_acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options,
                                          std::error_code& ec) noexcept;
  [[nodiscard]] PermitOutcome acquire(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options,
                                      std::optional<std::chrono::nanoseconds> timeout, const std::stop_token& stop,
                                      std::error_code& ec) noexcept;

  /// Gives back all that the holder has: released or not_holder (S0-34, S0-35).
  PermitReleaseOutcome release(const HolderId& holder);
  PermitReleaseOutcome release(const HolderId& holder, std::error_code& ec) noexcept;
  /// `refreshed` is a promise: the hold was not taken away before this call (S1-47).
  [[nodiscard]] HeartbeatOutcome heartbeat(const HolderId& holder);
  /// Gives the hold a new ttl, counted from now; same token.
  [[nodiscard]] HeartbeatOutcome renew(const HolderId& holder, std::chrono::nanoseconds ttl);

  /// Changes the capacity, 1 to 1,048,575. More lets in who fits then. Less than is in use lets the holders finish and
  /// nobody in until it fits; who waits for more than there is fails at once with `full` (C-35). Throws
  /// invalid_argument for a quota, whose capacity is what its sessions bring.
  void resize(std::uint32_t capacity);
  /// Takes away all that others lost: proven dead, stale or expired (S0-37). The number of holders that lost it.
  std::uint32_t reclaim_stale();

  [[nodiscard]] std::uint32_t capacity() const;   ///< S0-25, as of now
  [[nodiscard]] std::uint32_t used() const;       ///< S1-41; may be above the capacity after a resize
  [[nodiscard]] std::uint32_t available() const;  ///< S1-42; 0 while more is in use than there is
  /// Who holds now, those of the least recent acquire first (C-9).
  [[nodiscard]] std::vector<PermitHolder> holders() const;
  /// Does this session's hold by that id and token still stand? False is final.
  [[nodiscard]] bool stands(const HolderId& holder, std::uint64_t token) const;
  /// Does any hold with that token stand?
  [[nodiscard]] bool is_current(std::uint64_t token) const;
  [[nodiscard]] const std::string& name() const noexcept;

  /// As Lock::on_lost.
  void on_lost(std::function<void(const HolderId&, const Lost&)> callback);
  /// As Lock::wait_fd, for a holder that has nothing yet.
  [[nodiscard]] int wait_fd(const HolderId& holder, std::uint32_t weight = 1, const AcquireOptions& options = {});
  void cancel_wait(const HolderId& holder);

  /// Removes the name. Errors: in_use while held, waited for, or (a quota) joined, unless forced; not_found;
  /// wrong_type. Who waits for a removed semaphore fails at once with name_removed (C-37).
  static void remove(Session& session, std::string_view name, bool force = false);

 private:
  friend class Permit;
  friend struct detail::Access;
  struct State;
  std::unique_ptr<State> state_;
};

/// RAII hold of an implicit holder of its own (C-33): the destructor gives back. Several in one thread are several
/// holders. Move-only; may be destroyed in another thread.
class SHMCOORD_EXPORT Permit {
 public:
  /// Waits for it. Throws Error as Semaphore::acquire does, and invalid_argument when the weight is above the capacity.
  explicit Permit(Semaphore& semaphore, std::uint32_t weight = 1);
  /// One try: without the permit when it is full.
  Permit(Semaphore& semaphore, std::uint32_t weight, std::try_to_lock_t);
  Permit(Semaphore& semaphore, std::uint32_t weight, std::chrono::nanoseconds timeout);

  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;
  Permit(Permit&& other) noexcept;
  Permit& operator=(Permit&& other) noexcept;
  ~Permit();

  [[nodiscard]] explicit operator bool() const noexcept { return hold_ != nullptr; }
  [[nodiscard]] std::uint64_t token() const noexcept;  ///< 0 when it holds nothing
  /// Has it been lost (reclaimed, forced, segment gone)? False may be outdated at once.
  [[nodiscard]] bool lost() const;
  /// Gives back before the destructor does.
  void release() noexcept;

 private:
  Permit(Semaphore& semaphore, std::uint32_t weight, std::int64_t deadline_ns);

  void* state_ = nullptr;  // the semaphore's, which does not move when its handle does
  void* hold_ = nullptr;
};

}  // namespace shmcoord
