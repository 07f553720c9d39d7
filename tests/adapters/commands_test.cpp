#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "adapters/scratch.hpp"
#include "shmcoord/adapters.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

std::set<int> open_descriptors() {
  std::set<int> all;
  for (int fd = 0; fd < 1024; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) all.insert(fd);
  }
  return all;
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

class Commands : public ScratchTest {
 protected:
  Commands() : descriptors_(open_descriptors()) {}
  ~Commands() override {
    EXPECT_EQ(open_descriptors(), descriptors_);
    EXPECT_FALSE(has_children());
  }

  CommandResult run(const std::string& command, const GuardDeadline& deadline = patient()) {
    return commands_->run(command, deadline);
  }
  std::string refused(const std::string& command, const GuardDeadline& deadline = patient()) {
    return reason([&] { return run(command, deadline); });
  }
  /// The process that wrote its number there is gone, or a zombie that is not ours.
  bool is_gone(const std::string& name) {
    const std::string pid = read(name);
    if (pid.empty()) return false;
    const std::string number = pid.substr(0, pid.find('\n'));
    std::ifstream file("/proc/" + number + "/stat");
    std::string text;
    std::getline(file, text);  // nothing, if it ends just now
    const auto end = text.rfind(')');
    return end == std::string::npos || text[end + 2] == 'Z';
  }
  template <class Condition>
  static bool eventually(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  std::set<int> descriptors_;
  std::shared_ptr<GuardCommands> commands_ = adapters::shell_commands({.directory = scratch_.string()});
};

TEST_F(Commands, SucceedOrFailAndSayHow) {
  EXPECT_EQ(run("true"), (CommandResult{true, "exit code 0"}));
  EXPECT_EQ(run("false"), (CommandResult{false, "exit code 1"}));
  EXPECT_EQ(run("echo one; echo two >&2; echo; exit 3"), (CommandResult{false, "exit code 3: two"}));
  EXPECT_EQ(run("printf 'a\\033[31m\\r\\nlast\\tone\\r\\n \\n'"), (CommandResult{true, "exit code 0: last\\tone"}));
  EXPECT_EQ(run("printf 'ab\\033c\\377'"), (CommandResult{true, "exit code 0: ab\\x1bc\\xff"}));
  EXPECT_EQ(run("kill -9 $$"), (CommandResult{false, "ended by signal 9 (Killed)"}));
  EXPECT_EQ(run("exec 2>/dev/null; kill -SEGV $$").detail, "ended by signal 11 (Segmentation fault)");
  EXPECT_FALSE(run("if").success);
}

TEST_F(Commands, WhichCannotBeRunAreNeither) {
  EXPECT_EQ(refused("no-such-command-here 2>/dev/null"), "it cannot be run: exit code 127");
  EXPECT_NE(refused("no-such-command-here").find("not found"), std::string::npos);
  write("plain", "x");
  EXPECT_NE(refused("./plain").find("it cannot be run: exit code 126: "), std::string::npos) << refused("./plain");
  EXPECT_EQ(refused(""), "the command is empty");
  EXPECT_EQ(refused(std::string("a\0b", 3)), "the command contains a zero byte");
  EXPECT_EQ(reason([&] { return adapters::shell_commands({.directory = path("absent")})->run("true", patient()); }),
            "it cannot be started in '" + path("absent") + "': No such file or directory");
}

TEST_F(Commands, StartWithNothingOfThisProcess) {
  const int inherited = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as of a careless library
  ASSERT_GE(inherited, 0);
  const int high = ::fcntl(inherited, F_DUPFD, 500);
  sigset_t blocked;
  sigset_t before;
  ::sigfillset(&blocked);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const CommandResult descriptors = run("ls /proc/self/fd | tr '\\n' ' '");
  const CommandResult signals = run("grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f2 | tr '\\n' ' '");
  ::signal(SIGPIPE, pipe_before);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::close(high);
  ::close(inherited);
  EXPECT_EQ(descriptors.detail, "exit code 0: 0 1 2 3");  // 3: the directory that ls reads
  // But for two of glibc's own, which its posix_spawn sets so.
  EXPECT_EQ(signals.detail, "exit code 0: 0000000000000000 0000000180000000");
  EXPECT_EQ(run("cat").detail, "exit code 0");  // nothing to read
  EXPECT_EQ(run("pwd").detail, "exit code 0: " + scratch_.string());
  EXPECT_EQ(run("test $$ = $(cut -d' ' -f5 /proc/$$/stat)").detail, "exit code 0");  // leads its group
}

// All that it starts has it, and nothing else; also where the kernel forgets how children ended.
TEST_F(Commands, KeepOpenWhatTheyAreTold) {
  const int kept = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(kept, 0);
  GuardDeadline deadline = patient();
  deadline.kept_open = kept;
  for (const auto children : {SIG_DFL, SIG_IGN}) {
    const auto before = ::signal(SIGCHLD, children);
    const CommandResult has = run("sh -c 'ls -l /proc/self/fd' | grep -c zero", deadline);
    const CommandResult others = run("ls /proc/self/fd | wc -l", deadline);
    const CommandResult none = run("ls -l /proc/self/fd | grep -c zero");
    ::signal(SIGCHLD, before);
    EXPECT_EQ(has.detail, "exit code 0: 1");
    EXPECT_EQ(others.detail, "exit code 0: 5") << "three streams, the directory that is read, and that one";
    EXPECT_EQ(none.detail, "exit code 1: 0");
  }
  ::close(kept);
}

// Also in a program that closed its own standard streams, where a pipe may get their numbers.
TEST_F(Commands, RunWhereTheStandardStreamsAreClosed) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(0);
    ::close(1);
    ::close(2);
    const CommandResult result = run("cat; echo said >&2; ls /proc/self/fd >/dev/null");
    ::_exit(result == CommandResult{true, "exit code 0: said"} ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Commands, AreEndedAtTheDeadline) {
  EXPECT_EQ(refused("echo $$ >leader; sleep 1000 & echo $! >child; wait", within(200ms)), "it did not end in time");
  EXPECT_TRUE(is_gone("leader") && is_gone("child"));
  EXPECT_EQ(refused("true", within({})), "it did not end in time");
}

TEST_F(Commands, WhichIgnoreBeingAskedAreKilled) {
  const std::string stubborn = "trap '' TERM; echo $$ >leader; (echo x; while :; do sleep 1000; done)";
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(refused(stubborn, within(300ms)), "it did not end in time");
  EXPECT_GE(std::chrono::steady_clock::now() - began, 800ms);  // with the grace
  EXPECT_TRUE(is_gone("leader"));
  // The leader obeys at once, its child does not.
  EXPECT_EQ(refused("sh -c 'trap \"\" TERM; echo $$ >stubborn; while :; do sleep 1000; done' & wait", within(300ms)),
            "it did not end in time");
  EXPECT_TRUE(is_gone("stubborn"));
  EXPECT_EQ(refused("echo $$ >stopped; kill -STOP $$", within(200ms)), "it did not end in time");
  EXPECT_TRUE(is_gone("stopped"));
}

TEST_F(Commands, AreAskedFirst) {
  EXPECT_EQ(refused("trap 'echo asked >asked; exit 0' TERM; while :; do sleep 0.01; done", within(300ms)),
            "it did not end in time");
  EXPECT_EQ(read("asked"), "asked\n");
}

// One that is stopped is woken, so that it hears it.
TEST_F(Commands, WhichAreStoppedAreAskedToo) {
  EXPECT_EQ(refused("trap 'echo asked >asked; exit 0' TERM; kill -STOP $$; exit 1", within(300ms)),
            "it did not end in time");
  EXPECT_EQ(read("asked"), "asked\n");
}

TEST_F(Commands, AreEndedByTheStop) {
  std::stop_source stop;
  std::thread stopper([&] {
    EXPECT_TRUE(eventually([&] { return !read("leader").empty(); }));
    stop.request_stop();
  });
  EXPECT_EQ(refused("echo $$ >leader; sleep 1000", patient(stop.get_token())), "it was stopped");
  stopper.join();
  EXPECT_TRUE(is_gone("leader"));
}

// They would block if their output were not read, and fill the memory if it were kept.
TEST_F(Commands, MayWriteWithoutEnd) {
  EXPECT_EQ(run("head -c 1000000000 /dev/zero; printf '\\nlast line\\n'").detail, "exit code 0: last line");
  EXPECT_EQ(refused("yes", within(200ms)), "it did not end in time");
  const auto few = adapters::shell_commands({.max_output = 4});
  EXPECT_EQ(few->run("printf 'abcdefgh'", patient()).detail, "exit code 0: efgh");
  const auto none = adapters::shell_commands({.max_output = 0});
  EXPECT_EQ(none->run("printf 'abcdefgh'", patient()).detail, "exit code 0");
}

TEST_F(Commands, WhichLeaveProcessesBehindAreAFailure) {
  EXPECT_EQ(refused("sleep 1000 & echo $! >left; echo started"),
            "it left processes behind, which were ended; exit code 0: started");
  EXPECT_TRUE(is_gone("left"));
  EXPECT_EQ(refused("sh -c 'trap \"\" TERM; echo $$ >left2; while :; do sleep 1000; done' & "
                    "while ! test -s left2; do :; done; exit 1"),
            "it left processes behind, which were ended; exit code 1");
  EXPECT_TRUE(is_gone("left2"));
}

// A zombie that nobody reaps is nothing that was left behind. Here orphans come to the test itself.
TEST_F(Commands, AnOrphanThatEndedIsNothingLeftBehind) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const CommandResult ended = run("sh -c 'exit 0' & p=$!; while test -e /proc/$p/exe; do :; done; exec true");
    const std::string left = refused("sleep 1000 & exit 0");
    const bool reaped = !has_children();
    ::_exit(ended.success && left == "it left processes behind, which were ended; exit code 0" && reaped ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The end of the command is its end, whoever still has its output open or goes on writing.
TEST_F(Commands, AreNotWaitedForWhileAnotherSessionHasTheirOutput) {
  const std::string quiet =
      "setsid sh -c 'echo $$ >quiet; exec sleep 1000' & while ! test -s quiet; do :; done; echo q";
  EXPECT_EQ(run(quiet).detail, "exit code 0: q");
  EXPECT_FALSE(is_gone("quiet"));
  const std::string loud = "setsid sh -c 'echo $$ >loud; exec yes' & while ! test -s loud; do :; done; exit 4";
  EXPECT_EQ(run(loud).detail.substr(0, 11), "exit code 4");
  for (const char* const name : {"quiet", "loud"}) (void)::kill(std::stoi(read(name)), SIGKILL);
}

TEST_F(Commands, TellHowTheyEndedWhereTheEndOfChildrenIsIgnored) {
  const auto in_host = [&](bool handler_flag) {
    const pid_t child = ::fork();
    if (child == 0) {
      struct sigaction action {};
      if (handler_flag) {
        action.sa_handler = [](int) {};
        action.sa_flags = SA_NOCLDWAIT;
      } else {
        action.sa_handler = SIG_IGN;
      }
      ::sigaction(SIGCHLD, &action, nullptr);
      const bool good = run("echo a; exit 0") == CommandResult{true, "exit code 0: a"} &&
                        run("echo 'it''s'; exit 3") == CommandResult{false, "exit code 3: its"} &&
                        run("test -e /proc/self/fd/3") == CommandResult{false, "exit code 1"} &&
                        refused("exit 127") == "it cannot be run: exit code 127" &&
                        refused("sleep 1000", within(200ms)) == "it did not end in time" &&
                        refused("sleep 1000 & exit 0") == "it left processes behind, which were ended; exit code 0";
      ::_exit(good ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  };
  EXPECT_EQ(in_host(false), 0);
  EXPECT_EQ(in_host(true), 0);
}

// As a program does that reaps whatever ended. The signal comes while the command is waited for, so it is first.
TEST_F(Commands, WhoseEndSomebodyElseTookAreNotKnown) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGCHLD, [](int) {
      const int error = errno;
      while (::waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      errno = error;
    });
    const std::string said = refused("sleep 0.2; exit 0");
    ::_exit(said == "how it ended is not known: something else in this program waited for it" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(Commands, ManySideBySideLeaveNothing) {
  std::vector<std::thread> threads;
  std::vector<std::string> said(100);
  for (std::size_t n = 0; n < said.size(); ++n) {
    threads.emplace_back([&, n] {
      switch (n % 4) {
        case 0: said[n] = run("exit " + std::to_string(n % 100)).detail; break;
        case 1: said[n] = run("head -c 300000 /dev/zero; echo; echo x").detail; break;
        case 2: said[n] = refused("sleep 1000", within(300ms)); break;
        default: said[n] = refused("sleep 1000 & exit 0"); break;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t n = 0; n < said.size(); ++n) {
    const std::string expected[]{"exit code " + std::to_string(n), "exit code 0: x", "it did not end in time",
                                 "it left processes behind, which were ended; exit code 0"};
    EXPECT_EQ(said[n], expected[n % 4]) << n;
  }
}

TEST_F(Commands, ThatCannotBeGivenAPipeAreAFailure) {
#if defined(SANITIZED)
  GTEST_SKIP() << "the sanitizer takes descriptors itself when it looks at types";
#endif
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few_descriptors{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few_descriptors), 0);
  std::vector<int> taken;
  for (int fd = ::dup(1); fd >= 0; fd = ::dup(1)) taken.push_back(fd);
  const std::string none = refused("true");
  for (int n = 0; n < 3; ++n) {
    ::close(taken.back());
    taken.pop_back();
  }
  const std::string few = refused("true");  // no more than it takes
  for (const int fd : taken) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(none, "no pipe can be made: Too many open files");
  EXPECT_EQ(few, "no exception");
  EXPECT_TRUE(run("true").success);
}

}  // namespace
}  // namespace shmcoord::test
