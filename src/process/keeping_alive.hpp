#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "process/primitive_client.hpp"
#include "process/snapshot.hpp"

// What keeps the lock of a holder that seems to be gone?
//
// A holder is `dying` as long as somebody has a descriptor with a byte lock of its slot (process/byte_lock.hpp): what
// the command of a killed `run` left behind, or a thread of the holder that is not out of its last system call. Only
// the end of those frees the lock, so a person who waits for it needs their names. /proc tells them:
// /proc/PID/fdinfo says which locks come with each descriptor of a process.
//
// This is for people to read and decides nothing. It sees what /proc shows to this user in this PID namespace, it costs
// a walk over all processes, and so it is asked only about holders that are dying. It is only reading: no descriptor of
// the segment is opened, which would cost this process its own record locks when closed.

namespace shmcoord::process {

struct KeepingAlive {
  SlotIndex slot = 0;
  std::int32_t pid = 0;
  std::string command;  // as in process/identity.hpp
};

/// The processes that keep the dying holders of the picture, by pid; nothing is looked up when none is dying.
/// Thread-safe; changes nothing.
[[nodiscard]] std::vector<KeepingAlive> keeping_alive(const Mapping& mapping, const Picture& picture);

/// Nothing when the lock's holder is not dying, which costs one look at its life word; else who keeps it, which may be
/// nobody that /proc shows.
[[nodiscard]] std::optional<std::vector<KeepingAlive>> keeping_holder_alive(const PrimitiveClient& client);

/// The process that a detached holder of the lock is bound to, if it cannot be judged from here: whether it has ended
/// is for others to find out.
struct OutOfSight {
  std::int32_t pid = 0;
  Sight sight = Sight::seen;
};
[[nodiscard]] std::optional<OutOfSight> holder_out_of_sight(const PrimitiveClient& client);

}  // namespace shmcoord::process
