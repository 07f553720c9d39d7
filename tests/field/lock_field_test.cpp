#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/face.hpp"
#include "process/recovery.hpp"
#include "support/common.hpp"
#include "support/face_fixture.hpp"
#include "support/long_form.hpp"

// Faults that users of locks really met, with real processes. The number in a name is the case's.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using engine::RealPolicy;
using engine::Word32;
using test::long_form;
using testing::Child;
using testing::say;

class FieldTest : public testing::FaceTest {
 protected:
  /// A child in the queue for "x" (when this returns), which says 'h' when it holds, 'r' when it released, and stays.
  std::unique_ptr<Child> waiter(const std::string& holder) {
    const auto before = waiters();
    auto child = std::make_unique<Child>([this, holder](int ready) {
      Session session{segment_};
      Lock lock{session, "x"};
      const HolderId me{holder};
      if (lock.acquire(me)) say(ready, 'h');
      if (lock.release(me).result == ReleaseResult::released) say(ready, 'r');
      ::pause();
    });
    while (waiters() == before) std::this_thread::sleep_for(1ms);
    return child;
  }
};

const HolderId me{"tester"};

TEST_F(FieldTest, F7_FiftyWaitersFourOfThemKilled) {
  Session session{segment_};
  Lock lock{session, "x"};
  ASSERT_TRUE(lock.try_acquire(me));
  std::vector<std::unique_ptr<Child>> queue;
  for (int i = 1; i <= 50; ++i) queue.push_back(waiter("w" + std::to_string(i)));
  for (const std::size_t n : {1U, 7U, 8U, 50U}) {
    queue[n - 1]->kill(SIGKILL);
    queue[n - 1]->wait();
  }
  ASSERT_EQ(lock.release(me).result, ReleaseResult::released);
  for (std::size_t n = 1; n <= 50; ++n) {
    if (n == 1 || n == 7 || n == 8 || n == 50) continue;
    ASSERT_EQ(queue[n - 1]->next(), 'h') << n;
    ASSERT_EQ(queue[n - 1]->next(), 'r') << n;
  }
  EXPECT_TRUE(lock.acquire(me, {}, 10s));
}

TEST_F(FieldTest, F6_WaitersKilledInRandomOrder) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  Session session{segment_};
  Lock lock{session, "x"};
  for (int round = 0; round < (long_form() ? 100 : 5); ++round) {
    ASSERT_TRUE(lock.acquire(me, {}, 20s));
    std::vector<std::unique_ptr<Child>> queue;
    for (int i = 0; i < 12; ++i) queue.push_back(waiter("w" + std::to_string(i)));
    std::vector<std::size_t> order(queue.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    std::vector<bool> dead(queue.size());
    for (std::size_t k = 0; k < order.size() / 2; ++k) {
      queue[order[k]]->kill(SIGKILL);
      if (random() % 2 == 0) queue[order[k]]->wait();
      dead[order[k]] = true;
    }
    ASSERT_EQ(lock.release(me).result, ReleaseResult::released);
    for (std::size_t i = 0; i < queue.size(); ++i) {
      if (!dead[i]) {
        ASSERT_EQ(queue[i]->next(), 'h') << i;
      }
    }
  }
}

// A holder dies while another thread of it is inside a system call that outlives the notice: writing a file under the
// lock. The next holder must not be in before that write is over.
TEST_F(FieldTest, NobodyEntersWhileASiblingThreadIsInsideASystemCall) {
  const std::string path = "/var/tmp/" + name_ + ".data";
  int violations = 0;
  for (int round = 0; round < (long_form() ? 200 : 15); ++round) {
    Child holder([&](int ready) {
      Session session{segment_};
      Lock lock{session, "x"};
      (void)lock.acquire(me);
      const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
      std::thread writer([&] {
        void* const buffer = std::aligned_alloc(4096, 8 << 20);
        for (;;) (void)!::pwrite(fd, buffer, 8 << 20, 0);
      });
      std::this_thread::sleep_for(5ms);
      say(ready, 'h');
      writer.join();
    });
    ASSERT_EQ(holder.next(), 'h');
    Session session{segment_};
    Lock lock{session, "x"};
    holder.kill(SIGKILL);
    ASSERT_TRUE(lock.acquire(HolderId("next"), {}, 20s));
    // Is any task of it still running? Then its write may still be in flight.
    const std::string tasks = "/proc/" + std::to_string(holder.pid()) + "/task";
    for (int tid = holder.pid(); tid < holder.pid() + 8; ++tid) {
      std::string stat(512, '\0');
      const int fd = ::open((tasks + "/" + std::to_string(tid) + "/stat").c_str(), O_RDONLY);
      if (fd < 0) continue;
      stat.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(fd, stat.data(), stat.size()))));
      ::close(fd);
      const std::size_t at = stat.rfind(')');
      if (at == std::string::npos || at + 2 >= stat.size()) continue;
      if (stat[at + 2] == 'R' || stat[at + 2] == 'D') {
        // PF_EXITING is bit 2 of field 9: past its last system call.
        std::size_t field = at + 4;
        for (int skip = 0; skip < 5; ++skip) field = stat.find(' ', field) + 1;
        if ((std::stoul(stat.substr(field)) & 4U) == 0) ++violations;
      }
    }
    (void)lock.release(HolderId("next"));
  }
  ::unlink(path.c_str());
  EXPECT_EQ(violations, 0);
}

// F27: stopped past its threshold, robbed, continued: its guarded calls fail and it is told.
TEST_F(FieldTest, F27_StoppedHolderIsFenced) {
  const test::Common<Word32> go;
  Child holder([&](int ready) {
    Session session{segment_, {.heartbeat_interval = 100ms}};
    Lock lock{session, "x", {.stale_threshold = 500ms, .heartbeat_interval = 100ms}};
    std::uint64_t token = 0;
    lock.on_lost([&](const HolderId&, const Lost& lost) { say(ready, lost.why == Loss::stale ? 'l' : 'x'); });
    const AcquireOutcome got = lock.acquire(me);
    token = got.token;
    say(ready, 'h');
    while (RealPolicy::load(*go) == 0) std::this_thread::sleep_for(1ms);
    const bool fenced = !lock.is_current(token) && lock.heartbeat(me).result == HeartbeatResult::not_owner &&
                        lock.release(me).result == ReleaseResult::not_owner;
    say(ready, fenced ? 'f' : 'x');
  });
  ASSERT_EQ(holder.next(), 'h');
  Session session{segment_, {.heartbeat_interval = 100ms}};
  Lock lock{session, "x"};
  holder.kill(SIGSTOP);
  const AcquireOutcome taken = lock.acquire(HolderId("next"), {}, 30s);
  EXPECT_EQ(taken.result, AcquireResult::reclaimed);
  EXPECT_EQ(taken.previous->why, Loss::stale);
  holder.kill(SIGCONT);
  EXPECT_EQ(holder.next(), 'l');
  RealPolicy::store(*go, 1);
  EXPECT_EQ(holder.next(), 'f');
  EXPECT_TRUE(lock.is_current(taken.token));
}

// F28: a waiter whose session was ended by others leaves the queue with a clear error.
TEST_F(FieldTest, F28_FencedWaiterLeavesWithAnError) {
  Session holder{segment_};
  Lock held{holder, "x"};
  ASSERT_TRUE(held.try_acquire(me));
  Session waiting{segment_};
  Lock wanted{waiting, "x"};
  std::error_code ec;
  std::thread thread([&] { (void)wanted.acquire(HolderId("waiter"), {}, std::nullopt, {}, ec); });
  while (waiters() == 0) std::this_thread::sleep_for(1ms);
  const auto& participant = *detail::Access::state(waiting)->participant;
  ASSERT_TRUE(process::fence(participant.mapping(), participant.slot(), participant.incarnation()));
  thread.join();
  EXPECT_EQ(ec, Errc::session_dead);
  EXPECT_EQ(waiters(), 0U);
}

// F16, F17: holder, waiter and contender are all PID 1 of their own PID namespaces.
class NamespaceTest : public FieldTest {
 protected:
  /// Runs `body` as PID 1 of a new PID namespace.
  std::unique_ptr<Child> in_namespace(const std::function<void(int ready)>& body) {
    return std::make_unique<Child>([body](int ready) {
      if (::unshare(CLONE_NEWPID) != 0) ::_exit(77);
      const pid_t inner = ::fork();
      if (inner == 0) {
        body(ready);
        ::_exit(0);
      }
      ::waitpid(inner, nullptr, 0);
      ::_exit(0);
    });
  }
  static bool may_unshare() { return ::geteuid() == 0; }
};

TEST_F(NamespaceTest, F16_EqualPidsAreNotMistaken) {
  if (!may_unshare()) GTEST_SKIP() << "a new PID namespace needs root";
  struct Shared {
    Word32 die;
  };
  const test::Common<Shared> s;
  auto holder = in_namespace([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    if (::getpid() != 1 || !lock.acquire(me)) ::_exit(1);
    say(ready, 'h');
    while (RealPolicy::load(s->die) == 0) std::this_thread::sleep_for(1ms);
    ::abort();
  });
  ASSERT_EQ(holder->next(), 'h');
  auto contender = in_namespace([&](int ready) {
    Session session{segment_};
    Lock lock{session, "x"};
    const AcquireOutcome busy = lock.try_acquire(HolderId("contender"));
    say(ready, ::getpid() == 1 && busy.result == AcquireResult::busy ? 'b' : 'x');
    const AcquireOutcome got = lock.acquire(HolderId("contender"), {}, 30s);
    say(ready, got && got.previous && got.previous->why == Loss::died ? 'd' : 'x');
  });
  ASSERT_EQ(contender->next(), 'b');
  RealPolicy::store(s->die, 1);
  EXPECT_EQ(contender->next(), 'd');
}

TEST_F(NamespaceTest, F17_DeadOrLateWaiterOfAnotherNamespaceLetsNobodyIn) {
  if (!may_unshare()) GTEST_SKIP() << "a new PID namespace needs root";
  const test::Common<Word32> die;
  Session session{segment_};
  Lock lock{session, "x"};
  ASSERT_TRUE(lock.try_acquire(me));
  auto late = in_namespace([&](int ready) {
    Session mine{segment_};
    Lock wanted{mine, "x"};
    say(ready, wanted.acquire(HolderId("late"), {}, 50ms).result == AcquireResult::timed_out ? 't' : 'x');
  });
  auto killed = in_namespace([&](int) {
    Session mine{segment_};
    Lock wanted{mine, "x"};
    std::thread suicide([&] {
      while (RealPolicy::load(*die) == 0) std::this_thread::sleep_for(1ms);
      ::abort();
    });
    (void)wanted.acquire(HolderId("killed"));
    ::pause();
  });
  EXPECT_EQ(late->next(), 't');
  while (waiters() == 0) std::this_thread::sleep_for(1ms);
  RealPolicy::store(*die, 1);
  EXPECT_EQ(killed->next(), '\0');
  Session other{segment_};
  Lock theirs{other, "x"};
  EXPECT_EQ(theirs.try_acquire(HolderId("other")).result, AcquireResult::busy);
  EXPECT_EQ(lock.heartbeat(me).result, HeartbeatResult::refreshed);
  EXPECT_EQ(lock.release(me).result, ReleaseResult::released);
  EXPECT_TRUE(theirs.acquire(HolderId("other"), {}, 20s));
}

// F34 in short: every hand-off arrives. The long form makes ten million.
TEST_F(FieldTest, F34_NoHandOffIsForgotten) {
  const int each = long_form() ? 2'500'000 : 20'000;
  struct Shared {
    std::int64_t counter;
  };
  const test::Common<Shared> s;
  std::vector<std::unique_ptr<Child>> children;
  for (int p = 0; p < 4; ++p) {
    children.push_back(std::make_unique<Child>([&](int) {
      Session session{segment_};
      Lock lock{session, "x"};
      for (int i = 0; i < each; ++i) {
        lock.lock();
        const std::int64_t seen = *static_cast<volatile std::int64_t*>(&s->counter);
        *static_cast<volatile std::int64_t*>(&s->counter) = seen + 1;
        lock.unlock();
      }
    }));
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(s->counter, std::int64_t{4} * each);
}

// Slots are reused at once and many times: no life of one is taken for another's.
TEST_F(FieldTest, ExclusionHoldsWhileSlotsAreReused) {
  struct Shared {
    Word32 inside;
    Word32 violations;
    Word32 stop;
  };
  const test::Common<Shared> s;
  std::vector<std::unique_ptr<Child>> steady;
  for (int p = 0; p < 2; ++p) {
    steady.push_back(std::make_unique<Child>([&](int) {
      Session session{segment_};
      Lock lock{session, "x"};
      while (RealPolicy::load(s->stop) == 0) {
        lock.lock();
        if (lock.previous()) RealPolicy::store(s->inside, 0);  // the one before died inside
        if (RealPolicy::add(s->inside, 1) != 0) RealPolicy::add(s->violations, 1);
        RealPolicy::add(s->inside, ~0U);
        lock.unlock();
      }
    }));
  }
  for (int i = 0; i < (long_form() ? 2'000 : 60); ++i) {
    Child brief([&](int ready) {
      Session session{segment_};
      Lock lock{session, "x"};
      lock.lock();
      if (lock.previous()) RealPolicy::store(s->inside, 0);
      if (RealPolicy::add(s->inside, 1) != 0) RealPolicy::add(s->violations, 1);
      say(ready, 'h');
      ::pause();
    });
    ASSERT_EQ(brief.next(), 'h');
    brief.kill(SIGKILL);
    brief.wait();
  }
  RealPolicy::store(s->stop, 1);
  for (auto& child : steady) EXPECT_EQ(child->wait(), 0);
  EXPECT_EQ(RealPolicy::load(s->violations), 0U);
}

}  // namespace
}  // namespace shmcoord
