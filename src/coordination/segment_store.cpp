#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include "coordination/guard_flag_state.hpp"
#include "coordination/manager_store.hpp"
#include "coordination/save.hpp"
#include "coordination/stale_warnings.hpp"
#include "engine/name_index.hpp"
#include "process/clock.hpp"
#include "process/face.hpp"
#include "process/recovery.hpp"
#include "process/snapshot.hpp"

// The manager's state in a segment: a session's own locks and semaphores, and what everybody can see.
//
// A call is made of those that stand behind Lock and Semaphore, and its effects of what they answer; the journal is not
// asked, which is off as a rule. What the machines of core/ do in one step are two here where somebody lost a hold:
// first it is taken away, which says whose it was, then the caller's own try.

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using process::Action;
using process::GrantView;
using process::LockView;
using process::PrimitiveClient;

process::NameOptions options_of(const LockConfig& config) {
  process::NameOptions o;
  o.lease = {config.stale_threshold, config.heartbeat_interval, config.max_hold_duration, config.ttl};
  return o;
}
process::NameOptions options_of(const SemaphoreConfig& config) {
  process::NameOptions o;
  o.kind = Kind::semaphore;
  o.capacity = config.max_slots;
  o.lease = {config.stale_threshold, config.heartbeat_interval, {}, config.ttl};
  return o;
}
/// Of what there is already; of a quota it wants no share.
process::NameOptions only(Kind kind) {
  process::NameOptions o;
  o.kind = kind;
  o.joins = false;
  return o;
}

std::optional<std::chrono::nanoseconds> or_none(std::int64_t ns) {
  return ns > 0 ? std::optional(std::chrono::nanoseconds(ns)) : std::nullopt;
}

bool is_dead(const GrantView& g) { return g.life.life == process::Life::dead; }

std::vector<GrantView> by_token(std::vector<GrantView> holders) {
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return holders;
}

std::vector<HolderStatus> holders_of(LockView&& seen, std::int64_t now_ns) {
  std::vector<HolderStatus> all;
  for (GrantView& g : by_token(std::move(seen.holders))) {
    HolderStatus& status = all.emplace_back();
    status.holder = std::move(g.holder);
    status.label = std::move(g.label);
    status.command = std::move(g.command);
    status.reason = std::move(g.reason);
    status.pid = g.pid;
    status.held_for = std::chrono::nanoseconds(core::age_ns(g.since_ns, now_ns));
    status.token = g.token;
    status.weight = seen.kind == Kind::semaphore ? g.weight : 0;
    status.heartbeat_age = std::chrono::nanoseconds(core::age_ns(g.last_sign_ns, now_ns));
    status.lapsed = is_dead(g) ? Loss::died : g.lease;
  }
  return all;
}

LockStatus lock_of(LockView&& seen, std::int64_t now_ns) {
  LockStatus status{{seen.name, std::chrono::nanoseconds(seen.stale_threshold_ns),
                     std::chrono::nanoseconds(seen.heartbeat_interval_ns), or_none(seen.max_hold_ns),
                     or_none(seen.default_ttl_ns)}};
  status.holders = holders_of(std::move(seen), now_ns);
  return status;
}
SemaphoreStatus semaphore_of(LockView&& seen, std::int64_t now_ns) {
  SemaphoreStatus status{{seen.name, seen.capacity, std::chrono::nanoseconds(seen.stale_threshold_ns),
                          std::chrono::nanoseconds(seen.heartbeat_interval_ns), or_none(seen.default_ttl_ns)}};
  status.holders = holders_of(std::move(seen), now_ns);
  return status;
}

/// The effects of one call, begun alike and ended with what is free behind it.
class Telling {
 public:
  Telling(PrimitiveClient& client, Effects& effects)
      : client_(client), effects_(effects), at_(process::real_clock().now()) {}

  Event& add(EventKind of_lock, std::string_view holder) {
    Event& e = effects_.emplace_back(effect(client_.kind(), of_lock, client_.name(), at_));
    e.holder = holder;
    if (!holder.empty()) e.pid = static_cast<std::int32_t>(::getpid());
    return e;
  }
  void weigh(Event& e, std::uint32_t weight) const {
    if (client_.kind() == Kind::semaphore) e.weight = weight;
  }
  void add_taken(const process::Taken& taken, std::string_view by) {
    Event& e = add(EventKind::lock_reclaimed, taken.holder);
    e.pid = taken.pid;
    e.other = by;
    e.why = taken.why;
    e.token = taken.token;
    weigh(e, taken.weight);
  }
  void free_behind(std::uint32_t available) {
    for (Event& e : effects_) e.available = available;
  }

 private:
  PrimitiveClient& client_;
  Effects& effects_;
  Clock::TimePoint at_;
};

class SegmentStore final : public Store, public std::enable_shared_from_this<SegmentStore> {
 public:
  explicit SegmentStore(std::shared_ptr<detail::Access::SessionState> session) : session_(std::move(session)) {}

  std::shared_ptr<Store> copy() override { return shared_from_this(); }
  [[nodiscard]] std::shared_ptr<const Clock> clock() const override { return steady(); }
  [[nodiscard]] bool needs_heartbeats() const override { return participant().manual_heartbeat(); }

  void ensure(const LockConfig& config) override { ensure(config.name, options_of(config)); }
  void ensure(const SemaphoreConfig& config) override { ensure(config.name, options_of(config)); }

  [[nodiscard]] Seen look(std::optional<std::string_view> name) const override {
    participant().require_usable();
    Seen seen;
    process::Picture picture = paint(name);
    for (LockView& one : picture.locks) {
      if (one.damaged && name) {
        throw Error(Errc::segment_corrupt, std::string(engine::word_of(one.kind)) + " '" + one.name +
                                               "' is damaged; `shmcoord segment check` tells more");
      }
      if (one.damaged) continue;
      if (one.kind == Kind::lock)
        seen.locks.push_back(lock_of(std::move(one), picture.now_ns));
      else if (one.kind == Kind::semaphore)
        seen.semaphores.push_back(semaphore_of(std::move(one), picture.now_ns));
    }
    return seen;
  }

  Acquisition<AcquireOutcome> acquire_lock(std::string_view name, const HolderId& holder,
                                           const Metadata& metadata) override {
    const auto client = session_->client(name, {});
    const std::vector<process::Taken> taken = client->take_lost(holder.str());
    Acquisition<AcquireOutcome> got;
    got.outcome = client->acquire(request(holder, process::whole_lock, metadata), process::try_once).of_a_lock();
    AcquireOutcome& outcome = got.outcome;
    got.held = is_held(outcome.result);
    Telling tell(*client, got.effects);
    for (const process::Taken& t : taken) {
      tell.add_taken(t, got.held ? holder.str() : std::string());
      if (!got.held) tell.add(EventKind::lock_released, t.holder).token = t.token;
    }
    if (outcome.result == AcquireResult::reclaimed && taken.empty() && outcome.previous) {
      process::Taken late;  // it ran out just now
      late.holder = outcome.previous->holder;
      late.pid = outcome.previous->pid;
      late.why = outcome.previous->why;
      tell.add_taken(late, holder.str());
    }
    if (!taken.empty() && outcome.result == AcquireResult::acquired) outcome.result = AcquireResult::reclaimed;
    if (got.held && outcome.result != AcquireResult::extended) {
      Event& e = tell.add(EventKind::lock_acquired, holder.str());
      e.token = outcome.token;
      e.reason = metadata.value_or("");
    }
    if (!got.held) {
      Event& e = tell.add(EventKind::lock_denied, holder.str());
      e.other = outcome.current ? outcome.current->holder : std::string();
    }
    return got;
  }

  Acquisition<PermitOutcome> acquire_permits(std::string_view name, const HolderId& holder, std::uint32_t weight,
                                             const Metadata& metadata) override {
    process::NameOptions options;
    options.kind = Kind::semaphore;
    const auto client = session_->client(name, options);
    const std::vector<process::Taken> taken = client->take_lost(holder.str());
    Acquisition<PermitOutcome> got;
    got.outcome = client->acquire(request(holder, weight, metadata), process::try_once).of_a_semaphore();
    const PermitOutcome& outcome = got.outcome;
    got.held = is_held(outcome.result);
    Telling tell(*client, got.effects);
    for (const process::Taken& t : taken) tell.add_taken(t, holder.str());
    if (!got.held) {
      tell.weigh(tell.add(EventKind::lock_denied, holder.str()), weight);
    } else if (outcome.result != PermitResult::already_held) {
      Event& e = tell.add(EventKind::lock_acquired, holder.str());
      e.token = outcome.token;
      tell.weigh(e, outcome.weight);
      const bool kept = outcome.result == PermitResult::increased && !metadata;
      e.reason = kept ? reason_of(*client, outcome.token) : metadata.value_or("");
    }
    const std::uint32_t available = got.held ? client->amounts().available() : outcome.available;
    if (!taken.empty() && available != 0) tell.add(EventKind::lock_released, "");
    tell.free_behind(available);
    return got;
  }

  Released<ReleaseResult> release_lock(std::string_view name, const HolderId& holder) override {
    const auto client = existing(Kind::lock, name);
    if (!client) return {ReleaseResult::already_free};
    const process::Return got = client->release(holder.str());
    Released<ReleaseResult> released{got.result};
    if (got.result == ReleaseResult::released) {
      Telling(*client, released.effects).add(EventKind::lock_released, holder.str()).token = got.token;
    }
    // It lost the lock and nobody has it: free is what anybody else is told.
    if (got.lost && !client->holder()) released.result = ReleaseResult::already_free;
    return released;
  }

  Released<PermitRelease> release_permits(std::string_view name, const HolderId& holder) override {
    const auto client = existing(Kind::semaphore, name);
    if (!client) return {PermitRelease::not_holder};
    const process::Return got = client->release(holder.str());
    if (got.result != ReleaseResult::released) return {PermitRelease::not_holder};
    Released<PermitRelease> released{PermitRelease::released};
    Telling tell(*client, released.effects);
    Event& e = tell.add(EventKind::lock_released, holder.str());
    e.token = got.token;
    tell.weigh(e, got.weight);
    tell.free_behind(client->amounts().available());
    return released;
  }

  HeartbeatResult heartbeat(Kind kind, std::string_view name, const HolderId& holder) override {
    const auto client = existing(kind, name);
    return client ? client->heartbeat(holder.str()).result : HeartbeatResult::not_owner;
  }

  void add_guard(const Guard& guard) override { register_guard(session_, guard); }
  [[nodiscard]] std::optional<Guard> guard(std::string_view id) const override {
    if (kind_of(id) != Kind::guard) return std::nullopt;
    const std::optional<StoredText> stored = find_guard(participant().mapping(), id);
    return stored ? std::optional(guard_from(id, stored->text)) : std::nullopt;
  }
  bool remove_guard(std::string_view id) override {
    if (!kind_of(id)) return false;
    coordination::remove_guard(session_, id);
    return true;
  }

  void save(const std::string& file) const override {
    (void)coordination::save(participant().mapping(), file, Over::anything);
  }

  Effects warn() override;
  Effects reclaim() override;

 private:
  [[nodiscard]] process::Participant& participant() const { return *session_->participant; }

  static process::Request request(const HolderId& holder, std::uint32_t weight, const Metadata& metadata) {
    process::Request r;
    r.holder = holder.str();
    r.weight = weight;
    if (metadata) r.reason = *metadata;
    return r;
  }

  [[nodiscard]] process::Picture paint(std::optional<std::string_view> name) const {
    const std::vector<std::string> names = name ? std::vector{std::string(*name)} : std::vector<std::string>{};
    return process::take_picture(participant().mapping(), process::real_clock().now_ns(), names);
  }

  [[nodiscard]] std::optional<Kind> kind_of(std::string_view name) const {
    participant().require_usable();
    const engine::View& view = participant().mapping().view();
    const auto found = engine::NameIndex<engine::RealPolicy>(view).find(name);
    if (!found) return std::nullopt;
    return static_cast<Kind>(engine::RealPolicy::load(view.record(found->record).kind));
  }
  /// nullptr: there is nothing of that name. Throws wrong_type.
  [[nodiscard]] std::shared_ptr<PrimitiveClient> existing(Kind kind, std::string_view name) const {
    return kind_of(name) ? session_->client(name, only(kind)) : nullptr;
  }

  void ensure(const std::string& name, const process::NameOptions& options) {
    try {
      (void)session_->client(name, options);
    } catch (const Error& e) {
      if (e.errc() != Errc::config_differs) throw;
      (void)session_->client(name, only(options.kind));  // it is there as somebody else made it
    }
  }

  static std::string reason_of(PrimitiveClient& client, std::uint64_t token) {
    for (const PermitHolder& holder : client.holders()) {
      if (holder.token == token) return holder.reason;
    }
    return {};
  }

  const std::shared_ptr<detail::Access::SessionState> session_;
  std::mutex mutex_;
  StaleWarnings warnings_;
};

Effects SegmentStore::warn() {
  participant().require_usable();
  const std::scoped_lock lock(mutex_);
  return warnings_.warn(participant().mapping(), process::real_clock().now_ns());
}

// The reaper's own pass. It warned in warn().
Effects SegmentStore::reclaim() {
  participant().require_usable();
  process::SweepOptions options;
  options.warn = false;
  std::vector<Action> taken = process::sweep(participant().mapping(), process::real_clock().now_ns(), options).taken;
  for (const Remains& remains : all_remains(participant().mapping(), process::real_clock().now_ns())) {
    take_away(session_->participant, remains);
  }
  const auto is_ours = [](const Action& a) { return a.name_kind == Kind::lock || a.name_kind == Kind::semaphore; };
  std::erase_if(taken, [&](const Action& a) { return !is_ours(a); });
  const auto order = [](const Action& a) { return std::tie(a.name_kind, a.name, a.token); };
  std::sort(taken.begin(), taken.end(), [&](const Action& a, const Action& b) { return order(a) < order(b); });
  Effects effects;
  std::uint32_t available = 0;
  const Action* before = nullptr;
  for (const Action& a : taken) {
    if (a.name_kind == Kind::semaphore && (before == nullptr || before->name != a.name)) {
      const Seen seen = look(a.name);
      available = seen.semaphores.empty() ? 0 : seen.semaphores.front().available_slots();
    }
    before = &a;
    for (const EventKind kind : {EventKind::lock_reclaimed, EventKind::lock_released}) {
      Event& e = effects.emplace_back(effect(a.name_kind, kind, a.name, process::real_clock().now()));
      e.holder = a.holder;
      e.pid = a.pid;
      e.token = a.token;
      if (kind == EventKind::lock_reclaimed) e.why = a.why;
      if (a.name_kind != Kind::semaphore) continue;
      e.weight = a.weight;
      e.available = available;
    }
  }
  return effects;
}

}  // namespace

std::shared_ptr<Store> store_in_segment(Session& session) {
  return std::make_shared<SegmentStore>(detail::Access::usable_state(session));
}

}  // namespace shmcoord::coordination
