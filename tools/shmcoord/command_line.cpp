#include "shmcoord/command_line.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "engine/segment_file.hpp"
#include "shmcoord/accounts.hpp"
#include "shmcoord/adapters_program.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/help.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/terminal.hpp"

// From words to a command.
//
// The command is found first, by the table, and only then a parser is made, for that one command: a script pays for our
// start with every call. CLI11 costs seconds of compile time wherever it is included, so it stays in this file.

namespace shmcoord::tool {
namespace {

struct Found {
  const Command* command = nullptr;
  std::vector<std::string> rest;  // the words without those that named the command
};

bool is_named(const Option& option, std::string_view word) {
  std::string_view names = option.names;
  for (;;) {
    const auto comma = names.find(',');
    if (names.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    names.remove_prefix(comma + 1);
  }
}

bool takes_value(const Option& option, std::string_view word) {
  return option.value != nullptr && is_named(option, word);
}

/// " (did you mean --capacity 5?)": of a word too many, which option it could be the value of.
std::string meant_option(const Command& command, const std::string& word) {
  std::vector<const Option*> fitting;
  std::uint64_t number = 0;
  const auto add_all = [&](std::initializer_list<std::string_view> values) {
    for (const Option& option : command.options) {
      if (option.value != nullptr && std::find(values.begin(), values.end(), option.value) != values.end())
        fitting.push_back(&option);
    }
  };
  if (parse_whole(word, number)) {
    add_all({"W", "N"});
  } else if (is_duration(word)) {
    add_all({"DUR"});
    if (fitting.size() > 1) return {};  // a lease or a wait
  } else {
    add_all({"ID"});
  }
  if (fitting.empty()) return {};
  return " (did you mean " + std::string(long_name(*fitting.front())) + " " + word + "?)";
}

/// Walks over global options to the word or two that name the command. Without a command: {}, and the rest is as given.
Found find_command(const std::vector<std::string>& words) {
  std::vector<std::size_t> at;
  for (std::size_t i = 0; i < words.size() && at.size() < 2; ++i) {
    if (words[i].starts_with('-') && words[i] != "-") {
      const auto globals = global_options();
      const std::string_view option_word = std::string_view(words[i]).substr(0, words[i].find('='));
      const auto meant = [&](const Option& option) { return is_named(option, option_word); };
      const auto* const global = std::find_if(globals.data(), globals.data() + globals.size(), meant);
      const bool known = global != globals.data() + globals.size();
      if (!known && !at.empty()) break;
      if (known && global->value != nullptr && option_word.size() == words[i].size()) ++i;
      continue;
    }
    at.push_back(i);
  }
  if (at.empty()) return {nullptr, words};
  const std::string& first = words[at[0]];
  for (const Command& command : hidden_commands()) {
    if (command.path != first) continue;
    Found found{&command, words};
    found.rest.erase(found.rest.begin() + static_cast<std::ptrdiff_t>(at[0]));
    return found;
  }
  bool group = false;
  for (const Command& command : commands()) {
    const bool single = command.path == first;
    group = group || command.path.starts_with(first + " ");
    const bool both = at.size() == 2 && command.path == first + " " + words[at[1]];
    if (!single && !both) continue;
    Found found{&command, words};
    if (both) found.rest.erase(found.rest.begin() + static_cast<std::ptrdiff_t>(at[1]));
    found.rest.erase(found.rest.begin() + static_cast<std::ptrdiff_t>(at[0]));
    return found;
  }
  if (!group) throw UsageError{"unknown command '" + first + "'; there are: " + known_words("")};
  if (at.size() < 2) {
    // `shmcoord lock --help` is a question, not a mistake; so is `shmcoord lock help`.
    const std::size_t next = at[0] + 1;
    if (next < words.size() && (words[next] == "--help" || words[next] == "-h")) {
      print_line(help_of_group(first));
      std::exit(exit_done);
    }
    throw UsageError{"'" + first + "' needs a command: " + known_words(first)};
  }
  if (words[at[1]] == "help") {
    print_line(help_of_group(first));
    std::exit(exit_done);
  }
  throw UsageError{"unknown command '" + first + " " + words[at[1]] + "'; there are: " + known_words(first)};
}

unsigned trusted_owner(const std::string& where, const std::string& user) {
  if (const auto uid = user_id_of(user)) return *uid;
  throw UsageError{where + ": no user '" + user + "' in /etc/passwd; give a name from there, or a number"};
}

void take_globals(Arguments& arguments) {
  if (const auto segment = arguments.value("--segment")) {
    if (segment->empty()) throw UsageError{"--segment: the name is empty; give a name, or a path with a '/'"};
    arguments.global.segment = *segment;
  } else if (const char* const env = std::getenv("SHMCOORD_SEGMENT"); env != nullptr && *env != '\0') {
    arguments.global.segment = env;
  } else {
    arguments.global.segment = engine::default_segment_name();
  }
  if (const auto user = arguments.value("--trust")) {
    arguments.global.trusted_owner = trusted_owner("--trust", *user);
  } else if (const char* const env = std::getenv("SHMCOORD_TRUST"); env != nullptr && *env != '\0') {
    arguments.global.trusted_owner = trusted_owner("SHMCOORD_TRUST", env);
  }
  arguments.global.json = arguments.has("--json");
  arguments.global.color =
      !arguments.global.json && obeys_sequences(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr;
}

/// Throws UsageError. A question for help is answered here, and ends the program.
Arguments parse(const Command& command, std::vector<std::string> words) {
  CLI::App app;
  app.set_help_flag("-h,--help", "this text");
  app.allow_extras();
  if (command.words == Words::command) app.prefix_command();
  std::vector<std::pair<const Option*, CLI::Option*>> made;
  const auto make = [&](const Option& option) {
    CLI::Option* const o = option.value == nullptr ? app.add_flag(option.names, option.help)
                                                   : app.add_option(option.names)->description(option.help);
    if (option.value != nullptr)
      o->type_name(option.value)->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    made.emplace_back(&option, o);
  };
  for (const Option& option : command.options) make(option);
  for (const Option& option : global_options()) make(option);

  Arguments arguments;
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    print_line(help_of(command));
    std::exit(exit_done);
  } catch (const CLI::ParseError& e) {
    throw UsageError{std::string(e.what()) + "; see `shmcoord " + std::string(command.path) + " --help`"};
  }
  const std::vector<CLI::Option*> typed = app.parse_order();
  std::sort(made.begin(), made.end(), [&](const auto& a, const auto& b) {
    return std::find(typed.begin(), typed.end(), a.second) < std::find(typed.begin(), typed.end(), b.second);
  });
  for (const auto& [option, o] : made) {
    if (o->count() == 0) continue;
    if (option->value != nullptr && !option->many && o->count() > 1) {
      throw UsageError{std::string(long_name(*option)) + " is given " + std::to_string(o->count()) +
                       " times; give it once"};
    }
    for (const std::string& value : option->value == nullptr ? std::vector<std::string>() : o->results()) {
      const bool is_option =
          std::any_of(made.begin(), made.end(), [&](const auto& m) { return is_named(*m.first, value); });
      if (value != "--" && !is_option) continue;
      throw UsageError{std::string(long_name(*option)) + " is followed by '" + value +
                       "' where its value should be; is a variable empty?"};
    }
    arguments.add(long_name(*option), option->value == nullptr ? std::vector<std::string>() : o->results());
  }
  arguments.words = app.remaining();
  return arguments;
}

std::string_view name_kind(const Command& command) {
  if (command.path.starts_with("lock ")) return "lock name";
  if (command.path.starts_with("sem ")) return "semaphore name";
  return command.path.starts_with("guard ") ? "guard name" : "name";
}

void check_words(const Command& command, Arguments& arguments) {
  const std::string see = "; see `shmcoord " + std::string(command.path) + " --help`";
  auto& words = arguments.words;
  const auto separator = std::find(words.begin(), words.end(), "--");
  for (auto it = words.begin(); it != separator; ++it) {
    if (it->size() > 1 && it->starts_with('-')) {
      throw UsageError{"unknown option '" + *it + "' for '" + std::string(command.path) + "'" + see};
    }
    if (command.words == Words::command) break;
  }
  if (separator != words.end() && (command.words != Words::command || separator == words.begin()))
    words.erase(separator);
  switch (command.words) {
    case Words::none:
      if (!words.empty()) {
        const std::string hint = command.path.starts_with("segment") ? " (the segment is named by -s)" : "";
        throw UsageError{"unexpected word '" + words[0] + "'" + hint + see};
      }
      break;
    case Words::one:
      if (words.empty()) throw UsageError{"'" + std::string(command.path) + "' needs a name" + see};
      if (words.size() > 1) {
        throw UsageError{"unexpected word '" + words[1] + "': one name is enough" + meant_option(command, words[1]) +
                         see};
      }
      require_name(name_kind(command), words[0]);
      break;
    case Words::optional:
      if (words.size() > 1) throw UsageError{"unexpected word '" + words[1] + "': one name is enough" + see};
      for (const std::string& name : words) require_name(name_kind(command), name);
      break;
    case Words::file:
      if (words.empty()) throw UsageError{"'" + std::string(command.path) + "' needs a file" + see};
      if (words.size() > 1) throw UsageError{"unexpected word '" + words[1] + "': one file is enough" + see};
      if (words[0].empty()) throw UsageError{"the name of the file is empty; is a variable?"};
      break;
    case Words::topic: break;
    case Words::any:
      for (const std::string& name : words) require_name("name", name);
      break;
    case Words::command:
      if (words.empty()) throw UsageError{"'" + std::string(command.path) + "' needs a command after --" + see};
      break;
  }
}

int dispatch(const std::vector<std::string>& words, char** argv) {
  const Found found = find_command(words);
  if (found.command == nullptr) {
    for (const std::string& word : found.rest) {
      if (word == "--version") {
        print_line("shmcoord " SHMCOORD_VERSION);
        return exit_done;
      }
      if (word == "--help" || word == "-h") {
        print_line(general_help());
        return exit_done;
      }
      const bool known = std::any_of(global_options().begin(), global_options().end(),
                                     [&](const Option& o) { return takes_value(o, word) || word == long_name(o); });
      if (word.starts_with('-') && !known) throw UsageError{"unknown option '" + word + "'; see `shmcoord --help`"};
    }
    throw UsageError{"no command; there are: " + known_words("") + "; see `shmcoord --help`"};
  }
  Arguments arguments = parse(*found.command, found.rest);
  check_words(*found.command, arguments);
  take_globals(arguments);
  if (found.command->adapters && known_adapters() == nullptr) become_adapters_program(argv);
  return found.command->run(arguments);
}

/// For whom the answer is, also when the words are wrong otherwise: --json where an option may stand.
Audience audience_of(const std::vector<std::string>& words) {
  const auto needs_value = [](std::string_view word) {
    const auto takes = [word](const Option& option) { return takes_value(option, word); };
    return std::any_of(global_options().begin(), global_options().end(), takes) ||
           std::any_of(commands().begin(), commands().end(), [&](const Command& command) {
             return std::any_of(command.options.begin(), command.options.end(), takes);
           });
  };
  bool json = false;
  std::string path;
  const auto runs_commands = [&path] { return path == "run" || path == "pipeline run" || path == "pipeline resume"; };
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] == "--json") {
      json = true;
    } else if (needs_value(words[i])) {
      ++i;
    } else if (!words[i].starts_with('-')) {
      if (path == "run") break;  // the command, with words of its own
      if (!runs_commands()) path += (path.empty() ? "" : " ") + words[i];
    }
  }
  if (!json) return Audience::people;
  return runs_commands() ? Audience::run_programs : Audience::programs;
}

// Another process cut the segment's file off under the mapping. Nothing else in this program can raise SIGBUS; in that
// with adapters only a packed file of a repository that is cut off while libgit2 reads it.
void on_bus_error(int) { say_truncated(); }

/// Standard output that was closed must not swallow a token: what stands in its place cannot be written.
void keep_closed_output() {
  if (::fcntl(STDOUT_FILENO, F_GETFD) >= 0 || errno != EBADF) return;
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fd == STDOUT_FILENO) return;
  (void)::dup3(fd, STDOUT_FILENO, O_CLOEXEC);
  ::close(fd);
}

}  // namespace

void run_command_line(int argc, char** argv) {
  keep_closed_output();
  engine::occupy_standard_descriptors();
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  ::sigaction(SIGBUS, &action, nullptr);
  int code = exit_internal;
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    speak_to(audience_of(words));
    code = dispatch(words, argv);
  } catch (const UsageError& e) {
    say_error("usage", e.text);
    say_under(e.excerpt);
    code = exit_usage;
  } catch (const Refusal& e) {
    say_error(e.name, e.text);
    code = e.code;
  } catch (const Error& e) {
    say_error(name_of(e.errc()), e.what());
    code = exit_code_of(e.errc());
  } catch (const std::exception& e) {
    say_error("internal", std::string("internal error: ") + e.what());
  }
  // Nothing is left to be done by static destructors, and every process pays for them.
  ::_exit(code);
}

}  // namespace shmcoord::tool
