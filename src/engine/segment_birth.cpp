#include "engine/segment_birth.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "engine/descriptor.hpp"
#include "engine/journal_words.hpp"
#include "engine/random.hpp"
#include "engine/segment_file.hpp"
#include "engine/segment_header.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

std::string text_of(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail(const std::string& what, const std::string& doing, int error) {
  if (error == ENOSPC || error == EDQUOT) {
    throw Error(Errc::no_space, what + ": " + doing + ": " + text_of(error) +
                                    "; make room in its file system, or create it with fewer names, entries, sessions");
  }
  const bool denied = error == EACCES || error == EPERM || error == EROFS;
  throw Error(denied ? Errc::no_permission : Errc::system, what + ": " + doing + ": " + text_of(error));
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// open() with O_CREAT or O_TMPFILE failed in `directory`.
[[noreturn]] void fail_creation(const std::string& what, const std::string& directory, int error) {
  struct stat st {};
  const bool there = ::stat(directory.c_str(), &st) == 0;
  if (error == ENOENT && !there) {
    const std::string advice =
        directory == segment_directory ? "mount a tmpfs there" : "make it first (mkdir -p), or give a name without '/'";
    throw Error(Errc::system, what + ": the directory " + directory + " does not exist; " + advice);
  }
  if (error == ENOTDIR) {
    throw Error(Errc::system, what + ": " + directory + " is not a directory; give a path in one that exists");
  }
  fail(what, "creating it in " + directory, error);
}

void write_all(int fd, const void* data, std::size_t bytes, std::uint64_t at, const std::string& what) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::pwrite(fd, from, bytes, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(what, "writing it", n < 0 ? errno : EIO);
    from += n;
    at += static_cast<std::uint64_t>(n);
    bytes -= static_cast<std::size_t>(n);
  }
}

void allocate(int fd, std::uint64_t from, std::uint64_t to, const std::string& what) {
  while (::fallocate(fd, 0, static_cast<off_t>(from), static_cast<off_t>(to - from)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) {
      throw Error(Errc::unsupported,
                  what + ": its file system cannot reserve space (fallocate); use one that can, as tmpfs");
    }
    fail(what, "reserving its first pages", errno);
  }
}

/// Everything but the name.
void build(int fd, const BirthOptions& options, const std::string& what) {
  refuse_network_file_system(fd, what);
  if (options.group && ::fchown(fd, static_cast<uid_t>(-1), *options.group) != 0) {
    fail(what, "giving it to group " + std::to_string(*options.group), errno);
  }
  if (::fchmod(fd, options.mode) != 0) fail(what, "setting its mode", errno);
  const Geometry geo = geometry_of(options.sizes);
  // Beyond this limit ftruncate would not only fail but kill the process with SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < geo.total) {
    throw Error(Errc::no_space, what + ": its size, " + std::to_string(geo.total) +
                                    " bytes (sparse), is above this process's limit of " +
                                    std::to_string(limit.rlim_cur) + " (ulimit -f)");
  }
  if (::ftruncate(fd, static_cast<off_t>(geo.total)) != 0) fail(what, "setting its size", errno);

  std::vector<std::uint64_t> bitmap((geo.buckets - geo.bitmap) / sizeof(std::uint64_t));
  const auto exists = [&](std::uint64_t from, std::uint64_t to) {
    allocate(fd, from, to, what);
    for (std::uint64_t page = from / page_size; page < to / page_size; ++page) bitmap[page / 64] |= 1ULL << (page % 64);
  };
  exists(0, geo.directory);  // header, bitmap, buckets
  exists(geo.slots, geo.slots + page_size);

  Header header = make_header(options.sizes, HostFacts::read(), random_word());
  header.flags = options.flags;
  if ((options.flags & journal_always) != 0) {
    header.journal.raw = static_cast<std::uint64_t>(JournalState::on);
    exists(geo.journal, geo.total);
  }
  SessionSlot detached{};
  detached.id.raw = pack(SlotId{SlotState::permanent, 1});
  detached.session_id = random_word();
  detached.uid = ::geteuid();
  constexpr std::string_view label = "detached";
  label.copy(detached.label.data(), label.size());
  write_all(fd, bitmap.data(), bitmap.size() * sizeof(std::uint64_t), geo.bitmap, what);
  write_all(fd, &detached, sizeof detached, geo.slots + detached_slot * sizeof detached, what);
  write_all(fd, &header, sizeof header, 0, what);
}

Named link_unnamed(int fd, const std::string& path, BirthWay way) {
  int r = -1;
  if (way == BirthWay::proc_link) {
    const std::string proc = "/proc/self/fd/" + std::to_string(fd);
    r = ::linkat(AT_FDCWD, proc.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW);
  } else {
    r = ::linkat(fd, "", AT_FDCWD, path.c_str(), AT_EMPTY_PATH);
  }
  if (r == 0) return Named::yes;
  return errno == EEXIST ? Named::taken : Named::impossible;
}

int build_unnamed(const std::string& path, const BirthOptions& options, const std::string& what, BirthWay first,
                  bool* impossible) {
  const std::string directory = directory_of(path);
  occupy_standard_descriptors();
  Descriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.get() < 0) {
    // What file systems and kernels say that do not know it.
    *impossible = errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
    if (*impossible) return -1;
    fail_creation(what, directory, errno);
  }
  build(file.get(), options, what);
  for (const BirthWay way : {BirthWay::proc_link, BirthWay::empty_path_link}) {
    if (way < first) continue;
    const Named named = link_unnamed(file.get(), path, way);
    if (named == Named::yes) return file.release();
    if (named == Named::taken) return -1;
  }
  *impossible = true;
  return -1;
}

int build_named(const std::string& path, const BirthOptions& options, const std::string& what) {
  const std::string directory = directory_of(path);
  constexpr int tries = 100;
  for (int i = 0; i < tries; ++i) {
    const std::string temporary = temporary_beside(path);
    occupy_standard_descriptors();
    Descriptor file(::open(temporary.c_str(), O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) {
      if (errno == EEXIST) continue;
      fail_creation(what, directory, errno);
    }
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;  // taken for a stale one, and about to be removed
    try {
      build(file.get(), options, what);
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
    const Named named = give_name(temporary, path);
    const int error = errno;
    if (named == Named::yes) {
      ::flock(file.get(), LOCK_UN);
      return file.release();
    }
    if (named == Named::impossible && error == ENOENT) continue;  // likewise
    ::unlink(temporary.c_str());
    if (named == Named::taken) return -1;
    fail(what, "giving it its name", error);
  }
  throw Error(Errc::system, what + ": its temporary file was removed " + std::to_string(tries) + " times");
}

bool same_file(const struct stat& a, const struct stat& b) noexcept {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

std::string temporary_beside(const std::string& path) {
  const std::string directory = directory_of(path);
  char suffix[17];
  std::snprintf(suffix, sizeof suffix, "%016llx", static_cast<unsigned long long>(random_word()));
  return (directory == "/" ? "" : directory) + "/" + temporary_prefix + suffix;
}

Named give_name(const std::string& temporary, const std::string& path) {
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return Named::yes;
  if (errno == EEXIST) return Named::taken;
  if (errno != EINVAL && errno != ENOSYS) return Named::impossible;
  // Not every file system knows the flag; a link does not replace anything either.
  if (::link(temporary.c_str(), path.c_str()) != 0) return errno == EEXIST ? Named::taken : Named::impossible;
  ::unlink(temporary.c_str());
  return Named::yes;
}

void refuse_network_file_system(int fd, const std::string& what) {
  struct statfs fs {};
  if (::fstatfs(fd, &fs) != 0) fail(what, "asking for its file system", errno);
  // FUSE is among them: it may be sshfs, and a false exclusion is worse than a refusal.
  const struct {
    unsigned long magic;
    const char* name;
  } refused[] = {{0x6969, "NFS"},      {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB"},    {0x517B, "SMB"},
                 {0x01021997, "9P"},   {0x00C36400, "Ceph"}, {0x5346414F, "AFS"},    {0x6B414653, "AFS"},
                 {0x73757245, "Coda"}, {0x65735546, "FUSE"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}};
  for (const auto& one : refused) {
    if (static_cast<unsigned long>(fs.f_type) == one.magic) {
      throw Error(Errc::segment_foreign, what + ": it is on a " + one.name +
                                             " file system, where processes do not share memory; use one in /dev/shm");
    }
  }
}

int give_birth(const std::string& path, const BirthOptions& options, const std::string& what, BirthWay first) {
  if (const std::string fault = check_sizes(options.sizes); !fault.empty()) {
    throw Error(Errc::invalid_argument, what + ": a segment cannot have " + fault);
  }
  if (options.group == static_cast<gid_t>(-1)) {
    throw Error(Errc::invalid_argument,
                what + ": there is no group 4294967295; it stands for \"leave the group as it is\"");
  }
  if ((options.mode & ~mode_t{0777}) != 0 || (options.mode & 0600U) != 0600U) {
    char mode[16];
    std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(options.mode));
    throw Error(Errc::invalid_argument,
                what + ": mode " + mode + " is not within 0777 with read and write for its owner");
  }
  if (first != BirthWay::temporary_name) {
    bool impossible = false;
    const int fd = build_unnamed(path, options, what, first, &impossible);
    if (!impossible) return fd;
  }
  return build_named(path, options, what);
}

void clean_temporaries(const std::string& directory, const std::function<bool(dev_t, ino_t)>& known) {
  DIR* const open_directory = ::opendir(directory.c_str());
  if (open_directory == nullptr) return;
  const int at = ::dirfd(open_directory);
  while (const dirent* const one = ::readdir(open_directory)) {
    const std::string_view name = one->d_name;
    if (name.substr(0, std::strlen(temporary_prefix)) != temporary_prefix) continue;
    struct stat before {};
    if (::fstatat(at, one->d_name, &before, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(before.st_mode)) continue;
    if (known(before.st_dev, before.st_ino)) continue;
    Descriptor file(::openat(at, one->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat opened {};
    if (file.get() < 0 || ::fstat(file.get(), &opened) != 0) continue;
    if (!same_file(before, opened)) {
      if (known(opened.st_dev, opened.st_ino)) (void)file.release();
      continue;
    }
    struct stat now {};
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0 && ::fstatat(at, one->d_name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
        same_file(now, opened)) {
      ::unlinkat(at, one->d_name, 0);
    }
  }
  ::closedir(open_directory);
}

}  // namespace shmcoord::engine
