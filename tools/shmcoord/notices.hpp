#pragma once

#include <vector>

#include "shmcoord/render.hpp"

// What works less well than it could, and what that costs: kernels without a call, seccomp filters, a /proc that is
// missing or hides things. Everybody finds out for itself and does without; here the operator is told.
//
// What is missing around other sessions stands in their slots. What is missing around this process is asked now.

namespace shmcoord::tool {

[[nodiscard]] std::vector<Notice> notices_of(const Scene& scene);

}  // namespace shmcoord::tool
