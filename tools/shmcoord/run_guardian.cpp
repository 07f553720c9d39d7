#include "shmcoord/run_guardian.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "shmcoord/error.hpp"
#include "shmcoord/run_tree.hpp"

namespace shmcoord::tool {
namespace {

// Above what shell scripts use for their own descriptors, below 64, where the kernel's table would grow.
constexpr int lock_descriptor = 59;

struct Launch {
  char* const* argv;
  char* const* envp;
  const sigset_t* mask;
  int terminal;
  int lock;
};

/// Starts the command in a group of its own. vfork: there is nothing to copy, and a failed exec is seen in `error`. The
/// child shares our memory until then: it calls only what a signal handler might, and all signals are blocked.
/// posix_spawn cannot ask for a death signal, without which the command outlives a killed guardian.
// NOLINTBEGIN(bugprone-unsafe-functions,clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork)
[[gnu::noinline]] pid_t launch(const Launch& what, volatile int& error) {
  const pid_t guardian = ::getpid();
  const pid_t pid = ::vfork();
  if (pid != 0) return pid;
  ::setpgid(0, 0);
  if (what.terminal >= 0) ::tcsetpgrp(what.terminal, ::getpid());
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guardian) ::_exit(127);
  if (what.lock >= 0) ::fcntl(what.lock, F_SETFD, 0);
  ::sigprocmask(SIG_SETMASK, what.mask, nullptr);
  ::execvpe(what.argv[0], what.argv, what.envp);
  error = errno;
  ::_exit(127);
}
// NOLINTEND(bugprone-unsafe-functions,clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork)

/// A process in the command's group that hears what is typed at its terminal: Ctrl-C goes to that group alone, and a
/// command that tidies up and exits with 0 does not say that it was told to end.
class Ear {
 public:
  Ear() = default;
  Ear(const Ear&) = delete;
  Ear& operator=(const Ear&) = delete;
  ~Ear() { finish(); }

  void listen(pid_t group, int lock, const Channel& channel) {
    const pid_t guardian = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) hear(guardian, group, lock, channel);
    if (pid_ > 0) ::setpgid(pid_, group);
  }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void gone() noexcept { pid_ = -1; }
  /// What was typed until now is told before this returns.
  void finish() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGRTMIN);
    ::kill(pid_, SIGCONT);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

 private:
  [[noreturn]] static void hear(pid_t guardian, pid_t group, int lock, const Channel& channel) {
    ::setpgid(0, group);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != guardian) ::_exit(0);
    if (lock >= 0) ::close(lock);
    sigset_t heard;
    ::sigemptyset(&heard);
    for (const int signal : {SIGINT, SIGQUIT, SIGRTMIN}) ::sigaddset(&heard, signal);
    for (;;) {
      // All are blocked here, as in the guardian; of those that are pending the lowest comes first, SIGRTMIN last.
      const int signal = ::sigwaitinfo(&heard, nullptr);
      if (signal == SIGRTMIN) ::_exit(0);
      if (signal > 0) channel.send({Report::Kind::typed, signal, 0, 0});
    }
  }

  pid_t pid_ = -1;
};

std::int64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

class Watch {
 public:
  Watch(const GuardianTask& task, const Channel& channel) : task_(task), channel_(channel) {
    sigset_t child;
    ::sigemptyset(&child);
    ::sigaddset(&child, SIGCHLD);
    child_fd_ = ::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    ::close(child_fd_);
    if (lock_ >= 0) ::close(lock_);
  }

  /// Until the command and its tree are gone. False: there will be no command any more.
  bool run() {
    std::optional<Channel::Received> order;
    do {  // what was meant for the one before may come late
      order = channel_.receive_order();
      if (!order) return false;
    } while (order->order.kind != Order::Kind::start);
    if (!start(*order)) return true;
    while (look_for_ends()) wait();
    return true;
  }

 private:
  bool start(const Channel::Received& got) {
    if (got.fd >= 0) {
      lock_ = ::fcntl(got.fd, F_DUPFD_CLOEXEC, lock_descriptor);
      if (lock_ < 0) {
        lock_ = got.fd;
      } else {
        ::close(got.fd);
      }
    }
    std::vector<std::string> added = task_.environment;
    for (std::size_t at = 0; at < got.text.size();) {
      const auto end = std::min(got.text.find('\0', at), got.text.size());
      added.push_back(got.text.substr(at, end - at));
      at = end + 1;
    }
    std::vector<char*> argv;
    const std::vector<std::string>& command = task_.commands.at(static_cast<std::size_t>(got.order.which));
    argv.reserve(command.size() + 1);
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const std::vector<char*> envp = merge_environment(added);
    volatile int error = 0;
    command_ =
        launch({argv.data(), envp.data(), &task_.original_mask, got.order.foreground != 0 ? task_.terminal : -1, lock_},
               error);
    if (command_ < 0 || error != 0) {
      const int why = command_ < 0 ? errno : error;
      if (command_ > 0) (void)::waitpid(command_, nullptr, 0);
      channel_.send({Report::Kind::failed, why, 0, 0});
      return false;
    }
    if (task_.again && task_.terminal >= 0) ear_.listen(command_, lock_, channel_);
    channel_.send({Report::Kind::started, command_, 0, 0});
    return true;
  }

  static std::vector<char*> merge_environment(const std::vector<std::string>& added) {
    std::vector<char*> envp;
    for (char** e = environ; *e != nullptr; ++e) {
      const bool replaced = std::any_of(added.begin(), added.end(), [e](const std::string& a) {
        const auto name = a.find('=') + 1;
        return std::strncmp(*e, a.c_str(), name) == 0;
      });
      if (!replaced) envp.push_back(*e);
    }
    for (const std::string& a : added) envp.push_back(const_cast<char*>(a.c_str()));
    envp.push_back(nullptr);
    return envp;
  }

  /// Reaps what ended and reports it. False: nothing is left to guard.
  bool look_for_ends() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED);
      if (pid < 0 && errno == EINTR) continue;
      if (pid == 0) break;
      if (pid < 0) {
        if (exit_told_) {
          channel_.send({Report::Kind::gone, 0, 0, 0});
        } else {
          tell_exit(false);
        }
        return false;
      }
      if (pid == ear_.pid()) ear_.gone();
      if (pid != command_) continue;
      if (WIFSTOPPED(status)) {
        channel_.send({Report::Kind::stopped, WSTOPSIG(status), 0, 0});
      } else {
        ear_.finish();
        reaped_ = true;
        status_ = status;
      }
    }
    if (reaped_ && !exit_told_) {
      if (!task_.wait_tree) {
        tell_exit(false);
        return false;
      }
      tell_exit(true);
      if (WIFSIGNALED(status_) && after_death_by_signal(WTERMSIG(status_))) return look_for_ends();
    }
    return true;
  }

  void tell_exit(bool tree_goes_on) {
    const bool by_signal = WIFSIGNALED(status_);
    channel_.send({Report::Kind::exited, by_signal ? WTERMSIG(status_) : WEXITSTATUS(status_), by_signal ? 1 : 0,
                   tree_goes_on ? 1 : 0});
    exit_told_ = true;
  }

  // What a killed command leaves behind is not work that somebody planned to go on. If the signal was one that we
  // passed on, all of its group got it and may be tidying up. True: all are gone.
  bool after_death_by_signal(int signal) {
    if (std::find(passed_on_.begin(), passed_on_.end(), signal) == passed_on_.end()) {
      kill_all();
      return true;
    }
    if (!kill_at_ms_) kill_at_ms_ = now_ms() + task_.grace_ns / 1'000'000;
    return false;
  }

  void wait() {
    pollfd fds[] = {{channel_.fd(), POLLIN, 0}, {child_fd_, POLLIN, 0}};
    int timeout = -1;
    if (kill_at_ms_) timeout = static_cast<int>(std::clamp<std::int64_t>(*kill_at_ms_ - now_ms(), 0, 3'600'000));
    const int n = ::poll(fds, 2, timeout);
    if (kill_at_ms_ && now_ms() >= *kill_at_ms_) return kill_all();
    if (n <= 0) return;
    if (fds[1].revents != 0) {
      signalfd_siginfo ignored{};
      (void)!::read(child_fd_, &ignored, sizeof ignored);
    }
    if (fds[0].revents == 0) return;
    const auto got = channel_.receive_order();
    if (!got) return kill_all();
    switch (got->order.kind) {
      case Order::Kind::signal: return pass_on(got->order.signal);
      case Order::Kind::end:
        pass_on(got->order.signal != 0 ? got->order.signal : SIGTERM);
        if (!reaped_) signal_others(passed_on_.back(), command_);
        pass_on(SIGCONT);
        if (!kill_at_ms_) kill_at_ms_ = now_ms() + got->order.grace_ns / 1'000'000;
        return;
      case Order::Kind::start: return;
    }
  }

  void pass_on(int signal) {
    passed_on_.push_back(signal);
    if (!reaped_) {
      ::kill(-command_, signal);  // while the command is not reaped, the number is its own
    } else {
      signal_children(signal, command_);
    }
  }

  void kill_all() {
    if (!reaped_) ::kill(-command_, SIGKILL);
    end_tree(command_, command_, &status_, &reaped_);
    ear_.gone();
    kill_at_ms_.reset();
  }

  const GuardianTask& task_;
  const Channel& channel_;
  int child_fd_ = -1;
  int lock_ = -1;
  pid_t command_ = 0;
  Ear ear_;
  int status_ = 0;
  bool reaped_ = false;
  bool exit_told_ = false;
  std::vector<int> passed_on_;
  std::optional<std::int64_t> kill_at_ms_;
};

[[noreturn]] void guard(const GuardianTask& task, const Channel& channel) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "shmcoord-guard");
  try {
    while (Watch(task, channel).run() && task.again) {
    }
  } catch (...) {
    // No memory before the command was started: the channel's end tells.
  }
  ::_exit(0);
}

}  // namespace

Guardian start_guardian(const GuardianTask& task) {
  auto [run_end, guardian_end] = Channel::make();
  // Blocked before the fork: there must be no moment in which a signal to all of us ends the guardian.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid != 0) ::sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) throw Error(Errc::system, std::string("fork: ") + std::strerror(errno));
  if (pid == 0) {
    { const Channel closed = std::move(run_end); }
    guard(task, guardian_end);
  }
  return {pid, std::move(run_end)};
}

}  // namespace shmcoord::tool
