#pragma once

#include <cstdint>
#include <string_view>

#include "engine/layout.hpp"

// Is the participant in that slot alive, and how do we know?
//
// dead = OWNER_DIED in its life word, and (both of its byte locks free, or every task of its process is exiting).
// Neither half is enough: the word speaks for one thread only, and the byte lock is lost when the process closes some
// other descriptor of the file. Everything that cannot be decided counts as alive: taking a lock from a live holder is
// the worse mistake, and the heartbeat remains.
//
// Also dead, without a life word: a slot still `joining` whose byte is free (its claimer died between two steps), a
// slot without a life word (set_robust_list refused) whose byte is free and whose process is gone or has missed two
// beats, a slot of an earlier boot of the host, and one that is `dying` or has moved on to another incarnation.
//
// The judgement itself is in session_slots.hpp; tests/model/life.pml checks it together with joining, leaving and
// burying.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

using engine::EntryIndex;
using engine::Mapping;
using engine::SlotIndex;

enum class Life : std::uint8_t {
  alive,
  dying,    ///< OWNER_DIED, but some task may still be inside a system call: wait for the confirmation
  dead,     ///< proven; it may be buried
  unknown,  ///< no way to tell: treated as alive, the heartbeat decides
};

enum class Proof : std::uint8_t {
  none,
  own_process,          ///< this process itself owns the slot
  permanent,            ///< the slot of the detached
  life_word,            ///< no OWNER_DIED
  byte_lock,            ///< the slot has no life word; its byte is locked
  life_word_and_byte,   ///< OWNER_DIED and the bytes free (dead) or not (dying)
  life_word_and_tasks,  ///< OWNER_DIED, and every task of the process is exiting or gone
  process_and_byte,     ///< no notice, but the process is gone and the bytes are free
  heartbeat_and_byte,   ///< no life word, bytes free, process not judged; two beats were missed (dead) or not (unknown)
  joiner_gone,          ///< died while it joined
  buried,               ///< somebody proved it before, or the slot went on to another incarnation
  earlier_boot,
  bound_process,  ///< of a detached hold; unknown: that process cannot be seen from here
  heartbeat_only,
};

[[nodiscard]] std::string_view to_string(Life life) noexcept;
[[nodiscard]] std::string_view to_string(Proof proof) noexcept;

struct LifeReport {
  Life life = Life::unknown;
  Proof proof = Proof::none;
};

/// quick: what the life word and the byte say, one load when it is alive. thorough: also reads /proc, which sees that
/// every task is exiting before the memory of a large process is torn down, and a death whose notice was lost.
enum class Look : std::uint8_t { quick, thorough };

/// Of whoever is in the slot now; a free slot is dead (buried).
[[nodiscard]] LifeReport life_of(const Mapping& mapping, SlotIndex slot, Look look = Look::quick);
/// Of that incarnation (the low 48 bits are compared, as chunks name their owner by them).
[[nodiscard]] LifeReport life_of(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation,
                                 Look look = Look::quick);
/// Of the owner of an entry: its session, or for a detached entry the process that it is bound to.
[[nodiscard]] LifeReport life_of_entry(const Mapping& mapping, EntryIndex entry, Look look = Look::quick);

/// After OWNER_DIED: waits until the death is confirmed; polls with pauses of 20 us growing to 2 ms, since no event
/// tells that a lock byte became free. False at the deadline, or if the incarnation is alive.
[[nodiscard]] bool confirm_death(const Mapping& mapping, SlotIndex slot, std::uint64_t incarnation,
                                 std::int64_t deadline_ns);

}  // namespace shmcoord::process
