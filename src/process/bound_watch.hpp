#pragma once

#include <cstdint>
#include <functional>
#include <thread>

#include "engine/layout.hpp"

// Holders that are bound to a process that never joined (`lock acquire --pid $$`).
//
// No life word speaks for such a process, so whoever waits for it opens a pidfd and sleeps on that, in a thread of its
// own, because a futex and a descriptor cannot be waited for together. Where a pidfd cannot be had (another PID
// namespace, an old kernel) the waiter's look once a second has to do.

namespace shmcoord::process {

/// Writes the identity of the process into the entry; 0: bound to none. Throws Error invalid_argument if there is no
/// such process.
void bind(engine::Entry& entry, std::int32_t pid);

/// Calls `gone` once, from its own thread, when that process ends. The destructor waits for the thread.
class BoundWatch {
 public:
  BoundWatch(std::int32_t pid, std::uint64_t start_time, std::uint64_t pid_namespace, std::function<void()> gone);
  ~BoundWatch();
  BoundWatch(const BoundWatch&) = delete;
  BoundWatch& operator=(const BoundWatch&) = delete;

  [[nodiscard]] std::int32_t pid() const noexcept { return pid_; }

 private:
  std::int32_t pid_;
  int process_fd_ = -1;
  int stop_fd_ = -1;
  std::thread thread_;
};

}  // namespace shmcoord::process
