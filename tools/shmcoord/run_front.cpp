#include "shmcoord/run_front.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "engine/segment_name.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/run_tree.hpp"

namespace shmcoord::tool {
namespace {

constexpr std::array passed_on{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
constexpr std::array ending{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

std::string end_text(bool by_signal, int value) {
  if (!by_signal) return value == 0 ? std::string() : "exit code " + std::to_string(value);
  const char* const name = ::sigabbrev_np(value);
  return name == nullptr ? "killed by signal " + std::to_string(value) : "killed by SIG" + std::string(name);
}

class Watch {
 public:
  Watch(const Front& front, std::size_t which)
      : guardian_(front.guardian),
        terminal_(front.terminal),
        bell_(front.bell),
        task_(front.task),
        adopts_(front.adopts),
        which_(which) {}

  CommandEnd run(process::Participant& participant, const std::string& environment) {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : passed_on) ::sigaddset(&set, signal);
    for (const int signal : {SIGCONT, SIGTSTP}) ::sigaddset(&set, signal);
    const int signals = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) throw Error(Errc::system, std::string("signalfd: ") + std::strerror(errno));
    for (const int signal : {SIGTTIN, SIGTTOU}) ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);

    Order start;
    start.kind = Order::Kind::start;
    start.which = static_cast<std::int32_t>(which_);
    start.foreground = has_terminal_ = terminal_.wanted_at_start();
    if (!guardian_.channel().send(start, environment, participant.inherited_lock())) {
      throw Error(Errc::system,
                  errno == EMSGSIZE
                      ? "too many locks and semaphores with too long names for the environment of a command"
                      : "the guardian process is gone; nothing was run");
    }
    while (!done_) {
      std::array<pollfd, 3> fds{{{guardian_.channel().fd(), POLLIN, 0}, {signals, POLLIN, 0}, {bell_.fd(), POLLIN, 0}}};
      if (lost_) fds[2].fd = -1;
      const int n = ::poll(fds.data(), fds.size(), tree_line_due_ ? 1000 : -1);
      if (n == 0 && tree_line_due_) {
        tree_line_due_ = false;
        if (!lost_)
          say(std::string("the command ended, but processes that it started go on; holding until they end") +
              (task_.again ? "" : " (--no-wait-tree does not)"));
      }
      if (fds[2].revents != 0) end_after_loss();
      if (fds[1].revents != 0) on_signal(signals);
      if (fds[0].revents != 0) on_report(participant);
    }
    ::close(signals);
    terminal_.take_back(command_);
    return {lost_ ? exit_lost : code_, lost_, signal_, how_};
  }

 private:
  void send_signal(int signal) {
    Order order;
    order.kind = Order::Kind::signal;
    order.signal = signal;
    (void)guardian_.channel().send(order);
  }

  void send_end(int signal) {
    Order order;
    order.kind = Order::Kind::end;
    order.signal = signal;
    order.grace_ns = task_.grace_ns;
    (void)guardian_.channel().send(order);
  }

  void end_after_loss() {
    lost_ = true;
    send_end(SIGTERM);
    say_error("lost", bell_.text() + "; ending the command");
  }

  void on_signal(int signals) {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    const bool ends = std::find(ending.begin(), ending.end(), signal) != ending.end();
    if (ends) signal_ = signal;
    if (signal == SIGCONT) {
      // Continued in the foreground after the command had asked for the terminal in vain.
      if (has_terminal_ && command_ != 0 && terminal_.ours()) terminal_.give_to(command_);
    }
    if (ends && task_.again) return send_end(signal);  // no other command is to begin, so this one must come to an end
    send_signal(signal);
  }

  void on_report(process::Participant& participant) {
    const auto report = guardian_.channel().receive_report();
    if (!report) return on_guardian_gone();
    switch (report->kind) {
      case Report::Kind::started:
        command_ = report->value;
        participant.set_group(command_);
        return;
      case Report::Kind::failed:
        code_ = report->value == ENOENT ? exit_not_found : exit_cannot_execute;
        how_ = "cannot run '" + printable(task_.commands[which_][0]) + "': " + std::strerror(report->value);
        say_error(code_ == exit_not_found ? "command_not_found" : "cannot_execute", how_);
        done_ = true;
        return;
      case Report::Kind::stopped: return on_stopped(report->value);
      case Report::Kind::typed: signal_ = report->value; return;
      case Report::Kind::exited:
        code_ = report->by_signal != 0 ? exit_by_signal + report->value : report->value;
        how_ = end_text(report->by_signal != 0, report->value);
        // Typed at the terminal, it went to the command alone, which was in the foreground.
        if (report->by_signal != 0 && has_terminal_ && (report->value == SIGINT || report->value == SIGQUIT)) {
          signal_ = report->value;
        }
        done_ = report->tree_goes_on == 0;
        tree_line_due_ = !done_;
        terminal_.take_back(command_);
        return;
      case Report::Kind::gone: done_ = true; return;
    }
  }

  void on_stopped(int signal) {
    if (signal == SIGSTOP || lost_) return;
    const bool asks = signal == SIGTTIN || signal == SIGTTOU;
    if (asks && terminal_.ours()) {
      has_terminal_ = true;
      terminal_.give_to(command_);
      return send_signal(SIGCONT);
    }
    // Typed at the terminal it was meant for the whole job, of which only the command was in the foreground. Sent by
    // somebody it was meant for the command, or for us.
    const bool typed = terminal_.take_back(command_);
    stop(typed || asks ? Stops::my_group : Stops::only_me, signal);
    sigset_t pending;
    ::sigemptyset(&pending);
    ::sigpending(&pending);
    if (asks) {
      // Nobody can bring an orphaned group to the foreground. The kernel would end a group that is stopped then.
      if (::sigismember(&pending, SIGCONT) != 1) send_signal(SIGHUP);
      has_terminal_ = true;
    }
    if (has_terminal_ && terminal_.ours()) terminal_.give_to(command_);
    send_signal(SIGCONT);
  }

  void on_guardian_gone() {
    say("the guardian process was killed; ending the command");
    int status = 0;
    bool reaped = false;
    if (adopts_) end_tree(command_, command_, &status, &reaped);
    code_ = reaped && WIFEXITED(status) ? WEXITSTATUS(status) : exit_by_signal + SIGKILL;
    how_ = reaped && WIFEXITED(status) ? end_text(false, WEXITSTATUS(status)) : "the guardian process was killed";
    done_ = true;
  }

  const GuardianHandle& guardian_;
  Terminal& terminal_;
  LossBell& bell_;
  const GuardianTask& task_;
  const bool adopts_;
  const std::size_t which_;
  pid_t command_ = 0;
  int signal_ = 0;
  std::string how_;
  int code_ = exit_internal;
  bool done_ = false;
  bool lost_ = false;
  bool has_terminal_ = false;
  bool tree_line_due_ = false;
};

}  // namespace

LossBell::LossBell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw Error(Errc::system, std::string("eventfd: ") + std::strerror(errno));
}

LossBell::~LossBell() { ::close(fd_); }

void LossBell::ring(const std::string& text) {
  {
    const std::scoped_lock guard(mutex_);
    if (text_.empty()) text_ = text;
  }
  const std::uint64_t one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void LossBell::hush() noexcept {
  {
    const std::scoped_lock guard(mutex_);
    text_.clear();
  }
  std::uint64_t rung = 0;
  (void)!::read(fd_, &rung, sizeof rung);
}

std::string LossBell::text() {
  const std::scoped_lock guard(mutex_);
  return text_;
}

std::string loss_text(const std::string& title, const Lost& lost) {
  std::string text = "lost " + title + ": " + std::string(describe(lost.why));
  if (!lost.by.empty()) text += "; now held by " + printable(lost.by);
  return text;
}

GuardianHandle::~GuardianHandle() {
  const pid_t pid = guardian_->pid;
  guardian_.reset();
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool adopt_orphans() {
  siginfo_t info{};
  const bool childless = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
  return childless && ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

std::vector<std::string> segment_environment(const Global& global) {
  const std::string& segment = global.segment;
  const bool is_path = segment.find('/') != std::string::npos;
  std::vector<std::string> all{"SHMCOORD_SEGMENT=" + (is_path ? engine::segment_path(segment) : segment)};
  if (const auto owner = global.trusted_owner) all.push_back("SHMCOORD_TRUST=" + std::to_string(*owner));
  return all;
}

CommandEnd run_in_front(const Front& front, process::Participant& participant, std::size_t which,
                        const std::string& environment) {
  return Watch(front, which).run(participant, environment);
}

}  // namespace shmcoord::tool
