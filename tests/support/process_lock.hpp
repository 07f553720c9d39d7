#pragma once

#include <mutex>
#include <string>

#include "engine/control.hpp"
#include "engine/name_index.hpp"
#include "process/participant.hpp"

// The smallest lock that tests of the layers below the Lock object need: a record by name, an entry of a participant.

namespace shmcoord::test {

using Ops = engine::ControlOps<engine::RealPolicy>;

inline Ops make_lock(process::Participant& me, const std::string& name, std::uint32_t capacity = 1,
                     const engine::NameConfigNs& config = {}) {
  const std::lock_guard guard(me.names_mutex());
  engine::NameIndex<engine::RealPolicy> names(me.mapping().view(), &me.mapping());
  const auto made = names.find_or_insert(name, engine::Kind::lock, capacity, config, me.slot());
  return {me.mapping().view(), made.found.record, made.found.generation};
}

inline void reset_entry(const engine::View& view, engine::EntryIndex i, std::uint32_t flags = 0) {
  engine::Entry& e = view.entry(i);
  engine::RealPolicy::store(e.weight, 1);
  engine::RealPolicy::store(e.flags, flags);
  engine::RealPolicy::store(e.ttl_ns, 0);
  engine::RealPolicy::store(e.heartbeat_ns, 0);
  e.bound_pid = 0;
}

inline engine::EntryIndex new_entry(process::Participant& me) {
  const engine::EntryIndex i = me.take_entry();
  reset_entry(me.mapping().view(), i);
  return i;
}

}  // namespace shmcoord::test
