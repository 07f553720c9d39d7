#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>
#include <vector>

#include "process/participant.hpp"
#include "support/process_child.hpp"

// F30, for sessions that do nothing at all: 100 processes, under 1 % of one CPU together.

namespace shmcoord::process {
namespace {

using test::Child;
using test::OwnSegment;

std::int64_t cpu_ns() {
  rusage u{};
  ::getrusage(RUSAGE_SELF, &u);
  const auto ns = [](const timeval& t) { return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_usec * 1'000; };
  return ns(u.ru_utime) + ns(u.ru_stime);
}

TEST(Idle, HundredSessionsCostNothing) {
  OwnSegment segment({.names = 16, .entries = 256, .sessions = 128});
  constexpr int sessions = 100;
  constexpr int seconds = 3;
  std::vector<Child> children;
  test::Common<std::atomic<std::int64_t>> used;
  for (int n = 0; n < sessions; ++n) {
    children.emplace_back([&](const Child::Line& line) {
      const auto me = Participant::join(segment.mapping());
      line.ready();
      line.await_go();
      const std::int64_t before = cpu_ns();
      line.ready();
      line.await_go();
      *used += cpu_ns() - before;
      return 0;
    });
    ASSERT_EQ(children.back().wait_ready(), 0);
  }
  for (const Child& c : children) c.go();
  for (const Child& c : children) ASSERT_EQ(c.wait_ready(), 0);
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  for (const Child& c : children) c.go();
  for (Child& c : children) EXPECT_EQ(c.wait(), 0);
  const double percent = 100.0 * static_cast<double>(*used) / (seconds * 1e9);
  std::printf("100 idle sessions: %.2f %% of a CPU\n", percent);
  RecordProperty("percent_of_a_cpu_times_100", static_cast<int>(percent * 100));
  // Generous: other work on the machine makes each wake-up dearer; what is to be seen is that nobody polls.
  EXPECT_LT(percent, 10.0);
}

}  // namespace
}  // namespace shmcoord::process
