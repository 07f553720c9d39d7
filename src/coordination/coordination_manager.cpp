#include "shmcoord/coordination_manager.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "base/printable.hpp"
#include "coordination/guard_store.hpp"
#include "coordination/manager_store.hpp"
#include "coordination/save.hpp"
#include "process/call_arguments.hpp"

// What both stores have in common: arguments, copies, commands, and what follows from a look. The stores:
// manager_store.hpp.

namespace shmcoord {

namespace coordination {

Store::~Store() = default;

Event effect(engine::Kind kind, EventKind of_lock, std::string_view name, Clock::TimePoint at) {
  constexpr unsigned to_semaphore =
      static_cast<unsigned>(EventKind::semaphore_acquired) - static_cast<unsigned>(EventKind::lock_acquired);
  const unsigned further = kind == engine::Kind::semaphore ? to_semaphore : 0;
  Event e;
  e.kind = static_cast<EventKind>(static_cast<unsigned>(of_lock) + further);
  e.subject = name;
  e.at = at;
  return e;
}

}  // namespace coordination

namespace {

using coordination::Store;
using engine::Kind;

void require(Kind kind, std::string_view name, const HolderId& holder,
             const std::optional<std::string>& metadata = {}) {
  process::require_primitive_name(kind, name);
  process::require_holder(holder.str());
  process::require_reason(metadata);
}

template <class Config>
void require_lease(Kind kind, const Config& config) {
  process::require_primitive_name(kind, config.name);
  process::require_duration("stale_threshold", config.stale_threshold);
  process::require_duration("heartbeat_interval", config.heartbeat_interval);
  process::require_duration("ttl", config.ttl);
}

bool lives(const HolderStatus& holder) { return holder.lapsed != Loss::died; }

GuardPrimitives::Lock as_input(const LockStatus& status) {
  GuardPrimitives::Lock lock;
  for (const HolderStatus& holder : status.holders) {
    if (!lives(holder)) continue;
    lock.free = false;
    if (!holder.holder.empty()) lock.holders.push_back(holder.holder);
  }
  return lock;
}
std::uint32_t as_input(SemaphoreStatus status) {
  std::erase_if(status.holders, [](const HolderStatus& holder) { return !lives(holder); });
  return status.available_slots();
}

class ManagerPrimitives final : public GuardPrimitives {
 public:
  explicit ManagerPrimitives(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  std::optional<Lock> lock(const std::string& name) override {
    const Store::Seen seen = store_->look(name);
    if (!seen.semaphores.empty()) throw std::runtime_error("it is a semaphore, not a lock");
    return seen.locks.empty() ? std::nullopt : std::optional(as_input(seen.locks.front()));
  }
  std::optional<std::uint32_t> semaphore(const std::string& name) override {
    const Store::Seen seen = store_->look(name);
    if (!seen.locks.empty()) throw std::runtime_error("it is a lock, not a semaphore");
    return seen.semaphores.empty() ? std::nullopt : std::optional(as_input(seen.semaphores.front()));
  }

 private:
  std::shared_ptr<Store> store_;
};

template <class Status>
std::vector<std::string> names_of(const std::vector<Status>& all) {
  std::vector<std::string> names;
  names.reserve(all.size());
  for (const Status& one : all) names.push_back(one.name());
  return names;
}

template <class Status>
std::optional<Status> first(std::vector<Status>&& all) {
  return all.empty() ? std::nullopt : std::optional(std::move(all.front()));
}

std::string text_of(const std::vector<HolderStatus>& holders) {
  std::string text;
  for (const HolderStatus& holder : holders) {
    text += ", " + (holder.holder.empty() ? "an implicit holder" : base::printable(holder.holder));
    if (holder.weight != 0) text += " with " + std::to_string(holder.weight);
    if (holder.lapsed != Loss::none) text += " (" + std::string(to_string(holder.lapsed)) + ")";
  }
  return text;
}

}  // namespace

// --- what was seen ---------------------------------------------------------------------------------------------------

bool LockStatus::is_held_by(const HolderId& holder) const noexcept {
  return std::any_of(holders.begin(), holders.end(), [&](const auto& h) { return h.holder == holder.str(); });
}

bool LockStatus::is_stale() const noexcept {
  return std::any_of(holders.begin(), holders.end(), [](const auto& h) { return h.lapsed != Loss::none; });
}

std::uint32_t SemaphoreStatus::used_slots() const noexcept {
  std::uint32_t used = 0;
  for (const HolderStatus& holder : holders) used += holder.weight;
  return used;
}

std::uint32_t SemaphoreStatus::available_slots() const noexcept {
  const std::uint32_t used = used_slots();
  return used >= config.max_slots ? 0 : config.max_slots - used;
}

bool SemaphoreStatus::can_acquire(std::uint32_t weight) const noexcept {
  return weight != 0 && weight <= available_slots();
}

std::vector<HolderId> SemaphoreStatus::stale_holders() const {
  std::vector<HolderId> stale;
  for (const HolderStatus& holder : holders) {
    if (holder.lapsed != Loss::none) stale.emplace_back(holder.holder);
  }
  return stale;
}

// --- the manager -----------------------------------------------------------------------------------------------------

CoordinationManager::CoordinationManager() : CoordinationManager(steady()) {}
CoordinationManager::CoordinationManager(std::shared_ptr<const Clock> clock)
    : store_(coordination::store_in_process(std::move(clock))) {}
CoordinationManager::CoordinationManager(Session& session) : store_(coordination::store_in_segment(session)) {}
CoordinationManager::CoordinationManager(std::shared_ptr<Store> store) noexcept : store_(std::move(store)) {}

CoordinationManager::CoordinationManager(const CoordinationManager& other) : store_(other.store().copy()) {}
CoordinationManager& CoordinationManager::operator=(const CoordinationManager& other) {
  if (this != &other) store_ = other.store().copy();
  return *this;
}
CoordinationManager::CoordinationManager(CoordinationManager&&) noexcept = default;
CoordinationManager& CoordinationManager::operator=(CoordinationManager&&) noexcept = default;
CoordinationManager::~CoordinationManager() = default;

void CoordinationManager::save(const std::string& file) const { store().save(file); }
CoordinationManager CoordinationManager::load(const std::string& file) { return load(file, steady()); }
CoordinationManager CoordinationManager::load(const std::string& file, std::shared_ptr<const Clock> clock) {
  const auto state = coordination::read_state(file);
  if (!state) throw Error(Errc::not_found, file + ": there is no such file");
  return CoordinationManager(coordination::store_in_process(std::move(clock), *state));
}

Store& CoordinationManager::store() const {
  if (!store_) throw Error(Errc::invalid_argument, "the manager was moved from: use the one that it was moved to");
  return *store_;
}

Handled CoordinationManager::handle(const CoordinationCommand& command) {
  const auto acquired = [](auto&& got) { return Handled{std::move(got.outcome), std::move(got.effects)}; };
  const auto released = [](auto&& got) { return Handled{got.result, std::move(got.effects)}; };
  return std::visit(
      [&](const auto& c) -> Handled {
        using Given = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<Given, AcquireLock>) {
          return acquired(acquire_lock(c.name, c.holder, c.metadata));
        } else if constexpr (std::is_same_v<Given, ReleaseLock>) {
          return released(release_lock(c.name, c.holder));
        } else if constexpr (std::is_same_v<Given, HeartbeatLock>) {
          return {heartbeat_lock(c.name, c.holder)};
        } else if constexpr (std::is_same_v<Given, AcquireSemaphore>) {
          return acquired(acquire_semaphore(c.name, c.holder, c.slots, c.metadata));
        } else if constexpr (std::is_same_v<Given, ReleaseSemaphore>) {
          return released(release_semaphore(c.name, c.holder));
        } else {
          return {heartbeat_semaphore(c.name, c.holder)};
        }
      },
      command);
}

LockStatus CoordinationManager::ensure_lock(const LockConfig& config) {
  require_lease(Kind::lock, config);
  process::require_duration("max_hold_duration", config.max_hold_duration);
  store().ensure(config);
  return get_lock(config.name).value_or(LockStatus{config});  // removed by somebody just now: as it was made
}

std::optional<LockStatus> CoordinationManager::get_lock(std::string_view name) const {
  return first(store().look(name).locks);
}

Acquisition<AcquireOutcome> CoordinationManager::acquire_lock(std::string_view name, const HolderId& holder,
                                                              const std::optional<std::string>& metadata) {
  require(Kind::lock, name, holder, metadata);
  return store().acquire_lock(name, holder, metadata);
}

Released<ReleaseResult> CoordinationManager::release_lock(std::string_view name, const HolderId& holder) {
  require(Kind::lock, name, holder);
  return store().release_lock(name, holder);
}

HeartbeatResult CoordinationManager::heartbeat_lock(std::string_view name, const HolderId& holder) {
  require(Kind::lock, name, holder);
  return store().heartbeat(Kind::lock, name, holder);
}

SemaphoreStatus CoordinationManager::ensure_semaphore(const SemaphoreConfig& config) {
  require_lease(Kind::semaphore, config);
  process::require_permits("the capacity", config.max_slots);
  store().ensure(config);
  return get_semaphore(config.name).value_or(SemaphoreStatus{config});
}

std::optional<SemaphoreStatus> CoordinationManager::get_semaphore(std::string_view name) const {
  return first(store().look(name).semaphores);
}

Acquisition<PermitOutcome> CoordinationManager::acquire_semaphore(std::string_view name, const HolderId& holder,
                                                                  std::uint32_t weight,
                                                                  const std::optional<std::string>& metadata) {
  require(Kind::semaphore, name, holder, metadata);
  process::require_permits("the weight", weight);
  return store().acquire_permits(name, holder, weight, metadata);
}

Released<PermitRelease> CoordinationManager::release_semaphore(std::string_view name, const HolderId& holder) {
  require(Kind::semaphore, name, holder);
  return store().release_permits(name, holder);
}

HeartbeatResult CoordinationManager::heartbeat_semaphore(std::string_view name, const HolderId& holder) {
  require(Kind::semaphore, name, holder);
  return store().heartbeat(Kind::semaphore, name, holder);
}

void CoordinationManager::register_guard(const Guard& guard) {
  coordination::check_guard(guard);
  store().add_guard(guard);
}

std::optional<Guard> CoordinationManager::get_guard(std::string_view id) const { return store().guard(id); }

bool CoordinationManager::unregister_guard(std::string_view id) { return store().remove_guard(id); }

GuardInputs CoordinationManager::build_coordination_inputs() const {
  GuardInputs inputs;
  Store::Seen seen = store().look(std::nullopt);
  for (const LockStatus& status : seen.locks) {
    GuardPrimitives::Lock lock = as_input(status);
    inputs.locks[status.name()] = lock.free;
    if (!lock.free) inputs.lock_holders[status.name()] = std::move(lock.holders);
  }
  for (SemaphoreStatus& status : seen.semaphores) {
    std::string name = status.name();
    inputs.semaphores[std::move(name)] = as_input(std::move(status));
  }
  return inputs;
}

Effects CoordinationManager::tick() { return store().warn(); }
Effects CoordinationManager::reclaim_stale() { return store().reclaim(); }

Effects CoordinationManager::maintain() {
  Effects effects = tick();
  for (Event& e : reclaim_stale()) effects.push_back(std::move(e));
  return effects;
}

std::vector<std::string> CoordinationManager::lock_names() const { return names_of(store().look(std::nullopt).locks); }
std::vector<std::string> CoordinationManager::semaphore_names() const {
  return names_of(store().look(std::nullopt).semaphores);
}

std::shared_ptr<const Clock> CoordinationManager::clock() const { return store().clock(); }

std::string CoordinationManager::str() const {
  std::string text;
  const Store::Seen seen = store().look(std::nullopt);
  for (const LockStatus& lock : seen.locks) {
    text += "lock " + base::printable(lock.name()) + ": " + (lock.is_free() ? "free" : "held") + text_of(lock.holders) +
            "\n";
  }
  for (const SemaphoreStatus& semaphore : seen.semaphores) {
    text += "semaphore " + base::printable(semaphore.name()) + ": " + std::to_string(semaphore.used_slots()) + " of " +
            std::to_string(semaphore.config.max_slots) + text_of(semaphore.holders) + "\n";
  }
  return text;
}

std::shared_ptr<GuardPrimitives> primitives_of(const CoordinationManager& manager) {
  (void)manager.store();
  return std::make_shared<ManagerPrimitives>(manager.store_);
}

}  // namespace shmcoord
