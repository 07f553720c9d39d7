#include "core/wait_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/long_form.hpp"

// Small stories, and many small graphs beside a search through everything that can happen in them.

namespace shmcoord::core {
namespace {

using Circle = std::vector<CircleStep>;

/// What every circle promises by itself.
void expect_sound(const WaitGraph& graph, const Circle& circle) {
  ASSERT_FALSE(circle.empty());
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const WaitEdge& wait = graph.waits[circle[i].wait];
    const WaitEdge& next = graph.waits[circle[(i + 1) % circle.size()].wait];
    EXPECT_LE(wait.since, graph.waits[circle[0].wait].since) << "the victim is the youngest";
    if (const auto hold = circle[i].hold) {
      EXPECT_EQ(graph.holds[*hold].resource, wait.resource);
      EXPECT_TRUE(graph.holds[*hold].actor == next.actor || graph.holds[*hold].actor == next.also);
    } else {
      EXPECT_EQ(next.resource, wait.resource);
      EXPECT_LT(next.place, wait.place);
    }
  }
}

std::vector<Circle> find(const WaitGraph& graph) {
  std::vector<Circle> circles;
  for (const Deadlock& found : find_deadlocks(graph)) {
    expect_sound(graph, found.circle);
    const std::set<std::size_t> members(found.waits.begin(), found.waits.end());
    for (const CircleStep& step : found.circle) EXPECT_TRUE(members.contains(step.wait));
    circles.push_back(found.circle);
  }
  return circles;
}

enum : std::uint32_t { a, b, c, d };         // actors
enum : std::uint32_t { left, right, pool };  // resources

TEST(WaitGraph, TwoWaitForEachOther) {
  WaitGraph graph{2, {1, 1}, {{a, left, 1}, {b, right, 1}}, {{a, {}, right, 1, 1, 10}, {b, {}, left, 1, 1, 20}}};
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  ASSERT_EQ(circles[0].size(), 2U);
  EXPECT_EQ(circles[0][0].wait, 1U);
  EXPECT_EQ(circles[0][0].hold, 0U);
  EXPECT_EQ(circles[0][1].wait, 0U);
  EXPECT_EQ(circles[0][1].hold, 1U);
  graph.waits.pop_back();
  EXPECT_TRUE(find(graph).empty()) << "b runs";
}

TEST(WaitGraph, OneWaitsForItself) {
  const auto circles = find({1, {1}, {{a, left, 1}}, {{a, {}, left, 1, 1, 0}}});
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0].size(), 1U);
}

TEST(WaitGraph, ASecondHolderThatRunsBreaksTheCircle) {
  WaitGraph graph{
      3, {1, 0, 2}, {{a, left, 1}, {b, pool, 1}, {c, pool, 1}}, {{a, {}, pool, 1, 1, 0}, {b, {}, left, 1, 1, 1}}};
  EXPECT_TRUE(find(graph).empty());
  graph.waits[0].need = 2;
  EXPECT_EQ(find(graph).size(), 1U) << "what c has is not enough";
  graph.waits[0].need = 1;
  graph.waits.push_back({c, {}, left, 1, 2, 2});
  EXPECT_EQ(find(graph).size(), 1U) << "c waits for the same";
}

TEST(WaitGraph, WhoOnlyWaitsBehindADeadlockIsNotAccused) {
  const WaitGraph graph{3,
                        {1, 1},
                        {{a, left, 1}, {b, right, 1}},
                        {{a, {}, right, 1, 1, 0}, {b, {}, left, 1, 1, 1}, {c, {}, left, 1, 2, 99}}};
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0][0].wait, 1U);
}

TEST(WaitGraph, WhoWaitsForOneOfADeadlockAsWellIsNotAccused) {
  // Two hold the pool: a, who waits for d, who waits for the pool; and b, who is in a deadlock with c.
  enum : std::uint32_t { other = 3 };
  const WaitGraph graph{
      4,
      {1, 1, 2, 1},
      {{a, pool, 1}, {d, left, 1}, {b, pool, 1}, {c, right, 1}, {b, other, 1}},
      {{a, {}, left, 1, 1, 0}, {d, {}, pool, 1, 1, 9}, {b, {}, right, 1, 1, 1}, {c, {}, other, 1, 1, 2}}};
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0][0].wait, 3U) << "b and c wait for each other; then b gives back, and d gets it";
}

TEST(WaitGraph, AQueueIsServedInItsOrder) {
  // d would fit, but stands behind c, who waits for a, who waits for what d has.
  const WaitGraph graph{3,
                        {0, 1, 3},
                        {{a, pool, 2}, {c, right, 1}},
                        {{b, {}, pool, 2, 1, 0}, {c, {}, pool, 1, 2, 1}, {a, {}, right, 1, 1, 2}}};
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0].size(), 3U) << "through the queue";
}

TEST(WaitGraph, TwoWhoWantMoreOfWhatTheyHaveWaitForEachOther) {
  const WaitGraph graph{
      2, {0, 0, 4}, {{a, pool, 2}, {b, pool, 2}}, {{a, {}, pool, 1, 1, 0, true}, {b, {}, pool, 1, 2, 1, true}}};
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0].size(), 2U);
}

TEST(WaitGraph, WhoWantsMoreDoesNotWaitForItself) {
  WaitGraph graph{2, {1, 0, 2}, {{a, pool, 1}, {b, pool, 1}, {a, left, 1}}, {{a, {}, pool, 1, 1, 2, true}}};
  EXPECT_TRUE(find(graph).empty());
  graph.waits.push_back({b, {}, left, 1, 1, 1, false});
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0].size(), 2U);
}

TEST(WaitGraph, AThreadIsHeldUpByTheWaitOfAHolderItActsFor) {
  // The thread a has the left one itself, and waits as b for the right one, whose holder c waits for the left one.
  const WaitGraph graph{3, {1, 1}, {{a, left, 1}, {c, right, 1}}, {{b, a, right, 1, 1, 0}, {c, {}, left, 1, 1, 1}}};
  EXPECT_EQ(find(graph).size(), 1U);
}

TEST(WaitGraph, AHolderWhoseOtherWaitEndsGoesOn) {
  WaitGraph graph{2,
                  {1, 1, 1},
                  {{a, left, 1}, {b, right, 1}},
                  {{a, {}, right, 1, 1, 0}, {b, {}, left, 1, 1, 1}, {a, {}, pool, 1, 1, 2}}};
  EXPECT_TRUE(find(graph).empty());
  graph.holds.push_back({b, pool, 1});
  EXPECT_EQ(find(graph).size(), 1U);
}

TEST(WaitGraph, WhatKeepsItWaitingIsNotKnown) { EXPECT_TRUE(find({1, {1}, {}, {{a, {}, left, 2, 1, 0}}}).empty()); }

TEST(WaitGraph, ALongQueueIsLookedAtInALine) {
  WaitGraph graph{100'002, {1, 1}, {{a, left, 1}, {b, right, 1}}, {{a, {}, right, 1, 1, 1}}};
  for (std::uint32_t n = 2; n < graph.actors; ++n) graph.waits.push_back({n, {}, left, 1, n, std::int64_t{n}});
  EXPECT_TRUE(find(graph).empty());
  graph.waits.push_back({b, {}, left, 1, graph.actors, graph.actors});
  const auto circles = find(graph);
  ASSERT_EQ(circles.size(), 1U);
  EXPECT_EQ(circles[0].size(), 100'002U);
}

/// Everything that can happen: who runs gives back what it has, all at once; the first of a queue is served when it
/// fits, has that too, and runs.
class Everything {
 public:
  explicit Everything(const WaitGraph& graph) : graph_(graph), served_(graph.waits.size()) {
    State start{std::vector<bool>(graph.actors), std::vector<bool>(graph.waits.size())};
    go(start);
  }
  [[nodiscard]] bool ever_served(std::size_t wait) const { return served_[wait]; }

 private:
  struct State {
    std::vector<bool> gave_back;  // by actor
    std::vector<bool> served;     // by wait
    auto operator<=>(const State&) const = default;
  };
  [[nodiscard]] bool runs(const State& s, std::uint32_t actor) const {
    bool waits = false;
    for (std::size_t w = 0; w < graph_.waits.size(); ++w) {
      if (graph_.waits[w].actor != actor && graph_.waits[w].also != actor) continue;
      if (s.served[w]) return true;
      waits = true;
    }
    return !waits;
  }
  [[nodiscard]] std::int64_t free_of(const State& s, std::uint32_t resource) const {
    std::int64_t free = graph_.capacity[resource];
    for (const HeldEdge& h : graph_.holds) {
      if (h.resource == resource && !s.gave_back[h.actor]) free -= h.weight;
    }
    for (std::size_t w = 0; w < graph_.waits.size(); ++w) {
      const WaitEdge& wait = graph_.waits[w];
      if (wait.resource == resource && s.served[w] && !s.gave_back[wait.actor]) free -= wait.need;
    }
    return free;
  }
  void go(const State& s) {
    if (!seen_.insert(s).second) return;
    for (std::uint32_t actor = 0; actor < graph_.actors; ++actor) {
      if (s.gave_back[actor] || !runs(s, actor)) continue;
      State next = s;
      next.gave_back[actor] = true;
      go(next);
    }
    for (std::size_t w = 0; w < graph_.waits.size(); ++w) {
      const WaitEdge& wait = graph_.waits[w];
      if (s.served[w] || free_of(s, wait.resource) < std::int64_t{wait.need}) continue;
      bool first = true;
      for (std::size_t o = 0; o < graph_.waits.size(); ++o) {
        const WaitEdge& other = graph_.waits[o];
        if (!s.served[o] && other.resource == wait.resource && other.place < wait.place) first = false;
      }
      if (!first) continue;
      State next = s;
      next.served[w] = true;
      next.gave_back[wait.actor] = false;  // it has this now
      served_[w] = true;
      go(next);
    }
  }

  const WaitGraph& graph_;
  std::vector<bool> served_;
  std::set<State> seen_;
};

WaitGraph random_graph(std::mt19937& random) {
  const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  WaitGraph graph;
  graph.actors = 2 + below(4);
  const std::uint32_t resources = 1 + below(3);
  for (std::uint32_t r = 0; r < resources; ++r) {
    const std::uint32_t capacity = 1 + below(3);
    graph.capacity.push_back(capacity);
    std::uint32_t used = 0;
    for (std::uint32_t n = below(3) + 1; n > 0 && used < capacity; --n) {
      const std::uint32_t weight = 1 + below(capacity - used);
      graph.holds.push_back({below(graph.actors), r, weight});
      used += weight;
    }
  }
  for (std::uint32_t n = below(6), place = 0; n > 0; --n) {
    const std::uint32_t r = below(resources);
    WaitEdge wait{below(graph.actors), {}, r, 1 + below(graph.capacity[r]), ++place, std::int64_t{below(1000)}};
    if (below(4) == 0) wait.also = below(graph.actors);
    std::uint32_t has = 0;
    for (const HeldEdge& h : graph.holds) has += h.actor == wait.actor && h.resource == r ? h.weight : 0;
    wait.more = has != 0 && has + wait.need <= graph.capacity[r] && below(2) == 0;
    graph.waits.push_back(wait);
  }
  return graph;
}

std::string text_of(const WaitGraph& graph) {
  std::string text = "capacities:";
  for (const auto n : graph.capacity) text += ' ' + std::to_string(n);
  for (const HeldEdge& h : graph.holds) {
    text += "\nactor " + std::to_string(h.actor) + " holds " + std::to_string(h.weight) + " of " +
            std::to_string(h.resource);
  }
  for (const WaitEdge& w : graph.waits) {
    text += "\nactor " + std::to_string(w.actor) + (w.also ? " and " + std::to_string(*w.also) : "") + " waits for " +
            std::to_string(w.need) + " of " + std::to_string(w.resource) + " at " + std::to_string(w.place);
  }
  return text;
}

TEST(WaitGraph, FindsWhatCanNeverEndAndNothingElse) {
  std::mt19937 random(20261128);
  int with_circle = 0;
  const int rounds = test::long_form() ? 200'000 : 20'000;
  for (int round = 0; round < rounds; ++round) {
    WaitGraph graph = random_graph(random);
    SCOPED_TRACE(text_of(graph));
    const Everything everything(graph);
    const auto circles = find(graph);
    bool stuck = false;
    for (std::size_t w = 0; w < graph.waits.size(); ++w) stuck = stuck || !everything.ever_served(w);
    ASSERT_EQ(circles.empty(), !stuck) << "who waits for ever waits for a circle";
    for (const Circle& circle : circles) {
      for (const CircleStep& step : circle) ASSERT_FALSE(everything.ever_served(step.wait)) << "it could go on";
    }
    with_circle += circles.empty() ? 0 : 1;
    for (std::size_t kept = 0; circles.size() > 1 && kept < circles.size(); ++kept) {
      WaitGraph others_gone = graph;
      for (std::size_t n = 0; n < circles.size(); ++n) {
        WaitEdge& victim = others_gone.waits[circles[n][0].wait];
        if (n != kept) victim.need = 0, victim.place = 0;  // served at once, as far as it is concerned
      }
      const Everything then(others_gone);
      for (const CircleStep& step : circles[kept]) ASSERT_FALSE(then.ever_served(step.wait)) << "the others would do";
    }
    // When the victims have gone, some time everybody has.
    for (std::size_t left_over = graph.waits.size() + 1; !find(graph).empty(); --left_over) {
      ASSERT_GT(left_over, 0U);
      std::set<std::size_t> victims;
      for (const Circle& circle : find(graph)) victims.insert(circle[0].wait);
      for (auto v = victims.rbegin(); v != victims.rend(); ++v) {
        graph.waits.erase(graph.waits.begin() + static_cast<std::ptrdiff_t>(*v));
      }
    }
  }
  EXPECT_GT(with_circle, rounds / 10);
}

}  // namespace
}  // namespace shmcoord::core
