#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "support/tool.hpp"

// `run` on a terminal, below a shell with job control, typed at as a person would.

namespace shmcoord::test {
namespace {

class RunTerminal : public ToolTest {
 protected:
  RunTerminal() : ToolTest(SHMCOORD_TOOL_PATH) {
    shell_ = ::forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (shell_ == 0) {
      ::setenv("PS1", "READY:", 1);
      ::setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
      ::execlp("bash", "bash", "--norc", "--noprofile", "--noediting", "-i", nullptr);
      ::_exit(99);
    }
    (void)reads("READY:");
    // Without an echo, what is read was printed by a command and not typed by us.
    type("stty -echo; echo quiet\n");
    (void)reads("quiet\r\nREADY:");
  }

  ~RunTerminal() override {
    ::close(terminal_);
    ::kill(shell_, SIGKILL);
    (void)::waitpid(shell_, nullptr, 0);
  }

  void type(const std::string& text) { ASSERT_EQ(::write(terminal_, text.data(), text.size()), ssize_t(text.size())); }

  /// Reads until the text has come; what came before it is dropped.
  ::testing::AssertionResult reads(const std::string& text) {
    const bool came = eventually([&] {
      pollfd fd{terminal_, POLLIN, 0};
      char buffer[4096];
      while (::poll(&fd, 1, 0) > 0) {
        const ssize_t n = ::read(terminal_, buffer, sizeof buffer);
        if (n <= 0) break;
        seen_.append(buffer, static_cast<std::size_t>(n));
      }
      const auto at = seen_.find(text);
      if (at == std::string::npos) return false;
      seen_.erase(0, at + text.size());
      return true;
    });
    return came ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << "no '" << text << "' in: " << seen_;
  }

  /// Has "Stopped" come by the next prompt?
  bool seen_stopped() {
    seen_.clear();
    pollfd fd{terminal_, POLLIN, 0};
    char buffer[4096];
    while (seen_.find("READY:") == std::string::npos && ::poll(&fd, 1, 5000) > 0) {
      const ssize_t n = ::read(terminal_, buffer, sizeof buffer);
      if (n <= 0) break;
      seen_.append(buffer, static_cast<std::size_t>(n));
    }
    return seen_.find("Stopped") != std::string::npos;
  }

  int terminal_ = -1;
  pid_t shell_ = 0;
  std::string seen_;
};

TEST_F(RunTerminal, TheCommandReadsTheTerminal) {
  type("$SHMCOORD run -l x -- sh -c 'read word; echo \"word-$word\"'; echo code-$?\n");
  type("hello\n");
  EXPECT_TRUE(reads("word-hello"));
  EXPECT_TRUE(reads("code-0"));
}

TEST_F(RunTerminal, ControlCEndsTheCommand) {
  // exec: a dash that is interrupted between two commands of a script may run the second one all the same.
  type("$SHMCOORD run -l x -- sh -c 'echo up; exec sleep 1000'; echo code-$?\n");
  ASSERT_TRUE(reads("up"));
  type("\x03");
  EXPECT_TRUE(reads("code-130"));
  type("$SHMCOORD run -n -l x -- true; echo free-$?\n");
  EXPECT_TRUE(reads("free-0"));
}

TEST_F(RunTerminal, ControlZStopsTheJobAndForegroundContinuesIt) {
  type("$SHMCOORD run -l x -- sh -c 'echo up; read word; echo \"word-$word\"'; echo code-$?\n");
  ASSERT_TRUE(reads("up"));
  type("\x1a");
  ASSERT_TRUE(reads("Stopped"));
  ASSERT_TRUE(reads("READY:"));
  type("$SHMCOORD run -n -l x -- true; echo busy-$?\n");
  EXPECT_TRUE(reads("busy-1"));
  type("fg\n");
  ASSERT_TRUE(reads("run -l x"));
  type("hello\n");
  EXPECT_TRUE(reads("word-hello"));
}

TEST_F(RunTerminal, InTheBackgroundItStopsWhenItReadsUntilItIsBroughtBack) {
  type("$SHMCOORD run -l x -- sh -c 'read word; echo \"word-$word\"' &\n");
  ASSERT_TRUE(reads("READY:"));
  // bash tells of a stopped job before its next prompt.
  ASSERT_TRUE(eventually([this] {
    type("\n");
    return seen_stopped();
  }));
  type("fg\n");
  ASSERT_TRUE(reads("run -l x"));
  type("hello\n");
  EXPECT_TRUE(reads("word-hello"));
}

// Without job control, too: who stops `run` or its command by a signal does not mean the script that called it.
TEST_F(RunTerminal, AStopThatIsSentStopsNobodyElse) {
  const std::string job = R"(sh -c 'sleep 1000 & echo $! >$SCRATCH/sibling; echo $$ >$SCRATCH/script
    $SHMCOORD run -l x -- \
      sh -c "echo \$\$ >$SCRATCH/command; exec sleep 1000" </dev/null & echo $! >$SCRATCH/run; wait' )";
  type(job + "&\n");
  const pid_t command = pid_from("command");
  const pid_t run = pid_from("run");
  ASSERT_GT(command, 0);
  ASSERT_GT(run, 0);
  const auto stopped = [](pid_t pid) {
    return read_file("/proc/" + std::to_string(pid) + "/stat").find(") T ") != std::string::npos;
  };
  for (const pid_t whom : {run, command}) {
    ::kill(whom, SIGTSTP);
    ASSERT_TRUE(eventually([&] { return stopped(run) && stopped(command); })) << whom;
    EXPECT_FALSE(stopped(pid_from("sibling")));
    EXPECT_FALSE(stopped(pid_from("script")));
    ::kill(run, SIGCONT);
    ASSERT_TRUE(eventually([&] { return !stopped(run) && !stopped(command); })) << whom;
  }
  ::kill(pid_from("sibling"), SIGKILL);
  ::kill(run, SIGKILL);
}

TEST_F(RunTerminal, APagerKeepsTheTerminal) {
  type("$SHMCOORD run -l x -- echo from-command | sh -c 'cat; read word </dev/tty; echo \"pager-$word\"'\n");
  ASSERT_TRUE(reads("from-command"));
  type("hello\n");
  EXPECT_TRUE(reads("pager-hello"));
}

TEST_F(RunTerminal, WaitingIsSaidAndControlCLeavesTheQueue) {
  auto holder =
      start({"run", "-l", "x", "--holder", "first", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  type("$SHMCOORD run -l x -- true; echo code-$?\n");
  ASSERT_TRUE(reads("waiting for lock 'x', held by first"));
  type("\x03");
  EXPECT_TRUE(reads("left the queue"));
  EXPECT_TRUE(reads("code-130"));
}

}  // namespace
}  // namespace shmcoord::test
