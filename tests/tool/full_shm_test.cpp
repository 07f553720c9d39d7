#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "support/small_shm.hpp"
#include "support/tool.hpp"

// F38 as a script meets it: every command in a /dev/shm of 1 MiB with no page left, one page, two …: 69 and a text that
// says what is missing, never a signal, and what was held before is held after.

namespace shmcoord::test {
namespace {

using Words = std::vector<std::string>;

struct Case {
  Words command;
  int code = 0;  // when there is room
};

class FullShmTool : public ToolTest {
 protected:
  FullShmTool() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void hold() {
    room_ = Filler::free_pages();
    run_ = start({"run", "-l", "kept", "--reason", "kept", "--", "sleep", "1000"});
    ASSERT_TRUE(eventually([&] { return run({"lock", "status", "kept"}).out.find("held") != std::string::npos; }));
    // Two blocks of entries fill a page.
    ASSERT_EQ(run({"lock", "acquire", "script", "--holder", "s"}).code(), 0);
    token_ = token_of("kept");
  }
  /// By the tool: a mapping in this process would keep the room of a removed segment.
  std::string token_of(const std::string& lock) {
    const std::string status = run({"--json", "lock", "status", lock}).out;
    const auto at = status.find("\"token\":");
    return at == std::string::npos ? "none" : status.substr(at, status.find(',', at) - at);
  }
  void expect_kept() {
    EXPECT_TRUE(run_->running()) << run_->err();
    EXPECT_EQ(token_of("kept"), token_);
    EXPECT_NE(token_of("script"), "\"token\":null");
  }
  void end() {
    run_.reset();
    (void)run({"segment", "remove", "--force"});
    (void)run({"-s", "second", "segment", "remove"});
    // What `run` left behind to watch over its command has the removed segment mapped until it ends.
    EXPECT_TRUE(eventually([this] { return Filler::free_pages() >= room_; }));
  }
  /// Each time in a new segment and with one page more, until it succeeds.
  void starve(const Case& one) {
    SCOPED_TRACE(::testing::PrintToString(one.command).substr(0, 200));
    Filler filler;
    for (std::uint64_t pages = 0; !HasFailure(); ++pages) {
      SCOPED_TRACE(std::to_string(pages) + " pages left");
      ASSERT_LT(pages, 20U);
      hold();
      filler.leave(pages);
      const Finished got = run(one.command);
      const bool done = got.code() == one.code;
      if (!done) {
        EXPECT_EQ(got.code(), 69) << got.err;
        EXPECT_NE(got.err.find("/dev/shm/shmcoord."), std::string::npos) << got.err;
        EXPECT_TRUE(got.err.find("make room") != std::string::npos ||
                    got.err.find("no space left") != std::string::npos)
            << got.err;
        expect_kept();
      }
      filler.empty();
      if (!done) {
        EXPECT_EQ(run(one.command).code(), one.code) << "there is room now";
      }
      expect_kept();
      EXPECT_EQ(run({"lock", "acquire", "kept", "--holder", "thief", "-n"}).code(), 1);
      EXPECT_EQ(run({"segment", "check"}).code(), 0);
      end();
      EXPECT_FALSE(done && pages == 0) << "it was to need a page";
      if (done) return;
    }
  }

  std::unique_ptr<ToolProcess> run_;
  std::uint64_t room_ = 0;
  std::string token_;
};

TEST_F(FullShmTool, F38_EveryCommandAtEveryPage) {
  const std::string reason(4000, 'r');
  const std::string name(200, 'n');
  const std::vector<Case> cases = {
      {{"-s", "second", "segment", "create", "--names", "8", "--entries", "8", "--sessions", "2"}},
      {{"lock", "acquire", "x", "--holder", "h"}},
      {{"lock", "acquire", name, "--holder", "h", "--reason", reason}},
      {{"lock", "acquire", "script", "--holder", "s", "--reason", reason}},
      {{"lock", "acquire", "kept", "--holder", "h", "-w", "20ms"}, 1},
      {{"run", "-l", name, "--reason", reason, "--", "true"}},
      {{"run", "-l", "kept", "-w", "20ms", "--", "true"}, 1},
  };
  const Ran ran = with_small_shm([&] {
    for (const Case& one : cases) starve(one);
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "this machine lets us mount no tmpfs in a namespace of our own";
}

// What ends something, or only looks, needs no room.
TEST_F(FullShmTool, F38_EndingAndLookingWorkInAFullOne) {
  const std::vector<Words> commands = {
      {"lock", "release", "a", "--holder", "m"},
      {"lock", "heartbeat", "b", "--holder", "m"},
      {"lock", "renew", "b", "--holder", "m", "--ttl", "60s"},
      {"lock", "remove", "b", "--force"},
      {"force-release", "c", "--reason", "test"},
      {"lock", "status", "kept"},
      {"inspect", "--graph"},
      {"--json", "inspect"},
      {"reap", "--dry-run"},
      {"reap", "--once"},
      {"segment", "info"},
      {"segment", "check"},
      {"segment", "list"},
  };
  const Ran ran = with_small_shm([&] {
    Filler filler;
    hold();
    for (const char* const lock : {"a", "b", "c"}) {
      ASSERT_EQ(run({"lock", "acquire", lock, "--holder", "m"}).code(), 0);
    }
    filler.leave(0);
    for (const Words& command : commands) {
      SCOPED_TRACE(::testing::PrintToString(command));
      const Finished got = run(command);
      EXPECT_EQ(got.code(), 0) << got.err;
      expect_kept();
    }
    EXPECT_EQ(run({"segment", "remove", "--force"}).code(), 0);
    EXPECT_EQ(run_->wait().code(), 75);
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "this machine lets us mount no tmpfs in a namespace of our own";
}

// Of the temporary file that it fills nobody has heard.
TEST_F(FullShmTool, ARestoreThatFindsNoRoomNamesTheSegment) {
  const Ran ran = with_small_shm([&] {
    const std::string reason(4000, 'r');
    ASSERT_EQ(run({"segment", "create", "--names", "16", "--entries", "64", "--sessions", "4"}).code(), 0);
    for (const char* const lock : {"a", "b", "c"}) {
      ASSERT_EQ(run({"lock", "acquire", lock, "--holder", "h", "--reason", reason}).code(), 0);
    }
    ASSERT_EQ(run({"snapshot", "save", file("saved.json")}).code(), 0);
    ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
    Filler filler;
    std::size_t filled = 0;  // refusals after the segment was begun
    for (std::uint64_t pages = 0; !HasFailure(); ++pages) {
      SCOPED_TRACE(std::to_string(pages) + " pages left");
      ASSERT_LT(pages, 100U);
      filler.leave(pages);
      const Finished got = run({"snapshot", "restore", file("saved.json")});
      filler.empty();
      if (got.code() == 0) break;
      EXPECT_EQ(got.code(), 69) << got.err;
      EXPECT_NE(got.err.find("segment /dev/shm/shmcoord."), std::string::npos) << got.err;
      EXPECT_NE(got.err.find("make room"), std::string::npos) << got.err;
      EXPECT_EQ(got.err.find("shmcoord-new"), std::string::npos) << got.err;
      if (got.err.find("and restore again; nothing was restored") != std::string::npos) ++filled;
    }
    EXPECT_GT(filled, 0U);
    EXPECT_EQ(run({"lock", "acquire", "a", "--holder", "thief", "-n"}).code(), 1);
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "this machine lets us mount no tmpfs in a namespace of our own";
}

}  // namespace
}  // namespace shmcoord::test
