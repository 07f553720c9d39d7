#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "shmcoord/tasks.hpp"

// A scheduler on a context of its own, whose run is ended by a watchdog.

namespace shmcoord::tasks {

template <class Fixture>
class WithTasks : public Fixture {
 protected:
  static constexpr std::chrono::seconds watchdog{60};

  /// Runs until no task can go on; false: the watchdog ended it.
  bool run() {
    context_.restart();
    context_.run_for(watchdog);
    return context_.stopped();
  }
  /// Runs what is ready, and nothing that waits.
  void run_ready() {
    context_.restart();
    context_.poll();
  }
  /// A task and what it comes to; others run meanwhile.
  template <class T>
  T run(boost::asio::awaitable<T> work) {
    const Task<T> task = scheduler_.spawn(std::move(work));
    context_.restart();
    const auto end = std::chrono::steady_clock::now() + watchdog;
    while (!task.done() && context_.run_one_until(end) != 0) {
    }
    EXPECT_TRUE(task.done()) << "the watchdog ended it";
    return task.get();
  }

  std::vector<std::string> story_;
  boost::asio::io_context context_;
  Scheduler scheduler_{context_.get_executor(), [this](std::string_view line) { story_.emplace_back(line); }};
};

using TasksTest = WithTasks<::testing::Test>;

}  // namespace shmcoord::tasks
