#pragma once

#include <gtest/gtest.h>

#include <string>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/segment_check.hpp"

namespace shmcoord::test {

/// Whatever a test did to the segment, and whoever it killed: no invariant is broken at its end.
inline void expect_sound(const engine::Mapping& mapping) {
  for (const process::Finding& f : process::check_segment(mapping, engine::RealPolicy::now_ns()).findings) {
    if (f.kind == process::Finding::Kind::damage) ADD_FAILURE() << "segment damaged: " << f.where << ": " << f.what;
  }
}

}  // namespace shmcoord::test
