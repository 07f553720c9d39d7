// The life of a lock in short stories: what a user, the maintenance and an operator see, step after step.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/lock_machine.hpp"

namespace shmcoord::core {
namespace {

constexpr std::int64_t minute = 60'000'000'000;

/// A lock as the manager will keep it: ordinary strings, one value that moves along.
class Story {
 public:
  using M = LockMachine<std::string, std::string>;
  explicit Story(LockConfig config = {}) : config_(config) {}

  M::Outcome feed(M::Input input, std::int64_t now_ns) {
    M::Outcome outcome = M::transition(config_, state_, std::move(input), now_ns);
    state_ = outcome.state;
    return outcome;
  }
  M::Outcome acquire(std::string who, std::int64_t now_ns, std::optional<std::string> why = {}) {
    return feed(M::Acquire{std::move(who), std::move(why), {}, 0}, now_ns);
  }
  [[nodiscard]] const M::State& state() const { return state_; }

 private:
  LockConfig config_;
  M::State state_;
};

std::vector<std::string> names(const Story::M::Effects& effects) {
  std::vector<std::string> all;
  for (const auto& event : effects) all.emplace_back(name(event.kind));
  return all;
}
using Names = std::vector<std::string>;

TEST(LockStory, sixth_token_is_above_the_first_five) {  // S2-6, S2-8
  Story lock;
  std::uint64_t highest = 0;
  for (int round = 0; round < 6; ++round) {
    const std::uint64_t token = lock.acquire("a", round).token;
    EXPECT_GE(token, 1u);
    EXPECT_GT(token, highest);
    highest = token;
    lock.feed(Story::M::Release{"a"}, round);
  }
}

TEST(LockStory, maintenance_warns_once_then_reclaims_and_reports_once) {  // C-14, C-16, C-52
  Story lock{{.stale_threshold_ns = 10}};
  lock.acquire("a", 0);
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 11).effects), Names{"lock:stale"});
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 12).effects), Names{});
  const auto taken = lock.feed(Story::M::Reclaim{}, 12);
  EXPECT_EQ(names(taken.effects), (Names{"lock:reclaimed", "lock:released"}));
  EXPECT_FALSE(taken.effects[0].other.has_value());
  const auto next = lock.acquire("b", 13);
  EXPECT_EQ(next.result, LockResult{AcquireResult::acquired});
  ASSERT_TRUE(next.previous.has_value());
  EXPECT_EQ(next.previous->holder, "a");
  EXPECT_EQ(next.previous->why, Loss::stale);
  lock.feed(Story::M::Release{"b"}, 14);
  EXPECT_FALSE(lock.acquire("c", 15).previous.has_value());
}

TEST(LockStory, a_beat_ends_the_stale_episode) {  // C-16
  Story lock{{.stale_threshold_ns = 10}};
  lock.acquire("a", 0);
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 11).effects), Names{"lock:stale"});
  lock.feed(Story::M::Heartbeat{"a"}, 12);
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 22).effects), Names{});
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 23).effects), Names{"lock:stale"});
}

TEST(LockStory, held_too_long_is_one_episode_whatever_the_heartbeats) {  // C-2, C-16
  Story lock{{.stale_threshold_ns = 10, .max_hold_ns = 20}};
  lock.acquire("a", 0);
  lock.feed(Story::M::Heartbeat{"a"}, 20);
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 20).effects), Names{});
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 21).effects), Names{"lock:stale"});
  EXPECT_EQ(lock.acquire("a", 22).result, LockResult{AcquireResult::extended});
  EXPECT_EQ(names(lock.feed(Story::M::Tick{}, 22).effects), Names{});
  const auto taken = lock.acquire("b", 23);
  EXPECT_EQ(taken.previous->why, Loss::held_too_long);
}

TEST(LockStory, metadata_is_replaced_only_if_given) {  // C-48
  Story lock;
  lock.acquire("a", 0, "rev=abc");
  lock.acquire("a", 1);
  EXPECT_EQ(lock.state().held->metadata, "rev=abc");
  lock.acquire("a", 2, "rev=def");
  EXPECT_EQ(lock.state().held->metadata, "rev=def");
  lock.feed(Story::M::Release{"a"}, 3);
  lock.acquire("b", 4);
  EXPECT_FALSE(lock.state().held->metadata.has_value());
}

TEST(LockStory, two_holds_of_one_lock_may_use_different_ttl) {  // C-51, S2-9..11
  Story lock;
  lock.feed(Story::M::Acquire{"a", {}, 10, 0}, 0);
  EXPECT_EQ(lock.feed(Story::M::Renew{"a", 30}, 9).result, LockResult{HeartbeatResult::refreshed});
  EXPECT_EQ(lock.acquire("b", 38).result, LockResult{AcquireResult::busy});
  const auto taken = lock.feed(Story::M::Acquire{"b", {}, 100, 0}, 39);
  EXPECT_EQ(taken.result, LockResult{AcquireResult::reclaimed});
  EXPECT_EQ(taken.previous->why, Loss::expired);
  EXPECT_EQ(lock.acquire("c", 138).result, LockResult{AcquireResult::busy});
  EXPECT_EQ(lock.acquire("c", 139).result, LockResult{AcquireResult::reclaimed});
  EXPECT_EQ(lock.acquire("d", 139 + minute).result, LockResult{AcquireResult::busy});
}

TEST(LockStory, same_id_from_another_session_waits_for_the_death_of_the_first) {  // C-50
  using M = LockMachine<std::pair<int, std::string>, int>;
  M::State state = M::transition({}, {}, M::Acquire{{1, "job"}, {}, {}, 0}, 0).state;
  const M::Acquire again{{2, "job"}, {}, {}, 0};
  EXPECT_EQ(M::transition({}, state, again, 1).result, LockResult{AcquireResult::busy});
  const auto taken = M::transition({}, state, M::Acquire{{2, "job"}, {}, {}, 1}, 1);
  EXPECT_EQ(taken.result, LockResult{AcquireResult::reclaimed});
  EXPECT_EQ(taken.token, 2u);
  EXPECT_EQ(taken.previous->why, Loss::died);
}

TEST(LockStory, the_operator_gives_a_reason) {  // C-14
  Story lock;
  lock.acquire("a", 0);
  const auto taken = lock.feed(Story::M::Force{"stuck deploy"}, 1);
  EXPECT_EQ(taken.effects[0].reason, "stuck deploy");
  EXPECT_EQ(taken.effects[0].loss, Loss::forced);
  EXPECT_EQ(lock.feed(Story::M::Heartbeat{"a"}, 2).result, LockResult{HeartbeatResult::not_owner});
  EXPECT_EQ(lock.acquire("b", 2).previous->why, Loss::forced);
}

TEST(LockEvents, names_are_the_contract) {  // S1-30, C-58
  const std::array<std::array<const char*, 2>, 5> expected{{{"lock:acquired", "LockAcquired"},
                                                            {"lock:released", "LockReleased"},
                                                            {"lock:denied", "LockDenied"},
                                                            {"lock:reclaimed", "LockReclaimed"},
                                                            {"lock:stale", "LockStale"}}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(name(static_cast<LockEventKind>(i)), expected[i][0]);
    EXPECT_EQ(type_name(static_cast<LockEventKind>(i)), expected[i][1]);
  }
}

}  // namespace
}  // namespace shmcoord::core
