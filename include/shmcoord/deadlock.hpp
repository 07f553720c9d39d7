#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "shmcoord/export.hpp"

namespace shmcoord {

/// One who waits in a deadlock, for the one who comes next in it; the last one waits for the first.
struct DeadlockMember {
  std::string holder = {};  ///< id; empty: an implicit one (lock())
  std::string label = {};   ///< of its session
  std::string command = {};
  std::int32_t pid = 0;      ///< as its own PID namespace counts; 0 unknown. For people, never an identity
  std::uint32_t thread = 0;  ///< likewise
  std::string holds = {};    ///< what the one before it waits for; empty: it stands before that one in the queue
  std::chrono::nanoseconds held_for{};
  std::string waits_for = {};  ///< as "lock 'deploy'"
  std::chrono::nanoseconds waiting_for{};
};

/// In words: who holds what, since when, and waits for what; of many the first and the last ones.
[[nodiscard]] SHMCOORD_EXPORT std::string to_string(const std::vector<DeadlockMember>& circle);

}  // namespace shmcoord
