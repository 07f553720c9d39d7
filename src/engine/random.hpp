#pragma once

#include <cstdint>

// Random numbers for identities: of segments, sessions, processes. They need not be secret, only never come twice.

namespace shmcoord::engine {

/// Never 0. From the kernel; where a seccomp filter refuses that, from the processor or /dev/urandom. Throws Error
/// system when there is none of them.
[[nodiscard]] std::uint64_t random_word();

}  // namespace shmcoord::engine
