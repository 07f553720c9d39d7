#include "shmcoord/inspect.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/keeping_alive.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/notices.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/terminal.hpp"

// Looks at the segment through a read-only mapping: nothing is locked, finished or cleaned up, and no notice to a next
// holder is used up.

namespace shmcoord::tool {
namespace {

/// What was asked for and is not there.
std::vector<std::string> show(const engine::Mapping& mapping, const InspectArgs& args) {
  const process::Clock& clock = process::real_clock();
  const process::Picture picture = process::take_picture(mapping, clock.now_ns(), args.names);
  Scene scene{
      mapping, picture, clock.wall_ns(), !args.names.empty(), args.graph, process::keeping_alive(mapping, picture)};
  scene.notices = notices_of(scene);
  if (args.graph || args.dot) scene.deadlocks = process::find_deadlocks(mapping, picture.now_ns);
  if (args.dot) {
    write_out(inspect_dot(scene));
  } else if (args.global.json) {
    inspect_json(scene, write_out);
  } else {
    const bool in_place = args.watch && obeys_sequences(STDOUT_FILENO);
    std::string out;
    if (in_place) out = "\x1b[H\x1b[J";
    out += inspect_text(scene, args.global.color, terminal_width());
    if (args.watch && !in_place) out += '\n';
    write_out(out);
  }
  return picture.unknown;
}

/// Exit code: 0, or 2 when a name is not there.
int show_once(const engine::Mapping& mapping, const InspectArgs& args) {
  const std::vector<std::string> unknown = show(mapping, args);
  for (const std::string& name : unknown) say_error("not_found", no_such(name, mapping.name()).what());
  return unknown.empty() ? exit_done : exit_missing;
}

/// Until SIGINT or SIGTERM, which are the normal end. What is not there to begin with is a mistyped name rather than
/// one to wait for; later it may go, which is said once, and come again.
int watch(const engine::Mapping& mapping, const InspectArgs& args) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  if (const int code = show_once(mapping, args); code != exit_done) return code;
  std::vector<std::string> gone;
  for (;;) {
    if (mapping.removed() || mapping.check_identity() != engine::Mapping::Identity::same) {
      say_error("segment_gone", "segment " + printable(mapping.name()) + " was removed");
      return exit_missing;
    }
    const timespec second{1, 0};
    if (sigtimedwait(&ends, nullptr, &second) > 0) return exit_done;
    std::vector<std::string> unknown = show(mapping, args);
    for (const std::string& name : unknown) {
      if (std::find(gone.begin(), gone.end(), name) == gone.end()) say("'" + name + "' is gone; watching on");
    }
    gone = std::move(unknown);
  }
}

}  // namespace

std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

int inspect_command(const InspectArgs& args) {
  const auto mapping = open_read_only(args.global);
  return args.watch ? watch(*mapping, args) : show_once(*mapping, args);
}

}  // namespace shmcoord::tool
