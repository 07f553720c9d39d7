#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordination/stored_text.hpp"
#include "engine/segment_file.hpp"
#include "process/participant.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/guard.hpp"
#include "shmcoord/guard_flag.hpp"

// Registered guards in a segment: the definition is a stored text (stored_text.hpp), the verdict lies beside it
// (engine/verdict.hpp).

namespace shmcoord::coordination {

/// As one line of JSON; equal for equal definitions.
[[nodiscard]] std::string definition_of(const Guard& guard);
/// Throws Error(segment_corrupt).
[[nodiscard]] Guard guard_from(std::string_view name, std::string_view definition);
/// Throws ConditionError, or Error(invalid_argument) that says what cannot be.
void check_guard(const Guard& guard);

/// Throws config_differs.
void require_same_definition(std::string_view name, std::string_view there, std::string_view wanted);

/// The guard of that name, or nothing. Throws wrong_type, segment_corrupt.
[[nodiscard]] std::optional<StoredText> find_guard(const engine::Mapping& mapping, std::string_view name);
/// All, by name; those that are not registered whole are left out.
[[nodiscard]] std::vector<GuardListing> list_guards(const engine::Mapping& mapping, const process::Picture& picture);

/// Errors as GuardFlag::add. False: it was there.
bool add_guard(const std::shared_ptr<process::Participant>& participant, const Guard& guard);

[[nodiscard]] std::optional<GuardVerdict> verdict_of(const engine::Mapping& mapping, engine::RecordIndex record);
/// False: the guard is gone.
bool set_verdict(process::Participant& participant, std::string_view name, const StoredText& guard,
                 const GuardOutcome& outcome);

}  // namespace shmcoord::coordination
