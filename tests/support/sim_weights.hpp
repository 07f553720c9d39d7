#pragma once

#include <cstdint>

#include "engine/control.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_segment.hpp"

// What the stories and the scenarios of weights have in common: each process has a second entry, for its parts.

namespace shmcoord::sim {

inline Segment segment_of(std::uint32_t capacity) {
  Segment segment(capacity);
  segment.entries_in_use = 2;
  return segment;
}

/// Of an entry that is out of use.
inline std::uint64_t take(const engine::ControlOps<SimPolicy>& ops, EntryIndex i, std::uint32_t weight) {
  ops.set_weight(i, weight);
  const engine::Result r = ops.try_acquire(i, weight, 0);
  require(r.step == engine::Step::acquired, "there is room, and it is not let in");
  return r.seq;
}
inline void queue(const engine::ControlOps<SimPolicy>& ops, EntryIndex i, std::uint32_t weight) {
  ops.set_weight(i, weight);
  require(ops.acquire_or_queue(i, weight, 0).step == engine::Step::queued, "there is no room, and it does not wait");
}

}  // namespace shmcoord::sim
