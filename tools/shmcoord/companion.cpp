#include "shmcoord/companion.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "shmcoord/error.hpp"

namespace shmcoord::tool {
namespace {

// Somebody who looks at a terminal wants to know soon; a log wants no line for each short wait.
constexpr int first_line_on_terminal_ms = 150;
constexpr int first_line_ms = 1000;

}  // namespace

StopSignals::StopSignals() {
  ::sigemptyset(&set_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&set_, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set_, &original_);
}

Companion::Companion(const StopSignals& signals, Tell tell)
    : tell_(std::move(tell)),
      signal_fd_(::signalfd(-1, &signals.set(), SFD_CLOEXEC | SFD_NONBLOCK)),
      done_fd_(::eventfd(0, EFD_CLOEXEC)) {
  if (signal_fd_ < 0 || done_fd_ < 0)
    throw Error(Errc::system, std::string("signalfd, eventfd: ") + std::strerror(errno));
  thread_ = std::thread([this] { run(); });
}

Companion::~Companion() {
  finish();
  ::close(signal_fd_);
  ::close(done_fd_);
}

int Companion::finish() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!::write(done_fd_, &one, sizeof one);
    thread_.join();
  }
  return signal_;
}

void Companion::run() {
  int timeout = ::isatty(STDERR_FILENO) == 1 ? first_line_on_terminal_ms : first_line_ms;
  if (!tell_) timeout = no_more;
  for (;;) {
    pollfd fds[] = {{done_fd_, POLLIN, 0}, {signal_fd_, POLLIN, 0}};
    const int n = ::poll(fds, 2, timeout);
    if (n == 0) {
      timeout = tell_();
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

}  // namespace shmcoord::tool
