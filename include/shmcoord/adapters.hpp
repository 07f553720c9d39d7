#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shmcoord/guard_executor.hpp"

// The ports of conditions to the outside world: git, files, commands, issues, sessions. A component of its own: link
// shmcoord::adapters, which needs libgit2 and RE2; nothing of them is seen here.
//
//   namespace adapters = shmcoord::adapters;
//   shmcoord::GuardExecutor executor{{.primitives = primitives_of(segment),
//                                     .repository = adapters::git_repository("."),
//                                     .files = adapters::files(),
//                                     .commands = adapters::shell_commands()}};
//
// Every port here is safe to use from several threads at once, keeps nothing between two calls (so an answer is as new
// as the call), and changes nothing but what a command changes. What cannot be found out is a std::runtime_error with
// one line for people. If the process dies here nothing is lost; a command that it was running goes on without it.

namespace shmcoord::adapters {

/// The git repository that `path` lies in: a directory of a work tree, a linked worktree, or a bare repository (S0-47
/// to S0-49). It need not exist yet: it is opened with each call.
///
/// A branch is a local one (`fix`), else a remote-tracking one (`origin/fix`), or a full name (`refs/…`).
/// `is_clean`: where that branch is checked out, in whichever worktree, nothing is changed, staged or untracked,
/// ignored files aside; also a branch whose rebase is under way there counts as checked out. One that is checked out
/// nowhere is clean. It and `is_merged` throw if a branch does not exist.
///
/// Looking runs no program that the repository names: a file under a filter driver (git-lfs) is compared as it lies on
/// the disk once its time stamp says that it may have changed. The walk of a work tree ends with the deadline; that of
/// a history does not. git's rule on repositories of other owners (safe.directory) is kept.
[[nodiscard]] std::shared_ptr<GuardRepository> git_repository(std::string path);

struct FileOptions {
  std::string base_dir = {};                      ///< what relative paths start from; empty: the working directory
  std::size_t max_bytes = std::size_t{8} << 20U;  ///< a larger file is not read
};

/// Files as this process sees them (S0-50, S0-51, C-55). `exists` follows links and takes anything that has the name.
/// `contains` reads a regular file, and no other: a file that is absent, a directory, a pipe, a device, or larger than
/// the limit throws. The pattern has RE2's syntax, is found anywhere, and `^` and `$` also match at each line, which
/// ends with "\n" alone: write `\r?$` for files from elsewhere. A pattern that RE2 refuses throws with its reason.
[[nodiscard]] std::shared_ptr<GuardFiles> files(FileOptions options = {});

struct CommandOptions {
  std::string directory = {};                       ///< where it runs; empty: the working directory
  std::size_t max_output = std::size_t{64} << 10U;  ///< bytes of its output that are kept, the last ones
  std::chrono::milliseconds grace{500};             ///< from SIGTERM to SIGKILL when it has to be ended
  std::vector<std::string> launcher = {};           ///< a program with arguments that runs the shell, as `nice` does
};

/// Commands by `/bin/sh -c` (S0-57, S1-78): in a process group of their own, with nothing to read, no descriptor and no
/// signal setting of this process. At the deadline or the stop the whole group is ended, first asked, then killed.
///
/// `detail` is how it ended with the last line that it wrote: "exit code 2: make: No rule to make target 'check'".
/// It throws if it cannot be run (also exit codes 126 and 127, which say that in a shell), did not end in time, or left
/// processes behind in its group, which are ended: what such a command found out may still change. A process that went
/// into a session of its own is neither waited for nor ended.
///
/// SIGCHLD may be ignored by this process; then a second shell tells the exit code. If somebody else in the process
/// waits for all children, how the command ended may be lost to him: that throws.
[[nodiscard]] std::shared_ptr<GuardCommands> shell_commands(CommandOptions options = {});

struct IssueOptions {
  /// Told what is odd about the issues, one line each: IssueList::warnings. From the thread that asks, so maybe from
  /// several at once; what it throws is what the port throws.
  std::function<void(const std::string& warning)> warn = {};
};

/// Issues as JSON (issue_list.hpp), read anew with each call: from a file, or from what a command like
/// `gh issue list --json number,state,labels` writes to its standard output. The command must exit with 0. An issue
/// that is not among them throws.
[[nodiscard]] std::shared_ptr<GuardIssues> issues_from_file(std::string path, IssueOptions options = {});
[[nodiscard]] std::shared_ptr<GuardIssues> issues_from_command(std::string command, CommandOptions command_options = {},
                                                               IssueOptions options = {});

/// A session lives if the command exits with 0. It finds the session's name in the variable SHMCOORD_SESSION, never in
/// its own text. What it throws: as shell_commands().
[[nodiscard]] std::shared_ptr<GuardSessions> sessions_from_command(std::string command, CommandOptions options = {});

/// A session lives if one of these says so; they are asked in this order, until one does. If none does and some could
/// not tell, that is not known, with the first reason. Throws std::invalid_argument if one is null.
[[nodiscard]] std::shared_ptr<GuardSessions> any_of(std::vector<std::shared_ptr<GuardSessions>> sessions);

}  // namespace shmcoord::adapters
