#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/layout.hpp"
#include "support/tool.hpp"

// `segment check`.

namespace shmcoord::test {
namespace {

class SegmentCheckCommand : public ToolTest {
 protected:
  SegmentCheckCommand() : ToolTest(SHMCOORD_TOOL_PATH) {}

  [[nodiscard]] std::string path() const { return "/dev/shm/shmcoord." + segment_; }
  /// A saved copy whose slot 0, which owns the detached holds, says something else.
  std::string damaged_copy() {
    const std::string copy = file("copy");
    std::filesystem::copy_file(path(), copy);
    std::fstream bytes(copy, std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(static_cast<std::streamoff>(engine::geometry_of({}).slots));
    bytes.put('\x0f');
    return copy;
  }
};

TEST_F(SegmentCheckCommand, SoundIsZeroAndSaysWhatWasLookedAt) {
  ASSERT_EQ(run({"lock", "acquire", "deploy", "--holder", "me"}).code(), 0);
  const Finished f = run({"segment", "check"});
  EXPECT_EQ(f.code(), 0);
  EXPECT_EQ(f.out, "1 names, 0 sessions, 8 entries: sound\n");
  EXPECT_EQ(f.err, "");
  const Finished j = run({"--json", "segment", "check"});
  EXPECT_EQ(j.code(), 0);
  EXPECT_NE(j.out.find(R"("result":"sound")"), std::string::npos) << j.out;
  EXPECT_NE(j.out.find(R"("findings":[])"), std::string::npos) << j.out;
}

TEST_F(SegmentCheckCommand, DamageOfASavedCopyIsOneAndNamed) {
  ASSERT_EQ(run({"lock", "acquire", "deploy", "--holder", "me"}).code(), 0);
  const std::string copy = damaged_copy();
  const Finished f = run({"-s", copy, "segment", "check"});
  EXPECT_EQ(f.code(), 1);
  EXPECT_NE(f.out.find("damage   session slot 0: has the unknown state 15\n"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("1 damaged"), std::string::npos) << f.out;
  const Finished j = run({"--json", "-s", copy, "segment", "check"});
  EXPECT_EQ(j.code(), 1);
  EXPECT_NE(j.out.find(R"("result":"damaged")"), std::string::npos) << j.out;
  EXPECT_NE(j.out.find(R"({"kind":"damage","where":"session slot 0")"), std::string::npos) << j.out;
}

TEST_F(SegmentCheckCommand, ADeadHolderIsPendingUntilItIsReaped) {
  const auto holder = start({"run", "--lock", "deploy", "--", "sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "deploy"}).out.find("held") != std::string::npos; }));
  holder->signal(SIGKILL);
  (void)holder->wait();
  ASSERT_TRUE(eventually([&] {
    const Finished f = run({"segment", "check"});
    EXPECT_EQ(f.code(), 0) << f.out;
    return f.out.find("pending  session slot") != std::string::npos;
  }));
  ASSERT_EQ(run({"reap", "--once"}).code(), 0);
  EXPECT_EQ(run({"segment", "check"}).out.find("pending"), std::string::npos);
}

TEST_F(SegmentCheckCommand, WhatIsNoSegmentIs69AndWhatIsNotThereIs2) {
  std::ofstream(file("text")) << "hello";
  EXPECT_EQ(run({"-s", file("text"), "segment", "check"}).code(), 69);
  const Finished absent = run({"-s", file("none"), "segment", "check"});
  EXPECT_EQ(absent.code(), 2) << absent.err;
}

}  // namespace
}  // namespace shmcoord::test
