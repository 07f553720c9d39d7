#include "shmcoord/tasks/scheduler.hpp"

#include <iostream>
#include <stdexcept>

#include <boost/asio/error.hpp>
#include <boost/asio/this_coro.hpp>

namespace shmcoord::tasks {

namespace asio = boost::asio;

// --- results ---------------------------------------------------------------------------------------------------------

namespace detail {

/// One task's place among those that a completion wakes, for as long as it is parked.
class Completion::Listening {
 public:
  Listening(std::shared_ptr<Completion> to, Parked& parked)
      : to_(std::move(to)), at_(to_->waiting_.insert(to_->waiting_.end(), &parked)) {}
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  ~Listening() { to_->waiting_.erase(at_); }

 private:
  std::shared_ptr<Completion> to_;
  std::list<Parked*>::iterator at_;
};

void Completion::require_success() const {
  if (!done_) throw std::logic_error("there is no result yet: wait() for it");
  if (error_) std::rethrow_exception(error_);
}

bool Completion::fail(std::exception_ptr error) {
  if (done_) return false;
  error_ = std::move(error);
  return finish();
}

bool Completion::finish() {
  done_ = true;
  for (Parked* const parked : waiting_) parked->wake();
  return true;
}

asio::awaitable<std::size_t> Completion::first_done(std::vector<std::shared_ptr<Completion>> all) {
  const auto first = [&all] {
    std::size_t n = 0;
    while (n < all.size() && !all[n]->done()) ++n;
    return n;
  };
  if (all.empty()) throw std::invalid_argument("nothing to wait for");
  if (first() == all.size()) {
    Parked parked(co_await asio::this_coro::executor);
    std::list<Listening> listening;
    for (const auto& one : all) listening.emplace_back(one, parked);
    if (co_await parked.park() == Woken::by_cancel) throw TaskCancelledError();
  }
  co_return first();
}

}  // namespace detail

// --- the scheduler ---------------------------------------------------------------------------------------------------

Scheduler::Scheduler(asio::any_io_executor executor, Log log)
    : executor_(std::move(executor)),
      log_(log ? std::move(log) : [](std::string_view line) { std::clog << line << '\n'; }) {}

asio::awaitable<void> Scheduler::delay(std::chrono::nanoseconds duration) {
  detail::Parked parked(co_await asio::this_coro::executor, duration);
  if (co_await parked.park() == detail::Woken::by_cancel) throw TaskCancelledError();
}

CooperativeSemaphore Scheduler::create_semaphore(int permits) {
  CooperativeSemaphore made = CooperativeSemaphore::create(next_id_, permits);
  ++next_id_;
  return made;
}

std::exception_ptr Scheduler::as_cancelled(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const TaskCancelledError&) {
    return error;
  } catch (const boost::system::system_error& e) {
    if (e.code() == asio::error::operation_aborted) return std::make_exception_ptr(TaskCancelledError());
    return error;
  } catch (...) {
    return error;
  }
}

}  // namespace shmcoord::tasks
