#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>

#include "shmcoord/shmcoord.hpp"
#include "support/tool.hpp"

// `lock …` and `force-release`, as scripts use them: taken in one process, given back in another.

namespace shmcoord::test {
namespace {

class LockScript : public ToolTest {
 protected:
  LockScript() : ToolTest(SHMCOORD_TOOL_PATH) {}

  Finished acquire(const std::string& holder, std::vector<std::string> options = {}) {
    std::vector<std::string> words{"lock", "acquire", "x", "--holder", holder};
    words.insert(words.end(), options.begin(), options.end());
    return run(words);
  }
  Finished release(const std::string& holder) { return run({"lock", "release", "x", "--holder", holder}); }
};

TEST_F(LockScript, TakenHereGivenBackThere) {
  const Finished first = acquire("a");
  ASSERT_EQ(first.code(), 0) << first.err;
  const auto token = std::stoull(first.out);
  EXPECT_GE(token, 1U);
  EXPECT_EQ(first.out, std::to_string(token) + "\n") << "the token and nothing else";
  EXPECT_FALSE(is_free("x"));
  EXPECT_EQ(release("a").code(), 0);
  const Finished second = acquire("b");
  ASSERT_EQ(second.code(), 0);
  EXPECT_GT(std::stoull(second.out), token);
}

TEST_F(LockScript, AcquiredAgainItIsExtendedWithTheSameToken) {
  const Finished first = acquire("a");
  const Finished again = acquire("a");
  EXPECT_EQ(again.code(), 0);
  EXPECT_EQ(again.out, first.out);
  EXPECT_EQ(release("a").code(), 0);
  EXPECT_TRUE(is_free("x"));
}

TEST_F(LockScript, TheProcessThatAHoldEndsWithIsNotChangedInSilence) {
  const std::string self = std::to_string(::getpid());
  const std::string other = std::to_string(::getppid());
  const auto acquire = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"lock", "acquire", "x", "--holder", "me", "-n"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  ASSERT_EQ(acquire({"--pid", self}).code(), 0);
  EXPECT_EQ(acquire({"--pid", self}).code(), 0);
  for (const auto& words : std::vector<std::vector<std::string>>{{"--pid", other}, {}}) {
    const Finished refused = acquire(words);
    EXPECT_EQ(refused.code(), 64);
    EXPECT_EQ(refused.out, "");
    EXPECT_NE(refused.err.find("until process " + self + " ends"), std::string::npos) << refused.err;
  }
  ASSERT_EQ(run({"lock", "release", "x", "--holder", "me"}).code(), 0);
  ASSERT_EQ(acquire({}).code(), 0);
  EXPECT_EQ(acquire({"--pid", self}).code(), 64);
}

TEST_F(LockScript, TakenAndGivenBackForEverNeedsNoMoreRoom) {
  ASSERT_EQ(run({"segment", "create", "--entries", "64"}).code(), 0);
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(run({"lock", "acquire", "same", "--holder", "x", "-n"}).code(), 0) << round;
    ASSERT_EQ(run({"lock", "release", "same", "--holder", "x"}).code(), 0) << round;
    ASSERT_EQ(run({"segment", "check"}).out, "1 names, 0 sessions, 0 entries: sound\n") << round;
  }
}

TEST_F(LockScript, MoreNamesThanTheTableHolds) {
  ASSERT_EQ(run({"segment", "create", "--names", "8"}).code(), 0);
  ASSERT_EQ(acquire("keeper").code(), 0);
  for (int job = 0; job < 30; ++job) {
    const std::string name = "job-" + std::to_string(job);
    ASSERT_EQ(run({"lock", "acquire", name, "--holder", "x", "-n"}).code(), 0) << job;
    ASSERT_EQ(run({"lock", "release", name, "--holder", "x"}).code(), 0) << job;
  }
  EXPECT_NE(run({"segment", "check"}).out.find(": sound"), std::string::npos);
  EXPECT_FALSE(is_free("x"));
  for (int held = 0; held < 7; ++held) {
    ASSERT_EQ(run({"lock", "acquire", "held-" + std::to_string(held), "--holder", "x", "-n"}).code(), 0) << held;
  }
  const Finished got = run({"lock", "acquire", "one-too-many", "--holder", "x", "-n"});
  EXPECT_EQ(got.code(), 69);
  EXPECT_NE(got.err.find("all 8 names"), std::string::npos) << got.err;
}

TEST_F(LockScript, AStrangerDoesNotRelease) {
  ASSERT_EQ(acquire("a", {"--reason", "mine"}).code(), 0);
  const Finished got = release("b");
  EXPECT_EQ(got.code(), 2);
  EXPECT_NE(got.err.find("not_owner"), std::string::npos) << got.err;
  EXPECT_NE(got.err.find("held by a "), std::string::npos) << got.err;
  EXPECT_NE(run({"--json", "lock", "release", "x", "--holder", "b"}).out.find("\"result\":\"not_owner\""),
            std::string::npos);
  EXPECT_FALSE(is_free("x"));
}

TEST_F(LockScript, AlreadyFree) {
  ASSERT_EQ(acquire("a").code(), 0);
  ASSERT_EQ(release("a").code(), 0);
  const Finished got = release("a");
  EXPECT_EQ(got.code(), 2);
  EXPECT_NE(got.err.find("already_free"), std::string::npos) << got.err;
}

TEST_F(LockScript, NoSegmentAndNoLock) {
  for (const char* const command : {"release", "heartbeat"}) {
    const Finished got = run({"lock", command, "x", "--holder", "a"});
    EXPECT_EQ(got.code(), 2) << command;
    EXPECT_NE(got.err.find(segment_), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"lock", "status", "x"}).code(), 2);
  ASSERT_EQ(acquire("a").code(), 0);
  const Finished got = run({"lock", "release", "y", "--holder", "a"});
  EXPECT_EQ(got.code(), 2);
  EXPECT_NE(got.err.find("no lock 'y' in segment " + segment_ + "; who acquires it makes it"), std::string::npos)
      << got.err;
  EXPECT_EQ(run({"lock", "status", "y"}).code(), 2);
  EXPECT_EQ(run({"lock", "remove", "y"}).code(), 2);
  EXPECT_EQ(run({"force-release", "y", "--reason", "r"}).code(), 2);
}

TEST_F(LockScript, BusyWithItsOwnCode) {
  ASSERT_EQ(acquire("a", {"--reason", "mine"}).code(), 0);
  const Finished got = acquire("b", {"-n"});
  EXPECT_EQ(got.code(), 1);
  EXPECT_EQ(got.out, "");
  EXPECT_NE(got.err.find("lock 'x' is busy: held by a"), std::string::npos) << got.err;
  EXPECT_NE(got.err.find("mine"), std::string::npos) << got.err;
  EXPECT_EQ(acquire("b", {"-w", "50ms"}).code(), 1);
  EXPECT_EQ(acquire("b", {"-n", "-E", "7"}).code(), 7);
  EXPECT_EQ(acquire("b", {"-w", "0", "-E", "0"}).code(), 0);
  const Finished json = run({"--json", "lock", "acquire", "x", "--holder", "b", "-n"});
  EXPECT_EQ(json.code(), 1);
  EXPECT_NE(json.out.find("\"result\":\"busy\",\"token\":null"), std::string::npos) << json.out;
}

TEST_F(LockScript, WaitsUntilReleased) {
  ASSERT_EQ(acquire("a").code(), 0);
  auto waiter = start({"lock", "acquire", "x", "--holder", "b"});
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting for lock 'x', held by a") != std::string::npos; }))
      << waiter->err();
  EXPECT_NE(waiter->err().find("; place 1 in the queue"), std::string::npos) << waiter->err();
  EXPECT_EQ(release("a").code(), 0);
  EXPECT_EQ(waiter->wait().code(), 0);
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "b"}).code(), 0);
}

TEST_F(LockScript, AWaiterThatDiesLeavesNothing) {
  ASSERT_EQ(acquire("a").code(), 0);
  auto waiter = start({"lock", "acquire", "x", "--holder", "b"});
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting") != std::string::npos; }));
  waiter->signal(SIGKILL);
  (void)waiter->wait();
  EXPECT_EQ(release("a").code(), 0);
  EXPECT_EQ(acquire("c", {"-w", "10s"}).code(), 0);
}

TEST_F(LockScript, ATtlRunsOutUnlessRenewed) {
  ASSERT_EQ(acquire("a", {"--ttl", "400ms"}).code(), 0);
  EXPECT_EQ(run({"lock", "renew", "x", "--holder", "a", "--ttl", "10m"}).code(), 0);
  EXPECT_EQ(acquire("b", {"-w", "800ms"}).code(), 1);
  EXPECT_EQ(run({"lock", "renew", "x", "--holder", "a", "--ttl", "100ms"}).code(), 0);
  const Finished next = acquire("b");
  EXPECT_EQ(next.code(), 0);
  EXPECT_NE(next.err.find("previous holder a lost it: its ttl passed; taking over"), std::string::npos) << next.err;
  const Finished late = run({"lock", "heartbeat", "x", "--holder", "a"});
  EXPECT_EQ(late.code(), 2);
  EXPECT_NE(late.err.find("held by b"), std::string::npos) << late.err;
}

// As long as nobody took it away, a lease that ran out is the holder's to renew or to give back.
TEST_F(LockScript, AnExpiredHoldIsItsHoldersUntilItIsTakenAway) {
  const auto expired = [this] {
    return eventually([&] {
      return run({"lock", "status", "x"}).out.find("its lease ran out (expired)") != std::string::npos;
    });
  };
  ASSERT_EQ(acquire("a", {"--ttl", "20ms"}).code(), 0);
  ASSERT_TRUE(expired());
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "a"}).code(), 0);
  EXPECT_EQ(run({"lock", "heartbeat", "x", "--holder", "a"}).code(), 0);
  ASSERT_TRUE(expired());
  EXPECT_EQ(release("a").code(), 0);
  ASSERT_EQ(acquire("a", {"--ttl", "20ms"}).code(), 0);
  ASSERT_TRUE(expired());
  ASSERT_EQ(run({"reap", "--once"}).code(), 0);
  for (const char* const command : {"status", "heartbeat", "release"}) {
    EXPECT_EQ(run({"lock", command, "x", "--holder", "a"}).code(), 2) << command;
  }
}

TEST_F(LockScript, WhoLostItIsToldWhy) {
  ASSERT_EQ(acquire("a").code(), 0);
  ASSERT_EQ(run({"force-release", "x", "--reason", "r"}).code(), 0);
  const std::string lost = R"("lost":{"why":"forced","by":null})";
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  for (const char* const command : {"heartbeat", "release"}) {
    const Finished got = run({"--json", "lock", command, "x", "--holder", "a"});
    EXPECT_EQ(got.code(), 2) << command;
    EXPECT_TRUE(has(got.out, lost)) << got.out;
    EXPECT_TRUE(has(got.err, ": an operator took it away")) << got.err;
    EXPECT_TRUE(has(run({"--json", "lock", command, "x", "--holder", "b"}).out, "\"lost\":null")) << command;
  }
  EXPECT_TRUE(
      has(run({"lock", "status", "x", "--holder", "a"}).err, "not held by 'a' any more: an operator took it away"));
  const Finished next = acquire("b");
  EXPECT_TRUE(has(next.err, "an operator took it away")) << "asking did not use up the news: " << next.err;
}

TEST_F(LockScript, HeartbeatOfTheHolder) {
  ASSERT_EQ(acquire("a").code(), 0);
  EXPECT_EQ(run({"lock", "heartbeat", "x", "--holder", "a"}).code(), 0);
  EXPECT_EQ(run({"lock", "heartbeat", "x", "--holder", "b"}).code(), 2);
}

TEST_F(LockScript, BoundToAProcessItEndsWithIt) {
  auto owner = start_shell("echo $$ >$SCRATCH/owner; exec sleep 1000");
  const pid_t pid = pid_from("owner");
  ASSERT_GT(pid, 0);
  ASSERT_EQ(acquire("a", {"--pid", std::to_string(pid)}).code(), 0);
  EXPECT_FALSE(is_free("x"));
  auto waiter = start({"lock", "acquire", "x", "--holder", "b"});
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting") != std::string::npos; }));
  EXPECT_NE(waiter->err().find("pid " + std::to_string(pid)), std::string::npos) << waiter->err();
  owner->signal(SIGKILL);
  const Finished got = waiter->wait();
  EXPECT_EQ(got.code(), 0);
  EXPECT_NE(got.err.find("died; taking over"), std::string::npos) << got.err;
}

// Nobody beats for it, and its process lives: silence is no reason to take it away.
TEST_F(LockScript, BoundToAProcessItDoesNotGoStale) {
  using namespace std::chrono_literals;
  {
    const auto segment = Segment::open_or_create(segment_);
    Session session{segment};
    const Lock bound{session, "x", {.stale_threshold = 100ms}};
    const Lock plain{session, "y", {.stale_threshold = 100ms}};
  }
  const auto owner = start_shell("echo $$ >$SCRATCH/owner; exec sleep 1000");
  const pid_t pid = pid_from("owner");
  ASSERT_EQ(acquire("a", {"--pid", std::to_string(pid)}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "y", "--holder", "a"}).code(), 0);
  const Finished stale = run({"lock", "acquire", "y", "--holder", "b"});
  EXPECT_NE(stale.err.find("stale threshold"), std::string::npos) << stale.err;
  EXPECT_EQ(acquire("b", {"-n"}).code(), 1) << "the same time passed for this one";
  EXPECT_EQ(run({"reap", "--once"}).code(), 0);
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "a"}).code(), 0);
  owner->signal(SIGKILL);
  EXPECT_EQ(acquire("b", {"-w", "10s"}).code(), 0);
}

TEST_F(LockScript, BoundToAProcessThatIsNotThere) {
  auto gone = start_shell("exit 0");
  (void)gone->wait();
  EXPECT_EQ(acquire("a", {"--pid", std::to_string(gone->pid())}).code(), 2);
}

TEST_F(LockScript, StatusLooksAndChangesNothing) {
  auto holder = start({"run", "-l", "x", "--holder", "first", "--reason", "why", "--", "sh", "-c",
                       "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  const Finished held = run({"lock", "status", "x"});
  EXPECT_EQ(held.code(), 0);
  EXPECT_NE(held.out.find("x: held by first (pid " + std::to_string(holder->pid())), std::string::npos) << held.out;
  EXPECT_NE(held.out.find("reason: why"), std::string::npos) << held.out;
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "first"}).code(), 0);
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "other"}).code(), 2);
  holder->signal(SIGKILL);
  (void)holder->wait();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run({"lock", "status", "x"}).code(), 0);
  EXPECT_NE(run({"lock", "acquire", "x", "--holder", "b"}).err.find("first"), std::string::npos)
      << "looking must not use up the news for the next holder";
}

TEST_F(LockScript, RemoveIsRefusedWhileHeld) {
  ASSERT_EQ(acquire("a").code(), 0);
  EXPECT_EQ(run({"lock", "remove", "x"}).code(), 1);
  EXPECT_EQ(run({"lock", "remove", "x", "--force"}).code(), 0);
  EXPECT_EQ(run({"lock", "status", "x"}).code(), 2);
  ASSERT_EQ(acquire("b").code(), 0);
  ASSERT_EQ(release("b").code(), 0);
  EXPECT_EQ(run({"lock", "remove", "x"}).code(), 0);
}

TEST_F(LockScript, ForceRelease) {
  ASSERT_EQ(acquire("a").code(), 0);
  EXPECT_EQ(run({"force-release", "x", "--holder", "b", "--reason", "r"}).code(), 2);
  const Finished got = run({"force-release", "x", "--holder", "a", "--reason", "stuck"});
  EXPECT_EQ(got.code(), 0);
  EXPECT_NE(got.out.find("from a"), std::string::npos) << got.out;
  EXPECT_EQ(run({"force-release", "x", "--reason", "r"}).code(), 2);
  const Finished next = acquire("b");
  EXPECT_NE(next.err.find("an operator took it away"), std::string::npos) << next.err;
}

}  // namespace
}  // namespace shmcoord::test
