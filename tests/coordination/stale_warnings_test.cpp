#include "coordination/stale_warnings.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "process/clock.hpp"
#include "support/manager_world.hpp"

// Of whom a pass warns; when, over the manager, is in manager_conformance_test.cpp.

namespace shmcoord::coordination {
namespace {

using namespace std::chrono_literals;

class Warnings : public ::testing::Test {
 protected:
  [[nodiscard]] const engine::Mapping& mapping() const { return *detail::Access::mapping(world_.segment); }
  std::string warned(std::int64_t now_ns, StaleWarnings::Journal journal = StaleWarnings::Journal::told) {
    std::string all;
    for (const Event& e : warnings_.warn(mapping(), now_ns, journal)) {
      all += std::string(e.name()) + " " + e.subject + " " + e.holder + ";";
    }
    return all;
  }

  test::SegmentWorld world_;
  StaleWarnings warnings_;
};

// A pass that takes away as of the same time takes nothing else, however long it lasts.
TEST_F(Warnings, AreThoseOfTheTimeThatIsGiven) {
  world_.manager.ensure_lock({.name = "l", .stale_threshold = 60s});
  ASSERT_TRUE(world_.manager.acquire_lock("l", HolderId{"a"}));
  const std::int64_t before = process::real_clock().now_ns();
  world_.pass(61s);
  EXPECT_EQ(warned(before - 10'000'000'000), "");
  const process::SweepOptions options{.warn = false};
  EXPECT_EQ(process::sweep(mapping(), before - 10'000'000'000, options).reclaimed, 0U);
  EXPECT_EQ(warned(before), "lock:stale l a;");
  EXPECT_EQ(process::sweep(mapping(), before, options).reclaimed, 1U);
  EXPECT_EQ(warned(before), "");
}

TEST_F(Warnings, AreTakenBackByNobody) {
  ASSERT_TRUE(world_.manager.acquire_lock("l", HolderId{"a"}));
  world_.pass(61s);
  StaleWarnings another;
  EXPECT_EQ(warned(process::real_clock().now_ns()), "lock:stale l a;");
  EXPECT_EQ(warned(process::real_clock().now_ns()), "");
  EXPECT_EQ(another.warn(mapping(), process::real_clock().now_ns()).size(), 1U) << "each warns for itself";
}

}  // namespace
}  // namespace shmcoord::coordination
