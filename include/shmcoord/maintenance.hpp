#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>

#include "shmcoord/clock.hpp"
#include "shmcoord/coordination_manager.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/export.hpp"
#include "shmcoord/holder_id.hpp"

namespace shmcoord {

/// S1-137.
struct MaintenanceConfig {
  std::chrono::nanoseconds interval = std::chrono::seconds(30);  ///< from one pass to the next; above zero
  bool reclaim_stale = true;                                     ///< false: only warnings (C-16)
};

/// What is asked and told during a pass, in the thread that does it. Each may be left empty.
struct MaintenanceHooks {
  /// Each effect, in its order (S1-138).
  std::function<void(const Event&)> on_effect = {};
  /// Is that holder known to live? Then its heartbeat is refreshed before anybody is judged (S1-142). Without it,
  /// holders beat for themselves. Not asked over a segment whose session beats for them.
  std::function<bool(const HolderId&)> is_alive = {};
};

/// What keeps the state of a manager tidy, in passes (S1-138): heartbeats of who is known to live, then warnings, then
/// what is stale is taken away. Works on the manager's own state, not on a copy. Over a segment any number of processes
/// may do this, beside the reaper; if one dies here, the others go on.
class SHMCOORD_EXPORT Maintenance {
 public:
  /// Errors: invalid_argument (the interval).
  explicit Maintenance(const CoordinationManager& manager, const MaintenanceConfig& config = {},
                       MaintenanceHooks hooks = {});

  /// One pass. Throws what the manager or a hook throws; what was to be told before was told.
  void tick();
  [[nodiscard]] const MaintenanceConfig& config() const noexcept { return config_; }

 private:
  friend class MaintenanceThread;
  void refresh_heartbeats();
  void tell(const Effects& effects) const;

  CoordinationManager manager_;
  MaintenanceConfig config_;
  MaintenanceHooks hooks_;
};

/// A thread that does a pass at once, and then one at each interval (S1-12, S1-143). The destructor ends it without
/// waiting for the interval; it waits for a pass that runs, so hooks must not destroy it. In a forked child there is no
/// such thread, and nothing happens.
class SHMCOORD_EXPORT MaintenanceThread {
 public:
  /// `on_error` is told, in the thread, what a pass threw; the next pass comes all the same. It must be given, and must
  /// not throw. The interval is measured by `clock`, or if that is empty by the manager's. Errors: invalid_argument.
  MaintenanceThread(Maintenance maintenance, std::function<void(const std::exception_ptr&)> on_error,
                    std::shared_ptr<const Clock> clock = {});
  MaintenanceThread(const MaintenanceThread&) = delete;
  MaintenanceThread& operator=(const MaintenanceThread&) = delete;
  ~MaintenanceThread();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shmcoord
