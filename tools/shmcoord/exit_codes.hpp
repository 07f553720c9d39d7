#pragma once

// What the tool's exit codes mean. Scripts rely on the numbers.

namespace shmcoord::tool {

enum ExitCode : int {
  exit_done = 0,
  exit_busy = 1,       // busy, timed out, still in use; -E changes it for busy and timed out
  exit_missing = 2,    // it does not exist, is not yours, or is already free
  exit_usage = 64,     // the command line is wrong
  exit_unusable = 69,  // the segment cannot be used
  exit_internal = 70,
  exit_lost = 75,  // `run`: the hold was lost while the command ran
  exit_cannot_execute = 126,
  exit_not_found = 127,
  exit_by_signal = 128,  // + N
};

}  // namespace shmcoord::tool
