#pragma once

#include <sys/types.h>

#include <vector>

// The processes that a command left behind, as their adoptive parent sees them.
//
// The caller is a subreaper: when a process of the tree ends, its children become the caller's. So the tree can be
// ended from the top without knowing it: kill all children, reap them, look who was handed up, and again, until there
// is none. Each number that is signalled belongs to a child of ours that was not reaped yet, so it cannot have been
// reused.
//
// A tree that forks faster than it is killed, for ever, is not caught by this; only a cgroup would do that. It keeps
// its lock. Where /proc is missing, or is another PID namespace's, only the command's process group can be ended; what
// left that is waited for.

namespace shmcoord::tool {

/// The children of this process. Empty also when /proc cannot be read or does not show our PID namespace.
[[nodiscard]] std::vector<pid_t> children_of_this_process();

/// Signals every child that is not in the process group `group`.
void signal_others(int signal, pid_t group) noexcept;
/// These, and the group, if a child is in it (else its number may be somebody else's by now).
void signal_children(int signal, pid_t group) noexcept;

/// Reaps without waiting all children that ended. False: there are no children at all. When `pid` is among them, its
/// wait status goes to `status`, and `*reaped` becomes true.
bool reap_ended(pid_t pid, int* status, bool* reaped) noexcept;

/// Kills and reaps until there are no children, however long that takes (`pid` as above).
void end_tree(pid_t group, pid_t pid, int* status, bool* reaped) noexcept;

}  // namespace shmcoord::tool
