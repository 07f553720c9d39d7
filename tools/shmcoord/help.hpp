#pragma once

#include <string>
#include <string_view>

#include "shmcoord/command_table.hpp"

// What the command table says to people: the help on the terminal, and the manual page.

namespace shmcoord::tool {

/// `shmcoord --help`.
[[nodiscard]] std::string general_help();
/// "create, acquire, …": the words that may follow that of a group; of none (""), the first words of all commands.
[[nodiscard]] std::string known_words(std::string_view group);
/// `shmcoord sem --help`.
[[nodiscard]] std::string help_of_group(std::string_view group);
/// `shmcoord COMMAND --help`.
[[nodiscard]] std::string help_of(const Command& command);
/// shmcoord(1), in troff with the man macros.
[[nodiscard]] std::string manual_page();

}  // namespace shmcoord::tool
