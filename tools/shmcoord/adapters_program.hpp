#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shmcoord/guard_executor.hpp"

// What a command asks outside of the segment: git, files, shell commands, issues.
//
// Problem: the tool is linked statically, since a script pays for its start with every call, and what the adapters need
// (libgit2) cannot be. So there is the tool once more, linked dynamically with the adapters and installed beside it in
// libexec. A command that needs them (`adapters` in the command table) goes on there: the tool checks the words, then
// becomes that program with the same words. Both are made of the same sources but for main().
//
// If we die here: nothing was begun before the other program runs.

namespace shmcoord::tool {

/// Where and whom to ask, as it was typed.
struct AskOptions {
  std::string directory = {};  ///< what relative paths and commands of a condition start from; empty: the working one
  std::optional<std::string> repository = {};  ///< none: that of `directory`
  std::optional<std::string> issues_file = {};
  std::optional<std::string> issues_command = {};
  bool end_with_us = false;                          ///< commands are ended when this process is, however it ends
  std::optional<std::string> sessions_command = {};  ///< asked beside the sessions that the ports know already
};

/// Adds to the ports what asks outside. What it gives back is called in the end, and waits until commands whose time is
/// over have been ended: with this process nobody would be left to do it.
using AddAdapters = std::function<void()> (*)(GuardPorts& ports, const AskOptions& options);

/// By main() of the program that is linked with them.
void use_adapters(AddAdapters add) noexcept;
/// nullptr: this program has none.
[[nodiscard]] AddAdapters known_adapters() noexcept;

/// Goes on as the program that has them, with the same words. It is looked for beside this one, then where it is
/// installed; throws Refusal when it cannot be run.
[[noreturn]] void become_adapters_program(char** argv);

}  // namespace shmcoord::tool
