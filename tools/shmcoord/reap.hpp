#pragma once

#include <chrono>
#include <optional>

#include "shmcoord/global.hpp"

// `shmcoord reap`: the reaper, in the foreground.

namespace shmcoord::tool {

struct ReapArgs {
  Global global;
  bool once = false;
  std::optional<std::chrono::nanoseconds> interval;  // default 30 s
  bool dry_run = false;
};

/// The exit code. Throws Error when the segment cannot be used.
int reap_command(const ReapArgs& args);

}  // namespace shmcoord::tool
