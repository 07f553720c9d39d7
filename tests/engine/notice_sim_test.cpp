#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "engine/control.hpp"
#include "engine/wait.hpp"
#include "support/long_form.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// The news of a robbed holder while others rob, finish and are granted at the same time (engine/notice.hpp).

namespace {

using shmcoord::Loss;
using shmcoord::engine::Entry;
using shmcoord::engine::EntryIndex;
using shmcoord::engine::Step;
using shmcoord::engine::WaitEnd;
using shmcoord::sim::explore;
using shmcoord::sim::instrumented;
using shmcoord::sim::Plain;
using shmcoord::sim::Report;
using shmcoord::sim::require;
using shmcoord::sim::Scenario;
using shmcoord::sim::Segment;
using shmcoord::test::long_form;
using P = shmcoord::sim::SimPolicy;

constexpr EntryIndex first = Segment::entry_of(0);
constexpr EntryIndex second = Segment::entry_of(1);
constexpr EntryIndex third = Segment::entry_of(2);

Loss force(const Entry&) { return Loss::forced; }

void judge(const Scenario& s, unsigned preemptions) {
  shmcoord::sim::Options options{.preemptions = preemptions + (long_form() ? 1U : 0U)};
  if (!long_form()) options.max_schedules = instrumented ? 4'000 : 150'000;
  const Report r = explore(s, options);
  std::cout << r.text() << std::endl;
  ASSERT_FALSE(r.failure);
}

/// a holds, b and c wait in this order.
void one_holds_two_wait(const Segment& segment) {
  for (const EntryIndex i : {first, second, third}) P::store(segment.view().entry(i).weight, 1);
  require(segment.ops(0).try_acquire(first, 1, P::now_ns()).step == Step::acquired, "the start went wrong");
  require(segment.ops(0).acquire_or_queue(second, 1, P::now_ns()).step == Step::queued, "the start went wrong");
  require(segment.ops(0).acquire_or_queue(third, 1, P::now_ns()).step == Step::queued, "the start went wrong");
}

// a is robbed, b follows it and is robbed before or after it asks whom; c must hear of b then, and of nobody else.
TEST(NoticeSim, who_is_robbed_before_it_asks_does_not_take_the_news_of_itself) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  std::uint64_t token = 0;  // of b; the same in every schedule
  s.on_start([&] {
    segment.reset();
    one_holds_two_wait(segment);
    require(segment.ops(0).reclaim(first, force).step == Step::reclaimed, "the start went wrong");
    token = segment.token(0, 1);
  });
  s.task("b", [&] {
    const Segment::News news = segment.take_news(0, token);
    // Without a name: the notice was being written anew while it was read, for b is robbed already.
    require(news.holder != Segment::name_of(1), "b was told of its own loss");
  });
  s.task("robber", [&] { segment.ops(0).reclaim(second, force); });
  s.task("c", [&] {
    require(segment.wait(0, 2, INT64_MAX) == WaitEnd::granted, "the wait ended for no reason");
    const Segment::News news = segment.take_news(0, segment.token(0, 2));
    require(news.loss == Loss::forced && news.holder == Segment::name_of(1), "c was not told of b");
  });
  s.at_end([&] { segment.ops(0).release(third, segment.token(0, 2)); });
  judge(s, 3);
}

// Two robberies one behind the other, each finished by several: a finisher of the first that comes late must leave the
// news of the second whole.
TEST(NoticeSim, a_late_finisher_leaves_the_news_of_the_next_robbery_whole) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  Plain<bool> both = false;
  s.on_start([&] {
    segment.reset();
    both = false;
    one_holds_two_wait(segment);
  });
  s.task("robber of a", [&] { segment.ops(0).reclaim(first, force); });
  s.task("robber of b", [&] {
    require(segment.ops(0).finish_now(), "the word is damaged");
    both = segment.ops(0).reclaim(second, force).step == Step::reclaimed;
  });
  s.at_end([&] {
    const Segment::News news = segment.take_news(0, P::load_seq(segment.view().record(0).control));
    require(news.loss == Loss::forced, "the news is lost");
    require(news.holder == Segment::name_of(both ? 1 : 0), "the news names somebody else, or nobody");
  });
  judge(s, 3);
}

}  // namespace
