#include "shmcoord/testing.hpp"

#include <gtest/gtest.h>

#include <stop_token>
#include <thread>

namespace shmcoord {
namespace {

// What each fake says of what it was not told (S1-117).
TEST(FakePorts, WithoutBeingToldKnowNothing) {
  const testing::FakePorts f;
  EXPECT_EQ(f.primitives->semaphore("s"), std::nullopt);
  EXPECT_FALSE(f.primitives->lock("l"));
  EXPECT_FALSE(f.sessions->is_alive("s", {}));
  EXPECT_FALSE(f.repository->branch_exists("b", {}));
  EXPECT_THROW((void)f.repository->is_clean("b", {}), std::runtime_error);
  f.repository->branch("b");
  EXPECT_THROW((void)f.repository->is_merged("b", "c", {}), std::runtime_error);
  EXPECT_THROW((void)f.issues->status("7", {}), std::runtime_error);
  EXPECT_TRUE(f.issues->issues({}, {}).empty());
  EXPECT_FALSE(f.files->exists("f", {}));
  EXPECT_THROW((void)f.files->contains("f", "x", {}), std::runtime_error);
  EXPECT_THROW((void)f.commands->run("c", {}), std::runtime_error);
  EXPECT_THROW((void)f.pipelines->state("p", {}), std::runtime_error);
}

TEST(FakePorts, WhatWasToldLastHolds) {
  const testing::FakePorts f;
  f.primitives->free_lock("l").held_lock("l", {"me"});
  EXPECT_EQ(f.primitives->lock("l")->holders, std::vector<std::string>{"me"});
  EXPECT_FALSE(f.primitives->lock("l")->free);
  f.sessions->alive("s").alive("s", false);
  EXPECT_FALSE(f.sessions->is_alive("s", {}));
  f.repository->branch("b", false);
  EXPECT_FALSE(f.repository->is_clean("b", {}));
  EXPECT_TRUE(f.repository->is_merged("b", "b", {}));
  f.repository->merged("b", "c");
  EXPECT_FALSE(f.repository->is_clean("b", {}));  // as before
  EXPECT_TRUE(f.repository->is_merged("b", "c", {}));
  EXPECT_FALSE(f.repository->is_merged("c", "b", {}));
  f.repository->no_branch("b");
  EXPECT_FALSE(f.repository->branch_exists("b", {}));
  f.issues->issue("7", IssueStatus::done).issue("7", IssueStatus::blocked, {"x"});
  EXPECT_EQ(f.issues->status("7", {}), IssueStatus::blocked);
  EXPECT_EQ(f.issues->issues({.labels = {"x"}}, {}).size(), 1U);
  EXPECT_TRUE(f.issues->issues({.labels = {"y"}}, {}).empty());
  f.files->file("f", {"x"});
  EXPECT_TRUE(f.files->contains("f", "x", {}));
  EXPECT_FALSE(f.files->contains("f", "y", {}));
  f.files->no_file("f");
  EXPECT_FALSE(f.files->exists("f", {}));
}

TEST(FakePorts, HangUntilTheyAreStoppedOrLetGo) {
  testing::FakeSessions sessions;
  sessions.alive("s").hangs("s");
  std::stop_source stop;
  std::string said;
  std::thread stopped([&] {
    try {
      (void)sessions.is_alive("s", {{}, stop.get_token()});
    } catch (const std::runtime_error& e) {
      said = e.what();
    }
  });
  sessions.await_hanging(1);
  stop.request_stop();
  stopped.join();
  EXPECT_EQ(said, "it was stopped");
  bool alive = false;
  std::thread let_go([&] { alive = sessions.is_alive("s", {}); });
  sessions.await_hanging(1);
  sessions.let_go();
  let_go.join();
  EXPECT_TRUE(alive);
  EXPECT_EQ(sessions.asked("s"), 2U);
  EXPECT_EQ(sessions.asked("t"), 0U);
}

}  // namespace
}  // namespace shmcoord
