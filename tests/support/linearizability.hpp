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
//   No answer    An operation whose process died (return_ns is `no_return`) may come at any time after its call and
//                until latest_ns, with any answer, or never.
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

/// Operation has call_ns, return_ns, latest_ns and ==. apply() and drift() append each state that may follow; none:
/// impossible.
template <class S>
concept Specification = requires(const S& s, const typename S::State& state, const typename S::Operation& operation,
                                 Moment when, std::vector<typename S::State>& next) {
  { s.initial() } -> std::same_as<typename S::State>;
  { s.hash(state) } -> std::convertible_to<std::uint64_t>;
  { state == state } -> std::convertible_to<bool>;
  s.apply(state, operation, when, next);
  s.drift(state, when, next);
  { S::only_looks(operation) } -> std::same_as<bool>;
  { S::comes_at_once(operation) } -> std::same_as<bool>;
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
    for (auto at = open_.begin(); at != open_.end(); ++at) {  // equal ones stay side by side
      std::rotate(std::upper_bound(open_.begin(), at, *at, earlier), at, at + 1);
    }
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
    std::vector<Index> opened;  // of open_, sorted; without those that could come no more
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

  // What is looked at first is pushed last: what comes at once, by its call; who must return first; the other
  // unanswered ones; the drift.
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

    // A look that is possible now, and was called before something that has come, need not be tried later.
    const auto look = std::find_if(callable.begin(), callable.end(), [&](Index i) {
      if (done_[i].call_ns > node.from_ns || !S::only_looks(done_[i])) return false;
      specification_.apply(node.state, done_[i], {node.from_ns, until_ns}, next_);
      const bool right = !next_.empty();
      next_.clear();
      return right;
    });
    const bool looks = look != callable.end();
    if (looks) {
      callable = {*look};
    } else {
      specification_.drift(node.state, {node.from_ns, until_ns}, next_);
      push(node, stack, [](Node&) {});
      expand_unanswered(node, until_ns, stack, false);
    }
    for (const Index i : callable) {
      const std::int64_t from_ns = std::max(node.from_ns, done_[i].call_ns);
      specification_.apply(node.state, done_[i], {from_ns, until_ns}, next_);
      push(node, stack, [&](Node& n) {
        n.from_ns = from_ns;
        std::erase_if(n.opened, [&](Index opened) { return open_[opened].latest_ns < from_ns; });
        if (i != n.base) return insert(n.ahead, i);
        const auto gap = std::find_if(n.ahead.begin(), n.ahead.end(), [&](Index a) { return a != ++n.base; });
        if (gap == n.ahead.end()) ++n.base;
        n.ahead.erase(n.ahead.begin(), gap);
      });
    }
    if (!looks) expand_unanswered(node, until_ns, stack, true);
  }

  void expand_unanswered(const Node& node, std::int64_t until_ns, std::vector<Node>& stack, bool at_once) {
    for (Index i = open_within(until_ns); i-- > 0;) {
      if (S::comes_at_once(open_[i]) != at_once || contains(node.opened, i)) continue;
      const std::int64_t from_ns = std::max(node.from_ns, open_[i].call_ns);
      if (from_ns > open_[i].latest_ns) continue;
      if (i > 0 && open_[i] == open_[i - 1] && !contains(node.opened, i - 1))
        continue;  // of equal ones one after another
      specification_.apply(node.state, open_[i], {from_ns, until_ns}, next_);
      std::erase(next_, node.state);  // as if it never came
      push(node, stack, [&](Node& n) {
        insert(n.opened, i);
        n.from_ns = from_ns;
      });
    }
  }
  [[nodiscard]] Index open_within(std::int64_t until_ns) const {
    const auto end =
        std::partition_point(open_.begin(), open_.end(), [&](const Operation& o) { return o.call_ns <= until_ns; });
    return static_cast<Index>(end - open_.begin());
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
