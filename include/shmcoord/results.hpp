#pragma once

// What the calls of a lock answer, as values.
//
// Busy, not owner, timed out and the like are everyday outcomes, so they are results and never exceptions; a result
// that is dropped would hide a lost lock, so every call that returns one is [[nodiscard]]. The enumerators are part of
// the contract: texts of the tool and JSON fields come from to_string, so an existing text never changes.

#include <cstdint>
#include <string_view>

namespace shmcoord {

/// Why a holder lost its hold without releasing it (C-52). `none` says that it did not.
enum class Loss : std::uint8_t {
  none,
  died,           ///< its death was proven; no lease had to run out
  stale,          ///< no heartbeat for longer than the stale threshold (S1-149, C-30)
  expired,        ///< the deadline of its own ttl passed (S2-9, C-30, C-51)
  held_too_long,  ///< held longer than max_hold_duration, heartbeats notwithstanding (C-2)
  forced,         ///< taken away by an operator
};

/// Outcome of an acquire. The first four are all that one try can give (S0-16); the others end a wait.
enum class AcquireResult : std::uint8_t {
  acquired,   ///< it was free and is now the caller's (S0-12)
  extended,   ///< it was the caller's already; refreshed, same token (S0-13, C-4)
  reclaimed,  ///< taken over from a holder that lost it (S0-14)
  busy,       ///< another holds it; nothing changed (S0-15)
  timed_out,  ///< the deadline of the wait passed
  cancelled,  ///< the wait was stopped by its stop token
  deadlock,   ///< the wait closed a circle of waits, and was the last to begin
};

/// Outcome of a release (S0-21).
enum class ReleaseResult : std::uint8_t { released, not_owner, already_free };

/// Outcome of an acquire of permits. The first four are all that one try can give (S0-36); the others end a wait.
enum class PermitResult : std::uint8_t {
  acquired,      ///< the weight is the caller's (S0-32)
  already_held,  ///< it had as much or more; refreshed, nothing lowered (S0-29)
  increased,     ///< it had less, and has the weight now (S0-30)
  full,          ///< it does not fit; what the caller had it still has (S0-31, S0-33)
  timed_out,     ///< the deadline of the wait passed
  cancelled,     ///< the wait was stopped by its stop token
  deadlock,      ///< the wait closed a circle of waits, and was the last to begin
};

/// Outcome of a release of permits (S0-34, S0-35).
enum class PermitRelease : std::uint8_t { released, not_holder };

/// Outcome of a heartbeat or a renewal (S0-22).
enum class HeartbeatResult : std::uint8_t { refreshed, not_owner };

/// True if the caller holds the lock after this outcome (C-7).
[[nodiscard]] constexpr bool is_held(AcquireResult result) noexcept {
  return result == AcquireResult::acquired || result == AcquireResult::extended || result == AcquireResult::reclaimed;
}

/// True if the caller holds what it asked for after this outcome.
[[nodiscard]] constexpr bool is_held(PermitResult result) noexcept {
  return result == PermitResult::acquired || result == PermitResult::already_held || result == PermitResult::increased;
}

// A value outside of the enumeration can only come from damaged memory. The texts below say "unknown" for it, because
// the tool that inspects a damaged segment must be able to print what it found.

[[nodiscard]] constexpr std::string_view to_string(Loss loss) noexcept {
  switch (loss) {
    case Loss::none: return "none";
    case Loss::died: return "died";
    case Loss::stale: return "stale";
    case Loss::expired: return "expired";
    case Loss::held_too_long: return "held_too_long";
    case Loss::forced: return "forced";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(AcquireResult result) noexcept {
  switch (result) {
    case AcquireResult::acquired: return "acquired";
    case AcquireResult::extended: return "extended";
    case AcquireResult::reclaimed: return "reclaimed";
    case AcquireResult::busy: return "busy";
    case AcquireResult::timed_out: return "timed_out";
    case AcquireResult::cancelled: return "cancelled";
    case AcquireResult::deadlock: return "deadlock";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(ReleaseResult result) noexcept {
  switch (result) {
    case ReleaseResult::released: return "released";
    case ReleaseResult::not_owner: return "not_owner";
    case ReleaseResult::already_free: return "already_free";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(HeartbeatResult result) noexcept {
  switch (result) {
    case HeartbeatResult::refreshed: return "refreshed";
    case HeartbeatResult::not_owner: return "not_owner";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(PermitResult result) noexcept {
  switch (result) {
    case PermitResult::acquired: return "acquired";
    case PermitResult::already_held: return "already_held";
    case PermitResult::increased: return "increased";
    case PermitResult::full: return "full";
    case PermitResult::timed_out: return "timed_out";
    case PermitResult::cancelled: return "cancelled";
    case PermitResult::deadlock: return "deadlock";
  }
  return "unknown";
}

[[nodiscard]] constexpr std::string_view to_string(PermitRelease result) noexcept {
  switch (result) {
    case PermitRelease::released: return "released";
    case PermitRelease::not_holder: return "not_holder";
  }
  return "unknown";
}

}  // namespace shmcoord
