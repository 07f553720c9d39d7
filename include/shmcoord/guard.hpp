#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "shmcoord/condition.hpp"
#include "shmcoord/export.hpp"

// A condition under a name, with what happens when it does not hold (S0-41). Pure, as conditions are; values.

namespace shmcoord {

/// The transition does not take place (S0-58).
struct Block {
  friend bool operator==(const Block&, const Block&) = default;
};
/// It does, and a warning is said (S0-59).
struct Warn {
  friend bool operator==(const Warn&, const Warn&) = default;
};
/// It is tried again after that time, and at each wake-up (S0-60, C-23).
struct Retry {
  std::chrono::nanoseconds delay{};  ///< above 0, at most 10 years
  friend bool operator==(const Retry&, const Retry&) = default;
};
/// The pipeline fails with that message (S0-61).
struct Fail {
  std::string message = {};
  friend bool operator==(const Fail&, const Fail&) = default;
};
using GuardAction = std::variant<Block, Warn, Retry, Fail>;

struct GuardPassed {
  friend bool operator==(const GuardPassed&, const GuardPassed&) = default;
};
struct GuardFailed {
  std::string guard;
  GuardAction action;
  std::string reason;
  friend bool operator==(const GuardFailed&, const GuardFailed&) = default;
};
/// What a guard says in the end (C-17).
using GuardOutcome = std::variant<GuardPassed, GuardFailed>;

struct SHMCOORD_EXPORT Guard {
  std::string name;
  GuardCondition condition;
  GuardAction on_failure = Block{};
  /// Patterns of the events after which it is worth another look (S1-94, C-28). Empty: default_wake_patterns().
  std::vector<std::string> wake_on = {};

  /// What could not be found out is a failure with that reason, never a pass (S0-65, C-17).
  [[nodiscard]] GuardOutcome evaluate(const GuardInputs& inputs) const;
};

/// What a condition is woken by unless told otherwise (C-27): "lock:*", "semaphore:*", "session:*", each once; nothing
/// for what sends no events.
[[nodiscard]] SHMCOORD_EXPORT std::vector<std::string> default_wake_patterns(const GuardCondition& condition);

}  // namespace shmcoord
