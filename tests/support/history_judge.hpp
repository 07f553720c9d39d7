#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "support/lock_specification.hpp"
#include "support/permit_specification.hpp"

// The judge of a recorded history: is there an order of what was done that the pure machines explain?

namespace shmcoord::test {

struct UnexplainedObject {
  Text object;
  History prefix;  // of the operations on it, and with the deaths
};

inline std::optional<std::vector<Step>> unexplained_steps(const History& operations, const ObjectFacts& facts) {
  if (facts.capacity == 0) return unexplained(LockSpecification(facts), lock_steps(operations, facts));
  return unexplained(PermitSpecification(facts), permit_steps(operations, facts));
}

/// Judges each lock and each semaphore of a history by itself: linearizability is local.
inline std::optional<UnexplainedObject> unexplained_object(const History& history) {
  std::map<Text, ObjectFacts> facts;
  std::map<Text, History> of;
  for (const Operation& o : history) {
    if (o.verb == Verb::configure) {
      facts[o.object].config.max_hold_ns = o.limit_ns;
      facts[o.object].capacity = o.capacity;
    } else if (o.verb != Verb::died) {
      of[o.object].push_back(o);
    }
  }
  for (const auto& [object, operations] : of) {
    ObjectFacts& known = facts[object];
    for (const Operation& o : history) {
      if (o.verb != Verb::died) continue;
      known.deaths[o.process()] = o.call_ns;
      known.gone[o.process()] = o.return_ns;
    }
    const auto steps = unexplained_steps(operations, known);
    if (!steps) continue;
    History part;
    for (const Step& step : *steps) {
      if (step.part == Part::call) part.push_back(step);
    }
    for (const Operation& o : history) {
      if (o.verb == Verb::died && o.call_ns <= part.back().call_ns) part.push_back(o);
    }
    return UnexplainedObject{object, std::move(part)};
  }
  return std::nullopt;
}

}  // namespace shmcoord::test
