#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "process/acquire_all.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/occupancy.hpp"
#include "shmcoord/outer_run.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/run_guardian.hpp"
#include "shmcoord/run_plan.hpp"
#include "shmcoord/run_terminal.hpp"
#include "shmcoord/run_tree.hpp"

// `shmcoord run`: a command while holding locks and permits.
//
// This process has the session and waits for them; the guardian (run_guardian.hpp) starts the command and sees its
// tree end. What if we die here: the guardian ends everything, and the slot is not dead before it has. Loss of a hold
// while the command runs ends the command and makes the exit code 75, whatever the command itself says.

namespace shmcoord::tool {
namespace {

using process::PrimitiveClient;

constexpr std::array passed_on{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};

struct Held {
  std::unique_ptr<PrimitiveClient> client;
  std::uint64_t token = 0;
};

/// News from the keeper's thread: a lock was lost.
class LossBell {
 public:
  LossBell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw Error(Errc::system, std::string("eventfd: ") + std::strerror(errno));
  }
  LossBell(const LossBell&) = delete;
  LossBell& operator=(const LossBell&) = delete;
  ~LossBell() { ::close(fd_); }

  void ring(const std::string& title, const Lost& lost) {
    {
      const std::scoped_lock guard(mutex_);
      if (text_.empty()) text_ = loss_text(title, lost);
    }
    const std::uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof one);
  }
  /// Forgets it.
  void hush() noexcept {
    {
      const std::scoped_lock guard(mutex_);
      text_.clear();
    }
    std::uint64_t rung = 0;
    (void)!::read(fd_, &rung, sizeof rung);
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::string text() {
    const std::scoped_lock guard(mutex_);
    return text_;
  }

  static std::string loss_text(const std::string& title, const Lost& lost) {
    std::string text = "lost " + title + ": " + std::string(describe(lost.why));
    if (!lost.by.empty()) text += "; now held by " + printable(lost.by);
    return text;
  }

 private:
  int fd_;
  std::mutex mutex_;
  std::string text_;
};

/// How they are taken.
struct Taking {
  std::string holder;
  std::int64_t deadline_ns;
  const StopSignals& signals;
  LossBell& bell;
};

/// One of them.
class Taken {
 public:
  Taken(Held& held, const Taking& how, const process::Request& request, std::optional<process::Answer> tried = {})
      : held_(held), how_(how), request_(request), tried_(std::move(tried)) {}

  process::Answer acquire() {
    callback_ = held_.client->on_lost(
        [this, title = title_of(*held_.client)](const HolderId&, const Lost& lost) { how_.bell.ring(title, lost); });
    got_ = acquire_aloud(*held_.client, request_, how_.deadline_ns, how_.signals, std::exchange(tried_, std::nullopt));
    held_.token = got_.outcome.token;
    return got_.outcome;
  }
  void give_back() noexcept {
    held_.client->remove_on_lost(callback_);
    try {
      if (!stands()) say("lost " + title_of(*held_.client) + " while waiting for the others");
      (void)held_.client->release(how_.holder);
    } catch (const std::exception&) {  // the segment is gone, and the hold with it
    }
    how_.bell.hush();
  }
  [[nodiscard]] bool stands() const { return held_.client->stands(how_.holder, held_.token); }

  int say_not_acquired(const WaitRule& rule) { return tool::say_not_acquired(*held_.client, request_, got_, rule); }

 private:
  Held& held_;
  const Taking& how_;
  process::Request request_;
  std::optional<process::Answer> tried_;
  Acquired got_;
  std::uint64_t callback_ = 0;
};

/// The guardian does not outlive us, and leaves no zombie to a parent that does not reap.
class GuardianHandle {
 public:
  explicit GuardianHandle(const GuardianTask& task) : guardian_(std::make_unique<Guardian>(start_guardian(task))) {}
  GuardianHandle(const GuardianHandle&) = delete;
  GuardianHandle& operator=(const GuardianHandle&) = delete;
  ~GuardianHandle() {
    const pid_t pid = guardian_->pid;
    guardian_.reset();
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  [[nodiscard]] const Channel& channel() const noexcept { return guardian_->channel; }
  [[nodiscard]] pid_t pid() const noexcept { return guardian_->pid; }

 private:
  std::unique_ptr<Guardian> guardian_;
};

/// While the command runs.
class Front {
 public:
  Front(const GuardianHandle& guardian, Terminal& terminal, LossBell& bell, const GuardianTask& task, bool adopts)
      : guardian_(guardian), terminal_(terminal), bell_(bell), task_(task), adopts_(adopts) {}

  /// The exit code.
  int run(process::Participant& participant, const std::string& environment) {
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
          say("the command ended, but processes that it started go on; holding until they end (--no-wait-tree does "
              "not)");
      }
      if (fds[2].revents != 0) end_after_loss();
      if (fds[1].revents != 0) on_signal(signals);
      if (fds[0].revents != 0) on_report(participant);
    }
    ::close(signals);
    terminal_.take_back(command_);
    return lost_ ? exit_lost : code_;
  }

 private:
  void send_signal(int signal) {
    Order order;
    order.kind = Order::Kind::signal;
    order.signal = signal;
    (void)guardian_.channel().send(order);
  }

  void end_after_loss() {
    lost_ = true;
    Order order;
    order.kind = Order::Kind::end;
    order.grace_ns = task_.grace_ns;
    (void)guardian_.channel().send(order);
    say_error("lost", bell_.text() + "; ending the command");
  }

  void on_signal(int signals) {
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCONT) {
      // Continued in the foreground after the command had asked for the terminal in vain.
      if (has_terminal_ && command_ != 0 && terminal_.ours()) terminal_.give_to(command_);
    }
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
        say_error(code_ == exit_not_found ? "command_not_found" : "cannot_execute",
                  "cannot run '" + printable(task_.command[0]) + "': " + std::strerror(report->value));
        done_ = true;
        return;
      case Report::Kind::stopped: return on_stopped(report->value);
      case Report::Kind::exited:
        code_ = report->by_signal != 0 ? exit_by_signal + report->value : report->value;
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
    done_ = true;
  }

  const GuardianHandle& guardian_;
  Terminal& terminal_;
  LossBell& bell_;
  const GuardianTask& task_;
  const bool adopts_;
  pid_t command_ = 0;
  int code_ = exit_internal;
  bool done_ = false;
  bool lost_ = false;
  bool has_terminal_ = false;
  bool tree_line_due_ = false;
};

std::string command_environment(const std::vector<Held>& held, const std::string& first, bool wait_tree) {
  std::string all = "SHMCOORD_TOKENS=";
  std::string of_first;
  std::vector<OuterHold> outer;
  for (const Held& h : held) {
    if (&h != &held.front()) all += ',';
    all += h.client->name() + '=' + std::to_string(h.token);
    if (h.client->name() == first) of_first = "SHMCOORD_TOKEN=" + std::to_string(h.token);
    if (wait_tree) outer.push_back({h.client.get(), h.token});
  }
  return of_first + '\0' + all + '\0' + held_environment(outer);
}

/// Gives all back. False: one was lost before we came to that; says so unless that is known.
bool release_all(std::vector<Held>& held, const std::string& holder, bool known) {
  bool all_ours = true;
  for (Held& h : held) {
    try {
      const ReleaseOutcome got = h.client->release(holder).of_a_lock();
      if (got.result == ReleaseResult::released) continue;
      if (!known) say_error("lost", LossBell::loss_text(title_of(*h.client), got.lost.value_or(Lost{})));
    } catch (const Error& e) {
      if (!known) say_error(name_of(e.errc()), title_of(*h.client) + ": " + e.what());
    }
    all_ours = false;
  }
  return all_ours;
}

/// Orphans of the command come to us if the guardian is killed, unless we have other children already (of a shell that
/// became `run` by exec): theirs would come too, and must not be ended.
bool adopt_orphans() {
  siginfo_t info{};
  const bool childless = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
  return childless && ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

}  // namespace

int run_command(const Arguments& arguments) {
  Plan plan = plan_of(arguments);
  const StopSignals signals;
  Terminal terminal;
  plan.task.original_mask = signals.original();
  plan.task.terminal = terminal.fd();
  const std::string& segment = arguments.global.segment;
  const bool is_path = segment.find('/') != std::string::npos;
  plan.task.environment = {"SHMCOORD_SEGMENT=" + (is_path ? engine::segment_path(segment) : segment),
                           "SHMCOORD_HOLDER=" + plan.holder};
  if (const auto owner = arguments.global.trusted_owner) {
    plan.task.environment.push_back("SHMCOORD_TRUST=" + std::to_string(*owner));
  }
  const bool adopts = adopt_orphans();
  const GuardianHandle guardian(plan.task);

  LossBell bell;
  const auto request_for = [&plan](const Wanted& wanted) {
    process::Request request;
    request.holder = plan.holder;
    request.weight = wanted.weight;
    request.reason = plan.reason;
    request.ttl = plan.ttl;
    request.no_lease = !plan.ttl;
    return request;
  };
  std::optional<process::Answer> tried;
  std::vector<Held> held;
  const bool can_make = plan.wanted.front().kind == engine::Kind::lock;
  const auto if_missing = can_make ? IfMissing::create : IfMissing::fail;
  const auto participant = join_and(arguments.global, if_missing, "run", [&](auto joined) {
    held.clear();
    for (const Wanted& wanted : plan.wanted) {
      const process::NameOptions options{.kind = wanted.kind};
      held.push_back({std::make_unique<PrimitiveClient>(joined, wanted.name, options)});
    }
    tried = held.front().client->acquire(request_for(plan.wanted.front()), process::try_once);
    return joined;
  });
  const Taking how{plan.holder, deadline_of(plan.wait), signals, bell};
  std::vector<Taken> parts;
  parts.reserve(held.size());
  for (std::size_t i = 0; i < held.size(); ++i) {
    parts.emplace_back(held[i], how, request_for(plan.wanted[i]), std::exchange(tried, std::nullopt));
  }
  const process::AllAnswer all = process::acquire_all(std::span(parts));
  if (all.held == 0) return parts[all.failed].say_not_acquired(plan.wait);
  const int code = Front(guardian, terminal, bell, plan.task, adopts)
                       .run(*participant, command_environment(held, plan.first, plan.task.wait_tree));
  return release_all(held, plan.holder, code == exit_lost) ? code : exit_lost;
}

}  // namespace shmcoord::tool
