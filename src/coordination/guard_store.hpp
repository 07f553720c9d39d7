#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/segment_file.hpp"
#include "process/participant.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/guard.hpp"
#include "shmcoord/guard_flag.hpp"

// Where registered guards lie in a segment.
//
// Problem. A definition is longer than any field of a record, must be there whole or not at all whenever its maker
// dies, must outlive it, and must be readable by whoever may only look. So it is written into what outlives a process
// already: detached holds of the name, without a lease, each with up to 4096 bytes of the definition as its reason. The
// holder says which part it is, of how many, and of which try to add it: "part 1/3 of 5f…".
//
// Invariants.
//   G1  The parts of one try have one tag, which nobody else uses, and were written by one process.
//   G2  A try is complete when all its parts are there; when, is the token of the last one, which is a sequence of the
//       control word, so that all tries have an order. The first that was completed is the definition, for as long as
//       the name lives: a later one cannot become it.
//   G3  Who adds writes all its parts, then looks which try is the definition, and takes away all parts of the others;
//       also those that somebody is about to complete: he finds them missing, looks, and finds the definition.
//
// If we die here: parts of an incomplete try are nobody's definition, and go with the next add or the removal of the
// name. The removal takes the parts one by one and closes the name; half done, a guard of one part is gone, and one of
// several is incomplete, which counts as gone.
//
// What was rejected: a table of its own (another layout for what few will use), and a lock around adding (whose holder
// may sleep).

namespace shmcoord::coordination {

/// As one line of JSON; equal for equal definitions.
[[nodiscard]] std::string definition_of(const Guard& guard);
/// Throws Error(segment_corrupt).
[[nodiscard]] Guard guard_from(std::string_view name, std::string_view definition);
/// Throws ConditionError, or Error(invalid_argument) that says what cannot be.
void check_guard(const Guard& guard);

/// Throws config_differs.
void require_same_definition(std::string_view name, std::string_view there, std::string_view wanted);

struct StoredGuard {
  engine::RecordIndex record = 0;
  std::uint64_t generation = 0;  // of the record: the definition does not change within one
  std::string definition;
  engine::EntryIndex part = 0;  // any of its parts
};

/// What a picture of the name says; nothing: it is not registered.
[[nodiscard]] std::optional<StoredGuard> stored_guard(const process::LockView& seen);
/// The guard of that name, or nothing. Throws wrong_type, segment_corrupt.
[[nodiscard]] std::optional<StoredGuard> find_guard(const engine::Mapping& mapping, std::string_view name);
/// Is the name still what that was found under? Without a look at the definition, which may have lost a part by force.
[[nodiscard]] bool is_still(const engine::Mapping& mapping, std::string_view name, const StoredGuard& guard);
/// All, by name; those that are not registered whole are left out.
[[nodiscard]] std::vector<GuardListing> list_guards(const engine::Mapping& mapping, const process::Picture& picture);

/// Errors as GuardFlag::add. False: it was there.
bool add_guard(const std::shared_ptr<process::Participant>& participant, const Guard& guard);

[[nodiscard]] std::optional<GuardVerdict> verdict_of(const engine::Mapping& mapping, engine::RecordIndex record);
/// False: the guard is gone.
bool set_verdict(process::Participant& participant, std::string_view name, const StoredGuard& guard,
                 const GuardOutcome& outcome);

}  // namespace shmcoord::coordination
