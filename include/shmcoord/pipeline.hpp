#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/condition.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/export.hpp"
#include "shmcoord/guard.hpp"

// A pipeline: phases one behind the other, each with a guard before and one behind it (S1-7, S1-122 to S1-129, C-59).
// Pure and a value: each step gives the pipeline as it is then and what is to be told of it. Who evaluates guards, runs
// commands, holds locks and waits is its runner; if that dies, the value as it was stored last says where to go on.
//
//   Pipeline p{"release", {{.name = "build", .guards = PhaseGuards().with_pre(GuardCondition::lock_free("main"))},
//                          {.name = "deploy"}}};
//   auto [next, effects] = p.start();
//   while (const PhaseGuard* guard = next.guard_to_evaluate()) …

namespace shmcoord {

enum class GuardType : std::uint8_t { pre, post };  ///< S1-125
[[nodiscard]] constexpr std::string_view to_string(GuardType type) noexcept {
  return type == GuardType::pre ? "pre" : "post";
}

/// What a phase asks before it is entered or left. A bare condition blocks when it fails (C-23).
struct PhaseGuard {
  GuardCondition condition;
  GuardAction on_failure = Block{};
  friend bool operator==(const PhaseGuard&, const PhaseGuard&) = default;
};

/// A mistake in a pipeline that was written as JSON: where, and what was expected there.
class SHMCOORD_EXPORT PipelineTextError : public Error {
 public:
  /// Both count from 1, `column` in characters; 0: it is not at one place.
  PipelineTextError(std::size_t line, std::size_t column, const std::string& what);
  ~PipelineTextError() override;

  [[nodiscard]] std::size_t line() const noexcept { return line_; }
  [[nodiscard]] std::size_t column() const noexcept { return column_; }

 private:
  std::size_t line_;
  std::size_t column_;
};

/// S1-122, S1-123.
struct SHMCOORD_EXPORT PhaseGuards {
  std::optional<PhaseGuard> pre = {};
  std::optional<PhaseGuard> post = {};
  std::vector<std::string> wake_on = {};  ///< as Guard::wake_on; empty: what the conditions themselves are woken by

  [[nodiscard]] PhaseGuards with_pre(GuardCondition condition, GuardAction on_failure = Block{}) const;
  [[nodiscard]] PhaseGuards with_post(GuardCondition condition, GuardAction on_failure = Block{}) const;
  [[nodiscard]] PhaseGuards with_wake_on(std::vector<std::string> patterns) const;

  /// {"pre": …, "post": …, "wake_on": […]} as in a phase of Pipeline::json(); parse_json() of it gives equal ones, if
  /// they are such as a pipeline may have.
  [[nodiscard]] std::string json() const;
  /// Throws PipelineTextError.
  [[nodiscard]] static PhaseGuards parse_json(std::string_view text);

  friend bool operator==(const PhaseGuards&, const PhaseGuards&) = default;
};

/// Permits that are held during a phase.
struct PhasePermits {
  std::string semaphore;
  std::uint32_t weight = 1;
  friend bool operator==(const PhasePermits&, const PhasePermits&) = default;
};

/// S1-124, C-59.
struct GuardedPhase {
  std::string name;
  std::vector<std::string> command = {};  ///< program and arguments; empty: nothing is run in it
  PhaseGuards guards = {};
  std::vector<std::string> locks = {};  ///< acquired behind the pre guard, held until the phase is left
  std::vector<PhasePermits> permits = {};

  [[nodiscard]] bool holds_anything() const noexcept { return !locks.empty() || !permits.empty(); }
  friend bool operator==(const GuardedPhase&, const GuardedPhase&) = default;
};

enum class PipelineStatus : std::uint8_t {
  waiting,    ///< not started
  running,    ///< in a phase, or between two
  blocked,    ///< a guard does not let it go on
  failed,     ///< a command failed, or a guard whose action is Fail
  done,       ///< all phases were left
  cancelled,  ///< somebody ended it
};
[[nodiscard]] SHMCOORD_EXPORT std::string_view to_string(PipelineStatus status) noexcept;
/// Is it over?
[[nodiscard]] constexpr bool is_over(PipelineStatus status) noexcept { return status >= PipelineStatus::failed; }

/// Where in its phase a pipeline is.
enum class PhaseStep : std::uint8_t {
  entering,   ///< its pre guard is to be evaluated
  acquiring,  ///< its locks and permits are to be acquired
  inside,     ///< its command is to be run
  leaving,    ///< its post guard is to be evaluated; the command is not run again (C-24)
};
[[nodiscard]] SHMCOORD_EXPORT std::string_view to_string(PhaseStep step) noexcept;

/// Why a pipeline does not go on (S1-126).
struct PhaseBlocked {
  std::string waiting_on;                  ///< the reason of the guard; or who has what the phase is to hold
  std::string guard_id = {};               ///< "release/build/pre"; empty: it waits for its locks and permits
  std::string condition = {};              ///< of the guard, as text
  std::vector<std::string> wake_on = {};   ///< events after which it is worth another look
  std::chrono::nanoseconds retry_after{};  ///< of Retry: also after that time; 0: not by time
  friend bool operator==(const PhaseBlocked&, const PhaseBlocked&) = default;
};

class SHMCOORD_EXPORT Pipeline {
 public:
  struct Step;

  static constexpr std::size_t max_text = std::size_t{16} << 20U;  ///< bytes, as JSON

  /// Errors: invalid_argument (no id, or one of more than 246 bytes, as "pipeline:<id>" is a holder; no phases, two
  /// of one name, a name, command, condition, pattern or weight that cannot be), ConditionError.
  Pipeline(std::string id, std::vector<GuardedPhase> phases);

  /// A pipeline that waits, of its definition. Throws PipelineTextError, and makes nothing then.
  ///
  ///   {"id": "release",
  ///    "phases": [{"name": "build",
  ///                "command": ["make", "all"],
  ///                "pre": "lock_free(main) && !file_exists('.hold')",
  ///                "post": {"condition": "file_exists(out)", "on_failure": "retry:5s"},
  ///                "wake_on": ["lock:*"],
  ///                "locks": ["main"],
  ///                "permits": {"agents": 2}}]}
  ///
  /// Of a phase only the name is needed. A command that is one text is run by `/bin/sh -c`. A guard is a condition, as
  /// text or as GuardCondition::parse_json() takes it; or that as "condition", beside "on_failure": "block", "warn",
  /// "retry:DUR" (like 250ms, 5s, 2m or 1h) or "fail:TEXT". "permits" has a weight for each semaphore.
  [[nodiscard]] static Pipeline parse_json(std::string_view text);
  /// The definition as one line, equal for equal ones; parse_json() of it gives an equal definition, if it is not
  /// longer than max_text.
  [[nodiscard]] std::string json() const;

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] const std::vector<GuardedPhase>& phases() const noexcept { return *phases_; }
  [[nodiscard]] PipelineStatus status() const noexcept { return status_; }
  /// Of the current phase; of one that is over, the last that was entered, or that it could not enter.
  [[nodiscard]] std::size_t current() const noexcept { return current_; }
  [[nodiscard]] const GuardedPhase& phase() const noexcept { return (*phases_)[current_]; }
  [[nodiscard]] PhaseStep step() const noexcept { return step_; }
  [[nodiscard]] const std::optional<PhaseBlocked>& blocked() const noexcept { return blocked_; }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }  ///< why it failed

  /// How far it is, as one line of JSON of at most 4096 bytes, to be kept beside the definition; reasons are cut to
  /// that, and what is not printable in them is replaced.
  [[nodiscard]] std::string progress() const;
  /// This definition, as far as that says. Errors: invalid_argument (no such text, or of another definition).
  [[nodiscard]] Pipeline with_progress(std::string_view progress) const;

  /// The guard that has to be evaluated now, as one that has a name: "<pipeline>/<phase>/pre". Nothing: none has.
  [[nodiscard]] std::optional<Guard> guard_to_evaluate() const;
  /// Is there a command to run now? Its phase may have none: then finish_phase() follows at once.
  [[nodiscard]] bool runs_command() const noexcept;

  // Each of these gives the pipeline as it is then, and leaves this one as it is. What does not fit to the state is an
  // Error invalid_argument: it would be a mistake of the runner.

  /// Of one that waits.
  [[nodiscard]] Step start() const;
  /// Somebody goes on with it, where it was: after its runner died, or one that failed, with what it failed at. What
  /// its phase holds has to be acquired anew.
  [[nodiscard]] Step resume() const;
  /// Would that outcome let it go on (S1-127)? Passed, or failed with Warn.
  [[nodiscard]] static bool can_proceed_with_guard(const GuardOutcome& outcome) noexcept;
  /// Of the guard that was to be evaluated (S1-128, C-23, C-24, C-57): it goes on, or is blocked, or fails. Tells
  /// pipeline:blocked when it is blocked where it was not, pipeline:resumed when it goes on after that; another reason
  /// is not told, or two pipelines that wake each other would never come to rest.
  [[nodiscard]] Step apply_guard_result(GuardType type, const GuardOutcome& outcome) const;
  /// What the phase is to hold is not free: it is blocked, on what that text says. Of one that needs it: it is
  /// acquiring, or its runner is another one than before.
  [[nodiscard]] Step wait_for_holds(std::string_view waiting_on) const;
  /// It is held now: the phase is entered, or goes on.
  [[nodiscard]] Step holds_acquired() const;
  /// The command of the phase ended. `failure`: why it did not succeed; empty: it did.
  [[nodiscard]] Step finish_phase(std::string_view failure = {}) const;
  /// Of one that goes on: what its phase needs cannot be had, or was lost.
  [[nodiscard]] Step fail(std::string_view why) const;
  /// Of one that is not over; told as pipeline:failed with the reason "cancelled".
  [[nodiscard]] Step cancel() const;

 private:
  [[nodiscard]] const std::optional<PhaseGuard>& guard_of(GuardType type) const noexcept;
  [[nodiscard]] std::string guard_id(GuardType type) const;
  [[nodiscard]] Event event(EventKind kind, std::string_view reason = {}) const;
  void require_holding() const;
  [[nodiscard]] PhaseBlocked blocked_on_guard(GuardType type, std::string_view reason) const;
  [[nodiscard]] PhaseBlocked blocked_on_holds(std::string_view reason) const;
  void block(PhaseBlocked blocked, std::vector<Event>& effects);
  void enter(std::vector<Event>& effects);
  void go_on(std::vector<Event>& effects);

  std::string id_;
  std::shared_ptr<const std::vector<GuardedPhase>> phases_;  // the same in all states of a pipeline
  PipelineStatus status_ = PipelineStatus::waiting;
  std::size_t current_ = 0;
  PhaseStep step_ = PhaseStep::entering;
  std::optional<PhaseBlocked> blocked_;
  std::string failure_;
};

struct Pipeline::Step {
  Pipeline pipeline;
  std::vector<Event> effects = {};  ///< in their order; `subject` is the pipeline, `other` the phase
};

}  // namespace shmcoord
