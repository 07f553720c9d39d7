#pragma once

// When does a hold stop being safe from others?
//
// Problem: three clocks run on every hold: the heartbeat, an optional ttl that replaces it (C-51), and an optional
// bound on the whole hold (C-2). The pure machines, the engine's reclaim and the reaper must agree to the nanosecond,
// or one of them would take away what another just promised. So the judgement is made here and nowhere else.
//
// The two borders differ on purpose (C-30): a heartbeat is stale when its age is *greater* than the threshold, a ttl
// has expired *at* its deadline.
//
// Times are nanoseconds of CLOCK_MONOTONIC. `now` may come from another CPU or a coarse clock and so lie slightly
// before the heartbeat; such an age counts as 0. Every int64 input is accepted without overflow: the values may come
// from a damaged segment, and undefined behaviour would be worse than any answer. Ages saturate at INT64_MAX, which
// keeps both borders exact and makes a threshold or maximum of INT64_MAX mean "never".
//
// This says only that a hold *may* be taken. A proof of death is stronger, needs no clock, and is not judged here.

#include <cstdint>
#include <limits>

#include "shmcoord/results.hpp"

namespace shmcoord::core {

struct LeaseTerms {
  std::int64_t stale_threshold_ns;  ///< > 0, checked where a configuration is made; INT64_MAX = never
  std::int64_t ttl_ns;              ///< 0 = none; otherwise replaces stale_threshold_ns for this hold
  std::int64_t max_hold_ns;         ///< 0 = none
  friend constexpr bool operator==(const LeaseTerms&, const LeaseTerms&) = default;
};

/// now - since, at least 0 and at most INT64_MAX, for any two readings.
[[nodiscard]] constexpr std::int64_t age_ns(std::int64_t since_ns, std::int64_t now_ns) noexcept {
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  if (now_ns <= since_ns) return 0;
  const std::uint64_t age = static_cast<std::uint64_t>(now_ns) - static_cast<std::uint64_t>(since_ns);
  return age > static_cast<std::uint64_t>(max) ? max : static_cast<std::int64_t>(age);
}

/// The reason for which this hold may be taken from its holder at now_ns; Loss::none while it is safe.
///
/// If several apply, a silent holder (expired, stale) is named before one that merely stayed too long: silence is what
/// the next holder must repair. A negative ttl or maximum can only be damage and counts as none, because taking a lock
/// from a live holder is the worse mistake.
[[nodiscard]] constexpr Loss judge(LeaseTerms terms, std::int64_t acquired_at_ns, std::int64_t last_heartbeat_ns,
                                   std::int64_t now_ns) noexcept {
  const std::int64_t silent_ns = age_ns(last_heartbeat_ns, now_ns);
  if (terms.ttl_ns > 0) {
    if (silent_ns >= terms.ttl_ns) return Loss::expired;
  } else if (silent_ns > terms.stale_threshold_ns) {
    return Loss::stale;
  }
  if (terms.max_hold_ns > 0 && age_ns(acquired_at_ns, now_ns) > terms.max_hold_ns) return Loss::held_too_long;
  return Loss::none;
}

}  // namespace shmcoord::core
