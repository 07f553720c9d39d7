#include "bench/support/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "bench/support/processes.hpp"

// What a comparison makes of rounds whose figures are known, as the runner gets it.

namespace shmcoord::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// Runs it and reads what it sends.
Result result_of(const std::function<void()>& run) {
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
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line for one result";
  return from_line(text);
}

/// 1, 2, 3 … times so much, one for each round.
Comparison::Measure counting(double step) {
  return [step, n = 0]() mutable { return step * ++n; };
}

TEST(Comparison, GivesTheRatioOfEachRoundAndNotOfTheMedians) {
  const Result r = result_of([] {
    Comparison c("rounds", "ns", 11);
    c.peer("peer", 0.6, [n = 0]() mutable { return ++n <= 5 ? 1.0 : 100.0; });
    c.ours(counting(1));
    c.place({"picture", "axis", 7});
    c.run();
  });
  ASSERT_EQ(r.subjects.size(), 2U);
  const Subject& ours = r.subjects[0];
  const Subject& peer = r.subjects[1];
  EXPECT_EQ(ours.name, "shmcoord");
  EXPECT_THAT(ours.values, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  // 1 … 5, and 0.06 … 0.11: the median is the least of the first ones; that of the medians would be 6 / 100.
  EXPECT_DOUBLE_EQ(peer.ratio.median, 0.11);
  EXPECT_DOUBLE_EQ(peer.ratio.low, 0.07);
  EXPECT_DOUBLE_EQ(peer.ratio.high, 4);
  EXPECT_EQ(peer.target, 0.6);
  EXPECT_EQ(peer.took_s.size(), 11U);
  EXPECT_EQ(peer.cpu_s.size(), 11U);
  EXPECT_EQ(r.place.picture, "picture");
  EXPECT_EQ(r.place.axis, "axis");
  EXPECT_EQ(r.place.x, 7);
  EXPECT_EQ(peer.samples, 0U);
}

TEST(Comparison, MeasuresAllOfARoundBeforeTheNextInAnyOrder) {
  prepare_library();
  std::string order;
  result_of([&] {
    Comparison c("order", "ns", 50);
    c.ours([&] { return order += 'a', 1; });
    c.peer("b", 0, [&] { return order += 'b', 1; });
    c.peer("c", 0, [&] { return order += 'c', 1; });
    c.run();
  });
  ASSERT_EQ(order.size(), 150U);
  std::set<std::string> orders;
  for (std::size_t round = 0; round < 50; ++round) {
    const std::string one = order.substr(3 * round, 3);
    EXPECT_THAT(one, UnorderedElementsAre('a', 'b', 'c')) << "round " << round;
    orders.insert(one);
  }
  EXPECT_GT(orders.size(), 1U) << "it is not drawn anew";
}

TEST(Comparison, PutsTheSamplesOfAllRoundsTogether) {
  const Result r = result_of([] {
    Comparison c("samples", "us", 10);
    // 1 … 1000 in tens rounds of a hundred, and everything twice as long.
    const auto hundred = [](double step) {
      return [step, n = 0]() mutable {
        std::vector<double> samples;
        for (int i = 0; i < 100; ++i) samples.push_back(step * ++n);
        return Round::of(samples);
      };
    };
    c.ours(hundred(1));
    c.peer("twice", 0, hundred(2), 0.5);
    c.run();
  });
  const Subject& ours = r.subjects[0];
  EXPECT_EQ(ours.samples, 1000U);
  EXPECT_NEAR(ours.percentile(0.5), 500, 1);
  EXPECT_NEAR(ours.percentile(0.9), 900, 1);
  EXPECT_NEAR(ours.percentile(0.99), 990, 1);
  EXPECT_NEAR(ours.percentile(0.999), 999, 1);
  EXPECT_EQ(ours.percentile(1), 1000);
  EXPECT_NEAR(r.subjects[1].tail_ratio.median, 0.5, 1e-9);
  EXPECT_NEAR(r.subjects[1].tail_ratio.low, 0.5, 1e-9);
  EXPECT_EQ(r.subjects[1].tail_target, 0.5);
  // In nanoseconds, whatever the unit; its ends exact also on the other side of the pipe.
  EXPECT_EQ(ours.histogram.count(), 1000U);
  EXPECT_EQ(ours.histogram.min(), 1'000);
  EXPECT_EQ(ours.histogram.max(), 1'000'000);
  EXPECT_NEAR(static_cast<double>(ours.histogram.quantile(0.5)), 500e3, 500e3 / 64);
}

TEST(Comparison, TakesRoundsForSamplesWhenToldSo) {
  const Result r = result_of([] {
    Comparison c("kills", "us", 101);
    c.rounds_are_samples();
    c.ours(counting(1));
    c.peer("tenfold", 0, counting(10));
    c.run();
  });
  EXPECT_EQ(r.subjects[0].samples, 101U);
  EXPECT_EQ(r.subjects[0].percentile(0.5), 51);
  EXPECT_NEAR(r.subjects[1].tail_ratio.median, 0.1, 1e-9);
}

TEST(Comparison, KeepsCountersWithTheirSpread) {
  const Result r = result_of([] {
    Comparison c("counters", "ns", 11);
    c.ours([n = 0]() mutable { return Round{.value = 1, .counters = {{"jain", static_cast<double>(n++)}}}; });
    c.run();
  });
  ASSERT_EQ(r.subjects[0].counters.size(), 1U);
  EXPECT_EQ(r.subjects[0].counters[0].first, "jain");
  EXPECT_EQ(r.subjects[0].counters[0].second.median, 5);
  EXPECT_EQ(r.subjects[0].counters[0].second.low, 1);
  EXPECT_EQ(r.subjects[0].counters[0].second.high, 9);
}

TEST(Comparison, GivesNoRatioToNothing) {
  const Result r = result_of([] {
    Comparison c("zero", "ns", 3);
    c.ours([] { return 1.0; });
    c.peer("none", 1, [] { return 0.0; });
    c.run();
  });
  EXPECT_EQ(r.subjects[1].ratio.median, 0);
}

TEST(Comparison, ReportsAFigureThatStandsAlone) {
  const Result r = result_of([] { report("room", "bytes", {3, 1, 2}, 256); });
  EXPECT_EQ(r.unit, "bytes");
  EXPECT_EQ(r.subjects[0].target, 256);
  EXPECT_THAT(r.subjects[0].values, ElementsAre(3, 1, 2));
}

}  // namespace
}  // namespace shmcoord::bench
