#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "process/participant.hpp"
#include "support/process_child.hpp"

// F30, for sessions that do nothing at all. What they cost is how often they wake: counted, not timed, against
// processes of the same program that are in no session (a sanitizer has a thread of its own that wakes).

namespace shmcoord::process {
namespace {

using test::Child;
using test::OwnSegment;

/// How often the threads of this process went to sleep by themselves.
std::int64_t sleeps() {
  std::int64_t sum = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      std::int64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) sum += count;
    }
  }
  return sum;
}

constexpr std::chrono::seconds idle_time{3};

/// Wakes of `processes` children together, each of which called begin() before.
template <class Begin>
std::int64_t wakes_while_idle(int processes, const Begin& begin) {
  const test::Common<std::atomic<std::int64_t>> woken;
  std::vector<Child> children;
  for (int n = 0; n < processes; ++n) {
    children.emplace_back([&](const Child::Line& line) {
      [[maybe_unused]] const auto kept = begin();
      line.ready();
      line.await_go();
      const std::int64_t before = sleeps();
      line.ready();
      line.await_go();
      *woken += sleeps() - before;
      return 0;
    });
    EXPECT_EQ(children.back().wait_ready(), 0);
  }
  for (const Child& c : children) c.go();
  for (const Child& c : children) EXPECT_EQ(c.wait_ready(), 0);
  std::this_thread::sleep_for(idle_time);
  for (const Child& c : children) c.go();
  for (Child& c : children) EXPECT_EQ(c.wait(), 0);
  return *woken;
}

TEST(Idle, HundredSessionsHardlyEverWake) {
  const OwnSegment segment({.names = 16, .entries = 256, .sessions = 128});
  constexpr int sessions = 100;
  const std::int64_t bare = wakes_while_idle(sessions, [] { return 0; });
  const std::int64_t joined = wakes_while_idle(sessions, [&] { return Participant::join(segment.mapping()); });
  std::printf("%d idle sessions for %d s: %lld wakes, %lld of them without a session\n", sessions,
              static_cast<int>(idle_time.count()), static_cast<long long>(joined), static_cast<long long>(bare));
  EXPECT_GE(bare, sessions);  // each slept at least while it waited for its parent: the count counts
  // A keeper looks around once a second, and its heart beats every 15 s; whoever polls for anything wakes more often.
  EXPECT_LE(joined - bare, sessions * (idle_time.count() + 2));
}

}  // namespace
}  // namespace shmcoord::process
