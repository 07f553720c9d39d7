#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "shmcoord/holder_id.hpp"
#include "shmcoord/lock.hpp"
#include "shmcoord/semaphore.hpp"
#include "shmcoord/tasks/parking.hpp"

// Locks and semaphores between processes, for coroutines: waiting for one parks the coroutine and never its thread.
//
// Descriptors. A wait in the segment costs two descriptors (Lock::wait_fd, and Asio's duplicate), of which a process
// often has 1,024. So a waiter here stands in two queues. The first is in this process, FIFO, and costs no descriptor;
// only its first `waits` coroutines stand in the segment's queue at the same time. Ten thousand coroutines that wait
// for one semaphore have 32 descriptors open, not twenty thousand, and what they cost the segment and its other users
// is 16 waiters.
//
// What that means for FIFO. Between coroutines of one AsyncSemaphore: served in the order in which they asked. Between
// processes (and between two objects here of one name): in the order in which they came to the *segment's* queue. A
// process with ten thousand waiting coroutines so has at most `waits` places before whoever comes from another process
// now, instead of all ten thousand; nobody starves, as each place is served in its turn. Make `waits` at least as large
// as the permits that this process is to use at once: with fewer, freed permits wait for a coroutine to queue up.

namespace shmcoord::tasks {

struct AsyncOptions {
  int waits =
      16;  ///< coroutines of this object that stand in the segment's queue at once, each with two descriptors; >= 1
};

namespace detail {

template <class Primitive>
struct OutcomeOf;
template <>
struct OutcomeOf<Semaphore> {
  using Type = PermitOutcome;
};
template <>
struct OutcomeOf<Lock> {
  using Type = AcquireOutcome;
};

template <class Primitive>
struct SharedQueue;

template <class Primitive>
using Outcome = typename OutcomeOf<Primitive>::Type;

}  // namespace detail

/// RAII hold of a coroutine: the destructor gives back, however the coroutine ends; a hold that was lost is left alone.
/// Must not outlive the lock or semaphore. Move-only.
template <class Primitive>
class AsyncHold {
 public:
  AsyncHold(const AsyncHold&) = delete;
  AsyncHold& operator=(const AsyncHold&) = delete;
  AsyncHold(AsyncHold&& other) noexcept
      : of_(std::exchange(other.of_, nullptr)),
        holder_(std::move(other.holder_)),
        outcome_(std::move(other.outcome_)) {}
  AsyncHold& operator=(AsyncHold&& other) noexcept {
    if (this != &other) {
      release();
      of_ = std::exchange(other.of_, nullptr);
      holder_ = std::move(other.holder_);
      outcome_ = std::move(other.outcome_);
    }
    return *this;
  }
  ~AsyncHold() { release(); }

  /// Is there a hold to give back? False when it timed out or did not fit.
  [[nodiscard]] explicit operator bool() const noexcept { return of_ != nullptr; }
  [[nodiscard]] const detail::Outcome<Primitive>& outcome() const noexcept { return outcome_; }
  [[nodiscard]] const HolderId& holder() const noexcept { return holder_; }
  /// Before the destructor does.
  void release() noexcept {
    std::error_code lost_or_left;
    if (Primitive* const of = std::exchange(of_, nullptr)) (void)of->release(holder_, lost_or_left);
  }

 private:
  friend struct detail::SharedQueue<Primitive>;
  AsyncHold(Primitive& of, HolderId holder, detail::Outcome<Primitive> outcome)
      : of_(outcome ? &of : nullptr), holder_(std::move(holder)), outcome_(std::move(outcome)) {}

  Primitive* of_;
  HolderId holder_;
  detail::Outcome<Primitive> outcome_;
};

/// A shared semaphore, awaited. Make one for each semaphore and thread that runs coroutines, and share it among all of
/// them: it is their queue. A second one of that session and name must not be asked for the same holder, nor may that
/// holder's wait be ended by the semaphore itself meanwhile.
///
/// To be used by the thread that runs the executor's context, or within a strand, like all of this component. It must
/// be destroyed before the semaphore, the semaphore before the session. Destroying it fails what still waits, as
/// dropping a CooperativeSemaphore does.
///
/// A wait without a timeout that closes a circle of such waits ends with `deadlock`, as in Semaphore::acquire. One that
/// has no place in the segment's queue yet is not seen by those who look for circles: a reason not to make `waits`
/// small.
///
/// Cancelling the awaiting coroutine (S3-16) throws TaskCancelledError in it and ends the wait in the segment; a grant
/// that came in that very moment, also one that was announced and that the coroutine did not run to see, goes to the
/// next one. Errors are those of the semaphore, and in_use when the holder waits already or has fewer than it asks for.
///
/// If the process dies here: its waits leave the segment's queue and its permits go to the next ones, as ever.
class AsyncSemaphore {
 public:
  AsyncSemaphore(Semaphore& semaphore, const AsyncOptions& options = {});
  AsyncSemaphore(const AsyncSemaphore&) = delete;
  AsyncSemaphore& operator=(const AsyncSemaphore&) = delete;
  ~AsyncSemaphore();

  /// As Semaphore::acquire, parking: acquired, already_held, full (it could never fit), timed_out, deadlock. The
  /// timeout is of both queues together; 0 is one try, which overtakes nobody. Give it back with
  /// Semaphore::release(holder).
  [[nodiscard]] boost::asio::awaitable<PermitOutcome> async_acquire(
      const HolderId& holder, std::uint32_t weight = 1, const AcquireOptions& options = {},
      std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  /// With a guard, for a holder of its own (C-33): each call is another holder.
  [[nodiscard]] boost::asio::awaitable<AsyncHold<Semaphore>> async_permit(
      std::uint32_t weight = 1, const AcquireOptions& options = {},
      std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

  /// Coroutines that have no place in the segment's queue yet.
  [[nodiscard]] std::size_t queued() const noexcept;

 private:
  std::shared_ptr<detail::SharedQueue<Semaphore>> queue_;
};

/// A shared lock, awaited; all that is said of AsyncSemaphore holds.
class AsyncLock {
 public:
  AsyncLock(Lock& lock, const AsyncOptions& options = {});
  AsyncLock(const AsyncLock&) = delete;
  AsyncLock& operator=(const AsyncLock&) = delete;
  ~AsyncLock();

  /// As Lock::acquire, parking: acquired, extended, reclaimed, timed_out, deadlock, busy (only with a timeout of 0).
  [[nodiscard]] boost::asio::awaitable<AcquireOutcome> async_acquire(
      const HolderId& holder, const AcquireOptions& options = {},
      std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  /// With a guard, for a holder of its own.
  [[nodiscard]] boost::asio::awaitable<AsyncHold<Lock>> async_hold(
      const AcquireOptions& options = {}, std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

  /// Coroutines that have no place in the segment's queue yet.
  [[nodiscard]] std::size_t queued() const noexcept;

 private:
  std::shared_ptr<detail::SharedQueue<Lock>> queue_;
};

}  // namespace shmcoord::tasks
