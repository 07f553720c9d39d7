#include "bench/support/series.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "bench/support/comparison.hpp"
#include "bench/support/options.hpp"
#include "bench/support/processes.hpp"
#include "bench/support/result.hpp"

namespace shmcoord::bench {

Growth::Growth(std::string name, std::string unit, std::string of, int rounds, std::vector<std::string> lines)
    : name_(std::move(name)),
      unit_(std::move(unit)),
      of_(std::move(of)),
      rounds_(bench::rounds(rounds)),
      lines_(std::move(lines)) {}

void Growth::at(std::uint64_t n, Measure measure) {
  sizes_.push_back({n, std::move(measure), std::vector<std::vector<double>>(lines_.size())});
}

void Growth::compare(std::uint64_t many, std::uint64_t few, double target) { pairs_.push_back({many, few, target}); }

std::vector<double> Growth::values(std::uint64_t n, std::size_t line) const {
  const auto found = std::find_if(sizes_.begin(), sizes_.end(), [n](const Size& s) { return s.n == n; });
  return found == sizes_.end() ? std::vector<double>{} : found->values.at(line);
}

std::vector<Series> Growth::run() {
  for (int r = 0; r < rounds_; ++r) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      Size& s = sizes_[r % 2 == 0 ? i : sizes_.size() - 1 - i];
      progress(current_case() + ": " + name_ + ", " + std::to_string(s.n) + " " + of_ + ", round " +
               std::to_string(r + 1) + " of " + std::to_string(rounds_));
      const std::vector<double> figures = s.measure();
      if (figures.size() != lines_.size()) fail(name_ + ": not all was measured");
      for (std::size_t line = 0; line < figures.size(); ++line) s.values[line].push_back(figures[line]);
    }
  }
  std::vector<Series> all;
  for (std::size_t line = 0; line < lines_.size(); ++line) {
    Series& series = all.emplace_back(Series{lines_[line], unit_});
    for (const Size& s : sizes_) {
      const Spread spread = Spread::of(s.values[line]);
      series.points.push_back({s.n, spread.median, spread.low, spread.high});
    }
  }
  print(all);
  for (const Size& s : sizes_) {
    Result result{.of_case = current_case(),
                  .name = name_ + ", " + std::to_string(s.n) + " " + of_,
                  .unit = unit_,
                  .place = {.picture = name_, .axis = of_, .x = static_cast<double>(s.n)}};
    for (std::size_t line = 0; line < lines_.size(); ++line) {
      result.subjects.push_back({.name = lines_[line], .values = s.values[line]});
    }
    send(result);
  }
  compare_pairs();
  return all;
}

void Growth::print(const std::vector<Series>& lines) const {
  progress("");
  std::printf("%s (%s, median [p10 – p90] of %d rounds)\n", name_.c_str(), unit_.c_str(), rounds_);
  for (const Series& line : lines) {
    std::printf("  %s\n", line.name.c_str());
    for (const Point& p : line.points) {
      const int digits = p.median < 10 ? 3 : 1;
      std::printf("    %10llu %-20s %12.*f [%.*f – %.*f]\n", static_cast<unsigned long long>(p.n), of_.c_str(), digits,
                  p.median, digits, p.p10, digits, p.p90);
    }
  }
  std::fflush(stdout);
}

void Growth::compare_pairs() const {
  for (const Pair& pair : pairs_) {
    const std::vector<double> many = values(pair.many, 0);
    const std::vector<double> few = values(pair.few, 0);
    if (many.empty() || few.empty()) continue;
    std::vector<double> ratios;
    ratios.reserve(many.size());
    for (std::size_t r = 0; r < many.size(); ++r) ratios.push_back(many[r] / few[r]);
    const Spread ratio = Spread::of(ratios);
    const auto with = [&](std::uint64_t n) { return "with " + std::to_string(n) + " " + of_; };
    std::printf("  %s: %s / %s = %.2f [%.2f – %.2f]", lines_[0].c_str(), with(pair.many).c_str(),
                with(pair.few).c_str(), ratio.median, ratio.low, ratio.high);
    if (pair.target > 0) {
      std::printf("  target %.2f: %s", pair.target, ratio.median <= pair.target ? "met" : "MISSED");
    }
    std::printf("\n");
    send({.of_case = current_case(),
          .name = name_ + ": " + lines_[0],
          .unit = unit_,
          .subjects = {{.name = with(pair.many), .values = many},
                       {.name = with(pair.few), .values = few, .target = pair.target, .ratio = ratio}}});
  }
  std::fflush(stdout);
}

}  // namespace shmcoord::bench
