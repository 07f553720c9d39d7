#include "support/sim_memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"

// The weak memory of the scheduler, by the small machines that every memory model is explained with: what a wrong or
// missing order lets through must be found, and what the right one forbids must never be seen. Each says after how many
// schedules the fault was found.

namespace {

using shmcoord::engine::WaitOn;
using shmcoord::engine::Word128;
using shmcoord::engine::Word32;
using shmcoord::engine::Word64;
using shmcoord::sim::explore;
using shmcoord::sim::is_finished;
using shmcoord::sim::Options;
using shmcoord::sim::Plain;
using shmcoord::sim::Report;
using shmcoord::sim::require;
using shmcoord::sim::sample;
using shmcoord::sim::Scenario;
using shmcoord::sim::Without;
using P = shmcoord::sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;

void expect_found(const char* what, const Scenario& s, const Options& o, const std::string& failure) {
  const Report r = explore(s, o);
  ASSERT_TRUE(r.failure) << what << " was not found: " << r.text();
  EXPECT_EQ(r.failure->what, failure) << r.failure->trace;
  std::cout << what << ": found after " << r.schedules << " schedules\n";
  const Report random = sample(s, o, 100'000);
  ASSERT_TRUE(random.failure) << what << " was not found by chance: " << random.text();
  std::cout << what << ", random: found after " << random.schedules << " schedules\n";
}
void expect_accepted(const char* what, const Scenario& s, const Options& o) {
  const Report r = explore(s, o);
  EXPECT_FALSE(r.failure) << what << ": " << r.text();
  EXPECT_TRUE(r.exhausted);
  const Report random = sample(s, o, 5'000);
  EXPECT_FALSE(random.failure) << what << ": " << random.text();
}

constexpr Options sequential{.preemptions = 15};
constexpr Options weak{.preemptions = 15, .stale_loads = 3};

// One writes a letter and raises a flag; the other sees the flag and reads the letter.
struct Letter {
  using Store = void (*)(Word64&, std::uint64_t);
  using Load = std::uint64_t (*)(const Word64&);
  Letter(Store raise, Load look) {
    scenario.on_start([this] { letter.raw = flag.raw = 0; });
    scenario.name(&letter, "letter");
    scenario.name(&flag, "flag");
    scenario.task("writer", [this, raise] {
      P::store_relaxed(letter, 7);
      raise(flag, 1);
    });
    scenario.task("reader", [this, look] {
      if (look(flag) == 1) require(P::load_relaxed(letter) == 7, "the flag without the letter");
    });
  }
  Word64 letter;
  Word64 flag;
  Scenario scenario;
};

void released(Word64& w, std::uint64_t v) { P::store(w, v); }
void relaxed(Word64& w, std::uint64_t v) { P::store_relaxed(w, v); }
void fenced(Word64& w, std::uint64_t v) {
  P::fence();
  P::store_relaxed(w, v);
}
void exchanged(Word64& w, std::uint64_t v) { P::cas(w, 0, v); }
std::uint64_t acquired(const Word64& w) { return P::load(w); }
std::uint64_t relaxed(const Word64& w) { return P::load_relaxed(w); }
std::uint64_t fenced(const Word64& w) {
  const std::uint64_t v = P::load_relaxed(w);
  P::fence();
  return v;
}

TEST(SimMemory, a_release_and_an_acquire_pass_a_message) {
  expect_accepted("release, acquire", Letter(released, acquired).scenario, weak);
  expect_accepted("fence, acquire", Letter(fenced, acquired).scenario, weak);
  expect_accepted("release, fence", Letter(released, fenced).scenario, weak);
  expect_accepted("fence, fence", Letter(fenced, fenced).scenario, weak);
  expect_accepted("cas, acquire", Letter(exchanged, acquired).scenario, weak);
}

TEST(SimMemory, a_weakened_store_or_load_is_found) {
  const char* const failure = "the flag without the letter";
  expect_found("relaxed store", Letter(relaxed, acquired).scenario, weak, failure);
  expect_found("relaxed load", Letter(released, relaxed).scenario, weak, failure);
  expect_found("relaxed load of a cas", Letter(exchanged, relaxed).scenario, weak, failure);
  Options o = weak;
  o.without = {.release = true};
  expect_found("release left out", Letter(released, acquired).scenario, o, failure);
  o.without = {.acquire = true};
  expect_found("acquire left out", Letter(released, acquired).scenario, o, failure);
  expect_accepted("sequentially consistent", Letter(relaxed, relaxed).scenario, sequential);
}

// Each raises its flag and looks at the other's: at least one must see the other.
struct Dekker {
  using Raise = void (*)(Word64&);
  Dekker(Raise first, Raise second) {
    scenario.on_start([this] {
      for (Word64& f : flags) f.raw = 0;
      for (Plain<bool>& i : alone) i = false;
    });
    for (const unsigned me : {0U, 1U}) {
      scenario.name(&flags[me], me == 0 ? "flag a" : "flag b");
      scenario.task(me == 0 ? "a" : "b", [this, me, raise = me == 0 ? first : second] {
        raise(flags[me]);
        alone[me] = P::load(flags[1 - me]) == 0;
      });
    }
    scenario.at_end([this] { require(!alone[0] || !alone[1], "both are alone"); });
  }
  Word64 flags[2];
  Plain<bool> alone[2];
  Scenario scenario;
};

void raise_only(Word64& w) { P::store(w, 1); }
void raise_and_fence(Word64& w) {
  P::store(w, 1);
  P::fence();
}
void raise_locked(Word64& w) { P::cas(w, 0, 1); }

TEST(SimMemory, a_store_is_seen_before_a_later_load_only_with_a_fence) {
  expect_accepted("sequentially consistent", Dekker(raise_only, raise_only).scenario, sequential);
  expect_found("no fence", Dekker(raise_only, raise_only).scenario, weak, "both are alone");
  expect_found("one fence", Dekker(raise_and_fence, raise_only).scenario, weak, "both are alone");
  expect_accepted("two fences", Dekker(raise_and_fence, raise_and_fence).scenario, weak);
  expect_accepted("a fence and a locked one", Dekker(raise_and_fence, raise_locked).scenario, weak);
  expect_accepted("two locked ones", Dekker(raise_locked, raise_locked).scenario, weak);
  Options o = weak;
  o.without = {.fence = true};
  expect_found("fences left out", Dekker(raise_and_fence, raise_and_fence).scenario, o, "both are alone");
  o.without = {.locked = true};
  expect_found("locked ones that do not order", Dekker(raise_locked, raise_locked).scenario, o, "both are alone");
}

// Two write, two read both in opposite orders: with acquire loads alone the readers may disagree on who was first.
struct TwoWritersTwoReaders {
  explicit TwoWritersTwoReaders(bool fences) {
    scenario.on_start([this] {
      for (Word64& w : words) w.raw = 0;
      for (Plain<bool>& s : saw_only_first) s = false;
    });
    for (const unsigned me : {0U, 1U}) {
      scenario.name(&words[me], me == 0 ? "x" : "y");
      scenario.task(me == 0 ? "writes x" : "writes y", [this, me] { P::store(words[me], 1); });
      scenario.task(me == 0 ? "reads x, y" : "reads y, x", [this, me, fences] {
        const bool first = P::load(words[me]) == 1;
        if (fences) P::fence();
        saw_only_first[me] = first && P::load(words[1 - me]) == 0;
      });
    }
    scenario.at_end([this] { require(!saw_only_first[0] || !saw_only_first[1], "the readers disagree"); });
  }
  Word64 words[2];
  Plain<bool> saw_only_first[2];
  Scenario scenario;
};

TEST(SimMemory, readers_may_disagree_on_the_order_of_two_writers) {
  const Options o{.preemptions = 3, .stale_loads = 2};
  expect_found("acquire loads", TwoWritersTwoReaders(false).scenario, o, "the readers disagree");
  expect_accepted("fences", TwoWritersTwoReaders(true).scenario, o);
}

// Whatever is late, a word's values are seen in their order.
TEST(SimMemory, nobody_sees_a_word_go_back) {
  Word64 word;
  Word128 wide;
  Scenario s;
  s.on_start([&] {
    word.raw = 0;
    wide = {};
  });
  s.task("counts", [&] {
    for (std::uint64_t n = 1; n <= 6; ++n) {
      P::store_relaxed(word, n);
      P::cas(wide, shmcoord::core::Packed{n - 1, n - 1}, shmcoord::core::Packed{n, n});
    }
  });
  s.task("looks", [&] {
    std::uint64_t before = 0;
    std::uint64_t seq = 0;
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t now = P::load_relaxed(word);
      require(now >= before, "the word went back");
      before = now;
      const std::uint64_t sequence = P::load_seq(wide);
      require(sequence >= seq, "the wide word went back");
      require(P::guess(wide).bits >= sequence, "a half is older than what was seen of the whole");
      seq = sequence;
    }
  });
  const Options o{.preemptions = 2, .stale_loads = 2};
  expect_accepted("one word", s, o);
}

// A lock whose owner leaves by a store: what it wrote inside is there for the next one, if that store releases.
struct Inside {
  explicit Inside(Letter::Store leave) {
    scenario.on_start([this] { lock.raw = data.raw = 0; });
    scenario.name(&lock, "lock");
    scenario.name(&data, "data");
    for (const char* name : {"a", "b"}) {
      scenario.task(name, [this, leave] {
        while (!P::cas(lock, 0, 1)) P::pause();
        P::store_relaxed(data, P::load_relaxed(data) + 1);
        leave(lock, 0);
      });
    }
    scenario.at_end([this] { require(data.raw == 2, "an update was lost"); });
  }
  Word64 lock;
  Word64 data;
  Scenario scenario;
};

TEST(SimMemory, a_lock_that_is_left_without_a_release_is_found) {
  expect_found("relaxed unlock", Inside(relaxed).scenario, weak, "an update was lost");
  expect_accepted("released unlock", Inside(released).scenario, weak);
}

// The engine's waiter in small: parked is said, then everything is looked at; the waker changes that, then looks
// whether anybody is parked.
struct Parking {
  explicit Parking(bool fence) {
    scenario.on_start([this] {
      status.raw = 0;
      wake.raw = 0;
    });
    scenario.name(&status, "status");
    scenario.name(&wake, "wake");
    scenario.task("waiter", [this, fence] {
      for (;;) {
        P::store(wake, 1);
        if (fence) P::fence();
        if (P::load(status) == 1) return;
        const WaitOn on[] = {{&wake, 1}};
        P::wait(on, never);
      }
    });
    scenario.task("waker", [this] {
      P::cas(status, 0, 1);
      if (P::load(wake) == 0) return;
      P::cas(wake, 1, 2);
      P::wake(wake, 1);
    });
  }
  Word64 status;
  Word32 wake;
  Scenario scenario;
};

TEST(SimMemory, a_wake_up_that_is_lost_for_want_of_a_fence_is_found) {
  expect_accepted("no fence, sequentially consistent", Parking(false).scenario, sequential);
  expect_found("no fence", Parking(false).scenario, weak, "deadlock: waiter sleeps on [wake]; ");
  expect_accepted("fence", Parking(true).scenario, weak);
}

// Whoever is told by the kernel that a process has ended sees all that it did.
TEST(SimMemory, the_end_of_a_task_is_no_earlier_than_its_stores) {
  Word64 word;
  Scenario s;
  s.on_start([&] { word.raw = 0; });
  s.task("writes", [&] { P::store_relaxed(word, 1); });
  s.task("waits", [&] {
    static_cast<void>(P::load(word));
    shmcoord::sim::await([] { return is_finished(0); });
    require(P::load(word) == 1, "a store came after the end of its task");
  });
  s.task("asks", [&] {
    if (is_finished(0)) require(P::load(word) == 1, "a store came after the end of its task");
  });
  expect_accepted("end", s, weak);
}

TEST(SimMemory, a_stale_load_replays_from_its_seed_and_is_shown) {
  const Letter l(relaxed, acquired);
  const Report r = sample(l.scenario, weak, 100'000);
  ASSERT_TRUE(r.failure);
  EXPECT_NE(r.failure->trace.find("(1 behind)"), std::string::npos) << r.failure->trace;
  const std::string name = "SHMCOORD_SIM_SEED=";
  ASSERT_EQ(r.failure->replay.substr(0, name.size()), name);
  const Report again = sample(l.scenario, weak, 1, std::stoull(r.failure->replay.substr(name.size())));
  ASSERT_TRUE(again.failure);
  EXPECT_EQ(again.failure->trace, r.failure->trace);
}

}  // namespace
