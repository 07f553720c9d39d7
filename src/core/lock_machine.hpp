#pragma once

// The rules of a lock as one pure function: transition(config, state, input, now) -> {state, result, effects}.
//
// Problem: the engine on packed words, the manager on ordinary containers and the tests must agree on what an acquire,
// a release, a heartbeat or a reclaim does in each situation. So the rules stand here once, without atomics, clock,
// allocation of their own or exceptions, and are constexpr: a rule can be checked while compiling (S1-148).
//
// Holder is whatever equality means "the same holder" (C-50): the manager's holder carries the session beside the id,
// so the same id from another session is another holder. Names are not here: a machine does not need its own name, and
// whoever publishes an effect knows which lock it fed.
//
// Invariants:
//  - next_token only grows, over releases and reclaims alike; a hold's token is below it and at least 1 (S2-6, S2-8).
//    Tokens are 64 bits here; whoever packs or prints them narrower bounds them there.
//  - `previous` is set only while free, and only by a reclaim; the next acquire takes it out (C-52).
//  - The holder changes only together with an event; a heartbeat never moves backwards.
//  - The holder itself is never refused and never reclaimed by its own acquire (C-4). A heartbeat or renewal that comes
//    late, but before anybody took over, revives the hold.
//
// Effects are hints. Each can be derived again from the state before and after; one that is lost with its process costs
// a wake-up, never a lock. If we die before the new state is stored, nothing happened.
//
// What is deliberately not here: the queue of waiters (an acquire is one try) and telling a former holder why it lost
// (its own entry remembers that; the lock's state forgets it at the next acquire).
//
// Reading the table, which a test compares with the machine: `mine` is held by the holder that the input names, `other`
// by somebody else; `!` = lapsed, judge() gives a reason to take it away; `w` = lock:stale was sent for that; `+p` = a
// report on the holder before waits for the next acquire. `acquire, dead` brings a proof that the present holder is
// dead. A tick, a reclaim and a force name no holder, so every hold is `other` to them.
//
// state table begin
// input          state                                 result                next       events
// acquire        free                                  acquired              mine       lock:acquired
//                free+p                                acquired + previous   mine       lock:acquired
//                mine, mine!, mine!w                   extended              mine
//                other                                 busy                  unchanged  lock:denied
//                other!, other!w                       reclaimed + previous  mine       lock:reclaimed, lock:acquired
// acquire, dead  free                                  acquired              mine       lock:acquired
//                free+p                                acquired + previous   mine       lock:acquired
//                mine, mine!, mine!w                   impossible            the dead do not call
//                other, other!, other!w                reclaimed + previous  mine       lock:reclaimed, lock:acquired
// release        free, free+p                          already_free          unchanged
//                mine, mine!, mine!w                   released              free       lock:released
//                other, other!, other!w                not_owner             unchanged
// heartbeat      free, free+p, other, other!, other!w  not_owner             unchanged
//                mine, mine!, mine!w                   refreshed             mine
// renew          free, free+p, other, other!, other!w  not_owner             unchanged
//                mine, mine!, mine!w                   refreshed             mine
// tick           free, free+p, other, other!w          nothing               unchanged
//                mine, mine!, mine!w                   impossible            names no holder
//                other!                                warned                other!w    lock:stale
// reclaim        free, free+p, other                   nothing               unchanged
//                mine, mine!, mine!w                   impossible            names no holder
//                other!, other!w                       reclaimed             free+p     lock:reclaimed, lock:released
// force          free, free+p                          nothing               unchanged
//                mine, mine!, mine!w                   impossible            names no holder
//                other, other!, other!w                reclaimed             free+p     lock:reclaimed, lock:released
// died           free, free+p, other, other!, other!w  nothing               unchanged
//                mine, mine!, mine!w                   reclaimed             free+p     lock:reclaimed, lock:released
// state table end

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/fixed_vector.hpp"
#include "core/lease.hpp"
#include "shmcoord/results.hpp"

namespace shmcoord::core {

/// C-1. Durations are positive where given; that is checked where a configuration is made, not here.
struct LockConfig {
  std::int64_t stale_threshold_ns = 60'000'000'000;
  std::int64_t heartbeat_interval_ns = 15'000'000'000;  ///< how often a keeper beats; no transition reads it
  std::int64_t max_hold_ns = 0;                         ///< 0 = none
  std::int64_t ttl_ns = 0;                              ///< for holds that name no ttl of their own; 0 = none

  [[nodiscard]] constexpr std::int64_t heartbeat_timeout_ns() const noexcept { return stale_threshold_ns; }
  friend constexpr bool operator==(const LockConfig&, const LockConfig&) = default;
};

enum class LockEventKind : std::uint8_t { acquired, released, denied, reclaimed, stale };

/// The name under which an event is published and subscribed to (C-58).
[[nodiscard]] constexpr std::string_view name(LockEventKind kind) noexcept {
  switch (kind) {
    case LockEventKind::acquired: return "lock:acquired";
    case LockEventKind::released: return "lock:released";
    case LockEventKind::denied: return "lock:denied";
    case LockEventKind::reclaimed: return "lock:reclaimed";
    case LockEventKind::stale: return "lock:stale";
  }
  return "lock:unknown";
}

/// The name of the event's type (S1-30).
[[nodiscard]] constexpr std::string_view type_name(LockEventKind kind) noexcept {
  switch (kind) {
    case LockEventKind::acquired: return "LockAcquired";
    case LockEventKind::released: return "LockReleased";
    case LockEventKind::denied: return "LockDenied";
    case LockEventKind::reclaimed: return "LockReclaimed";
    case LockEventKind::stale: return "LockStale";
  }
  return "LockUnknown";
}

/// What a tick, a reclaim, a force or a death did.
enum class MaintenanceResult : std::uint8_t { nothing, warned, reclaimed };

[[nodiscard]] constexpr std::string_view to_string(MaintenanceResult result) noexcept {
  switch (result) {
    case MaintenanceResult::nothing: return "nothing";
    case MaintenanceResult::warned: return "warned";
    case MaintenanceResult::reclaimed: return "reclaimed";
  }
  return "unknown";
}

/// Which alternative is set follows from the input alone.
using LockResult = std::variant<AcquireResult, ReleaseResult, HeartbeatResult, MaintenanceResult>;

template <class HolderType, class MetadataType>
struct LockMachine {
  using Holder = HolderType;
  using Metadata = MetadataType;

  struct Held {
    Holder holder;
    std::int64_t acquired_at_ns = 0;  ///< of the first acquire; an extension does not move it (C-2)
    std::int64_t last_heartbeat_ns = 0;
    std::optional<Metadata> metadata;
    std::uint64_t token = 0;
    std::int64_t ttl_ns = 0;  ///< 0 = none, the stale threshold counts (C-51)
    bool warned = false;      ///< lock:stale was sent for the present episode (C-16)
    friend constexpr bool operator==(const Held&, const Held&) = default;
  };

  /// The report on a holder that lost the lock (C-52).
  struct Previous {
    Holder holder;
    Loss why = Loss::none;
    friend constexpr bool operator==(const Previous&, const Previous&) = default;
  };

  struct State {
    std::optional<Held> held;  ///< empty = Free
    std::optional<Previous> previous;
    std::uint64_t next_token = 1;

    [[nodiscard]] constexpr bool is_free() const noexcept { return !held.has_value(); }
    [[nodiscard]] constexpr bool is_held_by(const Holder& holder) const {
      return held.has_value() && held->holder == holder;
    }
    friend constexpr bool operator==(const State&, const State&) = default;
  };

  struct Acquire {
    Holder holder;
    std::optional<Metadata> metadata;    ///< on an extension: replaced if given, kept if not (C-48)
    std::optional<std::int64_t> ttl_ns;  ///< not given: the config's, or on an extension the present one; 0 = none
    /// Token of the hold whose holder the caller has proven dead; 0 = no proof. A proof names a hold rather than a
    /// holder, so that one which comes too late cannot hit the holder's next hold.
    std::uint64_t dead_token = 0;
  };
  struct Release {
    Holder holder;
  };
  struct Heartbeat {
    Holder holder;
  };
  struct Renew {
    Holder holder;
    std::int64_t ttl_ns = 0;  ///< from now on; 0 = back to the stale threshold
  };
  struct Tick {};     ///< warns of a lapsed hold, once per episode
  struct Reclaim {};  ///< maintenance: takes a lapsed hold, and no other
  struct Force {      ///< operator: takes any hold
    std::optional<Metadata> reason;
  };
  struct Died {  ///< the liveness layer has proven that this holder is dead
    Holder holder;
  };
  using Input = std::variant<Acquire, Release, Heartbeat, Renew, Tick, Reclaim, Force, Died>;

  struct Event {
    LockEventKind kind = LockEventKind::acquired;
    std::optional<Holder> holder;    ///< acquired: new; released, reclaimed, stale: old; denied: the one refused
    std::optional<Holder> other;     ///< denied: current holder; reclaimed: new holder, empty if it is free now (C-14)
    Loss loss = Loss::none;          ///< reclaimed, stale: why
    std::uint64_t token = 0;         ///< of the hold that the event is about; denied: of the current hold
    std::optional<Metadata> reason;  ///< reclaimed by force: the operator's
    friend constexpr bool operator==(const Event&, const Event&) = default;
  };
  using Effects = base::FixedVector<Event, 4>;

  struct Outcome {
    State state;
    LockResult result;
    std::uint64_t token = 0;           ///< of the hold, if the result says that the caller has one
    std::optional<Previous> previous;  ///< handed to this acquire, and to no other
    Effects effects;
    friend constexpr bool operator==(const Outcome&, const Outcome&) = default;
  };

  static constexpr bool is_nothrow =
      std::is_nothrow_copy_constructible_v<Holder> && std::is_nothrow_move_constructible_v<Holder> &&
      std::is_nothrow_move_assignable_v<Holder> && std::is_nothrow_move_constructible_v<Metadata> &&
      std::is_nothrow_move_assignable_v<Metadata>&& noexcept(std::declval<Holder>() == std::declval<Holder>());

  /// Why the present hold may be taken from its holder at now_ns; Loss::none if it may not, or if there is none.
  [[nodiscard]] static constexpr Loss reclaimable(const LockConfig& config, const State& state,
                                                  std::int64_t now_ns) noexcept {
    return state.held ? lapse(config, *state.held, now_ns) : Loss::none;
  }

  /// Throws nothing unless copying a Holder does (is_nothrow).
  [[nodiscard]] static constexpr Outcome transition(const LockConfig& config, State state, Input input,
                                                    std::int64_t now_ns) noexcept(is_nothrow) {
    return std::visit(
        [&](auto&& given) { return on(config, std::move(state), std::forward<decltype(given)>(given), now_ns); },
        std::move(input));
  }

  struct LockStep;

  /// The lock as a value: its config and state, and a transition that tells only state and effects (S1-18, S1-23, C-7).
  struct Lock {
    LockConfig config;
    State state;

    [[nodiscard]] constexpr bool is_free() const noexcept { return state.is_free(); }
    [[nodiscard]] constexpr bool is_held_by(const Holder& holder) const { return state.is_held_by(holder); }
    [[nodiscard]] constexpr bool is_stale(std::int64_t now_ns) const noexcept {
      return reclaimable(config, state, now_ns) != Loss::none;
    }
    [[nodiscard]] constexpr LockStep transition(Input input, std::int64_t now_ns) const noexcept(is_nothrow);
    friend constexpr bool operator==(const Lock&, const Lock&) = default;
  };

  struct LockStep {
    Lock lock;
    Effects effects;
  };

 private:
  static constexpr Loss lapse(const LockConfig& config, const Held& held, std::int64_t now_ns) noexcept {
    return judge({config.stale_threshold_ns, held.ttl_ns, config.max_hold_ns}, held.acquired_at_ns,
                 held.last_heartbeat_ns, now_ns);
  }

  /// The end of a warned episode is a refresh after which the hold is safe again. One that is held too long stays
  /// lapsed, and so stays warned: otherwise each of its heartbeats would bring the same warning once more (C-16).
  static constexpr void refresh(const LockConfig& config, Held& held, std::int64_t now_ns) noexcept {
    held.last_heartbeat_ns = std::max(held.last_heartbeat_ns, now_ns);
    if (lapse(config, held, now_ns) == Loss::none) held.warned = false;
  }

  static constexpr Outcome unchanged(State state, LockResult result) {
    Outcome outcome;
    outcome.state = std::move(state);
    outcome.result = result;
    return outcome;
  }

  // The next state is built anew where a part of it empties: an optional that was reset cannot be copied in a constant
  // expression (clang, libstdc++ 12), and the transition is to be one.

  /// Gives a lock that nobody holds any more to the one who asks.
  static constexpr Outcome grant(const LockConfig& config, std::uint64_t token, std::optional<Previous> previous,
                                 Acquire input, std::int64_t now_ns, AcquireResult result, Effects effects) {
    Outcome outcome;
    outcome.result = result;
    outcome.token = token;
    outcome.previous = std::move(previous);
    effects.push_back({LockEventKind::acquired, input.holder, {}, Loss::none, token, {}});
    outcome.effects = std::move(effects);
    const std::int64_t ttl_ns = input.ttl_ns.value_or(config.ttl_ns);
    outcome.state = State{
        Held{std::move(input.holder), now_ns, now_ns, std::move(input.metadata), token, ttl_ns, false}, {}, token + 1};
    return outcome;
  }

  /// Takes the hold away and leaves the lock free; released comes second, for waiters on either pattern (C-14).
  static constexpr Outcome take_away(State state, Loss why, std::optional<Metadata> reason) {
    Held& held = *state.held;
    Outcome outcome;
    outcome.result = MaintenanceResult::reclaimed;
    outcome.effects.push_back({LockEventKind::reclaimed, held.holder, {}, why, held.token, std::move(reason)});
    outcome.effects.push_back({LockEventKind::released, held.holder, {}, Loss::none, held.token, {}});
    outcome.state = State{{}, Previous{std::move(held.holder), why}, state.next_token};
    return outcome;
  }

  static constexpr Outcome on(const LockConfig& config, State state, Acquire input, std::int64_t now_ns) {
    if (state.is_free()) {
      return grant(config, state.next_token, std::move(state.previous), std::move(input), now_ns,
                   AcquireResult::acquired, {});
    }
    Held& held = *state.held;
    const std::uint64_t token = held.token;
    if (held.holder == input.holder) {
      if (input.metadata) held.metadata = std::move(input.metadata);
      if (input.ttl_ns) held.ttl_ns = *input.ttl_ns;
      refresh(config, held, now_ns);
      Outcome outcome = unchanged(std::move(state), AcquireResult::extended);
      outcome.token = token;
      return outcome;
    }
    const Loss why = input.dead_token == token ? Loss::died : lapse(config, held, now_ns);
    Effects effects;
    if (why == Loss::none) {
      effects.push_back({LockEventKind::denied, std::move(input.holder), held.holder, Loss::none, token, {}});
      Outcome outcome = unchanged(std::move(state), AcquireResult::busy);
      outcome.effects = std::move(effects);
      return outcome;
    }
    effects.push_back({LockEventKind::reclaimed, held.holder, input.holder, why, token, {}});
    return grant(config, state.next_token, Previous{std::move(held.holder), why}, std::move(input), now_ns,
                 AcquireResult::reclaimed, std::move(effects));
  }

  static constexpr Outcome on(const LockConfig&, State state, Release input, std::int64_t) {
    if (state.is_free()) return unchanged(std::move(state), ReleaseResult::already_free);
    if (!state.is_held_by(input.holder)) return unchanged(std::move(state), ReleaseResult::not_owner);
    Outcome outcome = unchanged(State{{}, {}, state.next_token}, ReleaseResult::released);
    outcome.effects.push_back(
        {LockEventKind::released, std::move(input.holder), {}, Loss::none, state.held->token, {}});
    return outcome;
  }

  static constexpr Outcome on(const LockConfig& config, State state, const Heartbeat& input, std::int64_t now_ns) {
    if (!state.is_held_by(input.holder)) return unchanged(std::move(state), HeartbeatResult::not_owner);
    refresh(config, *state.held, now_ns);
    return unchanged(std::move(state), HeartbeatResult::refreshed);
  }

  static constexpr Outcome on(const LockConfig& config, State state, const Renew& input, std::int64_t now_ns) {
    if (!state.is_held_by(input.holder)) return unchanged(std::move(state), HeartbeatResult::not_owner);
    state.held->ttl_ns = input.ttl_ns;
    refresh(config, *state.held, now_ns);
    return unchanged(std::move(state), HeartbeatResult::refreshed);
  }

  static constexpr Outcome on(const LockConfig& config, State state, Tick, std::int64_t now_ns) {
    const Loss why = reclaimable(config, state, now_ns);
    if (why == Loss::none || state.held->warned) return unchanged(std::move(state), MaintenanceResult::nothing);
    state.held->warned = true;
    const Event warning{LockEventKind::stale, state.held->holder, {}, why, state.held->token, {}};
    Outcome outcome = unchanged(std::move(state), MaintenanceResult::warned);
    outcome.effects.push_back(warning);
    return outcome;
  }

  static constexpr Outcome on(const LockConfig& config, State state, Reclaim, std::int64_t now_ns) {
    const Loss why = reclaimable(config, state, now_ns);
    if (why == Loss::none) return unchanged(std::move(state), MaintenanceResult::nothing);
    return take_away(std::move(state), why, {});
  }

  static constexpr Outcome on(const LockConfig&, State state, Force input, std::int64_t) {
    if (state.is_free()) return unchanged(std::move(state), MaintenanceResult::nothing);
    return take_away(std::move(state), Loss::forced, std::move(input.reason));
  }

  static constexpr Outcome on(const LockConfig&, State state, const Died& input, std::int64_t) {
    if (!state.is_held_by(input.holder)) return unchanged(std::move(state), MaintenanceResult::nothing);
    return take_away(std::move(state), Loss::died, {});
  }
};

template <class HolderType, class MetadataType>
constexpr auto LockMachine<HolderType, MetadataType>::Lock::transition(Input input, std::int64_t now_ns) const
    noexcept(is_nothrow) -> LockStep {
  Outcome outcome = LockMachine::transition(config, state, std::move(input), now_ns);
  return {{config, std::move(outcome.state)}, std::move(outcome.effects)};
}

}  // namespace shmcoord::core
