#include "process/bound_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "engine/real_policy.hpp"
#include "process/identity.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {

void bind(engine::Entry& entry, std::int32_t pid) {
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
  if (pid != 0) {
    const auto started = pid > 0 ? start_time_of(pid) : std::nullopt;
    if (!started) {
      throw Error(Errc::invalid_argument, "there is no process " + std::to_string(pid) + " to bind the hold to");
    }
    start_time = *started;
    pid_namespace = own_pid_namespace();
  }
  engine::RealPolicy::set(entry.bound_start_time, start_time);
  engine::RealPolicy::set(entry.bound_pid_namespace, pid_namespace);
  engine::RealPolicy::set(entry.bound_pid, pid);
}

BoundWatch::BoundWatch(std::int32_t pid, std::uint64_t start_time, std::uint64_t pid_namespace,
                       std::function<void()> gone)
    : pid_(pid) {
  if (pid_namespace != own_pid_namespace()) return;
  process_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U));
  if (process_fd_ < 0) return;
  // The number may belong to a younger process by now; then the holder's is gone already.
  const auto started = start_time_of(pid);
  if (!started || *started != start_time) {
    gone();
    return;
  }
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
  if (stop_fd_ < 0) return;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([process = process_fd_, stop = stop_fd_, gone = std::move(gone)] {
    pollfd fds[] = {{process, POLLIN, 0}, {stop, POLLIN, 0}};
    while (::poll(fds, 2, -1) < 0) {
    }
    if (fds[0].revents != 0) gone();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

BoundWatch::~BoundWatch() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!::write(stop_fd_, &one, sizeof one);
    thread_.join();
  }
  if (stop_fd_ >= 0) ::close(stop_fd_);
  if (process_fd_ >= 0) ::close(process_fd_);
}

}  // namespace shmcoord::process
