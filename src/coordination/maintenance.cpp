#include "shmcoord/maintenance.hpp"

#include <optional>
#include <stop_token>
#include <thread>
#include <utility>

#include "coordination/manager_store.hpp"
#include "process/call_arguments.hpp"
#include "process/fork_guard.hpp"
#include "process/quiet_thread.hpp"

// Passes over a manager's state, and the thread that does them.
//
// Each pass warns before it takes (C-16), and tells what it did before it goes on: if the second half fails, the first
// was told. A pass that throws is reported, and is no reason to end: what was wrong (no memory, a segment that was
// removed) is for the program to judge, which hears of it each time.

namespace shmcoord {

Maintenance::Maintenance(const CoordinationManager& manager, const MaintenanceConfig& config, MaintenanceHooks hooks)
    : manager_((static_cast<void>(manager.store()), manager.store_)), config_(config), hooks_(std::move(hooks)) {
  process::require_duration("the interval", config.interval);
}

void Maintenance::tick() {
  refresh_heartbeats();
  tell(manager_.tick());
  if (config_.reclaim_stale) tell(manager_.reclaim_stale());
}

void Maintenance::refresh_heartbeats() {
  coordination::Store& store = manager_.store();
  if (!hooks_.is_alive || !store.needs_heartbeats()) return;
  const coordination::Store::Seen seen = store.look(std::nullopt);
  const auto refresh = [&](engine::Kind kind, const std::string& name, const std::vector<HolderStatus>& holders) {
    for (const HolderStatus& status : holders) {
      const HolderId holder(status.holder);
      if (!status.holder.empty() && hooks_.is_alive(holder)) (void)store.heartbeat(kind, name, holder);
    }
  };
  for (const LockStatus& lock : seen.locks) refresh(engine::Kind::lock, lock.name(), lock.holders);
  for (const SemaphoreStatus& semaphore : seen.semaphores) {
    refresh(engine::Kind::semaphore, semaphore.name(), semaphore.holders);
  }
}

void Maintenance::tell(const Effects& effects) const {
  if (!hooks_.on_effect) return;
  for (const Event& e : effects) hooks_.on_effect(e);
}

struct MaintenanceThread::State {
  Maintenance maintenance;
  std::function<void(const std::exception_ptr&)> on_error;
  std::shared_ptr<const Clock> clock;
  std::uint64_t process = process::process_number();
  std::jthread thread = {};  // last: it uses the others

  void run(const std::stop_token& stop) {
    do {
      const Clock::TimePoint next = clock->now() + maintenance.config().interval;
      try {
        maintenance.tick();
      } catch (...) {
        on_error(std::current_exception());
      }
      if (!clock->wait_until(next, stop)) return;
    } while (!stop.stop_requested());
  }
};

MaintenanceThread::MaintenanceThread(Maintenance maintenance, std::function<void(const std::exception_ptr&)> on_error,
                                     std::shared_ptr<const Clock> clock) {
  if (!on_error) throw Error(Errc::invalid_argument, "maintenance needs somebody who is told what goes wrong");
  if (!clock) clock = maintenance.manager_.clock();
  state_ = std::make_unique<State>(State{std::move(maintenance), std::move(on_error), std::move(clock)});
  state_->thread = process::quiet_thread([state = state_.get()](const std::stop_token& stop) { state->run(stop); });
}

MaintenanceThread::~MaintenanceThread() {
  // The thread stayed in the parent; nobody must wait for it here.
  if (!process::same_process(state_->process)) [[maybe_unused]]
    const State* const copy = state_.release();
}

}  // namespace shmcoord
