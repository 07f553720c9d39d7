#include "coordination/guard_waiting.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

#include "core/event_pattern.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"

namespace shmcoord::coordination {
namespace {

// So many times as rarely, files are asked too: not all that changes them is told.
constexpr int files_recheck = 10;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

std::int64_t now_ns() noexcept { return process::real_clock().now_ns(); }

std::int64_t later(std::int64_t now, std::chrono::nanoseconds by) {
  return by.count() > never - now ? never : now + by.count();
}

PrimitiveStates states_of(const GuardInputs& inputs) {
  PrimitiveStates states{inputs.locks, inputs.lock_holders, inputs.semaphores, {}};
  for (const auto& [input, why] : inputs.failures) {
    const bool primitive = input.kind == GuardInputKind::lock_state || input.kind == GuardInputKind::semaphore_state;
    if (primitive) states.failures.emplace(input, why);
  }
  for (auto& [name, holders] : states.lock_holders) std::sort(holders.begin(), holders.end());
  return states;
}

enum class Wakes : std::uint8_t { nothing, look, evaluation };

Wakes wakes(const Event& event, const Guard& guard, const GuardNeeds& needs) {
  if (event.kind == EventKind::journal_lost) return Wakes::evaluation;
  if (event.subject == guard.name && event.name().starts_with("guard:")) {
    return event.kind == EventKind::guard_removed ? Wakes::look : Wakes::nothing;
  }
  const auto matches = [&](const std::string& pattern) { return core::pattern_matches(pattern, event.name()); };
  const auto evaluation_if = [](bool matters) { return matters ? Wakes::evaluation : Wakes::nothing; };
  if (!guard.wake_on.empty()) return evaluation_if(std::any_of(guard.wake_on.begin(), guard.wake_on.end(), matches));
  if (matches("session:*")) return evaluation_if(needs.sessions.contains(event.subject));
  if (matches("pipeline:*") || matches("phase:*")) return evaluation_if(needs.pipelines.contains(event.subject));
  const bool primitive = matches("lock:*") || matches("semaphore:*");
  const bool named = primitive && std::any_of(needs.primitives.begin(), needs.primitives.end(), [&](const auto& c) {
                       return c.required_inputs().front().subject == event.subject;
                     });
  return named ? Wakes::look : Wakes::nothing;
}

}  // namespace

GuardNeeds::GuardNeeds(const GuardCondition& condition, const std::string& directory) {
  namespace fs = std::filesystem;
  std::set<std::string> paths;
  for (const GuardInput& input : condition.required_inputs()) {
    switch (input.kind) {
      case GuardInputKind::lock_state: primitives.push_back(GuardCondition::lock_free(input.subject)); break;
      case GuardInputKind::semaphore_state:
        primitives.push_back(GuardCondition::semaphore_available(input.subject));
        break;
      case GuardInputKind::file_exists:
      case GuardInputKind::file_contains: paths.insert(fs::absolute(fs::path(directory) / input.subject)); break;
      // What another port than the segment's knows of these, it does not tell.
      case GuardInputKind::session_alive:
        sessions.insert(input.subject);
        asks_others = true;
        break;
      case GuardInputKind::pipeline_state:
        pipelines.insert(input.subject);
        asks_others = true;
        break;
      default: asks_others = true;
    }
  }
  files.assign(paths.begin(), paths.end());
}

/// A look at those is all that an evaluation takes.
bool GuardNeeds::only_primitives() const { return files.empty() && !asks_others; }

bool is_same_guard(const Guard& a, const Guard& b) {
  return a.condition == b.condition && a.on_failure == b.on_failure && a.wake_on == b.wake_on;
}

GuardWaiting::GuardWaiting(const std::shared_ptr<process::Participant>& participant, const GuardExecutor& executor,
                           const GuardWaitOptions& options, Guard guard, IsAnother is_another)
    : participant_(*participant),
      executor_(executor),
      options_(options),
      guard_(std::move(guard)),
      is_another_(std::move(is_another)),
      needs_(guard_.condition, options.directory),
      deadline_ns_(options.timeout ? later(now_ns(), std::max(*options.timeout, std::chrono::nanoseconds(0))) : never),
      once_(options.timeout && options.timeout->count() <= 0),
      stream_(participant),
      stop_(options.stop, Interrupt{stream_}),
      files_(std::make_unique<FileWatch>(needs_.files, Interrupt{stream_})) {}

std::optional<GuardOutcome> GuardWaiting::evaluate() {
  files_are_watched_ = files_->arm();
  (void)files_->take_changed();
  const std::int64_t began = now_ns();
  GuardExecutor::Limits limits{options_.evaluation_timeout, options_.stop, options_.kept_open};
  const bool cut = !once_ && deadline_ns_ - began < limits.timeout.count();
  if (cut) limits.timeout = std::chrono::nanoseconds(std::max<std::int64_t>(deadline_ns_ - began, 0));
  const GuardInputs inputs = executor_.gather(guard_.condition, limits);
  GuardOutcome outcome = guard_.evaluate(inputs);
  states_ = states_of(inputs);
  evaluated_ns_ = now_ns();
  const bool passed = std::holds_alternative<GuardPassed>(outcome);
  const bool unfinished = options_.stop.stop_requested() || (cut && evaluated_ns_ >= deadline_ns_);
  if (!passed && unfinished) return std::nullopt;
  return outcome;
}

bool GuardWaiting::over() const { return once_ || options_.stop.stop_requested() || now_ns() >= deadline_ns_; }

bool GuardWaiting::until_worth_it() {
  std::int64_t again_ns = never;
  const bool asks_others = needs_.asks_others || !files_are_watched_;
  if (asks_others) again_ns = later(evaluated_ns_, options_.recheck);
  if (!needs_.files.empty()) again_ns = std::min(again_ns, later(evaluated_ns_, options_.recheck * files_recheck));
  if (const auto* const retry = std::get_if<Retry>(&guard_.on_failure)) {
    again_ns = std::min(again_ns, later(evaluated_ns_, retry->delay));
  }
  std::int64_t look_ns = evaluated_ns_ + engine::recheck_ns;
  for (;;) {
    auto heard = Wakes::nothing;
    while (const std::optional<Event> event = stream_.next()) heard = std::max(heard, wakes(*event, guard_, needs_));
    if (over()) return false;
    const std::int64_t now = now_ns();
    if (heard == Wakes::evaluation || files_->take_changed() || now >= again_ns) return true;
    if (now >= look_ns) definition_is_old_ = true;
    if (heard == Wakes::look || now >= look_ns) {
      look_ns = now + engine::recheck_ns;
      participant_.require_usable();  // the segment may be gone, with whoever would have told
      if (needs_.only_primitives() || is_another_guard() || are_other_states()) return true;
    }
    stream_.wait(std::min({deadline_ns_, again_ns, look_ns}));
  }
}

bool GuardWaiting::definition_is_old() const { return is_another_ && (definition_is_old_ || is_another_(false)); }

void GuardWaiting::is_now(Guard guard) {
  definition_is_old_ = false;
  if (is_same_guard(guard, guard_)) return;
  guard_ = std::move(guard);
  needs_ = GuardNeeds(guard_.condition, options_.directory);
  files_.reset();
  files_ = std::make_unique<FileWatch>(needs_.files, Interrupt{stream_});
}

bool GuardWaiting::are_other_states() const {
  if (needs_.primitives.empty()) return false;
  return states_of(executor_.gather(GuardCondition::all(needs_.primitives), {})) != states_;
}

bool GuardWaiting::is_another_guard() const { return is_another_ && is_another_(definition_is_old_); }

}  // namespace shmcoord::coordination
