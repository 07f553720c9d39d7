#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/words.hpp"

// Told when files come, go or change, by inotify.
//
// A file is watched by its directory, since it need not be there, and a directory by the one above, up to the root: any
// of them may be made, moved or replaced. Where a path leads through links, each of them is watched, and what it leads
// to. Only names that are on the way to a file count, so that a busy directory wakes nobody.
//
// The watch is set before anybody looks at the file: what happens after arm() returned is told. Where inotify does not
// see changes (file systems of a network, /proc), or the kernel gives no more watches, arm() says so, and the caller
// has to ask again by itself. Nor does it tell what comes through another hard link, a mapping, or a mount over it.
//
// If the process dies here: the kernel takes the watches away.

namespace shmcoord::coordination {

class FileWatch {
 public:
  /// `changed` is called from a thread of this object. Paths are absolute.
  FileWatch(std::vector<std::string> paths, std::function<void()> changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  /// Watches what is there now, for changes from now on. False: not all of it can be watched.
  bool arm();
  /// Did anything change since it was asked last?
  bool take_changed() noexcept;

 private:
  bool watch_with_links(const std::string& path, std::set<int>& used);
  bool watch(const std::string& path, std::set<int>& used);
  void run();
  bool read_events();

  std::vector<std::string> paths_;
  std::function<void()> changed_;
  int inotify_ = -1;
  int stop_ = -1;
  std::mutex mutex_;                            // guards the next one
  std::map<int, std::set<std::string>> names_;  // by watch: what counts there
  engine::Word32 something_;                    // changed
  std::thread thread_;
};

}  // namespace shmcoord::coordination
