#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"

// Ending, renewing and losing a hold; the operator's ways to end somebody else's.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::Step;
using Names = engine::NameIndex<RealPolicy>;

std::int64_t ns(std::chrono::nanoseconds d) { return d.count(); }

}  // namespace

// --- ending and renewing ---------------------------------------------------------------------------------------------

Return PrimitiveClient::release(std::string_view holder) {
  participant_->require_usable();
  require_holder(holder);
  {
    const std::scoped_lock lock(mutex_);
    Hold* const hold = find_hold(holder);
    // A wait of wait_fd() that is over, or not.
    const bool waits = hold != nullptr && hold->state == Hold::State::waiting && hold->fd >= 0 && !hold->busy;
    if (waits && end_wait(*hold)) return {{ReleaseResult::released}};
    if (hold != nullptr && (hold->state == Hold::State::held || hold->lost)) {
      if (!hold->lost && !settle_loss(*hold)) {
        const engine::Result r = hold->ops.release(hold->entry, hold->token);
        if (r.step == Step::released) {
          finish_hold(*hold);
          return {{ReleaseResult::released, std::nullopt, hold->token}, hold->weight};
        }
        if (r.step != Step::gone && r.step != Step::closed) fail(r.step);
        settle_loss(*hold);
      }
      const Lost lost = lost_text(hold->lost.value_or(Loss::none));
      hold->lost.reset();
      finish_hold(*hold);
      return {{ReleaseResult::not_owner, lost}};
    }
  }
  if (const auto theirs = detached_hold(holder)) {
    const Participant::Helping helping(*participant_, theirs->ops.index());
    const std::uint32_t weight = theirs->ops.weight_of(theirs->entry);
    const engine::Result r = theirs->ops.release(theirs->entry, theirs->token);
    tidy_detached(view(), theirs->entry);
    if (r.step == Step::released) return {{ReleaseResult::released, std::nullopt, theirs->token}, weight};
    if (r.step != Step::gone && r.step != Step::closed) fail(r.step);
  }
  return {{current() ? ReleaseResult::not_owner : ReleaseResult::already_free}};
}

HeartbeatOutcome PrimitiveClient::heartbeat(std::string_view holder, std::optional<std::chrono::nanoseconds> ttl) {
  participant_->require_usable();
  require_holder(holder);
  require_duration("ttl", ttl);
  {
    const std::scoped_lock lock(mutex_);
    Hold* const hold = find_hold(holder);
    if (hold != nullptr && (hold->state == Hold::State::held || hold->lost)) {
      if (!hold->lost && !settle_loss(*hold)) {
        if (ttl) set_need(*hold, ns(*ttl));
        if (beat(hold->ops, hold->entry, hold->token, ttl).step == Step::refreshed) {
          return {HeartbeatResult::refreshed, std::nullopt};
        }
        settle_loss(*hold);
      }
      const Lost lost = lost_text(hold->lost.value_or(Loss::none));
      return {HeartbeatResult::not_owner, lost};
    }
  }
  if (const auto theirs = detached_hold(holder);
      theirs && beat(theirs->ops, theirs->entry, theirs->token, ttl).step == Step::refreshed) {
    return {HeartbeatResult::refreshed, std::nullopt};
  }
  return {HeartbeatResult::not_owner, std::nullopt};
}

// A lease that gets longer does so before the sign of life, one that gets shorter after it. Otherwise a look in between
// would judge the old sign by the new ttl, and take a hold whose lease had run out by neither.
engine::Result PrimitiveClient::beat(const Ops& ops, engine::EntryIndex entry, std::uint64_t token,
                                     std::optional<std::chrono::nanoseconds> ttl) {
  if (!ttl) return ops.heartbeat(entry, token, real_clock().now_ns());
  const core::LeaseTerms terms = terms_of(view(), ops.index(), entry);
  const bool longer = ns(*ttl) >= (terms.ttl_ns > 0 ? terms.ttl_ns : terms.stale_threshold_ns);
  const auto set = [&] { RealPolicy::store(view().entry(entry).ttl_ns, static_cast<std::uint64_t>(ns(*ttl))); };
  if (longer) set();
  const engine::Result r = ops.heartbeat(entry, token, real_clock().now_ns());
  if (!longer && r.step == Step::refreshed) set();
  return r;
}

// --- losing ----------------------------------------------------------------------------------------------------------

// True: the hold is gone; `lost` says why, and its entry is ours to use again.
bool PrimitiveClient::settle_loss(Hold& hold) {
  if (hold.state != Hold::State::held || hold.ops.holds(hold.entry, hold.token)) return false;
  engine::Entry& e = view().entry(hold.entry);
  (void)hold.ops.finish_now();
  const engine::Status status = hold.ops.status(hold.entry);
  const engine::Handoff how = engine::unpack_handoff(RealPolicy::load(e.handoff));
  hold.lost = status.phase == engine::Phase::lost ? how.loss : Loss::none;
  RealPolicy::store(e.status, 0);
  hold.state = Hold::State::idle;
  return true;
}

Lost PrimitiveClient::lost_text(Loss why) {
  Lost lost{why, {}};
  if (kind_ != engine::Kind::lock) return lost;  // who has these very permits now is not known
  if (const auto now = holder()) lost.by = now->holder.empty() ? "pid " + std::to_string(now->pid) : now->holder;
  return lost;
}

std::uint64_t PrimitiveClient::on_lost(LostCallback callback) {
  need_tick();
  const std::scoped_lock lock(callbacks_mutex_);
  lost_callbacks_.emplace_back(next_callback_, std::move(callback));
  return next_callback_++;
}

void PrimitiveClient::remove_on_lost(std::uint64_t id) {
  const std::scoped_lock lock(callbacks_mutex_);
  std::erase_if(lost_callbacks_, [id](const auto& c) { return c.first == id; });
}

// In the keeper's thread: whose wait is over, whose hold was lost. Who waits by a descriptor alone does not look at the
// holders, so their leases are looked at here.
void PrimitiveClient::tick() {
  std::vector<std::pair<std::string, Lost>> news;
  DeadlockWatch* const deadlocks = participant_->deadlocks();
  const std::int64_t now = real_clock().now_ns();
  bool waits = false;
  bool long_wait = false;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& hold : holds_) {
      if (hold->implicit || hold->busy || hold->part) continue;
      if (hold->fd >= 0 && hold->state == Hold::State::waiting) {
        (void)hold->ops.finish_now();
        const engine::Entry& e = view().entry(hold->entry);
        const std::uint64_t status = RealPolicy::load(e.status);
        const bool over = engine::unpack_status(status).phase != engine::Phase::waiting || !participant_->usable();
        const bool stuck = deadlocks != nullptr && deadlocks->is_told(hold->entry, status);
        std::uint64_t count = 1;
        if (over || (stuck && !hold->told_deadlock)) (void)!::write(hold->fd, &count, sizeof count);
        // Somebody else in the circle gave up.
        if (!over && !stuck && hold->told_deadlock) (void)!::read(hold->fd, &count, sizeof count);
        hold->told_deadlock = stuck;
        const auto since = static_cast<std::int64_t>(RealPolicy::load(e.since_ns));
        waits = waits || !over;
        long_wait = long_wait || (!over && core::age_ns(since, now) >= DeadlockWatch::patience_ns);
      }
      if (hold->state != Hold::State::held || hold->told_lost) continue;
      const bool stands = hold->ops.holds(hold->entry, hold->token);
      if (stands && participant_->usable()) continue;
      hold->told_lost = true;
      const engine::Handoff how = engine::unpack_handoff(RealPolicy::load(view().entry(hold->entry).handoff));
      news.emplace_back(hold->holder, Lost{stands ? Loss::none : how.loss, {}});
    }
  }
  if (waits) {
    try {
      if (searches_now(now)) (void)take_lost();
      // Signals this thread if it has something to tell.
      if (long_wait && deadlocks != nullptr) deadlocks->look(*participant_, now);
    } catch (...) {  // no memory, a damaged segment: the next look, or somebody else
    }
  }
  if (news.empty()) return;
  const std::scoped_lock lock(callbacks_mutex_);
  for (auto& [holder, lost] : news) {
    try {
      if (participant_->usable()) lost.by = lost_text(lost.why).by;
    } catch (const Error&) {
      lost.by.clear();  // the lock was removed, or is damaged: nobody has it
    }
    for (const auto& [id, callback] : std::vector(lost_callbacks_)) callback(HolderId(holder), lost);
  }
}

bool PrimitiveClient::force_release(std::string_view holder) {
  participant_->require_usable();
  auto& mapping = participant_->mapping();
  std::vector<Current> before;  // and not those who get in because these are taken out
  each_present_holder([&](const Current& now) {
    if (holder.empty() || engine::holder_equals(view(), now.entry, holder)) before.push_back(now);
  });
  bool done = false;
  for (const Current& now : before) {
    if (!now.ops.holds(now.entry, now.token)) continue;
    mapping.prepare_notice(now.ops.index(), now.entry);
    const Participant::Helping helping(*participant_, now.ops.index());
    const engine::Result r = now.ops.reclaim(now.entry, [](const engine::Entry&) { return Loss::forced; });
    tidy_detached(mapping.view(), now.entry);
    done = done || r.step == Step::reclaimed;
  }
  return done;
}

namespace {

/// One who holds, waits for or joined the record is taken out of it by force. False: nobody was found.
bool end_one(const engine::View& view, const engine::ControlOps<RealPolicy>& ops) {
  if (const engine::EntryIndex head = ops.head_of(ops.load()).entry; head != engine::nil_entry) {
    const Step step = ops.cancel(head, Loss::forced).step;
    return step == Step::cancelled || step == Step::granted;
  }
  bool ended = false;
  engine::Chunks<RealPolicy>(view).for_each([&](std::uint32_t chunk, std::uint64_t) {
    for (engine::EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const engine::EntryIndex i = chunk * engine::entries_per_chunk + n;
      const engine::Status s = ops.status(i);
      if (s.record != ops.index()) continue;
      Step step = Step::gone;
      if (s.phase == engine::Phase::held || s.phase == engine::Phase::marked) {
        step = ops.reclaim(i, [](const engine::Entry&) { return Loss::forced; }).step;
      } else if (s.phase == engine::Phase::member) {
        step = ops.leave(i).step;
      }
      ended = ended || step == Step::reclaimed || step == Step::left;
    }
  });
  return ended;
}

}  // namespace

void PrimitiveClient::remove(Participant& participant, std::string_view name, bool force, engine::Kind kind) {
  participant.require_usable();
  auto& mapping = participant.mapping();
  const std::scoped_lock one_at_a_time(participant.names_mutex());
  Names names(mapping.view(), &mapping);
  const std::string title = std::string(engine::word_of(kind)) + " '" + std::string(name) + "'";
  const auto found = names.find(name);
  if (!found) throw no_such_name(kind, name, mapping.name());
  const engine::ControlOps<RealPolicy> ops(mapping.view(), found->record, found->generation);
  if (const auto is = static_cast<engine::Kind>(RealPolicy::load(ops.record().kind)); is != kind) {
    throw Error(Errc::wrong_type, "'" + std::string(name) + "' exists as a " + std::string(engine::word_of(is)) +
                                      ", not as a " + std::string(engine::word_of(kind)));
  }
  const Participant::Helping helping(participant, found->record);
  const auto close = [&] {
    while (!ops.close()) {
      if (!force || RealPolicy::load(ops.record().generation) != ops.generation()) return false;
      const core::Control c = ops.load();
      const bool ended = ops.finish(c) && end_one(mapping.view(), ops);
      if (!ended && RealPolicy::load_seq(ops.record().control) == c.seq) {
        throw Error(Errc::segment_corrupt,
                    title + " is damaged and cannot be taken from its holder; `shmcoord segment check` tells more");
      }
    }
    return true;
  };
  if (names.remove(*found, participant.slot(), close) == engine::Removal::in_use) {
    const bool quota = RealPolicy::load(ops.record().per_session) != 0;
    throw Error(Errc::in_use, title + " is held" + (quota ? ", joined" : "") +
                                  " or waited for; use force (--force) to remove it all the same");
  }
}

}  // namespace shmcoord::process
