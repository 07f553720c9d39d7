#pragma once

#include <string>
#include <vector>

#include <boost/json/fwd.hpp>

#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/snapshot.hpp"

// What was saved and what came back, for people and for programs.

namespace shmcoord::tool {

/// "1 locks, 0 semaphores, 2 guards, 0 pipelines, 3 holds"
[[nodiscard]] std::string counts_text(const SnapshotCounts& counts);
[[nodiscard]] boost::json::object counts_json(const SnapshotCounts& counts);

/// A line for each hold that did not come back, or not with its token; fit to be printed, without a line break.
[[nodiscard]] std::vector<std::string> exceptions_of(const RestoreReport& report);
/// "restored", "left_out", "new_tokens" as members.
void add_restored(boost::json::object& to, const RestoreReport& report);

/// A file of the caller's that cannot be read or written is no fault of ours, as a segment that cannot be used is none.
template <class Body>
auto with_file(Body&& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.errc() == Errc::system) throw Refusal{exit_unusable, name_of(Errc::system), e.what()};
    throw;
  }
}

}  // namespace shmcoord::tool
