#include "process/lease.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "process/identity.hpp"
#include "process/participant.hpp"
#include "process/recovery.hpp"
#include "shmcoord/testing.hpp"
#include "support/process_child.hpp"
#include "support/process_lock.hpp"

// Time is an argument: nothing here sleeps. Sessions are in manual mode so that no keeper beats in between, and the
// flag is taken off where the tests are about sessions that beat by themselves.

namespace shmcoord::process {
namespace {

using engine::Phase;
using engine::RealPolicy;
using engine::Step;
using test::make_lock;
using test::new_entry;
using test::Ops;
using test::OwnSegment;

constexpr std::int64_t second = 1'000'000'000;

class Lease : public ::testing::Test {
 protected:
  Lease()
      : me(join()),
        other(join()),
        lock(make_lock(*me, "deploy", 1, {.stale_threshold_ns = 60 * second})),
        entry(new_entry(*me)) {
    got = lock.try_acquire(entry, 1, now_ns());
    EXPECT_EQ(got.step, Step::acquired);
  }

  std::unique_ptr<Participant> join() {
    return Participant::join(segment.mapping(), {.label = "", .manual_heartbeat = true});
  }
  [[nodiscard]] std::int64_t now_ns() const { return clock.now().time_since_epoch().count(); }
  void pass(std::int64_t by_ns) { clock.advance(std::chrono::nanoseconds(by_ns)); }
  engine::Entry& e() { return segment.view().entry(entry); }
  Step reclaim() { return reclaim_lease(*segment.mapping(), lock.index(), entry, now_ns()).step; }
  Loss judge() { return judge_lease(segment.view(), lock.index(), entry, now_ns()); }
  // Makes the session one that beats by itself, and lets it beat at that time.
  void beats(const Participant& p, std::int64_t at_ns) {
    engine::SessionSlot& s = segment.view().slot(p.slot());
    RealPolicy::store(s.flags, 0);
    RealPolicy::store(s.heartbeat_ns, static_cast<std::uint64_t>(at_ns));
    RealPolicy::store(s.beat_interval_ns, static_cast<std::uint64_t>(15 * second));
  }

  OwnSegment segment;
  testing::FakeClock clock;
  std::unique_ptr<Participant> me;
  std::unique_ptr<Participant> other;
  Ops lock;
  EntryIndex entry;
  engine::Result got{Step::gone};
};

TEST_F(Lease, StaleOnlyAfterTheThreshold) {
  pass(60 * second);
  EXPECT_EQ(judge(), Loss::none);
  EXPECT_EQ(next_lease_deadline(segment.view(), lock.index(), entry), now_ns() + 1);
  EXPECT_EQ(reclaim(), Step::fresh);
  pass(1);
  EXPECT_EQ(judge(), Loss::stale);
  EXPECT_EQ(reclaim(), Step::reclaimed);
  EXPECT_EQ(lock.status(entry).phase, Phase::lost);
  EXPECT_EQ(lock.heartbeat(entry, got.seq, now_ns()).step, Step::gone);
}

TEST_F(Lease, TtlReplacesTheThresholdAndEndsAtItsDeadline) {
  RealPolicy::store(e().ttl_ns, static_cast<std::uint64_t>(10 * second));
  EXPECT_EQ(next_lease_deadline(segment.view(), lock.index(), entry), now_ns() + 10 * second);
  pass(10 * second - 1);
  EXPECT_EQ(judge(), Loss::none);
  pass(1);
  EXPECT_EQ(judge(), Loss::expired);
}

TEST_F(Lease, AHeartbeatKeepsIt) {
  pass(61 * second);
  EXPECT_EQ(lock.heartbeat(entry, got.seq, now_ns()).step, Step::refreshed);
  EXPECT_EQ(reclaim(), Step::fresh);
  EXPECT_TRUE(lock.holds(entry, got.seq));
}

TEST_F(Lease, MaxHoldCountsHeartbeatsNotwithstanding) {
  RealPolicy::store(lock.record().max_hold_ns, static_cast<std::uint64_t>(100 * second));
  pass(100 * second);
  lock.heartbeat(entry, got.seq, now_ns());
  EXPECT_EQ(judge(), Loss::none);
  pass(1);
  EXPECT_EQ(judge(), Loss::held_too_long);
}

TEST_F(Lease, WithoutALeaseItNeverEnds) {
  RealPolicy::store(e().flags, engine::entry_no_lease);
  RealPolicy::store(lock.record().max_hold_ns, static_cast<std::uint64_t>(second));
  pass(1000 * second);
  EXPECT_EQ(judge(), Loss::none);
  EXPECT_EQ(next_lease_deadline(segment.view(), lock.index(), entry), std::numeric_limits<std::int64_t>::max());
}

TEST_F(Lease, TheSessionsBeatCountsOnlyInAutomaticMode) {
  segment.view().slot(me->slot()).heartbeat_ns.raw = static_cast<std::uint64_t>(now_ns() + 61 * second);
  pass(61 * second);
  EXPECT_EQ(judge(), Loss::stale) << "manual: only its own heartbeat";
  beats(*me, now_ns());
  EXPECT_EQ(judge(), Loss::none);
}

TEST_F(Lease, OneThatIsSilentWhileOthersBeatIsTaken) {
  beats(*me, now_ns());
  pass(61 * second);
  beats(*other, now_ns());
  EXPECT_EQ(reclaim(), Step::reclaimed);
}

// F31
TEST_F(Lease, GraceWhenEverybodyWasSilent) {
  beats(*me, now_ns());
  beats(*other, now_ns());
  pass(300 * second);
  EXPECT_EQ(reclaim(), Step::fresh) << "noted now; one interval of 15 s begins";
  beats(*other, now_ns());
  pass(15 * second - 1);
  EXPECT_EQ(reclaim(), Step::fresh);
  pass(1);
  EXPECT_EQ(reclaim(), Step::reclaimed) << "it had its time and is still silent";
}

TEST_F(Lease, GraceAlsoWhenTheOtherBeatsFirst) {
  beats(*me, now_ns());
  beats(*other, now_ns());
  pass(300 * second);
  other->keeper().beat(now_ns());
  EXPECT_EQ(reclaim(), Step::fresh);
  pass(5 * second);
  beats(*me, now_ns());
  pass(20 * second);
  EXPECT_EQ(reclaim(), Step::fresh) << "it came back";
}

TEST_F(Lease, OneSilenceHasOneGrace) {
  beats(*me, now_ns());
  pass(300 * second);
  for (int n = 0; n < 14; ++n) {
    EXPECT_EQ(reclaim(), Step::fresh);
    note_silence(segment.view(), now_ns());
    pass(second);
  }
  pass(second);
  EXPECT_EQ(reclaim(), Step::reclaimed);
}

TEST_F(Lease, TheGraceIsNotForBeingHeldTooLong) {
  RealPolicy::store(lock.record().max_hold_ns, static_cast<std::uint64_t>(100 * second));
  beats(*me, now_ns());
  pass(300 * second);
  EXPECT_EQ(judge(), Loss::held_too_long) << "also while nobody is judged by its silence";
  EXPECT_EQ(reclaim(), Step::reclaimed);
}

TEST_F(Lease, TheLastBeatOfTheDeadEndsNoSilence) {
  beats(*me, now_ns());
  pass(300 * second);
  beats(*other, now_ns());
  engine::Word32& life = segment.view().slot(other->slot()).life;
  const std::uint32_t alive = RealPolicy::load(life);
  RealPolicy::store(life, alive | engine::life_died);
  EXPECT_EQ(reclaim(), Step::fresh) << "of those who live, everybody was silent";
  RealPolicy::store(life, alive);
}

TEST_F(Lease, NoGraceForManualSessionsAndDetachedHolds) {
  beats(*other, now_ns());
  pass(300 * second);
  EXPECT_EQ(reclaim(), Step::reclaimed);
}

TEST_F(Lease, JudgingAloneWritesNothing) {
  beats(*me, now_ns());
  pass(300 * second);
  EXPECT_EQ(judge(), Loss::none);
  EXPECT_EQ(RealPolicy::load(segment.view().header().silence_ns), 0U);
}

TEST_F(Lease, SweepTakesWhatRanOutAndDryRunOnlySaysSo) {
  pass(61 * second);
  SweepReport report = sweep(*segment.mapping(), now_ns(), {.dry_run = true});
  ASSERT_EQ(report.planned.size(), 1U);
  EXPECT_EQ(report.planned[0].kind, Action::Kind::reclaim_lease);
  EXPECT_EQ(report.planned[0].why, Loss::stale);
  EXPECT_NE(report.planned[0].text.find("deploy"), std::string::npos) << report.planned[0].text;
  EXPECT_TRUE(report.taken.empty());
  EXPECT_TRUE(lock.holds(entry, got.seq));
  report = sweep(*segment.mapping(), now_ns(), {.reclaim_stale = false});
  EXPECT_TRUE(report.planned.empty());
  report = sweep(*segment.mapping(), now_ns());
  EXPECT_EQ(report.reclaimed, 1U);
  EXPECT_EQ(lock.status(entry).phase, Phase::lost);
  ASSERT_EQ(report.taken.size(), 1U);
  EXPECT_EQ(report.taken[0].name, "deploy");
  EXPECT_EQ(report.taken[0].token, got.seq);
  EXPECT_EQ(report.taken[0].weight, 1U);
  EXPECT_EQ(report.taken[0].why, Loss::stale);
}

TEST_F(Lease, DetachedHoldOfAProcessThatEnded) {
  ASSERT_EQ(lock.release(entry, got.seq).step, Step::released);
  test::Child bound([](const test::Child::Line& line) {
    line.await_go();
    return 0;
  });
  const EntryIndex i = me->take_detached_entry();
  test::reset_entry(segment.view(), i, engine::entry_detached | engine::entry_no_lease);
  segment.view().entry(i).bound_pid = bound.pid();
  segment.view().entry(i).bound_start_time = *start_time_of(bound.pid());
  segment.view().entry(i).bound_pid_namespace = own_pid_namespace();
  const auto hold = lock.try_acquire(i, 1, now_ns());
  ASSERT_TRUE(me->commit_detached(i));
  sweep(*segment.mapping(), now_ns());
  EXPECT_TRUE(lock.holds(i, hold.seq));
  EXPECT_EQ(life_of_entry(*segment.mapping(), i).proof, Proof::bound_process);
  bound.kill(SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return life_of_entry(*segment.mapping(), i).life == Life::dead; }));
  const SweepReport report = sweep(*segment.mapping(), now_ns());
  EXPECT_EQ(report.reclaimed, 1U);
  ASSERT_EQ(report.taken.size(), 1U);
  EXPECT_EQ(report.taken[0].token, hold.seq);
  EXPECT_EQ(report.taken[0].why, Loss::died);
  EXPECT_TRUE(core::idle(lock.load()));
  EXPECT_EQ(RealPolicy::load(segment.view().owner_of(i)), 0U) << "its chunk is free";
}

// --- the plan alone ---------------------------------------------------

TEST(Plan, EntriesOfTheDeadFirstThenTheSession) {
  Snapshot snapshot;
  SessionView dead;
  dead.slot = 3;
  dead.incarnation = 5;
  dead.state = engine::SlotState::alive;
  dead.life = {Life::dead, Proof::life_word_and_byte};
  SessionView dying = dead;
  dying.slot = 4;
  dying.life.life = Life::dying;
  snapshot.sessions = {dead, dying};
  EntryView hold;
  hold.slot = 3;
  hold.incarnation = 5;
  hold.phase = Phase::held;
  hold.name = "deploy";
  hold.holder = "pipeline:42";
  EntryView wait = hold;
  wait.phase = Phase::waiting;
  EntryView prepared = hold;
  prepared.phase = Phase::prepared;
  EntryView of_another_life = hold;
  of_another_life.incarnation = 4;
  EntryView of_the_dying = hold;
  of_the_dying.slot = 4;
  snapshot.entries = {hold, wait, prepared, of_another_life, of_the_dying};
  const auto actions = plan(snapshot, {});
  ASSERT_EQ(actions.size(), 4U);
  EXPECT_EQ(actions[0].kind, Action::Kind::release_hold);
  EXPECT_EQ(actions[0].why, Loss::died);
  EXPECT_EQ(actions[0].text, "hold of deploy by pipeline:42 (pid 0): died");
  EXPECT_EQ(actions[1].kind, Action::Kind::cancel_wait);
  EXPECT_EQ(actions[2].kind, Action::Kind::free_entry);
  EXPECT_EQ(actions[3].kind, Action::Kind::bury_session);
}

TEST(Plan, NothingToDo) { EXPECT_TRUE(plan({}, {}).empty()); }

}  // namespace
}  // namespace shmcoord::process
