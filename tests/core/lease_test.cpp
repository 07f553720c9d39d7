// The borders of a lease, to the nanosecond, and its behaviour on readings that no sane clock gives.

#include "core/lease.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace shmcoord::core {
namespace {

constexpr std::int64_t min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();

struct Case {
  const char* name;
  LeaseTerms terms;
  std::int64_t acquired_at_ns;
  std::int64_t last_heartbeat_ns;
  std::int64_t now_ns;
  Loss expected;
};

constexpr Case cases[] = {
    // S1-149, C-30: strictly greater than the threshold.
    {"just beaten", {60, 0, 0}, 100, 100, 100, Loss::none},
    {"exactly at the threshold", {60, 0, 0}, 100, 100, 160, Loss::none},
    {"one over the threshold", {60, 0, 0}, 100, 100, 161, Loss::stale},
    {"heartbeats count, not the acquisition", {60, 0, 0}, 100, 500, 560, Loss::none},
    // S2-9, C-30, C-51: at the deadline; the ttl replaces the threshold both ways.
    {"one before the ttl deadline", {60, 10, 0}, 100, 100, 109, Loss::none},
    {"at the ttl deadline", {60, 10, 0}, 100, 100, 110, Loss::expired},
    {"ttl longer than the threshold", {60, 200, 0}, 100, 100, 299, Loss::none},
    {"long ttl at its deadline", {60, 200, 0}, 100, 100, 300, Loss::expired},
    {"ttl with a threshold of never", {max, 10, 0}, 100, 100, 110, Loss::expired},
    // C-2: strictly greater, heartbeats notwithstanding.
    {"exactly at the longest hold", {60, 0, 500}, 100, 590, 600, Loss::none},
    {"one over the longest hold", {60, 0, 500}, 100, 600, 601, Loss::held_too_long},
    {"over the longest hold with a ttl", {60, 10, 500}, 100, 600, 601, Loss::held_too_long},
    {"silent and too long: silence is named", {60, 0, 500}, 100, 100, 700, Loss::stale},
    {"expired and too long: expiry is named", {60, 10, 500}, 100, 100, 700, Loss::expired},
    // C-43: readings of different CPUs.
    {"clock slightly backwards", {60, 0, 0}, 100, 100, 99, Loss::none},
    {"clock backwards with a ttl", {60, 1, 0}, 100, 100, 99, Loss::none},
    {"clock backwards with a longest hold", {60, 0, 1}, 100, 100, 99, Loss::none},
    // Any int64 is survived.
    {"a threshold of never", {max, 0, 0}, min, min, max, Loss::none},
    {"a longest hold of never", {max, 0, max}, min, max, max, Loss::none},
    {"age beyond int64", {max - 1, 0, 0}, min, min, max, Loss::stale},
    {"ttl age beyond int64", {1, max, 0}, min, min, max, Loss::expired},
    {"longest ttl not reached", {1, max, 0}, 1, 1, max, Loss::none},
    {"hold age beyond int64", {max, 0, max - 1}, min, max, max, Loss::held_too_long},
    {"backwards beyond int64", {1, 1, 1}, max, max, min, Loss::none},
    {"damaged ttl counts as none", {60, min, 0}, 100, 100, 160, Loss::none},
    {"damaged ttl leaves the threshold", {60, -1, 0}, 100, 100, 161, Loss::stale},
    {"damaged longest hold counts as none", {60, 0, min}, 100, 160, 160, Loss::none},
};

TEST(Lease, judges_every_border) {
  for (const Case& c : cases) {
    EXPECT_EQ(to_string(judge(c.terms, c.acquired_at_ns, c.last_heartbeat_ns, c.now_ns)), to_string(c.expected))
        << c.name;
  }
}

constexpr bool every_case_in_a_constant_expression() {
  for (const Case& c : cases) {
    if (judge(c.terms, c.acquired_at_ns, c.last_heartbeat_ns, c.now_ns) != c.expected) return false;
  }
  return true;
}
// A signed overflow anywhere in judge would make this line ill-formed.
static_assert(every_case_in_a_constant_expression());

TEST(Lease, age_never_overflows) {
  EXPECT_EQ(age_ns(5, 7), 2);
  EXPECT_EQ(age_ns(7, 5), 0);
  EXPECT_EQ(age_ns(min, max), max);
  EXPECT_EQ(age_ns(max, min), 0);
  EXPECT_EQ(age_ns(-1, max), max);
  EXPECT_EQ(age_ns(0, max), max);
  EXPECT_EQ(age_ns(1, max), max - 1);
}

TEST(Results, texts_are_the_contract) {
  EXPECT_EQ(to_string(Loss::none), "none");
  EXPECT_EQ(to_string(Loss::died), "died");
  EXPECT_EQ(to_string(Loss::stale), "stale");
  EXPECT_EQ(to_string(Loss::expired), "expired");
  EXPECT_EQ(to_string(Loss::held_too_long), "held_too_long");
  EXPECT_EQ(to_string(Loss::forced), "forced");
  EXPECT_EQ(to_string(AcquireResult::acquired), "acquired");
  EXPECT_EQ(to_string(AcquireResult::extended), "extended");
  EXPECT_EQ(to_string(AcquireResult::reclaimed), "reclaimed");
  EXPECT_EQ(to_string(AcquireResult::busy), "busy");
  EXPECT_EQ(to_string(AcquireResult::timed_out), "timed_out");
  EXPECT_EQ(to_string(AcquireResult::cancelled), "cancelled");
  EXPECT_EQ(to_string(AcquireResult::deadlock), "deadlock");
  EXPECT_EQ(to_string(ReleaseResult::released), "released");
  EXPECT_EQ(to_string(ReleaseResult::not_owner), "not_owner");
  EXPECT_EQ(to_string(ReleaseResult::already_free), "already_free");
  EXPECT_EQ(to_string(HeartbeatResult::refreshed), "refreshed");
  EXPECT_EQ(to_string(HeartbeatResult::not_owner), "not_owner");
  EXPECT_EQ(to_string(static_cast<Loss>(200)), "unknown");
}

TEST(Results, only_three_outcomes_mean_held) {  // C-7
  EXPECT_TRUE(is_held(AcquireResult::acquired));
  EXPECT_TRUE(is_held(AcquireResult::extended));
  EXPECT_TRUE(is_held(AcquireResult::reclaimed));
  EXPECT_FALSE(is_held(AcquireResult::busy));
  EXPECT_FALSE(is_held(AcquireResult::timed_out));
  EXPECT_FALSE(is_held(AcquireResult::cancelled));
  EXPECT_FALSE(is_held(AcquireResult::deadlock));
}

}  // namespace
}  // namespace shmcoord::core
