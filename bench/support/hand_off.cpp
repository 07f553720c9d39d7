#include "bench/support/hand_off.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "bench/support/options.hpp"
#include "bench/support/sides.hpp"

namespace shmcoord::bench {

using engine::RealPolicy;
using engine::Word32;

std::string to_string(const Placement& p) {
  return std::string(p.pinned ? "pinned" : "unpinned") + (p.rested ? ", after 10 ms" : ", warm");
}

std::vector<Placement> placements() {
  if (allowed_cpus() < 2) {
    std::printf("pinned: not measured, for there is one CPU only\n");
    return {{false, false}, {false, true}};
  }
  return {{false, false}, {true, false}, {false, true}, {true, true}};
}

int hand_offs(const Placement& p, int warm) {
  // Beside others who want the CPUs each waits several times for its turn.
  if (options().short_form) return p.rested ? 2 : 20;
  return p.rested ? 25 : warm;
}

void HandOffs::about_to_give(bool parked) {
  if (placement_.rested) {
    const timespec rest{rest_ns / 1'000'000'000, rest_ns % 1'000'000'000};
    ::nanosleep(&rest, nullptr);
  } else {
    let_it_wait(parked);
  }
  *given_ns_ = now_ns();
}

void HandOffs::await_waiter() {
  while (RealPolicy::load(*waits_) == 0) ::sched_yield();
  RealPolicy::store(*waits_, 0);
}

Round measure_hand_offs(const Placement& p, int most, const std::function<void(HandOffs&)>& run) {
  struct Both {
    Word32 ready;
    alignas(64) Word32 waits;
    alignas(64) std::int64_t given_ns;
    std::uint32_t count;
  };
  SharedArray<Both> both(1);
  Both& b = both[0];
  SharedArray<double> took_ns(static_cast<std::size_t>(most));
  std::array<pid_t, 2> pids{};
  for (std::uint32_t side = 0; side < 2; ++side) {
    pids[side] = child([&, side] {
      if (p.pinned && !pin_to(side)) fail("a process cannot be pinned to a CPU");
      HandOffs h(p, side, &b.given_ns, &took_ns, &b.count, &b.waits);
      RealPolicy::add(b.ready, 1);
      while (RealPolicy::load(b.ready) < 2) ::sched_yield();
      run(h);
    });
  }
  join_all(pids);
  if (b.count == 0) fail("no hand-off was seen");
  return Round::of({took_ns.begin(), took_ns.begin() + b.count});
}

Round ping_pong(const Placement& p, int n, bool parked, const Bell& bell) {
  return measure_hand_offs(p, 2 * n, [&](HandOffs& h) { bell_side(h, n, parked, bell); });
}

}  // namespace shmcoord::bench
