#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "support/tool.hpp"

namespace shmcoord::test {
namespace {

class Reap : public ToolTest {
 protected:
  Reap() : ToolTest(SHMCOORD_TOOL_PATH) {}

  /// Nobody else is joined, so nobody notices.
  void leave_a_dead_holder() {
    const auto shell = start_shell("exec \"$SHMCOORD\" lock acquire x --holder bound --pid $$ >/dev/null");
    ASSERT_EQ(shell->wait().code(), 0);
  }
  bool held(const std::string& lock) { return run({"inspect", lock}).out.find("held") != std::string::npos; }
};

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_F(Reap, DryRunTellsAndChangesNothing) {
  leave_a_dead_holder();
  for (int again = 0; again < 2; ++again) {
    const Finished f = run({"reap", "--dry-run"});
    EXPECT_EQ(f.code(), 0) << f.err;
    EXPECT_TRUE(has(f.out, "would release") && has(f.out, "bound") && has(f.out, "nothing was changed")) << f.out;
    EXPECT_TRUE(held("x"));
  }
}

TEST_F(Reap, OnceFreesWhatTheDeadHeldAndSaysSo) {
  leave_a_dead_holder();
  const Finished f = run({"reap", "--once"});
  EXPECT_EQ(f.code(), 0) << f.err;
  EXPECT_TRUE(has(f.out, "released hold of x by bound")) << f.out;
  EXPECT_FALSE(held("x"));
  const Finished again = run({"--json", "reap", "--once"});
  EXPECT_TRUE(has(again.out, R"("event":"swept","buried":0,"reclaimed":0)")) << again.out;
  EXPECT_TRUE(has(run({"lock", "acquire", "x", "--holder", "next", "-n"}).err, "bound"));
}

TEST_F(Reap, SaysThatItIsASemaphore) {
  ASSERT_EQ(run({"sem", "acquire", "agents", "--capacity", "2", "--holder", "short", "--ttl", "50ms"}).code(), 0);
  ASSERT_TRUE(eventually([&] { return has(run({"reap", "--dry-run"}).out, "would reclaim"); }));
  EXPECT_TRUE(has(run({"reap", "--once"}).out, "reclaimed hold of semaphore agents by short (detached): expired"));
}

TEST_F(Reap, TakesExpiredLeases) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "short", "--ttl", "50ms"}).code(), 0);
  ASSERT_TRUE(eventually([&] { return has(run({"reap", "--dry-run"}).out, "would reclaim"); }));
  EXPECT_TRUE(has(run({"reap", "--once"}).out, "reclaimed hold of x by short (detached): expired"));
  EXPECT_FALSE(held("x"));
}

TEST_F(Reap, InTheForegroundBuriesAtOnceAndEndsWithZero) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto reaper = start({"reap", "--interval", "1h"});
  const auto holder = start({"run", "-l", "x", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return held("x"); }));
  holder->signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !held("x"); }));
  EXPECT_TRUE(reaper->running());
  reaper->signal(SIGTERM);
  EXPECT_EQ(reaper->wait().code(), 0);
}

// F9: killed anywhere, several at once; a new one finishes the job.
TEST_F(Reap, MayBeKilledAndRunManyTimesOver) {
  for (int round = 0; round < 3; ++round) {
    leave_a_dead_holder();
    std::vector<std::unique_ptr<ToolProcess>> reapers;
    for (int n = 0; n < 4; ++n) reapers.push_back(start({"reap", "--once"}));
    reapers[0]->signal(SIGKILL);
    for (std::size_t n = 1; n < reapers.size(); ++n) EXPECT_EQ(reapers[n]->wait().code(), 0);
    EXPECT_FALSE(held("x"));
  }
}

TEST_F(Reap, TellsItsSupervisor) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const std::string path = file("notify");
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  const timeval watchdog{patience.count(), 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &watchdog, sizeof watchdog);
  const auto hear = [fd] {
    char text[256];
    const ssize_t bytes = ::recv(fd, text, sizeof text, 0);
    return std::string(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  };
  const auto reaper = start_shell("NOTIFY_SOCKET=\"$SCRATCH/notify\" exec \"$SHMCOORD\" reap");
  EXPECT_TRUE(has(hear(), "READY=1"));
  reaper->signal(SIGINT);
  EXPECT_EQ(reaper->wait().code(), 0);
  EXPECT_TRUE(has(hear(), "STOPPING=1"));
  ::close(fd);
}

TEST_F(Reap, OfNoSegmentEndsWithTwo) {
  const Finished f = run({"reap", "--once"});
  EXPECT_EQ(f.code(), 2);
  EXPECT_TRUE(has(f.err, "no such segment")) << f.err;
}

// Cleaning up matters more than telling of it.
TEST_F(Reap, InTheForegroundItGoesOnWhenNobodyCanBeTold) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  auto reaper = start_shell("exec $SHMCOORD reap --interval 50ms >/dev/full");
  for (int n = 0; n < 2; ++n) {
    ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a", "--ttl", "20ms", "-n"}).code(), 0);
    ASSERT_TRUE(eventually([&] { return run({"lock", "status", "x"}).out == "x: free\n"; })) << reaper->err();
  }
  reaper->signal(SIGTERM);
  const Finished got = reaper->wait();
  EXPECT_EQ(got.code(), 0);
  EXPECT_EQ(got.err, "shmcoord: standard output cannot be written: No space left on device; cleaning up goes on\n");
}

}  // namespace
}  // namespace shmcoord::test
