#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/pipeline.hpp"

// What a pipeline may be, checked once for all who make one.

namespace shmcoord::coordination {

/// What of it is looked at. The words are those of its JSON form, in which its reader finds the place of a complaint.
struct PipelinePart {
  static constexpr auto none = static_cast<std::size_t>(-1);
  std::size_t phase = none;  // none: of the pipeline itself
  std::string_view key = {};
  std::string_view inner = {};  // of a guard: "condition" or "on_failure"
  std::size_t index = none;     // in a list
  bool name = false;            // of permits: the name, not the weight
};

// Both throw ConditionError, or Error(invalid_argument) that says what cannot be; then `now` says where.

void check_guards(const PhaseGuards& guards, PipelinePart& now);
void check_pipeline(const std::string& id, const std::vector<GuardedPhase>& phases, PipelinePart& now);

}  // namespace shmcoord::coordination
