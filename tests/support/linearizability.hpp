#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "support/sim_tables.hpp"

// Is there an order of these operations that a sequential specification explains?
//
// Wing and Gong's search with Lowe's memory: an operation may come next if it was called before any that is still to
// come returned; a pair {which have come, state} that led nowhere once is not tried again. It is exact: it rejects a
// history only when no order explains it.
//
// Three things go beyond the textbook.
//   No answer    An operation whose process died (return_ns is `no_return`) may come at any time after its call, with
//                any answer, or never.
//   Choice       An operation may leave the state in several ways. The specification names all of them.
//   Drift        A state may change without any call: a lease runs out, the dead are buried. The specification says
//                what a state may become between two moments. It should say what *may* happen by the latest moment, so
//                that more time never explains less.
//
// The set of operations that have come is written as all before `base` plus the few ahead of it: those were called
// before `base` returned, so there are never more than the clients did meanwhile.

namespace shmcoord::test {

inline constexpr std::int64_t no_return = std::numeric_limits<std::int64_t>::max();

/// When a step happened: not before and not after.
struct Moment {
  std::int64_t from_ns = 0;
  std::int64_t until_ns = 0;
};

/// Operation has call_ns, return_ns and ==. apply() and drift() append each state that may follow; none: impossible.
template <class S>
concept Specification = requires(const S& s, const typename S::State& state, const typename S::Operation& operation,
                                 Moment when, std::vector<typename S::State>& next) {
  { s.initial() } -> std::same_as<typename S::State>;
  { s.hash(state) } -> std::convertible_to<std::uint64_t>;
  { state == state } -> std::convertible_to<bool>;
  s.apply(state, operation, when, next);
  s.drift(state, when, next);
};

template <Specification S>
class Linearizability {
 public:
  using Operation = typename S::Operation;
  using State = typename S::State;

  Linearizability(const S& specification, const std::vector<Operation>& history) : specification_(specification) {
    for (const Operation& o : history) (o.return_ns == no_return ? open_ : done_).push_back(o);
    const auto earlier = [](const Operation& a, const Operation& b) { return a.call_ns < b.call_ns; };
    std::sort(done_.begin(), done_.end(), earlier);
    std::sort(open_.begin(), open_.end(), earlier);
  }

  /// Exhausts the search if it must.
  [[nodiscard]] bool explained() {
    std::vector<Node> stack;
    std::unordered_set<Node, Hash> seen(16, Hash{&specification_});
    stack.push_back({0, {}, {}, specification_.initial(), std::numeric_limits<std::int64_t>::min()});
    while (!stack.empty()) {
      Node node = std::move(stack.back());
      stack.pop_back();
      if (node.base == done_.size()) return true;
      if (!seen.insert(node).second) continue;
      expand(node, stack);
    }
    return false;
  }

 private:
  using Index = std::uint32_t;
  struct Node {
    Index base = 0;             // done_[0 .. base) have come, done_[base] has not
    std::vector<Index> ahead;   // of done_, sorted
    std::vector<Index> opened;  // of open_, sorted
    State state;
    std::int64_t from_ns = 0;  // the latest call of all that have come; follows from the first three
    bool operator==(const Node& o) const {
      return base == o.base && ahead == o.ahead && opened == o.opened && state == o.state;
    }
  };
  struct Hash {
    const S* specification;
    std::size_t operator()(const Node& node) const {
      std::uint64_t h = sim::mix(specification->hash(node.state), node.base);
      for (const Index i : node.ahead) h = sim::mix(h, i);
      for (const Index i : node.opened) h = sim::mix(h, i + (std::uint64_t{1} << 32U));
      return h;
    }
  };

  static void insert(std::vector<Index>& sorted, Index i) {
    sorted.insert(std::lower_bound(sorted.begin(), sorted.end(), i), i);
  }
  static bool contains(const std::vector<Index>& sorted, Index i) {
    return std::binary_search(sorted.begin(), sorted.end(), i);
  }

  // What is looked at first is pushed last: who must return first, then the unanswered, then the drift.
  void expand(const Node& node, std::vector<Node>& stack) {
    std::int64_t until_ns = no_return;
    std::vector<Index> callable;
    for (Index i = node.base; i < done_.size() && done_[i].call_ns <= until_ns; ++i) {
      if (contains(node.ahead, i)) continue;
      callable.push_back(i);
      until_ns = std::min(until_ns, done_[i].return_ns);
    }
    std::erase_if(callable, [&](Index i) { return done_[i].call_ns > until_ns; });
    std::sort(callable.begin(), callable.end(),
              [&](Index a, Index b) { return done_[a].return_ns > done_[b].return_ns; });

    specification_.drift(node.state, {node.from_ns, until_ns}, next_);
    push(node, stack, [](Node&) {});
    for (Index i = 0; i < open_.size() && open_[i].call_ns <= until_ns; ++i) {
      if (contains(node.opened, i)) continue;
      if (i > 0 && open_[i] == open_[i - 1] && !contains(node.opened, i - 1))
        continue;  // of equal ones one after another
      const std::int64_t from_ns = std::max(node.from_ns, open_[i].call_ns);
      specification_.apply(node.state, open_[i], {from_ns, until_ns}, next_);
      std::erase(next_, node.state);  // as if it never came
      push(node, stack, [&](Node& n) {
        insert(n.opened, i);
        n.from_ns = from_ns;
      });
    }
    for (const Index i : callable) {
      const std::int64_t from_ns = std::max(node.from_ns, done_[i].call_ns);
      specification_.apply(node.state, done_[i], {from_ns, until_ns}, next_);
      push(node, stack, [&](Node& n) {
        n.from_ns = from_ns;
        if (i != n.base) return insert(n.ahead, i);
        const auto gap = std::find_if(n.ahead.begin(), n.ahead.end(), [&](Index a) { return a != ++n.base; });
        if (gap == n.ahead.end()) ++n.base;
        n.ahead.erase(n.ahead.begin(), gap);
      });
    }
  }

  template <class Come>
  void push(const Node& node, std::vector<Node>& stack, Come&& come) {
    for (State& state : next_) {
      Node next{node.base, node.ahead, node.opened, std::move(state), node.from_ns};
      come(next);
      stack.push_back(std::move(next));
    }
    next_.clear();
  }

  const S& specification_;
  std::vector<Operation> done_;
  std::vector<Operation> open_;
  std::vector<State> next_;
};

template <Specification S>
bool explained(const S& specification, const std::vector<typename S::Operation>& history) {
  return Linearizability<S>(specification, history).explained();
}

/// The history as it stood when the first `returns` answers were there: what was called later is left out, what
/// returned later has no return yet. In the order of the calls.
template <class Operation>
std::vector<Operation> prefix(const std::vector<Operation>& history, std::size_t returns) {
  std::vector<std::int64_t> times;
  for (const Operation& o : history) {
    if (o.return_ns != no_return) times.push_back(o.return_ns);
  }
  std::sort(times.begin(), times.end());
  std::vector<Operation> part;
  if (returns == 0 || times.empty()) return part;
  const std::int64_t end_ns = times[std::min(returns, times.size()) - 1];
  for (const Operation& o : history) {
    if (o.call_ns > end_ns) continue;
    part.push_back(o);
    if (o.return_ns > end_ns) part.back().return_ns = no_return;
  }
  std::sort(part.begin(), part.end(), [](const Operation& a, const Operation& b) { return a.call_ns < b.call_ns; });
  return part;
}

/// The shortest prefix that no order explains; nothing when the history is explained. A part of an explained history is
/// explained, so the border is found by halving.
template <Specification S>
std::optional<std::vector<typename S::Operation>> unexplained(const S& specification,
                                                              const std::vector<typename S::Operation>& history) {
  if (explained(specification, history)) return std::nullopt;
  std::size_t good = 0;
  std::size_t bad = history.size();
  while (bad - good > 1) {
    const std::size_t middle = good + (bad - good) / 2;
    (explained(specification, prefix(history, middle)) ? good : bad) = middle;
  }
  return prefix(history, bad);
}

}  // namespace shmcoord::test
