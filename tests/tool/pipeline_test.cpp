#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "support/tool.hpp"

// `shmcoord pipeline …` as its users start it: the tool, which becomes the program with the
// adapters where it runs one.

namespace shmcoord::test {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PipelineTool : public ToolTest {
 protected:
  PipelineTool() : ToolTest(SHMCOORD_TOOL_PATH) {}

  [[nodiscard]] std::string path(const std::string& name) const { return scratch_ + "/" + name; }
  std::string file(const std::string& text, const std::string& name = "p.json") const {
    std::ofstream(path(name)) << text;
    return path(name);
  }
  static bool default_signals() {  // whoever runs the tests may ignore them, and so would the tool
    for (const int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_DFL);
    return true;
  }
  std::unique_ptr<ToolProcess> begin(const std::string& text, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"pipeline", "run", file(text)});
    return start(std::move(more), default_signals);
  }
  json::object status(const std::string& id) {
    const Finished got = run({"--json", "pipeline", "status", id});
    return got.code() == 0 ? json::parse(got.out).as_object() : json::object{{"status", got.err}};
  }
  bool becomes(const std::string& id, const std::string& wanted, const std::string& phase = {}) {
    return eventually([&] {
      const json::object now = status(id);
      return now.at("status") == json::string_view(wanted) &&
             (phase.empty() || now.at("phase") == json::string_view(phase));
    });
  }
  /// On a terminal, until a command has made the file `in`; what stood there in the end.
  std::string run_until_ctrl_c(const std::string& text) {
    file(text);
    const auto shell = start_shell(
        "mkfifo $SCRATCH/keys; (exec 3<>$SCRATCH/keys; cat <&3) | "
        "script -qefc \"$SHMCOORD pipeline run $SCRATCH/p.json\" $SCRATCH/tty");
    EXPECT_TRUE(eventually([&] { return there("in"); })) << shell->err();
    EXPECT_EQ(start_shell("printf '\\003' >$SCRATCH/keys")->wait().code(), 0);
    EXPECT_TRUE(eventually([&] { return content("tty").find("COMMAND_EXIT_CODE") != std::string::npos; }));
    shell->signal(SIGKILL);
    return content("tty");
  }
  [[nodiscard]] bool there(const std::string& name) const { return std::filesystem::exists(path(name)); }
  std::string content(const std::string& name) const { return read_file(path(name)); }
};

constexpr const char* three = R"j({"id": "release", "phases": [
  {"name": "build", "command": "echo $SHMCOORD_PIPELINE $SHMCOORD_PHASE $SHMCOORD_HOLDER >> $SCRATCH/log"},
  {"name": "check", "pre": "lock_free(main)", "locks": ["main"],
   "command": ["sh", "-c", "echo $SHMCOORD_TOKENS >> $SCRATCH/log; cat; touch $SCRATCH/in"]},
  {"name": "ship"}]})j";

TEST_F(PipelineTool, RunsThePhasesAndLeavesTheStateBehind) {
  const auto runner = begin(three);
  const Finished got = runner->wait();
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_THAT(content("log"), HasSubstr("release build pipeline:release\nmain="));
  EXPECT_TRUE(there("in"));
  EXPECT_THAT(got.err, AllOf(HasSubstr("[1/3] build: /bin/sh -c"), HasSubstr("pipeline 'release' is done\n")));
  const json::object now = status("release");
  EXPECT_EQ(now.at("status"), "done");
  EXPECT_EQ(now.at("phases"), (json::array{"build", "check", "ship"}));
  EXPECT_TRUE(now.at("runner").is_null());
  EXPECT_EQ(json::parse(run({"--json", "inspect"}).out).at("pipelines").as_array().at(0), json::value(now));
  EXPECT_THAT(run({"pipeline", "status"}).out, HasSubstr("release   done"));
  // What is over is begun anew.
  EXPECT_EQ(begin(three)->wait().code(), 0);
  EXPECT_EQ(run({"pipeline", "remove", "release"}).code(), 0);
  EXPECT_EQ(run({"pipeline", "status", "release"}).code(), 2);
}

TEST_F(PipelineTool, WaitsForWhatItsPhaseHoldsAndSaysSo) {
  ASSERT_EQ(run({"lock", "acquire", "main", "--holder", "ci", "--reason", "nightly"}).code(), 0);
  const auto runner = begin(R"j({"id": "p", "phases": [{"name": "a", "locks": ["main"], "command": "true"}]})j");
  ASSERT_TRUE(becomes("p", "blocked"));
  const json::object now = status("p");
  EXPECT_EQ(now.at("step"), "acquiring");
  EXPECT_EQ(now.at("waiting_on"), "lock 'main', held by 'ci'");
  EXPECT_EQ(now.at("wake_on"), json::array{"lock:*"});
  EXPECT_EQ(now.at("runner").at("pid"), runner->pid());
  EXPECT_TRUE(now.at("runner").at("alive").as_bool());
  EXPECT_THAT(run({"inspect"}).out, HasSubstr("waiting on lock 'main', held by 'ci'"));
  ASSERT_EQ(run({"lock", "release", "main", "--holder", "ci"}).code(), 0);
  const Finished got = runner->wait();
  EXPECT_EQ(got.code(), 0);
  EXPECT_THAT(got.err, HasSubstr("pipeline 'p': [1/1] a: waiting: lock 'main', held by 'ci'\n"));
}

TEST_F(PipelineTool, AKilledRunnerTakesItsCommandAlongAndIsFollowed) {
  const auto runner = begin(R"j({"id": "p", "phases": [
    {"name": "a", "command": "echo a >> $SCRATCH/log"},
    {"name": "b", "locks": ["main"],
     "command": "echo $$ > $SCRATCH/pid; echo b >> $SCRATCH/log; test -e $SCRATCH/go || sleep 1000"}]})j");
  ASSERT_TRUE(eventually([&] { return there("pid") && !content("pid").empty(); }));
  const pid_t command = static_cast<pid_t>(std::stol(content("pid")));
  EXPECT_EQ(run({"lock", "acquire", "main", "--holder", "x", "-n"}).code(), 1);
  runner->signal(SIGKILL);
  EXPECT_EQ(run({"lock", "acquire", "main", "--holder", "x", "-w", "10s"}).code(), 0);
  EXPECT_TRUE(process_gone(command)) << "before the next holder gets in";
  EXPECT_EQ(run({"lock", "release", "main", "--holder", "x"}).code(), 0);
  const json::object left = status("p");
  EXPECT_EQ(left.at("status"), "running");
  EXPECT_EQ(left.at("phase"), "b");
  EXPECT_THAT(run({"inspect"}).out, HasSubstr("nobody runs it; `shmcoord pipeline resume p` goes on with it"));
  // It has to be resumed, not begun anew.
  const Finished again = begin(R"j({"id": "p", "phases": [{"name": "other"}]})j")->wait();
  EXPECT_EQ(again.code(), 1);
  EXPECT_THAT(again.err,
              HasSubstr("pipeline 'p' is running in phase 'b', and nobody runs it; resume it, or cancel it"));
  file("", "go");
  const Finished resumed = run({"pipeline", "resume", "p"});
  EXPECT_EQ(resumed.code(), 0) << resumed.err;
  EXPECT_EQ(content("log"), "a\nb\nb\n");
}

TEST_F(PipelineTool, AKilledRunnerTakesTheCommandOfAGuardAlong) {
  const auto runner = begin(R"j({"id": "p", "phases": [
    {"name": "a", "locks": ["main"], "post": "command('sleep 1000 & echo $! > $SCRATCH/pid; wait')"}]})j");
  ASSERT_TRUE(eventually([&] { return there("pid") && !content("pid").empty(); }));
  const pid_t command = static_cast<pid_t>(std::stol(content("pid")));
  EXPECT_EQ(run({"lock", "acquire", "main", "--holder", "x", "-n"}).code(), 1);
  runner->signal(SIGKILL);
  EXPECT_EQ(run({"lock", "acquire", "main", "--holder", "x", "-w", "10s"}).code(), 0);
  EXPECT_TRUE(process_gone(command)) << "before the next holder gets in";
  const json::value left = status("p").at("runner");  // what is in nobody's way may be there for a moment
  EXPECT_TRUE(left.is_null() || !left.at("alive").as_bool());
}

TEST_F(PipelineTool, ACommandThatFailsCanBeResumed) {
  const auto text = R"j({"id": "p", "phases": [
    {"name": "a", "command": "echo a >> $SCRATCH/log"}, {"name": "b", "command": "test -e $SCRATCH/ok || exit 3"}]})j";
  const Finished got = begin(text)->wait();
  EXPECT_EQ(got.code(), 1);
  EXPECT_THAT(got.err, HasSubstr("pipeline 'p' failed: phase 'b': exit code 3; `shmcoord pipeline resume p` goes on"));
  EXPECT_EQ(status("p").at("failure"), "phase 'b': exit code 3");
  file("", "ok");
  EXPECT_EQ(run({"pipeline", "resume", "p"}).code(), 0);
  EXPECT_EQ(content("log"), "a\n");
  const Finished done = run({"pipeline", "resume", "p"});
  EXPECT_EQ(done.code(), 0);
  const Finished none = begin(R"j({"id": "q", "phases": [{"name": "a", "command": ["/nothing/here"]}]})j")->wait();
  EXPECT_EQ(none.code(), 1);
  EXPECT_THAT(none.err, HasSubstr("cannot run '/nothing/here': No such file or directory"));
}

TEST_F(PipelineTool, IsInterruptedWhereverItIs) {
  const std::string text = R"j({"id": "p", "phases": [
    {"name": "a", "pre": "file_exists($)", "command": "touch $SCRATCH/in; exec sleep 1000"}]})j";
  std::string guarded = text;
  guarded.replace(guarded.find('$'), 1, path("ready"));
  auto runner = begin(guarded);
  ASSERT_TRUE(becomes("p", "blocked"));
  runner->signal(SIGINT);
  Finished got = runner->wait();
  EXPECT_EQ(got.code(), 128 + SIGINT);
  EXPECT_THAT(got.err, HasSubstr("pipeline 'p' was interrupted in phase 'a'; `shmcoord pipeline resume p`"));
  EXPECT_EQ(status("p").at("status"), "blocked") << "it says on what";
  file("", "ready");
  runner = start({"pipeline", "resume", "p"}, default_signals);
  ASSERT_TRUE(eventually([&] { return there("in"); }));
  runner->signal(SIGTERM);
  got = runner->wait();
  EXPECT_EQ(got.code(), 128 + SIGTERM) << got.err;
  EXPECT_EQ(status("p").at("step"), "inside");
}

TEST_F(PipelineTool, IsCancelledFromOutside) {
  const auto runner = begin(R"j({"id": "p", "phases": [{"name": "a", "locks": ["main"],
    "command": "trap '' TERM; touch $SCRATCH/in; sleep 1000 & wait; sleep 1000"}]})j",
                            {"--grace", "100ms"});
  ASSERT_TRUE(eventually([&] { return there("in"); }));
  EXPECT_EQ(run({"pipeline", "remove", "p"}).code(), 1) << "somebody runs it";
  EXPECT_EQ(run({"pipeline", "cancel", "p"}).code(), 0);
  const Finished got = runner->wait();
  EXPECT_EQ(got.code(), 1);
  EXPECT_THAT(got.err, HasSubstr("pipeline 'p' was cancelled in phase 'a'"));
  EXPECT_EQ(status("p").at("status"), "cancelled");
  EXPECT_EQ(run({"lock", "acquire", "main", "--holder", "x", "-n"}).code(), 0);
  const Finished again = run({"pipeline", "cancel", "p"});
  EXPECT_EQ(again.code(), 2);
  EXPECT_THAT(again.err, HasSubstr("pipeline 'p' is cancelled already"));
  EXPECT_EQ(run({"pipeline", "resume", "p"}).code(), 1) << "for good";
}

TEST_F(PipelineTool, OneIsRunOnce) {
  const std::string text = R"j({"id": "p", "phases": [{"name": "a", "command": "touch $SCRATCH/in; sleep 1000"}]})j";
  const auto runner = begin(text);
  ASSERT_TRUE(eventually([&] { return there("in"); }));
  const std::string by = "by process " + std::to_string(runner->pid());
  const Finished second = run({"pipeline", "run", path("p.json")});
  EXPECT_EQ(second.code(), 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr(by), HasSubstr("wait until it is over, or cancel it")));
  const Finished third = run({"pipeline", "resume", "p"});
  EXPECT_EQ(third.code(), 1);
  EXPECT_THAT(third.err, HasSubstr(by));
}

// With --json standard output is the commands', and all that is said is a line of JSON on standard error.
TEST_F(PipelineTool, TellsProgramsEachState) {
  const auto runner = begin(R"j({"id": "p", "phases": [{"name": "a", "command": "echo out"},
    {"name": "b", "post": {"condition": "file_exists(/nothing)", "on_failure": "fail:not there"}}]})j",
                            {"--json"});
  const Finished got = runner->wait();
  EXPECT_EQ(got.code(), 1);
  EXPECT_EQ(got.out, "out\n");
  std::vector<std::string> states;
  std::istringstream lines(got.err);
  for (std::string line; std::getline(lines, line);) {
    const json::object o = json::parse(line).as_object();
    if (o.contains("status")) {
      states.push_back(json::value_to<std::string>(o.at("phase")) + " " + json::value_to<std::string>(o.at("step")) +
                       " " + json::value_to<std::string>(o.at("status")));
    } else if (o.contains("result")) {
      states.push_back(json::value_to<std::string>(o.at("result")));
    } else {
      states.push_back(json::value_to<std::string>(o.at("error").at("code")));
    }
  }
  EXPECT_EQ(states, (std::vector<std::string>{"a inside running", "b inside running", "b leaving running",
                                              "b leaving failed", "failed", "failed"}));
}

TEST_F(PipelineTool, AMistakeInTheFileIsToldWithItsPlace) {
  const auto says = [&](const std::string& text, const std::string& what) {
    const Finished got = run({"pipeline", "run", file(text)});
    EXPECT_EQ(got.code(), 64) << text;
    EXPECT_THAT(got.err, AllOf(HasSubstr(what), HasSubstr(path("p.json"))));
  };
  says("{\"id\": \"p\",\n \"phases\": [{\"name\": \"a\", \"pre\": \"lock_free(main) &&\"}]}", "line 2, column 53");
  says("{\"id\": \"p\",\n \"phases\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
       "line 2, column 37: there are two phases 'a'");
  says("{\"id\": \"p\",\n \"fases\": []}", "line 2, column 2");
  says("", "line 1");
  says("{\"id\": \"" + std::string(247, 'p') + "\", \"phases\": [{\"name\": \"a\"}]}",
       "line 1, column 8: the id of the ");
  says("{\"id\": \"p\", \"phases\": []}", "has no phases");
  EXPECT_EQ(run({"pipeline", "run", path("none.json")}).code(), 64);
  EXPECT_EQ(run({"pipeline", "run", scratch_}).code(), 64);
  EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";
  EXPECT_EQ(run({"pipeline", "run"}).code(), 64);
  EXPECT_EQ(run({"pipeline", "resume", "p"}).code(), 2);
  EXPECT_EQ(run({"pipeline", "cancel", "p"}).code(), 2);
}

TEST_F(PipelineTool, TheLongestIdAndNamesRun) {
  const std::string id(246, 'i');
  const std::string name(255, 'n');
  const Finished got = begin(R"j({"id": ")j" + id + R"j(", "phases": [{"name": ")j" + name + R"j(", "locks": [")j" +
                             name + R"j("], "pre": "lock_free(main)", "command": "true"}]})j")
                           ->wait();
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(status(id).at("status"), "done");
}

TEST_F(PipelineTool, OnATerminalItIsDrawnInItsPlace) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  ASSERT_EQ(run({"lock", "acquire", "main", "--holder", "ci"}).code(), 0);
  file(R"j({"id": "p", "phases": [{"name": "first"}, {"name": "second", "pre": "lock_free(main)"}]})j");
  const auto shell = start_shell("TERM=xterm script -qefc \"$SHMCOORD pipeline run $SCRATCH/p.json\" $SCRATCH/tty");
  ASSERT_TRUE(becomes("p", "blocked"));
  ASSERT_TRUE(eventually([&] { return content("tty").find("waiting  second") != std::string::npos; }))
      << content("tty");
  ASSERT_EQ(run({"lock", "release", "main", "--holder", "ci"}).code(), 0);
  EXPECT_EQ(shell->wait().code(), 0);
  const std::string seen = content("tty");
  EXPECT_THAT(seen, AllOf(HasSubstr("\x1b[3A"), HasSubstr("done     first "), HasSubstr("lock 'main' is held by 'ci'"),
                          HasSubstr("done     second")));
}

// What is drawn next begins on a line of its own.
TEST_F(PipelineTool, OnATerminalWhatACommandWroteStays) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  file(R"j({"id": "p", "phases": [{"name": "a", "command": "printf 12345"}, {"name": "b", "command": "printf 6"}]})j");
  ASSERT_EQ(start_shell("TERM=xterm script -qefc \"stty cols 60; $SHMCOORD pipeline run $SCRATCH/p.json\" $SCRATCH/tty")
                ->wait()
                .code(),
            0);
  const std::string next_line = std::string(60, ' ') + "\r\r\x1b[2K";
  EXPECT_THAT(content("tty"), AllOf(HasSubstr("12345" + next_line), HasSubstr("6" + next_line)));
}

TEST_F(PipelineTool, ATerminalThatCannotDrawGetsLines) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  file(R"j({"id": "p", "phases": [{"name": "a", "command": "true"}]})j");
  for (const char* const environment : {"TERM=dumb", "-u TERM", "TERM="}) {
    const std::string command = std::string("env ") + environment + " $SHMCOORD pipeline run $SCRATCH/p.json";
    ASSERT_EQ(start_shell("script -qefc \"" + command + "\" $SCRATCH/tty")->wait().code(), 0);
    EXPECT_THAT(content("tty"), AllOf(HasSubstr("shmcoord: pipeline 'p': [1/1] a: /bin/sh -c true\r\n"),
                                      HasSubstr("pipeline 'p' is done"), Not(HasSubstr("\x1b["))))
        << environment;
  }
}

TEST_F(PipelineTool, ALongCommandIsShownAsOneLine) {
  const Finished got =
      begin(R"j({"id": "p", "phases": [{"name": "a", "command": ": )j" + std::string(100'000, 'y') + R"j("}]})j")
          ->wait();
  EXPECT_EQ(got.code(), 0);
  EXPECT_THAT(got.err, HasSubstr("[1/1] a: /bin/sh -c : yyy"));
  EXPECT_LT(got.err.size(), 300U);
}

// Typed at a terminal it goes to the command alone, which is in the foreground.
TEST_F(PipelineTool, CtrlCWhileACommandRunsIsAnInterruption) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  const char* const text =
      R"j({"id": "p", "phases": [{"name": "a", "command": "touch $SCRATCH/in; exec sleep 1000"}, {"name": "b"}]})j";
  const std::string said = run_until_ctrl_c(text);
  EXPECT_THAT(said,
              AllOf(HasSubstr("pipeline 'p' was interrupted in phase 'a'"), HasSubstr("COMMAND_EXIT_CODE=\"130\"")));
  EXPECT_EQ(status("p").at("status"), "running") << "to be resumed, not failed";
}

// A program that tidies up and exits with 0 is none that was not told to end.
TEST_F(PipelineTool, CtrlCThatTheCommandHandlesIsAnInterruptionToo) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  const char* const text = R"j({"id": "p", "phases": [
    {"name": "a", "command": "trap 'echo tidied; exit 0' INT; touch $SCRATCH/in; while :; do sleep 0.05; done"},
    {"name": "b", "command": "touch $SCRATCH/b"}]})j";
  const std::string said = run_until_ctrl_c(text);
  EXPECT_THAT(said, AllOf(HasSubstr("tidied"), HasSubstr("COMMAND_EXIT_CODE=\"130\"")));
  EXPECT_FALSE(there("b"));
}

TEST_F(PipelineTool, ACommandThatDoesNotEndIsKilledAfterTheGrace) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const auto runner = begin(R"j({"id": "p", "phases": [
      {"name": "a", "command": "trap '' TERM INT; touch $SCRATCH/in; while :; do sleep 0.05; done"},
      {"name": "b", "command": "touch $SCRATCH/b"}]})j",
                              {"--grace", "50ms"});
    ASSERT_TRUE(eventually([&] { return there("in"); })) << runner->err();
    runner->signal(signal);
    EXPECT_EQ(runner->wait().code(), 128 + signal);
    EXPECT_FALSE(there("b"));
    EXPECT_EQ(status("p").at("status"), "running") << "to be resumed";
    EXPECT_EQ(run({"pipeline", "cancel", "p"}).code(), 0);
    std::filesystem::remove(path("in"));
  }
}

TEST_F(PipelineTool, AGuardThatWarnsIsToldOnce) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  const Finished got = begin(R"j({"id": "p", "phases": [{"name": "a",
    "pre": {"condition": "file_exists(/nothing)", "on_failure": "warn"}}]})j")
                           ->wait();
  EXPECT_EQ(got.code(), 0);
  const std::string warning = "shmcoord: warning: guard 'p/a/pre' not passed: file '/nothing' does not exist\n";
  EXPECT_THAT(got.err, HasSubstr(warning));
  const Finished json = run({"--json", "pipeline", "run", path("p.json")});
  const std::size_t at = json.err.rfind("{\"time\"", json.err.find("\"warning\""));
  ASSERT_NE(at, std::string::npos) << json.err;
  const json::object line = json::parse(json.err.substr(at, json.err.find('\n', at) - at)).as_object();
  EXPECT_EQ(line.at("id"), "p");
  EXPECT_EQ(line.at("warning"), (json::object{{"guard", "p/a/pre"}, {"reason", "file '/nothing' does not exist"}}));
  const std::string out = run({"events", "--no-follow", "guard:failed"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out << "once by each run";
}

TEST_F(PipelineTool, WaitsForNoLockOfTheRunAroundIt) {
  file(R"j({"id": "inner", "phases": [{"name": "a", "locks": ["main"]}]})j", "inner.json");
  const Finished in_run = run({"run", "-l", "main", "--", SHMCOORD_TOOL_PATH, "pipeline", "run", path("inner.json")});
  EXPECT_EQ(in_run.code(), 1);
  EXPECT_THAT(in_run.err, HasSubstr("pipeline 'inner' would wait for ever: lock 'main', held by 'run:"));
  ASSERT_EQ(run({"pipeline", "cancel", "inner"}).code(), 0);
  const Finished in_pipeline = begin(R"j({"id": "outer", "phases": [{"name": "a", "locks": ["main"],
        "command": "$SHMCOORD pipeline run $SCRATCH/inner.json"}]})j")
                                   ->wait();
  EXPECT_EQ(in_pipeline.code(), 1);
  EXPECT_THAT(in_pipeline.err, HasSubstr("would wait for ever: lock 'main', held by 'pipeline:outer'"));
}

TEST_F(PipelineTool, WhereThereIsNoRoomNothingIsLeftBehindAndRoomCanBeMade) {
  ASSERT_EQ(run({"segment", "create", "--entries", "32"}).code(), 0);
  const auto text = [](const std::string& id) { return R"j({"id": ")j" + id + R"j(", "phases": [{"name": "a"}]})j"; };
  std::vector<std::string> done;
  for (int n = 0;; ++n) {
    ASSERT_LT(n, 10);
    const std::string id = "p" + std::to_string(n);
    const Finished got = begin(text(id))->wait();
    if (got.code() != 0) {
      EXPECT_EQ(got.code(), 69) << got.err;
      EXPECT_EQ(run({"pipeline", "status", id}).code(), 2) << "it was not begun";
      break;
    }
    done.push_back(id);
  }
  ASSERT_FALSE(done.empty());
  int full = 0;  // also of what would be room for a hold
  for (int n = 0; n < 10 && full == 0; ++n) {
    full = run({"lock", "acquire", "l" + std::to_string(n), "--holder", "x"}).code();
  }
  ASSERT_EQ(full, 69);
  for (const std::string& id : done) EXPECT_EQ(run({"pipeline", "remove", id}).code(), 0) << id;
  for (int n = 0; n < 10; ++n) (void)run({"lock", "release", "l" + std::to_string(n), "--holder", "x"});
  EXPECT_EQ(begin(text("again"))->wait().code(), 0);
}

TEST_F(PipelineTool, EventsTellOfIt) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  EXPECT_EQ(begin(R"j({"id": "p", "phases": [{"name": "a", "pre": "lock_free(main)"}]})j")->wait().code(), 0);
  const std::string out = run({"events", "--no-follow", "pipeline:*", "phase:*", "guard:*"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("guard:passed         p/a/pre, pipeline p"),
                         HasSubstr("phase:entered        p, phase a"), HasSubstr("pipeline:completed   p, phase a")));
}

}  // namespace
}  // namespace shmcoord::test
