#pragma once

#include <cstdint>

#include "engine/view.hpp"

// A hold that is older than its segment.
//
// A restored segment is filled before it gets its name, by one process: detached holds are acquired as ever, and then
// told their age and the token that they had before. The token must lie within what the low bits in an entry's status
// can say (engine/words.hpp), seen from the record's present sequence.

namespace shmcoord::process {

/// False: that token is too old for its present record; the hold keeps the new one. The ages are set in any case.
/// Only in a segment that nobody else knows yet.
bool restore_hold(const engine::View& view, engine::RecordIndex record, std::uint64_t generation,
                  engine::EntryIndex entry, std::uint64_t token, std::int64_t since_ns, std::int64_t last_sign_ns);

}  // namespace shmcoord::process
