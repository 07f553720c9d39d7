#include "engine/segment_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>

#include "engine/notice.hpp"
#include "engine/segment_birth.hpp"
#include "engine/segment_header.hpp"
#include "engine/segment_registry.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

namespace bip = boost::interprocess;

/// Record lock of whoever unlinks a removed segment: far behind the bytes that stand for slots.
constexpr off_t unlink_lock_byte = off_t{1} << 40U;
/// allocate(): the file is shorter than the segment.
constexpr int error_truncated = -1;

std::string text_of(int error) { return std::generic_category().message(error); }

std::string describe(const std::string& name, const std::string& path) {
  return name == path ? "segment " + path : "segment \"" + name + "\" (" + path + ")";
}

const char* kind_of(mode_t mode) noexcept {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

void require_regular(mode_t mode, const std::string& what) {
  if (!S_ISREG(mode)) throw Error(Errc::segment_foreign, what + ": it is " + kind_of(mode) + ", not a regular file");
}

[[noreturn]] void fail_open(int error, const std::string& what) {
  if (error == EACCES || error == EPERM || error == EROFS) {
    throw Error(Errc::no_permission,
                what + ": " + text_of(error) + " (as uid " + std::to_string(::geteuid()) + "); see its mode and owner");
  }
  if (error == ELOOP) throw Error(Errc::segment_foreign, what + ": it is a symbolic link, not a regular file");
  throw Error(Errc::system, what + ": cannot be opened: " + text_of(error));
}

Header read_header(int fd, const std::string& what) {
  Header header{};
  auto* const to = reinterpret_cast<char*>(&header);
  for (std::size_t done = 0; done < sizeof header;) {
    const ssize_t n = ::pread(fd, to + done, sizeof header - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Errc::system, what + ": cannot be read: " + text_of(errno));
    if (n == 0) {
      throw Error(Errc::segment_foreign, what + ": not a shmcoord segment: it has " + std::to_string(done) +
                                             " bytes, the header alone has " + std::to_string(sizeof header));
    }
    done += static_cast<std::size_t>(n);
  }
  return header;
}

/// For what another process is about to finish. Gives up loudly rather than wait for one that is stopped.
class Patience {
 public:
  explicit Patience(const std::string& what) : what_(what) {}
  void wait_a_little() {
    if (++rounds_ > 1000) {
      throw Error(Errc::segment_gone, what_ + ": another process is removing it and does not get on; try again");
    }
    const Word32 nothing;
    const WaitOn on{&nothing, 0};
    RealPolicy::wait({&on, 1}, RealPolicy::now_ns() + 2'000'000);
  }

 private:
  const std::string& what_;
  int rounds_ = 0;
};

/// Throws no_permission when unlink() would fail: asked before a segment is marked, since the mark alone ends
/// everybody's holds. What only unlink() itself can find out is found then.
void require_deletable(int fd, const std::string& path, const std::string& what) {
  const auto slash = path.rfind('/');
  const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
  struct stat file {};
  struct stat folder {};
  if (::fstat(fd, &file) != 0 || ::stat(directory.c_str(), &folder) != 0) return;
  const uid_t me = ::geteuid();
  const auto is = [](const std::string& which, std::uint64_t attributes) {
    struct statx s {};
    if (::statx(AT_FDCWD, which.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &s) != 0) return false;
    return (s.stx_attributes & s.stx_attributes_mask & attributes) != 0;
  };
  // A file can be a mount point by itself, in containers often.
  const char* const fixed =
      is(path, STATX_ATTR_MOUNT_ROOT) ? "it is mounted by itself; delete it where it is not"
      : is(path, STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND) || is(directory, STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)
          ? "it, or its directory, is immutable or append-only; see chattr(1)"
          : nullptr;
  if (fixed != nullptr) {
    throw Error(Errc::no_permission, what + ": its file cannot be deleted: " + fixed + ". Nothing was changed");
  }
  const bool sticky = (folder.st_mode & S_ISVTX) != 0 && me != 0 && me != file.st_uid && me != folder.st_uid;
  if (!sticky && ::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
  throw Error(Errc::no_permission, what + ": this process (uid " + std::to_string(me) +
                                       ") may use it, but not delete its file; uid " + std::to_string(file.st_uid) +
                                       " must do it. Nothing was changed");
}

/// Unlinks the path while the file lock is held; false: another process is at it. The lock on the old file makes sure
/// that between the look at the path and the unlink nobody else frees the path, so a new segment of that name is never
/// hit.
template <class StillThere>
bool unlink_locked(int fd, const std::string& path, const std::string& what, StillThere&& still_there) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = unlink_lock_byte;
  lock.l_len = 1;
  if (::fcntl(fd, F_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) return false;
    throw Error(Errc::system, what + ": cannot be locked: " + text_of(errno));
  }
  const int error = still_there() && ::unlink(path.c_str()) != 0 ? errno : 0;
  lock.l_type = F_UNLCK;
  ::fcntl(fd, F_SETLK, &lock);
  if (error == 0 || error == ENOENT) return true;
  throw Error(Errc::no_permission,
              what + ": its file cannot be deleted: " + text_of(error) + "; its owner must delete it");
}

}  // namespace

struct Mapping::Region {
  Region(int fd, bool read_only, std::size_t bytes)
      : memory(Handle{fd}, read_only ? bip::read_only : bip::read_write, 0, bytes) {}

  struct Handle {
    int fd;
    [[nodiscard]] bip::mapping_handle_t get_mapping_handle() const noexcept {
      return bip::ipcdetail::mapping_handle_from_file_handle(fd);
    }
  };
  bip::mapped_region memory;
};

struct Mapping::Checked {
  Checked() = default;
  Checked(const Checked&) = delete;
  Checked& operator=(const Checked&) = delete;
  ~Checked() {
    if (close_it && fd >= 0) ::close(fd);
  }

  int fd = -1;
  bool close_it = false;  // only a descriptor of an inode that the process does not use may ever be closed
  bool read_only = false;
  bool removed = false;
  struct stat st {};
  HeaderVerdict verdict;
};

struct Mapping::Opened {
  enum class End : std::uint8_t { opened, absent, unlinked, busy };
  End end = End::absent;
  std::shared_ptr<Mapping> mapping;  // when opened; when busy, the removed one
};

Mapping::Mapping(std::string name, std::string path, Checked&& file)
    : name_(std::move(name)),
      path_(std::move(path)),
      fd_(file.fd),
      read_only_(file.read_only),
      from_earlier_boot_(file.verdict.from_earlier_boot),
      device_(file.st.st_dev),
      inode_(file.st.st_ino) {
  const std::uint64_t bytes = file.verdict.geometry.total;
  try {
    region_ = std::make_unique<Region>(fd_, read_only_, bytes);
  } catch (const bip::interprocess_exception& e) {
    throw Error(Errc::system, describe(name_, path_) + ": cannot map " + std::to_string(bytes) +
                                  " bytes (sparse): " + e.what() + "; see ulimit -v");
  }
  void* const base = region_->memory.get_address();
  // A core dump would otherwise contain, and allocate, every row of every table.
  ::madvise(base, bytes, MADV_DONTDUMP);
  view_ = View{static_cast<std::byte*>(base), file.verdict.geometry};
  file.close_it = false;
}

Mapping::~Mapping() {
  region_.reset();
  ::close(fd_);
}

/// Everything that can be asked without mapping. Throws Error.
void Mapping::check_file(const std::string& name, const std::string& path, const OpenOptions& options, int fd,
                         Checked* file) {
  const std::string what = describe(name, path);
  file->fd = fd;
  if (::fstat(fd, &file->st) != 0) throw Error(Errc::system, what + ": " + text_of(errno));
  require_regular(file->st.st_mode, what);
  const uid_t owner = file->st.st_uid;
  if (owner != ::geteuid() && owner != 0 && options.trusted_owner != owner) {
    throw Error(Errc::no_permission, what + ": it belongs to uid " + std::to_string(owner) + ", this process is uid " +
                                         std::to_string(::geteuid()) +
                                         "; whoever owns a segment can fake everything in it, so its owner must be "
                                         "root or trusted explicitly (--trust " +
                                         std::to_string(owner) + "; trusted_owner in C++)");
  }
  refuse_network_file_system(fd, what);
  const Header header = read_header(fd, what);
  file->verdict = check_header(header, static_cast<std::uint64_t>(file->st.st_size), HostFacts::read(), what);
  file->removed = header.removed.raw != 0;
}

/// Opens and checks. False: nothing is there. `known`: the mapping that the process has of it already, if any; then no
/// descriptor was opened. The caller holds the registry's lock.
bool Mapping::open_checked(const SegmentRegistry& registry, const std::string& name, const std::string& path,
                           const OpenOptions& options, Checked* file, std::shared_ptr<Mapping>* known) {
  const std::string what = describe(name, path);
  struct stat st {};
  if (::lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    fail_open(errno, what);
  }
  require_regular(st.st_mode, what);  // before open(), which on a device might already do something
  *known = registry.find(st.st_dev, st.st_ino, options.read_only);
  if (*known) {
    check_file(name, path, options, (*known)->fd_, file);
    return true;
  }
  occupy_standard_descriptors();
  const int flags = (options.read_only ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  const int fd = ::open(path.c_str(), flags);
  if (fd < 0) {
    if (errno == ENOENT) return false;
    fail_open(errno, what);
  }
  // The path may lead to another file by now, and to one that the process uses.
  file->close_it = ::fstat(fd, &st) == 0 && !registry.knows(st.st_dev, st.st_ino);
  file->read_only = options.read_only;
  check_file(name, path, options, fd, file);
  *known = registry.find(st.st_dev, st.st_ino, options.read_only);
  return true;
}

Mapping::Opened Mapping::try_open(const std::string& name, const std::string& path, const OpenOptions& options) {
  const SegmentRegistry::Hold registry;
  registry->drop_unreachable();
  Checked file;
  std::shared_ptr<Mapping> mapping;
  if (!open_checked(*registry, name, path, options, &file, &mapping)) return {};
  const bool removed = file.removed;
  if (!mapping) {
    mapping.reset(new Mapping(name, path, std::move(file)));
    registry->add(mapping);
  }
  if (!removed) return {Opened::End::opened, std::move(mapping)};
  // Its remover was killed, or is just here: the mark decides, so the name is free as soon as somebody unlinks it.
  if (mapping->read_only()) return {};
  const bool unlinked = mapping->unlink_removed();
  return {unlinked ? Opened::End::unlinked : Opened::End::busy, std::move(mapping)};
}

/// Null: something is there already.
std::shared_ptr<Mapping> Mapping::try_create(const std::string& name, const std::string& path,
                                             const CreateOptions& options) {
  const SegmentRegistry::Hold registry;
  registry->drop_unreachable();  // it may be our own removed one that has the room
  Checked file;
  const int fd = give_birth(path, {options.sizes, options.mode, options.group, options.flags}, describe(name, path));
  if (fd < 0) return nullptr;
  file.close_it = true;
  check_file(name, path, {}, fd, &file);
  std::shared_ptr<Mapping> mapping(new Mapping(name, path, std::move(file)));
  registry->add(mapping);
  return mapping;
}

/// Unlinks the removed segment from its path; false: another process is at it.
bool Mapping::unlink_removed() const {
  return unlink_locked(fd_, path_, describe(name_, path_), [this] { return check_identity() == Identity::same; });
}

/// Unlinks what is at the path though it is no good segment. Sessions that still map it are not marked; they look at
/// the path now and then, and find it gone.
void Mapping::unlink_damaged(const std::string& path, const std::string& what) {
  Patience patience(what);
  for (;; patience.wait_a_little()) {
    const SegmentRegistry::Hold registry;
    Checked file;  // a descriptor of an inode that the process uses stays open, as everywhere
    if (::lstat(path.c_str(), &file.st) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) return;
      fail_open(errno, what);
    }
    require_regular(file.st.st_mode, what);  // before open(), which on a device might already do something
    occupy_standard_descriptors();
    file.fd = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (file.fd < 0) {
      if (errno == ENOENT) return;
      fail_open(errno, what);
    }
    if (::fstat(file.fd, &file.st) != 0) throw Error(Errc::system, what + ": " + text_of(errno));
    file.close_it = !registry->knows(file.st.st_dev, file.st.st_ino);
    const auto still_there = [&] {
      struct stat now {};
      return ::lstat(path.c_str(), &now) == 0 && now.st_dev == file.st.st_dev && now.st_ino == file.st.st_ino;
    };
    if (unlink_locked(file.fd, path, what, still_there)) return;
  }
}

std::shared_ptr<Mapping> Mapping::open(const std::string& name_or_path, const OpenOptions& options) {
  const std::string path = segment_path(name_or_path);
  const std::string what = describe(name_or_path, path);
  Opened opened = try_open(name_or_path, path, options);
  if (opened.end == Opened::End::opened) return std::move(opened.mapping);
  throw Error(Errc::segment_not_found, what + ": there is no such segment");
}

std::shared_ptr<Mapping> Mapping::create(const std::string& name_or_path, const CreateOptions& options) {
  const std::string path = segment_path(name_or_path);
  const std::string what = describe(name_or_path, path);
  Patience patience(what);
  for (;;) {
    if (std::shared_ptr<Mapping> created = try_create(name_or_path, path, options)) return created;
    // Only a removed one may be in the way.
    const Opened there = try_open(name_or_path, path, {.trusted_owner = std::nullopt, .read_only = false});
    if (there.end == Opened::End::opened) throw Error(Errc::segment_exists, what + ": it exists already");
    patience.wait_a_little();
  }
}

std::shared_ptr<Mapping> Mapping::open_or_create(const std::string& name_or_path, const CreateOptions& create_options,
                                                 const OpenOptions& open_options) {
  const std::string path = segment_path(name_or_path);
  const std::string what = describe(name_or_path, path);
  Patience patience(what);
  for (;;) {
    Opened opened = try_open(name_or_path, path, open_options);
    if (opened.end == Opened::End::opened) return std::move(opened.mapping);
    if (opened.end != Opened::End::busy) {
      if (std::shared_ptr<Mapping> created = try_create(name_or_path, path, create_options)) return created;
    }
    if (opened.end == Opened::End::busy) patience.wait_a_little();
  }
}

void Mapping::remove(const std::string& name_or_path, const OpenOptions& options, Damaged damaged) {
  const std::string path = segment_path(name_or_path);
  const std::string what = describe(name_or_path, path);
  Patience patience(what);
  Opened opened;
  try {
    opened = try_open(name_or_path, path, {options.trusted_owner, false});
  } catch (const Error& e) {
    const bool plain = name_or_path.find('/') == std::string::npos;
    const bool content = e.errc() == Errc::segment_corrupt || e.errc() == Errc::segment_version ||
                         ((e.errc() == Errc::segment_foreign || e.errc() == Errc::unsupported) && plain);
    if (damaged == Damaged::unlink && content) return unlink_damaged(path, what);
    throw;
  }
  switch (opened.end) {
    case Opened::End::absent: throw Error(Errc::segment_not_found, what + ": there is no such segment");
    case Opened::End::unlinked: return;
    case Opened::End::opened: {
      const View& view = opened.mapping->view();
      require_deletable(opened.mapping->fd(), path, what);
      RealPolicy::cas(view.header().removed, 0, 1);
      const std::uint64_t high =
          std::min<std::uint64_t>(RealPolicy::load(view.header().slot_high), view.geo.sizes.sessions);
      for (SlotIndex s = 0; s < high; ++s) {
        if (!view.slot_exists(s)) continue;
        Word32& signal = view.slot(s).signal;
        RealPolicy::add(signal, 1);
        RealPolicy::wake(signal);
      }
      break;
    }
    case Opened::End::busy: break;
  }
  for (;;) {
    {
      const SegmentRegistry::Hold registry;
      if (opened.mapping->unlink_removed()) {
        opened.mapping.reset();
        registry->drop_unreachable();
        return;
      }
    }
    patience.wait_a_little();
  }
}

void Mapping::clean_up_beside(const std::string& path) {
  const SegmentRegistry::Hold registry;
  clean_temporaries(path.substr(0, path.rfind('/')),
                    [&](dev_t device, ino_t inode) { return registry->knows(device, inode); });
}

std::vector<ListedSegment> Mapping::list(const OpenOptions& options) {
  const std::string directory(segment_directory);
  std::vector<ListedSegment> found;
  const SegmentRegistry::Hold registry;
  clean_temporaries(directory, [&](dev_t device, ino_t inode) { return registry->knows(device, inode); });
  DIR* const open_directory = ::opendir(directory.c_str());
  if (open_directory == nullptr) return found;
  while (const dirent* const one = ::readdir(open_directory)) {
    const std::string_view file_name = one->d_name;
    if (file_name.substr(0, segment_prefix.size()) != segment_prefix) continue;
    const std::string name(file_name.substr(segment_prefix.size()));
    if (!check_segment_name(name).empty()) continue;
    found.push_back({name, directory + "/" + std::string(file_name), false, {}});
  }
  ::closedir(open_directory);
  for (ListedSegment& one : found) {
    try {
      Checked file;
      std::shared_ptr<Mapping> known;
      const OpenOptions look{options.trusted_owner, true};
      const bool there = open_checked(*registry, one.name, one.path, look, &file, &known);
      one.ok = there && !file.removed;
      if (!one.ok) one.error = "removed";
    } catch (const Error& e) {
      one.error = e.what();
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return found;
}

Mapping::Identity Mapping::check_identity() const noexcept {
  struct stat st {};
  if (::lstat(path_.c_str(), &st) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Identity::unlinked;
    return linked() ? Identity::same : Identity::unlinked;
  }
  return st.st_dev == device_ && st.st_ino == inode_ ? Identity::same : Identity::replaced;
}

bool Mapping::linked() const noexcept {
  struct stat st {};
  return ::fstat(fd_, &st) != 0 || st.st_nlink != 0;
}

int Mapping::allocate(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (bytes == 0 || offset > view_.geo.total || bytes > view_.geo.total - offset) return EINVAL;
  struct stat st {};
  if (::fstat(fd_, &st) != 0) return errno;
  if (static_cast<std::uint64_t>(st.st_size) != view_.geo.total) return error_truncated;
  const auto missing = [&](std::uint64_t page) { return !view_.pages_exist(page * page_size, page_size); };
  const std::uint64_t end = (offset + bytes - 1) / page_size + 1;
  for (std::uint64_t page = offset / page_size; page < end; ++page) {
    if (!missing(page)) continue;
    const std::uint64_t first = page;
    while (page + 1 < end && missing(page + 1)) ++page;
    // Without FALLOC_FL_KEEP_SIZE, so that a truncation that comes just now does not leave a page behind the end.
    while (::fallocate(fd_, 0, static_cast<off_t>(first * page_size),
                       static_cast<off_t>((page + 1 - first) * page_size)) != 0) {
      if (errno != EINTR) return errno;
    }
    for (std::uint64_t p = first; p <= page; ++p) RealPolicy::set_bits(view_.bitmap_word(p / 64), 1ULL << (p % 64));
  }
  return 0;
}

bool Mapping::try_ensure(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (view_.pages_exist(offset, bytes)) return true;
  return !read_only_ && allocate(offset, bytes) == 0;
}

void Mapping::prepare_notice(RecordIndex r, EntryIndex robbed) const noexcept {
  prepare_notices(NoticePart::head, {&r, 1});
  if (needs_notice_rest(view_, robbed)) prepare_notices(NoticePart::rest, {&r, 1});
}

void Mapping::prepare_notices(NoticePart part, std::span<const RecordIndex> records) const noexcept {
  const bool head = part == NoticePart::head;
  const std::uint64_t table = head ? view_.geo.notices : view_.geo.notice_rests;
  const std::size_t row = head ? sizeof(Notice) : sizeof(NoticeRest);
  const auto begin_of = [&](RecordIndex r) { return table + std::uint64_t{r} * row; };
  const auto end_of = [&](RecordIndex r) { return begin_of(r) + row; };
  for (std::size_t first = 0; first < records.size();) {
    std::size_t last = first;
    while (last + 1 < records.size() && view_.has_record(records[last + 1]) &&
           begin_of(records[last + 1]) / page_size <= (end_of(records[last]) - 1) / page_size + 1) {
      ++last;
    }
    const bool all = view_.has_record(records[first]) &&
                     try_ensure(begin_of(records[first]), end_of(records[last]) - begin_of(records[first]));
    for (std::size_t i = first; !all && i <= last; ++i) {  // there may be room for some
      if (view_.has_record(records[i])) (void)try_ensure(begin_of(records[i]), row);
    }
    first = last + 1;
  }
}

void Mapping::ensure(std::uint64_t offset, std::uint64_t bytes) {
  if (view_.pages_exist(offset, bytes)) return;
  const std::string what = describe(name_, path_);
  if (read_only_) throw Error(Errc::no_permission, what + ": it is open for reading only");
  const int error = allocate(offset, bytes);
  if (error == 0) return;
  if (error == error_truncated) {
    throw Error(Errc::segment_corrupt, what + ": another process cut its file short; remove the segment");
  }
  if (error == ENOSPC || error == EDQUOT) {
    throw Error(Errc::no_space, what + ": " + text_of(error) +
                                    "; make room in its file system (for /dev/shm: delete "
                                    "what nobody uses, or remount it with a larger size) or remove unused names");
  }
  throw Error(Errc::system, what + ": cannot allocate " + std::to_string(bytes) + " bytes at " +
                                std::to_string(offset) + ": " + text_of(error));
}

void occupy_standard_descriptors() noexcept {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", O_RDWR | O_CLOEXEC);  // the lowest free one
  }
}

}  // namespace shmcoord::engine
