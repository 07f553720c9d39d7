#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/control.hpp"
#include "engine/wait.hpp"
#include "support/sim_judge.hpp"
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
using shmcoord::engine::Handoff;
using shmcoord::engine::handoff_stamp;
using shmcoord::engine::pack_owner;
using shmcoord::engine::Phase;
using shmcoord::engine::RecordIndex;
using shmcoord::engine::Result;
using shmcoord::engine::seq_of_stamp;
using shmcoord::engine::Status;
using shmcoord::engine::Step;
using shmcoord::engine::unpack_handoff;
using shmcoord::engine::WaitEnd;
using shmcoord::sim::expect_missed;
using shmcoord::sim::explore;
using shmcoord::sim::is_dead;
using shmcoord::sim::is_finished;
using shmcoord::sim::judge;
using shmcoord::sim::long_form;
using shmcoord::sim::Plain;
using shmcoord::sim::Report;
using shmcoord::sim::require;
using shmcoord::sim::Scenario;
using shmcoord::sim::Segment;
using P = shmcoord::sim::SimPolicy;

constexpr std::int64_t never = INT64_MAX;

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
      const std::int64_t deadline = v.way == Way::time_out ? P::now_ns() + 1000 : never;
      const WaitEnd end = segment_.wait(v.record, p, deadline);
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

void judge(const char* what, const World& w, unsigned preemptions, unsigned deaths, unsigned early_timeouts = 0) {
  const unsigned more = long_form() ? 1 : 0;
  shmcoord::sim::judge(what, w.scenario(),
                       {.preemptions = preemptions + more, .deaths = deaths, .early_timeouts = early_timeouts},
                       {.deaths = 2 * deaths, .early_timeouts = 2 * early_timeouts});
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
// turn and hears whom it follows. When the first is there from the start, the third takes the lock once more, and must
// hear nothing then.
class Lease {
 public:
  enum class Start : std::uint8_t { free, held, queued };
  struct Cast {
    bool mortal = false;  // the holder and the robber
    Start start = Start::free;
    bool stopped = false;    // the holder does nothing while the robber is at it, and nothing more if it was robbed
    bool says_where = true;  // the robber writes down which word it is busy with
  };

  explicit Lease(Cast cast) : cast_(cast), segment_(1) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] { start(); });
    const auto holder = [this] { hold_and_beat(); };
    const auto robber = [this] { rob(); };
    cast_.mortal ? scenario_.mortal("a", holder) : scenario_.task("a", holder);
    scenario_.task("b", [this] { wait(); });
    cast_.mortal ? scenario_.mortal("c", robber) : scenario_.task("c", robber);
    scenario_.task("reaper", [this] {
      for (const unsigned p : {0U, 2U}) {
        shmcoord::sim::await([p] { return is_dead(p) || is_finished(p); });
        if (!is_dead(p)) continue;
        segment_.announce_death(p);
        segment_.bury(p);
      }
    });
    scenario_.at_end([this] {
      segment_.require_idle();
      require(!released_ || !heard_, "who gave it back itself was called robbed");
      const bool news =
          segment_.take_news(0, P::load_seq(segment_.view().record(0).control)).loss != shmcoord::Loss::none;
      require(!heard_ || !news, "the same news twice");
      require(!reclaimed_ || heard_ || news, "nobody can hear of the robbed holder any more");
    });
  }
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  static constexpr std::int64_t beat_ns = 2'000'000'000;
  static constexpr EntryIndex held = Segment::entry_of(0);
  static constexpr EntryIndex queued = Segment::entry_of(1);

  void start() {
    segment_.reset();
    inside_ = 0;
    for (Plain<bool>* const flag : {&judged_, &reclaimed_, &released_, &heard_}) *flag = false;
    for (const EntryIndex i : {held, queued}) P::store(segment_.view().entry(i).weight, 1);
    if (cast_.start == Start::free) return;
    const ControlOps<P> ops = segment_.ops(0);
    token_ = ops.try_acquire(held, 1, P::now_ns()).seq;
    if (cast_.start == Start::held) return;
    require(ops.acquire_or_queue(queued, 1, P::now_ns()).step == Step::queued, "the start went wrong");
  }

  void hold_and_beat() {
    const ControlOps<P> ops = segment_.ops(0);
    std::uint64_t token = token_;
    if (cast_.start == Start::free) {
      const Result r = ops.try_acquire(held, 1, P::now_ns());
      if (r.step != Step::acquired) return;
      token = r.seq;
    }
    if (cast_.stopped) {
      const std::uint64_t before = P::load_seq(ops.record().control);
      shmcoord::sim::await([] { return is_dead(2) || is_finished(2); });
      if (P::load_seq(ops.record().control) != before) return;
    }
    const Result beat = ops.heartbeat(held, token, beat_ns);
    if (beat.step == Step::gone) return require(judged_, "told that the hold is gone, and nobody took it");
    require(beat.step == Step::refreshed, "heartbeat failed");
    enter(ops);
    require(ops.release(held, token).step == Step::released, "the hold was taken after it had been refreshed");
    released_ = true;
  }

  void enter(const ControlOps<P>& ops) {
    require(inside_ == 0, "two inside");
    inside_ = 1;
    P::load(ops.record().control);
    inside_ = 0;
  }

  void wait() {
    const ControlOps<P> ops = segment_.ops(0);
    Result r{Step::queued};
    if (cast_.start != Start::queued) r = ops.acquire_or_queue(queued, 1, P::now_ns());
    std::uint64_t token = r.seq;
    if (r.step != Step::acquired) {
      require(segment_.wait(0, 1, never) == WaitEnd::granted, "the wait ended for no reason");
      token = segment_.token(0, 1);
    }
    hear(token);
    if (!is_dead(0)) enter(ops);
    require(ops.release(queued, token).step == Step::released, "the waiter's release failed");
    if (cast_.start == Start::free) return;
    const Result again = ops.try_acquire(queued, 1, P::now_ns());
    require(again.step == Step::acquired, "the lock is not free");
    hear(again.seq);
    require(ops.release(queued, again.seq).step == Step::released, "the second release failed");
  }

  // Who is let in by the very word that robs must hear of it then: the hand-off field of the robbed says which word.
  void hear(std::uint64_t token) {
    const Segment::News news = segment_.take_news(0, token);
    const Handoff how = unpack_handoff(P::load(segment_.view().entry(held).handoff));
    if (how.stamp == handoff_stamp(0, token)) require(news.loss == how.loss, "let in without the news");
    if (news.loss == shmcoord::Loss::none) return;
    require(!heard_, "the same news twice");
    require(news.pid == Segment::pid_of(0) && news.holder == Segment::name_of(0), "the news names somebody else");
    heard_ = true;
  }

  void rob() {
    std::optional<Segment::Helping> helping;
    if (cast_.says_where) helping.emplace(segment_, 2U, 0U);
    const Result r = segment_.ops(0).reclaim(held, [this](const Entry& e) {
      const bool silent = P::load(e.heartbeat_ns) < static_cast<std::uint64_t>(beat_ns);
      // From here on it is decided, whether or not the robber lives to hear of it.
      if (silent) judged_ = true;
      return silent ? shmcoord::Loss::stale : shmcoord::Loss::none;
    });
    require(r.step == Step::reclaimed || r.step == Step::fresh || r.step == Step::gone, "reclaim failed");
    if (r.step == Step::reclaimed) reclaimed_ = true;
  }

  Cast cast_;
  Segment segment_;
  Scenario scenario_;
  std::uint64_t token_ = 0;  // the same in every schedule
  Plain<unsigned> inside_ = 0;
  Plain<bool> judged_ = false;
  Plain<bool> reclaimed_ = false;
  Plain<bool> released_ = false;
  Plain<bool> heard_ = false;
};

TEST(ControlSim, who_was_told_refreshed_is_not_robbed) {
  const Lease sure({});
  judge("no death", sure.scenario(), {.preemptions = long_form() ? 4U : 3U}, {});
  const Lease mortal({.mortal = true});
  judge("one death", mortal.scenario(), {.preemptions = long_form() ? 3U : 2U, .deaths = 1}, {.deaths = 2});
}

TEST(ControlSim, who_is_let_in_by_a_robbery_has_heard_of_it) {
  const unsigned more = long_form() ? 2 : 0;
  for (const auto& [start, what] :
       {std::pair(Lease::Start::queued, "queued"), {Lease::Start::held, "not yet queued"}}) {
    const Lease sure({.start = start});
    judge(what, sure.scenario(), {.preemptions = 2 + more / 2}, {});
    const Lease mortal({.mortal = true, .start = start});
    judge(std::string(what) + ", one death", mortal.scenario(), {.preemptions = 1 + more, .deaths = 1}, {.deaths = 2});
  }
}

// The robber has no entry in the word: only what it wrote down before leads its burial there. The second half is a
// canary: without that note nobody calls the waiter, and it sleeps until it looks again by itself.
TEST(ControlSim, the_burial_of_a_robber_lets_in_whom_it_left_asleep) {
  const Lease stopped({.mortal = true, .start = Lease::Start::queued, .stopped = true});
  judge("says where", stopped.scenario(), {.preemptions = long_form() ? 3U : 1U, .deaths = 1}, {.deaths = 2});
  const Lease silent({.mortal = true, .start = Lease::Start::queued, .stopped = true, .says_where = false});
  const Report r = explore(silent.scenario(), {.preemptions = 0, .deaths = 1});
  ASSERT_TRUE(r.failure);
  EXPECT_EQ(r.failure->what.substr(0, 5), "stall") << r.text();
}

// A hold that outlives its process, in the first entry: once that is free, anybody may make it his own.
std::uint64_t hold_detached(const Segment& segment) {
  Entry& e = segment.view().entry(Segment::entry_of(0));
  segment.view().owner_of(Segment::entry_of(0)).raw = pack_owner({shmcoord::engine::detached_slot, 1});
  e.weight.raw = 1;
  e.flags.raw = shmcoord::engine::entry_detached;
  return segment.ops(0).try_acquire(Segment::entry_of(0), 1, P::now_ns()).seq;
}
std::uint64_t make_own_and_acquire(const Segment& segment, unsigned process, RecordIndex r) {
  const EntryIndex i = Segment::entry_of(0);
  Entry& e = segment.view().entry(i);
  P::store(segment.view().owner_of(i), P::load(segment.view().owner_of(Segment::entry_of(process))));
  P::store(e.flags, 0);
  P::store(e.heartbeat_ns, 0);
  const Result got = segment.ops(r).try_acquire(i, 1, P::now_ns());
  require(got.step == Step::acquired, "the next owner's acquire failed");
  return got.seq;
}

// The robber dies on its way, and meanwhile the next owner of the entry is robbed on another word: that overwrites the
// hand-off field, which tells the finishers of the first word whom to grant.
TEST(ControlSim, an_entry_that_left_the_word_may_be_used_again) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  const EntryIndex first = Segment::entry_of(0);
  const EntryIndex second = Segment::entry_of(1);
  const auto force = [](const Entry&) { return shmcoord::Loss::forced; };
  s.on_start([&] {
    segment.reset();
    hold_detached(segment);
    P::store(segment.view().entry(second).weight, 1);
    require(segment.ops(0).acquire_or_queue(second, 1, P::now_ns()).step == Step::queued, "the start went wrong");
  });
  s.task("b, another thread", [&] {
    if (segment.ops(0).status(first).phase != Phase::free) return;
    make_own_and_acquire(segment, 1, 1);
    require(segment.ops(1).reclaim(first, force).step == Step::reclaimed, "the next owner's hold is not there");
  });
  s.task("b", [&] {
    require(segment.wait(0, 1, never) == WaitEnd::granted, "the wait ended for no reason");
    const Result r = segment.ops(0).release(second, segment.token(0, 1));
    require(r.step == Step::released, "the waiter's release failed");
  });
  s.mortal("c", [&] {
    const Segment::Helping helping(segment, 2, 0);
    segment.ops(0).reclaim(first, force);
  });
  s.task("reaper", [&] {
    shmcoord::sim::await([] { return is_dead(2) || is_finished(2); });
    if (!is_dead(2)) return;
    segment.bury(2);
    segment.ops(0).reclaim(first, force);  // if it was not yet
  });
  s.at_end([&] { segment.require_idle(); });
  judge("reuse", s, {.preemptions = long_form() ? 3U : 1U, .deaths = 1}, {.deaths = 1});
}

// The hold whose heartbeat it is ends between the two looks at the entry, and the next one in it is marked as well.
TEST(ControlSim, a_heartbeat_is_not_taken_for_that_of_the_next_hold) {
  constexpr std::int64_t beat_ns = 2'000'000'000;
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  const EntryIndex first = Segment::entry_of(0);
  const auto find_fresh = [&] {
    return segment.ops(0).reclaim(first, [](const Entry&) { return shmcoord::Loss::none; }).step == Step::fresh;
  };
  std::uint64_t token = 0;
  Plain<bool> refreshed = false;
  Plain<bool> reclaimed = false;
  s.on_start([&] {
    segment.reset();
    refreshed = false;
    reclaimed = false;
    token = hold_detached(segment);
    require(find_fresh(), "the start went wrong");  // and so it is marked
  });
  s.task("a", [&] { refreshed = segment.ops(0).heartbeat(first, token, beat_ns).step == Step::refreshed; });
  s.task("c", [&] {
    const Result r = segment.ops(0).reclaim(first, [](const Entry& e) {
      return P::load(e.heartbeat_ns) < beat_ns ? shmcoord::Loss::stale : shmcoord::Loss::none;
    });
    if (r.step != Step::reclaimed) return;
    reclaimed = true;
    const std::uint64_t next = make_own_and_acquire(segment, 2, 0);
    require(find_fresh(), "the next hold is not there");
    require(segment.ops(0).release(first, next).step == Step::released, "the next owner's release failed");
  });
  s.at_end([&] {
    require(!refreshed || !reclaimed, "told refreshed, and robbed all the same");
    if (!reclaimed) segment.ops(0).release(first, token);
    segment.require_idle();
  });
  judge("two holds", s, {.preemptions = long_form() ? 6U : 3U}, {});
}

// A finisher that read its waiter before the grant or the cancel, and the links of the tail after the next one has
// queued behind it.
TEST(ControlSim, a_late_finisher_changes_nothing) {
  judge("of a grant", World(1, {{waits, waits}, {waits}, {waits}}), 1, 0);
  judge("of a cancel", World(1, {{waits}, {gives_up, waits}, {waits}}), 2, 0);
}

TEST(ControlSim, two_reapers_bury_at_once) {
  judge("two reapers", World(1, {{waits}, {waits}}, 2), 2, 1);
  judge("two reapers, three", World(1, {{waits}, {gives_up}, {waits}}, 2), 1, 1);
  judge("two reapers, weights", World(3, {{heavy(2)}, {heavy(2)}, {heavy(1)}}, 2), 1, 1);
}

// Canaries: what the orders of the engine's accesses are good for is seen when they are left out.
TEST(ControlSim, an_order_that_is_missing_is_missed) {
  const World queue(1, {{waits}, {waits}, {waits}});
  expect_missed("queue without acquire", queue.scenario(), {}, {.acquire = true});
  expect_missed("queue without fences", queue.scenario(), {}, {.fence = true});
  expect_missed("queue with locked ones that do not order", queue.scenario(), {}, {.locked = true});
  const Lease lease({.start = Lease::Start::held});
  expect_missed("lease without fences", lease.scenario(), {}, {.fence = true});
}

}  // namespace
