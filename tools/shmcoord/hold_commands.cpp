#include <algorithm>

#include <boost/json.hpp>

#include "core/lease.hpp"
#include "process/clock.hpp"
#include "process/identity.hpp"
#include "process/keeping_alive.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/render.hpp"

// `shmcoord lock …` and `force-release`: for scripts that take in one command and give back in another.
//
// Such a hold belongs to no process that joined (it is detached): its holder id is all that there is, so whoever knows
// the id may release. It lives by its lease, or dies with the process that it is bound to.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

std::string required_holder(const Arguments& arguments) {
  const auto holder = arguments.value("--holder");
  if (!holder) throw UsageError{"--holder is missing: say who holds, e.g. --holder deploy-$CI_JOB_ID"};
  require_name("holder id", *holder);
  return *holder;
}

/// Throws Error(not_found).
std::unique_ptr<process::PrimitiveClient> known_lock(const Arguments& arguments) {
  return join_and(arguments.global, IfMissing::fail, "",
                  [&](const auto& participant) { return find_lock(participant, arguments.words[0]); });
}

std::int32_t parse_pid(const std::string& text) {
  std::int32_t pid = 0;
  if (!parse_whole(text, pid) || pid <= 0) {
    throw UsageError{"--pid: '" + text + "' is not a process id; give a number, e.g. --pid $$"};
  }
  return pid;
}

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(printable(text));
}
json::value pid_or_null(std::int32_t pid) { return pid == 0 ? json::value(nullptr) : json::value(pid); }

json::value to_json(const std::optional<HolderInfo>& holder) {
  if (!holder) return nullptr;
  return json::object{{"id", text_or_null(holder->holder)},
                      {"pid", pid_or_null(holder->pid)},
                      {"label", text_or_null(holder->label)},
                      {"command", text_or_null(holder->command)},
                      {"reason", text_or_null(holder->reason)},
                      {"held_s", static_cast<double>(holder->held_for.count()) / 1e9},
                      {"token", holder->token}};
}

json::value to_json(const std::optional<Previous>& previous) {
  if (!previous) return nullptr;
  return json::object{{"id", text_or_null(previous->holder)},
                      {"pid", pid_or_null(previous->pid)},
                      {"why", std::string(to_string(previous->why))}};
}

json::value to_json(const std::optional<Lost>& lost) {
  if (!lost) return nullptr;
  return json::object{{"why", std::string(to_string(lost->why))}, {"by", text_or_null(lost->by)}};
}

void print(const json::object& document) { print_line(json_text(document)); }

/// Why a holder could not do what it asked for: who has the lock instead.
std::string not_owner_text(process::PrimitiveClient& client, const std::string& holder,
                           const std::optional<Lost>& lost) {
  std::string text = "not_owner: lock '" + printable(client.name()) + "' is not held by '" + printable(holder) + "'";
  if (lost && lost->why != Loss::none) text += " any more: " + std::string(describe(lost->why));
  const auto now = client.holder();
  return text + (now ? "; it is held by " + describe(*now) : "; it is free");
}

int beat(const Arguments& arguments, std::optional<std::chrono::nanoseconds> ttl) {
  const std::string holder = required_holder(arguments);
  const auto client = known_lock(arguments);
  const HeartbeatOutcome got = client->heartbeat(holder, ttl);
  if (arguments.global.json) {
    print({{"lock", client->name()},
           {"holder", holder},
           {"result", std::string(to_string(got.result))},
           {"lost", to_json(got.lost)}});
  }
  if (got.result == HeartbeatResult::refreshed) return exit_done;
  say_error("not_owner", not_owner_text(*client, holder, got.lost));
  return exit_missing;
}

}  // namespace

int lock_acquire(const Arguments& arguments) {
  const std::string holder = required_holder(arguments);
  const auto reason = reason_of(arguments);
  const WaitRule rule = wait_rule(arguments);
  process::Request request;
  request.holder = holder;
  request.reason = reason;
  request.detached = true;
  const auto pid = arguments.value("--pid");
  if (const auto ttl = arguments.value("--ttl")) {
    if (pid) throw UsageError{"--pid and --ttl exclude each other: the hold lives by one of them"};
    request.ttl = parse_duration("--ttl", *ttl);
  }
  if (pid) {
    request.bound_pid = parse_pid(*pid);
    request.no_lease = true;  // its end is what ends the hold; nobody beats for it
    if (!process::proc_shows_own_namespace()) {
      say_error("unsupported", "--pid: /proc does not show the processes of this PID namespace, so nobody could tell " +
                                   *pid + " from a later one of that number; mount /proc here, or use --ttl");
      return exit_unusable;
    }
    if (!process::start_time_of(request.bound_pid)) {
      say_error("not_found", "--pid: no process " + *pid + " is to be seen; give a running one of this PID namespace");
      return exit_missing;
    }
  }

  const StopSignals signals;
  std::optional<AcquireOutcome> tried;
  const auto client = join_and(arguments.global, IfMissing::create, "", [&](const auto& participant) {
    auto made = std::make_unique<process::PrimitiveClient>(participant, arguments.words[0], process::NameOptions{});
    tried = made->acquire(request, process::try_once);
    return made;
  });
  const Acquired got = acquire_aloud(*client, request, deadline_of(rule), signals, std::move(tried));
  // A script that does not get the token does not know that it holds.
  const auto told = [&](const std::string& text) {
    try {
      print_line(text);
    } catch (...) {
      if (got.outcome.result != AcquireResult::extended) (void)client->release(holder);
      throw;
    }
  };
  if (arguments.global.json) {
    told(json_text(json::object{{"lock", client->name()},
                                {"holder", holder},
                                {"result", std::string(to_string(got.outcome.result))},
                                {"token", got.outcome ? json::value(got.outcome.token) : json::value(nullptr)},
                                {"previous", to_json(got.outcome.previous)},
                                {"current", to_json(got.outcome.current)}}));
  }
  if (!got.outcome) return say_not_acquired(*client, got, rule);
  if (!arguments.global.json) told(std::to_string(got.outcome.token));
  return exit_done;
}

int lock_release(const Arguments& arguments) {
  const std::string holder = required_holder(arguments);
  const auto client = known_lock(arguments);
  const ReleaseOutcome got = client->release(holder);
  if (arguments.global.json) {
    print({{"lock", client->name()},
           {"holder", holder},
           {"result", std::string(to_string(got.result))},
           {"lost", to_json(got.lost)}});
  }
  switch (got.result) {
    case ReleaseResult::released: return exit_done;
    case ReleaseResult::not_owner:
      say_error("not_owner", not_owner_text(*client, holder, got.lost));
      return exit_missing;
    case ReleaseResult::already_free:
      say_error("already_free", "already_free: nobody holds lock '" + printable(client->name()) + "'");
      return exit_missing;
  }
  return exit_internal;
}

int lock_heartbeat(const Arguments& arguments) { return beat(arguments, std::nullopt); }

int lock_renew(const Arguments& arguments) {
  const auto ttl = arguments.value("--ttl");
  if (!ttl) throw UsageError{"--ttl is missing: give the new lease, e.g. --ttl 60s"};
  return beat(arguments, parse_duration("--ttl", *ttl));
}

int lock_status(const Arguments& arguments) {
  const auto asked = arguments.value("--holder");
  if (asked) require_name("holder id", *asked);
  // Only looks: no session, no write access, and news for the next holder stay where they are.
  const auto mapping = open_read_only(arguments.global);
  const process::Clock& clock = process::real_clock();
  const process::Picture picture = process::take_picture(*mapping, clock.now_ns(), arguments.words);
  if (picture.locks.empty()) {
    throw Error(Errc::not_found, "no lock '" + arguments.words[0] + "' in segment " + mapping->name());
  }
  const process::LockView& lock = picture.locks.front();
  const bool theirs = !asked || std::any_of(lock.holders.begin(), lock.holders.end(),
                                            [&](const process::GrantView& g) { return g.holder == *asked; });
  if (arguments.global.json) {
    const Scene scene{*mapping, picture, clock.wall_ns(), true, false, process::keeping_alive(*mapping, picture)};
    std::string text;
    inspect_json(scene, [&](std::string_view piece) { text += piece; });
    const json::value document = json::parse(text);
    print_line(json_text(document.at("locks").at(0)));
  } else if (lock.holders.empty()) {
    print_line(printable(lock.name) + ": free");
  } else {
    for (const process::GrantView& g : lock.holders) {
      HolderInfo info{g.holder, g.label, g.command, g.reason, g.pid, {}, g.token};
      info.held_for = std::chrono::nanoseconds(core::age_ns(g.since_ns, picture.now_ns));
      std::string text = printable(lock.name) + ": held by " + describe(info) + ", token " + std::to_string(g.token);
      if (g.life.life == process::Life::dead) {
        text += "; it is dead, the next one takes over";
      } else if (g.life.life == process::Life::dying) {
        text += "; it is dead, but " + describe(process::keeping_alive(*mapping, picture));
      } else if (g.sight != process::Sight::seen) {
        text += "; " + describe(g.sight, g.pid);
      } else if (g.lease != Loss::none) {
        text += "; its lease ran out (" + std::string(to_string(g.lease)) + "), the next one takes over";
      }
      if (!lock.waiters.empty()) text += "; " + std::to_string(lock.waiters.size()) + " waiting";
      print_line(text);
    }
  }
  if (theirs) return exit_done;
  say_error("not_owner", "lock '" + printable(lock.name) + "' is not held by '" + printable(*asked) + "'");
  return exit_missing;
}

int lock_remove(const Arguments& arguments) {
  const auto participant = join(arguments.global, IfMissing::fail);
  process::PrimitiveClient::remove(*participant, arguments.words[0], arguments.has("--force"));
  if (arguments.global.json) print({{"lock", arguments.words[0]}, {"result", "removed"}});
  return exit_done;
}

int force_release(const Arguments& arguments) {
  const auto reason = reason_of(arguments);
  if (!reason || reason->empty()) throw UsageError{"--reason is missing: say why, the holder and others will ask"};
  const auto holder = arguments.value("--holder");
  if (holder) require_name("holder id", *holder);
  const auto client = known_lock(arguments);
  const auto before = client->holder();
  const bool done = client->force_release(holder.value_or(""));
  if (arguments.global.json) {
    print({{"lock", client->name()},
           {"result", done     ? "released"
                      : before ? "not_owner"
                               : "already_free"},
           {"holder", to_json(before)},
           {"reason", printable(*reason)}});
  }
  if (done) {
    if (!arguments.global.json) {
      print_line("lock '" + printable(client->name()) + "' taken away" + (before ? " from " + describe(*before) : ""));
    }
    return exit_done;
  }
  if (before) {
    say_error("not_owner", not_owner_text(*client, holder.value_or(""), std::nullopt));
  } else {
    say_error("already_free", "already_free: nobody holds lock '" + printable(client->name()) + "'");
  }
  return exit_missing;
}

}  // namespace shmcoord::tool
