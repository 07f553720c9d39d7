#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/participant.hpp"
#include "support/process_child.hpp"

// F30, for sessions that do nothing at all. What they cost is how often they wake: counted, not timed, and only in the
// threads that joining made (a sanitizer has a thread of its own that wakes).

namespace shmcoord::process {
namespace {

using test::Child;
using test::OwnSegment;

std::vector<std::string> threads() {
  std::vector<std::string> all;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) all.push_back(task.path());
  return all;
}

/// How often the thread went to sleep by itself.
std::int64_t sleeps(const std::string& thread) {
  std::ifstream status(thread + "/status");
  for (std::string word; status >> word;) {
    std::int64_t count = 0;
    if (word == "voluntary_ctxt_switches:" && status >> count) return count;
  }
  return 0;
}

TEST(Idle, HundredSessionsHardlyEverWake) {
  constexpr int sessions = 100;
  const OwnSegment segment({.names = 16, .entries = 256, .sessions = 128});
  const test::Common<std::atomic<std::int64_t>> woken;
  const test::Common<std::atomic<std::int64_t>> allowed;
  const test::Common<std::atomic<std::int64_t>> counted;
  std::vector<Child> children;
  for (int n = 0; n < sessions; ++n) {
    children.emplace_back([&](const Child::Line& line) {
      std::thread([] {}).join();  // with the first thread comes that of a sanitizer
      const std::vector<std::string> others = threads();
      const auto me = Participant::join(segment.mapping());
      line.ready();
      line.await_go();
      std::vector<std::pair<std::string, std::int64_t>> own;
      for (const std::string& thread : threads()) {
        if (std::find(others.begin(), others.end(), thread) == others.end()) own.emplace_back(thread, sleeps(thread));
      }
      const auto since = std::chrono::steady_clock::now();
      line.ready();
      line.await_go();
      const auto idle = std::chrono::steady_clock::now() - since;
      for (const auto& [thread, before] : own) {
        *woken += sleeps(thread) - before;
        ++*counted;
      }
      // A keeper looks around once a second, its heart beats every 15 s, and there is the start, when the neighbours in
      // the ring settle. Whoever polls for anything wakes more often.
      *allowed += std::chrono::duration_cast<std::chrono::seconds>(idle).count() + 5;
      return 0;
    });
    ASSERT_EQ(children.back().wait_ready(), 0);
  }
  for (const Child& c : children) c.go();
  for (const Child& c : children) ASSERT_EQ(c.wait_ready(), 0);
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (const Child& c : children) c.go();
  for (Child& c : children) EXPECT_EQ(c.wait(), 0);
  std::printf("%d idle sessions: %lld wakes\n", sessions, static_cast<long long>(*woken));
  EXPECT_GE(*counted, sessions);
  EXPECT_GT(*woken, 0);  // the count counts
  EXPECT_LE(*woken, *allowed);
}

}  // namespace
}  // namespace shmcoord::process
