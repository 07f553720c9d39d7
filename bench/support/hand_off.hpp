#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/support/comparison.hpp"
#include "bench/support/processes.hpp"

// Latency between two processes: from the moment before one gives to the moment after the other has.
//
// CLOCK_MONOTONIC is one clock for all CPUs. Pinned, each side has a CPU of its own; unpinned, the kernel puts them
// where it likes, also both on one. After a rest, the giver slept 10 ms while the other waited: caches are cold and
// idle CPUs deep asleep, which is how most waiters in the world are woken.

namespace shmcoord::bench {

struct Placement {
  bool pinned = false;
  bool rested = false;
};
inline constexpr std::int64_t rest_ns = 10'000'000;

std::string to_string(const Placement& p);
/// All four; without the pinned ones where there are not two CPUs, and says so.
std::vector<Placement> placements();
/// So many hand-offs that a round does not take for ever.
int hand_offs(const Placement& p, int warm);

/// What both ends write down. Only one of them has it at a time, which is what is measured; so nothing here is atomic,
/// save what says that the other one waits.
class HandOffs {
 public:
  HandOffs(const Placement& p, std::uint32_t side, std::int64_t* given_ns, SharedArray<double>* took_ns,
           std::uint32_t* count, engine::Word32* waits)
      : placement_(p), side_(side), given_ns_(given_ns), took_ns_(took_ns), count_(count), waits_(waits) {}

  [[nodiscard]] std::uint32_t side() const { return side_; }
  /// After having it.
  void received() {
    if (*given_ns_ != 0 && *count_ < took_ns_->size())
      (*took_ns_)[(*count_)++] = static_cast<double>(now_ns() - *given_ns_);
    *given_ns_ = 0;
  }
  /// Right before giving, when the other one waits. `parked`: it sleeps, or is about to.
  void about_to_give(bool parked);
  /// For those whose waiters cannot be seen: the waiter says that it is about to, the giver waits for that.
  void about_to_wait() { engine::RealPolicy::store(*waits_, 1); }
  void await_waiter();

 private:
  Placement placement_;
  std::uint32_t side_;
  std::int64_t* given_ns_;
  SharedArray<double>* took_ns_;
  std::uint32_t* count_;
  engine::Word32* waits_;
};

/// Runs both sides, each in a process of its own; at most so many hand-offs.
Round measure_hand_offs(const Placement& p, int most, const std::function<void(HandOffs&)>& run);

/// n turns of each side with something that one side gives and the other waits for.
struct Bell {
  std::function<void(std::uint32_t side)> wait;
  std::function<void(std::uint32_t side)> ring;  // for the other side
};
Round ping_pong(const Placement& p, int n, bool parked, const Bell& bell);

}  // namespace shmcoord::bench
