#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/layout.hpp"

// What a snapshot says, as a value and as text.
//
// The text is one document of JSON with a name in each line, and at its end a checksum for each line: so a damage is
// found before anything is believed, and has a place.

namespace shmcoord::coordination {

inline constexpr int snapshot_version = 3;
/// Of all that it says; some 146 years.
inline constexpr std::int64_t longest_duration_ns = std::int64_t{1} << 62U;

struct SavedHold {
  enum class Of : std::uint8_t { detached, process, session };
  std::string holder;
  std::uint32_t weight = 1;
  bool shared = false;  // of a lock
  std::uint64_t token = 0;
  std::string reason;
  std::int64_t held_ns = 0;    // ages
  std::int64_t silent_ns = 0;  // since its last sign of life
  std::int64_t ttl_ns = 0;     // 0: none
  bool leased = true;          // else only its process or the operator ends it
  Of of = Of::detached;
  std::int32_t pid = 0;
  std::uint64_t process_start = 0;  // of one that is bound to a process
  std::string session;              // label and command, for people
  std::string command;
  friend bool operator==(const SavedHold&, const SavedHold&) = default;
};

struct SavedName {
  engine::Kind kind = engine::Kind::lock;
  std::string name;
  // Of locks and semaphores.
  std::uint32_t capacity = 0;     // of a semaphore
  std::uint32_t per_session = 0;  // likewise
  std::int64_t stale_threshold_ns = 0;
  std::int64_t heartbeat_interval_ns = 0;
  std::int64_t ttl_ns = 0;
  std::int64_t max_hold_ns = 0;
  std::vector<SavedHold> holders;  // by token
  // Of a guard or a pipeline.
  std::string definition;  // JSON
  std::string progress;    // likewise; of a pipeline
  friend bool operator==(const SavedName&, const SavedName&) = default;
};

struct SavedState {
  std::int64_t saved_wall_ns = 0;  // for people
  std::string boot;                // hexadecimal
  std::string segment;             // the name or path that it was opened by
  std::string instance;            // hexadecimal: of all segments of that name, which one (Header::segment_id)
  engine::Sizes sizes;
  std::uint32_t flags = 0;  // HeaderFlag
  std::uint32_t mode = 0600;
  std::uint32_t group = 0;
  std::uint64_t token_reserved = 0;
  std::vector<SavedName> names;  // by name
  friend bool operator==(const SavedState&, const SavedState&) = default;
};

[[nodiscard]] std::string text_of(const SavedState& state);
/// Throws Error(snapshot_damaged or segment_version) that begins with `file` and says where; nothing in it that could
/// not have been saved is taken.
[[nodiscard]] SavedState state_from(std::string_view text, const std::string& file);

}  // namespace shmcoord::coordination
