#include <gtest/gtest.h>

#include "support/tool.hpp"

// A `run` within the command of a `run`.

namespace shmcoord::test {
namespace {

class NestedRun : public ToolTest {
 protected:
  NestedRun() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void expect_deadlock(std::vector<std::string> words) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished got = run(std::move(words));
    EXPECT_EQ(got.code(), 1) << got.err;
    EXPECT_NE(got.err.find("lock 'x' would never be free (deadlock): held by outer "), std::string::npos) << got.err;
    EXPECT_NE(got.err.find("leave the inner one out"), std::string::npos) << got.err;
    EXPECT_EQ(got.err.find("waiting"), std::string::npos) << got.err;
    EXPECT_TRUE(is_free("x"));
  }
  /// `run -l x --holder outer -- <words>`
  [[nodiscard]] std::vector<std::string> within(std::vector<std::string> words) const {
    words.insert(words.begin(), {"run", "-l", "x", "--holder", "outer", "--", tool_});
    return words;
  }
};

TEST_F(NestedRun, OfTheSameLockEndsAtOnce) {
  expect_deadlock(within({"run", "-l", "x", "--", "true"}));
  expect_deadlock(within({"run", "-l", "x", "-w", "1h", "-E", "5", "--", "true"}));
  expect_deadlock(within({"run", "-l", "a", "-l", "x", "--", "true"}));
  EXPECT_TRUE(is_free("a")) << "what it had taken already is given back";
  expect_deadlock(within({"lock", "acquire", "x", "--holder", "inner"}));
  expect_deadlock(within({"-s", "/dev/shm/shmcoord." + segment_, "run", "-l", "x", "--", "true"}));
}

TEST_F(NestedRun, WithAnotherRunBetween) {
  expect_deadlock(within({"run", "-l", "y", "--", tool_, "run", "-l", "x", "--", "true"}));
  const std::string other = file("other");
  expect_deadlock(within({"-s", other, "run", "-l", "x", "--", tool_, "-s", segment_, "run", "-l", "x", "--", "true"}));
}

TEST_F(NestedRun, ThatDoesNotWaitFindsItBusy) {
  const Finished got = run(within({"run", "-n", "-l", "x", "-E", "5", "--", "true"}));
  EXPECT_EQ(got.code(), 5);
  EXPECT_NE(got.err.find("lock 'x' is busy: held by outer "), std::string::npos) << got.err;
  const Finished json = run(within({"--json", "lock", "acquire", "x", "--holder", "inner"}));
  EXPECT_EQ(json.code(), 1);
  EXPECT_NE(json.out.find("\"result\":\"deadlock\",\"token\":null"), std::string::npos) << json.out;
}

TEST_F(NestedRun, OfAnotherLockOrSegmentRuns) {
  EXPECT_EQ(run(within({"run", "-l", "y", "--", "true"})).code(), 0);
  const Finished got = run(within({"-s", file("other"), "run", "-l", "x", "--", "echo", "in"}));
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.out, "in\n");
}

// The outer one does not wait for what its command left behind, so that may wait for the lock.
TEST_F(NestedRun, InTheBackgroundOfOneThatDoesNotWaitForItGetsItsTurn) {
  const Finished got = run({"run", "-l", "x", "--no-wait-tree", "--", "sh", "-c",
                            "$SHMCOORD run -l x -- sh -c 'echo $$ >$SCRATCH/inner' 2>$SCRATCH/err & "
                            "until grep -q waiting $SCRATCH/err; do sleep 0.01; done"});
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_GT(pid_from("inner"), 0) << read_file(file("err"));
}

// The variables of a hold that is over are inherited by whatever outlives its `run`.
TEST_F(NestedRun, AVariableOfAHoldThatIsOverDoesNotHinder) {
  const Finished first = run({"run", "-l", "x", "--", "sh", "-c", "env | grep ^SHMCOORD_ >$SCRATCH/env"});
  ASSERT_EQ(first.code(), 0) << first.err;
  ASSERT_NE(read_file(file("env")).find("SHMCOORD_HELD="), std::string::npos);
  auto holder = start({"run", "-l", "x", "--holder", "now", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  const auto waiter = start_shell("set -a; . $SCRATCH/env; exec \"$SHMCOORD\" run -l x -- echo in");
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting for lock 'x', held by now") != std::string::npos; }))
      << waiter->err();
  holder->signal(SIGTERM);
  EXPECT_EQ(waiter->wait().out, "in\n");
}

// The same name, record and token again, but it is another segment.
TEST_F(NestedRun, AVariableOfARemovedSegmentDoesNotHinder) {
  const auto get = [this](const std::string& to) {
    return run({"run", "-l", "x", "--", "sh", "-c", "env | grep ^SHMCOORD_ >$SCRATCH/" + to});
  };
  ASSERT_EQ(get("first").code(), 0);
  ASSERT_EQ(run({"segment", "remove"}).code(), 0);
  auto holder = start({"run", "-l", "x", "--holder", "now", "--", "sh", "-c",
                       "env | grep ^SHMCOORD_ >$SCRATCH/second; echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  const auto token = [this](const std::string& name) {
    const std::string text = read_file(file(name));
    const auto at = text.find("SHMCOORD_TOKEN=") + 15;
    return text.substr(at, text.find('\n', at) - at);
  };
  ASSERT_GT(std::stoull(token("second")), std::stoull(token("first"))) << "tokens grow over a new segment";
  // As if that had given out the same tokens: only the id of the segment differs.
  const auto waiter = start_shell("set -a; . $SCRATCH/first; SHMCOORD_HELD=${SHMCOORD_HELD%:*}:" + token("second") +
                                  "; exec \"$SHMCOORD\" run -l x -- echo in");
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting for lock 'x', held by now") != std::string::npos; }))
      << waiter->err();
  holder->signal(SIGTERM);
  EXPECT_EQ(waiter->wait().out, "in\n");
}

}  // namespace
}  // namespace shmcoord::test
