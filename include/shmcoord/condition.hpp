#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shmcoord/error.hpp"
#include "shmcoord/export.hpp"

// What a guard asks for: 20 kinds of conditions, written in C++, as one line of text, or as JSON (C-20). The three mean
// the same and convert into each other:
//
//   using Is = GuardCondition;
//   Is::lock_free("main") && Is::semaphore_available("agents", 1) && !Is::file_exists(".lock")
//
//   lock_free(main) && semaphore_available(agents, 1) && !file_exists(".lock")
//
//   {"type": "all", "conditions": [{"type": "lock_free", "lock": "main"}, …]}
//
// Evaluation is pure: a condition says what it has to know (required_inputs), somebody gathers that into GuardInputs,
// and evaluate() answers from them and from nothing else (S0-62). So nothing here looks at a segment, a file or a
// clock, and nothing is lost if the process dies here. All of it are values: safe to copy, and to read from several
// threads.

namespace shmcoord {

class GuardCondition;

/// Where an issue stands (C-54). Adapters map what their tracker says.
enum class IssueStatus : std::uint8_t { to_do, in_progress, blocked, done, cancelled };

/// "Todo", "InProgress", "Blocked", "Done", "Cancelled".
[[nodiscard]] SHMCOORD_EXPORT std::string_view to_string(IssueStatus status) noexcept;
/// Of exactly those words; nothing for any other.
[[nodiscard]] SHMCOORD_EXPORT std::optional<IssueStatus> issue_status_from(std::string_view text) noexcept;

struct Issue {
  std::string id;
  IssueStatus status = IssueStatus::to_do;
  std::vector<std::string> labels = {};
  friend bool operator==(const Issue&, const Issue&) = default;
};

/// Which issues are meant (C-54): those whose id is one of `ids`, that carry all of `labels`, and whose status is one
/// of `statuses`. A part that is empty asks for nothing; without any, every issue is meant.
struct SHMCOORD_EXPORT IssueFilter {
  std::vector<std::string> ids = {};
  std::vector<std::string> labels = {};
  std::vector<IssueStatus> statuses = {};

  [[nodiscard]] bool matches(const Issue& issue) const;
  /// As text: `id=7,label=x,status=Blocked`. A comma or backslash in a value stands behind a backslash.
  [[nodiscard]] std::string str() const;
  /// Throws Error invalid_argument: an unknown key, an unknown status, an empty value.
  [[nodiscard]] static IssueFilter parse(std::string_view text);

  friend bool operator==(const IssueFilter&, const IssueFilter&) = default;
};

// --- the kinds ----------------------------------------------------------------------------------------------------

/// Nobody holds it. A lock that does not exist is free (S0-42, S0-66).
struct LockFree {
  std::string lock;
  friend bool operator==(const LockFree&, const LockFree&) = default;
};
/// Somebody holds it: that holder, or anybody (S0-43, S0-67, S1-68).
struct LockHeld {
  std::string lock;
  std::optional<std::string> by = {};
  friend bool operator==(const LockHeld&, const LockHeld&) = default;
};
/// So many permits are free just now (S0-44, S0-68).
struct SemaphoreAvailable {
  std::string semaphore;
  std::uint32_t weight = 1;  ///< at least 1
  friend bool operator==(const SemaphoreAvailable&, const SemaphoreAvailable&) = default;
};
/// Every issue that the filter means is Done; also when it means none (S0-45, S0-69, C-53).
struct IssuesComplete {
  IssueFilter filter = {};
  friend bool operator==(const IssuesComplete&, const IssuesComplete&) = default;
};
/// No issue that the filter means is Blocked (S0-46, C-53).
struct NoBlockedIssues {
  IssueFilter filter = {};
  friend bool operator==(const NoBlockedIssues&, const NoBlockedIssues&) = default;
};
/// S1-74.
struct IssueHasStatus {
  std::string issue;
  IssueStatus expected = IssueStatus::done;
  friend bool operator==(const IssueHasStatus&, const IssueHasStatus&) = default;
};
/// S0-47.
struct BranchExists {
  std::string branch;
  friend bool operator==(const BranchExists&, const BranchExists&) = default;
};
/// S1-71.
struct BranchNotExists {
  std::string branch;
  friend bool operator==(const BranchNotExists&, const BranchNotExists&) = default;
};
/// Where it is checked out, nothing is changed that is not committed (S0-48).
struct BranchClean {
  std::string branch;
  friend bool operator==(const BranchClean&, const BranchClean&) = default;
};
/// All that is in `branch` is in `into` too (S0-49).
struct BranchMerged {
  std::string branch;
  std::string into;
  friend bool operator==(const BranchMerged&, const BranchMerged&) = default;
};
/// S0-50.
struct FileExists {
  std::string path;
  friend bool operator==(const FileExists&, const FileExists&) = default;
};
/// S1-76.
struct FileNotExists {
  std::string path;
  friend bool operator==(const FileNotExists&, const FileNotExists&) = default;
};
/// RE2 syntax, found anywhere in the file; ^ and $ also match at lines (S0-51, C-55).
struct FileContains {
  std::string path;
  std::string pattern;
  friend bool operator==(const FileContains&, const FileContains&) = default;
};
/// S1-77.
struct SessionAlive {
  std::string session;
  friend bool operator==(const SessionAlive&, const SessionAlive&) = default;
};
/// S0-52.
struct PipelineInPhase {
  std::string pipeline;
  std::string phase;
  friend bool operator==(const PipelineInPhase&, const PipelineInPhase&) = default;
};
/// S0-53, S0-72.
struct PipelineComplete {
  std::string pipeline;
  friend bool operator==(const PipelineComplete&, const PipelineComplete&) = default;
};
/// A shell command exits with 0, or, if failure is expected, with anything else (S0-57, S0-76, S1-78). A command that
/// could not be run at all does neither.
struct Command {
  std::string command;
  std::optional<std::string> description = {};  ///< said instead of the command when it is not as expected
  bool expect_success = true;
  friend bool operator==(const Command&, const Command&) = default;
};
/// Every one passes; of none, too (S0-54, S1-84, C-22).
struct All {
  std::vector<GuardCondition> conditions;
  friend bool operator==(const All&, const All&) = default;
};
/// One of them passes; of none, none does (S0-55, S1-85, C-21, C-22).
struct Any {
  std::vector<GuardCondition> conditions;
  friend bool operator==(const Any&, const Any&) = default;
};
/// It fails. What is not known does not become known by being turned round (S0-56, S1-86, C-22).
struct SHMCOORD_EXPORT Not {
  std::shared_ptr<const GuardCondition> condition;  ///< never null in a condition that is valid
  friend SHMCOORD_EXPORT bool operator==(const Not&, const Not&);
};

// --- what has to be known -----------------------------------------------------------------------------------------

/// S1-57 to S1-65, with those of C-56.
enum class GuardInputKind : std::uint8_t {
  lock_state,
  semaphore_state,
  branch_exists,
  branch_merged,
  branch_clean,
  issue_status,
  issues_for_filter,
  file_exists,
  file_contains,
  session_alive,
  custom_check,
  pipeline_state,
};

/// One thing that has to be known.
struct SHMCOORD_EXPORT GuardInput {
  GuardInputKind kind = GuardInputKind::lock_state;
  std::string subject = {};   ///< name, branch, path, issue id, command, or IssueFilter::str()
  std::string argument = {};  ///< the branch it is merged into, or the pattern that a file contains

  /// For people: "whether branch 'x' is merged into 'main'".
  [[nodiscard]] std::string str() const;
  friend auto operator<=>(const GuardInput&, const GuardInput&) = default;
};

struct PipelineState {
  std::string phase = {};  ///< the one it is in; empty: none
  bool complete = false;
  friend bool operator==(const PipelineState&, const PipelineState&) = default;
};

/// What is known (S1-66, C-19). What stands in none of these is not known.
struct GuardInputs {
  using Pair = std::pair<std::string, std::string>;
  std::map<std::string, bool> locks = {};                             ///< true: free
  std::map<std::string, std::vector<std::string>> lock_holders = {};  ///< of locks that are held
  std::map<std::string, std::uint32_t> semaphores = {};               ///< permits that are free
  std::map<std::string, bool> branches = {};                          ///< it exists
  std::map<Pair, bool> branch_merged = {};                            ///< (branch, into)
  std::map<std::string, bool> branch_clean = {};
  std::map<std::string, IssueStatus> issues = {};
  std::map<std::string, std::vector<Issue>> issue_lists = {};  ///< by IssueFilter::str(): all that it means
  std::map<std::string, bool> files = {};                      ///< it exists
  std::map<Pair, bool> file_contains = {};                     ///< (path, pattern)
  std::map<std::string, bool> sessions = {};                   ///< it lives
  std::map<std::string, bool> custom_checks = {};              ///< by command: it exited with 0
  std::map<std::string, std::string> command_details = {};     ///< by command: how it ended, told where it failed
  std::map<std::string, PipelineState> pipelines = {};
  /// Why something could not be found out: "no such semaphore", "not a git repository". It is as little known as what
  /// nobody asked for, but the reason is told.
  std::map<GuardInput, std::string> failures = {};
};

// --- the answer ---------------------------------------------------------------------------------------------------

/// The condition holds.
struct ConditionPassed {
  friend bool operator==(const ConditionPassed&, const ConditionPassed&) = default;
};
/// It does not, and why: one line for people.
struct ConditionFailed {
  std::string reason;
  friend bool operator==(const ConditionFailed&, const ConditionFailed&) = default;
};
/// It cannot be told without knowing this.
struct NeedsInput {
  GuardInput input;
  friend bool operator==(const NeedsInput&, const NeedsInput&) = default;
};
using ConditionResult = std::variant<ConditionPassed, ConditionFailed, NeedsInput>;

/// A mistake in a condition that was written as text: where, and what was expected there.
class SHMCOORD_EXPORT ConditionError : public Error {
 public:
  /// `column` counts characters from 1; 0: it is not at one place.
  ConditionError(std::size_t column, const std::string& what);
  ~ConditionError() override;

  [[nodiscard]] std::size_t column() const noexcept { return column_; }

 private:
  std::size_t column_;
};

namespace detail {
template <class T, class Variant>
struct IsOneOf;
template <class T, class... Kinds>
struct IsOneOf<T, std::variant<Kinds...>> : std::disjunction<std::is_same<T, Kinds>...> {};
}  // namespace detail

/// A condition. Errors of all that parse or check: ConditionError (invalid_argument); nothing is made then.
class SHMCOORD_EXPORT GuardCondition {
 public:
  using Variant = std::variant<LockFree, LockHeld, SemaphoreAvailable, IssuesComplete, NoBlockedIssues, IssueHasStatus,
                               BranchExists, BranchNotExists, BranchClean, BranchMerged, FileExists, FileNotExists,
                               FileContains, SessionAlive, PipelineInPhase, PipelineComplete, Command, All, Any, Not>;

  static constexpr std::size_t max_depth = 64;         ///< of conditions in conditions
  static constexpr std::size_t max_conditions = 1000;  ///< all together
  static constexpr std::size_t max_text = 65'536;      ///< bytes, as text or JSON
  static constexpr std::size_t max_word = 4'096;       ///< bytes of one name, path, pattern or command

  /// Any of the kinds. Not checked; check() does.
  template <class Kind>
  requires detail::IsOneOf<Kind, Variant>::value GuardCondition(Kind kind)
      : kind_(std::move(kind)) {}  // NOLINT(google-explicit-constructor): a kind is a condition

  // S1-87; names as in the text form.
  [[nodiscard]] static GuardCondition lock_free(std::string lock);
  [[nodiscard]] static GuardCondition lock_held(std::string lock, std::optional<std::string> by = {});
  [[nodiscard]] static GuardCondition semaphore_available(std::string semaphore, std::uint32_t weight = 1);
  [[nodiscard]] static GuardCondition issues_complete(IssueFilter filter = {});
  [[nodiscard]] static GuardCondition no_blocked_issues(IssueFilter filter = {});
  [[nodiscard]] static GuardCondition issue_status(std::string issue, IssueStatus expected);
  [[nodiscard]] static GuardCondition branch_exists(std::string branch);
  [[nodiscard]] static GuardCondition branch_not_exists(std::string branch);
  [[nodiscard]] static GuardCondition branch_clean(std::string branch);
  [[nodiscard]] static GuardCondition branch_merged(std::string branch, std::string into);
  [[nodiscard]] static GuardCondition file_exists(std::string path);
  [[nodiscard]] static GuardCondition file_not_exists(std::string path);
  [[nodiscard]] static GuardCondition file_contains(std::string path, std::string pattern);
  [[nodiscard]] static GuardCondition session_alive(std::string session);
  [[nodiscard]] static GuardCondition pipeline_in_phase(std::string pipeline, std::string phase);
  [[nodiscard]] static GuardCondition pipeline_complete(std::string pipeline);
  [[nodiscard]] static GuardCondition command(std::string command, bool expect_success = true,
                                              std::optional<std::string> description = {});
  [[nodiscard]] static GuardCondition all(std::vector<GuardCondition> conditions);
  [[nodiscard]] static GuardCondition any(std::vector<GuardCondition> conditions);
  [[nodiscard]] static GuardCondition negation(GuardCondition condition);  ///< `not` is a word of C++

  /// As in the text form. They do not short-circuit: nothing is evaluated here.
  friend SHMCOORD_EXPORT GuardCondition operator&&(GuardCondition a, GuardCondition b);
  friend SHMCOORD_EXPORT GuardCondition operator||(GuardCondition a, GuardCondition b);
  friend SHMCOORD_EXPORT GuardCondition operator!(GuardCondition a);

  [[nodiscard]] const Variant& kind() const noexcept { return kind_; }
  /// "lock_free", "all": the word of the text form and of JSON's "type".
  [[nodiscard]] std::string_view type() const noexcept;

  /// Everything that evaluate() may ask for, in the order of the text, each once (S1-82).
  [[nodiscard]] std::vector<GuardInput> required_inputs() const;
  /// Pure, and the same for the same inputs (S1-83). `all` answers with the first that does not pass, `any` passes with
  /// the first that does; if none does, with what is not known, else with the last failure (C-21).
  [[nodiscard]] ConditionResult evaluate(const GuardInputs& inputs) const;

  /// One line; parse() of it gives an equal condition.
  [[nodiscard]] std::string str() const;
  /// `name(word, …)`, `!`, `&&` before `||`, parentheses, all(…), any(…), not(…). A word with blanks, quotes, a
  /// backslash or one of ()!&|, stands in quotes: "…" knows \" \\ \n and \t, '…' is taken as it stands.
  [[nodiscard]] static GuardCondition parse(std::string_view text);

  /// {"type": …} with the fields of the kind.
  [[nodiscard]] std::string json() const;
  /// A mistake is told with its path: `$.conditions[1].weight`.
  [[nodiscard]] static GuardCondition parse_json(std::string_view json);

  /// Throws ConditionError if it is too deep, too large, or has an empty or malformed word; what parse() gives is good.
  void check() const;

  friend bool operator==(const GuardCondition&, const GuardCondition&) = default;

 private:
  Variant kind_;
};

}  // namespace shmcoord
