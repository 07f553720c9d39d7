#include "shmcoord/inspect.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/keeping_alive.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/notices.hpp"
#include "shmcoord/render.hpp"

// Looks at the segment through a read-only mapping: nothing is locked, finished or cleaned up, and no notice to a next
// holder is used up.

namespace shmcoord::tool {
namespace {

std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

/// Exit code: 0, or 2 when a name is not there.
int show(const engine::Mapping& mapping, const InspectArgs& args) {
  const process::Clock& clock = process::real_clock();
  const process::Picture picture = process::take_picture(mapping, clock.now_ns(), args.names);
  Scene scene{
      mapping, picture, clock.wall_ns(), !args.names.empty(), args.graph, process::keeping_alive(mapping, picture)};
  scene.notices = notices_of(scene);
  if (args.global.json) {
    inspect_json(scene, write_out);
  } else {
    std::string out;
    if (args.watch && ::isatty(STDOUT_FILENO) != 0) out = "\x1b[H\x1b[J";
    out += inspect_text(scene, args.global.color, terminal_width());
    if (args.watch && ::isatty(STDOUT_FILENO) == 0) out += '\n';
    write_out(out);
  }
  for (const std::string& name : picture.unknown) {
    say_error("not_found", "no lock or semaphore '" + printable(name) + "' in segment " + printable(mapping.name()));
  }
  return picture.unknown.empty() ? exit_done : exit_missing;
}

/// Until SIGINT or SIGTERM, which are the normal end. A name may come and go meanwhile.
int watch(const engine::Mapping& mapping, const InspectArgs& args) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  for (;;) {
    show(mapping, args);
    if (std::ferror(stdout) != 0) return exit_done;  // nobody reads any more
    if (mapping.removed() || mapping.check_identity() != engine::Mapping::Identity::same) {
      say_error("segment_gone", "segment " + printable(mapping.name()) + " was removed");
      return exit_missing;
    }
    const timespec second{1, 0};
    if (sigtimedwait(&ends, nullptr, &second) > 0) return exit_done;
  }
}

}  // namespace

int inspect_command(const InspectArgs& args) {
  const auto mapping = open_read_only(args.global);
  return args.watch ? watch(*mapping, args) : show(*mapping, args);
}

}  // namespace shmcoord::tool
