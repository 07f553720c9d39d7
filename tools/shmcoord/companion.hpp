#pragma once

#include <signal.h>

#include <functional>
#include <stop_token>
#include <thread>

// Waiting for somebody at a terminal or in a script, who wants to know for what, and may press Ctrl-C.
//
// The main thread waits in the library, so that it is woken directly. A second thread reads the signals, asks the
// library to stop, and after a moment tells what is going on.

namespace shmcoord::tool {

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT, as far as they are not ignored already: blocked from construction on, so that
/// they can be read at a time of our choosing. Threads started later inherit that.
class StopSignals {
 public:
  StopSignals();
  [[nodiscard]] const sigset_t& set() const noexcept { return set_; }
  /// The mask as it was before: what a command has to get.
  [[nodiscard]] const sigset_t& original() const noexcept { return original_; }

 private:
  sigset_t set_{};
  sigset_t original_{};
};

class Companion {
 public:
  static constexpr int no_more = -1;
  /// Tells what is going on, on the second thread; answers after how many milliseconds it wants to be called again.
  /// Throws nothing.
  using Tell = std::function<int()>;

  /// Without `tell` it only reads the signals.
  explicit Companion(const StopSignals& signals, Tell tell = {});
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;
  ~Companion();

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

  /// Ends the thread; the signal that it saw, or 0.
  int finish();

 private:
  void run();

  Tell tell_;
  int signal_fd_;
  int done_fd_;
  int signal_ = 0;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace shmcoord::tool
