#include "process/liveness.hpp"

#include <algorithm>
#include <optional>

#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/host.hpp"
#include "process/identity.hpp"

namespace shmcoord::process {

using engine::RealPolicy;
using engine::View;

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
  return slots_of(mapping).life_of(slot, std::nullopt, look);
}

LifeReport life_of(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation, Look look) {
  return slots_of(mapping).life_of(slot, incarnation, look);
}

LifeReport life_of_entry(const Mapping& mapping, EntryIndex entry, Look look) {
  const View& view = mapping.view();
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner == 0) return {Life::dead, Proof::buried};
  const engine::ChunkOwner o = engine::unpack_owner(owner);
  if (o.slot != engine::detached_slot) return life_of(mapping, o.slot, o.incarnation, look);
  const engine::Entry& e = view.entry(entry);
  if (is_earlier_boot(RealPolicy::load(e.boot))) return {Life::dead, Proof::earlier_boot};
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
