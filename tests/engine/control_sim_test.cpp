#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/bury_entry.hpp"
#include "engine/control.hpp"
#include "engine/wait.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// The real engine under the deterministic scheduler: control words, helping, waiting and burial, with a death possible
// at every operation. What is judged: never more than the capacity inside, tokens that grow, FIFO by the sequence of
// queueing, nobody asleep for ever, and at the end nothing held, nobody queued and no entry in use.

namespace {

using shmcoord::engine::ControlOps;
using shmcoord::engine::Entry;
using shmcoord::engine::EntryIndex;
using shmcoord::engine::Phase;
using shmcoord::engine::RecordIndex;
using shmcoord::engine::Result;
using shmcoord::engine::seq_of_stamp;
using shmcoord::engine::SlotIndex;
using shmcoord::engine::SpinBudget;
using shmcoord::engine::Status;
using shmcoord::engine::Step;
using shmcoord::engine::WaitEnd;
using shmcoord::engine::Waiter;
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
using shmcoord::sim::Segment;
using P = shmcoord::sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;

bool long_form() { return std::getenv("SHMCOORD_LONG") != nullptr; }

enum class Way : std::uint8_t { wait, attempt, give_up, time_out };

/// One visit of a process to a name.
struct Visit {
  RecordIndex record = 0;
  Way way = Way::wait;
  std::uint32_t weight = 1;
};

/// What a visit was told, for the judgement of order at the end.
struct Story {
  std::uint64_t queued = 0;  // sequence of queueing; 0: never queued
  std::uint64_t token = 0;   // 0: never held, or died before it knew
  std::uint64_t left = 0;    // sequence of giving up
};

class World {
 public:
  static constexpr unsigned most_visits = 4;
  using Script = std::vector<Visit>;

  /// One process per script; `reapers` of them bury the dead, beside the waiters who notice.
  World(std::uint32_t capacity, std::vector<Script> scripts, unsigned reapers = 1)
      : capacity_(capacity), scripts_(std::move(scripts)), segment_(capacity) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      for (auto& s : stories_) s.fill({});
      for (auto& in : inside_) {
        for (auto& i : in) i = 0;
      }
      for (auto& t : newest_token_) t = 0;
    });
    for (unsigned p = 0; p < processes(); ++p) {
      scenario_.mortal(std::string(1, static_cast<char>('a' + p)), [this, p] { play(p); });
    }
    for (unsigned r = 0; r < reapers; ++r) {
      scenario_.task(r == 0 ? "reaper" : "second reaper", [this, r] { reap(r == 0); });
    }
    scenario_.at_end([this] {
      segment_.require_idle();
      require_order();
    });
  }

  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  // What the waiter is told by the process layer.
  struct Around {
    World& world;
    unsigned process;
    bool bury(SlotIndex slot, std::int64_t) const noexcept {
      world.segment_.bury(Segment::process_of(slot));
      return true;
    }
    template <class Ops>
    std::int64_t check_holders(const Ops&) const noexcept {
      return never;
    }
    bool stop_requested() const noexcept { return false; }
    bool usable() const noexcept { return true; }
    SlotIndex self() const noexcept { return Segment::slot_of(process); }
  };

  [[nodiscard]] unsigned processes() const noexcept { return static_cast<unsigned>(scripts_.size()); }

  void play(unsigned p) {
    for (unsigned v = 0; v < scripts_[p].size(); ++v) visit(p, scripts_[p][v], stories_[p][v]);
  }

  void visit(unsigned p, const Visit& v, Story& story) {
    const ControlOps<P> ops = segment_.ops(v.record);
    const EntryIndex i = Segment::entry_of(p);
    Entry& e = segment_.view().entry(i);
    P::store(e.weight, v.weight);
    P::store(e.wake, shmcoord::engine::wake_awake);
    const Result r = v.way == Way::attempt ? ops.try_acquire(i, v.weight, P::now_ns())
                                           : ops.acquire_or_queue(i, v.weight, P::now_ns());
    if (r.step == Step::busy) {
      require(v.way == Way::attempt, "a blocking acquire was answered with busy");
      return;
    }
    if (r.step == Step::acquired) return hold(p, v, ops, r.seq, story);
    require(r.step == Step::queued, "acquire failed");
    story.queued = r.seq;
    if (v.way != Way::give_up) {
      Around around{*this, p};
      SpinBudget spin{.pauses = 0};
      const std::int64_t deadline = v.way == Way::time_out ? P::now_ns() + 1000 : never;
      const WaitEnd end = Waiter<P, Around>(ops, i, around).wait(deadline, spin);
      if (end == WaitEnd::granted) {
        const Status s = ops.status(i);
        require(s.phase == Phase::held && s.record == v.record, "granted, but not held");
        return hold(p, v, ops, seq_of_stamp(s.stamp, P::load_seq(ops.record().control)), story);
      }
      require(end == WaitEnd::timed_out && v.way == Way::time_out, "the wait ended for no reason");
    }
    const Result c = ops.cancel(i);
    if (c.step == Step::granted) return hold(p, v, ops, c.seq, story);
    require(c.step == Step::cancelled, "cancel failed");
    story.left = c.seq;
  }

  void hold(unsigned p, const Visit& v, const ControlOps<P>& ops, std::uint64_t token, Story& story) {
    story.token = token;
    // With room for several, one may learn of its grant after a later one did; then require_order() judges alone.
    require(capacity_ > 1 || token > newest_token_[v.record], "a token is not newer than the one before");
    newest_token_[v.record] = token;
    inside_[v.record][p] = v.weight;
    std::uint64_t sum = 0;
    for (unsigned q = 0; q < processes(); ++q) sum += is_dead(q) ? 0 : std::uint32_t{inside_[v.record][q]};
    require(sum <= capacity_, "more inside than the capacity");
    require(P::load_seq(ops.record().control) >= token, "the word went back");
    inside_[v.record][p] = 0;
    const Result r = ops.release(Segment::entry_of(p), token);
    require(r.step == Step::released, "release failed");
  }

  // The kernel and the keeper ring: notices every death, says so, and buries.
  void reap(bool is_kernel) {
    unsigned known = 0;
    for (;;) {
      shmcoord::sim::await([this, &known] { return all_over() || unburied(known) < processes(); });
      const unsigned dead = unburied(known);
      if (dead == processes()) return;
      known |= 1U << dead;
      if (is_kernel) segment_.announce_death(dead);
      segment_.bury(dead);
    }
  }
  [[nodiscard]] unsigned unburied(unsigned known) const {
    for (unsigned p = 0; p < processes(); ++p) {
      if (is_dead(p) && (known >> p & 1U) == 0) return p;
    }
    return processes();
  }
  [[nodiscard]] bool all_over() const {
    for (unsigned p = 0; p < processes(); ++p) {
      if (!is_dead(p) && !is_finished(p)) return false;
    }
    return true;
  }

  // Who queued first was granted first, and nobody walked past somebody who waited.
  void require_order() const {
    for (unsigned p = 0; p < processes(); ++p) {
      for (unsigned v = 0; v < scripts_[p].size(); ++v) {
        const Story& one = stories_[p][v];
        require_unique(p, v);
        if (one.queued == 0 || (one.token == 0 && one.left == 0)) continue;
        const std::uint64_t until = one.token != 0 ? one.token : one.left;
        for (unsigned q = 0; q < processes(); ++q) {
          for (unsigned w = 0; w < scripts_[q].size(); ++w) {
            const Story& other = stories_[q][w];
            if (scripts_[q][w].record != scripts_[p][v].record || other.token == 0) continue;
            const std::uint64_t came = other.queued != 0 ? other.queued : other.token;
            if (came > one.queued) require(other.token > until, "somebody overtook a waiter");
          }
        }
      }
    }
  }

  void require_unique(unsigned p, unsigned v) const {
    const Story& one = stories_[p][v];
    for (unsigned q = 0; q < processes(); ++q) {
      for (unsigned w = 0; w < scripts_[q].size(); ++w) {
        const bool itself = p == q && v == w;
        const bool same = scripts_[q][w].record == scripts_[p][v].record && stories_[q][w].token == one.token;
        require(itself || one.token == 0 || !same, "a token was given twice");
      }
    }
  }

  std::uint32_t capacity_;
  std::vector<Script> scripts_;
  Segment segment_;
  Scenario scenario_;
  std::array<std::array<Story, most_visits>, Segment::processes> stories_{};
  std::array<std::array<Plain<std::uint32_t>, Segment::processes>, Segment::records> inside_{};
  std::array<Plain<std::uint64_t>, Segment::records> newest_token_{};
};

/// Every schedule within the bounds; of what is too large for the default run, as many as fit, and random ones beyond.
void judge(const char* what, const Scenario& s, Options o, Options random, std::uint64_t samples) {
  if (!long_form()) o.max_schedules = instrumented ? 4'000 : 150'000;
  if (instrumented) samples /= 20;
  Report r = explore(s, o);
  std::cout << what << ": " << r.text() << std::endl;
  ASSERT_FALSE(r.failure);
  r = sample(s, random, long_form() ? samples * 50 : samples);
  std::cout << what << ", random: " << r.text() << std::endl;
  ASSERT_FALSE(r.failure);
}
void judge(const char* what, const World& w, unsigned preemptions, unsigned deaths, unsigned early_timeouts = 0) {
  const unsigned more = long_form() ? 1 : 0;
  judge(what, w.scenario(), {.preemptions = preemptions + more, .deaths = deaths, .early_timeouts = early_timeouts},
        {.deaths = 2 * deaths, .early_timeouts = 2 * early_timeouts}, 30'000);
}

constexpr Visit waits{};
constexpr Visit tries{.way = Way::attempt};
constexpr Visit gives_up{.way = Way::give_up};
constexpr Visit times_out{.way = Way::time_out};
constexpr Visit heavy(std::uint32_t weight, Way way = Way::wait) { return {0, way, weight}; }
constexpr Visit other(RecordIndex record, Way way = Way::wait, std::uint32_t weight = 1) {
  return {record, way, weight};
}

TEST(ControlSim, two_take_one_lock) {
  judge("no death", World(1, {{waits, waits}, {waits, waits}}), 4, 0);
  judge("one death", World(1, {{waits, waits}, {waits}}), 2, 1);
}

TEST(ControlSim, two_try) { judge("tries", World(1, {{tries, tries}, {tries, waits}}), 2, 1); }

TEST(ControlSim, two_give_up) { judge("gives up", World(1, {{waits, gives_up}, {gives_up, waits}}), 2, 1); }

TEST(ControlSim, three_take_one_lock) {
  judge("no death", World(1, {{waits}, {waits}, {waits}}), 2, 0);
  judge("one death", World(1, {{waits}, {waits}, {waits}}), 1, 1);
}

TEST(ControlSim, the_one_in_the_middle_gives_up) {
  judge("no death", World(1, {{waits}, {gives_up}, {waits}}), 2, 0);
  judge("one death", World(1, {{waits}, {gives_up}, {waits}}), 1, 1);
  judge("two of three", World(1, {{waits, waits}, {gives_up}, {gives_up}}), 1, 1);
}

TEST(ControlSim, a_time_out_races_with_the_grant) {
  judge("two", World(1, {{waits, waits}, {times_out, waits}}), 2, 0, 1);
  judge("two, one death", World(1, {{waits}, {times_out, waits}}), 1, 1, 1);
  judge("three", World(1, {{waits}, {times_out}, {waits}}), 2, 0, 1);
}

TEST(ControlSim, weights_share_a_capacity_of_three) {
  judge("1, 2, 3", World(3, {{heavy(1)}, {heavy(2)}, {heavy(3)}}), 2, 0);
  judge("1, 2, 3, one death", World(3, {{heavy(1)}, {heavy(2)}, {heavy(3)}}), 1, 1);
  judge("3 before 1, 1", World(3, {{heavy(3)}, {heavy(1), heavy(1)}, {heavy(1)}}), 1, 1);
  judge("2, 2 gives up, 1", World(3, {{heavy(2)}, {heavy(2, Way::give_up)}, {heavy(1)}}), 1, 1);
  judge("2 tries, 3, 1", World(3, {{heavy(2, Way::attempt)}, {heavy(3)}, {heavy(1)}}), 1, 1);
}

TEST(ControlSim, two_words_share_entries) {
  judge("two, no death", World(1, {{other(0), other(1)}, {other(0), other(1)}}), 3, 0);
  judge("two, one death", World(1, {{other(0), other(1)}, {other(1), other(0)}}), 2, 1);
  judge("three", World(1, {{other(0), other(1)}, {other(0), other(1)}, {other(0)}}), 1, 1);
  judge("release on one, queue on the other", World(1, {{other(0), other(1)}, {other(1)}, {other(0, Way::give_up)}}), 1,
        1);
}

// A holder with an old heartbeat beats once and releases; a robber judges it by the heartbeat; a third waits for its
// turn.
class Lease {
 public:
  explicit Lease(bool may_die) : segment_(1) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      inside_ = 0;
      robbed_ = false;
    });
    const auto holder = [this] { hold_and_beat(); };
    const auto robber = [this] { rob(); };
    may_die ? scenario_.mortal("a", holder) : scenario_.task("a", holder);
    scenario_.task("b", [this] { wait(); });
    may_die ? scenario_.mortal("c", robber) : scenario_.task("c", robber);
    scenario_.task("reaper", [this] {
      for (const unsigned p : {0U, 2U}) {
        shmcoord::sim::await([p] { return is_dead(p) || is_finished(p); });
        if (!is_dead(p)) continue;
        segment_.announce_death(p);
        segment_.bury(p);
      }
    });
    scenario_.at_end([this] { segment_.require_idle(); });
  }
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  static constexpr std::int64_t beat_ns = 2'000'000'000;

  void hold_and_beat() {
    const ControlOps<P> ops = segment_.ops(0);
    const EntryIndex i = Segment::entry_of(0);
    P::store(segment_.view().entry(i).weight, 1);
    const Result r = ops.try_acquire(i, 1, P::now_ns());
    if (r.step != Step::acquired) return;
    const Result beat = ops.heartbeat(i, r.seq, beat_ns);
    if (beat.step == Step::gone) return require(robbed_, "told that the hold is gone, and nobody took it");
    require(beat.step == Step::refreshed, "heartbeat failed");
    enter(ops);
    require(ops.release(i, r.seq).step == Step::released, "the hold was taken after it had been refreshed");
  }

  void enter(const ControlOps<P>& ops) {
    require(inside_ == 0, "two inside");
    inside_ = 1;
    P::load(ops.record().control);
    inside_ = 0;
  }

  void wait() {
    struct Around {
      Lease& lease;
      bool bury(SlotIndex slot, std::int64_t) const noexcept {
        lease.segment_.bury(Segment::process_of(slot));
        return true;
      }
      std::int64_t check_holders(const ControlOps<P>&) const noexcept { return never; }
      bool stop_requested() const noexcept { return false; }
      bool usable() const noexcept { return true; }
      SlotIndex self() const noexcept { return Segment::slot_of(1); }
    };
    const ControlOps<P> ops = segment_.ops(0);
    const EntryIndex i = Segment::entry_of(1);
    P::store(segment_.view().entry(i).weight, 1);
    const Result r = ops.acquire_or_queue(i, 1, P::now_ns());
    std::uint64_t token = r.seq;
    if (r.step != Step::acquired) {
      Around around{*this};
      SpinBudget spin{.pauses = 0};
      require(Waiter<P, Around>(ops, i, around).wait(never, spin) == WaitEnd::granted, "the wait ended for no reason");
      token = seq_of_stamp(ops.status(i).stamp, P::load_seq(ops.record().control));
    }
    if (!is_dead(0)) enter(ops);
    require(ops.release(i, token).step == Step::released, "the waiter's release failed");
  }

  void rob() {
    const Result r = segment_.ops(0).reclaim(Segment::entry_of(0), [this](const Entry& e) {
      const bool silent = P::load(e.heartbeat_ns) < static_cast<std::uint64_t>(beat_ns);
      // From here on it is decided, whether or not the robber lives to hear of it.
      if (silent) robbed_ = true;
      return silent ? shmcoord::Loss::stale : shmcoord::Loss::none;
    });
    require(r.step == Step::reclaimed || r.step == Step::fresh || r.step == Step::gone, "reclaim failed");
  }

  Segment segment_;
  Scenario scenario_;
  Plain<unsigned> inside_ = 0;
  Plain<bool> robbed_ = false;
};

TEST(ControlSim, who_was_told_refreshed_is_not_robbed) {
  const Lease sure(false);
  judge("no death", sure.scenario(), {.preemptions = long_form() ? 4U : 3U}, {}, 30'000);
  const Lease mortal(true);
  // A robber has no entry in the word. When it dies between its CAS and the grant, its burial does not lead to that
  // word, and the grantee learns of its luck by looking again after a second: the last resort, allowed here and nowhere
  // else.
  constexpr std::int64_t one_recheck = 2 * shmcoord::engine::recheck_ns;
  judge("one death", mortal.scenario(),
        {.preemptions = long_form() ? 3U : 2U, .deaths = 1, .stall_after_ns = one_recheck},
        {.deaths = 2, .stall_after_ns = one_recheck}, 30'000);
}

TEST(ControlSim, two_reapers_bury_at_once) {
  judge("two reapers", World(1, {{waits}, {waits}}, 2), 2, 1);
  judge("two reapers, three", World(1, {{waits}, {gives_up}, {waits}}, 2), 1, 1);
  judge("two reapers, weights", World(3, {{heavy(2)}, {heavy(2)}, {heavy(1)}}, 2), 1, 1);
}

}  // namespace
