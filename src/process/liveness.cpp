#include "process/liveness.hpp"

#include <algorithm>

#include "core/lease.hpp"
#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/byte_lock.hpp"
#include "process/identity.hpp"

namespace shmcoord::process {

using engine::RealPolicy;
using engine::Safety;
using engine::SessionSlot;
using engine::SlotId;
using engine::SlotState;
using engine::View;

namespace {

bool boot_differs(std::uint64_t boot) {
  const std::uint64_t now = boot_number();
  return boot != 0 && now != 0 && boot != now;
}

ProcessState state_of(const SessionSlot& slot) {
  return process_state(RealPolicy::get(slot.pid), RealPolicy::get(slot.start_time),
                       RealPolicy::get(slot.pid_namespace));
}

// Two intervals of its own without a beat.
bool silent(const SessionSlot& slot) {
  const auto last = static_cast<std::int64_t>(RealPolicy::load(slot.heartbeat_ns));
  const auto interval = static_cast<std::int64_t>(RealPolicy::load(slot.beat_interval_ns));
  return core::age_ns(last, RealPolicy::now_ns()) / 2 > interval;
}

// The byte alone is lost when its process closes another descriptor of the file, so it needs a second witness: the
// process, or, where that cannot be seen or has become another program by exec, the heartbeat.
LifeReport without_life_word(const Mapping& mapping, SlotIndex s) {
  if (probe_slot(mapping, s) != ByteState::free) return {Life::alive, Proof::byte_lock};
  if (!RealPolicy::keeps(Safety::lone_byte_has_witness)) return {Life::dead, Proof::process_and_byte};
  const SessionSlot& slot = mapping.view().slot(s);
  const ProcessState state = state_of(slot);
  if (state == ProcessState::gone || state == ProcessState::exiting) return {Life::dead, Proof::process_and_byte};
  return {silent(slot) ? Life::dead : Life::unknown, Proof::heartbeat_and_byte};
}

LifeReport owner_died(const Mapping& mapping, SlotIndex s, Look look) {
  if (!RealPolicy::keeps(Safety::byte_confirms_death) || probe_slot(mapping, s) == ByteState::free) {
    return {Life::dead, Proof::life_word_and_byte};
  }
  if (look == Look::quick) return {Life::dying, Proof::life_word_and_byte};
  const ProcessState state = state_of(mapping.view().slot(s));
  const bool ended = state == ProcessState::exiting || state == ProcessState::gone;
  if ((ended || !RealPolicy::keeps(Safety::tasks_confirm_death)) &&
      (probe_inherited(mapping, s) == ByteState::free || !RealPolicy::keeps(Safety::inherited_byte_confirms))) {
    return {Life::dead, Proof::life_word_and_tasks};
  }
  return {Life::dying, Proof::life_word_and_byte};
}

LifeReport no_notice(const Mapping& mapping, SlotIndex s, Look look) {
  if (look == Look::quick || probe_slot(mapping, s) != ByteState::free) return {Life::alive, Proof::life_word};
  switch (state_of(mapping.view().slot(s))) {
    case ProcessState::gone:
    case ProcessState::exiting: return {Life::dead, Proof::process_and_byte};
    case ProcessState::running:
      return {RealPolicy::keeps(Safety::running_is_alive) ? Life::alive : Life::dead, Proof::life_word};
    case ProcessState::unknown: return {Life::unknown, Proof::heartbeat_only};
  }
  return {};
}

LifeReport examine(const Mapping& mapping, SlotIndex s, const SlotId& id, Look look) {
  const SessionSlot& slot = mapping.view().slot(s);
  switch (id.state) {
    case SlotState::free:
    case SlotState::dying: return {Life::dead, Proof::buried};
    case SlotState::permanent: return {Life::alive, Proof::permanent};
    case SlotState::joining:
      if (owns_slot(mapping, s) ||
          (RealPolicy::keeps(Safety::joiner_has_byte) && probe_slot(mapping, s) != ByteState::free))
        return {Life::alive, Proof::byte_lock};
      return {Life::dead, Proof::joiner_gone};
    case SlotState::alive:
    case SlotState::fenced: break;
  }
  if (RealPolicy::keeps(Safety::earlier_boot_is_dead) && boot_differs(RealPolicy::get(slot.boot)))
    return {Life::dead, Proof::earlier_boot};
  if (RealPolicy::keeps(Safety::own_slot_is_alive) && owns_slot(mapping, s)) return {Life::alive, Proof::own_process};
  if ((RealPolicy::load(slot.flags) & engine::slot_no_life_word) != 0) return without_life_word(mapping, s);
  if ((RealPolicy::load(slot.life) & engine::life_died) != 0) return owner_died(mapping, s, look);
  return no_notice(mapping, s, look);
}

LifeReport life_of_slot(const Mapping& mapping, SlotIndex s, const std::uint64_t* incarnation, Look look) {
  if (!mapping.view().slot_exists(s)) return {Life::dead, Proof::buried};
  const SessionSlot& slot = mapping.view().slot(s);
  for (;;) {
    const std::uint64_t raw = RealPolicy::load(slot.id);
    const SlotId id = engine::unpack_slot(raw);
    if (RealPolicy::keeps(Safety::slot_incarnation) && incarnation != nullptr &&
        !engine::same_incarnation(id.incarnation, *incarnation)) {
      return {Life::dead, Proof::buried};
    }
    const LifeReport report = examine(mapping, s, id, look);
    // What was looked at belongs to one incarnation only if that is still there.
    if (RealPolicy::load(slot.id) == raw || !RealPolicy::keeps(Safety::slot_same_again)) return report;
  }
}

}  // namespace

std::string_view to_string(Life life) noexcept {
  switch (life) {
    case Life::alive: return "alive";
    case Life::dying: return "dying";
    case Life::dead: return "dead";
    case Life::unknown: return "unknown";
  }
  return "unknown";
}

std::string_view to_string(Proof proof) noexcept {
  switch (proof) {
    case Proof::none: return "none";
    case Proof::own_process: return "own process";
    case Proof::permanent: return "permanent";
    case Proof::life_word: return "life word";
    case Proof::byte_lock: return "byte lock";
    case Proof::life_word_and_byte: return "life word + byte lock";
    case Proof::life_word_and_tasks: return "life word + all tasks exiting";
    case Proof::process_and_byte: return "process gone + byte lock";
    case Proof::heartbeat_and_byte: return "heartbeat + byte lock";
    case Proof::joiner_gone: return "died while joining";
    case Proof::buried: return "buried";
    case Proof::earlier_boot: return "earlier boot";
    case Proof::bound_process: return "bound process";
    case Proof::heartbeat_only: return "heartbeat only";
  }
  return "none";
}

LifeReport life_of(const Mapping& mapping, SlotIndex slot, Look look) {
  return life_of_slot(mapping, slot, nullptr, look);
}

LifeReport life_of(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation, Look look) {
  return life_of_slot(mapping, slot, &incarnation, look);
}

LifeReport life_of_entry(const Mapping& mapping, EntryIndex entry, Look look) {
  const View& view = mapping.view();
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner == 0) return {Life::dead, Proof::buried};
  const engine::ChunkOwner o = engine::unpack_owner(owner);
  if (o.slot != engine::detached_slot) return life_of(mapping, o.slot, o.incarnation, look);
  const engine::Entry& e = view.entry(entry);
  if (boot_differs(RealPolicy::load(e.boot))) return {Life::dead, Proof::earlier_boot};
  const std::int32_t pid = RealPolicy::get(e.bound_pid);
  if (pid == 0) return {Life::alive, Proof::heartbeat_only};
  switch (process_state(pid, RealPolicy::get(e.bound_start_time), RealPolicy::get(e.bound_pid_namespace))) {
    case ProcessState::running: return {Life::alive, Proof::bound_process};
    case ProcessState::exiting:
    case ProcessState::gone: return {Life::dead, Proof::bound_process};
    case ProcessState::unknown: return {Life::unknown, Proof::bound_process};
  }
  return {};
}

bool confirm_death(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation, std::int64_t deadline_ns) {
  const engine::Word32 nobody_wakes;
  for (const std::int64_t start = RealPolicy::now_ns();;) {
    const LifeReport report = life_of(mapping, slot, incarnation, Look::thorough);
    if (report.life != Life::dying) return report.life == Life::dead;
    const std::int64_t now = RealPolicy::now_ns();
    if (now >= deadline_ns) return false;
    const engine::WaitOn word{&nobody_wakes, 0};
    RealPolicy::wait({&word, 1}, std::min(now + engine::confirm_pause(now - start), deadline_ns));
  }
}

}  // namespace shmcoord::process
