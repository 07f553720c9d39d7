#pragma once

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <vector>

// The main() of a program of comparisons: the cases that the arguments name, or all.

namespace shmcoord::bench {

struct Case {
  const char* name;
  void (*run)();
};

inline int run_cases(const std::vector<std::string>& wanted, std::initializer_list<Case> cases) {
  for (const std::string& name : wanted) {
    if (std::any_of(cases.begin(), cases.end(), [&](const Case& c) { return name == c.name; })) continue;
    std::fprintf(stderr, "no case '%s'; there are:", name.c_str());
    for (const Case& c : cases) std::fprintf(stderr, " %s", c.name);
    std::fprintf(stderr, "\n");
    return 64;
  }
  for (const Case& c : cases) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), c.name) != wanted.end()) c.run();
  }
  return 0;
}

}  // namespace shmcoord::bench
