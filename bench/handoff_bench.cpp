#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <string>

#include "bench/support/hand_off.hpp"
#include "bench/support/peers.hpp"
#include "bench/support/sides.hpp"
#include "engine/journal.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/guard_flag.hpp"

// From one process to another one that waits: asleep in the kernel, or spinning.

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::Word32;

Round lock_hand_offs(const Placement& p, int n, bool parked) {
  return measure_hand_offs(p, 2 * n, [&](HandOffs& h) {
    if (!lock_side(h, detail::Access::mapping(segment()), n, parked)) fail("the lock was not got");
  });
}

/// words = 1: futex; 2: futex_waitv; 0: spinning.
Round bare_hand_offs(const Placement& p, int n, std::size_t words) {
  SharedArray<BareWords> memory(1);
  const BareBell bell(memory[0], words);
  return ping_pong(p, n, words != 0,
                   {[&](std::uint32_t side) { bell.wait(side); }, [&](std::uint32_t side) { bell.ring(side); }});
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

std::string gate(std::uint32_t side) { return "gate-" + std::to_string(side); }
std::string guard(std::uint32_t side) { return "guard-" + std::to_string(side); }

/// Each side holds its gate, and the other one's guard waits until it is free.
Round guard_hand_offs(const Placement& p, int n) {
  {
    Session session{segment()};
    for (const std::uint32_t side : {0U, 1U})
      (void)GuardFlag::add(session, {guard(side), GuardCondition::lock_free(gate(side))});
  }
  SharedArray<Word32> counts(2);
  Word32& held = counts[0];
  Word32& passed = counts[1];
  return measure_hand_offs(p, 2 * n, [&](HandOffs& h) {
    Session session{segment()};
    Lock mine{session, gate(h.side())};
    GuardFlag theirs{session, guard(1 - h.side())};
    const GuardExecutor executor{{.primitives = primitives_of(segment())}};
    const Word32& parked = detail::Access::mapping(segment())->view().header().journal_parked;
    mine.lock();
    RealPolicy::add(held, 1);
    while (RealPolicy::load(held) < 2) ::sched_yield();
    std::uint32_t given = 0;  // how many have passed when this side's gate was seen open
    for (int i = 0; i < n; ++i) {
      if (h.side() == 1 || i > 0) {
        if (i > 0) {
          // A guard waits for a state: it does not see that a lock was free for a moment.
          while (RealPolicy::load(passed) < given) ::sched_yield();
          mine.lock();
        }
        h.about_to_wait();
        if (!may_proceed(theirs.wait(executor))) fail("the guard did not pass");
        h.received();
        RealPolicy::add(passed, 1);
      }
      if (h.side() == 1 && i + 1 == n) break;
      h.await_waiter();
      given = RealPolicy::load(passed) + 1;
      while ((RealPolicy::load(parked) & engine::detail::reader_parked) == 0) ::sched_yield();
      h.about_to_give(true);
      mine.unlock();
    }
  });
}

void guard_case() {
  for (const Placement& p : placements()) {
    const int n = hand_offs(p, 500);
    Comparison c("a guard that waits for a lock passes, " + to_string(p), "ns", p.rested ? 9 : 21);
    c.ours([=] { return guard_hand_offs(p, n); });
    c.peer("hand-off of that lock to a sleeping waiter", p.pinned || p.rested ? 0 : 2,
           [=] { return lock_hand_offs(p, n, true); });
    c.run();
  }
}
const Register guard_is_a_case{"guard", "release of a lock to a guard that waits for it, beside a hand-off",
                               guard_case};

}  // namespace
}  // namespace shmcoord::bench
