#include "process/atomic_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "engine/descriptor.hpp"
#include "engine/real_policy.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {
namespace {

using engine::Descriptor;

[[noreturn]] void fail(const std::string& path, const std::string& doing, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  const bool denied = error == EACCES || error == EPERM || error == EROFS;
  const Errc code = full ? Errc::no_space : denied ? Errc::no_permission : Errc::system;
  throw Error(error == ENOENT ? Errc::not_found : code,
              path + ": " + doing + ": " + std::generic_category().message(error));
}

/// Where links lead in the end; what need not be there.
std::string target_of(const std::string& path) {
  struct Free {
    void operator()(char* p) const noexcept { std::free(p); }
  };
  const std::unique_ptr<char, Free> real(::realpath(path.c_str(), nullptr));
  if (real) return real.get();
  struct stat st {};
  if (errno == ENOENT && ::lstat(path.c_str(), &st) == 0) fail(path, "following the link", ENOENT);
  return path;
}

std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

/// What killed writers left; a living one has its file locked.
void clean(int directory, const std::string& prefix) {
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const listing = own < 0 ? nullptr : ::fdopendir(own);
  if (listing == nullptr) {
    if (own >= 0) ::close(own);
    return;
  }
  while (const dirent* const one = ::readdir(listing)) {
    if (!std::string_view(one->d_name).starts_with(prefix)) continue;
    const Descriptor file(::openat(directory, one->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.get() >= 0 && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlinkat(directory, one->d_name, 0);
  }
  ::closedir(listing);
}

/// False: who cleaned up took our file, which was not locked yet, for one of a dead writer.
bool try_to_replace(const std::string& path, int directory, const std::string& name, mode_t mode,
                    std::string_view content) {
  const std::string prefix = "." + name + ".new.";
  clean(directory, prefix);
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) fail(path, "getrandom", errno);
  char suffix[17];
  std::snprintf(suffix, sizeof suffix, "%016llx", static_cast<unsigned long long>(random));
  const std::string temporary = prefix + suffix;
  const Descriptor file(
      ::openat(directory, temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail(path, "making a file beside it", errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const auto give_up = [&](const char* doing) {
    const int error = errno;
    ::unlinkat(directory, temporary.c_str(), 0);
    fail(path, doing, error);
  };
  if (::fchmod(file.get(), mode) != 0) give_up("setting its mode");
  for (std::size_t at = 0; at < content.size();) {
    const ssize_t n = ::write(file.get(), content.data() + at, content.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) give_up("writing it");
    at += static_cast<std::size_t>(n);
  }
  if (::fsync(file.get()) != 0) give_up("fsync");
  if (::renameat(directory, temporary.c_str(), directory, name.c_str()) != 0) {
    if (errno == ENOENT) return false;
    give_up("renaming it");
  }
  if (::fsync(directory) != 0) fail(path, "fsync of its directory", errno);
  return true;
}

}  // namespace

FileReplacement::FileReplacement(std::string path) : path_(std::move(path)), directory_(-1) {
  if (path_.empty()) throw Error(Errc::invalid_argument, "the name of the file is empty");
  const auto [parent, name] = split(target_of(path_));
  if (name.empty()) throw Error(Errc::invalid_argument, path_ + ": this names a directory; give the name of a file");
  name_ = name;
  directory_ = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0) fail(path_, "opening its directory", errno);
  struct stat there {};
  const bool exists = ::fstatat(directory_, name_.c_str(), &there, 0) == 0;
  if (exists) mode_ = there.st_mode & 07777U;
  // Nobody needs long for it, so who does was stopped; it is asked now and then, since flock() knows no deadline.
  constexpr int most_asks = 500;
  constexpr std::int64_t between_ns = 20'000'000;
  bool locked = ::flock(directory_, LOCK_EX | LOCK_NB) == 0;
  for (int n = 0; n < most_asks && !locked; ++n) {
    const engine::Word32 nobody_wakes;
    const engine::WaitOn word{&nobody_wakes, 0};
    engine::RealPolicy::wait({&word, 1}, engine::RealPolicy::now_ns() + between_ns);
    locked = ::flock(directory_, LOCK_EX | LOCK_NB) == 0;
  }
  if (locked && (!exists || S_ISREG(there.st_mode))) return;
  ::close(directory_);
  if (locked) throw Error(Errc::invalid_argument, path_ + ": this is no regular file");
  throw Error(Errc::in_use, path_ + ": another process has its directory locked (flock) for ten seconds already");
}

FileReplacement::~FileReplacement() { ::close(directory_); }

void FileReplacement::write(std::string_view content) const {
  constexpr int tries = 100;
  for (int n = 0; n < tries; ++n) {
    if (try_to_replace(path_, directory_, name_, mode_, content)) return;
  }
  throw Error(Errc::system, path_ + ": the file beside it was removed " + std::to_string(tries) + " times");
}

std::string read_whole_file(const std::string& path, std::size_t most) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) fail(path, "opening it", errno);
  struct stat st {};
  if (::fstat(file.get(), &st) != 0) fail(path, "looking at it", errno);
  if (!S_ISREG(st.st_mode)) throw Error(Errc::invalid_argument, path + ": this is no regular file");
  std::string content;
  char buffer[65'536];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path, "reading it", errno);
    if (n == 0) return content;
    content.append(buffer, static_cast<std::size_t>(n));
    if (content.size() > most) {
      throw Error(Errc::invalid_argument, path + ": it is larger than " + std::to_string(most) + " bytes");
    }
  }
}

}  // namespace shmcoord::process
