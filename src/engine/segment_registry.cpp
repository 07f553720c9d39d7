#include "engine/segment_registry.hpp"

#include <pthread.h>
#include <sys/stat.h>

#include <utility>

namespace shmcoord::engine {

SegmentRegistry& SegmentRegistry::instance() {
  static SegmentRegistry* const registry = new SegmentRegistry;
  return *registry;
}

SegmentRegistry::SegmentRegistry() {
  // instance() is complete before anybody can fork through these: they run only after the constructor returned.
  ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] { instance().mutex_.unlock(); });
}

namespace {
// Made while the program is loaded: a fork while it is being made would leave the child with a registry that never is.
[[maybe_unused]] const bool made_early = [] {
  const SegmentRegistry::Hold hold;
  return true;
}();
}  // namespace

bool SegmentRegistry::knows(dev_t device, ino_t inode) const noexcept {
  for (const auto& m : mappings_) {
    if (m->device_ == device && m->inode_ == inode) return true;
  }
  return false;
}

std::shared_ptr<Mapping> SegmentRegistry::find(dev_t device, ino_t inode, bool reading_is_enough) const {
  std::shared_ptr<Mapping> readable;
  for (const auto& m : mappings_) {
    if (m->device_ != device || m->inode_ != inode) continue;
    if (!m->read_only()) return m;
    if (reading_is_enough) readable = m;
  }
  return readable;
}

void SegmentRegistry::add(std::shared_ptr<Mapping> mapping) { mappings_.push_back(std::move(mapping)); }

void SegmentRegistry::drop_unreachable() {
  std::erase_if(mappings_, [](const std::shared_ptr<Mapping>& m) {
    struct stat st {};
    return m.use_count() == 1 && ::fstat(m->fd(), &st) == 0 && st.st_nlink == 0;
  });
}

}  // namespace shmcoord::engine
