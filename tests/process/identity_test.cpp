#include "process/identity.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include "engine/random.hpp"
#include "support/process_child.hpp"

namespace shmcoord::process {
namespace {

using test::Child;
using test::eventually;

TEST(Stat, NamesMayContainAnything) {
  const auto line = parse_stat(
      "42 (a b) c) (d) S 1 42 42 0 -1 4194564 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 2 18446744073709551615\n");
  ASSERT_TRUE(line);
  EXPECT_EQ(line->comm, "a b) c) (d");
  EXPECT_EQ(line->state, 'S');
  EXPECT_EQ(line->flags, 4194564U);
  EXPECT_EQ(line->start_time, 987654U);
}

TEST(Stat, RefusesWhatIsCutOrNotNumbers) {
  EXPECT_FALSE(parse_stat(""));
  EXPECT_FALSE(parse_stat("42 (x"));
  EXPECT_FALSE(parse_stat("42 )x( S 1"));
  EXPECT_FALSE(parse_stat("42 (x) S 1 42 42"));
  EXPECT_FALSE(parse_stat("42 (x) S 1 42 42 0 -1 flags 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000"));
}

TEST(Identity, OfThisProcess) {
  EXPECT_NE(boot_number(), 0U);
  EXPECT_NE(own_pid_namespace(), 0U);
  EXPECT_GT(start_time_of(::getpid()).value_or(0), 0U);
  EXPECT_NE(command_of(::getpid()).find("identity_test"), std::string::npos);
  EXPECT_NE(engine::random_word(), engine::random_word());
  EXPECT_EQ(process_state(::getpid(), *start_time_of(::getpid()), own_pid_namespace()), ProcessState::running);
}

TEST(Identity, AnotherNamespaceIsUnknown) {
  EXPECT_EQ(process_state(::getpid(), 0, own_pid_namespace() + 1), ProcessState::unknown);
  EXPECT_EQ(process_state(::getpid(), 0, 0), ProcessState::unknown);
}

TEST(Identity, ReusedPidIsGone) {
  EXPECT_EQ(process_state(::getpid(), *start_time_of(::getpid()) + 1, own_pid_namespace()), ProcessState::gone);
}

TEST(Identity, ZombieIsExitingAndThenGone) {
  Child child([](const Child::Line&) { return 0; });
  const pid_t pid = child.pid();
  EXPECT_TRUE(eventually([&] { return process_state(pid, 0, own_pid_namespace()) == ProcessState::exiting; }));
  child.wait();
  EXPECT_EQ(process_state(pid, 0, own_pid_namespace()), ProcessState::gone);
}

// F18: the leader has ended, its other threads have not.
TEST(Identity, ZombieLeaderWithLiveThreadsRuns) {
  Child child([](const Child::Line& line) {
    pthread_t thread{};
    static const Child::Line* told;
    told = &line;
    pthread_create(
        &thread, nullptr,
        [](void*) -> void* {
          told->ready();
          told->await_go();
          ::_exit(0);
        },
        nullptr);
    ::syscall(SYS_exit, 0);  // of this thread only
    return 0;
  });
  ASSERT_EQ(child.wait_ready(), 0);
  const std::string stat = "/proc/" + std::to_string(child.pid()) + "/stat";
  ASSERT_TRUE(eventually([&] {
    FILE* const f = ::fopen(stat.c_str(), "r");
    char text[512] = {};
    static_cast<void>(!::fread(text, 1, sizeof text - 1, f));
    ::fclose(f);
    return parse_stat(text)->state == 'Z';
  }));
  EXPECT_EQ(process_state(child.pid(), 0, own_pid_namespace()), ProcessState::running);
  child.go();
  EXPECT_TRUE(eventually([&] { return process_state(child.pid(), 0, own_pid_namespace()) == ProcessState::exiting; }));
}

// F16, F20: a /proc that was mounted for another PID namespace speaks of other processes by the same numbers.
TEST(Identity, AForeignProcTellsOnlyOfOurselves) {
  Child child([](const Child::Line& line) {
    if (::unshare(CLONE_NEWPID) != 0) return 1;
    const pid_t inner = ::fork();
    if (inner == 0) {
      const bool right = ::getpid() == 1 && !proc_shows_own_namespace() && !start_time_of(1) && own_start_time() &&
                         own_command().find("identity_test") != std::string::npos &&
                         process_state(1, *own_start_time() + 1, own_pid_namespace()) == ProcessState::unknown &&
                         sight_of(1, own_pid_namespace()) == Sight::hidden;
      line.ready(right ? 1 : 0);
      ::_exit(0);
    }
    ::waitpid(inner, nullptr, 0);
    return 0;
  });
  const std::int64_t right = child.wait_ready();
  if (right < 0 && child.wait() == 1) GTEST_SKIP() << "no permission to make a PID namespace";
  EXPECT_EQ(right, 1);
}

TEST(Identity, WhoCanBeSeen) {
  EXPECT_EQ(sight_of(::getpid(), own_pid_namespace()), Sight::seen);
  EXPECT_EQ(sight_of(::getpid(), own_pid_namespace() + 1), Sight::elsewhere);
  EXPECT_EQ(sight_of(::getpid(), 0), Sight::unknown);
  Child child([](const Child::Line&) { return 0; });
  const pid_t pid = child.pid();
  child.wait();
  EXPECT_EQ(sight_of(pid, own_pid_namespace()), Sight::seen) << "gone is known too";
}

}  // namespace
}  // namespace shmcoord::process
