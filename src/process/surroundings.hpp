#pragma once

#include <cstdint>

// What is missing around this process that the library would like to have. Nothing here decides anything: each user of
// such a thing finds out by itself and does without; this is what is told to people.

namespace shmcoord::process {

struct Surroundings {
  /// foreign: it was mounted for another PID namespace.
  enum class Proc : std::uint8_t { own, foreign, missing } proc = Proc::own;
  bool pidfd = true;
  bool futex_waitv = true;
  bool time_namespace_known = true;
};

[[nodiscard]] Surroundings own_surroundings();

/// Linux 5.16, and not refused by a seccomp filter.
[[nodiscard]] bool has_futex_waitv() noexcept;

}  // namespace shmcoord::process
