#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// Which process is this, and what does /proc say about another one?
//
// None of it is an identity: pids are reused, are equal in every container, and may be hidden. The identity of a
// participant is its slot's random id and incarnation. What stands here is shown to people, and may confirm a death
// that the kernel announced otherwise. So every answer has a way to say "unknown", and unknown never means dead: /proc
// may be missing, hide other users' processes, or belong to another PID namespace than ours.

namespace shmcoord::process {

/// A number for this boot of the kernel; 0 unknown. Two boots differ with overwhelming probability.
[[nodiscard]] std::uint64_t boot_number();

/// Is that the number of another boot than this one? Not if either is unknown.
[[nodiscard]] bool is_earlier_boot(std::uint64_t boot);

/// Inode of the caller's PID namespace; 0 unknown. Not cached: a child may be in another one.
[[nodiscard]] std::uint64_t own_pid_namespace();

/// Do the numbers in /proc mean the processes that we mean? Not where it is missing, nor where it was mounted for
/// another PID namespace (a container that sees its host's).
[[nodiscard]] bool proc_shows_own_namespace();

/// Field 22 of /proc/PID/stat, in clock ticks since boot; nullopt when it cannot be read, or /proc speaks of other
/// processes. One's own is right even then.
[[nodiscard]] std::optional<std::uint64_t> start_time_of(pid_t pid);
[[nodiscard]] std::optional<std::uint64_t> own_start_time();

/// The command line of a process with blanks between arguments; its name in brackets when it has none; empty if
/// unknown. command_of: of the number that /proc uses.
[[nodiscard]] std::string command_of(pid_t pid);
[[nodiscard]] std::string own_command();

/// What one line of /proc/PID/stat says. The name in it may contain blanks and parentheses.
struct StatLine {
  std::string comm;
  char state = '?';
  std::uint64_t flags = 0;       // field 9: PF_* of the task
  std::uint64_t start_time = 0;  // field 22
};
[[nodiscard]] std::optional<StatLine> parse_stat(const std::string& text);

enum class ProcessState : std::uint8_t {
  running,  ///< at least one task still runs user code or is inside a system call
  exiting,  ///< every task is past its last system call (a zombie leader alone does not count)
  gone,     ///< no such process in our PID namespace, or the pid belongs to a younger one
  unknown,  ///< another PID namespace, /proc hidden or missing
};

/// The state of the process that was {pid, start_time} in the PID namespace with that inode. start_time 0: not
/// compared.
[[nodiscard]] ProcessState process_state(pid_t pid, std::uint64_t start_time, std::uint64_t pid_namespace);

/// Can that process be judged from here?
enum class Sight : std::uint8_t {
  seen,       ///< yes: it is there, or it is gone
  hidden,     ///< its number is in use, but /proc does not show by whom: hidepid, or a /proc that is not ours
  elsewhere,  ///< it is of another PID namespace
  unknown,    ///< it is not known which PID namespace it is of, or which is ours: no /proc
};
[[nodiscard]] Sight sight_of(pid_t pid, std::uint64_t pid_namespace);

}  // namespace shmcoord::process
