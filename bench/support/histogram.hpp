#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Latencies, counted: a log-linear histogram of nanoseconds.
//
// Below 128 ns each value has a bucket of its own; above, each doubling is cut into 64 equal ones, so a bucket is at
// most 1/64 as wide as what is in it is long. That holds for whatever lies below 137 s; what took longer is counted in
// the last bucket, and only max() tells how long. The memory is fixed (16 KiB) and has no pointers, and zeroed bytes
// are an empty histogram: it can lie in memory that forked processes share, each with one of its own, to be merged.

namespace shmcoord::bench {

class Histogram {
 public:
  struct Bucket {
    std::int64_t low;   // the least value that falls into it
    std::int64_t high;  // the greatest
    std::uint64_t count;

    [[nodiscard]] constexpr std::int64_t middle() const { return low + (high - low) / 2; }
  };

  static constexpr unsigned parts_bits = 6;  // of each doubling
  static constexpr unsigned top_bits = 37;
  static constexpr std::int64_t longest_ns = (std::int64_t{1} << top_bits) - 1;
  static constexpr std::size_t bucket_count = std::size_t{top_bits - parts_bits + 1} << parts_bits;

  /// Less than nothing, which clocks of two CPUs may make of a short time, counts as 0.
  constexpr void add(std::int64_t ns, std::uint64_t times = 1) {
    if (times == 0) return;
    ns = std::max<std::int64_t>(ns, 0);
    min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
    max_ns_ = std::max(max_ns_, ns);
    count_ += times;
    counts_[index_of(ns)] += times;
  }

  constexpr void merge(const Histogram& other) {
    if (other.count_ == 0) return;
    min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
    max_ns_ = std::max(max_ns_, other.max_ns_);
    count_ += other.count_;
    for (std::size_t i = 0; i < bucket_count; ++i) counts_[i] += other.counts_[i];
  }

  [[nodiscard]] constexpr std::uint64_t count() const { return count_; }
  /// Exact; 0 when nothing was counted.
  [[nodiscard]] constexpr std::int64_t min() const { return min_ns_; }
  [[nodiscard]] constexpr std::int64_t max() const { return max_ns_; }

  /// The value that a share q of all does not exceed (nearest rank): at most 1/64 of it beside the true one, the ends
  /// exact. 0 when nothing was counted.
  [[nodiscard]] std::int64_t quantile(double q) const {
    if (count_ == 0) return 0;
    if (!(q > 0)) return min_ns_;
    if (q >= 1) return max_ns_;
    const double wanted = std::ceil(q * static_cast<double>(count_));
    const std::uint64_t rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, count_);
    if (rank == 1) return min_ns_;
    if (rank == count_) return max_ns_;
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < bucket_count; ++i) {
      seen += counts_[i];
      if (seen >= rank) return std::clamp(bucket(i).middle(), min_ns_, max_ns_);
    }
    return max_ns_;
  }

  /// Each bucket that has something, the shortest first.
  template <class Look>
  constexpr void for_each_filled(Look&& look) const {
    for (std::size_t i = 0; i < bucket_count; ++i) {
      if (counts_[i] != 0) look(bucket(i));
    }
  }

  [[nodiscard]] static constexpr std::size_t index_of(std::int64_t ns) {
    const auto value = static_cast<std::uint64_t>(std::clamp<std::int64_t>(ns, 0, longest_ns));
    const auto bits = static_cast<unsigned>(std::bit_width(value));
    if (bits <= parts_bits + 1) return value;
    // The highest bit names the doubling, the six behind it the part.
    const unsigned shift = bits - 1 - parts_bits;
    return (std::size_t{shift} << parts_bits) + (value >> shift);
  }

 private:
  [[nodiscard]] constexpr Bucket bucket(std::size_t index) const {
    if (index < (std::size_t{2} << parts_bits)) {
      return {static_cast<std::int64_t>(index), static_cast<std::int64_t>(index), counts_[index]};
    }
    const std::size_t shift = (index >> parts_bits) - 1;
    const std::uint64_t part = index - (shift << parts_bits);
    const auto low = static_cast<std::int64_t>(part << shift);
    return {low, low + (std::int64_t{1} << shift) - 1, counts_[index]};
  }

  std::uint64_t count_ = 0;
  std::int64_t min_ns_ = 0;
  std::int64_t max_ns_ = 0;
  std::array<std::uint64_t, bucket_count> counts_{};
};

static_assert(std::is_trivially_copyable_v<Histogram> && std::is_standard_layout_v<Histogram>);

}  // namespace shmcoord::bench
