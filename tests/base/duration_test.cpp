#include "base/duration.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace shmcoord::base {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

nanoseconds read(std::string_view text, Zero zero = Zero::refused) {
  nanoseconds duration{-1};
  const std::string_view wrong = parse_duration(text, zero, duration);
  EXPECT_EQ(wrong, "") << text;
  return duration;
}
std::string wrong(std::string_view text, Zero zero = Zero::refused) {
  nanoseconds duration{-1};
  const std::string_view said = parse_duration(text, zero, duration);
  EXPECT_EQ(duration, nanoseconds{-1}) << "nothing is given";
  return std::string(said.substr(0, said.find(':')));
}

TEST(Duration, IsANumberAndAUnit) {
  EXPECT_EQ(read("250ms"), 250ms);
  EXPECT_EQ(read("1.5s"), 1500ms);
  EXPECT_EQ(read("2m"), 2min);
  EXPECT_EQ(read("87600h"), longest_duration);
  EXPECT_EQ(read("0.000001ms"), 1ns);
  EXPECT_EQ(read("0", Zero::allowed), 0ns);
  EXPECT_EQ(read("0.0h", Zero::allowed), 0ns);
}

TEST(Duration, WhatIsNoneIsSaid) {
  for (const char* const text : {"", "s", "5", "5 s", "5d", "1.s", ".5s", "1e3s", "5s ", "+5s"}) {
    EXPECT_EQ(wrong(text), "is not a duration") << text;
  }
  EXPECT_EQ(wrong("-1s"), "is negative");
  for (const char* const text : {"0", "0s", "0.0", "0.0000001s"}) EXPECT_EQ(wrong(text), "is zero") << text;
  for (const char* const text : {"87600.1h", "87601h", "99999999999999999999s"}) {
    EXPECT_EQ(wrong(text), "is longer than ten years") << text;
  }
}

TEST(Duration, IsWrittenAsItIs) {
  EXPECT_EQ(exact_duration(1h), "1h");
  EXPECT_EQ(exact_duration(90s), "90s");
  EXPECT_EQ(exact_duration(2min), "2m");
  EXPECT_EQ(exact_duration(1500ms), "1500ms");
  EXPECT_EQ(exact_duration(1ns), "0.000001ms");
  EXPECT_EQ(exact_duration(1'200us), "1.2ms");
  EXPECT_EQ(exact_duration(longest_duration), "87600h");
  EXPECT_EQ(read(exact_duration(longest_duration - 1ns)), longest_duration - 1ns);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    nanoseconds duration{1 +
                         static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(longest_duration.count()))};
    if (i % 2 == 0) duration = nanoseconds{duration.count() % 10'000'000'000 + 1};
    EXPECT_EQ(read(exact_duration(duration)), duration);
  }
}

}  // namespace
}  // namespace shmcoord::base
