#pragma once

#include <cstdint>

#include "engine/words.hpp"

// The confirmation that a process is really gone.
//
// The life word says that the keeper thread ended. Another thread of that process may still be inside a system call,
// e.g. writing a file under the lock; it outlived the keeper by up to 46 ms in measurements. A POSIX record lock of the
// segment file is dropped when the last task lets go of the descriptor table, which is after the last system call. So
// each slot owns two bytes of the file's lock space:
//   2*slot      F_SETLK of the process (dies with its last thread, is not inherited by fork, ends at exec since the
//               descriptor is close-on-exec);
//   2*slot + 1  OFD lock on a descriptor that a command inherits (`run`): free when the whole tree has closed it.
//
// Traps. Closing *any* descriptor of the file drops all POSIX locks that this process has on it: nothing here ever
// closes one. F_GETLK never reports the caller's own locks, and POSIX locks do not exclude two users inside one
// process: for both, this process keeps a list of the slots it owns (own_slots). The pid that F_GETLK returns is 0 or
// -1 across namespaces and for OFD locks, so only the type is looked at.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

using engine::Mapping;
using engine::SlotIndex;

/// Reserves the slot within this process and locks its byte. False: another process (or part of this one) has it.
[[nodiscard]] bool lock_slot(const Mapping& mapping, SlotIndex slot);
/// Gives both up.
void unlock_slot(const Mapping& mapping, SlotIndex slot);

/// Does this process own the slot? (Its forked children do not.)
[[nodiscard]] bool owns_slot(const Mapping& mapping, SlotIndex slot);

enum class ByteState : std::uint8_t { free, locked, unknown };

/// Are both bytes of the slot free, as seen from outside? Never ask about an own slot: own locks are not reported.
[[nodiscard]] ByteState probe_slot(const Mapping& mapping, SlotIndex slot);
/// Only the inherited byte. May be asked about an own slot.
[[nodiscard]] ByteState probe_inherited(const Mapping& mapping, SlotIndex slot);

/// A new descriptor that locks byte 2*slot+1; close-on-exec, so the child that is to keep the lock clears that flag
/// before it execs. Never close it in this process (see above). Throws Error(system).
[[nodiscard]] int open_inherited_lock(const Mapping& mapping, SlotIndex slot);

}  // namespace shmcoord::process
