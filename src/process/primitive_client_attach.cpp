#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/entry_text.hpp"
#include "engine/recycling.hpp"
#include "engine/segment_file.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"

// Finding or making the name, joining its quota, and the list of holds.

namespace shmcoord::process {
namespace {

using engine::Kind;
using engine::RealPolicy;
using engine::Safety;
using engine::Step;
using Names = engine::NameIndex<RealPolicy>;

std::string seconds_text(std::int64_t v) { return std::to_string(static_cast<double>(v) / 1e9) + " s"; }
std::string number_text(std::int64_t v) { return std::to_string(v); }

/// What there is, for an error that names both sides.
std::string what_it_is(Kind kind, std::uint32_t capacity, std::uint32_t per_session) {
  if (kind != Kind::semaphore) return "a " + std::string(engine::word_of(kind));
  if (per_session != 0) return "a semaphore with " + std::to_string(per_session) + " permits for each session";
  return "a semaphore with capacity " + std::to_string(capacity);
}

struct Setting {
  const char* name;
  std::string (*text)(std::int64_t);
};
constexpr std::array<Setting, 6> settings{{{"stale_threshold", seconds_text},
                                           {"heartbeat_interval", seconds_text},
                                           {"max_hold_duration", seconds_text},
                                           {"ttl", seconds_text},
                                           {"capacity", number_text},
                                           {"per_session", number_text}}};
using Values = std::array<std::optional<std::int64_t>, settings.size()>;

void require_same(const std::string& title, const Values& wanted, const Values& has) {
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (!wanted[i] || wanted[i] == has[i]) continue;
    const auto text = [&](std::size_t which, const std::optional<std::int64_t>& value) {
      const Setting& s = settings[which];
      return std::string(s.name).append(" ").append(value && *value != 0 ? s.text(*value) : "none");
    };
    // Of the last two it has one or the other.
    const std::size_t other = i == 4 ? 5 : i == 5 ? 4 : i;
    const std::size_t stored = has[i] ? i : other;
    throw Error(Errc::config_differs, title + " exists with " + text(stored, has[stored]) + ", asked for " +
                                          (stored == i ? settings[i].text(*wanted[i]) : text(i, wanted[i])));
  }
}

Values values_of(const NameOptions& options) {
  const auto ns = [](const std::optional<std::chrono::nanoseconds>& d) {
    return d ? std::optional(std::int64_t{d->count()}) : std::nullopt;
  };
  const LockOptions& lease = options.lease;
  return {ns(lease.stale_threshold), ns(lease.heartbeat_interval), ns(lease.max_hold_duration), ns(lease.ttl),
          options.capacity,          options.per_session};
}

void require_options(const NameOptions& options) {
  require_duration("stale_threshold", options.lease.stale_threshold);
  require_duration("heartbeat_interval", options.lease.heartbeat_interval);
  require_duration("max_hold_duration", options.lease.max_hold_duration);
  require_duration("ttl", options.lease.ttl);
  if (options.capacity) require_permits("the capacity", *options.capacity);
  if (options.per_session) require_permits("per_session", *options.per_session);
  if (options.capacity && options.per_session) {
    throw Error(Errc::invalid_argument,
                "a semaphore has a capacity or brings permits per session, not both; give one of them");
  }
}

}  // namespace

Error no_such_name(Kind kind, std::string_view name, const std::string& segment) {
  const std::string quoted(name);
  const auto advice = [&]() -> std::string {
    if (kind == Kind::lock) return "who acquires it makes it, `shmcoord inspect` lists those that there are";
    if (kind == Kind::guard) return "register it first: GuardFlag::add, `shmcoord guard add`";
    if (kind == Kind::pipeline)
      return "`shmcoord pipeline run` begins one, `shmcoord pipeline status` lists those that there are";
    return "create it first, with its capacity: `shmcoord sem create " + quoted + " --capacity N`";
  };
  return {Errc::not_found,
          "no " + std::string(engine::word_of(kind)) + " '" + quoted + "' in segment " + segment + "; " + advice()};
}

std::string PrimitiveClient::title() const { return std::string(engine::word_of(kind_)) + " '" + name_ + "'"; }

PrimitiveClient::PrimitiveClient(std::shared_ptr<Participant> participant, std::string_view name,
                                 const NameOptions& options)
    : participant_(std::move(participant)),
      name_(name),
      kind_(options.kind),
      ops_(participant_->mapping().view(), 0, 0) {
  attach(options);
}

std::unique_ptr<PrimitiveClient> PrimitiveClient::find(std::shared_ptr<Participant> participant, std::string_view name,
                                                       Kind kind) {
  participant->require_usable();
  if (!Names(participant->mapping().view()).find(name)) return nullptr;
  return std::make_unique<PrimitiveClient>(std::move(participant), name, NameOptions{.kind = kind, .joins = false});
}

PrimitiveClient::~PrimitiveClient() {
  if (tick_id_ != 0) participant_->keeper().remove_tick(tick_id_);
  for (const auto& hold : holds_) {
    if (hold->fd >= 0) ::close(hold->fd);
    set_need(*hold, 0);
    // What is still held stays held: the session releases it when it leaves. Only entries out of use go back.
    if (hold->state == Hold::State::idle && hold->entry != engine::nil_entry) participant_->give_back(hold->entry);
  }
  if (share_ == engine::nil_entry) return;
  if (participant_->usable()) (void)ops_.leave(share_);
  participant_->give_back(share_);
}

void PrimitiveClient::attach(const NameOptions& options) {
  participant_->require_usable();
  require_primitive_name(kind_, name_);
  require_options(options);
  const std::scoped_lock lock(record_mutex_);
  engine::NameConfigNs config = config_;
  Values wanted = wanted_;
  const Values given = values_of(options);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i]) wanted[i] = given[i];
  }
  const auto set = [](std::int64_t& to, const std::optional<std::int64_t>& value) {
    if (value) to = *value;
  };
  set(config.stale_threshold_ns, given[0]);
  set(config.heartbeat_interval_ns, given[1]);
  set(config.max_hold_ns, given[2]);
  set(config.ttl_ns, given[3]);
  if (options.per_session) config.per_session = *options.per_session;
  const bool of_everything = kind_ != Kind::semaphore;  // made by naming it
  const auto capacity = of_everything ? whole_lock : static_cast<std::uint32_t>(wanted[4].value_or(0));
  const bool can_make = of_everything || wanted[4] || wanted[5];
  auto& mapping = participant_->mapping();
  for (;;) {
    const std::optional<engine::Found> at = [&]() -> std::optional<engine::Found> {
      const std::scoped_lock one_at_a_time(participant_->names_mutex());
      Names names(mapping.view(), &mapping);
      if (!can_make) return names.find(name_);
      const auto room = [this] { return make_room(); };
      return names.find_or_insert(name_, kind_, capacity, config, participant_->slot(), room).found;
    }();
    if (!at) throw no_such_name(kind_, name_, mapping.name());
    const Ops now(view(), at->record, at->generation);
    (void)now.finish_now();  // a capacity that was changed just now
    const engine::Record& record = now.record();
    const auto kind = static_cast<Kind>(RealPolicy::load(record.kind));
    const auto stored = [](const engine::Word64& word) { return static_cast<std::int64_t>(RealPolicy::load(word)); };
    const std::uint32_t per_session = RealPolicy::load(record.per_session);
    const engine::NameConfigNs has{stored(record.stale_threshold_ns), stored(record.default_ttl_ns),
                                   stored(record.max_hold_ns), stored(record.heartbeat_interval_ns), per_session};
    const std::uint32_t permits = now.capacity();
    const bool current = Names(view()).is_current(*at);
    if (!current && RealPolicy::keeps(Safety::attach_is_current))
      continue;  // recycled: what was read may be another name's
    if (kind != kind_) {
      throw Error(Errc::wrong_type, "'" + name_ + "' exists as " + what_it_is(kind, permits, per_session) +
                                        ", not as a " + std::string(engine::word_of(kind_)));
    }
    const auto or_none = [](std::uint32_t n) { return n == 0 ? std::nullopt : std::optional(std::int64_t{n}); };
    require_same(title(), wanted,
                 {has.stale_threshold_ns, has.heartbeat_interval_ns, has.max_hold_ns, has.ttl_ns,
                  or_none(per_session != 0 ? 0 : permits), or_none(per_session)});
    ops_ = now;
    config_ = has;
    wanted_ = wanted;
    joins_ = joins_ || options.joins;
    if (per_session == 0 || !joins_ || join_quota()) return;
    // It was removed just now.
  }
}

// The share is there as long as the session, or until somebody removes the name by force. False: somebody removed it
// just now. Called under record_mutex_.
bool PrimitiveClient::join_quota() {
  const auto joined = [&] {
    if (share_ == engine::nil_entry) return false;
    const engine::Status s = ops_.status(share_);
    return s.phase == engine::Phase::member && s.record == ops_.index();
  };
  if (joined()) return true;
  auto& mapping = participant_->mapping();
  if (share_ == engine::nil_entry) share_ = participant_->take_entry();
  engine::Entry& e = view().entry(share_);
  (void)engine::write_texts(view(), mapping, share_, "", "");
  RealPolicy::store(e.flags, engine::entry_implicit);
  ops_.set_weight(share_, config_.per_session);
  const Step step = ops_.join(share_).step;
  if (step == Step::joined) return true;
  participant_->give_back(std::exchange(share_, engine::nil_entry));
  if (step == Step::closed) return false;
  if (step != Step::impossible) fail(step);
  throw Error(Errc::table_full, title() + ": the permits of all sessions together would be more than " +
                                    std::to_string(core::max_capacity));
}

// The table of names is full: idle ones are given up; if there is none, some may be held by the dead.
bool PrimitiveClient::make_room() noexcept {
  try {
    const auto recycle = [this] { return engine::recycle_names<RealPolicy>(view(), participant_->slot()); };
    if (recycle()) return true;
    (void)sweep(participant_->mapping(), real_clock().now_ns());
    return recycle();
  } catch (...) {
    return false;  // a damaged segment, no memory: the table is full, as far as we can help it
  }
}

void PrimitiveClient::attach_again(Hold& hold) {
  attach(NameOptions{.kind = kind_, .joins = false});
  const Ops now = ops();
  const std::scoped_lock lock(mutex_);
  hold.ops = now;
  hold.prepared = false;
}

bool PrimitiveClient::idle() {
  {
    const std::scoped_lock lock(record_mutex_);
    if (share_ != engine::nil_entry) return false;  // it goes with the session
  }
  const std::scoped_lock lock(mutex_);
  return std::all_of(holds_.begin(), holds_.end(), [](const auto& hold) {
    return !hold->implicit && hold->state == Hold::State::idle && !hold->busy && !hold->lost && hold->fd < 0;
  });
}

// --- the list --------------------------------------------------------------------------------------------------------

Hold* PrimitiveClient::find_hold(std::string_view holder) {
  for (const auto& hold : holds_) {
    if (!hold->implicit && !hold->detached && !hold->part && hold->holder == holder) return hold.get();
  }
  return nullptr;
}

Hold& PrimitiveClient::hold_of(std::string_view holder, bool detached, bool part) {
  if (!detached && !part) {
    if (Hold* const hold = find_hold(holder)) return *hold;
  }
  Hold* const idle = [&]() -> Hold* {
    for (const auto& hold : holds_) {
      const bool unused =  // of an implicit one nothing else may be read: it is its thread's
          !hold->implicit && hold->state == Hold::State::idle && !hold->busy && !hold->lost && hold->fd < 0;
      if (unused && hold->detached == detached && hold->part == part) return hold.get();
    }
    return nullptr;
  }();
  Hold& hold = idle != nullptr ? *idle : *holds_.emplace_back(std::make_unique<Hold>(ops()));
  hold.holder = holder;
  hold.detached = detached;
  hold.part = part;
  return hold;
}

void PrimitiveClient::finish_hold(Hold& hold) noexcept {
  hold.state = Hold::State::idle;
  set_need(hold, 0);
  if (hold.fd >= 0) ::close(std::exchange(hold.fd, -1));
}

void PrimitiveClient::set_need(Hold& hold, std::int64_t ttl_ns) noexcept {
  const std::int64_t need = ttl_ns / 3;
  if (need == hold.beat_need_ns || participant_->manual_heartbeat()) return;
  if (hold.beat_need_ns != 0) participant_->keeper().drop_interval(hold.beat_need_ns);
  hold.beat_need_ns = need;
  if (need != 0) participant_->keeper().need_interval(need);
}

// Of one that was removed.
std::string PrimitiveClient::make_anew_text() const {
  return kind_ == Kind::lock ? "; acquire it again to make it anew"
                             : "; create it again, or open it with its capacity, and then acquire it";
}

void PrimitiveClient::fail(engine::Step step) const {
  switch (step) {
    case Step::closed:
      throw Error(Errc::name_removed, title() + " was removed while it was waited for" + make_anew_text());
    case Step::exhausted: {
      const bool reserved = engine::RealPolicy::load(participant_->mapping().view().header().token_reserved) != 0;
      throw Error(Errc::table_full, title() + " has given out all of its tokens" +
                                        (reserved ? " that the last snapshot reserved; save the segment again" : ""));
    }
    default:
      throw Error(Errc::segment_corrupt, "segment " + participant_->mapping().path() + ": the state of " + title() +
                                             " is damaged; `shmcoord segment check` says more");
  }
}

}  // namespace shmcoord::process
