#pragma once

#include <cstddef>
#include <string>

#include "shmcoord/guard_executor.hpp"

namespace shmcoord::adapters {

/// "Permission denied", for an errno.
[[nodiscard]] std::string error_text(int error);

/// The content of a regular file of at most so many bytes. Throws std::runtime_error with one line: it is absent, no
/// regular file, too large, may not be read, or the time is over. Never waits for a pipe or a device.
[[nodiscard]] std::string read_regular_file(const std::string& path, std::size_t max_bytes,
                                            const GuardDeadline& deadline);

/// Throws if the name cannot be given to the system.
void check_path(const std::string& path);

}  // namespace shmcoord::adapters
