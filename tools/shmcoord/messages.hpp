#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shmcoord/error.hpp"
#include "shmcoord/lock.hpp"

// What the tool says to people. Every message about a lock names the lock, who has it, since when and why.

namespace shmcoord::tool {

/// An error whose exit code is known where it is thrown.
struct Refusal {
  int code;
  std::string text;
};

/// "shmcoord: <text>" and a line break on standard error, in one write.
void say(std::string_view text);
/// The text and a line break on standard output; throws Error(system) when it cannot be written.
void print_line(std::string_view text);
/// As it is, all of it; throws likewise.
void write_out(std::string_view text);

/// "pipeline:42 (pid 123, make deploy) for 3m12s since 14:03:11, reason: rev=abc"
[[nodiscard]] std::string describe(const HolderInfo& holder);
/// "first (pid 123)"
[[nodiscard]] std::string describe(const Previous& previous);
/// "lock 'deploy': previous holder first (pid 123) died; taking over"
[[nodiscard]] std::string takeover_text(std::string_view lock, const Previous& previous);
/// "taken away by an operator", …
[[nodiscard]] std::string_view describe(Loss why);

/// "lock 'deploy' is busy: held by …"; `how` is "is busy", "was not free within 5s".
[[nodiscard]] std::string busy_text(std::string_view lock, std::string_view how,
                                    const std::optional<HolderInfo>& holder);

[[nodiscard]] int exit_code_of(Errc code);

/// Throws UsageError when it cannot be the name of what `what` says ("lock name", "holder id").
void require_name(std::string_view what, std::string_view name);

}  // namespace shmcoord::tool
