#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "support/tool.hpp"

// `shmcoord guard eval` and `guard wait`, as their users start them: the tool, which becomes the program with the
// adapters (SHMCOORD_ADAPTERS_PATH, in the same directory).

namespace shmcoord::test {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class GuardAsk : public ToolTest {
 protected:
  GuardAsk() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void add(const std::string& name, const std::string& condition, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"guard", "add", name, "--condition", condition});
    const Finished got = run(std::move(more));
    ASSERT_EQ(got.code(), 0) << got.err;
  }
  void hold(const std::string& lock, const std::string& holder) {
    ASSERT_EQ(run({"lock", "acquire", lock, "--holder", holder, "-n"}).code(), 0);
  }
  void release(const std::string& lock, const std::string& holder) {
    ASSERT_EQ(run({"lock", "release", lock, "--holder", holder}).code(), 0);
  }
  Finished ask(const std::string& condition, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"guard", "eval", "--condition", condition});
    return run(std::move(more));
  }
  json::value verdict(const std::string& name) {
    const json::value list = json::parse(run({"--json", "guard", "list"}).out);
    for (const json::value& guard : list.as_array()) {
      if (guard.at("name").as_string() == name) return guard.at("verdict");
    }
    ADD_FAILURE() << "no guard " << name;
    return nullptr;
  }
  /// Waits until it has asked for the first time and found that it must wait.
  std::unique_ptr<ToolProcess> wait_for(const std::string& name, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"guard", "wait", name});
    auto waiter = start(std::move(more), [] {  // whoever runs the tests may ignore them, and so would the tool
      for (const int signal : {SIGINT, SIGHUP}) ::signal(signal, SIG_DFL);
      return true;
    });
    EXPECT_TRUE(eventually([&] { return verdict(name).is_object(); })) << waiter->err();
    return waiter;
  }
  static bool says(const ToolProcess& process, const std::string& text) {
    return eventually([&] { return process.err().find(text) != std::string::npos; });
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
  }
};

TEST_F(GuardAsk, EvaluatesWhatIsRegistered) {
  add("release", "lock_free(deploy)");
  const Finished passed = run({"guard", "eval", "release"});
  EXPECT_EQ(passed.code(), 0) << passed.err;
  EXPECT_EQ(passed.out, "guard 'release' passed\n");
  EXPECT_EQ(passed.err, "");
  EXPECT_EQ(verdict("release").at("passed"), true);
  hold("deploy", "ci-42");
  const Finished failed = run({"guard", "eval", "release"});
  EXPECT_EQ(failed.code(), 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_EQ(failed.err, "shmcoord: guard 'release' not passed: lock 'deploy' is held by 'ci-42'\n");
  EXPECT_EQ(verdict("release").at("reason"), "lock 'deploy' is held by 'ci-42'");
  EXPECT_THAT(run({"guard", "list"}).out, AllOf(HasSubstr("release  failed"), HasSubstr("held by 'ci-42'")));
  const Finished missing = run({"guard", "eval", "nothing"});
  EXPECT_EQ(missing.code(), 2);
  EXPECT_THAT(missing.err, HasSubstr("no guard 'nothing'"));
  EXPECT_EQ(run({"guard", "eval", "deploy"}).code(), 64) << "a lock";
}

TEST_F(GuardAsk, WhatFollowsFromAFailure) {
  hold("deploy", "a");
  add("warns", "lock_free(deploy)", {"--on-failure", "warn"});
  add("fails", "lock_free(deploy)", {"--on-failure", "fail:no release on Fridays"});
  add("retries", "lock_free(deploy)", {"--on-failure", "retry:10ms"});
  for (const char* const command : {"eval", "wait"}) {
    const Finished warned = run({"guard", command, "warns"});
    EXPECT_EQ(warned.code(), 0);
    EXPECT_EQ(warned.out, "");
    EXPECT_EQ(warned.err, "shmcoord: warning: guard 'warns' not passed: lock 'deploy' is held by 'a'\n");
    const Finished failed = run({"guard", command, "fails"});
    EXPECT_EQ(failed.code(), 1);
    EXPECT_THAT(failed.err, HasSubstr("guard 'fails' not passed: no release on Fridays; lock 'deploy' is held by 'a'"));
  }
  EXPECT_EQ(run({"guard", "eval", "retries"}).code(), 1);
  EXPECT_EQ(run({"guard", "wait", "retries", "-w", "50ms"}).code(), 1);
  EXPECT_EQ(json::parse(run({"--json", "guard", "eval", "warns"}).out).at("state"), "warned");
}

TEST_F(GuardAsk, TellsPrograms) {
  add("release", "lock_free(deploy)");
  const auto keys = [](const json::object& object) {
    std::string text;
    for (const auto& member : object) text += std::string(member.key()) + " ";
    return text;
  };
  const std::string all = "guard state passed reason action condition pid time waited_s ";
  const json::object passed = json::parse(run({"--json", "guard", "wait", "release"}).out).as_object();
  EXPECT_EQ(keys(passed), all);
  EXPECT_EQ(passed.at("guard"), "release");
  EXPECT_EQ(passed.at("state"), "passed");
  EXPECT_EQ(passed.at("passed"), true);
  EXPECT_EQ(passed.at("reason"), nullptr);
  EXPECT_EQ(passed.at("action"), "block");
  EXPECT_EQ(passed.at("condition"), "lock_free(deploy)");
  EXPECT_GT(passed.at("pid").as_int64(), 0);
  EXPECT_GE(passed.at("waited_s").to_number<double>(), 0.0);
  hold("deploy", "a");
  const Finished late = run({"--json", "guard", "wait", "release", "-w", "50ms"});
  EXPECT_EQ(late.code(), 1);
  const json::object in_vain = json::parse(late.out).as_object();
  EXPECT_EQ(keys(in_vain), all);
  EXPECT_EQ(in_vain.at("state"), "timed_out");
  EXPECT_EQ(in_vain.at("passed"), false);
  EXPECT_EQ(in_vain.at("reason"), "lock 'deploy' is held by 'a'");
  EXPECT_GE(in_vain.at("waited_s").to_number<double>(), 0.05);
  EXPECT_EQ(json::parse(run({"--json", "guard", "wait", "release", "-n"}).out).at("state"), "failed");
  const json::object alone =
      json::parse(run({"--json", "guard", "eval", "--condition", "lock_free(deploy)"}).out).as_object();
  EXPECT_EQ(keys(alone), all);
  EXPECT_EQ(alone.at("guard"), nullptr);
  EXPECT_EQ(alone.at("action"), nullptr);
  EXPECT_THAT(run({"--json", "guard", "eval", "none"}).out, HasSubstr(R"("code":"not_found")"));
}

TEST_F(GuardAsk, AConditionAloneNeedsNoSegment) {
  write("here", "");
  EXPECT_EQ(ask("file_exists(here) && command('test -f here')", {"--directory", scratch_}).out,
            "the condition passed\n");
  EXPECT_EQ(ask("file_exists(there)", {"--directory", scratch_}).code(), 1);
  EXPECT_EQ(ask("lock_free(x)").code(), 2);
  EXPECT_EQ(ask("semaphore_available(x)").code(), 2);
  EXPECT_EQ(ask("session_alive(x)").code(), 2);
  EXPECT_EQ(ask("session_alive(x)", {"--sessions-command", "test $SHMCOORD_SESSION = x"}).code(), 0);
  EXPECT_EQ(ask("session_alive(y)", {"--sessions-command", "test $SHMCOORD_SESSION = x"}).code(), 1);
  EXPECT_EQ(run({"guard", "eval", "x"}).code(), 2);
  EXPECT_EQ(run({"guard", "wait", "x"}).code(), 2);
  EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";

  hold("deploy", "a");
  EXPECT_EQ(ask("lock_held(deploy, a)").code(), 0);
  const Finished unknown = ask("semaphore_available(agents)");
  EXPECT_EQ(unknown.code(), 1);
  EXPECT_THAT(unknown.err, HasSubstr("there is no such semaphore"));
  write("c.json", R"({"type":"lock_free","lock":"deploy"})");
  EXPECT_EQ(run({"guard", "eval", "--json-file", file("c.json")}).code(), 1);
  EXPECT_EQ(run({"--json", "guard", "list"}).out, "[]\n") << "nothing was registered";
}

TEST_F(GuardAsk, SessionsOfTheSegmentAndOfACommand) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto events = start({"events"});
  ASSERT_TRUE(eventually([&] { return run({"inspect"}).out.find("events") != std::string::npos; }));
  const std::vector<std::string> also{"--sessions-command", "test $SHMCOORD_SESSION = other"};
  EXPECT_EQ(ask("session_alive(events)").code(), 0);
  EXPECT_EQ(ask("session_alive(events) && session_alive(other)", also).code(), 0);
  EXPECT_EQ(ask("session_alive(third)", also).code(), 1);
}

TEST_F(GuardAsk, GitIsAsked) {
  ::setenv("GIT_CONFIG_NOSYSTEM", "1", 1);
  ::setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
  ASSERT_EQ(start_shell("cd $SCRATCH && git init -q -b main repo && cd repo && git -c user.name=a -c user.email=a@b "
                        "commit -q --allow-empty -m one && git branch fix")
                ->wait()
                .code(),
            0);
  const std::string condition = "branch_clean(main) && branch_merged(fix, main)";
  EXPECT_EQ(ask(condition, {"--repository", file("repo")}).code(), 0);
  EXPECT_EQ(ask(condition, {"--directory", file("repo")}).code(), 0) << "the one around it";
  EXPECT_EQ(start_shell("cd $SCRATCH/repo && $SHMCOORD guard eval --condition 'branch_exists(fix)'")->wait().code(), 0);
  write("repo/new", "");
  const Finished dirty = ask(condition, {"--repository", file("repo")});
  EXPECT_EQ(dirty.code(), 1);
  EXPECT_THAT(dirty.err, HasSubstr("branch 'main'"));
  const Finished none = ask(condition, {"--repository", file("none")});
  EXPECT_EQ(none.code(), 1);
  EXPECT_THAT(none.err, HasSubstr("not known"));
}

TEST_F(GuardAsk, IssuesAreAsked) {
  write("issues.json", R"([{"id": "A-7", "status": "closed"}, {"id": 8, "status": "sideways"}])");
  const std::vector<std::string> from_file{"--issues", file("issues.json")};
  EXPECT_EQ(ask("issue_status(A-7, Done)", from_file).code(), 0);
  const Finished odd = ask("issues_complete()", from_file);
  EXPECT_EQ(odd.code(), 1);
  EXPECT_THAT(odd.err, HasSubstr("shmcoord: issues: status 'sideways' is not known"));
  EXPECT_EQ(ask("issue_status(A-7, Done)", {"--issues-command", "cat issues.json", "--directory", scratch_}).code(), 0);
  EXPECT_EQ(ask("issue_status(A-7, Done)", {"--issues", file("none")}).code(), 1);
  EXPECT_THAT(ask("issue_status(A-7, Done)").err, HasSubstr("no issues to ask"));
}

// What hangs is ended before the tool is: nobody would be left to do it.
TEST_F(GuardAsk, ACommandThatHangsIsEnded) {
  const std::string hang = "command('echo $$ >pid; trap \"\" TERM; while :; do sleep 0.1; done')";
  const Finished got = ask(hang, {"--timeout", "500ms", "--directory", scratch_});
  EXPECT_EQ(got.code(), 1);
  EXPECT_THAT(got.err, HasSubstr("not known"));
  const pid_t pid = pid_from("pid");
  ASSERT_GT(pid, 0);
  EXPECT_TRUE(process_gone(pid));
}

TEST_F(GuardAsk, AnInterruptedOneEndsItsCommand) {
  add("hangs", "command('echo $$ >pid; exec sleep 1000')");
  for (const char* const how : {"eval", "wait"}) {
    SCOPED_TRACE(how);
    const auto asking = start({"guard", how, "hangs", "--directory", scratch_, "--timeout", "1000s"});
    const pid_t pid = pid_from("pid");
    ASSERT_GT(pid, 0);
    asking->signal(SIGTERM);
    const Finished end = asking->wait();
    EXPECT_EQ(end.code(), 128 + SIGTERM);
    EXPECT_THAT(end.err, HasSubstr("interrupted while waiting for guard 'hangs': it was stopped before it was known"));
    EXPECT_TRUE(process_gone(pid));
    EXPECT_EQ(verdict("hangs"), nullptr) << "no verdict";
    std::filesystem::remove(file("pid"));
  }
}

TEST_F(GuardAsk, AWaitIsWokenByARelease) {
  add("release", "lock_free(deploy)");
  hold("deploy", "a");
  const auto waiter = wait_for("release", {"--recheck", "1000s"});
  EXPECT_TRUE(says(*waiter, "shmcoord: waiting for guard 'release': lock 'deploy' is held by 'a'\n"));
  release("deploy", "a");
  const Finished end = waiter->wait();
  EXPECT_EQ(end.code(), 0) << end.err;
  EXPECT_EQ(end.out, "guard 'release' passed\n");
  EXPECT_EQ(verdict("release").at("passed"), true);
}

TEST_F(GuardAsk, AWaitIsWokenByAFileAndByADeath) {
  add("both", "file_exists(go) && lock_free(deploy)");
  const auto holder = start({"run", "-l", "deploy", "--", "sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return !is_free("deploy"); }));
  const auto waiter = wait_for("both", {"--directory", scratch_, "--recheck", "1000s"});
  write("go", "");
  EXPECT_TRUE(says(*waiter, "waiting for guard 'both': lock 'deploy' is held"));
  holder->signal(SIGKILL);
  EXPECT_EQ(waiter->wait().code(), 0);
}

// Once for each reason to people; to programs once.
TEST_F(GuardAsk, TheReasonIsToldWhenItChanges) {
  add("release", "lock_free(a) && lock_free(b)");
  hold("a", "first");
  hold("b", "second");
  const auto waiter = wait_for("release");
  const auto program = wait_for("release", {"--json"});
  EXPECT_TRUE(says(*waiter, "lock 'a' is held by 'first'"));
  EXPECT_TRUE(says(*program, "waiting for guard 'release'"));
  release("a", "first");
  EXPECT_TRUE(says(*waiter, "lock 'b' is held by 'second'"));
  const std::string told = waiter->err();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 2) << told;
  release("b", "second");
  EXPECT_EQ(waiter->wait().code(), 0);
  EXPECT_EQ(waiter->err(), told);
  const Finished once = program->wait();
  EXPECT_EQ(once.code(), 0);
  EXPECT_EQ(std::count(once.err.begin(), once.err.end(), '\n'), 1) << once.err;
  EXPECT_EQ(json::parse(once.out).at("state"), "passed");
}

TEST_F(GuardAsk, AWaitEnds) {
  add("release", "lock_free(deploy)");
  hold("deploy", "a");
  EXPECT_EQ(run({"guard", "wait", "release", "-n"}).code(), 1);
  EXPECT_EQ(run({"guard", "wait", "release", "-w", "0"}).code(), 1);
  const Finished late = run({"guard", "wait", "release", "-w", "50ms"});
  EXPECT_EQ(late.code(), 1);
  EXPECT_THAT(late.err, HasSubstr("guard 'release' not passed within 50ms: lock 'deploy' is held by 'a'"));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const auto waiter = wait_for("release", {"--json"});
    EXPECT_TRUE(says(*waiter, "waiting for")) << "it reads signals by now";
    waiter->signal(signal);
    const Finished end = waiter->wait();
    EXPECT_EQ(end.code(), 128 + signal);
    EXPECT_EQ(json::parse(end.out).at("state"), "cancelled");
    EXPECT_THAT(end.err, HasSubstr("interrupted while waiting for guard 'release': lock 'deploy' is held by 'a'"));
  }
}

TEST_F(GuardAsk, AWaitForWhatIsRemovedEnds) {
  add("release", "lock_free(deploy)");
  hold("deploy", "a");
  const auto waiter = wait_for("release");
  ASSERT_EQ(run({"guard", "remove", "release"}).code(), 0);
  const Finished end = waiter->wait();
  EXPECT_EQ(end.code(), 2);
  EXPECT_THAT(end.err, HasSubstr("guard 'release' was removed while it was waited for"));

  add("again", "lock_free(deploy)");
  const auto other = wait_for("again");
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished gone = other->wait();
  EXPECT_EQ(gone.code(), 69) << gone.err;
  EXPECT_THAT(gone.err, HasSubstr("removed"));
}

TEST_F(GuardAsk, AKilledWaiterLeavesNothing) {
  add("release", "lock_free(deploy)");
  hold("deploy", "a");
  const auto waiter = wait_for("release");
  ASSERT_THAT(run({"inspect"}).out, HasSubstr("guard wait"));
  waiter->signal(SIGKILL);
  (void)waiter->wait();
  ASSERT_EQ(run({"reap", "--once"}).code(), 0);
  const json::value seen = json::parse(run({"--json", "inspect"}).out);
  EXPECT_TRUE(seen.at("sessions").as_array().empty()) << seen.at("sessions");
  EXPECT_EQ(seen.at("guards").as_array().size(), 1U);
  const Finished check = run({"segment", "check"});
  EXPECT_EQ(check.code(), 0) << check.out;
  release("deploy", "a");
  EXPECT_EQ(run({"guard", "wait", "release"}).code(), 0);
}

TEST_F(GuardAsk, WhatCannotBeIsRefused) {
  const auto refused = [&](std::vector<std::string> words, const std::string& says) {
    SCOPED_TRACE(::testing::PrintToString(words));
    words.insert(words.begin(), "guard");
    const Finished got = run(std::move(words));
    EXPECT_EQ(got.code(), 64) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("shmcoord: "), HasSubstr(says)));
  };
  refused({"eval"}, "needs the name of a guard, or a condition");
  refused({"eval", "x", "y"}, "'y'");
  refused({"eval", "x", "--condition", "lock_free(a)"}, "exclude each other");
  refused({"eval", "--condition", "lock_free("}, "\n  lock_free(\n            ^\n");
  refused({"eval", "--condition", "lock_free(a)", "--json-file", "-"}, "exclude each other");
  refused({"eval", "x", "--issues", "a", "--issues-command", "b"}, "exclude each other");
  refused({"eval", "x", "--directory", file("none")}, "No such file");
  refused({"eval", "x", "--directory", "/dev/null"}, "Not a directory");
  refused({"eval", "x", "--timeout", "0"}, "'0' is zero");
  refused({"wait"}, "needs a name");
  refused({"wait", "x", "-n", "-w", "5s"}, "exclude each other");
  refused({"wait", "x", "--recheck", "0s"}, "'0s' is zero");
  refused({"wait", "x", "--timeout", "5"}, "'5'");
  refused({"wait", "x", "--condition", "lock_free(a)"}, "unknown option '--condition'");
  EXPECT_EQ(run({"-s", file("foreign"), "guard", "wait", "x"}).code(), 2);
  write("foreign", "this is not a segment");
  for (const char* const how : {"eval", "wait"}) {
    EXPECT_EQ(run({"-s", file("foreign"), "guard", how, "x"}).code(), 69) << how;
  }
}

// Where it is installed: bin and libexec/shmcoord beside each other. It speaks as the tool.
TEST_F(GuardAsk, TheProgramIsFoundInLibexec) {
  ASSERT_EQ(start_shell("mkdir -p $SCRATCH/bin $SCRATCH/libexec/shmcoord && cp $SHMCOORD $SCRATCH/bin/shmcoord && "
                        "ln -s " SHMCOORD_ADAPTERS_PATH " $SCRATCH/libexec/shmcoord/shmcoord-adapters")
                ->wait()
                .code(),
            0);
  tool_ = file("bin/shmcoord");
  EXPECT_EQ(ask("command(true)").out, "the condition passed\n");
  const Finished failed = ask("command(false)");
  EXPECT_EQ(failed.code(), 1);
  EXPECT_THAT(failed.err, AllOf(StartsWith("shmcoord: the condition"), Not(HasSubstr("adapters"))));
  // By itself it is the same tool.
  tool_ = SHMCOORD_ADAPTERS_PATH;
  EXPECT_THAT(run({"--version"}).out, StartsWith("shmcoord "));
  EXPECT_EQ(run({"guard", "frobnicate"}).code(), 64);
  // One that cannot be run is named, with the reason.
  tool_ = file("bin/shmcoord");
  write("bin/shmcoord-adapters", "");
  ASSERT_EQ(start_shell("rm $SCRATCH/libexec/shmcoord/shmcoord-adapters")->wait().code(), 0);
  if (std::filesystem::exists(SHMCOORD_LIBEXEC "/shmcoord-adapters")) return;
  const Finished refused = ask("command(true)");
  EXPECT_EQ(refused.code(), 69);
  EXPECT_THAT(refused.err, HasSubstr("bin/shmcoord-adapters' (Permission denied)"));
}

TEST_F(GuardAsk, OutputThatCannotBeWrittenIsAnError) {
  for (const char* const to : {" >/dev/full", " >&-"}) {
    const Finished got = start_shell(std::string("$SHMCOORD guard eval --condition 'command(true)'") + to)->wait();
    EXPECT_EQ(got.code(), 70) << to;
    EXPECT_THAT(got.err, StartsWith("shmcoord: standard output cannot be written: "));
  }
}

}  // namespace
}  // namespace shmcoord::test
