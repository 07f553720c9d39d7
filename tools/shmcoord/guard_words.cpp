#include "shmcoord/guard_words.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/utf8.hpp"
#include "coordination/guard_action.hpp"
#include "shmcoord/display_width.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/input_file.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

constexpr std::size_t shown_before = 60;  // columns of a text, before the place that is meant and from it on
constexpr std::size_t shown_behind = 40;

/// The text and, on the next line, a caret under the character of that number (from 1). Of a long text what is around
/// it. What is not to be seen is written in its place, so it is columns that are counted, not characters.
std::string excerpt(std::string_view text, std::size_t number) {
  if (number == 0) return {};
  std::size_t at = 0;
  for (std::size_t n = 1; n < number && at < text.size(); ++n) {
    char32_t code = 0;
    at += std::max<std::size_t>(1, base::utf8_sequence(text.substr(at), &code));
  }
  std::string before = printable(text.substr(0, at));
  std::string behind = printable(text.substr(at));
  if (const std::size_t columns = columns_of(before); columns > shown_before) {
    before = "…" + before.substr(bytes_within(before, columns - shown_before));
  }
  if (columns_of(behind) > shown_behind) behind = behind.substr(0, bytes_within(behind, shown_behind)) + "…";
  return "  " + before + behind + "\n  " + std::string(columns_of(before), ' ') + "^\n";
}

GuardCondition from_text(const std::string& text) {
  try {
    return GuardCondition::parse(text);
  } catch (const ConditionError& e) {
    throw UsageError{std::string("--condition: ") + e.what(), excerpt(text, e.column())};
  }
}

GuardCondition from_json_file(const std::string& path) {
  const std::string what = "--json-file: " + (path == "-" ? std::string("standard input") : "'" + path + "'");
  const std::string text = content_of(path, what, GuardCondition::max_text, "no condition");
  try {
    return GuardCondition::parse_json(text);
  } catch (const ConditionError& e) {
    throw UsageError{what + ": " + e.what()};
  }
}

}  // namespace

std::optional<GuardCondition> condition_of(const Arguments& arguments) {
  const auto text = arguments.value("--condition");
  const auto path = arguments.value("--json-file");
  if (text && path) throw UsageError{"--condition and --json-file exclude each other: give one of them"};
  if (text) return from_text(*text);
  return path ? std::optional(from_json_file(*path)) : std::nullopt;
}

GuardAction action_of(const Arguments& arguments) {
  const std::string text = arguments.value("--on-failure").value_or("block");
  GuardAction action;
  std::string wrong = coordination::parse_action(text, action);
  // On a command line it was meant to go on: a variable was empty.
  if (text == "fail:") wrong = "the text behind 'fail:' is missing";
  if (!wrong.empty()) throw UsageError{"--on-failure: " + wrong};
  return action;
}

AskOptions ask_options_of(const Arguments& arguments) {
  AskOptions options;
  options.directory = arguments.value("--directory").value_or("");
  options.repository = arguments.value("--repository");
  options.issues_file = arguments.value("--issues");
  options.issues_command = arguments.value("--issues-command");
  options.sessions_command = arguments.value("--sessions-command");
  if (options.issues_file && options.issues_command) {
    throw UsageError{"--issues and --issues-command exclude each other: give one of them"};
  }
  // Paths that come later are looked at when they are asked about; without this one nothing could be.
  if (arguments.has("--directory")) {
    struct stat st {};
    const int error = ::stat(options.directory.c_str(), &st) != 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (error != 0) throw UsageError{"--directory: '" + options.directory + "': " + std::strerror(error)};
  }
  return options;
}

}  // namespace shmcoord::tool
