#pragma once

#include <cstdint>

// Which PID namespace and which time namespace is this process in?
//
// Both are named by an inode, which /proc shows. A chroot or a small container may have no /proc; then a pidfd of the
// process itself tells (Linux 6.11). Pids of different PID namespaces and monotonic clocks of different time namespaces
// must never be compared, so whoever gets 0 (unknown) must not take it for equal to anything.

namespace shmcoord::engine {

enum class NamespaceKind : std::uint8_t { pid, time };

/// The inode; 0 unknown. Not cached: a child may be in another one.
[[nodiscard]] std::uint64_t own_namespace(NamespaceKind kind) noexcept;

}  // namespace shmcoord::engine
