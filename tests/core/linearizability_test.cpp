#include "support/linearizability.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/history_judge.hpp"
#include "support/long_form.hpp"

// The judge of recorded histories is judged here: each kind of lie is planted and must be found, what really happened
// must be believed, and of small histories a search without any cleverness must say the same.

namespace shmcoord::test {
namespace {

constexpr std::int64_t ms = 1'000'000;

/// One line, with times in milliseconds.
struct Line {
  const char* client;
  Verb verb;
  const char* holder;
  std::int64_t call, end;  // end 0: none
  const char* answer;
  std::uint64_t token = 0;
  const char* who = "";
  Loss why = Loss::none;
  std::int64_t ttl = 0;
};

History history(const std::vector<Line>& lines, std::int64_t max_hold = 0) {
  History h;
  Operation configure;
  configure.client = "run";
  configure.object = "x";
  configure.verb = Verb::configure;
  configure.limit_ns = max_hold * ms;
  configure.return_ns = 0;
  h.push_back(configure);
  for (const Line& l : lines) {
    Operation o;
    o.client = l.client;
    o.object = "x";
    o.verb = l.verb;
    o.holder = l.holder;
    o.ttl_ns = l.ttl * ms;
    o.call_ns = l.call * ms;
    o.return_ns = l.end == 0 ? no_return : l.end * ms;
    o.answer = l.answer;
    (l.verb == Verb::is_current ? o.token : o.got) = l.token;
    o.who = l.who;
    o.why = l.why;
    h.push_back(o);
  }
  return h;
}

bool believed(const History& h) { return !unexplained_object(h).has_value(); }
bool believed(const std::vector<Line>& lines, std::int64_t max_hold = 0) { return believed(history(lines, max_hold)); }

constexpr auto acquire = Verb::acquire;
constexpr auto attempt = Verb::try_acquire;
constexpr auto release = Verb::release;
constexpr auto status = Verb::status;
constexpr auto died = Verb::died;

// --- what happened is believed -------------------------------------------------------------------------------------

TEST(Linearizability, overlapping_calls_may_have_come_in_any_order) {
  EXPECT_TRUE(believed({{"p1.0", acquire, "a", 1, 9, "acquired", 5},
                        {"p2.0", attempt, "a", 2, 3, "busy"},
                        {"p1.0", release, "a", 10, 20, "released"},
                        {"p2.0", attempt, "a", 11, 12, "acquired", 6},
                        {"p3.0", status, "", 13, 14, "held", 6, "a"}}));
}

TEST(Linearizability, a_call_that_never_returned_happened_or_not) {
  const Line killed{"p1.0", acquire, "a", 1, 0, ""};
  EXPECT_TRUE(believed({killed, {"p2.0", attempt, "b", 5, 6, "acquired", 3}}));
  EXPECT_TRUE(believed({killed, {"p2.0", attempt, "b", 5, 6, "busy"}, {"p2.0", status, "", 7, 8, "held", 9, "a"}}));
  EXPECT_FALSE(believed({killed,
                         {"p2.0", status, "", 5, 6, "held", 9, "a"},
                         {"p2.0", attempt, "b", 7, 8, "acquired", 9, "a", Loss::died},
                         {"p1", died, "", 3, 4, ""}}))
      << "its token is that of the next hold";
}

TEST(Linearizability, the_dead_lose_their_hold_at_any_time_after_their_death) {
  const std::vector<Line> start{{"p1.0", acquire, "a", 1, 2, "acquired", 5}, {"p1", died, "", 10, 11, ""}};
  const auto with = [&](Line next) {
    auto lines = start;
    lines.push_back(next);
    return believed(lines);
  };
  EXPECT_TRUE(with({"p2.0", attempt, "b", 12, 13, "busy"}));
  EXPECT_TRUE(with({"p2.0", attempt, "b", 12, 13, "reclaimed", 6, "a", Loss::died}));
  EXPECT_TRUE(with({"p2.0", attempt, "b", 12, 13, "acquired", 6, "a", Loss::died}));
  EXPECT_FALSE(with({"p2.0", attempt, "b", 12, 13, "acquired", 6})) << "not told";
  EXPECT_FALSE(with({"p2.0", attempt, "b", 12, 13, "acquired", 6, "c", Loss::died})) << "told of somebody else";
  EXPECT_FALSE(with({"p2.0", attempt, "b", 8, 9, "acquired", 6, "a", Loss::died})) << "before the death";
}

TEST(Linearizability, what_the_dead_called_comes_before_their_end_but_their_turn_may_come_later) {
  const auto with = [](Verb verb) {
    return believed({{"p2.0", attempt, "b", 1, 2, "acquired", 5},
                     {"p1.0", verb, "a", 3, 0, ""},
                     {"p1", died, "", 4, 5, ""},
                     {"p2.0", release, "b", 6, 7, "released"},
                     {"p2.0", attempt, "b", 8, 9, "acquired", 7, "a", Loss::died}});
  };
  EXPECT_TRUE(with(acquire));
  EXPECT_FALSE(with(attempt));
}

TEST(Linearizability, a_lease_may_run_out_but_not_early) {
  const auto with = [](std::int64_t at, Loss why) {
    return believed({{"p1.0", acquire, "a", 1, 2, "acquired", 5, "", Loss::none, 50},
                     {"p1.0", Verb::heartbeat, "a", 30, 31, "refreshed"},
                     {"p2.0", attempt, "b", at, at + 1, "reclaimed", 6, "a", why}});
  };
  EXPECT_TRUE(with(90, Loss::expired));
  EXPECT_FALSE(with(90, Loss::stale));
  EXPECT_FALSE(with(60, Loss::expired)) << "the heartbeat kept it";
  const auto bounded = [](std::int64_t at) {
    return believed({{"p1.0", acquire, "a", 1, 2, "acquired", 5},
                     {"p1.0", Verb::heartbeat, "a", 30, 31, "refreshed"},
                     {"p2.0", attempt, "b", at, at + 1, "reclaimed", 6, "a", Loss::held_too_long}},
                    50);
  };
  EXPECT_TRUE(bounded(60));
  EXPECT_FALSE(bounded(30));
}

TEST(Linearizability, who_waits_may_be_granted_and_robbed_before_it_wakes) {
  const auto with = [](const char* answer) {
    return believed({{"p1.0", acquire, "a", 1, 2, "acquired", 5},
                     {"p2.0", acquire, "b", 3, 20, "timed_out"},
                     {"p1.0", release, "a", 4, 5, "released"},
                     {"p1.0", status, "", 6, 7, "held", 8, "b"},
                     {"p1.0", Verb::force_release, "", 8, 9, answer},
                     {"p1.0", attempt, "a", 10, 11, "acquired", 10, "b", Loss::forced}});
  };
  EXPECT_TRUE(with("reclaimed"));
  EXPECT_FALSE(with("nothing"));
}

// --- lies are found ------------------------------------------------------------------------------------------------

struct Lie {
  const char* name;
  std::vector<Line> lines;
  std::size_t change;  // which line the truth would have otherwise
  Line truth;
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

class PlantedLie : public testing::TestWithParam<Lie> {};

TEST_P(PlantedLie, is_found_and_its_truth_believed) {
  Lie lie = GetParam();
  const auto bad = unexplained_object(history(lie.lines));
  ASSERT_TRUE(bad);
  EXPECT_LE(bad->prefix.size(), lie.lines.size());
  if (lie.truth.client == nullptr) {
    lie.lines.erase(lie.lines.begin() + static_cast<std::ptrdiff_t>(lie.change));
  } else {
    lie.lines[lie.change] = lie.truth;
  }
  EXPECT_TRUE(believed(lie.lines)) << "there is more wrong with it than the lie";
}

const Line holds{"p1.0", acquire, "a", 1, 2, "acquired", 5};
const Line gives_back{"p1.0", release, "a", 5, 6, "released"};
const Line nobody{nullptr, status, "", 0, 0, ""};

INSTANTIATE_TEST_SUITE_P(
    Lies, PlantedLie,
    testing::Values(
        Lie{"two_holders_at_once",
            {holds, {"p2.0", acquire, "b", 3, 4, "acquired", 6}, gives_back},
            1,
            {"p2.0", acquire, "b", 3, 4, "timed_out"}},
        Lie{"the_same_id_of_another_process_is_not_an_extension",
            {holds, {"p2.0", attempt, "a", 3, 4, "extended", 5}},
            1,
            {"p2.0", attempt, "a", 3, 4, "busy"}},
        Lie{"token_repeated",
            {holds, gives_back, {"p2.0", attempt, "b", 7, 8, "acquired", 5}},
            2,
            {"p2.0", attempt, "b", 7, 8, "acquired", 6}},
        Lie{"token_going_back",
            {holds, gives_back, {"p2.0", attempt, "b", 7, 8, "acquired", 4}},
            2,
            {"p2.0", attempt, "b", 7, 8, "acquired", 9}},
        Lie{"token_changed_by_an_extension",
            {holds, {"p1.0", attempt, "a", 3, 4, "extended", 6}},
            1,
            {"p1.0", attempt, "a", 3, 4, "extended", 5}},
        Lie{"release_of_anothers_hold",
            {holds, {"p2.0", release, "b", 3, 4, "released"}, gives_back},
            1,
            {"p2.0", release, "b", 3, 4, "not_owner"}},
        Lie{"release_twice",
            {holds, gives_back, {"p1.0", release, "a", 7, 8, "released"}},
            2,
            {"p1.0", release, "a", 7, 8, "already_free"}},
        Lie{"an_acquire_that_returned_before_the_release_was_called",
            {holds, {"p2.0", acquire, "b", 3, 4, "acquired", 6}, gives_back},
            1,
            {"p2.0", acquire, "b", 3, 5, "acquired", 6}},
        Lie{"busy_though_free", {{"p1.0", attempt, "a", 1, 2, "busy"}}, 0, {"p1.0", attempt, "a", 1, 2, "acquired", 1}},
        Lie{"timed_out_though_free",
            {holds, gives_back, {"p2.0", acquire, "b", 7, 9, "timed_out"}},
            2,
            {"p2.0", acquire, "b", 4, 9, "timed_out"}},
        Lie{"a_wait_that_ends_with_busy",
            {holds, {"p2.0", acquire, "b", 3, 4, "busy"}},
            1,
            {"p2.0", attempt, "b", 3, 4, "busy"}},
        Lie{"status_of_a_past_holder",
            {holds, gives_back, {"p2.0", status, "", 7, 8, "held", 5, "a"}},
            2,
            {"p2.0", status, "", 7, 8, "free"}},
        Lie{"status_of_a_token_with_the_id_of_another",
            {holds, {"p2.0", status, "", 3, 4, "held", 5, "b"}},
            1,
            {"p2.0", status, "", 3, 4, "held", 5, "a"}},
        Lie{"is_current_after_the_release",
            {holds, gives_back, {"p2.0", Verb::is_current, "", 7, 8, "true", 5}},
            2,
            {"p2.0", Verb::is_current, "", 7, 8, "false", 5}},
        Lie{"lost_hold_of_a_living_process",
            {holds, {"p2.0", attempt, "b", 3, 4, "reclaimed", 6, "a", Loss::died}, {"p1", died, "", 8, 9, ""}},
            2,
            {"p1", died, "", 2, 3, ""}},
        Lie{"a_hold_that_vanished",
            {holds, {"p1.0", release, "a", 3, 4, "already_free"}},
            1,
            {"p1.0", release, "a", 3, 4, "released"}},
        Lie{"refreshed_after_the_loss",
            {holds,
             {"p2.0", Verb::force_release, "", 3, 4, "reclaimed"},
             {"p1.0", Verb::heartbeat, "a", 5, 6, "refreshed"}},
            2,
            {"p1.0", Verb::heartbeat, "a", 5, 6, "not_owner", 0, "", Loss::forced}},
        Lie{"a_loss_that_its_holder_is_not_told",
            {holds, {"p2.0", Verb::force_release, "", 3, 4, "reclaimed"}, {"p1.0", release, "a", 5, 6, "already_free"}},
            2,
            {"p1.0", release, "a", 5, 6, "not_owner", 0, "", Loss::forced}},
        Lie{"a_loss_that_is_told_twice",
            {holds,
             {"p2.0", Verb::force_release, "", 3, 4, "reclaimed"},
             {"p2.0", attempt, "b", 5, 6, "acquired", 6, "a", Loss::forced},
             {"p2.0", release, "b", 7, 8, "released"},
             {"p2.0", attempt, "b", 9, 10, "acquired", 7, "a", Loss::forced}},
            4,
            {"p2.0", attempt, "b", 9, 10, "acquired", 7}},
        Lie{"forced_though_free",
            {holds, gives_back, {"p2.0", Verb::force_release, "", 7, 8, "reclaimed"}},
            2,
            {"p2.0", Verb::force_release, "", 7, 8, "nothing"}},
        Lie{"removed_while_held",
            {holds, {"p2.0", Verb::remove, "", 3, 4, "removed"}},
            1,
            {"p2.0", Verb::remove, "", 3, 4, "in_use"}},
        Lie{"removed_and_the_token_begins_anew",
            {holds,
             gives_back,
             {"p2.0", Verb::remove, "", 7, 8, "removed"},
             {"p2.0", attempt, "b", 9, 10, "acquired", 1}},
            3,
            {"p2.0", attempt, "b", 9, 10, "acquired", 9}},
        Lie{"not_found_though_used",
            {holds, gives_back, {"p2.0", Verb::remove, "", 7, 8, "not_found"}},
            2,
            {"p2.0", Verb::remove, "", 7, 8, "removed"}},
        Lie{"an_error", {{"p1.0", attempt, "a", 1, 2, "error"}}, 0, nobody}),
    [](const auto& lie) { return std::string(lie.param.name); });

TEST(Linearizability, the_shortest_prefix_ends_where_the_lie_shows) {
  std::vector<Line> lines{holds, gives_back, {"p2.0", attempt, "b", 7, 8, "acquired", 5}};
  lines.push_back({"p3.0", status, "", 9, 10, "held", 5, "b"});
  lines.push_back({"p3.0", acquire, "c", 3, 30, "timed_out"});
  const auto bad = unexplained_object(history(lines));
  ASSERT_TRUE(bad);
  EXPECT_EQ(bad->object, Text("x"));
  ASSERT_EQ(bad->prefix.size(), 4U);
  EXPECT_EQ(bad->prefix.back().return_ns, 8 * ms);
  EXPECT_FALSE(bad->prefix[1].returned()) << "what returned later is shown as not returned";
}

TEST(Linearizability, each_lock_is_judged_by_itself) {
  History h = history({holds, {"p2.0", acquire, "b", 3, 4, "acquired", 6}});
  h.back().object = "y";
  EXPECT_TRUE(believed(h));
}

// --- against a search without cleverness -----------------------------------------------------------------------------

/// All orders of all subsets that contain every answered operation; after each step every way in which the state may
/// drift. Nothing is remembered, so only for a handful of operations.
class BruteForce {
 public:
  BruteForce(const LockSpecification& spec, std::vector<Step> steps) : spec_(spec), steps_(std::move(steps)) {}

  bool explained() {
    order_.resize(steps_.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    do {
      for (std::size_t length = 0; length <= order_.size(); ++length) {
        if (whole(length) && in_real_time(length) && possible(length)) return true;
      }
    } while (std::next_permutation(order_.begin(), order_.end()));
    return false;
  }

 private:
  [[nodiscard]] bool whole(std::size_t length) const {
    return std::all_of(order_.begin() + static_cast<std::ptrdiff_t>(length), order_.end(),
                       [&](std::size_t i) { return !steps_[i].returned(); });
  }
  [[nodiscard]] bool in_real_time(std::size_t length) const {
    for (std::size_t late = 0; late < length; ++late) {
      for (std::size_t early = 0; early < late; ++early) {
        if (steps_[order_[late]].return_ns < steps_[order_[early]].call_ns) return false;
      }
    }
    return true;
  }
  [[nodiscard]] bool possible(std::size_t length) const {
    std::vector<LockSpecification::State> states{spec_.initial()};
    std::int64_t from_ns = std::numeric_limits<std::int64_t>::min();
    for (std::size_t n = 0; n < length; ++n) {
      std::int64_t until_ns = no_return;
      for (std::size_t k = n; k < length; ++k) until_ns = std::min(until_ns, steps_[order_[k]].return_ns);
      for (std::size_t s = 0; s < states.size(); ++s) {
        std::vector<LockSpecification::State> next;
        spec_.drift(states[s], {from_ns, until_ns}, next);
        for (auto& state : next) {
          if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(std::move(state));
        }
      }
      from_ns = std::max(from_ns, steps_[order_[n]].call_ns);
      if (from_ns > steps_[order_[n]].latest_ns) return false;
      std::vector<LockSpecification::State> after;
      for (const auto& state : states) spec_.apply(state, steps_[order_[n]], {from_ns, until_ns}, after);
      states = std::move(after);
      if (states.empty()) return false;
    }
    return true;
  }

  const LockSpecification& spec_;
  std::vector<Step> steps_;
  std::vector<std::size_t> order_;
};

/// A random execution of the machine by `clients` processes of one thread, one operation after the other; each then
/// gets an interval around the moment at which it happened, as wide as its client's other operations allow. Some
/// clients are killed, with their last operation unanswered.
class RandomExecution {
 public:
  RandomExecution(std::uint64_t seed, std::size_t operations, unsigned clients) : random_(seed) {
    std::vector<std::int64_t> free_from(clients, 0);
    std::vector<bool> dead(clients, false);
    LockSpecification spec{facts_};
    LockSpecification::State state = spec.initial();
    for (std::size_t n = 0; n < operations; ++n) {
      const std::int64_t now = static_cast<std::int64_t>(n + 1) * 100 * ms;
      const unsigned c = below(clients);
      if (dead[c]) continue;
      Operation o;
      o.client = "p" + std::to_string(c) + ".0";
      o.object = "x";
      fill_in(o);
      o.call_ns = now - between(0, std::min(now - free_from[c], 400 * ms) - 1);
      if (!run(spec, state, o, now)) continue;
      o.return_ns = now + between(0, 400 * ms);
      free_from[c] = o.return_ns + 1;
      ends_.push_back(now);
      history.push_back(o);
    }
    separate();
  }

  History history;

 private:
  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  std::int64_t between(std::int64_t from, std::int64_t to) {
    return to <= from ? from : from + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(to - from));
  }

  void fill_in(Operation& o) {
    constexpr std::array choices{Verb::try_acquire, Verb::try_acquire, Verb::acquire,       Verb::acquire,
                                 Verb::release,     Verb::release,     Verb::release,       Verb::heartbeat,
                                 Verb::status,      Verb::is_current,  Verb::force_release, Verb::remove};
    o.verb = choices[below(choices.size())];
    const bool by_holder = o.verb <= Verb::renew;
    if (by_holder) o.holder = below(4) == 0 ? "b" : "a";
    if (o.verb == Verb::is_current) o.token = 1 + below(6);
  }

  // Finds the answer that the specification believes at this moment.
  bool run(const LockSpecification& spec, LockSpecification::State& state, Operation& o, std::int64_t now) {
    static const std::vector<std::string> answers{
        "acquired", "extended",  "busy",    "timed_out", "released",     "refreshed", "held",   "free",     "true",
        "false",    "reclaimed", "nothing", "removed",   "already_free", "not_owner", "in_use", "not_found"};
    Step step{o};
    step.return_ns = now;
    const auto& lock = state.lock;
    for (const std::string& answer : answers) {
      step.answer = answer;
      step.got = 0;
      step.who = {};
      step.why = Loss::none;
      if (answer == "acquired") step.got = lock.next_token + below(3);
      if (lock.held && (answer == "extended" || answer == "held")) step.got = lock.held->token;
      if (lock.held && answer == "held") step.who = lock.held->holder.id;
      if (lock.previous && answer == "acquired") {
        step.who = lock.previous->holder.id;
        step.why = lock.previous->why;
      }
      for (const Loss why : {Loss::none, Loss::forced}) {
        if (answer == "not_owner") step.why = why;
        std::vector<LockSpecification::State> next;
        spec.apply(state, step, {now, now}, next);
        if (next.empty()) continue;
        state = next.front();
        o = step;
        return true;
      }
    }
    return false;
  }

  // An interval ends before its client's next call.
  void separate() {
    for (std::size_t i = 0; i < history.size(); ++i) {
      for (std::size_t k = i + 1; k < history.size(); ++k) {
        if (history[k].client != history[i].client) continue;
        if (history[i].return_ns >= history[k].call_ns) {
          history[k].call_ns = std::max(ends_[i] + 1, history[k].call_ns);
          history[i].return_ns = std::min(history[i].return_ns, history[k].call_ns - 1);
        }
        break;
      }
    }
  }

  std::mt19937_64 random_;
  ObjectFacts facts_;
  std::vector<std::int64_t> ends_;
};

RC_GTEST_PROP(LinearizabilityProperties, an_execution_with_overlapping_intervals_is_believed, (std::uint64_t seed)) {
  RC_ASSERT(believed(RandomExecution(seed, 200, 5).history));
}

RC_GTEST_PROP(LinearizabilityProperties, a_killed_client_changes_nothing, (std::uint64_t seed)) {
  History h = RandomExecution(seed, 100, 4).history;
  RC_PRE(!h.empty());
  // The last operation of one client did not return.
  const Text victim = h[seed % h.size()].client;
  const auto last = std::find_if(h.rbegin(), h.rend(), [&](const Operation& o) { return o.client == victim; });
  last->return_ns = no_return;
  RC_ASSERT(believed(h));
}

void lie(History& h, std::mt19937_64& random) {
  Operation& o = h[random() % h.size()];
  constexpr std::array<const char*, 8> answers{"acquired", "busy",     "released", "not_owner",
                                               "free",     "extended", "true",     "already_free"};
  switch (random() % 6) {
    case 0: o.got += 1 + random() % 3; break;
    case 1: o.got -= std::min<std::uint64_t>(o.got, 1 + random() % 3); break;
    case 2: o.answer = answers[random() % answers.size()]; break;
    case 3: o.holder = o.holder == Text("a") ? "b" : "a"; break;
    case 4: o.return_ns = o.call_ns; break;
    default: {
      const std::int64_t length = o.return_ns - o.call_ns;
      o.call_ns += static_cast<std::int64_t>(random() % 500) * ms;
      o.return_ns = o.call_ns + length;
    }
  }
}

// Both verdicts must occur often, or the comparison would say nothing.
TEST(Linearizability, agrees_with_all_permutations_of_small_histories) {
  const char* const given = std::getenv("SHMCOORD_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  SCOPED_TRACE("SHMCOORD_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::size_t good = 0;
  std::size_t bad = 0;
  const int count = test::long_form() ? 20'000 : 400;
  for (int i = 0; i < count; ++i) {
    History h = RandomExecution(random(), 6, 3).history;
    if (h.empty()) continue;
    if (random() % 4 != 0) lie(h, random);
    if (random() % 3 == 0) h[random() % h.size()].return_ns = no_return;
    ObjectFacts facts;
    if (random() % 3 == 0) facts.deaths[h.front().process()] = h[random() % h.size()].call_ns;
    const LockSpecification spec(facts);
    const auto steps = lock_steps(h, facts);
    if (steps.size() > 7) continue;
    const bool expected = BruteForce(spec, steps).explained();
    ASSERT_EQ(explained(spec, steps), expected) << "history " << i;
    ++(expected ? good : bad);
  }
  EXPECT_GT(good, static_cast<std::size_t>(count) / 8);
  EXPECT_GT(bad, static_cast<std::size_t>(count) / 8);
}

}  // namespace
}  // namespace shmcoord::test
