#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/verdict.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// The verdict of a guard while several evaluate it, die, and look (engine/verdict.hpp).

namespace {

using shmcoord::engine::EntryIndex;
using shmcoord::engine::Step;
using shmcoord::engine::Verdict;
using shmcoord::sim::judge;
using shmcoord::sim::Plain;
using shmcoord::sim::require;
using shmcoord::sim::Scenario;
using shmcoord::sim::Segment;
using P = shmcoord::sim::SimPolicy;

constexpr EntryIndex part = Segment::entry_of(2);

// Both need more than one word, and the first one a word more than the second.
constexpr std::string_view reason_of(unsigned process) { return process == 0 ? "aaaaaaaaaaaaaaaaaaaaaa" : "bbbbbbbb"; }

Step write(const Segment& segment, unsigned process) {
  return shmcoord::engine::write_verdict<P>(segment.ops(0), part, process == 0, Segment::pid_of(process),
                                            std::int64_t{1} + process, reason_of(process));
}

/// What is seen: the process whose verdict it is; nothing: none. Anything else is a failure.
std::optional<unsigned> look(const Segment& segment) {
  const std::optional<Verdict> seen = shmcoord::engine::read_verdict<P>(segment.view(), 0);
  if (!seen) return std::nullopt;
  const unsigned process = seen->passed ? 0 : 1;
  require(seen->reason == reason_of(process), "the reason is of another verdict, or of two");
  require(seen->pid == Segment::pid_of(process), "the pid is of another verdict");
  require(seen->at_ns == std::int64_t{1} + process, "the time is of another verdict");
  return process;
}

void begin(Segment& segment) {
  segment.reset();
  P::store(segment.view().entry(part).weight, 1);
  require(segment.ops(0).try_acquire(part, 1, P::now_ns()).step == Step::acquired, "the start went wrong");
}

TEST(VerdictSim, is_never_a_mixture_and_is_there_when_both_are_done) {
  Segment segment(7);
  Scenario s;
  segment.name_words(s);
  s.on_start([&] { begin(segment); });
  for (const unsigned p : {0U, 1U}) {
    s.task(p == 0 ? "a" : "b", [&, p] { require(write(segment, p) == Step::refreshed, "it was given up"); });
  }
  s.task("reader", [&] { (void)look(segment); });
  s.at_end([&] { require(look(segment).has_value(), "nobody's verdict stands"); });
  judge("verdict", s, {.preemptions = 3}, {});
}

TEST(VerdictSim, who_dies_leaves_a_whole_one_or_none_and_the_next_evaluation_gives_one) {
  Segment segment(7);
  Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    begin(segment);
    require(write(segment, 1) == Step::refreshed, "the start went wrong");
  });
  for (const unsigned p : {0U, 1U}) {
    s.mortal(p == 0 ? "a" : "b", [&, p] { (void)write(segment, p); });
  }
  s.at_end([&] {
    // The last sequence is a verdict's: then nobody began a later one, and nobody earlier may have touched its words.
    const auto& record = segment.view().record(0);
    const auto said = shmcoord::engine::unpack_handoff(P::load(record.previous)).stamp;
    const bool is_last = said == shmcoord::engine::handoff_stamp(0, P::load_seq(record.control));
    require(look(segment).has_value() || !is_last, "one that was overtaken destroyed a later one");
    require(write(segment, 0) == Step::refreshed, "the next evaluation failed");
    require(look(segment) == 0U, "the verdict is not the last one");
  });
  judge("verdict and deaths", s, {.preemptions = 2, .deaths = 2}, {.deaths = 2});
}

TEST(VerdictSim, a_part_that_comes_meanwhile_is_there) {
  constexpr EntryIndex second = Segment::entry_of(1);
  Segment segment(7);
  Scenario s;
  segment.name_words(s);
  s.on_start([&] {
    begin(segment);
    P::store(segment.view().entry(second).weight, 1);
  });
  s.mortal("part", [&] { (void)segment.ops(0).try_acquire(second, 1, P::now_ns()); });
  s.task("a", [&] { require(write(segment, 0) == Step::refreshed, "it was given up"); });
  s.at_end([&] {
    require(write(segment, 0) == Step::refreshed, "the next evaluation failed");
    const bool taken = segment.ops(0).load().used == 2;
    const auto phase = shmcoord::engine::unpack_status(P::load(segment.view().entry(second).status)).phase;
    require(!taken || phase == shmcoord::engine::Phase::held, "the word has the part, and the part does not know");
  });
  judge("verdict and part", s, {.preemptions = 2, .deaths = 1}, {.deaths = 1});
}

// A verdict that was reached before must not come back over a later one.
TEST(VerdictSim, one_that_was_overtaken_does_not_come_back) {
  Segment segment(7);
  Scenario s;
  segment.name_words(s);
  Plain<bool> later_is_done = false;
  Plain<bool> a_began_later = false;
  s.on_start([&] {
    begin(segment);
    later_is_done = false;
    a_began_later = false;
  });
  s.task("a", [&] {
    if (later_is_done) a_began_later = true;
    (void)write(segment, 0);
  });
  s.task("part", [&] {  // a part of the definition comes: a sequence in between
    (void)segment.ops(0).use_up_sequence(part);
  });
  s.task("b", [&] {
    require(write(segment, 1) == Step::refreshed, "it was given up");
    later_is_done = true;
  });
  s.at_end([&] {
    const auto seen = look(segment);
    require(seen.has_value(), "nobody's verdict stands");
    if (a_began_later) require(*seen == 0, "the later one is not the one that stands");
  });
  judge("overtaken", s, {.preemptions = 3}, {});
}

}  // namespace
