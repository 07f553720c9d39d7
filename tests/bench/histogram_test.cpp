#include "bench/support/histogram.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

namespace shmcoord::bench {
namespace {

constexpr double quantiles[] = {0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 1};

/// Nearest rank, of sorted values.
std::int64_t true_quantile(const std::vector<std::int64_t>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

void expect_close(std::int64_t got, std::int64_t wanted, double q) {
  EXPECT_LE(std::abs(got - wanted) * 64, wanted) << "quantile " << q << ": " << got << " for " << wanted;
}

std::vector<Histogram::Bucket> filled(const Histogram& h) {
  std::vector<Histogram::Bucket> found;
  h.for_each_filled([&](const Histogram::Bucket& b) { found.push_back(b); });
  return found;
}

void expect_like_samples(const Histogram& h, std::vector<std::int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  ASSERT_EQ(h.count(), samples.size());
  EXPECT_EQ(h.min(), samples.front());
  EXPECT_EQ(h.max(), samples.back());
  for (const double q : quantiles) expect_close(h.quantile(q), true_quantile(samples, q), q);
  std::uint64_t sum = 0;
  for (const Histogram::Bucket& b : filled(h)) {
    const auto from = std::lower_bound(samples.begin(), samples.end(), b.low);
    const auto to = std::upper_bound(samples.begin(), samples.end(), b.high);
    EXPECT_EQ(b.count, static_cast<std::uint64_t>(to - from)) << b.low << " to " << b.high;
    sum += b.count;
  }
  EXPECT_EQ(sum, h.count());
}

TEST(Histogram, NothingWasCounted) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0U);
  EXPECT_EQ(h.min(), 0);
  EXPECT_EQ(h.max(), 0);
  EXPECT_EQ(h.quantile(0.5), 0);
  EXPECT_TRUE(filled(h).empty());
}

// From one value to the next the bucket stays or becomes the next one, and none is wider than 1/64 of what is in it.
TEST(Histogram, BucketsFollowEachOtherAndAreNarrow) {
  EXPECT_GE(Histogram::longest_ns, std::int64_t{100'000'000'000});
  Histogram h;
  std::vector<std::int64_t> edges;
  for (std::int64_t v = 0; v < 100'000; ++v) {  // all of the short ones
    ASSERT_LE(Histogram::index_of(v) - (v == 0 ? 0 : Histogram::index_of(v - 1)), 1U) << v;
    h.add(v);
  }
  // One in each of the others: its lower edge is where the one before ended.
  for (std::int64_t v = 100'000; v <= Histogram::longest_ns; v += std::max<std::int64_t>(1, v / 200)) h.add(v);
  h.add(Histogram::longest_ns);
  std::int64_t next = 0;
  for (const Histogram::Bucket& b : filled(h)) {
    ASSERT_EQ(b.low, next);
    ASSERT_EQ(Histogram::index_of(b.low), Histogram::index_of(b.high));
    ASSERT_TRUE(b.high == b.low || (b.high - b.low + 1) * 64 <= b.low) << b.low;
    next = b.high + 1;
  }
  EXPECT_EQ(next, Histogram::longest_ns + 1);
  EXPECT_EQ(Histogram::index_of(Histogram::longest_ns), Histogram::bucket_count - 1);
  EXPECT_EQ(filled(h).size(), Histogram::bucket_count);
}

TEST(Histogram, EachSmallSetOfSmallValues) {
  for (std::int64_t a = 0; a < 200; a += 3) {
    for (std::int64_t b = 0; b < 200; b += 7) {
      for (std::int64_t c = 0; c < 200; c += 11) {
        Histogram h;
        for (const std::int64_t v : {a, b, c}) h.add(v);
        expect_like_samples(h, {a, b, c});
        if (HasFailure()) return;
      }
    }
  }
}

TEST(Histogram, RandomSamplesOfAllSizes) {
  const char* const given = std::getenv("SHMCOORD_HISTOGRAM_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("SHMCOORD_HISTOGRAM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    const std::size_t n = 1 + random() % 3'000;
    const unsigned widest = 1 + static_cast<unsigned>(random() % 36);
    std::vector<std::int64_t> samples;
    Histogram whole;
    Histogram parts[3];
    for (std::size_t i = 0; i < n; ++i) {
      const unsigned bits = 1 + static_cast<unsigned>(random() % widest);
      samples.push_back(static_cast<std::int64_t>(random() & ((std::uint64_t{1} << bits) - 1)));
      whole.add(samples.back());
      parts[random() % 3].add(samples.back());
    }
    Histogram merged;
    for (const Histogram& part : parts) merged.merge(part);
    expect_like_samples(whole, samples);
    expect_like_samples(merged, samples);
    if (HasFailure()) return;
  }
}

TEST(Histogram, SeveralAtOnceAndNone) {
  Histogram h;
  h.add(1'000, 0);
  EXPECT_EQ(h.count(), 0U);
  h.add(1'000, 3);
  h.add(5, 1);
  expect_like_samples(h, {5, 1'000, 1'000, 1'000});
  h.merge(Histogram{});
  EXPECT_EQ(h.count(), 4U);
  EXPECT_EQ(h.min(), 5) << "an empty one has no shortest value to give";
}

TEST(Histogram, OutOfRange) {
  Histogram h;
  h.add(-5);
  EXPECT_EQ(h.min(), 0);
  EXPECT_EQ(h.quantile(0.5), 0);
  h.add(Histogram::longest_ns * 10);
  h.add(Histogram::longest_ns * 20);
  EXPECT_EQ(h.count(), 3U);
  EXPECT_EQ(h.max(), Histogram::longest_ns * 20);
  EXPECT_EQ(h.quantile(1), Histogram::longest_ns * 20);
  EXPECT_EQ(filled(h).size(), 2U);
  EXPECT_EQ(h.quantile(std::nan("")), h.min());
  EXPECT_EQ(h.quantile(-1), h.min());
  EXPECT_EQ(h.quantile(2), h.max());
}

TEST(Histogram, LiesInMemoryThatProcessesShare) {
  void* const pages = ::mmap(nullptr, 2 * sizeof(Histogram), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const both = static_cast<Histogram*>(pages);  // zeroed, and nobody made anything of it
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      for (std::int64_t v = 1; v <= 1'000; ++v) both[i].add(v * (i + 1));
      ::_exit(0);
    }
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  }
  Histogram sum;
  sum.merge(both[0]);
  sum.merge(both[1]);
  EXPECT_EQ(sum.count(), 2'000U);
  EXPECT_EQ(sum.min(), 1);
  EXPECT_EQ(sum.max(), 2'000);
  ::munmap(pages, 2 * sizeof(Histogram));
}

}  // namespace
}  // namespace shmcoord::bench
