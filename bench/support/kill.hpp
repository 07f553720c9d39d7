#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <thread>
#include <utility>

#include "engine/real_policy.hpp"

namespace shmcoord::bench {

/// From SIGKILL of the holder, a process that has what wait() waits for, to the end of wait(). The holder is the
/// caller's to wait for.
template <class Wait>
std::int64_t kill_to_next_ns(pid_t holder, Wait&& wait) {
  std::int64_t killed_ns = 0;
  std::jthread killer([&] {
    ::poll(nullptr, 0, 5);  // the waiter sleeps by then
    killed_ns = engine::RealPolicy::now_ns();
    ::kill(holder, SIGKILL);
  });
  std::forward<Wait>(wait)();
  const std::int64_t got_ns = engine::RealPolicy::now_ns();
  killer.join();
  return got_ns - killed_ns;
}

}  // namespace shmcoord::bench
