#include <string>

#include <boost/json.hpp>

#include "coordination/pipeline_store.hpp"
#include "process/clock.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/inspect.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// `shmcoord pipeline …`: looking, cancelling, removing. Running: pipeline_run.cpp.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

void print_result(const Arguments& arguments, const char* result) {
  if (!arguments.global.json) return;
  print_line(json_text(json::object{{"pipeline", printable(arguments.words[0])}, {"result", result}}));
}

}  // namespace

int pipeline_status(const Arguments& arguments) {
  const auto mapping = open_read_only(arguments.global);
  const process::Clock& clock = process::real_clock();
  if (arguments.words.empty()) {
    const process::Picture picture = process::take_picture(*mapping, clock.now_ns());
    const Scene scene{*mapping, picture, clock.wall_ns()};
    const bool color = arguments.global.color;
    write_out(arguments.global.json ? pipelines_json(scene) : pipelines_text(scene, color, terminal_width()));
    return exit_done;
  }
  const std::string& id = arguments.words[0];
  require_name("id of a pipeline", id);
  auto found = coordination::find_pipeline(*mapping, id);
  if (!found) throw process::no_such_name(engine::Kind::pipeline, id, mapping->name());
  const PipelineListing listing = coordination::listing_of(*std::move(found));
  write_out(arguments.global.json ? pipeline_json(listing, clock.now_ns())
                                  : pipeline_text(listing, clock.now_ns(), arguments.global.color, terminal_width()));
  return exit_done;
}

int pipeline_cancel(const Arguments& arguments) {
  Session session = join_session(arguments.global, IfMissing::fail);
  SegmentPipeline pipeline(session, arguments.words[0]);
  if (pipeline.cancel()) {
    print_result(arguments, "cancelled");
    return exit_done;
  }
  const std::string_view status = to_string(pipeline.look().pipeline.status());
  say_error(status, "pipeline '" + printable(pipeline.id()) + "' is " + std::string(status) + " already");
  return exit_missing;
}

int pipeline_remove(const Arguments& arguments) {
  Session session = join_session(arguments.global, IfMissing::fail);
  SegmentPipeline::remove(session, arguments.words[0]);
  print_result(arguments, "removed");
  return exit_done;
}

}  // namespace shmcoord::tool
