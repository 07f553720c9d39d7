#include "shmcoord/run_terminal.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

namespace shmcoord::tool {
namespace {

int open_terminal() noexcept { return ::open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY); }

}  // namespace

Terminal::Terminal() {
  if (::isatty(STDIN_FILENO) != 1) return;
  fd_ = open_terminal();
  at_start_ = fd_ >= 0 && ::isatty(STDOUT_FILENO) == 1;
}

Terminal::~Terminal() {
  if (fd_ >= 0) ::close(fd_);
}

bool Terminal::wanted_at_start() const noexcept { return at_start_ && ::tcgetpgrp(fd_) == ::getpgrp(); }

bool Terminal::ours() noexcept {
  if (fd_ < 0) fd_ = open_terminal();
  return fd_ >= 0 && ::tcgetpgrp(fd_) == ::getpgrp();
}

void Terminal::give_to(pid_t group) noexcept { (void)::tcsetpgrp(fd_, group); }

bool Terminal::take_back(pid_t group) noexcept {
  if (fd_ < 0 || group == 0 || ::tcgetpgrp(fd_) != group) return false;
  (void)::tcsetpgrp(fd_, ::getpgrp());
  return true;
}

void stop(Stops whom, int signal) noexcept {
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::kill(whom == Stops::my_group ? 0 : ::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);  // here we stop
  ::pthread_sigmask(SIG_BLOCK, &only, nullptr);
}

}  // namespace shmcoord::tool
