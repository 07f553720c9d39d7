#include <algorithm>
#include <utility>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "coordination/guard_store.hpp"
#include "process/call_arguments.hpp"
#include "process/event_stream.hpp"
#include "shmcoord/error.hpp"

// The definition of a registered guard as text: the condition in its own text form, which people can read in a dump,
// and the rest around it.

namespace shmcoord::coordination {
namespace {

namespace json = boost::json;

constexpr std::size_t most_patterns = 64;
constexpr std::size_t longest_message = 4096;

[[noreturn]] void refuse(const std::string& what) { throw Error(Errc::invalid_argument, what); }

const json::value& need(const json::object& object, std::string_view key) {
  const json::value* const value = object.if_contains(json::string_view(key));
  if (value == nullptr) throw std::runtime_error("no \"" + std::string(key) + "\"");
  return *value;
}

std::string text_of(const json::value& value) {
  const json::string& text = value.as_string();
  return {text.data(), text.size()};
}

GuardAction action_from(const json::object& object) {
  const std::string action = text_of(need(object, "action"));
  if (action == "block") return Block{};
  if (action == "warn") return Warn{};
  if (action == "retry") return Retry{std::chrono::nanoseconds(need(object, "delay_ns").as_int64())};
  if (action == "fail") return Fail{text_of(need(object, "message"))};
  throw std::runtime_error("no known action");
}

}  // namespace

std::string definition_of(const Guard& guard) {
  json::object object;
  object["condition"] = guard.condition.str();
  if (std::holds_alternative<Block>(guard.on_failure)) object["action"] = "block";
  if (std::holds_alternative<Warn>(guard.on_failure)) object["action"] = "warn";
  if (const auto* const retry = std::get_if<Retry>(&guard.on_failure)) {
    object["action"] = "retry";
    object["delay_ns"] = std::int64_t{retry->delay.count()};
  }
  if (const auto* const fail = std::get_if<Fail>(&guard.on_failure)) {
    object["action"] = "fail";
    object["message"] = fail->message;
  }
  json::array patterns;
  for (const std::string& pattern : guard.wake_on) patterns.emplace_back(pattern);
  object["wake_on"] = std::move(patterns);
  return json::serialize(object);
}

Guard guard_from(std::string_view name, std::string_view definition) {
  try {
    const json::value value = json::parse(json::string_view(definition));
    const json::object& object = value.as_object();
    Guard guard{std::string(name), GuardCondition::parse(text_of(need(object, "condition"))), action_from(object), {}};
    for (const json::value& pattern : need(object, "wake_on").as_array()) guard.wake_on.push_back(text_of(pattern));
    return guard;
  } catch (const std::exception& e) {
    throw Error(Errc::segment_corrupt, "the definition of guard '" + base::printable(name) + "' cannot be read (" +
                                           base::printable(e.what()) +
                                           "); remove it (`shmcoord guard remove`) and register it anew");
  }
}

void check_guard(const Guard& guard) {
  process::require_primitive_name(engine::Kind::guard, guard.name);
  guard.condition.check();
  if (const auto* const retry = std::get_if<Retry>(&guard.on_failure)) {
    process::require_duration("the delay of a retry", retry->delay);
  }
  if (const auto* const fail = std::get_if<Fail>(&guard.on_failure); fail != nullptr) {
    if (fail->message.size() > longest_message) refuse("the message of a failure is longer than 4096 bytes");
  }
  if (guard.wake_on.size() > most_patterns) {
    refuse("a guard has at most " + std::to_string(most_patterns) + " wake patterns");
  }
  for (const std::string& pattern : guard.wake_on) {
    if (const std::string_view wrong = process::fault_of_pattern(pattern); !wrong.empty()) {
      refuse("the wake pattern '" + base::shortened(pattern, 64) + "' " + std::string(wrong));
    }
  }
  // Bytes that JSON does not carry would make a guard that nobody can read.
  const auto comes_back = [&] {
    try {
      return definition_of(guard_from(guard.name, definition_of(guard))) == definition_of(guard);
    } catch (const Error&) {
      return false;
    }
  };
  if (!comes_back()) refuse("the guard has a text that is not UTF-8");
}

}  // namespace shmcoord::coordination
