#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "process/byte_lock.hpp"
#include "process/identity.hpp"
#include "process/liveness.hpp"
#include "process/participant.hpp"
#include "process/recovery.hpp"
#include "support/process_child.hpp"
#include "support/process_lock.hpp"
#include "support/refuse_calls.hpp"

// One process dies; what do the others see? Each verdict "dead" is checked against a second witness.

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using engine::SlotState;
using test::Child;
using test::Common;
using test::eventually;
using test::OwnSegment;

// Joins, says in which slot, and stays.
Child resident(const OwnSegment& segment) {
  return Child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
}

bool died(const OwnSegment& segment, SlotIndex s) {
  return (RealPolicy::load(segment.view().slot(s).life) & engine::life_died) != 0;
}

Life life(const OwnSegment& segment, SlotIndex s) { return life_of(*segment.mapping(), s).life; }

bool every_task_exits(pid_t pid) {
  const ProcessState state = process_state(pid, 0, own_pid_namespace());
  return state == ProcessState::exiting || state == ProcessState::gone;
}

TEST(Death, SigkillSetsOwnerDiedAndWakes) {
  OwnSegment segment;
  Child child = resident(segment);
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  EXPECT_EQ(life(segment, s), Life::alive);
  engine::Word32& word = segment.view().slot(s).life;
  const std::uint32_t seen = RealPolicy::load(word);
  engine::Woken how = engine::Woken::timed_out;
  std::thread waiter([&] {
    const engine::WaitOn on{&word, seen};
    how = RealPolicy::wait({&on, 1}, RealPolicy::now_ns() + test::watchdog_ns);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  child.kill(SIGKILL);
  waiter.join();
  EXPECT_EQ(how, engine::Woken::woken);
  EXPECT_TRUE(died(segment, s));
  EXPECT_TRUE(confirm_death(*segment.mapping(), s, 1, RealPolicy::now_ns() + test::watchdog_ns));
  EXPECT_EQ(life_of(*segment.mapping(), s, Look::thorough).life, Life::dead);
}

TEST(Death, ExitAndExecEndTheSession) {
  OwnSegment segment;
  for (const bool exec : {false, true}) {
    Child child([&](const Child::Line& line) {
      auto* const me = Participant::join(segment.mapping()).release();
      line.ready(me->slot());
      line.await_go();
      if (exec) ::execl("/bin/sleep", "sleep", "60", nullptr);
      return 0;
    });
    const auto s = static_cast<SlotIndex>(child.wait_ready());
    child.go();
    EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; })) << exec;
    if (exec) {
      EXPECT_EQ(::kill(child.pid(), 0), 0) << "the new program runs on";
    }
    EXPECT_TRUE(bury(*segment.mapping(), s));
  }
}

TEST(Death, StoppedIsNotDead) {
  OwnSegment segment;
  Child child = resident(segment);
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  child.kill(SIGSTOP);
  EXPECT_EQ(life_of(*segment.mapping(), s, Look::thorough).life, Life::alive);
  EXPECT_FALSE(bury(*segment.mapping(), s));
}

// A thread of the dead process frees a large mapping: no signal interrupts that. Nobody may be told "dead" while one of
// its tasks has not begun to exit. Oracle: /proc, read after the verdict; exiting is final, so no race makes it wrong.
TEST(Death, NotBeforeTheLastSystemCallEnded) {
  OwnSegment segment;
  int seen_dying = 0;
  for (int round = 0; round < 12; ++round) {
    Common<std::atomic<int>> inside;
    Child child([&](const Child::Line& line) {
      const auto me = Participant::join(segment.mapping());
      line.ready(me->slot());
      for (;;) {
        constexpr std::size_t bytes = std::size_t{192} << 20U;
        void* const p =
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        *inside = 1;
        ::munmap(p, bytes);
        *inside = 0;
      }
      return 0;
    });
    const auto s = static_cast<SlotIndex>(child.wait_ready());
    ASSERT_TRUE(eventually([&] { return *inside == 1; }));
    child.kill(SIGKILL);
    const std::int64_t end = RealPolicy::now_ns() + test::watchdog_ns;
    for (;;) {
      const LifeReport report = life_of(*segment.mapping(), s);
      if (report.life == Life::dead) {
        EXPECT_TRUE(every_task_exits(child.pid())) << to_string(report.proof);
        break;
      }
      if (report.life == Life::dying) ++seen_dying;
      ASSERT_LT(RealPolicy::now_ns(), end);
    }
    EXPECT_TRUE(bury(*segment.mapping(), s));
  }
  RecordProperty("seen_dying", seen_dying);
  EXPECT_GT(seen_dying, 0) << "else this test shows nothing";
}

// The OOM killer's way: the memory of the victim is taken away before its threads exit.
TEST(Death, NoticeSurvivesTheReapingOfMemory) {
  OwnSegment segment;
#ifndef SYS_process_mrelease
  GTEST_SKIP() << "the kernel headers have no process_mrelease";
#else
  // The moment that matters is met about once in twenty rounds.
  for (int round = 0; round < 300; ++round) {
    Child child = resident(segment);
    const auto s = static_cast<SlotIndex>(child.wait_ready());
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0));
    if (fd < 0) GTEST_SKIP() << "pidfd_open is not available";
    child.kill(SIGKILL);
    ::syscall(SYS_process_mrelease, fd, 0);
    ::close(fd);
    ASSERT_TRUE(eventually([&] { return life(segment, s) == Life::dead; })) << round;
    ASSERT_TRUE(died(segment, s)) << round;
    EXPECT_TRUE(bury(*segment.mapping(), s));
  }
#endif
}

// F18: the parent has not reaped it.
TEST(Death, ZombieIsDead) {
  OwnSegment segment;
  Child child = resident(segment);
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; }));
  EXPECT_EQ(::kill(child.pid(), 0), 0) << "it is still there as a zombie";
}

TEST(Death, DiedWhileJoining) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    segment.mapping()->ensure_slot(1);
    static_cast<void>(!lock_slot(*segment.mapping(), 1));
    RealPolicy::store(segment.view().header().slot_high, 2);
    RealPolicy::store(segment.view().slot(1).id, engine::pack(engine::SlotId{SlotState::joining, 7}));
    line.ready();
    line.await_go();
    return 0;
  });
  ASSERT_EQ(child.wait_ready(), 0);
  EXPECT_EQ(life(segment, 1), Life::alive);
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return life(segment, 1) == Life::dead; }));
  EXPECT_EQ(life_of(*segment.mapping(), 1).proof, Proof::joiner_gone);
  const auto me = Participant::join(segment.mapping());
  EXPECT_EQ(me->slot(), 1U);
  EXPECT_EQ(me->incarnation(), 8U);
}

TEST(Death, OfAnEarlierBoot) {
  OwnSegment segment;
  Child child = resident(segment);
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  segment.view().slot(s).boot ^= 1;
  EXPECT_EQ(life_of(*segment.mapping(), s).proof, Proof::earlier_boot);
  EXPECT_EQ(life(segment, s), Life::dead);
}

// `run`: the tool is gone, the command that inherited the second byte is not.
TEST(Death, NotWhileACommandHasTheInheritedLock) {
  OwnSegment segment;
  Common<std::atomic<pid_t>> command;
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    const int fd = me->inherited_lock();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::fcntl(fd, F_SETFD, 0);
      ::execl("/bin/sleep", "sleep", "600", nullptr);
      ::_exit(1);
    }
    *command = pid;
    if (life_of(*segment.mapping(), me->slot()).life != Life::alive) return 1;
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  EXPECT_EQ(probe_slot(*segment.mapping(), s), ByteState::locked) << "opening and locking must not drop the first byte";
  child.kill(SIGKILL);
  child.wait();
  ASSERT_TRUE(eventually([&] { return died(segment, s); }));
  EXPECT_EQ(life(segment, s), Life::dying);
  EXPECT_FALSE(bury(*segment.mapping(), s));
  EXPECT_FALSE(confirm_death(*segment.mapping(), s, 1, RealPolicy::now_ns() + 20'000'000));
  ::kill(*command, SIGKILL);
  EXPECT_TRUE(confirm_death(*segment.mapping(), s, 1, RealPolicy::now_ns() + test::watchdog_ns));
}

// The kernel wakes one of those who wait for the dead. While nobody may bury it, a keeper tells the others.
TEST(Death, AKeeperPassesTheNoticeOn) {
  OwnSegment segment;
  Common<std::atomic<pid_t>> command;
  Child child([&](const Child::Line& line) {
    const auto mine = Participant::join(segment.mapping());
    static_cast<void>(mine->inherited_lock());
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    *command = pid;
    line.ready(mine->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  const auto me = Participant::join(segment.mapping());
  engine::Word32& word = segment.view().slot(s).life;
  const engine::WaitOn on{&word, RealPolicy::load(word)};
  std::vector<engine::Woken> how(2, engine::Woken::timed_out);
  std::vector<std::thread> waiters;
  for (engine::Woken& mine : how) {
    waiters.emplace_back([&] { mine = RealPolicy::wait({&on, 1}, RealPolicy::now_ns() + test::watchdog_ns); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // asleep, or else they find the word changed
  child.kill(SIGKILL);
  child.wait();
  for (std::thread& waiter : waiters) waiter.join();
  for (const engine::Woken mine : how) EXPECT_NE(mine, engine::Woken::timed_out);
  EXPECT_EQ(life(segment, s), Life::dying);
  ::kill(*command, SIGKILL);
  EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; }));
}

// It left, and what it started did not end with it: the slot is free, and a next owner could never be proven dead.
TEST(Death, NoSlotIsClaimedWhileACommandHasTheInheritedLock) {
  OwnSegment segment;
  Common<std::atomic<pid_t>> command;
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    const SlotIndex s = me->slot();
    static_cast<void>(me->inherited_lock());
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::pause();
      ::_exit(0);
    }
    *command = pid;
    me->leave();
    line.ready(s);
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  child.go();
  EXPECT_EQ(child.wait(), 0);
  ASSERT_EQ(engine::unpack_slot(RealPolicy::load(segment.view().slot(s).id)).state, SlotState::free);
  {
    const auto me = Participant::join(segment.mapping());
    EXPECT_NE(me->slot(), s);
  }
  ::kill(*command, SIGKILL);
  EXPECT_TRUE(eventually([&] { return probe_slot(*segment.mapping(), s) == ByteState::free; }));
  EXPECT_EQ(Participant::join(segment.mapping())->slot(), s);
}

// The life word speaks for the keeper thread alone; here the process goes on without it.
TEST(Death, AKeeperThatIsGoneIsNoDeath) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    me->keeper().stop();
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  ASSERT_TRUE(eventually([&] { return died(segment, s); }));
  EXPECT_EQ(life_of(*segment.mapping(), s, Look::thorough).life, Life::dying);
  EXPECT_FALSE(bury(*segment.mapping(), s));
}

// The byte is lost when its process closes another descriptor of the file; its life word speaks for it all the same.
TEST(Death, ALostByteIsNoDeath) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    const auto me = Participant::join(segment.mapping());
    ::close(::open(segment.mapping()->path().c_str(), O_RDONLY | O_CLOEXEC));
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const auto s = static_cast<SlotIndex>(child.wait_ready());
  ASSERT_EQ(probe_slot(*segment.mapping(), s), ByteState::free);
  EXPECT_EQ(life_of(*segment.mapping(), s, Look::thorough).life, Life::alive);
  EXPECT_FALSE(bury(*segment.mapping(), s));
}

// Of two sessions of one process, one has no life word and has not beaten for long; F_GETLK shows nobody its own locks.
TEST(Death, OfOurOwnSessionsNoneIsDead) {
  OwnSegment segment;
  Child child([&](const Child::Line&) {
    if (!test::refuse_calls(EPERM, {SYS_set_robust_list})) return 1;
    constexpr auto interval = std::chrono::milliseconds(5);
    const auto me =
        Participant::join(segment.mapping(), {.label = "", .manual_heartbeat = true, .heartbeat_interval = interval});
    const engine::Word64& beat = segment.view().slot(me->slot()).heartbeat_ns;
    const auto silence = [&] { return RealPolicy::now_ns() - static_cast<std::int64_t>(RealPolicy::load(beat)); };
    if (!eventually([&] { return silence() > 3 * std::chrono::nanoseconds(interval).count(); })) return 2;
    const LifeReport report = life_of(*segment.mapping(), me->slot(), Look::thorough);
    return report.life == Life::alive && report.proof == Proof::own_process ? 0 : 3;
  });
  const int code = child.wait();
  if (code == 1) GTEST_SKIP() << "no seccomp filter can be set here";
  EXPECT_EQ(code, 0);
}

// The slot goes on to its next owner, who lives, while we look at it: the one before is dead all the time. Neither has
// a life word, so that looking takes long.
TEST(Death, TheNextOwnersLifeIsNotTakenForThatOfTheDead) {
  OwnSegment segment;
  constexpr SlotIndex s = 3;
  segment.mapping()->ensure_slot(s);
  engine::SessionSlot& slot = segment.view().slot(s);
  RealPolicy::store(slot.flags, engine::slot_no_life_word);
  RealPolicy::store(slot.heartbeat_ns, static_cast<std::uint64_t>(RealPolicy::now_ns()));
  RealPolicy::store(slot.beat_interval_ns, static_cast<std::uint64_t>(3'600'000'000'000));
  RealPolicy::set(slot.pid, ::getpid());
  RealPolicy::set(slot.pid_namespace, own_pid_namespace());
  const std::uint64_t alive = own_start_time().value_or(0);
  ASSERT_NE(alive, 0U);
  const auto change = [&](std::uint64_t incarnation, std::uint64_t start_time) {
    RealPolicy::store(slot.id, engine::pack(engine::SlotId{SlotState::free, incarnation - 1}));
    RealPolicy::set(slot.start_time, start_time);
    RealPolicy::store(slot.id, engine::pack(engine::SlotId{SlotState::alive, incarnation}));
  };
  std::atomic<bool> stop = false;
  // The odd ones are dead: another process had this pid then. Its sleep ends in the middle of a look, on one CPU too.
  std::thread changing([&] {
    for (std::uint64_t n = 1; !stop; ++n) {
      change(n, n % 2 == 0 ? alive : alive + 1);
      ::usleep(1);
    }
  });
  int wrong = 0;
  const std::int64_t end = RealPolicy::now_ns() + test::watchdog_ns;
  for (int met = 0; met < 2'000 && wrong == 0;) {
    const engine::SlotId id = engine::unpack_slot(RealPolicy::load(slot.id));
    if (id.state == SlotState::alive && id.incarnation % 2 == 1) {
      const LifeReport report = life_of(*segment.mapping(), s, id.incarnation);
      if (report.proof != Proof::buried) ++met;
      if (report.life != Life::dead) ++wrong;
    }
    if (RealPolicy::now_ns() > end) break;
  }
  stop = true;
  changing.join();
  EXPECT_EQ(wrong, 0);
  RealPolicy::store(slot.id, engine::pack(engine::SlotId{SlotState::free, 1}));
}

// F16: both are PID 1, and their keepers have the same thread id.
TEST(Death, TwoNamespacesWithEqualIds) {
  OwnSegment segment;
  const auto in_new_namespace = [&] {
    return Child([&](const Child::Line& line) {
      if (::unshare(CLONE_NEWPID) != 0) {
        line.ready(-2);
        return 0;
      }
      const pid_t first = ::fork();
      if (first == 0) {
        const auto me = Participant::join(segment.mapping());
        line.ready(::getpid() == 1 ? std::int64_t{me->slot()} : -3);
        line.await_go();
        ::_exit(0);
      }
      int status = 0;
      ::waitpid(first, &status, 0);
      return 0;
    });
  };
  Child a = in_new_namespace();
  const std::int64_t slot_a = a.wait_ready();
  if (slot_a == -2) GTEST_SKIP() << "no permission to make a PID namespace";
  Child b = in_new_namespace();
  const std::int64_t slot_b = b.wait_ready();
  ASSERT_GT(slot_a, 0);
  ASSERT_GT(slot_b, 0);
  const auto sa = static_cast<SlotIndex>(slot_a);
  const auto sb = static_cast<SlotIndex>(slot_b);
  ASSERT_NE(sa, sb);
  EXPECT_EQ(RealPolicy::load(segment.view().slot(sa).life), RealPolicy::load(segment.view().slot(sb).life));
  EXPECT_EQ(segment.view().slot(sa).pid, 1);
  EXPECT_EQ(segment.view().slot(sb).pid, 1);
  EXPECT_NE(segment.view().slot(sa).pid_namespace, segment.view().slot(sb).pid_namespace);
  a.go();
  EXPECT_TRUE(eventually([&] { return life(segment, sa) == Life::dead; }));
  EXPECT_EQ(life_of(*segment.mapping(), sb, Look::thorough).life, Life::alive);
  EXPECT_FALSE(bury(*segment.mapping(), sb));
  b.go();
  EXPECT_TRUE(eventually([&] { return life(segment, sb) == Life::dead; }));
}

// F43: without set_robust_list the byte lock alone speaks; without futex_waitv the keeper waits for bounded times.
TEST(Death, WithoutALifeWord) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    if (!test::refuse_calls(EPERM, {SYS_set_robust_list, SYS_futex_waitv})) return 1;
    const auto me = Participant::join(segment.mapping());
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const std::int64_t joined = child.wait_ready();
  if (joined < 0 && child.wait() == 1) GTEST_SKIP() << "no seccomp filter can be set here";
  const auto s = static_cast<SlotIndex>(joined);
  engine::SessionSlot& slot = segment.view().slot(s);
  EXPECT_NE(RealPolicy::load(slot.flags) & engine::slot_no_life_word, 0U);
  EXPECT_NE(RealPolicy::load(slot.flags) & engine::slot_no_waitv, 0U);
  // It still watches its neighbour.
  Child neighbour = resident(segment);
  const auto n = static_cast<SlotIndex>(neighbour.wait_ready());
  neighbour.kill(SIGKILL);
  EXPECT_TRUE(eventually(
      [&] { return engine::unpack_slot(RealPolicy::load(segment.view().slot(n).id)).state == SlotState::free; }));
  EXPECT_EQ(life_of(*segment.mapping(), s).proof, Proof::byte_lock);
  EXPECT_EQ(life(segment, s), Life::alive);
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; }));
}

// F43: the byte is lost when its process closes another descriptor of the file. It lives all the same.
TEST(Death, WithoutALifeWordALostByteIsNoDeath) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    if (!test::refuse_calls(ENOSYS, {SYS_set_robust_list})) return 1;
    const auto me = Participant::join(segment.mapping());
    ::close(::open(segment.mapping()->path().c_str(), O_RDONLY | O_CLOEXEC));
    line.ready(me->slot());
    line.await_go();
    return 0;
  });
  const std::int64_t joined = child.wait_ready();
  if (joined < 0 && child.wait() == 1) GTEST_SKIP() << "no seccomp filter can be set here";
  const auto s = static_cast<SlotIndex>(joined);
  ASSERT_EQ(probe_slot(*segment.mapping(), s), ByteState::free);
  for (const Look look : {Look::quick, Look::thorough}) {
    EXPECT_EQ(life_of(*segment.mapping(), s, look).life, Life::unknown);
    EXPECT_EQ(life_of(*segment.mapping(), s, look).proof, Proof::heartbeat_and_byte);
  }
  EXPECT_FALSE(bury(*segment.mapping(), s));
  child.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; }));
  EXPECT_EQ(life_of(*segment.mapping(), s).proof, Proof::process_and_byte);
}

// F43: after exec the process goes on under the same pid, and nobody beats for the session any more.
TEST(Death, WithoutALifeWordExecEndsTheSessionAfterTwoBeats) {
  OwnSegment segment;
  Child child([&](const Child::Line& line) {
    if (!test::refuse_calls(EPERM, {SYS_set_robust_list})) return 1;
    auto* const me =
        Participant::join(segment.mapping(), {.label = "", .heartbeat_interval = std::chrono::milliseconds(50)})
            .release();
    line.ready(me->slot());
    line.await_go();
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    return 0;
  });
  const std::int64_t joined = child.wait_ready();
  if (joined < 0 && child.wait() == 1) GTEST_SKIP() << "no seccomp filter can be set here";
  const auto s = static_cast<SlotIndex>(joined);
  child.go();
  EXPECT_TRUE(eventually([&] { return life(segment, s) == Life::dead; }));
  EXPECT_EQ(life_of(*segment.mapping(), s).proof, Proof::heartbeat_and_byte);
  EXPECT_EQ(::kill(child.pid(), 0), 0) << "the new program runs on";
  EXPECT_TRUE(bury(*segment.mapping(), s));
}

}  // namespace
}  // namespace shmcoord::process
