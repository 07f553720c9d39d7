#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "support/long_form.hpp"
#include "support/sim_scheduler.hpp"

// How a scenario over the real engine is judged: every schedule within bounds, random ones beyond them, and both again
// in weak memory. The default form is cut to what fits into seconds; SHMCOORD_LONG=1 takes the cuts away.

namespace shmcoord::sim {

using test::long_form;

/// A small story: every schedule within the bounds, and nothing cut.
inline void expect_good(const Scenario& scenario, const Options& options) {
  const Report report = explore(scenario, options);
  EXPECT_FALSE(report.failure) << report.text();
  EXPECT_TRUE(report.exhausted) << report.text();
}

inline void judge_once(const std::string& what, const Report& r) {
  std::cout << what << ": " << r.text() << std::endl;
  EXPECT_FALSE(r.failure) << what;
}

/// `bounds` for the exploration, `beyond` for the random schedules.
inline void judge(const std::string& what, const Scenario& s, Options bounds, Options beyond = {}) {
  constexpr std::uint64_t less = instrumented ? 20 : 1;
  const std::uint64_t samples = (long_form() ? 1'500'000 : 8'000) / less;
  if (!long_form()) bounds.max_schedules = 65'000 / less;
  judge_once(what, explore(s, bounds));
  judge_once(what + ", random", sample(s, beyond, samples));
  // One preemption less makes room for the old values.
  if (!long_form()) bounds.max_schedules = 20'000 / less;
  if (bounds.preemptions > 1) --bounds.preemptions;
  bounds.stale_loads = 1;
  beyond.stale_loads = 6;
  judge_once(what + ", weak", explore(s, bounds));
  judge_once(what + ", weak, random", sample(s, beyond, samples));
}

/// A canary: with that left out of the memory, the scenario must fail. Says after how many schedules it did.
inline void expect_missed(const std::string& what, const Scenario& s, Options o, const Without& without) {
  o.stale_loads = 6;
  o.without = without;
  const Report r = sample(s, o, 200'000);
  ASSERT_TRUE(r.failure) << what << " was not missed: " << r.text();
  std::cout << what << ": found after " << r.schedules << " random schedules: " << r.failure->what << std::endl;
}

}  // namespace shmcoord::sim
