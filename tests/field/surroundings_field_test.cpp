#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/identity.hpp"
#include "process/recovery.hpp"
#include "support/common.hpp"
#include "support/face_fixture.hpp"
#include "support/long_form.hpp"

// Faults that users of locks really met, from what lies around a process: other programs, its own forks, cleaners of
// temporary files. The number in a name is the case's.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using engine::RealPolicy;
using engine::Word32;
using test::long_form;
using testing::Child;
using testing::say;

const HolderId me{"tester"};

class SurroundingsTest : public testing::FaceTest {};

// Each holder changes two values that belong together and may die between the two. The next one is told, repairs, and
// nobody behind it ever sees them differ.
TEST_F(SurroundingsTest, F14_TheNextHolderRepairsBeforeOthersProceed) {
  struct Shared {
    volatile std::int64_t a;
    volatile std::int64_t b;
    Word32 bad;
    Word32 repaired;
    Word32 stop;
  };
  const test::Common<Shared> s;
  std::vector<std::unique_ptr<Child>> workers;
  for (int w = 0; w < 3; ++w) {
    workers.push_back(std::make_unique<Child>([&](int) {
      Session session{segment_};
      Lock lock{session, "x"};
      while (RealPolicy::load(s->stop) == 0) {
        lock.lock();
        if (lock.previous() && s->a != s->b) {
          s->b = s->a;
          RealPolicy::add(s->repaired, 1);
        }
        if (s->a != s->b) RealPolicy::add(s->bad, 1);
        s->a = s->a + 1;
        s->b = s->b + 1;
        lock.unlock();
      }
    }));
  }
  const int rounds = long_form() ? 1'000 : 40;
  for (int i = 0; i < rounds; ++i) {
    Child dying([&](int) {
      Session session{segment_};
      Lock lock{session, "x"};
      lock.lock();
      if (lock.previous()) s->b = s->a;
      s->a = s->a + 1;
      ::kill(::getpid(), SIGKILL);
    });
    dying.wait();
  }
  RealPolicy::store(s->stop, 1);
  for (auto& worker : workers) EXPECT_EQ(worker->wait(), 0);
  EXPECT_EQ(RealPolicy::load(s->bad), 0U);
  EXPECT_GT(RealPolicy::load(s->repaired), 0U);
}

/// Forks a child that gets that pid. 0 in the child; -1: not permitted.
pid_t fork_as(pid_t pid) {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<std::uintptr_t>(&pid);
  args.set_tid_size = 1;
  return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
}

// The dead holder's pid belongs to the same program again, which has even joined.
TEST_F(SurroundingsTest, F15_APidThatIsUsedAgainIsNotTheHolder) {
  Child first([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    say(ready, lock.acquire(me) ? 'h' : 'x');
    ::pause();
  });
  ASSERT_EQ(first.next(), 'h');
  const pid_t pid = first.pid();
  const std::string bind = std::string(SHMCOORD_TOOL_PATH) + " -s " + name_ + " lock acquire y --holder bound --pid " +
                           std::to_string(pid) + " >/dev/null";
  ASSERT_EQ(std::system(bind.c_str()), 0);
  const auto started = process::start_time_of(pid);
  first.kill(SIGKILL);
  first.wait();
  // Start times are counted in ticks of 10 ms; no kernel gives a pid out again that soon.
  const auto later = [&] {
    const Child probe([](int) { ::pause(); });
    return process::start_time_of(probe.pid()) != started;
  };
  while (!later()) std::this_thread::sleep_for(1ms);
  int line[2];
  ASSERT_EQ(::pipe(line), 0);
  pid_t again = fork_as(pid);
  for (int tries = 0; again < 0 && errno == EEXIST && tries < 1000; ++tries) {  // somebody else was faster
    std::this_thread::sleep_for(1ms);
    again = fork_as(pid);
  }
  if (again == 0) {
    Session session{segment_};
    Lock lock{session, "z"};
    say(line[1], lock.acquire(me) ? 'h' : 'x');
    ::pause();
  }
  if (again < 0) GTEST_SKIP() << "no permission to choose the pid of a child";
  const std::shared_ptr<void> ended(nullptr, [again](void*) {
    ::kill(again, SIGKILL);
    ::waitpid(again, nullptr, 0);
  });
  char joined = 0;
  EXPECT_EQ(::read(line[0], &joined, 1), 1);
  EXPECT_EQ(joined, 'h');
  EXPECT_EQ(again, pid);
  EXPECT_NE(process::start_time_of(pid), started) << "else this test shows nothing";
  {
    Session session{segment_};
    for (const char* const name : {"x", "y"}) {
      Lock lock{session, name};
      const AcquireOutcome got = lock.try_acquire(HolderId("next"));
      ASSERT_TRUE(got) << name;
      ASSERT_TRUE(got.previous) << name;
      EXPECT_EQ(got.previous->why, Loss::died) << name;
      EXPECT_EQ(got.previous->pid, pid) << name;
    }
    Lock theirs{session, "z"};
    EXPECT_EQ(theirs.try_acquire(HolderId("next")).result, AcquireResult::busy);
  }
  ::close(line[0]);
  ::close(line[1]);
}

// exec is the end of a session, though the process lives on under the same pid and with the same start time.
TEST_F(SurroundingsTest, ExecWhileHoldingFreesTheLock) {
  const test::Common<Word32> go;
  Child holder([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    say(ready, lock.acquire(me) ? 'h' : 'x');
    while (RealPolicy::load(*go) == 0) std::this_thread::sleep_for(1ms);
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
    ::_exit(1);
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session{segment_};
  Lock lock{session, "x"};
  ASSERT_EQ(lock.try_acquire(HolderId("next")).result, AcquireResult::busy);
  RealPolicy::store(*go, 1);
  const AcquireOutcome got = lock.acquire(HolderId("next"), {}, 20s);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->why, Loss::died);
  EXPECT_EQ(::kill(holder.pid(), 0), 0);
}

// The file is deleted under a holder and a waiter, and the holder gives the lock back before anybody has noticed: the
// waiter must not begin a hold where the next users do not look.
TEST_F(SurroundingsTest, NoHoldBeginsInADeletedFile) {
  Session session{segment_};
  Lock lock{session, "x"};
  ASSERT_TRUE(lock.acquire(me));
  Child waiter([&](int ready) {
    Session own{segment_};
    Lock theirs{own, "x"};
    std::error_code ec;
    const AcquireOutcome got = theirs.acquire(HolderId("waiter"), {}, std::nullopt, {}, ec);
    say(ready, ec == Errc::segment_gone ? 'g' : got ? 'a' : 'x');
  });
  const auto& mapping = *detail::Access::mapping(segment_);
  const auto queued = [&] {
    for (const auto& e : process::take_snapshot(mapping, RealPolicy::now_ns()).entries) {
      if (e.phase == engine::Phase::waiting) return true;
    }
    return false;
  };
  while (!queued()) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(5ms);  // who waits less than one is not asked
  ASSERT_EQ(::unlink(mapping.path().c_str()), 0);
  std::error_code ec;
  (void)lock.release(me, ec);
  EXPECT_EQ(waiter.next(), 'g');
  EXPECT_NO_THROW(Segment::create(name_));
}

// A cleaner (logind's RemoveIPC, a tmp reaper) deletes the file under a holder and a waiter, and somebody makes a new
// segment of that name. Both are told; neither goes on in a segment that nobody else can find.
TEST_F(SurroundingsTest, AFileThatIsReplacedUnderThemIsALostHold) {
  Child holder([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    lock.on_lost([&](const HolderId&, const Lost&) { say(ready, 'l'); });
    say(ready, lock.acquire(me) ? 'h' : 'x');
    for (char told = 0; told == 0; std::this_thread::sleep_for(5ms)) {
      try {
        (void)lock.heartbeat(me);
      } catch (const Error& e) {
        told = e.errc() == Errc::segment_gone ? 'g' : 'x';
        say(ready, told);
      }
    }
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  Child waiter([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    say(ready, 'w');
    std::error_code ec;
    (void)lock.acquire(HolderId("waiter"), {}, std::nullopt, {}, ec);
    say(ready, ec == Errc::segment_gone ? 'g' : 'x');
  });
  ASSERT_EQ(waiter.next(), 'w');
  const auto& mapping = *detail::Access::mapping(segment_);
  const auto queued = [&] {
    for (const auto& e : process::take_snapshot(mapping, RealPolicy::now_ns()).entries) {
      if (e.phase == engine::Phase::waiting) return true;
    }
    return false;
  };
  while (!queued()) std::this_thread::sleep_for(1ms);
  ASSERT_EQ(::unlink(mapping.path().c_str()), 0);
  Child next([&](int ready) {
    auto fresh = Segment::create(name_);
    Session session{fresh};
    Lock lock{session, "x"};
    say(ready, lock.try_acquire(HolderId("next")) ? 'h' : 'x');
    ::pause();
  });
  EXPECT_EQ(next.next(), 'h');
  std::string told{holder.next(), holder.next()};
  EXPECT_TRUE(told == "lg" || told == "gl") << told;
  EXPECT_EQ(waiter.next(), 'g');
}

}  // namespace
}  // namespace shmcoord
