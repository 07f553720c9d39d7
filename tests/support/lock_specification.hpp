#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/lock_machine.hpp"
#include "support/history.hpp"

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
// Owed      Who lost a hold is told why by its next release or heartbeat (its session remembers that), until it
//           releases or acquires; only then does the machine's own answer count.
// Names     A removal is right at a moment when nobody holds; "not found", when the name need not exist: an acquire
//           makes it again some time before it succeeds.
//
// Not shown: the order in which waiters are granted. Between its call and its grant a wait leaves no trace in the
// machine, so any order among those who wait together is explained.

namespace shmcoord::test {

/// What is known beside the calls.
struct LockFacts {
  core::LockConfig config;
  std::map<Text, std::int64_t> deaths;  // of a process: not before
};

struct LockStep : Operation {
  std::int64_t latest_ns = no_return;  ///< without a return: takes effect until then, or never
  bool fleeting = false;               ///< the hold may be lost before the call returns
  bool passing = false;                ///< only that: a grant that is lost before its waiter wakes
  friend bool operator==(const LockStep&, const LockStep&) = default;
};

class LockSpecification {
 public:
  using Operation = LockStep;
  struct Holder {  // C-50: the same id in another session is another holder
    Text process;
    Text id;
    bool passing = false;
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  using Machine = core::LockMachine<Holder, std::monostate>;
  struct Owed {
    Holder holder;
    Loss why = Loss::none;
    friend bool operator==(const Owed&, const Owed&) = default;
  };
  struct State {
    Machine::State lock;
    bool token_open = false;  // of the present hold only the least possible token is known
    bool exists = false;      // the name does for certain
    std::vector<Owed> owed;   // in the order of the losses
    friend bool operator==(const State&, const State&) = default;
  };

  explicit LockSpecification(LockFacts facts) : facts_(std::move(facts)) {}

  [[nodiscard]] State initial() const { return {}; }

  void apply(const State& state, const Operation& o, Moment when, std::vector<State>& next) const {
    if (!o.returned() && when.from_ns > o.latest_ns) return;
    const Holder caller{o.process(), o.holder, o.passing};
    if (o.passing && !state.lock.is_free()) return;
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
      case Verb::died:
      case Verb::configure: break;  // facts
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
    const auto add = [&h](const Holder& holder) {
      h = sim::mix(h, std::hash<std::string_view>{}(holder.process));
      h = sim::mix(h, std::hash<std::string_view>{}(holder.id));
    };
    if (state.lock.held) {
      add(state.lock.held->holder);
      h = sim::mix(h, state.lock.held->token);
      h = sim::mix(h, static_cast<std::uint64_t>(state.lock.held->last_heartbeat_ns));
    }
    if (state.lock.previous) add(state.lock.previous->holder);
    for (const Owed& owed : state.owed) add(owed.holder);
    return h;
  }

 private:
  static constexpr std::int64_t long_ago = std::numeric_limits<std::int64_t>::min();

  static bool says(const Operation& o, std::string_view answer) {
    return !o.returned() || std::string_view(o.answer) == answer;
  }

  static auto find_owed(auto& owed, const Holder& holder) {
    return std::find_if(owed.begin(), owed.end(), [&](const Owed& o) { return o.holder == holder; });
  }
  static void forget(State& state, const Holder& holder) {
    const auto at = find_owed(state.owed, holder);
    if (at != state.owed.end()) state.owed.erase(at);
  }

  static State robbed(const State& before, Machine::Outcome outcome) {
    State after = before;
    after.lock = std::move(outcome.state);
    after.token_open = false;
    const Holder& holder = before.lock.held->holder;
    const Loss why = after.lock.previous->why;
    forget(after, holder);
    if (why != Loss::died && !holder.passing) after.owed.push_back({holder, why});  // the dead do not ask
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
    forget(after, caller);
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

  LockFacts facts_;
};

struct UnexplainedLock {
  Text object;
  History prefix;  // of the operations on it, and with the deaths
};

/// The steps of the operations on one lock. `gone_ns`: when a killed process was gone for certain.
inline std::vector<LockStep> lock_steps(const History& operations, const LockFacts& facts,
                                        const std::map<Text, std::int64_t>& gone_ns) {
  std::vector<LockStep> steps;
  for (const Operation& o : operations) {
    LockStep& step = steps.emplace_back(LockStep{o});
    const auto gone = gone_ns.find(o.process());
    const std::int64_t end_ns = o.returned() || gone == gone_ns.end() ? o.return_ns : gone->second;
    if (o.verb != Verb::acquire) step.latest_ns = end_ns;
    // Who robs so soon: an operator, or, of one that the machine let sleep for long, its lease.
    const auto forced = [&](const Operation& other) {
      if (other.verb != Verb::force_release) return false;
      const bool robs = std::string_view(other.answer) == to_string(core::MaintenanceResult::reclaimed);
      return (robs || !other.returned()) && other.call_ns <= end_ns && o.call_ns <= other.return_ns;
    };
    const core::LockConfig& c = facts.config;
    std::int64_t lease_ns = o.ttl_ns != 0 ? o.ttl_ns : c.ttl_ns != 0 ? c.ttl_ns : c.stale_threshold_ns;
    if (c.max_hold_ns != 0) lease_ns = std::min(lease_ns, c.max_hold_ns);
    const std::int64_t asleep_ns = end_ns == no_return ? 0 : end_ns - o.call_ns;
    const auto times =
        std::count_if(operations.begin(), operations.end(), forced) + asleep_ns / std::max(lease_ns, std::int64_t{1});
    step.fleeting = times > 0;
    if (o.verb != Verb::acquire) continue;
    LockStep passing = step;
    passing.passing = true;
    passing.latest_ns = end_ns;
    passing.return_ns = no_return;
    steps.insert(steps.end(), static_cast<std::size_t>(times), passing);
  }
  return steps;
}

/// Judges each lock of a history by itself: linearizability is local.
inline std::optional<UnexplainedLock> unexplained_lock(const History& history) {
  std::map<Text, LockFacts> facts;
  std::map<Text, History> of;
  std::map<Text, std::int64_t> gone_ns;
  for (const Operation& o : history) {
    if (o.verb == Verb::died) {
      gone_ns[o.process()] = o.return_ns;
    } else if (o.verb == Verb::configure) {
      facts[o.object].config.max_hold_ns = o.limit_ns;
    } else {
      of[o.object].push_back(o);
    }
  }
  for (const auto& [object, operations] : of) {
    for (const Operation& o : history) {
      if (o.verb == Verb::died) facts[object].deaths[o.process()] = o.call_ns;
    }
    const auto steps = unexplained(LockSpecification(facts[object]), lock_steps(operations, facts[object], gone_ns));
    if (!steps) continue;
    History part;
    for (const LockStep& step : *steps) {
      if (!step.passing) part.push_back(step);
    }
    for (const Operation& o : history) {
      if (o.verb == Verb::died && o.call_ns <= part.back().call_ns) part.push_back(o);
    }
    return UnexplainedLock{object, std::move(part)};
  }
  return std::nullopt;
}

}  // namespace shmcoord::test
