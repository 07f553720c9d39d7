#pragma once

#include <string>

// What stands before the command and holds for every command.

namespace shmcoord::tool {

struct Global {
  std::string segment;  ///< name or path; never empty: -s, else SHMCOORD_SEGMENT, else default-<uid>
  bool json = false;    ///< for programs: one document, or one per line for streams
  bool color = false;   ///< standard output is a terminal that shows colours
};

}  // namespace shmcoord::tool
