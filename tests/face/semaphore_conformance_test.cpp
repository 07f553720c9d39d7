#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/semaphore_machine.hpp"
#include "support/face_fixture.hpp"

// One suite over both semaphores: the pure machine in an ordinary container, and the shared one, each of whose holders
// has a session of its own. What is asked here both answer alike; then both go through the same random calls in step.
//
// Where they differ on purpose: an acquire of the pure one takes away first what others lost, in every case (S1-45);
// one of the shared one only if it does not fit otherwise, since it looks at nobody else then.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;

struct Got {
  PermitResult result = PermitResult::full;
  std::uint32_t available = 0;  // of full
  std::uint64_t token = 0;
};
using Holders = std::vector<std::pair<std::string, std::uint32_t>>;  // in the order of their first acquires

class PureSemaphore {
 public:
  explicit PureSemaphore(std::uint32_t capacity) { state_.capacity = capacity; }

  Got acquire(const std::string& holder, std::uint32_t weight) {
    const auto out = does(Machine::Acquire{holder, weight, {}, {}});
    const std::uint32_t available = out.available;
    switch (std::get<core::SemaphoreResult>(out.result)) {
      case core::SemaphoreResult::acquired: return {PermitResult::acquired, 0, out.token};
      case core::SemaphoreResult::already_held: return {PermitResult::already_held, 0, out.token};
      case core::SemaphoreResult::increased: return {PermitResult::increased, 0, out.token};
      default: return {PermitResult::full, available, out.token};
    }
  }
  PermitRelease release(const std::string& holder) {
    const auto result = std::get<core::SemaphoreResult>(does(Machine::Release{holder}).result);
    return result == core::SemaphoreResult::released ? PermitRelease::released : PermitRelease::not_holder;
  }
  HeartbeatResult heartbeat(const std::string& holder) {
    return std::get<HeartbeatResult>(does(Machine::Heartbeat{holder}).result);
  }
  void resize(std::uint32_t capacity) { does(Machine::Resize{capacity}); }
  std::uint32_t reclaim() {
    const std::size_t before = state_.holders.size();
    does(Machine::Reclaim{});
    return static_cast<std::uint32_t>(before - state_.holders.size());
  }
  void falls_silent(const std::string& holder) {
    for (auto& h : state_.holders) {
      if (h.holder == holder) h.last_heartbeat_ns = now_ - 2 * config_.stale_threshold_ns;
    }
  }
  [[nodiscard]] std::uint32_t used() const { return static_cast<std::uint32_t>(state_.used_slots()); }
  [[nodiscard]] std::uint32_t available() const { return state_.available_slots(); }
  [[nodiscard]] Holders holders() const {
    Holders all;
    for (const auto& h : state_.holders) all.emplace_back(h.holder, h.weight);
    return all;
  }

 private:
  using Machine = core::SemaphoreMachine<std::string, std::string>;
  Machine::Outcome does(Machine::Input input) {
    Machine::Outcome out = Machine::transition(config_, state_, std::move(input), ++now_);
    state_ = out.state;
    return out;
  }

  core::SemaphoreConfig config_;
  Machine::State state_;
  std::int64_t now_ = 1'000'000'000'000;
};

class SharedSemaphore {
 public:
  explicit SharedSemaphore(std::uint32_t capacity)
      : name_("test-" + std::to_string(::getpid()) + "-conformance-" + std::to_string(++count_)),
        segment_(Segment::create(name_, {.names = 8, .entries = 512, .sessions = 32})),
        session_(segment_),
        pool_(session_, "pool", {.capacity = capacity, .stale_threshold = 1h}) {}
  ~SharedSemaphore() {
    people_.clear();
    test::expect_sound(*detail::Access::mapping(segment_));
    Segment::remove(name_, true);
  }
  SharedSemaphore(const SharedSemaphore&) = delete;
  SharedSemaphore& operator=(const SharedSemaphore&) = delete;

  Got acquire(const std::string& holder, std::uint32_t weight) {
    const PermitOutcome out = of(holder).pool.try_acquire(HolderId(holder), weight);
    return {out.result, out.available, out.token};
  }
  PermitRelease release(const std::string& holder) { return of(holder).pool.release(HolderId(holder)).result; }
  HeartbeatResult heartbeat(const std::string& holder) { return of(holder).pool.heartbeat(HolderId(holder)).result; }
  void resize(std::uint32_t capacity) { pool_.resize(capacity); }
  std::uint32_t reclaim() { return pool_.reclaim_stale(); }
  void falls_silent(const std::string& holder) {
    const engine::View& view = detail::Access::mapping(segment_)->view();
    const auto long_ago = static_cast<std::uint64_t>(engine::RealPolicy::now_ns() - std::int64_t{7'200'000'000'000});
    for (const auto& e : process::take_snapshot(*detail::Access::mapping(segment_), 0).entries) {
      if (e.holder != holder) continue;
      engine::RealPolicy::store(view.entry(e.entry).since_ns, long_ago);
      engine::RealPolicy::store(view.entry(e.entry).heartbeat_ns, long_ago);
    }
  }
  [[nodiscard]] std::uint32_t used() const { return pool_.used(); }
  [[nodiscard]] std::uint32_t available() const { return pool_.available(); }
  [[nodiscard]] Holders holders() const {
    Holders all;
    for (const auto& h : pool_.holders()) all.emplace_back(h.holder, h.weight);
    return all;
  }

 private:
  struct Person {
    explicit Person(const Segment& segment) : session(segment, {.manual_heartbeat = true}), pool(session, "pool") {}
    Session session;
    Semaphore pool;
  };
  Person& of(const std::string& holder) {
    auto& person = people_[holder];
    if (!person) person = std::make_unique<Person>(segment_);
    return *person;
  }

  static inline int count_ = 0;
  std::string name_;
  Segment segment_;
  Session session_;
  Semaphore pool_;
  std::map<std::string, std::unique_ptr<Person>> people_;
};

template <class Which>
class SemaphoreConformance : public ::testing::Test {};
using Both = ::testing::Types<PureSemaphore, SharedSemaphore>;
TYPED_TEST_SUITE(SemaphoreConformance, Both);

// S0-28 … S0-36, S0-38, S0-39, S1-50 … S1-52, S1-54, C-10.
TYPED_TEST(SemaphoreConformance, AnswersAsTheTableSays) {
  TypeParam pool(8);
  const Got first = pool.acquire("a", 3);
  EXPECT_EQ(first.result, PermitResult::acquired);
  EXPECT_EQ(pool.acquire("b", 5).result, PermitResult::acquired);
  const Got full = pool.acquire("c", 1);
  EXPECT_EQ(full.result, PermitResult::full);
  EXPECT_EQ(full.available, 0U);
  EXPECT_EQ(pool.release("c"), PermitRelease::not_holder);
  EXPECT_EQ(pool.acquire("a", 2).result, PermitResult::already_held);
  EXPECT_EQ(pool.acquire("a", 4).result, PermitResult::full) << "falls through, and keeps what it has";
  EXPECT_EQ(pool.release("b"), PermitRelease::released);
  EXPECT_EQ(pool.release("b"), PermitRelease::not_holder);
  const Got more = pool.acquire("a", 7);
  EXPECT_EQ(more.result, PermitResult::increased);
  EXPECT_EQ(more.token, first.token);
  EXPECT_EQ(pool.acquire("b", 2).available, 1U);
  EXPECT_EQ(pool.acquire("b", 9).result, PermitResult::full) << "more than there is";
  EXPECT_EQ(pool.heartbeat("a"), HeartbeatResult::refreshed);
  EXPECT_EQ(pool.heartbeat("b"), HeartbeatResult::not_owner);
  EXPECT_EQ(pool.release("a"), PermitRelease::released);
  EXPECT_GT(pool.acquire("a", 1).token, first.token);
  EXPECT_EQ(pool.used(), 1U);
}

// S3-2.
TYPED_TEST(SemaphoreConformance, OfOnePermitIsAMutex) {
  TypeParam pool(1);
  EXPECT_EQ(pool.acquire("a", 1).result, PermitResult::acquired);
  EXPECT_EQ(pool.acquire("b", 1).result, PermitResult::full);
  EXPECT_EQ(pool.release("a"), PermitRelease::released);
  EXPECT_EQ(pool.acquire("b", 1).result, PermitResult::acquired);
  EXPECT_EQ(pool.available(), 0U);
}

// C-9.
TYPED_TEST(SemaphoreConformance, HoldersStandInTheOrderOfTheirFirstAcquires) {
  TypeParam pool(10);
  pool.acquire("c", 1);
  pool.acquire("a", 2);
  pool.acquire("b", 1);
  pool.acquire("a", 3);
  EXPECT_EQ(pool.holders(), (Holders{{"c", 1}, {"a", 3}, {"b", 1}}));
  pool.release("c");
  pool.acquire("c", 2);
  EXPECT_EQ(pool.holders(), (Holders{{"a", 3}, {"b", 1}, {"c", 2}}));
}

TYPED_TEST(SemaphoreConformance, BelowWhatIsInUseNobodyIsLetInUntilItFits) {
  TypeParam pool(4);
  pool.acquire("a", 2);
  pool.acquire("b", 2);
  pool.resize(3);
  EXPECT_EQ(pool.used(), 4U);
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_EQ(pool.acquire("c", 1).result, PermitResult::full);
  EXPECT_EQ(pool.acquire("a", 2).result, PermitResult::already_held);
  pool.release("a");
  EXPECT_EQ(pool.acquire("c", 1).result, PermitResult::acquired);
  pool.resize(6);
  EXPECT_EQ(pool.available(), 3U);
}

// S0-37, S0-40, S1-44, S1-53, C-10.
TYPED_TEST(SemaphoreConformance, WhoFellSilentLosesAllExactlyOnce) {
  TypeParam pool(6);
  for (const char* who : {"a", "b", "c"}) pool.acquire(who, 2);
  pool.falls_silent("a");
  pool.falls_silent("b");
  EXPECT_EQ(pool.acquire("b", 2).result, PermitResult::already_held) << "revives its own";
  pool.falls_silent("a");
  pool.falls_silent("c");
  EXPECT_EQ(pool.acquire("d", 4).result, PermitResult::acquired) << "what others lost comes first";
  EXPECT_EQ(pool.used(), 6U);
  EXPECT_EQ(pool.heartbeat("a"), HeartbeatResult::not_owner);
  EXPECT_EQ(pool.release("c"), PermitRelease::not_holder);
  pool.falls_silent("b");
  EXPECT_EQ(pool.reclaim(), 1U);
  EXPECT_EQ(pool.reclaim(), 0U);
  EXPECT_EQ(pool.holders(), (Holders{{"d", 4}}));
}

// C-10: not reclaimed by its own request, also when that is refused; a refusal is a sign of life as well.
TYPED_TEST(SemaphoreConformance, WhoAsksLosesNothingByAsking) {
  TypeParam pool(4);
  pool.acquire("a", 2);
  pool.acquire("b", 2);
  pool.falls_silent("a");
  EXPECT_EQ(pool.acquire("a", 3).result, PermitResult::full);
  EXPECT_EQ(pool.holders(), (Holders{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(pool.reclaim(), 0U);
  pool.falls_silent("a");
  pool.falls_silent("b");
  EXPECT_EQ(pool.acquire("a", 3).result, PermitResult::increased) << "with what the other one lost";
  EXPECT_EQ(pool.holders(), (Holders{{"a", 3}}));
}

TEST(SemaphoreConformanceInStep, BothAnswerTheSame) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  const auto dice = [&](unsigned sides) { return static_cast<std::uint32_t>(random() % sides); };
  PureSemaphore pure(6);
  SharedSemaphore shared(6);
  std::uint64_t newest[2] = {0, 0};
  for (int n = 0; n < 4'000 && !::testing::Test::HasFailure(); ++n) {
    const std::string who(1, static_cast<char>('a' + dice(6)));
    const std::uint32_t amount = 1 + dice(7);
    SCOPED_TRACE("call " + std::to_string(n) + " of " + who + ", " + std::to_string(amount));
    switch (dice(8)) {
      case 0:
      case 1: EXPECT_EQ(pure.release(who), shared.release(who)); break;
      case 2: EXPECT_EQ(pure.heartbeat(who), shared.heartbeat(who)); break;
      case 3:
        if (dice(8) == 0) {
          pure.resize(amount);
          shared.resize(amount);
        }
        break;
      case 4:
        pure.falls_silent(who);
        shared.falls_silent(who);
        if (dice(2) == 0) {
          EXPECT_EQ(pure.reclaim(), shared.reclaim());
        } else {
          EXPECT_EQ(pure.heartbeat(who), shared.heartbeat(who)) << "late, and nobody took it";
        }
        break;
      default: {
        const Got one = pure.acquire(who, amount);
        const Got other = shared.acquire(who, amount);
        EXPECT_EQ(one.result, other.result);
        EXPECT_EQ(one.available, other.available);
        EXPECT_EQ(one.token == 0, other.token == 0);
        if (one.result == PermitResult::acquired) {
          EXPECT_GT(one.token, newest[0]);
          EXPECT_GT(other.token, newest[1]);
          newest[0] = one.token;
          newest[1] = other.token;
        }
      }
    }
    EXPECT_EQ(pure.used(), shared.used());
    EXPECT_EQ(pure.holders(), shared.holders());
  }
}

}  // namespace
}  // namespace shmcoord
