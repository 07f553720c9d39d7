#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/real_policy.hpp"
#include "process/clock.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"

// What each of two processes does that hand something to and fro. How they became processes, and where the times are
// kept, is their caller's: `Ends` has
//   side()                 0 or 1
//   received()             called after having it
//   about_to_give(parked)  called right before giving, when the other one waits; parked: it sleeps, or is about to
//   about_to_wait()        called before waiting, where a waiter cannot be seen
//   await_waiter()         returns when the other side has called that
// The time of a hand-off is from about_to_give() here to received() there.

namespace shmcoord::bench {

/// Long enough for the other side to get from its decision to wait into the kernel or, if it spins, into its loop: what
/// joining a queue costs is no part of a hand-off.
inline void let_it_wait(bool parked) {
  const std::int64_t until = engine::RealPolicy::now_ns() + (parked ? 20'000 : 2'000);
  while (engine::RealPolicy::now_ns() < until) engine::RealPolicy::pause();
}

/// n turns with a lock of the segment. False: it was not got.
template <class Ends>
[[nodiscard]] bool lock_side(Ends& ends, const std::shared_ptr<engine::Mapping>& mapping, int n, bool parked) {
  using engine::RealPolicy;
  const auto participant =
      std::shared_ptr<process::Participant>(process::Participant::join(mapping, process::JoinOptions{}));
  process::PrimitiveClient client(participant, "handoff", {});
  process::Hold& hold = client.new_implicit();
  const auto other_waits = [&] {
    const engine::EntryIndex tail = client.ops().load().tail;
    if (tail == engine::nil_entry) return false;
    return !parked || RealPolicy::load(client.ops().view().entry(tail).wake) == engine::wake_parked;
  };
  for (int i = 0; i < n; ++i) {
    hold.spin.pauses = parked ? 0 : 1'000'000;
    if (!client.acquire_implicit(hold, process::whole_lock, process::no_deadline)) return false;
    ends.received();
    if (i + 1 < n) {
      while (!other_waits()) ::sched_yield();
      ends.about_to_give(parked);
    }
    client.unlock_implicit(hold);
  }
  return true;
}

/// n turns with a bell: something that one side rings and the other one waits for. Side 0 gives first.
template <class Ends, class Bell>
void bell_side(Ends& ends, int n, bool parked, const Bell& bell) {
  for (int i = 0; i < n; ++i) {
    if (ends.side() == 1 || i > 0) {
      ends.about_to_wait();
      bell.wait(ends.side());
      ends.received();
    }
    if (ends.side() == 1 && i + 1 == n) return;  // nobody waits any more
    ends.await_waiter();
    ends.about_to_give(parked);
    bell.ring(ends.side());
  }
}

/// The physical limit: a word that two processes pass to and fro, in memory that they share.
struct BareWords {
  engine::Word32 turn;
  alignas(64) engine::Word32 other;  // that nobody changes
};

/// words = 1: futex; 2: futex_waitv; 0: spinning.
class BareBell {
 public:
  BareBell(BareWords& words, std::size_t wait_on) : words_(words), wait_on_(wait_on) {}

  void wait(std::uint32_t side) const {
    using engine::RealPolicy;
    for (std::uint32_t turn = RealPolicy::load(words_.turn); turn != side; turn = RealPolicy::load(words_.turn)) {
      if (wait_on_ == 0) {
        RealPolicy::pause();
        continue;
      }
      const engine::WaitOn on[] = {{&words_.turn, turn}, {&words_.other, 0}};
      RealPolicy::wait({on, wait_on_}, RealPolicy::now_ns() + 1'000'000'000);
    }
  }
  void ring(std::uint32_t side) const {
    engine::RealPolicy::store(words_.turn, 1 - side);
    if (wait_on_ != 0) engine::RealPolicy::wake(words_.turn, 1);
  }

 private:
  BareWords& words_;
  std::size_t wait_on_;
};

}  // namespace shmcoord::bench
