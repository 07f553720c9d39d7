#include <algorithm>
#include <string>
#include <utility>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"

// Who holds it, who lost it, where a waiter stands; the capacity.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::Step;

}  // namespace

// --- looking ---------------------------------------------------------------------------------------------------------

const engine::View& PrimitiveClient::view() const noexcept { return participant_->mapping().view(); }

PrimitiveClient::Ops PrimitiveClient::ops() const noexcept {
  const std::scoped_lock lock(record_mutex_);
  return ops_;
}

std::int64_t PrimitiveClient::default_ttl_ns() const noexcept {
  const std::scoped_lock lock(record_mutex_);
  return config_.ttl_ns;
}

auto PrimitiveClient::look(const Ops& ops) const -> Seen {
  for (;;) {
    const core::Control c = ops.load();
    if (RealPolicy::load(ops.record().generation) != ops.generation() || c.op == core::Op::close) return {true, {}};
    if (!ops.finish(c)) fail(Step::corrupt);
    if (c.used == 0) return {false, {}};
    const engine::EntryIndex entry =
        c.op == core::Op::acquire ? c.last : engine::unpack_link(RealPolicy::load(ops.record().holder)).entry;
    Seen seen{false, {}, true};
    if (view().entry_exists(entry)) {
      const engine::Status s = ops.status(entry);
      const bool held = s.phase == engine::Phase::held || s.phase == engine::Phase::marked;
      if (held && s.record == ops.index() && ops.weight_of(entry) == c.used) {
        seen = {false, Current{ops, entry, engine::seq_of_stamp(s.stamp, c.seq)}};
      }
    }
    if (RealPolicy::load_seq(ops.record().control) == c.seq) return seen;
  }
}

// The first one found. Nobody holds a name that is gone; it is not made anew for a look.
std::optional<PrimitiveClient::Current> PrimitiveClient::current() const {
  std::optional<Current> first;
  each_present_holder([&](const Current& holder) {
    if (!first) first = holder;
  });
  return first;
}

std::optional<PrimitiveClient::Current> PrimitiveClient::detached_hold(std::string_view holder) {
  std::optional<Current> theirs;
  const engine::View& view = this->view();
  each_present_holder([&](const Current& now) {
    const std::uint64_t owner = RealPolicy::load(view.owner_of(now.entry));
    if (owner == 0 || engine::unpack_owner(owner).slot != engine::detached_slot) return;
    if (engine::holder_equals(view, now.entry, holder)) theirs = now;
  });
  return theirs;
}

bool PrimitiveClient::is_current(std::uint64_t token) {
  participant_->require_usable();
  bool stands = false;
  each_present_holder([&](const Current& now) { stands = stands || now.token == token; });
  return stands;
}

bool PrimitiveClient::stands(std::string_view holder, std::uint64_t token) {
  if (!participant_->usable()) return false;
  const std::scoped_lock lock(mutex_);
  const Hold* const hold = find_hold(holder);
  return hold != nullptr && hold->state == Hold::State::held && hold->token == token &&
         hold->ops.holds(hold->entry, token);
}

std::optional<HolderInfo> PrimitiveClient::holder() {
  const auto now = current();
  if (!now) return std::nullopt;
  return describe(now->entry, now->token);
}

std::vector<PermitHolder> PrimitiveClient::holders() {
  std::vector<PermitHolder> all;
  each_present_holder([&](const Current& now) {
    PermitHolder& one = all.emplace_back();
    static_cast<HolderInfo&>(one) = describe(now.entry, now.token);
    one.weight = now.ops.weight_of(now.entry);
  });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return all;
}

auto PrimitiveClient::amounts() -> Amounts {
  for (Ops now = ops();;) {
    const core::Control c = now.load();
    const bool closed = RealPolicy::load(now.record().generation) != now.generation() || c.op == core::Op::close;
    if (!closed) {
      if (!now.finish(c)) fail(Step::corrupt);
      const Amounts amounts{now.capacity(), c.used};
      if (RealPolicy::load_seq(now.record().control) == c.seq) return amounts;
      continue;
    }
    const auto found = engine::NameIndex<RealPolicy>(view()).find(name_);
    if (!found) throw Error(Errc::not_found, title() + " was removed" + make_anew_text());
    now = Ops(view(), found->record, found->generation);
  }
}

std::string PrimitiveClient::too_much_text(std::uint32_t weight) {
  const std::uint32_t capacity = amounts().capacity;
  const std::uint32_t per_session = [this] {
    const std::scoped_lock lock(record_mutex_);
    return config_.per_session;
  }();
  const std::string each = std::to_string(per_session) + " for each session that joins";
  if (per_session != 0 && capacity == 0) {
    return title() + " has no permits, since nobody joined it: there are " + each +
           "; a program joins by opening it, a command by `shmcoord run -S " + name_ + " -- CMD`";
  }
  const std::string text = title() + " has a capacity of " + std::to_string(capacity) +
                           (per_session != 0 ? " (" + each + ")" : "") + ", less than the " + std::to_string(weight) +
                           " asked for; ask for less";
  return text + (per_session != 0 ? ", or again when more sessions have joined" : ", or give it more (`sem resize`)");
}

// --- what is done about holders that are gone ------------------------------------------------------------------------

// thorough: of a process that gives back its memory the kernel has told already, and its tasks say the rest. Of those
// who run a quick look is enough.
bool PrimitiveClient::is_dead(const Current& holder, Look look) const {
  const auto& mapping = participant_->mapping();
  const std::uint64_t owner = RealPolicy::load(mapping.view().owner_of(holder.entry));
  if (owner == 0) return false;
  const engine::ChunkOwner who = engine::unpack_owner(owner);
  if (who.slot == participant_->slot() && who.incarnation == participant_->incarnation()) return false;
  if (who.slot == engine::detached_slot) return life_of_entry(mapping, holder.entry).life == Life::dead;
  Life life = life_of(mapping, who.slot, who.incarnation).life;
  if (life == Life::dying && look == Look::thorough) life = life_of(mapping, who.slot, who.incarnation, look).life;
  return life == Life::dead;
}

// Takes the hold away if its holder is dead or its lease ran out, also our own. True: it did.
bool PrimitiveClient::rob_one(const Current& holder, std::int64_t now_ns, Look look) {
  auto& mapping = participant_->mapping();
  const engine::RecordIndex record = holder.ops.index();
  const std::uint64_t owner = RealPolicy::load(mapping.view().owner_of(holder.entry));
  if (owner == 0) return false;
  const engine::ChunkOwner who = engine::unpack_owner(owner);
  if (is_dead(holder, look)) {
    if (who.slot != engine::detached_slot) return process::bury(mapping, who.slot, who.incarnation);
    mapping.prepare_notice(record, holder.entry);
    const auto r = holder.ops.reclaim(holder.entry, [](const engine::Entry&) { return Loss::died; });
    tidy_detached(mapping.view(), holder.entry);
    return r.step == Step::reclaimed;
  }
  const auto r = reclaim_lease(mapping, record, holder.entry, now_ns);
  if (r.step == Step::reclaimed && who.slot == engine::detached_slot) tidy_detached(mapping.view(), holder.entry);
  return r.step == Step::reclaimed;
}

std::vector<Taken> PrimitiveClient::take_lost(std::string_view but_not) {
  participant_->require_usable();
  const std::int64_t now = real_clock().now_ns();
  const std::uint64_t mine = engine::pack_owner({participant_->slot(), participant_->incarnation()});
  // Who they are is read before any is robbed: a burial takes all that the dead one had.
  std::vector<std::pair<Current, Taken>> before;
  each_present_holder([&](const Current& holder) {
    const bool spared = !but_not.empty() && RealPolicy::load(view().owner_of(holder.entry)) == mine &&
                        engine::holder_equals(view(), holder.entry, but_not);
    if (spared) return;
    Taken one;
    one.why = is_dead(holder, Look::thorough) ? Loss::died : judge_lease(view(), holder.ops.index(), holder.entry, now);
    if (one.why != Loss::none) {
      static_cast<HolderInfo&>(one) = describe(holder.entry, holder.token);
      one.weight = holder.ops.weight_of(holder.entry);
    }
    before.emplace_back(holder, std::move(one));
  });
  // In the order of their acquires, since the next holder hears of the last one.
  std::sort(before.begin(), before.end(), [](const auto& x, const auto& y) { return x.first.token < y.first.token; });
  std::vector<Taken> taken;
  for (auto& [holder, one] : before) {
    const Participant::Helping helping(*participant_, holder.ops.index());
    const bool robbed = rob_one(holder, now, Look::thorough);
    if (!robbed || one.why == Loss::none || holder.ops.holds(holder.entry, holder.token)) continue;
    taken.push_back(std::move(one));
  }
  return taken;
}

void PrimitiveClient::resize(std::uint32_t capacity) {
  participant_->require_usable();
  require_permits("the capacity", capacity);
  for (;;) {
    const Ops now = ops();
    if (RealPolicy::load(now.record().per_session) != 0) {
      throw Error(Errc::invalid_argument,
                  title() + " is what its sessions bring, and cannot be resized; create one with a capacity");
    }
    const Step step = [&] {
      const Participant::Helping helping(*participant_, now.index());
      return now.resize(capacity).step;
    }();
    if (step == Step::closed) {
      attach(NameOptions{.kind = kind_, .joins = false});
      continue;
    }
    if (step != Step::resized) fail(step);
    const std::scoped_lock lock(record_mutex_);
    if (wanted_[4]) wanted_[4] = capacity;  // what this session's handles agree on
    return;
  }
}

// --- telling ---------------------------------------------------------------------------------------------------------

HolderInfo PrimitiveClient::describe(engine::EntryIndex entry, std::uint64_t token) {
  const engine::View& view = this->view();
  const engine::Entry& e = view.entry(entry);
  HolderInfo info;
  engine::EntryTexts texts = engine::read_texts(view, entry);
  info.holder = std::move(texts.holder);
  info.reason = std::move(texts.reason);
  info.token = token;
  info.pid = RealPolicy::get(e.bound_pid);
  const auto since = static_cast<std::int64_t>(RealPolicy::load(e.since_ns));
  info.held_for = std::chrono::nanoseconds(core::age_ns(since, real_clock().now_ns()));
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner != 0) {
    const engine::SlotIndex s = engine::unpack_owner(owner).slot;
    if (view.slot_exists(s) && s != engine::detached_slot) {
      const engine::SessionSlot& slot = view.slot(s);
      info.pid = RealPolicy::get(slot.pid);
      info.label = engine::load_line<RealPolicy>(slot.label.data(), slot.label.size());
      info.command = engine::load_line<RealPolicy>(slot.command.data(), slot.command.size());
    }
  }
  return info;
}

std::uint32_t PrimitiveClient::place_in_queue(std::string_view holder) {
  engine::EntryIndex mine = engine::nil_entry;
  Ops ops = this->ops();
  {
    const std::scoped_lock lock(mutex_);
    // Also one that will be detached, and what is to be added to one that is held.
    const auto waits = std::find_if(holds_.begin(), holds_.end(), [&](const auto& hold) {
      return !hold->implicit && hold->state == Hold::State::waiting && hold->holder == holder;
    });
    if (waits == holds_.end()) return 0;
    mine = (*waits)->entry;
    ops = (*waits)->ops;
  }
  const engine::View& view = this->view();
  for (;;) {
    const core::Control c = ops.load();
    if (!ops.finish(c)) fail(Step::corrupt);
    std::uint32_t place = 0;
    engine::EntryIndex at = ops.head_of(c).entry;
    for (std::uint32_t n = 1; at != engine::nil_entry && n <= view.geo.sizes.entries; ++n) {
      if (at == mine) {
        place = n;
        break;
      }
      if (at == c.tail || !view.entry_exists(at)) break;
      at = engine::unpack_link(RealPolicy::load(view.entry(at).next)).entry;
    }
    if (RealPolicy::load_seq(ops.record().control) == c.seq) return place;
  }
}

void PrimitiveClient::take_news(Hold& hold) noexcept {
  try {
    hold.previous = take_previous(hold.ops, hold.token);
  } catch (...) {
    hold.previous.reset();  // no memory for the news: the lock is held all the same
  }
}

std::optional<Previous> PrimitiveClient::take_previous(const Ops& ops, std::uint64_t token) {
  engine::News news = engine::take_news<RealPolicy>(view(), ops.index(), token);
  if (news.loss == Loss::none) return std::nullopt;
  return Previous{std::move(news.text.holder), news.text.pid, news.loss};
}

}  // namespace shmcoord::process
