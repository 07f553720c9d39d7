#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "shmcoord/global.hpp"

// `shmcoord inspect`: what is in the segment, for people and for programs.

namespace shmcoord::tool {

struct InspectArgs {
  Global global;
  std::vector<std::string> names;  // only these locks; empty: everything
  bool watch = false;
  bool graph = false;
  bool dot = false;
};

/// Columns of the terminal that standard output is; 0: it is none.
[[nodiscard]] std::size_t terminal_width();

/// The exit code. Throws Error when the segment cannot be used.
int inspect_command(const InspectArgs& args);

}  // namespace shmcoord::tool
