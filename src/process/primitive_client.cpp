#include "process/primitive_client.hpp"

#include <unistd.h>

#include <algorithm>
#include <list>
#include <utility>

#include "engine/bury_entry.hpp"
#include "engine/entry_text.hpp"
#include "engine/segment_file.hpp"
#include "process/bound_watch.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/recovery.hpp"
#include "process/telling.hpp"

// Acquiring. Attaching: primitive_client_attach.cpp; ending and losing a hold: primitive_client_hold.cpp; looking, and
// what is done about holders that are gone: primitive_client_look.cpp; descriptors: primitive_client_poll.cpp.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::Safety;
using engine::Step;

// A hundred hand-offs or so, and less than the keeper leaves between two looks at the file.
constexpr std::int64_t long_wait_ns = 1'000'000;

std::int64_t ns(std::chrono::nanoseconds d) { return d.count(); }

}  // namespace

// What a waiter is told of the world around it (engine/wait.hpp), and what a try does about holders that are gone.
struct PrimitiveClient::Around {
  PrimitiveClient& client;
  Hold& hold;
  engine::EntryIndex whole;  // the holder's own hold, if this is a part of it: not robbed for its own sake (C-10)
  const std::stop_token& stop;
  bool robbed = false;
  std::list<BoundWatch> bound = {};
  std::int64_t began_ns = 0;

  static constexpr std::size_t most_bound = 4;  // each costs a thread; the look once a second has to do for the others

  bool bury(engine::SlotIndex slot, std::int64_t elapsed_ns) noexcept {
    try {
      const auto& mapping = client.participant_->mapping();
      const auto id = engine::unpack_slot(RealPolicy::load(mapping.view().slot(slot).id));
      // A thorough look sees at once that a process is exiting, long before a large one has given back its memory; the
      // second look is for when it was too early.
      const bool thorough = elapsed_ns == 0 || elapsed_ns > 500'000;
      if (!declare_dead(mapping, slot, id.incarnation, thorough ? Look::thorough : Look::quick)) return false;
      robbed = true;
      // What is in our way first. If that was all that we waited for, the ring buries the rest, however much it is. Not
      // of a quota: the dead one's share goes before its permits come back.
      if (RealPolicy::load(hold.ops.record().per_session) == 0) {
        bury_before_us(engine::pack_owner({slot, id.incarnation}));
      }
      return is_granted() || process::bury(mapping, slot, id.incarnation);
    } catch (...) {
      return false;  // no memory, a damaged segment: the second look, or somebody else, will do
    }
  }

  void bury_before_us(std::uint64_t owner) const {
    const auto& mapping = client.participant_->mapping();
    const engine::View& view = mapping.view();
    const auto bury_one = [&](engine::EntryIndex entry) {
      if (RealPolicy::load(view.owner_of(entry)) != owner) return;
      mapping.prepare_notice(hold.ops.index(), entry);
      engine::bury_entry<RealPolicy>(view, entry, owner, engine::Burial::dead);
    };
    const Participant::Helping helping(*client.participant_, hold.ops.index());
    (void)hold.ops.finish_now();
    // Of many holders the dead one's would have to be searched for.
    if (const Seen seen = client.look(hold.ops); seen.holder) bury_one(seen.holder->entry);
  }
  bool is_granted() const noexcept {
    const engine::Phase phase = hold.ops.status(hold.entry).phase;
    return phase == engine::Phase::held || phase == engine::Phase::marked;
  }

  std::int64_t check_holders(const engine::ControlOps<RealPolicy>& ops, engine::Watched& watched) noexcept {
    const std::int64_t now = real_clock().now_ns();
    std::int64_t again = now + engine::recheck_ns;
    try {
      // Who is not at the head looks in case that one cannot. Where several hold, that is a search through all entries,
      // and of this session's waiters one is enough, or thousands would search for each other all the time.
      const bool head = ops.head_of(ops.load()).entry == hold.entry;
      if (!head && client.look(ops).more && !client.searches_now(now)) return again;
      rob(now);
      client.each_holder(hold.ops, [&](const Current& holder) {
        again = std::min(again, next_lease_deadline(client.view(), hold.ops.index(), holder.entry));
        watched.add(client.view(), RealPolicy::load(client.view().owner_of(holder.entry)));
        watch_bound(holder.entry);
      });
    } catch (...) {
      again = now + engine::recheck_ns;  // no memory, a damaged segment: the next look, or somebody else
    }
    look_for_deadlocks(now);
    return std::max(again, now + 1'000'000);
  }

  // Who waits for long looks for a circle of waits, for all threads of the session.
  void look_for_deadlocks(std::int64_t now) noexcept {
    DeadlockWatch* const watch = client.participant_->deadlocks();
    if (began_ns == 0) began_ns = now;
    if (watch == nullptr || now - began_ns < DeadlockWatch::patience_ns) return;
    try {
      watch->look(*client.participant_, now);
    } catch (...) {  // no memory, or a damaged segment: the wait goes on
    }
  }
  bool deadlocked() const noexcept {
    DeadlockWatch* const watch = client.participant_->deadlocks();
    return watch != nullptr && watch->is_told(hold.entry, RealPolicy::load(client.view().entry(hold.entry).status));
  }

  // Takes away from holders that are dead or whose lease ran out. True: it did. A wait looks thoroughly at the dying by
  // itself (bury), and again; a try has only this look.
  bool rob(std::int64_t now, Look look = Look::quick) {
    const Participant::Helping helping(*client.participant_, hold.ops.index());
    bool some = false;
    client.each_holder(hold.ops, [&](const Current& holder) {
      if (holder.entry != whole) some = client.rob_one(holder, now, look) || some;
    });
    robbed = robbed || some;
    return some;
  }

  // A detached holder bound to a process: nobody's life word speaks for it, so a pidfd does.
  void watch_bound(engine::EntryIndex entry) {
    const engine::Entry& e = client.view().entry(entry);
    const std::int32_t pid = RealPolicy::get(e.bound_pid);
    const auto watches = [pid](const BoundWatch& b) { return b.pid() == pid; };
    if (pid == 0 || bound.size() >= most_bound || std::any_of(bound.begin(), bound.end(), watches)) return;
    engine::Entry& mine = client.view().entry(hold.entry);
    bound.emplace_back(pid, RealPolicy::get(e.bound_start_time), RealPolicy::get(e.bound_pid_namespace),
                       [&mine] { engine::Waiter<RealPolicy, Around>::interrupt(mine); });
  }

  bool stop_requested() const noexcept { return stop.stop_requested(); }
  bool usable() const noexcept { return client.participant_->usable(); }
  engine::SlotIndex self() const noexcept { return client.participant_->slot(); }
};

Answer PrimitiveClient::acquire(const Request& request, std::int64_t deadline_ns, const std::stop_token& stop) {
  participant_->require_usable();
  require_holder(request.holder);
  require_permits("the weight", request.weight);
  require_reason(request.reason);
  require_duration("ttl", request.ttl);
  if (request.detached) {
    if (auto theirs = extend_detached(request, deadline_ns, stop)) return *std::move(theirs);
  }
  std::unique_lock lock(mutex_);
  Hold& hold = hold_of(request.holder, request.detached);
  const auto free = [&] { return !hold.busy; };
  // What it has it still has, also while another thread of it waits for more.
  const auto refused = [&](AcquireResult result) {
    const bool has = hold.state == Hold::State::held;
    const std::uint32_t weight = has ? hold.weight : 0;
    const std::uint64_t token = has && kind_ != engine::Kind::lock ? hold.token : 0;
    lock.unlock();
    Answer answer = not_held(hold, result);
    answer.weight = weight;
    answer.token = token;
    return answer;
  };
  if (!free()) {
    if (deadline_ns == try_once) return refused(AcquireResult::busy);
    // Another thread waits for the same holder; its outcome is ours.
    const auto left = std::chrono::nanoseconds(deadline_ns == no_deadline ? longest_duration.count()
                                                                          : deadline_ns - real_clock().now_ns());
    if (!idle_.wait_for(lock, stop, left, free)) {
      return refused(stop.stop_requested() ? AcquireResult::cancelled : AcquireResult::timed_out);
    }
  }
  hold.lost.reset();
  if (hold.state == Hold::State::held) {
    const bool lost = settle_loss(hold);
    if (!lost && hold.weight < request.weight) {
      hold.busy = true;
      lock.unlock();
      const Busy busy{*this, hold};
      return increase(hold, request, deadline_ns, stop);
    }
    if (!lost) {
      if (auto extended = extend(hold, request)) return *std::move(extended);
    }
    hold.lost.reset();  // acquiring anew; nobody asked about the old hold
  }
  hold.busy = true;
  lock.unlock();
  const Busy busy{*this, hold};
  return acquire_with(hold, request, deadline_ns, stop);
}

// True for one caller in a second.
bool PrimitiveClient::searches_now(std::int64_t now_ns) noexcept {
  const std::uint64_t last = RealPolicy::load(searched_ns_);
  if (core::age_ns(static_cast<std::int64_t>(last), now_ns) < engine::recheck_ns) return false;
  return RealPolicy::cas(searched_ns_, last, static_cast<std::uint64_t>(now_ns));
}

// --- a hold that there is ----------------------------------------------------------------------------------------

// The id alone is the identity of a detached hold (C-50): this call extends what an earlier process acquired.
std::optional<Answer> PrimitiveClient::extend_detached(const Request& request, std::int64_t deadline_ns,
                                                       const std::stop_token& stop) {
  for (;;) {
    const auto theirs = detached_hold(request.holder);
    if (!theirs) return std::nullopt;
    // What it ends with cannot be changed while others may be looking at it, and must not differ in silence.
    if (const std::int32_t bound = RealPolicy::get(view().entry(theirs->entry).bound_pid); bound != request.bound_pid) {
      throw Error(Errc::config_differs, title() + " is held by '" + std::string(request.holder) + "' already, " +
                                            (bound == 0 ? std::string("bound to no process")
                                                        : "until process " + std::to_string(bound) + " ends") +
                                            "; release it first, or use another holder id");
    }
    Answer answer{{AcquireResult::extended, theirs->token, std::nullopt, std::nullopt}};
    answer.weight = theirs->ops.weight_of(theirs->entry);
    if (answer.weight < request.weight) {
      auto more = add_part(*theirs, request, deadline_ns, stop);
      if (!more) continue;  // it was given back, lost or changed meanwhile
      answer = *std::move(more);
    }
    (void)heartbeat(request.holder, answer ? request.ttl : std::nullopt);
    if (answer && request.reason) change_reason(theirs->entry, request);
    return answer;
  }
}

Answer PrimitiveClient::increase(Hold& hold, const Request& request, std::int64_t deadline_ns,
                                 const std::stop_token& stop) {
  for (;;) {
    if (auto got = add_part({hold.ops, hold.entry, hold.token}, request, deadline_ns, stop)) {
      const std::scoped_lock lock(mutex_);
      if (*got) hold.weight = request.weight;
      if (*got && request.ttl) set_need(hold, ns(*request.ttl));
      // A sign of life, also when there was no room for more.
      (void)beat(hold.ops, hold.entry, hold.token, *got ? request.ttl : std::nullopt);
      if (*got && request.reason) change_reason(hold.entry, request);
      return *std::move(got);
    }
    {
      const std::scoped_lock lock(mutex_);
      if (hold.state == Hold::State::held && !settle_loss(hold)) continue;  // only the part was lost
      hold.lost.reset();
    }
    // Lost, or given back by another thread: all of it anew.
    return acquire_with(hold, request, deadline_ns, stop);
  }
}

// Gets what the hold has not yet, and makes it part of that. Nothing: the hold is gone, or the part was lost.
std::optional<Answer> PrimitiveClient::add_part(const Current& whole, const Request& request, std::int64_t deadline_ns,
                                                const std::stop_token& stop) {
  const std::uint32_t had = whole.ops.weight_of(whole.entry);
  if (had >= request.weight) return std::nullopt;
  Hold& part = [&]() -> Hold& {
    const std::scoped_lock lock(mutex_);
    Hold& unused = hold_of(request.holder, false, true);
    unused.busy = true;
    return unused;
  }();
  const Busy busy{*this, part};
  Request more = request;
  more.weight = request.weight - had;
  more.beside = had;
  more.whole = whole.entry;
  more.for_detached = std::exchange(more.detached, false);
  more.bound_pid = 0;
  Answer got = acquire_with(part, more, deadline_ns, stop);
  if (got) {
    const Step merged = whole.ops.merge(whole.entry, whole.token, had, part.entry, got.token).step;
    if (merged != Step::merged) {
      unlock_implicit(part);
      if (merged != Step::gone && merged != Step::closed) fail(merged);
    }
    const std::scoped_lock lock(mutex_);
    finish_hold(part);
    if (merged != Step::merged) return std::nullopt;
    got.result = AcquireResult::acquired;
    got.increased = true;
  }
  got.token = whole.token;
  got.weight = got ? request.weight : had;
  return got;
}

// --- a hold that there is not yet ----------------------------------------------------------------------------------

engine::Result PrimitiveClient::start(Hold& hold, const Request& request, bool queue) const noexcept {
  const std::int64_t now = hold.start_ns();
  // Who shares a lock and wants all of it is waited for by everybody who waits.
  const bool first = request.whole != engine::nil_entry && kind_ == engine::Kind::lock;
  if (first && queue) return hold.ops.acquire_or_queue_first(hold.entry, request.weight, now);
  if (first) return hold.ops.try_acquire_first(hold.entry, request.weight, now);
  if (queue) return hold.ops.acquire_or_queue(hold.entry, request.weight, now);
  return hold.ops.try_acquire(hold.entry, request.weight, now);
}

Answer PrimitiveClient::acquire_with(Hold& hold, const Request& request, std::int64_t deadline_ns,
                                     const std::stop_token& stop) {
  Around around{*this, hold, request.whole, stop};
  std::int64_t queued_ns = 0;  // 0 also: before this call
  for (;;) {
    if (hold.state != Hold::State::waiting) {
      prepare(hold, request, deadline_ns == try_once ? hold.timed : deadline_ns != no_deadline);
      engine::Result r{Step::busy};
      if (deadline_ns == try_once) {
        for (;;) {
          const std::uint64_t before = RealPolicy::load_seq(hold.ops.record().control);
          r = start(hold, request, false);
          if (r.step != Step::busy) break;
          const bool robbed = around.rob(real_clock().now_ns(), Look::thorough);
          const core::Control now = hold.ops.load();
          // Or somebody else buried a holder just now, and there is room.
          const bool room = core::admits(now, hold.ops.capacity(), request.weight);
          if (!robbed && (!room || now.seq == before)) break;
          // Who was robbed was robbed of this word, unless its entry only looks like a holder's.
          if (now.seq == before) fail(Step::corrupt);
        }
      } else {
        // Whatever is wrong with the holders, the wait looks after it; in the queue we have our place meanwhile.
        r = start(hold, request, true);
      }
      if (r.step == Step::acquired) return now_held(hold, r.seq, around.robbed);
      if (r.step == Step::busy || r.step == Step::impossible) {
        return denied(hold, r.step == Step::impossible);
      }
      if (r.step == Step::deadlock) return not_held(hold, AcquireResult::deadlock);
      if (r.step == Step::closed) {
        attach_again(hold);
        continue;
      }
      if (r.step != Step::queued) fail(r.step);
      if (queued_ns == 0) queued_ns = RealPolicy::now_ns();
      const std::scoped_lock lock(mutex_);
      hold.state = Hold::State::waiting;
    } else if (deadline_ns != no_deadline && deadline_ns != try_once) {
      // A wait of wait_fd(), which ends by itself from now on.
      engine::Word32& flags = view().entry(hold.entry).flags;
      RealPolicy::store(flags, RealPolicy::load(flags) | engine::entry_timed);
    }
    (void)hold.ops.finish_now();  // an entry of wait_fd() may be acquired and not finished
    const bool waits = hold.ops.status(hold.entry).phase == engine::Phase::waiting;
    if (deadline_ns == try_once && waits && !around.deadlocked()) {
      return denied(hold, false);  // it keeps its place in the queue
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
    if (token != 0 && hold.ops.holds(hold.entry, token) && has_segment(queued_ns)) {
      return now_held(hold, token, around.robbed);
    }
    {
      const std::scoped_lock lock(mutex_);  // who asks for the place in the queue looks at both
      hold.state = Hold::State::idle;
      hold.token = token;
    }
    if (token != 0) {
      if (hold.ops.holds(hold.entry, token)) {
        (void)hold.ops.release(hold.entry, token);
        const std::string& path = participant_->mapping().path();
        throw Error(Errc::segment_gone,
                    "segment " + path + " was removed or replaced while " + title() + " was waited for");
      }
      RealPolicy::store(entry.status, 0);  // granted and lost again before we woke: queue anew
      if (end == engine::WaitEnd::granted) continue;
    }
    switch (end) {
      case engine::WaitEnd::impossible: return denied(hold, true);
      case engine::WaitEnd::deadlock: {
        Answer answer = not_held(hold, AcquireResult::deadlock);
        answer.circle = participant_->deadlocks()->take(hold.entry);
        const std::scoped_lock lock(mutex_);
        if (hold.fd >= 0) finish_hold(hold);
        return answer;
      }
      case engine::WaitEnd::timed_out: return not_held(hold, AcquireResult::timed_out);
      case engine::WaitEnd::stopped: return not_held(hold, AcquireResult::cancelled);
      case engine::WaitEnd::granted:
      case engine::WaitEnd::closed:
      case engine::WaitEnd::unusable: participant_->require_usable(); fail(Step::closed);
    }
  }
}

// The file of a lock that was waited for may have been deleted, by the holder before for instance: no hold begins where
// the next users do not look. Who hardly waited is as little asked as who did not wait at all.
bool PrimitiveClient::has_segment(std::int64_t queued_ns) const noexcept {
  if (!RealPolicy::keeps(Safety::file_is_the_same)) return true;
  if (core::age_ns(queued_ns, RealPolicy::now_ns()) < long_wait_ns) return true;
  return participant_->mapping().linked();
}

void PrimitiveClient::prepare(Hold& hold, const Request& request, bool timed) {
  auto& mapping = participant_->mapping();
  // Of an implicit one nothing else changes while the record is the same.
  const bool as_before = hold.prepared && hold.weight == request.weight && hold.thread == this_thread_id();
  if (hold.implicit && as_before && hold.timed == timed) return;
  if (hold.entry == engine::nil_entry) {
    const engine::EntryIndex taken = hold.detached ? participant_->take_detached_entry() : participant_->take_entry();
    const std::scoped_lock lock(mutex_);
    hold.entry = taken;
  }
  engine::Entry& e = view().entry(hold.entry);
  hold.thread = this_thread_id();
  RealPolicy::set(e.thread, hold.thread);
  hold.ops.set_aside(hold.entry);
  if (!engine::write_texts(view(), mapping, hold.entry, request.holder, request.reason.value_or(""))) {
    throw Error(Errc::no_space, "no space left in the file system of " + mapping.path() + " for the reason");
  }
  const std::uint32_t flags =
      (request.holder.empty() ? engine::entry_implicit : 0U) | (hold.detached ? engine::entry_detached : 0U) |
      (request.no_lease ? engine::entry_no_lease : 0U) | (timed ? engine::entry_timed : 0U) |
      (request.for_detached ? engine::entry_for_detached : 0U) | (hold.fd >= 0 ? engine::entry_async : 0U) |
      (hold.part && kind_ == engine::Kind::lock ? engine::entry_first : 0U);
  RealPolicy::store(e.flags, flags);
  hold.timed = timed;
  hold.ops.set_weight(hold.entry, request.weight);
  hold.weight = request.weight;
  RealPolicy::store(e.beside, request.beside);
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

Answer PrimitiveClient::now_held(Hold& hold, std::uint64_t token, bool robbed) {
  Answer outcome{{AcquireResult::acquired, token, take_previous(hold.ops, token), std::nullopt}};
  outcome.weight = hold.weight;
  RealPolicy::store(view().entry(hold.entry).token, token);
  if (robbed && outcome.previous) outcome.result = AcquireResult::reclaimed;
  if (hold.detached) {
    // From here on the hold is not ours. Its word is finished first, since nobody will finish it for a session that
    // left.
    (void)hold.ops.finish_now();
    const engine::EntryIndex entry = [&] {
      const std::scoped_lock lock(mutex_);
      hold.state = Hold::State::idle;
      hold.token = token;
      return std::exchange(hold.entry, engine::nil_entry);
    }();
    if (!participant_->commit_detached(entry)) throw Error(Errc::session_dead, "the session died while it acquired");
    return outcome;
  }
  const std::scoped_lock lock(mutex_);
  hold.token = token;
  hold.told_lost = false;
  hold.state = Hold::State::held;
  return outcome;
}

Answer PrimitiveClient::not_held(const Hold& hold, AcquireResult result, bool impossible) {
  // Whoever calls lock() or try_lock() cannot be told who has it.
  const bool tell = kind_ == engine::Kind::lock && !hold.implicit;
  Answer answer{{result, 0, std::nullopt, tell ? holder() : std::nullopt}};
  answer.available = amounts().available();
  answer.impossible = impossible;
  return answer;
}

// Busy, as whoever asked by that entry is told, and everybody who listens (C-5).
Answer PrimitiveClient::denied(const Hold& hold, bool impossible) {
  Answer answer = not_held(hold, AcquireResult::busy, impossible);
  tell_denied(view(), hold.ops.index(), hold.entry, answer.current);
  return answer;
}

// Nothing: the hold was lost this very moment.
std::optional<Answer> PrimitiveClient::extend(Hold& hold, const Request& request) {
  if (request.ttl) set_need(hold, ns(*request.ttl));
  const engine::Result r = beat(hold.ops, hold.entry, hold.token, request.ttl);
  if (r.step != Step::refreshed) {
    if (!settle_loss(hold)) fail(Step::corrupt);
    return std::nullopt;
  }
  if (request.reason) change_reason(hold.entry, request);
  Answer answer{{AcquireResult::extended, hold.token, std::nullopt, std::nullopt}};
  answer.weight = hold.weight;
  return answer;
}

void PrimitiveClient::change_reason(engine::EntryIndex entry, const Request& request) {
  auto& mapping = participant_->mapping();
  if (engine::write_texts(view(), mapping, entry, request.holder, *request.reason)) return;
  throw Error(Errc::no_space, "no space left in the file system of " + mapping.path() +
                                  " for the new reason; the hold is extended and keeps its old one");
}

// --- the implicit holder ---------------------------------------------------------------------------------------------

Hold& PrimitiveClient::new_implicit() {
  const std::scoped_lock lock(mutex_);
  Hold& hold = *holds_.emplace_back(std::make_unique<Hold>(ops()));
  hold.implicit = true;
  return hold;
}

Answer PrimitiveClient::acquire_implicit(Hold& hold, std::uint32_t weight, std::int64_t deadline_ns,
                                         const std::stop_token& stop) {
  participant_->require_usable();
  require_permits("the weight", weight);
  hold.lost.reset();
  hold.previous.reset();
  Request request;
  request.weight = weight;
  Answer answer = acquire_with(hold, request, deadline_ns, stop);
  hold.previous = answer.previous;
  return answer;
}

void PrimitiveClient::require_no_deadlock(const Answer& answer) const {
  if (answer.result != AcquireResult::deadlock) return;
  throw Error(Errc::deadlock, title() + " would never be free: " + to_string(answer.circle));
}

Answer PrimitiveClient::upgrade_implicit(Hold& hold, std::int64_t deadline_ns) {
  participant_->require_usable();
  for (;;) {
    if (!hold.ops.holds(hold.entry, hold.token)) throw_lost();
    auto got = add_part({hold.ops, hold.entry, hold.token}, Request{}, deadline_ns, std::stop_token{});
    if (!got) continue;
    if (*got) hold.weight = whole_lock;
    if (got->previous) hold.previous = got->previous;
    return *std::move(got);
  }
}

void PrimitiveClient::shrink_implicit(Hold& hold, std::uint32_t weight) {
  participant_->require_usable();
  if (hold.weight <= weight) {
    if (!hold.ops.holds(hold.entry, hold.token)) throw_lost();
    return;
  }
  const Step step = hold.ops.shrink(hold.entry, hold.token, hold.weight, weight).step;
  if (step == Step::gone || step == Step::closed) throw_lost();
  if (step != Step::shrunk) fail(step);
  hold.weight = weight;
}

void PrimitiveClient::throw_lost() const {
  throw Error(Errc::session_dead, title() + " was lost: lost() tells, unlocking and locking again starts anew");
}

void PrimitiveClient::unlock_implicit(Hold& hold) noexcept {
  hold.state = Hold::State::idle;
  // In a forked child, or after leaving, it is not ours to give back: the word may still say that our entry holds.
  if (!participant_->usable()) return;
  const Step step = hold.ops.release(hold.entry, hold.token).step;
  if (step == Step::gone || step == Step::closed) {
    RealPolicy::store(view().entry(hold.entry).status, 0);  // lost meanwhile: ours to use again
  }
}

void PrimitiveClient::retire_implicit(Hold& hold) noexcept {
  if (hold.state == Hold::State::held) unlock_implicit(hold);
  const std::scoped_lock lock(mutex_);
  if (hold.entry != engine::nil_entry) participant_->give_back(hold.entry);
  std::erase_if(holds_, [&hold](const auto& h) { return h.get() == &hold; });
}

}  // namespace shmcoord::process
