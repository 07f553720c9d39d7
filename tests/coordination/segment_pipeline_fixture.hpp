#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "coordination/guard_flag_fixture.hpp"
#include "process/face.hpp"
#include "shmcoord/segment_pipeline.hpp"

// What the tests of pipelines in a segment have in common.

namespace shmcoord {

using Result = PipelineRunResult;

/// What was told, in its order, by a subscriber of its own.
class Heard {
 public:
  Heard(Session& session, std::vector<std::string> patterns)
      : subscription_(session, std::move(patterns), [this](const Event& e) {
          const std::scoped_lock lock(mutex_);
          all_.push_back(std::string(e.name()) + " " + e.subject + " " + e.other);
          changed_.notify_all();
        }) {}
  /// Waits for it.
  bool has(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return std::find(all_.begin(), all_.end(), text) != all_.end(); });
  }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
  Subscription subscription_;  // last: it uses the others
};

class SegmentPipelines : public GuardFlags {
 protected:
  [[nodiscard]] GuardExecutor executor() const {
    return GuardExecutor{{.primitives = primitives_of(segment_),
                          .sessions = sessions_of(segment_),
                          .files = files_,
                          .pipelines = pipelines_of(segment_)}};
  }
  /// That remembers what it ran.
  PipelineRunOptions options(std::vector<std::string>& ran) const {
    PipelineRunOptions o;
    o.recheck = 1h;  // nothing but events may wake it
    o.run_command = [&ran](const PhaseRun& run) {
      ran.push_back(run.pipeline.phase().name);
      return std::string();
    };
    return o;
  }
  [[nodiscard]] PipelineListing look(const std::string& id) const {
    for (const PipelineListing& one : SegmentPipeline::list(segment_)) {
      if (one.pipeline.id() == id) return one;
    }
    ADD_FAILURE() << "no pipeline '" << id << "'";
    return PipelineListing{Pipeline("none", {{.name = "none"}})};
  }
  [[nodiscard]] PipelineStatus status(const std::string& id) const { return look(id).pipeline.status(); }
  void wait_for(const std::string& id, PipelineStatus wanted) const {
    while (status(id) != wanted) ::usleep(1000);
  }
  /// A child that runs it, with a command that says where it is and then waits for ever.
  Child runner(const std::string& id) const {
    return Child([this, id](int ready) {
      Session session{segment_};
      SegmentPipeline p(session, id);
      PipelineRunOptions o;
      o.run_command = [&](const PhaseRun&) {
        testing::say(ready, 'i');
        ::pause();
        return std::string();
      };
      (void)p.run(executor(), o);
      testing::say(ready, 'e');
      ::pause();
    });
  }
  static GuardedPhase phase(const std::string& name) { return {.name = name, .command = {"x"}}; }
};

}  // namespace shmcoord
