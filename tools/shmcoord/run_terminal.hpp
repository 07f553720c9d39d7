#pragma once

#include <signal.h>
#include <sys/types.h>

// The terminal that `run` and its command share.
//
// The command has a process group of its own, so it has to be made the foreground group before it may read. That is
// done at once when standard input and output are the terminal. In `shmcoord run … | less` the pager needs the terminal
// as much as the command does, so there, and for a command that opens /dev/tty itself, it is done when the command
// asks: when it is stopped by SIGTTIN or SIGTTOU while our own group is in the foreground.

namespace shmcoord::tool {

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// A descriptor of the terminal, -1: none is known.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// Should the command start in the foreground?
  [[nodiscard]] bool wanted_at_start() const noexcept;
  /// Is our own process group in the foreground? Looks for the controlling terminal if need be.
  [[nodiscard]] bool ours() noexcept;
  void give_to(pid_t group) noexcept;
  /// If that group has it still; did it?
  bool take_back(pid_t group) noexcept;

 private:
  int fd_ = -1;
  bool at_start_ = false;
};

enum class Stops : bool { only_me, my_group };

/// Stops this process, or its whole group as the terminal would have done, and returns when it was continued; returns
/// at once when nobody could continue it (an orphaned process group). `signal` is blocked before and after.
void stop(Stops whom, int signal) noexcept;

}  // namespace shmcoord::tool
