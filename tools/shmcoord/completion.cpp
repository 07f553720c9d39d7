#include <map>
#include <string>

#include "process/clock.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// The bash completion, written from the command table. tools/completion/shmcoord.bash is its output, kept in the tree
// so that it can be installed without running anything; a test compares the two.
//
// The names of what is in the segment are asked for when one is to be completed, by the hidden command `names`, of the
// segment that the line names. They are others' texts: bash is given them as they are, quoted, and evaluates none.

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

/// Of what kinds NAME is; empty: of none that there is yet, or it is no name.
std::string kinds_of(const Command& command) {
  if (command.path == "sem create" || command.path == "guard add" || command.path == "events") return {};
  if (command.words != Words::one && command.words != Words::optional && command.words != Words::any) return {};
  const std::string_view group = command.path.substr(0, command.path.find(' '));
  if (group == "lock" || group == "guard" || group == "pipeline") return std::string(group);
  if (group == "sem") return "semaphore";
  return command.path == "inspect" ? "lock semaphore guard pipeline" : "lock semaphore";
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
    const std::string kinds = kinds_of(command);
    by_command += "    '" + std::string(command.path) + "') words='" + names.substr(1) + "'" +
                  (kinds.empty() ? "" : " kinds='" + kinds + "'") + (command.words == Words::file ? " files=1" : "") +
                  " ;;\n";
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
      "  local current=${COMP_WORDS[COMP_CWORD]} command= help= word words= kinds= files= name i\n"
      "  local -a globals=()\n"
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
      "        [[ ${COMP_WORDS[i]} != = || $i -eq $COMP_CWORD ]] || i=$((i + 1)) # --option=value is three words.\n"
      "        if [[ $i -ge $COMP_CWORD ]]; then\n"
      "          case $word in\n"
      "            -l|--lock|--shared) kinds=lock ;;\n"
      "            -S|--sem) kinds=semaphore ;;\n"
      "            *) return ;;\n"
      "          esac\n"
      "          [[ $current != = ]] || current=\n"
      "          _shmcoord_names\n"
      "          return\n"
      "        fi\n"
      "        case $word in\n"
      "          -s|--segment|--trust) globals+=(\"$word\" \"${COMP_WORDS[i]}\") ;;\n"
      "        esac ;;\n"
      "      -*) ;;\n"
      "      *)\n"
      "        case $command in\n"
      "          '') if [[ -z $help && $word == help ]]; then help=1; else command=$word; fi ;;\n";
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
      "  if [[ -n $help ]]; then # Of commands; they have no options there.\n"
      "    for i in \"${!COMPREPLY[@]}\"; do [[ ${COMPREPLY[i]} != -* ]] || unset \"COMPREPLY[i]\"; done\n"
      "    return\n"
      "  fi\n"
      "  [[ $current != -* ]] || return\n"
      "  _shmcoord_names\n"
      "  if [[ -n $files ]]; then\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    while IFS= read -r name; do COMPREPLY+=(\"$name\"); done < <(compgen -f -- \"$current\")\n"
      "  fi\n"
      "}\n"
      "# Of these kinds, of the segment that the line is about.\n"
      "_shmcoord_names() {\n"
      "  [[ -n $kinds ]] || return\n"
      "  while IFS= read -r name; do\n"
      "    printf -v name %q \"$name\"\n"
      "    [[ $name != \"$current\"* ]] || COMPREPLY+=(\"$name\")\n"
      "  done < <(\"${COMP_WORDS[0]}\" \"${globals[@]}\" names $kinds 2>/dev/null)\n"
      "}\n"
      "complete -F _shmcoord shmcoord\n";
  return script;
}

int completion_command(const Arguments&) {
  write_out(bash_completion());
  return exit_done;
}

int names_command(const Arguments& arguments) {
  const auto mapping = open_read_only(arguments.global);
  const process::Picture picture = process::take_picture(*mapping, process::real_clock().now_ns());
  for (const std::string& kind : arguments.words) {
    for (const engine::Kind one :
         {engine::Kind::lock, engine::Kind::semaphore, engine::Kind::guard, engine::Kind::pipeline}) {
      if (engine::word_of(one) != kind) continue;
      for (const process::LockView* const found : of_kind(picture, one)) {
        // One that cannot be shown as it is cannot be typed either.
        if (printable(found->name) == found->name) print_line(found->name);
      }
    }
  }
  return exit_done;
}

}  // namespace shmcoord::tool
