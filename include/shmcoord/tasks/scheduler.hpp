#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "shmcoord/tasks/future.hpp"
#include "shmcoord/tasks/semaphore.hpp"

namespace shmcoord::tasks {

/// Cooperative tasks: coroutines (`boost::asio::awaitable<T>`) of which one runs at a time, until it waits (S3-4,
/// S3-24). Asio runs them and is all that there is of an event loop: give it an executor, call run() of its context.
/// Everything that a task of Asio may await, a task here may, and the other way round.
///
/// One thread: the executor's context is run by one thread at a time (or the executor is a strand), and everything of
/// this component is called from inside it, or while it does not run. Nothing here blocks that thread.
///
/// The scheduler must outlive what uses it; its tasks may outlive it. If the process dies here: nothing of this is
/// shared, and what tasks held of *shared* locks and semaphores goes to the next ones, as ever.
class Scheduler {
 public:
  using Log = std::function<void(std::string_view)>;

  /// `log` gets each line that a task logs; without one it goes to std::clog.
  explicit Scheduler(boost::asio::any_io_executor executor, Log log = {});
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler() = default;

  [[nodiscard]] const boost::asio::any_io_executor& executor() const noexcept { return executor_; }

  /// Starts a task: it runs when those that are ready have run. What it throws is kept for whoever waits for it.
  /// Arguments of its coroutine that are references must outlive it.
  template <class T>
  Task<T> spawn(boost::asio::awaitable<T> work) {
    auto running = std::make_shared<detail::Running<T>>();
    boost::asio::co_spawn(executor_, run(running, std::move(work)), Ending<T>{running});
    return Task<T>(std::move(running));
  }

  /// Parks until there is a result: that, or what it failed with. Throws TaskCancelledError when the *calling* task is
  /// cancelled, or the one that it waits for was.
  template <class T>
  [[nodiscard]] static boost::asio::awaitable<T> wait(Future<T> future) {
    std::vector<std::shared_ptr<detail::Completion>> it(1, future.result_);
    (void)co_await detail::Completion::first_done(std::move(it));
    co_return future.get();
  }

  /// All results in the order of the futures, whatever the order in which they came. Throws what the first of them in
  /// that order failed with; the others go on.
  template <template <class> class Handle, class T>
  [[nodiscard]] static boost::asio::awaitable<std::vector<T>> gather(std::vector<Handle<T>> futures) {
    std::vector<T> results;
    results.reserve(futures.size());
    for (const Future<T>& future : futures) {
      auto waiting = wait(future);
      results.push_back(co_await std::move(waiting));
    }
    co_return results;
  }
  template <template <class> class Handle>
  [[nodiscard]] static boost::asio::awaitable<void> gather(std::vector<Handle<void>> futures) {
    for (const Future<void>& future : futures) {
      auto waiting = wait(future);
      co_await std::move(waiting);
    }
  }

  /// The index of the first that has a result or failed; get() it. The others go on: cancel() them if they should not.
  template <template <class> class Handle, class T>
  [[nodiscard]] static boost::asio::awaitable<std::size_t> race(const std::vector<Handle<T>>& futures) {
    std::vector<std::shared_ptr<detail::Completion>> all;
    all.reserve(futures.size());
    for (const Future<T>& future : futures) all.push_back(future.result_);
    return detail::Completion::first_done(std::move(all));
  }

  /// Parks for at least so long. Throws TaskCancelledError.
  [[nodiscard]] static boost::asio::awaitable<void> delay(std::chrono::nanoseconds duration);

  /// The task gets TaskCancelledError where it is parked, or where it parks next; one that did not begin never does. A
  /// permit that was handed to it goes on to the next one (S3-16). Of a task that is done, nothing happens.
  template <class T>
  static void cancel(const Task<T>& task) {
    task.running_->cancel();
  }

  template <class T>
  [[nodiscard]] static Promise<T> promise() {
    return Promise<T>();
  }

  /// A cooperative semaphore with so many permits, all free: as many as there ever are (S3-10). Throws
  /// std::invalid_argument "permits must be >= 1" (S3-18).
  [[nodiscard]] CooperativeSemaphore create_semaphore(int permits);

  void log(std::string_view line) const { log_(line); }

 private:
  /// Ties the task to its cancellation signal, which must be there for as long as Asio may touch its slot. It names no
  /// executor of its own, so that a cancellation reaches the task at once and is not posted behind what is ready.
  template <class T>
  struct Ending {
    using cancellation_slot_type = boost::asio::cancellation_slot;
    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept { return running->signal.slot(); }
    void operator()(const std::exception_ptr&) const noexcept {}

    std::shared_ptr<detail::Running<T>> running;
  };

  /// A local of the coroutine: says when it is no more.
  template <class T>
  class Ended {
   public:
    explicit Ended(detail::Running<T>& of) noexcept : of_(of) {}
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    ~Ended() { of_.ended = true; }

   private:
    detail::Running<T>& of_;
  };

  template <class T>
  static boost::asio::awaitable<void> run(std::shared_ptr<detail::Running<T>> running, boost::asio::awaitable<T> work) {
    const Ended ended(*running);
    try {
      co_await boost::asio::post(boost::asio::use_awaitable);  // behind those that are ready
      if (running->cancelled) throw TaskCancelledError();
      running->began = true;
      if constexpr (std::is_void_v<T>) {
        co_await std::move(work);
        running->set({});
      } else {
        running->set(co_await std::move(work));
      }
    } catch (...) {
      running->fail(as_cancelled(std::current_exception()));
    }
  }
  /// An aborted operation of Asio in our words.
  static std::exception_ptr as_cancelled(std::exception_ptr error);

  boost::asio::any_io_executor executor_;
  Log log_;
  std::int64_t next_id_ = 1;
};

}  // namespace shmcoord::tasks
