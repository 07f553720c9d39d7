#include "core/wait_graph.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace shmcoord::core {
namespace {

using Index = std::uint32_t;

/// Items in groups: for each group the indices of its items, in their order.
class Groups {
 public:
  template <class GroupsOf>
  Groups(std::size_t groups, std::size_t items, GroupsOf&& each_group_of) : start_(groups + 1) {
    for (Index i = 0; i < items; ++i) each_group_of(i, [&](Index g) { ++start_[g + 1]; });
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    items_.resize(start_.back());
    std::vector<Index> next(start_.begin(), start_.end() - 1);
    for (Index i = 0; i < items; ++i) each_group_of(i, [&](Index g) { items_[next[g]++] = i; });
  }
  [[nodiscard]] std::span<const Index> of(Index g) const {
    return {items_.data() + start_[g], start_[g + 1] - start_[g]};
  }
  [[nodiscard]] std::span<Index> of(Index g) { return {items_.data() + start_[g], start_[g + 1] - start_[g]}; }

 private:
  std::vector<Index> start_;
  std::vector<Index> items_;
};

class Reduction {
 public:
  explicit Reduction(const WaitGraph& graph)
      : graph_(graph),
        holds_of_resource_(graph.capacity.size(), graph.holds.size(),
                           [&](Index h, auto&& in) { in(graph.holds[h].resource); }),
        holds_of_actor_(graph.actors, graph.holds.size(), [&](Index h, auto&& in) { in(graph.holds[h].actor); }),
        queue_(graph.capacity.size(), graph.waits.size(), [&](Index w, auto&& in) { in(graph.waits[w].resource); }),
        waits_of_actor_(graph.actors, graph.waits.size(),
                        [&](Index w, auto&& in) {
                          in(graph.waits[w].actor);
                          if (graph.waits[w].also) in(*graph.waits[w].also);
                        }),
        goes_on_(graph.actors),
        served_(graph.waits.size()),
        behind_(graph.waits.size()),
        free_(graph.capacity.begin(), graph.capacity.end()),
        first_(graph.capacity.size()) {
    for (Index r = 0; r < graph.capacity.size(); ++r) {
      const auto queue = queue_.of(r);
      std::sort(queue.begin(), queue.end(),
                [&](Index a, Index b) { return graph_.waits[a].place < graph_.waits[b].place; });
      for (std::size_t i = 1; i < queue.size(); ++i) behind_[queue[i]] = queue[i - 1];
    }
    for (const HeldEdge& h : graph.holds) free_[h.resource] -= h.weight;
    for (Index a = 0; a < graph.actors; ++a) {
      if (waits_of_actor_.of(a).empty()) go_on(a);
    }
    for (Index r = 0; r < graph.capacity.size(); ++r) serve(r);
    while (!changed_.empty()) {
      const Index r = changed_.back();
      changed_.pop_back();
      serve(r);
    }
  }

  std::vector<Deadlock> deadlocks() {
    std::vector<Deadlock> all;
    for (const std::vector<Index>& members : components()) {
      std::vector<CircleStep> circle = circle_of(members);
      if (!circle.empty()) all.push_back({std::move(circle), {members.begin(), members.end()}});
    }
    return all;
  }

 private:
  /// What it has is given back.
  void go_on(Index actor) {
    if (goes_on_[actor]) return;
    goes_on_[actor] = true;
    for (const Index h : holds_of_actor_.of(actor)) {
      free_[graph_.holds[h].resource] += graph_.holds[h].weight;
      changed_.push_back(graph_.holds[h].resource);
    }
  }
  void serve(Index resource) {
    const auto queue = queue_.of(resource);
    for (std::size_t& i = first_[resource]; i < queue.size(); ++i) {
      const WaitEdge& w = graph_.waits[queue[i]];
      if (free_[resource] < std::int64_t{w.need}) return;
      served_[queue[i]] = true;
      go_on(w.actor);
      if (w.also) go_on(*w.also);
    }
  }

  /// Calls fn(next wait, the hold that it keeps) for all that an unserved wait waits for.
  template <class Fn>
  void each_next(Index wait, Fn&& fn) const {
    if (behind_[wait] && !served_[*behind_[wait]]) return fn(*behind_[wait], std::optional<std::size_t>{});
    const WaitEdge& w = graph_.waits[wait];
    for (const Index h : holds_of_resource_.of(w.resource)) {
      const Index actor = graph_.holds[h].actor;
      if (goes_on_[actor] || (w.more && actor == w.actor)) continue;
      for (const Index next : waits_of_actor_.of(actor)) fn(next, std::optional<std::size_t>{h});
    }
  }

  /// The strongly connected components of the unserved waits that have no edge to another one. Tarjan's algorithm,
  /// without recursion: a queue may be long.
  std::vector<std::vector<Index>> components() const {
    struct Frame {
      Index wait;
      std::vector<Index> next;
      std::size_t at = 0;
    };
    constexpr Index none = ~Index{0};
    std::vector<std::vector<Index>> closed;
    std::vector<Index> number(served_.size(), none);
    std::vector<Index> low(served_.size());
    std::vector<bool> leaves(served_.size());  // an edge leads out of its component
    std::vector<bool> open(served_.size());
    std::vector<Index> stack;
    std::vector<Frame> path;
    Index count = 0;
    const auto enter = [&](Index w) {
      number[w] = low[w] = count++;
      stack.push_back(w);
      open[w] = true;
      Frame& frame = path.emplace_back(Frame{w, {}});
      each_next(w, [&](Index next, auto) { frame.next.push_back(next); });
    };
    for (Index root = 0; root < served_.size(); ++root) {
      if (served_[root] || number[root] != none) continue;
      enter(root);
      while (!path.empty()) {
        Frame& frame = path.back();
        const Index w = frame.wait;
        if (frame.at < frame.next.size()) {
          const Index next = frame.next[frame.at++];
          if (number[next] == none) {
            enter(next);
          } else if (open[next]) {
            low[w] = std::min(low[w], number[next]);
          } else {
            leaves[w] = true;
          }
          continue;
        }
        path.pop_back();
        const bool complete = low[w] == number[w];
        bool left = leaves[w];
        if (complete) {
          std::vector<Index> members;
          for (bool last = false; !last;) {
            const Index m = stack.back();
            stack.pop_back();
            open[m] = false;
            left = left || leaves[m];
            members.push_back(m);
            last = m == w;
          }
          if (!left) closed.push_back(std::move(members));
        }
        if (path.empty()) continue;
        const Index before = path.back().wait;
        low[before] = std::min(low[before], low[w]);
        if (complete) leaves[before] = true;
      }
    }
    return closed;
  }

  /// A shortest one from the youngest of them; empty if it does not come back, as when what keeps it waiting is not
  /// known.
  std::vector<CircleStep> circle_of(const std::vector<Index>& members) const {
    const auto older = [&](Index a, Index b) {
      const WaitEdge& x = graph_.waits[a];
      const WaitEdge& y = graph_.waits[b];
      return std::pair(x.since, a) < std::pair(y.since, b);
    };
    const Index victim = *std::max_element(members.begin(), members.end(), older);
    struct Reached {
      Index wait;
      std::size_t from;  // index in `reached`
      std::optional<std::size_t> hold;
    };
    std::vector<Reached> reached{{victim, 0, {}}};
    std::vector<bool> seen(served_.size());
    for (std::size_t i = 0; i < reached.size(); ++i) {
      std::vector<CircleStep> circle;
      each_next(reached[i].wait, [&](Index next, std::optional<std::size_t> hold) {
        if (!circle.empty()) return;
        if (next != victim) {
          if (!seen[next]) reached.push_back({next, i, hold});
          seen[next] = true;
          return;
        }
        circle.push_back({reached[i].wait, hold});
        for (std::size_t at = i; at != 0; at = reached[at].from) {
          circle.push_back({reached[reached[at].from].wait, reached[at].hold});
        }
        std::reverse(circle.begin(), circle.end());
      });
      if (!circle.empty()) return circle;
    }
    return {};
  }

  const WaitGraph& graph_;
  Groups holds_of_resource_;
  Groups holds_of_actor_;
  Groups queue_;
  Groups waits_of_actor_;
  std::vector<bool> goes_on_;                 // by actor
  std::vector<bool> served_;                  // by wait
  std::vector<std::optional<Index>> behind_;  // by wait: the one before it in the queue
  std::vector<std::int64_t> free_;            // by resource
  std::vector<std::size_t> first_;            // by resource: who is next in its queue
  std::vector<Index> changed_;                // resources of which more is free
};

}  // namespace

std::vector<Deadlock> find_deadlocks(const WaitGraph& graph) { return Reduction(graph).deadlocks(); }

}  // namespace shmcoord::core
