#include <fmt/format.h>

#include <boost/json.hpp>

#include "engine/segment_file.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/snapshot.hpp"

// `shmcoord snapshot …`: the segment as a file, and back.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

json::object counts_json(const SnapshotCounts& counts) {
  return {{"locks", counts.locks},
          {"semaphores", counts.semaphores},
          {"guards", counts.guards},
          {"pipelines", counts.pipelines},
          {"holds", counts.holds}};
}

std::string counts_text(const SnapshotCounts& counts) {
  return fmt::format("{} locks, {} semaphores, {} guards, {} pipelines, {} holds", counts.locks, counts.semaphores,
                     counts.guards, counts.pipelines, counts.holds);
}

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

void tell(const std::vector<LeftOut>& all, const char* what) {
  for (const LeftOut& one : all) {
    const std::string who =
        one.holder.empty() ? std::string("a hold without an id") : "'" + printable(one.holder) + "'";
    say(fmt::format("{} of '{}' {}{}: {}", who, printable(one.name), what,
                    one.pid == 0 ? "" : fmt::format(" (pid {})", one.pid), one.why));
  }
}

/// A file of the caller's is no segment that cannot be used.
template <class Body>
auto with_file(Body&& body) {
  try {
    return body();
  } catch (const Error& e) {
    if (e.errc() == Errc::system) throw Refusal{exit_unusable, name_of(Errc::system), e.what()};
    throw;
  }
}

}  // namespace

int snapshot_save(const Arguments& arguments) {
  const std::string& file = arguments.words[0];
  const Segment segment = detail::Access::segment(open_segment(arguments.global, IfMissing::fail));
  const SnapshotCounts counts = with_file([&] { return save_snapshot(segment, file); });
  if (arguments.global.json) {
    print_line(json_text(json::object{{"segment", printable(segment.name())},
                                      {"file", printable(file)},
                                      {"result", "saved"},
                                      {"saved", counts_json(counts)}}));
  } else {
    print_line(fmt::format("saved {} to {}", counts_text(counts), printable(file)));
  }
  return exit_done;
}

int snapshot_restore(const Arguments& arguments) {
  const std::string& file = arguments.words[0];
  const RestoreReport report = with_file([&] { return restore_snapshot(file, arguments.global.segment); });
  if (arguments.global.json) {
    print_line(json_text(json::object{{"segment", printable(arguments.global.segment)},
                                      {"file", printable(file)},
                                      {"result", "restored"},
                                      {"restored", counts_json(report.restored)},
                                      {"left_out", left_out_json(report.left_out)},
                                      {"new_tokens", left_out_json(report.renewed)}}));
  } else {
    tell(report.left_out, "was not restored");
    tell(report.renewed, "has a new token");
    print_line(fmt::format("restored {} from {}", counts_text(report.restored), printable(file)));
  }
  return exit_done;
}

}  // namespace shmcoord::tool
