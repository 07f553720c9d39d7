#pragma once

#include <memory>
#include <string>

#include "process/face.hpp"
#include "shmcoord/segment_pipeline.hpp"

// What a handle of a pipeline holds: a name. What it is about is read anew with each call.

namespace shmcoord {

struct SegmentPipeline::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::string id;

  static const State& present(const std::unique_ptr<State>& state) {
    if (!state) throw Error(Errc::invalid_argument, "the handle was moved from: use the one that it was moved to");
    return *state;
  }
};

}  // namespace shmcoord
