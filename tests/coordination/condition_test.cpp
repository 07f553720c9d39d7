#include "shmcoord/condition.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "coordination/random_condition.hpp"

namespace shmcoord {
namespace {

using C = GuardCondition;
using Kind = GuardInputKind;

const IssueFilter urgent{.labels = {"urgent"}};

struct Case {
  const char* what;
  C condition;
  GuardInput needs;
  GuardInputs passes;
  GuardInputs fails;
  const char* reason;
};

// Every kind that is no composite: what it needs, when it passes, when it fails and with which reason (S1-92).
std::vector<Case> cases() {
  const auto with = [](auto member, auto key, auto value) {
    GuardInputs inputs;
    (inputs.*member)[key] = value;
    return inputs;
  };
  const auto held_by = [&](const char* lock, std::vector<std::string> holders) {
    GuardInputs inputs = with(&GuardInputs::locks, lock, false);
    inputs.lock_holders[lock] = std::move(holders);
    return inputs;
  };
  const GuardInputs::Pair merged{"fix", "main"};
  const GuardInputs::Pair contains{"VERSION", "^1\\."};
  const std::vector<Issue> done{{"1", IssueStatus::done, {"urgent"}}, {"2", IssueStatus::done, {"urgent", "x"}}};
  const std::vector<Issue> open{{"1", IssueStatus::done, {"urgent"}},
                                {"2", IssueStatus::to_do, {"urgent"}},
                                {"3", IssueStatus::blocked, {"urgent"}}};
  const std::vector<Issue> blocked{{"1", IssueStatus::to_do, {"urgent"}}, {"2", IssueStatus::blocked, {"urgent"}}};
  const std::vector<Issue> free{{"1", IssueStatus::to_do, {"urgent"}}, {"2", IssueStatus::blocked, {"other"}}};
  const std::string filter = urgent.str();
  return {
      {"lock_free",
       C::lock_free("main"),
       {Kind::lock_state, "main"},
       with(&GuardInputs::locks, "main", true),
       held_by("main", {"pipeline:42"}),
       "lock 'main' is held by 'pipeline:42'"},
      {"lock_held",
       C::lock_held("main"),
       {Kind::lock_state, "main"},
       with(&GuardInputs::locks, "main", false),
       with(&GuardInputs::locks, "main", true),
       "lock 'main' is free"},
      {"lock_held by",
       C::lock_held("main", "me"),
       {Kind::lock_state, "main"},
       held_by("main", {"you", "me"}),
       held_by("main", {"you"}),
       "lock 'main' is held by 'you', not by 'me'"},
      {"lock_held by, free",
       C::lock_held("main", "me"),
       {Kind::lock_state, "main"},
       held_by("main", {"me"}),
       with(&GuardInputs::locks, "main", true),
       "lock 'main' is free"},
      {"semaphore_available",
       C::semaphore_available("agents", 2),
       {Kind::semaphore_state, "agents"},
       with(&GuardInputs::semaphores, "agents", 2U),
       with(&GuardInputs::semaphores, "agents", 1U),
       "semaphore 'agents' has 1 free, 2 are needed"},
      {"issues_complete",
       C::issues_complete(urgent),
       {Kind::issues_for_filter, filter},
       with(&GuardInputs::issue_lists, filter, done),
       with(&GuardInputs::issue_lists, filter, open),
       "2 issues: '2' is Todo, '3' is Blocked"},
      {"no_blocked_issues",
       C::no_blocked_issues(urgent),
       {Kind::issues_for_filter, filter},
       with(&GuardInputs::issue_lists, filter, free),
       with(&GuardInputs::issue_lists, filter, blocked),
       "issue '2' is Blocked"},
      {"issue_status",
       C::issue_status("7", IssueStatus::done),
       {Kind::issue_status, "7"},
       with(&GuardInputs::issues, "7", IssueStatus::done),
       with(&GuardInputs::issues, "7", IssueStatus::in_progress),
       "issue '7' is InProgress, not Done"},
      {"branch_exists",
       C::branch_exists("fix"),
       {Kind::branch_exists, "fix"},
       with(&GuardInputs::branches, "fix", true),
       with(&GuardInputs::branches, "fix", false),
       "branch 'fix' does not exist"},
      {"branch_not_exists",
       C::branch_not_exists("fix"),
       {Kind::branch_exists, "fix"},
       with(&GuardInputs::branches, "fix", false),
       with(&GuardInputs::branches, "fix", true),
       "branch 'fix' exists"},
      {"branch_clean",
       C::branch_clean("fix"),
       {Kind::branch_clean, "fix"},
       with(&GuardInputs::branch_clean, "fix", true),
       with(&GuardInputs::branch_clean, "fix", false),
       "branch 'fix' has changes that are not committed"},
      {"branch_merged",
       C::branch_merged("fix", "main"),
       {Kind::branch_merged, "fix", "main"},
       with(&GuardInputs::branch_merged, merged, true),
       with(&GuardInputs::branch_merged, merged, false),
       "branch 'fix' is not merged into 'main'"},
      {"file_exists",
       C::file_exists(".lock"),
       {Kind::file_exists, ".lock"},
       with(&GuardInputs::files, ".lock", true),
       with(&GuardInputs::files, ".lock", false),
       "file '.lock' does not exist"},
      {"file_not_exists",
       C::file_not_exists(".lock"),
       {Kind::file_exists, ".lock"},
       with(&GuardInputs::files, ".lock", false),
       with(&GuardInputs::files, ".lock", true),
       "file '.lock' exists"},
      {"file_contains",
       C::file_contains("VERSION", "^1\\."),
       {Kind::file_contains, "VERSION", "^1\\."},
       with(&GuardInputs::file_contains, contains, true),
       with(&GuardInputs::file_contains, contains, false),
       "file 'VERSION' does not contain '^1\\.'"},
      {"session_alive",
       C::session_alive("builder"),
       {Kind::session_alive, "builder"},
       with(&GuardInputs::sessions, "builder", true),
       with(&GuardInputs::sessions, "builder", false),
       "session 'builder' is not alive"},
      {"pipeline_in_phase",
       C::pipeline_in_phase("p", "test"),
       {Kind::pipeline_state, "p"},
       with(&GuardInputs::pipelines, "p", PipelineState{"test", false}),
       with(&GuardInputs::pipelines, "p", PipelineState{"build", false}),
       "pipeline 'p' is in phase 'build', not in 'test'"},
      {"pipeline_complete",
       C::pipeline_complete("p"),
       {Kind::pipeline_state, "p"},
       with(&GuardInputs::pipelines, "p", PipelineState{"", true}),
       with(&GuardInputs::pipelines, "p", PipelineState{"test", false}),
       "pipeline 'p' is not complete"},
      {"command",
       C::command("make test"),
       {Kind::custom_check, "make test"},
       with(&GuardInputs::custom_checks, "make test", true),
       with(&GuardInputs::custom_checks, "make test", false),
       "command 'make test' failed"},
      {"command that should fail",
       C::command("grep -r XYZ .", false, "no XYZ is left"),
       {Kind::custom_check, "grep -r XYZ ."},
       with(&GuardInputs::custom_checks, "grep -r XYZ .", false),
       with(&GuardInputs::custom_checks, "grep -r XYZ .", true),
       "no XYZ is left: succeeded, and should fail"},
  };
}

TEST(Condition, EachKindPassesFailsWithAReasonAndSaysWhatItNeeds) {
  std::set<std::string_view> seen;
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.what);
    seen.insert(c.condition.type());
    EXPECT_EQ(c.condition.required_inputs(), std::vector<GuardInput>{c.needs});
    EXPECT_EQ(c.condition.evaluate(c.passes), ConditionResult(ConditionPassed{}));
    EXPECT_EQ(c.condition.evaluate(c.fails), ConditionResult(ConditionFailed{c.reason}));
    EXPECT_EQ(c.condition.evaluate({}), ConditionResult(NeedsInput{c.needs}));
    EXPECT_NO_THROW(c.condition.check());
    // Turned round (S1-86).
    EXPECT_EQ((!c.condition).evaluate(c.fails), ConditionResult(ConditionPassed{}));
    EXPECT_TRUE(std::holds_alternative<ConditionFailed>((!c.condition).evaluate(c.passes)));
    EXPECT_EQ((!c.condition).evaluate({}), ConditionResult(NeedsInput{c.needs}));
    EXPECT_EQ((!c.condition).required_inputs(), std::vector<GuardInput>{c.needs});
    EXPECT_FALSE(c.needs.str().empty());
  }
  EXPECT_EQ(seen.size() + 3, std::variant_size_v<C::Variant>);  // and the composites
}

TEST(Condition, ACommandThatFailedTellsHow) {
  GuardInputs inputs;
  inputs.custom_checks["make"] = false;
  inputs.command_details["make"] = "exit code 2:\nno rule";
  EXPECT_EQ(C::command("make").evaluate(inputs),
            ConditionResult(ConditionFailed{"command 'make' failed: exit code 2:\\nno rule"}));
  EXPECT_EQ(C::command("make", true, "it\nbuilds").evaluate(inputs),
            ConditionResult(ConditionFailed{"it\\nbuilds: failed: exit code 2:\\nno rule"}));
  EXPECT_EQ(C::command("make", false).evaluate(inputs), ConditionResult(ConditionPassed{}));
  inputs.custom_checks["make"] = true;
  EXPECT_EQ(C::command("make", false).evaluate(inputs),
            ConditionResult(ConditionFailed{"command 'make' succeeded, and should fail"}));
}

// --- composites, over all combinations of three children -----------------------------------------------------------

enum class Says : std::uint8_t { passes, fails, unknown };
constexpr Says all_says[]{Says::passes, Says::fails, Says::unknown};

C child(int n) { return C::file_exists("f" + std::to_string(n)); }
void tell(GuardInputs& inputs, int n, Says says) {
  if (says != Says::unknown) inputs.files["f" + std::to_string(n)] = says == Says::passes;
}
ConditionResult said(int n, Says says) {
  GuardInputs inputs;
  tell(inputs, n, says);
  return child(n).evaluate(inputs);
}

TEST(Condition, AllStopsAtTheFirstThatDoesNotPass) {
  EXPECT_EQ(C::all({}).evaluate({}), ConditionResult(ConditionPassed{}));
  for (const Says a : all_says) {
    for (const Says b : all_says) {
      for (const Says c : all_says) {
        GuardInputs inputs;
        const Says says[]{a, b, c};
        ConditionResult expected = ConditionPassed{};
        for (int n = 2; n >= 0; --n) {
          tell(inputs, n, says[n]);
          if (says[n] != Says::passes) expected = said(n, says[n]);
        }
        EXPECT_EQ(C::all({child(0), child(1), child(2)}).evaluate(inputs), expected);
      }
    }
  }
}

TEST(Condition, AnyPassesWithOneElseSaysWhatIsNotKnownElseTheLastFailure) {
  EXPECT_EQ(C::any({}).evaluate({}), ConditionResult(ConditionFailed{"no conditions"}));
  for (const Says a : all_says) {
    for (const Says b : all_says) {
      for (const Says c : all_says) {
        GuardInputs inputs;
        const Says says[]{a, b, c};
        ConditionResult expected = said(2, Says::fails);
        for (int n = 2; n >= 0; --n) {
          tell(inputs, n, says[n]);
          if (says[n] == Says::unknown) expected = said(n, says[n]);
        }
        if (a == Says::passes || b == Says::passes || c == Says::passes) expected = ConditionPassed{};
        EXPECT_EQ(C::any({child(0), child(1), child(2)}).evaluate(inputs), expected);
      }
    }
  }
}

TEST(Condition, NotTurnsRoundWhatIsKnownAndSaysWhatHolds) {
  GuardInputs there;
  there.files["f1"] = true;
  EXPECT_EQ((!child(1)).evaluate(there),
            ConditionResult(ConditionFailed{"this holds, and should not: file_exists(f1)"}));
  EXPECT_EQ((!!child(1)).evaluate(there), ConditionResult(ConditionPassed{}));
  EXPECT_EQ((!child(1)).evaluate({}), ConditionResult(NeedsInput{{Kind::file_exists, "f1"}}));
}

TEST(Condition, DeMorgan) {
  for (const Says a : all_says) {
    for (const Says b : all_says) {
      GuardInputs inputs;
      tell(inputs, 0, a);
      tell(inputs, 1, b);
      const auto value = [&](const C& c) { return c.evaluate(inputs).index(); };
      // Where something is not known, `all` stops at it and `any` goes on, so the two sides may differ.
      if (a == Says::unknown || b == Says::unknown) continue;
      EXPECT_EQ(value(!(child(0) && child(1))), value(!child(0) || !child(1)));
      EXPECT_EQ(value(!(child(0) || child(1))), value(!child(0) && !child(1)));
    }
  }
}

// What could not be found out does not become true by being turned round: a broken repository is no missing branch.
TEST(Condition, AFailureToFindOutIsNeverAPass) {
  GuardInputs inputs;
  inputs.failures[{Kind::branch_exists, "fix"}] = "not a git repository";
  for (const C& c : {C::branch_exists("fix"), C::branch_not_exists("fix"), !C::branch_exists("fix"),
                     !!C::branch_exists("fix"), C::all({C::branch_exists("fix")}), C::any({C::branch_exists("fix")})}) {
    EXPECT_EQ(c.evaluate(inputs), ConditionResult(NeedsInput{{Kind::branch_exists, "fix"}})) << c.str();
  }
}

TEST(Condition, InputsAreCollectedFromAllChildrenOnce) {
  const C c = (C::lock_free("a") && !C::file_exists("x") && C::lock_held("a", "me")) ||
              C::any({C::branch_merged("b", "main"), C::all({}), C::file_not_exists("x")});
  const std::vector<GuardInput> expected{
      {Kind::lock_state, "a"}, {Kind::file_exists, "x"}, {Kind::branch_merged, "b", "main"}};
  EXPECT_EQ(c.required_inputs(), expected);
}

// The examples of S1-151.
TEST(Condition, TheCompositionsOfTheDocuments) {
  const C first = C::all({C::lock_free("main-branch"), C::semaphore_available("agents", 1)});
  GuardInputs inputs;
  inputs.locks["main-branch"] = true;
  inputs.semaphores["agents"] = 1;
  EXPECT_EQ(first.evaluate(inputs), ConditionResult(ConditionPassed{}));
  inputs.semaphores["agents"] = 0;
  EXPECT_EQ(first.evaluate(inputs), ConditionResult(ConditionFailed{"semaphore 'agents' has 0 free, 1 is needed"}));
  const C second = C::any({C::branch_exists("x"), C::branch_exists("y")});
  inputs.branches = {{"x", false}, {"y", true}};
  EXPECT_EQ(second.evaluate(inputs), ConditionResult(ConditionPassed{}));
  const C third = !C::file_exists(".lock");
  inputs.files[".lock"] = false;
  EXPECT_EQ(third.evaluate(inputs), ConditionResult(ConditionPassed{}));
}

TEST(Condition, guard_evaluation_deterministic) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    test::RandomCondition random(seed);
    const C c = random.condition();
    GuardInputs inputs;
    for (const GuardInput& need : c.required_inputs()) {
      if (random.below(4) == 0) continue;
      const bool yes = random.below(2) == 0;
      switch (need.kind) {
        case Kind::lock_state:
          inputs.locks[need.subject] = yes;
          if (!yes) inputs.lock_holders[need.subject] = {"a"};
          break;
        case Kind::semaphore_state:
          inputs.semaphores[need.subject] = static_cast<std::uint32_t>(random.below(6));
          break;
        case Kind::branch_exists: inputs.branches[need.subject] = yes; break;
        case Kind::branch_merged: inputs.branch_merged[{need.subject, need.argument}] = yes; break;
        case Kind::branch_clean: inputs.branch_clean[need.subject] = yes; break;
        case Kind::issue_status: inputs.issues[need.subject] = random.status(); break;
        case Kind::issues_for_filter: inputs.issue_lists[need.subject] = {{"1", random.status(), {}}}; break;
        case Kind::file_exists: inputs.files[need.subject] = yes; break;
        case Kind::file_contains: inputs.file_contains[{need.subject, need.argument}] = yes; break;
        case Kind::session_alive: inputs.sessions[need.subject] = yes; break;
        case Kind::custom_check: inputs.custom_checks[need.subject] = yes; break;
        case Kind::pipeline_state: inputs.pipelines[need.subject] = {"a", yes}; break;
      }
    }
    const ConditionResult first = c.evaluate(inputs);
    EXPECT_EQ(c.evaluate(inputs), first) << "seed " << seed;
    EXPECT_EQ(C(c).evaluate(GuardInputs(inputs)), first) << "seed " << seed;
    // What it needs is what it asked for.
    if (const auto* const needs = std::get_if<NeedsInput>(&first)) {
      const std::vector<GuardInput> all = c.required_inputs();
      EXPECT_NE(std::find(all.begin(), all.end(), needs->input), all.end()) << "seed " << seed;
    }
  }
}

// --- issues --------------------------------------------------------------------------------------------------------

TEST(IssueFilter, AllGivenPartsMustMatch) {
  const Issue issue{"7", IssueStatus::blocked, {"x", "y"}};
  EXPECT_TRUE(IssueFilter{}.matches(issue));
  EXPECT_TRUE((IssueFilter{.ids = {"6", "7"}}).matches(issue));
  EXPECT_FALSE((IssueFilter{.ids = {"6"}}).matches(issue));
  EXPECT_TRUE((IssueFilter{.labels = {"y", "x"}}).matches(issue));
  EXPECT_FALSE((IssueFilter{.labels = {"x", "z"}}).matches(issue));
  EXPECT_TRUE((IssueFilter{.statuses = {IssueStatus::to_do, IssueStatus::blocked}}).matches(issue));
  EXPECT_FALSE((IssueFilter{.statuses = {IssueStatus::to_do}}).matches(issue));
  EXPECT_TRUE((IssueFilter{{"7"}, {"x"}, {IssueStatus::blocked}}).matches(issue));
  EXPECT_FALSE((IssueFilter{{"7"}, {"z"}, {IssueStatus::blocked}}).matches(issue));
}

TEST(IssueFilter, IsTextAndBack) {
  const IssueFilter filter{{"7", "a,b"}, {"x=y", "back\\slash"}, {IssueStatus::in_progress, IssueStatus::blocked}};
  EXPECT_EQ(filter.str(), "id=7,id=a\\,b,label=x=y,label=back\\\\slash,status=InProgress,status=Blocked");
  EXPECT_EQ(IssueFilter::parse(filter.str()), filter);
  EXPECT_EQ(IssueFilter::parse("label=x,status=Blocked"),
            (IssueFilter{.labels = {"x"}, .statuses = {IssueStatus::blocked}}));
  EXPECT_EQ(IssueFilter::parse(""), IssueFilter{});
}

TEST(IssueFilter, AMistakeIsNamed) {
  const auto message = [](std::string_view text) -> std::string {
    try {
      (void)IssueFilter::parse(text);
    } catch (const ConditionError& e) {
      EXPECT_EQ(e.errc(), Errc::invalid_argument);
      return e.what();
    }
    return "taken";
  };
  const auto starts = [&](const char* text, const std::string& with) {
    EXPECT_EQ(message(text).substr(0, with.size()), with) << text;
  };
  starts("label", "'label' has no `=`");
  starts("label=", "label is empty");
  starts("lable=x", "the key 'lable' is not known in the issue filter 'lable=x'");
  starts("status=open", "'open' is none of Todo, InProgress, Blocked, Done or Cancelled");
  starts("label=x,", "'' has no `=`");
  starts(",label=x", "'' has no `=`");
}

TEST(IssueStatusText, IsExact) {
  for (int i = 0; i < 5; ++i) {
    const auto status = static_cast<IssueStatus>(i);
    EXPECT_EQ(issue_status_from(to_string(status)), status);
  }
  EXPECT_EQ(issue_status_from("done"), std::nullopt);
  EXPECT_EQ(issue_status_from(""), std::nullopt);
}

// --- made by hand --------------------------------------------------------------------------------------------------

TEST(Condition, OneThatIsMadeWrongIsRefusedByCheck) {
  const auto message = [](const C& c) -> std::string {
    try {
      c.check();
    } catch (const ConditionError& e) {
      return e.what();
    }
    return "good";
  };
  EXPECT_EQ(message(C::lock_free("")), "lock '' is empty");
  EXPECT_EQ(message(C::lock_held("a", "b\n")), "by 'b\\n' contains a control character");
  EXPECT_EQ(message(C::semaphore_available("s", 0)), "weight '0' is not at least 1");
  EXPECT_EQ(message(C::file_exists(std::string("a\0b", 3))), "path 'a\\x00b' contains a zero byte");
  EXPECT_EQ(message(C::file_exists("\xFF")), "path '\\xff' is not valid UTF-8");
  EXPECT_EQ(message(C::command(std::string(4096, 'x'))), "good");
  EXPECT_NE(message(C::command(std::string(4097, 'x'))).find("is longer than 4096 bytes"), std::string::npos);
  EXPECT_EQ(message(C::issues_complete({.labels = {""}})), "label '' is empty");
  // Whatever is good can be written as text and as JSON, and read again.
  const auto so_many = [](int count, const std::string& word) {
    return C::all(std::vector<C>(static_cast<std::size_t>(count), C::lock_free(word)));
  };
  EXPECT_NE(message(so_many(950, std::string(45, 'l'))).find("as text or as JSON"), std::string::npos);
  EXPECT_EQ(message(so_many(900, std::string(20, 'l'))), "good");
  EXPECT_NE(message(C::all(std::vector<C>(20, C::file_exists(std::string(4096, '"'))))).find("as text or as JSON"),
            std::string::npos);
  EXPECT_EQ(message(Not{}), "a condition is missing behind `not`");
  C deep = C::file_exists("x");
  for (std::size_t n = 1; n < C::max_depth; ++n) deep = !deep;
  EXPECT_EQ(message(deep), "good");
  EXPECT_EQ(message(!deep), "conditions are nested more than 64 deep");
  std::vector<C> many(C::max_conditions - 1, C::file_exists("x"));
  EXPECT_EQ(message(C::all(many)), "good");
  many.push_back(C::file_exists("x"));
  EXPECT_EQ(message(C::all(many)), "there are more than 1000 conditions");
  // It says nothing wrong, and does not crash.
  EXPECT_EQ(C(Not{}).evaluate({}), ConditionResult(ConditionFailed{"no condition"}));
  EXPECT_TRUE(C(Not{}).required_inputs().empty());
}

}  // namespace
}  // namespace shmcoord
