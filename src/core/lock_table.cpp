#include "core/lock_table.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>

#include "core/lock_machine.hpp"

namespace shmcoord::core {
namespace {

enum class Who : std::uint8_t { caller, other };
using Machine = LockMachine<Who, int>;

// The samples: a threshold of 10, no maximum, and a heartbeat either within it or long ago. Which reason made a
// hold lapse changes only the reason that is told, so one reason stands for all of them.
constexpr LockConfig config{.stale_threshold_ns = 10};
constexpr std::int64_t now_ns = 100;
constexpr std::uint64_t held_token = 7;

constexpr Machine::State held_by(Who who, bool lapsed, bool warned) {
  const std::int64_t since_ns = now_ns - (lapsed ? 50 : 5);
  Machine::State state;
  state.next_token = held_token + 1;
  state.held = Machine::Held{who, since_ns, since_ns, {}, held_token, 0, warned};
  return state;
}

constexpr Machine::State free_after_reclaim() {
  Machine::State state;
  state.next_token = held_token + 1;
  state.previous = Machine::Previous{Who::other, Loss::stale};
  return state;
}

struct StateClass {
  std::string_view name;
  Machine::State sample;
};

struct InputClass {
  std::string_view name;
  Machine::Input sample;
  bool names_holder;  ///< without one, no hold can be the caller's
  bool proves_dead;   ///< the present holder is dead, so it cannot be the one that calls
};

constexpr std::array<StateClass, 8> states{{
    {"free", Machine::State{}},
    {"free+p", free_after_reclaim()},
    {"mine", held_by(Who::caller, false, false)},
    {"mine!", held_by(Who::caller, true, false)},
    {"mine!w", held_by(Who::caller, true, true)},
    {"other", held_by(Who::other, false, false)},
    {"other!", held_by(Who::other, true, false)},
    {"other!w", held_by(Who::other, true, true)},
}};

constexpr std::array<InputClass, 9> inputs{{
    {"acquire", Machine::Acquire{Who::caller, {}, {}, 0}, true, false},
    {"acquire, dead", Machine::Acquire{Who::caller, {}, {}, held_token}, true, true},
    {"release", Machine::Release{Who::caller}, true, false},
    {"heartbeat", Machine::Heartbeat{Who::caller}, true, false},
    {"renew", Machine::Renew{Who::caller, 20}, true, false},
    {"tick", Machine::Tick{}, false, false},
    {"reclaim", Machine::Reclaim{}, false, false},
    {"force", Machine::Force{}, false, false},
    {"died", Machine::Died{Who::caller}, true, false},
}};

std::string describe(const Machine::State& state) {
  if (state.is_free()) return state.previous ? "free+p" : "free";
  std::string text = state.held->holder == Who::caller ? "mine" : "other";
  if (Machine::reclaimable(config, state, now_ns) != Loss::none) text += "!";
  if (state.held->warned) text += "w";
  return text;
}

struct Answer {
  std::string result;
  std::string next;
  std::string events;
  bool operator==(const Answer&) const = default;
};

Answer answer(const StateClass& state, const InputClass& input) {
  const bool mine = state.sample.is_held_by(Who::caller);
  if (mine && !input.names_holder) return {"impossible", "names no holder", ""};
  if (mine && input.proves_dead) return {"impossible", "the dead do not call", ""};
  const Machine::Outcome outcome = Machine::transition(config, state.sample, input.sample, now_ns);
  Answer text;
  text.result = std::visit([](auto value) { return std::string(to_string(value)); }, outcome.result);
  if (outcome.previous) text.result += " + previous";
  text.next = outcome.state == state.sample ? "unchanged" : describe(outcome.state);
  for (const Machine::Event& event : outcome.effects) {
    if (!text.events.empty()) text.events += ", ";
    text.events += name(event.kind);
  }
  return text;
}

void append_cell(std::string& line, std::string_view cell, std::size_t column_end) {
  line += cell;
  line.append(line.size() < column_end ? column_end - line.size() : 1, ' ');
}

std::string format_line(std::string_view input, std::string_view state, const Answer& answer) {
  std::string line;
  append_cell(line, input, 15);
  append_cell(line, state, 53);
  append_cell(line, answer.result, 75);
  append_cell(line, answer.next, 86);
  line += answer.events;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

std::string lock_state_table() {
  std::string table = format_line("input", "state", {"result", "next", "events"});
  for (const InputClass& input : inputs) {
    std::array<Answer, states.size()> answers;
    for (std::size_t i = 0; i < states.size(); ++i) answers[i] = answer(states[i], input);
    std::array<bool, states.size()> told{};
    std::string_view label = input.name;
    for (std::size_t first = 0; first < states.size(); ++first) {
      if (told[first]) continue;
      std::string alike;
      for (std::size_t i = first; i < states.size(); ++i) {
        if (answers[i] != answers[first]) continue;
        if (!alike.empty()) alike += ", ";
        alike += states[i].name;
        told[i] = true;
      }
      table += format_line(label, alike, answers[first]);
      label = "";
    }
  }
  return table;
}

}  // namespace shmcoord::core
