#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>

#include "support/tool.hpp"

// `run` with permits of semaphores, and with locks that it shares.

namespace shmcoord::test {
namespace {

class RunPermits : public ToolTest {
 protected:
  RunPermits() : ToolTest(SHMCOORD_TOOL_PATH) {}

  std::unique_ptr<ToolProcess> hold(std::vector<std::string> what, const std::string& name) {
    what.insert(what.begin(), "run");
    what.insert(what.end(), {"--", "sh", "-c", "echo $$ >$SCRATCH/" + name + "; exec sleep 1000"});
    auto process = start(what);
    EXPECT_GT(pid_from(name), 0) << process->err();
    return process;
  }
  std::string used(const std::string& semaphore) {
    const std::string out = run({"sem", "status", semaphore}).out;
    return out.substr(0, out.find(','));
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(RunPermits, HoldsAsManyAsItIsTold) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "4"}).code(), 0);
  const auto three = hold({"-S", "agents:3"}, "three");
  const auto one = hold({"--sem", "agents"}, "one");
  EXPECT_EQ(used("agents"), "agents: 4 of 4 used");
  const Finished full = run({"run", "-n", "-S", "agents", "--", "true"});
  EXPECT_EQ(full.code(), 1);
  EXPECT_TRUE(has(full.err, "semaphore 'agents' is full (1 asked for): 0 of 4 free, held: 3 by run:")) << full.err;
  three->signal(SIGKILL);
  (void)three->wait();
  EXPECT_EQ(run({"run", "-S", "agents:3", "--", "true"}).code(), 0) << "what a dead one had comes back";
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait().code(), 128 + SIGTERM);
  EXPECT_EQ(used("agents"), "agents: 0 of 4 used");
}

TEST_F(RunPermits, TheSemaphoreMustExist) {
  EXPECT_EQ(run({"run", "-S", "agents", "--", "true"}).code(), 2);
  EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";
  for (const auto& words : std::vector<std::vector<std::string>>{{"-l", "x"}, {}}) {
    std::vector<std::string> all{"run", "-S", "agents", "--", "true"};
    all.insert(all.begin() + 1, words.begin(), words.end());
    ASSERT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0);
    const Finished got = run(all);
    EXPECT_EQ(got.code(), 2);
    EXPECT_TRUE(has(got.err, "shmcoord sem create agents --capacity N")) << got.err;
  }
  EXPECT_TRUE(is_free("x"));
}

TEST_F(RunPermits, MoreThanTheCapacityIsRefusedAtOnce) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "2"}).code(), 0);
  const Finished got = run({"run", "-l", "x", "-S", "agents:3", "--", "true"});
  EXPECT_EQ(got.code(), 1);
  EXPECT_TRUE(has(got.err, "has a capacity of 2, less than the 3 asked for")) << got.err;
  EXPECT_TRUE(is_free("x"));
}

TEST_F(RunPermits, TokensOfAll) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "2"}).code(), 0);
  const auto tokens = [this](std::vector<std::string> what) {
    what.insert(what.begin(), "run");
    what.insert(what.end(), {"--", "sh", "-c", "echo $SHMCOORD_TOKENS,$SHMCOORD_TOKEN,"});
    return run(what).out;
  };
  const auto token_of = [](const std::string& out, const std::string& name) {
    const auto at = out.find(name + "=");
    return at == std::string::npos ? std::string()
                                   : out.substr(at + name.size() + 1, out.find(',', at) - at - name.size() - 1);
  };
  const auto expect_first = [&](const std::string& out, const std::string& first) {
    EXPECT_TRUE(out.ends_with("," + token_of(out, first) + ",\n")) << out;
    EXPECT_FALSE(token_of(out, first).empty()) << out;
  };
  // The first tokens of two names may be the same number.
  for (const char* const lock : {"a", "z", "z"}) ASSERT_EQ(run({"run", "-l", lock, "--", "true"}).code(), 0);
  for (int n = 0; n < 5; ++n) ASSERT_EQ(run({"run", "-S", "agents", "--", "true"}).code(), 0);
  const std::string all = tokens({"-S", "agents", "--shared", "a", "-l", "z"});
  EXPECT_TRUE(all.starts_with("a=") && all.find(",z=") < all.find(",agents=")) << all;
  expect_first(all, "z");
  expect_first(tokens({"-S", "agents", "--shared", "a"}), "agents");
  expect_first(tokens({"--shared", "a", "-S", "agents"}), "a");
}

TEST_F(RunPermits, SharedRunsSideBySideAndNotBesideALock) {
  const auto first = hold({"--shared", "tree"}, "first");
  const auto second = hold({"--shared", "tree"}, "second");
  const Finished busy = run({"run", "-n", "-l", "tree", "--", "true"});
  EXPECT_EQ(busy.code(), 1);
  EXPECT_TRUE(has(busy.err, "lock 'tree' is busy: shared by run:")) << busy.err;
  EXPECT_TRUE(has(busy.err, "(pid " + std::to_string(second->pid()))) << busy.err;
  first->signal(SIGTERM);
  second->signal(SIGTERM);
  (void)first->wait();
  (void)second->wait();
  const auto alone = hold({"-l", "tree"}, "alone");
  EXPECT_EQ(run({"run", "-n", "--shared", "tree", "--", "true"}).code(), 1);
}

TEST_F(RunPermits, ALossEndsTheCommand) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "2"}).code(), 0);
  const auto holder = hold({"-S", "agents", "--shared", "tree"}, "in");
  ASSERT_EQ(run({"force-release", "agents", "--reason", "r"}).code(), 0);
  const Finished got = holder->wait();
  EXPECT_EQ(got.code(), 75);
  EXPECT_TRUE(has(got.err, "lost semaphore 'agents': an operator took it away")) << got.err;
  const auto reader = hold({"-S", "agents", "--shared", "tree"}, "again");
  ASSERT_EQ(run({"force-release", "tree", "--reason", "r"}).code(), 0);
  EXPECT_EQ(reader->wait().code(), 75);
}

TEST_F(RunPermits, AllOrNothing) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "1"}).code(), 0);
  const auto holder = hold({"-S", "agents"}, "in");
  EXPECT_EQ(run({"run", "-n", "-l", "x", "--shared", "y", "-S", "agents", "--", "true"}).code(), 1);
  EXPECT_TRUE(is_free("x"));
  EXPECT_TRUE(is_free("y"));
}

TEST_F(RunPermits, JoinsAQuota) {
  ASSERT_EQ(run({"sem", "create", "quota", "--per-session", "2"}).code(), 0);
  const Finished alone = run({"run", "-S", "quota:3", "--", "true"});
  EXPECT_EQ(alone.code(), 1);
  EXPECT_TRUE(has(alone.err, "capacity of 2")) << alone.err;
  const auto one = hold({"-S", "quota"}, "one");
  EXPECT_TRUE(has(run({"sem", "status", "quota"}).out, "quota: 1 of 2 used, 1 free; 2 per session, 1 session\n"));
  EXPECT_EQ(run({"run", "-n", "-S", "quota:3", "--", "true"}).code(), 0);
}

TEST_F(RunPermits, WithinARunThatHoldsTooMuch) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "4"}).code(), 0);
  const auto within = [this](const std::string& outer, const std::string& inner) {
    return run({"run", "-S", outer, "--holder", "outer", "--", tool_, "run", "-S", inner, "--", "true"});
  };
  EXPECT_EQ(within("agents:2", "agents:2").code(), 0);
  const Finished never = within("agents:2", "agents:3");
  EXPECT_EQ(never.code(), 1);
  EXPECT_TRUE(has(never.err, "semaphore 'agents' would never be free (deadlock): 2 of 4 free, held: 2 by outer "))
      << never.err;
  // Others will give back, so this one waits.
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "other", "--weight", "2"}).code(), 0);
  auto waits = start({"run", "-S", "agents:2", "--", tool_, "run", "-S", "agents:2", "--", "true"});
  ASSERT_TRUE(eventually([&] { return has(waits->err(), "waiting for 2 permits"); })) << waits->err();
  ASSERT_EQ(run({"sem", "release", "agents", "--holder", "other"}).code(), 0);
  EXPECT_EQ(waits->wait().code(), 0);
}

// Who is before it in the queue, and does not fit beside the outer run, may give up; a wait without end does not bet on
// that.
TEST_F(RunPermits, WithinARunBehindOneThatWaitsForIt) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "4"}).code(), 0);
  const auto within = [this](const std::string& wait) {
    return start({"run", "-S", "agents:2", "--holder", "outer", "--", "sh", "-c",
                  "echo $$ >$SCRATCH/in; until [ -e $SCRATCH/go ]; do sleep 0.01; done; exec \"$SHMCOORD\" run " +
                      wait + " -S agents -- echo in"});
  };
  auto endless = within("");
  ASSERT_GT(pid_from("in"), 0);
  auto big = start({"sem", "acquire", "agents", "--holder", "big", "--weight", "4"});
  ASSERT_TRUE(eventually([&] { return has(big->err(), "waiting"); }));
  std::ofstream(file("go")) << "go";
  const Finished refused = endless->wait();
  EXPECT_EQ(refused.code(), 1);
  EXPECT_TRUE(has(refused.err, "would never be free (deadlock)")) << refused.err;
  EXPECT_EQ(big->wait().code(), 0);
  ASSERT_EQ(run({"sem", "release", "agents", "--holder", "big"}).code(), 0);

  ASSERT_EQ(std::remove(file("go").c_str()) + std::remove(file("in").c_str()), 0);
  auto patient = within("-w 20s");
  ASSERT_GT(pid_from("in"), 0);
  big = start({"sem", "acquire", "agents", "--holder", "big", "--weight", "4"});
  ASSERT_TRUE(eventually([&] { return has(big->err(), "waiting"); }));
  std::ofstream(file("go")) << "go";
  ASSERT_TRUE(eventually([&] { return has(patient->err(), "waiting for 1 permit of semaphore 'agents'"); }))
      << patient->err();
  big->signal(SIGINT);
  const Finished got = patient->wait();
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.out, "in\n");
}

TEST_F(RunPermits, WithinARunThatHoldsTooMuchAWaitWithATimeoutIsRefusedToo) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "4"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "other", "--weight", "2"}).code(), 0);
  const auto began = std::chrono::steady_clock::now();
  const Finished never = run({"run", "-S", "agents:2", "--", tool_, "run", "-w", "1h", "-S", "agents:3", "--", "true"});
  EXPECT_EQ(never.code(), 1);
  EXPECT_TRUE(has(never.err, "would never be free (deadlock)")) << never.err;
  EXPECT_LT(std::chrono::steady_clock::now() - began, patience / 2);
  const Finished late =
      run({"run", "-S", "agents:2", "--", tool_, "run", "-w", "50ms", "-S", "agents:2", "--", "true"});
  EXPECT_EQ(late.code(), 1);
  EXPECT_TRUE(has(late.err, "had no room within 50ms")) << "others could have given back: " << late.err;
}

// F35: whatever the order on the command line, nobody waits in a circle; a part of it is never left held.
TEST_F(RunPermits, SeveralInOppositeOrders) {
  ASSERT_EQ(run({"sem", "create", "gpu", "--capacity", "3"}).code(), 0);
  const auto all = start_shell(
      "inside() { $SHMCOORD run $* --grace 0ms -- sh -c 'mkdir $SCRATCH/in && rmdir $SCRATCH/in || echo two "
      ">>$SCRATCH/bad'; }\n"
      "for n in 1 2 3 4 5 6 7 8; do\n"
      "  (for m in 1 2 3 4; do inside -l A -l B -S gpu:2 || echo $? >>$SCRATCH/bad; done) &\n"
      "  (for m in 1 2 3 4; do inside -S gpu -l B -S gpu -l A || echo $? >>$SCRATCH/bad; done) &\n"
      "done\n"
      "$SHMCOORD run -l B -l A -- sleep 1000 & killed=$!\n"
      "while ! $SHMCOORD lock status A | grep -q \"pid $killed\"; do :; done\n"
      "kill -9 $killed\n"
      "wait");
  EXPECT_EQ(all->wait().code(), 0) << all->err();
  EXPECT_EQ(read_file(file("bad")), "");
  EXPECT_TRUE(is_free("A"));
  EXPECT_TRUE(is_free("B"));
  EXPECT_EQ(used("gpu"), "gpu: 0 of 3 used");
}

TEST_F(RunPermits, WhatIsLostWhileOthersAreWaitedForIsTakenAnew) {
  const auto blocks = hold({"-l", "B"}, "blocks");
  const auto both = start({"run", "-l", "A", "-l", "B", "--", "true"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "B"}).out.find("1 waiting") != std::string::npos; }));
  ASSERT_EQ(run({"force-release", "A", "--reason", "test"}).code(), 0);
  blocks->signal(SIGTERM);
  (void)blocks->wait();
  const Finished got = both->wait();
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_TRUE(has(got.err, "lost lock 'A' while waiting for the others")) << got.err;
}

}  // namespace
}  // namespace shmcoord::test
