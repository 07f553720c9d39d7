#include "shmcoord/guard_flag.hpp"

#include <unistd.h>

#include <utility>

#include "coordination/guard_flag_state.hpp"
#include "process/clock.hpp"

// Waiting: guard_wait.cpp. What is kept where, and what deaths leave: guard_store.hpp and engine/verdict.hpp.

namespace shmcoord {

using coordination::StoredText;

namespace {

void tell_of(const detail::Access::SessionState& session, EventKind kind, const std::string& name,
             const std::string& reason) {
  Event event;
  event.kind = kind;
  event.subject = name;
  event.reason = reason;
  process::tell_event(session.participant->mapping().view(), event, static_cast<std::int32_t>(::getpid()));
}

template <class State>
State& present(const std::unique_ptr<State>& state) {
  if (!state) throw Error(Errc::invalid_argument, "the handle was moved from: use the one that it was moved to");
  return *state;
}

}  // namespace

std::pair<Guard, StoredText> GuardFlag::State::read() const {
  const engine::Mapping& mapping = session->participant->mapping();
  auto stored = coordination::find_guard(mapping, name);
  if (!stored) throw process::no_such_name(engine::Kind::guard, name, mapping.name());
  Guard guard = coordination::guard_from(name, stored->text);
  return {std::move(guard), *std::move(stored)};
}

void GuardFlag::State::tell(EventKind kind, const std::string& reason) const { tell_of(*session, kind, name, reason); }

void GuardFlag::State::tell(const GuardOutcome& outcome) const {
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  tell(failed == nullptr ? EventKind::guard_passed : EventKind::guard_failed,
       failed == nullptr ? std::string() : failed->reason);
}

bool may_proceed(const GuardOutcome& outcome) noexcept {
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  return failed == nullptr || std::holds_alternative<Warn>(failed->action);
}

GuardFlag::GuardFlag(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
GuardFlag::GuardFlag(GuardFlag&&) noexcept = default;
GuardFlag& GuardFlag::operator=(GuardFlag&&) noexcept = default;
GuardFlag::~GuardFlag() = default;

GuardFlag GuardFlag::add(Session& session, const Guard& guard) {
  auto state = std::make_unique<State>(detail::Access::usable_state(session), guard.name);
  coordination::register_guard(state->session, guard);
  return GuardFlag(std::move(state));
}

GuardFlag::GuardFlag(Session& session, std::string_view name)
    : state_(std::make_unique<State>(detail::Access::usable_state(session), std::string(name))) {
  state_->session->participant->require_usable();
  process::require_primitive_name(engine::Kind::guard, name);
  (void)state_->read();
}

const std::string& GuardFlag::name() const noexcept { return state_->name; }
Guard GuardFlag::guard() const { return present(state_).read().first; }

std::optional<GuardVerdict> GuardFlag::verdict() const {
  const State& state = present(state_);
  return coordination::verdict_of(state.session->participant->mapping(), state.read().second.record);
}

GuardOutcome GuardFlag::evaluate(const GuardExecutor& executor, const GuardExecutor::Limits& limits) {
  const State& state = present(state_);
  process::Participant& participant = *state.session->participant;
  participant.require_usable();
  const auto [guard, stored] = state.read();
  state.tell(EventKind::guard_evaluating, {});
  GuardOutcome outcome = executor.evaluate(guard, limits);
  (void)coordination::set_verdict(participant, state.name, stored, outcome);
  state.tell(outcome);
  return outcome;
}

std::vector<GuardListing> GuardFlag::list(const Segment& segment) {
  const engine::Mapping& mapping = *detail::Access::mapping(segment);
  return coordination::list_guards(mapping, process::take_picture(mapping, process::real_clock().now_ns()));
}

void GuardFlag::remove(Session& session, std::string_view name) {
  coordination::remove_guard(detail::Access::usable_state(session), name);
}

void coordination::register_guard(const std::shared_ptr<detail::Access::SessionState>& session, const Guard& guard) {
  if (add_guard(session->participant, guard)) tell_of(*session, EventKind::guard_registered, guard.name, {});
}

void coordination::remove_guard(const std::shared_ptr<detail::Access::SessionState>& session, std::string_view name) {
  process::PrimitiveClient::remove(*session->participant, name, true, engine::Kind::guard);
  tell_of(*session, EventKind::guard_removed, std::string(name), {});
}

}  // namespace shmcoord
