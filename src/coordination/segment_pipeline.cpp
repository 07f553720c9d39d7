#include "shmcoord/segment_pipeline.hpp"

#include <unistd.h>

#include <stdexcept>
#include <utility>

#include "coordination/pipeline_store.hpp"
#include "coordination/segment_pipeline_state.hpp"
#include "process/call_arguments.hpp"
#include "process/clock.hpp"
#include "process/snapshot.hpp"
#include "process/telling.hpp"

// Running: pipeline_runner.cpp. What is kept where, and what deaths leave: pipeline_store.hpp.

namespace shmcoord {

SegmentPipeline::SegmentPipeline(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
SegmentPipeline::SegmentPipeline(SegmentPipeline&&) noexcept = default;
SegmentPipeline& SegmentPipeline::operator=(SegmentPipeline&&) noexcept = default;
SegmentPipeline::~SegmentPipeline() = default;

SegmentPipeline SegmentPipeline::add(Session& session, const Pipeline& pipeline) {
  const auto& state = detail::Access::usable_state(session);
  state->participant->require_usable();
  coordination::add_pipeline(state->participant, pipeline);
  return SegmentPipeline(std::make_unique<State>(State{state, pipeline.id()}));
}

SegmentPipeline::SegmentPipeline(Session& session, std::string_view id)
    : state_(std::make_unique<State>(State{detail::Access::usable_state(session), std::string(id)})) {
  state_->session->participant->require_usable();
  process::require_primitive_name(engine::Kind::pipeline, id);
  (void)look();
}

const std::string& SegmentPipeline::id() const noexcept { return state_->id; }

PipelineListing SegmentPipeline::look() const {
  const State& state = State::present(state_);
  const engine::Mapping& mapping = state.session->participant->mapping();
  auto found = coordination::find_pipeline(mapping, state.id);
  if (!found) throw process::no_such_name(engine::Kind::pipeline, state.id, mapping.name());
  return coordination::listing_of(*std::move(found));
}

bool SegmentPipeline::cancel() {
  const State& state = State::present(state_);
  const auto& participant = state.session->participant;
  participant->require_usable();
  const auto step = coordination::cancel_pipeline(participant, state.id);
  if (!step) return false;
  for (const Event& effect : step->effects) {
    process::tell_event(participant->mapping().view(), effect, static_cast<std::int32_t>(::getpid()));
  }
  return true;
}

std::vector<PipelineListing> SegmentPipeline::list(const Segment& segment) {
  return coordination::list_pipelines(
      process::take_picture(*detail::Access::mapping(segment), process::real_clock().now_ns()));
}

void SegmentPipeline::remove(Session& session, std::string_view id) {
  const auto& state = detail::Access::usable_state(session);
  state->participant->require_usable();
  coordination::remove_pipeline(state->participant, id);
}

namespace {

class SegmentPipelines final : public GuardPipelines {
 public:
  explicit SegmentPipelines(std::shared_ptr<engine::Mapping> mapping) : mapping_(std::move(mapping)) {}

  PipelineState state(const std::string& pipeline, const GuardDeadline& /*deadline*/) override {
    const auto found = coordination::find_pipeline(*mapping_, pipeline);
    if (!found) throw std::runtime_error("there is no such pipeline");
    const Pipeline& p = found->pipeline;
    const bool in_phase = !is_over(p.status()) && (p.step() == PhaseStep::inside || p.step() == PhaseStep::leaving) &&
                          p.status() != PipelineStatus::waiting;
    return {in_phase ? p.phase().name : std::string(), p.status() == PipelineStatus::done};
  }

 private:
  std::shared_ptr<engine::Mapping> mapping_;
};

}  // namespace

std::shared_ptr<GuardPipelines> pipelines_of(const Segment& segment) {
  return std::make_shared<SegmentPipelines>(detail::Access::mapping(segment));
}

}  // namespace shmcoord
