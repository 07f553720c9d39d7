#include <map>
#include <string>

#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"

// The bash completion, written from the command table. tools/completion/shmcoord.bash is its output, kept in the tree
// so that it can be installed without running anything; a test compares the two.

namespace shmcoord::tool {
namespace {

void append_names(std::string& to, const Option& option) {
  std::string_view names = option.names;
  for (;;) {
    const auto comma = names.find(',');
    to += ' ';
    to += names.substr(0, comma);
    if (comma == std::string_view::npos) return;
    names.remove_prefix(comma + 1);
  }
}

/// "-l|--lock" for a case pattern.
std::string pattern(const Option& option) {
  std::string text = option.names;
  for (char& c : text) {
    if (c == ',') c = '|';
  }
  return text;
}

}  // namespace

std::string bash_completion() {
  std::string globals;
  for (const Option& option : global_options()) append_names(globals, option);

  std::string first_words;
  std::map<std::string, std::string> second_words;
  std::string by_command;
  std::map<std::string, int> with_value;
  const auto note_values = [&](std::span<const Option> options) {
    for (const Option& option : options) {
      if (option.value != nullptr) with_value[pattern(option)] = 1;
    }
  };
  note_values(global_options());
  for (const Command& command : commands()) {
    const auto blank = command.path.find(' ');
    const std::string first(command.path.substr(0, blank));
    if (blank == std::string_view::npos) {
      first_words += ' ' + first;
    } else {
      if (!second_words.contains(first)) first_words += ' ' + first;
      second_words[first] += ' ' + std::string(command.path.substr(blank + 1));
    }
    std::string names = " --help";
    for (const Option& option : command.options) append_names(names, option);
    by_command += "    '" + std::string(command.path) + "') words='" + names.substr(1) + "' ;;\n";
    note_values(command.options);
  }

  std::string valued;
  for (const auto& [names, unused] : with_value) valued += (valued.empty() ? "" : "|") + names;
  std::string groups;
  for (const auto& [first, seconds] : second_words)
    groups += "    " + first + ") words='" + seconds.substr(1) + "' ;;\n";

  std::string script =
      "# bash completion for shmcoord; written by `shmcoord completion`.\n"
      "_shmcoord() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} command= word words= i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case $word in\n"
      "      --) # The rest is the command of `run`.\n"
      "        if [[ $i -eq $((COMP_CWORD - 1)) ]]; then\n"
      "          mapfile -t COMPREPLY < <(compgen -c -- \"$current\")\n"
      "        else\n"
      "          mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
      "        fi\n"
      "        return ;;\n";
  script += "      " + valued + ")\n";
  script +=
      "        i=$((i + 1))\n"
      "        [[ $i -lt $COMP_CWORD ]] || return ;;\n"
      "      -*) ;;\n"
      "      *)\n"
      "        case $command in\n"
      "          '') command=$word ;;\n";
  std::string group_pattern;
  for (const auto& [first, seconds] : second_words) group_pattern += (group_pattern.empty() ? "" : "|") + first;
  script += "          " + group_pattern + ") command=\"$command $word\" ;;\n";
  script +=
      "        esac ;;\n"
      "    esac\n"
      "  done\n"
      "  case $command in\n"
      "    '') words='--help --version" +
      globals + first_words + "' ;;\n" + groups + by_command +
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "}\n"
      "complete -F _shmcoord shmcoord\n";
  return script;
}

int completion_command(const Arguments&) {
  write_out(bash_completion());
  return exit_done;
}

}  // namespace shmcoord::tool
