#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "coordination/saved_state.hpp"
#include "support/notify_socket.hpp"
#include "support/tool.hpp"

// `shmcoord reap --save`: the segment as a file, kept by the reaper.

namespace shmcoord::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ReapSave : public ToolTest {
 protected:
  ReapSave() : ToolTest(SHMCOORD_TOOL_PATH) { std::filesystem::create_directory(directory_); }

  [[nodiscard]] std::string saved() const { return read_file(file_); }
  /// Those that somebody holds.
  [[nodiscard]] std::set<std::string> locks_in_file() const {
    std::set<std::string> locks;
    for (const auto& name : coordination::state_from(saved(), file_).names) {
      if (!name.holders.empty()) locks.insert(name.name);
    }
    return locks;
  }
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  /// Takes a lock that outlives who took it; its token.
  unsigned long long hold(const std::string& lock, const std::string& holder) {
    const Finished f = run({"lock", "acquire", lock, "--holder", holder, "--ttl", "1h", "-n"});
    EXPECT_EQ(f.code(), 0) << f.err;
    return f.code() == 0 ? std::stoull(f.out) : 0;
  }
  bool holds(const std::string& lock, const std::string& holder) {
    return run({"lock", "status", lock, "--holder", holder}).code() == 0;
  }
  void remove_segment() { ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0); }
  /// A lock that ran out and that a reaper with --no-reclaim warned of: it did a pass from its beginning.
  void await_pass(const ToolProcess& reaper) {
    const std::string name = "pass " + std::to_string(++passes_);
    ASSERT_EQ(run({"lock", "acquire", name, "--holder", "nobody", "--ttl", "10ms", "-n"}).code(), 0);
    ASSERT_TRUE(eventually([&] { return reaper.out().find("of " + name + " by") != std::string::npos; }));
  }
  static int end(ToolProcess& reaper) {
    reaper.signal(SIGTERM);
    return reaper.wait().code();
  }
  static int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }
  /// Ends at once, with that code, and changes neither file nor segment.
  Finished refused(int code) {
    const std::string before = saved();
    const std::string seen = run({"segment", "info"}).out + run({"lock", "status", "fresh"}).out;
    for (const char* const once : {"--once", "--no-reclaim"}) {
      const Finished f = run({"reap", once, "--save", file_});
      EXPECT_EQ(f.code(), code) << f.err;
      EXPECT_EQ(f.out, "");
      EXPECT_EQ(count(f.err, "\n"), 1) << f.err;
      EXPECT_EQ(saved(), before);
      EXPECT_EQ(count(seen, "held"), count(run({"lock", "status", "fresh"}).out, "held"));
    }
    return run({"reap", "--once", "--save", file_});
  }

  std::string directory_ = ToolTest::file("kept");
  std::string file_ = directory_ + "/segment.json";

 private:
  int passes_ = 0;
};

TEST_F(ReapSave, WithoutSegmentAndFileBothAreMade) {
  const Finished f = run({"reap", "--once", "--save", file_});
  EXPECT_EQ(f.code(), 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("saved 0 locks, 0 semaphores, 0 guards, 0 pipelines, 0 holds to " + file_ + "\n"));
  EXPECT_EQ(run({"inspect"}).code(), 0);
  EXPECT_NO_THROW((void)coordination::state_from(saved(), file_));
}

TEST_F(ReapSave, SavesNowAndThen) {
  const auto reaper = start({"reap", "--interval", "1h", "--save", file_, "--save-interval", "10ms"});
  for (const char* const lock : {"first", "second", "third"}) {
    ASSERT_TRUE(eventually([&] { return run({"inspect"}).code() == 0; }));
    hold(lock, "script");
    ASSERT_TRUE(eventually([&] { return saved().find(lock) != std::string::npos; })) << reaper->err();
  }
  EXPECT_EQ(end(*reaper), 0);
  EXPECT_EQ(count(reaper->out(), "saved"), 1) << "only the first one is told: " << reaper->out();
}

TEST_F(ReapSave, SavesOnceMoreAtItsEnd) {
  const auto reaper = start({"reap", "--save", file_, "--save-interval", "1h"});
  ASSERT_TRUE(eventually([&] { return reaper->out().find("saved 0 locks") != std::string::npos; }));
  hold("late", "script");
  EXPECT_EQ(count(saved(), "late"), 0);
  EXPECT_EQ(end(*reaper), 0);
  EXPECT_EQ(count(saved(), "late"), 1);
}

TEST_F(ReapSave, WhatWasLostIsRestoredAtTheStart) {
  const auto token = hold("deploy", "script");
  const auto runner = start({"run", "-l", "build", "--holder", "runner", "--", "sleep", "60"});
  ASSERT_TRUE(eventually([&] { return holds("build", "runner"); }));
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  runner->signal(SIGTERM);
  (void)runner->wait();
  remove_segment();

  const auto reaper = start({"reap", "--save", file_});
  ASSERT_TRUE(eventually([&] { return reaper->out().find("saved 2 locks") != std::string::npos; })) << reaper->err();
  EXPECT_THAT(reaper->out(),
              AllOf(HasSubstr("restored 2 locks, 0 semaphores, 0 guards, 0 pipelines, 1 holds from " + file_ + "\n"),
                    HasSubstr("'runner' of 'build' was not restored (pid ")));
  EXPECT_TRUE(holds("deploy", "script"));
  EXPECT_EQ(hold("deploy", "script"), token);
  ASSERT_EQ(run({"lock", "release", "deploy", "--holder", "script"}).code(), 0);
  EXPECT_GT(hold("deploy", "next"), token);
  EXPECT_EQ(end(*reaper), 0);

  remove_segment();
  const std::string json = run({"--json", "reap", "--once", "--save", file_}).out;
  EXPECT_THAT(json, AllOf(HasSubstr(R"("event":"restored","restored":{"locks":2,)"), HasSubstr(R"("left_out":[])"),
                          HasSubstr(R"("event":"saved","saved":{"locks":2,)")));
}

TEST_F(ReapSave, WhatAKilledOneLeftHalfRestoredIsTakenAway) {
  const std::string path = directory_ + "/segment";
  const std::string left = directory_ + "/.shmcoord-new.0123456789abcdef";
  ASSERT_EQ(run({"-s", path, "reap", "--once", "--save", file_}).code(), 0);
  ASSERT_EQ(run({"-s", path, "segment", "remove"}).code(), 0);
  std::ofstream(left) << "half";
  const Finished f = run({"-s", path, "reap", "--once", "--save", file_});
  EXPECT_EQ(f.code(), 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("restored"));
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(ReapSave, TheFileOfAnotherInstanceIsLeftAsItIs) {
  const auto token = hold("deploy", "script");
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  remove_segment();
  hold("fresh", "quicker");  // makes the segment
  const Finished f = refused(1);
  EXPECT_THAT(f.err, AllOf(HasSubstr(file_), HasSubstr("segment remove"), HasSubstr("snapshot restore " + file_),
                           HasSubstr("move the file away")));
  EXPECT_THAT(run({"--json", "reap", "--once", "--save", file_}).out, HasSubstr("segment_exists"));
  // As it says.
  remove_segment();
  ASSERT_EQ(run({"snapshot", "restore", file_}).code(), 0);
  EXPECT_EQ(run({"reap", "--once", "--save", file_}).code(), 0) << "restored by hand it is its own";
  EXPECT_EQ(hold("deploy", "script"), token);
}

TEST_F(ReapSave, ThatOfAnotherNameIsNotRestored) {
  hold("deploy", "script");
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  const std::string before = saved();
  const Finished f = run({"-s", segment_ + "-other", "reap", "--once", "--save", file_});
  EXPECT_EQ(f.code(), 64);
  EXPECT_THAT(f.err, AllOf(HasSubstr("segment " + segment_), HasSubstr("snapshot restore")));
  EXPECT_EQ(saved(), before);
  EXPECT_EQ(run({"-s", segment_ + "-other", "inspect"}).code(), 2) << "none was made";
}

TEST_F(ReapSave, ADamagedFileIsRefusedWithItsPlace) {
  hold("deploy", "script");
  hold("fresh", "script");
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  const std::string good = saved();
  std::string text = good;
  text[text.find("deploy")] = 'D';
  write(text);
  EXPECT_THAT(refused(69).err, HasSubstr(file_ + ":2: this line was changed"));
  for (const std::string& other : {good.substr(0, good.size() / 2), std::string("important\n"), std::string()}) {
    write(other);
    (void)refused(69);
  }
  write(text);
  remove_segment();
  EXPECT_THAT(refused(69).err, HasSubstr(file_ + ":2: this line was changed"));
  EXPECT_EQ(run({"inspect"}).code(), 2) << "none was made";
}

TEST_F(ReapSave, WhatCannotBeAFileIsRefused) {
  EXPECT_EQ(run({"reap", "--once", "--save", directory_}).code(), 64);
  EXPECT_EQ(run({"reap", "--once", "--save", ""}).code(), 64);
  EXPECT_EQ(run({"reap", "--once", "--save", directory_ + "/no/such"}).code(), 2);
  EXPECT_EQ(run({"inspect"}).code(), 2) << "no segment was made for it";
  EXPECT_EQ(run({"reap", "--dry-run", "--save", file_}).code(), 64);
  EXPECT_EQ(run({"reap", "--save-interval", "1m"}).code(), 64);
  EXPECT_EQ(run({"reap", "--once", "--save", file_, "--save-interval", "1m"}).code(), 64);
}

TEST_F(ReapSave, ASaveThatFailsIsToldOnceAndTriedAgain) {
  const auto reaper = start({"reap", "--no-reclaim", "--interval", "10ms", "--save", file_, "--save-interval", "10ms"});
  ASSERT_TRUE(eventually([&] { return reaper->out().find("saved") != std::string::npos; })) << reaper->err();
  for (int episode = 1; episode <= 2; ++episode) {
    std::filesystem::rename(directory_, directory_ + "-gone");
    ASSERT_TRUE(eventually([&] { return count(reaper->out(), "could not be saved") == episode; })) << reaper->out();
    await_pass(*reaper);
    await_pass(*reaper);
    EXPECT_EQ(count(reaper->out(), "could not be saved"), episode) << reaper->out();
    std::filesystem::rename(directory_ + "-gone", directory_);
    ASSERT_TRUE(eventually([&] { return count(reaper->out(), "works again") == episode; })) << reaper->out();
  }
  hold("deploy", "script");
  ASSERT_TRUE(eventually([&] { return saved().find("deploy") != std::string::npos; }));
  // At the end nobody tries again.
  std::filesystem::rename(directory_, directory_ + "-gone");
  EXPECT_EQ(end(*reaper), 2);
  EXPECT_THAT(reaper->err(), HasSubstr(directory_));
}

// Somebody else's by now, or damaged: the reaper goes on, and the file stays.
TEST_F(ReapSave, AFileThatBecomesAnothersIsLeftToIt) {
  const auto reaper =
      start({"--json", "reap", "--no-reclaim", "--interval", "10ms", "--save", file_, "--save-interval", "10ms"});
  ASSERT_TRUE(eventually([&] { return reaper->out().find("saved") != std::string::npos; })) << reaper->err();
  const auto failures = [&](const std::string& code) {
    return count(reaper->out(), R"("event":"save_failed","error":")" + code + '"');
  };
  ASSERT_EQ(run({"-s", segment_ + "-other", "segment", "create"}).code(), 0);
  ASSERT_EQ(run({"-s", segment_ + "-other", "snapshot", "save", file_}).code(), 0);
  ASSERT_EQ(run({"-s", segment_ + "-other", "segment", "remove"}).code(), 0);
  const std::string others = saved();
  ASSERT_TRUE(eventually([&] { return failures("segment_exists") == 1; })) << reaper->out();
  await_pass(*reaper);
  EXPECT_EQ(saved(), others);
  EXPECT_EQ(failures("segment_exists"), 1);
  std::filesystem::remove(file_);
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(file_); }));
  EXPECT_EQ(end(*reaper), 0);
}

TEST_F(ReapSave, IsReadyWhenTheFileWasWritten) {
  const NotifySocket supervisor(file("notify"));
  ASSERT_TRUE(supervisor.bound());
  const std::string reap = "NOTIFY_SOCKET=\"$SCRATCH/notify\" exec \"$SHMCOORD\" reap --save ";
  EXPECT_EQ(start_shell(reap + directory_ + "/no/such")->wait().code(), 2);
  EXPECT_THAT(supervisor.hear(MSG_DONTWAIT), IsEmpty());
  EXPECT_EQ(start_shell(reap + "/proc/self/no-file-can-be-made-here")->wait().code(), 2);
  EXPECT_THAT(supervisor.hear(MSG_DONTWAIT), IsEmpty());
  const auto reaper = start_shell(reap + file_);
  EXPECT_THAT(supervisor.hear(), HasSubstr("READY=1"));
  EXPECT_NO_THROW((void)coordination::state_from(saved(), file_));
  EXPECT_EQ(end(*reaper), 0);
}

TEST_F(ReapSave, WhenItsSegmentIsRemovedItEndsAndLeavesTheFile) {
  const auto reaper = start({"reap", "--save", file_, "--save-interval", "1h"});
  ASSERT_TRUE(eventually([&] { return reaper->out().find("saved") != std::string::npos; })) << reaper->err();
  hold("deploy", "script");
  const std::string before = saved();
  remove_segment();
  EXPECT_EQ(reaper->wait().code(), 2);
  EXPECT_THAT(reaper->out(), HasSubstr("the segment was removed"));
  EXPECT_EQ(saved(), before);
}

TEST_F(ReapSave, ARelativePathBeginsWhereItWasStarted) {
  const auto reaper = start_shell("cd \"$SCRATCH/kept\" && exec \"$SHMCOORD\" reap --once --save segment.json");
  const Finished f = reaper->wait();
  EXPECT_EQ(f.code(), 0) << f.err;
  EXPECT_THAT(f.out, HasSubstr("to " + file_ + "\n"));
  EXPECT_TRUE(std::filesystem::exists(file_));
}

// One restores, and all of them find their own file.
TEST_F(ReapSave, SeveralMayStartAtOnce) {
  hold("deploy", "script");
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  for (int round = 0; round < 5; ++round) {
    remove_segment();
    std::vector<std::unique_ptr<ToolProcess>> reapers;
    reapers.reserve(4);
    for (int n = 0; n < 4; ++n) reapers.push_back(start({"reap", "--once", "--save", file_}));
    int restored = 0;
    for (const auto& reaper : reapers) {
      const Finished f = reaper->wait();
      EXPECT_EQ(f.code(), 0) << f.err;
      restored += count(f.out, "restored ");
    }
    EXPECT_EQ(restored, 1);
    EXPECT_TRUE(holds("deploy", "script"));
  }
}

// Killed at any moment, also while it restores or saves: the next one starts, and what was in the file is there.
TEST_F(ReapSave, KilledAgainAndAgainNothingThatWasSavedIsLost) {
  const std::vector<std::string> reap = {"reap", "--interval", "3ms", "--save", file_, "--save-interval", "3ms"};
  const auto first = hold("deploy", "script");
  std::set<std::string> kept{"deploy"};
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  std::minstd_rand random(20'261'130);
  for (int round = 0; round < 50; ++round) {
    if (round % 3 == 0 && run({"inspect"}).code() == 0) remove_segment();
    const auto reaper = start(reap);
    if (round % 5 == 4) {
      ASSERT_TRUE(eventually([&] { return reaper->out().find("saved") != std::string::npos; })) << reaper->err();
      const std::string lock = "lock-" + std::to_string(round);
      hold(lock, "script");
      kept.insert(lock);
      ASSERT_TRUE(eventually([&] { return locks_in_file() == kept; })) << reaper->err();
    } else {
      ::usleep(static_cast<useconds_t>(random() % 25'000));  // the moment of its death, not an order of events
    }
    reaper->signal(SIGKILL);
    ASSERT_EQ(reaper->wait().code(), 128 + SIGKILL) << round << ": it ended by itself: " << reaper->err();
    ASSERT_EQ(locks_in_file(), kept) << round << "\n" << reaper->out() << reaper->err() << saved();
  }
  ASSERT_EQ(run({"reap", "--once", "--save", file_}).code(), 0);
  for (const std::string& lock : kept) EXPECT_TRUE(holds(lock, "script")) << lock;
  EXPECT_EQ(run({"segment", "check"}).code(), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1) << "what they left beside it";
  EXPECT_GE(hold("deploy", "script"), first);
  ASSERT_EQ(run({"lock", "release", "deploy", "--holder", "script"}).code(), 0);
  EXPECT_GT(hold("deploy", "next"), first);
  ASSERT_EQ(run({"segment", "list"}).code(), 0);  // takes away what they left unfinished
}

}  // namespace
}  // namespace shmcoord::test
