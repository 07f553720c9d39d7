#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "core/lock_machine.hpp"
#include "support/history.hpp"

// What the judges of recorded histories have in common, whether of a lock (lock_specification.hpp) or of a semaphore
// (permit_specification.hpp): what is known beside the calls, the steps that a call may have had, and who is still to
// be told of a loss.

namespace shmcoord::test {

/// What is known beside the calls.
struct ObjectFacts {
  core::LockConfig config;              // of a semaphore: its leases
  std::uint32_t capacity = 0;           // 0: a lock
  std::map<Text, std::int64_t> deaths;  // of a process: not before
  std::map<Text, std::int64_t> gone;    // and not after

  /// When a call had its last effect, but for a place in a queue that is left behind.
  [[nodiscard]] std::int64_t end_ns(const Operation& o) const {
    const auto at = gone.find(o.process());
    return o.returned() || at == gone.end() ? o.return_ns : at->second;
  }
};

/// A call may take effect at several moments, each of which is a step of its own.
enum class Part : std::uint8_t {
  call,       ///< what it answers
  passing,    ///< only that: a grant that is lost before its waiter wakes
  queued,     ///< a waiter of a semaphore has its place in the queue
  news,       ///< of permits: is there somebody to follow?
  available,  ///< of permits that were refused: what is free
};

struct Step : Operation {
  std::int64_t latest_ns = no_return;  ///< without a return: takes effect until then, or never
  bool fleeting = false;               ///< the hold may be lost before the call returns
  Part part = Part::call;
  friend bool operator==(const Step&, const Step&) = default;

  /// A step that need not come.
  [[nodiscard]] Step possible(Part which, std::int64_t until_ns) const {
    Step step = *this;
    step.part = which;
    step.latest_ns = until_ns;
    step.return_ns = no_return;
    return step;
  }
};

struct Holder {  // C-50: the same id in another session is another holder
  Text process;
  Text id;
  bool passing = false;
  friend bool operator==(const Holder&, const Holder&) = default;

  [[nodiscard]] std::uint64_t mixed_into(std::uint64_t h) const {
    h = sim::mix(h, std::hash<std::string_view>{}(process));
    return sim::mix(h, std::hash<std::string_view>{}(id) + (passing ? 1U : 0U));
  }
};

/// Who lost a hold is told why by its next release or heartbeat (its session remembers that), until it releases or
/// acquires.
struct Owed {
  Holder holder;
  Loss why = Loss::none;
  std::uint32_t weight = 0;
  friend bool operator==(const Owed&, const Owed&) = default;
};

auto find_owed(auto& owed, const Holder& holder) {
  return std::find_if(owed.begin(), owed.end(), [&](const Owed& o) { return o.holder == holder; });
}
inline void forget(std::vector<Owed>& owed, const Holder& holder) {
  const auto at = find_owed(owed, holder);
  if (at != owed.end()) owed.erase(at);
}
inline void remember(std::vector<Owed>& owed, const Owed& loss) {
  forget(owed, loss.holder);
  if (loss.why != Loss::died && !loss.holder.passing) owed.push_back(loss);  // the dead do not ask
}

inline bool says(const Operation& o, std::string_view answer) {
  return !o.returned() || std::string_view(o.answer) == answer;
}

/// How often a hold that the call acquires may be lost before it returns: by an operator, or, of one that the machine
/// let sleep for long, by its lease.
inline std::int64_t robberies(const History& operations, const Operation& o, const ObjectFacts& facts) {
  const std::int64_t end_ns = facts.end_ns(o);
  const auto forced = [&](const Operation& other) {
    if (other.verb != Verb::force_release || (!other.holder.empty() && other.holder != o.holder)) return false;
    const bool robs = std::string_view(other.answer) == to_string(core::MaintenanceResult::reclaimed);
    return (robs || !other.returned()) && other.call_ns <= end_ns && o.call_ns <= other.return_ns;
  };
  const core::LockConfig& c = facts.config;
  std::int64_t lease_ns = o.ttl_ns != 0 ? o.ttl_ns : c.ttl_ns != 0 ? c.ttl_ns : c.stale_threshold_ns;
  if (c.max_hold_ns != 0) lease_ns = std::min(lease_ns, c.max_hold_ns);
  const std::int64_t asleep_ns = end_ns == no_return ? 0 : end_ns - o.call_ns;
  return std::count_if(operations.begin(), operations.end(), forced) + asleep_ns / std::max(lease_ns, std::int64_t{1});
}

}  // namespace shmcoord::test
