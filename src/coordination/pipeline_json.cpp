#include <utility>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/condition_json.hpp"
#include "coordination/guard_action.hpp"
#include "coordination/json_members.hpp"
#include "coordination/json_text.hpp"
#include "coordination/pipeline_check.hpp"
#include "core/control_word.hpp"
#include "shmcoord/pipeline.hpp"

// Pipelines as JSON: what people write, strictly read, and one form of it, written.
//
// Reading has three steps, and each tells a mistake with its place in the text: it is JSON; it has the form of a
// pipeline; the pipeline is one that can be. The last is judged by what judges all pipelines, however made; here only
// the place of its complaint is found.

namespace shmcoord {
namespace {

namespace json = boost::json;
using coordination::JsonMistake;
using coordination::Members;
using coordination::PipelinePart;
using coordination::text_of;

constexpr std::string_view shell = "/bin/sh";

// Of conditions an object and an array for each; of what is around them a few.
constexpr std::size_t deepest = 4 * GuardCondition::max_depth + 8;

// --- writing --------------------------------------------------------------------------------------------------------

json::array written(const std::vector<std::string>& list) {
  json::array array;
  array.reserve(list.size());
  for (const std::string& text : list) array.emplace_back(text);
  return array;
}

void write_guards(const PhaseGuards& guards, json::object& object) {
  const auto write = [&](const char* key, const std::optional<PhaseGuard>& guard) {
    if (!guard) return;
    object[key] =
        json::object{{"condition", guard->condition.str()}, {"on_failure", coordination::str_of(guard->on_failure)}};
  };
  write("pre", guards.pre);
  write("post", guards.post);
  if (!guards.wake_on.empty()) object["wake_on"] = written(guards.wake_on);
}

json::object written(const GuardedPhase& phase) {
  json::object object{{"name", phase.name}};
  if (!phase.command.empty()) object["command"] = written(phase.command);
  write_guards(phase.guards, object);
  if (!phase.locks.empty()) object["locks"] = written(phase.locks);
  if (phase.permits.empty()) return object;
  json::object permits;
  for (const PhasePermits& p : phase.permits) permits[p.semaphore] = p.weight;
  object["permits"] = std::move(permits);
  return object;
}

json::object written(const PhaseGuards& guards) {
  json::object object;
  write_guards(guards, object);
  return object;
}

json::object written(const Pipeline& pipeline) {
  json::array phases;
  phases.reserve(pipeline.phases().size());
  for (const GuardedPhase& phase : pipeline.phases()) phases.emplace_back(written(phase));
  return {{"id", pipeline.id()}, {"phases", std::move(phases)}};
}

// --- reading --------------------------------------------------------------------------------------------------------

std::vector<std::string> texts_of(const json::value* value) {
  std::vector<std::string> list;
  if (value == nullptr) return list;
  for (const json::value& element : coordination::array_of(*value, "an array of texts")) {
    list.push_back(text_of(element));
  }
  return list;
}

GuardCondition condition_of(const json::value& value, std::string_view expected) {
  if (value.is_object()) return coordination::condition_from(value);
  const std::string text = text_of(value, expected);
  try {
    return GuardCondition::parse(text);
  } catch (const ConditionError& e) {
    // Its column is one of the condition, and what is told is one of the file.
    const std::string_view what = e.what();
    const std::size_t colon = e.column() == 0 ? 0 : what.find(": ") + 2;
    throw JsonMistake{&value, std::string(what.substr(colon)), false, e.column()};
  }
}

std::optional<PhaseGuard> guard_of(const json::value* value) {
  if (value == nullptr) return std::nullopt;
  if (!value->is_object() || value->get_object().contains("type")) {
    return PhaseGuard{condition_of(*value, "a condition as text or object, or an object with \"condition\"")};
  }
  Members members(*value);
  members.only({"condition", "on_failure"});
  PhaseGuard guard{condition_of(members.need("condition"), "a condition as text or object")};
  if (const json::value* const action = members.take("on_failure")) {
    const std::string wrong = coordination::parse_action(text_of(*action), guard.on_failure);
    if (!wrong.empty()) throw JsonMistake{action, wrong};
  }
  return guard;
}

PhaseGuards guards_of(Members& members) {
  PhaseGuards guards;
  guards.pre = guard_of(members.take("pre"));
  guards.post = guard_of(members.take("post"));
  guards.wake_on = texts_of(members.take("wake_on"));
  return guards;
}

std::vector<std::string> command_of(const json::value* value) {
  if (value == nullptr) return {};
  std::vector<std::string> command;
  if (value->is_array()) {
    command = texts_of(value);
  } else if (std::string text = text_of(*value, "a text or an array of texts"); !text.empty()) {
    command = {std::string(shell), "-c", std::move(text)};
  }
  if (command.empty()) throw JsonMistake{value, "the command is empty; without \"command\" nothing is run"};
  return command;
}

std::vector<PhasePermits> permits_of(const json::value* value) {
  std::vector<PhasePermits> permits;
  if (value == nullptr) return permits;
  if (!value->is_object()) (void)Members(*value, "an object with a weight for each semaphore");
  for (const json::key_value_pair& member : value->get_object()) {
    permits.push_back({std::string(member.key()), coordination::number_of(member.value(), core::max_capacity)});
  }
  return permits;
}

GuardedPhase phase_of(const json::value& value) {
  Members members(value, "a phase as an object with \"name\"");
  members.only({"name", "command", "pre", "post", "wake_on", "locks", "permits"});
  GuardedPhase phase;
  phase.name = text_of(members.need("name"));
  phase.command = command_of(members.take("command"));
  phase.guards = guards_of(members);
  phase.locks = texts_of(members.take("locks"));
  phase.permits = permits_of(members.take("permits"));
  return phase;
}

// The value of which that part was read.
JsonMistake complaint(const json::value& root, const PipelinePart& part, const std::string& what) {
  JsonMistake mistake{&root, what};
  const auto into = [&](std::string_view key) {
    const json::object* const object = mistake.value->if_object();
    const json::value* const member = object == nullptr ? nullptr : object->if_contains(json::string_view(key));
    if (member != nullptr) mistake.value = member;
  };
  if (part.phase != PipelinePart::none) mistake.value = &root.at("phases").at(part.phase);
  into(part.key);
  // A condition may be the whole guard, and has inner parts of its own then.
  const json::object* const object = mistake.value->if_object();
  if (object != nullptr && !part.inner.empty() && !object->contains("type")) into(part.inner);
  if (part.index == PipelinePart::none) return mistake;
  if (const json::array* const array = mistake.value->if_array()) {
    mistake.value = &array->at(part.index);
  } else if (object != nullptr) {
    mistake.value = &(object->begin() + static_cast<std::ptrdiff_t>(part.index))->value();
    mistake.of_key = part.name;
  }
  return mistake;
}

/// Reads the text and what `read` makes of it; any mistake with its place.
template <class Read>
auto read_text(std::string_view text, std::string_view expected, const Read& read) {
  if (text.size() > Pipeline::max_text) {
    throw PipelineTextError(0, 0, "the text is longer than " + std::to_string(Pipeline::max_text) + " bytes");
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw PipelineTextError(1, 1, "there is nothing but blanks: expected " + std::string(expected));
  }
  json::value root;
  coordination::JsonFault fault;
  if (!coordination::parse_json(text, deepest, root, fault)) {
    throw PipelineTextError(fault.line, fault.column, fault.what);
  }
  const auto told = [&](const JsonMistake& mistake) {
    const auto place = coordination::place_of(text, coordination::byte_of(text, root, mistake));
    return PipelineTextError(place.line, place.column, coordination::what_of(text, root, mistake));
  };
  PipelinePart part;
  try {
    return read(root, part);
  } catch (const JsonMistake& mistake) {
    throw told(mistake);
  } catch (const Error& e) {
    throw told(complaint(root, part, e.what()));
  }
}

}  // namespace

PipelineTextError::PipelineTextError(std::size_t line, std::size_t column, const std::string& what)
    : Error(Errc::invalid_argument,
            line == 0 ? what : "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what),
      line_(line),
      column_(column) {}
PipelineTextError::~PipelineTextError() = default;

std::string PhaseGuards::json() const { return json::serialize(written(*this)); }

PhaseGuards PhaseGuards::parse_json(std::string_view text) {
  constexpr std::string_view form = R"(an object with "pre", "post" or "wake_on")";
  return read_text(text, form, [&](const json::value& root, PipelinePart& part) {
    Members members(root, form);
    members.only({"pre", "post", "wake_on"});
    PhaseGuards guards = guards_of(members);
    coordination::check_guards(guards, part);
    return guards;
  });
}

std::string Pipeline::json() const { return json::serialize(written(*this)); }

Pipeline Pipeline::parse_json(std::string_view text) {
  constexpr std::string_view form = R"(an object like {"id": "release", "phases": [{"name": "build"}]})";
  return read_text(text, form, [&](const json::value& root, PipelinePart& part) {
    Members members(root, form);
    members.only({"id", "phases"});
    std::string id = text_of(members.need("id"));
    std::vector<GuardedPhase> phases;
    for (const json::value& phase : coordination::array_of(members.need("phases"), "an array of phases")) {
      phases.push_back(phase_of(phase));
    }
    try {
      return Pipeline(id, phases);
    } catch (const Error&) {
      coordination::check_pipeline(id, phases, part);  // once more, to learn where
      throw;
    }
  });
}

}  // namespace shmcoord
