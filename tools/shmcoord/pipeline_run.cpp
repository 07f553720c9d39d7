#include <signal.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coordination/pipeline_store.hpp"
#include "shmcoord/adapters_program.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/companion.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/guard_words.hpp"
#include "shmcoord/input_file.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/outer_run.hpp"
#include "shmcoord/pipeline_view.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/run_front.hpp"
#include "shmcoord/segment_pipeline.hpp"

// `shmcoord pipeline run` and `pipeline resume`: the runner of a pipeline, in the program with the adapters.
//
// This process has the session, evaluates guards and waits; the guardian (run_guardian.hpp), forked before there is a
// session, starts one command after the other and sees their trees end.
//
// If we die here: the guardian ends what runs, and our slot is not dead before it has; then everything that the phase
// held is free, and the pipeline is one that nobody runs. So it is with the command of a guard
// (adapters/with_parent.hpp). Loss or cancellation while a command runs ends the command.

namespace shmcoord::tool {
namespace {

using std::chrono::nanoseconds;

/// The signals that end us, while we wait; a command that runs gets them itself.
class Stopping {
 public:
  Stopping(const StopSignals& signals, PipelineView& view) : signals_(signals), view_(view) { listen(); }
  Stopping(const Stopping&) = delete;
  Stopping& operator=(const Stopping&) = delete;
  ~Stopping() { pause(); }

  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }
  /// That was sent to end us; 0: none.
  [[nodiscard]] int signal() const noexcept { return signal_; }

  void listen() {
    companion_ = std::make_unique<Companion>(signals_, [this] { return view_.tick(); });
    forward_ = std::make_unique<Forward>(companion_->token(), Request{stop_});
  }
  void pause() {
    forward_.reset();
    if (companion_ == nullptr) return;
    if (const int signal = companion_->finish(); signal != 0) ended_by(signal);
    companion_.reset();
  }
  void ended_by(int signal) {
    signal_ = signal;
    stop();
  }
  void stop() { stop_.request_stop(); }

 private:
  struct Request {
    std::stop_source& stop;
    void operator()() const noexcept { stop.request_stop(); }
  };
  using Forward = std::stop_callback<Request>;

  const StopSignals& signals_;
  PipelineView& view_;
  std::stop_source stop_;
  std::unique_ptr<Companion> companion_;
  std::unique_ptr<Forward> forward_;
  int signal_ = 0;
};

GuardianTask task_of(const Arguments& arguments, const Pipeline& pipeline, const StopSignals& signals,
                     const Terminal& terminal) {
  GuardianTask task;
  for (const GuardedPhase& phase : pipeline.phases()) task.commands.push_back(phase.command);
  task.again = true;
  const auto grace = arguments.value("--grace");
  task.grace_ns = (grace ? parse_duration("--grace", *grace, Zero::allowed) : std::chrono::seconds(5)).count();
  task.original_mask = signals.original();
  task.terminal = terminal.fd();
  task.environment = segment_environment(arguments.global);
  task.environment.push_back("SHMCOORD_HOLDER=" + HolderId::from_pipeline(pipeline.id()).str());
  task.environment.push_back("SHMCOORD_PIPELINE=" + pipeline.id());
  return task;
}

std::string environment_of(const PhaseRun& run, detail::Access::SessionState& session) {
  const GuardedPhase& phase = run.pipeline.phase();
  const auto is_lock = [&](const std::string& name) {
    return std::find(phase.locks.begin(), phase.locks.end(), name) != phase.locks.end();
  };
  // As of `run`: SHMCOORD_TOKEN is that of the first lock that was written down, else of the first semaphore.
  const std::string first = !phase.locks.empty()     ? phase.locks.front()
                            : !phase.permits.empty() ? phase.permits.front().semaphore
                                                     : std::string();
  std::string all;
  std::string of_first = "SHMCOORD_TOKEN=";
  std::vector<std::shared_ptr<process::PrimitiveClient>> clients;
  std::vector<OuterHold> outer;
  for (const auto& [name, token] : run.tokens) {
    all += (all.empty() ? "" : ",") + name + '=' + std::to_string(token);
    if (name == first) of_first += std::to_string(token);
    clients.push_back(session.client(name, {.kind = is_lock(name) ? engine::Kind::lock : engine::Kind::semaphore}));
    outer.push_back({clients.back().get(), token});
  }
  return "SHMCOORD_PHASE=" + phase.name + '\0' + of_first + '\0' + "SHMCOORD_TOKENS=" + all + '\0' +
         held_environment(outer);
}

int say_result(const Arguments& arguments, const SegmentPipeline& pipeline, PipelineRunResult result, int signal) {
  const std::string title = "pipeline '" + printable(pipeline.id()) + "'";
  const std::string resume = "; `shmcoord pipeline resume " + shell_word(pipeline.id()) + "` goes on with it";
  const auto where = [&]() -> std::string {
    try {
      return " in phase '" + printable(pipeline.look().pipeline.phase().name) + "'";
    } catch (const Error& e) {  // with its segment, or removed
      return std::string(", and is not there any more: ") + e.what();
    }
  };
  switch (result) {
    case PipelineRunResult::done:
      if (!arguments.global.json) say(title + " is done");
      return exit_done;
    case PipelineRunResult::failed:
      say_error("failed", title + " failed: " + pipeline.look().pipeline.failure() + resume);
      return exit_busy;
    case PipelineRunResult::cancelled: say_error("cancelled", title + " was cancelled" + where()); return exit_busy;
    case PipelineRunResult::stopped:
      say_error("stopped", title + " was interrupted" + where() + resume);
      return signal == 0 ? exit_busy : exit_by_signal + signal;
    case PipelineRunResult::lost:
      say_error("lost", title + " was taken away from this runner" + where());
      return exit_lost;
    case PipelineRunResult::busy: {
      const auto runner = pipeline.look().runner;
      say_error("busy", title + " is run already" +
                            (runner ? " by process " + std::to_string(runner->pid) + " since " +
                                          format_duration(std::chrono::steady_clock::now() - runner->since)
                                    : std::string()));
      return exit_busy;
    }
  }
  return exit_internal;
}

/// Does the phase need what the `run`, or the pipeline, holds whose command we are part of?
bool waits_for_those_around(const Pipeline& pipeline, detail::Access::SessionState& session) {
  const std::string holder = HolderId::from_pipeline(pipeline.id()).str();
  const auto waits = [&](engine::Kind kind, const std::string& name, std::uint32_t weight) {
    process::Request request;
    request.holder = holder;
    request.weight = weight;
    return waits_for_outer_run(*session.client(name, {.kind = kind}), request, process::no_deadline);
  };
  const GuardedPhase& phase = pipeline.phase();
  return std::any_of(phase.locks.begin(), phase.locks.end(),
                     [&](const std::string& lock) { return waits(engine::Kind::lock, lock, process::whole_lock); }) ||
         std::any_of(phase.permits.begin(), phase.permits.end(),
                     [&](const PhasePermits& p) { return waits(engine::Kind::semaphore, p.semaphore, p.weight); });
}

/// Where there is no room to run it, one that was not begun is not left behind.
PipelineRunResult run_or_take_back(Session& session, SegmentPipeline& pipeline, const GuardExecutor& executor,
                                   const PipelineRunOptions& options) {
  try {
    return pipeline.run(executor, options);
  } catch (const Error& e) {
    const bool full = e.errc() == Errc::table_full || e.errc() == Errc::no_space;
    if (full && pipeline.look().pipeline.status() == PipelineStatus::waiting) {
      SegmentPipeline::remove(session, pipeline.id());
    }
    throw;
  }
}

/// `open`: puts the pipeline into the segment, or finds it there.
int run_pipeline(const Arguments& arguments, const Pipeline& definition, IfMissing if_missing,
                 const std::function<SegmentPipeline(Session&)>& open) {
  AskOptions asked = ask_options_of(arguments);
  asked.end_with_us = true;  // they are of a phase, which must not go on then
  PipelineRunOptions options;
  if (const auto text = arguments.value("--recheck")) options.recheck = parse_duration("--recheck", *text);
  if (const auto text = arguments.value("--timeout")) options.evaluation_timeout = parse_duration("--timeout", *text);
  options.directory = asked.directory;

  const StopSignals signals;
  Terminal terminal;
  const GuardianTask task = task_of(arguments, definition, signals, terminal);
  const bool adopts = adopt_orphans();
  auto guardian = std::make_unique<GuardianHandle>(task);
  Session session = again_if_removed([&] { return join_session(arguments.global, if_missing, "pipeline"); });
  // It has a descriptor of our slot, so it goes before that is given back.
  const std::shared_ptr<void> guardian_first(nullptr, [&](void*) { guardian.reset(); });
  SegmentPipeline pipeline = open(session);
  if (pipeline.look().pipeline.json() != definition.json()) {
    throw Error(Errc::in_use, "pipeline '" + printable(definition.id()) + "' was replaced just now; try again");
  }

  PipelineView view(arguments.global.json);
  Stopping stopping(signals, view);
  LossBell bell;
  bool in_vain = false;
  const auto& state = detail::Access::usable_state(session);
  options.stop = stopping.token();
  options.kept_open = state->participant->inherited_lock();  // a guard's command is of the phase, as its own command
  options.on_change = [&](const Pipeline& now) {
    view.changed(now);
    if (now.blocked() && now.blocked()->guard_id.empty() && waits_for_those_around(now, *state)) {
      in_vain = true;
      stopping.stop();
    }
  };
  options.on_warning = [&](const std::string& guard, const std::string& reason) { view.warn(guard, reason); };
  options.run_command = [&](const PhaseRun& run) {
    stopping.pause();
    view.command_begins();
    bell.hush();
    CommandEnd end;
    {
      const std::stop_callback ring(run.stop, [&bell] { bell.ring("the phase must not go on"); });
      sigset_t before;
      ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
      end = run_in_front({*guardian, terminal, bell, task, adopts}, *state->participant, run.pipeline.current(),
                         environment_of(run, *state));
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);  // or a wait could not be stopped by Ctrl-Z
    }
    view.command_ended();
    if (end.signal != 0) stopping.ended_by(end.signal);
    stopping.listen();
    return end.how;
  };
  GuardPorts ports;
  ports.primitives = primitives_of(session.segment());
  ports.sessions = sessions_of(session.segment());
  ports.pipelines = pipelines_of(session.segment());
  const std::shared_ptr<void> settled(nullptr, [settle = known_adapters()(ports, asked)](void*) { settle(); });
  const GuardExecutor executor(std::move(ports));
  const PipelineRunResult result = run_or_take_back(session, pipeline, executor, options);
  stopping.pause();
  view.ended(result);
  if (in_vain && result == PipelineRunResult::stopped) {
    const PipelineListing now = pipeline.look();
    const std::string on = now.pipeline.blocked() ? now.pipeline.blocked()->waiting_on : std::string("it");
    say_error("deadlock", "pipeline '" + printable(pipeline.id()) + "' would wait for ever: " + on +
                              "; that is the `shmcoord` around this command, which gives it back only when this has "
                              "ended");
    return exit_busy;
  }
  return say_result(arguments, pipeline, result, stopping.signal());
}

Pipeline pipeline_from(const std::string& path) {
  const std::string what = path == "-" ? std::string("standard input") : "'" + printable(path) + "'";
  const std::string text = content_of(path, what, Pipeline::max_text, "no pipeline");
  try {
    return Pipeline::parse_json(text);
  } catch (const PipelineTextError& e) {
    throw UsageError{what + ": " + e.what()};
  }
}

}  // namespace

int pipeline_run(const Arguments& arguments) {
  const Pipeline definition = pipeline_from(arguments.words[0]);
  return run_pipeline(arguments, definition, IfMissing::create,
                      [&](Session& session) { return SegmentPipeline::add(session, definition); });
}

int pipeline_resume(const Arguments& arguments) {
  const std::string& id = arguments.words[0];
  require_name("id of a pipeline", id);
  const Pipeline definition = [&] {
    const auto mapping = open_read_only(arguments.global);  // and closed again, before anything is forked
    auto found = coordination::find_pipeline(*mapping, id);
    if (!found) throw process::no_such_name(engine::Kind::pipeline, id, mapping->name());
    return std::move(found->pipeline);
  }();
  return run_pipeline(arguments, definition, IfMissing::fail,
                      [&](Session& session) { return SegmentPipeline(session, id); });
}

}  // namespace shmcoord::tool
