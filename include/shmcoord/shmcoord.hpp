#pragma once

// The whole public face of shmcoord, but for the components (adapters.hpp, tasks.hpp) and the fakes (testing.hpp).

#include "shmcoord/acquire_all.hpp"           // IWYU pragma: export
#include "shmcoord/clock.hpp"                 // IWYU pragma: export
#include "shmcoord/condition.hpp"             // IWYU pragma: export
#include "shmcoord/coordination_manager.hpp"  // IWYU pragma: export
#include "shmcoord/deadlock.hpp"              // IWYU pragma: export
#include "shmcoord/error.hpp"                 // IWYU pragma: export
#include "shmcoord/event.hpp"                 // IWYU pragma: export
#include "shmcoord/guard.hpp"                 // IWYU pragma: export
#include "shmcoord/guard_executor.hpp"        // IWYU pragma: export
#include "shmcoord/guard_flag.hpp"            // IWYU pragma: export
#include "shmcoord/holder_id.hpp"             // IWYU pragma: export
#include "shmcoord/issue_list.hpp"            // IWYU pragma: export
#include "shmcoord/lock.hpp"                  // IWYU pragma: export
#include "shmcoord/maintenance.hpp"           // IWYU pragma: export
#include "shmcoord/pipeline.hpp"              // IWYU pragma: export
#include "shmcoord/results.hpp"               // IWYU pragma: export
#include "shmcoord/segment.hpp"               // IWYU pragma: export
#include "shmcoord/segment_pipeline.hpp"      // IWYU pragma: export
#include "shmcoord/semaphore.hpp"             // IWYU pragma: export
#include "shmcoord/session.hpp"               // IWYU pragma: export
#include "shmcoord/shared_lock.hpp"           // IWYU pragma: export
#include "shmcoord/snapshot.hpp"              // IWYU pragma: export
