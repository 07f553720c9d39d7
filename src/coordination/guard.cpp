#include "shmcoord/guard.hpp"

#include <algorithm>

#include "coordination/condition_fields.hpp"

namespace shmcoord {
namespace {

std::string missing(const NeedsInput& needs, const GuardInputs& inputs) {
  const auto why = inputs.failures.find(needs.input);
  if (why != inputs.failures.end()) return needs.input.str() + " is not known: " + why->second;
  return "missing input: " + needs.input.str();
}

void add_patterns(const GuardCondition& condition, std::vector<std::string>& patterns) {
  const auto add = [&](const char* pattern) {
    if (std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) patterns.emplace_back(pattern);
  };
  std::visit(
      [&]<class Kind>(const Kind& c) {
        if constexpr (std::is_same_v<Kind, Not>) {
          if (c.condition != nullptr) add_patterns(*c.condition, patterns);
        } else if constexpr (coordination::is_composite<Kind>) {
          for (const GuardCondition& child : c.conditions) add_patterns(child, patterns);
        } else if constexpr (std::is_same_v<Kind, LockFree> || std::is_same_v<Kind, LockHeld>) {
          add("lock:*");
        } else if constexpr (std::is_same_v<Kind, SemaphoreAvailable>) {
          add("semaphore:*");
        } else if constexpr (std::is_same_v<Kind, SessionAlive>) {
          add("session:*");
        }
      },
      condition.kind());
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
  add_patterns(condition, patterns);
  return patterns;
}

}  // namespace shmcoord
