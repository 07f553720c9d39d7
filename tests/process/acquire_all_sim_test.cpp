#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <span>

#include "process/acquire_all.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// Several holds at once under the deterministic scheduler: whoever is killed at any step leaves nothing held, and the
// others get all they want, in every order of steps. Taken in another order than the common one, they stall.

namespace shmcoord::process {
namespace {

using engine::EntryIndex;
using engine::RecordIndex;
using engine::Step;
using sim::expect_good;
using sim::is_dead;
using sim::is_finished;
using sim::require;
using sim::Segment;

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// The hold of one word by one process, in an entry of its own.
struct Part {
  const Segment* segment;
  unsigned process;
  RecordIndex record;
  std::uint64_t token = 0;

  [[nodiscard]] EntryIndex entry() const { return Segment::entry_of(process) + record; }
  Answer acquire() {
    const engine::Result r = segment->ops(record).acquire_or_queue(entry(), 1, 0);
    if (r.step == Step::queued) {
      require(segment->wait(record, process, never, record) == engine::WaitEnd::granted,
              "the wait ended for no reason");
      token = segment->token(record, process, record);
    } else {
      require(r.step == Step::acquired, "neither held nor queued");
      token = r.seq;
    }
    return {{AcquireResult::acquired, token, {}, {}}};
  }
  void give_back() const noexcept { segment->ops(record).release(entry(), token); }
  [[nodiscard]] bool stands() const { return segment->ops(record).holds(entry(), token); }
};

void take_both(const Segment& segment, unsigned process, RecordIndex first, RecordIndex second) {
  std::array<Part, 2> parts{Part{&segment, process, first}, Part{&segment, process, second}};
  require(acquire_all(std::span<Part>(parts)).held == 2, "not all of it");
  require(parts[0].stands() && parts[1].stands(), "a part of it is not held");
  for (const Part& part : parts) part.give_back();
}

class AcquireAllSim : public ::testing::Test {
 protected:
  AcquireAllSim() {
    segment_.entries_in_use = 2;
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      for (unsigned p = 0; p < Segment::processes; ++p) {
        for (const EntryIndex n : {0U, 1U}) segment_.view().entry(Segment::entry_of(p) + n).weight.raw = 1;
      }
    });
    scenario_.at_end([this] { segment_.require_idle(); });
  }

  Segment segment_{1};
  sim::Scenario scenario_;
};

TEST_F(AcquireAllSim, WhoeverDiesTheOthersGetAll) {
  const sim::TaskIndex victim = scenario_.mortal("a", [this] { take_both(segment_, 0, 0, 1); });
  scenario_.task("b", [this] { take_both(segment_, 1, 0, 1); });
  scenario_.task("reaper", [this, victim] {
    sim::await([=] { return is_dead(victim) || is_finished(victim); });
    if (!is_dead(victim)) return;
    segment_.announce_death(0);
    segment_.bury(0);
  });
  expect_good(scenario_, {.preemptions = 2, .deaths = 1});
}

// What the order is for.
TEST_F(AcquireAllSim, InTwoOrdersTheyStall) {
  scenario_.task("a", [this] { take_both(segment_, 0, 0, 1); });
  scenario_.task("b", [this] { take_both(segment_, 1, 1, 0); });
  EXPECT_TRUE(sim::explore(scenario_, {.preemptions = 1}).failure);
}

}  // namespace
}  // namespace shmcoord::process
