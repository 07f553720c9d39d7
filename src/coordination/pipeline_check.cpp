#include "coordination/pipeline_check.hpp"

#include <algorithm>
#include <set>

#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "coordination/guard_store.hpp"
#include "core/names.hpp"
#include "process/call_arguments.hpp"
#include "process/event_stream.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/holder_id.hpp"

namespace shmcoord::coordination {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Errc::invalid_argument, what); }

void require_name(const std::string& what, const std::string& name) {
  if (const auto fault = core::check_name(name); !fault.empty()) {
    refuse(what + " '" + base::shortened(base::printable(name), 60) + "' " + std::string(fault));
  }
}

// Who runs it holds what its phases hold as "pipeline:ID", and the id of a holder has a limit of its own. The name of a
// phase is part of no other name.
void require_holder(const std::string& id) {
  const std::size_t prefix = HolderId::from_pipeline({}).str().size();
  if (prefix + id.size() <= core::max_name_bytes) return;
  refuse("the id of the pipeline '" + base::shortened(base::printable(id), 60) + "' is longer than " +
         std::to_string(core::max_name_bytes - prefix) + " bytes");
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    char32_t code = 0;
    const std::size_t length = base::utf8_sequence(text, &code);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void check_command(const GuardedPhase& phase, PipelinePart& now) {
  const std::string what = "the command of phase '" + phase.name + "' ";
  for (now.index = 0; now.index < phase.command.size(); ++now.index) {
    const std::string& word = phase.command[now.index];
    if (now.index == 0 && word.empty()) refuse(what + "names no program");
    if (word.find('\0') != std::string::npos) refuse(what + "contains a zero byte");
    if (!is_utf8(word)) refuse(what + "is not valid UTF-8");
  }
}

void check_phase(const std::string& id, const GuardedPhase& phase, PipelinePart& now) {
  const auto look_at = [&now, number = now.phase](std::string_view key, std::size_t index = PipelinePart::none,
                                                  bool name = false) {
    now = {number, key, {}, index, name};
  };
  look_at("command");
  check_command(phase, now);
  std::set<std::string_view> held;
  const auto hold = [&](const std::string& name) {
    require_name("phase '" + phase.name + "': the name", name);
    if (!held.insert(name).second) refuse("phase '" + phase.name + "' holds '" + name + "' twice");
    if (name == id)
      refuse("phase '" + phase.name + "' holds '" + name + "', which is the pipeline itself: names are common");
  };
  for (std::size_t i = 0; i < phase.locks.size(); ++i) {
    look_at("locks", i);
    hold(phase.locks[i]);
  }
  for (std::size_t i = 0; i < phase.permits.size(); ++i) {
    look_at("permits", i, true);
    hold(phase.permits[i].semaphore);
    look_at("permits", i);
    process::require_permits("the weight", phase.permits[i].weight);
  }
  check_guards(phase.guards, now);
}

}  // namespace

// Each part of a guard as if it were all that there is of it.
void check_guards(const PhaseGuards& guards, PipelinePart& now) {
  const GuardCondition nothing = GuardCondition::all({});
  const std::size_t phase = now.phase;
  const auto check = [&](std::string_view key, const std::optional<PhaseGuard>& guard) {
    if (!guard) return;
    now = {phase, key, "condition"};
    check_guard({"g", guard->condition});
    now = {phase, key, "on_failure"};
    check_guard({"g", nothing, guard->on_failure});
  };
  check("pre", guards.pre);
  check("post", guards.post);
  if (guards.wake_on.empty()) return;
  const auto bad = std::find_if(guards.wake_on.begin(), guards.wake_on.end(),
                                [](const std::string& pattern) { return !process::fault_of_pattern(pattern).empty(); });
  now = {phase, "wake_on"};
  if (bad != guards.wake_on.end()) now.index = static_cast<std::size_t>(bad - guards.wake_on.begin());
  check_guard({"g", nothing, Block{}, guards.wake_on});
}

void check_pipeline(const std::string& id, const std::vector<GuardedPhase>& phases, PipelinePart& now) {
  now = {PipelinePart::none, "id"};
  require_holder(id);
  require_name("the id of the pipeline", id);
  now = {PipelinePart::none, "phases"};
  if (phases.empty()) refuse("pipeline '" + id + "' has no phases");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    now = {i, "name"};
    require_name("the name of phase " + std::to_string(i + 1), phases[i].name);
    if (!names.insert(phases[i].name).second) refuse("there are two phases '" + phases[i].name + "'");
    check_phase(id, phases[i], now);
  }
}

}  // namespace shmcoord::coordination
