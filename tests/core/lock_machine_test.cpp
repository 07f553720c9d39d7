// Every state x input x time class of the lock against the requirements.
//
// The expectation is the table `rules` below, typed from the requirements and cited line by line; the moments in
// `times` say by hand whether the hold has lapsed there, so no function of the code under test takes part in it. Each
// case must be answered by exactly one rule, and the whole outcome is compared: state, result, token, report, events.

#include "core/lock_machine.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/lock_table.hpp"

namespace shmcoord::core {
namespace {

enum class Who : std::uint8_t { a, b, c };
using Machine = LockMachine<Who, int>;
using Kind = LockEventKind;

constexpr std::int64_t acquired_at = 1000;
constexpr std::int64_t last_beat = 1500;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

struct Moment {
  const char* name;
  std::int64_t threshold_ns;
  std::int64_t ttl_ns;
  std::int64_t max_hold_ns;
  std::int64_t now_ns;
  Loss lapsed;                ///< may be taken away now, and why
  bool lapsed_after_refresh;  ///< still so if the holder beats now
  const char* ids;
};

constexpr Moment times[] = {
    {"fresh", 60, 0, 0, 1510, Loss::none, false, "S1-26"},
    {"exactly at the threshold", 60, 0, 0, 1560, Loss::none, false, "S1-149 C-30"},
    {"just over the threshold", 60, 0, 0, 1561, Loss::stale, false, "S0-23 S1-149 C-30"},
    {"just before the ttl deadline", 60, 30, 0, 1529, Loss::none, false, "S2-7 C-30"},
    {"at the ttl deadline", 60, 30, 0, 1530, Loss::expired, false, "S2-9 C-30"},
    {"ttl outlasts the threshold", 60, 200, 0, 1600, Loss::none, false, "C-51"},
    {"exactly at the longest hold", 5000, 0, 600, 1600, Loss::none, false, "C-2"},
    {"just over the longest hold", 5000, 0, 600, 1601, Loss::held_too_long, true, "C-2"},
    {"over the longest hold, ttl alive", 60, 300, 600, 1601, Loss::held_too_long, true, "C-2 C-51"},
    {"stale and over the longest hold", 60, 0, 600, 1700, Loss::stale, true, "C-2 S1-149"},
    {"expired and over the longest hold", 60, 30, 600, 1700, Loss::expired, true, "C-2 C-51"},
    {"clock slightly backwards", 60, 0, 0, 1499, Loss::none, false, "C-43"},
    {"clock slightly backwards, tiny ttl", 60, 1, 0, 1495, Loss::none, false, "C-43"},
    {"threshold of never", never, 0, 0, never, Loss::none, false, "C-51"},
    {"end of time", 60, 0, 0, never, Loss::stale, false, "S1-149"},
};

enum class Verb : std::uint8_t { acquire, release, heartbeat, renew, tick, reclaim, force, died };
enum class Where : std::uint8_t { free, mine, other };
enum class If : std::uint8_t { any, no, yes };
enum class Next : std::uint8_t { unchanged, refreshed, warned, granted, freed, taken_away };

struct Rule {
  Verb verb;
  Where where;  ///< mine = held by the holder that the input names; an input without one meets `other`
  If takeable;  ///< lapsed, or proven dead by the one who acquires
  If warned;
  LockResult result;
  Next next;
  std::vector<Kind> events;
  const char* ids;
};

// One rule, one row.
// clang-format off
const std::vector<Rule> rules = {
    {Verb::acquire, Where::free, If::any, If::any, AcquireResult::acquired, Next::granted,
     {Kind::acquired}, "S0-12 S1-24 S1-31 C-52"},
    {Verb::acquire, Where::mine, If::any, If::any, AcquireResult::extended, Next::refreshed,
     {}, "S0-13 C-4 C-31 C-48 C-2"},
    {Verb::acquire, Where::other, If::no, If::any, AcquireResult::busy, Next::unchanged,
     {Kind::denied}, "S0-15 S1-26 S1-32 C-5"},
    {Verb::acquire, Where::other, If::yes, If::any, AcquireResult::reclaimed, Next::granted,
     {Kind::reclaimed, Kind::acquired}, "S0-14 S0-23 S1-25 S1-33 S2-10 C-6 C-14 C-50"},
    {Verb::release, Where::free, If::any, If::any, ReleaseResult::already_free, Next::unchanged, {}, "S0-20"},
    {Verb::release, Where::mine, If::any, If::any, ReleaseResult::released, Next::freed,
     {Kind::released}, "S0-18 S1-27"},
    {Verb::release, Where::other, If::any, If::any, ReleaseResult::not_owner, Next::unchanged, {}, "S0-19"},
    {Verb::heartbeat, Where::free, If::any, If::any, HeartbeatResult::not_owner, Next::unchanged, {}, "S0-22"},
    {Verb::heartbeat, Where::mine, If::any, If::any, HeartbeatResult::refreshed, Next::refreshed,
     {}, "S0-22 S1-28 S1-34 C-2"},
    {Verb::heartbeat, Where::other, If::any, If::any, HeartbeatResult::not_owner, Next::unchanged, {}, "S0-22"},
    {Verb::renew, Where::free, If::any, If::any, HeartbeatResult::not_owner, Next::unchanged, {}, "S2-11"},
    {Verb::renew, Where::mine, If::any, If::any, HeartbeatResult::refreshed, Next::refreshed, {}, "S2-11 C-31 C-51"},
    {Verb::renew, Where::other, If::any, If::any, HeartbeatResult::not_owner, Next::unchanged, {}, "S2-11"},
    {Verb::tick, Where::free, If::any, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "S1-29"},
    {Verb::tick, Where::other, If::no, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "S1-29"},
    {Verb::tick, Where::other, If::yes, If::no, MaintenanceResult::warned, Next::warned, {Kind::stale}, "S1-29 C-16"},
    {Verb::tick, Where::other, If::yes, If::yes, MaintenanceResult::nothing, Next::unchanged, {}, "C-16"},
    {Verb::reclaim, Where::free, If::any, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "C-15"},
    {Verb::reclaim, Where::other, If::no, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "C-15 S2-5"},
    {Verb::reclaim, Where::other, If::yes, If::any, MaintenanceResult::reclaimed, Next::taken_away,
     {Kind::reclaimed, Kind::released}, "C-14 C-15 C-52"},
    {Verb::force, Where::free, If::any, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "C-14"},
    {Verb::force, Where::other, If::any, If::any, MaintenanceResult::reclaimed, Next::taken_away,
     {Kind::reclaimed, Kind::released}, "C-14 C-52"},
    {Verb::died, Where::free, If::any, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "C-50"},
    {Verb::died, Where::mine, If::any, If::any, MaintenanceResult::reclaimed, Next::taken_away,
     {Kind::reclaimed, Kind::released}, "C-14 C-50 C-52"},
    {Verb::died, Where::other, If::any, If::any, MaintenanceResult::nothing, Next::unchanged, {}, "C-50"},
};
// clang-format on

constexpr std::uint64_t held_token = 7;

/// One input, flat, with the parts that its verb has; the others keep their defaults.
struct Stimulus {
  Verb verb;
  std::optional<Who> who;
  std::optional<int> metadata;
  std::optional<std::int64_t> ttl_ns;
  std::uint64_t dead_token = 0;

  [[nodiscard]] Machine::Input input() const {
    switch (verb) {
      case Verb::acquire: return Machine::Acquire{*who, metadata, ttl_ns, dead_token};
      case Verb::release: return Machine::Release{*who};
      case Verb::heartbeat: return Machine::Heartbeat{*who};
      case Verb::renew: return Machine::Renew{*who, *ttl_ns};
      case Verb::tick: return Machine::Tick{};
      case Verb::reclaim: return Machine::Reclaim{};
      case Verb::force: return Machine::Force{metadata};
      case Verb::died: break;
    }
    return Machine::Died{*who};
  }
};

std::vector<Stimulus> all_stimuli() {
  std::vector<Stimulus> all;
  for (const Who who : {Who::a, Who::b}) {
    for (const std::optional<int> metadata : {std::optional<int>{}, std::optional<int>{9}}) {
      for (const std::optional<std::int64_t> ttl_ns :
           {std::optional<std::int64_t>{}, std::optional<std::int64_t>{0}, std::optional<std::int64_t>{40}}) {
        all.push_back({Verb::acquire, who, metadata, ttl_ns, 0});
        if (who == Who::a) continue;  // The holder is alive where it calls; a proof of its death is impossible.
        all.push_back({Verb::acquire, who, metadata, ttl_ns, held_token});
        all.push_back({Verb::acquire, who, metadata, ttl_ns, held_token - 1});
      }
    }
    for (const std::int64_t ttl_ns : {0, 40}) all.push_back({Verb::renew, who, {}, ttl_ns});
    for (const Verb verb : {Verb::release, Verb::heartbeat, Verb::died}) all.push_back({verb, who, {}, {}});
  }
  for (const Verb verb : {Verb::tick, Verb::reclaim, Verb::force}) all.push_back({verb, {}, {}, {}});
  all.push_back({Verb::force, {}, 9, {}});
  return all;
}

std::vector<Machine::State> all_states(const Moment& moment) {
  Machine::State fresh_segment;
  Machine::State free;
  free.next_token = held_token + 1;
  Machine::State free_after_reclaim = free;
  free_after_reclaim.previous = Machine::Previous{Who::c, Loss::held_too_long};
  Machine::State held = free;
  held.held = Machine::Held{Who::a, acquired_at, last_beat, 5, held_token, moment.ttl_ns, false};
  Machine::State warned = held;
  warned.held->warned = true;
  Machine::State without_metadata = held;
  without_metadata.held->metadata.reset();
  return {fresh_segment, free, free_after_reclaim, held, warned, without_metadata};
}

bool admits(If wanted, bool given) { return wanted == If::any || given == (wanted == If::yes); }

struct Situation {
  const Moment& moment;
  const LockConfig& config;
  const Machine::State& state;
  const Stimulus& stimulus;

  [[nodiscard]] Where where() const {
    if (!state.held) return Where::free;
    return stimulus.who == state.held->holder ? Where::mine : Where::other;
  }
  [[nodiscard]] bool proven_dead() const { return state.held && stimulus.dead_token == state.held->token; }
  [[nodiscard]] Loss why() const { return proven_dead() ? Loss::died : moment.lapsed; }
  [[nodiscard]] bool fits(const Rule& rule) const {
    return rule.verb == stimulus.verb && rule.where == where() && admits(rule.takeable, why() != Loss::none) &&
           admits(rule.warned, state.held && state.held->warned);
  }
};

Machine::Event expected_event(const Situation& at, Kind kind, Loss why) {
  Machine::Event event;
  event.kind = kind;
  const auto& held = at.state.held;
  switch (kind) {
    case Kind::acquired:
      event.holder = at.stimulus.who;
      event.token = at.state.next_token;
      break;
    case Kind::released:
      event.holder = held->holder;
      event.token = held->token;
      break;
    case Kind::denied:
      event.holder = at.stimulus.who;
      event.other = held->holder;
      event.token = held->token;
      break;
    case Kind::reclaimed:
      event.holder = held->holder;
      if (at.stimulus.verb == Verb::acquire) event.other = at.stimulus.who;
      event.loss = why;
      event.token = held->token;
      if (at.stimulus.verb == Verb::force) event.reason = at.stimulus.metadata;
      break;
    case Kind::stale:
      event.holder = held->holder;
      event.loss = why;
      event.token = held->token;
      break;
  }
  return event;
}

Machine::Outcome expected_outcome(const Situation& at, const Rule& rule) {
  Machine::Outcome expected;
  expected.state = at.state;
  expected.result = rule.result;
  Loss why = at.why();
  if (rule.verb == Verb::force) why = Loss::forced;
  if (rule.verb == Verb::died) why = Loss::died;
  switch (rule.next) {
    case Next::unchanged: break;
    case Next::refreshed: {
      Machine::Held& held = *expected.state.held;
      if (at.moment.now_ns > last_beat) held.last_heartbeat_ns = at.moment.now_ns;
      if (at.stimulus.metadata) held.metadata = at.stimulus.metadata;
      if (at.stimulus.ttl_ns) held.ttl_ns = *at.stimulus.ttl_ns;
      held.warned = held.warned && at.moment.lapsed_after_refresh;
      if (rule.verb == Verb::acquire) expected.token = held_token;
      break;
    }
    case Next::warned: expected.state.held->warned = true; break;
    case Next::granted:
      expected.previous = at.state.previous;
      if (at.state.held) expected.previous = Machine::Previous{at.state.held->holder, why};
      expected.state.previous.reset();
      expected.token = at.state.next_token;
      expected.state.next_token = at.state.next_token + 1;
      expected.state.held = Machine::Held{*at.stimulus.who,
                                          at.moment.now_ns,
                                          at.moment.now_ns,
                                          at.stimulus.metadata,
                                          expected.token,
                                          at.stimulus.ttl_ns ? *at.stimulus.ttl_ns : at.config.ttl_ns,
                                          false};
      break;
    case Next::freed: expected.state.held.reset(); break;
    case Next::taken_away:
      expected.state.held.reset();
      expected.state.previous = Machine::Previous{at.state.held->holder, why};
      break;
  }
  for (const Kind kind : rule.events) expected.effects.push_back(expected_event(at, kind, why));
  return expected;
}

std::string result_text(const LockResult& result) {
  return std::visit([](auto value) { return std::string(to_string(value)); }, result);
}

std::string text(const Machine::Outcome& outcome) {
  std::ostringstream out;
  out << result_text(outcome.result) << " token " << outcome.token;
  if (outcome.previous) {
    out << " previous " << int(outcome.previous->holder) << ' ' << to_string(outcome.previous->why);
  }
  out << " | next token " << outcome.state.next_token;
  if (const auto& held = outcome.state.held) {
    out << " held by " << int(held->holder) << " at " << held->acquired_at_ns << " beat " << held->last_heartbeat_ns
        << " metadata " << held->metadata.value_or(-1) << " token " << held->token << " ttl " << held->ttl_ns
        << (held->warned ? " warned" : "");
  }
  if (const auto& previous = outcome.state.previous) out << " pending " << to_string(previous->why);
  for (const Machine::Event& event : outcome.effects) {
    out << " | " << name(event.kind) << " holder " << (event.holder ? int(*event.holder) : -1) << " other "
        << (event.other ? int(*event.other) : -1) << ' ' << to_string(event.loss) << " token " << event.token;
  }
  return out.str();
}

TEST(LockMachine, every_state_input_and_moment_as_required) {
  const std::vector<Stimulus> stimuli = all_stimuli();
  std::vector<int> uses(rules.size());
  int cases = 0;
  for (const Moment& moment : times) {
    for (const std::int64_t default_ttl_ns : {0, 25}) {
      LockConfig config;
      config.stale_threshold_ns = moment.threshold_ns;
      config.max_hold_ns = moment.max_hold_ns;
      config.ttl_ns = default_ttl_ns;
      for (const Machine::State& state : all_states(moment)) {
        for (const Stimulus& stimulus : stimuli) {
          const Situation at{moment, config, state, stimulus};
          const Rule* rule = nullptr;
          for (std::size_t i = 0; i < rules.size(); ++i) {
            if (!at.fits(rules[i])) continue;
            ASSERT_EQ(rule, nullptr) << "two rules for one case: " << rule->ids << " and " << rules[i].ids;
            rule = &rules[i];
            ++uses[i];
          }
          ASSERT_NE(rule, nullptr) << "no rule for verb " << int(stimulus.verb) << ", " << moment.name;
          const Machine::Outcome expected = expected_outcome(at, *rule);
          const Machine::Outcome actual = Machine::transition(config, state, stimulus.input(), moment.now_ns);
          ASSERT_TRUE(actual == expected)
              << moment.name << " (" << moment.ids << "), verb " << int(stimulus.verb) << ", rule " << rule->ids
              << "\n  expected " << text(expected) << "\n  actual   " << text(actual);
          ++cases;
        }
      }
    }
  }
  for (std::size_t i = 0; i < rules.size(); ++i) EXPECT_GT(uses[i], 0) << "rule never met: " << rules[i].ids;
  EXPECT_EQ(cases, int(std::size(times)) * 2 * 6 * int(stimuli.size()));
}

TEST(LockMachine, queries_agree_with_the_moments) {  // S1-20..22
  for (const Moment& moment : times) {
    LockConfig config;
    config.stale_threshold_ns = moment.threshold_ns;
    config.max_hold_ns = moment.max_hold_ns;
    for (const Machine::State& state : all_states(moment)) {
      const Machine::Lock lock{config, state};
      const bool held = state.held.has_value();
      EXPECT_EQ(lock.is_free(), !held);
      EXPECT_EQ(lock.is_held_by(Who::a), held);
      EXPECT_FALSE(lock.is_held_by(Who::b));
      EXPECT_EQ(lock.is_stale(moment.now_ns), held && moment.lapsed != Loss::none) << moment.name;
    }
  }
}

TEST(LockMachine, step_is_the_transition_without_its_result) {  // S1-23, C-7
  for (const Moment& moment : times) {
    for (const Machine::State& state : all_states(moment)) {
      for (const Stimulus& stimulus : all_stimuli()) {
        const Machine::Lock lock{{}, state};
        const Machine::LockStep step = lock.transition(stimulus.input(), moment.now_ns);
        const Machine::Outcome outcome = Machine::transition({}, state, stimulus.input(), moment.now_ns);
        EXPECT_TRUE(step.lock == (Machine::Lock{{}, outcome.state}));
        EXPECT_TRUE(step.effects == outcome.effects);
      }
    }
  }
}

constexpr Machine::State held_by_a = Machine::transition({}, {}, Machine::Acquire{Who::a, 5, {}, 0}, 100).state;
constexpr Machine::Acquire b_asks{Who::b, {}, {}, 0};
constexpr std::int64_t minute = 60'000'000'000;

static_assert(held_by_a.is_held_by(Who::a) && held_by_a.held->token == 1);                         // S0-12, S2-6
static_assert(held_by_a.held->ttl_ns == 0 && LockConfig{}.heartbeat_timeout_ns() == minute);       // C-1, C-51
static_assert(LockConfig{}.heartbeat_interval_ns == minute / 4 && LockConfig{}.max_hold_ns == 0);  // S1-16
static_assert(Machine::transition({}, held_by_a, b_asks, 100 + minute).result ==
              LockResult{AcquireResult::busy});  // C-30
static_assert(Machine::transition({}, held_by_a, b_asks, 101 + minute).result ==
              LockResult{AcquireResult::reclaimed});                                               // S0-14
static_assert(Machine::transition({}, held_by_a, b_asks, 101 + minute).token == 2);                // S2-8
static_assert(Machine::transition({}, held_by_a, b_asks, 101 + minute).effects.size() == 2);       // C-6
static_assert(Machine::transition({}, held_by_a, Machine::Release{Who::a}, 100).state.is_free());  // S0-18
static_assert(Machine::transition({}, {}, Machine::Release{Who::a}, 100).result ==
              LockResult{ReleaseResult::already_free});  // S0-20
static_assert(std::is_trivially_copyable_v<Machine::Outcome>, "no allocation of its own");
static_assert(noexcept(Machine::transition({}, {}, Machine::Tick{}, 0)));                  // S1-148
static_assert(std::is_copy_constructible_v<LockMachine<std::string, std::string>::Lock>);  // S1-154

TEST(LockTable, the_comment_in_the_header_is_what_the_machine_does) {
  std::ifstream file(SHMCOORD_SOURCE_DIR "/src/core/lock_machine.hpp");
  ASSERT_TRUE(file);
  std::string table;
  std::string line;
  bool inside = false;
  bool closed = false;
  while (std::getline(file, line)) {
    if (line == "// state table end") {
      closed = inside;
      break;
    }
    if (inside) {
      ASSERT_EQ(line.substr(0, 3), "// ");
      table += line.substr(3) + '\n';
    }
    if (line == "// state table begin") inside = true;
  }
  ASSERT_TRUE(closed);
  EXPECT_EQ(table, lock_state_table());
}

}  // namespace
}  // namespace shmcoord::core
