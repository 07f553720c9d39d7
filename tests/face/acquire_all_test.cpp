#include "shmcoord/acquire_all.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/common.hpp"
#include "support/face_fixture.hpp"
#include "support/long_form.hpp"

// Several holds at once: all or nothing, in threads and in processes that are killed.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

const HolderId a{"pipeline:a"};
const HolderId b{"worker:b"};

class AcquireAll : public testing::FaceTest {
 protected:
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Error& e) {
      return e.errc() == Errc::invalid_argument ? e.what() : std::string("another error: ") + e.what();
    }
    return "none";
  }
};

TEST_F(AcquireAll, GetsAllAndGivesAllBack) {
  Session session{segment_};
  Lock deploy{session, "deploy"};
  Semaphore agents{session, "agents", {.capacity = 4}};
  SharedLock tree{session, "tree"};
  MultiHold all = acquire_all(session, {tree, {agents, 3}, deploy});
  ASSERT_TRUE(all);
  EXPECT_EQ(all.result(), AcquireResult::acquired);
  EXPECT_TRUE(all.missing().empty());
  EXPECT_TRUE(deploy.is_current(all.token("deploy")));
  EXPECT_TRUE(agents.is_current(all.token("agents")));
  EXPECT_EQ(all.token("nothing"), 0U);
  EXPECT_EQ(agents.used(), 3U);
  EXPECT_FALSE(tree.try_lock_shared());
  EXPECT_FALSE(deploy.try_lock());
  EXPECT_FALSE(all.lost());
  const MultiHold moved = std::move(all);
  EXPECT_FALSE(all);  // NOLINT(bugprone-use-after-move): as promised
  EXPECT_TRUE(moved);
  EXPECT_EQ(agents.used(), 3U);
  all = acquire_all(session, {Wanted{agents}, Wanted{agents}}, 0ns);
  EXPECT_EQ(all.result(), AcquireResult::busy);
  EXPECT_EQ(all.missing(), "agents");
  EXPECT_EQ(all.token("agents"), 0U);
  { const MultiHold gone = std::move(const_cast<MultiHold&>(moved)); }
  EXPECT_EQ(agents.used(), 0U);
  EXPECT_TRUE(deploy.try_lock());
  deploy.unlock();
  all = acquire_all(session, {Wanted::shared(tree), {agents, 1}, {agents, 2}}, 0ns);
  ASSERT_TRUE(all) << "the weights add up";
  EXPECT_EQ(agents.used(), 3U);
  EXPECT_TRUE(tree.try_lock_shared());
  tree.unlock_shared();
  all.release();
  EXPECT_FALSE(all);
  EXPECT_EQ(agents.used(), 0U);
}

TEST_F(AcquireAll, GetsNothingIfOneIsMissing) {
  Session session{segment_};
  Lock first{session, "a"};
  Lock last{session, "b"};
  Semaphore pool{session, "pool", {.capacity = 2}};
  ASSERT_TRUE(pool.try_acquire(a));
  for (const auto timeout : {0ns, std::chrono::nanoseconds(20ms)}) {
    const MultiHold all = acquire_all(session, {{pool, 2}, last, first}, timeout);
    EXPECT_FALSE(all);
    EXPECT_EQ(all.result(), timeout == 0ns ? AcquireResult::busy : AcquireResult::timed_out);
    EXPECT_EQ(all.missing(), "pool");
    EXPECT_FALSE(first.holder());
    EXPECT_FALSE(last.holder());
    EXPECT_EQ(pool.used(), 1U);
    EXPECT_EQ(waiters(), 0U);
  }
  std::stop_source stop;
  auto waits = std::async(std::launch::async, [&] {
    return acquire_all(session, {first, {pool, 2}}, std::nullopt, stop.get_token()).result();
  });
  until_waiting(1);
  EXPECT_TRUE(first.holder()) << "taken already, while it waits for the next one";
  stop.request_stop();
  EXPECT_EQ(waits.get(), AcquireResult::cancelled);
  EXPECT_FALSE(first.holder());
}

TEST_F(AcquireAll, SaysWhatIsWrong) {
  Session session{segment_};
  Session other{segment_};
  Lock lock{session, "deploy"};
  Lock same{session, "deploy"};
  Lock theirs{other, "theirs"};
  Semaphore pool{session, "pool", {.capacity = 2}};
  EXPECT_NE(refusal([&] { (void)acquire_all(session, std::span<const Wanted>()); }).find("of nothing"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              (void)acquire_all(session, {lock, same});
            }).find("lock 'deploy' is named twice"),
            std::string::npos);
  EXPECT_NE(refusal([&] { (void)acquire_all(session, {lock, theirs}); }).find("another session"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)acquire_all(session, {lock, {pool, 0}}); }).find("weight"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)acquire_all(session, {lock, {pool, 3}}); }).find("3"), std::string::npos);
  EXPECT_NE(refusal([&] { (void)acquire_all(session, {lock, {pool, 1}, {pool, 2}}); }).find("3"), std::string::npos);
  EXPECT_FALSE(lock.holder()) << "nothing was taken for it";
  std::error_code ec;
  EXPECT_FALSE(acquire_all(session, std::span<const Wanted>(), 0ns, {}, ec));
  EXPECT_EQ(ec, Errc::invalid_argument);
}

TEST_F(AcquireAll, WhatWasLostWhileItWaitedIsTakenAnew) {
  Session session{segment_};
  Lock first{session, "a"};
  Lock last{session, "b"};
  ASSERT_TRUE(last.try_acquire(a));
  auto waits = std::async(std::launch::async, [&] { return acquire_all(session, {first, last}); });
  until_waiting(1);
  const std::uint64_t before = first.holder().value().token;
  const auto client = process::PrimitiveClient::find(detail::Access::state(session)->participant, "a");
  ASSERT_TRUE(client->force_release(""));
  ASSERT_TRUE(first.try_acquire(b));
  (void)last.release(a);
  until_waiting(1);
  EXPECT_FALSE(last.holder()) << "given back, to wait for the first one again";
  (void)first.release(b);
  const MultiHold all = waits.get();
  ASSERT_TRUE(all);
  EXPECT_GT(all.token("a"), before);
  EXPECT_FALSE(all.lost());
}

TEST_F(AcquireAll, ANarrowOneDoesNotOvertakeForEver) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  Lock lock{session, "lock"};
  std::atomic<bool> over{false};
  std::vector<std::jthread> narrow;
  for (int n = 0; n < 4; ++n) {
    narrow.emplace_back([&] {
      while (!over) const Permit permit(pool);
    });
  }
  for (int round = 0; round < 50; ++round) {
    const MultiHold all = acquire_all(session, {lock, {pool, 4}});
    EXPECT_TRUE(all);
  }
  over = true;
}

// F35, with kills: opposite orders, no deadlock, no half of it left, everybody gets a turn.
TEST_F(AcquireAll, SixteenProcessesInOppositeOrders) {
  constexpr std::uint32_t permits = 3;
  constexpr std::size_t processes = 16;
  struct Shared {
    std::atomic<std::uint64_t> turns[processes];
    std::atomic<std::uint64_t> inside;  // token of the last one who was
    std::atomic<int> faults;
  };
  const test::Common<Shared> shared;
  {
    Session session{segment_};
    const Semaphore pool{session, "pool", {.capacity = permits}};
  }
  const auto body = [&](std::size_t number) {
    return [&, number](int) {
      Session session{segment_};
      Lock left{session, "left"};
      Lock right{session, "right"};
      Semaphore pool{session, "pool"};
      for (;;) {
        MultiHold all = number % 2 == 0 ? acquire_all(session, {left, right, {pool, 2}})
                                        : acquire_all(session, {{pool, 2}, right, left});
        if (!all) ++shared->faults;
        const std::uint64_t token = all.token("left");
        if (shared->inside.exchange(token) >= token) ++shared->faults;
        ++shared->turns[number];
        if (shared->inside != token) ++shared->faults;
        all.release();
      }
    };
  };
  std::vector<std::unique_ptr<Child>> all;
  for (std::size_t n = 0; n < processes; ++n) all.push_back(std::make_unique<Child>(body(n)));
  std::mt19937 random(std::random_device{}());
  const auto end = std::chrono::steady_clock::now() + (test::long_form() ? 60s : 2s);
  const auto all_had_turns = [&] {
    return std::all_of(std::begin(shared->turns), std::end(shared->turns), [](const auto& n) { return n > 0; });
  };
  while (std::chrono::steady_clock::now() < end || !all_had_turns()) {
    std::this_thread::sleep_for(2ms);
    if (random() % 8 != 0) continue;
    const std::size_t n = random() % processes;
    all[n]->kill(SIGKILL);
    all[n]->wait();
    all[n] = std::make_unique<Child>(body(n));
  }
  all.clear();
  EXPECT_EQ(shared->faults, 0);
  Session session{segment_};
  Lock left{session, "left"};
  Lock right{session, "right"};
  Semaphore pool{session, "pool"};
  EXPECT_TRUE(acquire_all(session, {left, right, {pool, permits}}, 0ns)) << "all is free";
}

}  // namespace
}  // namespace shmcoord
