#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "engine/control.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"
#include "support/sim_weights.hpp"

// Holds that grow and shrink, capacities that change, quotas and upgrades, everybody at once, with a death possible at
// every operation.

namespace shmcoord::engine {
namespace {

using sim::is_dead;
using sim::is_finished;
using sim::long_form;
using sim::Plain;
using sim::queue;
using sim::require;
using sim::Scenario;
using sim::Segment;
using sim::segment_of;
using sim::take;
using P = sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;
constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);

/// Processes a, b and c over word 0, each with its own part in the play; whoever dies is buried.
class Play {
 public:
  explicit Play(std::uint32_t capacity) : segment_(segment_of(capacity)), ops_(segment_.ops(0)) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      for (auto& in : inside_) in = 0;
      if (start_) start_();
    });
    scenario_.at_end([this] {
      if (end_) end_();
      segment_.require_idle();
    });
  }
  void start(std::function<void()> what) { start_ = std::move(what); }
  void end(std::function<void()> what) { end_ = std::move(what); }
  void mortal(std::function<void(unsigned)> body) {
    const unsigned p = processes_++;
    scenario_.mortal(std::string(1, Segment::name_of(p)), [p, body = std::move(body)] { body(p); });
  }
  void reaper() {
    scenario_.task("reaper", [this] {
      unsigned known = 0;
      for (;;) {
        // Small enough to lie in the function itself: what a task's stack owns is lost when the schedule ends.
        sim::await([this, &known] { return all_over() || unburied(known) < processes_; });
        const unsigned dead = unburied(known);
        if (dead == processes_) return;
        known |= 1U << dead;
        segment_.announce_death(dead);
        segment_.bury(dead);
      }
    });
  }

  /// What the process believes that it has, from now on.
  void inside(unsigned p, std::uint32_t weight, std::uint32_t most) {
    inside_[p] = weight;
    std::uint32_t sum = 0;
    for (unsigned q = 0; q < processes_; ++q) sum += is_dead(q) ? 0 : std::uint32_t{inside_[q]};
    require(sum <= most, "more inside than the capacity");
  }
  /// Takes it, waiting if need be. 0: never, because of what `end` was.
  std::uint64_t acquire(unsigned p, std::uint32_t weight, EntryIndex nth = 0) {
    const EntryIndex i = Segment::entry_of(p) + nth;
    ops_.set_weight(i, weight);
    P::store(segment_.view().entry(i).wake, wake_awake);
    const Result r = ops_.acquire_or_queue(i, weight, 0);
    if (r.step == Step::acquired) return r.seq;
    if (r.step == Step::impossible) return 0;
    require(r.step == Step::queued, "the acquire failed");
    return wait(p, nth);
  }
  std::uint64_t wait(unsigned p, EntryIndex nth) {
    const WaitEnd end = segment_.wait(0, p, never, nth);
    if (end == WaitEnd::granted) return segment_.token(0, p, nth);
    require(end == WaitEnd::impossible, "the wait ended for no reason");
    const Result c = ops_.cancel(Segment::entry_of(p) + nth);
    if (c.step == Step::granted) return c.seq;
    return 0;
  }
  void release(unsigned p, std::uint64_t token) {
    inside_[p] = 0;
    require(ops_.release(Segment::entry_of(p), token).step == Step::released, "the release failed");
  }

  [[nodiscard]] const Segment& segment() const noexcept { return segment_; }
  [[nodiscard]] const ControlOps<P>& ops() const noexcept { return ops_; }
  void judge(const char* what, unsigned preemptions, unsigned deaths) const {
    const unsigned more = long_form() ? 1 : 0;
    sim::judge(what, scenario_, {.preemptions = preemptions + more, .deaths = deaths}, {.deaths = 2 * deaths});
  }

 private:
  [[nodiscard]] unsigned unburied(unsigned known) const {
    for (unsigned p = 0; p < processes_; ++p) {
      if (is_dead(p) && (known >> p & 1U) == 0) return p;
    }
    return processes_;
  }
  [[nodiscard]] bool all_over() const {
    for (unsigned p = 0; p < processes_; ++p) {
      if (!is_dead(p) && !is_finished(p)) return false;
    }
    return true;
  }

  Segment segment_;
  ControlOps<P> ops_;
  Scenario scenario_;
  std::function<void()> start_;
  std::function<void()> end_;
  unsigned processes_ = 0;
  std::array<Plain<std::uint32_t>, Segment::processes> inside_{};
};

// a takes one and then one more, by queueing for it; b takes two.
void increases(Play& play, unsigned p) {
  const std::uint64_t token = play.acquire(p, 1);
  play.inside(p, 1, 3);
  P::store(play.segment().view().entry(Segment::entry_of(p) + 1).beside, 1);
  const std::uint64_t more = play.acquire(p, 1, 1);
  require(more != 0, "there is room for one more");
  play.inside(p, 2, 3);
  const Result r = play.ops().merge(Segment::entry_of(p), token, 1, Segment::entry_of(p) + 1, more);
  require(r.step == Step::merged, "the increase failed");
  play.release(p, token);
}
void visits(Play& play, unsigned p, std::uint32_t weight, std::uint32_t most) {
  const std::uint64_t token = play.acquire(p, weight);
  if (token == 0) return;
  play.inside(p, weight, most);
  play.release(p, token);
}

TEST(WeightPlaySim, an_increase_among_others) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(3);
    play.mortal([&](unsigned p) { increases(play, p); });
    play.mortal([&](unsigned p) { visits(play, p, 2, 3); });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

// a holds all; b waits for all and c for one; the operator takes one away, and may die on the way.
TEST(WeightPlaySim, a_resize_turns_away_who_can_never_fit) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(3);
    std::uint64_t token = 0;
    play.start([&] {
      token = take(play.ops(), first, 3);
      queue(play.ops(), second, 3);
    });
    play.mortal([&](unsigned p) { play.release(p, token); });
    play.mortal([&](unsigned p) {
      const std::uint64_t got = play.wait(p, 0);
      if (got == 0) return;
      play.inside(p, 3, 3);
      play.release(p, got);
    });
    play.mortal([&](unsigned p) {
      const Segment::Helping helping(play.segment(), p, 0);
      require(play.ops().resize(2).step == Step::resized, "the resize failed");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

TEST(WeightPlaySim, a_resize_lets_in_who_fits_then) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(1);
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.mortal([&](unsigned p) {
      const Segment::Helping helping(play.segment(), p, 0);
      require(play.ops().resize(2).step == Step::resized, "the resize failed");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2 - deaths, deaths);
  }
}

// Two who hold want all of it: one waits for the other, who is told; a writer waits behind both.
void upgrades(Play& play, unsigned p, std::uint64_t token) {
  const EntryIndex mine = Segment::entry_of(p);
  play.inside(p, 1, 2);
  play.ops().set_weight(mine + 1, 1);
  P::store(play.segment().view().entry(mine + 1).beside, 1);
  P::store(play.segment().view().entry(mine + 1).flags, entry_first);
  const Result r = play.ops().acquire_or_queue_first(mine + 1, 1, 0);
  if (r.step == Step::deadlock) return play.release(p, token);
  require(r.step == Step::queued || r.step == Step::acquired, "the upgrade failed");
  const std::uint64_t more = r.step == Step::queued ? play.wait(p, 1) : r.seq;
  play.inside(p, 2, 2);
  require(play.ops().merge(mine, token, 1, mine + 1, more).step == Step::merged, "the merge failed");
  play.release(p, token);
}

TEST(WeightPlaySim, two_upgrade_at_once) {
  for (const unsigned deaths : {0U, 1U}) {
    for (const bool writer : {false, true}) {
      Play play(2);
      std::array<std::uint64_t, 2> token{};
      play.start([&] {
        token = {take(play.ops(), first, 1), take(play.ops(), second, 1)};
        if (writer) queue(play.ops(), third, 2);
      });
      play.mortal([&](unsigned p) { upgrades(play, p, token[p]); });
      play.mortal([&](unsigned p) { upgrades(play, p, token[p]); });
      if (writer) {
        play.mortal([&](unsigned p) {
          const std::uint64_t got = play.wait(p, 0);
          play.inside(p, 2, 2);
          play.release(p, got);
        });
      }
      play.reaper();
      play.judge(writer ? "with a writer" : "two", writer ? 1 : 2 - deaths, deaths);
    }
  }
}

// A writer becomes a reader while readers wait.
TEST(WeightPlaySim, a_downgrade_lets_in_readers) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(2);
    play.mortal([&](unsigned p) {
      const std::uint64_t token = play.acquire(p, 2);
      play.inside(p, 2, 2);
      play.inside(p, 1, 2);
      require(play.ops().shrink(Segment::entry_of(p), token, 2, 1).step == Step::shrunk, "the downgrade failed");
      play.release(p, token);
    });
    play.mortal([&](unsigned p) { visits(play, p, 1, 2); });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2, deaths);
  }
}

// Each brings two and takes one; whoever dies takes its two away.
TEST(WeightPlaySim, a_quota_is_what_its_members_brought) {
  for (const unsigned deaths : {0U, 1U}) {
    Play play(0);
    play.start([&] { play.ops().record().per_session.raw = 2; });
    const auto member = [&](unsigned p) {
      const EntryIndex share = Segment::entry_of(p) + 1;
      play.ops().set_weight(share, 2);
      require(play.ops().join(share).step == Step::joined, "the join failed");
      visits(play, p, 1, 4);
      require(play.ops().leave(share).step == Step::left, "the leave failed");
    };
    play.mortal(member);
    play.mortal(member);
    play.end([&] {
      require(play.ops().finish_now() && play.ops().capacity() == 0, "the capacity is not what the members brought");
    });
    play.reaper();
    play.judge(deaths == 0 ? "no death" : "one death", 2, deaths);
  }
}

// One who stays: of the other one's death nothing may be missing, and nothing be left.
TEST(WeightPlaySim, a_member_that_dies_takes_its_own_share) {
  Play play(0);
  play.start([&] {
    play.ops().record().per_session.raw = 2;
    play.ops().set_weight(second + 1, 2);
    require(play.ops().join(second + 1).step == Step::joined, "the start went wrong");
  });
  play.mortal([&](unsigned p) {
    const EntryIndex share = Segment::entry_of(p) + 1;
    play.ops().set_weight(share, 2);
    require(play.ops().join(share).step == Step::joined, "the join failed");
  });
  play.mortal([&](unsigned p) { visits(play, p, 1, 4); });
  play.end([&] {
    const std::uint32_t left = (is_dead(0) ? 0U : 2U) + (is_dead(1) ? 0U : 2U);
    require(play.ops().finish_now() && play.ops().capacity() == left, "the capacity is not what the members brought");
    for (const unsigned p : {0U, 1U}) {
      const Step step = is_dead(p) ? Step::left : play.ops().leave(Segment::entry_of(p) + 1).step;
      require(step == Step::left, "the leave failed");
    }
  });
  play.reaper();
  play.judge("one death", 2, 1);
}

}  // namespace
}  // namespace shmcoord::engine
