#include <algorithm>
#include <map>
#include <mutex>
#include <type_traits>
#include <utility>

#include "coordination/guard_store.hpp"
#include "coordination/manager_store.hpp"
#include "coordination/saved_state.hpp"
#include "core/lock_machine.hpp"
#include "core/semaphore_machine.hpp"
#include "process/atomic_file.hpp"
#include "process/clock.hpp"

// The manager's state in the memory of this process: the pure machines of core/ in a map, under one mutex.

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using Locks = core::LockMachine<std::string, std::string>;
using Permits = core::SemaphoreMachine<std::string, std::string>;

struct LockItem {
  using Machine = Locks;
  static constexpr Kind kind = Kind::lock;
  LockConfig config;
  core::LockConfig terms;
  Locks::State state = {};
};
struct PermitItem {
  using Machine = Permits;
  static constexpr Kind kind = Kind::semaphore;
  SemaphoreConfig config;
  core::SemaphoreConfig terms;
  Permits::State state = {};
};
struct GuardItem {
  static constexpr Kind kind = Kind::guard;
  Guard guard;
};
using Item = std::variant<LockItem, PermitItem, GuardItem>;

std::int64_t ns(Clock::TimePoint at) { return std::chrono::nanoseconds(at.time_since_epoch()).count(); }
std::int64_t ns_or_none(const std::optional<std::chrono::nanoseconds>& d) { return d ? d->count() : 0; }

LockItem make(const LockConfig& config, std::uint64_t token_floor) {
  LockItem item{config,
                {config.stale_threshold.count(), config.heartbeat_interval.count(),
                 ns_or_none(config.max_hold_duration), ns_or_none(config.ttl)}};
  item.state.next_token = token_floor + 1;
  return item;
}
PermitItem make(const SemaphoreConfig& config, std::uint64_t token_floor) {
  PermitItem item{config, {config.stale_threshold.count(), config.heartbeat_interval.count(), ns_or_none(config.ttl)}};
  item.state.capacity = config.max_slots;
  item.state.next_token = token_floor + 1;
  return item;
}

// --- on disk ---------------------------------------------------------------------------------------------------------

std::optional<std::chrono::nanoseconds> given(std::int64_t v) {
  return v == 0 ? std::nullopt : std::optional(std::chrono::nanoseconds(v));
}

template <class Held>
SavedHold saved_hold(const Held& held, std::int64_t now_ns) {
  SavedHold saved;
  saved.holder = held.holder;
  saved.token = held.token;
  saved.reason = held.metadata.value_or("");
  saved.held_ns = core::age_ns(held.acquired_at_ns, now_ns);
  saved.silent_ns = core::age_ns(held.last_heartbeat_ns, now_ns);
  saved.ttl_ns = held.ttl_ns;
  return saved;
}
SavedName saved(const LockItem& item, std::int64_t now_ns) {
  SavedName name;
  name.kind = Kind::lock;
  name.name = item.config.name;
  name.stale_threshold_ns = item.config.stale_threshold.count();
  name.heartbeat_interval_ns = item.config.heartbeat_interval.count();
  name.ttl_ns = ns_or_none(item.config.ttl);
  name.max_hold_ns = ns_or_none(item.config.max_hold_duration);
  if (item.state.held) name.holders.push_back(saved_hold(*item.state.held, now_ns));
  return name;
}
SavedName saved(const PermitItem& item, std::int64_t now_ns) {
  SavedName name;
  name.kind = Kind::semaphore;
  name.name = item.config.name;
  name.capacity = item.state.capacity;
  name.stale_threshold_ns = item.config.stale_threshold.count();
  name.heartbeat_interval_ns = item.config.heartbeat_interval.count();
  name.ttl_ns = ns_or_none(item.config.ttl);
  for (const Permits::Held& held : item.state.holders) {
    name.holders.push_back(saved_hold(held, now_ns));
    name.holders.back().weight = held.weight;
  }
  return name;
}
SavedName saved(const GuardItem& item, std::int64_t /*now_ns*/) {
  SavedName name;
  name.kind = Kind::guard;
  name.name = item.guard.name;
  name.definition = definition_of(item.guard);
  return name;
}

template <class Held>
Held held_from(const SavedHold& saved, std::int64_t now_ns) {
  Held held;
  held.holder = saved.holder;
  held.acquired_at_ns = now_ns - saved.held_ns;
  held.last_heartbeat_ns = now_ns - saved.silent_ns;
  if (!saved.reason.empty()) held.metadata = saved.reason;
  held.token = saved.token;
  held.ttl_ns = saved.ttl_ns;
  return held;
}
/// Nothing: only a segment can have it.
std::optional<Item> item_from(const SavedName& name, std::uint64_t token_floor, std::int64_t now_ns) {
  const auto outlives_its_process = [](const SavedHold& hold) { return hold.of == SavedHold::Of::detached; };
  const std::chrono::nanoseconds stale(name.stale_threshold_ns);
  const std::chrono::nanoseconds interval(name.heartbeat_interval_ns);
  switch (name.kind) {
    case Kind::lock: {
      LockItem item = make({name.name, stale, interval, given(name.max_hold_ns), given(name.ttl_ns)}, token_floor);
      for (const SavedHold& hold : name.holders) {
        if (outlives_its_process(hold) && !hold.shared) item.state.held = held_from<Locks::Held>(hold, now_ns);
      }
      return item;
    }
    case Kind::semaphore: {
      if (name.per_session != 0) return std::nullopt;
      PermitItem item = make({name.name, name.capacity, stale, interval, given(name.ttl_ns)}, token_floor);
      for (const SavedHold& hold : name.holders) {
        if (!outlives_its_process(hold)) continue;
        item.state.holders.push_back(held_from<Permits::Held>(hold, now_ns));
        item.state.holders.back().weight = hold.weight;
      }
      return item;
    }
    case Kind::guard: return GuardItem{guard_from(name.name, name.definition)};
    default: return std::nullopt;
  }
}

static_assert(static_cast<int>(core::LockEventKind::stale) == static_cast<int>(EventKind::lock_stale));
static_assert(static_cast<int>(core::SemaphoreEventKind::stale) == static_cast<int>(EventKind::lock_stale));

/// `reason`: of who acquired.
template <class Item, class Machine = typename Item::Machine>
Effects effects_of(const typename Machine::Outcome& outcome, std::string_view name, const std::string& reason,
                   Clock::TimePoint at) {
  Effects effects;
  for (const typename Machine::Event& e : outcome.effects) {
    Event& told = effects.emplace_back(effect(Item::kind, static_cast<EventKind>(e.kind), name, at));
    told.holder = e.holder.value_or("");
    told.other = e.other.value_or("");
    told.why = e.loss;
    const bool denied = told.kind == EventKind::lock_denied || told.kind == EventKind::semaphore_denied;
    if (!denied) told.token = e.token;  // it is about a hold that there is not
    const bool acquired = told.kind == EventKind::lock_acquired || told.kind == EventKind::semaphore_acquired;
    if (acquired) told.reason = reason;
    if constexpr (std::is_same_v<Item, PermitItem>) {
      told.weight = e.weight;
      told.available = e.available;
    }
  }
  return effects;
}

template <class Held>
HolderStatus holder_status(const Held& held, Loss lapsed, std::int64_t now_ns) {
  HolderStatus status;
  status.holder = held.holder;
  status.reason = held.metadata.value_or("");
  status.held_for = std::chrono::nanoseconds(core::age_ns(held.acquired_at_ns, now_ns));
  status.token = held.token;
  status.heartbeat_age = std::chrono::nanoseconds(core::age_ns(held.last_heartbeat_ns, now_ns));
  status.lapsed = lapsed;
  return status;
}

PermitResult public_result(core::SemaphoreResult result) {
  switch (result) {
    case core::SemaphoreResult::acquired: return PermitResult::acquired;
    case core::SemaphoreResult::already_held: return PermitResult::already_held;
    case core::SemaphoreResult::increased: return PermitResult::increased;
    default: return PermitResult::full;
  }
}

class LocalStore final : public Store {
 public:
  using Items = std::map<std::string, Item, std::less<>>;
  /// `token_floor`: a name that comes later begins above it; an earlier process may have had one of that name.
  explicit LocalStore(std::shared_ptr<const Clock> clock, Items items = {}, std::uint64_t token_floor = 0)
      : clock_(std::move(clock)), token_floor_(token_floor), items_(std::move(items)) {}

  std::shared_ptr<Store> copy() override {
    const std::scoped_lock lock(mutex_);
    return std::make_shared<LocalStore>(clock_, items_, token_floor_);
  }
  [[nodiscard]] std::shared_ptr<const Clock> clock() const override { return clock_; }
  [[nodiscard]] bool needs_heartbeats() const override { return true; }

  void ensure(const LockConfig& config) override {
    const std::scoped_lock lock(mutex_);
    (void)made<LockItem>(config);
  }
  void ensure(const SemaphoreConfig& config) override {
    const std::scoped_lock lock(mutex_);
    (void)made<PermitItem>(config);
  }

  [[nodiscard]] Seen look(std::optional<std::string_view> name) const override {
    const std::scoped_lock lock(mutex_);
    const std::int64_t now = ns(clock_->now());
    Seen seen;
    for (const auto& [called, item] : items_) {
      if (name && called != *name) continue;
      if (const auto* const l = std::get_if<LockItem>(&item)) seen.locks.push_back(status_of(*l, now));
      if (const auto* const s = std::get_if<PermitItem>(&item)) seen.semaphores.push_back(status_of(*s, now));
    }
    return seen;
  }

  Acquisition<AcquireOutcome> acquire_lock(std::string_view name, const HolderId& holder,
                                           const Metadata& metadata) override {
    const std::scoped_lock lock(mutex_);
    LockItem& item = made<LockItem>(LockConfig{std::string(name)});
    const Clock::TimePoint now = clock_->now();
    Locks::Outcome out = apply(item, Locks::Acquire{holder.str(), metadata, {}, 0}, now);
    Acquisition<AcquireOutcome> got;
    got.effects = effects_of<LockItem>(out, name, item.state.held->metadata.value_or(""), now);
    got.outcome.result = std::get<AcquireResult>(out.result);
    got.outcome.token = out.token;
    got.held = is_held(got.outcome.result);
    if (out.previous) got.outcome.previous = Previous{out.previous->holder, 0, out.previous->why};
    if (!got.held) {
      const HolderStatus current = holder_status(*item.state.held, Loss::none, ns(now));
      got.outcome.current = static_cast<const HolderInfo&>(current);
    }
    return got;
  }

  Acquisition<PermitOutcome> acquire_permits(std::string_view name, const HolderId& holder, std::uint32_t weight,
                                             const Metadata& metadata) override {
    const std::scoped_lock lock(mutex_);
    PermitItem* const item = find<PermitItem>(name);
    if (item == nullptr) {
      throw Error(Errc::not_found, "no semaphore '" + std::string(name) +
                                       "' in this manager; make it first, with its capacity (ensure_semaphore)");
    }
    const Clock::TimePoint now = clock_->now();
    Permits::Outcome out = apply(*item, Permits::Acquire{holder.str(), weight, metadata, {}, {}}, now);
    const Permits::Held* const held = item->state.find(holder.str());
    Acquisition<PermitOutcome> got;
    got.effects = effects_of<PermitItem>(out, name, held == nullptr ? std::string() : held->metadata.value_or(""), now);
    got.outcome.result = public_result(std::get<core::SemaphoreResult>(out.result));
    got.held = is_held(got.outcome.result);
    got.outcome.weight = held == nullptr ? 0 : held->weight;
    got.outcome.available = got.held ? 0 : out.available;
    got.outcome.token = out.token;
    if (!out.previous.empty()) {
      got.outcome.previous = Previous{out.previous.back().holder, 0, out.previous.back().why};
    }
    return got;
  }

  Released<ReleaseResult> release_lock(std::string_view name, const HolderId& holder) override {
    const std::scoped_lock lock(mutex_);
    LockItem* const item = find<LockItem>(name);
    if (item == nullptr) return {ReleaseResult::already_free};
    const Clock::TimePoint now = clock_->now();
    const Locks::Outcome out = apply(*item, Locks::Release{holder.str()}, now);
    return {std::get<ReleaseResult>(out.result), effects_of<LockItem>(out, name, {}, now)};
  }

  Released<PermitRelease> release_permits(std::string_view name, const HolderId& holder) override {
    const std::scoped_lock lock(mutex_);
    PermitItem* const item = find<PermitItem>(name);
    if (item == nullptr) return {PermitRelease::not_holder};
    const Clock::TimePoint now = clock_->now();
    const Permits::Outcome out = apply(*item, Permits::Release{holder.str()}, now);
    const bool released = std::get<core::SemaphoreResult>(out.result) == core::SemaphoreResult::released;
    return {released ? PermitRelease::released : PermitRelease::not_holder, effects_of<PermitItem>(out, name, {}, now)};
  }

  HeartbeatResult heartbeat(Kind kind, std::string_view name, const HolderId& holder) override {
    const std::scoped_lock lock(mutex_);
    return kind == Kind::lock ? beat<LockItem>(name, holder) : beat<PermitItem>(name, holder);
  }

  void add_guard(const Guard& guard) override {
    const std::scoped_lock lock(mutex_);
    if (const GuardItem* const there = find<GuardItem>(guard.name)) {
      require_same_definition(guard.name, definition_of(there->guard), definition_of(guard));
      return;
    }
    items_.emplace(guard.name, GuardItem{guard});
  }
  [[nodiscard]] std::optional<Guard> guard(std::string_view id) const override {
    const std::scoped_lock lock(mutex_);
    const auto at = items_.find(id);
    const auto* const item = at == items_.end() ? nullptr : std::get_if<GuardItem>(&at->second);
    return item == nullptr ? std::nullopt : std::optional(item->guard);
  }
  bool remove_guard(std::string_view id) override {
    const std::scoped_lock lock(mutex_);
    if (find<GuardItem>(id) == nullptr) return false;
    items_.erase(items_.find(id));
    return true;
  }

  void save(const std::string& file) const override {
    const process::FileReplacement replacement(file);
    SavedState state;
    state.saved_wall_ns = process::real_clock().wall_ns();
    state.boot = std::string(32, '0');
    state.instance = std::string(16, '0');
    {
      const std::scoped_lock lock(mutex_);
      const std::int64_t now = ns(clock_->now());
      std::uint64_t highest = token_floor_;
      for (const auto& [name, item] : items_) {
        state.names.push_back(std::visit([&](const auto& one) { return saved(one, now); }, item));
        if (const auto* const l = std::get_if<LockItem>(&item)) highest = std::max(highest, l->state.next_token);
        if (const auto* const s = std::get_if<PermitItem>(&item)) highest = std::max(highest, s->state.next_token);
      }
      state.token_reserved = std::min(highest + engine::token_reserve, core::seq_limit);
    }
    replacement.write(text_of(state));
  }

  Effects warn() override { return to_all(Locks::Tick{}, Permits::Tick{}); }
  Effects reclaim() override { return to_all(Locks::Reclaim{}, Permits::Reclaim{}); }

 private:
  // All of these under the mutex.

  /// nullptr: there is none. Throws wrong_type.
  template <class Wanted>
  Wanted* find(std::string_view name) {
    const auto at = items_.find(name);
    if (at == items_.end()) return nullptr;
    if (auto* const item = std::get_if<Wanted>(&at->second)) return item;
    const Kind is = std::visit([](const auto& item) { return item.kind; }, at->second);
    throw Error(Errc::wrong_type, "'" + std::string(name) + "' exists as a " + std::string(engine::word_of(is)) +
                                      ", not as a " + std::string(engine::word_of(Wanted::kind)));
  }
  template <class Wanted, class Config>
  Wanted& made(const Config& config) {
    if (Wanted* const there = find<Wanted>(config.name)) return *there;
    return std::get<Wanted>(items_.emplace(config.name, make(config, token_floor_)).first->second);
  }
  template <class Item, class Input>
  static typename Item::Machine::Outcome apply(Item& item, Input input, Clock::TimePoint now) {
    auto outcome = Item::Machine::transition(item.terms, item.state, std::move(input), ns(now));
    item.state = outcome.state;
    return outcome;
  }
  template <class Item>
  HeartbeatResult beat(std::string_view name, const HolderId& holder) {
    Item* const item = find<Item>(name);
    if (item == nullptr) return HeartbeatResult::not_owner;
    const auto out = apply(*item, typename Item::Machine::Heartbeat{holder.str()}, clock_->now());
    return std::get<HeartbeatResult>(out.result);
  }

  template <class OfLocks, class OfPermits>
  Effects to_all(OfLocks of_locks, OfPermits of_permits) {
    const std::scoped_lock lock(mutex_);
    const Clock::TimePoint now = clock_->now();
    Effects all;
    const auto add = [&]<class Item>(Item& item, const auto& input) {
      for (Event& e : effects_of<Item>(apply(item, input, now), item.config.name, {}, now)) all.push_back(std::move(e));
    };
    for (auto& [name, item] : items_) {
      if (auto* const one = std::get_if<LockItem>(&item)) add(*one, of_locks);
    }
    for (auto& [name, item] : items_) {
      if (auto* const one = std::get_if<PermitItem>(&item)) add(*one, of_permits);
    }
    return all;
  }

  static LockStatus status_of(const LockItem& item, std::int64_t now_ns) {
    LockStatus status{item.config};
    if (const auto& held = item.state.held) {
      status.holders.push_back(holder_status(*held, Locks::reclaimable(item.terms, item.state, now_ns), now_ns));
    }
    return status;
  }
  static SemaphoreStatus status_of(const PermitItem& item, std::int64_t now_ns) {
    SemaphoreStatus status{item.config};
    for (const Permits::Held& held : item.state.holders) {
      const Loss lapsed = Permits::reclaimable(item.terms, held, now_ns);
      status.holders.push_back(holder_status(held, lapsed, now_ns));
      status.holders.back().weight = held.weight;
    }
    return status;
  }

  const std::shared_ptr<const Clock> clock_;
  const std::uint64_t token_floor_;
  mutable std::mutex mutex_;
  Items items_;
};

}  // namespace

std::shared_ptr<Store> store_in_process(std::shared_ptr<const Clock> clock) {
  if (!clock) throw Error(Errc::invalid_argument, "a manager needs a clock; without an argument it takes steady()");
  return std::make_shared<LocalStore>(std::move(clock));
}

std::shared_ptr<Store> store_in_process(std::shared_ptr<const Clock> clock, const SavedState& state) {
  if (!clock) throw Error(Errc::invalid_argument, "a manager needs a clock; without an argument it takes steady()");
  const std::int64_t now = ns(clock->now());
  LocalStore::Items items;
  for (const SavedName& name : state.names) {
    if (auto item = item_from(name, state.token_reserved, now)) items.emplace(name.name, *std::move(item));
  }
  return std::make_shared<LocalStore>(std::move(clock), std::move(items), state.token_reserved);
}

}  // namespace shmcoord::coordination
