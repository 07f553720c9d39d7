#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "coordination/guard_flag_state.hpp"
#include "coordination/guard_waiting.hpp"

// Waiting for a registered guard, whose definition may change meanwhile.

namespace shmcoord {

GuardOutcome GuardFlag::wait(const GuardExecutor& executor, const GuardWaitOptions& options) {
  if (!state_) throw Error(Errc::invalid_argument, "the handle was moved from: use the one that it was moved to");
  const State& state = *state_;
  process::require_duration("recheck", options.recheck);
  const std::shared_ptr<process::Participant>& participant = state.session->participant;
  participant->require_usable();
  auto [guard, stored] = state.read();
  const auto is_another = [&](bool thoroughly) {
    if (!thoroughly) return !coordination::is_still(participant->mapping(), state.name, stored);
    try {
      return !coordination::is_same_guard(state.read().first, guard);
    } catch (const Error&) {
      return true;  // whoever evaluates it says what is wrong
    }
  };
  coordination::GuardWaiting waiting(participant, executor, options, guard, is_another);
  std::optional<GuardOutcome> last;
  for (;;) {
    if (!last) state.tell(EventKind::guard_evaluating, {});
    std::optional<GuardOutcome> outcome = waiting.evaluate();
    participant->require_usable();
    if (outcome && outcome != last) {
      (void)coordination::set_verdict(*participant, state.name, stored, *outcome);
      // Another reason is no other state: two that wake each other would never come to rest.
      if (!last || last->index() != outcome->index()) state.tell(*outcome);
      last = outcome;
      if (options.on_outcome) options.on_outcome(*outcome);
    }
    if (!outcome) {
      if (last) return *std::move(last);
      const char* const why = options.stop.stop_requested() ? "it was stopped" : "the time was over";
      return GuardFailed{guard.name, guard.on_failure, std::string(why) + " before it was known"};
    }
    const auto* const failed = std::get_if<GuardFailed>(&*outcome);
    if (may_proceed(*outcome) || std::holds_alternative<Fail>(failed->action)) return *std::move(outcome);
    if (waiting.over() || !waiting.until_worth_it()) return *std::move(outcome);
    if (!waiting.definition_is_old()) continue;
    try {
      std::tie(guard, stored) = state.read();
    } catch (const Error& e) {
      if (e.errc() != Errc::not_found && e.errc() != Errc::wrong_type) throw;
      throw Error(Errc::name_removed, "guard '" + state.name + "' was removed while it was waited for");
    }
    waiting.is_now(guard);
  }
}

}  // namespace shmcoord
