#pragma once

#include <cstdint>
#include <map>

#include "engine/segment_file.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/coordination_manager.hpp"

// Warnings of holds in a segment that may be taken away (C-16).
//
// Problem: a hold stays stale until somebody takes it, and who watches must hear of that once, not at each look. The
// machines keep a bit for it in their state; a segment keeps none, since any number of processes may warn, and each
// warns for itself: what it warned of is its own memory.
//
// Invariant: one warning in an episode, which ends when the holder was heard of again and safe by that.
//
// If we die here: whoever warns next has nothing in memory and warns once more.

namespace shmcoord::coordination {

class StaleWarnings {
 public:
  enum class Journal : bool { left_out, told };

  /// Those that are due at that time: of locks by name, then of semaphores by name; of one name by tokens. A pass that
  /// takes away with the same `now_ns` takes nothing that was not warned of.
  Effects warn(const engine::Mapping& mapping, std::int64_t now_ns, Journal journal = Journal::told);

 private:
  struct HoldKey {
    engine::RecordIndex record;
    std::uint64_t generation;
    std::uint64_t token;
    friend auto operator<=>(const HoldKey&, const HoldKey&) = default;
  };
  [[nodiscard]] bool is_warned(const engine::View& view, const process::LockView& seen,
                               const process::GrantView& grant) const;

  std::map<HoldKey, std::int64_t> warned_;  // with heard_after_ns() then
};

}  // namespace shmcoord::coordination
