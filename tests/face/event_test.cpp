#include "shmcoord/event.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "support/face_fixture.hpp"

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Keeps what it is told, and lets a test wait for it.
struct Ear {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> heard;

  void operator()(const Event& e) {
    const std::scoped_lock lock(mutex);
    heard.push_back(std::string(e.name()) + " " + e.subject);
    changed.notify_all();
  }
  bool hears(std::size_t count) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 60s, [&] { return heard.size() >= count; });
  }
};

class EventTest : public testing::FaceTest {
 protected:
  Session session_{segment_, {.label = "me"}};
};

TEST_F(EventTest, EachSubscriptionHearsWhatItsPatternsMean) {
  Ear locks;
  Ear released;
  const Subscription one(session_, {"lock:*"}, std::ref(locks));
  const Subscription two(session_, {"*:released", "guard:"}, std::ref(released));
  Lock deploy{session_, "deploy"};
  Semaphore agents{session_, "agents", {.capacity = 2}};
  { const std::scoped_lock hold{deploy}; }
  { const Permit permit{agents, 1}; }
  publish(session_, {.kind = EventKind::guard_failed, .subject = "g", .reason = "why"});
  ASSERT_TRUE(released.hears(3));
  ASSERT_TRUE(locks.hears(2));
  EXPECT_THAT(locks.heard, ElementsAre("lock:acquired deploy", "lock:released deploy"));
  EXPECT_THAT(released.heard, ElementsAre("lock:released deploy", "semaphore:released agents", "guard:failed g"));
}

TEST_F(EventTest, OneThatThrowsOrIsSlowKeepsNobodyFromHearing) {
  Ear ear;
  std::mutex blocked;
  std::unique_lock hold(blocked);
  const Subscription slow(session_, {"*"}, [&](const Event&) { const std::scoped_lock wait(blocked); });
  const Subscription throws(session_, {"*"}, [](const Event&) { throw std::runtime_error("no"); });
  const Subscription one(session_, {"lock:acquired"}, std::ref(ear));
  Lock deploy{session_, "deploy"};
  for (int n = 0; n < 10; ++n) const std::scoped_lock once{deploy};
  EXPECT_TRUE(ear.hears(10));
  hold.unlock();
}

// A full mailbox counts what it could not take.
TEST_F(EventTest, WhoIsTooSlowIsToldWhatItMissed) {
  Ear ear;
  std::mutex blocked;
  std::unique_lock hold(blocked);
  std::uint64_t lost = 0;
  std::uint64_t heard = 0;
  constexpr std::uint64_t cycles = 4'000;
  std::condition_variable changed;
  const Subscription slow(session_, {"lock:*"}, [&](const Event& e) {
    const std::scoped_lock wait(blocked);
    lost += e.lost;
    heard += e.kind == EventKind::journal_lost ? 0U : 1U;
    changed.notify_all();
  });
  const Subscription other(session_, {"lock:released"}, std::ref(ear));
  Lock deploy{session_, "deploy"};
  for (std::uint64_t n = 0; n < cycles; ++n) const std::scoped_lock once{deploy};
  EXPECT_TRUE(ear.hears(cycles)) << "all was read, and put where there was room";
  // What was lost is told behind what there was room for, though nothing else happens.
  EXPECT_TRUE(changed.wait_for(hold, 60s, [&] { return lost + heard == 2 * cycles; })) << lost << " " << heard;
  EXPECT_GT(lost, 0U);
  hold.unlock();
  { const std::scoped_lock once{deploy}; }
  hold.lock();
  EXPECT_TRUE(changed.wait_for(hold, 60s, [&] { return lost + heard == 2 * cycles + 2; })) << lost << " " << heard;
  hold.unlock();
}

TEST_F(EventTest, NothingIsHeardAfterTheEnd) {
  Ear ear;
  Lock deploy{session_, "deploy"};
  {
    const Subscription one(session_, {"*"}, std::ref(ear));
    { const std::scoped_lock once{deploy}; }
    ASSERT_TRUE(ear.hears(2));
  }
  { const std::scoped_lock once{deploy}; }
  EXPECT_EQ(ear.heard.size(), 2U);
}

TEST_F(EventTest, RefusesWhatCannotBeMeant) {
  const auto refused = [&](std::vector<std::string> patterns, Subscription::Callback callback) -> std::string {
    try {
      const Subscription one(session_, std::move(patterns), std::move(callback));
      return "taken";
    } catch (const Error& e) {
      return e.errc() == Errc::invalid_argument ? e.what() : "other";
    }
  };
  EXPECT_THAT(refused({"lock:rel*"}, [](const Event&) {}), HasSubstr("'lock:rel*' has a `*` inside of a word"));
  for (const char* const nothing : {"lok:*", "lock:relased", "LOCK:*", "lock", "foo:"}) {
    EXPECT_THAT(refused({nothing}, [](const Event&) {}), HasSubstr("matches no event that there is")) << nothing;
  }
  EXPECT_THAT(refused({}, [](const Event&) {}), HasSubstr("needs a pattern"));
  EXPECT_THAT(refused({"*"}, nullptr), HasSubstr("needs a callback"));
  EXPECT_THROW(publish(session_, {.kind = EventKind::lock_acquired}), Error);
  session_.leave();
  EXPECT_THROW(const Subscription one(session_, {"*"}, [](const Event&) {}), Error);
}

TEST_F(EventTest, AForkedChildHearsNothingAndDestroysItsCopy) {
  Ear ear;
  auto one = std::make_unique<Subscription>(session_, std::vector<std::string>{"*"}, std::ref(ear));
  Child child([&](int) {
    one.reset();
    ::_exit(7);
  });
  const int status = child.wait();
  EXPECT_EQ(WEXITSTATUS(status), 7);
  Lock deploy{session_, "deploy"};
  { const std::scoped_lock once{deploy}; }
  EXPECT_TRUE(ear.hears(2));
}

TEST(EventKinds, HaveTheirNames) {
  for (int k = 0; k <= static_cast<int>(EventKind::journal_lost); ++k) {
    const auto kind = static_cast<EventKind>(k);
    EXPECT_EQ(event_kind_from(to_string(kind)), kind);
  }
  EXPECT_EQ(to_string(EventKind::phase_entered), "phase:entered");
  EXPECT_EQ(to_string(EventKind::semaphore_stale), "semaphore:stale");
  EXPECT_FALSE(event_kind_from("lock:free"));
}

}  // namespace
}  // namespace shmcoord
