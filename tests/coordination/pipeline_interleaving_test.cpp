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
      {"nothing", [](Protocol& p) -> Protocol& { return p; }},
      {"waiting", [](Protocol& p) -> Protocol& { return p.defined(); }},
      {"running", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::running); }},
      {"failed", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::failed); }},
      {"done", [](Protocol& p) -> Protocol& { return p.defined().came_to(PipelineStatus::done); }},
  };
  return all;
}

struct Cast {
  std::string name;
  test::Small parts;  // of a definition
  std::function<void(Protocol&)> people;
};

std::string explore(const ProtocolRules& rules, const Begun& begun, const Cast& cast, bool say) {
  Protocol protocol(rules);
  protocol.in_parts(cast.parts);
  begun.beginning(protocol);
  cast.people(protocol);
  std::string wrong = protocol.explore();
  if (say) {
    std::printf("%s, %s, parts %d: %zu states, %zu ends\n", begun.name, cast.name.c_str(), cast.parts,
                protocol.states(), protocol.ends());
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
    case Role::tidier: return "tidier";
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

std::vector<Cast> casts(std::size_t many, const std::vector<Role>& of, bool sleeper, test::Small parts = 1) {
  std::vector<Cast> all;
  std::vector<Role> chosen;
  choose(many, of, 0, chosen, [&] {
    std::string name = sleeper ? "sleeper" : "";
    for (const Role role : chosen) name += (name.empty() ? "" : ", ") + std::string(word_of(role));
    all.push_back({name, parts, [chosen, sleeper](Protocol& p) {
                     if (sleeper) p.with_sleeper();
                     for (const Role role : chosen) role == Role::operating ? p.with_operator() : p.with(role);
                   }});
  });
  return all;
}

const std::vector<Role> everybody{Role::runner,  Role::failing_runner, Role::canceller, Role::adder,
                                  Role::remover, Role::operating,      Role::tidier};

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

TEST(PipelineInterleaving, OfPairs) {
  for (const test::Small parts : {test::Small{1}, test::Small{2}}) {
    EXPECT_EQ(explore_all({}, casts(2, everybody, false, parts), false, true), "");
  }
}
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

TEST(PipelineInterleaving, OfDefinitionsInTwoParts) {
  const std::vector<Role> those{Role::adder, Role::remover, Role::tidier, Role::runner};
  EXPECT_EQ(explore_all({}, casts(3, those, false, 2), false, true), "");
}

// One who looked before there was one must not add his when that is removed, and take it away again.
const Cast late{"late adder, remover, tidier, runner", 1,
                [](Protocol& p) { p.with_late_adder().with(Role::remover).with(Role::tidier).with(Role::runner); }};
TEST(PipelineInterleaving, OfOneWhoAddsTooLate) { EXPECT_EQ(explore_all({}, {late}, false, true), ""); }

TEST(PipelineInterleaving, OfThreeWhoAdd) {
  const Cast cast{"adder, adder, adder, remover", 1,
                  [](Protocol& p) { p.with(Role::adder).with(Role::adder).with(Role::adder).with(Role::remover); }};
  for (const Begun& begun : beginnings()) {
    const std::string name = begun.name;
    const bool over = name == "failed" || name == "done";  // half a minute each
    if (over && !test::long_form()) continue;
    EXPECT_EQ(explore({}, begun, cast, true), "");
  }
}

// What would go wrong without each of the rules.
std::string without(bool ProtocolRules::*rule) {
  ProtocolRules rules;
  rules.*rule = false;
  for (const bool sleeper : {true, false}) {
    for (const test::Small parts : {test::Small{1}, test::Small{2}}) {
      const std::string wrong = explore_all(rules, casts(2, everybody, sleeper, parts), sleeper, false);
      if (!wrong.empty()) return wrong;
    }
  }
  const std::string wrong = explore_all(rules, {late}, false, false);
  return wrong.empty() ? explore_all(rules, casts(3, everybody, false), false, false) : wrong;
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
  needed("one_text", &ProtocolRules::one_text);
  needed("stands_before_removing", &ProtocolRules::stands_before_removing);
  needed("tidies_after_the_dead", &ProtocolRules::tidies_after_the_dead);
  needed("tidies_beside_no_text", &ProtocolRules::tidies_beside_no_text);
  needed("tidies_what_was_broken", &ProtocolRules::tidies_what_was_broken);
}

}  // namespace
}  // namespace shmcoord
