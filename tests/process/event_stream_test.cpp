#include "process/event_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "engine/journal_switch.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"
#include "support/long_form.hpp"
#include "support/process_child.hpp"

// The journal between real processes: what is read is what happened, whoever is killed.

namespace shmcoord::process {
namespace {

using namespace std::chrono_literals;
using engine::RealPolicy;
using test::Child;
using test::eventually;
using test::OwnSegment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<Participant> join(const OwnSegment& segment, const char* label = "") {
  return Participant::join(segment.mapping(), {.label = label});
}

engine::JournalState state(const OwnSegment& segment) {
  return engine::JournalSwitch<RealPolicy>::state_of(RealPolicy::load(segment.view().header().journal));
}

/// What there is now, in a form to compare.
std::vector<std::string> all(EventStream& stream) {
  std::vector<std::string> seen;
  while (const auto e = stream.next()) {
    std::string text = std::string(e->name()) + " " + e->subject;
    if (!e->holder.empty()) text += " " + e->holder;
    if (!e->other.empty()) text += ">" + e->other;
    if (e->weight != 0) text += " " + std::to_string(e->weight);
    if (e->kind >= EventKind::semaphore_acquired && e->kind <= EventKind::semaphore_stale) {
      text += "/" + std::to_string(e->available);
    }
    seen.push_back(text);
  }
  return seen;
}

Answer take(PrimitiveClient& client, std::string_view holder, std::uint32_t weight = whole_lock,
            std::optional<std::string_view> reason = {}) {
  Request request;
  request.holder = holder;
  request.weight = weight;
  request.reason = reason;
  return client.acquire(request, try_once);
}

TEST(EventStream, TellsOfALockInItsOrder) {
  OwnSegment segment;
  const auto me = join(segment);
  PrimitiveClient lock(me, "deploy", {});
  ASSERT_TRUE(take(lock, "before"));
  (void)lock.release("before");
  EventStream stream(me);
  EXPECT_THAT(all(stream), IsEmpty()) << "of what was before";
  const Answer got = take(lock, "a", whole_lock, "rev=abc");
  EXPECT_EQ(take(lock, "b").result, AcquireResult::busy);
  (void)lock.heartbeat("a", std::nullopt);
  (void)lock.release("a");
  const auto acquired = stream.next();
  ASSERT_TRUE(acquired);
  EXPECT_EQ(acquired->name(), "lock:acquired");
  EXPECT_EQ(acquired->subject, "deploy");
  EXPECT_EQ(acquired->holder, "a");
  EXPECT_EQ(acquired->reason, "rev=abc");
  EXPECT_EQ(acquired->token, got.token);
  EXPECT_EQ(acquired->pid, ::getpid());
  EXPECT_FALSE(acquired->shared);
  EXPECT_THAT(all(stream), ElementsAre("lock:denied deploy b>a", "lock:released deploy a"));
}

TEST(EventStream, TellsOfASemaphoreWithItsWeights) {
  OwnSegment segment;
  const auto me = join(segment);
  PrimitiveClient agents(me, "agents", {.kind = engine::Kind::semaphore, .capacity = 8});
  EventStream stream(me);
  ASSERT_TRUE(take(agents, "a", 2));
  ASSERT_TRUE(take(agents, "b", 3));
  ASSERT_TRUE(take(agents, "a", 5)) << "three more";
  EXPECT_FALSE(take(agents, "c", 1));
  (void)agents.release("a");
  agents.resize(10);
  (void)agents.release("b");
  EXPECT_THAT(all(stream), ElementsAre("semaphore:acquired agents a 2/6", "semaphore:acquired agents b 3/3",
                                       "semaphore:acquired agents a 5/0", "semaphore:denied agents c 1/0",
                                       "semaphore:released agents a 5/5", "semaphore:released agents/7",
                                       "semaphore:released agents b 3/10"));
}

TEST(EventStream, TellsOfALongNameAndALongReason) {
  OwnSegment segment;
  const auto me = join(segment);
  const std::string name(255, 'n');
  const std::string holder(255, 'h');
  const std::string reason(4096, 'r');
  PrimitiveClient lock(me, name, {});
  EventStream stream(me);
  ASSERT_TRUE(take(lock, holder, whole_lock, reason));
  const auto e = stream.next();
  ASSERT_TRUE(e);
  EXPECT_EQ(e->subject, name);
  EXPECT_EQ(e->holder, holder);
  EXPECT_EQ(e->reason, reason);
}

TEST(EventStream, TellsOfAHandOverAndOfRobberies) {
  OwnSegment segment;
  const auto me = join(segment);
  PrimitiveClient lock(me, "deploy", {});
  EventStream stream(me);
  ASSERT_TRUE(take(lock, "a"));
  std::jthread next([&] {
    Request request;
    request.holder = "b";
    request.reason = "next";
    EXPECT_TRUE(lock.acquire(request, no_deadline));
  });
  ASSERT_TRUE(eventually([&] { return lock.place_in_queue("b") == 1; }));
  (void)lock.release("a");
  next.join();
  EXPECT_TRUE(lock.force_release("b"));
  EXPECT_THAT(all(stream), ElementsAre("lock:acquired deploy a", "lock:released deploy a", "lock:acquired deploy b",
                                       "lock:reclaimed deploy b", "lock:released deploy b"));
}

// C-16: a warning, then what it warned of.
TEST(EventStream, TellsOfALeaseThatRanOut) {
  OwnSegment segment;
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping(), {.label = "", .manual_heartbeat = true});
  PrimitiveClient lock(me, "deploy", {});
  EventStream stream(me);
  Request request;
  request.holder = "a";
  request.ttl = 1ms;
  ASSERT_TRUE(lock.acquire(request, try_once));
  ::usleep(5'000);
  ASSERT_EQ(sweep(*segment.mapping(), RealPolicy::now_ns()).reclaimed, 1U);
  EXPECT_THAT(all(stream), ElementsAre("lock:acquired deploy a", "lock:stale deploy a", "lock:reclaimed deploy a",
                                       "lock:released deploy a"));
}

TEST(EventStream, TellsWhoJoinedLeftAndDied) {
  OwnSegment segment;
  const auto me = join(segment, "listener");
  EventStream stream(me);
  { const auto other = join(segment, "guest"); }
  EXPECT_THAT(all(stream), ElementsAre("session:joined guest", "session:left guest"));
  Child victim([&](const Child::Line& line) {
    const auto mine = join(segment, "victim");
    PrimitiveClient lock(mine, "deploy", {});
    (void)take(lock, "v");
    line.ready();
    ::pause();
    return 0;
  });
  ASSERT_GE(victim.wait_ready(), 0);
  victim.kill(SIGKILL);
  std::vector<std::string> seen;
  ASSERT_TRUE(eventually([&] {
    for (std::string& e : all(stream)) seen.push_back(std::move(e));
    return !seen.empty() && seen.back() == "session:died victim";
  }));
  EXPECT_THAT(seen, ElementsAre("session:joined victim", "lock:acquired deploy v", "lock:reclaimed deploy v",
                                "lock:released deploy v", "session:died victim"));
}

// --- on and off ----------------------------------------------------------------------------------------------------

TEST(EventStream, IsOffWhenNobodyListens) {
  OwnSegment segment;
  const auto me = join(segment);
  EXPECT_EQ(state(segment), engine::JournalState::off);
  {
    EventStream one(me);
    { EventStream two(me); }
    EXPECT_EQ(state(segment), engine::JournalState::on);
  }
  EXPECT_EQ(state(segment), engine::JournalState::off);
  Child listener([&](const Child::Line& line) {
    EventStream stream(join(segment));
    line.ready();
    ::pause();
    return 0;
  });
  ASSERT_GE(listener.wait_ready(), 0);
  EXPECT_EQ(state(segment), engine::JournalState::on);
  listener.kill(SIGKILL);
  EXPECT_TRUE(eventually([&] { return state(segment) == engine::JournalState::off; })) << "it is buried, and its ears";
}

TEST(EventStream, IsAlwaysOnWhereTheSegmentWasMadeSo) {
  OwnSegment segment({.names = 64, .entries = 512, .sessions = 64}, engine::journal_always);
  const auto me = join(segment, "me");
  PrimitiveClient lock(me, "deploy", {});
  ASSERT_TRUE(take(lock, "a"));
  { EventStream stream(me); }
  (void)lock.release("a");
  EventStream stream(me, 1);
  EXPECT_THAT(all(stream), ElementsAre("session:joined me", "lock:acquired deploy a", "lock:released deploy a"));
  EventStream later(me, 3);
  EXPECT_THAT(all(later), ElementsAre("lock:released deploy a"));
}

TEST(EventStream, WaitsWithoutPolling) {
  OwnSegment segment;
  const auto me = join(segment);
  PrimitiveClient lock(me, "deploy", {});
  EventStream stream(me);
  rusage before{};
  ::getrusage(RUSAGE_THREAD, &before);
  stream.wait(RealPolicy::now_ns() + 300'000'000);
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &after);
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 2);
  std::jthread other([&] { ASSERT_TRUE(take(lock, "a")); });
  std::optional<Event> e;
  ASSERT_TRUE(eventually([&] {
    stream.wait(RealPolicy::now_ns() + 1'000'000'000);
    e = stream.next();
    return e.has_value();
  }));
  EXPECT_EQ(e->holder, "a");
}

TEST(EventStream, IsInterrupted) {
  OwnSegment segment;
  EventStream stream(join(segment));
  std::jthread other([&] { stream.interrupt(); });
  const std::int64_t deadline = RealPolicy::now_ns() + 900'000'000;
  stream.wait(deadline);
  EXPECT_LT(RealPolicy::now_ns(), deadline) << "nobody woke it";
}

// More than the ring has room for, while nobody reads.
TEST(EventStream, WhoIsTooSlowIsToldHowMuchItLost) {
  OwnSegment segment({.names = 64, .entries = 512, .sessions = 64, .journal = 4096});
  const auto me = join(segment);
  PrimitiveClient lock(me, "deploy", {});
  EventStream stream(me);
  constexpr std::uint64_t cycles = 2'000;
  for (std::uint64_t n = 0; n < cycles; ++n) {
    ASSERT_TRUE(take(lock, "a"));
    (void)lock.release("a");
  }
  std::uint64_t lost = 0;
  std::uint64_t read = 0;
  while (const auto e = stream.next()) {
    if (e->kind == EventKind::journal_lost) {
      lost += e->lost;
    } else {
      ++read;
    }
  }
  EXPECT_GT(lost, 0U);
  EXPECT_GT(read, 100U);
  EXPECT_EQ(lost + read, 2 * cycles);
}

TEST(EventStream, OfADamagedJournalSaysSo) {
  const auto says = [](const std::function<void(const engine::View&)>& damage) -> std::string {
    OwnSegment segment;
    segment.damaged_on_purpose();
    const auto me = join(segment);
    PrimitiveClient lock(me, "deploy", {});
    EventStream stream(me);
    for (int n = 0; n < 3; ++n) {
      EXPECT_TRUE(take(lock, "a"));
      (void)lock.release("a");
    }
    damage(segment.view());
    try {
      while (stream.next()) {
      }
      EXPECT_TRUE(take(lock, "a")) << "the lock itself is not concerned";
      return "sound";
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::segment_corrupt);
      return "damaged";
    }
  };
  EXPECT_EQ(says([](const engine::View&) {}), "sound");
  EXPECT_EQ(says([](const engine::View& v) { v.journal(12) = {}; }), "damaged") << "a word that was never written";
  EXPECT_EQ(says([](const engine::View& v) { v.journal(12).seq = ~std::uint64_t{0}; }), "damaged");
  EXPECT_EQ(says([](const engine::View& v) { v.header().journal_tail.seq += 1'000'000; }), "damaged");
  EXPECT_EQ(says([](const engine::View& v) { v.header().journal_tail.seq = 5; }), "damaged");
  for (const std::uint64_t bits : {0ULL, ~0ULL, 0x1000'0000ULL}) {
    (void)says([bits](const engine::View& v) { v.header().journal_tail.bits = bits; });
  }
}

// --- a storm -------------------------------------------------------------------------------------------------------

// Processes acquire and release, and are killed at random; what a listener hears of each name must be a history without
// gaps: each acquire followed by what ended it, tokens that grow, nothing twice.
TEST(EventStreamStorm, NothingIsLostOrDoubledWhileProcessesAreKilled) {
  constexpr std::uint32_t ring = 1U << 20U;
  OwnSegment segment({.names = 64, .entries = 512, .sessions = 64, .journal = ring});
  const auto me = join(segment, "listener");
  std::vector<std::unique_ptr<PrimitiveClient>> locks;
  for (int n = 0; n < 3; ++n) {
    locks.push_back(std::make_unique<PrimitiveClient>(me, "lock " + std::to_string(n), NameOptions{}));
  }
  EventStream stream(me);
  struct History {
    std::string holder;
    std::uint64_t token = 0;
    std::uint64_t newest = 0;
    std::uint64_t changes = 0;
  };
  std::map<std::string, History> histories;
  std::uint64_t number = 0;
  std::uint64_t died = 0;
  const auto hear = [&](const Event& e) {
    ASSERT_NE(e.kind, EventKind::journal_lost) << e.lost;
    ASSERT_GE(e.number, number);
    number = e.number;
    died += e.kind == EventKind::session_died ? 1U : 0U;
    if (e.kind > EventKind::lock_stale) return;
    History& h = histories[e.subject];
    ++h.changes;
    switch (e.kind) {
      case EventKind::lock_acquired:
        ASSERT_EQ(h.token, 0U) << e.subject << " acquired by " << e.holder << ", but " << h.holder << " has it";
        ASSERT_GT(e.token, h.newest);
        h.holder = e.holder;
        h.token = h.newest = e.token;
        break;
      case EventKind::lock_reclaimed:
        ASSERT_EQ(h.token, e.token) << e.subject;
        if (!e.other.empty()) h.token = 0;
        break;
      case EventKind::lock_released:
        ASSERT_EQ(h.token, e.token) << e.subject;
        ASSERT_EQ(h.holder, e.holder);
        h.token = 0;
        break;
      default: break;
    }
  };
  // Nobody may run ahead so far that the reader is lapped.
  const engine::Word128& tail = segment.view().header().journal_tail;
  test::Common<engine::Word64> common;
  engine::Word64& read_up_to = *common;
  RealPolicy::store(read_up_to, RealPolicy::load_seq(tail));
  const auto read_on = [&] {
    const std::uint64_t end = RealPolicy::load_seq(tail);
    while (const auto e = stream.next()) ASSERT_NO_FATAL_FAILURE(hear(*e));
    RealPolicy::store(read_up_to, end);
  };
  std::mt19937 random(4711);
  const auto worker = [&](unsigned id) {
    return std::make_unique<Child>([&, id](const Child::Line& line) {
      const auto mine = join(segment, "worker");
      std::vector<std::unique_ptr<PrimitiveClient>> names;
      for (int n = 0; n < 3; ++n) {
        names.push_back(std::make_unique<PrimitiveClient>(mine, "lock " + std::to_string(n), NameOptions{}));
      }
      line.ready();
      const std::string holder = "h" + std::to_string(id);
      for (unsigned n = 0;; ++n) {
        PrimitiveClient& lock = *names[(n + id) % names.size()];
        Request request;
        request.holder = holder;
        if (lock.acquire(request, n % 3 == 0 ? no_deadline : try_once)) (void)lock.release(holder);
        while (RealPolicy::load_seq(tail) > RealPolicy::load(read_up_to) + ring / 2) ::usleep(100);
      }
      return 0;
    });
  };
  std::vector<std::unique_ptr<Child>> workers;
  unsigned lives = 0;
  for (; lives < 3; ++lives) workers.push_back(worker(lives));
  const unsigned most = test::long_form() ? 3'000 : 60;
  std::uint64_t kills = 0;
  while (lives < most) {
    std::unique_ptr<Child>& victim = workers[random() % workers.size()];
    ASSERT_GE(victim->wait_ready(), 0);
    const std::int64_t until = RealPolicy::now_ns() + static_cast<std::int64_t>(random() % 8'000'000);
    while (RealPolicy::now_ns() < until) ASSERT_NO_FATAL_FAILURE(read_on());
    victim->kill(SIGKILL);
    ++kills;
    victim = worker(lives++);
  }
  for (auto& w : workers) {
    ASSERT_GE(w->wait_ready(), 0) << "who has not joined does not die";
    w->kill(SIGKILL);
  }
  kills += workers.size();
  workers.clear();
  ASSERT_TRUE(eventually([&] {
    sweep(*segment.mapping(), RealPolicy::now_ns());
    read_on();
    return died == kills || ::testing::Test::HasFatalFailure();
  })) << died
      << " of " << kills << " deaths were told";
  std::uint64_t changes = 0;
  for (const auto& [name, h] : histories) {
    EXPECT_EQ(h.token, 0U) << name << " is still held by " << h.holder << ", as far as was told";
    changes += h.changes;
  }
  EXPECT_EQ(histories.size(), 3U);
  EXPECT_GT(changes, 1'000U);
  std::cout << changes << " events, " << kills << " killed" << std::endl;
}

}  // namespace
}  // namespace shmcoord::process
