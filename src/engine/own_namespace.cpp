#include "engine/own_namespace.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shmcoord::engine {
namespace {

// PIDFD_GET_PID_NAMESPACE and PIDFD_GET_TIME_NAMESPACE, which older headers do not have.
constexpr unsigned long get_pid_namespace = _IO(0xFF, 5);
constexpr unsigned long get_time_namespace = _IO(0xFF, 7);

std::uint64_t inode_and_close(int fd) noexcept {
  if (fd < 0) return 0;
  struct stat st {};
  const bool known = ::fstat(fd, &st) == 0;
  ::close(fd);
  return known ? st.st_ino : 0;
}

std::uint64_t by_pidfd(NamespaceKind kind) noexcept {
  const auto self = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0U));
  if (self < 0) return 0;
  const std::uint64_t inode =
      inode_and_close(::ioctl(self, kind == NamespaceKind::pid ? get_pid_namespace : get_time_namespace, 0));
  ::close(self);
  return inode;
}

}  // namespace

std::uint64_t own_namespace(NamespaceKind kind) noexcept {
  struct stat st {};
  const char* const path = kind == NamespaceKind::pid ? "/proc/self/ns/pid" : "/proc/self/ns/time";
  return ::stat(path, &st) == 0 ? st.st_ino : by_pidfd(kind);
}

}  // namespace shmcoord::engine
