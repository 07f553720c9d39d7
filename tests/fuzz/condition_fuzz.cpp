#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "shmcoord/pipeline.hpp"

// Any bytes as a condition, and as a pipeline: as text and as JSON they are refused with an Error that says where, or
// taken; what is taken passes its own check, and comes back equal from each of its forms. The dictionary that helps
// most is the list of names that the refusal of an unknown one prints.

namespace {

using shmcoord::ConditionError;
using shmcoord::GuardCondition;
using shmcoord::Pipeline;
using shmcoord::PipelineTextError;

void require(bool good, const std::string& text) {
  if (good) return;
  std::fputs(text.c_str(), stderr);
  std::abort();
}

void comes_back(const GuardCondition& condition) {
  condition.check();
  require(GuardCondition::parse(condition.str()) == condition, condition.str());
  require(GuardCondition::parse_json(condition.json()) == condition, condition.str());
  require(condition.evaluate({}) == condition.evaluate({}), condition.str());
  (void)condition.required_inputs();
}

void comes_back(const Pipeline& pipeline) {
  const std::string text = pipeline.json();
  const Pipeline again = Pipeline::parse_json(text);
  require(again.id() == pipeline.id() && again.phases() == pipeline.phases() && again.json() == text, text);
}

/// Nothing: refused.
template <class T>
std::optional<T> taken(T (*parse)(std::string_view), std::string_view text) {
  try {
    return parse(text);
  } catch (const ConditionError& e) {
    require(e.column() <= text.size() + 1, e.what());
  } catch (const PipelineTextError& e) {
    require(e.line() <= text.size() + 1 && e.column() <= text.size() + 1, e.what());
  }
  return std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (auto* const parse : {&GuardCondition::parse, &GuardCondition::parse_json}) {
    if (const auto condition = taken(parse, text)) comes_back(*condition);
  }
  if (const auto pipeline = taken(&Pipeline::parse_json, text)) comes_back(*pipeline);
  return 0;
}
