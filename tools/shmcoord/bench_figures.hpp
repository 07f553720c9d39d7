#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

// What `shmcoord bench` found, and how it is shown.

namespace shmcoord::tool {

/// What the figures are of.
struct Machine {
  std::string cpu;  // model; empty: not known
  unsigned cpus = 0;
  unsigned cpus_allowed = 0;  // to this process
  std::string kernel;
  std::string clock_source;         // empty: not known
  std::optional<bool> virtualised;  // none: not known
  std::array<double, 3> load{};     // averages of 1, 5 and 15 minutes, before the first measurement
};
[[nodiscard]] Machine this_machine();

struct Spread {
  double median = 0;
  double p10 = 0;
  double p90 = 0;

  [[nodiscard]] static Spread of(std::vector<double> values);
};

/// Of single ones, of all rounds together.
struct Latency {
  std::uint64_t samples = 0;
  std::int64_t p50_ns = 0;
  std::int64_t p90_ns = 0;
  std::int64_t p99_ns = 0;
  std::int64_t max_ns = 0;
};

struct SubjectFigures {
  std::string name;
  Spread ns;                    // of the rounds
  std::optional<Spread> ratio;  // ours / this, round by round; none: it is ours
  std::optional<Latency> latency;
};

/// From what each round took, of each subject. As many rounds of each; ours first.
[[nodiscard]] std::vector<SubjectFigures> beside_each_other(const std::vector<std::string>& names,
                                                            const std::vector<std::vector<double>>& rounds);

struct ComparisonFigures {
  std::string_view key;
  std::string_view title;
  std::size_t rounds = 0;
  std::vector<SubjectFigures> subjects;  // ours first
};

struct BenchReport {
  Machine machine;
  unsigned seconds = 0;
  std::vector<std::string> notes;  // what was left out, and why
  std::vector<ComparisonFigures> comparisons;
};

/// Why the figures mean little: the machine did other things too. Empty: no sign of that.
[[nodiscard]] std::vector<std::string> signs_of_other_work(const BenchReport& report);

/// `columns` of the terminal; 0: it is none, and there are no bars.
[[nodiscard]] std::string bench_text(const BenchReport& report, std::size_t columns, bool color);
[[nodiscard]] boost::json::value bench_json(const BenchReport& report);

/// "11.2 ns", "1.24 us", "330 us", "7.1 ms": three digits, as bench/ has them.
[[nodiscard]] std::string format_ns(double ns);

}  // namespace shmcoord::tool
