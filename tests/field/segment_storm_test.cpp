#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "process/face.hpp"
#include "process/identity.hpp"
#include "support/child_pool.hpp"
#include "support/common.hpp"
#include "support/face_fixture.hpp"
#include "support/long_form.hpp"
#include "support/process_child.hpp"

// One segment name under many processes, threads and users at once.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using test::ChildPool;
using test::Common;
using test::ended_or_killed;
using test::long_form;
using test::start_child;
using Clock = std::chrono::steady_clock;

/// Who is inside of the lock of which segment: one cell for each segment that there ever was.
class Inside {
 public:
  /// False: somebody else is, and is not on its way out.
  bool enter(std::uint64_t segment) {
    std::atomic<pid_t>& who = cell(segment).who;
    const pid_t before = who.exchange(::getpid());
    return before == 0 || exiting(before);
  }
  void leave(std::uint64_t segment) { cell(segment).who = 0; }

 private:
  struct Cell {
    std::atomic<std::uint64_t> segment;
    std::atomic<pid_t> who;
  };
  static constexpr std::size_t cells = 1U << 20U;

  static bool exiting(pid_t pid) {
    // No task of a process that its lock was taken from runs user code any more.
    const process::ProcessState state = process::process_state(pid, 0, process::own_pid_namespace());
    return state == process::ProcessState::gone || state == process::ProcessState::exiting;
  }
  Cell& cell(std::uint64_t segment) {
    for (std::size_t i = segment % cells;; i = (i + 1) % cells) {
      std::uint64_t seen = 0;
      if (cells_[i].segment.compare_exchange_strong(seen, segment) || seen == segment) return cells_[i];
    }
  }

  Common<Cell> cells_{cells};
};

// F10, with all that a program does: join, lock, be killed anywhere, remove the segment under the others.
TEST(SegmentStorm, F10_SixteenProcessesCreateOpenCrashAndRemove) {
  constexpr std::size_t processes = 16;
  const std::string name = "test-storm-" + std::to_string(::getpid());
  const SegmentOptions options{.names = 64, .entries = 512, .sessions = 64};
  Inside inside;
  enum Count : std::size_t { joined, held, removed, violations, lost, counts };
  const Common<std::atomic<std::uint64_t>> count(counts);
  const auto body = [&](unsigned seed) {
    std::minstd_rand random(seed);
    ::alarm(60);
    for (;;) {
      try {
        const Segment segment = Segment::open_or_create(name, options);
        const std::uint64_t id = detail::Access::mapping(segment)->view().header().segment_id;
        Session session{segment};
        ++count[joined];
        Lock lock{session, "x"};
        for (int i = 0; i < 4; ++i) {
          if (!lock.try_lock_for(20ms)) continue;
          // A removed segment excludes nobody; who holds there is told that it lost.
          if (!inside.enter(id) && !lock.lost()) ++count[violations];
          ++count[held];
          const auto dice = random() % 64;
          if (dice == 0) ::kill(::getpid(), SIGKILL);
          if (dice < 16) ::sched_yield();
          inside.leave(id);
          lock.unlock();
        }
        if (random() % 16 == 0) return 0;
        if (random() % 8 == 0) {
          Segment::remove(name, true);
          ++count[removed];
        }
      } catch (const Error& e) {
        if (e.errc() != Errc::segment_gone && e.errc() != Errc::segment_not_found) throw;
        ++count[lost];
      }
    }
  };
  const unsigned first_seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(first_seed));
  std::minstd_rand random(first_seed);
  std::uint64_t crashed = 0;
  ChildPool pool(processes, first_seed,
                 [&](std::size_t, unsigned seed) { return start_child([&] { return body(seed); }); });
  const auto until = Clock::now() + (long_form() ? 180s : 1500ms);
  const auto goes_on = [&] {
    const bool raged = count[held] > 100U && count[removed] > 0U && crashed > 0U;
    return Clock::now() < until + (raged ? 0s : 60s);  // where others have the CPUs, it takes its time
  };
  while (goes_on() && !::testing::Test::HasFailure()) {
    const auto ended = pool.take_ended();
    if (!ended) {
      if (random() % 256 == 0) pool.signal(random() % processes, SIGKILL);
      std::this_thread::sleep_for(100us);
      continue;
    }
    EXPECT_TRUE(ended_or_killed(ended->status)) << "status " << ended->status;
    if (ended->status != 0) ++crashed;
    pool.start_at(ended->place);
  }
  pool.end();
  std::cout << "joined " << count[joined] << ", held " << count[held] << ", removed " << count[removed] << ", crashed "
            << crashed << ", lost the segment " << count[lost] << " times\n";
  EXPECT_EQ(count[violations], 0U);
  EXPECT_GT(count[held], 100U);
  EXPECT_GT(count[removed], 0U);
  EXPECT_GT(crashed, 0U);
  // What is left serves the next one, at once and whole.
  const Segment segment = Segment::open_or_create(name, options);
  Session session{segment};
  Lock lock{session, "x"};
  EXPECT_TRUE(lock.acquire(HolderId{"last"}, {}, 20s));
  test::expect_sound(*detail::Access::mapping(segment));
  session.leave();
  Segment::remove(name, true);
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    EXPECT_EQ(file.path().filename().string().find(name), std::string::npos) << file.path();
  }
}

class StormTest : public testing::FaceTest {};

// F23: the children have copies of handles and of mutexes that threads held which they do not have.
TEST_F(StormTest, F23_EightThreadsWhileOneForksAThousandTimes) {
  Session session{segment_};
  Lock kept{session, "kept"};
  const HolderId me{"me"};
  const std::uint64_t token = kept.acquire(me).token;
  Lock shared{session, "shared"};
  std::atomic<std::uint64_t> rounds{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t](const std::stop_token& stop) {
      const HolderId mine{"pair:" + std::to_string(t / 2)};  // one waits for the other's outcome
      while (!stop.stop_requested()) {
        Lock own{session, "own:" + std::to_string(t % 4)};
        if (own.try_acquire(mine)) (void)own.release(mine);
        if (shared.try_lock_for(5ms)) shared.unlock();
        if (shared.acquire(mine, {.reason = "busy"}, 5ms)) (void)shared.release(mine);
        (void)kept.is_current(token);
        (void)shared.holder();
        if (t == 0) {
          own.on_lost([](const HolderId&, const Lost&) {});
          Session another{session.segment()};
        }
        ++rounds;
      }
    });
  }
  const auto child = [&](int n) {
    ::alarm(20);
    const auto refused = [](const auto& call) {
      try {
        call();
      } catch (const Error& e) {
        return e.errc() == Errc::not_a_participant;
      }
      return false;
    };
    if (!refused([&] { (void)kept.release(me); })) return 1;
    if (!refused([&] { (void)shared.try_acquire(me); })) return 2;
    if (!refused([&] { shared.lock(); })) return 3;
    if (!refused([&] { (void)shared.try_lock(); })) return 4;
    if (!refused([&] { const Lock lock(session, "own:1"); })) return 5;
    if (!refused([&] { (void)kept.is_current(token); })) return 6;
    if (!refused([&] { (void)kept.heartbeat(me); })) return 7;
    if (!refused([&] { (void)shared.wait_fd(me); })) return 8;
    if (!refused([&] { shared.cancel_wait(me); })) return 9;
    if (!refused([&] { Lock::remove(session, "kept", true); })) return 10;
    if (!refused([&] { (void)kept.holder(); })) return 11;
    if (!refused([&] { shared.on_lost([](const HolderId&, const Lost&) {}); })) return 12;
    if (session.alive() || kept.stands(me, token)) return 13;
    (void)shared.lost();
    (void)shared.token();
    shared.unlock();
    { const Lock gone(std::move(shared)); }
    { const Lock gone(std::move(kept)); }
    session.leave();
    { const Session gone(std::move(session)); }
    if (n % 8 != 0) return 0;
    Session anew{segment_};
    Lock lock{anew, "kept"};
    return lock.try_acquire(HolderId{"child"}).result == AcquireResult::busy ? 0 : 14;
  };
  for (int n = 0; n < (long_form() ? 1000 : 300); ++n) {
    const pid_t pid = start_child([&] { return child(n); });
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(WIFEXITED(status)) << "child " << n << " ended by signal " << WTERMSIG(status);
    ASSERT_EQ(WEXITSTATUS(status), 0) << "child " << n;
    if (n % 100 == 0) {
      EXPECT_TRUE(kept.is_current(token));
    }
  }
  EXPECT_TRUE(test::eventually([&] { return rounds > 100U; }));
  threads.clear();
  EXPECT_TRUE(session.alive());
  EXPECT_EQ(kept.heartbeat(me).result, HeartbeatResult::refreshed);
  EXPECT_EQ(kept.release(me).result, ReleaseResult::released);
}

// A condition variable with waiters cannot be destroyed, and in the child they never go away.
TEST_F(StormTest, F23_AChildDestroysHandlesThatThreadsWaitIn) {
  Session other{segment_};
  Lock theirs{other, "x"};
  ASSERT_TRUE(theirs.try_acquire(HolderId{"other"}));
  Session session{segment_};
  Lock lock{session, "x"};
  const HolderId me{"me"};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back([&] { (void)lock.acquire(me, {}, 60s); });  // all for one holder
  for (int n = 0; n < 50; ++n) {
    const pid_t pid = start_child([&] {
      ::alarm(20);
      { const Lock gone(std::move(lock)); }
      { const Session gone(std::move(session)); }
      return 0;
    });
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0) << "child " << n;
    if (HasFailure()) break;
    std::this_thread::yield();
  }
  EXPECT_EQ(theirs.release(HolderId{"other"}).result, ReleaseResult::released);
}

/// What one of many creators of different users came to.
struct Creator {
  Errc error{};
  uid_t owner = 0;
  mode_t mode = 0;
  gid_t group = 0;
};

// F41: one of them wins; the mode and group asked for are those there are; who trusts the winner is in, and all others
// are told both uids.
TEST(SegmentStorm, F41_CreatorsOfDifferentUsersWithUmask077) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of several users";
  constexpr std::size_t processes = 12;
  constexpr uid_t first_uid = 4000;
  constexpr gid_t group = 4100;
  char pattern[] = "/dev/shm/shmcoord-test.XXXXXX";
  const std::string directory = ::mkdtemp(pattern);
  ASSERT_EQ(::chmod(directory.c_str(), 01777), 0);
  const std::string path = directory + "/segment";
  const Common<Creator> creators(processes);
  const Common<std::atomic<int>> gate;
  for (int round = 0; round < (long_form() ? 300 : 20) && !::testing::Test::HasFailure(); ++round) {
    *gate = 0;
    std::vector<pid_t> children;
    for (std::size_t i = 0; i < processes; ++i) {
      children.push_back(start_child([&, i] {
        const uid_t uid = first_uid + static_cast<uid_t>(i % 4);
        ::alarm(60);
        ::umask(077);
        if (::setgroups(1, &group) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) {
          return 2;
        }
        creators[i] = {};
        while (*gate == 0) ::sched_yield();
        try {
          const Segment segment = Segment::open_or_create(
              path,
              {.mode = 0660, .group = group, .names = 8, .entries = 512, .sessions = 32, .trusted_owner = first_uid});
          struct stat st {};
          ::fstat(detail::Access::mapping(segment)->fd(), &st);
          creators[i] = {Errc{}, st.st_uid, st.st_mode & 07777U, st.st_gid};
          Session session{segment};
          Lock lock{session, "x"};
          if (!lock.try_lock_for(20s)) return 3;
          lock.unlock();
        } catch (const Error& e) {
          creators[i].error = e.errc();
          const std::string text = e.what();
          const bool both = text.find("this process is uid " + std::to_string(uid)) != std::string::npos &&
                            text.find("it belongs to uid ") != std::string::npos;
          return both ? 0 : 4;
        }
        return 0;
      }));
    }
    *gate = 1;
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    struct stat st {};
    ASSERT_EQ(::stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777U, 0660U);
    EXPECT_EQ(st.st_gid, group);
    for (std::size_t i = 0; i < processes; ++i) {
      const uid_t uid = first_uid + static_cast<uid_t>(i % 4);
      const bool trusts = st.st_uid == uid || st.st_uid == first_uid;
      EXPECT_EQ(creators[i].error, trusts ? Errc{} : Errc::no_permission) << "uid " << uid << " owner " << st.st_uid;
      if (!trusts) continue;
      EXPECT_EQ(creators[i].owner, st.st_uid);
      EXPECT_EQ(creators[i].mode, 0660U);
      EXPECT_EQ(creators[i].group, group);
    }
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory)) ++files;
    EXPECT_EQ(files, 1U);
    ASSERT_EQ(::unlink(path.c_str()), 0);
  }
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace shmcoord
