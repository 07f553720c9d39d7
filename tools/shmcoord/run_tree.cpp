#include "shmcoord/run_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "process/identity.hpp"
#include "shmcoord/numbers.hpp"

namespace shmcoord::tool {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  ::close(fd);
  return text;
}

pid_t parse_pid(std::string_view text) {
  pid_t pid = 0;
  return parse_whole(text, pid) && pid > 0 ? pid : 0;
}

template <class Fn>
bool for_each_number(const char* directory, Fn&& fn) {
  DIR* const dir = ::opendir(directory);
  if (dir == nullptr) return false;
  while (const dirent* const entry = ::readdir(dir)) {
    if (const pid_t pid = parse_pid(entry->d_name); pid != 0) fn(pid);
  }
  ::closedir(dir);
  return true;
}

/// For kernels without the `children` file.
std::vector<pid_t> children_by_scan() {
  std::vector<pid_t> found;
  const pid_t self = ::getpid();
  for_each_number("/proc", [&](pid_t pid) {
    const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    if (!stat) return;
    // "pid (comm) S ppid …"; comm may contain anything, also ')'.
    const auto close = stat->rfind(')');
    if (close == std::string::npos || close + 4 >= stat->size()) return;
    const auto from = close + 4;
    const auto to = stat->find(' ', from);
    if (parse_pid(std::string_view(*stat).substr(from, to - from)) == self) found.push_back(pid);
  });
  return found;
}

/// While one of our children, ended or not, is in the group, its number is nobody else's. Asked of the kernel, not of
/// /proc, which may be missing.
bool child_in(pid_t group) noexcept {
  siginfo_t info{};
  int r = 0;
  do {
    r = ::waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT);
  } while (r != 0 && errno == EINTR);
  return r == 0;
}

}  // namespace

std::vector<pid_t> children_of_this_process() {
  std::vector<pid_t> found;
  if (!process::proc_shows_own_namespace()) return found;  // its numbers are other processes' here
  bool readable = false;
  for_each_number("/proc/self/task", [&](pid_t task) {
    const auto text = read_file("/proc/self/task/" + std::to_string(task) + "/children");
    if (!text) return;
    readable = true;
    std::string_view rest = *text;
    while (!rest.empty()) {
      const auto blank = rest.find(' ');
      if (const pid_t pid = parse_pid(rest.substr(0, blank)); pid != 0) found.push_back(pid);
      if (blank == std::string_view::npos) break;
      rest.remove_prefix(blank + 1);
    }
  });
  return readable ? found : children_by_scan();
}

void signal_others(int signal, pid_t group) noexcept {
  try {
    for (const pid_t child : children_of_this_process()) {
      if (::getpgid(child) != group) ::kill(child, signal);
    }
  } catch (...) {
    // No memory: who wants them gone tries again.
  }
}

void signal_children(int signal, pid_t group) noexcept {
  signal_others(signal, group);
  if (child_in(group)) ::kill(-group, signal);
}

bool reap_ended(pid_t pid, int* status, bool* reaped) noexcept {
  for (;;) {
    int ended_status = 0;
    const pid_t ended = ::waitpid(-1, &ended_status, WNOHANG);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) return false;
    if (ended == 0) return true;
    if (ended == pid) {
      *status = ended_status;
      *reaped = true;
    }
  }
}

void end_tree(pid_t group, pid_t pid, int* status, bool* reaped) noexcept {
  // A child that ends wakes us where SIGCHLD is blocked, as it is in the guardian. One that is handed up announces
  // itself by nothing, so the look is repeated.
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  for (long pause_ns = 1'000'000; reap_ended(pid, status, reaped); pause_ns = std::min(pause_ns * 2, 20'000'000L)) {
    signal_children(SIGKILL, group);
    const timespec pause{0, pause_ns};
    (void)::sigtimedwait(&child, nullptr, &pause);
  }
}

}  // namespace shmcoord::tool
