#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <iostream>
#include <string>

// A /dev/shm of 1 MiB that only one child process and its children see, and a way to leave exactly so many pages in it.

namespace shmcoord::test {

inline constexpr std::uint64_t shm_page = 4096;

/// Takes all of /dev/shm but what it is told to leave.
class Filler {
 public:
  Filler() : fd_(::open("/dev/shm/filler", O_CREAT | O_RDWR | O_CLOEXEC, 0600)) {}
  ~Filler() { ::close(fd_); }
  Filler(const Filler&) = delete;
  Filler& operator=(const Filler&) = delete;

  static std::uint64_t free_pages() {
    struct statvfs fs {};
    return ::statvfs("/dev/shm", &fs) == 0 ? fs.f_bavail * fs.f_frsize / shm_page : 0;
  }
  void leave(std::uint64_t pages) {
    empty();
    const std::uint64_t free = free_pages();
    ASSERT_GT(free, pages);
    ASSERT_EQ(::fallocate(fd_, 0, 0, static_cast<off_t>((free - pages) * shm_page)), 0);
    ASSERT_EQ(free_pages(), pages);
  }
  void empty() { ASSERT_EQ(::ftruncate(fd_, 0), 0); }

 private:
  int fd_;
};

enum class Ran : std::uint8_t { yes, not_allowed };

/// Runs `body` in a child whose /dev/shm is a tmpfs of 1 MiB; its EXPECTs count there, and end here as one. A signal
/// that ends the child is a failure.
[[nodiscard]] inline Ran with_small_shm(const std::function<void()>& body) {
  constexpr int not_allowed = 77;
  std::cout << std::flush;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777,size=1m") != 0) {
      ::_exit(not_allowed);
    }
    ::alarm(100);
    try {
      body();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    std::cout << std::flush;
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_allowed) return Ran::not_allowed;
  EXPECT_FALSE(WIFSIGNALED(status)) << "ended by signal " << WTERMSIG(status);
  EXPECT_EQ(status, 0) << "see above";
  return Ran::yes;
}

}  // namespace shmcoord::test
