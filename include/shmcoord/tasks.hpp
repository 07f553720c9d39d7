#pragma once

// Everything for coroutines. A component of its own: link shmcoord::tasks. Shows Boost.Asio, which its users use.

#include "shmcoord/tasks/future.hpp"     // IWYU pragma: export
#include "shmcoord/tasks/scheduler.hpp"  // IWYU pragma: export
#include "shmcoord/tasks/semaphore.hpp"  // IWYU pragma: export
#include "shmcoord/tasks/shared.hpp"     // IWYU pragma: export
