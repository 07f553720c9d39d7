#include "process/recovery.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/bury_entry.hpp"
#include "engine/chunks.hpp"
#include "engine/detached.hpp"
#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "engine/shared_bytes.hpp"
#include "process/host.hpp"
#include "process/lease.hpp"
#include "process/snapshot.hpp"
#include "process/telling.hpp"

namespace shmcoord::process {

using engine::Burial;
using engine::ChunkOwner;
using engine::Chunks;
using engine::Phase;
using engine::RealPolicy;
using engine::Safety;
using engine::SessionSlot;
using engine::SlotId;
using engine::SlotState;
using engine::View;

SessionView session_view(const Mapping& mapping, SlotIndex s) {
  const SessionSlot& slot = mapping.view().slot(s);
  const SlotId id = engine::unpack_slot(RealPolicy::load(slot.id));
  SessionView v;
  v.slot = s;
  v.incarnation = id.incarnation;
  v.state = id.state;
  v.session_id = RealPolicy::get(slot.session_id);
  v.flags = RealPolicy::load(slot.flags);
  v.life = life_of(mapping, s, id.incarnation, Look::thorough);
  v.pid = RealPolicy::get(slot.pid);
  v.uid = RealPolicy::get(slot.uid);
  v.pid_namespace = RealPolicy::get(slot.pid_namespace);
  v.start_time = RealPolicy::get(slot.start_time);
  v.joined_ns = RealPolicy::get(slot.joined_ns);
  v.heartbeat_ns = static_cast<std::int64_t>(RealPolicy::load(slot.heartbeat_ns));
  v.beat_interval_ns = static_cast<std::int64_t>(RealPolicy::load(slot.beat_interval_ns));
  v.label = engine::load_line<RealPolicy>(slot.label.data(), slot.label.size());
  v.command = engine::load_line<RealPolicy>(slot.command.data(), slot.command.size());
  return v;
}

namespace {

bool holds(Phase phase) { return phase == Phase::held || phase == Phase::marked; }

const engine::Record* record_at(const View& view, RecordIndex r) {
  return view.record_exists(r) ? &view.record(r) : nullptr;
}

struct ToBe {
  Phase phase;
  std::uint64_t token = 0;
};

// What the entry is once its word's last operation is finished: an owner may leave its own for others to finish.
ToBe what_will_be(const View& view, EntryIndex i, const engine::Status& status) {
  const engine::Record* const record = record_at(view, status.record);
  if (record == nullptr || status.phase == Phase::lost) return {status.phase};
  const core::Control c = RealPolicy::load(record->control);
  engine::Handoff handoff;
  const EntryIndex touched = core::touched(c);
  if (view.entry_exists(touched)) handoff = engine::unpack_handoff(RealPolicy::load(view.entry(touched).handoff));
  const Meaning meaning = meaning_of(c, status.record, i, status, handoff);
  switch (meaning.role) {
    case Role::held: return {meaning.marked ? Phase::marked : Phase::held, meaning.token};
    case Role::waiting: return {Phase::waiting};
    case Role::member: return {Phase::member};
    case Role::none: break;
  }
  return {status.phase == Phase::prepared ? Phase::prepared : Phase::free};
}

EntryView entry_view(const View& view, EntryIndex i, const ChunkOwner& owner, const engine::Status& status) {
  const engine::Entry& e = view.entry(i);
  EntryView v;
  v.entry = i;
  v.slot = owner.slot;
  v.incarnation = owner.incarnation;
  const ToBe will_be = what_will_be(view, i, status);
  v.phase = will_be.phase;
  v.token = will_be.token;
  v.record = status.record;
  v.weight = engine::unpack_amount(RealPolicy::load(e.weight)).amount;
  v.flags = RealPolicy::load(e.flags);
  v.since_ns = static_cast<std::int64_t>(RealPolicy::load(e.since_ns));
  v.last_sign_ns = last_sign_of(view, i);
  return v;
}

void add_detail(EntryView& v, const Mapping& mapping, std::int64_t now_ns) {
  const View& view = mapping.view();
  v.bound_process_gone =
      v.slot == engine::detached_slot && life_of_entry(mapping, v.entry, Look::quick).life == Life::dead;
  if (const engine::Record* const record = record_at(view, v.record); record != nullptr) {
    if (holds(v.phase)) v.lease = judge_lease(view, v.record, v.entry, now_ns);
    v.kind = static_cast<engine::Kind>(RealPolicy::load(record->kind));
    v.name = engine::NameIndex<RealPolicy>(view).name_of({v.record, RealPolicy::load(record->generation)});
  }
  engine::EntryTexts texts = engine::read_texts(view, v.entry);
  v.holder = std::move(texts.holder);
  v.reason = std::move(texts.reason);
}

bool owns(const SessionView& s, const EntryView& e) {
  return s.slot == e.slot && engine::same_incarnation(s.incarnation, e.incarnation);
}

std::string describe(const EntryView& e, const SessionView* session, std::string_view why) {
  std::string text = holds(e.phase)              ? "hold of "
                     : e.phase == Phase::waiting ? "wait for "
                     : e.phase == Phase::member  ? "share in "
                                                 : "entry of ";
  if (e.kind != engine::Kind::lock) text += std::string(engine::word_of(e.kind)) + " ";
  text += e.name.empty() ? "record " + std::to_string(e.record) : e.name;
  text += " by " + (e.holder.empty() ? std::string("an implicit holder") : e.holder);
  if (session != nullptr) text += " (pid " + std::to_string(session->pid) + ")";
  if (e.slot == engine::detached_slot) text += " (detached)";
  return text + ": " + std::string(why);
}

std::string describe(const SessionView& s) {
  std::string text = "session in slot " + std::to_string(s.slot) + " (pid " + std::to_string(s.pid);
  if (!s.label.empty()) text += ", " + s.label;
  return text + "): dead, by " + std::string(to_string(s.life.proof));
}

Action::Kind kind_of(Phase phase) {
  if (holds(phase)) return Action::Kind::release_hold;
  return phase == Phase::waiting ? Action::Kind::cancel_wait : Action::Kind::free_entry;
}

bool stands(const View& view, const Action& hold) {
  const engine::Record* const record = record_at(view, hold.record);
  if (record == nullptr) return false;
  const engine::ControlOps<RealPolicy> ops(view, hold.record, RealPolicy::load(record->generation));
  return ops.holds(hold.entry, hold.token);
}

}  // namespace

std::string_view to_string(Action::Kind kind) noexcept {
  switch (kind) {
    case Action::Kind::release_hold: return "release";
    case Action::Kind::cancel_wait: return "cancel";
    case Action::Kind::free_entry: return "free";
    case Action::Kind::bury_session: return "bury";
    case Action::Kind::reclaim_lease: return "reclaim";
  }
  return "unknown";
}

bool declare_dead(const Mapping& mapping, SlotIndex s, std::uint64_t incarnation, Look look) {
  return slots_of(mapping).declare_dead(s, incarnation, look);
}

bool bury(const Mapping& mapping, SlotIndex s, std::uint64_t incarnation) {
  return slots_of(mapping).bury(s, incarnation);
}

bool bury(const Mapping& mapping, SlotIndex s) {
  if (!mapping.view().slot_exists(s)) return true;
  return bury(mapping, s, engine::unpack_slot(RealPolicy::load(mapping.view().slot(s).id)).incarnation);
}

bool release_everything(const Mapping& mapping, SlotIndex s, std::uint64_t incarnation) {
  return slots_of(mapping).bury_entries(s, incarnation, Burial::leaving);
}

void bury_left(const Mapping& mapping, SlotIndex s, std::uint64_t incarnation) {
  slots_of(mapping).bury_left(s, incarnation);
}

bool fence(const Mapping& mapping, SlotIndex s, std::uint64_t incarnation) {
  const View& view = mapping.view();
  if (s == engine::detached_slot || !view.slot_exists(s)) return false;
  SessionSlot& slot = view.slot(s);
  const std::uint64_t fenced = engine::pack(SlotId{SlotState::fenced, incarnation});
  RealPolicy::cas(slot.id, engine::pack(SlotId{SlotState::alive, incarnation}), fenced);
  if (RealPolicy::load(slot.id) != fenced) return false;
  slots_of(mapping).bury_entries(s, incarnation, Burial::robbed);
  slots_of(mapping).call(slot);
  return true;
}

Snapshot take_snapshot(const Mapping& mapping, std::int64_t now_ns, Detail detail) {
  const View& view = mapping.view();
  Snapshot snapshot;
  const std::uint64_t high = RealPolicy::load(view.header().slot_high);
  for (SlotIndex s = 1; s < high && view.has_slot(s); ++s) {
    if (!view.slot_exists(s)) continue;
    if (engine::unpack_slot(RealPolicy::load(view.slot(s).id)).state == SlotState::free) continue;
    snapshot.sessions.push_back(session_view(mapping, s));
  }
  Chunks<RealPolicy>(view).for_each([&](std::uint32_t chunk, std::uint64_t owner) {
    for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const EntryIndex i = chunk * engine::entries_per_chunk + n;
      const engine::Status status = engine::unpack_status(RealPolicy::load(view.entry(i).status));
      if (status.phase == Phase::free) continue;
      EntryView v = entry_view(view, i, engine::unpack_owner(owner), status);
      if (v.phase == Phase::free) continue;
      if (detail == Detail::full) add_detail(v, mapping, now_ns);
      snapshot.entries.push_back(std::move(v));
    }
  });
  return snapshot;
}

std::vector<EntryIndex> entries_of(const View& view, RecordIndex record) {
  std::vector<EntryIndex> entries;
  Chunks<RealPolicy>(view).for_each([&](std::uint32_t chunk, std::uint64_t) {
    for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const EntryIndex i = chunk * engine::entries_per_chunk + n;
      const engine::Status status = engine::unpack_status(RealPolicy::load(view.entry(i).status));
      if (status.phase != Phase::free && status.record == record) entries.push_back(i);
    }
  });
  return entries;
}

std::vector<Action> plan(const Snapshot& snapshot, const SweepOptions& options) {
  std::vector<Action> actions;
  const auto about = [&](const EntryView& e, const SessionView* s, Action::Kind kind, Loss why) {
    Action& a = actions.emplace_back(Action{kind, e.slot, e.incarnation, e.entry, e.record, why});
    a.name_kind = e.kind;
    a.name = e.name;
    a.holder = e.holder;
    a.pid = s == nullptr ? 0 : s->pid;
    a.weight = e.weight;
    a.token = e.token;
    a.text = describe(e, s, to_string(why));
  };
  std::multimap<SlotIndex, const EntryView*> entries_of;
  for (const EntryView& e : snapshot.entries) entries_of.emplace(e.slot, &e);
  std::map<SlotIndex, const SessionView*> session_of;
  for (const SessionView& s : snapshot.sessions) {
    session_of.emplace(s.slot, &s);
    const bool dead = s.life.life == Life::dead;
    if (!dead && s.state != SlotState::fenced) continue;
    const auto [first, end] = entries_of.equal_range(s.slot);
    for (auto at = first; at != end; ++at) {
      const EntryView& e = *at->second;
      if (!owns(s, e) || (!dead && !holds(e.phase) && e.phase != Phase::waiting)) continue;
      about(e, &s, kind_of(e.phase), dead ? Loss::died : Loss::forced);
    }
    if (dead) {
      actions.push_back(Action{Action::Kind::bury_session, s.slot, s.incarnation, 0, 0, Loss::died});
      actions.back().text = describe(s);
    }
  }
  const auto others = static_cast<std::ptrdiff_t>(actions.size());
  for (const EntryView& e : snapshot.entries) {
    const auto found = session_of.find(e.slot);
    const SessionView* const s = found != session_of.end() && owns(*found->second, e) ? found->second : nullptr;
    if (s != nullptr && (s->life.life == Life::dead || s->state == SlotState::fenced)) continue;
    if (e.slot == engine::detached_slot && e.bound_process_gone) {
      about(e, nullptr, kind_of(e.phase), Loss::died);
    } else if (options.reclaim_stale && e.lease != Loss::none && holds(e.phase)) {
      about(e, s, Action::Kind::reclaim_lease, e.lease);
    }
  }
  // Of one name in the order of their acquires, since the next holder hears of the last one.
  std::sort(actions.begin() + others, actions.end(), [](const Action& a, const Action& b) {
    return std::tie(a.record, a.token, a.entry) < std::tie(b.record, b.token, b.entry);
  });
  return actions;
}

SweepReport sweep(const Mapping& mapping, std::int64_t now_ns, const SweepOptions& options) {
  const View& view = mapping.view();
  if (!options.dry_run) finish_words(mapping);
  const Snapshot snapshot = take_snapshot(mapping, now_ns);
  SweepReport report;
  report.planned = plan(snapshot, options);
  for (const SessionView& s : snapshot.sessions) report.unsure += s.life.life == Life::dying ? 1U : 0U;
  if (options.dry_run) return report;
  for (const Action& a : report.planned) {
    if (a.kind == Action::Kind::bury_session) {
      report.buried += bury(mapping, a.slot, a.incarnation) ? 1U : 0U;
    } else if (a.kind == Action::Kind::reclaim_lease) {
      if (options.warn) tell_stale(view, a.record, a.entry, a.why);
      if (reclaim_lease(mapping, a.record, a.entry, now_ns).step != engine::Step::reclaimed) continue;
      report.reclaimed += 1;
      report.taken.push_back(a);
    } else if (a.slot == engine::detached_slot) {
      const std::uint64_t owner = engine::pack_owner({a.slot, a.incarnation});
      mapping.prepare_notice(a.record, a.entry);
      engine::bury_entry<RealPolicy>(view, a.entry, owner, Burial::dead);
      report.reclaimed += 1;
    }
  }
  for (const SessionView& s : snapshot.sessions) {
    if (s.state == SlotState::fenced && s.life.life != Life::dead) fence(mapping, s.slot, s.incarnation);
  }
  finish_words(mapping);
  // The dead give nothing back by themselves, so what they do not hold any more was taken from them.
  for (const Action& a : report.planned) {
    if (a.kind == Action::Kind::release_hold && !stands(view, a)) report.taken.push_back(a);
  }
  return report;
}

void finish_words(const Mapping& mapping) {
  if (!RealPolicy::keeps(Safety::sweep_finishes)) return;
  const View& view = mapping.view();
  Chunks<RealPolicy>(view).for_each([&](std::uint32_t chunk, std::uint64_t owner) {
    for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const engine::Entry& e = view.entry(chunk * engine::entries_per_chunk + n);
      const engine::Status status = engine::unpack_status(RealPolicy::load(e.status));
      const engine::Record* const record = record_at(view, status.record);
      if (status.phase == Phase::free || record == nullptr) continue;
      const engine::ControlOps<RealPolicy> ops(view, status.record, RealPolicy::load(record->generation));
      ops.finish_now();
      ops.settle();
    }
    const bool detached = engine::unpack_owner(owner).slot == engine::detached_slot;
    if (detached && RealPolicy::keeps(Safety::chunk_is_swept)) engine::free_if_empty<RealPolicy>(view, chunk, owner);
  });
}

}  // namespace shmcoord::process
