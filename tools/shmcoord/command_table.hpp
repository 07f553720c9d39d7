#pragma once

#include <span>
#include <string_view>

#include "shmcoord/arguments.hpp"

// The one table of commands and options. The parser, the help, the completion and the tests are made from it, so what
// is offered and what is understood cannot drift apart.

namespace shmcoord::tool {

struct Option {
  const char* names;  // "-l,--lock"; the long name comes last and is what Arguments knows it by
  const char* value;  // what stands for the value in the help; nullptr: a flag
  const char* help;
  bool many = false;  // may be given several times
};

enum class Words : unsigned char {
  none,
  one,       // NAME
  optional,  // [NAME]
  file,      // FILE
  any,       // [NAME...]
  topic,     // [COMMAND]
  command,   // [--] CMD [ARG...]: everything from the first word on belongs to the command
};

struct Command {
  std::string_view path;  // "lock acquire"
  Words words;
  const char* help;  // one line
  std::span<const Option> options;
  int (*run)(const Arguments& arguments);
  std::span<const char* const> more = {};  // paragraphs of what one has to know
  bool adapters = false;                   // asks outside of the segment: adapters_program.hpp
};

[[nodiscard]] std::span<const Option> global_options();
[[nodiscard]] std::span<const Command> commands();
/// Understood, but offered to nobody: for the build, and for the completion.
[[nodiscard]] std::span<const Command> hidden_commands();

/// "--lock" of "-l,--lock".
[[nodiscard]] constexpr std::string_view long_name(const Option& option) {
  const std::string_view names = option.names;
  return names.substr(names.rfind(',') + 1);
}

// Each in its own file.
int run_command(const Arguments& arguments);
int lock_acquire(const Arguments& arguments);
int lock_release(const Arguments& arguments);
int lock_heartbeat(const Arguments& arguments);
int lock_renew(const Arguments& arguments);
int lock_status(const Arguments& arguments);
int lock_remove(const Arguments& arguments);
int sem_create(const Arguments& arguments);
int sem_acquire(const Arguments& arguments);
int sem_release(const Arguments& arguments);
int sem_heartbeat(const Arguments& arguments);
int sem_renew(const Arguments& arguments);
int sem_resize(const Arguments& arguments);
int sem_status(const Arguments& arguments);
int sem_remove(const Arguments& arguments);
int guard_add(const Arguments& arguments);
int guard_eval(const Arguments& arguments);
int guard_wait(const Arguments& arguments);
int guard_list(const Arguments& arguments);
int guard_remove(const Arguments& arguments);
int pipeline_run(const Arguments& arguments);
int pipeline_status(const Arguments& arguments);
int pipeline_resume(const Arguments& arguments);
int pipeline_cancel(const Arguments& arguments);
int pipeline_remove(const Arguments& arguments);
int force_release(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int segment_create(const Arguments& arguments);
int segment_list(const Arguments& arguments);
int segment_info(const Arguments& arguments);
int segment_check(const Arguments& arguments);
int segment_remove(const Arguments& arguments);
int snapshot_save(const Arguments& arguments);
int snapshot_restore(const Arguments& arguments);
int help_command(const Arguments& arguments);
int completion_command(const Arguments& arguments);
int manual_command(const Arguments& arguments);
int names_command(const Arguments& arguments);

/// The bash completion as a script.
[[nodiscard]] std::string bash_completion();

}  // namespace shmcoord::tool
