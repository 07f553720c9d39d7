#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

#include "engine/descriptor.hpp"

namespace shmcoord::adapters {

/// A child that leads a process group of its own, and all that is in that group. One thread uses it.
class ProcessGroup {
 public:
  enum class Status : std::uint8_t { running, exited, signalled, unknown };

  explicit ProcessGroup(pid_t leader);
  /// Nothing of it is left running; a leader that cannot even be killed is reaped by a thread when it ends.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// Of the leader, which is reaped as soon as it is seen to have ended. unknown: it did, but somebody else got to
  /// know.
  [[nodiscard]] Status status();
  [[nodiscard]] int code() const noexcept { return code_; }  ///< exit code or signal

  /// Is anything of it there, the leader or others?
  [[nodiscard]] bool is_there();
  /// Asks it to end, kills what does not within the grace. False: something could not be ended. `wait` is called in
  /// between, is to return early when there is something to do, and to take at most that long.
  bool end(std::chrono::nanoseconds grace, const std::function<void(std::chrono::nanoseconds)>& wait);

  /// Readable when the leader has ended; -1 where the kernel has none, so that one has to look again and again.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

 private:
  void signal(int number);
  bool wait_until_gone(std::chrono::nanoseconds most, const std::function<void(std::chrono::nanoseconds)>& wait);

  pid_t leader_;
  engine::Descriptor descriptor_;
  Status status_ = Status::running;
  int code_ = 0;
};

/// How long a look may wait for the next one where nothing wakes it.
inline constexpr std::chrono::milliseconds look_again{10};

}  // namespace shmcoord::adapters
