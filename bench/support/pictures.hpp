#pragma once

#include <string>
#include <vector>

#include "bench/support/result.hpp"

// The figures as SVG files. Of each comparison, named after its case and itself: "-ratios" has the bars of ours to
// every peer; where there are single latencies, "-percentiles" has the curves and "-histogram" what is below them.
// Comparisons that are places in one picture (how a lock does with 2, 4, 8 … processes) are lines of a file of that
// name.

namespace shmcoord::bench {

/// The paths of what was written. Throws std::runtime_error when a file cannot be.
std::vector<std::string> draw_pictures(const std::string& directory, const std::vector<Result>& results);

}  // namespace shmcoord::bench
