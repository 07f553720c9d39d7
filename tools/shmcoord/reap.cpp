#include "shmcoord/reap.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordination/stale_warnings.hpp"
#include "coordination/stored_text.hpp"
#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/participant.hpp"
#include "process/recovery.hpp"
#include "process/surroundings.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/reap_file.hpp"
#include "shmcoord/reap_watch.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/snapshot_text.hpp"

// The reaper in the foreground. It makes clean-up prompt; correctness never waits for it, any number may run, and each
// may be killed at any instruction: all that it does to the segment is process::bury, process::sweep and
// coordination::take_away, which are made for that. It keeps no state but what it watches, and of which stale holds it
// warned.
//
// A pass warns, then takes (C-16), both as of one time: nothing is taken that was not warned of. A single pass does so
// too; a dry run names both and tells the journal nothing.
//
// With --save it says that it is ready when the file was written for the first time: until then it is not known that
// what it is started for can be done, and it ends with the error. Later on it is needed by those who are alive, and a
// save that fails is tried again.
//
// If we die here: a pass that was half done is done by whoever comes next; somebody is warned once more of what stays
// stale. The file is the last one that was written whole, at worst with a `.NAME.new.<random>` beside it, which the
// next save takes away (process/atomic_file.hpp). Detached holds that were made since then are in the segment alone,
// and so are lost only if it is lost too before it is saved again. What was half restored is nothing
// (coordination/restore.cpp).

namespace shmcoord::tool {
namespace {

constexpr std::int64_t default_interval_ns = 30'000'000'000;
constexpr std::chrono::nanoseconds default_save_interval = std::chrono::minutes(5);
constexpr int look_ms = 1000;
constexpr int first_confirm_ms = 2;  // between two tries to confirm a death that was noticed; doubled each time

/// Tells systemd, if it started us: one datagram, and nobody minds when it is lost.
void notify_supervisor(const char* state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  const std::size_t length = std::strlen(path);
  if (length < 2 || length >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  ::sendto(fd, state, std::strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address),
           size);
  ::close(fd);
}

std::string_view past_of(process::Action::Kind kind) {
  switch (kind) {
    case process::Action::Kind::release_hold: return "released";
    case process::Action::Kind::cancel_wait: return "cancelled";
    case process::Action::Kind::free_entry: return "freed";
    case process::Action::Kind::bury_session: return "buried";
    case process::Action::Kind::reclaim_lease: return "reclaimed";
  }
  return "did";
}

class Reaper {
 public:
  explicit Reaper(const ReapArgs& args) : args_(args), watching_(!args.once && !args.dry_run) {
    if (!args.save_to) return;
    file_.emplace(args.global, *args.save_to, save_interval(), [this](const ReapEvent& event) { emit(event); });
  }

  int run() {
    mapping_ = args_.dry_run ? open_read_only(args_.global)
               : file_       ? file_->open_segment()
                             : open_segment(args_.global, IfMissing::fail);
    if (watching_) return keep_going();
    pass(true);
    if (file_) file_->save(*mapping_);
    std::fflush(stdout);
    return exit_done;
  }

 private:
  int keep_going() {
    DeathWatch::block_ending_signals();  // before the keeper's thread starts
    DeathWatch watch(mapping_);
    join();
    if (!process::own_surroundings().pidfd) {
      emit({"notice", nullptr, "pidfd_open is not available here: looks once a second", nullptr});
    }
    const std::int64_t interval_ns = args_.interval ? args_.interval->count() : default_interval_ns;
    std::int64_t next_ns = 0;
    std::int64_t next_save_ns = file_ ? 0 : std::numeric_limits<std::int64_t>::max();
    int confirm_ms = first_confirm_ms;
    bool ready = false;
    for (;;) {
      const bool unconfirmed = bury(watch.look());
      const std::int64_t now_ns = process::real_clock().now_ns();
      if (now_ns >= next_ns) {
        pass(false);
        next_ns = process::real_clock().now_ns() + interval_ns;
      }
      if (now_ns >= next_save_ns) {
        if (ready) {
          file_->try_to_save(*mapping_);
        } else {
          file_->save(*mapping_);
        }
        next_save_ns = process::real_clock().now_ns() + save_interval().count();
      }
      if (!std::exchange(ready, true)) notify_supervisor("READY=1\nSTATUS=watching");
      const std::int64_t next_due_ns = std::min(next_ns, next_save_ns);
      const std::int64_t left_ms = (next_due_ns - process::real_clock().now_ns()) / 1'000'000 + 1;
      // The tree of a `run` may hold for hours what its dead process left, so the tries become rare.
      confirm_ms = unconfirmed ? std::min(confirm_ms * 2, look_ms) : first_confirm_ms;
      const auto timeout_ms =
          static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, unconfirmed ? confirm_ms : look_ms));
      std::fflush(stdout);
      const bool ends = watch.wait(timeout_ms) == DeathWatch::Woken::signalled;
      if (mapping_->removed() || mapping_->check_identity() != engine::Mapping::Identity::same) {
        notify_supervisor("STOPPING=1");
        emit({"notice", nullptr, "the segment was removed", nullptr});
        std::fflush(stdout);
        return ends ? exit_done : exit_missing;
      }
      if (ends) break;
    }
    notify_supervisor("STOPPING=1");
    if (file_) file_->save(*mapping_);  // nobody tries again, so it is an error now
    std::fflush(stdout);
    return exit_done;
  }

  [[nodiscard]] std::chrono::nanoseconds save_interval() const {
    return args_.save_interval.value_or(default_save_interval);
  }

  /// As a member of the keeper ring we hear of deaths in other PID namespaces at once too.
  void join() {
    try {
      participant_ = process::Participant::join(mapping_, {.label = "reaper"});
    } catch (const Error& error) {
      emit({"notice", nullptr, fmt::format("works without a session of its own: {}", error.what()), nullptr});
    }
  }

  /// True: some are not confirmed yet.
  bool bury(const std::vector<DeathWatch::Death>& deaths) {
    bool unconfirmed = false;
    for (const DeathWatch::Death& d : deaths) {
      if (process::bury(*mapping_, d.slot, d.incarnation)) {
        emit({"died", nullptr, d.text + " died; what it held is free", nullptr});
      } else {
        unconfirmed = true;
      }
    }
    return unconfirmed;
  }

  void pass(bool summary) {
    using Journal = coordination::StaleWarnings::Journal;
    const std::int64_t now_ns = process::real_clock().now_ns();
    const Effects warnings = warnings_.warn(*mapping_, now_ns, args_.dry_run ? Journal::left_out : Journal::told);
    for (const Event& e : warnings) print(e);
    process::SweepOptions options;
    options.reclaim_stale = args_.reclaim;
    options.dry_run = args_.dry_run;
    options.warn = false;  // it was done just now
    const process::SweepReport report = process::sweep(*mapping_, now_ns, options);
    const bool nothing_left = tidy(now_ns);
    print(report, summary, warnings.empty() && nothing_left);
  }

  /// What killed ones left of guards and pipelines. True: nothing.
  bool tidy(std::int64_t now_ns) {
    const std::vector<coordination::Remains> all = coordination::all_remains(*mapping_, now_ns);
    for (const coordination::Remains& remains : all) {
      process::Action action{process::Action::Kind::free_entry};
      action.name_kind = remains.kind;
      action.name = remains.name;
      action.text =
          fmt::format("{} of {} {}, which is not there as a whole",
                      remains.holders.size() == 1 ? "an entry" : fmt::format("{} entries", remains.holders.size()),
                      engine::word_of(remains.kind), remains.name);
      if (!args_.dry_run && !take_away(remains)) continue;
      emit({args_.dry_run ? "planned" : "done", &action, verb_of(action.kind) + ' ' + action.text, nullptr});
    }
    return all.empty();
  }

  bool take_away(const coordination::Remains& remains) {
    try {
      if (participant_ == nullptr) participant_ = process::Participant::join(mapping_, {.label = "reaper"});
      coordination::take_away(participant_, remains);
      return true;
    } catch (const Error& error) {
      emit({"notice", nullptr,
            fmt::format("left what is left of {} {}: {}", engine::word_of(remains.kind), remains.name, error.what()),
            nullptr});
      return false;
    }
  }

  [[nodiscard]] std::string verb_of(process::Action::Kind kind) const {
    return args_.dry_run ? fmt::format("would {}", to_string(kind)) : std::string(past_of(kind));
  }

  void print(const Event& warning) {
    const bool semaphore = warning.kind == EventKind::semaphore_stale;
    ReapEvent event{"stale", nullptr,
                    fmt::format("{} hold of {}{} by {}{}: {}", args_.dry_run ? "would warn of" : "warned of",
                                semaphore ? "semaphore " : "", warning.subject,
                                warning.holder.empty() ? "an implicit holder" : warning.holder,
                                warning.pid == 0 ? "" : fmt::format(" (pid {})", warning.pid), to_string(warning.why))};
    event.warning = &warning;
    emit(event);
  }

  void print(const process::SweepReport& report, bool summary, bool nothing_else) {
    for (const process::Action& a : report.planned) {
      emit({args_.dry_run ? "planned" : "done", &a, verb_of(a.kind) + ' ' + a.text, nullptr});
    }
    if (!summary && report.planned.empty()) return;
    std::string text =
        fmt::format("{} sessions buried, {} leases or detached holds reclaimed", report.buried, report.reclaimed);
    if (args_.dry_run) text = report.planned.empty() && nothing_else ? "nothing to do" : "nothing was changed";
    if (report.unsure != 0) text += fmt::format("; {} sessions are ending but not gone yet", report.unsure);
    emit({"swept", nullptr, text, &report});
  }

  void emit(const ReapEvent& event) {
    std::string lines;
    if (args_.global.json) {
      lines = reap_json(event, process::real_clock().wall_ns());
    } else {
      lines = printable(event.text) + '\n';
      if (event.restored != nullptr) {
        for (const std::string& line : exceptions_of(*event.restored)) lines += line + '\n';
      }
    }
    try {
      write_out(lines);
    } catch (const Error& error) {
      if (!watching_) throw;  // one pass is started for what it says
      if (!std::exchange(unheard_, true)) say(std::string(error.what()) + "; cleaning up goes on");
    }
  }

  const ReapArgs& args_;
  std::shared_ptr<engine::Mapping> mapping_;
  std::shared_ptr<process::Participant> participant_;
  std::optional<ReapFile> file_;
  coordination::StaleWarnings warnings_;
  const bool watching_;
  bool unheard_ = false;
};

}  // namespace

int reap_command(const ReapArgs& args) { return Reaper(args).run(); }

}  // namespace shmcoord::tool
