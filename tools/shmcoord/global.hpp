#pragma once

#include <optional>
#include <string>

// What stands before the command and holds for every command.

namespace shmcoord::tool {

struct Global {
  std::string segment;  ///< name or path; never empty: -s, else SHMCOORD_SEGMENT, else default-<uid>
  std::optional<unsigned> trusted_owner = {};  ///< --trust, else SHMCOORD_TRUST: a segment of this user is accepted too
  bool json = false;                           ///< for programs: one document, or one per line for streams
  bool color = false;                          ///< standard output is a terminal that shows colours
};

}  // namespace shmcoord::tool
