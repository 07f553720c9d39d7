#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordination/stored_text.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/segment_pipeline.hpp"

// Pipelines in a segment: what each is, how far it came, and who runs it.
//
// Problem. The definition never changes, but the state does, with every step, written by a process that may be killed,
// stopped for an hour, or replaced by another one meanwhile. What is read must be one state that somebody wrote as a
// whole, and never one that was overtaken; a runner must be alone, and be known to be gone the moment that it dies.
//
// All of it is holds of the pipeline's name, which has room for very many (its capacity is that of a lock):
//   the definition   a stored text (stored_text.hpp): detached, so it outlives its maker
//   the runner       a hold of its session, of so many permits that there is never a second one beside a text. It has
//                    no lease: a runner that is stopped is the runner still, one that is dead is none, as with every
//                    hold. Its token is the greatest so far: the fencing token of the run.
//   the state        a detached hold with the state as its reason (JSON). Its holder says of which definition, in which
//                    run, and has a tag that nobody else has: "state of 5f… in 7012 by 31…". Each step writes a new
//                    one and then gives back the one before.
//
// Which state counts (pipeline_states.hpp): they are taken in the order of their tokens, that is, of their writing.
// Each replaces the one before, but for one of an earlier run than that (its writer was overtaken), and nothing
// replaces `done` and `cancelled`. Those that do not count are given back by whoever comes across them, so taking them
// away must change nothing for those who read: what was overtaken goes before what kept it from counting. Who writes
// looks, and gives back what he sees in that order: what lay between two states when the later one was there, nobody
// adds to.
//
// Taking away, for good or to begin anew: only what was seen under the hold, by its holders, which nobody uses again;
// first the definition, after which the states are nobody's; the name when it is empty.
//
// Invariants.
//   L1  One runner at a time, by the hold. It begins with a state of its own, also when nothing changes by that: what
//       an earlier one writes from then on has a smaller run and does not count. What slips in before that is seen, as
//       is every other state that keeps its own from counting, when it looks at what it wrote.
//   L2  There is always a state that counts, or none was written yet and it waits: the next one is written before the
//       last one is given back.
//   L3  Who cancels writes `cancelled` with the run that it saw, and looks whether that counts. If not, a runner came
//       in between, and it tries again; if so, nothing after it counts. Then it takes the hold from the runner by
//       force, which is how that one learns of it.
//   L4  Only who has the runner's hold takes a pipeline away, so nobody removes what somebody else began. Who loses the
//       hold by force just then removes no other definition than the one that he saw; nor does who removes one that
//       nobody runs where there is no room for the hold: whoever begins to run it in between finds it gone.
//
// If we die here: before a state is written, the one before counts; between writing and giving back there are two, of
// which the later counts. The runner's hold goes with the session. Half taken away, there is no definition, or it has
// lost a part, and nothing is there. A state that was written for a name that was removed and made anew meanwhile has
// another definition's tag, and is nobody's.
//
// tests/coordination/pipeline_interleaving goes through all orders of these steps, with deaths, and without each rule.

namespace shmcoord::coordination {

struct StoredPipeline {
  StoredText text;
  Pipeline definition;  // none of it begun
  Pipeline pipeline;
  std::uint64_t run = 0;               // in which the state was written; 0: none was
  std::string state = {};              // the holder of the state that counts; empty: none was written
  std::vector<std::string> idle = {};  // the holders of those that do not, in the order in which they may go
  std::optional<process::GrantView> runner = {};
};

/// What a picture of the name says; nothing: none is there as a whole. Throws segment_corrupt. `known`: read before; if
/// it is of the same definition, that is not read again.
[[nodiscard]] std::optional<StoredPipeline> stored_pipeline(const process::LockView& seen,
                                                            const StoredPipeline* known = nullptr);
/// Throws wrong_type, segment_corrupt.
[[nodiscard]] std::optional<StoredPipeline> find_pipeline(const engine::Mapping& mapping, std::string_view id,
                                                          const StoredPipeline* known = nullptr);
[[nodiscard]] PipelineListing listing_of(StoredPipeline stored);
/// By id; those that are not whole or damaged are left out.
[[nodiscard]] std::vector<PipelineListing> list_pipelines(const process::Picture& picture);

/// As SegmentPipeline::add().
void add_pipeline(const std::shared_ptr<process::Participant>& participant, const Pipeline& pipeline);
/// From a snapshot, into a segment that nobody else has yet.
void restore_pipeline(const std::shared_ptr<process::Participant>& participant, const Pipeline& pipeline);
/// As SegmentPipeline::remove().
void remove_pipeline(const std::shared_ptr<process::Participant>& participant, std::string_view id);
/// As SegmentPipeline::cancel(); what is to be told of it. Nothing: it was over.
[[nodiscard]] std::optional<Pipeline::Step> cancel_pipeline(const std::shared_ptr<process::Participant>& participant,
                                                            std::string_view id);

/// To run a pipeline: the runner's hold, and who writes the state under it.
class RunnerHold {
 public:
  /// Throws not_found.
  RunnerHold(const std::shared_ptr<process::Participant>& participant, std::string_view id);
  RunnerHold(const RunnerHold&) = delete;
  RunnerHold& operator=(const RunnerHold&) = delete;
  /// Gives it back.
  ~RunnerHold();

  /// False: somebody else has it.
  bool take();
  /// And reads what is there now, in both cases; throws not_found.
  bool acquire();
  /// As it was when it was acquired, without us as its runner.
  [[nodiscard]] const StoredPipeline& found() const { return *found_; }
  /// Is it ours still?
  [[nodiscard]] bool stands() const;
  /// Called by another thread when it is taken away.
  void on_lost(std::function<void()> callback);
  /// False: it does not count, or there is more to do and the hold is not ours any more.
  bool write(const Pipeline& pipeline);
  /// What was there when the hold was taken, and the hold. Nothing, if it was lost since.
  void take_away();

 private:
  std::unique_ptr<process::PrimitiveClient> client_;
  std::string holder_;
  std::uint64_t token_ = 0;
  std::uint64_t callback_ = 0;
  std::optional<process::LockView> seen_;
  std::optional<StoredPipeline> found_;
};

}  // namespace shmcoord::coordination
