#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <string>

#include "bench/support/histogram.hpp"
#include "engine/real_policy.hpp"
#include "shmcoord/error.hpp"

// What the processes of a `bench` share: the figures, and why one of them failed.

namespace shmcoord::tool {

/// A zeroed T that forked children share.
template <class T>
class ForChildren {
 public:
  ForChildren() {
    void* const p =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    at_ = static_cast<T*>(p);
  }
  ~ForChildren() { ::munmap(at_, sizeof(T)); }
  ForChildren(const ForChildren&) = delete;
  ForChildren& operator=(const ForChildren&) = delete;
  T& operator*() const { return *at_; }
  T* operator->() const { return at_; }

 private:
  T* at_;
};

/// Of one comparison. Written by the process that measures, read when that has ended.
struct BenchBoard {
  static constexpr std::size_t most_rounds = 10'000;
  static constexpr std::size_t most_subjects = 6;

  struct Subject {
    bench::Histogram samples;
    std::array<double, most_rounds> ns;
  };
  std::size_t rounds;
  std::array<Subject, most_subjects> subjects;

  // The first one that fails says why.
  engine::Word32 failing;
  engine::Word32 failed;
  int errc;  // -1: an error without one
  std::array<char, 1024> text;

  void fail(const std::exception& why) noexcept;
  /// Throws what a process said, if one did; `where` goes before it.
  void rethrow(const std::string& where) const;
};

/// Forks; the child ends when `body` returns, or with its parent, or with 1 after it told the board why.
pid_t start_child(BenchBoard& board, const std::function<void()>& body);

}  // namespace shmcoord::tool
