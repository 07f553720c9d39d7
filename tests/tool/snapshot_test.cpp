#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/tool.hpp"

// `shmcoord snapshot save`, `snapshot restore`.

namespace shmcoord::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SnapshotTool : public ToolTest {
 protected:
  SnapshotTool() : ToolTest(SHMCOORD_TOOL_PATH) {}
  [[nodiscard]] std::string file() const { return ToolTest::file("saved.json"); }
};

TEST_F(SnapshotTool, ASegmentIsLostAndMadeAnew) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "4"}).code(), 0);
  const Finished token = run({"lock", "acquire", "deploy", "--holder", "ci", "--ttl", "1h", "--reason", "rev=abc"});
  ASSERT_EQ(token.code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "a", "--weight", "3", "--ttl", "1h"}).code(), 0);
  ASSERT_EQ(run({"guard", "add", "gate", "--condition", "lock_free(deploy)"}).code(), 0);
  const Finished saved = run({"snapshot", "save", file()});
  EXPECT_EQ(saved.code(), 0) << saved.err;
  EXPECT_EQ(saved.out, "saved 1 locks, 1 semaphores, 1 guards, 0 pipelines, 2 holds to " + file() + "\n");

  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished restored = run({"snapshot", "restore", file()});
  EXPECT_EQ(restored.code(), 0) << restored.err;
  EXPECT_EQ(restored.out, "restored 1 locks, 1 semaphores, 1 guards, 0 pipelines, 2 holds from " + file() + "\n");
  EXPECT_EQ(restored.err, "");
  EXPECT_EQ(run({"lock", "acquire", "deploy", "--holder", "other", "-n"}).code(), 1);
  const Finished again = run({"lock", "acquire", "deploy", "--holder", "ci"});
  EXPECT_EQ(again.out, token.out) << "the holder has the token that it had";
  EXPECT_EQ(run({"sem", "acquire", "agents", "--holder", "b", "--weight", "2", "-n"}).code(), 1);
  EXPECT_THAT(run({"guard", "list"}).out, HasSubstr("lock_free(deploy)"));
  EXPECT_EQ(run({"segment", "check"}).code(), 0);
  ASSERT_EQ(run({"lock", "release", "deploy", "--holder", "ci"}).code(), 0);
  const Finished next = run({"lock", "acquire", "deploy", "--holder", "next", "--ttl", "1h"});
  EXPECT_GT(std::stoull(next.out), std::stoull(token.out));
}

TEST_F(SnapshotTool, WhatEndsWithItsProcessIsNamed) {
  const auto holder = start({"run", "-l", "deploy", "--holder", "runner", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "deploy", "--holder", "runner"}).code() == 0; }));
  ASSERT_EQ(run({"snapshot", "save", file()}).code(), 0);
  holder->signal(SIGTERM);
  (void)holder->wait();
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished restored = run({"snapshot", "restore", file()});
  EXPECT_EQ(restored.code(), 0);
  EXPECT_THAT(restored.err, AllOf(HasSubstr("'runner' of 'deploy' was not restored"), HasSubstr("pid ")));
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished json = run({"--json", "snapshot", "restore", file()});
  EXPECT_EQ(json.err, "");
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"result\":\"restored\""), HasSubstr("\"left_out\":[{\"name\":\"deploy\""),
                              HasSubstr("\"holder\":\"runner\""), HasSubstr("\"new_tokens\":[]")));
}

TEST_F(SnapshotTool, WhatIsWrongIsOneClearError) {
  EXPECT_EQ(run({"snapshot", "save", file()}).code(), 2) << "no segment";
  ASSERT_EQ(run({"lock", "acquire", "deploy", "--holder", "ci", "--ttl", "1h"}).code(), 0);
  EXPECT_EQ(run({"snapshot", "save"}).code(), 64);
  EXPECT_EQ(run({"snapshot", "save", ""}).code(), 64);
  EXPECT_EQ(run({"snapshot", "save", file(), "b"}).code(), 64);
  EXPECT_EQ(run({"snapshot", "save", scratch_}).code(), 64) << "a directory";
  EXPECT_EQ(run({"snapshot", "save", scratch_ + "/no/such"}).code(), 2);
  const Finished json = run({"--json", "snapshot", "save", file()});
  EXPECT_EQ(json.code(), 0);
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"result\":\"saved\""), HasSubstr("\"holds\":1")));
  const Finished exists = run({"snapshot", "restore", file()});
  EXPECT_EQ(exists.code(), 1);
  EXPECT_THAT(exists.err, HasSubstr("exists; remove it first"));

  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  std::string text = read_file(file());
  text[text.find("deploy")] = 'D';
  std::ofstream(file()) << text;
  const Finished damaged = run({"snapshot", "restore", file()});
  EXPECT_EQ(damaged.code(), 69);
  EXPECT_THAT(damaged.err, AllOf(HasSubstr(file() + ":2: this line was changed"),
                                 HasSubstr("take an older copy of the file or start without one, but either may give "
                                           "out tokens a second time\n")));
  EXPECT_THAT(run({"help", "snapshot", "restore"}).out, HasSubstr("tokens a second time"));
  std::ofstream(scratch_ + "/foreign") << "important\n";
  EXPECT_THAT(run({"snapshot", "restore", scratch_ + "/foreign"}).err, HasSubstr("tokens a second time\n"));
  const Finished for_programs = run({"--json", "snapshot", "restore", file()});
  EXPECT_THAT(for_programs.out + for_programs.err, HasSubstr("snapshot_damaged"));
  EXPECT_EQ(run({"snapshot", "restore", scratch_ + "/absent"}).code(), 2);
  EXPECT_EQ(run({"inspect"}).code(), 2) << "nothing was made";
}

}  // namespace
}  // namespace shmcoord::test
