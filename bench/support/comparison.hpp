#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/result.hpp"

// One thing measured beside its peers.
//
// Google Benchmark does the measuring: each subject is a registered benchmark with manual time. But a round is a run of
// its own: all subjects once, in an order that the library shuffles anew (its random interleaving), so that whatever
// else the machine does, and whatever one subject leaves to the next, hits all alike. The library's own repetitions
// would be shuffled over the whole run: the 5th of one subject and the 5th of its peer may lie minutes apart, and a
// ratio of the two says what the machine did meanwhile. Here the two of a round are neighbours, and each round gives
// one ratio.

namespace shmcoord::bench {

/// What one round saw.
struct Round {
  double value = 0;                                           // smaller is better
  std::vector<double> samples = {};                           // single latencies, in the same unit, if it has them
  std::vector<std::pair<std::string, double>> counters = {};  // what else there is to say

  /// The median of single latencies.
  static Round of(std::vector<double> samples) {
    const double median = at(samples, 0.5);
    return {.value = median, .samples = std::move(samples)};
  }
};

class Comparison {
 public:
  using Measure = std::function<double()>;  // one round; any unit, smaller is better
  using MeasureRound = std::function<Round()>;

  /// So many rounds, unless the options say otherwise.
  Comparison(std::string name, std::string unit, int rounds);

  void ours(Measure m) { ours(plain(std::move(m))); }
  void ours(MeasureRound m) { measures_.insert(measures_.begin(), {"shmcoord", 0, 0, std::move(m)}); }
  /// `target`: ours should take at most that many times as long; 0: for the picture only. `tail_target`: likewise of
  /// the 99th percentile of all samples.
  void peer(std::string name, double target, Measure m, double tail_target = 0) {
    peer(std::move(name), target, plain(std::move(m)), tail_target);
  }
  void peer(std::string name, double target, MeasureRound m, double tail_target = 0) {
    measures_.push_back({std::move(name), target, tail_target, std::move(m)});
  }
  /// What a round gives is one latency: show the percentiles of the rounds.
  void rounds_are_samples() { rounds_are_samples_ = true; }
  /// This is what the subjects were at x in a picture of several comparisons.
  void place(Place p) { place_ = std::move(p); }

  /// Measures, prints the table, sends the figures to the runner.
  void run() const;

 private:
  struct Entry {
    std::string name;
    double target;
    double tail_target;
    MeasureRound run;
  };
  static MeasureRound plain(Measure m) {
    return [m = std::move(m)] { return Round{.value = m()}; };
  }
  [[nodiscard]] std::vector<std::vector<Round>> measure(Result& result) const;

  std::string name_;
  std::string unit_;
  int rounds_;
  bool rounds_are_samples_ = false;
  Place place_ = {};
  std::vector<Entry> measures_ = {};
};

/// Once, before processes are made: tells the library to shuffle, and lets it find out about the machine.
void prepare_library();

/// A plain figure with its spread. `target`: at most that; 0: for the picture only.
void report(const std::string& name, const std::string& unit, const std::vector<double>& values, double target);

/// What is going on, on one line of a terminal, to be overwritten; nothing when nobody looks. Empty: takes it away.
void progress(const std::string& what);

}  // namespace shmcoord::bench
