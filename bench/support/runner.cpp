#include "bench/support/runner.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bench/support/comparison.hpp"
#include "bench/support/processes.hpp"
#include "shmcoord/run_tree.hpp"

namespace shmcoord::bench {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {
    if (fd < 0) throw std::system_error(errno, std::generic_category(), "a descriptor of the runner");
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

/// ^C and its like come as something to read, while this lives.
class Interrupts {
 public:
  Interrupts() : fd_(block()) {}
  ~Interrupts() { restore(); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Also in the process of a case, which is to end as any other does.
  void restore() const { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  /// 0: none came.
  [[nodiscard]] int next() const {
    signalfd_siginfo info{};
    return ::read(fd_.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int block() {
    sigset_t watched;
    ::sigemptyset(&watched);
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU}) {
      struct sigaction now {};
      if (::sigaction(s, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) ::sigaddset(&watched, s);
    }
    ::sigprocmask(SIG_BLOCK, &watched, &before_);
    return ::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  sigset_t before_ = {};
  Descriptor fd_;
};

/// Lines that come in pieces.
class Lines {
 public:
  explicit Lines(std::vector<Result>& to) : to_(&to) {}
  /// All that is there just now.
  void read_from(int fd) {
    std::array<char, 65'536> buffer;
    for (ssize_t n = 0; (n = ::read(fd, buffer.data(), buffer.size())) > 0;) {
      text_.append(buffer.data(), static_cast<std::size_t>(n));
    }
    for (auto end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
      to_->push_back(from_line(text_.substr(0, end)));
      text_.erase(0, end + 1);
    }
  }

 private:
  std::vector<Result>* to_;
  std::string text_;
};

[[noreturn]] void be_the_case(const Case& c, int results, int failed) {
  enter_case(results, failed);
  current_case() = c.name;
  std::printf("--- %s: %s\n", c.name.c_str(), c.shows.c_str());
  try {
    c.run();
  } catch (const std::exception& e) {
    fail(c.name + ": " + e.what());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) fail(c.name + ": standard output cannot be written");
  ::_exit(0);
}

/// What became of the case: 0, or a line that says what went wrong.
std::string run_one(const Case& c, const Interrupts& interrupts, Ran& ran) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const Descriptor failed(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const pid_t runner = ::getpid();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != runner) ::_exit(1);
    interrupts.restore();
    ::fcntl(to.get(), F_SETFL, 0);  // who sends a long line waits until it is read
    be_the_case(c, to.get(), failed.get());
  }
  to.close();
  const Descriptor alive(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  Lines lines(ran.results);
  bool told = false;
  while (ran.interrupted == 0 && !told) {
    std::array<pollfd, 4> on{pollfd{from.get(), POLLIN, 0}, pollfd{failed.get(), POLLIN, 0},
                             pollfd{interrupts.fd(), POLLIN, 0}, pollfd{alive.get(), POLLIN, 0}};
    if (::poll(on.data(), on.size(), -1) < 0 && errno != EINTR) throw std::runtime_error(std::strerror(errno));
    lines.read_from(from.get());
    if (on[2].revents != 0) ran.interrupted = interrupts.next();
    told = on[1].revents != 0;
    if (on[3].revents != 0) break;
  }
  // Of a case that ended by itself this takes its status, and what it forgot.
  int status = 0;
  bool reaped = false;
  if (ran.interrupted == 0 && !told) {
    ::waitpid(pid, &status, 0);
    reaped = true;
    const bool forgot = !tool::children_of_this_process().empty();
    tool::end_tree(pid, pid, &status, &reaped);
    if (forgot && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      lines.read_from(from.get());
      remove_leftovers();
      return "left processes behind";
    }
  } else {
    tool::end_tree(pid, pid, &status, &reaped);
  }
  lines.read_from(from.get());
  remove_leftovers();
  // A terminal's ^C goes to the case too, which may be the first to end.
  if (ran.interrupted == 0) ran.interrupted = interrupts.next();
  if (ran.interrupted != 0) return {};
  if (told) return "failed";
  if (WIFSIGNALED(status)) return std::string("ended: ") + ::strsignal(WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? std::string{} : "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

Ran run_cases(const std::vector<Case>& chosen) {
  Ran ran;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const Interrupts interrupts;
  for (std::size_t i = 0; i < chosen.size() && ran.interrupted == 0; ++i) {
    const Case& c = chosen[i];
    progress("[" + std::to_string(i + 1) + "/" + std::to_string(chosen.size()) + "] " + c.name);
    const std::size_t before = ran.results.size();
    std::string problem = run_one(c, interrupts, ran);
    progress("");
    if (ran.interrupted != 0) break;
    if (problem.empty() && ran.results.size() == before) problem = "measured nothing";
    if (problem.empty()) continue;
    std::fprintf(stderr, "shmcoord_bench: case %s %s\n", c.name.c_str(), problem.c_str());
    ran.code = 1;
  }
  return ran;
}

}  // namespace shmcoord::bench
