#include "shmcoord/outer_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/snapshot.hpp"
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

bool waits_for_outer_run(process::PrimitiveClient& client, const process::Request& request, std::int64_t deadline_ns) {
  const std::string mark_without_token = mark_of(client);
  std::vector<std::uint64_t> tokens;
  any_mark(inherited(), [&](std::string_view mark) {
    std::uint64_t token = 0;
    if (!mark.starts_with(mark_without_token)) return false;
    mark.remove_prefix(mark_without_token.size());
    if (parse_whole(mark, token)) tokens.push_back(token);
    return false;
  });
  if (tokens.empty()) return false;
  std::uint64_t theirs = 0;
  for (const PermitHolder& h : client.holders()) {
    if (std::find(tokens.begin(), tokens.end(), h.token) != tokens.end()) theirs += h.weight;
  }
  if (theirs == 0) return false;
  const std::uint32_t capacity = client.amounts().capacity;
  if (theirs + request.weight > capacity) return true;
  if (deadline_ns != process::no_deadline) return false;
  const auto& mapping = client.participant().mapping();
  const auto picture = process::take_picture(mapping, process::real_clock().now_ns(), {client.name()});
  return std::any_of(picture.locks.begin(), picture.locks.end(), [&](const process::LockView& semaphore) {
    return std::any_of(semaphore.waiters.begin(), semaphore.waiters.end(),
                       [&](const process::GrantView& w) { return theirs + w.weight > capacity; });
  });
}

}  // namespace shmcoord::tool
