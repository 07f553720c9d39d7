#include "shmcoord/tasks/parking.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

// The timer's own error cannot tell a wake from a cancellation, and either may come when the wait is over but the task
// did not run yet. So what happened is read from our flag and from the task's cancellation state.

namespace shmcoord::tasks {

TaskCancelledError::TaskCancelledError()
    : boost::system::system_error(boost::asio::error::operation_aborted, "the task was cancelled") {}

namespace detail {

namespace asio = boost::asio;

Parked::Parked(const asio::any_io_executor& executor, std::optional<std::chrono::nanoseconds> timeout)
    : timer_(executor) {
  if (timeout) {
    timer_.expires_after(*timeout);
  } else {
    timer_.expires_at(asio::steady_timer::time_point::max());
  }
}

asio::awaitable<Woken> Parked::park() {
  if (!woken_) {
    boost::system::error_code aborted;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, aborted));
  }
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  if (cancellation.cancelled() != asio::cancellation_type::none) co_return Woken::by_cancel;
  co_return woken_ ? Woken::by_wake : Woken::by_deadline;
}

void Parked::wake() {
  if (woken_) return;
  woken_ = true;
  timer_.cancel();
}

}  // namespace detail
}  // namespace shmcoord::tasks
