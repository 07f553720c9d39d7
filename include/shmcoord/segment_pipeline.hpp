#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shmcoord/guard_executor.hpp"
#include "shmcoord/pipeline.hpp"
#include "shmcoord/session.hpp"

// Pipelines that lie in a segment (C-59): what they are and how far they came, for all processes to see. One process
// runs one; when it dies, the pipeline stays where it was, and another process goes on with it.
//
//   auto release = SegmentPipeline::add(session, Pipeline::parse_json(text));
//   release.run(executor, {.run_command = [](const PhaseRun& run) { return build(run.pipeline.phase().name); }});

namespace shmcoord {

/// Who runs a pipeline.
struct PipelineRunner {
  std::int32_t pid = 0;      ///< in its own namespace
  std::string session = {};  ///< the label of its session
  std::chrono::steady_clock::time_point since = {};
  bool alive = true;  ///< false: it died; whoever resumes it takes over, as soon as all that it started has ended
};

/// A pipeline as it was seen.
struct PipelineListing {
  Pipeline pipeline;
  std::optional<PipelineRunner> runner = {};  ///< nothing: nobody runs it
};

/// A phase whose command is to be run.
struct PhaseRun {
  const Pipeline& pipeline;
  std::string holder;                                         ///< of its locks and permits: "pipeline:ID" (S0-9)
  std::vector<std::pair<std::string, std::uint64_t>> tokens;  ///< of each lock and semaphore, in the order of acquiring
  /// Requested when there is no point in going on: the runner is stopped, the pipeline was cancelled, or a lock was
  /// lost. The command has to be ended before the function returns: whatever it holds is free afterwards.
  std::stop_token stop;
};

struct PipelineRunOptions {
  /// Runs the command of a phase, in the calling thread. Answers why it failed; empty: it did not. May be left out if
  /// no phase has a command. What it throws ends the run, and leaves the pipeline where it is.
  std::function<std::string(const PhaseRun& run)> run_command = {};
  /// Ends the run between two steps and in waits; the pipeline can be resumed.
  std::stop_token stop = {};
  std::chrono::nanoseconds recheck = std::chrono::seconds(1);              ///< as GuardWaitOptions::recheck
  std::chrono::nanoseconds evaluation_timeout = std::chrono::seconds(30);  ///< as GuardExecutor::Limits::timeout
  std::string directory = {};                                              ///< as GuardWaitOptions::directory
  int kept_open = -1;                                                      ///< as GuardDeadline::kept_open, of guards
  /// Told of each guard that failed and only warns (S0-59): its name and why. By the calling thread.
  std::function<void(const std::string& guard, const std::string& reason)> on_warning = {};
  /// Told each state, from the first on, when it is in the segment. By the calling thread.
  std::function<void(const Pipeline& pipeline)> on_change = {};
};

enum class PipelineRunResult : std::uint8_t {
  done,
  failed,     ///< Pipeline::failure() says why; it can be resumed, with what it failed at
  cancelled,  ///< by somebody else
  stopped,    ///< by the caller; it can be resumed
  lost,       ///< somebody took it away by force; it can be resumed
  busy,       ///< another process runs it: nothing was done
};
[[nodiscard]] SHMCOORD_EXPORT std::string_view to_string(PipelineRunResult result) noexcept;

/// A handle of a pipeline in a segment. Cheap, move-only, thread-safe.
///
/// The id is a name of the segment, common with locks, semaphores and guards. It stays, also when it is over, until it
/// is removed or begun anew.
///
/// Errors, beside those of every call of a session: not_found (no pipeline of that id), wrong_type (the name is
/// something else), segment_corrupt.
class SHMCOORD_EXPORT SegmentPipeline {
 public:
  /// Puts it into the segment, as one that waits. In the place of one of that id that is over; one that waits and has
  /// the same definition is left as it is. Errors: in_use (one of that id is not over, and nobody runs it, or somebody
  /// does), table_full, no_space. If the process dies here, it is there as a whole or not at all, and the one before
  /// may be gone.
  static SegmentPipeline add(Session& session, const Pipeline& pipeline);
  /// The pipeline of that id; throws not_found if there is none.
  SegmentPipeline(Session& session, std::string_view id);
  SegmentPipeline(const SegmentPipeline&) = delete;
  SegmentPipeline& operator=(const SegmentPipeline&) = delete;
  SegmentPipeline(SegmentPipeline&&) noexcept;
  SegmentPipeline& operator=(SegmentPipeline&&) noexcept;
  ~SegmentPipeline();

  [[nodiscard]] const std::string& id() const noexcept;
  /// As it is now.
  [[nodiscard]] PipelineListing look() const;

  /// Runs it from where it is: one that waits, one whose runner died or was stopped, one that failed. Of one that is
  /// done or cancelled nothing is done but to say so. Returns when it is over, or cannot go on here.
  ///
  /// A phase is entered when its pre guard passed and then all its locks and permits were acquired (in the order of
  /// acquire_all(), each wait FIFO); it holds them until it is left, behind its post guard. What a guard saw may have
  /// changed by the time that the locks are held: what must not change belongs under a lock that all who change it
  /// take. A lock that is lost meanwhile fails the phase.
  ///
  /// If the process dies here: what the phase held is free at once, and the pipeline stays where it was, without a
  /// runner. Who resumes it evaluates the guard again that was not passed yet, and runs a command again whose end was
  /// not written down: so commands run at least once. Thread-safe: one runs it, the others get `busy`.
  PipelineRunResult run(const GuardExecutor& executor, const PipelineRunOptions& options = {});

  /// Ends it for good, whoever runs it: that one is told, ends its command and gives back what the phase held. That may
  /// take as long as the command does; what must not run twice belongs under a lock of its phase. False:
  /// it was over. If the process dies here: it is cancelled, or nothing happened; who runs it may notice only with its
  /// next step.
  bool cancel();

  /// All, by id. Needs no session and changes nothing.
  [[nodiscard]] static std::vector<PipelineListing> list(const Segment& segment);
  /// Takes it out. Errors: in_use (somebody runs it).
  static void remove(Session& session, std::string_view id);

 private:
  struct State;
  explicit SegmentPipeline(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// One evaluation for a phase of that pipeline, told as guard:evaluating and guard:passed or guard:failed with the
/// pipeline as `other` (S1-129, S1-130). What is worth another one is heard by a Subscription to
/// PhaseBlocked::wake_on (S1-131); SegmentPipeline::run() does both.
SHMCOORD_EXPORT GuardOutcome evaluate_phase_guard(Session& session, std::string_view pipeline, const Guard& guard,
                                                  const GuardExecutor& executor,
                                                  const GuardExecutor::Limits& limits = {});

/// The pipelines of a segment as what conditions ask: the phase that one is in, and whether it is done (S0-52, S0-72).
[[nodiscard]] SHMCOORD_EXPORT std::shared_ptr<GuardPipelines> pipelines_of(const Segment& segment);

}  // namespace shmcoord
