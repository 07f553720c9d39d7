#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/long_form.hpp"
#include "support/pipeline_protocol.hpp"

// All orders in which those who run, cancel, add and remove one pipeline can take their steps, with a death before any.

namespace shmcoord {
namespace {

using test::Protocol;
using test::ProtocolRules;
using test::Role;

using Beginning = std::function<Protocol&(Protocol&)>;

struct Begun {
  const char* name;
  Beginning beginning;
};
const std::vector<Begun>& beginnings() {
  static const std::vector<Begun> all{
      {"waiting", [](Protocol& p) -> Protocol& { return p.defined(); }},
      {"running", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::running); }},
      {"failed", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::failed); }},
      {"done", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::done); }},
  };
  return all;
}

struct Cast {
  std::string name;
  std::function<void(Protocol&)> people;
};

std::string explore(const ProtocolRules& rules, const Begun& begun, const Cast& cast, bool say) {
  Protocol protocol(rules);
  begun.beginning(protocol);
  cast.people(protocol);
  std::string wrong = protocol.explore();
  if (say) {
    std::printf("%s, %s: %zu states, %zu ends\n", begun.name, cast.name.c_str(), protocol.states(), protocol.ends());
  }
  if (!wrong.empty()) wrong = std::string(begun.name) + ", " + cast.name + ": " + wrong;
  return wrong;
}

const char* word_of(Role role) {
  switch (role) {
    case Role::runner: return "runner";
    case Role::failing_runner: return "failing runner";
    case Role::canceller: return "canceller";
    case Role::adder: return "adder";
    case Role::remover: return "remover";
    case Role::operating: return "operator";
    case Role::none: break;
  }
  return "nobody";
}

/// Each choice of so many, in which the order does not matter.
void choose(std::size_t many, const std::vector<Role>& of, std::size_t from, std::vector<Role>& chosen,
            const std::function<void()>& then) {
  if (chosen.size() == many) return then();
  for (std::size_t n = from; n < of.size(); ++n) {
    chosen.push_back(of[n]);
    choose(many, of, n, chosen, then);
    chosen.pop_back();
  }
}

std::vector<Cast> casts(std::size_t many, const std::vector<Role>& of, bool sleeper) {
  std::vector<Cast> all;
  std::vector<Role> chosen;
  choose(many, of, 0, chosen, [&] {
    std::string name = sleeper ? "sleeper" : "";
    for (const Role role : chosen) name += (name.empty() ? "" : ", ") + std::string(word_of(role));
    all.push_back({name, [chosen, sleeper](Protocol& p) {
                     if (sleeper) p.with_sleeper();
                     for (const Role role : chosen) role == Role::operating ? p.with_operator() : p.with(role);
                   }});
  });
  return all;
}

const std::vector<Role> everybody{Role::runner, Role::failing_runner, Role::canceller,
                                  Role::adder,  Role::remover,        Role::operating};

/// The first thing that goes wrong; empty: nothing.
std::string explore_all(const ProtocolRules& rules, const std::vector<Cast>& all, bool sleeper, bool say) {
  for (const Begun& begun : beginnings()) {
    // A sleeper wrote before; after `done` it would have ended.
    const std::string name = begun.name;
    if (sleeper && name != "running" && name != "failed") continue;
    for (const Cast& cast : all) {
      const std::string wrong = explore(rules, begun, cast, say);
      if (!wrong.empty()) return wrong;
    }
  }
  return {};
}

TEST(PipelineInterleaving, OfPairs) { EXPECT_EQ(explore_all({}, casts(2, everybody, false), false, true), ""); }
TEST(PipelineInterleaving, OfPairsAndASleeper) {
  EXPECT_EQ(explore_all({}, casts(2, everybody, true), true, true), "");
}
TEST(PipelineInterleaving, OfTriplesAndASleeper) {
  // With all orders of two who cancel and two who run it takes half a minute.
  std::vector<Role> those{Role::runner, Role::remover, Role::operating};
  if (test::long_form()) those.push_back(Role::canceller);
  EXPECT_EQ(explore_all({}, casts(3, those, true), true, true), "");
}

TEST(PipelineInterleaving, OfTriples) { EXPECT_EQ(explore_all({}, casts(3, everybody, false), false, true), ""); }

// What would go wrong without each of the rules.
std::string without(bool ProtocolRules::*rule) {
  ProtocolRules rules;
  rules.*rule = false;
  for (const bool sleeper : {true, false}) {
    const std::string wrong = explore_all(rules, casts(2, everybody, sleeper), sleeper, false);
    if (!wrong.empty()) return wrong;
  }
  return explore_all(rules, casts(3, everybody, false), false, false);
}

TEST(PipelineInterleaving, EachRuleIsNeeded) {
  const auto needed = [](const char* name, bool ProtocolRules::*rule) {
    const std::string wrong = without(rule);
    EXPECT_NE(wrong, "") << name;
    std::printf("without %s: %s\n", name, wrong.substr(0, wrong.find('\n')).c_str());
  };
  needed("runs_compared", &ProtocolRules::runs_compared);
  needed("final_stays", &ProtocolRules::final_stays);
  needed("begins_with_a_word", &ProtocolRules::begins_with_a_word);
  needed("looks_at_what_it_wrote", &ProtocolRules::looks_at_what_it_wrote);
  needed("in_order", &ProtocolRules::in_order);
  needed("writes_first", &ProtocolRules::writes_first);
  needed("cancel_looks", &ProtocolRules::cancel_looks);
  needed("definition_first", &ProtocolRules::definition_first);
  needed("removes_what_it_saw", &ProtocolRules::removes_what_it_saw);
  needed("own_tries", &ProtocolRules::own_tries);
  needed("stands_before_removing", &ProtocolRules::stands_before_removing);
}

}  // namespace
}  // namespace shmcoord
