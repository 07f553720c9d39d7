#pragma once

#include <pthread.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/layout.hpp"
#include "engine/real_policy.hpp"

// The one thread of a participant. It holds the life word, beats the heart, and watches its neighbour.
//
// Life word. The kernel walks a thread's robust list when the thread ends, however it ends, and sets FUTEX_OWNER_DIED
// in every word on it that holds the thread's id. The list's head and its one node are ours; futex_offset reaches from
// the node to the word in the segment, so no pointer stands in shared memory. Both live in a MAP_SHARED | MAP_ANONYMOUS
// page: private memory of an OOM victim may be gone before the list is walked. The node is linked *before* the word
// gets the thread id: if we die in between, the word is not ours yet and the kernel leaves it alone. Only the kernel
// ends a life word: stopping means that the thread exits with its node linked.
//
// Ring. The keeper of each slot watches the next occupied one, with one futex_waitv on its own `signal` and the other's
// life word. On a death it buries the session, and goes on with the next. So every death is noticed at once by
// somebody, without a daemon and without anybody waiting for a lock. Whoever starts to watch a slot bumps that slot's
// `signal`: a joiner waits for it, for a bounded time, since its predecessor may be stopped. Last resort: all look
// again each second. The rounds are keep() of session_slots.hpp; tests/model/ring.pml is their model.
//
// The thread has all signals blocked and owns no robust mutex of the C library (its list is replaced); callbacks must
// not either, and must not destroy the participant. In a forked child every call here does nothing. What if the process
// dies here: that is what this file is about.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

class Keeper {
 public:
  struct Options {
    bool manual_heartbeat = false;
    std::int64_t interval_ns = 15'000'000'000;
  };

  Keeper(std::shared_ptr<engine::Mapping> mapping, engine::SlotIndex slot, Options options);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// Starts the thread and returns once it holds the life word (false: the kernel refused; heartbeat and byte lock
  /// only).
  bool start();
  /// The slot is alive from here on: begin to watch and to beat.
  void go();
  /// Ends the thread with its node linked and waits for it: OWNER_DIED is set when this returns.
  void stop();
  /// In a forked child: forget the thread, touch nothing.
  void abandon() noexcept;

  /// Automatic mode: beat at least that often from now on (a third of a hold's ttl), until the same value is dropped.
  void need_interval(std::int64_t interval_ns);
  void drop_interval(std::int64_t interval_ns);

  /// Called in the keeper's thread whenever the slot is signalled and once a second: short, no blocking, no robust
  /// mutex. After remove_tick returned it does not run any more (unless called from inside the callback itself).
  std::uint64_t add_tick(std::function<void()> callback);
  void remove_tick(std::uint64_t id);

  /// Makes the keeper look around now.
  void poke() noexcept;
  /// The segment's file was removed or replaced under us.
  [[nodiscard]] bool segment_gone() const noexcept { return engine::RealPolicy::load(gone_) != 0; }
  /// Writes a heartbeat into the slot, minding the grace of everybody when all were stopped (lease.hpp).
  void beat(std::int64_t now_ns) noexcept;

 private:
  struct RobustPage;

  static void* thread_main(void* self) noexcept;
  void run() noexcept;
  bool hold_life_word() noexcept;
  void run_ticks() noexcept;
  void look_at_segment(std::int64_t now_ns) noexcept;
  std::int64_t current_interval() noexcept;
  engine::SessionSlot& slot() const noexcept;

  std::shared_ptr<engine::Mapping> mapping_;
  const engine::SlotIndex slot_;
  const Options options_;
  const std::uint64_t process_;
  RobustPage* page_ = nullptr;
  pthread_t thread_{};
  bool running_ = false;
  engine::Word32 phase_;  // futex of start() and go()
  engine::Word32 stopping_;
  engine::Word32 gone_;
  std::int64_t next_identity_ns_ = 0;
  std::mutex mutex_;
  std::vector<std::int64_t> intervals_;
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const std::function<void()>>>> ticks_;
  std::uint64_t next_tick_id_ = 1;
  std::uint64_t running_tick_ = 0;
  std::condition_variable tick_done_;
};

}  // namespace shmcoord::process
