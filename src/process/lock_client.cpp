#include "process/lock_client.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/recycling.hpp"
#include "engine/segment_file.hpp"
#include "process/bound_watch.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/liveness.hpp"
#include "process/lock_arguments.hpp"
#include "process/recovery.hpp"

// Attaching and acquiring. Ending and losing a hold: lock_client_hold.cpp; looking: lock_client_look.cpp.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::Safety;
using engine::Step;
using Names = engine::NameIndex<RealPolicy>;

std::int64_t ns(std::chrono::nanoseconds d) { return d.count(); }

std::string seconds_text(std::int64_t v) { return std::to_string(static_cast<double>(v) / 1e9) + " s"; }

void require_same(const std::string& name, const std::array<std::optional<std::int64_t>, 4>& wanted,
                  const engine::LockConfigNs& has) {
  const std::array<std::pair<const char*, std::int64_t>, 4> stored{{{"stale_threshold", has.stale_threshold_ns},
                                                                    {"heartbeat_interval", has.heartbeat_interval_ns},
                                                                    {"max_hold_duration", has.max_hold_ns},
                                                                    {"ttl", has.ttl_ns}}};
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto& [what, value] = stored[i];
    if (!wanted[i] || *wanted[i] == value) continue;
    throw Error(Errc::config_differs, "lock '" + name + "' exists with " + what + " " +
                                          (value == 0 ? "none" : seconds_text(value)) + ", asked for " +
                                          seconds_text(*wanted[i]));
  }
}

}  // namespace

// What a waiter is told of the world around it (engine/wait.hpp), and what a try does about a holder that is gone.
struct LockClient::Around {
  LockClient& client;
  Hold& hold;
  const std::stop_token& stop;
  bool robbed = false;
  std::optional<BoundWatch> bound;

  bool bury(engine::SlotIndex slot, std::int64_t elapsed_ns) noexcept {
    try {
      const auto& mapping = client.participant_->mapping();
      const auto id = engine::unpack_slot(RealPolicy::load(mapping.view().slot(slot).id));
      // Reading /proc sees earlier that a large process is gone, but costs the exit of a small one more than it gains.
      const Look look = elapsed_ns < 500'000 ? Look::quick : Look::thorough;
      if (life_of(mapping, slot, look).life != Life::dead) return false;
      if (!process::bury(mapping, slot, id.incarnation)) return false;
      robbed = true;
      return true;
    } catch (...) {
      return false;  // no memory, a damaged segment: the second look, or somebody else, will do
    }
  }

  std::int64_t check_holders(const engine::ControlOps<RealPolicy>&) noexcept {
    const std::int64_t now = real_clock().now_ns();
    std::int64_t again = now + engine::recheck_ns;
    try {
      rob(now);
      const auto holder = client.look(hold.ops).holder;
      if (!holder) return again;
      again = std::min(again, next_lease_deadline(client.view(), hold.ops.index(), holder->entry));
      watch_bound(holder->entry);
    } catch (...) {
      again = now + engine::recheck_ns;  // no memory, a damaged segment: the next look, or somebody else
    }
    return std::max(again, now + 1'000'000);
  }

  // Takes the lock from a holder that is dead or whose lease ran out. True: it did.
  bool rob(std::int64_t now) {
    const Participant::Helping helping(*client.participant_, hold.ops.index());
    const auto holder = client.look(hold.ops).holder;
    if (!holder) return false;
    auto& mapping = client.participant_->mapping();
    const std::uint64_t owner = RealPolicy::load(mapping.view().owner_of(holder->entry));
    if (owner == 0) return false;
    const engine::ChunkOwner who = engine::unpack_owner(owner);
    if (who.slot == client.participant_->slot() && who.incarnation == client.participant_->incarnation()) {
      // Our own hold: alive, but its lease may have run out all the same.
    } else if (who.slot == engine::detached_slot) {
      if (life_of_entry(mapping, holder->entry).life == Life::dead) {
        mapping.prepare_notice(hold.ops.index(), holder->entry);
        const auto r = hold.ops.reclaim(holder->entry, [](const engine::Entry&) { return Loss::died; });
        tidy_detached(mapping.view(), holder->entry);
        return take_note(r.step == Step::reclaimed);
      }
    } else if (life_of(mapping, who.slot, who.incarnation).life == Life::dead) {
      return take_note(process::bury(mapping, who.slot, who.incarnation));
    }
    const auto r = reclaim_lease(mapping, hold.ops.index(), holder->entry, now);
    if (r.step == Step::reclaimed && who.slot == engine::detached_slot) tidy_detached(mapping.view(), holder->entry);
    return take_note(r.step == Step::reclaimed);
  }

  bool take_note(bool done) noexcept {
    robbed = robbed || done;
    return done;
  }

  // A detached holder bound to a process: nobody's life word speaks for it, so a pidfd does.
  void watch_bound(engine::EntryIndex entry) {
    const engine::Entry& e = client.view().entry(entry);
    const std::int32_t pid = RealPolicy::get(e.bound_pid);
    if (pid == 0 || (bound && bound->pid() == pid)) return;
    engine::Entry& mine = client.view().entry(hold.entry);
    bound.emplace(pid, RealPolicy::get(e.bound_start_time), RealPolicy::get(e.bound_pid_namespace),
                  [&mine] { engine::Waiter<RealPolicy, Around>::interrupt(mine); });
  }

  bool stop_requested() const noexcept { return stop.stop_requested(); }
  bool usable() const noexcept { return client.participant_->usable(); }
  engine::SlotIndex self() const noexcept { return client.participant_->slot(); }
};

// Ends `busy` of a Hold that the caller made busy.
struct LockClient::Busy {
  Busy(LockClient& of, Hold& which) noexcept : client(of), hold(which) {}
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    const std::scoped_lock lock(client.mutex_);
    hold.busy = false;
    client.idle_.notify_all();
  }

  LockClient& client;
  Hold& hold;
};

// --- attaching -------------------------------------------------------------------------------------------------------

LockClient::LockClient(std::shared_ptr<Participant> participant, std::string_view name, const LockOptions& options)
    : participant_(std::move(participant)), name_(name), ops_(participant_->mapping().view(), 0, 0) {
  attach(options);
}

std::unique_ptr<LockClient> LockClient::find(std::shared_ptr<Participant> participant, std::string_view name) {
  participant->require_usable();
  if (!Names(participant->mapping().view()).find(name)) return nullptr;
  return std::make_unique<LockClient>(std::move(participant), name, LockOptions{});
}

void LockClient::attach(const LockOptions& options) {
  participant_->require_usable();
  require_lock_name(name_);
  require_duration("stale_threshold", options.stale_threshold);
  require_duration("heartbeat_interval", options.heartbeat_interval);
  require_duration("max_hold_duration", options.max_hold_duration);
  require_duration("ttl", options.ttl);
  const std::scoped_lock lock(record_mutex_);
  engine::LockConfigNs config = config_;
  auto wanted = wanted_;
  const std::array<std::pair<const std::optional<std::chrono::nanoseconds>*, std::int64_t*>, 4> given{
      {{&options.stale_threshold, &config.stale_threshold_ns},
       {&options.heartbeat_interval, &config.heartbeat_interval_ns},
       {&options.max_hold_duration, &config.max_hold_ns},
       {&options.ttl, &config.ttl_ns}}};
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (*given[i].first) wanted[i] = *given[i].second = ns(**given[i].first);
  }
  auto& mapping = participant_->mapping();
  for (;;) {
    const Names::Inserted at = [&] {
      const std::scoped_lock one_at_a_time(participant_->names_mutex());
      return Names(mapping.view(), &mapping)
          .find_or_insert(name_, engine::Kind::lock, 1, config, participant_->slot(), [this] { return make_room(); });
    }();
    const engine::Record& record = view().record(at.found.record);
    const auto kind = static_cast<engine::Kind>(RealPolicy::load(record.kind));
    const auto stored = [](const engine::Word64& word) { return static_cast<std::int64_t>(RealPolicy::load(word)); };
    const engine::LockConfigNs has{stored(record.stale_threshold_ns), stored(record.default_ttl_ns),
                                   stored(record.max_hold_ns), stored(record.heartbeat_interval_ns)};
    const bool current = Names(view()).is_current(at.found);
    if (!current && RealPolicy::keeps(Safety::attach_is_current))
      continue;  // recycled: what was read may be another name's
    if (kind != engine::Kind::lock) {
      throw Error(Errc::wrong_type, "'" + name_ + "' exists as a semaphore, not as a lock");
    }
    require_same(name_, wanted, has);
    ops_ = Ops(view(), at.found.record, at.found.generation);
    config_ = has;
    wanted_ = wanted;
    return;
  }
}

// The table of names is full: idle ones are given up; if there is none, some may be held by the dead.
bool LockClient::make_room() noexcept {
  try {
    const auto recycle = [this] { return engine::recycle_names<RealPolicy>(view(), participant_->slot()); };
    if (recycle()) return true;
    (void)sweep(participant_->mapping(), real_clock().now_ns());
    return recycle();
  } catch (...) {
    return false;  // a damaged segment, no memory: the table is full, as far as we can help it
  }
}

void LockClient::attach_again(Hold& hold) {
  attach(LockOptions{});
  const Ops now = ops();
  const std::scoped_lock lock(mutex_);
  hold.ops = now;
  hold.prepared = false;
}

bool LockClient::idle() {
  const std::scoped_lock lock(mutex_);
  return std::all_of(holds_.begin(), holds_.end(), [](const auto& hold) {
    return !hold->implicit && hold->state == Hold::State::idle && !hold->busy && !hold->lost && hold->fd < 0;
  });
}

LockClient::~LockClient() {
  if (tick_id_ != 0) participant_->keeper().remove_tick(tick_id_);
  for (const auto& hold : holds_) {
    if (hold->fd >= 0) ::close(hold->fd);
    set_need(*hold, 0);
    // What is still held stays held: the session releases it when it leaves. Only entries out of use go back.
    if (hold->state == Hold::State::idle && hold->entry != engine::nil_entry) participant_->give_back(hold->entry);
  }
}

// --- acquiring -------------------------------------------------------------------------------------------------------

AcquireOutcome LockClient::acquire(const Request& request, std::int64_t deadline_ns, const std::stop_token& stop) {
  participant_->require_usable();
  require_holder(request.holder);
  require_reason(request.reason);
  require_duration("ttl", request.ttl);
  if (request.detached) {
    if (const auto theirs = detached_hold(request.holder)) {
      // The id alone is the identity of a detached hold (C-50): this call extends what an earlier process acquired.
      // What it ends with cannot be changed while others may be looking at it, and must not differ in silence.
      if (const std::int32_t bound = RealPolicy::get(view().entry(theirs->entry).bound_pid);
          bound != request.bound_pid) {
        throw Error(
            Errc::config_differs,
            "lock '" + name_ + "' is held by '" + std::string(request.holder) + "' already, " +
                (bound == 0 ? std::string("bound to no process") : "until process " + std::to_string(bound) + " ends") +
                "; release it first, or use another holder id");
      }
      (void)heartbeat(request.holder, request.ttl);
      if (request.reason) change_reason(theirs->entry, request);
      return {AcquireResult::extended, theirs->token, std::nullopt, std::nullopt};
    }
  }
  std::unique_lock lock(mutex_);
  Hold& hold = hold_of(request.holder, request.detached);
  const auto free = [&] { return !hold.busy; };
  if (!free()) {
    if (deadline_ns == try_once) {
      lock.unlock();
      return not_held(AcquireResult::busy);
    }
    // Another thread waits for the same holder; its outcome is ours.
    const auto left = std::chrono::nanoseconds(deadline_ns == no_deadline ? longest_duration.count()
                                                                          : deadline_ns - real_clock().now_ns());
    if (!idle_.wait_for(lock, stop, left, free)) {
      lock.unlock();
      return not_held(stop.stop_requested() ? AcquireResult::cancelled : AcquireResult::timed_out);
    }
  }
  hold.lost.reset();
  if (hold.state == Hold::State::held) {
    if (!settle_loss(hold)) {
      if (auto extended = extend(hold, request)) return *std::move(extended);
    }
    hold.lost.reset();  // acquiring anew; nobody asked about the old hold
  }
  hold.busy = true;
  lock.unlock();
  const Busy busy{*this, hold};
  return acquire_with(hold, request, deadline_ns, stop);
}

AcquireOutcome LockClient::acquire_with(Hold& hold, const Request& request, std::int64_t deadline_ns,
                                        const std::stop_token& stop) {
  Around around{*this, hold, stop, false, std::nullopt};
  for (;;) {
    if (hold.state != Hold::State::waiting) {
      prepare(hold, request);
      engine::Result r{Step::busy};
      if (deadline_ns == try_once) {
        for (;;) {
          const std::uint64_t before = RealPolicy::load_seq(hold.ops.record().control);
          r = hold.ops.try_acquire(hold.entry, 1, hold.start_ns());
          if (r.step != Step::busy) break;
          const bool robbed = around.rob(real_clock().now_ns());
          const core::Control now = hold.ops.load();
          // Or somebody else buried the holder just now, and nobody has it any more.
          if (!robbed && (!core::idle(now) || now.seq == before)) break;
          // Who was robbed was robbed of this word, unless its entry only looks like the holder's.
          if (now.seq == before) fail(Step::corrupt);
        }
      } else {
        // Whatever is wrong with the holder, the wait looks after it; in the queue we have our place meanwhile.
        r = hold.ops.acquire_or_queue(hold.entry, 1, hold.start_ns());
      }
      if (r.step == Step::acquired) return now_held(hold, r.seq, around.robbed);
      if (r.step == Step::busy) return not_held(AcquireResult::busy);
      if (r.step == Step::closed) {
        attach_again(hold);
        continue;
      }
      if (r.step != Step::queued) fail(r.step);
      const std::scoped_lock lock(mutex_);
      hold.state = Hold::State::waiting;
    }
    (void)hold.ops.finish_now();  // an entry of wait_fd() may be acquired and not finished
    if (deadline_ns == try_once && hold.ops.status(hold.entry).phase == engine::Phase::waiting) {
      return not_held(AcquireResult::busy);  // it keeps its place in the queue
    }
    engine::Entry& entry = view().entry(hold.entry);
    engine::WaitEnd end{};
    {
      const std::stop_callback wake(stop, [&entry] { engine::Waiter<RealPolicy, Around>::interrupt(entry); });
      end = engine::Waiter<RealPolicy, Around>(hold.ops, hold.entry, around).wait(deadline_ns, hold.spin);
    }
    std::uint64_t token = 0;
    if (end == engine::WaitEnd::granted) {
      token = engine::seq_of_stamp(hold.ops.status(hold.entry).stamp, RealPolicy::load_seq(hold.ops.record().control));
    } else {
      const engine::Result r = hold.ops.cancel(hold.entry);
      if (r.step == Step::granted) token = r.seq;  // the grant won
    }
    {
      const std::scoped_lock lock(mutex_);  // who asks for the place in the queue looks at both
      hold.state = Hold::State::idle;
      hold.token = token;
    }
    if (token != 0) {
      if (hold.ops.holds(hold.entry, token)) {
        require_segment(hold, token);
        return now_held(hold, token, around.robbed);
      }
      RealPolicy::store(entry.status, 0);  // granted and lost again before we woke: queue anew
      if (end == engine::WaitEnd::granted) continue;
    }
    switch (end) {
      case engine::WaitEnd::timed_out: return not_held(AcquireResult::timed_out);
      case engine::WaitEnd::stopped: return not_held(AcquireResult::cancelled);
      case engine::WaitEnd::granted:
      case engine::WaitEnd::impossible:
      case engine::WaitEnd::closed:
      case engine::WaitEnd::unusable: participant_->require_usable(); fail(Step::closed);
    }
  }
}

// The file of a lock that was waited for may have been deleted: no hold begins where the next users do not look.
void LockClient::require_segment(const Hold& hold, std::uint64_t token) {
  const auto& mapping = participant_->mapping();
  if (!RealPolicy::keeps(Safety::file_is_the_same)) return;
  if (mapping.check_identity() == engine::Mapping::Identity::same) return;
  (void)hold.ops.release(hold.entry, token);
  throw Error(Errc::segment_gone,
              "segment " + mapping.path() + " was removed or replaced while lock '" + name_ + "' was waited for");
}

void LockClient::prepare(Hold& hold, const Request& request) {
  auto& mapping = participant_->mapping();
  if (hold.implicit && hold.prepared) return;  // nothing about it changes while the record is the same
  if (hold.entry == engine::nil_entry) {
    const engine::EntryIndex taken = hold.detached ? participant_->take_detached_entry() : participant_->take_entry();
    const std::scoped_lock lock(mutex_);
    hold.entry = taken;
  }
  engine::Entry& e = view().entry(hold.entry);
  static thread_local const auto thread = static_cast<std::uint32_t>(::gettid());
  RealPolicy::set(e.thread, thread);
  if (!engine::write_texts(view(), mapping, hold.entry, request.holder, request.reason.value_or(""))) {
    throw Error(Errc::no_space, "no space left in the file system of " + mapping.path() + " for the reason");
  }
  const std::uint32_t flags =
      (hold.implicit ? engine::entry_implicit : 0U) | (hold.detached ? engine::entry_detached : 0U) |
      (request.no_lease ? engine::entry_no_lease : 0U) | (hold.fd >= 0 ? engine::entry_async : 0U);
  RealPolicy::store(e.flags, flags);
  RealPolicy::store(e.weight, 1);
  RealPolicy::store(e.wake, engine::wake_awake);
  RealPolicy::store(e.heartbeat_ns, 0);
  const std::int64_t ttl = request.no_lease ? 0 : request.ttl ? ns(*request.ttl) : default_ttl_ns();
  RealPolicy::store(e.ttl_ns, static_cast<std::uint64_t>(ttl));
  bind(e, request.bound_pid);
  hold.start_is_judged = ttl != 0 || hold.detached || participant_->manual_heartbeat() ||
                         RealPolicy::load(hold.ops.record().max_hold_ns) != 0;
  set_need(hold, ttl);
  hold.prepared = true;
}

AcquireOutcome LockClient::now_held(Hold& hold, std::uint64_t token, bool robbed) {
  AcquireOutcome outcome{AcquireResult::acquired, token, take_previous(hold.ops, token), std::nullopt};
  RealPolicy::store(view().entry(hold.entry).token, token);
  if (robbed && outcome.previous) outcome.result = AcquireResult::reclaimed;
  if (hold.detached) {
    // From here on the hold is not ours. Its word is finished first, since nobody will finish it for a session that
    // left.
    (void)hold.ops.finish_now();
    const engine::EntryIndex entry = std::exchange(hold.entry, engine::nil_entry);
    hold.state = Hold::State::idle;
    if (!participant_->commit_detached(entry)) throw Error(Errc::session_dead, "the session died while it acquired");
    return outcome;
  }
  const std::scoped_lock lock(mutex_);
  hold.token = token;
  hold.told_lost = false;
  hold.state = Hold::State::held;
  return outcome;
}

AcquireOutcome LockClient::not_held(AcquireResult result) { return {result, 0, std::nullopt, holder()}; }

// Nothing: the hold was lost this very moment.
std::optional<AcquireOutcome> LockClient::extend(Hold& hold, const Request& request) {
  if (request.ttl) set_need(hold, ns(*request.ttl));
  const engine::Result r = beat(hold.ops, hold.entry, hold.token, request.ttl);
  if (r.step != Step::refreshed) {
    if (!settle_loss(hold)) fail(Step::corrupt);
    return std::nullopt;
  }
  if (request.reason) change_reason(hold.entry, request);
  return AcquireOutcome{AcquireResult::extended, hold.token, std::nullopt, std::nullopt};
}

void LockClient::change_reason(engine::EntryIndex entry, const Request& request) {
  auto& mapping = participant_->mapping();
  if (engine::write_texts(view(), mapping, entry, request.holder, *request.reason)) return;
  throw Error(Errc::no_space, "no space left in the file system of " + mapping.path() +
                                  " for the new reason; the hold is extended and keeps its old one");
}

// --- the implicit holder ---------------------------------------------------------------------------------------------

Hold& LockClient::new_implicit() {
  const std::scoped_lock lock(mutex_);
  Hold& hold = *holds_.emplace_back(std::make_unique<Hold>(ops()));
  hold.implicit = true;
  return hold;
}

bool LockClient::lock_implicit(Hold& hold, std::int64_t deadline_ns) {
  participant_->require_usable();
  hold.lost.reset();
  hold.previous.reset();
  AcquireOutcome outcome = acquire_with(hold, Request{}, deadline_ns, std::stop_token{});
  hold.previous = std::move(outcome.previous);
  return is_held(outcome.result);
}

void LockClient::unlock_implicit(Hold& hold) noexcept {
  hold.state = Hold::State::idle;
  // In a forked child, or after leaving, it is not ours to give back: the word may still say that our entry holds.
  if (!participant_->usable()) return;
  const Step step = hold.ops.release(hold.entry, hold.token).step;
  if (step == Step::gone || step == Step::closed) {
    RealPolicy::store(view().entry(hold.entry).status, 0);  // lost meanwhile: ours to use again
  }
}

void LockClient::retire_implicit(Hold& hold) noexcept {
  if (hold.state == Hold::State::held) unlock_implicit(hold);
  const std::scoped_lock lock(mutex_);
  if (hold.entry != engine::nil_entry) participant_->give_back(hold.entry);
  std::erase_if(holds_, [&hold](const auto& h) { return h.get() == &hold; });
}

// --- pollable --------------------------------------------------------------------------------------------------------

int LockClient::wait_fd(const Request& request) {
  participant_->require_usable();
  need_tick();
  const int fd = queue_async(request);
  participant_->keeper().poke();  // it may be granted already
  return fd;
}

int LockClient::queue_async(const Request& request) {
  participant_->require_usable();
  require_holder(request.holder);
  require_reason(request.reason);
  require_duration("ttl", request.ttl);
  std::unique_lock lock(mutex_);
  Hold& hold = hold_of(request.holder, false);
  if (hold.busy) throw Error(Errc::in_use, "another thread waits for lock '" + name_ + "' as this holder");
  hold.busy = true;
  lock.unlock();
  const Busy busy{*this, hold};
  if (hold.fd < 0) {
    hold.fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hold.fd < 0) throw Error(Errc::system, std::string("eventfd: ") + std::strerror(errno));
  }
  if (hold.state == Hold::State::held && settle_loss(hold)) hold.lost.reset();
  if (hold.state == Hold::State::idle) {
    engine::Result r{Step::closed};
    for (;;) {
      prepare(hold, request);
      r = hold.ops.acquire_or_queue(hold.entry, 1, hold.start_ns());
      if (r.step != Step::closed) break;
      attach_again(hold);
    }
    if (r.step != Step::acquired && r.step != Step::queued) fail(r.step);
    hold.state = Hold::State::waiting;  // acquire() takes it over, also when it is granted already
  }
  return hold.fd;
}

void LockClient::cancel_wait(std::string_view holder) {
  participant_->require_usable();
  const std::scoped_lock lock(mutex_);
  Hold* const hold = find_hold(holder);
  if (hold == nullptr || hold->fd < 0 || hold->busy) return;
  if (hold->state == Hold::State::waiting) {
    const engine::Result r = hold->ops.cancel(hold->entry);
    if (r.step == Step::granted) (void)hold->ops.release(hold->entry, r.seq);
    hold->state = Hold::State::idle;
  }
  finish_hold(*hold);
}

// The keeper looks at this lock only once there is somebody to tell.
void LockClient::need_tick() {
  const std::scoped_lock lock(mutex_);
  if (tick_id_ == 0) tick_id_ = participant_->keeper().add_tick([this] { tick(); });
}

// --- the list --------------------------------------------------------------------------------------------------------

Hold* LockClient::find_hold(std::string_view holder) {
  for (const auto& hold : holds_) {
    if (!hold->implicit && !hold->detached && hold->holder == holder) return hold.get();
  }
  return nullptr;
}

Hold& LockClient::hold_of(std::string_view holder, bool detached) {
  if (!detached) {
    if (Hold* const hold = find_hold(holder)) return *hold;
  }
  Hold* const idle = [&]() -> Hold* {
    for (const auto& hold : holds_) {
      const bool unused =  // of an implicit one nothing else may be read: it is its thread's
          !hold->implicit && hold->state == Hold::State::idle && !hold->busy && !hold->lost && hold->fd < 0;
      if (unused && hold->detached == detached) return hold.get();
    }
    return nullptr;
  }();
  Hold& hold = idle != nullptr ? *idle : *holds_.emplace_back(std::make_unique<Hold>(ops()));
  hold.holder = holder;
  hold.detached = detached;
  return hold;
}

void LockClient::finish_hold(Hold& hold) noexcept {
  hold.state = Hold::State::idle;
  set_need(hold, 0);
  if (hold.fd >= 0) ::close(std::exchange(hold.fd, -1));
}

void LockClient::set_need(Hold& hold, std::int64_t ttl_ns) noexcept {
  const std::int64_t need = ttl_ns / 3;
  if (need == hold.beat_need_ns || participant_->manual_heartbeat()) return;
  if (hold.beat_need_ns != 0) participant_->keeper().drop_interval(hold.beat_need_ns);
  hold.beat_need_ns = need;
  if (need != 0) participant_->keeper().need_interval(need);
}

void LockClient::fail(engine::Step step) const {
  switch (step) {
    case Step::closed: throw Error(Errc::name_removed, "lock '" + name_ + "' was removed while it was waited for");
    case Step::exhausted: throw Error(Errc::table_full, "lock '" + name_ + "' has given out all of its tokens");
    default:
      throw Error(Errc::segment_corrupt, "segment " + participant_->mapping().path() + ": the state of lock '" + name_ +
                                             "' is damaged; `shmcoord segment check` says more");
  }
}

}  // namespace shmcoord::process
