#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <span>
#include <utility>

#include "base/printable.hpp"
#include "coordination/guard_waiting.hpp"
#include "coordination/pipeline_store.hpp"
#include "coordination/segment_pipeline_state.hpp"
#include "process/acquire_all.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/snapshot.hpp"
#include "process/telling.hpp"

// Running a pipeline: one step after the other, each written into the segment before anything follows from it.
//
// A step: wait for the guard, acquire what the phase holds, or run its command; ask the rules (pipeline.cpp) what that
// leads to; write the state; tell. So whoever goes on after we died does at most the last step again.
//
// What ends a wait or a command early: the caller's stop, the loss of the runner's hold (somebody cancelled, or the
// operator took it), the loss of a hold of the phase. All three request one stop; what was lost is noted beside it.
//
// If we die here: all holds are our session's and end with it; the state says where to go on (pipeline_store.hpp).

namespace shmcoord {
namespace {

using process::Answer;
using process::PrimitiveClient;

/// One lock or semaphore of the phase.
struct PhaseHold {
  std::shared_ptr<PrimitiveClient> client;
  process::Request request;
  std::int64_t deadline_ns = process::no_deadline;
  std::stop_token stop = {};
  std::uint64_t token = 0;
  std::uint64_t callback = 0;

  Answer acquire() {
    Answer answer = client->acquire(request, deadline_ns, stop);
    token = answer.token;
    return answer;
  }
  void give_back() const noexcept {
    try {
      (void)client->release(request.holder);
    } catch (const std::exception&) {  // the segment is gone, and the hold with it
    }
  }
  [[nodiscard]] bool stands() const { return client->stands(request.holder, token); }
};

/// "lock 'main', held by 'alice' (pid 7)"; "semaphore 'agents', 0 of 8 free, and 2 are needed".
std::string waiting_for(const PhaseHold& hold) {
  std::string text = hold.client->title();
  if (hold.client->kind() == engine::Kind::semaphore) {
    const auto amounts = hold.client->amounts();
    return text + ", " + std::to_string(amounts.available()) + " of " + std::to_string(amounts.capacity) +
           " free, and " + std::to_string(hold.request.weight) + " needed";
  }
  const auto holder = hold.client->holder();
  if (!holder) return text;
  const std::string who = holder->holder.empty() ? "somebody" : "'" + base::printable(holder->holder) + "'";
  return text + ", held by " + who + (holder->pid == 0 ? "" : " (pid " + std::to_string(holder->pid) + ")");
}

void tell(const process::Participant& participant, const Event& event) {
  process::tell_event(participant.mapping().view(), event, static_cast<std::int32_t>(::getpid()));
}

void tell_guard(const process::Participant& participant, std::string_view pipeline, const Guard& guard, EventKind kind,
                const GuardOutcome* outcome = nullptr) {
  Event event;
  event.kind = kind;
  event.subject = guard.name;
  event.other = pipeline;
  const auto* const failed = outcome == nullptr ? nullptr : std::get_if<GuardFailed>(outcome);
  if (failed != nullptr) event.reason = failed->reason;
  tell(participant, event);
}

EventKind kind_of(const GuardOutcome& outcome) {
  return std::holds_alternative<GuardPassed>(outcome) ? EventKind::guard_passed : EventKind::guard_failed;
}

class Run {
 public:
  Run(const std::shared_ptr<detail::Access::SessionState>& session, const std::string& id,
      const GuardExecutor& executor, const PipelineRunOptions& options)
      : session_(session),
        id_(id),
        executor_(executor),
        options_(options),
        holder_(HolderId::from_pipeline(id).str()),
        hold_(session->participant, id),
        caller_stop_(options.stop, Stop{stop_}) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() { leave_phase(); }

  PipelineRunResult run() {
    hold_.on_lost([this] { stop_.request_stop(); });
    if (!hold_.acquire()) return PipelineRunResult::busy;
    pipeline_ = hold_.found().pipeline;
    if (pipeline_->status() == PipelineStatus::done) return PipelineRunResult::done;
    if (pipeline_->status() == PipelineStatus::cancelled) return PipelineRunResult::cancelled;
    for (const GuardedPhase& phase : pipeline_->phases()) {
      if (phase.command.empty() || options_.run_command) continue;
      throw Error(Errc::invalid_argument,
                  "phase '" + phase.name + "' has a command, and PipelineRunOptions::run_command is missing");
    }
    // Written also when nothing changes by it: what the one before may still write does not count then.
    if (!commit(pipeline_->resume(), true)) return taken_away();
    while (!is_over(pipeline_->status())) {
      if (stop_.stop_requested() && !lost_hold()) break;
      const std::size_t before = pipeline_->current();
      if (!step()) break;
      if (pipeline_->current() != before) leave_phase();
    }
    leave_phase();
    if (overtaken_ || !hold_.stands()) return taken_away();
    if (pipeline_->status() == PipelineStatus::done) return PipelineRunResult::done;
    return is_over(pipeline_->status()) ? PipelineRunResult::failed : PipelineRunResult::stopped;
  }

 private:
  struct Stop {
    std::stop_source& source;
    void operator()() const noexcept { source.request_stop(); }
  };

  /// False: we cannot go on.
  bool step() {
    const Pipeline& p = *pipeline_;
    const bool needs_holds = p.step() != PhaseStep::entering && p.phase().holds_anything();
    if (const auto lost = lost_hold()) return commit(p.fail(*lost));
    if (needs_holds && phase_holds_.empty()) return acquire_holds();
    if (const auto guard = p.guard_to_evaluate()) return pass(*guard);
    if (!p.runs_command()) return commit(p.finish_phase());
    std::string failure = options_.run_command(phase_run());
    if (const auto lost = lost_hold()) failure = *lost;
    // A command that was ended because we are to stop says nothing about the phase.
    if (stop_.stop_requested() && !lost_hold() && !failure.empty()) return false;
    return commit(pipeline_->finish_phase(failure));
  }

  bool pass(const Guard& guard) {
    const GuardType type = pipeline_->step() == PhaseStep::entering ? GuardType::pre : GuardType::post;
    GuardWaitOptions options;
    options.stop = stop_.get_token();
    options.recheck = options_.recheck;
    options.evaluation_timeout = options_.evaluation_timeout;
    options.directory = options_.directory;
    options.kept_open = options_.kept_open;
    coordination::GuardWaiting waiting(session_->participant, executor_, options, guard);
    const process::Participant& me = *session_->participant;
    std::optional<GuardOutcome> last;
    tell_guard(me, id_, guard, EventKind::guard_evaluating);
    for (;;) {
      const std::optional<GuardOutcome> outcome = waiting.evaluate();
      if (!outcome) return lost_hold().has_value();  // stopped; or the next step says what was lost
      const auto* const failed = std::get_if<GuardFailed>(&*outcome);
      const bool warns = failed != nullptr && may_proceed(*outcome);  // told as an effect of the step
      if (warns && options_.on_warning) options_.on_warning(guard.name, failed->reason);
      const bool another = !last || last->index() != outcome->index();
      if (another && !warns) tell_guard(me, id_, guard, kind_of(*outcome), &*outcome);
      if (outcome != last && !commit(pipeline_->apply_guard_result(type, *outcome))) return false;
      last = outcome;
      if (pipeline_->status() != PipelineStatus::blocked) return true;
      if (!waiting.until_worth_it()) return lost_hold().has_value();
    }
  }

  bool acquire_holds() {
    std::vector<PhaseHold> wanted;
    const GuardedPhase& phase = pipeline_->phase();
    reason_ = "phase " + phase.name;
    const auto want = [&](engine::Kind kind, const std::string& name, std::uint32_t weight) {
      PhaseHold hold;
      hold.client = session_->client(name, {.kind = kind});
      hold.request.holder = holder_;
      hold.request.weight = weight;
      hold.request.reason = reason_;
      hold.request.no_lease = true;
      hold.stop = stop_.get_token();
      wanted.push_back(std::move(hold));
    };
    try {
      for (const std::string& lock : phase.locks) want(engine::Kind::lock, lock, process::whole_lock);
      for (const PhasePermits& p : phase.permits) want(engine::Kind::semaphore, p.semaphore, p.weight);
      std::sort(wanted.begin(), wanted.end(), [](const PhaseHold& a, const PhaseHold& b) {
        return process::taken_before(a.client->kind(), a.client->name(), b.client->kind(), b.client->name());
      });
      for (PhaseHold& hold : wanted) hold.deadline_ns = process::try_once;
      process::AllAnswer all = process::acquire_all(std::span(wanted));
      if (all.held == 0 && !all.answer.impossible) {
        if (!commit(pipeline_->wait_for_holds(waiting_for(wanted[all.failed])))) return false;
        for (PhaseHold& hold : wanted) hold.deadline_ns = process::no_deadline;
        all = process::acquire_all(std::span(wanted));
      }
      if (all.held == 0) {
        const PhaseHold& failed = wanted[all.failed];
        if (all.answer.impossible) return commit(pipeline_->fail(failed.client->too_much_text(failed.request.weight)));
        if (all.answer.result == AcquireResult::deadlock) {
          return commit(pipeline_->fail(failed.client->title() + ": " + to_string(all.answer.circle)));
        }
        return false;  // stopped
      }
    } catch (const Error& e) {
      const bool missing =
          e.errc() == Errc::not_found || e.errc() == Errc::wrong_type || e.errc() == Errc::name_removed;
      if (!missing) throw;
      return commit(pipeline_->fail(e.what()));
    }
    phase_holds_ = std::move(wanted);
    for (PhaseHold& hold : phase_holds_) {
      hold.callback = hold.client->on_lost([this, title = hold.client->title()](const HolderId& who, const Lost& lost) {
        if (who.str() != holder_) return;
        {
          const std::scoped_lock lock(mutex_);
          if (lost_.empty()) lost_ = "lost " + title + " (" + std::string(to_string(lost.why)) + ")";
        }
        stop_.request_stop();
      });
    }
    return commit(pipeline_->holds_acquired());
  }

  void leave_phase() noexcept {
    for (const PhaseHold& hold : phase_holds_) {
      hold.client->remove_on_lost(hold.callback);
      hold.give_back();
    }
    phase_holds_.clear();
  }

  [[nodiscard]] PhaseRun phase_run() const {
    PhaseRun run{*pipeline_, holder_, {}, stop_.get_token()};
    for (const PhaseHold& hold : phase_holds_) run.tokens.emplace_back(hold.client->name(), hold.token);
    return run;
  }

  /// What of the phase was lost; nothing: all stands.
  [[nodiscard]] std::optional<std::string> lost_hold() {
    const std::scoped_lock lock(mutex_);
    if (!lost_.empty()) return lost_;
    for (const PhaseHold& hold : phase_holds_) {
      if (!hold.stands()) return "lost " + hold.client->title();
    }
    return std::nullopt;
  }

  /// False: the hold of the runner was taken away, or somebody cancelled.
  bool commit(Pipeline::Step step, bool anyway = false) {
    const bool same = !anyway && pipeline_->progress() == step.pipeline.progress();
    pipeline_ = std::move(step.pipeline);
    overtaken_ = !same && !hold_.write(*pipeline_);
    if (overtaken_) return false;
    for (const Event& effect : step.effects) tell(*session_->participant, effect);
    if (options_.on_change) options_.on_change(*pipeline_);
    return true;
  }

  [[nodiscard]] PipelineRunResult taken_away() const {
    const auto now = coordination::find_pipeline(session_->participant->mapping(), id_);
    const PipelineStatus status = now ? now->pipeline.status() : PipelineStatus::waiting;
    if (status == PipelineStatus::done) return PipelineRunResult::done;
    return status == PipelineStatus::cancelled ? PipelineRunResult::cancelled : PipelineRunResult::lost;
  }

  const std::shared_ptr<detail::Access::SessionState>& session_;
  const std::string& id_;
  const GuardExecutor& executor_;
  const PipelineRunOptions& options_;
  const std::string holder_;
  std::string reason_;
  std::stop_source stop_;
  coordination::RunnerHold hold_;
  std::stop_callback<Stop> caller_stop_;
  std::optional<Pipeline> pipeline_;
  bool overtaken_ = false;  // what was written last does not count
  std::vector<PhaseHold> phase_holds_;
  std::mutex mutex_;
  std::string lost_;
};

}  // namespace

std::string_view to_string(PipelineRunResult result) noexcept {
  switch (result) {
    case PipelineRunResult::done: return "done";
    case PipelineRunResult::failed: return "failed";
    case PipelineRunResult::cancelled: return "cancelled";
    case PipelineRunResult::stopped: return "stopped";
    case PipelineRunResult::lost: return "lost";
    case PipelineRunResult::busy: return "busy";
  }
  return "unknown";
}

PipelineRunResult SegmentPipeline::run(const GuardExecutor& executor, const PipelineRunOptions& options) {
  const State& state = State::present(state_);
  process::require_duration("recheck", options.recheck);
  process::require_duration("evaluation_timeout", options.evaluation_timeout);
  state.session->participant->require_usable();
  return Run(state.session, state.id, executor, options).run();
}

GuardOutcome evaluate_phase_guard(Session& session, std::string_view pipeline, const Guard& guard,
                                  const GuardExecutor& executor, const GuardExecutor::Limits& limits) {
  const auto& state = detail::Access::usable_state(session);
  state->participant->require_usable();
  tell_guard(*state->participant, pipeline, guard, EventKind::guard_evaluating);
  GuardOutcome outcome = executor.evaluate(guard, limits);
  tell_guard(*state->participant, pipeline, guard, kind_of(outcome), &outcome);
  return outcome;
}

}  // namespace shmcoord
