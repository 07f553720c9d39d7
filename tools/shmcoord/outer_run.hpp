#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "process/primitive_client.hpp"

// A `run` inside of the command of another `run` that holds the same lock would wait for itself: the outer one gives
// the lock back only when its command has ended.
//
// So each `run` tells its command in SHMCOORD_HELD what it and those around it hold, as numbers that fit one hold only:
// "<segment id>:<record>:<generation>:<token>", comma separated, the nearest first. Names would not do, since a segment
// may be removed and made again, be named in two ways, and a lock's name may contain any separator; and the variables
// that people use tell of the nearest `run` only. A hold that ended since then, or a variable that was inherited by
// something that outlived its `run`, names a token that is not current any more, and hinders nobody.
//
// Not seen: what lost its environment on the way (sudo, ssh, a service manager), and the hold of a `run` with
// --no-wait-tree, which may end before a process that its command started, so that waiting for it can be meant. Such a
// one waits, and says for whom.

namespace shmcoord::tool {

struct OuterHold {
  const process::PrimitiveClient* client;
  std::uint64_t token;
};

/// "SHMCOORD_HELD=…" for a command: these, and what was inherited.
[[nodiscard]] std::string held_environment(const std::vector<OuterHold>& holds);

/// Would who waits for this wait in vain for a `run` whose command we are part of? That is so when such a one holds the
/// lock, or so much of the semaphore that the request does not fit beside it; or, of a wait without end, that another
/// one before it in the queue does not. With a deadline that one may give up before.
[[nodiscard]] bool waits_for_outer_run(process::PrimitiveClient& client, const process::Request& request,
                                       std::int64_t deadline_ns);

}  // namespace shmcoord::tool
