#include "shmcoord/condition.hpp"

#include <algorithm>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "coordination/condition_fields.hpp"
#include "core/names.hpp"

// What conditions are, and what they say. As text: condition_text.cpp; as JSON: condition_json.cpp.

namespace shmcoord {
namespace {

using coordination::check_word;
using coordination::fields_of;
using coordination::What;

std::string quoted(std::string_view word) { return "'" + base::printable(word) + "'"; }

// What a condition that is no composite has to know.
template <class Kind>
GuardInput input_of(const Kind& c) {
  using enum GuardInputKind;
  if constexpr (std::is_same_v<Kind, LockFree> || std::is_same_v<Kind, LockHeld>) {
    return {lock_state, c.lock};
  } else if constexpr (std::is_same_v<Kind, SemaphoreAvailable>) {
    return {semaphore_state, c.semaphore};
  } else if constexpr (std::is_same_v<Kind, IssuesComplete> || std::is_same_v<Kind, NoBlockedIssues>) {
    return {issues_for_filter, c.filter.str()};
  } else if constexpr (std::is_same_v<Kind, IssueHasStatus>) {
    return {GuardInputKind::issue_status, c.issue};
  } else if constexpr (std::is_same_v<Kind, BranchExists> || std::is_same_v<Kind, BranchNotExists>) {
    return {branch_exists, c.branch};
  } else if constexpr (std::is_same_v<Kind, BranchClean>) {
    return {branch_clean, c.branch};
  } else if constexpr (std::is_same_v<Kind, BranchMerged>) {
    return {branch_merged, c.branch, c.into};
  } else if constexpr (std::is_same_v<Kind, FileExists> || std::is_same_v<Kind, FileNotExists>) {
    return {file_exists, c.path};
  } else if constexpr (std::is_same_v<Kind, FileContains>) {
    return {file_contains, c.path, c.pattern};
  } else if constexpr (std::is_same_v<Kind, SessionAlive>) {
    return {session_alive, c.session};
  } else if constexpr (std::is_same_v<Kind, PipelineInPhase> || std::is_same_v<Kind, PipelineComplete>) {
    return {pipeline_state, c.pipeline};
  } else {
    static_assert(std::is_same_v<Kind, Command>);
    return {custom_check, c.command};
  }
}

template <class Map, class Key>
const typename Map::mapped_type* known(const Map& map, const Key& key) {
  const auto at = map.find(key);
  return at == map.end() ? nullptr : &at->second;
}

ConditionResult passed_if(bool passed, const auto& reason) {
  if (passed) return ConditionPassed{};
  return ConditionFailed{reason()};
}

std::string holders_text(const std::vector<std::string>& holders) {
  std::string text;
  for (std::size_t i = 0; i < holders.size() && i < 3; ++i) text += (i == 0 ? "" : ", ") + quoted(holders[i]);
  if (holders.size() > 3) text += " and " + std::to_string(holders.size() - 3) + " more";
  return text;
}

// The first issues of those that are not as they should be.
std::string issues_text(const std::vector<const Issue*>& issues) {
  std::string text;
  for (std::size_t i = 0; i < issues.size() && i < 3; ++i) {
    text += (i == 0 ? "" : ", ") + quoted(issues[i]->id) + " is " + std::string(to_string(issues[i]->status));
  }
  if (issues.size() > 3) text += " and " + std::to_string(issues.size() - 3) + " more";
  return text;
}

// Each kind beside what it says. Null: not known.
struct Judge {
  const GuardInputs& in;
  using Result = std::optional<ConditionResult>;

  Result operator()(const LockFree& c) const {
    const bool* const free = known(in.locks, c.lock);
    if (free == nullptr) return {};
    return passed_if(*free, [&] {
      const auto* const holders = known(in.lock_holders, c.lock);
      const bool named = holders != nullptr && !holders->empty();
      return "lock " + quoted(c.lock) + " is held" + (named ? " by " + holders_text(*holders) : "");
    });
  }
  Result operator()(const LockHeld& c) const {
    const bool* const free = known(in.locks, c.lock);
    if (free == nullptr) return {};
    if (*free) return ConditionFailed{"lock " + quoted(c.lock) + " is free"};
    if (!c.by) return ConditionPassed{};
    const auto* const holders = known(in.lock_holders, c.lock);
    if (holders == nullptr) return {};
    return passed_if(std::find(holders->begin(), holders->end(), *c.by) != holders->end(), [&] {
      return "lock " + quoted(c.lock) + " is held by " + holders_text(*holders) + ", not by " + quoted(*c.by);
    });
  }
  Result operator()(const SemaphoreAvailable& c) const {
    const std::uint32_t* const available = known(in.semaphores, c.semaphore);
    if (available == nullptr) return {};
    return passed_if(*available >= c.weight, [&] {
      return "semaphore " + quoted(c.semaphore) + " has " + std::to_string(*available) + " free, " +
             std::to_string(c.weight) + (c.weight == 1 ? " is" : " are") + " needed";
    });
  }
  Result operator()(const IssuesComplete& c) const {
    return all_issues(c.filter, [](const Issue& i) { return i.status == IssueStatus::done; });
  }
  Result operator()(const NoBlockedIssues& c) const {
    return all_issues(c.filter, [](const Issue& i) { return i.status != IssueStatus::blocked; });
  }
  Result operator()(const IssueHasStatus& c) const {
    const IssueStatus* const status = known(in.issues, c.issue);
    if (status == nullptr) return {};
    return passed_if(*status == c.expected, [&] {
      return "issue " + quoted(c.issue) + " is " + std::string(to_string(*status)) + ", not " +
             std::string(to_string(c.expected));
    });
  }
  Result operator()(const BranchExists& c) const {
    return wants(known(in.branches, c.branch), true, [&] { return "branch " + quoted(c.branch) + " does not exist"; });
  }
  Result operator()(const BranchNotExists& c) const {
    return wants(known(in.branches, c.branch), false, [&] { return "branch " + quoted(c.branch) + " exists"; });
  }
  Result operator()(const BranchClean& c) const {
    return wants(known(in.branch_clean, c.branch), true,
                 [&] { return "branch " + quoted(c.branch) + " has changes that are not committed"; });
  }
  Result operator()(const BranchMerged& c) const {
    return wants(known(in.branch_merged, GuardInputs::Pair(c.branch, c.into)), true,
                 [&] { return "branch " + quoted(c.branch) + " is not merged into " + quoted(c.into); });
  }
  Result operator()(const FileExists& c) const {
    return wants(known(in.files, c.path), true, [&] { return "file " + quoted(c.path) + " does not exist"; });
  }
  Result operator()(const FileNotExists& c) const {
    return wants(known(in.files, c.path), false, [&] { return "file " + quoted(c.path) + " exists"; });
  }
  Result operator()(const FileContains& c) const {
    return wants(known(in.file_contains, GuardInputs::Pair(c.path, c.pattern)), true,
                 [&] { return "file " + quoted(c.path) + " does not contain " + quoted(c.pattern); });
  }
  Result operator()(const SessionAlive& c) const {
    return wants(known(in.sessions, c.session), true, [&] { return "session " + quoted(c.session) + " is not alive"; });
  }
  Result operator()(const PipelineInPhase& c) const {
    const PipelineState* const state = known(in.pipelines, c.pipeline);
    if (state == nullptr) return {};
    return passed_if(state->phase == c.phase, [&] {
      return "pipeline " + quoted(c.pipeline) + " is in " +
             (state->phase.empty() ? std::string("no phase") : "phase " + quoted(state->phase)) + ", not in " +
             quoted(c.phase);
    });
  }
  Result operator()(const PipelineComplete& c) const {
    const PipelineState* const state = known(in.pipelines, c.pipeline);
    if (state == nullptr) return {};
    return passed_if(state->complete, [&] { return "pipeline " + quoted(c.pipeline) + " is not complete"; });
  }
  Result operator()(const Command& c) const {
    const bool* const success = known(in.custom_checks, c.command);
    if (success == nullptr) return {};
    return passed_if(*success == c.expect_success, [&] {
      const std::string what = c.description ? base::printable(*c.description) + ":" : "command " + quoted(c.command);
      if (!c.expect_success) return what + " succeeded, and should fail";
      const std::string* const detail = known(in.command_details, c.command);
      return what + " failed" + (detail == nullptr ? "" : ": " + base::shortened(*detail, 500));
    });
  }

 private:
  template <class Reason>
  static Result wants(const bool* is, bool wanted, const Reason& reason) {
    if (is == nullptr) return {};
    return passed_if(*is == wanted, reason);
  }
  template <class Good>
  Result all_issues(const IssueFilter& filter, const Good& good) const {
    const auto* const issues = known(in.issue_lists, filter.str());
    if (issues == nullptr) return {};
    std::vector<const Issue*> bad;
    for (const Issue& i : *issues) {
      if (filter.matches(i) && !good(i)) bad.push_back(&i);
    }
    return passed_if(bad.empty(), [&] {
      return (bad.size() == 1 ? "issue " : std::to_string(bad.size()) + " issues: ") + issues_text(bad);
    });
  }
};

ConditionResult evaluate_all(const All& all, const GuardInputs& inputs) {
  for (const GuardCondition& c : all.conditions) {
    ConditionResult result = c.evaluate(inputs);
    if (!std::holds_alternative<ConditionPassed>(result)) return result;
  }
  return ConditionPassed{};
}

ConditionResult evaluate_any(const Any& any, const GuardInputs& inputs) {
  ConditionResult answer = ConditionFailed{"no conditions"};
  for (const GuardCondition& c : any.conditions) {
    ConditionResult result = c.evaluate(inputs);
    if (std::holds_alternative<ConditionPassed>(result)) return result;
    if (!std::holds_alternative<NeedsInput>(answer)) answer = std::move(result);
  }
  return answer;
}

ConditionResult evaluate_not(const Not& n, const GuardInputs& inputs) {
  if (n.condition == nullptr) return ConditionFailed{"no condition"};
  ConditionResult result = n.condition->evaluate(inputs);
  if (std::holds_alternative<NeedsInput>(result)) return result;
  if (std::holds_alternative<ConditionFailed>(result)) return ConditionPassed{};
  return ConditionFailed{"this holds, and should not: " + base::shortened(n.condition->str(), 200)};
}

void collect(const GuardCondition& condition, std::vector<GuardInput>& inputs) {
  std::visit(
      [&]<class Kind>(const Kind& c) {
        if constexpr (std::is_same_v<Kind, Not>) {
          if (c.condition != nullptr) collect(*c.condition, inputs);
        } else if constexpr (coordination::is_composite<Kind>) {
          for (const GuardCondition& child : c.conditions) collect(child, inputs);
        } else {
          inputs.push_back(input_of(c));
        }
      },
      condition.kind());
}

void check_children(const GuardCondition& condition, std::size_t depth, std::size_t& count);

template <class Kind>
void check_kind(const Kind& c, std::size_t depth, std::size_t& count) {
  if constexpr (std::is_same_v<Kind, Not>) {
    if (c.condition == nullptr) throw ConditionError(0, "a condition is missing behind `not`");
    check_children(*c.condition, depth, count);
  } else if constexpr (coordination::is_composite<Kind>) {
    for (const GuardCondition& child : c.conditions) check_children(child, depth, count);
  } else {
    const auto bad = [](std::string_view name, std::string_view value, std::string_view why) {
      throw ConditionError(0, std::string(name) + " " + quoted(value) + " " + std::string(why));
    };
    const auto check_one = [&](std::string_view name, std::string_view value, What what) {
      if (const std::string_view why = check_word(value, what); !why.empty()) bad(name, value, why);
    };
    fields_of(c, [&]<class T>(std::string_view name, const T& value, What what) {
      if constexpr (std::is_same_v<T, std::string>) {
        check_one(name, value, what);
      } else if constexpr (std::is_same_v<T, std::optional<std::string>>) {
        if (value) check_one(name, *value, what);
      } else if constexpr (std::is_same_v<T, std::uint32_t>) {
        if (value == 0) bad(name, "0", "is not at least 1");
      } else if constexpr (std::is_same_v<T, IssueFilter>) {
        for (const std::string& id : value.ids) check_one("id", id, What::word);
        for (const std::string& label : value.labels) check_one("label", label, What::word);
      }
    });
  }
}

void check_children(const GuardCondition& condition, std::size_t depth, std::size_t& count) {
  if (depth > GuardCondition::max_depth) {
    throw ConditionError(0, "conditions are nested more than " + std::to_string(GuardCondition::max_depth) + " deep");
  }
  if (++count > GuardCondition::max_conditions) {
    throw ConditionError(0, "there are more than " + std::to_string(GuardCondition::max_conditions) + " conditions");
  }
  std::visit([&](const auto& c) { check_kind(c, depth + 1, count); }, condition.kind());
}

}  // namespace

namespace coordination {

std::string all_type_names() {
  std::string names;
  for (const std::string_view name : type_names) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

std::string_view check_word(std::string_view word, What what) {
  if (what == What::primitive || what == What::holder) return core::check_name(word);
  if (word.empty()) return "is empty";
  if (word.size() > GuardCondition::max_word) return "is longer than 4096 bytes";
  if (word.find('\0') != std::string_view::npos) return "contains a zero byte";
  while (!word.empty()) {
    char32_t code = 0;
    const std::size_t length = base::utf8_sequence(word, &code);
    if (length == 0) return "is not valid UTF-8";
    word.remove_prefix(length);
  }
  return {};
}

}  // namespace coordination

// --- what stands in the header ---------------------------------------------------------------------------------------

ConditionError::ConditionError(std::size_t column, const std::string& what)
    : Error(Errc::invalid_argument, column == 0 ? what : "column " + std::to_string(column) + ": " + what),
      column_(column) {}
ConditionError::~ConditionError() = default;

bool operator==(const Not& a, const Not& b) {
  if (a.condition == nullptr || b.condition == nullptr) return a.condition == b.condition;
  return *a.condition == *b.condition;
}

std::string_view to_string(IssueStatus status) noexcept {
  switch (status) {
    case IssueStatus::to_do: return "Todo";
    case IssueStatus::in_progress: return "InProgress";
    case IssueStatus::blocked: return "Blocked";
    case IssueStatus::done: return "Done";
    case IssueStatus::cancelled: return "Cancelled";
  }
  return "?";
}

std::optional<IssueStatus> issue_status_from(std::string_view text) noexcept {
  for (const IssueStatus status : {IssueStatus::to_do, IssueStatus::in_progress, IssueStatus::blocked,
                                   IssueStatus::done, IssueStatus::cancelled}) {
    if (to_string(status) == text) return status;
  }
  return std::nullopt;
}

bool IssueFilter::matches(const Issue& issue) const {
  const auto has = [](const auto& list, const auto& value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  };
  return (ids.empty() || has(ids, issue.id)) && (statuses.empty() || has(statuses, issue.status)) &&
         std::all_of(labels.begin(), labels.end(), [&](const std::string& label) { return has(issue.labels, label); });
}

std::string GuardInput::str() const {
  using enum GuardInputKind;
  switch (kind) {
    case lock_state: return "the state of lock " + quoted(subject);
    case semaphore_state: return "the state of semaphore " + quoted(subject);
    case branch_exists: return "whether branch " + quoted(subject) + " exists";
    case branch_merged: return "whether branch " + quoted(subject) + " is merged into " + quoted(argument);
    case branch_clean: return "whether branch " + quoted(subject) + " is clean";
    case GuardInputKind::issue_status: return "the status of issue " + quoted(subject);
    case issues_for_filter: return subject.empty() ? "all issues" : "the issues of " + quoted(subject);
    case file_exists: return "whether file " + quoted(subject) + " exists";
    case file_contains: return "whether file " + quoted(subject) + " contains " + quoted(argument);
    case session_alive: return "whether session " + quoted(subject) + " is alive";
    case custom_check: return "how command " + quoted(subject) + " ends";
    case pipeline_state: return "the state of pipeline " + quoted(subject);
  }
  return "?";
}

GuardCondition GuardCondition::lock_free(std::string lock) { return LockFree{std::move(lock)}; }
GuardCondition GuardCondition::lock_held(std::string lock, std::optional<std::string> by) {
  return LockHeld{std::move(lock), std::move(by)};
}
GuardCondition GuardCondition::semaphore_available(std::string semaphore, std::uint32_t weight) {
  return SemaphoreAvailable{std::move(semaphore), weight};
}
GuardCondition GuardCondition::issues_complete(IssueFilter filter) { return IssuesComplete{std::move(filter)}; }
GuardCondition GuardCondition::no_blocked_issues(IssueFilter filter) { return NoBlockedIssues{std::move(filter)}; }
GuardCondition GuardCondition::issue_status(std::string issue, IssueStatus expected) {
  return IssueHasStatus{std::move(issue), expected};
}
GuardCondition GuardCondition::branch_exists(std::string branch) { return BranchExists{std::move(branch)}; }
GuardCondition GuardCondition::branch_not_exists(std::string branch) { return BranchNotExists{std::move(branch)}; }
GuardCondition GuardCondition::branch_clean(std::string branch) { return BranchClean{std::move(branch)}; }
GuardCondition GuardCondition::branch_merged(std::string branch, std::string into) {
  return BranchMerged{std::move(branch), std::move(into)};
}
GuardCondition GuardCondition::file_exists(std::string path) { return FileExists{std::move(path)}; }
GuardCondition GuardCondition::file_not_exists(std::string path) { return FileNotExists{std::move(path)}; }
GuardCondition GuardCondition::file_contains(std::string path, std::string pattern) {
  return FileContains{std::move(path), std::move(pattern)};
}
GuardCondition GuardCondition::session_alive(std::string session) { return SessionAlive{std::move(session)}; }
GuardCondition GuardCondition::pipeline_in_phase(std::string pipeline, std::string phase) {
  return PipelineInPhase{std::move(pipeline), std::move(phase)};
}
GuardCondition GuardCondition::pipeline_complete(std::string pipeline) { return PipelineComplete{std::move(pipeline)}; }
GuardCondition GuardCondition::command(std::string command, bool expect_success,
                                       std::optional<std::string> description) {
  return Command{std::move(command), std::move(description), expect_success};
}
GuardCondition GuardCondition::all(std::vector<GuardCondition> conditions) { return All{std::move(conditions)}; }
GuardCondition GuardCondition::any(std::vector<GuardCondition> conditions) { return Any{std::move(conditions)}; }
GuardCondition GuardCondition::negation(GuardCondition condition) {
  return Not{std::make_shared<const GuardCondition>(std::move(condition))};
}

namespace {

// a && b && c is one All of three, as in the text.
template <class Composite>
GuardCondition joined(GuardCondition a, GuardCondition b) {
  Composite both;
  if (const auto* const left = std::get_if<Composite>(&a.kind()); left != nullptr && left->conditions.size() > 1) {
    both = *left;
  } else {
    both.conditions.push_back(std::move(a));
  }
  both.conditions.push_back(std::move(b));
  return both;
}

}  // namespace

GuardCondition operator&&(GuardCondition a, GuardCondition b) { return joined<All>(std::move(a), std::move(b)); }
GuardCondition operator||(GuardCondition a, GuardCondition b) { return joined<Any>(std::move(a), std::move(b)); }
GuardCondition operator!(GuardCondition a) { return GuardCondition::negation(std::move(a)); }

std::string_view GuardCondition::type() const noexcept { return coordination::type_names[kind_.index()]; }

std::vector<GuardInput> GuardCondition::required_inputs() const {
  std::vector<GuardInput> found;
  collect(*this, found);
  std::vector<GuardInput> once;
  for (GuardInput& input : found) {
    if (std::find(once.begin(), once.end(), input) == once.end()) once.push_back(std::move(input));
  }
  return once;
}

ConditionResult GuardCondition::evaluate(const GuardInputs& inputs) const {
  return std::visit(
      [&]<class Kind>(const Kind& c) -> ConditionResult {
        if constexpr (std::is_same_v<Kind, All>) {
          return evaluate_all(c, inputs);
        } else if constexpr (std::is_same_v<Kind, Any>) {
          return evaluate_any(c, inputs);
        } else if constexpr (std::is_same_v<Kind, Not>) {
          return evaluate_not(c, inputs);
        } else {
          std::optional<ConditionResult> result = Judge{inputs}(c);
          return result ? *std::move(result) : ConditionResult(NeedsInput{input_of(c)});
        }
      },
      kind_);
}

void GuardCondition::check() const {
  std::size_t count = 0;
  check_children(*this, 1, count);
  if (str().size() > max_text || json().size() > max_text) {
    throw ConditionError(0, "the condition is longer than " + std::to_string(max_text) + " bytes, as text or as JSON");
  }
}

}  // namespace shmcoord
