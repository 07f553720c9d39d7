#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "shmcoord/condition.hpp"

// What each kind of condition is called and what it consists of, once, for text, JSON and checks: a visitor is called
// with each field in its order,
//   visit(name, value, What::…)
// and reads or writes it. A field of type std::optional, and a number or bool, need not be given: it has a value
// already. So a new kind is one line in type_names and one function here.

namespace shmcoord::coordination {

/// What a word means, which says what it may contain.
enum class What : std::uint8_t { primitive, holder, word };

// In the order of GuardCondition::Variant.
inline constexpr std::array<std::string_view, std::variant_size_v<GuardCondition::Variant>> type_names{
    "lock_free",
    "lock_held",
    "semaphore_available",
    "issues_complete",
    "no_blocked_issues",
    "issue_status",
    "branch_exists",
    "branch_not_exists",
    "branch_clean",
    "branch_merged",
    "file_exists",
    "file_not_exists",
    "file_contains",
    "session_alive",
    "pipeline_in_phase",
    "pipeline_complete",
    "command",
    "all",
    "any",
    "not"};

template <class Kind>
inline constexpr bool is_composite =
    std::is_same_v<std::remove_const_t<Kind>, All> || std::is_same_v<std::remove_const_t<Kind>, Any> ||
    std::is_same_v<std::remove_const_t<Kind>, Not>;

// C may be const, then it is written from.
template <class C, class V>
void fields_of(C& c, V&& visit) {
  using K = std::remove_const_t<C>;
  if constexpr (std::is_same_v<K, LockFree>) {
    visit("lock", c.lock, What::primitive);
  } else if constexpr (std::is_same_v<K, LockHeld>) {
    visit("lock", c.lock, What::primitive);
    visit("by", c.by, What::holder);
  } else if constexpr (std::is_same_v<K, SemaphoreAvailable>) {
    visit("semaphore", c.semaphore, What::primitive);
    visit("weight", c.weight, What::word);
  } else if constexpr (std::is_same_v<K, IssuesComplete> || std::is_same_v<K, NoBlockedIssues>) {
    visit("filter", c.filter, What::word);
  } else if constexpr (std::is_same_v<K, IssueHasStatus>) {
    visit("issue", c.issue, What::word);
    visit("expected", c.expected, What::word);
  } else if constexpr (std::is_same_v<K, BranchExists> || std::is_same_v<K, BranchNotExists> ||
                       std::is_same_v<K, BranchClean>) {
    visit("branch", c.branch, What::word);
  } else if constexpr (std::is_same_v<K, BranchMerged>) {
    visit("branch", c.branch, What::word);
    visit("into", c.into, What::word);
  } else if constexpr (std::is_same_v<K, FileExists> || std::is_same_v<K, FileNotExists>) {
    visit("path", c.path, What::word);
  } else if constexpr (std::is_same_v<K, FileContains>) {
    visit("path", c.path, What::word);
    visit("pattern", c.pattern, What::word);
  } else if constexpr (std::is_same_v<K, SessionAlive>) {
    visit("session", c.session, What::word);
  } else if constexpr (std::is_same_v<K, PipelineInPhase>) {
    visit("pipeline", c.pipeline, What::word);
    visit("phase", c.phase, What::word);
  } else if constexpr (std::is_same_v<K, PipelineComplete>) {
    visit("pipeline", c.pipeline, What::word);
  } else if constexpr (std::is_same_v<K, Command>) {
    visit("command", c.command, What::word);
    visit("description", c.description, What::word);
    visit("expect_success", c.expect_success, What::word);
  } else {
    static_assert(is_composite<K>);
  }
}

/// Calls make(Kind{}) of the type that is called so. False: there is none.
template <class Fn, std::size_t I = 0>
bool with_type(std::string_view name, Fn&& make) {
  if constexpr (I == type_names.size()) {
    return false;
  } else {
    if (type_names[I] != name) return with_type<Fn, I + 1>(name, std::forward<Fn>(make));
    make(std::variant_alternative_t<I, GuardCondition::Variant>{});
    return true;
  }
}

/// "lock_free, lock_held, …".
std::string all_type_names();

/// Nothing when the word may stand in that field; else what is wrong with it.
std::string_view check_word(std::string_view word, What what);

/// {status} as in IssueFilter's text; for messages: "Todo, InProgress, Blocked, Done or Cancelled".
inline constexpr std::string_view issue_statuses = "Todo, InProgress, Blocked, Done or Cancelled";

}  // namespace shmcoord::coordination
