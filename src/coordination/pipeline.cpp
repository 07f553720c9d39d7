#include "shmcoord/pipeline.hpp"

#include <array>
#include <utility>

#include "coordination/pipeline_check.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/guard_flag.hpp"

// The rules of a pipeline, as pure functions.
//
//   where                 what comes                  where it is then
//   waiting               start                       entering the first phase
//   entering              result of the pre guard     passed, warned: acquiring; block, retry: blocked; fail: failed
//   acquiring             it is not free              blocked
//                         it is held now              inside
//   inside                the command ended           success: leaving; failure: failed
//   leaving               result of the post guard    passed, warned: the next phase, or done; else as of entering
//   blocked               what it is blocked on       as from where it was; never back to a phase that was left
//   failed, or its        resume                      where it was; what was being acquired: back to the pre guard,
//   runner died                                       which is to hold when the phase is entered
//   not over              cancel                      cancelled
//
// A guard that there is none of has passed, and nothing to hold is held: entering and leaving are never seen without a
// guard, nor acquiring without locks or permits.

namespace shmcoord {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Errc::invalid_argument, what); }

}  // namespace

std::string_view to_string(PipelineStatus status) noexcept {
  constexpr std::array<std::string_view, 6> names{"waiting", "running", "blocked", "failed", "done", "cancelled"};
  const auto at = static_cast<std::size_t>(status);
  return at < names.size() ? names[at] : "unknown";
}

std::string_view to_string(PhaseStep step) noexcept {
  constexpr std::array<std::string_view, 4> names{"entering", "acquiring", "inside", "leaving"};
  const auto at = static_cast<std::size_t>(step);
  return at < names.size() ? names[at] : "unknown";
}

PhaseGuards PhaseGuards::with_pre(GuardCondition condition, GuardAction on_failure) const {
  PhaseGuards guards = *this;
  guards.pre = PhaseGuard{std::move(condition), std::move(on_failure)};
  return guards;
}

PhaseGuards PhaseGuards::with_post(GuardCondition condition, GuardAction on_failure) const {
  PhaseGuards guards = *this;
  guards.post = PhaseGuard{std::move(condition), std::move(on_failure)};
  return guards;
}

PhaseGuards PhaseGuards::with_wake_on(std::vector<std::string> patterns) const {
  PhaseGuards guards = *this;
  guards.wake_on = std::move(patterns);
  return guards;
}

Pipeline::Pipeline(std::string id, std::vector<GuardedPhase> phases)
    : id_(std::move(id)), phases_(std::make_shared<const std::vector<GuardedPhase>>(std::move(phases))) {
  coordination::PipelinePart part;
  coordination::check_pipeline(id_, *phases_, part);
}

const std::optional<PhaseGuard>& Pipeline::guard_of(GuardType type) const noexcept {
  return type == GuardType::pre ? phase().guards.pre : phase().guards.post;
}

std::string Pipeline::guard_id(GuardType type) const {
  return id_ + '/' + phase().name + '/' + std::string(to_string(type));
}

Event Pipeline::event(EventKind kind, std::string_view reason) const {
  Event e;
  e.kind = kind;
  e.subject = id_;
  e.other = phase().name;
  e.reason = reason;
  return e;
}

std::optional<Guard> Pipeline::guard_to_evaluate() const {
  if (status_ != PipelineStatus::running && status_ != PipelineStatus::blocked) return std::nullopt;
  if (step_ == PhaseStep::inside || step_ == PhaseStep::acquiring) return std::nullopt;
  const GuardType type = step_ == PhaseStep::entering ? GuardType::pre : GuardType::post;
  const PhaseGuard& guard = *guard_of(type);
  return Guard{guard_id(type), guard.condition, guard.on_failure, phase().guards.wake_on};
}

bool Pipeline::runs_command() const noexcept {
  return status_ == PipelineStatus::running && step_ == PhaseStep::inside && !phase().command.empty();
}

// Into the current phase, as far as its pre guard.
void Pipeline::enter(std::vector<Event>& effects) {
  step_ = PhaseStep::entering;
  if (!phase().guards.pre) go_on(effects);
}

// Over the step that was to be done, up to the next one that somebody else has to do.
void Pipeline::go_on(std::vector<Event>& effects) {
  if (status_ == PipelineStatus::blocked) effects.push_back(event(EventKind::pipeline_resumed));
  status_ = PipelineStatus::running;
  blocked_.reset();
  switch (step_) {
    case PhaseStep::entering:
      step_ = PhaseStep::acquiring;
      if (phase().holds_anything()) return;
      [[fallthrough]];
    case PhaseStep::acquiring:
      step_ = PhaseStep::inside;
      effects.push_back(event(EventKind::phase_entered));
      return;
    case PhaseStep::inside:
      step_ = PhaseStep::leaving;
      if (phase().guards.post) return;
      [[fallthrough]];
    case PhaseStep::leaving:
      effects.push_back(event(EventKind::phase_left));
      if (current_ + 1 == phases_->size()) {
        status_ = PipelineStatus::done;
        effects.push_back(event(EventKind::pipeline_completed));
        return;
      }
      ++current_;
      enter(effects);
  }
}

Pipeline::Step Pipeline::start() const {
  if (status_ != PipelineStatus::waiting) refuse("pipeline '" + id_ + "' was started already");
  Step step{*this};
  step.pipeline.status_ = PipelineStatus::running;
  step.pipeline.enter(step.effects);
  return step;
}

bool Pipeline::can_proceed_with_guard(const GuardOutcome& outcome) noexcept { return may_proceed(outcome); }

Pipeline::Step Pipeline::apply_guard_result(GuardType type, const GuardOutcome& outcome) const {
  const auto guard = guard_to_evaluate();
  const bool expected = guard && (type == GuardType::pre) == (step_ == PhaseStep::entering);
  if (!expected) refuse("pipeline '" + id_ + "' waits for no result of a " + std::string(to_string(type)) + " guard");
  Step step{*this};
  Pipeline& next = step.pipeline;
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  if (may_proceed(outcome)) {
    if (failed != nullptr) {
      Event warning = event(EventKind::guard_failed, failed->reason);
      warning.subject = guard->name;
      warning.other = id_;
      step.effects.push_back(std::move(warning));
    }
    next.go_on(step.effects);
    return step;
  }
  if (const auto* const fail = std::get_if<Fail>(&failed->action)) {
    next.status_ = PipelineStatus::failed;
    next.blocked_.reset();
    next.failure_ = fail->message.empty() ? failed->reason : fail->message + ": " + failed->reason;
    step.effects.push_back(next.event(EventKind::pipeline_failed, next.failure_));
    return step;
  }
  PhaseBlocked blocked = blocked_on_guard(type, failed->reason);
  if (const auto* const retry = std::get_if<Retry>(&failed->action)) blocked.retry_after = retry->delay;
  next.block(std::move(blocked), step.effects);
  return step;
}

PhaseBlocked Pipeline::blocked_on_guard(GuardType type, std::string_view reason) const {
  const PhaseGuard& guard = *guard_of(type);
  const auto& wake_on = phase().guards.wake_on;
  PhaseBlocked blocked{std::string(reason), guard_id(type), guard.condition.str(),
                       wake_on.empty() ? default_wake_patterns(guard.condition) : wake_on};
  if (const auto* const retry = std::get_if<Retry>(&guard.on_failure)) blocked.retry_after = retry->delay;
  return blocked;
}

PhaseBlocked Pipeline::blocked_on_holds(std::string_view reason) const {
  PhaseBlocked blocked{std::string(reason)};
  if (!phase().locks.empty()) blocked.wake_on.emplace_back("lock:*");
  if (!phase().permits.empty()) blocked.wake_on.emplace_back("semaphore:*");
  return blocked;
}

void Pipeline::block(PhaseBlocked blocked, std::vector<Event>& effects) {
  const bool anew = status_ != PipelineStatus::blocked || blocked_->guard_id != blocked.guard_id;
  if (anew) effects.push_back(event(EventKind::pipeline_blocked, blocked.waiting_on));
  status_ = PipelineStatus::blocked;
  blocked_ = std::move(blocked);
}

Pipeline::Step Pipeline::resume() const {
  if (status_ == PipelineStatus::waiting) return start();
  if (is_over(status_) && status_ != PipelineStatus::failed) {
    refuse("pipeline '" + id_ + "' is " + std::string(to_string(status_)));
  }
  Step step{*this, {event(EventKind::pipeline_resumed)}};
  Pipeline& next = step.pipeline;
  next.status_ = PipelineStatus::running;
  next.blocked_.reset();
  next.failure_.clear();
  if (step_ == PhaseStep::acquiring && phase().guards.pre) next.step_ = PhaseStep::entering;
  return step;
}

void Pipeline::require_holding() const {
  const bool goes_on = status_ == PipelineStatus::running || status_ == PipelineStatus::blocked;
  if (goes_on && step_ != PhaseStep::entering && phase().holds_anything()) return;
  refuse("pipeline '" + id_ + "' is in no phase that holds anything");
}

Pipeline::Step Pipeline::wait_for_holds(std::string_view waiting_on) const {
  require_holding();
  Step step{*this};
  step.pipeline.block(blocked_on_holds(waiting_on), step.effects);
  return step;
}

Pipeline::Step Pipeline::holds_acquired() const {
  require_holding();
  Step step{*this};
  if (step_ == PhaseStep::acquiring) {
    step.pipeline.go_on(step.effects);
  } else if (status_ == PipelineStatus::blocked) {
    step.effects.push_back(event(EventKind::pipeline_resumed));
    step.pipeline.status_ = PipelineStatus::running;
    step.pipeline.blocked_.reset();
  }
  return step;
}

Pipeline::Step Pipeline::finish_phase(std::string_view failure) const {
  if (status_ != PipelineStatus::running || step_ != PhaseStep::inside) {
    refuse("pipeline '" + id_ + "' is in no phase that could end");
  }
  if (!failure.empty()) return fail(failure);
  Step step{*this};
  step.pipeline.go_on(step.effects);
  return step;
}

Pipeline::Step Pipeline::fail(std::string_view why) const {
  if (status_ != PipelineStatus::running && status_ != PipelineStatus::blocked) {
    refuse("pipeline '" + id_ + "' is " + std::string(to_string(status_)) + ", it cannot fail");
  }
  Step step{*this};
  step.pipeline.status_ = PipelineStatus::failed;
  step.pipeline.blocked_.reset();
  step.pipeline.failure_ = "phase '" + phase().name + "': " + std::string(why);
  step.effects.push_back(step.pipeline.event(EventKind::pipeline_failed, step.pipeline.failure_));
  return step;
}

Pipeline::Step Pipeline::cancel() const {
  if (is_over(status_)) {
    refuse("pipeline '" + id_ + "' is " + std::string(to_string(status_)) + " already");
  }
  Step step{*this};
  step.pipeline.status_ = PipelineStatus::cancelled;
  step.pipeline.blocked_.reset();
  step.effects.push_back(step.pipeline.event(EventKind::pipeline_failed, "cancelled"));
  return step;
}

}  // namespace shmcoord
