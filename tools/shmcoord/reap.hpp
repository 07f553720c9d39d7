#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "shmcoord/global.hpp"

// `shmcoord reap`: the reaper, in the foreground.

namespace shmcoord::tool {

struct ReapArgs {
  Global global;
  bool once = false;
  std::optional<std::chrono::nanoseconds> interval;  // default 30 s
  bool dry_run = false;
  bool reclaim = true;                                    // false: leases that ran out are only told of
  std::optional<std::string> save_to;                     // a file
  std::optional<std::chrono::nanoseconds> save_interval;  // default 5 min
};

/// The exit code. Throws Error when the segment, or the file to save to, cannot be used.
int reap_command(const ReapArgs& args);

}  // namespace shmcoord::tool
