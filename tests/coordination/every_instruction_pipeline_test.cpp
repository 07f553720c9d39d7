#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "coordination/pipeline_store.hpp"
#include "process/clock.hpp"
#include "support/death_scene.hpp"

// A death after every instruction of what is done with a pipeline in a segment (support/death_scene.hpp). Whoever comes
// after it finds the pipeline as it was or as it was to be, can run it, and can remove it; and what nobody needs is
// gone when the reaper has passed.

namespace shmcoord {
namespace {

using coordination::RunnerHold;
using test::Actor;
using test::Effort;
using test::Scenario;

class EveryInstructionOfAPipeline : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = test::Stepper::refused(); !why.empty()) GTEST_SKIP() << why;
  }
  static void die(Scenario scenario) {
    scenario.sizes = {.names = 8, .entries = 96, .sessions = 8};
    const test::Counts c = test::die_everywhere(scenario, effort()).counts;
    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%s: %llu instructions, %llu changes, %llu images, %llu recoveries, %llu kills (%llu elsewhere)\n",
                scenario.name.c_str(), number(c.instructions), number(c.changes), number(c.images),
                number(c.recoveries), number(c.kills), number(c.missed));
  }

 private:
  // Text is parsed at every look: many more instructions than elsewhere, of few that change anything. So each image is
  // recovered, and there is one way to step through, for one kill at a change and one elsewhere.
  static Effort effort() {
    Effort effort = Effort::of_this_run();
    if (!effort.all) effort.kills = 1;
    return effort;
  }
};

const Pipeline& defined() {
  static const Pipeline pipeline{"p", {{.name = "a", .command = {"x"}}, {.name = "b", .command = {"x"}}}};
  return pipeline;
}
const Pipeline& in_a() {
  static const Pipeline pipeline = defined().start().pipeline;
  return pipeline;
}
const Pipeline& in_b() {
  static const Pipeline pipeline = in_a().finish_phase().pipeline;
  return pipeline;
}

std::shared_ptr<process::Participant> participant(Actor& who) {
  return detail::Access::state(*who.session)->participant;
}

void adds(Actor& who) { coordination::add_pipeline(participant(who), defined()); }
void has_added(Actor& who) {
  who.join();
  adds(who);
}
void has_run(Actor& who, const Pipeline& state) {
  has_added(who);
  RunnerHold hold(participant(who), "p");
  EXPECT_TRUE(hold.acquire());
  EXPECT_TRUE(hold.write(state));
}
void is_in_a(Actor& who) { has_run(who, in_a()); }

/// Told before anything else is done with it.
std::string line_of(Actor& who) {
  const auto found = coordination::find_pipeline(participant(who)->mapping(), "p");
  if (!found) return "none";
  std::string line(to_string(found->pipeline.status()));
  if (found->pipeline.status() == PipelineStatus::running) line += " " + found->pipeline.phase().name;
  return line;
}

/// Of a definition: its parts, one state that counts and one that does not any more; of none, nothing.
void is_tidied(Actor& who, const std::string& line) {
  const engine::Mapping& mapping = participant(who)->mapping();
  for (const coordination::Remains& remains : coordination::all_remains(mapping, process::real_clock().now_ns())) {
    coordination::take_away(participant(who), remains);
  }
  EXPECT_TRUE(coordination::all_remains(mapping, process::real_clock().now_ns()).empty());
  const auto seen = coordination::look_at(mapping, engine::Kind::pipeline, "p");
  const std::size_t holders = seen ? seen->holders.size() : 0;
  const std::size_t parts = seen ? coordination::parts_of_text(*seen).size() : 0;
  if (line == "none") {
    EXPECT_EQ(holders, 0U);
  } else {
    EXPECT_LE(holders, parts + 2);
  }
}

/// Whatever is left, somebody can run it to its end, and somebody can remove it.
std::string goes_on(Actor& who) {
  std::string line = line_of(who);
  is_tidied(who, line);
  EXPECT_EQ(line_of(who), line);
  if (line == "none") adds(who);
  {
    RunnerHold hold(participant(who), "p");
    EXPECT_TRUE(hold.acquire()) << "nobody is alive who has it";
    const Pipeline& there = hold.found().pipeline;
    EXPECT_EQ(to_string(there.status()), line == "none" ? "waiting" : line.substr(0, line.find(' ')));
    if (!is_over(there.status())) {
      Pipeline now = there.resume().pipeline;
      while (!is_over(now.status())) {
        EXPECT_TRUE(hold.write(now));
        now = now.finish_phase().pipeline;
      }
      EXPECT_TRUE(hold.write(now));
      EXPECT_EQ(line_of(who), "done");
    }
  }
  EXPECT_NO_THROW(coordination::remove_pipeline(participant(who), "p"));
  EXPECT_EQ(line_of(who), "none");
  return line;
}

TEST_F(EveryInstructionOfAPipeline, Adding) {
  die({.name = "anew",
       .before = [](Actor& v) { v.join(); },
       .operation = adds,
       .outcomes = {"none", "waiting"},
       .found = goes_on});
  die({.name = "in the place of one that is over",
       .before = [](Actor& v) { has_run(v, in_b().finish_phase().pipeline); },
       .operation = adds,
       .outcomes = {"done", "none", "waiting"},
       .found = goes_on});
}

// Of a definition in two parts.
const Pipeline& long_one() {
  static const Pipeline pipeline{"p", {{.name = "a", .command = {std::string(engine::max_reason, 'x')}}}};
  return pipeline;
}
std::string goes_on_or_is_added(Actor& who) {
  std::string line = line_of(who);
  is_tidied(who, line);
  EXPECT_NO_THROW(coordination::add_pipeline(participant(who), long_one()));
  EXPECT_EQ(line_of(who), "waiting");
  EXPECT_NO_THROW(coordination::remove_pipeline(participant(who), "p"));
  is_tidied(who, "none");
  return line;
}
TEST_F(EveryInstructionOfAPipeline, AddingInParts) {
  die({.name = "anew, in two parts",
       .before = [](Actor& v) { v.join(); },
       .operation = [](Actor& v) { coordination::add_pipeline(participant(v), long_one()); },
       .outcomes = {"none", "waiting"},
       .found = goes_on_or_is_added});
}
TEST_F(EveryInstructionOfAPipeline, RemovingInParts) {
  die({.name = "one in two parts",
       .before =
           [](Actor& v) {
             v.join();
             coordination::add_pipeline(participant(v), long_one());
           },
       .operation = [](Actor& v) { coordination::remove_pipeline(participant(v), "p"); },
       .outcomes = {"waiting", "none"},
       .found = goes_on_or_is_added});
}

TEST_F(EveryInstructionOfAPipeline, Running) {
  die({.name = "on from where it was",
       .before = is_in_a,
       .operation =
           [](Actor& v) {
             static std::optional<RunnerHold> hold;  // until it dies
             hold.emplace(participant(v), "p");
             (void)hold->acquire();
             (void)hold->write(in_b());
           },
       .outcomes = {"running a", "running b"},
       .found = goes_on});
}

TEST_F(EveryInstructionOfAPipeline, Cancelling) {
  die({.name = "a running one",
       .before = is_in_a,
       .operation = [](Actor& v) { (void)coordination::cancel_pipeline(participant(v), "p"); },
       .outcomes = {"running a", "cancelled"},
       .found = goes_on});
}

TEST_F(EveryInstructionOfAPipeline, Removing) {
  die({.name = "one that is done",
       .before = [](Actor& v) { has_run(v, in_b().finish_phase().pipeline); },
       .operation = [](Actor& v) { coordination::remove_pipeline(participant(v), "p"); },
       .outcomes = {"done", "none"},
       .found = goes_on});
}

}  // namespace
}  // namespace shmcoord
