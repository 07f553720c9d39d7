#pragma once

#include <functional>

#include "shmcoord/adapters_program.hpp"

namespace shmcoord::tool {

/// An AddAdapters.
[[nodiscard]] std::function<void()> add_adapters(GuardPorts& ports, const AskOptions& options);

}  // namespace shmcoord::tool
