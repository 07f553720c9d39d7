#pragma once

#include <signal.h>

#include <string>
#include <vector>

#include "shmcoord/run_channel.hpp"

// The guardian: the process between `run` and the command, so that no next holder gets in while anything of the command
// still runs, even when `run` itself is killed with SIGKILL.
//
//   shmcoord run (session, keeper, locks) --- guardian (subreaper) --- command --- …
//
// It is forked before `run` has a thread or a mapping, so it is small and may do what a process may do. It waits in its
// own process group with all signals blocked, so that what is sent to a terminal, a job or every process of a unit does
// not take it away; only SIGKILL does.
//
// The order to start brings a descriptor of the segment that carries a lock of the session's slot
// (process/byte_lock.hpp). Guardian and command keep it open: until both, and whatever inherited it from the command,
// are gone, the slot is not dead, and nobody takes over what it holds.
//
// Who may die, and what then:
//   run        the channel ends: everything below is killed, waited for, and only then the guardian goes
//   guardian   the kernel kills the command (PDEATHSIG); `run` is a subreaper too, inherits the rest, and ends it
//   both       the command is killed by the kernel; what it started goes on, and goes on holding the descriptor
//   command    by a signal: the rest of its tree is ended at once, so the lock is free. By exit: what it left behind
//   keeps
//              the hold until it ends, unless told otherwise
// PDEATHSIG is a backup only: a set-uid program clears it.

namespace shmcoord::tool {

struct GuardianTask {
  std::vector<std::vector<std::string>> commands;  // one runs at a time
  bool again = false;                              // when one has ended, the next order to start may come
  std::vector<std::string> environment;            // NAME=VALUE, beside those that come with the order to start
  sigset_t original_mask{};                        // what the command gets
  int terminal = -1;                               // of the command, when it is told to be in the foreground
  bool wait_tree = true;
  long long grace_ns = 0;
};

struct Guardian {
  pid_t pid = 0;
  Channel channel;
};

/// Forks it, from a process with one thread. Throws Error(system).
[[nodiscard]] Guardian start_guardian(const GuardianTask& task);

}  // namespace shmcoord::tool
