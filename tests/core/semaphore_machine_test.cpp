// A semaphore against its requirements: every sequence of a few inputs from the empty state, each answer compared with
// what the requirements say about it (`Expected`, written without the machine's functions), and the stories that they
// tell.

#include "core/semaphore_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/long_form.hpp"

namespace shmcoord::core {
namespace {

using Machine = SemaphoreMachine<char, int>;
using Kind = SemaphoreEventKind;
using State = Machine::State;
using Outcome = Machine::Outcome;

constexpr SemaphoreConfig config{.stale_threshold_ns = 60};
constexpr std::int64_t start = 1000;

std::vector<Kind> kinds(const Outcome& o) {
  std::vector<Kind> all;
  for (const auto& e : o.effects) all.push_back(e.kind);
  return all;
}

std::uint64_t sum(const State& s) {
  std::uint64_t all = 0;
  for (const auto& h : s.holders) all += h.weight;
  return all;
}
std::uint32_t left(const State& s) {
  return sum(s) >= s.capacity ? 0 : static_cast<std::uint32_t>(s.capacity - sum(s));
}
bool lapsed(const Machine::Held& h, std::int64_t now) {
  return h.ttl_ns > 0 ? now - h.last_heartbeat_ns >= h.ttl_ns : now - h.last_heartbeat_ns > 60;
}
const Machine::Held* of(const State& s, char holder) {
  for (const auto& h : s.holders) {
    if (h.holder == holder) return &h;
  }
  return nullptr;
}
std::uint32_t weight_of(const State& s, char holder) { return of(s, holder) == nullptr ? 0 : of(s, holder)->weight; }

// --- what each input must do -----------------------------------------------------------------------------------------

struct Expected {
  Machine::Result result;
  std::vector<std::pair<char, std::uint32_t>> holders;  // in order, with their weights
  std::vector<Kind> events;
};

Expected keeps(const State& s, Machine::Result result) {
  Expected e{result, {}, {}};
  for (const auto& h : s.holders) e.holders.emplace_back(h.holder, h.weight);
  return e;
}

Expected without(const State& s, const std::vector<char>& gone) {
  Expected e = keeps(s, gone.empty() ? MaintenanceResult::nothing : MaintenanceResult::reclaimed);
  std::erase_if(e.holders, [&](const auto& h) { return std::count(gone.begin(), gone.end(), h.first) != 0; });
  for (std::size_t i = 0; i < gone.size(); ++i) e.events.insert(e.events.end(), {Kind::reclaimed, Kind::released});
  return e;
}

Expected expect(const State& s, const Machine::Acquire& in, std::int64_t now) {
  if (in.weight == 0) return keeps(s, SemaphoreResult::full);  // C-12
  State rest = s;                                              // C-10: others' lapsed holds first
  std::erase_if(rest.holders, [&](const auto& h) {
    const bool dead = std::count(in.dead_tokens.begin(), in.dead_tokens.end(), h.token) != 0;
    return h.holder != in.holder && (lapsed(h, now) || dead);
  });
  const std::size_t taken = s.holders.size() - rest.holders.size();
  const std::uint32_t own = weight_of(rest, in.holder);
  Expected e = keeps(rest, SemaphoreResult::full);
  e.events.assign(taken, Kind::reclaimed);
  if (own >= in.weight) {
    e.result = SemaphoreResult::already_held;  // S0-29, S0-39
  } else if (in.weight - own <= left(rest)) {
    e.result = own == 0 ? SemaphoreResult::acquired : SemaphoreResult::increased;  // S0-30, S0-32
    e.events.push_back(Kind::acquired);
    if (own == 0) e.holders.emplace_back(in.holder, in.weight);
    for (auto& h : e.holders) {
      if (h.first == in.holder) h.second = in.weight;
    }
  } else {
    e.events.push_back(Kind::denied);  // S0-31, S0-33
  }
  std::uint64_t used = 0;
  for (const auto& h : e.holders) used += h.second;
  if (taken != 0 && used < s.capacity) e.events.push_back(Kind::released);  // C-14
  return e;
}

Expected expect(const State& s, const Machine::Release& in, std::int64_t) {
  if (of(s, in.holder) == nullptr) return keeps(s, SemaphoreResult::not_holder);  // S0-35
  Expected e = without(s, {in.holder});                                           // S0-34
  e.result = SemaphoreResult::released;
  e.events = {Kind::released};
  return e;
}
Expected beaten(const State& s, char holder) {
  return keeps(s, of(s, holder) == nullptr ? HeartbeatResult::not_owner : HeartbeatResult::refreshed);
}
Expected expect(const State& s, const Machine::Heartbeat& in, std::int64_t) { return beaten(s, in.holder); }
Expected expect(const State& s, const Machine::Renew& in, std::int64_t) { return beaten(s, in.holder); }
Expected expect(const State& s, const Machine::Tick&, std::int64_t now) {
  Expected e = keeps(s, MaintenanceResult::nothing);  // S1-48, C-16
  for (const auto& h : s.holders) {
    if (lapsed(h, now) && !h.warned) e.events.push_back(Kind::stale);
  }
  if (!e.events.empty()) e.result = MaintenanceResult::warned;
  return e;
}
Expected expect(const State& s, const Machine::Reclaim&, std::int64_t now) {
  std::vector<char> gone;  // S0-37: all of them
  for (const auto& h : s.holders) {
    if (lapsed(h, now)) gone.push_back(h.holder);
  }
  return without(s, gone);
}
Expected gone(const State& s, char holder) {
  return without(s, of(s, holder) == nullptr ? std::vector<char>{} : std::vector<char>{holder});
}
Expected expect(const State& s, const Machine::Force& in, std::int64_t) { return gone(s, in.holder); }
Expected expect(const State& s, const Machine::Died& in, std::int64_t) { return gone(s, in.holder); }
Expected expect(const State& s, const Machine::Resize& in, std::int64_t) {
  Expected e = keeps(s, Machine::Resized{});
  State after = s;
  after.capacity = in.capacity;
  if (left(after) > left(s)) e.events = {Kind::released};
  return e;
}

// --- every sequence --------------------------------------------------------------------------------------------------

struct Step {
  std::string name;
  Machine::Input input;
  std::int64_t pass_ns = 0;  // before it
};

std::vector<Step> alphabet() {
  std::vector<Step> all;
  for (const char who : {'a', 'b', 'c'}) {
    const std::string name(1, who);
    for (const std::uint32_t w : {1U, 2U, 3U})
      all.push_back({name + std::to_string(w), Machine::Acquire{who, w, {}, {}}});
    all.push_back({name + " releases", Machine::Release{who}});
  }
  all.push_back({"a0", Machine::Acquire{'a', 0, {}, {}}});
  all.push_back({"a2 with a ttl", Machine::Acquire{'a', 2, {}, 20}, 30});
  all.push_back({"later c2", Machine::Acquire{'c', 2, {}, {}}, 61});
  all.push_back({"b2, and hold 1 is dead", Machine::Acquire{'b', 2, {}, {}, {1}}});
  all.push_back({"a beats later", Machine::Heartbeat{'a'}, 40});
  all.push_back({"b renews", Machine::Renew{'b', 200}});
  all.push_back({"tick later", Machine::Tick{}, 61});
  all.push_back({"tick", Machine::Tick{}});
  all.push_back({"reclaim later", Machine::Reclaim{}, 61});
  all.push_back({"a is forced", Machine::Force{'a', 7}});
  all.push_back({"b died", Machine::Died{'b'}});
  all.push_back({"1 slot", Machine::Resize{1}});
  all.push_back({"4 slots", Machine::Resize{4}});
  return all;
}

class Walk {
 public:
  void from(const State& state, std::int64_t now, int depth, const std::string& path) {
    if (depth == 0 || testing::Test::HasFailure()) return;
    for (const Step& step : steps_) {
      const std::int64_t then = now + step.pass_ns;
      const Outcome o = Machine::transition(config, state, step.input, then);
      const std::string here = path + ", " + step.name;
      check(state, step.input, o, then, here);
      if (testing::Test::HasFailure()) return;
      ++cases_;
      from(o.state, then, depth - 1, here);
    }
  }
  [[nodiscard]] std::uint64_t cases() const { return cases_; }

 private:
  static void check(const State& before, const Machine::Input& input, const Outcome& o, std::int64_t now,
                    const std::string& path) {
    const Expected e = std::visit([&](const auto& in) { return expect(before, in, now); }, input);
    EXPECT_EQ(o.result, e.result) << path;
    std::vector<std::pair<char, std::uint32_t>> holders;
    for (const auto& h : o.state.holders) holders.emplace_back(h.holder, h.weight);
    EXPECT_EQ(holders, e.holders) << path;
    EXPECT_EQ(kinds(o), e.events) << path;
    EXPECT_EQ(o.available, left(o.state)) << path;
    for (const auto& event : o.effects) EXPECT_EQ(event.available, o.available) << path;

    // Nothing is let in beyond the capacity; what is beyond it was there before a resize.
    EXPECT_TRUE(sum(o.state) <= o.state.capacity || sum(o.state) <= sum(before)) << path;
    EXPECT_GE(o.state.next_token, before.next_token) << path;
    for (const auto& h : o.state.holders) {
      EXPECT_GE(h.weight, 1U) << path;
      EXPECT_LT(h.token, o.state.next_token) << path;
      EXPECT_EQ(std::count_if(o.state.holders.begin(), o.state.holders.end(),
                              [&](const auto& x) { return x.holder == h.holder || x.token == h.token; }),
                1)
          << path;
      const Machine::Held* const was = of(before, h.holder);
      if (was == nullptr) continue;
      EXPECT_EQ(h.token, was->token) << path << ": an increase keeps its token";
      EXPECT_GE(h.weight, was->weight) << path << ": lowered";
      EXPECT_GE(h.last_heartbeat_ns, was->last_heartbeat_ns) << path;
    }
    // Reports: every hold that was taken away is told once, to who is given slots next; who only keeps what it had
    // takes no news away from them.
    const auto taken = static_cast<std::size_t>(
        std::count_if(o.effects.begin(), o.effects.end(), [](const auto& x) { return x.kind == Kind::reclaimed; }));
    EXPECT_EQ(o.previous.size() + o.state.previous.size(), before.previous.size() + taken) << path;
    EXPECT_TRUE(o.previous.empty() || (o.state.previous.empty() && o.token != 0)) << path;
    const auto* const result = std::get_if<SemaphoreResult>(&o.result);
    const bool kept = result != nullptr && *result == SemaphoreResult::already_held;
    const bool let_in = !kept && result != nullptr && *result <= SemaphoreResult::increased;
    EXPECT_TRUE(!let_in || o.state.previous.empty()) << path;
    EXPECT_TRUE(!kept || o.previous.empty()) << path;
  }

  const std::vector<Step> steps_ = alphabet();
  std::uint64_t cases_ = 0;
};

TEST(SemaphoreMachine, EverySequenceOfAFewInputsDoesWhatIsWritten) {
  const int length = test::long_form() ? 5 : 3;
  Walk walk;
  for (const std::uint32_t capacity : {1U, 3U}) {
    State state;
    state.capacity = capacity;
    walk.from(state, start, length, std::to_string(capacity) + " slots");
  }
  std::cout << walk.cases() << " transitions\n";
  EXPECT_GE(walk.cases(), 2U * 25 * 25 * 25);
}

// --- stories ---------------------------------------------------------------------------------------------------------

class Semaphore : public testing::Test {
 protected:
  Outcome does(Machine::Input input, std::int64_t pass_ns = 0) {
    now_ += pass_ns;
    Outcome o = Machine::transition(config, std::move(state_), std::move(input), now_);
    state_ = o.state;
    return o;
  }
  Outcome acquire(char who, std::uint32_t weight = 1, std::int64_t pass_ns = 0) {
    return does(Machine::Acquire{who, weight, {}, {}}, pass_ns);
  }
  void slots(std::uint32_t capacity) { state_.capacity = capacity; }

  State state_;
  std::int64_t now_ = start;
};

TEST_F(Semaphore, SeveralHoldAtOnceUntilItIsFull) {  // S1-50, S1-51, S1-54
  slots(3);
  for (const char who : {'a', 'b', 'c'}) EXPECT_EQ(acquire(who).result, Machine::Result{SemaphoreResult::acquired});
  const Outcome refused = acquire('d');
  EXPECT_EQ(refused.result, Machine::Result{SemaphoreResult::full});
  EXPECT_EQ(refused.available, 0U);
  does(Machine::Release{'b'});
  EXPECT_EQ(acquire('d').result, Machine::Result{SemaphoreResult::acquired});
}

TEST_F(Semaphore, AWeightIsGrantedWholeOrNotAtAll) {  // S1-52, S0-38, C-11
  slots(5);
  acquire('a', 3);
  const Outcome refused = acquire('b', 3);
  ASSERT_EQ(kinds(refused), std::vector{Kind::denied});
  EXPECT_EQ(refused.effects[0].weight, 3U);
  EXPECT_EQ(refused.effects[0].available, 2U);
  EXPECT_EQ(acquire('b', 2).result, Machine::Result{SemaphoreResult::acquired});
  EXPECT_EQ(acquire('c', 6).result, Machine::Result{SemaphoreResult::full}) << "more than there will ever be";
}

TEST_F(Semaphore, WhatASilentHolderHadComesBackToTheNextOne) {  // S1-53, C-10, C-14
  slots(3);
  acquire('a', 2);
  const Outcome got = acquire('b', 2, 61);
  EXPECT_EQ(got.result, Machine::Result{SemaphoreResult::acquired});
  EXPECT_EQ(kinds(got), (std::vector{Kind::reclaimed, Kind::acquired, Kind::released}));
  EXPECT_EQ(got.effects[0].other, 'b');
  ASSERT_EQ(got.previous.size(), 1U);
  EXPECT_EQ(got.previous[0], (Machine::Previous{'a', 2, Loss::stale}));
}

TEST_F(Semaphore, WhoComesBackLateRevivesItsOwn) {  // C-10
  slots(2);
  const std::uint64_t token = acquire('a', 2).token;
  const Outcome late = acquire('a', 2, 500);
  EXPECT_EQ(late.result, Machine::Result{SemaphoreResult::already_held});
  EXPECT_EQ(late.token, token);
  EXPECT_EQ(acquire('b', 1, 60).result, Machine::Result{SemaphoreResult::full}) << "exactly at the threshold";
}

TEST_F(Semaphore, MaintenanceTakesAllSilentOnesAndTellsOfEach) {  // S0-37, C-14
  slots(4);
  acquire('a');
  acquire('b', 2);
  acquire('c', 1, 50);
  const Outcome swept = does(Machine::Reclaim{}, 20);
  EXPECT_EQ(kinds(swept), (std::vector{Kind::reclaimed, Kind::released, Kind::reclaimed, Kind::released}));
  EXPECT_EQ(swept.available, 3U);
  const Outcome next = acquire('d');
  ASSERT_EQ(next.previous.size(), 2U);  // C-52
  EXPECT_EQ(next.previous[1], (Machine::Previous{'b', 2, Loss::stale}));
  EXPECT_TRUE(acquire('e').previous.empty());
}

TEST_F(Semaphore, ALoweredCapacityLetsHoldersFinishAndNobodyIn) {
  slots(4);
  acquire('a', 3);
  EXPECT_TRUE(does(Machine::Resize{1}).effects.empty());
  EXPECT_EQ(acquire('b').result, Machine::Result{SemaphoreResult::full});
  EXPECT_EQ(acquire('a', 3).result, Machine::Result{SemaphoreResult::already_held});
  does(Machine::Release{'a'});
  EXPECT_EQ(acquire('b').result, Machine::Result{SemaphoreResult::acquired});
  EXPECT_EQ(kinds(does(Machine::Resize{2})), std::vector{Kind::released});
}

TEST_F(Semaphore, MetadataIsReplacedIfGivenAndKeptIfNot) {  // C-48
  slots(3);
  does(Machine::Acquire{'a', 1, 5, {}});
  acquire('a', 2);
  EXPECT_EQ(state_.holders[0].metadata, 5);
  does(Machine::Acquire{'a', 1, 6, {}});
  EXPECT_EQ(state_.holders[0].metadata, 6);
  does(Machine::Acquire{'a', 4, 7, {}});
  EXPECT_EQ(state_.holders[0].metadata, 6) << "refused: as before";
  EXPECT_EQ(does(Machine::Force{'a', 8}).effects[0].reason, 8);
}

TEST_F(Semaphore, AWarningComesOncePerSilence) {  // C-16, S1-48
  acquire('a');
  EXPECT_EQ(kinds(does(Machine::Tick{}, 61)), std::vector{Kind::stale});
  EXPECT_TRUE(does(Machine::Tick{}, 61).effects.empty());
  does(Machine::Heartbeat{'a'});
  EXPECT_EQ(kinds(does(Machine::Tick{}, 61)), std::vector{Kind::stale});
}

TEST_F(Semaphore, AHeartbeatNeverMovesBackwards) {  // C-43
  slots(2);
  acquire('a', 1, 50);
  does(Machine::Heartbeat{'a'}, -40);
  EXPECT_EQ(does(Machine::Reclaim{}, 40 + 60).result, Machine::Result{MaintenanceResult::nothing});
}

TEST(SemaphoreMachine, AHoldHasTheConfiguredTtlUnlessItNamesItsOwn) {  // C-51
  const SemaphoreConfig short_ttl{.stale_threshold_ns = 60, .ttl_ns = 20};
  State state;
  state.capacity = 2;
  state = Machine::transition(short_ttl, state, Machine::Acquire{'a', 1, {}, {}}, start).state;
  state = Machine::transition(short_ttl, state, Machine::Acquire{'b', 1, {}, 40}, start).state;
  EXPECT_EQ(Machine::stale_holders(short_ttl, state, start + 19), std::vector<char>{});
  EXPECT_EQ(Machine::stale_holders(short_ttl, state, start + 20), std::vector{'a'});
  state = Machine::transition(short_ttl, state, Machine::Renew{'b', 0}, start + 30).state;
  EXPECT_EQ(Machine::stale_holders(short_ttl, state, start + 90), std::vector{'a'}) << "back to the threshold";
}

TEST_F(Semaphore, TheLargestNumbersDoNotWrap) {
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  slots(most);
  EXPECT_EQ(acquire('a', most).result, Machine::Result{SemaphoreResult::acquired});
  EXPECT_EQ(acquire('b', 1).result, Machine::Result{SemaphoreResult::full});
  does(Machine::Resize{1});
  does(Machine::Release{'a'});
  EXPECT_EQ(state_.available_slots(), 1U);
  EXPECT_EQ(acquire('b', most).result, Machine::Result{SemaphoreResult::full});
}

}  // namespace
}  // namespace shmcoord::core
