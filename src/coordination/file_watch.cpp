#include "coordination/file_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "engine/real_policy.hpp"

namespace shmcoord::coordination {
namespace {

using engine::RealPolicy;
namespace fs = std::filesystem;

constexpr std::uint32_t what_counts = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_MODIFY |
                                      IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF;
// A file that is written piece by piece is one change in that time.
constexpr int gather_ms = 20;

// File systems whose changes inotify does not see, at least those that are made elsewhere.
bool is_blind(const std::string& directory) {
  constexpr std::array<std::uint64_t, 11> blind{0x6969,     0xFF534D42, 0xFE534D42, 0x517B,     0x65735546, 0x01021997,
                                                0x5346414F, 0x00C36400, 0x9FA0,     0x62656572, 0x47504653};
  struct statfs about {};
  if (::statfs(directory.c_str(), &about) != 0) return false;
  const auto type = static_cast<std::uint64_t>(about.f_type) & 0xFFFFFFFFU;
  return std::find(blind.begin(), blind.end(), type) != blind.end();
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths, std::function<void()> changed)
    : paths_(std::move(paths)), changed_(std::move(changed)) {
  if (paths_.empty()) return;
  inotify_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  stop_ = ::eventfd(0, EFD_CLOEXEC);
  if (inotify_ < 0 || stop_ < 0) return;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // without it arm() says that nothing is watched
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

FileWatch::~FileWatch() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
  }
  if (inotify_ >= 0) ::close(inotify_);
  if (stop_ >= 0) ::close(stop_);
}

bool FileWatch::arm() {
  if (paths_.empty()) return true;
  if (!thread_.joinable()) return false;
  std::set<int> used;
  bool whole = true;
  for (const std::string& path : paths_) whole = watch_with_links(path, used) && whole;
  const std::scoped_lock lock(mutex_);
  for (auto at = names_.begin(); at != names_.end();) {
    const int old = at->first;
    at = used.contains(old) ? std::next(at) : names_.erase(at);
    if (!used.contains(old)) ::inotify_rm_watch(inotify_, old);
  }
  return whole;
}

// A link is a file of its own, which may change, and so is each one that it leads over.
bool FileWatch::watch_with_links(const std::string& path, std::set<int>& used) {
  constexpr std::size_t most = 40;  // as the kernel follows
  std::vector<fs::path> to_do{path};
  std::set<fs::path> seen;
  bool whole = true;
  while (!to_do.empty() && seen.size() <= most) {
    const fs::path now = std::move(to_do.back());
    to_do.pop_back();
    if (!seen.insert(now).second) continue;
    whole = watch(now.string(), used) && whole;
    fs::path prefix;
    for (auto component = now.begin(); component != now.end(); ++component) {
      prefix /= *component;
      std::error_code error;
      const fs::path target = fs::read_symlink(prefix, error);
      if (error) continue;
      fs::path leads = target.is_absolute() ? target : prefix.parent_path() / target;
      for (auto rest = std::next(component); rest != now.end(); ++rest) leads /= *rest;
      to_do.push_back(std::move(leads));
    }
  }
  return whole && to_do.empty();
}

// From the root to the directory that is not there. Each one is watched before the next one is looked for.
bool FileWatch::watch(const std::string& path, std::set<int>& used) {
  fs::path directory;
  const fs::path whole(path);
  for (const fs::path& component : whole) {
    if (!directory.empty()) {
      // The name counts from the very moment of the watch: its events wait for the mutex.
      const std::scoped_lock lock(mutex_);
      const int id = ::inotify_add_watch(inotify_, directory.c_str(), what_counts | IN_ONLYDIR);
      if (id < 0) return errno == ENOENT || errno == ENOTDIR;
      used.insert(id);
      names_[id].insert(component.string());
    }
    if (is_blind(directory.empty() ? component.string() : directory.string())) return false;
    directory /= component;
  }
  return true;
}

bool FileWatch::take_changed() noexcept { return RealPolicy::cas(something_, 1, 0); }

void FileWatch::run() {
  std::array<pollfd, 2> fds{{{inotify_, POLLIN, 0}, {stop_, POLLIN, 0}}};
  for (;;) {
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[1].revents != 0) return;
    if (!read_events()) continue;
    // What follows at once belongs to it.
    if (::poll(&fds[1], 1, gather_ms) > 0) return;
    (void)read_events();
    RealPolicy::store(something_, 1);
    changed_();
  }
}

// True: something that counts.
bool FileWatch::read_events() {
  alignas(inotify_event) std::array<char, 16'384> buffer;
  bool counts = false;
  for (;;) {
    const ssize_t got = ::read(inotify_, buffer.data(), buffer.size());
    if (got <= 0) return counts;
    const std::scoped_lock lock(mutex_);
    for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
      inotify_event event{};
      std::memcpy(&event, &buffer[at], sizeof event);
      const char* const name = &buffer[at + sizeof event];
      at += sizeof event + event.len;
      const auto known = names_.find(event.wd);
      const bool overflow = (event.mask & IN_Q_OVERFLOW) != 0;
      if (!overflow && known == names_.end()) continue;  // of a watch that was taken away
      counts = counts || overflow || event.len == 0 || known->second.contains(name);
      if ((event.mask & IN_IGNORED) != 0) names_.erase(known);
    }
  }
}

}  // namespace shmcoord::coordination
