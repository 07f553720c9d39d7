#include "shmcoord/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <memory>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "core/event_pattern.hpp"
#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/event_stream.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// Follows the journal. It joins the segment, since events are written down only while somebody listens, and reads on
// its own thread: what is printed is what was read, in the order of the journal.

namespace shmcoord::tool {
namespace {

process::EventStream* followed = nullptr;  // by the signal handler
volatile std::sig_atomic_t ended = 0;

void end(int /*signal*/) {
  ended = 1;
  if (followed != nullptr) followed->interrupt();
}

void end_on_signals() {
  struct sigaction action {};
  action.sa_handler = end;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

bool is_of_session(const Event& e) { return e.kind >= EventKind::session_joined && e.kind <= EventKind::session_died; }
bool is_of_semaphore(const Event& e) {
  return e.kind >= EventKind::semaphore_acquired && e.kind <= EventKind::semaphore_stale;
}
bool is_of_primitive(const Event& e) { return e.kind <= EventKind::semaphore_stale; }

std::string who(const std::string& holder, std::int32_t pid) {
  std::string text = holder.empty() ? std::string("an implicit holder") : printable(holder);
  if (pid != 0) text += fmt::format(" (pid {})", pid);
  return text;
}

bool wanted(const EventsArgs& args, const Event& e) {
  if (args.patterns.empty() || e.kind == EventKind::journal_lost) return true;
  return std::any_of(args.patterns.begin(), args.patterns.end(),
                     [&](const std::string& p) { return core::pattern_matches(p, e.name()); });
}

std::string_view what_other_is(const Event& e) {
  if (e.kind == EventKind::lock_denied) return "held by";
  if (e.kind >= EventKind::pipeline_blocked && e.kind <= EventKind::phase_left) return "phase";
  return e.kind >= EventKind::guard_registered && e.kind <= EventKind::guard_failed ? "pipeline" : "now";
}

}  // namespace

std::string event_text(const Event& e, std::int64_t wall_ns) {
  std::string line = fmt::format("{:>6}  {}  {:<19}", e.number, rfc3339(wall_ns), e.name());
  if (e.kind == EventKind::journal_lost) return line + fmt::format("  {} changes were overwritten unread", e.lost);
  if (e.kind == EventKind::journal_started) return line + "  what happened before was not written down";
  if (!e.subject.empty()) line += "  " + printable(e.subject);
  if (is_of_session(e)) {
    line += fmt::format("  (session {:016x}, pid {})", e.session_id, e.pid);
    return e.reason.empty() ? line : line + "  " + printable(e.reason);
  }
  const bool room = e.kind == EventKind::semaphore_released && e.token == 0;
  if (is_of_primitive(e) && !room) line += "  " + who(e.holder, e.pid);
  if (!is_of_primitive(e) && !e.holder.empty()) line += "  " + printable(e.holder);
  if (e.weight != 0) line += fmt::format(", weight {}", e.weight);
  if (e.shared) line += ", shared";
  if (e.token != 0) line += fmt::format(", token {}", e.token);
  if (is_of_semaphore(e)) line += fmt::format("{} {} available", room ? " " : ",", e.available);
  if (e.why != Loss::none) line += fmt::format(": {}", describe(e.why));
  if (!e.other.empty()) line += fmt::format(", {} {}", what_other_is(e), printable(e.other));
  if (!e.reason.empty()) line += ", reason: " + printable(e.reason);
  return line;
}

std::string event_json(const Event& e, std::int64_t wall_ns) {
  std::string out;
  {
    JsonWriter writer(out);
    ObjectWriter object(writer);
    object.add("number", e.number);
    object.add_text("event", e.name());
    object.add_text("time", rfc3339(wall_ns));
    const auto text = [&](std::string_view key, const std::string& value) {
      if (value.empty()) {
        object.add(key, nullptr);
      } else {
        object.add_text(key, printable(value));
      }
    };
    text("subject", e.subject);
    if (is_of_session(e)) {
      object.add_text("session", fmt::format("{:016x}", e.session_id));
      text("command", e.reason);
    } else {
      text("holder", e.holder);
      text("other", e.other);
      text("reason", e.reason);
    }
    if (is_of_primitive(e)) {
      object.add("token", e.token == 0 ? boost::json::value(nullptr) : boost::json::value(e.token));
      if (is_of_semaphore(e)) {
        object.add("weight", e.weight);
        object.add("available", e.available);
      } else {
        object.add("shared", e.shared);
      }
      object.add("why",
                 e.why == Loss::none ? boost::json::value(nullptr) : boost::json::value(std::string(to_string(e.why))));
    }
    object.add("pid", e.pid == 0 ? boost::json::value(nullptr) : boost::json::value(e.pid));
    if (e.kind == EventKind::journal_lost) object.add("lost", e.lost);
  }
  return out;
}

namespace {

int follow(const EventsArgs& args, const std::shared_ptr<process::Participant>& me) {
  const bool kept = (me->mapping().view().header().flags & engine::journal_always) != 0;
  if (!kept && (!args.follow || args.since)) {
    say("segment " + printable(me->mapping().name()) +
        " keeps events only while somebody follows them; `segment create --journal` makes one that always does");
  }
  process::EventStream stream(me, args.since);
  followed = &stream;
  const std::shared_ptr<void> no_longer(nullptr, [](void*) { followed = nullptr; });
  const process::Clock& clock = process::real_clock();
  const std::int64_t wall_of_monotonic = clock.wall_ns() - clock.now_ns();
  while (ended == 0) {
    std::string out;
    while (auto event = stream.next()) {
      if (!wanted(args, *event)) continue;
      const std::int64_t wall_ns = event->at.time_since_epoch() / std::chrono::nanoseconds(1) + wall_of_monotonic;
      out += args.global.json ? event_json(*event, wall_ns) : event_text(*event, wall_ns);
      out += '\n';
      if (out.size() > 65'536 || ended != 0) break;
    }
    if (!out.empty()) {
      write_out(out);
      continue;
    }
    if (!args.follow) break;
    if (!me->usable()) {
      const bool there = me->mapping().check_identity() == engine::Mapping::Identity::same;
      if (!there) throw Error(Errc::segment_gone, "the segment was replaced");
      me->require_usable();
    }
    stream.wait(clock.now_ns() + engine::recheck_ns);
  }
  return exit_done;
}

}  // namespace

int events_command(const EventsArgs& args) {
  end_on_signals();
  const std::shared_ptr<process::Participant> me = join(args.global, IfMissing::fail, "events");
  try {
    return follow(args, me);
  } catch (const Error& e) {
    if (e.errc() != Errc::segment_gone) throw;
    say_error("segment_gone", "segment " + printable(me->mapping().name()) + " was removed");
    return exit_missing;
  }
}

}  // namespace shmcoord::tool
