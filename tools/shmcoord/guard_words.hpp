#pragma once

#include <optional>

#include "shmcoord/adapters_program.hpp"
#include "shmcoord/arguments.hpp"
#include "shmcoord/guard.hpp"

// What is typed of a guard. All throw UsageError.

namespace shmcoord::tool {

/// --condition or --json-file; nothing: neither. A mistake is told with the place where it is.
[[nodiscard]] std::optional<GuardCondition> condition_of(const Arguments& arguments);

/// --on-failure.
[[nodiscard]] GuardAction action_of(const Arguments& arguments);

/// Where and whom to ask.
[[nodiscard]] AskOptions ask_options_of(const Arguments& arguments);

}  // namespace shmcoord::tool
