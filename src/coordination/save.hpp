#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordination/saved_state.hpp"
#include "engine/segment_file.hpp"
#include "process/atomic_file.hpp"
#include "shmcoord/snapshot.hpp"

// Between a segment and its snapshot.
//
// Problem: tokens must not go back although the snapshot is older than the last token. So the header has a
// reservation, beyond which nobody is let in (engine/layout.hpp), and a snapshot says it; what is restored begins a
// margin above.
//
// Invariant: the newest snapshot on the disk never says less than the header. The first save therefore writes the
// header first, each later one the file first. If we die in between: the header limits what no file promises yet, or a
// file promises more than is used; both are right. Of several who save one file each looks at the segment when it is
// alone with the file, so that the last one is the newest.
//
// That the last snapshot is the newest is its owner's business: two files of one segment are each right when written.
//
// Who saves by itself, again and again, must not save over what another segment left: its holds that outlive processes,
// and its reservation, are nowhere else. So a snapshot says which instance it is of. One that was restored is another
// instance, and the file says that before anybody can open it; if we die in between, it names one that never was, and
// is restored once more.

namespace shmcoord::coordination {

/// Each name as it was at one moment. Throws segment_corrupt.
[[nodiscard]] SavedState state_of(const engine::Mapping& mapping);
/// With a reservation that counts from now on. Throws segment_corrupt when nobody could read it; errors of
/// process::FileReplacement.
void write_state(const engine::Mapping& mapping, SavedState& state, const process::FileReplacement& replacement);
[[nodiscard]] SnapshotCounts counts_of(const SavedState& state);

/// What the file says; nothing when there is none. Errors of process::read_whole_file() and state_from().
[[nodiscard]] std::optional<SavedState> read_state(const std::string& file);
/// Throws segment_exists when a file that says `state` is of another segment than that one.
void require_same(const engine::Mapping& mapping, const SavedState& state, const std::string& file);
/// Throws config_differs when it is of a segment with another name; for who is about to make `segment` from it.
void require_name(std::string_view segment, const SavedState& state, const std::string& file);

enum class Over : std::uint8_t {
  anything,  // whatever the file was
  its_own,   // a file that is there must be a sound snapshot of this very segment, else it is left as it is
};
/// save_snapshot() of a mapping; with Over::its_own also the errors of read_state() and require_same().
SnapshotCounts save(const engine::Mapping& mapping, const std::string& file, Over over);

}  // namespace shmcoord::coordination
