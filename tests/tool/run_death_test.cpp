#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "support/tool.hpp"

// Who may be killed while a command runs under a lock, and what the next holder finds.

namespace shmcoord::test {
namespace {

// Set-up of all: the command notes its pid, starts a child that notes its own, and waits.
constexpr const char* command_with_child = "sleep 1000 & echo $! >$SCRATCH/child; echo $$ >$SCRATCH/command; wait";

class RunDeath : public ToolTest {
 protected:
  RunDeath() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void start_holder(std::vector<std::string> options = {}, const std::string& script = command_with_child) {
    std::vector<std::string> words{"run", "-l", "x", "--holder", "first"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "sh", "-c", script});
    holder_ = start(words);
    child_ = pid_from("child");
    command_ = pid_from("command");
    ASSERT_GT(child_, 0) << holder_->err();
    ASSERT_GT(command_, 0) << holder_->err();
    const auto below = children_of(holder_->pid());
    ASSERT_EQ(below.size(), 1U);
    guardian_ = below[0];
  }

  /// A second holder that, once in, notes which of the first one's processes still run.
  void start_next() {
    next_ = start(
        {"run", "-l", "x", "--holder", "second", "--", "sh", "-c",
         "for p in $0 $1; do kill -0 $p 2>/dev/null && ! grep -q '^State:.*Z' /proc/$p/status && echo $p; done; exit 0",
         std::to_string(command_), std::to_string(child_)});
    ASSERT_TRUE(eventually([this] { return next_->err().find("waiting for lock 'x'") != std::string::npos; }))
        << next_->err();
  }

  std::unique_ptr<ToolProcess> holder_;
  std::unique_ptr<ToolProcess> next_;
  pid_t command_ = 0;
  pid_t child_ = 0;
  pid_t guardian_ = 0;
};

TEST_F(RunDeath, ToolKilledEndsCommandAndChildrenBeforeTheNextHolder) {
  start_holder();
  start_next();
  holder_->signal(SIGKILL);
  const Finished next = next_->wait();
  EXPECT_EQ(next.code(), 0) << next.err;
  EXPECT_EQ(next.out, "") << "these still ran when the next holder got in";
  EXPECT_NE(next.err.find("previous holder first (pid " + std::to_string(holder_->pid()) + ") died; taking over"),
            std::string::npos)
      << next.err;
  EXPECT_EQ(holder_->wait().code(), 128 + SIGKILL);
  // Told once: whoever comes after that hears nothing.
  const Finished third = run({"run", "-l", "x", "--", "true"});
  EXPECT_EQ(third.code(), 0);
  EXPECT_EQ(third.err, "");
}

TEST_F(RunDeath, ToolKilledWithNobodyWaiting) {
  start_holder();
  holder_->signal(SIGKILL);
  EXPECT_TRUE(eventually([this] { return process_gone(command_) && process_gone(child_) && process_gone(guardian_); }));
  const Finished next = run({"run", "-l", "x", "--", "true"});
  EXPECT_EQ(next.code(), 0);
  EXPECT_NE(next.err.find("first"), std::string::npos) << next.err;
}

TEST_F(RunDeath, CommandKilledFreesTheLockAndEndsItsChildren) {
  start_holder();
  start_next();
  ::kill(command_, SIGKILL);
  EXPECT_EQ(holder_->wait().code(), 128 + SIGKILL);
  const Finished next = next_->wait();
  EXPECT_EQ(next.code(), 0);
  EXPECT_EQ(next.out, "");
  EXPECT_EQ(next.err.find("died"), std::string::npos) << "the holder gave it back: " << next.err;
}

// It was gone before it had read the last signals, and before its own last words were read: those count.
TEST_F(RunDeath, SignalsThatTheGuardianNeverReadDoNotHideTheCode) {
  start_holder();
  ::kill(guardian_, SIGSTOP);
  ::kill(command_, SIGTERM);
  for (const int signal : {SIGWINCH, SIGCONT, SIGWINCH, SIGCONT}) {
    holder_->signal(signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // equal signals that are pending at once are one
  }
  holder_->signal(SIGSTOP);
  ::kill(guardian_, SIGCONT);
  ASSERT_TRUE(eventually([this] { return process_gone(guardian_); }));
  holder_->signal(SIGCONT);
  const Finished got = holder_->wait();
  EXPECT_EQ(got.code(), 128 + SIGTERM) << got.err;
}

TEST_F(RunDeath, GuardianKilledEndsTheCommandAndItsChildren) {
  start_holder();
  start_next();
  ::kill(guardian_, SIGKILL);
  EXPECT_EQ(holder_->wait().code(), 128 + SIGKILL);
  const Finished next = next_->wait();
  EXPECT_EQ(next.code(), 0);
  EXPECT_EQ(next.out, "");
}

TEST_F(RunDeath, ToolAndGuardianKilledTheKernelEndsTheCommandAndTheLockWaitsForTheRest) {
  start_holder();
  start_next();
  ::kill(holder_->pid(), SIGSTOP);  // so that it cannot clean up after the guardian
  ::kill(guardian_, SIGKILL);
  holder_->signal(SIGKILL);
  EXPECT_TRUE(eventually([this] { return process_gone(command_); }));
  // The child lives on, nobody is left to end it, and it inherited the lock.
  ::usleep(300'000);
  EXPECT_FALSE(process_gone(child_));
  EXPECT_TRUE(next_->running()) << "the next holder got in while the old one's child runs";
  // Whoever looks is told what to end.
  const std::string named = "sleep 1000 (pid " + std::to_string(child_) + ") goes on and keeps it";
  for (const Finished& looked :
       {run({"inspect"}), run({"inspect", "x"}), run({"lock", "status", "x"}), run({"run", "-n", "-l", "x", "true"}),
        run({"lock", "acquire", "x", "--holder", "third", "-w", "10ms"})}) {
    EXPECT_NE((looked.out + looked.err).find(named), std::string::npos) << looked.out << looked.err;
  }
  const std::string kept = "\"kept_by\":[{\"pid\":" + std::to_string(child_) + ",\"command\":\"sleep 1000\"}]";
  EXPECT_NE(run({"--json", "inspect", "x"}).out.find(kept), std::string::npos);
  EXPECT_NE(run({"--json", "lock", "status", "x"}).out.find(kept), std::string::npos);
  ::kill(child_, SIGKILL);
  EXPECT_EQ(next_->wait().code(), 0);
}

TEST_F(RunDeath, ToolKilledEndsAlsoWhatTheCommandDaemonised) {
  start_holder({}, "setsid sh -c 'sleep 1000 & echo $! >$SCRATCH/child; wait' & echo $$ >$SCRATCH/command; wait");
  start_next();
  holder_->signal(SIGKILL);
  const Finished next = next_->wait();
  EXPECT_EQ(next.code(), 0);
  EXPECT_EQ(next.out, "");
}

// The command goes when it is told to; what it left behind works on, in a session of its own.
constexpr const char* daemonising_command =
    "setsid sh -c 'sleep 1000 & echo $! >$SCRATCH/child; wait' </dev/null >/dev/null 2>&1 & echo $$ >$SCRATCH/command; "
    "while ! [ -s $SCRATCH/child ] || ! [ -e $SCRATCH/go ]; do sleep 0.01; done; exit 7";

// F22
TEST_F(RunDeath, ADaemonKeepsTheHoldUntilItEnds) {
  start_holder({}, daemonising_command);
  std::ofstream(file("go")).close();
  EXPECT_TRUE(eventually([this] { return process_gone(command_); }));
  EXPECT_TRUE(eventually([this] { return holder_->err().find("go on") != std::string::npos; })) << holder_->err();
  EXPECT_TRUE(holder_->running());
  EXPECT_FALSE(is_free("x"));
  ::kill(child_, SIGKILL);
  EXPECT_EQ(holder_->wait().code(), 7);
  EXPECT_TRUE(is_free("x"));
}

TEST_F(RunDeath, ADaemonDoesNotKeepTheHoldWithNoWaitTree) {
  start_holder({"--no-wait-tree"}, daemonising_command);
  std::ofstream(file("go")).close();
  EXPECT_EQ(holder_->wait().code(), 7);
  EXPECT_TRUE(is_free("x"));
  EXPECT_FALSE(process_gone(child_));
  // Its inherited descriptor must not disturb whoever gets the session's slot next.
  auto other = start({"run", "-l", "x", "--", "sh", "-c", "echo $$ >$SCRATCH/other; exec sleep 1000"});
  ASSERT_GT(pid_from("other"), 0);
  other->signal(SIGKILL);
  EXPECT_TRUE(eventually([this] { return is_free("x"); }));
  ::kill(child_, SIGKILL);
}

TEST_F(RunDeath, ForwardedTerminationLetsChildrenTidyUp) {
  start_holder({},
               "trap 'exit 3' TERM; (trap 'sleep 0.3; echo done >$SCRATCH/tidied; exit' TERM; echo x >$SCRATCH/ready; "
               "while :; do sleep 0.01; done) & echo $! >$SCRATCH/child; echo $$ >$SCRATCH/command; wait; wait");
  ASSERT_TRUE(eventually([this] { return !read_file(file("ready")).empty(); }));
  holder_->signal(SIGTERM);
  EXPECT_EQ(holder_->wait().code(), 3);
  EXPECT_EQ(read_file(file("tidied")), "done\n");
}

}  // namespace
}  // namespace shmcoord::test
