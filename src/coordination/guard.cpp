#include "shmcoord/guard.hpp"

#include <algorithm>

namespace shmcoord {
namespace {

std::string missing(const NeedsInput& needs, const GuardInputs& inputs) {
  const auto why = inputs.failures.find(needs.input);
  if (why != inputs.failures.end()) return needs.input.str() + " is not known: " + why->second;
  return "missing input: " + needs.input.str();
}

// Of what sends events.
const char* pattern_of(GuardInputKind kind) {
  if (kind == GuardInputKind::lock_state) return "lock:*";
  if (kind == GuardInputKind::semaphore_state) return "semaphore:*";
  return kind == GuardInputKind::session_alive ? "session:*" : nullptr;
}

}  // namespace

GuardOutcome Guard::evaluate(const GuardInputs& inputs) const {
  const ConditionResult result = condition.evaluate(inputs);
  if (std::holds_alternative<ConditionPassed>(result)) return GuardPassed{};
  const auto* const failed = std::get_if<ConditionFailed>(&result);
  return GuardFailed{name, on_failure,
                     failed != nullptr ? failed->reason : missing(std::get<NeedsInput>(result), inputs)};
}

std::vector<std::string> default_wake_patterns(const GuardCondition& condition) {
  std::vector<std::string> patterns;
  for (const GuardInput& input : condition.required_inputs()) {
    const char* const pattern = pattern_of(input.kind);
    if (pattern == nullptr || std::find(patterns.begin(), patterns.end(), pattern) != patterns.end()) continue;
    patterns.emplace_back(pattern);
  }
  return patterns;
}

}  // namespace shmcoord
