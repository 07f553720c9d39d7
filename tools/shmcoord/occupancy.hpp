#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "process/primitive_client.hpp"

// Who has a lock or a semaphore, as messages say it: a lock with its one holder or those who share it, a semaphore with
// what is free and who has how much.

namespace shmcoord::tool {

/// "lock 'deploy'", fit to be printed.
[[nodiscard]] std::string title_of(const process::PrimitiveClient& client);

/// "held by a (pid 1) for 3s …", "shared by a …; b …; and 3 more", "3 of 8 free, held: 5 by a …; …", and why it may
/// take long if a holder is dead and kept, or cannot be judged from here. Of a lock that nobody holds: empty.
/// `last_seen`: whom the caller found, should it be free by now.
[[nodiscard]] std::string occupancy_text(process::PrimitiveClient& client,
                                         const std::optional<HolderInfo>& last_seen = std::nullopt);

/// "a … for 3s; b …; and 3 more"; of a semaphore "5 by a …; 1 by b …".
[[nodiscard]] std::string holders_text(engine::Kind kind, const std::vector<PermitHolder>& holders);

/// "lock 'deploy': previous holder first (pid 123) died; taking over"
[[nodiscard]] std::string takeover_text(const process::PrimitiveClient& client, const Previous& previous);

}  // namespace shmcoord::tool
