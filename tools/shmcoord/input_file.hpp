#pragma once

#include <cstddef>
#include <string>

// What somebody wrote for us to read.

namespace shmcoord::tool {

/// A file, a pipe that somebody writes into (`<(jq …)`), or "-", standard input; no more than `most` bytes. Throws
/// UsageError that begins with `what`; `nothing` is what is never larger: "no condition".
[[nodiscard]] std::string content_of(const std::string& path, const std::string& what, std::size_t most,
                                     const std::string& nothing);

}  // namespace shmcoord::tool
