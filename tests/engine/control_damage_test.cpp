#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "engine/real_policy.hpp"
#include "support/sim_segment.hpp"

// Words that no operation leaves behind, or the last sequence that there is: each operation says so, ends, and changes
// nothing, and so does the burial of whoever has an entry there.

namespace shmcoord::engine {
namespace {

using P = RealPolicy;
using Ops = ControlOps<P>;

/// a holds the lock, b and c wait for it; d is a second entry of c's, out of use.
class ControlDamage : public testing::Test {
 protected:
  static constexpr EntryIndex a = sim::Segment::entry_of(0);
  static constexpr EntryIndex b = sim::Segment::entry_of(1);
  static constexpr EntryIndex c = sim::Segment::entry_of(2);
  static constexpr EntryIndex d = c + 1;
  static constexpr EntryIndex outside = 1000;

  ControlDamage() {
    for (const EntryIndex i : {a, b, c, d}) P::store(view().entry(i).weight, 1);
    token_ = ops_.try_acquire(a, 1, 0).seq;
    EXPECT_EQ(ops_.acquire_or_queue(b, 1, 0).step, Step::queued);
    EXPECT_EQ(ops_.acquire_or_queue(c, 1, 0).step, Step::queued);
  }

  [[nodiscard]] const View& view() const { return segment_.view(); }
  [[nodiscard]] Word128& word() const { return view().record(0).control; }
  void change(const std::function<void(core::Control&)>& how) const {
    const core::Control before = P::load(word());
    core::Control after = before;
    how(after);
    ASSERT_TRUE(P::cas(word(), before, after));
  }
  static Loss forced(const Entry&) { return Loss::forced; }
  void expect_word_unchanged(const core::Control& before) const { EXPECT_EQ(P::load(word()), before); }
  bool bury(EntryIndex i, Burial why = Burial::dead) const {
    return bury_entry<P>(view(), i, P::load(view().owner_of(i)), why);
  }

  void expect_all_say(Step step, bool burials_end) {
    const core::Control before = P::load(word());
    EXPECT_EQ(ops_.try_acquire(d, 1, 0).step, step);
    EXPECT_EQ(ops_.acquire_or_queue(d, 1, 0).step, step);
    EXPECT_EQ(ops_.release(a, token_).step, step);
    EXPECT_EQ(ops_.cancel(b).step, step);
    EXPECT_EQ(ops_.reclaim(a, forced).step, step);
    ops_.settle();
    EXPECT_FALSE(ops_.close());
    for (const Burial why : {Burial::dead, Burial::leaving, Burial::robbed}) {
      for (const EntryIndex i : {a, b}) EXPECT_EQ(bury(i, why), burials_end);
    }
    expect_word_unchanged(before);
  }

  sim::Segment segment_{1};
  Ops ops_{segment_.view(), 0, 1};
  std::uint64_t token_ = 0;
};

TEST_F(ControlDamage, AWordThatCannotBe) {
  const core::Control good = P::load(word());
  const std::vector<std::function<void(core::Control&)>> damages{
      [](core::Control& w) { w.seq = 0; },
      [](core::Control& w) { w.seq = core::seq_limit + 1; },
      [](core::Control& w) { w.op = core::Op::none; },
      [](core::Control& w) { w.last = nil_entry; },
      [](core::Control& w) { w.last = outside; },
      [](core::Control& w) { w.tail = outside; },
  };
  for (std::size_t n = 0; n < damages.size(); ++n) {
    SCOPED_TRACE(n);
    change(damages[n]);
    expect_all_say(Step::corrupt, false);
    change([&](core::Control& w) { w = good; });
  }
}

TEST_F(ControlDamage, TheLastSequence) {
  change([](core::Control& w) { w.seq = core::seq_limit; });
  // As if a's hold and b's wait had always been there.
  for (const EntryIndex i : {a, b}) {
    Status s = ops_.status(i);
    s.stamp = core::seq_limit & stamp_mask;
    P::store(view().entry(i).status, pack(s));
  }
  token_ = core::seq_limit;
  expect_all_say(Step::exhausted, false);
}

TEST_F(ControlDamage, LinksThatLeadOutOrToNobodyWhoWaits) {
  const std::uint64_t good = P::load(view().entry(c).next);
  const core::Control before = P::load(word());
  // c is the tail, and its next the head: b.
  P::store(view().entry(c).next, pack(Link{outside, unpack_link(good).stamp}));
  EXPECT_EQ(ops_.acquire_or_queue(d, 1, 0).step, Step::corrupt);
  EXPECT_EQ(ops_.cancel(c).step, Step::corrupt);
  EXPECT_FALSE(bury(c));
  P::store(view().entry(c).next, pack(Link{a, unpack_link(good).stamp}));
  EXPECT_EQ(ops_.acquire_or_queue(d, 1, 0).step, Step::corrupt) << "the head holds, and does not wait";
  P::store(view().entry(c).next, good);
  P::store(view().entry(c).prev, pack(Link{outside, unpack_link(good).stamp}));
  EXPECT_EQ(ops_.cancel(c).step, Step::corrupt);
  EXPECT_FALSE(bury(c));
  expect_word_unchanged(before);
}

TEST_F(ControlDamage, EntriesThatAreNotOfThisWord) {
  const core::Control before = P::load(word());
  const auto with = [&](const std::function<void(Status&)>& change, const std::function<void()>& then) {
    const std::uint64_t good = P::load(view().entry(b).status);
    Status s = unpack_status(good);
    change(s);
    P::store(view().entry(b).status, pack(s));
    then();
    P::store(view().entry(b).status, good);
  };
  with([](Status& s) { s.record = 1; },
       [&] {
         EXPECT_EQ(ops_.cancel(b).step, Step::gone);
         EXPECT_EQ(ops_.reclaim(b, forced).step, Step::gone);
         EXPECT_EQ(ops_.heartbeat(b, token_, 0).step, Step::gone);
       });
  with([](Status& s) { s.record = sim::Segment::records; }, [&] { EXPECT_FALSE(bury(b)); });
  with([](Status& s) { s.phase = Phase::marked; }, [&] { EXPECT_EQ(ops_.cancel(b).step, Step::granted); });
  with([](Status& s) { s.phase = Phase::lost; }, [&] { EXPECT_EQ(ops_.cancel(b).step, Step::gone); });
  expect_word_unchanged(before);
}

TEST_F(ControlDamage, SomebodyHoldsOrWaitsUnderAClosedWord) {
  change([](core::Control& w) {
    w.op = core::Op::close;
    w.last = nil_entry;
  });
  EXPECT_EQ(ops_.try_acquire(d, 1, 0).step, Step::closed);
  EXPECT_EQ(ops_.cancel(b).step, Step::closed);
  EXPECT_TRUE(ops_.close()) << "it was closed already";
  for (const EntryIndex i : {a, b}) EXPECT_FALSE(bury(i));
}

TEST_F(ControlDamage, AMarkedHolderOfADamagedWordIsNotToldThatItHolds) {
  EXPECT_EQ(ops_.reclaim(a, [](const Entry&) { return Loss::none; }).step, Step::fresh);
  EXPECT_EQ(ops_.heartbeat(a, token_, 0).step, Step::refreshed);
  change([](core::Control& w) { w.tail = outside; });
  EXPECT_EQ(ops_.heartbeat(a, token_, 0).step, Step::corrupt);
  change([](core::Control& w) { w.seq = 0; });
  EXPECT_EQ(ops_.heartbeat(a, token_, 0).step, Step::corrupt);
}

}  // namespace
}  // namespace shmcoord::engine
