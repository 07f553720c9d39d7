#pragma once

// A vector of at most N values that lives where it is declared.
//
// The pure machines return a handful of events by value, inside constant expressions, and must not allocate; a
// std::vector can do neither. N is chosen as a proven upper bound, so a push beyond it is a fault of the caller: it
// stops a constant expression from compiling, asserts in a debug build, and in a release build drops the value rather
// than write outside of the array.
//
// Unused slots hold default-constructed values and take no part in comparison.

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace shmcoord::base {

template <class T, std::size_t N>
class FixedVector {
 public:
  using value_type = T;
  using const_iterator = const T*;

  constexpr void push_back(T value) noexcept(std::is_nothrow_move_assignable_v<T>) {
    assert(size_ < N && "FixedVector is full");
    if (size_ < N) values_[size_++] = std::move(value);
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] static constexpr std::size_t capacity() noexcept { return N; }

  [[nodiscard]] constexpr const T& operator[](std::size_t index) const noexcept {
    assert(index < size_ && "FixedVector index out of range");
    return values_[index];
  }

  [[nodiscard]] constexpr const_iterator begin() const noexcept { return values_.data(); }
  [[nodiscard]] constexpr const_iterator end() const noexcept { return values_.data() + size_; }

  friend constexpr bool operator==(const FixedVector& left, const FixedVector& right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end());
  }

 private:
  std::array<T, N> values_{};
  std::size_t size_ = 0;
};

}  // namespace shmcoord::base
