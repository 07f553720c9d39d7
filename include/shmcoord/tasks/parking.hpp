#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>

// The one way in which a task waits, whatever for (S3-3, S3-4). Asio's timer is the parking place: it never expires
// unless there is a deadline, waking cancels it, and Asio then resumes tasks in the order in which they were woken. So
// there is no queue of ready tasks here, and no event loop.

namespace shmcoord::tasks {

/// What a cancelled task receives where it is parked (S3-16), and what waiting for it answers. To Asio, and to code
/// that knows only Asio, it is an aborted operation. A task that was cancelled gets an aborted operation from whatever
/// else it awaits, as every coroutine of Asio does: clean up with destructors, which await nothing.
class TaskCancelledError : public boost::system::system_error {
 public:
  TaskCancelledError();
};

namespace detail {

enum class Woken : std::uint8_t { by_wake, by_deadline, by_cancel };

/// A task's wait, a local of its coroutine. The destructor must run in the scheduler's thread, like all else here.
class Parked {
 public:
  /// Without a timeout: no deadline.
  explicit Parked(const boost::asio::any_io_executor& executor,
                  std::optional<std::chrono::nanoseconds> timeout = std::nullopt);
  Parked(const Parked&) = delete;
  Parked& operator=(const Parked&) = delete;
  ~Parked() = default;

  /// Until wake(), which may have come before; the deadline; or the task's cancellation. Where several came before the
  /// task ran: a cancellation hides a wake, and a wake hides the deadline.
  [[nodiscard]] boost::asio::awaitable<Woken> park();
  /// The task runs when all that were woken before it have run. Idempotent.
  void wake();

 private:
  boost::asio::steady_timer timer_;
  bool woken_ = false;
};

}  // namespace detail
}  // namespace shmcoord::tasks
