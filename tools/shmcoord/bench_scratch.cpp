#include "shmcoord/bench_scratch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "engine/segment_name.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"

namespace shmcoord::tool {
namespace {

constexpr std::string_view prefix = "shmcoord-bench-";

std::string in_shm(std::string_view name) { return std::string(engine::segment_directory) + '/' + std::string(name); }

std::vector<std::string> names_in(DIR* open) {
  std::vector<std::string> names;
  while (const dirent* const e = ::readdir(open)) {
    const std::string_view name = static_cast<const char*>(e->d_name);
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

/// Of a directory that nobody else uses, and its files.
void remove_directory(const std::string& path, int fd) {
  const int again = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const open = again < 0 ? nullptr : ::fdopendir(again);
  if (open != nullptr) {
    for (const std::string& name : names_in(open)) ::unlinkat(fd, name.c_str(), 0);
    ::closedir(open);
  }
  ::rmdir(path.c_str());
}

/// Locked, and still the directory at its path: -1 if not.
int lock_directory(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat own {};
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &own) == 0 && own.st_uid == ::geteuid() && own.st_nlink > 0)
    return fd;
  ::close(fd);
  return -1;
}

void remove_what_the_killed_left() {
  DIR* const shm = ::opendir(std::string(engine::segment_directory).c_str());
  if (shm == nullptr) return;
  const std::vector<std::string> names = names_in(shm);
  ::closedir(shm);
  for (const std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    const int fd = lock_directory(in_shm(name));
    if (fd < 0) continue;
    remove_directory(in_shm(name), fd);
    ::close(fd);
  }
}

}  // namespace

BenchScratch::BenchScratch() {
  remove_what_the_killed_left();
  // Another run that cleans up at this moment may take a new directory, not yet locked, for one that was left.
  for (int tries_left = 100; fd_ < 0 && tries_left > 0; --tries_left) {
    path_ = in_shm(std::string(prefix) + std::to_string(::getpid()) + "-XXXXXX");
    if (::mkdtemp(path_.data()) == nullptr) {
      throw Refusal{
          exit_unusable, "system",
          "cannot make a directory in " + std::string(engine::segment_directory) + ": " + std::strerror(errno)};
    }
    fd_ = lock_directory(path_);
  }
  if (fd_ < 0) throw Refusal{exit_unusable, "system", "cannot lock " + path_ + ": " + std::strerror(errno)};
  const int file = ::openat(fd_, "flock", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) {
    const std::string why = std::strerror(errno);
    remove_directory(path_, fd_);
    ::close(fd_);
    throw Refusal{exit_unusable, "system", "cannot make a file in " + path_ + ": " + why};
  }
  ::close(file);
}

BenchScratch::~BenchScratch() {
  remove_directory(path_, fd_);
  ::close(fd_);
}

}  // namespace shmcoord::tool
