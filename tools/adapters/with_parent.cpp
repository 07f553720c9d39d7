#include "adapters/with_parent.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shmcoord/exit_codes.hpp"
#include "shmcoord/run_tree.hpp"

namespace shmcoord::tool {
namespace {

constexpr const char* word = "--with-parent";
constexpr const char* this_program = "/proc/self/exe";
constexpr pid_t no_group = -1;  // its members are children of ours, or come to us

struct Ended {
  int status = 0;
  bool reaped = false;
};

[[noreturn]] void end_as(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    ::prctl(PR_SET_DUMPABLE, 0);  // one core is enough
    ::signal(signal, SIG_DFL);
    sigset_t all;
    ::sigfillset(&all);
    ::raise(signal);
    ::sigprocmask(SIG_UNBLOCK, &all, nullptr);
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : exit_by_signal + WTERMSIG(status));
}

[[noreturn]] void run(pid_t parent, char** command) {
  const int orphaned = SIGRTMIN;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, orphaned);
  if (::getppid() != parent) ::_exit(exit_internal);  // it died before that
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    ::execvp(command[0], command);
    ::_exit(errno == ENOENT ? exit_not_found : exit_cannot_execute);
  }
  if (pid < 0) ::_exit(exit_cannot_execute);
  sigset_t heard;
  ::sigemptyset(&heard);
  ::sigaddset(&heard, SIGCHLD);
  ::sigaddset(&heard, orphaned);
  Ended ended;
  for (;;) {
    const int signal = ::sigwaitinfo(&heard, nullptr);
    if (signal == orphaned) {
      end_tree(no_group, pid, &ended.status, &ended.reaped);
      ::_exit(exit_internal);
    }
    (void)reap_ended(pid, &ended.status, &ended.reaped);
    if (ended.reaped) end_as(ended.status);
  }
}

}  // namespace

std::vector<std::string> with_parent() {
  if (::access(this_program, X_OK) != 0) return {};
  return {this_program, word, std::to_string(::getpid())};
}

void run_with_parent(int argc, char** argv) {
  if (argc > 3 && std::strcmp(argv[1], word) == 0) run(static_cast<pid_t>(std::strtol(argv[2], nullptr, 10)), argv + 3);
}

}  // namespace shmcoord::tool
