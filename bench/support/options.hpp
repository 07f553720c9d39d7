#pragma once

#include <algorithm>
#include <cstdint>

// How much of everything.

namespace shmcoord::bench {

struct Options {
  bool short_form = false;  // shows that the measurements work, not the figures
  int rounds = 0;           // 0: as each case says
};

inline Options& options() {
  static Options o;
  return o;
}

/// Rounds of a case that would like so many.
inline int rounds(int whole) {
  if (options().rounds > 0) return options().rounds;
  return options().short_form ? std::min(whole, 2) : whole;
}
/// Repetitions within a round, sizes of tables: a tenth in the short form.
inline int repeats(int whole) { return options().short_form ? std::max(whole / 10, 1) : whole; }
inline std::uint32_t size(std::uint32_t whole) { return options().short_form ? std::max(whole / 10, 1U) : whole; }
inline double seconds(double whole) { return options().short_form ? std::min(whole / 20, 0.02) : whole; }

}  // namespace shmcoord::bench
