#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>

#include "bench/support/hand_off.hpp"
#include "bench/support/peers.hpp"
#include "process/clock.hpp"

// From one process to another one that waits: asleep in the kernel, or spinning.

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::WaitOn;
using engine::Word32;

Round lock_hand_offs(const Placement& p, int n, bool parked) {
  return measure_hand_offs(p, 2 * n, [&](HandOffs& h) {
    const auto participant = std::shared_ptr<process::Participant>(
        process::Participant::join(detail::Access::mapping(segment()), process::JoinOptions{}));
    process::PrimitiveClient client(participant, "handoff", {});
    process::Hold& hold = client.new_implicit();
    const auto other_waits = [&] {
      const engine::EntryIndex tail = client.ops().load().tail;
      if (tail == engine::nil_entry) return false;
      return !parked || RealPolicy::load(client.ops().view().entry(tail).wake) == engine::wake_parked;
    };
    for (int i = 0; i < n; ++i) {
      hold.spin.pauses = parked ? 0 : 1'000'000;
      if (!client.acquire_implicit(hold, process::whole_lock, process::no_deadline)) fail("the lock was not got");
      h.received();
      if (i + 1 < n) {
        while (!other_waits()) ::sched_yield();
        h.about_to_give(parked);
      }
      client.unlock_implicit(hold);
    }
  });
}

/// A word that two processes pass to and fro. words = 1: futex; 2: futex_waitv; 0: spinning.
Round bare_hand_offs(const Placement& p, int n, std::size_t words) {
  struct Words {
    Word32 turn;
    alignas(64) Word32 other;
  };
  SharedArray<Words> memory(1);
  Words& w = memory[0];
  const auto wait = [&](std::uint32_t side) {
    for (std::uint32_t turn = RealPolicy::load(w.turn); turn != side; turn = RealPolicy::load(w.turn)) {
      if (words == 0) {
        RealPolicy::pause();
        continue;
      }
      const WaitOn on[] = {{&w.turn, turn}, {&w.other, 0}};
      RealPolicy::wait({on, words}, now_ns() + 1'000'000'000);
    }
  };
  const auto ring = [&](std::uint32_t side) {
    RealPolicy::store(w.turn, 1 - side);
    if (words != 0) RealPolicy::wake(w.turn, 1);
  };
  return ping_pong(p, n, words != 0, {wait, ring});
}

Round semaphore_hand_offs(const Placement& p, int n) {
  SharedArray<sem_t> semaphores(2);
  for (sem_t& s : semaphores) ::sem_init(&s, 1, 0);
  const auto wait = [&](std::uint32_t side) {
    while (::sem_wait(&semaphores[side]) != 0) {
    }
  };
  return ping_pong(p, n, true, {wait, [&](std::uint32_t side) { ::sem_post(&semaphores[1 - side]); }});
}

Round eventfd_hand_offs(const Placement& p, int n) {
  const std::array<int, 2> fds{::eventfd(0, EFD_CLOEXEC), ::eventfd(0, EFD_CLOEXEC)};
  const auto wait = [&](std::uint32_t side) {
    std::uint64_t value = 0;
    if (::read(fds[side], &value, sizeof value) != sizeof value) fail("reading an eventfd failed");
  };
  const auto ring = [&](std::uint32_t side) {
    const std::uint64_t one = 1;
    if (::write(fds[1 - side], &one, sizeof one) != sizeof one) fail("writing an eventfd failed");
  };
  Round r = ping_pong(p, n, true, {wait, ring});
  for (const int fd : fds) ::close(fd);
  return r;
}

/// The one that came first is let go by the one that comes last. Who is first takes turns.
Round barrier_hand_offs(const Placement& p, int n) {
  SharedArray<pthread_barrier_t> memory(1);
  pthread_barrierattr_t a;
  ::pthread_barrierattr_init(&a);
  ::pthread_barrierattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  ::pthread_barrier_init(&memory[0], &a, 2);
  return measure_hand_offs(p, 2 * n, [&](HandOffs& h) {
    for (int i = 0; i < 2 * n; ++i) {
      const bool first = static_cast<std::uint32_t>(i) % 2 == h.side();
      if (first) {
        h.about_to_wait();
      } else {
        h.await_waiter();
        h.about_to_give(true);
      }
      ::pthread_barrier_wait(&memory[0]);
      if (first) h.received();
    }
  });
}

void parked_case() {
  for (const Placement& p : placements()) {
    const int n = hand_offs(p, 2'000);
    const bool judged = !p.pinned && !p.rested;
    Comparison c("hand-off to a sleeping waiter, " + to_string(p), "ns", p.rested ? 9 : 21);
    c.ours([=] { return lock_hand_offs(p, n, true); });
    c.peer("bare futex", judged ? 1.4 : 0, [=] { return bare_hand_offs(p, n, 1); });
    c.peer("bare futex_waitv of two", judged ? 1.1 : 0, [=] { return bare_hand_offs(p, n, 2); });
    c.peer("sem_t", 0, [=] { return semaphore_hand_offs(p, n); });
    c.peer("eventfd", 0, [=] { return eventfd_hand_offs(p, n); });
    c.peer("pthread_barrier of two", 0, [=] { return barrier_hand_offs(p, n); });
    c.run();
  }
}
const Register parked_is_a_case{"parked", "hand-off to a waiter that sleeps", parked_case};

void spinning_case() {
  for (const Placement& p : placements()) {
    const int n = hand_offs(p, 10'000);
    Comparison c("hand-off to a spinning waiter, " + to_string(p), "ns", p.rested ? 9 : 21);
    c.ours([=] { return lock_hand_offs(p, n, false); });
    c.peer("bare atomic, half a round trip", p.rested ? 0 : 2.5, [=] { return bare_hand_offs(p, n, 0); });
    c.run();
  }
}
const Register spinning_is_a_case{"spinning", "hand-off to a waiter that spins", spinning_case};

}  // namespace
}  // namespace shmcoord::bench
