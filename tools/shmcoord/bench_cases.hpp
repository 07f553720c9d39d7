#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/bench_board.hpp"

// What `bench` measures. Each comparison runs in a process of its own, which makes what it needs and then lets all its
// subjects take their turn, round by round.

namespace shmcoord::tool {

/// Where it is measured.
struct BenchPlace {
  std::string segment;    // a path
  std::string file;       // for flock
  sigset_t signals{};     // the mask that a command starts with
  std::string flock{};    // the program; empty: there is none
  std::string nothing{};  // the program `true`
  unsigned cpus = 1;
};

/// One round of so many repetitions; the time of one. Single latencies go to `samples`.
using BenchMeasure = std::function<double(int repetitions, bench::Histogram& samples)>;

struct BenchSubject {
  std::string name;
  std::function<BenchMeasure(const BenchPlace& place, BenchBoard& board)> make;
};

struct BenchCase {
  std::string_view key;
  std::string_view title;
  double share = 0;                    // of the time
  int repetitions = 1;                 // of the first round
  std::int64_t turn_ns = 0;            // what a turn should take: the repetitions follow it; 0: they stay
  bool latencies = false;              // there are samples
  std::vector<BenchSubject> subjects;  // ours first
};

struct BenchPlan {
  std::vector<BenchCase> cases;
  std::vector<std::string> left_out;  // what, and why
};
/// Fills in `flock` and `nothing`, from PATH.
void find_programs(BenchPlace& place);
[[nodiscard]] BenchPlan bench_plan(const BenchPlace& place);

/// In its own process: rounds until then, three at least.
void measure(const BenchCase& what, const BenchPlace& place, BenchBoard& board, std::int64_t until_ns);

}  // namespace shmcoord::tool
