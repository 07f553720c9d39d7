#pragma once

#include <string>

#include "coordination/saved_state.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/snapshot.hpp"

// Between a segment and its snapshot.
//
// Problem: tokens must not go back although the snapshot is older than the last token. So the header has a
// reservation, beyond which nobody is let in (engine/layout.hpp), and a snapshot says it; what is restored begins a
// margin above.
//
// Invariant: the newest snapshot on the disk never says less than the header. The first save therefore writes the
// header
// first, each later one the file first. If we die in between: the header limits what no file promises yet, or a file
// promises more than is used; both are right.
//
// That the last snapshot is the newest is its owner's business: two files of one segment are each right when written.

namespace shmcoord::coordination {

/// Each name as it was at one moment. Throws segment_corrupt.
[[nodiscard]] SavedState state_of(const engine::Mapping& mapping);
/// With a reservation that counts from now on. Errors of process::FileReplacement.
void write_state(const engine::Mapping& mapping, SavedState& state, const std::string& file);
[[nodiscard]] SnapshotCounts counts_of(const SavedState& state);

}  // namespace shmcoord::coordination
