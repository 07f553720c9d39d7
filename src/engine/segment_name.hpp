#pragma once

#include <string>
#include <string_view>

// Names of segments and where they lead. A plain name stands for /dev/shm/shmcoord.<name>; whatever has a '/' is a
// path. The prefix keeps us away from other people's files in /dev/shm and lets `list` find ours; a plain name cannot
// lead out of the directory, nor to a hidden file. A space at either end is a slip of quoting in a script that no
// message would show, and would quietly make a second segment beside the one that was meant.

namespace shmcoord::engine {

inline constexpr std::string_view segment_directory = "/dev/shm";
inline constexpr std::string_view segment_prefix = "shmcoord.";
inline constexpr std::size_t max_segment_name = 200;

/// "default-<uid>", of the effective user.
std::string default_segment_name();

/// The absolute path that a name or path leads to. Throws Error invalid_argument, saying what is wrong with it.
std::string segment_path(const std::string& name_or_path);

/// Nothing when it is a good plain name, else what is wrong with it: "is empty".
std::string_view check_segment_name(std::string_view name) noexcept;

}  // namespace shmcoord::engine
