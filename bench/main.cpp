#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/support/cases.hpp"
#include "bench/support/comparison.hpp"
#include "bench/support/google_json.hpp"
#include "bench/support/options.hpp"
#include "bench/support/pictures.hpp"
#include "bench/support/processes.hpp"
#include "bench/support/runner.hpp"

// shmcoord_bench [--short] [--rounds N] [--json FILE] [--svg FOLDER] [CASE]…: the cases that are named, by glob
// patterns too, or all.

namespace shmcoord::bench {
namespace {

constexpr int usage_error = 64;  // EX_USAGE, as of the tool

int complain(const std::string& what) {
  std::fprintf(stderr, "shmcoord_bench: %s\n", what.c_str());
  return usage_error;
}

void list(const std::vector<Case>& chosen) {
  for (const Case& c : chosen) std::printf("%-12s %s\n", c.name.c_str(), c.shows.c_str());
}

/// Those that one of the patterns names; `unknown`: the first pattern that names none.
std::vector<Case> choose(const std::vector<std::string>& patterns, std::optional<std::string>& unknown) {
  if (patterns.empty()) return cases();
  const auto names = [](const std::string& pattern, const Case& c) {
    return ::fnmatch(pattern.c_str(), c.name.c_str(), 0) == 0;
  };
  for (const std::string& p : patterns) {
    if (std::none_of(cases().begin(), cases().end(), [&](const Case& c) { return names(p, c); })) {
      unknown = p;
      return {};
    }
  }
  std::vector<Case> chosen;
  std::copy_if(cases().begin(), cases().end(), std::back_inserter(chosen), [&](const Case& c) {
    return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return names(p, c); });
  });
  return chosen;
}

int run(int argc, char** argv) {
  CLI::App app("How shmcoord compares: every figure beside its peers, measured in the same run.", "shmcoord_bench");
  bool only_list = false;
  std::string json;
  std::string svg;
  std::vector<std::string> patterns;
  app.add_flag("--list", only_list, "the cases there are");
  app.add_flag("--short", options().short_form,
               "every case in its smallest form: shows that it works, not the figures");
  app.add_option("--rounds", options().rounds, "rounds of each comparison, instead of what the case says")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--json", json, "also write the figures there, as Google Benchmark does");
  app.add_option("--svg", svg, "also draw the figures, into that folder");
  app.add_option("case", patterns, "names of cases, or patterns of names");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return 0;
  } catch (const CLI::ParseError& e) {
    return complain(e.what());
  }
  std::optional<std::string> unknown;
  const std::vector<Case> chosen = choose(patterns, unknown);
  if (unknown) {
    std::string there_are;
    for (const Case& c : cases()) there_are += " " + c.name;
    return complain("no case '" + *unknown + "'; there are:" + there_are);
  }
  if (only_list) {
    list(chosen);
    return 0;
  }
  for (const char* name : {"--json", "--svg"}) {
    if (app.count(name) != 0 && app.get_option(name)->as<std::string>().empty()) {
      return complain(std::string(name) + " needs the name of what is to be written");
    }
  }
  // Now, not after an hour of measuring.
  if (!json.empty() && !std::ofstream(json, std::ios::app)) {
    complain("cannot write " + json + ": " + std::strerror(errno));
    return 1;
  }
  if (!svg.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(svg, failed);
    if (!failed && ::access(svg.c_str(), W_OK) != 0) failed = {errno, std::generic_category()};
    if (failed) {
      complain("cannot write into " + svg + ": " + failed.message());
      return 1;
    }
  }
  prepare_library();
  prepare_runner();
  const Ran ran = run_cases(chosen);
  // Of those that are over, also when the rest was interrupted.
  if (!json.empty()) write_json(json, ran.results);
  if (!svg.empty()) draw_pictures(svg, ran.results);
  if (ran.interrupted != 0) {
    std::fprintf(stderr, "shmcoord_bench: interrupted\n");
    return 128 + ran.interrupted;
  }
  return ran.code;
}

}  // namespace
}  // namespace shmcoord::bench

int main(int argc, char** argv) {
  try {
    const int code = shmcoord::bench::run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "shmcoord_bench: standard output cannot be written\n");
    return code == 0 ? 1 : code;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "shmcoord_bench: %s\n", e.what());
    return 1;
  }
}
