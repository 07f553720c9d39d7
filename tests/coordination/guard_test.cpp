#include "shmcoord/guard.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "core/event_pattern.hpp"

namespace shmcoord {
namespace {

using C = GuardCondition;
using namespace std::chrono_literals;

TEST(Guard, guard_evaluation) {
  const Guard guard{"deploy", C::lock_free("main") && C::semaphore_available("agents", 2), Fail{"no agent"}, {}};
  GuardInputs inputs;
  inputs.locks["main"] = true;
  inputs.semaphores["agents"] = 2;
  EXPECT_EQ(guard.evaluate(inputs), GuardOutcome(GuardPassed{}));
  inputs.semaphores["agents"] = 1;
  EXPECT_EQ(guard.evaluate(inputs),
            GuardOutcome(GuardFailed{"deploy", Fail{"no agent"}, "semaphore 'agents' has 1 free, 2 are needed"}));
}

// The action is told, not taken: all four come back as they were given (S0-58 to S0-61).
TEST(Guard, TellsItsAction) {
  const GuardInputs none;
  for (const GuardAction& action :
       {GuardAction(Block{}), GuardAction(Warn{}), GuardAction(Retry{5s}), GuardAction(Fail{"x"})}) {
    const GuardOutcome said = Guard{"g", C::any({}), action, {}}.evaluate(none);
    EXPECT_EQ(said, GuardOutcome(GuardFailed{"g", action, "no conditions"}));
  }
  EXPECT_EQ(Guard({"g", C::all({})}).on_failure, GuardAction(Block{}));
}

// C-17: what nobody gathered, and what could not be found out, are failures with a reason, also when turned round.
TEST(Guard, WhatIsNotKnownIsAFailureWithItsReason) {
  GuardInputs inputs;
  const auto reason = [&](const C& condition) {
    const GuardOutcome said = Guard{"g", condition, Block{}, {}}.evaluate(inputs);
    const auto* const failed = std::get_if<GuardFailed>(&said);
    return failed == nullptr ? std::string("passed") : failed->reason;
  };
  EXPECT_EQ(reason(C::branch_merged("fix", "main")), "missing input: whether branch 'fix' is merged into 'main'");
  EXPECT_EQ(reason(!C::branch_exists("fix")), "missing input: whether branch 'fix' exists");
  inputs.failures[{GuardInputKind::branch_exists, "fix"}] = "not a git repository";
  inputs.failures[{GuardInputKind::semaphore_state, "agents"}] = "there is no such semaphore";
  EXPECT_EQ(reason(!C::branch_exists("fix")), "whether branch 'fix' exists is not known: not a git repository");
  EXPECT_EQ(reason(C::semaphore_available("agents")),
            "the state of semaphore 'agents' is not known: there is no such semaphore");
  inputs.files["x"] = true;
  EXPECT_EQ(reason(C::branch_exists("fix") || C::file_exists("x")), "passed");
}

// C-27.
TEST(Guard, IsWokenByWhatItNames) {
  using Patterns = std::vector<std::string>;
  EXPECT_EQ(default_wake_patterns(C::lock_free("a")), Patterns{"lock:*"});
  EXPECT_EQ(default_wake_patterns(C::lock_held("a", "b")), Patterns{"lock:*"});
  EXPECT_EQ(default_wake_patterns(C::semaphore_available("a")), Patterns{"semaphore:*"});
  EXPECT_EQ(default_wake_patterns(!C::session_alive("a")), Patterns{"session:*"});
  for (const C& silent : {C::branch_exists("x"), C::file_exists("x"), C::command("x"), C::issues_complete(),
                          C::pipeline_complete("p"), C::all({}), C(Not{})}) {
    EXPECT_EQ(default_wake_patterns(silent), Patterns{}) << silent.type();
  }
  const C all = C::semaphore_available("s") && (C::lock_free("a") || !C::lock_free("b")) && C::semaphore_available("t");
  EXPECT_EQ(default_wake_patterns(all), (Patterns{"semaphore:*", "lock:*"}));
  for (const std::string& pattern : default_wake_patterns(all)) EXPECT_EQ(core::check_pattern(pattern), "");
}

}  // namespace
}  // namespace shmcoord
