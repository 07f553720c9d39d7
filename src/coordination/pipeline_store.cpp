#include "coordination/pipeline_store.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/printable.hpp"
#include "coordination/pipeline_states.hpp"
#include "process/clock.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using process::GrantView;
using process::LockView;
using process::PrimitiveClient;

constexpr std::string_view runner_prefix = "runner ";
constexpr int tries = 1000;  // of what only goes wrong while others change the same name

struct StateName {
  std::string definition;  // its tag
  std::uint64_t run = 0;
  std::string tag;

  [[nodiscard]] std::string str() const {
    return "state of " + definition + " in " + std::to_string(run) + " by " + tag;
  }
};

/// Takes what `text` begins with, up to `end`, off it.
std::optional<std::string_view> take(std::string_view& text, std::string_view end) {
  const std::size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

std::optional<StateName> state_name(std::string_view holder) {
  const auto before = take(holder, "state of ");
  if (!before || !before->empty()) return std::nullopt;
  const auto definition = take(holder, " in ");
  const auto run = take(holder, " by ");
  if (!definition || !run || holder.empty()) return std::nullopt;
  StateName name{std::string(*definition), 0, std::string(holder)};
  const auto read = std::from_chars(run->data(), run->data() + run->size(), name.run);
  if (read.ec != std::errc{} || read.ptr != run->data() + run->size()) return std::nullopt;
  return name;
}

[[noreturn]] void throw_unreadable(const std::string& id, const char* why) {
  throw Error(Errc::segment_corrupt, "pipeline '" + base::printable(id) + "' cannot be read (" + base::printable(why) +
                                         "); remove it (`shmcoord pipeline remove`) and begin it anew");
}

Error no_such(const engine::Mapping& mapping, std::string_view id) {
  return process::no_such_name(Kind::pipeline, id, mapping.name());
}

StoredPipeline require_pipeline(const engine::Mapping& mapping, std::string_view id) {
  auto found = find_pipeline(mapping, id);
  if (!found) throw no_such(mapping, id);
  return *std::move(found);
}

/// The holder of what was written.
std::string write_state(PrimitiveClient& client, const std::string& definition, std::uint64_t run,
                        const Pipeline& pipeline) {
  std::string holder = StateName{definition, run, fresh_tag()}.str();
  keep(client, holder, pipeline.progress(), "state");
  return holder;
}

bool runs(const StoredPipeline& stored) {
  if (!stored.runner) return false;
  const process::Life life = stored.runner->life.life;
  return life != process::Life::dead && life != process::Life::dying;
}

/// What was seen of it, the definition first; and what the dead left.
void give_back_all(PrimitiveClient& client, const LockView& seen) {
  const std::vector<std::string> remains = remains_of(client.participant().mapping(), seen);
  const std::vector<std::string> parts = parts_of_text(seen);
  for (const std::string& part : parts) (void)client.release(part);
  for (const GrantView& g : seen.holders) {
    if (!parts.empty() && state_name(g.holder)) (void)client.release(g.holder);
  }
  for (const std::string& holder : remains) (void)client.release(holder);
}

std::string where_it_is(const StoredPipeline& stored) {
  const Pipeline& p = stored.pipeline;
  std::string text = "pipeline '" + p.id() + "' is " + std::string(to_string(p.status()));
  if (p.status() != PipelineStatus::waiting) text += " in phase '" + p.phase().name + "'";
  if (runs(stored)) return text + ", run by process " + std::to_string(stored.runner->pid);
  if (stored.runner && stored.runner->life.life == process::Life::dying) {
    return text + "; its runner (process " + std::to_string(stored.runner->pid) + ") died, what it started still ends";
  }
  return text + ", and nobody runs it";
}

}  // namespace

std::optional<StoredPipeline> stored_pipeline(const LockView& seen, const StoredPipeline* known) {
  auto text = stored_text(seen);
  if (!text) return std::nullopt;
  auto definition = [&] {
    if (known != nullptr && known->text.tag == text->tag) return known->definition;
    try {
      return Pipeline::parse_json(text->text);
    } catch (const Error& e) {
      throw_unreadable(seen.name, e.what());
    }
  }();
  StoredPipeline stored{*std::move(text), definition, definition};
  std::vector<StateName> names;
  std::vector<const GrantView*> grants;
  for (const GrantView& g : seen.holders) {
    if (g.holder.starts_with(runner_prefix)) stored.runner = g;
    auto name = state_name(g.holder);
    if (!name) continue;
    names.push_back(*std::move(name));
    grants.push_back(&g);
  }
  std::vector<Pipeline> states;
  std::vector<WrittenState> written;
  for (std::size_t n = 0; n < names.size(); ++n) {
    const bool ours = names[n].definition == stored.text.tag;
    try {
      states.push_back(ours ? stored.pipeline.with_progress(grants[n]->reason) : stored.pipeline);
    } catch (const Error& e) {
      throw_unreadable(seen.name, e.what());
    }
    written.push_back({names[n].definition, names[n].run, states.back().status(), grants[n]->token});
  }
  const CountingState found = which_counts(written, stored.text.tag);
  for (const std::size_t n : found.idle) stored.idle.push_back(grants[n]->holder);
  if (!found.counts) return stored;
  stored.pipeline = states[*found.counts];
  stored.run = names[*found.counts].run;
  stored.state = grants[*found.counts]->holder;
  return stored;
}

std::optional<StoredPipeline> find_pipeline(const engine::Mapping& mapping, std::string_view id,
                                            const StoredPipeline* known) {
  const std::optional<LockView> seen = look_at(mapping, Kind::pipeline, id);
  return seen ? stored_pipeline(*seen, known) : std::nullopt;
}

PipelineListing listing_of(StoredPipeline stored) {
  PipelineListing listing{std::move(stored.pipeline)};
  if (const auto& g = stored.runner) {
    listing.runner = PipelineRunner{
        g->pid, g->label, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(g->since_ns)), runs(stored)};
  }
  return listing;
}

std::vector<PipelineListing> list_pipelines(const process::Picture& picture) {
  std::vector<PipelineListing> all;
  for (const LockView& seen : picture.locks) {
    if (seen.kind != Kind::pipeline || seen.damaged) continue;
    try {
      if (auto stored = stored_pipeline(seen)) all.push_back(listing_of(*std::move(stored)));
    } catch (const Error&) {
      continue;  // damaged, or it moved while it was read: asked for by its id, it says so
    }
  }
  return all;
}

void add_pipeline(const std::shared_ptr<process::Participant>& participant, const Pipeline& pipeline) {
  const std::string definition = pipeline.json();
  if (definition.size() > max_stored_text) {
    throw Error(Errc::invalid_argument, "pipeline '" + pipeline.id() + "' is longer than " +
                                            std::to_string(max_stored_text) + " bytes as JSON");
  }
  for (int n = 0; n < tries; ++n) {
    const AddedText added = add_text(participant, Kind::pipeline, pipeline.id(), definition);
    if (added.mine) return;
    try {
      RunnerHold hold(participant, pipeline.id());
      if (!hold.acquire()) {
        throw Error(Errc::in_use, where_it_is(hold.found()) + "; wait until it is over, or cancel it");
      }
      const StoredPipeline& found = hold.found();
      const PipelineStatus status = found.pipeline.status();
      if (status == PipelineStatus::waiting && found.text.text == definition) return;
      if (status == PipelineStatus::waiting) {
        throw Error(Errc::config_differs, "pipeline '" + pipeline.id() +
                                              "' is there with another definition and was not started yet; run or "
                                              "remove that one first");
      }
      if (!is_over(status)) throw Error(Errc::in_use, where_it_is(found) + "; resume it, or cancel it");
      hold.take_away();
    } catch (const Error& e) {
      if (e.errc() != Errc::not_found) throw;  // somebody else removed it just now
    }
  }
  throw Error(Errc::in_use, "pipeline '" + pipeline.id() + "' is added and removed by others all the time");
}

void restore_pipeline(const std::shared_ptr<process::Participant>& participant, const Pipeline& pipeline) {
  const AddedText added = add_text(participant, Kind::pipeline, pipeline.id(), pipeline.json());
  PrimitiveClient client(participant, pipeline.id(), {.kind = Kind::pipeline});
  if (pipeline.status() != PipelineStatus::waiting) (void)write_state(client, added.there.tag, 0, pipeline);
}

void remove_pipeline(const std::shared_ptr<process::Participant>& participant, std::string_view id) {
  try {
    RunnerHold hold(participant, id);
    if (!hold.take()) {
      throw Error(Errc::in_use, where_it_is(require_pipeline(participant->mapping(), id)) + "; cancel it first");
    }
    hold.take_away();
  } catch (const Error& e) {
    // One that cannot be read has no runner that could be asked.
    if (e.errc() == Errc::segment_corrupt) return PrimitiveClient::remove(*participant, id, true, Kind::pipeline);
    if (e.errc() != Errc::table_full && e.errc() != Errc::no_space) throw;
    // There is no room for the hold, and removing is the way to make some.
    const auto seen = look_at(participant->mapping(), Kind::pipeline, id);
    const auto stored = seen ? stored_pipeline(*seen) : std::nullopt;
    if (!stored) throw no_such(participant->mapping(), id);
    if (runs(*stored)) throw Error(Errc::in_use, where_it_is(*stored) + "; cancel it first");
    PrimitiveClient client(participant, id, {.kind = Kind::pipeline});
    give_back_all(client, *seen);
    remove_empty(client);
  }
}

std::optional<Pipeline::Step> cancel_pipeline(const std::shared_ptr<process::Participant>& participant,
                                              std::string_view id) {
  const engine::Mapping& mapping = participant->mapping();
  const auto client = PrimitiveClient::find(participant, id, Kind::pipeline);
  if (client == nullptr) throw no_such(mapping, id);
  for (int n = 0; n < tries; ++n) {
    const StoredPipeline seen = require_pipeline(mapping, id);
    if (is_over(seen.pipeline.status())) return std::nullopt;
    Pipeline::Step step = seen.pipeline.cancel();
    const std::string mine = write_state(*client, seen.text.tag, seen.run, step.pipeline);
    const std::optional<StoredPipeline> now = find_pipeline(mapping, id);
    if (!now || now->state != mine) {
      (void)client->release(mine);
      continue;
    }
    for (const std::string& idle : now->idle) (void)client->release(idle);
    if (now->runner) (void)client->force_release(now->runner->holder);
    return step;
  }
  throw Error(Errc::in_use, client->title() + " is resumed by others all the time");
}

// --- the runner ------------------------------------------------------------------------------------------------------

RunnerHold::RunnerHold(const std::shared_ptr<process::Participant>& participant, std::string_view id)
    : client_(PrimitiveClient::find(participant, id, Kind::pipeline)),
      holder_(std::string(runner_prefix) + fresh_tag()) {
  if (client_ == nullptr) throw no_such(participant->mapping(), id);
}

RunnerHold::~RunnerHold() {
  if (callback_ != 0) client_->remove_on_lost(callback_);
  try {
    if (token_ != 0) (void)client_->release(holder_);
  } catch (const Error&) {  // the segment is gone, and the hold with it
  }
}

bool RunnerHold::take() {
  process::Request request;
  request.holder = holder_;
  request.weight = once_weight;
  request.no_lease = true;
  const process::Answer answer = client_->acquire(request, process::try_once);
  token_ = answer ? answer.token : 0;
  seen_ = look_at(client_->participant().mapping(), Kind::pipeline, client_->name());
  return token_ != 0;
}

bool RunnerHold::acquire() {
  const bool taken = take();
  if (seen_) found_ = stored_pipeline(*seen_);
  if (!found_) throw no_such(client_->participant().mapping(), client_->name());
  if (taken) found_->runner.reset();  // it is we
  return taken;
}

bool RunnerHold::stands() const { return token_ != 0 && client_->stands(holder_, token_); }

void RunnerHold::on_lost(std::function<void()> callback) {
  callback_ = client_->on_lost([this, told = std::move(callback)](const HolderId& who, const Lost&) {
    if (who.str() == holder_) told();
  });
}

bool RunnerHold::write(const Pipeline& pipeline) {
  if (!stands()) return false;
  const std::string mine = write_state(*client_, found_->text.tag, token_, pipeline);
  const std::optional<StoredPipeline> now = find_pipeline(client_->participant().mapping(), client_->name(), &*found_);
  if (!now) {
    (void)client_->release(mine);
    return false;
  }
  for (const std::string& idle : now->idle) (void)client_->release(idle);
  return now->state == mine && (is_over(pipeline.status()) || stands());
}

void RunnerHold::take_away() {
  if (!seen_ || !stands()) return;
  give_back_all(*client_, *seen_);
  (void)client_->release(holder_);
  token_ = 0;
  remove_empty(*client_);
}

}  // namespace shmcoord::coordination
