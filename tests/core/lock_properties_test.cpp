// Long random lives of one lock. What the exhaustive test shows for each single step must also hold over any sequence.
//
// A thousand cases each unless RC_PARAMS says otherwise (e.g. RC_PARAMS="max_success=100000 seed=7").

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "core/lock_machine.hpp"

namespace shmcoord::core {
namespace {

// rapidcheck reads its parameters at the first check, so a static initialiser comes early enough.
[[maybe_unused]] const bool thousand_cases = [] {
  const char* given = std::getenv("RC_PARAMS");
  std::string params = given ? given : "";
  if (params.find("max_success") == std::string::npos) params += " max_success=1000";
  return ::setenv("RC_PARAMS", params.c_str(), 1) == 0;
}();

using Machine = LockMachine<int, int>;

struct Op {
  int verb = 0;   ///< 0..8, see input()
  int who = 0;    ///< 0..3
  int value = 0;  ///< ttl or metadata
  int step = 0;   ///< how far the clock moves before; may be slightly negative

  [[nodiscard]] Machine::Input input(std::uint64_t current_token) const {
    switch (verb) {
      case 0: return Machine::Acquire{who, {}, {}, 0};
      case 1: return Machine::Acquire{who, value, value, 0};
      case 2: return Machine::Acquire{who, {}, {}, current_token};
      case 3: return Machine::Release{who};
      case 4: return Machine::Heartbeat{who};
      case 5: return Machine::Renew{who, value};
      case 6: return Machine::Tick{};
      case 7: return Machine::Reclaim{};
      case 8: return Machine::Force{{}};
      default: return Machine::Died{who};
    }
  }
};

std::ostream& operator<<(std::ostream& out, const Op& op) {
  return out << "{verb " << op.verb << ", who " << op.who << ", value " << op.value << ", step " << op.step << '}';
}

rc::Gen<std::vector<Op>> life() {
  return rc::gen::container<std::vector<Op>>(rc::gen::build<Op>(
      rc::gen::set(&Op::verb, rc::gen::inRange(0, 10)), rc::gen::set(&Op::who, rc::gen::inRange(0, 4)),
      rc::gen::set(&Op::value, rc::gen::inRange(0, 30)), rc::gen::set(&Op::step, rc::gen::inRange(-2, 25))));
}

constexpr LockConfig config{.stale_threshold_ns = 20, .max_hold_ns = 90};

/// Feeds a life to the lock and shows each step to a watcher: state before, op, now, outcome.
template <class Watch>
void live(const std::vector<Op>& ops, Watch watch) {
  Machine::State state;
  std::int64_t now_ns = 1000;
  for (const Op& op : ops) {
    now_ns += op.step;
    const std::uint64_t token = state.held ? state.held->token : 0;
    const Machine::Outcome outcome = Machine::transition(config, state, op.input(token), now_ns);
    watch(state, op, now_ns, outcome);
    state = outcome.state;
  }
}

int count(const Machine::Effects& effects, LockEventKind kind) {
  return int(std::count_if(effects.begin(), effects.end(), [&](const auto& event) { return event.kind == kind; }));
}

std::optional<int> holder_of(const Machine::State& state) {
  return state.held ? std::optional(state.held->holder) : std::nullopt;
}

RC_GTEST_PROP(LockProperties, lock_transitions_preserve_invariants, ()) {  // S1-159
  live(*life(), [](const Machine::State& before, const Op&, std::int64_t, const Machine::Outcome& outcome) {
    const Machine::State& after = outcome.state;
    RC_ASSERT(after.is_free() != after.held.has_value());
    RC_ASSERT(!(after.held && after.previous));
    RC_ASSERT(after.next_token >= before.next_token);
    if (after.held) {
      RC_ASSERT(after.held->token >= 1u);
      RC_ASSERT(after.held->token + 1 == after.next_token);
      RC_ASSERT(after.held->last_heartbeat_ns >= after.held->acquired_at_ns);
    }
    if (before.held && after.held && before.held->token == after.held->token) {
      RC_ASSERT(before.held->holder == after.held->holder);
      RC_ASSERT(before.held->acquired_at_ns == after.held->acquired_at_ns);
      RC_ASSERT(before.held->last_heartbeat_ns <= after.held->last_heartbeat_ns);
    }
    RC_ASSERT(outcome.effects.size() <= 2u);
    if (const auto* result = std::get_if<AcquireResult>(&outcome.result)) {
      RC_ASSERT(*result <= AcquireResult::busy);  // S0-16: a try knows four answers.
      RC_ASSERT(is_held(*result) == (outcome.token != 0));
    }
  });
}

RC_GTEST_PROP(LockProperties, tokens_strictly_grow, ()) {  // S2-6, S2-8
  std::uint64_t highest = 0;
  live(*life(), [&](const Machine::State& before, const Op&, std::int64_t, const Machine::Outcome& outcome) {
    if (count(outcome.effects, LockEventKind::acquired) == 1) {
      RC_ASSERT(outcome.token > highest);
      highest = outcome.token;
    } else if (outcome.token != 0) {
      RC_ASSERT(outcome.result == LockResult{AcquireResult::extended});
      RC_ASSERT(outcome.token == before.held->token);
    }
  });
}

RC_GTEST_PROP(LockProperties, previous_is_handed_exactly_once, ()) {  // C-52
  std::optional<Machine::Previous> owed;
  live(*life(), [&](const Machine::State& before, const Op&, std::int64_t, const Machine::Outcome& outcome) {
    for (const Machine::Event& event : outcome.effects) {
      if (event.kind != LockEventKind::reclaimed) continue;
      RC_ASSERT(!owed.has_value());
      RC_ASSERT(event.loss != Loss::none);
      owed = Machine::Previous{*event.holder, event.loss};
    }
    const bool new_hold = count(outcome.effects, LockEventKind::acquired) == 1;
    RC_ASSERT(outcome.previous == (new_hold ? owed : std::nullopt));
    if (new_hold) {
      const bool taken_over = before.held.has_value();
      RC_ASSERT(outcome.result == LockResult{taken_over ? AcquireResult::reclaimed : AcquireResult::acquired});
      owed.reset();
    }
  });
}

RC_GTEST_PROP(LockProperties, holder_never_changes_without_an_event, ()) {  // S1-35, C-14
  live(*life(), [](const Machine::State& before, const Op&, std::int64_t, const Machine::Outcome& outcome) {
    // Who holds the lock according to somebody who only hears the events.
    std::optional<int> heard = holder_of(before);
    for (const Machine::Event& event : outcome.effects) {
      switch (event.kind) {
        case LockEventKind::acquired:
        case LockEventKind::reclaimed:
          if (event.kind == LockEventKind::reclaimed) RC_ASSERT(event.holder == heard);
          heard = event.kind == LockEventKind::acquired ? event.holder : event.other;
          break;
        case LockEventKind::released: heard.reset(); break;
        case LockEventKind::denied: RC_ASSERT(event.other == heard); break;
        case LockEventKind::stale: RC_ASSERT(event.holder == heard); break;
      }
    }
    RC_ASSERT(heard == holder_of(outcome.state));
  });
}

RC_GTEST_PROP(LockProperties, only_the_silent_the_slow_and_the_dead_are_robbed, ()) {  // S2-5, S0-15, C-2, C-30
  live(*life(), [](const Machine::State& before, const Op& op, std::int64_t now_ns, const Machine::Outcome& outcome) {
    if (count(outcome.effects, LockEventKind::reclaimed) == 0) return;
    const bool told_to = op.verb == 2 || op.verb >= 8;  // A proof of death, the operator, a death.
    const std::int64_t silent_ns = now_ns - before.held->last_heartbeat_ns;
    const bool silent = before.held->ttl_ns > 0 ? silent_ns >= before.held->ttl_ns : silent_ns > 20;
    const bool too_long = now_ns - before.held->acquired_at_ns > 90;
    RC_ASSERT(told_to || silent || too_long);
  });
}

RC_GTEST_PROP(LockProperties, one_warning_per_episode, ()) {  // C-16
  bool warned = false;
  live(*life(), [&](const Machine::State& before, const Op&, std::int64_t now_ns, const Machine::Outcome& outcome) {
    if (count(outcome.effects, LockEventKind::stale) == 1) {
      RC_ASSERT(!warned);
      warned = true;
    }
    const bool other_hold = !outcome.state.held || !before.held || outcome.state.held->token != before.held->token;
    const bool refreshed = outcome.result == LockResult{HeartbeatResult::refreshed} ||
                           outcome.result == LockResult{AcquireResult::extended};
    const bool too_long = outcome.state.held && now_ns - outcome.state.held->acquired_at_ns > 90;
    if (other_hold || (refreshed && !too_long)) warned = false;
  });
}

RC_GTEST_PROP(LockProperties, same_seed_same_life, (std::uint64_t seed)) {  // S1-148
  const auto run = [seed] {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t bound) { return static_cast<int>(random() % bound); };
    std::vector<Op> ops(40);
    for (Op& op : ops) {
      op.verb = below(10);
      op.who = below(4);
      op.value = below(30);
      op.step = below(27) - 2;
    }
    std::vector<Machine::Outcome> outcomes;
    live(ops, [&](const Machine::State&, const Op&, std::int64_t, const Machine::Outcome& outcome) {
      outcomes.push_back(outcome);
    });
    return outcomes;
  };
  RC_ASSERT(run() == run());
}

// A property that no random life could break would be worthless: the lives must reach the interesting places.
TEST(LockProperties, lives_reach_every_event_and_every_loss) {
  std::mt19937_64 random(1);
  std::vector<int> kinds(5);
  std::vector<int> losses(6);
  std::vector<Op> ops(5000);
  for (Op& op : ops) {
    op = {int(random() % 10), int(random() % 4), int(random() % 30), int(random() % 27) - 2};
  }
  live(ops, [&](const Machine::State&, const Op&, std::int64_t, const Machine::Outcome& outcome) {
    for (const Machine::Event& event : outcome.effects) {
      ++kinds[static_cast<std::size_t>(event.kind)];
      ++losses[static_cast<std::size_t>(event.loss)];
    }
  });
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), 0), 0);
  EXPECT_EQ(std::count(losses.begin(), losses.end(), 0), 0);
}

}  // namespace
}  // namespace shmcoord::core
