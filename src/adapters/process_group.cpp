#include "adapters/process_group.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "adapters/time_left.hpp"

// Ending exactly what a command started.
//
// Problem: a process group is named by a number, and a number may be used again. While its leader is not reaped, or
// anything is in the group, the kernel gives the number to nobody else. So once the leader is reaped, a group of that
// number is ours as long as no process of that number exists: a new group would have begun with one. What is left is
// the moment between that look and the signal, in which the last of ours would have to end, all numbers to be used up,
// and a stranger to lead a group of just this one.
//
// Reaping asks for this child alone, by its pidfd, so the host program's other children are never taken from it. The
// host may still have taken ours (SIGCHLD ignored, or a wait for any child): then how it ended is not known.
//
// A zombie is in its group until somebody reaps it, in some containers nobody ever does: it counts as gone.
//
// If we die here, the group goes on; nobody of it knows us.

namespace shmcoord::adapters {
namespace {

constexpr std::chrono::seconds death{1};  // from SIGKILL, for a machine that is busy

// Of /proc/N/stat: is it in that group, and more than a zombie?
bool lives_in(pid_t group, const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');         // nothing, if it ends just now
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return false;
  std::istringstream fields(text.substr(name_end + 1));
  char state = 0;
  pid_t parent = 0;
  pid_t its_group = 0;
  fields >> state >> parent >> its_group;
  return fields && its_group == group && state != 'Z' && state != 'X';
}

// Asked only of a group that outlives its leader: it looks at every process. Without a /proc, what is there lives.
bool anybody_lives(pid_t group) {
  std::error_code error;
  std::filesystem::directory_iterator at("/proc", error);
  bool seen = false;
  while (!error && at != std::filesystem::directory_iterator()) {
    const std::string name = at->path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos) {
      seen = true;
      if (lives_in(group, at->path())) return true;
    }
    at.increment(error);
  }
  return error || !seen;
}

}  // namespace

ProcessGroup::ProcessGroup(pid_t leader)
    : leader_(leader), descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, leader, 0U))) {}

ProcessGroup::~ProcessGroup() {
  if (status_ == Status::running) {
    const auto wait = [](std::chrono::nanoseconds most) { (void)::poll(nullptr, 0, poll_timeout(most)); };
    (void)end(std::chrono::nanoseconds::zero(), wait);
  }
  if (status_ != Status::running) return;
  try {
    std::thread([pid = leader_] {
      siginfo_t info{};
      while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
      }
    }).detach();
  } catch (const std::system_error&) {
    return;  // a zombie until we end
  }
}

ProcessGroup::Status ProcessGroup::status() {
  if (status_ != Status::running) return status_;
  siginfo_t info{};
  const bool by_descriptor = descriptor_.valid();
  const int result = by_descriptor ? ::waitid(P_PIDFD, static_cast<id_t>(descriptor_.get()), &info, WEXITED | WNOHANG)
                                   : ::waitid(P_PID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG);
  if (result != 0) {
    if (errno == ECHILD) status_ = Status::unknown;
  } else if (info.si_pid != 0) {
    status_ = info.si_code == CLD_EXITED ? Status::exited : Status::signalled;
    code_ = info.si_status;
  }
  return status_;
}

bool ProcessGroup::is_there() {
  if (status() == Status::running) return true;
  // Where orphans come to us (a subreaper, or the first process of a container), they are ours to reap.
  const auto reap_one = [&] {
    siginfo_t info{};
    return ::waitid(P_PGID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0;
  };
  for (;;) {
    if (::kill(-leader_, 0) != 0 && errno == ESRCH) return false;
    if (::kill(leader_, 0) == 0 || errno != ESRCH) return false;  // the number is another's now
    if (reap_one()) continue;
    if (anybody_lives(leader_)) return true;
    if (!reap_one()) return false;  // else it died between the two looks
  }
}

void ProcessGroup::signal(int number) {
  if (is_there()) (void)::kill(-leader_, number);
}

bool ProcessGroup::wait_until_gone(std::chrono::nanoseconds most,
                                   const std::function<void(std::chrono::nanoseconds)>& wait) {
  const std::chrono::steady_clock::time_point now{std::chrono::nanoseconds(process::real_clock().now_ns())};
  const auto until = now + most;
  while (is_there()) {
    const auto left = time_left(until);
    if (left <= std::chrono::nanoseconds::zero()) return false;
    wait(std::min<std::chrono::nanoseconds>(left, look_again));
  }
  return true;
}

bool ProcessGroup::end(std::chrono::nanoseconds grace, const std::function<void(std::chrono::nanoseconds)>& wait) {
  signal(SIGTERM);
  signal(SIGCONT);  // one that is stopped hears nothing else
  if (wait_until_gone(grace, wait)) return true;
  signal(SIGKILL);
  return wait_until_gone(death, wait);
}

}  // namespace shmcoord::adapters
