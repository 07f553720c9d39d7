#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/histogram.hpp"

// What one comparison came to, as data: for the JSON file and the pictures. It crosses from the process that measured
// to the runner as one line of text.

namespace shmcoord::bench {

/// The value at quantile q of those measured, 0 of none.
double at(std::vector<double> values, double q);

struct Spread {
  double median = 0;
  double low = 0;   // 10th percentile
  double high = 0;  // 90th

  static Spread of(const std::vector<double>& values);
};

struct Percentile {
  double q = 0;
  double value = 0;
};

struct Subject {
  std::string name;
  std::vector<double> values = {};  // of each round, in the unit of the result
  std::vector<double> took_s = {};  // what measuring that round took
  std::vector<double> cpu_s = {};   // of that the CPU time of the process that measured
  double target = 0;                // of the first one, for a figure alone: at most that; of a peer: the ratio; 0: none
  Spread ratio = {};                // first one / this
  double tail_target = 0;
  Spread tail_ratio = {};                    // of the 99th percentiles of all samples
  std::size_t samples = 0;                   // single ones, of all rounds together; 0: there are none
  std::vector<Percentile> percentiles = {};  // of these, exact, dense enough to draw
  Histogram histogram = {};                  // of these, if they are times
  std::vector<std::pair<std::string, Spread>> counters = {};

  [[nodiscard]] double percentile(double q) const;
};

/// Where a comparison is in a picture of many: its subjects are the lines, it is what they were at x.
struct Place {
  std::string picture;  // its title; empty: in none
  std::string axis;
  double x = 0;
};

struct Result {
  std::string of_case;
  std::string name;
  std::string unit;
  Place place = {};
  std::vector<Subject> subjects = {};
};

/// Seconds in one of that unit; 0 if it is no unit of time.
double seconds_in(const std::string& unit);

std::string to_line(const Result& result);
Result from_line(const std::string& line);

/// To the runner.
void send(const Result& result);

/// The name of the case that this process measures.
std::string& current_case();

}  // namespace shmcoord::bench
