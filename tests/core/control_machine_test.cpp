#include "core/control_machine.hpp"

#include <gtest/gtest.h>

// The invariants I1–I4 of the control word, over all small words: capacity, amount in use, queue, weights.

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

}  // namespace
}  // namespace shmcoord::core
