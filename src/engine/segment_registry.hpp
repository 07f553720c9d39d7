#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/segment_file.hpp"

// The segments that this process has open: one mapping and one descriptor per inode.
//
// Why. POSIX record locks belong to (process, inode), and closing *any* descriptor of the inode drops them all. They
// are what says that this process's sessions live, so a second descriptor of a segment must never be opened and closed
// again. All opening goes through here under one lock: ask stat, look here, only then open; a descriptor that turns out
// to be of an inode that is here (the path changed in between) is kept open for good.
//
// fork: the lock is taken before and let go after on both sides, so a child never inherits it from a thread that it
// does not have. The child's copies of the descriptors work for the child's own record locks; the mappings are the same
// memory.
//
// Nothing here is ever destroyed at exit: keepers of other threads may still use it.

namespace shmcoord::engine {

class SegmentRegistry {
 public:
  /// Holds the registry's lock while it lives.
  class Hold {
   public:
    Hold() : lock_(instance().mutex_) {}
    SegmentRegistry* operator->() const noexcept { return &instance(); }
    SegmentRegistry& operator*() const noexcept { return instance(); }

   private:
    std::lock_guard<std::mutex> lock_;
  };

  [[nodiscard]] bool knows(dev_t device, ino_t inode) const noexcept;
  /// The writable mapping of the inode, else, where reading is enough, a read-only one.
  [[nodiscard]] std::shared_ptr<Mapping> find(dev_t device, ino_t inode, bool reading_is_enough) const;
  void add(std::shared_ptr<Mapping> mapping);
  /// Unmaps and closes what nobody uses and nobody can reach: with no user there is no session and no lock to lose.
  void drop_unreachable();

 private:
  SegmentRegistry();
  static SegmentRegistry& instance();

  std::mutex mutex_;
  std::vector<std::shared_ptr<Mapping>> mappings_;
};

}  // namespace shmcoord::engine
