#include "core/control_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

// The invariants I1–I4 of the control word, over all small words: capacity, amount in use, queue, weights. First each
// transition by itself, then all words that they lead to, beside a plain list of who holds and who waits.

namespace shmcoord::core {
namespace {

constexpr std::uint32_t most = 4;

template <class Check>
void for_each_word(Check check) {
  for (std::uint32_t capacity = 1; capacity <= most; ++capacity) {
    for (std::uint32_t used = 0; used <= most; ++used) {  // above capacity too: it may have been lowered
      for (const EntryIndex tail : {nil_entry, EntryIndex{7}, EntryIndex{8}}) {
        for (std::uint32_t weight = 1; weight <= most; ++weight) {
          check(Control{5, used, tail, 1, Op::acquire}, capacity, weight);
        }
      }
    }
  }
}

TEST(ControlMachine, PackingIsExact) {
  for_each_word([](const Control& c, std::uint32_t, std::uint32_t) { EXPECT_EQ(unpack(c.seq, pack_bits(c)), c); });
}

TEST(ControlMachine, NobodyIsLetInPastAWaiterOrTheCapacity) {
  for_each_word([](const Control& c, std::uint32_t capacity, std::uint32_t weight) {
    const bool room = c.used + weight <= capacity;
    EXPECT_EQ(admits(c, capacity, weight), room && c.tail == nil_entry);
    if (admits(c, capacity, weight)) {
      EXPECT_EQ(acquire(c, 2, weight), (Control{6, c.used + weight, nil_entry, 2, Op::acquire}));
    }
  });
}

TEST(ControlMachine, AReleaseHandsOnInTheSameWordExactlyWhenTheHeadFits) {
  for_each_word([](const Control& c, std::uint32_t capacity, std::uint32_t weight) {
    for (std::uint32_t mine = 1; mine <= c.used; ++mine) {
      const Head head = c.tail == nil_entry ? Head{} : Head{7, weight};
      const Release r = release(c, 1, mine, capacity, head, false);
      const bool fits = head.entry != nil_entry && c.used - mine + weight <= capacity;
      EXPECT_EQ(r.grantee, fits ? head.entry : nil_entry);
      EXPECT_EQ(r.next.seq, c.seq + 1);
      EXPECT_EQ(r.next.used, c.used - mine + (fits ? weight : 0));
      EXPECT_EQ(r.next.op, fits ? Op::handoff : Op::release);
      EXPECT_EQ(r.next.tail, fits && c.tail == 7 ? nil_entry : c.tail);
    }
  });
}

TEST(ControlMachine, AmountsThatCannotBeAreNeitherLetInNorWrappedAround) {
  constexpr std::uint32_t huge = ~std::uint32_t{0};
  for_each_word([](const Control& c, std::uint32_t capacity, std::uint32_t weight) {
    EXPECT_FALSE(fits(c, capacity, huge));
    if (c.used != 0) {
      EXPECT_FALSE(fits(c, capacity, huge - c.used + 1));  // the sum would be 0
    }
    EXPECT_EQ(release(c, 1, c.used + weight, capacity, Head{}, false).next.used, 0U);
    EXPECT_FALSE(head_fits(c, huge, Head{nil_entry, weight}));
  });
}

/// Who holds, and who waits, the head first: what a word says in short.
struct Claim {
  EntryIndex entry;
  std::uint32_t weight;
  friend auto operator<=>(const Claim&, const Claim&) = default;
};
struct World {
  std::uint32_t capacity = 1;
  Control word{1};
  std::vector<Claim> holders;  // sorted
  std::vector<Claim> queue;

  [[nodiscard]] std::uint32_t used() const {
    return std::accumulate(holders.begin(), holders.end(), 0U, [](auto sum, const Claim& h) { return sum + h.weight; });
  }
  [[nodiscard]] bool room_for(std::uint32_t weight) const { return used() + weight <= capacity; }
  [[nodiscard]] bool head_has_room() const { return !queue.empty() && room_for(queue.front().weight); }
  [[nodiscard]] Head head() const { return queue.empty() ? Head{} : Head{queue.front().entry, queue.front().weight}; }
  void let_in(Claim claim) { holders.insert(std::upper_bound(holders.begin(), holders.end(), claim), claim); }
  void let_in_head() {
    let_in(queue.front());
    queue.erase(queue.begin());
  }
};

/// Walks from an idle word through all that the transitions lead to.
class Walk {
 public:
  static constexpr EntryIndex entries = 4;
  static constexpr std::uint32_t most_capacity = 3;

  std::size_t run() {
    visit(World{});
    while (!pending_.empty() && !testing::Test::HasFailure()) {
      const World w = std::move(pending_.front());
      pending_.pop_front();
      come(w);
      leave(w);
      change_amounts(w);
      change_nothing(w);
    }
    return seen_.size();
  }

 private:
  void come(const World& w) {
    for (EntryIndex i = 0; i < entries; ++i) {
      const auto names_it = [i](const Claim& c) { return c.entry == i; };
      if (std::ranges::any_of(w.holders, names_it) || std::ranges::any_of(w.queue, names_it)) continue;
      for (std::uint32_t weight = 1; weight <= most_capacity; ++weight) {
        const bool may = w.queue.empty() && w.room_for(weight);
        EXPECT_EQ(admits(w.word, w.capacity, weight), may);  // I3
        World in = w;
        in.let_in({i, weight});
        if (may) reach(w, acquire(w.word, i, weight), i, Op::acquire, std::move(in));
        World behind = w;
        behind.queue.push_back({i, weight});
        reach(w, enqueue(w.word, i), i, Op::enqueue, std::move(behind));
        if (w.queue.empty()) continue;
        World before = w;
        before.queue.insert(before.queue.begin(), {i, weight});
        reach(w, queue_first(w.word, i), i, Op::queue_first, std::move(before));
      }
    }
    EXPECT_EQ(head_fits(w.word, w.capacity, w.head()), w.head_has_room());
    if (!w.head_has_room()) return;
    World granted = w;
    granted.let_in_head();
    reach(w, grant(w.word, w.head()), w.head().entry, Op::grant, std::move(granted));
  }

  void leave(const World& w) {
    for (std::size_t k = 0; k < w.holders.size(); ++k) {
      const Claim who = w.holders[k];
      for (const bool reclaim : {false, true}) {
        World left = w;
        left.holders.erase(left.holders.begin() + static_cast<std::ptrdiff_t>(k));
        const bool hands_on = left.head_has_room();
        const Release r = release(w.word, who.entry, who.weight, w.capacity, w.head(), reclaim);
        EXPECT_EQ(r.grantee, hands_on ? w.head().entry : nil_entry);  // I3, I4
        if (hands_on) left.let_in_head();
        const Op op = reclaim ? Op::reclaim : hands_on ? Op::handoff : Op::release;
        reach(w, r.next, who.entry, op, std::move(left));
      }
    }
    const std::size_t n = w.queue.size();
    for (std::size_t k = 0; k < n; ++k) {
      World left = w;
      left.queue.erase(left.queue.begin() + static_cast<std::ptrdiff_t>(k));
      const EntryIndex me = w.queue[k].entry;
      const bool counts = k == n - 1 && n > 1;  // else nobody may look at prev
      const EntryIndex prev = counts ? w.queue[k - 1].entry : entries + 1;
      reach(w, cancel(w.word, me, w.queue[(k + 1) % n].entry, prev), me, Op::cancel, std::move(left));
    }
  }

  void change_amounts(const World& w) {
    for (std::size_t k = 0; k < w.holders.size(); ++k) {
      const Claim who = w.holders[k];
      for (std::uint32_t weight = 1; weight <= who.weight; ++weight) {
        World less = w;
        less.holders[k].weight = weight;
        std::ranges::sort(less.holders);
        reach(w, shrink(w.word, who.entry, who.weight, weight), who.entry, Op::shrink, std::move(less));
      }
      for (std::size_t part = 0; part < w.holders.size(); ++part) {
        if (part == k) continue;
        World one = w;
        one.holders[k].weight += w.holders[part].weight;
        one.holders.erase(one.holders.begin() + static_cast<std::ptrdiff_t>(part));
        std::ranges::sort(one.holders);
        reach(w, merge(w.word, w.holders[part].entry), w.holders[part].entry, Op::merge, std::move(one));
      }
    }
    for (std::uint32_t capacity = 1; capacity <= most_capacity; ++capacity) {
      World other = w;
      other.capacity = capacity;  // lowered, it may stand below what is in use
      check(w, resize(w.word, capacity), capacity, Op::resize, other);
      visit(std::move(other));
    }
  }

  void change_nothing(const World& w) {
    reach(w, join(w.word, 2), 2, Op::join, w);
    reach(w, core::leave(w.word, 2), 2, Op::leave, w);
    reach(w, keep(w.word, 2), 2, Op::keep, w);
    const bool nobody = w.holders.empty() && w.queue.empty();
    EXPECT_EQ(idle(w.word), nobody);
    if (nobody) check(w, close(w.word), nil_entry, Op::close, w);  // nothing follows
  }

  void check(const World& before, const Control& n, EntryIndex last, Op op, const World& after) {
    const std::uint32_t bound = std::max(before.capacity, before.used());
    EXPECT_EQ(n.seq, before.word.seq + 1);  // I1
    EXPECT_LE(n.used, bound);               // I2
    EXPECT_EQ(n.used, after.used());
    EXPECT_EQ(n.tail, after.queue.empty() ? nil_entry : after.queue.back().entry);
    EXPECT_EQ(n.last, last);
    EXPECT_EQ(n.op, op);
    EXPECT_TRUE(plausible(n));
    EXPECT_EQ(unpack(n.seq, pack_bits(n)), n);
    EXPECT_EQ(touched(n), op == Op::resize ? nil_entry : last);
  }

  void reach(const World& before, const Control& n, EntryIndex last, Op op, World after) {
    check(before, n, last, op, after);
    after.word = n;
    visit(std::move(after));
  }

  // Neither the sequence nor the last operation may matter to what follows, and its entry is tried in all values.
  void visit(World w) {
    if (seen_.emplace(w.capacity, w.word.last, w.holders, w.queue).second) pending_.push_back(std::move(w));
  }

  std::deque<World> pending_;
  std::set<std::tuple<std::uint32_t, EntryIndex, std::vector<Claim>, std::vector<Claim>>> seen_;
};

TEST(ControlMachine, EveryWordSaysWhoHoldsAndWhoWaits) {
  const std::size_t worlds = Walk().run();
  RecordProperty("worlds", static_cast<int>(worlds));
  if (!HasFailure()) {
    EXPECT_GT(worlds, 1000U);
  }
}

TEST(ControlMachine, TheLargestCapacityIsNotTakenForNobody) {
  const Control c = resize({.seq = 7, .used = 3}, max_capacity);
  ASSERT_EQ(c.last, nil_entry);
  EXPECT_TRUE(plausible(c));
  EXPECT_EQ(unpack(c.seq, pack_bits(c)), c);
  EXPECT_EQ(touched(c), nil_entry);
}

TEST(ControlMachine, AShrinkThatIsNoneTakesNothing) {
  EXPECT_EQ(shrink({.seq = 7, .used = 3}, 1, 2, 3).used, 3U);
  EXPECT_EQ(shrink({.seq = 7, .used = 1}, 1, 5, 1).used, 0U);  // damage: less in use than it has
}

}  // namespace
}  // namespace shmcoord::core
