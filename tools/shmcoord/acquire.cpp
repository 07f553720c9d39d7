#include "shmcoord/acquire.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stop_token>
#include <thread>

#include "process/clock.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/occupancy.hpp"
#include "shmcoord/outer_run.hpp"

namespace shmcoord::tool {
namespace {

using process::PrimitiveClient;

// Somebody who looks at a terminal wants to know soon; a log wants no line for each short wait.
constexpr int first_line_on_terminal_ms = 150;
constexpr int first_line_ms = 1000;

/// "lock 'deploy'", "4 permits of semaphore 'agents'".
std::string wanted_text(const PrimitiveClient& client, const process::Request& request) {
  if (client.kind() == engine::Kind::lock) return title_of(client);
  return std::to_string(request.weight) + (request.weight == 1 ? " permit of " : " permits of ") + title_of(client);
}

/// In the words of what was asked for.
std::string_view result_text(const PrimitiveClient& client, const process::Answer& answer) {
  return client.kind() == engine::Kind::lock ? to_string(answer.result) : to_string(process::permit_result(answer));
}

class Companion {
 public:
  Companion(PrimitiveClient& client, const process::Request& request, const StopSignals& signals)
      : client_(client),
        holder_(request.holder),
        what_(wanted_text(client, request)),
        signal_fd_(::signalfd(-1, &signals.set(), SFD_CLOEXEC | SFD_NONBLOCK)),
        done_fd_(::eventfd(0, EFD_CLOEXEC)) {
    if (signal_fd_ < 0 || done_fd_ < 0)
      throw Error(Errc::system, std::string("signalfd, eventfd: ") + std::strerror(errno));
    thread_ = std::thread([this] { run(); });
  }

  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;
  ~Companion() {
    finish();
    ::close(signal_fd_);
    ::close(done_fd_);
  }

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

  /// Ends the thread; the signal that it saw, or 0.
  int finish() {
    if (thread_.joinable()) {
      const std::uint64_t one = 1;
      (void)!::write(done_fd_, &one, sizeof one);
      thread_.join();
    }
    return signal_;
  }

 private:
  void run() {
    int timeout = ::isatty(STDERR_FILENO) == 1 ? first_line_on_terminal_ms : first_line_ms;
    for (;;) {
      pollfd fds[] = {{done_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
      const int n = ::poll(fds, 2, timeout);
      if (n == 0) {
        timeout = -1;
        tell();
        continue;
      }
      if ((fds[0].revents & POLLIN) != 0) return;
      signalfd_siginfo info{};
      if ((fds[1].revents & POLLIN) != 0 && ::read(signal_fd_, &info, sizeof info) == sizeof info) {
        signal_ = static_cast<int>(info.ssi_signo);
        stop_.request_stop();
        return;
      }
    }
  }

  void tell() {
    try {
      const std::string occupancy = occupancy_text(client_);
      const std::uint32_t place = client_.place_in_queue(holder_);
      std::string text = "waiting for " + what_;
      text += ", " + (occupancy.empty() ? "which is about to be handed on" : occupancy);
      if (place != 0) text += "; place " + std::to_string(place) + " in the queue";
      say(text);
    } catch (const Error&) {
      return;  // the waiting thread meets the same error and reports it
    }
  }

  PrimitiveClient& client_;
  std::string holder_;
  std::string what_;
  int signal_fd_;
  int done_fd_;
  int signal_ = 0;
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace

WaitRule wait_rule(const Arguments& arguments, std::string_view weight) {
  WaitRule rule;
  const auto wait = arguments.value("--wait");
  if (wait && arguments.has("--no-wait")) {
    throw UsageError{"--wait and --no-wait exclude each other: give one of them"};
  }
  if (wait) {
    try {
      rule.limit = parse_duration("--wait", *wait, Zero::allowed);
    } catch (UsageError& e) {
      std::uint64_t number = 0;
      if (!weight.empty() && parse_whole(*wait, number)) {
        e.text += "; for " + *wait + " permits write " + std::string(weight) + *wait;
      }
      throw;
    }
  }
  if (arguments.has("--no-wait")) rule.limit = std::chrono::nanoseconds::zero();
  if (const auto code = arguments.value("--conflict-exit-code")) {
    if (!parse_whole(*code, rule.conflict_code) || rule.conflict_code < 0 || rule.conflict_code > 255) {
      throw UsageError{"-E: '" + *code + "' is not an exit code; give a number from 0 to 255"};
    }
  }
  return rule;
}

std::optional<std::string> reason_of(const Arguments& arguments) {
  auto reason = arguments.value("--reason");
  if (reason && reason->size() > engine::max_reason) {
    throw UsageError{"--reason: " + std::to_string(reason->size()) + " bytes are too many; give at most 4096"};
  }
  return reason;
}

StopSignals::StopSignals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&set_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set_, &original_);
}

std::int64_t deadline_of(const WaitRule& rule) {
  if (!rule.limit) return process::no_deadline;
  if (rule.limit->count() == 0) return process::try_once;
  return process::real_clock().now_ns() + rule.limit->count();
}

Acquired acquire_aloud(PrimitiveClient& client, const process::Request& request, std::int64_t deadline_ns,
                       const StopSignals& signals, std::optional<process::Answer> tried) {
  Acquired got{tried ? *std::move(tried) : client.acquire(request, process::try_once), 0};
  if (!got.outcome && !got.outcome.impossible && deadline_ns != process::try_once) {
    if (waits_for_outer_run(client, request, deadline_ns)) {
      got.outcome.result = AcquireResult::deadlock;
      got.outer_run = true;
      return got;
    }
    Companion companion(client, request, signals);
    got.outcome = client.acquire(request, deadline_ns, companion.token());
    got.signal = companion.finish();
    if (got.signal != 0 && got.outcome && !got.outcome.increased) {
      // Granted and interrupted at once. The signal is used up, so it has to win; but what there was before is not ours
      // to give back.
      (void)client.release(request.holder);
      got.outcome = process::Answer{};
      got.outcome.result = AcquireResult::cancelled;
    }
  }
  if (got.outcome.previous) say(takeover_text(client, *got.outcome.previous));
  return got;
}

int say_not_acquired(PrimitiveClient& client, const process::Request& request, const Acquired& got,
                     const WaitRule& rule) {
  const bool is_lock = client.kind() == engine::Kind::lock;
  const std::string title = title_of(client);
  const std::string_view result = result_text(client, got.outcome);
  const auto text = [&](const std::string& how) {
    const std::string occupancy = occupancy_text(client, got.outcome.current);
    // A share of a lock, too, that others came first for.
    const bool queue = got.outcome.available >= request.weight;
    return title + " " + how + ": " + occupancy + (queue && !occupancy.empty() ? "; " : "") +
           (queue ? "others wait for it and come first" : "");
  };
  const auto busy = [&](const std::string& how) {
    say_error(result, text(is_lock ? how : how + " (" + std::to_string(request.weight) + " asked for)"));
    return rule.conflict_code;
  };
  if (got.outcome.impossible) {
    say_error(result, client.too_much_text(request.weight));
    return exit_busy;
  }
  switch (got.outcome.result) {
    case AcquireResult::cancelled:
      say_error(result, "interrupted while waiting for " + wanted_text(client, request) + "; left the queue");
      return exit_by_signal + got.signal;
    case AcquireResult::timed_out:
      return busy((is_lock ? "was not free within " : "had no room within ") + format_duration(*rule.limit));
    case AcquireResult::deadlock:
      if (got.outer_run) {
        say_error(result, text("would never be free (deadlock)") +
                              "; that is the `shmcoord run` around this command, which gives it back only when this "
                              "has ended: it is held already, so leave the inner one out, or use another " +
                              std::string(word_of(client.kind())));
      } else {
        const std::string circle = got.outcome.circle.empty()
                                       ? "another one that shares it waits for the others to end already, and so for "
                                         "this one; give this share back, and acquire again"
                                       : to_string(got.outcome.circle);
        say_error(result, title + " would never be free (deadlock): " + circle);
      }
      return exit_busy;
    default: return busy(is_lock ? "is busy" : "is full");
  }
}

}  // namespace shmcoord::tool
