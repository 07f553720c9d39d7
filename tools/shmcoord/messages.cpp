#include "shmcoord/messages.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "core/names.hpp"
#include "process/clock.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

std::string clock_time(std::int64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm local{};
  std::array<char, 32> text{};
  if (::localtime_r(&seconds, &local) == nullptr) return {};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local)};
}

std::string shortened(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return printable(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  return printable(text.substr(0, bytes)) + "…";
}

std::string who(const std::string& holder, std::int32_t pid) {
  if (!holder.empty()) return printable(holder);
  return pid != 0 ? "a program without a holder id" : "somebody unknown";
}

}  // namespace

void say(std::string_view text) {
  const std::string line = "shmcoord: " + std::string(text) + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

void print_line(std::string_view text) { write_out(std::string(text) + '\n'); }

void write_out(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Errc::system, "standard output cannot be written");
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

std::string takeover_text(std::string_view lock, const Previous& previous) {
  std::string text = "lock '" + printable(lock) + "': previous holder " + describe(previous);
  text += previous.why == Loss::died ? std::string(" died") : " lost it: " + std::string(describe(previous.why));
  return text + "; taking over";
}

std::string busy_text(std::string_view lock, std::string_view how, const std::optional<HolderInfo>& holder) {
  std::string text = "lock '" + printable(lock) + "' " + std::string(how);
  return text + (holder ? ": held by " + describe(*holder) : ": others wait for it and come first");
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
    case Errc::unsupported: return exit_unusable;
    case Errc::session_dead:
    case Errc::not_a_participant:
    case Errc::system: return exit_internal;
  }
  return exit_internal;
}

void require_name(std::string_view what, std::string_view name) {
  const std::string_view wrong = core::check_name(name);
  if (wrong.empty()) return;
  throw UsageError{std::string(what) + " '" + shortened(name, 60) + "' " + std::string(wrong) +
                   "; give 1 to 255 bytes of UTF-8 without control characters"};
}

}  // namespace shmcoord::tool
