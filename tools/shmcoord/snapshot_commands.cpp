#include <fmt/format.h>

#include <boost/json.hpp>

#include "engine/segment_file.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/snapshot.hpp"
#include "shmcoord/snapshot_text.hpp"

// `shmcoord snapshot …`: the segment as a file, and back.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

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
    json::object o{{"segment", printable(arguments.global.segment)}, {"file", printable(file)}, {"result", "restored"}};
    add_restored(o, report);
    print_line(json_text(o));
  } else {
    for (const std::string& line : exceptions_of(report)) say(line);
    print_line(fmt::format("restored {} from {}", counts_text(report.restored), printable(file)));
  }
  return exit_done;
}

}  // namespace shmcoord::tool
