#pragma once

// What may be sent to a terminal.

namespace shmcoord::tool {

/// Is this a terminal that obeys control sequences, as far as TERM says? Where it is "dumb", or nothing is said of it,
/// they would be shown.
[[nodiscard]] bool obeys_sequences(int fd) noexcept;

}  // namespace shmcoord::tool
