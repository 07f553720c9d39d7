#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/segment.hpp"

// A segment written down as a file of JSON, and made anew from it: after a reboot, or when it was lost (S0-88, S1-139
// to S1-141, S1-145, S1-156).
//
// What is kept: locks, semaphores and guards with their configuration, who holds what, and pipelines with how far they
// came. What comes back is what does not end with a process: detached holds, with their tokens and ages, so that one
// that was stale is stale again (C-29); of a pipeline all but its runner, so it can be resumed. A hold that is bound to
// a process comes back if that process still runs; those of sessions do not, since a process finds only its own
// segment. Waiters do not.
//
// Tokens never go back: a snapshot reserves tokens beyond those that were given out, no more than those are given out
// until a newer snapshot reserved more, and what is restored begins above. That is about the newest snapshot of a
// segment. The reservation lasts for 2^38 changes of one name; then acquiring it fails with Errc::table_full until the
// segment is saved again.

namespace shmcoord {

struct SnapshotCounts {
  std::size_t locks = 0;
  std::size_t semaphores = 0;
  std::size_t guards = 0;
  std::size_t pipelines = 0;
  std::size_t holds = 0;  ///< of locks and semaphores
  friend bool operator==(const SnapshotCounts&, const SnapshotCounts&) = default;
};

/// Writes the segment to `file`, in use or not: each lock and semaphore as it was at one moment. The file is replaced
/// as a whole (written beside it, fsync, rename, fsync of the directory): whoever dies here, and whatever fails, leaves
/// the old one or the new one. A link is followed; the file's mode is 0600, or that of the file that was there.
///
/// Errors: no_permission (the segment cannot be written, which reserving takes; or the directory), no_space,
/// segment_corrupt, invalid_argument (what is there is no regular file), system. Thread-safe (S1-140).
SHMCOORD_EXPORT SnapshotCounts save_snapshot(const Segment& segment, const std::string& file);

/// What could not be brought back.
struct LeftOut {
  std::string name;         ///< of the lock or semaphore
  std::string holder = {};  ///< empty: it gave no id
  std::int32_t pid = 0;
  std::string why;  ///< "its process has ended"
};

struct RestoreReport {
  SnapshotCounts restored = {};
  std::vector<LeftOut> left_out = {};
  std::vector<LeftOut> renewed = {};  ///< came back, but with new tokens
  /// The group that the segment was open to, when this process may not give it to that one: it has the group of this
  /// process.
  std::optional<std::uint32_t> lost_group = {};
};

/// Makes a new segment from a snapshot. It appears under its name when all is in it; whoever dies here leaves none.
/// Sizes, mode and group are those of the one that was saved. The snapshot itself is written anew before, with a higher
/// reservation, so that restoring it once more gives no token twice.
///
/// Errors, after each of which nothing was restored: snapshot_damaged (with the line, or what is wrong there),
/// segment_exists, segment_version (a snapshot of another version), no_permission, no_space, system. Thread-safe.
SHMCOORD_EXPORT RestoreReport restore_snapshot(const std::string& file, std::string_view segment);

}  // namespace shmcoord
