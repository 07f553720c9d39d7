#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// What the exploration remembers: which tasks touch which word, and which states were seen.

namespace shmcoord::sim {

/// A good mixer (the finaliser of MurmurHash3).
constexpr std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 33U;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33U;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33U;
}
constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return mix(a * 0x9e3779b97f4a7c15ULL + b + 1);
}

/// A word matters to the order of things when two tasks touch it and one of them may change it. The table only learns;
/// what it learns in a run counts from the next run on, so that a run can be repeated.
class Sharing {
 public:
  /// Returns whether the word was known to be shared when the run began.
  bool touch(const void* word, unsigned task, bool writes) noexcept {
    Row& row = find(word);
    const auto bit = static_cast<std::uint16_t>(1U << task);
    const auto users = static_cast<std::uint16_t>(row.users | bit);
    const bool written = row.written || writes;
    if (users != row.users || written != row.written) {
      row.users = users;
      row.written = written;
      if (row.known_after == never && written && !std::has_single_bit(users)) {
        row.known_after = run_;
        grown_ = true;
      }
    }
    return row.known_after < run_;
  }

  /// Ends a run. Did it show that one more word is shared?
  bool next_run() noexcept {
    ++run_;
    return std::exchange(grown_, false);
  }

 private:
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  struct Row {
    const void* word = nullptr;
    std::uint64_t known_after = never;
    std::uint16_t users = 0;
    bool written = false;
  };

  Row& find(const void* word) noexcept {
    for (;;) {
      std::size_t at = mix(reinterpret_cast<std::uintptr_t>(word)) & (rows_.size() - 1);
      while (rows_[at].word != word && rows_[at].word != nullptr) at = (at + 1) & (rows_.size() - 1);
      if (rows_[at].word == word) return rows_[at];
      if (2 * (count_ + 1) <= rows_.size()) {
        ++count_;
        rows_[at].word = word;
        return rows_[at];
      }
      std::vector<Row> old(rows_.size() * 2);
      old.swap(rows_);
      for (const Row& row : old) {
        if (row.word == nullptr) continue;
        std::size_t to = mix(reinterpret_cast<std::uintptr_t>(row.word)) & (rows_.size() - 1);
        while (rows_[to].word != nullptr) to = (to + 1) & (rows_.size() - 1);
        rows_[to] = row;
      }
    }
  }

  std::vector<Row> rows_ = std::vector<Row>(1024);
  std::size_t count_ = 0;
  std::uint64_t run_ = 1;
  bool grown_ = false;
};

/// States already explored, each with the number of preemptions that were left there. 60 bits of hash, 4 of budget.
class Seen {
 public:
  /// False: it was explored with at least this budget. True: it is new, or worth another visit.
  bool visit(std::uint64_t state, unsigned budget) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    const std::uint64_t key = state | budget_mask;
    const std::uint64_t left = budget < budget_mask ? budget : budget_mask - 1;
    std::uint64_t& slot = find(slots_, key);
    if (slot == 0) {
      ++count_;
    } else if ((slot & budget_mask) > left) {  // stored plus one, so that a used slot is never 0
      return false;
    }
    slot = (key & ~budget_mask) | (left + 1);
    return true;
  }
  void clear() {
    slots_.assign(initial_slots, 0);
    count_ = 0;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  static constexpr std::uint64_t budget_mask = 15;
  static constexpr std::size_t initial_slots = std::size_t{1} << 12U;

  static std::uint64_t& find(std::vector<std::uint64_t>& slots, std::uint64_t key) noexcept {
    std::size_t at = (key >> 4U) & (slots.size() - 1);
    while (slots[at] != 0 && (slots[at] | budget_mask) != key) at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }
  void grow() {
    std::vector<std::uint64_t> bigger(slots_.size() * 2);
    for (const std::uint64_t slot : slots_) {
      if (slot != 0) find(bigger, slot | budget_mask) = slot;
    }
    slots_.swap(bigger);
  }

  std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(initial_slots);
  std::size_t count_ = 0;
};

}  // namespace shmcoord::sim
