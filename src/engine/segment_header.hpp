#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/layout.hpp"

// What a segment says about itself, and whether this process may believe it. The header is copied out of the file
// before anything is mapped, so a short, foreign or damaged file is refused without a single access that could fault.
// Everything that decides where a table stands follows from the three sizes, so those are bounded before they are used.

namespace shmcoord::engine {

/// Of the machine and the namespaces that this process runs in.
struct HostFacts {
  std::array<std::uint8_t, 16> boot_id{};  // all zero: unknown
  std::uint64_t time_namespace = 0;        // 0: unknown

  static HostFacts read();
};

/// Nothing when the sizes are within what index widths allow, else what is wrong.
std::string check_sizes(const Sizes& sizes);

/// Below the first token of a segment made at that time (nanoseconds since 1970): the microseconds since 2020, so that
/// a segment that replaces another one of its name gives greater tokens, unless the clock was wrong or the old one gave
/// out more than a million a second over its life. No lock will miss them: until the year 2162 half of all sequences
/// are left.
[[nodiscard]] std::uint64_t first_token_floor(std::int64_t created_wall_ns) noexcept;

/// The header of a new segment.
Header make_header(const Sizes& sizes, const HostFacts& facts, std::uint64_t segment_id);

struct HeaderVerdict {
  Geometry geometry;
  bool from_earlier_boot = false;
};

/// Throws Error (segment_foreign, segment_version, segment_corrupt, unsupported) with both sides; `what` names the
/// segment.
HeaderVerdict check_header(const Header& header, std::uint64_t file_bytes, const HostFacts& facts,
                           const std::string& what);

}  // namespace shmcoord::engine
