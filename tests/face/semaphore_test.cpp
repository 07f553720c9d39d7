#include <poll.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "support/face_fixture.hpp"

// The public semaphore, alone and with other processes.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

class SemaphoreFace : public testing::FaceTest {};

const HolderId a{"pipeline:a"};
const HolderId b{"worker:b"};
const HolderId c{"worker:c"};

Errc error_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& e) {
    if (text != nullptr) *text = e.what();
    return e.errc();
  }
  return Errc{};
}

// S0-28 … S0-35, C-10, C-48.
TEST_F(SemaphoreFace, OutcomesByHolder) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 8}};
  const PermitOutcome first = agents.try_acquire(a, 2, {.reason = "rev=abc"});
  ASSERT_EQ(first.result, PermitResult::acquired);
  EXPECT_EQ(first.weight, 2U);
  EXPECT_GE(first.token, 1U);
  const PermitOutcome less = agents.try_acquire(a, 1);
  EXPECT_EQ(less.result, PermitResult::already_held);
  EXPECT_EQ(less.weight, 2U) << "not lowered";
  EXPECT_EQ(less.token, first.token);
  const PermitOutcome more = agents.try_acquire(a, 5);
  EXPECT_EQ(more.result, PermitResult::increased);
  EXPECT_EQ(more.weight, 5U);
  EXPECT_EQ(more.token, first.token);
  EXPECT_EQ(agents.used(), 5U);
  const PermitOutcome full = agents.try_acquire(b, 4);
  EXPECT_EQ(full.result, PermitResult::full);
  EXPECT_EQ(full.available, 3U);
  EXPECT_EQ(full.weight, 0U);
  EXPECT_FALSE(full);
  const PermitOutcome kept = agents.try_acquire(a, 9);
  EXPECT_EQ(kept.result, PermitResult::full);
  EXPECT_EQ(kept.weight, 5U) << "what it had it still has";
  ASSERT_TRUE(agents.try_acquire(b, 3));
  const auto holders = agents.holders();
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].holder, a.str());
  EXPECT_EQ(holders[0].weight, 5U);
  EXPECT_EQ(holders[0].reason, "rev=abc") << "kept through the increase";
  EXPECT_EQ(holders[1].holder, b.str());
  EXPECT_EQ(agents.heartbeat(b).result, HeartbeatResult::refreshed);
  EXPECT_EQ(agents.heartbeat(c).result, HeartbeatResult::not_owner);
  EXPECT_EQ(agents.release(c).result, PermitRelease::not_holder);
  EXPECT_EQ(agents.release(a).result, PermitRelease::released);
  EXPECT_EQ(agents.release(a).result, PermitRelease::not_holder) << "over-release";
  EXPECT_EQ(agents.available(), 5U);
  EXPECT_EQ(agents.release(b).result, PermitRelease::released);
}

// C-12.
TEST_F(SemaphoreFace, WhatCannotBeIsRefusedAtOnceAndChangesNothing) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 4}};
  EXPECT_EQ(agents.acquire(a, 5).result, PermitResult::full) << "waiting would never end";
  EXPECT_EQ(error_of([&] { (void)agents.try_acquire(a, 0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)agents.acquire(a, 1U << 20U); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Permit permit(agents, 5); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Permit permit(agents, 0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)agents.wait_fd(a, 5); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { agents.resize(0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore none{session, "none", {.capacity = 0}}; }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore none{session, "none", {.capacity = 1U << 20U}}; }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] {
              Semaphore none{session, "none", {.capacity = 1, .per_session = 1}};
            }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore none{session, "none"}; }), Errc::not_found);
  EXPECT_EQ(agents.used(), 0U);
  Semaphore largest{session, "largest", {.capacity = (1U << 20U) - 1}};
  EXPECT_TRUE(largest.try_acquire(a, (1U << 20U) - 1));
  EXPECT_EQ(largest.available(), 0U);
}

// F37, C-26.
TEST_F(SemaphoreFace, F37_AnotherTypeOrCapacityIsAnErrorThatNamesBoth) {
  Session session{segment_};
  Semaphore agents{session, "agents", {.capacity = 4, .stale_threshold = 30s}};
  Lock deploy{session, "deploy"};
  std::string text;
  EXPECT_EQ(error_of([&] { Lock wrong(session, "agents"); }, &text), Errc::wrong_type);
  EXPECT_EQ(text, "'agents' exists as a semaphore with capacity 4, not as a lock");
  EXPECT_EQ(error_of([&] { Semaphore wrong(session, "deploy", {.capacity = 4}); }, &text), Errc::wrong_type);
  EXPECT_EQ(text, "'deploy' exists as a lock, not as a semaphore");
  EXPECT_EQ(error_of([&] { Semaphore wrong(session, "agents", {.capacity = 5}); }, &text), Errc::config_differs);
  EXPECT_EQ(text, "semaphore 'agents' exists with capacity 4, asked for 5");
  EXPECT_EQ(error_of([&] { Semaphore wrong(session, "agents", {.per_session = 2}); }, &text), Errc::config_differs);
  EXPECT_EQ(text, "semaphore 'agents' exists with capacity 4, asked for per_session 2");
  EXPECT_EQ(error_of([&] { Semaphore wrong(session, "agents", {.stale_threshold = 31s}); }), Errc::config_differs);
  EXPECT_EQ(error_of([&] { Semaphore::remove(session, "deploy"); }), Errc::wrong_type);
  EXPECT_EQ(error_of([&] { Lock::remove(session, "agents"); }), Errc::wrong_type);
  Semaphore same{session, "agents", {.capacity = 4}};
  Semaphore attached{session, "agents"};
  EXPECT_TRUE(attached.try_acquire(a, 4));
  EXPECT_EQ(same.available(), 0U);
}

// S2-25, S3-6, S3-14: the sixth waits, and gets what the first gives back before anybody else.
TEST_F(SemaphoreFace, TheSixthWaitsForOneOfFive) {
  Session session{segment_};
  Semaphore pool{session, "db-pool", {.capacity = 5}};
  std::vector<HolderId> five;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pool.try_acquire(five.emplace_back("c" + std::to_string(i))));
  EXPECT_EQ(pool.acquire(a, 1, {}, 20ms).result, PermitResult::timed_out);
  std::jthread sixth([&] {
    EXPECT_EQ(pool.acquire(a).result, PermitResult::acquired);
    EXPECT_EQ(pool.release(a).result, PermitRelease::released);
  });
  until_waiting(1);
  EXPECT_EQ(pool.try_acquire(b).result, PermitResult::full);
  pool.release(five[0]);
  sixth.join();
  EXPECT_EQ(pool.available(), 1U);
}

// F33, C-35: a big request at the head is served before small ones behind it, and when it gives up they go at once.
TEST_F(SemaphoreFace, F33_ABigRequestIsNotOvertakenAndItsEndLetsTheSmallOnesGo) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  for (const bool gives_up : {false, true}) {
    ASSERT_TRUE(pool.try_acquire(a, 2));
    std::stop_source stop;
    std::mutex order_mutex;
    std::vector<char> order;
    const auto note = [&](char who) {
      const std::scoped_lock one(order_mutex);
      order.push_back(who);
    };
    std::jthread big([&] {
      const PermitOutcome got = pool.acquire(b, 4, {}, std::nullopt, stop.get_token());
      EXPECT_EQ(got.result, gives_up ? PermitResult::cancelled : PermitResult::acquired);
      note('B');
      pool.release(b);
    });
    until_waiting(1);
    EXPECT_EQ(pool.try_acquire(c).result, PermitResult::full) << "two are free, but somebody waits";
    std::jthread small([&] {
      EXPECT_TRUE(pool.acquire(c));
      note('s');
      pool.release(c);
    });
    until_waiting(2);
    if (gives_up) {
      stop.request_stop();
    } else {
      pool.release(a);
    }
    big.join();
    small.join();
    if (gives_up) pool.release(a);
    EXPECT_EQ(order.size(), 2U);
    if (!gives_up) {
      EXPECT_EQ(order[0], 'B');
    }
    EXPECT_EQ(pool.available(), 4U);
  }
}

// S0-30 with waiting: what is missing is queued for, and what it has it keeps.
TEST_F(SemaphoreFace, AnIncreaseWaitsForWhatIsMissing) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  const std::uint64_t token = pool.try_acquire(a, 2).token;
  ASSERT_TRUE(pool.try_acquire(b, 2));
  const PermitOutcome late = pool.acquire(a, 3, {}, 20ms);
  EXPECT_EQ(late.result, PermitResult::timed_out);
  EXPECT_EQ(late.weight, 2U);
  EXPECT_EQ(late.token, token);
  EXPECT_EQ(pool.acquire(a, 5).result, PermitResult::full) << "two and three are more than there is";
  std::jthread grows([&] {
    const PermitOutcome got = pool.acquire(a, 4);
    EXPECT_EQ(got.result, PermitResult::increased);
    EXPECT_EQ(got.token, token);
  });
  until_waiting(1);
  EXPECT_TRUE(pool.stands(a, token));
  pool.release(b);
  grows.join();
  EXPECT_EQ(pool.holders().size(), 1U);
  EXPECT_EQ(pool.holders()[0].weight, 4U);
  EXPECT_EQ(pool.release(a).result, PermitRelease::released);
  EXPECT_EQ(pool.available(), 4U);
}

// What it waits to add to is given back by another thread: all of it is acquired anew.
TEST_F(SemaphoreFace, AnIncreaseOfWhatWasGivenBackBecomesAnAcquire) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  const std::uint64_t token = pool.try_acquire(a, 1).token;
  ASSERT_TRUE(pool.try_acquire(b, 3));
  std::jthread grows([&] {
    const PermitOutcome got = pool.acquire(a, 3);
    EXPECT_EQ(got.result, PermitResult::acquired);
    EXPECT_GT(got.token, token);
    EXPECT_EQ(got.weight, 3U);
  });
  until_waiting(1);
  EXPECT_EQ(pool.release(a).result, PermitRelease::released);
  pool.release(b);
  grows.join();
  EXPECT_EQ(pool.used(), 3U);
}

TEST_F(SemaphoreFace, ResizeLetsInAndTurnsAway) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 2}};
  ASSERT_TRUE(pool.try_acquire(a, 2));
  std::jthread waits([&] { EXPECT_TRUE(pool.acquire(b, 2)); });
  until_waiting(1);
  pool.resize(4);
  waits.join();
  EXPECT_EQ(pool.capacity(), 4U);
  std::jthread never([&] { EXPECT_EQ(pool.acquire(c, 4).result, PermitResult::full); });
  until_waiting(1);
  pool.resize(1);
  never.join();
  EXPECT_EQ(pool.used(), 4U) << "who holds may finish";
  EXPECT_EQ(pool.available(), 0U);
  EXPECT_EQ(pool.try_acquire(c).result, PermitResult::full);
  pool.release(a);
  EXPECT_EQ(pool.try_acquire(c).result, PermitResult::full) << "still above the capacity";
  pool.release(b);
  EXPECT_TRUE(pool.try_acquire(c));
  Semaphore now{session, "pool", {.capacity = 1}};
  EXPECT_EQ(error_of([&] { Semaphore before(session, "pool", {.capacity = 2}); }), Errc::config_differs);
}

// F24: permits are of nobody's thread.
TEST_F(SemaphoreFace, F24_PermitsMayBeGivenBackByAnotherThread) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 3}};
  Permit one(pool, 2);
  EXPECT_TRUE(one);
  EXPECT_TRUE(pool.is_current(one.token()));
  EXPECT_FALSE(Permit(pool, 2, std::try_to_lock));
  EXPECT_FALSE(Permit(pool, 2, 5ms));
  std::thread([moved = std::move(one)] { EXPECT_TRUE(moved); }).join();
  EXPECT_EQ(pool.available(), 3U);
  ASSERT_TRUE(pool.try_acquire(a, 3));
  std::thread([&] { EXPECT_EQ(pool.release(a).result, PermitRelease::released); }).join();
  Permit again(pool);
  again = Permit(pool, 2);
  EXPECT_EQ(pool.used(), 2U);
  again.release();
  EXPECT_EQ(pool.used(), 0U);
  EXPECT_EQ(again.token(), 0U);
}

TEST_F(SemaphoreFace, ThreadsAndTheirPermitsNeverExceedTheCapacity) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 3}};
  std::atomic<unsigned> inside = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 3'000; ++i) {
        const unsigned weight = 1 + (i + t) % 3;
        const Permit permit(pool, weight);
        if (inside.fetch_add(weight) + weight > 3) exceeded = true;
        inside -= weight;
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(pool.available(), 3U);
}

TEST_F(SemaphoreFace, AQuotaIsWhatItsSessionsBring) {
  Session session{segment_};
  Semaphore quota{session, "quota", {.per_session = 2}};
  Semaphore same{session, "quota"};
  EXPECT_EQ(quota.capacity(), 2U) << "one share for a session";
  Child other([&](int ready) {
    Session mine{segment_};
    Semaphore theirs{mine, "quota"};
    say(ready, theirs.capacity() == 4 && theirs.try_acquire(b, 3) ? 'h' : 'x');
    ::pause();
  });
  ASSERT_EQ(other.next(), 'h');
  EXPECT_EQ(quota.capacity(), 4U);
  EXPECT_EQ(quota.acquire(a, 5).result, PermitResult::full);
  std::jthread waits([&] { EXPECT_EQ(quota.acquire(c, 3).result, PermitResult::full) << "what it waits for dies"; });
  until_waiting(1);
  other.kill(SIGKILL);
  other.wait();
  waits.join();
  EXPECT_EQ(quota.capacity(), 2U);
  EXPECT_EQ(quota.available(), 2U);
  EXPECT_EQ(error_of([&] { quota.resize(3); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Semaphore::remove(session, "quota"); }), Errc::in_use) << "we are a member";
  EXPECT_EQ(error_of([&] { Semaphore fixed(session, "quota", {.capacity = 2}); }), Errc::config_differs);
  {
    Session brief{segment_};
    Semaphore theirs{brief, "quota"};
    EXPECT_EQ(quota.capacity(), 4U);
  }
  EXPECT_EQ(quota.capacity(), 2U) << "left with its session";
  Semaphore::remove(session, "quota", true);
  EXPECT_EQ(error_of([&] { Semaphore gone(session, "quota"); }), Errc{}) << "this session knows how it was made";
}

TEST_F(SemaphoreFace, WhoCannotJoinAQuotaKeepsNothing) {
  const Segment small = Segment::create(segment_.name() + "-small", {.entries = 64});
  const auto remove = [&](const Segment*) { Segment::remove(small.name(), true); };
  const std::unique_ptr<const Segment, decltype(remove)> removed(&small, remove);
  Session first{small};
  const Semaphore all{first, "quota", {.per_session = 1'048'575}};
  Session second{small};
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_EQ(error_of([&] { Semaphore theirs(second, "quota"); }), Errc::table_full);
  }
  Lock lock{second, "deploy"};
  EXPECT_TRUE(lock.try_acquire(a));
}

TEST_F(SemaphoreFace, AQuotaIsJoinedWhileItIsRemoved) {
  Session session{segment_};
  std::atomic<bool> over{false};
  std::jthread operators([&] {
    Session other{segment_};
    while (!over) (void)error_of([&] { Semaphore::remove(other, "quota", true); });
  });
  for (int i = 0; i < 300; ++i) {
    Session member{segment_};
    EXPECT_NO_THROW((Semaphore{member, "quota", {.per_session = 1}}));
  }
  over = true;
}

TEST_F(SemaphoreFace, WaitFdBecomesReadable) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 2}};
  ASSERT_TRUE(pool.try_acquire(a, 2));
  pollfd ready{pool.wait_fd(b, 2), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 20), 0);
  pool.release(a);
  ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
  EXPECT_EQ(pool.acquire(b, 2).result, PermitResult::acquired);
  EXPECT_EQ(error_of([&] { (void)pool.wait_fd(b, 3); }), Errc::in_use);
  // Turned away by a resize, it is told so as well.
  pool.resize(3);
  ready.fd = pool.wait_fd(c, 3);
  pool.resize(2);
  ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
  EXPECT_EQ(pool.acquire(c, 3).result, PermitResult::full);
  pool.release(b);
  ready.fd = pool.wait_fd(c, 1);
  pool.cancel_wait(c);
  EXPECT_EQ(pool.available(), 2U);
}

TEST_F(SemaphoreFace, TheEndOfAWaitByDescriptorIsNotTheEndOfTheHold) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 2}};
  (void)pool.wait_fd(a, 1);
  ASSERT_TRUE(pool.acquire(a, 1));
  pool.cancel_wait(a);
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_EQ(pool.release(a).result, PermitRelease::released);
  EXPECT_EQ(pool.used(), 0U);
  (void)pool.wait_fd(a, 2);  // granted at once, and nobody asked
  EXPECT_EQ(pool.release(a).result, PermitRelease::released);
  EXPECT_EQ(pool.used(), 0U);
  ASSERT_TRUE(pool.try_acquire(b, 2));
  (void)pool.wait_fd(a, 1);
  EXPECT_EQ(pool.release(a).result, PermitRelease::not_holder) << "left the queue";
  EXPECT_EQ(waiters(), 0U);
  Lock lock{session, "deploy"};
  (void)lock.wait_fd(a);
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
  EXPECT_FALSE(lock.holder());
}

TEST_F(SemaphoreFace, RefusedBesideAnIncreaseItStillHasWhatItHas) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  ASSERT_TRUE(pool.try_acquire(a, 2));
  ASSERT_TRUE(pool.try_acquire(b, 2));
  std::jthread grows([&] { EXPECT_EQ(pool.acquire(a, 4).result, PermitResult::increased); });
  until_waiting(1);
  const PermitOutcome refused = pool.try_acquire(a, 3);
  EXPECT_EQ(refused.result, PermitResult::full);
  EXPECT_EQ(refused.weight, 2U);
  pool.release(b);
}

TEST_F(SemaphoreFace, RemovalFailsWhoWaits) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 1}};
  const std::uint64_t token = pool.try_acquire(a).token;
  std::jthread waits([&] { EXPECT_EQ(error_of([&] { (void)pool.acquire(b); }), Errc::name_removed); });
  until_waiting(1);
  EXPECT_EQ(error_of([&] { Semaphore::remove(session, "pool"); }), Errc::in_use);
  Semaphore::remove(session, "pool", true);
  waits.join();
  EXPECT_FALSE(pool.stands(a, token));
  EXPECT_EQ(pool.release(a).result, PermitRelease::not_holder);
  EXPECT_EQ(error_of([&] { (void)pool.capacity(); }), Errc::not_found);
  const PermitOutcome anew = pool.try_acquire(b);
  EXPECT_EQ(anew.result, PermitResult::acquired) << "made anew, as it was";
  EXPECT_GT(anew.token, token);
}

// C-52, S1-53: who comes next is told, once, and gets all that the dead one had.
TEST_F(SemaphoreFace, AKilledHolderGivesBackAllThatItHad) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 4}};
  Child holder([&](int ready) {
    Session mine{segment_};
    Semaphore theirs{mine, "pool"};
    (void)theirs.try_acquire(b, 1);
    (void)theirs.try_acquire(b, 3);
    (void)theirs.try_acquire(c, 1);
    say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(holder.next(), 'h');
  EXPECT_EQ(pool.available(), 0U);
  holder.kill(SIGKILL);
  const PermitOutcome got = pool.acquire(a, 4, {}, 20s);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->why, Loss::died);
  EXPECT_FALSE(pool.try_acquire(a, 4).previous);
}

// S0-37, S0-40: all that lapsed, exactly once, and those who go on are left alone.
TEST_F(SemaphoreFace, SilentHoldersAreReclaimed) {
  std::atomic<Loss> told = Loss::none;  // outlives the handle whose callback writes it
  Session silent{segment_, {.manual_heartbeat = true}};
  Session session{segment_, {.heartbeat_interval = 10ms}};
  Semaphore theirs{silent, "pool", {.capacity = 4, .stale_threshold = 50ms}};
  Semaphore pool{session, "pool"};
  theirs.on_lost([&](const HolderId&, const Lost& lost) { told = lost.why; });
  const std::uint64_t token = theirs.try_acquire(a, 2).token;
  ASSERT_TRUE(theirs.try_acquire(b, 1));
  ASSERT_TRUE(pool.try_acquire(c, 1));
  std::this_thread::sleep_for(80ms);
  EXPECT_EQ(theirs.heartbeat(b).result, HeartbeatResult::refreshed) << "late, and nobody took it";
  EXPECT_EQ(pool.reclaim_stale(), 1U);
  EXPECT_EQ(pool.reclaim_stale(), 0U);
  EXPECT_EQ(pool.available(), 2U);
  EXPECT_FALSE(theirs.stands(a, token));
  while (told == Loss::none) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(told, Loss::stale);
  const auto lost = theirs.release(a);
  EXPECT_EQ(lost.result, PermitRelease::not_holder);
  ASSERT_TRUE(lost.lost);
  EXPECT_EQ(lost.lost->why, Loss::stale);
  std::this_thread::sleep_for(80ms);
  EXPECT_EQ(pool.try_acquire(c, 4).result, PermitResult::increased) << "what does not fit otherwise is taken first";
}

TEST_F(SemaphoreFace, ErrorCodeTwins) {
  Session session{segment_};
  std::error_code ec;
  EXPECT_FALSE(Semaphore::attach(session, "pool", {}, ec));
  EXPECT_EQ(ec, Errc::not_found);
  auto pool = Semaphore::attach(session, "pool", {.capacity = 1}, ec);
  ASSERT_TRUE(pool);
  EXPECT_FALSE(ec);
  EXPECT_FALSE(pool->try_acquire(a, 0, {}, ec));
  EXPECT_EQ(ec, Errc::invalid_argument);
  EXPECT_TRUE(pool->acquire(a, 1, {}, 1s, {}, ec));
  EXPECT_EQ(pool->release(a, ec).result, PermitRelease::released);
  session.leave();
  EXPECT_FALSE(pool->acquire(a, 1, {}, 1s, {}, ec));
  EXPECT_EQ(ec, Errc::session_dead);
}

TEST_F(SemaphoreFace, ForkedChildIsNotAParticipant) {
  Session session{segment_};
  Semaphore pool{session, "pool", {.capacity = 2}};
  Permit permit(pool);
  Child child([&](int ready) {
    std::error_code ec;
    (void)pool.release(a, ec);
    bool right = ec == Errc::not_a_participant;
    right = right && error_of([&] { (void)pool.available(); }) == Errc::not_a_participant;
    right = right && error_of([&] { const Permit mine(pool); }) == Errc::not_a_participant;
    permit.release();
    say(ready, right ? 'y' : 'n');
  });
  EXPECT_EQ(child.next(), 'y');
  child.wait();
  EXPECT_EQ(pool.used(), 1U);
  EXPECT_FALSE(permit.lost());
}

}  // namespace
}  // namespace shmcoord
