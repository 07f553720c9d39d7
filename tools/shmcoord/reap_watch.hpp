#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/segment_file.hpp"

// Who has died since I last looked?
//
// The life word tells, but epoll cannot wait for a futex. So: a pidfd for each session whose process we can see (same
// PID namespace), which becomes readable when the process ends; the keeper ring, of which the reaper's own session is a
// member, for the others; and a look at all life words once a second, which is a load per session. A pidfd proves
// nothing here (a pid is not an identity): it only says that it is worth looking. Nor is it kept after it has fired:
// the command's tree of a `run` may hold the session for long after its process has ended.
//
// If we die here: nothing in the segment is ours.

namespace shmcoord::tool {

class DeathWatch {
 public:
  struct Death {
    engine::SlotIndex slot = 0;
    std::uint64_t incarnation = 0;
    std::string text;  // who it was
  };

  explicit DeathWatch(std::shared_ptr<engine::Mapping> mapping);
  ~DeathWatch();
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;

  enum class Woken : std::uint8_t { looked, signalled };
  /// Sleeps until a process that is watched ends, a signal that ends us comes, or timeout_ms pass.
  Woken wait(int timeout_ms);

  /// Sessions with OWNER_DIED or a claimer that is gone, which may be ready for burial; watches those that came.
  std::vector<Death> look();

  /// Blocks SIGINT and SIGTERM in this thread and in those it starts, so that wait() gets them.
  static void block_ending_signals();

 private:
  struct Watched {
    std::uint64_t incarnation = 0;
    int pidfd = -1;
  };

  void watch(engine::SlotIndex slot, std::uint64_t incarnation);
  void drop(Watched& watched);
  std::string describe(engine::SlotIndex slot) const;

  std::shared_ptr<engine::Mapping> mapping_;
  int epoll_ = -1;
  int signals_ = -1;
  std::vector<Watched> watched_;  // by slot
  std::vector<engine::SlotIndex> fired_;
};

}  // namespace shmcoord::tool
