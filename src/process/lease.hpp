#pragma once

#include <cstdint>

#include "core/lease.hpp"
#include "engine/control.hpp"

// When does a hold lose its lease, and taking it away then.
//
// The last sign of life of a hold is the newest of: its own heartbeat, its beginning, and, unless it is detached or its
// session beats by hand, its session's heartbeat. A hold marked entry_no_lease never loses to a lease (C-51).
//
// Grace. If no session that beats by itself has done so for two of its intervals, it is not the holder that hangs but
// everybody: a stopped container, a frozen debugger. Whoever notices first (a keeper just before it beats again, or a
// judge before it takes anything) writes the time into the header, and for one interval of the holder's session from
// then on no hold of a session that beats by itself is taken by its lease. Detached holds and sessions in manual mode
// have no keeper that would have been stopped with the others; their leases are what their user chose.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

/// The terms of entry's hold of that record: the record's, with the entry's own ttl.
[[nodiscard]] core::LeaseTerms terms_of(const engine::View& view, engine::RecordIndex record, engine::EntryIndex entry);
[[nodiscard]] std::int64_t last_sign_of(const engine::View& view, engine::EntryIndex entry);

/// Why the hold may be taken at now_ns, grace included; none while it is safe.
[[nodiscard]] Loss judge_lease(const engine::View& view, engine::RecordIndex record, engine::EntryIndex entry,
                               std::int64_t now_ns);

/// Does the hold end without its holder doing anything, though it lives?
[[nodiscard]] bool ends_by_itself(const engine::View& view, engine::RecordIndex record, engine::EntryIndex entry);

/// The earliest time at which judge_lease may say something else than none; INT64_MAX: never.
[[nodiscard]] std::int64_t next_lease_deadline(const engine::View& view, engine::RecordIndex record,
                                               engine::EntryIndex entry);

/// Takes the hold away if its lease ran out (marking first, so that a heartbeat that was acknowledged counts).
/// reclaimed, fresh, or gone (it is not held any more).
engine::Result reclaim_lease(const engine::Mapping& mapping, engine::RecordIndex record, engine::EntryIndex entry,
                             std::int64_t now_ns);

/// Before a beat at now_ns of a session that was silent for long: if everybody was, starts the grace.
void note_silence(const engine::View& view, std::int64_t now_ns) noexcept;

}  // namespace shmcoord::process
