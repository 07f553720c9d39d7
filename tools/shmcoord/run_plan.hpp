#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "process/primitive_client.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/arguments.hpp"
#include "shmcoord/run_guardian.hpp"

// What `run` was told to do: the words checked and put in order, before anything is touched.

namespace shmcoord::tool {

struct Wanted {
  engine::Kind kind = engine::Kind::lock;
  std::string name;
  std::uint32_t weight = process::whole_lock;
};

struct Plan {
  // In the order in which everybody takes several (process/acquire_all.hpp).
  std::vector<Wanted> wanted;
  std::string first;  // SHMCOORD_TOKEN is its token: of the locks as typed with -l, else of all as typed
  std::string holder;
  std::string reason;
  std::optional<std::chrono::nanoseconds> ttl;
  WaitRule wait;
  GuardianTask task;
};

/// Throws UsageError.
[[nodiscard]] Plan plan_of(const Arguments& arguments);

}  // namespace shmcoord::tool
