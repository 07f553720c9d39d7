#include "shmcoord/outer_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "engine/segment_file.hpp"
#include "shmcoord/numbers.hpp"

namespace shmcoord::tool {
namespace {

constexpr const char* variable = "SHMCOORD_HELD";

// A chain in which each starts the next and ends hands down marks of holds that are over. Far above what is nested in
// earnest, and far below what an environment may be.
constexpr std::size_t most_bytes = 65'536;

std::string_view inherited() {
  const char* const text = std::getenv(variable);
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// Everything of a mark but the token.
std::string mark_of(const process::PrimitiveClient& client) {
  return fmt::format("{:x}:{}:{}:", client.participant().mapping().view().header().segment_id, client.ops().index(),
                     client.ops().generation());
}

/// Calls use(mark) for each, until it returns true.
template <class Use>
bool any_mark(std::string_view marks, Use&& use) {
  while (!marks.empty()) {
    const auto comma = marks.find(',');
    if (use(marks.substr(0, comma))) return true;
    if (comma == std::string_view::npos) return false;
    marks.remove_prefix(comma + 1);
  }
  return false;
}

}  // namespace

std::string held_environment(const std::vector<OuterHold>& holds) {
  std::string marks;
  for (const OuterHold& hold : holds) {
    if (!marks.empty()) marks += ',';
    marks += mark_of(*hold.client) + std::to_string(hold.token);
  }
  any_mark(inherited(), [&](std::string_view mark) {
    if (marks.size() + mark.size() + 1 > most_bytes) return true;
    (marks += ',') += mark;
    return false;
  });
  return std::string(variable) + '=' + marks;
}

bool held_by_outer_run(process::PrimitiveClient& client) {
  const std::string lock = mark_of(client);
  return any_mark(inherited(), [&](std::string_view mark) {
    if (!mark.starts_with(lock)) return false;
    mark.remove_prefix(lock.size());
    std::uint64_t token = 0;
    return parse_whole(mark, token) && client.is_current(token);
  });
}

}  // namespace shmcoord::tool
