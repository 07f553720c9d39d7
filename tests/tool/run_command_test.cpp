#include <gtest/gtest.h>
#include <signal.h>

#include <sstream>

#include "support/tool.hpp"

// What `run` gives to its command, and returns from it.

namespace shmcoord::test {
namespace {

class Run : public ToolTest {
 protected:
  Run() : ToolTest(SHMCOORD_TOOL_PATH) {}

  std::unique_ptr<ToolProcess> hold(const std::string& lock, std::vector<std::string> options = {}) {
    std::vector<std::string> words{"run", "-l", lock};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
    auto process = start(words);
    command_ = pid_from("in");
    EXPECT_GT(command_, 0) << process->err();
    return process;
  }

  pid_t command_ = 0;
};

TEST_F(Run, ReturnsTheCommandsCode) {
  EXPECT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0);
  EXPECT_EQ(run({"run", "-l", "x", "--", "sh", "-c", "exit 42"}).code(), 42);
  EXPECT_EQ(run({"run", "-l", "x", "--", "sh", "-c", "kill -USR1 $$"}).code(), 128 + SIGUSR1);
  EXPECT_TRUE(is_free("x"));
}

TEST_F(Run, CannotExecuteAndCannotFind) {
  const Finished missing = run({"run", "-l", "x", "--", "no-such-command-anywhere"});
  EXPECT_EQ(missing.code(), 127);
  EXPECT_NE(missing.err.find("no-such-command-anywhere"), std::string::npos);
  EXPECT_TRUE(is_free("x"));
  EXPECT_EQ(run({"run", "-l", "x", "--", "/etc/passwd"}).code(), 126);
  EXPECT_TRUE(is_free("x"));
}

TEST_F(Run, CommandSeesSegmentHolderAndTokens) {
  const Finished got = run({"run", "-l", "b", "-l", "a", "--holder", "me", "--", "sh", "-c",
                            "echo $SHMCOORD_SEGMENT $SHMCOORD_HOLDER $SHMCOORD_TOKEN $SHMCOORD_TOKENS"});
  ASSERT_EQ(got.code(), 0) << got.err;
  std::istringstream words(got.out);
  std::string segment, holder, token, tokens;
  words >> segment >> holder >> token >> tokens;
  EXPECT_EQ(segment, segment_);
  EXPECT_EQ(holder, "me");
  EXPECT_GE(std::stoull(token), 1U);
  EXPECT_TRUE(tokens.starts_with("a=")) << tokens;
  EXPECT_TRUE(tokens.ends_with(",b=" + token)) << tokens << ": the token is that of the first lock as typed";
}

TEST_F(Run, TokensGrow) {
  const auto token = [this] {
    return std::stoull(run({"run", "-l", "x", "--", "sh", "-c", "echo $SHMCOORD_TOKEN"}).out);
  };
  const auto first = token();
  EXPECT_GT(token(), first);
}

TEST_F(Run, WordsAfterTheCommandBelongToIt) {
  EXPECT_EQ(run({"run", "-l", "x", "--", "echo", "-l", "--json", "--", "-h"}).out, "-l --json -- -h\n");
  EXPECT_EQ(run({"run", "-l", "x", "echo", "-n", "--", "-w"}).out, "-- -w");
}

TEST_F(Run, BusyNamesTheHolder) {
  const auto holder = hold("x", {"--holder", "builder-7", "--reason", "nightly build"});
  for (const auto& how : std::vector<std::vector<std::string>>{{"-n"}, {"-w", "0"}, {"-w", "100ms"}}) {
    std::vector<std::string> words{"run", "-l", "x"};
    words.insert(words.end(), how.begin(), how.end());
    words.insert(words.end(), {"--", "true"});
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 1);
    EXPECT_NE(got.err.find("lock 'x'"), std::string::npos) << got.err;
    EXPECT_NE(got.err.find("builder-7 (pid " + std::to_string(holder->pid())), std::string::npos) << got.err;
    EXPECT_NE(got.err.find("reason: nightly build"), std::string::npos) << got.err;
    EXPECT_NE(got.err.find("shmcoord run"), std::string::npos) << "the command: " << got.err;
    EXPECT_NE(got.err.find(" since "), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"run", "-l", "x", "-n", "-E", "9", "--", "true"}).code(), 9);
  EXPECT_EQ(run({"run", "-l", "x", "-w", "50ms", "-E", "9", "--", "true"}).code(), 9);
}

// F42
TEST_F(Run, WaitingSaysWhomForAndThePlace) {
  const auto holder = hold("x", {"--holder", "builder-7", "--reason", "nightly build"});
  auto first = start({"run", "-l", "x", "--", "true"});
  ASSERT_TRUE(eventually([&] { return first->err().find("waiting") != std::string::npos; }));
  auto second = start({"run", "-l", "x", "--", "true"});
  ASSERT_TRUE(eventually([&] { return second->err().find("waiting") != std::string::npos; }));
  EXPECT_NE(first->err().find("place 1 in the queue"), std::string::npos) << first->err();
  const std::string said = second->err();
  EXPECT_NE(said.find("waiting for lock 'x', held by builder-7 (pid " + std::to_string(holder->pid())),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("reason: nightly build"), std::string::npos) << said;
  EXPECT_NE(said.find("place 2 in the queue"), std::string::npos) << said;
  holder->signal(SIGTERM);
  EXPECT_EQ(first->wait().code(), 0);
  EXPECT_EQ(second->wait().code(), 0);
}

TEST_F(Run, InterruptedWaitLeavesTheQueue) {
  const auto holder = hold("x");
  auto waiter = start({"run", "-l", "x", "--", "touch", file("never")});
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting") != std::string::npos; }));
  waiter->signal(SIGINT);
  const Finished got = waiter->wait();
  EXPECT_EQ(got.code(), 128 + SIGINT);
  EXPECT_NE(got.err.find("left the queue"), std::string::npos) << got.err;
  EXPECT_EQ(run({"lock", "status", "x"}).out.find("waiting"), std::string::npos);
  holder->signal(SIGTERM);
  EXPECT_EQ(holder->wait().code(), 128 + SIGTERM);
  EXPECT_TRUE(is_free("x"));
  EXPECT_EQ(read_file(file("never")), "");
}

TEST_F(Run, SignalsReachTheWholeGroup) {
  auto process = start({"run", "-l", "x", "--", "sh", "-c",
                        "trap 'echo got; exit 5' USR1; (trap 'echo child; exit' USR1; echo x >$SCRATCH/a; "
                        "while :; do sleep 0.01; done) & echo x >$SCRATCH/b; while :; do sleep 0.01; done"});
  ASSERT_TRUE(eventually([&] { return !read_file(file("a")).empty() && !read_file(file("b")).empty(); }));
  process->signal(SIGUSR1);
  const Finished got = process->wait();
  EXPECT_EQ(got.code(), 5);
  EXPECT_NE(got.out.find("child"), std::string::npos);
  EXPECT_NE(got.out.find("got"), std::string::npos);
}

TEST_F(Run, IgnoredSignalsStayIgnored) {
  auto process = start_shell(
      "trap '' INT; exec $SHMCOORD run -l x -- sh -c 'echo x >$SCRATCH/in; "
      "while ! [ -e $SCRATCH/go ]; do sleep 0.01; done; exit 4'");
  ASSERT_TRUE(eventually([&] { return !read_file(file("in")).empty(); }));
  process->signal(SIGINT);
  ASSERT_EQ(run({"run", "-l", "other", "--", "touch", file("go")}).code(), 0);
  EXPECT_EQ(process->wait().code(), 4);
}

// F29
TEST_F(Run, RevokedLockEndsTheWholeGroupAndReturns75) {
  auto holder = start({"run", "-l", "x", "--grace", "200ms", "--", "sh", "-c",
                       "trap 'echo told >$SCRATCH/told' TERM; (trap '' TERM; sleep 1000; sleep 1000) & "
                       "echo $! >$SCRATCH/stubborn; while :; do sleep 0.01; done"});
  const pid_t stubborn = pid_from("stubborn");
  ASSERT_GT(stubborn, 0);
  EXPECT_EQ(run({"force-release", "x", "--reason", "test"}).code(), 0);
  const Finished got = holder->wait();
  EXPECT_EQ(got.code(), 75);
  EXPECT_NE(got.err.find("lost lock 'x': an operator took it away"), std::string::npos) << got.err;
  EXPECT_EQ(read_file(file("told")), "told\n") << "SIGTERM comes before SIGKILL";
  EXPECT_TRUE(process_gone(stubborn));
}

TEST_F(Run, RevokedLockIsNeverZero) {
  auto holder = start(
      {"run", "-l", "x", "--", "sh", "-c", "trap 'exit 0' TERM; echo x >$SCRATCH/in; while :; do sleep 0.01; done"});
  ASSERT_TRUE(eventually([&] { return !read_file(file("in")).empty(); }));
  EXPECT_EQ(run({"force-release", "x", "--reason", "test"}).code(), 0);
  EXPECT_EQ(holder->wait().code(), 75);
}

TEST_F(Run, ALeaseIsRenewedByItself) {
  auto holder = hold("x", {"--ttl", "300ms"});
  auto waiter = start({"run", "-l", "x", "-w", "1500ms", "--", "true"});
  EXPECT_EQ(waiter->wait().code(), 1);
  EXPECT_TRUE(holder->running());
  holder->signal(SIGTERM);
  EXPECT_EQ(holder->wait().code(), 128 + SIGTERM);
}

TEST_F(Run, AStoppedHolderWithALeaseIsFencedAndTold) {
  auto holder = hold("x", {"--ttl", "300ms"});
  holder->signal(SIGSTOP);
  const Finished next = run({"run", "-l", "x", "--", "true"});
  EXPECT_EQ(next.code(), 0);
  EXPECT_NE(next.err.find("its ttl passed"), std::string::npos) << next.err;
  holder->signal(SIGCONT);
  const Finished got = holder->wait();
  EXPECT_EQ(got.code(), 75);
  EXPECT_NE(got.err.find("its ttl passed"), std::string::npos) << got.err;
  EXPECT_TRUE(process_gone(command_));
}

TEST_F(Run, WithoutALeaseAStoppedHolderKeepsIt) {
  auto holder = hold("x");
  holder->signal(SIGSTOP);
  EXPECT_EQ(run({"run", "-l", "x", "-w", "1s", "--", "true"}).code(), 1);
  holder->signal(SIGCONT);
  holder->signal(SIGTERM);
  EXPECT_EQ(holder->wait().code(), 128 + SIGTERM);
}

TEST_F(Run, SeveralLocksAllOrNothing) {
  const auto holder = hold("b");
  EXPECT_EQ(run({"run", "-n", "-l", "a", "-l", "b", "-l", "c", "--", "true"}).code(), 1);
  EXPECT_TRUE(is_free("a"));
  EXPECT_TRUE(is_free("c"));
}

TEST_F(Run, OppositeOrdersDoNotBlockEachOther) {
  ASSERT_EQ(run({"run", "-l", "a", "--", "sh", "-c", "echo 0 >$SCRATCH/n"}).code(), 0);
  std::vector<std::unique_ptr<ToolProcess>> all;
  for (int i = 0; i < 16; ++i) {
    const bool odd = i % 2 == 1;
    all.push_back(start({"run", "-l", odd ? "a" : "b", "-l", odd ? "b" : "a", "--", "sh", "-c",
                         "read n <$SCRATCH/n; echo $((n + 1)) >$SCRATCH/n"}));
  }
  for (auto& process : all) EXPECT_EQ(process->wait().code(), 0);
  EXPECT_EQ(read_file(file("n")), "16\n");
}

TEST_F(Run, NoIncrementIsLost) {
  ASSERT_EQ(run({"run", "-l", "n", "--", "sh", "-c", "echo 0 >$SCRATCH/n"}).code(), 0);
  std::vector<std::unique_ptr<ToolProcess>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(
        start_shell("for i in 1 2 3 4 5 6 7 8 9 10; do "
                    "$SHMCOORD run -l n -- sh -c 'read n <$SCRATCH/n; echo $((n + 1)) >$SCRATCH/n' || exit; done"));
  }
  for (auto& process : all) EXPECT_EQ(process->wait().code(), 0);
  EXPECT_EQ(read_file(file("n")), "80\n");
}

TEST_F(Run, LeavesNoProcessAndNoChildBehind) {
  const Finished got = run({"run", "-l", "x", "--", "sh", "-c", "echo $PPID"});
  ASSERT_EQ(got.code(), 0);
  EXPECT_TRUE(process_gone(std::stoi(got.out))) << "the guardian";
}

}  // namespace
}  // namespace shmcoord::test
