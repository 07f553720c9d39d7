#pragma once

#include <string>
#include <vector>

#include "bench/support/result.hpp"

// The figures in Google Benchmark's own JSON, written by the library, so that its compare.py and whatever else reads it
// reads ours. Each round is an iteration run of "case/comparison/subject"; then comes an aggregate, "median", whose
// counters are p10 and p90 of the rounds, p50 to max of single latencies (`p99.9` is p99_9), and the ratio of ours to
// this subject with its own spread. All are in the run's time unit, save ratios and what has another name. A figure
// that is no time is a counter `value`, with its unit as label; the times are then what measuring took.

namespace shmcoord::bench {

/// Throws std::runtime_error when the file cannot be written.
void write_json(const std::string& path, const std::vector<Result>& results);

}  // namespace shmcoord::bench
