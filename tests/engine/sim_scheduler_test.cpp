#include "support/sim_scheduler.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

#include "support/sim_policy.hpp"

// The scheduler itself: it must find the classic faults, must not accuse what is right, and says how many schedules it
// took.

namespace {

using shmcoord::core::Control;
using shmcoord::engine::WaitOn;
using shmcoord::engine::Woken;
using shmcoord::engine::Word128;
using shmcoord::engine::Word32;
using shmcoord::engine::Word64;
using shmcoord::sim::explore;
using shmcoord::sim::instrumented;
using shmcoord::sim::is_dead;
using shmcoord::sim::is_finished;
using shmcoord::sim::Options;
using shmcoord::sim::Plain;
using shmcoord::sim::Report;
using shmcoord::sim::require;
using shmcoord::sim::sample;
using shmcoord::sim::Scenario;
using P = shmcoord::sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;

void show(const char* what, const Report& r) { std::cout << what << ": " << r.text() << "\n"; }

// Two tasks add one to a counter, `rounds` times each.
struct Counter {
  explicit Counter(void (*increment)(Word64&), int rounds = 1) {
    scenario.on_start([this] { word.raw = 0; });
    scenario.name(&word, "counter");
    for (const char* name : {"a", "b"}) {
      scenario.task(name, [this, increment, rounds] {
        for (int i = 0; i < rounds; ++i) increment(word);
      });
    }
    const auto all = static_cast<std::uint64_t>(2 * rounds);
    scenario.at_end([this, all] { require(P::load(word) == all, "an increment was lost"); });
  }
  Word64 word;
  Scenario scenario;
};

void add_by_store(Word64& w) { P::store(w, P::load(w) + 1); }
void add_by_cas(Word64& w) {
  for (;;) {
    const std::uint64_t v = P::load(w);
    if (P::cas(w, v, v + 1)) return;
  }
}

TEST(SimScheduler, finds_a_lost_update) {
  Counter c(add_by_store);
  const Report r = explore(c.scenario, {.preemptions = 1});
  show("lost update", r);
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what, "an increment was lost");
  EXPECT_NE(r.failure->trace.find("load counter  0"), std::string::npos) << r.failure->trace;
  EXPECT_NE(r.failure->trace.find("store counter  1"), std::string::npos) << r.failure->trace;
}

TEST(SimScheduler, accepts_a_cas_counter_in_every_schedule) {
  Counter c(add_by_cas, 3);
  const Report r = explore(c.scenario, {.preemptions = 15});
  show("cas counter", r);
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
  EXPECT_GT(r.schedules, 10U);
}

TEST(SimScheduler, no_preemption_means_no_lost_update) {
  Counter c(add_by_store);
  const Report r = explore(c.scenario, {.preemptions = 0});
  EXPECT_FALSE(r.failure);
  EXPECT_EQ(r.schedules, 3U);  // the first shows that the word is shared; then a before b, and b before a
}

TEST(SimScheduler, random_schedules_replay_from_their_seed) {
  Counter c(add_by_store);
  const Report r = sample(c.scenario, {}, 1000);
  ASSERT_TRUE(r.failure);
  const std::string assignment = r.failure->replay;
  const std::string name = "SHMCOORD_SIM_SEED=";
  ASSERT_EQ(assignment.substr(0, name.size()), name);
  ::setenv("SHMCOORD_SIM_SEED", assignment.substr(name.size()).c_str(), 1);
  const Report again = sample(c.scenario, {}, 1000, 77);
  ::unsetenv("SHMCOORD_SIM_SEED");
  ASSERT_TRUE(again.failure);
  EXPECT_EQ(again.schedules, 1U);
  EXPECT_EQ(again.failure->trace, r.failure->trace);
}

TEST(SimScheduler, a_seed_that_says_nothing_leaves_no_schedule_out) {
  Counter c(add_by_cas);
  ::setenv("SHMCOORD_SIM_SEED", "", 1);
  EXPECT_EQ(sample(c.scenario, {}, 10).schedules, 10U);
  for (const char* wrong : {"x", "7x", "-1", " 7"}) {
    ::setenv("SHMCOORD_SIM_SEED", wrong, 1);
    EXPECT_THROW(sample(c.scenario, {}, 10), std::invalid_argument) << wrong;
  }
  ::unsetenv("SHMCOORD_SIM_SEED");
}

// A flag and a sleeper: `looks_again` is whether it compares after it said that it sleeps (as a futex does).
struct Sleeper {
  explicit Sleeper(bool looks_again, std::int64_t deadline = never) {
    scenario.on_start([this] { flag.raw = doorbell.raw = 0; });
    scenario.name(&flag, "flag");
    scenario.name(&doorbell, "doorbell");
    scenario.task("sleeper", [this, looks_again, deadline] {
      if (looks_again) {
        while (P::load(flag) == 0) {
          const WaitOn on[] = {{&flag, 0}};
          P::wait(on, deadline);
        }
      } else if (P::load(flag) == 0) {
        const WaitOn on[] = {{&doorbell, 0}};
        P::wait(on, deadline);
      }
    });
    scenario.task("waker", [this] {
      P::store(flag, 1);
      P::wake(flag);
      P::wake(doorbell);
    });
  }
  Word32 flag;
  Word32 doorbell;
  Scenario scenario;
};

TEST(SimScheduler, finds_a_lost_wake_up) {
  Sleeper s(false);
  const Report r = explore(s.scenario, {.preemptions = 1});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what, "deadlock: sleeper sleeps on [doorbell]; ");
}

TEST(SimScheduler, a_time_out_far_away_does_not_hide_a_lost_wake_up) {
  Sleeper s(false, 3'000'000'000);
  const Report r = explore(s.scenario, {.preemptions = 1});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what.substr(0, 5), "stall");
}

TEST(SimScheduler, accepts_a_wake_up_that_is_looked_for_again) {
  Sleeper s(true);
  const Report r = explore(s.scenario, {.preemptions = 15});
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
}

// A stack of two nodes by index, with a CAS on a plain head: pop reads the next of a node that comes back meanwhile.
struct Stack {
  explicit Stack(bool stamped) {
    scenario.on_start([this] {
      head.raw = 1;
      next[1].raw = 2;
      next[2].raw = 0;
      taken[1] = 0;
      taken[2] = 0;
    });
    scenario.name(&head, "head");
    const auto pop = [this, stamped] {
      for (;;) {
        const std::uint64_t h = P::load(head);
        const std::uint64_t node = h & 0xff;
        if (node == 0) return node;
        const std::uint64_t after = P::load(next[node]);
        const std::uint64_t stamp = stamped ? (h >> 8U) + 1 : 0;
        if (P::cas(head, h, after | stamp << 8U)) return node;
      }
    };
    const auto push = [this, stamped](std::uint64_t node) {
      for (;;) {
        const std::uint64_t h = P::load(head);
        P::store(next[node], h & 0xff);
        const std::uint64_t stamp = stamped ? (h >> 8U) + 1 : 0;
        if (P::cas(head, h, node | stamp << 8U)) return;
      }
    };
    const auto keep = [this](std::uint64_t node) {
      if (node == 0) return;
      require(taken[node] == 0, "a node was popped twice");
      taken[node] = 1;
    };
    scenario.task("a", [=] { keep(pop()); });
    scenario.task("b", [=] {
      const std::uint64_t first = pop();
      keep(pop());
      if (first != 0) push(first);
    });
    scenario.task("c", [=] { keep(pop()); });
  }
  Word64 head;
  Word64 next[3];
  Plain<int> taken[3];
  Scenario scenario;
};

TEST(SimScheduler, finds_aba_on_a_plain_index) {
  Stack s(false);
  const Report r = explore(s.scenario, {.preemptions = 2});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what, "a node was popped twice");
  show("aba", r);
}

TEST(SimScheduler, accepts_the_stack_with_a_stamp) {
  Stack s(true);
  const Report r = explore(s.scenario, {.preemptions = 15});
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
  show("stamped stack", r);
}

void spin_lock(Word32& w) {
  while (!P::cas(w, 0, 1)) P::pause();
}
void sleep_lock(Word32& w) {
  while (!P::cas(w, 0, 1)) {
    const WaitOn on[] = {{&w, 1}};
    P::wait(on, never);
  }
}
void unlock(Word32& w) {
  P::store(w, 0);
  P::wake(w, 1);
}

// Three tasks take one lock, twice each.
struct Exclusion {
  explicit Exclusion(void (*lock)(Word32&), unsigned tasks = 3) {
    scenario.on_start([this] {
      word.raw = 0;
      inside = 0;
      data.raw = 0;
    });
    scenario.name(&word, "lock");
    scenario.name(&data, "data");
    for (unsigned t = 0; t < tasks; ++t) {
      scenario.task(std::string(1, static_cast<char>('a' + t)), [this, lock] {
        for (int i = 0; i < 2; ++i) {
          lock(word);
          inside = inside + 1;
          require(inside == 1, "two inside");
          P::store(data, P::load(data) + 1);
          inside = inside - 1;
          unlock(word);
        }
      });
    }
    scenario.at_end([this, tasks] { require(data.raw == 2 * tasks, "an update was lost"); });
  }
  Word32 word;
  Word64 data;
  Plain<int> inside;
  Scenario scenario;
};

TEST(SimScheduler, accepts_a_spin_lock_in_every_schedule) {
  Exclusion e(spin_lock);
  const Report r = explore(e.scenario, {.preemptions = instrumented ? 2U : 4U});
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
  show("spin lock", r);
}

TEST(SimScheduler, accepts_a_sleeping_lock_in_every_schedule) {
  Exclusion e(sleep_lock);
  const Report r = explore(e.scenario, {.preemptions = instrumented ? 2U : 4U});
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
  show("sleeping lock", r);
}

TEST(SimScheduler, finds_a_lock_that_is_none) {
  Exclusion e([](Word32& w) {
    while (P::load(w) != 0) P::pause();
    P::store(w, 1);
  });
  const Report r = explore(e.scenario, {.preemptions = 2});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what, "two inside");
}

TEST(SimScheduler, finds_a_deadlock) {
  Word32 first;
  Word32 second;
  Scenario s;
  s.on_start([&] { first.raw = second.raw = 0; });
  s.name(&first, "first");
  s.name(&second, "second");
  s.task("a", [&] {
    sleep_lock(first);
    sleep_lock(second);
    unlock(second);
    unlock(first);
  });
  s.task("b", [&] {
    sleep_lock(second);
    sleep_lock(first);
    unlock(first);
    unlock(second);
  });
  const Report r = explore(s, {.preemptions = 1});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what, "deadlock: a sleeps on [second]; b sleeps on [first]; ");
  EXPECT_FALSE(explore(s, {.preemptions = 0}).failure);
}

TEST(SimScheduler, finds_a_livelock) {
  Word32 word;
  Scenario s;
  s.on_start([&] { word.raw = 0; });
  s.task("a", [&] {
    while (P::load(word) == 0) P::pause();
  });
  s.task("b", [&] {
    while (P::load(word) == 0) P::pause();
  });
  const Report r = explore(s, {.max_steps = 500});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what.substr(0, 8), "livelock");
}

// A holder may die inside; whoever buries it frees the lock.
struct Mortals {
  explicit Mortals(bool buried) {
    scenario.on_start([this] { word.raw = 0; });
    scenario.name(&word, "lock");
    for (unsigned t = 0; t < 2; ++t) {
      scenario.mortal(std::string(1, static_cast<char>('a' + t)), [this, t] {
        while (!P::cas(word, 0, t + 1)) {
          const std::uint32_t holder = P::load(word);
          const WaitOn on[] = {{&word, holder}};
          if (holder != 0) P::wait(on, never);
        }
        P::store(word, 0);
        P::wake(word);
      });
    }
    if (buried) {
      scenario.task("undertaker", [this] {
        for (unsigned t = 0; t < 2; ++t) {
          shmcoord::sim::await([t] { return is_dead(t) || is_finished(t); });
          if (is_dead(t) && P::cas(word, t + 1, 0)) P::wake(word);
        }
      });
    }
    scenario.at_end([this] { require(word.raw == 0, "the lock leaked"); });
  }
  Word32 word;
  Scenario scenario;
};

TEST(SimScheduler, kills_at_every_operation) {
  Mortals m(false);
  EXPECT_FALSE(explore(m.scenario, {}).failure);
  EXPECT_TRUE(explore(m.scenario, {.deaths = 1}).failure);
  EXPECT_TRUE(sample(m.scenario, {.deaths = 1}, 1000).failure);
}

TEST(SimScheduler, who_waits_in_order_of_names_for_the_dead_waits_too_long) {
  // The undertaker above looks at a first: with b dead inside, a sleeps for ever.
  Mortals m(true);
  const Report r = explore(m.scenario, {.deaths = 1});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what.substr(0, 8), "deadlock");
  EXPECT_NE(r.failure->trace.find("killed"), std::string::npos);
}

TEST(SimScheduler, time_passes_only_when_nobody_can_run) {
  Word32 word;
  Plain<int> order = 0;
  Scenario s;
  s.on_start([&] {
    word.raw = 0;
    order = 0;
  });
  const auto nap = [&](std::int64_t ns) {
    const WaitOn on[] = {{&word, 0}};
    return P::wait(on, P::now_ns() + ns);
  };
  s.task("long", [&] {
    require(nap(2000) == Woken::timed_out, "woken");
    require(order == 1, "the longer sleep ended first");
    order = 2;
  });
  s.task("short", [&] {
    require(nap(1000) == Woken::timed_out, "woken");
    require(order == 0, "the shorter sleep ended last");
    order = 1;
  });
  s.at_end([&] { require(order == 2, "somebody did not wake"); });
  const Report r = explore(s, {.preemptions = instrumented ? 2U : 4U});
  EXPECT_FALSE(r.failure) << r.text();
  EXPECT_TRUE(r.exhausted);
}

TEST(SimScheduler, a_time_out_may_race_with_others_when_asked_to) {
  Word32 word;
  Scenario s;
  s.on_start([&] { word.raw = 0; });
  s.task("sleeper", [&] {
    const WaitOn on[] = {{&word, 0}};
    require(P::wait(on, P::now_ns() + 1000) != Woken::timed_out, "timed out");
  });
  s.task("waker", [&] {
    P::store(word, 1);
    P::wake(word);
  });
  EXPECT_FALSE(explore(s, {}).failure);
  EXPECT_TRUE(explore(s, {.early_timeouts = 1}).failure);
}

TEST(SimScheduler, wide_words_and_arithmetic_act_as_on_the_machine) {
  Word128 wide;
  Word32 narrow;
  Word64 bits;
  const Control one{1, 2, 3, 4, shmcoord::core::Op::grant};
  const Control two{2, 7, 6, 5, shmcoord::core::Op::cancel};
  wide = {one.seq, shmcoord::core::pack_bits(one)};
  EXPECT_EQ(P::load(wide), one);
  EXPECT_FALSE(P::cas(wide, two, one));
  EXPECT_TRUE(P::cas(wide, one, two));
  EXPECT_EQ(P::load(wide), two);
  EXPECT_EQ(P::load_seq(wide), 2U);
  EXPECT_EQ(P::add(narrow, 3), 0U);
  EXPECT_EQ(P::add(narrow, 3), 3U);
  EXPECT_EQ(P::set_bits(bits, 5), 0U);
  EXPECT_EQ(P::set_bits(bits, 2), 5U);
  EXPECT_EQ(P::load(bits), 7U);
}

TEST(SimScheduler, an_exception_in_a_task_is_a_failure) {
  Scenario s;
  s.task("a", [] { throw std::runtime_error("oops"); });
  const Report r = explore(s, {});
  ASSERT_TRUE(r.failure);
  EXPECT_NE(r.failure->trace.find("oops"), std::string::npos);
}

}  // namespace
