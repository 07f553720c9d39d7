#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shmcoord/clock.hpp"
#include "shmcoord/condition.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/export.hpp"
#include "shmcoord/guard.hpp"
#include "shmcoord/guard_executor.hpp"
#include "shmcoord/holder_id.hpp"
#include "shmcoord/lock.hpp"
#include "shmcoord/results.hpp"
#include "shmcoord/semaphore.hpp"
#include "shmcoord/session.hpp"

// One interface for locks, semaphores and guards by their names, over two stores that answer alike (S0-80 to S0-88,
// S1-93 to S1-113): the memory of this process, for programs and tests that need no segment, and a segment.
//
//   CoordinationManager here;             // in this process
//   CoordinationManager shared{session};  // everybody's in the session's segment
//   HolderId me{"pipeline:42"};
//   auto got = shared.acquire_lock("deploy", me, "rev=abc");
//   if (got.held) …
//   for (const Event& e : got.effects) log(e.name(), e.subject, e.holder);
//
// No call waits: who gets nothing is told so, and asks again, or waits with Lock, Semaphore or GuardFlag.

namespace shmcoord {

namespace coordination {
class Store;
}

/// What a lock is made with (S0-7, S1-16, C-1). Durations are above zero and at most 10 years.
struct LockConfig {
  std::string name;
  std::chrono::nanoseconds stale_threshold = std::chrono::seconds(60);
  std::chrono::nanoseconds heartbeat_interval = std::chrono::seconds(15);
  std::optional<std::chrono::nanoseconds> max_hold_duration = {};  ///< C-2
  std::optional<std::chrono::nanoseconds> ttl = {};                ///< of holds; replaces stale_threshold (C-51)

  [[nodiscard]] std::chrono::nanoseconds heartbeat_timeout() const noexcept { return stale_threshold; }
  friend bool operator==(const LockConfig&, const LockConfig&) = default;
};

/// What a semaphore is made with (S0-25, S0-27, S1-37).
struct SemaphoreConfig {
  std::string name;
  std::uint32_t max_slots = 1;  ///< 1 to 1,048,575 (C-12)
  std::chrono::nanoseconds stale_threshold = std::chrono::seconds(60);
  std::chrono::nanoseconds heartbeat_interval = std::chrono::seconds(15);
  std::optional<std::chrono::nanoseconds> ttl = {};

  [[nodiscard]] std::uint32_t capacity() const noexcept { return max_slots; }
  [[nodiscard]] std::chrono::nanoseconds heartbeat_timeout() const noexcept { return stale_threshold; }
  friend bool operator==(const SemaphoreConfig&, const SemaphoreConfig&) = default;
};

/// One who holds, as it was seen (S0-6, S0-26, S1-17, S1-38). `reason` is the metadata (C-48).
struct HolderStatus : HolderInfo {
  std::uint32_t weight = 0;  ///< of a semaphore
  std::chrono::nanoseconds heartbeat_age{};
  Loss lapsed = Loss::none;  ///< why the hold may be taken away now; died: only in a segment
};

/// A lock as it was seen: a value (S1-18).
struct SHMCOORD_EXPORT LockStatus {
  LockConfig config;
  std::vector<HolderStatus> holders = {};  ///< none: free; several only in a segment, where it is shared

  [[nodiscard]] const std::string& name() const noexcept { return config.name; }
  [[nodiscard]] bool is_free() const noexcept { return holders.empty(); }  ///< S1-20
  [[nodiscard]] bool is_held_by(const HolderId& holder) const noexcept;    ///< S1-21
  [[nodiscard]] bool is_stale() const noexcept;                            ///< S1-22
};

/// A semaphore as it was seen: a value (S0-25, S1-39). Holders in the order of their first acquires (C-9).
struct SHMCOORD_EXPORT SemaphoreStatus {
  SemaphoreConfig config;  ///< max_slots: as of now
  std::vector<HolderStatus> holders = {};

  [[nodiscard]] const std::string& name() const noexcept { return config.name; }
  [[nodiscard]] std::uint32_t used_slots() const noexcept;              ///< S1-41
  [[nodiscard]] std::uint32_t available_slots() const noexcept;         ///< S1-42
  [[nodiscard]] bool can_acquire(std::uint32_t weight) const noexcept;  ///< S1-43
  [[nodiscard]] std::vector<HolderId> stale_holders() const;            ///< S1-44
};

/// What a call brought about, in the order in which it is told (C-6, C-10, C-14): values, for whoever wants to publish
/// them. `number` is 0: their place in a journal is not known. `available` is what is free behind the call. In a
/// segment who subscribes to the journal is told besides, by the segment itself.
using Effects = std::vector<Event>;

/// What an acquire came to.
template <class Outcome>
struct Acquisition {
  bool held = false;  ///< the caller holds what it asked for (C-7)
  Effects effects = {};
  Outcome outcome = {};  ///< its token; who lost it before; who has it instead

  [[nodiscard]] explicit operator bool() const noexcept { return held; }
};

/// What a release came to.
template <class Result>
struct Released {
  Result result;
  Effects effects = {};
};

// What can be asked for as a value (S0-82 to S0-85): each is the call of that name.
struct AcquireLock {
  std::string name;
  HolderId holder;
  std::optional<std::string> metadata = {};
};
struct ReleaseLock {
  std::string name;
  HolderId holder;
};
struct HeartbeatLock {
  std::string name;
  HolderId holder;
};
struct AcquireSemaphore {
  std::string name;
  HolderId holder;
  std::uint32_t slots = 1;
  std::optional<std::string> metadata = {};
};
struct ReleaseSemaphore {
  std::string name;
  HolderId holder;
};
struct HeartbeatSemaphore {
  std::string name;
  HolderId holder;
};
using CoordinationCommand =
    std::variant<AcquireLock, ReleaseLock, HeartbeatLock, AcquireSemaphore, ReleaseSemaphore, HeartbeatSemaphore>;

/// Which one is set follows from the command: acquires, releases, heartbeats.
using CoordinationResult = std::variant<AcquireOutcome, ReleaseResult, PermitOutcome, PermitRelease, HeartbeatResult>;

/// What a command came to: the result and the effects of its call.
struct Handled {
  CoordinationResult result;
  Effects effects = {};
};

/// Locks, semaphores and guards by name. The names are common to all three. Thread-safe (S1-153).
///
/// In this process: the state is the manager's own, and its clock decides. A copy is an independent snapshot of the
/// state, with the same clock (C-45); that is how a state is kept to be compared or gone back to (S0-81). Nothing of it
/// outlives the process, and nobody proves a death here: a holder that is silent for longer than its lease loses.
///
/// Over a segment: the state is everybody's, and a copy is another handle. The engine's clock decides, CLOCK_MONOTONIC
/// of the host. Holds are the session's, as those of Lock and Semaphore by id: another session's holder of the same id
/// is another holder (C-50), and when the process dies they are free at once. The session's thread renews them by
/// itself (C-51), so they become stale only when the process is stopped, and a heartbeat adds nothing; in a session
/// with SessionOptions::manual_heartbeat they live by heartbeat_* alone. When the process dies inside of a call: as in
/// the calls of Lock, Semaphore and GuardFlag.
///
/// Errors, the same over both: invalid_argument (a name, holder id, metadata, weight, capacity or duration that cannot
/// be), wrong_type (the name is of another kind), not_found (a semaphore that is not there is acquired: C-26). Over a
/// segment also those of every call of a session.
class SHMCOORD_EXPORT CoordinationManager {
 public:
  /// In this process (S1-95).
  CoordinationManager();
  explicit CoordinationManager(std::shared_ptr<const Clock> clock);
  /// In the segment of that session. Outlives the Session object, but once that left, calls throw session_dead.
  explicit CoordinationManager(Session& session);

  CoordinationManager(const CoordinationManager& other);
  CoordinationManager& operator=(const CoordinationManager& other);
  CoordinationManager(CoordinationManager&&) noexcept;
  CoordinationManager& operator=(CoordinationManager&&) noexcept;
  ~CoordinationManager();

  /// As the command says (S0-81, C-25): by the calls below.
  Handled handle(const CoordinationCommand& command);

  // --- locks ---

  /// Makes it; one that is there is left as it is, whatever the config says (C-26). As it is now (S1-96).
  LockStatus ensure_lock(const LockConfig& config);
  [[nodiscard]] std::optional<LockStatus> get_lock(std::string_view name) const;  ///< S1-97
  /// One try: acquired, extended, reclaimed, busy (S0-12 to S0-15, S1-98). One that is not there is made with the
  /// defaults.
  [[nodiscard]] Acquisition<AcquireOutcome> acquire_lock(std::string_view name, const HolderId& holder,
                                                         const std::optional<std::string>& metadata = {});
  /// already_free also if there is no such lock (S0-18 to S0-20, S1-99).
  Released<ReleaseResult> release_lock(std::string_view name, const HolderId& holder);
  /// not_owner also if there is no such lock (S1-100).
  HeartbeatResult heartbeat_lock(std::string_view name, const HolderId& holder);

  // --- semaphores ---

  SemaphoreStatus ensure_semaphore(const SemaphoreConfig& config);                          ///< S1-101
  [[nodiscard]] std::optional<SemaphoreStatus> get_semaphore(std::string_view name) const;  ///< S1-102
  /// One try: acquired, already_held, increased, full (S0-28 to S0-33, S1-103). First takes away what others lost
  /// (S1-45).
  [[nodiscard]] Acquisition<PermitOutcome> acquire_semaphore(std::string_view name, const HolderId& holder,
                                                             std::uint32_t weight = 1,
                                                             const std::optional<std::string>& metadata = {});
  /// Gives back all that the holder has; not_holder also if there is no such semaphore (S0-34, S0-35, S1-104).
  Released<PermitRelease> release_semaphore(std::string_view name, const HolderId& holder);
  HeartbeatResult heartbeat_semaphore(std::string_view name, const HolderId& holder);  ///< S1-105

  // --- guards ---

  /// One that is there with the same definition is left as it is. Errors: config_differs (it is there with another
  /// one), and those of GuardFlag::add. Over a segment it is a GuardFlag (S1-106).
  void register_guard(const Guard& guard);
  [[nodiscard]] std::optional<Guard> get_guard(std::string_view id) const;  ///< S1-107
  /// False: there was none (S1-108).
  bool unregister_guard(std::string_view id);
  /// All locks and semaphores, with who holds them (S1-109). Who is proven dead holds nothing.
  [[nodiscard]] GuardInputs build_coordination_inputs() const;

  // --- maintenance ---

  /// Warns of each hold that may be taken away: lock:stale, semaphore:stale, once until it was heard of again (S1-110,
  /// C-16). Over a segment each process that does this warns for itself.
  Effects tick();
  /// Takes those away, of locks and semaphores (S1-111, C-15); over a segment it is one pass of the reaper, which also
  /// buries the dead.
  Effects reclaim_stale();
  /// Both, in this order (S0-86, C-16).
  Effects maintain();

  // --- on disk ---

  /// Writes the state to a file, as save_snapshot() does and in the same form: as a whole, and whoever dies here leaves
  /// the old file or the new one (S1-139, S1-156). Over a segment it is save_snapshot() of the segment. Errors, none of
  /// which is swallowed (S1-140): no_permission, no_space, invalid_argument (what is there is no regular file), system.
  void save(const std::string& file) const;
  /// A manager in this process, with what the file has: locks, semaphores and guards, and their holders with their
  /// tokens and ages, so that who was stale is stale again (C-29, S1-141, S1-145). New tokens are greater than all that
  /// were given out, also after the file was saved, up to 2^38 of one name. Of a segment's snapshot, what only a
  /// segment has is left out: holds that ended with their process, shared locks, permits per session, pipelines.
  /// Errors: not_found (no such file), snapshot_damaged (with the place), segment_version, no_permission, system.
  [[nodiscard]] static CoordinationManager load(const std::string& file);
  [[nodiscard]] static CoordinationManager load(const std::string& file, std::shared_ptr<const Clock> clock);

  [[nodiscard]] std::vector<std::string> lock_names() const;       ///< S1-112
  [[nodiscard]] std::vector<std::string> semaphore_names() const;  ///< S1-113

  /// The clock that decides.
  [[nodiscard]] std::shared_ptr<const Clock> clock() const;
  /// For people, a line for each lock and semaphore.
  [[nodiscard]] std::string str() const;

 private:
  friend class Maintenance;
  friend SHMCOORD_EXPORT std::shared_ptr<GuardPrimitives> primitives_of(const CoordinationManager& manager);
  explicit CoordinationManager(std::shared_ptr<coordination::Store> store) noexcept;
  [[nodiscard]] coordination::Store& store() const;

  std::shared_ptr<coordination::Store> store_;
};

/// The locks and semaphores of a manager as what conditions ask (S1-114): its state as it is when they ask, not a
/// snapshot.
[[nodiscard]] SHMCOORD_EXPORT std::shared_ptr<GuardPrimitives> primitives_of(const CoordinationManager& manager);

}  // namespace shmcoord
