#pragma once

#include <vector>

#include "bench/support/cases.hpp"
#include "bench/support/result.hpp"

// Runs cases, each in a process of its own, so that one neither finds what another left in caches and heaps nor takes
// the others with it when it fails.
//
// The runner only waits. It is the subreaper of all that a case starts; when the case is over, has failed, or somebody
// presses ^C, it kills whatever is left of it, from the top of the tree down, and removes what has a scratch name.

namespace shmcoord::bench {

struct Ran {
  std::vector<Result> results;
  int code = 0;         // 1: a case failed, the others ran
  int interrupted = 0;  // the signal, if one ended it
};

Ran run_cases(const std::vector<Case>& chosen);

}  // namespace shmcoord::bench
