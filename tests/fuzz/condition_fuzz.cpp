#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "shmcoord/condition.hpp"

// Any bytes as a condition: as text and as JSON they are refused with an Error, or taken; what is taken passes its own
// check, and comes back equal from each of its forms. The dictionary that helps most is the list of names that the
// refusal of an unknown one prints.

namespace {

using shmcoord::GuardCondition;

void require(bool good, const GuardCondition& condition) {
  if (good) return;
  std::fputs(condition.str().c_str(), stderr);
  std::abort();
}

void comes_back(const GuardCondition& condition) {
  condition.check();
  require(GuardCondition::parse(condition.str()) == condition, condition);
  require(GuardCondition::parse_json(condition.json()) == condition, condition);
  require(condition.evaluate({}) == condition.evaluate({}), condition);
  (void)condition.required_inputs();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (auto* const parse : {&GuardCondition::parse, &GuardCondition::parse_json}) {
    try {
      comes_back(parse(text));
    } catch (const shmcoord::ConditionError&) {  // refused
    }
  }
  return 0;
}
