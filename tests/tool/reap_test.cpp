#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <string>

#include "coordination/stored_text.hpp"
#include "engine/segment_file.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "support/notify_socket.hpp"
#include "support/tool.hpp"

namespace shmcoord::test {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

class Reap : public ToolTest {
 protected:
  Reap() : ToolTest(SHMCOORD_TOOL_PATH) {}

  /// Nobody else is joined, so nobody notices.
  void leave_a_dead_holder(const std::string& lock = "x") {
    const auto shell = start_shell("exec \"$SHMCOORD\" lock acquire " + lock + " --holder bound --pid $$ >/dev/null");
    ASSERT_EQ(shell->wait().code(), 0);
  }
  /// As far as events are kept.
  std::string told() { return run({"events", "--no-follow"}).out; }
  /// A hold that nobody renews, when it has run out.
  void leave_a_stale_hold(const std::string& lock, const std::string& holder) {
    ASSERT_EQ(run({"lock", "acquire", lock, "--holder", holder, "--ttl", "20ms", "-n"}).code(), 0);
    ASSERT_TRUE(eventually([&] {
      return has(run({"reap", "--dry-run"}).out, ("of " + lock + " by " + holder).c_str());
    }));
  }
  bool held(const std::string& lock) { return run({"inspect", lock}).out.find("held") != std::string::npos; }
};

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

// As one that was killed while it registered a guard whose definition is long.
TEST_F(Reap, FreesWhatIsLeftOfAGuardThatNeverWasWhole) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  {
    const std::shared_ptr<process::Participant> one = process::Participant::join(engine::Mapping::open(segment_));
    process::PrimitiveClient guard(one, "gate", {.kind = engine::Kind::guard});
    coordination::keep(guard,
                       "part 1/2 of 7 by " + std::to_string(one->slot()) + "." + std::to_string(one->incarnation()),
                       "{", "definition");
    EXPECT_TRUE(has(run({"reap", "--dry-run"}).out, "nothing to do")) << "it may be completed";
  }
  EXPECT_TRUE(has(run({"reap", "--dry-run"}).out, "would free an entry of guard gate, which is not there as a whole"));
  const Finished f = run({"--json", "reap", "--once"});
  EXPECT_TRUE(has(f.out, R"("event":"done","action":"free")")) << f.out;
  EXPECT_TRUE(has(run({"reap", "--dry-run"}).out, "nothing to do"));
  EXPECT_FALSE(has(run({"inspect", "--json"}).out, "gate")) << "the name too";
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

// C-16: in one pass, in this order.
TEST_F(Reap, WarnsAndThenTakes) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--capacity", "2", "--holder", "many", "--ttl", "20ms"}).code(), 0);
  leave_a_stale_hold("x", "short");
  const Finished f = run({"reap", "--once"});
  EXPECT_EQ(f.code(), 0) << f.err;
  const std::size_t warned = f.out.find("warned of hold of x by short: expired\n");
  ASSERT_NE(warned, std::string::npos) << f.out;
  EXPECT_TRUE(has(f.out, "warned of hold of semaphore agents by many: expired\n")) << f.out;
  EXPECT_LT(warned, f.out.find("reclaimed hold of x by short"));
  const std::string events = told();
  EXPECT_EQ(count(events, "lock:stale"), 1) << events;
  EXPECT_EQ(count(events, "semaphore:stale"), 1) << events;
  EXPECT_LT(events.find("lock:stale"), events.find("lock:reclaimed")) << events;
}

TEST_F(Reap, WithoutReclaimingItWarnsOnceInAnEpisodeAndLeavesLeases) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  leave_a_stale_hold("x", "short");
  const auto reaper = start({"--json", "reap", "--no-reclaim", "--interval", "10ms"});
  const auto warnings = [&](const std::string& lock) {
    return count(reaper->out(), R"("event":"stale","type":"lock:stale","name":")" + lock + '"');
  };
  ASSERT_TRUE(eventually([&] { return warnings("x") != 0; }));
  int others = 0;
  const auto pass = [&] {
    const std::string name = "y" + std::to_string(++others);
    leave_a_stale_hold(name, "later");
    return eventually([&] { return warnings(name) == 1; });
  };
  ASSERT_TRUE(pass() && pass());
  EXPECT_EQ(warnings("x"), 1);
  ASSERT_EQ(run({"lock", "heartbeat", "x", "--holder", "short"}).code(), 0) << "it was left";
  ASSERT_TRUE(eventually([&] { return warnings("x") == 2; })) << reaper->out();
  ASSERT_TRUE(pass());
  EXPECT_EQ(warnings("x"), 2);
  leave_a_dead_holder("dead");
  ASSERT_TRUE(eventually([&] { return !held("dead"); }));
  EXPECT_TRUE(held("x"));
  reaper->signal(SIGTERM);
  EXPECT_EQ(reaper->wait().code(), 0);
  const std::string events = told();
  EXPECT_EQ(count(events, "lock:stale"), 2 + others) << events;
  EXPECT_EQ(count(events, "lock:reclaimed"), 1) << "of the dead one alone: " << events;
}

TEST_F(Reap, ADryRunNamesWarningsAndTellsNobody) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  leave_a_stale_hold("x", "short");
  const std::string f = run({"reap", "--dry-run"}).out;
  EXPECT_EQ(f,
            "would warn of hold of x by short: expired\nwould reclaim hold of x by short (detached): expired\n"
            "nothing was changed\n");
  EXPECT_EQ(run({"reap", "--dry-run", "--no-reclaim"}).out,
            "would warn of hold of x by short: expired\nnothing was changed\n");
  EXPECT_EQ(count(told(), "lock:stale"), 0);
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
  const NotifySocket supervisor(file("notify"));
  ASSERT_TRUE(supervisor.bound());
  const auto reaper = start_shell("NOTIFY_SOCKET=\"$SCRATCH/notify\" exec \"$SHMCOORD\" reap");
  EXPECT_TRUE(has(supervisor.hear(), "READY=1"));
  reaper->signal(SIGINT);
  EXPECT_EQ(reaper->wait().code(), 0);
  EXPECT_TRUE(has(supervisor.hear(), "STOPPING=1"));
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
