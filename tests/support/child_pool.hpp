#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

// Many children at once that end, crash and are killed, and are started again: what storms are made of.

namespace shmcoord::test {

/// What a child ends with that threw.
inline constexpr int child_threw = 99;

/// Forks a child that ends with what `body` returns.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int code = child_threw;
  try {
    code = body();
  } catch (const std::exception& e) {
    std::cerr << "child: " << e.what() << "\n";
  }
  ::_exit(code);
}

/// As process 1 of a PID namespace of its own; -1: not permitted. The caller has one thread.
inline pid_t start_child_in_namespace(const std::function<int()>& body) {
  const int own = ::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
  if (own < 0) return -1;
  const pid_t child = ::unshare(CLONE_NEWPID) == 0 ? start_child(body) : -1;
  (void)::setns(own, CLONE_NEWPID);  // the next children are of our own again
  ::close(own);
  return child;
}

/// Ended well, or killed by somebody who may.
inline bool ended_or_killed(int status) { return status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); }

class ChildPool {
 public:
  /// Starts a child at that place and says its pid; each start of the pool has another seed.
  using Start = std::function<pid_t(std::size_t place, unsigned seed)>;

  ChildPool(std::size_t places, unsigned seed, Start start) : pids_(places), start_(std::move(start)), seed_(seed) {
    for (std::size_t place = 0; place < places; ++place) start_at(place);
  }
  ~ChildPool() { end(); }
  ChildPool(const ChildPool&) = delete;
  ChildPool& operator=(const ChildPool&) = delete;

  struct Ended {
    std::size_t place;
    int status;
  };
  /// One that ended, if there is one: it is waited for, and its place is empty (pid 0). Whatever else ended, such as an
  /// adopted grandchild, is waited for on the way.
  std::optional<Ended> take_ended() {
    int status = 0;
    for (pid_t over = 0; (over = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto at = std::find(pids_.begin(), pids_.end(), over);
      if (at == pids_.end()) continue;
      *at = 0;
      return Ended{static_cast<std::size_t>(at - pids_.begin()), status};
    }
    return std::nullopt;
  }
  void start_at(std::size_t place) { pids_[place] = start_(place, ++seed_); }

  [[nodiscard]] std::size_t size() const { return pids_.size(); }
  [[nodiscard]] pid_t pid(std::size_t place) const { return pids_[place]; }
  void signal(std::size_t place, int signal) const {
    if (pids_[place] > 0) ::kill(pids_[place], signal);
  }
  /// Kills all and waits for them.
  void end() {
    for (std::size_t place = 0; place < pids_.size(); ++place) signal(place, SIGKILL);
    for (pid_t& pid : pids_) {
      if (pid > 0) ::waitpid(pid, nullptr, 0);
      pid = 0;
    }
  }

 private:
  std::vector<pid_t> pids_;
  Start start_;
  unsigned seed_;
};

}  // namespace shmcoord::test
