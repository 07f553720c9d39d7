#include "shmcoord/messages.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <boost/json.hpp>

#include "core/names.hpp"
#include "engine/real_policy.hpp"
#include "process/clock.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

Audience audience = Audience::people;
bool wrote_output = false;  // what programs were to get on standard output is there, at least in part

void write_error_line(const std::string& line) { (void)!::write(STDERR_FILENO, line.data(), line.size()); }

std::string clock_time(std::int64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&seconds, &local) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local)};
}

using base::shortened;

std::string who(const std::string& holder, std::int32_t pid) {
  if (!holder.empty()) return printable(holder);
  return pid != 0 ? "a program without a holder id" : "somebody unknown";
}

}  // namespace

void speak_to(Audience who) noexcept { audience = who; }

void say(std::string_view text) {
  const std::string clean = printable(text);
  write_error_line(audience == Audience::run_programs ? json_text(json::object{{"message", clean}}) + '\n'
                                                      : "shmcoord: " + clean + '\n');
}

void say_under(std::string_view lines) {
  if (!lines.empty() && audience != Audience::run_programs) write_error_line(std::string(lines));
}

void say_document(const std::string& document) { write_error_line(document + '\n'); }

void say_error(std::string_view code, std::string_view text) {
  const bool for_people = audience == Audience::people;
  const std::string document =
      for_people ? std::string()
                 : json_text(json::object{{"error", json::object{{"code", json::string_view(code.data(), code.size())},
                                                                 {"message", printable(text)}}}});
  if (audience == Audience::run_programs) return write_error_line(document + '\n');
  say(text);
  if (for_people || wrote_output) return;
  try {
    print_line(document);
  } catch (const Error&) {
    return;  // nobody reads it; the exit code is the same
  }
}

void say_truncated() noexcept {
  static engine::Word32 told;  // a second thread may meet the end of the file too
  while (engine::RealPolicy::add(told, 1) != 0) ::pause();
  struct Line {
    std::string_view before;
    std::string_view after;
  };
  constexpr std::string_view text =
      "the segment cannot be used: its file was truncated by another process, or its file system is full";
  constexpr Line plain{"shmcoord: ", "\n"};
  constexpr Line document{R"({"error":{"code":"segment_corrupt","message":")", "\"}}\n"};
  const auto write_line = [&](int fd, const Line& line) {
    const auto part = [](std::string_view of) { return iovec{const_cast<char*>(of.data()), of.size()}; };
    const iovec parts[] = {part(line.before), part(text), part(line.after)};
    (void)!::writev(fd, parts, 3);
  };
  write_line(STDERR_FILENO, audience == Audience::run_programs ? document : plain);
  if (audience == Audience::programs && !wrote_output) write_line(STDOUT_FILENO, document);
  ::_exit(exit_unusable);
}

std::string shell_word(const std::string& word) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./:@%+=,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  std::string text = printable(word);
  if (!text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string quoted = word.starts_with('-') ? "-- '" : "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

void print_line(std::string_view text) { write_out(std::string(text) + '\n'); }

void write_out(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Errc::system, std::string("standard output cannot be written: ") + std::strerror(errno));
    wrote_output = true;
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string describe(const HolderInfo& holder) {
  std::string text = who(holder.holder, holder.pid);
  std::string inner;
  const auto add = [&inner](const std::string& part) { inner += (inner.empty() ? "" : ", ") + part; };
  if (holder.pid != 0) add("pid " + std::to_string(holder.pid));
  if (!holder.label.empty()) add(printable(holder.label));
  if (!holder.command.empty()) add(shortened(holder.command, 100));
  if (!inner.empty()) text += " (" + inner + ")";
  text += " for " + format_duration(holder.held_for);
  const std::string since = clock_time(process::real_clock().wall_ns() - holder.held_for.count());
  if (!since.empty()) text += " since " + since;
  if (!holder.reason.empty()) text += ", reason: " + shortened(holder.reason, 200);
  return text;
}

std::string describe(const Previous& previous) {
  std::string text = who(previous.holder, previous.pid);
  if (previous.pid != 0) text += " (pid " + std::to_string(previous.pid) + ")";
  return text;
}

std::string describe(const std::vector<process::KeepingAlive>& keeping) {
  constexpr std::size_t shown = 8;
  if (keeping.empty()) return "a process that it started goes on and keeps it; /proc does not show which";
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, keeping.size()); ++i) {
    const process::KeepingAlive& k = keeping[i];
    text += (i == 0 ? "" : ", ") + (k.command.empty() ? "" : shortened(k.command, 60) + " ") + "(pid " +
            std::to_string(k.pid) + ")";
  }
  if (keeping.size() > shown) text += " and " + std::to_string(keeping.size() - shown) + " more";
  return text + (keeping.size() == 1 ? " goes on and keeps it; it is free when that has ended"
                                     : " go on and keep it; it is free when they have ended");
}

std::string describe(process::Sight sight, std::int32_t pid) {
  std::string bound = "bound to process " + std::to_string(pid);
  switch (sight) {
    case process::Sight::seen: return bound;
    case process::Sight::hidden:
      return bound + ", which /proc does not show here: it counts as alive while any process has that number";
    case process::Sight::elsewhere:
      return bound +
             " of another PID namespace, which cannot be judged from here: `shmcoord reap` there frees it when "
             "that has ended, force-release takes it at once";
    case process::Sight::unknown:
      return bound +
             ", which cannot be judged without /proc: `shmcoord reap` where it runs frees it when that has "
             "ended, force-release takes it at once";
  }
  return bound;
}

std::string_view describe(Loss why) {
  switch (why) {
    case Loss::none: return "the segment was removed or replaced, or the session was ended";
    case Loss::died: return "its process died";
    case Loss::stale: return "no heartbeat for longer than the stale threshold";
    case Loss::expired: return "its ttl passed";
    case Loss::held_too_long: return "it was held longer than the lock allows";
    case Loss::forced: return "an operator took it away";
  }
  return "unknown";
}

int exit_code_of(Errc code) {
  switch (code) {
    case Errc::segment_exists:
    case Errc::in_use:
    case Errc::deadlock: return exit_busy;
    case Errc::segment_not_found:
    case Errc::not_found:
    case Errc::name_removed: return exit_missing;
    case Errc::invalid_argument:
    case Errc::wrong_type:
    case Errc::config_differs: return exit_usage;
    case Errc::segment_foreign:
    case Errc::segment_version:
    case Errc::segment_corrupt:
    case Errc::segment_gone:
    case Errc::no_permission:
    case Errc::no_space:
    case Errc::table_full:
    case Errc::snapshot_damaged:
    case Errc::unsupported: return exit_unusable;
    case Errc::session_dead:
    case Errc::not_a_participant:
    case Errc::system: return exit_internal;
  }
  return exit_internal;
}

std::string_view name_of(Errc code) {
  switch (code) {
    case Errc::segment_not_found: return "segment_not_found";
    case Errc::segment_exists: return "segment_exists";
    case Errc::segment_foreign: return "segment_foreign";
    case Errc::segment_version: return "segment_version";
    case Errc::segment_corrupt: return "segment_corrupt";
    case Errc::segment_gone: return "segment_gone";
    case Errc::no_permission: return "no_permission";
    case Errc::no_space: return "no_space";
    case Errc::table_full: return "table_full";
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::wrong_type: return "wrong_type";
    case Errc::config_differs: return "config_differs";
    case Errc::not_found: return "not_found";
    case Errc::in_use: return "in_use";
    case Errc::name_removed: return "name_removed";
    case Errc::session_dead: return "session_dead";
    case Errc::not_a_participant: return "not_a_participant";
    case Errc::unsupported: return "unsupported";
    case Errc::deadlock: return "deadlock";
    case Errc::system: return "system";
    case Errc::snapshot_damaged: return "snapshot_damaged";
  }
  return "internal";
}

void require_name(std::string_view what, std::string_view name) {
  const std::string_view wrong = core::check_name(name);
  if (wrong.empty()) return;
  throw UsageError{std::string(what) + " '" + shortened(name, 60) + "' " + std::string(wrong) +
                   "; give 1 to 255 bytes of UTF-8 without control characters"};
}

}  // namespace shmcoord::tool
