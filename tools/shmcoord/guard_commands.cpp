#include <string>

#include <boost/json.hpp>

#include "coordination/guard_store.hpp"
#include "process/clock.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/guard_flag.hpp"
#include "shmcoord/guard_words.hpp"
#include "shmcoord/inspect.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// `shmcoord guard …`: registering, listing, removing, which ask nothing outside. Evaluating: guard_ask.cpp.

namespace shmcoord::tool {

namespace json = boost::json;

int guard_add(const Arguments& arguments) {
  auto condition = condition_of(arguments);
  if (!condition) {
    throw UsageError{
        "--condition is missing: say what has to hold, e.g. --condition 'lock_free(deploy) && branch_clean(main)', or "
        "give it as JSON with --json-file"};
  }
  const Guard guard{arguments.words[0], *std::move(condition), action_of(arguments), arguments.values("--wake")};
  coordination::check_guard(guard);  // before a segment is made for it
  const bool existed = again_if_removed([&] {
    Session session = join_session(arguments.global, IfMissing::create);
    const engine::Mapping& mapping = *detail::Access::mapping(session.segment());
    const bool found = coordination::find_guard(mapping, guard.name).has_value();
    (void)GuardFlag::add(session, guard);
    return found;
  });
  if (arguments.global.json) {
    json::array patterns;
    for (const std::string& pattern : guard.wake_on) patterns.emplace_back(pattern);
    print_line(json_text(json::object{{"guard", printable(guard.name)},
                                      {"result", existed ? "exists" : "registered"},
                                      {"condition", guard.condition.str()},
                                      {"action", action_text(guard.on_failure)},
                                      {"wake_on", std::move(patterns)}}));
  }
  return exit_done;
}

int guard_list(const Arguments& arguments) {
  const auto mapping = open_read_only(arguments.global);
  const process::Clock& clock = process::real_clock();
  const process::Picture picture = process::take_picture(*mapping, clock.now_ns());
  const Scene scene{*mapping, picture, clock.wall_ns()};
  write_out(arguments.global.json ? guards_json(scene) : guards_text(scene, arguments.global.color, terminal_width()));
  return exit_done;
}

int guard_remove(const Arguments& arguments) {
  Session session = join_session(arguments.global, IfMissing::fail);
  GuardFlag::remove(session, arguments.words[0]);
  if (arguments.global.json) {
    print_line(json_text(json::object{{"guard", printable(arguments.words[0])}, {"result", "removed"}}));
  }
  return exit_done;
}

}  // namespace shmcoord::tool
