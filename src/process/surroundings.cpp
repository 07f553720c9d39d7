#include "process/surroundings.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "engine/own_namespace.hpp"
#include "process/identity.hpp"

namespace shmcoord::process {
namespace {

Surroundings::Proc own_proc() {
  if (proc_shows_own_namespace()) return Surroundings::Proc::own;
  return ::access("/proc/self/status", R_OK) == 0 ? Surroundings::Proc::foreign : Surroundings::Proc::missing;
}

bool has_pidfd() noexcept {
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U));
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

Surroundings own_surroundings() {
  return {own_proc(), has_pidfd(), has_futex_waitv(), engine::own_namespace(engine::NamespaceKind::time) != 0};
}

bool has_futex_waitv() noexcept {
  // No words at all are an error of the caller's, unless the call itself is refused.
  return ::syscall(SYS_futex_waitv, nullptr, 0U, 0U, nullptr, 0) == 0 || errno == EINVAL;
}

}  // namespace shmcoord::process
