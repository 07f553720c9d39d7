#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/manager_world.hpp"

// One suite over both stores of the manager: each operation in each situation, with its results and its effects.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using C = GuardCondition;
using Strings = std::vector<std::string>;

Errc error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_FALSE(std::string(e.what()).empty());
    return e.errc();
  }
  return Errc{};
}

template <class World>
class Coordination : public ::testing::Test {
 protected:
  test::Play<World> world;
};
using Both = ::testing::Types<test::LocalWorld, test::SegmentWorld>;
TYPED_TEST_SUITE(Coordination, Both);

// S1-158; S0-12, S0-13, S0-15, S0-18 … S0-20, S1-31, S1-32, C-4, C-5.
TYPED_TEST(Coordination, lock_lifecycle) {
  auto& w = this->world;
  EXPECT_FALSE(w.manager.get_lock("deploy"));
  EXPECT_EQ(w.lock("deploy", "a"), "acquired #1 | lock:acquired deploy a #1") << "made by asking for it (C-26)";
  EXPECT_EQ(w.sees("deploy"), "held a");
  EXPECT_EQ(w.lock("deploy", "a"), "extended #1");
  EXPECT_EQ(w.lock("deploy", "b"), "busy with a #1 | lock:denied deploy b>a");
  EXPECT_EQ(w.beat("deploy", "a"), "refreshed");
  EXPECT_EQ(w.beat("deploy", "b"), "not_owner");
  EXPECT_EQ(w.unlock("deploy", "b"), "not_owner");
  EXPECT_EQ(w.sees("deploy"), "held a") << "none of these changed anything";
  EXPECT_EQ(w.unlock("deploy", "a"), "released | lock:released deploy a #1");
  EXPECT_EQ(w.unlock("deploy", "a"), "already_free");
  EXPECT_EQ(w.beat("deploy", "a"), "not_owner");
  EXPECT_EQ(w.sees("deploy"), "free");
  EXPECT_EQ(w.lock("deploy", "b"), "acquired #2 | lock:acquired deploy b #2");
}

// C-7: what a caller of the methods sees.
TYPED_TEST(Coordination, HeldSaysWhetherTheCallerHoldsWhatItAskedFor) {
  auto& m = this->world.manager;
  const HolderId a("a");
  const HolderId b("b");
  const auto got = m.acquire_lock("l", a, "rev=1");
  EXPECT_TRUE(got.held && got);
  EXPECT_EQ(got.effects.size(), 1U);
  EXPECT_TRUE(m.acquire_lock("l", a).held);
  EXPECT_FALSE(m.acquire_lock("l", b).held);
  m.ensure_semaphore({"s", 3});
  EXPECT_TRUE(m.acquire_semaphore("s", a, 2).held);
  EXPECT_TRUE(m.acquire_semaphore("s", a, 1).held);
  EXPECT_TRUE(m.acquire_semaphore("s", a, 3).held);
  EXPECT_FALSE(m.acquire_semaphore("s", b, 1).held);
  EXPECT_TRUE(m.get_lock("l")->is_held_by(a));
  EXPECT_FALSE(m.get_lock("l")->is_held_by(b));
  EXPECT_FALSE(m.get_lock("l")->is_stale());
  EXPECT_EQ(m.release_lock("l", a).effects.size(), 1U);
  EXPECT_EQ(m.release_semaphore("s", a).effects.size(), 1U);
}

// C-48.
TYPED_TEST(Coordination, MetadataIsReplacedIfGivenAndKeptIfNot) {
  auto& w = this->world;
  EXPECT_EQ(w.lock("l", "a", "rev=1"), "acquired #1 | lock:acquired l a #1 'rev=1'");
  w.lock("l", "a");
  EXPECT_EQ(w.sees("l"), "held a 'rev=1'");
  w.lock("l", "a", "rev=2");
  EXPECT_EQ(w.sees("l"), "held a 'rev=2'");
  w.manager.ensure_semaphore({"s", 4});
  EXPECT_EQ(w.take("s", "a", 1, "one"), "acquired #1 has1 | semaphore:acquired s a #1 w1 free3 'one'");
  EXPECT_EQ(w.take("s", "a", 2), "increased #1 has2 | semaphore:acquired s a #1 w2 free2 'one'");
  EXPECT_EQ(w.take("s", "a", 3, "three"), "increased #1 has3 | semaphore:acquired s a #1 w3 free1 'three'");
  EXPECT_EQ(w.take("s", "a", 5, "five"), "full #1 has3 free1 | semaphore:denied s a w5 free1");
  EXPECT_EQ(w.sees("s"), "3+1 a:3 'three'");
  w.take("s", "a", 1, "again");
  EXPECT_EQ(w.sees("s"), "3+1 a:3 'again'");
}

// S1-158; S0-14, S0-23, S1-25, S1-29, S1-33, S1-34, S1-121, S1-144, C-6, C-14, C-16, C-52.
TYPED_TEST(Coordination, stale_reclaim) {
  auto& w = this->world;
  w.manager.ensure_lock({"l", 100s});
  w.lock("l", "a");
  w.pass(95s);
  EXPECT_EQ(w.tick(), "");
  EXPECT_EQ(w.lock("l", "b"), "busy with a #1 | lock:denied l b>a");
  EXPECT_EQ(w.beat("l", "a"), "refreshed");
  w.pass(95s);
  EXPECT_EQ(w.maintain(), "") << "a heartbeat extends it";
  w.pass(10s);
  EXPECT_EQ(w.sees("l"), "held a stale");
  EXPECT_TRUE(w.manager.get_lock("l")->is_stale());
  EXPECT_EQ(w.tick(), "lock:stale l a stale #1");
  EXPECT_EQ(w.tick(), "") << "once in an episode";
  EXPECT_EQ(w.lock("l", "a"), "extended #1") << "late, and nobody took it (C-4)";
  EXPECT_EQ(w.reclaim(), "");
  w.pass(105s);
  EXPECT_EQ(w.tick(), "lock:stale l a stale #1") << "another episode";
  EXPECT_EQ(w.lock("l", "b"), "reclaimed #2 after a stale | lock:reclaimed l a>b stale #1; lock:acquired l b #2");
  EXPECT_EQ(w.beat("l", "a"), "not_owner");
  EXPECT_EQ(w.unlock("l", "a"), "not_owner");
  w.pass(105s);
  EXPECT_EQ(w.maintain(), "lock:stale l b stale #2; lock:reclaimed l b stale #2; lock:released l b #2");
  EXPECT_EQ(w.maintain(), "");
  EXPECT_EQ(w.sees("l"), "free");
  EXPECT_EQ(w.unlock("l", "b"), "already_free");
  EXPECT_EQ(w.lock("l", "c"), "acquired #3 after b stale | lock:acquired l c #3") << "told once";
  w.unlock("l", "c");
  EXPECT_EQ(w.lock("l", "b"), "acquired #4 | lock:acquired l b #4");
}

// C-51, C-30; the release of the one who lost it and does not know yet.
TYPED_TEST(Coordination, TtlReplacesTheThreshold) {
  auto& w = this->world;
  LockConfig config{"l"};
  config.ttl = 30s;
  w.manager.ensure_lock(config);
  w.lock("l", "a");
  w.pass(20s);
  EXPECT_EQ(w.lock("l", "b"), "busy with a #1 | lock:denied l b>a");
  w.pass(20s);
  EXPECT_EQ(w.lock("l", "b"), "reclaimed #2 after a expired | lock:reclaimed l a>b expired #1; lock:acquired l b #2");
  w.unlock("l", "b");
  EXPECT_EQ(w.unlock("l", "a"), "already_free");
}

// C-2, C-16.
TYPED_TEST(Coordination, HeldTooLongIsWarnedOfOnceHeartbeatsNotwithstanding) {
  auto& w = this->world;
  LockConfig config{"l", 100s};
  config.max_hold_duration = 250s;
  w.manager.ensure_lock(config);
  w.lock("l", "a");
  for (int i = 0; i < 3; ++i) {
    w.pass(80s);
    EXPECT_EQ(w.beat("l", "a"), "refreshed");
    EXPECT_EQ(w.maintain(), "");
  }
  w.pass(20s);
  EXPECT_EQ(w.tick(), "lock:stale l a held_too_long #1");
  EXPECT_EQ(w.beat("l", "a"), "refreshed");
  EXPECT_EQ(w.tick(), "");
  EXPECT_EQ(w.reclaim(), "lock:reclaimed l a held_too_long #1; lock:released l a #1");
}

// S1-158; S0-28 … S0-36, S0-38, S0-39, S1-50 … S1-55, C-10 … C-12.
TYPED_TEST(Coordination, semaphore_capacity) {
  auto& w = this->world;
  w.manager.ensure_semaphore({"s", 8});
  EXPECT_EQ(w.take("s", "a", 3), "acquired #1 has3 | semaphore:acquired s a #1 w3 free5");
  EXPECT_EQ(w.take("s", "b", 4), "acquired #2 has4 | semaphore:acquired s b #2 w4 free1");
  EXPECT_EQ(w.take("s", "c", 2), "full free1 | semaphore:denied s c w2 free1");
  EXPECT_EQ(w.take("s", "a", 3), "already_held #1 has3");
  EXPECT_EQ(w.take("s", "a", 1), "already_held #1 has3") << "nothing is lowered";
  EXPECT_EQ(w.take("s", "a", 5), "full #1 has3 free1 | semaphore:denied s a w5 free1");
  EXPECT_EQ(w.take("s", "a", 4), "increased #1 has4 | semaphore:acquired s a #1 w4 free0");
  EXPECT_EQ(w.take("s", "c", 1), "full | semaphore:denied s c w1 free0");
  EXPECT_EQ(w.sees("s"), "8+0 a:4 b:4");
  EXPECT_EQ(w.beat_permits("s", "a"), "refreshed");
  EXPECT_EQ(w.beat_permits("s", "c"), "not_owner");
  EXPECT_EQ(w.give("s", "c"), "not_holder");
  EXPECT_EQ(w.give("s", "a"), "released | semaphore:released s a #1 w4 free4");
  EXPECT_EQ(w.give("s", "a"), "not_holder");
  EXPECT_EQ(w.take("s", "a", 9), "full free4 | semaphore:denied s a w9 free4") << "more than there is";
  EXPECT_EQ(w.take("s", "a", 4), "acquired #3 has4 | semaphore:acquired s a #3 w4 free0");
  EXPECT_EQ(w.sees("s"), "8+0 b:4 a:4") << "in the order of their acquires (C-9)";
  w.manager.ensure_semaphore({"one", 1});
  EXPECT_EQ(w.take("one", "a"), "acquired #1 has1 | semaphore:acquired one a #1 w1 free0");
  EXPECT_EQ(w.take("one", "b"), "full | semaphore:denied one b w1 free0");
  EXPECT_TRUE(w.manager.get_semaphore("s")->can_acquire(1) == false);
}

// S0-37, S0-40, S1-44, S1-45, S1-48, S1-53, C-10, C-14.
TYPED_TEST(Coordination, SilentHoldersLoseTheirPermitsOnce) {
  auto& w = this->world;
  w.manager.ensure_semaphore({"s", 6, 100s});
  w.take("s", "a", 1);
  w.take("s", "b", 2);
  w.take("s", "c", 3);
  w.pass(60s);
  w.beat_permits("s", "b");
  w.pass(60s);
  EXPECT_EQ(w.tick(), "semaphore:stale s a stale #1 w1 free0; semaphore:stale s c stale #3 w3 free0");
  EXPECT_EQ(w.tick(), "");
  EXPECT_EQ(w.manager.get_semaphore("s")->stale_holders(), (std::vector{HolderId("a"), HolderId("c")}));
  EXPECT_EQ(w.take("s", "a", 2),
            "increased #1 after c stale has2 | semaphore:reclaimed s c>a stale #3 w3 free2; "
            "semaphore:acquired s a #1 w2 free2; semaphore:released s free2")
      << "who asks is not reclaimed by asking";
  EXPECT_EQ(w.give("s", "c"), "not_holder");
  w.pass(105s);
  EXPECT_EQ(w.take("s", "d", 6),
            "acquired #4 after b stale has6 | semaphore:reclaimed s a>d stale #1 w2 free0; "
            "semaphore:reclaimed s b>d stale #2 w2 free0; semaphore:acquired s d #4 w6 free0");
  w.pass(105s);
  EXPECT_EQ(w.take("s", "e", 7),
            "full free6 | semaphore:reclaimed s d>e stale #4 w6 free6; semaphore:denied s e w7 free6; "
            "semaphore:released s free6")
      << "also by one who gets nothing";
  EXPECT_EQ(w.take("s", "e", 1), "acquired #5 after d stale has1 | semaphore:acquired s e #5 w1 free5");
  w.take("s", "f", 2);
  w.pass(105s);
  EXPECT_EQ(w.maintain(),
            "semaphore:stale s e stale #5 w1 free3; semaphore:stale s f stale #6 w2 free3; "
            "semaphore:reclaimed s e stale #5 w1 free6; semaphore:released s e #5 w1 free6; "
            "semaphore:reclaimed s f stale #6 w2 free6; semaphore:released s f #6 w2 free6");
  EXPECT_EQ(w.sees("s"), "0+6");
}

// C-52: of several who lost, wherever they stand in the store: c came back to its old place after a.
TYPED_TEST(Coordination, TheNextHolderHearsOfTheLastOneThatAcquired) {
  auto& w = this->world;
  w.manager.ensure_semaphore({"s", 4, 100s});
  const auto fill = [&] {
    w.take("s", "c");
    w.take("s", "a");
    w.give("s", "c");
    w.take("s", "c");
    w.pass(105s);
  };
  fill();
  EXPECT_EQ(w.take("s", "b"),
            "acquired #4 after c stale has1 | semaphore:reclaimed s a>b stale #2 w1 free3; "
            "semaphore:reclaimed s c>b stale #3 w1 free3; semaphore:acquired s b #4 w1 free3; "
            "semaphore:released s free3");
  w.give("s", "b");
  fill();
  w.reclaim();
  EXPECT_EQ(w.take("s", "b"), "acquired #8 after c stale has1 | semaphore:acquired s b #8 w1 free3");
}

// S0-87, C-15: for all of them, locks first, by name.
TYPED_TEST(Coordination, MaintenanceIsForAllPrimitives) {
  auto& w = this->world;
  w.manager.ensure_semaphore({"a", 2, 100s});
  w.manager.ensure_lock({"z", 100s});
  w.manager.ensure_lock({"b", 100s});
  w.manager.ensure_lock({"never", 1h});
  w.take("a", "x");
  w.lock("z", "x");
  w.lock("never", "x");
  w.lock("b", "y");
  w.pass(105s);
  EXPECT_EQ(w.tick(), "lock:stale b y stale #1; lock:stale z x stale #1; semaphore:stale a x stale #1 w1 free1");
  EXPECT_EQ(w.reclaim(),
            "lock:reclaimed b y stale #1; lock:released b y #1; lock:reclaimed z x stale #1; lock:released z x #1; "
            "semaphore:reclaimed a x stale #1 w1 free2; semaphore:released a x #1 w1 free2");
  EXPECT_EQ(w.sees("never"), "held x");
}

// S1-96, S1-97, S1-101, S1-102, S1-112, S1-113, C-1, C-26.
TYPED_TEST(Coordination, EnsureMakesOnceAndLooksShowWhatIsThere) {
  auto& m = this->world.manager;
  LockConfig config{"l", 90s, 20s};
  config.max_hold_duration = 2h;
  config.ttl = 45s;
  EXPECT_EQ(m.ensure_lock(config).config, config);
  EXPECT_EQ(m.ensure_lock({"l", 10s}).config, config) << "what is there stays as it is";
  EXPECT_EQ(m.get_lock("l")->config, config);
  EXPECT_EQ(m.get_lock("l")->config.heartbeat_timeout(), 90s);
  EXPECT_EQ(m.ensure_lock({"plain"}).config, LockConfig{"plain"});
  const SemaphoreConfig pool{"s", 5, 90s, 20s, 45s};
  EXPECT_EQ(m.ensure_semaphore(pool).config, pool);
  EXPECT_EQ(m.ensure_semaphore({"s", 7}).config, pool);
  EXPECT_EQ(m.ensure_semaphore({"s2", 7}).config.capacity(), 7U);
  EXPECT_EQ(m.get_semaphore("s")->available_slots(), 5U);
  EXPECT_FALSE(m.get_semaphore("l"));
  EXPECT_FALSE(m.get_lock("s"));
  EXPECT_FALSE(m.get_lock("?"));
  EXPECT_EQ(m.lock_names(), (Strings{"l", "plain"}));
  EXPECT_EQ(m.semaphore_names(), (Strings{"s", "s2"}));
  EXPECT_EQ(m.str(), "lock l: free\nlock plain: free\nsemaphore s: 0 of 5\nsemaphore s2: 0 of 7\n");
}

// What nobody made is held by nobody; a semaphore is not made by asking for it (C-26).
TYPED_TEST(Coordination, NamesThatAreNotThere) {
  auto& w = this->world;
  EXPECT_EQ(w.unlock("l", "a"), "already_free");
  EXPECT_EQ(w.beat("l", "a"), "not_owner");
  EXPECT_EQ(w.give("s", "a"), "not_holder");
  EXPECT_EQ(w.beat_permits("s", "a"), "not_owner");
  EXPECT_EQ(error_of([&] { w.take("s", "a"); }), Errc::not_found);
  EXPECT_EQ(w.maintain(), "");
  EXPECT_TRUE(w.manager.lock_names().empty());
  EXPECT_TRUE(w.manager.semaphore_names().empty());
}

TYPED_TEST(Coordination, MistakesAreTheSameErrors) {
  auto& w = this->world;
  auto& m = w.manager;
  m.ensure_lock({"l"});
  m.ensure_semaphore({"s", 2});
  m.register_guard({"g", C::lock_free("l")});
  const std::string too_long(256, 'x');
  for (const std::string& bad : {std::string(), std::string("a\nb"), too_long}) {
    EXPECT_EQ(error_of([&] { w.lock(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.unlock(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.beat(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.take(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.give(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.beat_permits(bad, "a"); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.lock("l", bad); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.unlock("l", bad); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { w.take("s", bad); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_lock({bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({bad, 1}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.register_guard({bad, C::lock_free("l")}); }), Errc::invalid_argument);
  }
  EXPECT_EQ(error_of([&] { w.lock("l", "a", std::string(4097, 'x')); }), Errc::invalid_argument);
  for (const std::uint32_t permits : {0U, 1U << 20U, ~0U}) {
    EXPECT_EQ(error_of([&] { w.take("s", "a", permits); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({"new", permits}); }), Errc::invalid_argument);
  }
  for (const std::chrono::nanoseconds bad : {0ns, -1ns, std::chrono::nanoseconds(24h * 3651)}) {
    EXPECT_EQ(error_of([&] { m.ensure_lock({"new", bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_lock({"new", 1s, bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_lock({"new", 1s, 1s, bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_lock({"new", 1s, 1s, {}, bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({"new", 1, bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({"new", 1, 1s, bad}); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({"new", 1, 1s, 1s, bad}); }), Errc::invalid_argument);
  }
  EXPECT_FALSE(m.get_lock("new"));
  EXPECT_FALSE(m.get_semaphore("new"));
  // The names are common to all.
  for (const std::string other : {"s", "g"}) {
    EXPECT_EQ(error_of([&] { w.lock(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { w.unlock(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { w.beat(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { m.ensure_lock({other}); }), Errc::wrong_type);
  }
  for (const std::string other : {"l", "g"}) {
    EXPECT_EQ(error_of([&] { w.take(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { w.give(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { w.beat_permits(other, "a"); }), Errc::wrong_type);
    EXPECT_EQ(error_of([&] { m.ensure_semaphore({other, 1}); }), Errc::wrong_type);
  }
  EXPECT_EQ(error_of([&] { m.register_guard({"l", C::lock_free("l")}); }), Errc::wrong_type);
  EXPECT_EQ(error_of([&] { m.unregister_guard("s"); }), Errc::wrong_type);
  EXPECT_FALSE(m.get_guard("s"));
  EXPECT_EQ(w.sees("l"), "free");
  EXPECT_EQ(w.sees("s"), "0+2");
}

// S1-106 … S1-108.
TYPED_TEST(Coordination, GuardsAreRegisteredUnderTheirNames) {
  auto& m = this->world.manager;
  const Guard ready{"ready", C::lock_free("l") && C::semaphore_available("s", 2), Warn{}, {"lock:released"}};
  EXPECT_FALSE(m.get_guard("ready"));
  EXPECT_FALSE(m.unregister_guard("ready"));
  m.register_guard(ready);
  m.register_guard(ready);
  const std::optional<Guard> got = m.get_guard("ready");
  ASSERT_TRUE(got);
  EXPECT_EQ(got->condition.str(), ready.condition.str());
  EXPECT_EQ(got->wake_on, ready.wake_on);
  EXPECT_EQ(got->on_failure, ready.on_failure);
  Guard other = ready;
  other.wake_on.clear();
  EXPECT_EQ(error_of([&] { m.register_guard(other); }), Errc::config_differs);
  EXPECT_TRUE(m.unregister_guard("ready"));
  EXPECT_FALSE(m.get_guard("ready"));
  m.register_guard(other);
  EXPECT_TRUE(m.get_guard("ready")->wake_on.empty());
}

// S1-109, S1-114, S1-119, S1-120.
TYPED_TEST(Coordination, ItsStateIsWhatGuardsAsk) {
  auto& w = this->world;
  w.manager.ensure_lock({"free"});
  w.lock("held", "a");
  w.manager.ensure_semaphore({"s", 3});
  w.take("s", "a", 2);
  const GuardInputs inputs = w.manager.build_coordination_inputs();
  EXPECT_EQ(inputs.locks, (std::map<std::string, bool>{{"free", true}, {"held", false}}));
  EXPECT_EQ(inputs.lock_holders, (std::map<std::string, Strings>{{"held", {"a"}}}));
  EXPECT_EQ(inputs.semaphores, (std::map<std::string, std::uint32_t>{{"s", 1}}));

  const GuardExecutor executor{{.primitives = primitives_of(w.manager)}};
  const auto passes = [&](const char* text) {
    return std::holds_alternative<ConditionPassed>(executor.evaluate(C::parse(text), {}));
  };
  EXPECT_TRUE(passes("lock_free(free) && lock_free(never) && lock_held(held, a) && semaphore_available(s, 1)"));
  EXPECT_FALSE(passes("lock_free(held)"));
  EXPECT_FALSE(passes("semaphore_available(s, 2)"));
  EXPECT_FALSE(passes("semaphore_available(none, 1)"));
  EXPECT_FALSE(passes("lock_free(s)"));
  EXPECT_FALSE(passes("semaphore_available(held, 1)"));
  w.give("s", "a");
  EXPECT_TRUE(passes("semaphore_available(s, 2)")) << "as it is when it is asked";
}

TYPED_TEST(Coordination, MovedFromSaysSo) {
  auto& m = this->world.manager;
  m.ensure_lock({"l"});
  CoordinationManager other(std::move(m));
  EXPECT_EQ(other.lock_names(), Strings{"l"});
  // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what it says is what is asked
  EXPECT_EQ(error_of([&] { (void)m.lock_names(); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)CoordinationManager(m); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)primitives_of(m); }), Errc::invalid_argument);
  // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  m = std::move(other);
  EXPECT_EQ(m.lock_names(), Strings{"l"});
}

}  // namespace
}  // namespace shmcoord
