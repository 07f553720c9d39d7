#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/segment_file.hpp"

// Is every invariant of a segment true? For an operator who distrusts a segment, for tests after a kill, and for
// whoever gets a saved copy with a bug report.
//
// Two kinds of finding. `damage`: something that no sequence of operations and deaths leaves behind, so memory was
// overwritten or the library is wrong. `pending`: what a death left half done and the next caller, or the reaper, will
// finish; a healthy segment has it for a moment after every kill.
//
// The segment may be in use while it is looked at. A lock is judged between two equal sequences of its control word
// (process/snapshot.hpp); everything else is looked at again, some milliseconds later, when it seems wrong, and counts
// only if it then still seems wrong in the same way and is still in the same life. What an operation in the middle
// looks like is no finding, because its owner may be stopped there for hours.
//
// It reads and changes nothing, needs no write access, touches no page that the bitmap does not know, and ends after
// one pass over the tables whatever the bytes are.

namespace shmcoord::process {

struct Finding {
  enum class Kind : std::uint8_t { damage, pending };
  Kind kind = Kind::damage;
  std::string where;       // "lock 'deploy'", "session slot 3"
  std::string what;        // "used is 2, but its holders have 1"
  std::uint64_t life = 0;  // word that names the life of what was judged, so that two lives are not taken for one

  friend auto operator<=>(const Finding&, const Finding&) = default;
};
[[nodiscard]] std::string_view to_string(Finding::Kind kind) noexcept;

struct CheckReport {
  std::vector<Finding> findings;  // in the order of the tables
  std::uint64_t sessions = 0;
  std::uint64_t names = 0;
  std::uint64_t entries = 0;  // of chunks that belong to somebody
  std::uint64_t journal_records = 0;
  std::uint64_t moving = 0;  // locks that changed faster than they could be judged

  [[nodiscard]] bool damaged() const noexcept;
};

/// Thread-safe. Dies here: nothing was changed. One look is enough for a segment that nobody uses.
[[nodiscard]] CheckReport check_segment(const engine::Mapping& mapping, std::int64_t now_ns, int looks = 3);

}  // namespace shmcoord::process
