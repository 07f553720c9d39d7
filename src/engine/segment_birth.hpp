#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

#include "engine/layout.hpp"

// Born complete: a segment gets its name when nothing is left to be initialised.
//
// The file is built without a name (O_TMPFILE): mode, group, size, pages of the tables that always exist, header,
// bitmap, slot 0. Then linkat() gives it its name, which fails when that exists: of several creators one wins, the
// others open the winner's. The link goes through /proc/self/fd; without /proc by AT_EMPTY_PATH; where neither works,
// or the file system has no O_TMPFILE, the file is built under a temporary name and renamed with RENAME_NOREPLACE.
//
// What if we die here: an unnamed file vanishes with its creator. A temporary name stays, but its creator held a flock
// on it, which is gone with the creator too: whoever builds by name next, or lists, removes temporaries that nobody has
// locked. A creator that was caught between creating its temporary and locking it finds its name gone and starts over.

namespace shmcoord::engine {

/// How the file gets its name. Each is tried, then those after it.
enum class BirthWay : std::uint8_t { proc_link, empty_path_link, temporary_name };

struct BirthOptions {
  Sizes sizes;
  mode_t mode = 0600;
  std::optional<gid_t> group;
  std::uint32_t flags = 0;  // HeaderFlag
};

inline constexpr const char* temporary_prefix = ".shmcoord-new.";

/// The descriptor of the new segment, or -1 when something is at `path` already. Throws Error; then nothing is there.
/// `what` names the segment in messages. The caller holds the registry's lock: descriptors are closed here.
int give_birth(const std::string& path, const BirthOptions& options, const std::string& what,
               BirthWay first = BirthWay::proc_link);

/// A name beside `path` for a segment that is not complete yet. Whoever makes it there keeps a flock on it until
/// give_name(), so that it is removed when he dies.
[[nodiscard]] std::string temporary_beside(const std::string& path);
enum class Named : std::uint8_t { yes, taken, impossible };
/// Moves it to `path`; `taken`: something is there. `impossible`: errno says why.
[[nodiscard]] Named give_name(const std::string& temporary, const std::string& path);

/// Removes temporaries in `directory` whose creators are dead. An inode that the process uses (`known`) is left alone,
/// since closing a descriptor of it would drop its record locks.
void clean_temporaries(const std::string& directory, const std::function<bool(dev_t, ino_t)>& known);

/// Throws Error segment_foreign when the file is on a file system whose mappings are not shared by all its users.
void refuse_network_file_system(int fd, const std::string& what);

}  // namespace shmcoord::engine
