#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "process/keeping_alive.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/lock.hpp"

// What the tool says to people. Every message about a lock names the lock, who has it, since when and why.

namespace shmcoord::tool {

/// An error whose exit code is known where it is thrown.
struct Refusal {
  int code;
  std::string_view name;  // for programs: "system"
  std::string text;
};

/// Who reads what this program says. Set once, before the first word is said: a wrong command line too has to be
/// answered in the form that was asked for.
enum class Audience : unsigned char {
  people,
  programs,      // --json: text on standard error, and on standard output one document, also of an error
  run_programs,  // run --json: lines of JSON on standard error, since standard output belongs to the command
};
void speak_to(Audience audience) noexcept;

/// "shmcoord: <text>" and a line break on standard error, in one write; {"message":"<text>"} for programs that run a
/// command. Whatever bytes the text has, they do not drive the reader's terminal.
void say(std::string_view text);
/// Lines that belong to what was said last, each with its line break and fit to be printed. For people only.
void say_under(std::string_view lines);
/// For programs that run a command: one document on standard error.
void say_document(const std::string& document);
/// As say(), for what is the reason of an exit code other than 0. Programs get {"error":{"code":…,"message":…}}, on
/// standard output unless the command's own document is there already.
void say_error(std::string_view code, std::string_view text);
/// The segment's file was cut off under the mapping. May be called in a signal handler; ends the process.
[[noreturn]] void say_truncated() noexcept;
/// The text and a line break on standard output; throws Error(system) when it cannot be written.
void print_line(std::string_view text);
/// As it is, all of it; throws likewise.
void write_out(std::string_view text);

/// As it has to be typed: in quotes, if a shell would take it apart. Fit to be printed.
[[nodiscard]] std::string shell_word(const std::string& word);

/// "pipeline:42 (pid 123, make deploy) for 3m12s since 14:03:11, reason: rev=abc"
[[nodiscard]] std::string describe(const HolderInfo& holder);
/// "first (pid 123)"
[[nodiscard]] std::string describe(const Previous& previous);
/// "sleep 60 (pid 123) keeps it: …": what goes on of a dead holder, and what to do.
[[nodiscard]] std::string describe(const std::vector<process::KeepingAlive>& keeping);
/// "taken away by an operator", …
[[nodiscard]] std::string_view describe(Loss why);
/// "bound to process 7 of another PID namespace, which cannot be judged from here: …"
[[nodiscard]] std::string describe(process::Sight sight, std::int32_t pid);

[[nodiscard]] int exit_code_of(Errc code);
/// "segment_not_found", as the enumerator is called.
[[nodiscard]] std::string_view name_of(Errc code);

/// Throws UsageError when it cannot be the name of what `what` says ("lock name", "holder id").
void require_name(std::string_view what, std::string_view name);

}  // namespace shmcoord::tool
