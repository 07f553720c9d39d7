#include "shmcoord/help.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"

namespace shmcoord::tool {
namespace {

constexpr std::string_view summary = "Locks, semaphores, guards and pipelines between the processes of this host.";
constexpr std::size_t line_width = 100;

// Options that the parser knows without the table.
constexpr Option help_option{"-h,--help", nullptr, "this text"};
constexpr Option version_option{"--version", nullptr, "print the version"};

constexpr struct {
  const char* codes;
  const char* meaning;
} exit_codes[] = {
    {"0", "done"},
    {"1",
     "busy, full, timed out, more than the capacity, a wait that could never end, a guard that did not pass, a "
     "pipeline "
     "that failed or was cancelled, or damage that `segment check` found; -E changes it for busy, full and timed out"},
    {"2", "it does not exist, is not yours, or is already free"},
    {"64", "the command line is wrong"},
    {"69", "the segment cannot be used, or a program that is needed is missing"},
    {"70", "internal error"},
    {"75", "`run`: the hold was lost while the command ran; `pipeline run` and `pipeline resume`: the pipeline was"},
    {"126, 127", "`run`: the command cannot be executed, or is not found"},
    {"128+N", "ended by signal N; `run`: the command was"},
};

std::string words_of(Words words) {
  switch (words) {
    case Words::none: return "";
    case Words::one: return " NAME";
    case Words::optional: return " [NAME]";
    case Words::file: return " FILE";
    case Words::any: return " [NAME...]";
    case Words::command: return " -- CMD [ARG...]";
    case Words::topic: return " [COMMAND]";
  }
  return "";
}

std::string usage_of(const Command& command) {
  return "shmcoord " + std::string(command.path) + " [OPTION...]" + words_of(command.words);
}

std::string left_side(const Option& option) {
  return std::string(option.names) + (option.value == nullptr ? "" : std::string(" ") + option.value);
}

/// Breaks the text at blanks; the first line stands at `indent` already.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (column > indent && column + 1 + word.size() > line_width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

std::string table_line(const std::string& left, const char* right) {
  constexpr std::size_t indent = 30;
  std::string line = "  " + left;
  line += line.size() + 2 > indent ? '\n' + std::string(indent, ' ') : std::string(indent - line.size(), ' ');
  return line + wrapped(right, indent) + '\n';
}

/// Text for troff: nothing in it is a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else {
      out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string roff_option(const Option& option) {
  std::string names;
  for (const char c : std::string_view(option.names)) names += c == ',' ? std::string(", ") : std::string(1, c);
  std::string line = ".TP\n\\fB" + roff(names) + "\\fR";
  if (option.value != nullptr) line += " \\fI" + roff(option.value) + "\\fR";
  return line + '\n' + roff(option.help) + '\n';
}

bool is_in(std::string_view group, const Command& command) {
  return group.empty() || command.path.starts_with(std::string(group) + " ");
}

/// A line for each command, of all or of one group.
std::string list_of(std::string_view group) {
  std::size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, command.path.size());
  std::string text;
  for (const Command& command : commands()) {
    if (!is_in(group, command)) continue;
    text += "  " + std::string(command.path) + std::string(width + 2 - command.path.size(), ' ') + command.help + "\n";
  }
  return text;
}

}  // namespace

std::string known_words(std::string_view group) {
  std::vector<std::string> words;
  for (const Command& command : commands()) {
    std::string_view word = command.path;
    if (!is_in(group, command)) continue;
    if (!group.empty()) word.remove_prefix(group.size() + 1);
    std::string first(word.substr(0, word.find(' ')));
    if (std::find(words.begin(), words.end(), first) == words.end()) words.push_back(std::move(first));
  }
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string general_help() {
  std::string text = "shmcoord [-s NAME|PATH] [--json] COMMAND ...\n" + std::string(summary) + "\n\nCommands:\n";
  text += list_of({});
  text += "\nOptions:\n";
  for (const Option& option : global_options()) text += table_line(left_side(option), option.help);
  text += table_line(left_side(version_option), version_option.help);
  text += table_line(left_side(help_option), "this text; `shmcoord COMMAND --help` tells more");
  text += "\nDurations: 250ms, 5s, 2m, 1h.\n\nExit codes:\n";
  for (const auto& [codes, meaning] : exit_codes) text += table_line(codes, meaning);
  text.pop_back();
  return text;
}

std::string help_of(const Command& command) {
  std::string text = "usage: " + usage_of(command) + '\n' + command.help + "\n\nOptions:\n";
  for (const Option& option : command.options) text += table_line(left_side(option), option.help);
  for (const Option& option : global_options()) text += table_line(left_side(option), option.help);
  text += table_line(left_side(help_option), help_option.help);
  for (const char* const paragraph : command.more) text += '\n' + wrapped(paragraph, 0) + '\n';
  text.pop_back();
  return text;
}

std::string help_of_group(std::string_view group) {
  const std::string words = "shmcoord " + std::string(group) + " COMMAND";
  return "usage: " + words + " [OPTION...]\n\nCommands:\n" + list_of(group) + "\n`" + words + " --help` tells more.";
}

std::string manual_page() {
  std::string page =
      ".\\\" Written by `shmcoord manual` from the command table.\n"
      ".TH SHMCOORD 1 \"\" \"shmcoord " SHMCOORD_VERSION
      "\" \"User Commands\"\n"
      ".SH NAME\nshmcoord \\- locks, semaphores, guards and pipelines between the processes of this host\n"
      ".SH SYNOPSIS\n";
  for (const Command& command : commands()) {
    page +=
        "\\fBshmcoord " + roff(command.path) + "\\fR [\\fIOPTION\\fR...]" + roff(words_of(command.words)) + "\n.br\n";
  }
  page += ".SH DESCRIPTION\n" + std::string(summary) +
          "\nA lock is a name in a segment of shared memory. It is given back exactly when its holder gives it back or "
          "dies, and goes to the next one who waits, in order. A semaphore is a name too, with so many permits, of "
          "which several holders can have some each. A guard is a condition under a name, which can be evaluated and "
          "waited for. A pipeline goes through phases, each under its guards, locks and permits, and can be resumed "
          "where it was. A snapshot is a file from which the segment is made anew.\n.SH GLOBAL OPTIONS\nThey may stand "
          "anywhere.\n";
  for (const Option& option : global_options()) page += roff_option(option);
  page += roff_option(help_option) + roff_option(version_option) + ".SH COMMANDS\n";
  for (const Command& command : commands()) {
    page += ".SS " + roff(std::string(command.path) + words_of(command.words)) + '\n' + roff(command.help) + ".\n";
    for (const char* const paragraph : command.more) page += ".PP\n" + roff(paragraph) + '\n';
    for (const Option& option : command.options) page += roff_option(option);
  }
  page += ".SH DURATIONS\n250ms, 5s, 2m, 1h; at most ten years.\n.SH EXIT STATUS\n";
  for (const auto& [codes, meaning] : exit_codes) page += ".TP\n" + roff(codes) + '\n' + roff(meaning) + '\n';
  page +=
      ".SH ENVIRONMENT\n"
      "What is set is so for the command of \\fBrun\\fR and for those of a pipeline, unless another one is named.\n"
      ".TP\nSHMCOORD_SEGMENT\nthe segment when \\-s is not given; then set\n"
      ".TP\nSHMCOORD_TRUST\nthe user of \\-\\-trust when that is not given; then set\n"
      ".TP\nSHMCOORD_HOLDER\nset: who holds\n"
      ".TP\nSHMCOORD_TOKEN\nset: the fencing token of the first lock or semaphore\n"
      ".TP\nSHMCOORD_TOKENS\nset: name=token of all that is held, comma separated\n"
      ".TP\nSHMCOORD_PIPELINE\nset for the commands of a pipeline: its id\n"
      ".TP\nSHMCOORD_PHASE\nset for the commands of a pipeline: the name of the phase\n"
      ".TP\nSHMCOORD_HELD\nset, for a \\fBrun\\fR or a pipeline within it: so that it does not wait for itself\n"
      ".TP\nSHMCOORD_SESSION\nset for the command of \\-\\-sessions\\-command: the session that is asked for\n"
      ".TP\nTERM\nno colours, and nothing drawn over, when it is not set, or \"dumb\"\n"
      ".TP\nNO_COLOR\nno colours, whatever the terminal can do\n"
      ".SH FILES\n.TP\n/dev/shm/shmcoord.NAME\na segment\n";
  return page;
}

int help_command(const Arguments& arguments) {
  std::string topic;
  for (const std::string& word : arguments.words) topic += (topic.empty() ? "" : " ") + word;
  if (topic.empty()) {
    print_line(general_help());
    return exit_done;
  }
  for (const Command& command : commands()) {
    if (command.path != topic) continue;
    print_line(help_of(command));
    return exit_done;
  }
  const auto all = commands();
  if (std::none_of(all.begin(), all.end(), [&](const Command& command) { return is_in(topic, command); })) {
    throw UsageError{"no help for '" + topic + "': there is no such command; there are: " + known_words("")};
  }
  print_line(help_of_group(topic));
  return exit_done;
}

int manual_command(const Arguments&) {
  write_out(manual_page());
  return exit_done;
}

}  // namespace shmcoord::tool
