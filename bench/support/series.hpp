#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// One measurement at several sizes, to see how it grows.

namespace shmcoord::bench {

struct Point {
  std::uint64_t n = 0;
  double median = 0;
  double p10 = 0;
  double p90 = 0;
};

/// A line of a picture: what was measured, over how many there were.
struct Series {
  std::string name;
  std::string unit;
  std::vector<Point> points = {};
};

/// All sizes are measured round by round in turn, the other way round in every second one: whatever else the machine
/// does hits all alike, and two sizes of one round may be compared. One visit of a size may give several figures, the
/// lines.
class Growth {
 public:
  using Measure = std::function<std::vector<double>()>;  // a figure of each line

  /// `of`: what there are n of. So many rounds, unless the options say otherwise.
  Growth(std::string name, std::string unit, std::string of, int rounds, std::vector<std::string> lines);

  void at(std::uint64_t n, Measure measure);
  /// The first line should take at `many` at most `target` times what it takes at `few`; 0: for the picture only. Of
  /// sizes that are not measured nothing is said.
  void compare(std::uint64_t many, std::uint64_t few, double target);

  /// Measures, prints a table, sends the figures to the runner. The lines, in their order.
  std::vector<Series> run();
  /// Of each round.
  [[nodiscard]] std::vector<double> values(std::uint64_t n, std::size_t line) const;

 private:
  struct Size {
    std::uint64_t n;
    Measure measure;
    std::vector<std::vector<double>> values = {};  // of each line
  };
  struct Pair {
    std::uint64_t many;
    std::uint64_t few;
    double target;
  };

  void print(const std::vector<Series>& lines) const;
  void compare_pairs() const;

  std::string name_;
  std::string unit_;
  std::string of_;
  int rounds_;
  std::vector<std::string> lines_;
  std::vector<Size> sizes_ = {};
  std::vector<Pair> pairs_ = {};
};

}  // namespace shmcoord::bench
