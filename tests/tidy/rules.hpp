#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "source_text.hpp"

// The rules that keep the tree what it says it is. Each is a function of texts, so that rules_test.cpp can show it bad
// text and see it object; repository_test.cpp then shows it the real tree. To add one: write it here, list it in
// rules(), and give it a canary.

namespace tidy {

struct File {
  std::string path;  // from the top of the repository
  std::string text;
};

struct Tree {
  std::vector<File> files;
  std::vector<std::string> top_level;  // names of files and folders
};

struct Finding {
  std::string path;
  std::size_t line = 0;  // 0: the whole file
  std::string what;
};

using Findings = std::vector<Finding>;

struct Rule {
  std::string name;
  std::function<Findings(const Tree&)> check;
};

inline bool under(const File& file, std::string_view folder) { return file.path.starts_with(folder); }
inline bool is_header(const File& file) { return file.path.ends_with(".hpp") || file.path.ends_with(".h"); }
inline bool is_source(const File& file) { return file.path.ends_with(".cpp"); }
inline bool is_cpp(const File& file) { return is_header(file) || is_source(file); }

template <class Range>
bool is_one_of(std::string_view name, const Range& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// One finding per line of `text` and word of `words` that stands in it.
template <class Words>
Findings find_words(const File& file, std::string_view text, const Words& words, const std::string& why) {
  Findings found;
  const auto lines = lines_of(text);
  for (std::size_t n = 0; n < lines.size(); ++n) {
    for (const std::string_view word : words) {
      if (has_word(lines[n], word)) found.push_back({file.path, n + 1, std::string(word) + ": " + why});
    }
  }
  return found;
}

template <class Predicate>
Findings find_includes(const File& file, const Predicate& bad, const std::string& why) {
  Findings found;
  for (const auto& include : includes_of(file.text)) {
    if (bad(include)) found.push_back({file.path, include.line, include.name + ": " + why});
  }
  return found;
}

inline bool is_syscall_header(const std::string& name) {
  constexpr std::array headers{"unistd.h", "fcntl.h",   "sched.h",  "signal.h", "pthread.h",   "poll.h",   "spawn.h",
                               "csignal",  "syscall.h", "dirent.h", "mqueue.h", "semaphore.h", "termios.h"};
  return is_one_of(name, headers) || name.starts_with("sys/") || name.starts_with("linux/");
}

// Lowest first. A layer may include itself, what stands before it, and the contract in include/.
inline constexpr std::array<std::string_view, 7> layers{"base",  "core",         "engine",  "process",
                                                        "tasks", "coordination", "adapters"};
inline constexpr std::size_t no_layer = layers.size();

inline std::size_t layer_rank(std::string_view name) {
  return static_cast<std::size_t>(std::find(layers.begin(), layers.end(), name) - layers.begin());
}

/// "src/engine/x.hpp" -> "engine"; empty when the file is not in a layer.
inline std::string layer_of(const std::string& path) {
  if (!path.starts_with("src/")) return {};
  const auto end = path.find('/', 4);
  return end == std::string::npos ? std::string{} : path.substr(4, end - 4);
}

/// The public headers of the component for coroutines.
inline bool shows_tasks(std::string_view path) {
  return path == "include/shmcoord/tasks.hpp" || path.starts_with("include/shmcoord/tasks/");
}

/// The public headers of the other components, which the library and its layers do without.
inline bool is_beside_the_library(std::string_view path) {
  return path == "include/shmcoord/adapters.hpp" || path == "include/shmcoord/testing.hpp";
}

// --- rules about one file -------------------------------------------------------------------------------------------

inline Findings arrows_point_down(const File& file) {
  if (!is_cpp(file)) return {};
  if (under(file, "include/")) {
    const bool tasks = shows_tasks(file.path);
    return find_includes(
        file,
        [tasks](const Include& i) {
          if (is_beside_the_library("include/" + i.name)) return true;
          if (shows_tasks("include/" + i.name)) return !tasks;
          return !i.angled && !i.name.starts_with("shmcoord/");
        },
        "the contract includes only itself and the standard library; tasks may include the rest, not the other way "
        "round");
  }
  const std::string layer = layer_of(file.path);
  if (layer.empty()) return {};
  const auto rank = layer_rank(layer);
  if (rank == no_layer) return {{file.path, 0, layer + " is not a layer"}};
  return find_includes(
      file,
      [rank](const Include& i) {
        if (is_beside_the_library("include/" + i.name)) return rank < layer_rank("adapters");
        if (shows_tasks("include/" + i.name)) return rank < layer_rank("tasks");
        if (i.angled || i.name.starts_with("shmcoord/")) return false;
        const auto other = layer_rank(i.name.substr(0, i.name.find('/')));
        return i.name.find('/') == std::string::npos || other == no_layer || other > rank;
      },
      layer + "/ may include only itself, the layers below it and shmcoord/, each from its root");
}

inline Findings face_hides_its_insides(const File& file) {
  if (!under(file, "include/")) return {};
  const bool tasks = shows_tasks(file.path);  // whose users use Asio
  Findings found = find_includes(
      file,
      [tasks](const Include& i) {
        return i.name == "atomic" || (i.name.starts_with("boost/") && !tasks) || i.name.starts_with("git2") ||
               i.name.starts_with("re2/") || is_syscall_header(i.name);
      },
      "public headers show no atomics, no Boost, no libgit2, no RE2 and no system calls");
  std::vector<std::string_view> hidden{"std::atomic"};
  if (!tasks) hidden.emplace_back("boost::");
  const Findings words = find_words(file, code_of(file.text), hidden, "public headers show no atomics and no Boost");
  found.insert(found.end(), words.begin(), words.end());
  return found;
}

inline Findings core_is_pure(const File& file) {
  if (!under(file, "src/core/") && !under(file, "src/base/")) return {};
  constexpr std::array impure{"atomic",   "mutex",     "shared_mutex", "thread",  "condition_variable",
                              "future",   "semaphore", "random",       "fstream", "filesystem",
                              "iostream", "ctime",     "time.h"};
  Findings found = find_includes(
      file, [&](const Include& i) { return is_one_of(i.name, impure) || is_syscall_header(i.name); },
      "base/ and core/ have no threads, no clock, no files and no system calls");
  for (const auto& word :
       find_words(file, code_of(file.text), std::array<std::string_view, 3>{"steady_clock", "system_clock", "throw"},
                  "core/ has no clock and does not throw")) {
    if (under(file, "src/core/")) found.push_back(word);
  }
  return found;
}

inline Findings atomics_stay_in_the_engine(const File& file) {
  if (!under(file, "src/") && !under(file, "include/")) return {};
  if (under(file, "src/engine/")) return {};
  // Comments count too: a word that is grepped for should lead to the code that it is about.
  Findings found;
  const auto lines = lines_of(file.text);
  for (std::size_t n = 0; n < lines.size(); ++n) {
    for (const std::string_view part : {"<atomic>", "std::atomic", "atomic_ref", "compare_exchange", "cmpxchg16b",
                                        "__atomic_", "__sync_", "ipc_atomic"}) {
      if (lines[n].find(part) != std::string_view::npos) {
        found.push_back({file.path, n + 1, std::string(part) + ": only src/engine/ has atomics"});
      }
    }
  }
  return found;
}

inline Findings clocks_have_one_home(const File& file) {
  if (!under(file, "src/") || under(file, "src/process/clock.") || file.path == "src/engine/real_policy.hpp") return {};
  constexpr std::array<std::string_view, 7> words{"clock_gettime", "gettimeofday",          "steady_clock::now",
                                                  "system_clock",  "high_resolution_clock", "clock_getres",
                                                  "std::time"};
  return find_words(file, code_of(file.text), words, "clocks are read in process/clock.* and by the engine's policy");
}

inline Findings nobody_sleeps(const File& file) {
  if (!under(file, "src/")) return {};
  constexpr std::array<std::string_view, 5> words{"sleep_for", "this_thread::sleep_until", "usleep", "nanosleep",
                                                  "clock_nanosleep"};
  return find_words(file, file.text, words, "a wait is a futex or a poll that can be ended");
}

inline Findings files_are_readable(const File& file) {
  if (!is_cpp(file)) return {};
  Findings found;
  const auto lines = lines_of(file.text);
  if (lines.size() > 600) found.push_back({file.path, 0, std::to_string(lines.size()) + " lines, 600 at most"});
  for (std::size_t n = 0; n < lines.size(); ++n) {
    if (columns_of(lines[n]) > 120) found.push_back({file.path, n + 1, "more than 120 columns"});
    if (lines[n].find('\t') != std::string_view::npos) found.push_back({file.path, n + 1, "a tab"});
    if (lines[n].ends_with(' ')) found.push_back({file.path, n + 1, "a blank at the end of the line"});
  }
  return found;
}

inline Findings nothing_is_left_over(const File& file) {
  // Put together here, so that this file does not find itself.
  const std::vector<std::string> words{std::string("to") + "do", std::string("fix") + "me", std::string("x") + "xx",
                                       std::string("ha") + "ck", std::string("not ") + "implemented"};
  // But for where an issue stands (C-54), in its exact spelling, as a text or the first of a list.
  std::string text = file.text;
  for (const char end : {'"', ','}) {
    const std::string status = std::string("To") + "do" + end;
    for (auto at = text.find(status); at != std::string::npos; at = text.find(status, at)) text.replace(at, 4, "done");
  }
  return find_words(file, lower(text), words, "finish it, or leave it out");
}

inline Findings headers_are_guarded(const File& file) {
  if (!is_header(file)) return {};
  for (const auto line : lines_of(file.text)) {
    if (line == "#pragma once") return {};
  }
  return {{file.path, 0, "no #pragma once"}};
}

inline Findings names_are_snake_case(const File& file) {
  if (!is_cpp(file)) return {};
  const auto name = file.path.substr(file.path.rfind('/') + 1);
  const auto stem = name.substr(0, name.rfind('.'));
  const bool good = std::all_of(stem.begin(), stem.end(),
                                [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
  return good ? Findings{} : Findings{{file.path, 0, "file names are snake_case"}};
}

inline Findings skips_say_why(const File& file) {
  if (!under(file, "tests/") || !is_cpp(file)) return {};
  Findings found;
  const std::string skip = std::string("GTEST_") + "SKIP()";
  const std::string off = std::string("DISA") + "BLED_";
  const std::string code = code_of(file.text);
  for (auto at = code.find(skip); at != std::string::npos; at = code.find(skip, at + 1)) {
    const auto next = code.find_first_not_of(" \n", at + skip.size());
    if (next == std::string::npos || code.compare(next, 2, "<<") != 0) {
      const auto line = static_cast<std::size_t>(std::count(code.begin(), code.begin() + static_cast<long>(at), '\n'));
      found.push_back({file.path, line + 1, "a skipped test says why"});
    }
  }
  if (code.find(off) != std::string::npos) found.push_back({file.path, 0, "a test that never runs"});
  return found;
}

// --- rules about the whole tree -------------------------------------------------------------------------------------

/// The argument that exclusion holds rests on few places; more of them is a design change, not an edit.
inline Findings few_files_swap_words(const Tree& tree) {
  Findings found;
  for (const auto& file : tree.files) {
    if (under(file, "src/engine/") && code_of(file.text).find("compare_exchange") != std::string::npos) {
      found.push_back({file.path, 0, "compare_exchange in more than three files"});
    }
  }
  return found.size() > 3 ? found : Findings{};
}

inline Findings no_header_is_dead(const Tree& tree) {
  std::set<std::string> included;
  for (const auto& file : tree.files) {
    if (!is_cpp(file)) continue;
    const auto folder = file.path.substr(0, file.path.rfind('/') + 1);
    for (const auto& include : includes_of(file.text)) {
      for (const std::string& root : {std::string("include/"), std::string("src/"), std::string("tests/"),
                                      std::string("tools/"), std::string(), folder}) {
        if (root + include.name != file.path) included.insert(root + include.name);
      }
    }
  }
  Findings found;
  for (const auto& file : tree.files) {
    // The umbrella is what users include.
    if (!is_header(file) || file.path == "include/shmcoord/shmcoord.hpp") continue;
    if (!included.contains(file.path)) found.push_back({file.path, 0, "nobody includes it"});
  }
  return found;
}

/// CMake finds sources by folder and name; one that lies elsewhere would silently not be built.
inline Findings every_source_is_built(const Tree& tree) {
  const auto text_of = [&](std::string_view path) {
    for (const auto& file : tree.files) {
      if (file.path == path) return std::string_view(file.text);
    }
    return std::string_view{};
  };
  const std::string_view src = text_of("src/CMakeLists.txt");
  const std::string_view tests = text_of("tests/CMakeLists.txt");
  Findings found;
  for (const auto& file : tree.files) {
    if (!is_source(file)) continue;
    const auto slash = file.path.rfind('/');
    const auto folder = file.path.substr(0, slash);
    const auto name = file.path.substr(slash + 1);
    bool built = false;
    if (under(file, "src/")) {
      built = has_word(src, "shmcoord_add_layer(" + folder.substr(4));
    } else if (folder == "tests/support") {
      built = true;
    } else if (folder == "tests/fuzz") {
      built = name.ends_with("_fuzz.cpp") || name.ends_with("_seeds_test.cpp");
    } else if (under(file, "tests/")) {
      const bool is_test = name.ends_with("_test.cpp") && has_word(tests, "shmcoord_add_tests(" + folder.substr(6));
      built = is_test || has_word(tests, file.path.substr(6));
    } else if (under(file, "bench/")) {
      built = folder == "bench/support" || (folder == "bench" && (name.ends_with("_bench.cpp") || name == "main.cpp"));
    } else {
      built = folder == "tools/shmcoord" || folder == "tools/adapters";
    }
    if (!built) found.push_back({file.path, 0, "no target builds it"});
  }
  return found;
}

inline Findings top_level_is_small(const Tree& tree) {
  constexpr std::array<std::string_view, 8> allowed{
      "CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "include", "src", "tools", "tests"};
  Findings found;
  for (const auto& name : tree.top_level) {
    if (name.starts_with('.') || name == "bench" || name == "build" || is_one_of(name, allowed)) continue;
    found.push_back({name, 0, "the top level holds only what the README's map names"});
  }
  return found;
}

inline Rule per_file(std::string name, Findings (*check)(const File&)) {
  return {std::move(name), [check](const Tree& tree) {
            Findings all;
            for (const auto& file : tree.files) {
              Findings found = check(file);
              all.insert(all.end(), found.begin(), found.end());
            }
            return all;
          }};
}

inline std::vector<Rule> rules() {
  return {
      per_file("arrows_point_down", arrows_point_down),
      per_file("face_hides_its_insides", face_hides_its_insides),
      per_file("core_is_pure", core_is_pure),
      per_file("atomics_stay_in_the_engine", atomics_stay_in_the_engine),
      per_file("clocks_have_one_home", clocks_have_one_home),
      per_file("nobody_sleeps", nobody_sleeps),
      per_file("files_are_readable", files_are_readable),
      per_file("nothing_is_left_over", nothing_is_left_over),
      per_file("headers_are_guarded", headers_are_guarded),
      per_file("names_are_snake_case", names_are_snake_case),
      per_file("skips_say_why", skips_say_why),
      {"few_files_swap_words", few_files_swap_words},
      {"no_header_is_dead", no_header_is_dead},
      {"every_source_is_built", every_source_is_built},
      {"top_level_is_small", top_level_is_small},
  };
}

}  // namespace tidy
