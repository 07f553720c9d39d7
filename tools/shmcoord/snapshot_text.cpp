#include "shmcoord/snapshot_text.hpp"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

json::array left_out_json(const std::vector<LeftOut>& all) {
  json::array list;
  for (const LeftOut& one : all) {
    list.push_back(
        json::object{{"name", printable(one.name)},
                     {"holder", one.holder.empty() ? json::value(nullptr) : json::value(printable(one.holder))},
                     {"pid", one.pid == 0 ? json::value(nullptr) : json::value(one.pid)},
                     {"why", one.why}});
  }
  return list;
}

void add_lines(std::vector<std::string>& lines, const std::vector<LeftOut>& all, const char* what) {
  for (const LeftOut& one : all) {
    const std::string who =
        one.holder.empty() ? std::string("a hold without an id") : "'" + printable(one.holder) + "'";
    lines.push_back(fmt::format("{} of '{}' {}{}: {}", who, printable(one.name), what,
                                one.pid == 0 ? "" : fmt::format(" (pid {})", one.pid), one.why));
  }
}

}  // namespace

std::string counts_text(const SnapshotCounts& counts) {
  return fmt::format("{} locks, {} semaphores, {} guards, {} pipelines, {} holds", counts.locks, counts.semaphores,
                     counts.guards, counts.pipelines, counts.holds);
}

json::object counts_json(const SnapshotCounts& counts) {
  return {{"locks", counts.locks},
          {"semaphores", counts.semaphores},
          {"guards", counts.guards},
          {"pipelines", counts.pipelines},
          {"holds", counts.holds}};
}

std::vector<std::string> exceptions_of(const RestoreReport& report) {
  std::vector<std::string> lines;
  add_lines(lines, report.left_out, "was not restored");
  add_lines(lines, report.renewed, "has a new token");
  if (report.lost_group) {
    lines.push_back(fmt::format(
        "the segment was open to group {0}, which you are not in, and is open to yours now; let one of that group or "
        "root restore it",
        *report.lost_group));
  }
  return lines;
}

void add_restored(json::object& to, const RestoreReport& report) {
  to["restored"] = counts_json(report.restored);
  to["left_out"] = left_out_json(report.left_out);
  to["new_tokens"] = left_out_json(report.renewed);
  to["lost_group"] = report.lost_group ? json::value(*report.lost_group) : json::value(nullptr);
}

}  // namespace shmcoord::tool
