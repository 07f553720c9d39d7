#include "bench/support/series.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/support/processes.hpp"
#include "bench/support/result.hpp"

// What is made of sizes whose figures are known.

namespace shmcoord::bench {
namespace {

using ::testing::ElementsAre;

/// Runs it and reads what it sends.
std::vector<Result> results_of(const std::function<void()>& run) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {};
  enter_case(ends[1], -1);
  run();
  ::close(ends[1]);
  enter_case(-1, -1);
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  std::vector<Result> results;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) results.push_back(from_line(line));
  return results;
}

TEST(Growth, MeasuresAllSizesInEveryRoundAndEverySecondOneBackwards) {
  std::vector<int> order;
  Growth growth("order", "ns", "things", 3, {"line"});
  for (const int n : {1, 10, 100}) {
    growth.at(static_cast<std::uint64_t>(n), [&order, n] {
      order.push_back(n);
      return std::vector<double>{1};
    });
  }
  results_of([&] { growth.run(); });
  EXPECT_THAT(order, ElementsAre(1, 10, 100, 100, 10, 1, 1, 10, 100));
}

TEST(Growth, GivesALineOfPointsForEachFigure) {
  Growth growth("lines", "us", "things", 11, {"there", "back"});
  for (const std::uint64_t n : {std::uint64_t{10}, std::uint64_t{1'000}}) {
    growth.at(n, [n, round = 0]() mutable {
      ++round;
      const auto size = static_cast<double>(n);
      return std::vector<double>{size + round, 2 * size + round};
    });
  }
  std::vector<Series> lines;
  const std::vector<Result> sent = results_of([&] { lines = growth.run(); });
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].name, "there");
  EXPECT_EQ(lines[1].name, "back");
  EXPECT_EQ(lines[1].unit, "us");
  ASSERT_EQ(lines[1].points.size(), 2U);
  const Point& p = lines[1].points[1];
  EXPECT_EQ(p.n, 1'000U);
  EXPECT_DOUBLE_EQ(p.median, 2'006);
  EXPECT_DOUBLE_EQ(p.p10, 2'002);
  EXPECT_DOUBLE_EQ(p.p90, 2'010);
  EXPECT_THAT(growth.values(10, 0), ElementsAre(11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21));
  EXPECT_TRUE(growth.values(11, 0).empty());

  // As the runner gets them: a place in one picture for each size.
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].place.picture, "lines");
  EXPECT_EQ(sent[1].place.axis, "things");
  EXPECT_EQ(sent[1].place.x, 1'000);
  ASSERT_EQ(sent[1].subjects.size(), 2U);
  EXPECT_EQ(sent[1].subjects[1].name, "back");
  EXPECT_EQ(sent[1].subjects[1].values, growth.values(1'000, 1));
}

TEST(Growth, ComparesTwoSizesRoundByRound) {
  Growth growth("ratio", "ns", "things", 11, {"line"});
  growth.at(1, [round = 0]() mutable { return std::vector<double>{++round <= 5 ? 1.0 : 100.0}; });
  growth.at(2, [round = 0]() mutable { return std::vector<double>{static_cast<double>(++round)}; });
  growth.compare(2, 1, 0.6);
  growth.compare(3, 1, 0.6);  // which nobody measures
  const std::vector<Result> sent = results_of([&] { growth.run(); });
  ASSERT_EQ(sent.size(), 3U);
  ASSERT_EQ(sent[2].subjects.size(), 2U);
  EXPECT_EQ(sent[2].subjects[0].name, "with 2 things");
  EXPECT_EQ(sent[2].subjects[1].name, "with 1 things");
  // 1 … 5, and 0.06 … 0.11: of the ratios the median is the least of the first ones.
  EXPECT_DOUBLE_EQ(sent[2].subjects[1].ratio.median, 0.11);
  EXPECT_DOUBLE_EQ(sent[2].subjects[1].target, 0.6);
}

TEST(GrowthDeathTest, RefusesARoundThatMeasuredLess) {
  Growth growth("less", "ns", "things", 1, {"line", "another"});
  growth.at(1, [] { return std::vector<double>{1}; });
  EXPECT_EXIT(growth.run(), ::testing::ExitedWithCode(1), "less: not all was measured");
}

}  // namespace
}  // namespace shmcoord::bench
