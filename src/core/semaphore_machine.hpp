#pragma once

// The rules of a weighted semaphore as one pure function: transition(config, state, input, now) -> {state, result,
// effects}. The counterpart of lock_machine.hpp, with the same conventions: what Holder means, revival, effects as
// hints, what is left out.
//
// Problem: a semaphore of the textbook counts, and forgets who took. If one of its users dies, a slot is lost for ever.
// Here every slot has a holder, a holder has a weight, and all of what a dead or silent holder had comes back at once.
//
// Invariants:
//  - The weights of all holders together exceed the capacity only after a resize below what was in use; then nobody is
//    let in until it fits again.
//  - A holder stands in the list once, in the order of first acquires (C-9); its weight is at least 1.
//  - next_token only grows; each hold's token is below it, at least 1, and its own. An increase keeps it.
//  - All or nothing: a weight is never granted in part (S0-38), and never lowered by a smaller request (S0-29).
//  - Who asks is never reclaimed by its own acquire (C-10).
//
// A weight of 0 and a capacity of 0 are refused by whoever makes them into an input (C-12); here a weight of 0 is
// answered with `full` and changes nothing, so that the function is total.
//
// state table begin
// input      the holder            fits   result                         next                     events
// acquire    absent                yes    acquired + previous            added                    acquired
//            absent                no     full{available}                unchanged                denied
//            has as much or more   -      already_held                   refreshed                -
//            has less              yes    increased + previous           its weight, refreshed    acquired
//            has less              no     full{available}                refreshed                denied
// release    present               -      released                       removed                  released
//            absent                -      not_holder                     unchanged                -
// heartbeat, present               -      refreshed                      refreshed                -
// renew      absent                -      not_holder                     unchanged                -
// tick       any                   -      warned, nothing                warned                   stale, each once
// reclaim    any                   -      reclaimed, nothing             all lapsed removed       reclaimed, released
// each force      present               -      reclaimed                      removed                  reclaimed,
// released died       present               -      reclaimed                      removed                  reclaimed,
// released
//            absent                -      nothing                        unchanged                -
// resize     any                   -      resized                        the capacity             released, if it grew
// state table end
//
// An acquire first takes away what *others* lost (lapsed, or proven dead), one `reclaimed` each; if it did and slots
// are still free behind its own event, `released` follows for those who wait for that (C-14).

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/lease.hpp"
#include "core/lock_machine.hpp"
#include "shmcoord/results.hpp"

namespace shmcoord::core {

/// S0-27, S1-37; the capacity is of the state, because a resize changes it. Durations as in LockConfig.
struct SemaphoreConfig {
  std::int64_t stale_threshold_ns = 60'000'000'000;
  std::int64_t heartbeat_interval_ns = 15'000'000'000;  ///< how often a keeper beats; no transition reads it
  std::int64_t ttl_ns = 0;                              ///< for holds that name no ttl of their own; 0 = none

  [[nodiscard]] constexpr std::int64_t heartbeat_timeout_ns() const noexcept { return stale_threshold_ns; }
  friend constexpr bool operator==(const SemaphoreConfig&, const SemaphoreConfig&) = default;
};

enum class SemaphoreEventKind : std::uint8_t { acquired, released, denied, reclaimed, stale };

/// The name under which an event is published and subscribed to (C-13, C-58).
[[nodiscard]] constexpr std::string_view name(SemaphoreEventKind kind) noexcept {
  switch (kind) {
    case SemaphoreEventKind::acquired: return "semaphore:acquired";
    case SemaphoreEventKind::released: return "semaphore:released";
    case SemaphoreEventKind::denied: return "semaphore:denied";
    case SemaphoreEventKind::reclaimed: return "semaphore:reclaimed";
    case SemaphoreEventKind::stale: return "semaphore:stale";
  }
  return "semaphore:unknown";
}

/// The name of the event's type (S1-49, C-13).
[[nodiscard]] constexpr std::string_view type_name(SemaphoreEventKind kind) noexcept {
  switch (kind) {
    case SemaphoreEventKind::acquired: return "SemaphoreAcquired";
    case SemaphoreEventKind::released: return "SemaphoreReleased";
    case SemaphoreEventKind::denied: return "SemaphoreDenied";
    case SemaphoreEventKind::reclaimed: return "SemaphoreReclaimed";
    case SemaphoreEventKind::stale: return "SemaphoreHolderStale";
  }
  return "SemaphoreUnknown";
}

/// S0-36.
enum class SemaphoreResult : std::uint8_t {
  acquired,      ///< the weight is the caller's (S0-32)
  already_held,  ///< it had as much or more; refreshed, nothing lowered (S0-29)
  increased,     ///< it had less, and has the weight now (S0-30)
  full,          ///< it does not fit; what the caller had it still has (S0-31, S0-33)
  released,      ///< S0-34
  not_holder,    ///< S0-35
};

[[nodiscard]] constexpr std::string_view to_string(SemaphoreResult result) noexcept {
  switch (result) {
    case SemaphoreResult::acquired: return "acquired";
    case SemaphoreResult::already_held: return "already_held";
    case SemaphoreResult::increased: return "increased";
    case SemaphoreResult::full: return "full";
    case SemaphoreResult::released: return "released";
    case SemaphoreResult::not_holder: return "not_holder";
  }
  return "unknown";
}

template <class HolderType, class MetadataType>
struct SemaphoreMachine {
  using Holder = HolderType;
  using Metadata = MetadataType;

  struct Held {
    Holder holder;
    std::uint32_t weight = 1;
    std::int64_t acquired_at_ns = 0;  ///< of the first acquire
    std::int64_t last_heartbeat_ns = 0;
    std::optional<Metadata> metadata;
    std::uint64_t token = 0;
    std::int64_t ttl_ns = 0;  ///< 0 = none, the stale threshold counts (C-51)
    bool warned = false;      ///< semaphore:stale was sent for the present episode (C-16)
    friend bool operator==(const Held&, const Held&) = default;
  };

  /// The report on a holder that lost its slots (C-52).
  struct Previous {
    Holder holder;
    std::uint32_t weight = 0;
    Loss why = Loss::none;
    friend bool operator==(const Previous&, const Previous&) = default;
  };

  struct State {
    std::uint32_t capacity = 1;
    std::vector<Held> holders;       ///< in the order of their first acquires
    std::vector<Previous> previous;  ///< for the next one that is given slots
    std::uint64_t next_token = 1;

    /// S1-41. After a resize it may be more than the capacity.
    [[nodiscard]] std::uint64_t used_slots() const noexcept {
      std::uint64_t sum = 0;
      for (const Held& h : holders) sum += h.weight;
      return sum;
    }
    /// S1-42; 0 while more is in use than there is.
    [[nodiscard]] std::uint32_t available_slots() const noexcept {
      const std::uint64_t used = used_slots();
      return used >= capacity ? 0 : static_cast<std::uint32_t>(capacity - used);
    }
    [[nodiscard]] bool can_acquire(std::uint32_t weight) const noexcept {  // S1-43
      return weight != 0 && weight <= available_slots();
    }
    [[nodiscard]] const Held* find(const Holder& holder) const {
      const auto at = std::find_if(holders.begin(), holders.end(), [&](const Held& h) { return h.holder == holder; });
      return at == holders.end() ? nullptr : &*at;
    }
    friend bool operator==(const State&, const State&) = default;
  };

  struct Acquire {
    Holder holder;
    std::uint32_t weight = 1;
    std::optional<Metadata> metadata;             ///< on a hold that there is: replaced if given, kept if not (C-48)
    std::optional<std::int64_t> ttl_ns;           ///< not given: the config's, or the present one; 0 = none
    std::vector<std::uint64_t> dead_tokens = {};  ///< of holds whose holders the caller has proven dead
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
  struct Tick {};     ///< warns of each lapsed hold, once per episode
  struct Reclaim {};  ///< maintenance: takes all lapsed holds, and no other (S0-37)
  struct Force {      ///< operator: takes the hold of that holder
    Holder holder;
    std::optional<Metadata> reason;
  };
  struct Died {  ///< the liveness layer has proven that this holder is dead
    Holder holder;
  };
  struct Resize {
    std::uint32_t capacity = 1;
  };
  using Input = std::variant<Acquire, Release, Heartbeat, Renew, Tick, Reclaim, Force, Died, Resize>;

  struct Event {
    SemaphoreEventKind kind = SemaphoreEventKind::acquired;
    std::optional<Holder> holder;    ///< whom it is about; none: slots became free without a release
    std::optional<Holder> other;     ///< reclaimed by an acquire: by whom
    std::uint32_t weight = 0;        ///< acquired: all that it has now; denied: requested (C-11); released: given back
    std::uint32_t available = 0;     ///< behind the transition
    Loss loss = Loss::none;          ///< reclaimed, stale: why
    std::uint64_t token = 0;         ///< of the hold that the event is about
    std::optional<Metadata> reason;  ///< reclaimed by force: the operator's
    friend bool operator==(const Event&, const Event&) = default;
  };

  struct Resized {
    friend bool operator==(const Resized&, const Resized&) = default;
  };
  /// Which alternative is set follows from the input alone.
  using Result = std::variant<SemaphoreResult, HeartbeatResult, MaintenanceResult, Resized>;

  struct Outcome {
    State state;
    Result result;
    std::uint32_t available = 0;     ///< behind the transition; of `full`, what it could have had
    std::uint64_t token = 0;         ///< of the hold, if the result says that the caller has one
    std::vector<Previous> previous;  ///< handed to this acquire, and to no other
    std::vector<Event> effects;
    friend bool operator==(const Outcome&, const Outcome&) = default;
  };

  /// Why that hold may be taken from its holder at now_ns; Loss::none if it may not.
  [[nodiscard]] static Loss reclaimable(const SemaphoreConfig& config, const Held& held, std::int64_t now_ns) noexcept {
    return judge({config.stale_threshold_ns, held.ttl_ns, 0}, held.acquired_at_ns, held.last_heartbeat_ns, now_ns);
  }
  /// S1-44.
  [[nodiscard]] static std::vector<Holder> stale_holders(const SemaphoreConfig& config, const State& state,
                                                         std::int64_t now_ns) {
    std::vector<Holder> stale;
    for (const Held& h : state.holders) {
      if (reclaimable(config, h, now_ns) != Loss::none) stale.push_back(h.holder);
    }
    return stale;
  }

  /// Throws std::bad_alloc, and what copying a Holder throws; the state is a copy, so nothing is lost then.
  [[nodiscard]] static Outcome transition(const SemaphoreConfig& config, State state, Input input,
                                          std::int64_t now_ns) {
    Outcome outcome;
    outcome.state = std::move(state);
    std::visit([&](auto&& given) { on(config, outcome, std::forward<decltype(given)>(given), now_ns); },
               std::move(input));
    outcome.available = outcome.state.available_slots();
    for (Event& e : outcome.effects) e.available = outcome.available;
    return outcome;
  }

 private:
  static Held* find(State& state, const Holder& holder) { return const_cast<Held*>(std::as_const(state).find(holder)); }

  /// A hold that was just heard of is safe: unlike a lock's, it has no end but silence.
  static void refresh(Held& held, std::int64_t now_ns) noexcept {
    held.last_heartbeat_ns = std::max(held.last_heartbeat_ns, now_ns);
    held.warned = false;
  }

  static Event about(SemaphoreEventKind kind, const Held& held, Loss loss = Loss::none) {
    return {kind, held.holder, {}, held.weight, 0, loss, held.token, {}};
  }

  /// Takes away each hold for which `why` gives a reason. True: there was one.
  template <class Why>
  static bool take_away(Outcome& outcome, const std::optional<Holder>& by, const Why& why) {
    std::vector<Held> kept;
    for (Held& h : outcome.state.holders) {
      const Loss loss = why(std::as_const(h));
      if (loss == Loss::none) {
        kept.push_back(std::move(h));
        continue;
      }
      outcome.effects.push_back(about(SemaphoreEventKind::reclaimed, h, loss));
      outcome.effects.back().other = by;
      if (!by) outcome.effects.push_back(about(SemaphoreEventKind::released, h));
      outcome.state.previous.push_back({std::move(h.holder), h.weight, loss});
    }
    const bool some = kept.size() != outcome.state.holders.size();
    outcome.state.holders = std::move(kept);
    return some;
  }

  static void on(const SemaphoreConfig& config, Outcome& outcome, Acquire input, std::int64_t now_ns) {
    outcome.result = SemaphoreResult::full;
    if (input.weight == 0) return;
    const bool took = take_away(outcome, input.holder, [&](const Held& h) {
      if (h.holder == input.holder) return Loss::none;
      const bool dead =
          std::find(input.dead_tokens.begin(), input.dead_tokens.end(), h.token) != input.dead_tokens.end();
      return dead ? Loss::died : reclaimable(config, h, now_ns);
    });
    State& state = outcome.state;
    Held* held = find(state, input.holder);
    const std::uint32_t own = held == nullptr ? 0 : held->weight;
    // Every slot that it has stays its own, so only what it wants more must fit.
    const bool enough = own >= input.weight;
    const bool fits = enough || input.weight - own <= state.available_slots();
    if (held != nullptr) {
      if (fits && input.metadata) held->metadata = std::move(input.metadata);
      if (fits && input.ttl_ns) held->ttl_ns = *input.ttl_ns;
      refresh(*held, now_ns);
      outcome.token = held->token;
      if (fits && !enough) held->weight = input.weight;
    } else if (fits) {
      const std::int64_t ttl_ns = input.ttl_ns.value_or(config.ttl_ns);
      state.holders.push_back({std::move(input.holder), input.weight, now_ns, now_ns, std::move(input.metadata),
                               state.next_token++, ttl_ns, false});
      held = &state.holders.back();
      outcome.token = held->token;
    }
    if (!fits) {
      outcome.effects.push_back({SemaphoreEventKind::denied,
                                 held != nullptr ? held->holder : std::move(input.holder),
                                 {},
                                 input.weight,
                                 0,
                                 Loss::none,
                                 outcome.token,
                                 {}});
    } else if (enough) {
      outcome.result = SemaphoreResult::already_held;
    } else {
      outcome.result = own == 0 ? SemaphoreResult::acquired : SemaphoreResult::increased;
      outcome.effects.push_back(about(SemaphoreEventKind::acquired, *held));
    }
    if (fits && !enough) outcome.previous = std::exchange(state.previous, {});
    if (took && state.available_slots() != 0) {
      outcome.effects.push_back({SemaphoreEventKind::released, {}, {}, 0, 0, Loss::none, 0, {}});
    }
  }

  static void on(const SemaphoreConfig&, Outcome& outcome, Release input, std::int64_t) {
    auto& holders = outcome.state.holders;
    const auto at =
        std::find_if(holders.begin(), holders.end(), [&](const Held& h) { return h.holder == input.holder; });
    outcome.result = SemaphoreResult::not_holder;
    if (at == holders.end()) return;
    outcome.result = SemaphoreResult::released;
    outcome.effects.push_back(about(SemaphoreEventKind::released, *at));
    holders.erase(at);
  }

  static void on(const SemaphoreConfig&, Outcome& outcome, const Heartbeat& input, std::int64_t now_ns) {
    beat(outcome, input.holder, {}, now_ns);
  }
  static void on(const SemaphoreConfig&, Outcome& outcome, const Renew& input, std::int64_t now_ns) {
    beat(outcome, input.holder, input.ttl_ns, now_ns);
  }
  static void beat(Outcome& outcome, const Holder& holder, std::optional<std::int64_t> ttl_ns, std::int64_t now_ns) {
    Held* const held = find(outcome.state, holder);
    outcome.result = held == nullptr ? HeartbeatResult::not_owner : HeartbeatResult::refreshed;
    if (held == nullptr) return;
    if (ttl_ns) held->ttl_ns = *ttl_ns;
    refresh(*held, now_ns);
    outcome.token = held->token;
  }

  static void on(const SemaphoreConfig& config, Outcome& outcome, Tick, std::int64_t now_ns) {
    for (Held& h : outcome.state.holders) {
      const Loss why = reclaimable(config, h, now_ns);
      if (why == Loss::none || std::exchange(h.warned, true)) continue;
      outcome.effects.push_back(about(SemaphoreEventKind::stale, h, why));
    }
    outcome.result = outcome.effects.empty() ? MaintenanceResult::nothing : MaintenanceResult::warned;
  }

  static void maintain(Outcome& outcome, bool took) {
    outcome.result = took ? MaintenanceResult::reclaimed : MaintenanceResult::nothing;
  }
  static void on(const SemaphoreConfig& config, Outcome& outcome, Reclaim, std::int64_t now_ns) {
    maintain(outcome, take_away(outcome, {}, [&](const Held& h) { return reclaimable(config, h, now_ns); }));
  }
  static void on(const SemaphoreConfig&, Outcome& outcome, Force input, std::int64_t) {
    maintain(outcome, take_away(outcome, {},
                                [&](const Held& h) { return h.holder == input.holder ? Loss::forced : Loss::none; }));
    if (!outcome.effects.empty()) outcome.effects.front().reason = std::move(input.reason);
  }
  static void on(const SemaphoreConfig&, Outcome& outcome, Died input, std::int64_t) {
    maintain(outcome,
             take_away(outcome, {}, [&](const Held& h) { return h.holder == input.holder ? Loss::died : Loss::none; }));
  }

  static void on(const SemaphoreConfig&, Outcome& outcome, Resize input, std::int64_t) {
    const std::uint32_t before = outcome.state.available_slots();
    outcome.state.capacity = input.capacity;
    outcome.result = Resized{};
    if (outcome.state.available_slots() > before) {
      outcome.effects.push_back({SemaphoreEventKind::released, {}, {}, 0, 0, Loss::none, 0, {}});
    }
  }
};

}  // namespace shmcoord::core
