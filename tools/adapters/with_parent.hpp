#pragma once

#include <string>
#include <vector>

// A command that does not outlive the process that started it, however that one ends.
//
// Problem: a guard's command belongs to the phase of a pipeline that is gated by it. When the runner is killed nobody
// would be left who ends the command when its time is over, and it keeps what the phase holds from the next one
// (GuardDeadline::kept_open) for as long as it runs. The kernel can send a signal for the death of a parent, but only
// to a child that asked for it, and a shell does not.
//
// So this program runs itself, as a process between: it asks for the signal, starts the command in its own process
// group, takes in what loses its parent, and ends as the command ended. When its parent is dead it kills all of that
// first. It hears no other signal but SIGKILL: whoever ends the group ends the command.
//
// If it dies here: the command goes on, as it would without it.

namespace shmcoord::tool {

/// What is to stand before a command, for children of this process. Empty where this program cannot be found (/proc).
[[nodiscard]] std::vector<std::string> with_parent();
/// Is this process the one between? Then it does not return.
void run_with_parent(int argc, char** argv);

}  // namespace shmcoord::tool
