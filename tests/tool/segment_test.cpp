#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

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

// The mark alone ends every hold, so whether the file can go is asked first.
TEST_F(SegmentTool, WhatCannotBeDeletedIsLeftAlone) {
  if (start_shell("exec unshare -m true")->wait().code() != 0) GTEST_SKIP() << "no permission to make a namespace";
  const auto holder = start({"run", "-l", "x", "--", "sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "x"}).out.find("held") != std::string::npos; }));
  const Finished mounted = start_shell("FILE=" + path() +
                                       " exec unshare -m sh -c 'mount --bind $FILE $FILE && "
                                       "$SHMCOORD segment remove --force; echo $?; $SHMCOORD lock status x'")
                               ->wait();
  EXPECT_NE(mounted.out.find("69"), std::string::npos) << mounted.out << mounted.err;
  EXPECT_NE(mounted.out.find("held"), std::string::npos) << mounted.out << mounted.err;
  EXPECT_NE(mounted.err.find("Nothing was changed"), std::string::npos) << mounted.err;
  EXPECT_EQ(run({"run", "-n", "-l", "x", "--", "true"}).code(), 1);
  EXPECT_TRUE(holder->running());
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

// Nobody was told the token, so nobody would give it back.
TEST_F(SegmentTool, AHoldThatNobodyWasToldOfIsGivenBack) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "2"}).code(), 0);
  const auto expect_given_back = [this](const std::function<std::unique_ptr<ToolProcess>(std::string)>& start,
                                        const std::string& why) {
    for (const std::string command : {"lock acquire x --holder a", "--json lock acquire x --holder a",
                                      "sem acquire agents --holder a", "--json sem acquire agents --holder a"}) {
      SCOPED_TRACE(command);
      const Finished got = start("exec $SHMCOORD " + command)->wait();
      EXPECT_EQ(got.code(), 70);
      const std::string name = command.find("sem") == std::string::npos ? "lock 'x'" : "semaphore 'agents'";
      EXPECT_EQ(got.err, "shmcoord: standard output cannot be written: " + why + "; " + name + " was given back\n");
      EXPECT_EQ(run({"lock", "acquire", "x", "--holder", "b", "-n"}).code(), 0);
      EXPECT_EQ(run({"lock", "release", "x", "--holder", "b"}).code(), 0);
      EXPECT_EQ(run({"sem", "acquire", "agents", "--holder", "b", "--weight", "2", "-n"}).code(), 0);
      EXPECT_EQ(run({"sem", "release", "agents", "--holder", "b"}).code(), 0);
    }
  };
  expect_given_back([this](const std::string& line) { return start_shell(line + " >/dev/full"); },
                    "No space left on device");
  expect_given_back([this](const std::string& line) { return start_shell(line + " >&-"); }, "Bad file descriptor");
  expect_given_back([this](const std::string& line) { return start_shell(line + " <&- >&-"); }, "Bad file descriptor");
  // A pipe that nobody reads any more.
  expect_given_back(
      [this](const std::string& line) {
        return start_shell("mkfifo $SCRATCH/p 2>/dev/null; exec 3<>$SCRATCH/p 4>$SCRATCH/p 3<&-; " + line +
                           " >&4 4>&-");
      },
      "Broken pipe");
}

TEST_F(SegmentTool, AHoldThatWasThereBeforeIsKept) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  const Finished again = start_shell("$SHMCOORD lock acquire x --holder a >/dev/full")->wait();
  EXPECT_EQ(again.code(), 70);
  EXPECT_NE(again.err.find("lock 'x' is still held"), std::string::npos) << again.err;
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "a"}).code(), 0);
  // Refused more than it has, it has what it had.
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "3"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "b"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "a"}).code(), 0);
  EXPECT_EQ(start_shell("$SHMCOORD --json sem acquire agents --holder a --weight 3 -n >/dev/full")->wait().code(), 70);
  EXPECT_EQ(run({"sem", "status", "agents", "--holder", "a"}).code(), 0);
}

TEST_F(SegmentTool, OutputThatCannotBeWrittenIsAnError) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  for (const char* const command : {"inspect", "reap --once", "reap --dry-run", "segment info", "segment list",
                                    "segment check", "help", "completion", "--version"}) {
    for (const char* const to : {" >/dev/full", " >&-"}) {
      const Finished got = start_shell(std::string("$SHMCOORD ") + command + to)->wait();
      EXPECT_EQ(got.code(), 70) << command << to;
      EXPECT_TRUE(got.err.starts_with("shmcoord: standard output cannot be written: ")) << command << to << got.err;
    }
  }
  EXPECT_EQ(start_shell("$SHMCOORD sem create agents --capacity 2 >&-")->wait().code(), 0) << "it has nothing to print";
  EXPECT_EQ(start_shell("$SHMCOORD run -l x -- true >&-")->wait().code(), 0);
}

std::string bytes_of(const std::string& path, std::size_t count) {
  std::string bytes(count, '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(count));
  return bytes;
}

TEST_F(SegmentTool, ADamagedOneIsRemovedByForceOnly) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const std::string head = bytes_of(path(), 8192);
  std::string other_version = head;
  other_version[8] = 77;
  const std::string contents[] = {"",   "this is not a segment", std::string(8192, 'x'),
                                  head, head.substr(0, 20),      other_version};
  ASSERT_EQ(run({"segment", "remove"}).code(), 0);
  for (const std::string& content : contents) {
    SCOPED_TRACE(content.substr(0, 30));
    std::ofstream(path(), std::ios::binary) << content;
    const Finished refused = run({"segment", "remove"});
    EXPECT_EQ(refused.code(), 69) << refused.err;
    EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
    struct stat file {};
    ASSERT_EQ(::stat(path().c_str(), &file), 0);
    const Finished forced = run({"segment", "remove", "--force"});
    EXPECT_EQ(forced.code(), 0) << forced.err;
    EXPECT_NE(::stat(path().c_str(), &file), 0);
    EXPECT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0);
    ASSERT_EQ(run({"segment", "remove"}).code(), 0);
  }
}

TEST_F(SegmentTool, ForceTakesNothingThatCannotBeASegment) {
  struct stat file_status {};
  ASSERT_EQ(::mkdir(path().c_str(), 0700), 0);
  EXPECT_EQ(run({"segment", "remove", "--force"}).code(), 69);
  ASSERT_EQ(::rmdir(path().c_str()), 0);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(run({"segment", "remove", "--force"}).code(), 69);
  ASSERT_EQ(::unlink(path().c_str()), 0);
  const std::string mine = file("mine");
  std::ofstream(mine) << "somebody's file";
  ASSERT_EQ(::symlink(mine.c_str(), path().c_str()), 0);
  EXPECT_EQ(run({"segment", "remove", "--force"}).code(), 69);
  EXPECT_EQ(::lstat(path().c_str(), &file_status), 0);
  ASSERT_EQ(::unlink(path().c_str()), 0);
  // A path may be a slip; only what starts as a segment does is taken for one.
  for (const auto& words : std::vector<std::vector<std::string>>{{"-s", mine, "segment", "remove"},
                                                                 {"-s", mine, "segment", "remove", "--force"}}) {
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 69);
    EXPECT_NE(got.err.find("delete it yourself"), std::string::npos) << got.err;
  }
  EXPECT_EQ(read_file(mine), "somebody's file");
  const std::string cut = file("cut");
  ASSERT_EQ(run({"-s", cut, "segment", "create"}).code(), 0);
  ASSERT_EQ(::truncate(cut.c_str(), 8192), 0);
  const Finished refused = run({"-s", cut, "segment", "remove"});
  EXPECT_EQ(refused.code(), 69);
  EXPECT_NE(refused.err.find("--force"), std::string::npos) << refused.err;
  EXPECT_EQ(run({"-s", cut, "segment", "remove", "--force"}).code(), 0);
  EXPECT_NE(::stat(cut.c_str(), &file_status), 0);
}

TEST_F(SegmentTool, ADamagedOneThatIsHeldIsLostWhenItIsRemoved) {
  auto holder = start({"run", "-l", "x", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0);
  const int fd = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_EQ(::pwrite(fd, "damaged!", 8, 0), 8);
  ::close(fd);
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  EXPECT_EQ(holder->wait().code(), 75);
}

TEST_F(SegmentTool, AMissingDirectoryIsNamed) {
  const std::string directory = file("missing");
  for (const auto& command : std::vector<std::vector<std::string>>{
           {"segment", "create"}, {"run", "-l", "x", "--", "true"}, {"lock", "acquire", "x", "--holder", "a"}}) {
    std::vector<std::string> words{"-s", directory + "/segment"};
    words.insert(words.end(), command.begin(), command.end());
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 69) << got.err;
    EXPECT_NE(got.err.find("the directory " + directory + " does not exist"), std::string::npos) << got.err;
    EXPECT_NE(got.err.find("mkdir -p"), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"-s", directory + "/segment", "inspect"}).code(), 2);
  std::ofstream(file("plain")) << "x";
  const Finished got = run({"-s", file("plain") + "/segment", "segment", "create"});
  EXPECT_EQ(got.code(), 69);
  EXPECT_NE(got.err.find(file("plain") + " is not a directory"), std::string::npos) << got.err;
}

// What the system does not allow is the segment's fault, whichever command finds out.
TEST_F(SegmentTool, APathThatCannotBeOpened) {
  const std::string path = "/tmp/" + std::string(300, 'p');
  for (const auto& command : std::vector<std::vector<std::string>>{{"segment", "create"},
                                                                   {"segment", "info"},
                                                                   {"segment", "remove"},
                                                                   {"segment", "remove", "--force"},
                                                                   {"inspect"},
                                                                   {"reap", "--once"},
                                                                   {"reap", "--dry-run"},
                                                                   {"lock", "status", "x"}}) {
    SCOPED_TRACE(::testing::PrintToString(command));
    std::vector<std::string> words{"-s", path};
    words.insert(words.end(), command.begin(), command.end());
    EXPECT_EQ(run(words).code(), 69);
  }
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
