#pragma once

#include <string>
#include <vector>

// The cases of all files, each registered where it is written:
//
//   const Register pair_is_a_case{"pair", "an uncontended pair beside every other lock", pair_case};

namespace shmcoord::bench {

struct Case {
  std::string name;
  std::string shows;  // in one line
  void (*run)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Register {
  Register(std::string name, std::string shows, void (*run)()) {
    cases().push_back({std::move(name), std::move(shows), run});
  }
};

}  // namespace shmcoord::bench
