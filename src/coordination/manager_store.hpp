#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordination/saved_state.hpp"
#include "engine/layout.hpp"
#include "shmcoord/coordination_manager.hpp"

// Where a CoordinationManager keeps its state.
//
// Problem: programs that were written for the manager must not find out which store is below it, so both answer each
// call with the same results, the same effects in the same order, and the same errors. What both have in common is done
// once: arguments are checked by the manager before a store sees them, and effects are begun by effect().
//
// Invariant: every call is one step to other threads, except that over a segment others may come in between the parts
// of one (somebody takes what was just taken from the dead); then the effects tell what happened, in its order.
//
// If we die here: the store of this process is gone with it; the segment's calls are those of PrimitiveClient, sweep()
// and the guards' store, each of which says what it leaves.

namespace shmcoord::coordination {

class Store {
 public:
  using Metadata = std::optional<std::string>;
  struct Seen {
    std::vector<LockStatus> locks = {};  // by name, as the semaphores
    std::vector<SemaphoreStatus> semaphores = {};
  };

  Store() = default;
  virtual ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// For a copy of the manager: another store, or this one (C-45).
  [[nodiscard]] virtual std::shared_ptr<Store> copy() = 0;
  [[nodiscard]] virtual std::shared_ptr<const Clock> clock() const = 0;
  /// Do holders lose what they hold unless somebody calls heartbeat()?
  [[nodiscard]] virtual bool needs_heartbeats() const = 0;

  virtual void ensure(const LockConfig& config) = 0;
  virtual void ensure(const SemaphoreConfig& config) = 0;
  /// All, or what has that name.
  [[nodiscard]] virtual Seen look(std::optional<std::string_view> name) const = 0;

  virtual Acquisition<AcquireOutcome> acquire_lock(std::string_view name, const HolderId& holder,
                                                   const Metadata& metadata) = 0;
  virtual Acquisition<PermitOutcome> acquire_permits(std::string_view name, const HolderId& holder,
                                                     std::uint32_t weight, const Metadata& metadata) = 0;
  virtual Released<ReleaseResult> release_lock(std::string_view name, const HolderId& holder) = 0;
  virtual Released<PermitRelease> release_permits(std::string_view name, const HolderId& holder) = 0;
  virtual HeartbeatResult heartbeat(engine::Kind kind, std::string_view name, const HolderId& holder) = 0;

  virtual void add_guard(const Guard& guard) = 0;
  [[nodiscard]] virtual std::optional<Guard> guard(std::string_view id) const = 0;
  virtual bool remove_guard(std::string_view id) = 0;

  /// As CoordinationManager::save().
  virtual void save(const std::string& file) const = 0;

  /// Locks by name, then semaphores by name; holders of one by their tokens.
  virtual Effects warn() = 0;
  virtual Effects reclaim() = 0;
};

[[nodiscard]] std::shared_ptr<Store> store_in_process(std::shared_ptr<const Clock> clock);
[[nodiscard]] std::shared_ptr<Store> store_in_process(std::shared_ptr<const Clock> clock, const SavedState& state);
[[nodiscard]] std::shared_ptr<Store> store_in_segment(Session& session);

/// An event about that name. `of_lock`: its kind if it is a lock; that of a semaphore follows.
[[nodiscard]] Event effect(engine::Kind kind, EventKind of_lock, std::string_view name, Clock::TimePoint at);

}  // namespace shmcoord::coordination
