#pragma once

#include <cstddef>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>

#include "shmcoord/tasks/parking.hpp"

// Results that tasks wait for: of other tasks, and those that somebody promised.

namespace shmcoord::tasks {

namespace detail {

/// Whether there is a result yet, and who waits for it.
class Completion {
 public:
  Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;

  [[nodiscard]] bool done() const noexcept { return done_; }
  /// Throws what it failed with, and std::logic_error if there is no result yet.
  void require_success() const;
  /// False: there was one already, which stays.
  bool fail(std::exception_ptr error);

  /// Parks the task until one of them is done; the place of the first that is.
  [[nodiscard]] static boost::asio::awaitable<std::size_t> first_done(std::vector<std::shared_ptr<Completion>> all);

 protected:
  ~Completion() = default;
  bool finish();

 private:
  class Listening;
  bool done_ = false;
  std::exception_ptr error_;
  std::list<Parked*> waiting_;
};

template <class T>
struct Result : Completion {
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
  std::optional<Value> value;

  bool set(Value v) {
    if (done()) return false;
    value.emplace(std::move(v));
    return finish();
  }
};

/// A result, and the way to the coroutine that makes it.
template <class T>
struct Running : Result<T> {
  boost::asio::cancellation_signal signal;
  bool began = false;
  bool ended = false;      // also when it was destroyed with its context
  bool cancelled = false;  // before it began

  /// Asio lets the exception of a task that is cancelled before its first step escape from run(): such a one never
  /// begins, and gets no signal.
  void cancel() {
    if (this->done() || ended) return;
    if (began) {
      signal.emit(boost::asio::cancellation_type::terminal);
    } else {
      cancelled = true;
    }
  }
};

}  // namespace detail

class Scheduler;

/// A result that is there, or will be. A handle: copies are cheap and mean the same. To be used by the thread that runs
/// the scheduler. T is copied to each who asks.
template <class T>
class Future {
 public:
  [[nodiscard]] bool done() const noexcept { return result_->done(); }
  /// The result, or the exception that it failed with; TaskCancelledError when its task was cancelled. Throws
  /// std::logic_error while there is none: Scheduler::wait() waits.
  T get() const {
    result_->require_success();
    if constexpr (!std::is_void_v<T>) return *result_->value;
  }

 protected:
  friend class Scheduler;
  template <class>
  friend class Promise;
  explicit Future(std::shared_ptr<detail::Result<T>> result) : result_(std::move(result)) {}

 private:
  std::shared_ptr<detail::Result<T>> result_;
};

/// A spawned task. It runs on when its last handle goes.
template <class T>
class Task : public Future<T> {
 private:
  friend class Scheduler;
  explicit Task(std::shared_ptr<detail::Running<T>> running) : Future<T>(running), running_(std::move(running)) {}

  std::shared_ptr<detail::Running<T>> running_;
};

/// A result that somebody sets, once (S3-24). A handle, as Future.
template <class T>
class Promise {
 public:
  [[nodiscard]] Future<T> future() const { return Future<T>(result_); }
  /// Wakes all that wait for it. False: it had been completed before, and stays as it was.
  template <class... Arguments>
  bool set_value(Arguments&&... value) const {
    return result_->set(typename detail::Result<T>::Value(std::forward<Arguments>(value)...));
  }
  bool set_exception(std::exception_ptr error) const { return result_->fail(std::move(error)); }

 private:
  friend class Scheduler;
  Promise() = default;
  std::shared_ptr<detail::Result<T>> result_ = std::make_shared<detail::Result<T>>();
};

}  // namespace shmcoord::tasks
