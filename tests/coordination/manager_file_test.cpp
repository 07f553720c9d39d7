#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "shmcoord/coordination_manager.hpp"
#include "shmcoord/snapshot.hpp"
#include "shmcoord/testing.hpp"

// The manager's state on disk: what comes back, and what does not.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;

class ManagerFile : public ::testing::Test {
 protected:
  ManagerFile()
      : directory_(std::filesystem::temp_directory_path() /
                   ("test-manager-" + std::to_string(::getpid()) + "-" +
                    ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::create_directories(directory_);
  }
  ~ManagerFile() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static Errc error_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.errc();
    }
    return Errc{};
  }
  static std::uint64_t acquire(CoordinationManager& manager, const std::string& lock, const std::string& holder) {
    const auto got = manager.acquire_lock(lock, HolderId(holder));
    EXPECT_TRUE(got.held);
    return got.outcome.token;
  }

  const std::filesystem::path directory_;
  const std::shared_ptr<testing::FakeClock> clock_ = std::make_shared<testing::FakeClock>();
};

TEST_F(ManagerFile, WhatWasSavedComesBackWithItsAgesAndTokens) {
  CoordinationManager before{clock_};
  before.ensure_lock({"deploy", 10s, 2s, 1h, 30s});
  before.ensure_lock({"stale", 10s});
  before.ensure_semaphore({"agents", 5, 20s});
  before.register_guard({"ready", GuardCondition::lock_free("deploy"), Retry{5s}, {"lock:*"}});
  (void)acquire(before, "stale", "old");
  clock_->advance(11s);
  const auto got = before.acquire_lock("deploy", HolderId("a"), "rev=abc");
  (void)before.acquire_semaphore("agents", HolderId("w1"), 2, "build");
  (void)before.acquire_semaphore("agents", HolderId("w2"), 1);
  clock_->advance(3s);
  before.save(path("state.json"));

  const auto later = std::make_shared<testing::FakeClock>();
  later->advance(1h);  // another process, another clock
  CoordinationManager after = CoordinationManager::load(path("state.json"), later);
  EXPECT_EQ(after.str(), before.str());
  EXPECT_EQ(after.get_lock("deploy")->config, before.get_lock("deploy")->config);
  EXPECT_EQ(after.get_lock("deploy")->holders.at(0).token, got.outcome.token);
  EXPECT_EQ(after.get_lock("deploy")->holders.at(0).reason, "rev=abc");
  EXPECT_EQ(after.get_lock("deploy")->holders.at(0).held_for, 3s);
  EXPECT_TRUE(after.get_lock("stale")->is_stale()) << "as it was (C-29)";
  EXPECT_EQ(after.get_semaphore("agents")->used_slots(), 3U);
  EXPECT_EQ(after.get_guard("ready")->on_failure, GuardAction(Retry{5s}));
  EXPECT_FALSE(after.acquire_lock("deploy", HolderId("b")).held);
  EXPECT_TRUE(after.acquire_lock("stale", HolderId("b")).held);
  EXPECT_EQ(after.release_semaphore("agents", HolderId("w1")).result, PermitRelease::released);
  // And once more: equal but for what was changed.
  before.save(path("one.json"));
  CoordinationManager::load(path("one.json"), clock_).save(path("two.json"));
  const auto line = [&](const std::string& file, int number) {
    std::ifstream in(path(file));
    std::string text;
    for (int n = 0; n < number; ++n) std::getline(in, text);
    return text;
  };
  for (int n = 2; n <= 5; ++n) EXPECT_EQ(line("two.json", n), line("one.json", n));
}

// S1-145, C-29.
TEST_F(ManagerFile, TokensNeverGoBack) {
  CoordinationManager before{clock_};
  std::uint64_t highest = acquire(before, "a", "x");
  before.save(path("state.json"));
  for (int n = 0; n < 100; ++n) {  // after the file was written, also of a name that is not in it
    (void)before.release_lock("a", HolderId("x"));
    highest = std::max({highest, acquire(before, "a", "x"), acquire(before, "new", "x")});
  }
  CoordinationManager after = CoordinationManager::load(path("state.json"), clock_);
  EXPECT_EQ(after.get_lock("a")->holders.at(0).token, 1U);
  (void)after.release_lock("a", HolderId("x"));
  EXPECT_GT(acquire(after, "a", "x"), highest);
  EXPECT_GT(acquire(after, "new", "x"), highest);
  CoordinationManager copy = after;
  EXPECT_GT(acquire(copy, "another", "x"), highest) << "a copy knows it too";
  const std::uint64_t second = acquire(after, "b", "x");
  after.save(path("state.json"));
  CoordinationManager third = CoordinationManager::load(path("state.json"), clock_);
  EXPECT_GT(acquire(third, "c", "x"), second);
}

TEST_F(ManagerFile, WhatCannotBeReadOrWrittenIsAnError) {
  CoordinationManager manager{clock_};
  (void)acquire(manager, "a", "x");
  EXPECT_EQ(error_of([&] { (void)CoordinationManager::load(path("none")); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { manager.save(path("nowhere/state.json")); }), Errc::not_found);
  EXPECT_EQ(error_of([&] { manager.save(directory_.string()); }), Errc::invalid_argument);
  manager.save(path("state.json"));
  std::ifstream in(path("state.json"));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  text[text.find("\"x\"") + 1] = 'y';
  std::ofstream(path("damaged.json")) << text;
  EXPECT_EQ(error_of([&] { (void)CoordinationManager::load(path("damaged.json")); }), Errc::snapshot_damaged);
  EXPECT_EQ(error_of([&] { (void)CoordinationManager::load(path("state.json"), nullptr); }), Errc::invalid_argument);
}

// One form for both stores: each reads what the other wrote, as far as it can have it.
TEST_F(ManagerFile, ASegmentAndAManagerReadEachOthersFiles) {
  const std::string name = "test-" + std::to_string(::getpid()) + "-manager-file";
  CoordinationManager here;  // a segment's clock is the steady one
  here.ensure_semaphore({"agents", 5});
  const std::uint64_t token = acquire(here, "deploy", "a");
  (void)here.acquire_semaphore("agents", HolderId("w"), 2);
  here.save(path("here.json"));
  const RestoreReport report = restore_snapshot(path("here.json"), name);
  EXPECT_TRUE(report.left_out.empty());
  EXPECT_EQ(report.restored, (SnapshotCounts{1, 1, 0, 0, 2}));
  {
    Session session{Segment::open(name)};
    CoordinationManager shared{session};
    EXPECT_GT(shared.get_lock("deploy")->holders.at(0).token, token) << "a segment does not count from 1";
    EXPECT_FALSE(shared.acquire_lock("deploy", HolderId("b")).held);
    EXPECT_TRUE(shared.acquire_lock("mine", HolderId("b")).held);
    shared.save(path("shared.json"));
  }
  const CoordinationManager back = CoordinationManager::load(path("shared.json"));
  EXPECT_EQ(back.lock_names(), (std::vector<std::string>{"deploy", "mine"}));
  EXPECT_FALSE(back.get_lock("deploy")->is_free());
  EXPECT_TRUE(back.get_lock("mine")->is_free()) << "it was the session's";
  EXPECT_EQ(back.get_semaphore("agents")->used_slots(), 2U);
  Segment::remove(name, true);
}

}  // namespace
}  // namespace shmcoord
