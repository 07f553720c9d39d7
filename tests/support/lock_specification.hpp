#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/lock_machine.hpp"
#include "support/history_steps.hpp"

// What a recorded history of one lock is judged by: the pure machine of core/, and around it only what a history knows
// that the machine does not, or the other way round.
//
// Tokens    The machine counts holds by one; a real token grows by as much as the lock's word did. So an acquire may
//           bring any token that the machine could still give, and the machine goes on from there. Of an acquire that
//           never returned the token stays open until somebody sees it.
// Leases    When a heartbeat or a look at a lease happened is known only to lie within a call. So a lease is a
//           permission: a hold may be taken once it could have run out (drift), never must be, and an acquire that
//           finds somebody else's hold does not judge it itself.
// Deaths    From its death on, every hold of that process may be taken, at any moment, with `died` (drift). What it
//           had called takes effect before it was gone, or never; but its place in the queue may be granted later.
// Waiting   A wait takes effect when it is granted. One that ends at its deadline is an acquire that was busy.
// Passing   A wait that is granted and robbed before it wakes goes on waiting; others may see that hold, and are told
// of
//           its loss. So a wait during which something could rob it has further steps, which need not come, with a
//           holder that can do nothing but lose the lock again. And who is robbed before it could ask whom it follows
//           is not told, or without the name: the next one hears of this loss instead.
// Owed      Who lost a hold is told why before the machine's own answer counts (history_steps.hpp).
// Names     A removal is right at a moment when nobody holds; "not found", when the name need not exist: an acquire
//           makes it again some time before it succeeds.
//
// Not shown: the order in which waiters are granted. Between its call and its grant a wait leaves no trace in the
// machine, so any order among those who wait together is explained.

namespace shmcoord::test {

class LockSpecification {
 public:
  using Operation = Step;
  using Machine = core::LockMachine<Holder, std::monostate>;
  struct State {
    Machine::State lock;
    bool token_open = false;  // of the present hold only the least possible token is known
    bool exists = false;      // the name does for certain
    std::vector<Owed> owed;   // in the order of the losses
    friend bool operator==(const State&, const State&) = default;
  };

  explicit LockSpecification(ObjectFacts facts) : facts_(std::move(facts)) {}

  [[nodiscard]] State initial() const { return {}; }
  static bool only_looks(const Operation&) { return false; }  // a look may show an open token
  static bool comes_at_once(const Operation&) { return false; }

  void apply(const State& state, const Operation& o, Moment when, std::vector<State>& next) const {
    const bool passing = o.part == Part::passing;
    const Holder caller{o.process(), o.holder, passing};
    if (passing && !state.lock.is_free()) return;
    std::optional<State> after;
    switch (o.verb) {
      case Verb::try_acquire:
      case Verb::acquire: after = acquire(state, o, caller, when); break;
      case Verb::release: after = release(state, o, caller, when); break;
      case Verb::heartbeat: after = beat(state, o, caller, Machine::Heartbeat{caller}, when); break;
      case Verb::renew: after = beat(state, o, caller, Machine::Renew{caller, o.ttl_ns}, when); break;
      case Verb::status: after = status(state, o); break;
      case Verb::is_current: after = is_current(state, o); break;
      case Verb::force_release: after = force(state, o, when); break;
      case Verb::remove: after = remove(state, o); break;
      default: break;  // facts, and what is asked of semaphores
    }
    if (after) next.push_back(std::move(*after));
  }

  void drift(const State& state, Moment when, std::vector<State>& next) const {
    if (state.lock.is_free()) return;
    const auto take = [&](const Machine::State& lock, Machine::Input input) {
      Machine::Outcome outcome = Machine::transition(facts_.config, lock, std::move(input), when.until_ns);
      if (outcome.result == core::LockResult{core::MaintenanceResult::reclaimed}) {
        next.push_back(robbed(state, std::move(outcome)));
      }
    };
    const Machine::Held& held = *state.lock.held;
    const auto death = facts_.deaths.find(held.holder.process);
    if (death != facts_.deaths.end() && death->second <= when.until_ns) {
      take(state.lock, Machine::Died{held.holder});
    }
    take(state.lock, Machine::Reclaim{});
    // Of two reasons the machine names silence; at an earlier moment only the other may have been true.
    Machine::State heard = state.lock;
    heard.held->last_heartbeat_ns = when.until_ns;
    take(heard, Machine::Reclaim{});
  }

  [[nodiscard]] std::uint64_t hash(const State& state) const {
    std::uint64_t h = sim::mix(state.lock.next_token, (state.token_open ? 2U : 0U) + (state.exists ? 1U : 0U));
    if (state.lock.held) {
      h = state.lock.held->holder.mixed_into(h);
      h = sim::mix(h, state.lock.held->token);
      h = sim::mix(h, static_cast<std::uint64_t>(state.lock.held->last_heartbeat_ns));
    }
    if (state.lock.previous) h = state.lock.previous->holder.mixed_into(h);
    for (const Owed& owed : state.owed) h = owed.holder.mixed_into(h);
    return h;
  }

 private:
  static constexpr std::int64_t long_ago = std::numeric_limits<std::int64_t>::min();

  static State robbed(const State& before, Machine::Outcome outcome) {
    State after = before;
    after.lock = std::move(outcome.state);
    after.token_open = false;
    remember(after.owed, {before.lock.held->holder, after.lock.previous->why});
    return after;
  }

  // Could this be the token of the present hold? Then it is.
  static bool is_token(State& state, std::uint64_t token) {
    Machine::Held& held = *state.lock.held;
    if (state.token_open && token >= held.token) {
      held.token = token;
      state.lock.next_token = token + 1;
      state.token_open = false;
    }
    return held.token == token;
  }

  [[nodiscard]] std::optional<State> acquire(const State& state, const Operation& o, const Holder& caller,
                                             Moment when) const {
    State after = state;
    forget(after.owed, caller);
    if (o.returned() && state.lock.is_held_by(caller) && !is_token(after, o.got)) return std::nullopt;
    Machine::State lock = after.lock;
    const bool grants = lock.is_free();
    if (grants && o.returned()) {
      if (o.got < lock.next_token) return std::nullopt;
      lock.next_token = o.got;
    }
    const bool anothers = !grants && !lock.is_held_by(caller);
    Machine::Acquire input{caller, {}, {}, 0};
    if (o.ttl_ns != 0) input.ttl_ns = o.ttl_ns;
    Machine::Outcome outcome =
        Machine::transition(facts_.config, std::move(lock), std::move(input), anothers ? long_ago : when.from_ns);
    const auto result = std::get<AcquireResult>(outcome.result);
    if (o.returned()) {
      const auto& previous = outcome.previous;
      const bool nothing = o.who.empty() && o.why == Loss::none;
      const bool told = !previous ? nothing
                                  : (o.who == previous->holder.id && o.why == previous->why) ||
                                        (o.fleeting && o.who.empty() && (nothing || o.why == previous->why));
      const bool waited = result == AcquireResult::busy && o.verb == Verb::acquire;
      // Whether it took the lock itself or found it taken is not seen from outside, as long as it is told.
      const bool same = says(o, to_string(waited ? AcquireResult::timed_out : result)) ||
                        (result == AcquireResult::acquired && previous && says(o, to_string(AcquireResult::reclaimed)));
      if (!same || !told) return std::nullopt;
    }
    after.lock = std::move(outcome.state);
    if (grants) {
      after.token_open = !o.returned();
      after.exists = true;
    }
    return after;
  }

  [[nodiscard]] std::optional<State> release(const State& state, const Operation& o, const Holder& caller,
                                             Moment when) const {
    State after = state;
    if (const auto owed = find_owed(after.owed, caller); !state.lock.is_held_by(caller) && owed != after.owed.end()) {
      const bool told = says(o, to_string(ReleaseResult::not_owner)) && (!o.returned() || o.why == owed->why);
      if (!told) return std::nullopt;
      after.owed.erase(owed);
      return after;
    }
    Machine::Outcome outcome = Machine::transition(facts_.config, state.lock, Machine::Release{caller}, when.from_ns);
    const auto result = std::get<ReleaseResult>(outcome.result);
    if (!says(o, to_string(result)) || (o.returned() && o.why != Loss::none)) return std::nullopt;
    after.lock = std::move(outcome.state);
    if (result == ReleaseResult::released) after.token_open = false;
    return after;
  }

  [[nodiscard]] std::optional<State> beat(const State& state, const Operation& o, const Holder& caller,
                                          Machine::Input input, Moment when) const {
    Machine::Outcome outcome = Machine::transition(facts_.config, state.lock, std::move(input), when.from_ns);
    const auto result = std::get<HeartbeatResult>(outcome.result);
    if (!says(o, to_string(result))) return std::nullopt;
    if (o.returned()) {
      const auto owed = find_owed(state.owed, caller);
      const bool news = result == HeartbeatResult::not_owner && owed != state.owed.end();
      if (o.why != (news ? owed->why : Loss::none)) return std::nullopt;
    }
    State after = state;
    after.lock = std::move(outcome.state);
    return after;
  }

  [[nodiscard]] static std::optional<State> status(const State& state, const Operation& o) {
    State after = state;
    if (!o.returned()) return after;
    if (state.lock.is_free()) return says(o, "free") ? std::optional(after) : std::nullopt;
    const bool same = says(o, "held") && o.who == state.lock.held->holder.id && is_token(after, o.got);
    return same ? std::optional(after) : std::nullopt;
  }

  [[nodiscard]] static std::optional<State> is_current(const State& state, const Operation& o) {
    State after = state;
    if (!o.returned()) return after;
    if (says(o, "true")) return !state.lock.is_free() && is_token(after, o.token) ? std::optional(after) : std::nullopt;
    const bool may_differ = state.lock.is_free() || state.token_open || state.lock.held->token != o.token;
    return says(o, "false") && may_differ ? std::optional(after) : std::nullopt;
  }

  [[nodiscard]] std::optional<State> force(const State& state, const Operation& o, Moment when) const {
    using core::MaintenanceResult;
    if (state.lock.is_free() || (!o.holder.empty() && o.holder != state.lock.held->holder.id)) {
      return says(o, to_string(MaintenanceResult::nothing)) ? std::optional(state) : std::nullopt;
    }
    Machine::Outcome outcome = Machine::transition(facts_.config, state.lock, Machine::Force{}, when.from_ns);
    if (!says(o, to_string(std::get<MaintenanceResult>(outcome.result)))) return std::nullopt;
    return robbed(state, std::move(outcome));
  }

  [[nodiscard]] static std::optional<State> remove(const State& state, const Operation& o) {
    if (!state.lock.is_free()) return says(o, "in_use") ? std::optional(state) : std::nullopt;
    if (says(o, "not_found") && !state.exists) return state;
    if (!says(o, "removed")) return std::nullopt;
    State after = state;
    after.lock = Machine::State{{}, {}, state.lock.next_token};
    after.exists = false;
    return after;
  }

  ObjectFacts facts_;
};

/// The steps of the operations on one lock.
inline std::vector<Step> lock_steps(const History& operations, const ObjectFacts& facts) {
  std::vector<Step> steps;
  for (const Operation& o : operations) {
    Step& step = steps.emplace_back(Step{o});
    if (o.verb != Verb::acquire) step.latest_ns = facts.end_ns(o);
    const std::int64_t times = robberies(operations, o, facts);
    step.fleeting = times > 0;
    if (o.verb != Verb::acquire) continue;
    const Step passing = step.possible(Part::passing, facts.end_ns(o));
    steps.insert(steps.end(), static_cast<std::size_t>(times), passing);
  }
  return steps;
}

}  // namespace shmcoord::test
