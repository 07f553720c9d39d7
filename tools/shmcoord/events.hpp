#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shmcoord/event.hpp"
#include "shmcoord/global.hpp"

namespace shmcoord::tool {

struct EventsArgs {
  Global global;
  std::vector<std::string> patterns;   // of which one must match; none: every event
  std::optional<std::uint64_t> since;  // with what the journal still has from that number on
  bool follow = true;
};

/// Prints events until SIGINT or SIGTERM, or the end of the journal.
int events_command(const EventsArgs& args);

/// One line for people, and for programs. `wall_ns`: when it was written down, in nanoseconds since 1970.
[[nodiscard]] std::string event_text(const Event& event, std::int64_t wall_ns);
[[nodiscard]] std::string event_json(const Event& event, std::int64_t wall_ns);

}  // namespace shmcoord::tool
