#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include <boost/asio/awaitable.hpp>

namespace shmcoord::tasks {

class CooperativePermit;
namespace detail {
template <class Primitive>
struct SharedQueue;
}

/// A counting semaphore for the tasks of one scheduler: S3 as it is written. With one permit it is a mutex, with n a
/// pool (S3-2, S3-8). A task that finds no permit is parked and resumed by Asio; its thread goes on with other tasks
/// (S3-3).
///
/// FIFO: tasks get permits in the order in which they asked (S3-5, S3-15). A release with tasks waiting hands the
/// permit to the first of them: available() stays 0, so nobody can take it before that task runs (S3-14).
///
/// It does not know who has its permits. A task that fails, or is cancelled, without release() has leaked one for good
/// (S3-19, C-33): use acquire_permit(), whose destructor releases (S3-20). Between processes, and where permits must
/// come back from the dead, use AsyncSemaphore.
///
/// A handle, made by Scheduler::create_semaphore() only (S3-9): copies are cheap and mean the same one. With its last
/// handle the state goes (S3-21). A parked task is not a handle: if it is still parked then, nobody could ever wake it,
/// so it receives std::runtime_error "semaphore dropped while waited for". One that was handed its permit before that
/// has it.
///
/// For the scheduler's one thread. Nothing of it is shared: if the process dies, it is gone.
class CooperativeSemaphore {
 public:
  /// Unique among those of its scheduler, from 1 on (S3-9).
  [[nodiscard]] std::int64_t id() const noexcept;

  /// Takes a permit; parks while there is none (S3-11, S3-12). Throws TaskCancelledError, having taken nothing (S3-16):
  /// a permit that was handed to the task before it could run goes to the next one. Throws std::length_error if a
  /// million tasks wait already.
  [[nodiscard]] boost::asio::awaitable<void> acquire() const;
  /// Within `timeout`; false: too late, and nothing was taken (S3-25, C-36). 0 or less is one try.
  [[nodiscard]] boost::asio::awaitable<bool> acquire_for(std::chrono::nanoseconds timeout) const;
  /// At once or not at all; does not overtake tasks that wait (C-36).
  [[nodiscard]] bool try_acquire() const;
  /// Gives one back, of whichever task (S3-13). Does not suspend: the first task that waits runs afterwards. Throws
  /// std::runtime_error "semaphore released too many times" when all are free (S3-17, C-34).
  void release() const;

  /// acquire() and acquire_for() with a guard.
  [[nodiscard]] boost::asio::awaitable<CooperativePermit> acquire_permit() const;
  [[nodiscard]] boost::asio::awaitable<std::optional<CooperativePermit>> acquire_permit_for(
      std::chrono::nanoseconds timeout) const;

  [[nodiscard]] int permits() const noexcept;          ///< that there are, free or not
  [[nodiscard]] int available() const noexcept;        ///< free; 0 while anybody waits
  [[nodiscard]] std::size_t waiting() const noexcept;  ///< tasks that are parked for one

 private:
  friend class Scheduler;
  friend class CooperativePermit;
  template <class Primitive>
  friend struct detail::SharedQueue;
  struct State;
  explicit CooperativeSemaphore(std::shared_ptr<State> state) noexcept;
  static CooperativeSemaphore create(std::int64_t id, int permits);
  static boost::asio::awaitable<bool> take(std::weak_ptr<State> semaphore,
                                           std::optional<std::chrono::nanoseconds> timeout);
  static boost::asio::awaitable<std::optional<CooperativePermit>> take_permit(
      std::weak_ptr<State> semaphore, std::optional<std::chrono::nanoseconds> timeout);

  std::shared_ptr<State> state_;
};

/// A permit that goes back in the destructor, however its task ends: the recommended use (S3-20). Move-only. It is a
/// handle of its semaphore.
class CooperativePermit {
 public:
  CooperativePermit(const CooperativePermit&) = delete;
  CooperativePermit& operator=(const CooperativePermit&) = delete;
  CooperativePermit(CooperativePermit&& other) noexcept = default;
  CooperativePermit& operator=(CooperativePermit&& other) noexcept;
  ~CooperativePermit();

  /// Before the destructor does.
  void release() noexcept;

 private:
  friend class CooperativeSemaphore;
  explicit CooperativePermit(std::shared_ptr<CooperativeSemaphore::State> of) noexcept;
  std::shared_ptr<CooperativeSemaphore::State> of_;
};

}  // namespace shmcoord::tasks
