#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/tool.hpp"

// `segment …`.

namespace shmcoord::test {
namespace {

class SegmentTool : public ToolTest {
 protected:
  SegmentTool() : ToolTest(SHMCOORD_TOOL_PATH) {}

  [[nodiscard]] std::string path() const { return "/dev/shm/shmcoord." + segment_; }
};

TEST_F(SegmentTool, CreateListInfoRemove) {
  ASSERT_EQ(
      run({"segment", "create", "--mode", "0660", "--names", "100", "--entries", "800", "--sessions", "16"}).code(), 0);
  struct stat file {};
  ASSERT_EQ(::stat(path().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777U, 0660U);
  EXPECT_NE(run({"segment", "list"}).out.find(segment_), std::string::npos);
  EXPECT_NE(run({"--json", "segment", "list"}).out.find("\"name\":\"" + segment_ + "\""), std::string::npos);
  const std::string info = run({"segment", "info"}).out;
  EXPECT_NE(info.find("0 of 100"), std::string::npos) << info;
  EXPECT_NE(info.find("0 of 16"), std::string::npos) << info;
  const std::string json = run({"--json", "segment", "info"}).out;
  EXPECT_NE(json.find("\"names_max\":100"), std::string::npos) << json;
  EXPECT_EQ(run({"segment", "remove"}).code(), 0);
  EXPECT_NE(::stat(path().c_str(), &file), 0);
}

TEST_F(SegmentTool, CreateTwice) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const Finished again = run({"segment", "create"});
  EXPECT_EQ(again.code(), 1);
  EXPECT_NE(again.err.find(segment_), std::string::npos) << again.err;
}

TEST_F(SegmentTool, NotThere) {
  for (const char* const command : {"info", "remove"}) {
    const Finished got = run({"segment", command});
    EXPECT_EQ(got.code(), 2) << command;
    EXPECT_NE(got.err.find("no such segment"), std::string::npos) << got.err;
  }
}

TEST_F(SegmentTool, RemoveIsRefusedWhileHeld) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  const Finished got = run({"segment", "remove"});
  EXPECT_EQ(got.code(), 1);
  EXPECT_NE(got.err.find("'x'"), std::string::npos) << got.err;
  EXPECT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  EXPECT_EQ(run({"segment", "info"}).code(), 2);
}

TEST_F(SegmentTool, RemovedUnderARunningCommandTheHoldIsLost) {
  auto holder = start({"run", "-l", "x", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished got = holder->wait();
  EXPECT_EQ(got.code(), 75) << got.err;
  EXPECT_NE(got.err.find("lost lock 'x'"), std::string::npos) << got.err;
}

TEST_F(SegmentTool, UnlinkedUnderARunningCommandTheHoldIsLost) {
  auto holder = start({"run", "-l", "x", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  ASSERT_EQ(::remove(path().c_str()), 0);
  EXPECT_EQ(holder->wait().code(), 75);
}

TEST_F(SegmentTool, APathIsASegmentToo) {
  const std::string segment = file("segment");
  const Finished got = run({"-s", segment, "run", "-l", "x", "--", "sh", "-c", "echo $SHMCOORD_SEGMENT"});
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.out, segment + "\n");
  EXPECT_EQ(run({"-s", segment, "segment", "remove"}).code(), 0);
}

// A closed stream must not become the segment's descriptor: the next message would overwrite its header.
TEST_F(SegmentTool, ClosedStandardStreamsLeaveItAlone) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  for (const char* const closed : {">&-", "2>&-", "<&-", "<&- >&- 2>&-"}) {
    for (const char* const command :
         {"lock acquire c --holder a --ttl 60s", "lock acquire c --holder b -n", "reap --once", "inspect"}) {
      const std::string line = std::string("$SHMCOORD ") + command + " " + closed;
      start_shell(line)->wait();
      ASSERT_EQ(run({"segment", "info"}).code(), 0) << line;
    }
  }
}

TEST_F(SegmentTool, OutputThatCannotBeWrittenIsAnError) {
  EXPECT_EQ(start_shell("$SHMCOORD lock acquire x --holder a >/dev/full")->wait().code(), 70);
  EXPECT_EQ(run({"lock", "acquire", "x", "--holder", "b", "-n"}).code(), 0) << "a hold that nobody was told of";
  EXPECT_EQ(start_shell("$SHMCOORD inspect >/dev/full")->wait().code(), 70);
  EXPECT_EQ(start_shell("$SHMCOORD reap --once >/dev/full")->wait().code(), 70);
}

// F39.
TEST_F(SegmentTool, TruncatedUnderARunningCommand) {
  const auto holder = start({"run", "-l", "x", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "x"}).out.find("held") != std::string::npos; }));
  ASSERT_EQ(::truncate(path().c_str(), 4096), 0);
  const Finished end = holder->wait();
  EXPECT_EQ(end.code(), 69);
  EXPECT_NE(end.err.find("truncated"), std::string::npos) << end.err;
  ::unlink(path().c_str());
}

}  // namespace
}  // namespace shmcoord::test
