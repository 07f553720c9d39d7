#pragma once

#include <string>

#include "shmcoord/command_table.hpp"

// What the command table says to people: the help on the terminal, and the manual page.

namespace shmcoord::tool {

/// `shmcoord --help`.
[[nodiscard]] std::string general_help();
/// `shmcoord COMMAND --help`.
[[nodiscard]] std::string help_of(const Command& command);
/// shmcoord(1), in troff with the man macros.
[[nodiscard]] std::string manual_page();

}  // namespace shmcoord::tool
