#include "shmcoord/hold_commands.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include <boost/json.hpp>

#include "core/lease.hpp"
#include "process/clock.hpp"
#include "process/identity.hpp"
#include "process/keeping_alive.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/circle_json.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/occupancy.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

using engine::Kind;
using process::PrimitiveClient;

std::string required_holder(const Arguments& arguments) {
  const auto holder = arguments.value("--holder");
  if (!holder) throw UsageError{"--holder is missing: say who holds, e.g. --holder deploy-$CI_JOB_ID"};
  require_name("holder id", *holder);
  return *holder;
}

/// Throws Error(not_found).
std::unique_ptr<PrimitiveClient> known(const Arguments& arguments, Kind kind) {
  return join_and(arguments.global, IfMissing::fail, "",
                  [&](const auto& participant) { return find_known(participant, arguments.words[0], kind); });
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

json::object to_json(const HolderInfo& holder) {
  return {{"id", text_or_null(holder.holder)},
          {"pid", pid_or_null(holder.pid)},
          {"label", text_or_null(holder.label)},
          {"command", text_or_null(holder.command)},
          {"reason", text_or_null(holder.reason)},
          {"held_s", static_cast<double>(holder.held_for.count()) / 1e9},
          {"token", holder.token}};
}

json::value to_json(const std::optional<HolderInfo>& holder) {
  return holder ? json::value(to_json(*holder)) : json::value(nullptr);
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

json::value to_json(Kind kind, const std::vector<PermitHolder>& holders) {
  json::array all;
  for (const PermitHolder& h : holders) {
    json::object one = to_json(static_cast<const HolderInfo&>(h));
    if (kind == Kind::semaphore) one["weight"] = h.weight;
    all.emplace_back(std::move(one));
  }
  return all;
}

void print(const json::object& document) { print_line(json_text(document)); }

/// {"lock": NAME} or {"semaphore": NAME}, to be completed.
json::object named(Kind kind, const std::string& name) {
  const std::string_view word = word_of(kind);
  return {{json::string_view(word.data(), word.size()), printable(name)}};
}

/// Why that holder lost it. A detached hold has no session that could keep these news for it; they wait at the name for
/// the next one who acquires, and can be looked up until then.
std::optional<Lost> loss_of(PrimitiveClient& client, const std::string& holder) {
  const process::Picture picture =
      process::take_picture(client.participant().mapping(), process::real_clock().now_ns(), {client.name()});
  if (picture.locks.empty()) return std::nullopt;
  const auto& previous = picture.locks.front().previous;
  if (!previous || previous->holder != holder) return std::nullopt;
  Lost lost{previous->why, {}};
  if (const auto now = client.holder(); now && client.kind() == Kind::lock) {
    lost.by = now->holder.empty() ? "pid " + std::to_string(now->pid) : now->holder;
  }
  return lost;
}

/// Why a holder could not do what it asked for: who has it instead.
int say_not_theirs(PrimitiveClient& client, const std::string& result, const std::string& holder,
                   const std::optional<Lost>& lost) {
  std::string text = result + ": " + title_of(client) + " is not held by '" + printable(holder) + "'";
  if (lost && lost->why != Loss::none) text += " any more: " + std::string(describe(lost->why));
  const std::string now = occupancy_text(client);
  const bool is_lock = client.kind() == Kind::lock;
  say_error(result, text + "; " + (now.empty() ? "it is free" : is_lock ? "it is " + now : now));
  return exit_missing;
}

int beat(const Arguments& arguments, Kind kind, std::optional<std::chrono::nanoseconds> ttl) {
  const std::string holder = required_holder(arguments);
  const auto client = known(arguments, kind);
  HeartbeatOutcome got = client->heartbeat(holder, ttl);
  const bool refreshed = got.result == HeartbeatResult::refreshed;
  if (!refreshed && !got.lost) got.lost = loss_of(*client, holder);
  // Of a semaphore in the word of its other commands: nobody owns it.
  const std::string result(kind == Kind::lock || refreshed ? to_string(got.result)
                                                           : to_string(PermitRelease::not_holder));
  if (arguments.global.json) {
    json::object document = named(kind, client->name());
    document["holder"] = holder;
    document["result"] = result;
    document["lost"] = to_json(got.lost);
    print(document);
  }
  if (refreshed) return exit_done;
  return say_not_theirs(*client, result, holder, got.lost);
}

/// What `acquire` prints for programs.
json::object document_of(PrimitiveClient& client, const std::string& holder, const process::Answer& answer) {
  json::object document = named(client.kind(), client.name());
  const json::value token = answer ? json::value(answer.token) : json::value(nullptr);
  document["holder"] = holder;
  if (client.kind() == Kind::lock) {
    document["result"] = std::string(to_string(answer.result));
    document["token"] = token;
    document["previous"] = to_json(answer.previous);
    document["current"] = to_json(answer.current);
  } else {
    document["result"] = std::string(to_string(process::permit_result(answer)));
    document["weight"] = answer.weight;
    document["available"] = answer ? client.amounts().available() : answer.available;
    document["token"] = token;
    document["previous"] = to_json(answer.previous);
  }
  if (!answer.circle.empty()) document["circle"] = circle_of(answer.circle);
  return document;
}

/// "held by first (pid 7) for 3s, token 12; it is dead, the next one takes over"
std::string text_of_holder(const engine::Mapping& mapping, const process::Picture& picture,
                           const process::GrantView& g) {
  HolderInfo info{g.holder, g.label, g.command, g.reason, g.pid, {}, g.token};
  info.held_for = std::chrono::nanoseconds(core::age_ns(g.since_ns, picture.now_ns));
  std::string text = describe(info) + ", token " + std::to_string(g.token);
  if (g.life.life == process::Life::dead) {
    text += "; it is dead, the next one takes over";
  } else if (g.life.life == process::Life::dying) {
    text += "; it is dead, but " + describe(process::keeping_alive(mapping, picture));
  } else if (g.sight != process::Sight::seen) {
    text += "; " + describe(g.sight, g.pid);
  } else if (g.lease != Loss::none) {
    text += "; its lease ran out (" + std::string(to_string(g.lease)) + "), the next one takes over";
  }
  return text;
}

void print_status(const engine::Mapping& mapping, const process::Picture& picture, const process::LockView& seen) {
  const std::string name = printable(seen.name);
  const std::string waiting = seen.waiters.empty() ? "" : "; " + std::to_string(seen.waiters.size()) + " waiting";
  if (seen.kind == Kind::semaphore) {
    print_line(fmt::format("{}: {} of {} used, {} free{}{}", name, seen.used, seen.capacity,
                           seen.capacity > seen.used ? seen.capacity - seen.used : 0, waiting, quota_text(seen)));
  } else if (seen.holders.empty()) {
    print_line(name + ": free");
  }
  for (const process::GrantView& g : seen.holders) {
    const std::string holder = text_of_holder(mapping, picture, g);
    if (seen.kind == Kind::semaphore) {
      print_line(fmt::format("{}: {} held by {}", name, g.weight, holder));
    } else {
      print_line(fmt::format("{}: {} by {}{}", name, is_shared(seen) ? "shared" : "held", holder, waiting));
    }
  }
}

}  // namespace

int acquire_hold(const Arguments& arguments, const process::NameOptions& name, std::uint32_t weight) {
  const std::string holder = required_holder(arguments);
  const auto reason = reason_of(arguments);
  const WaitRule rule = wait_rule(arguments, name.kind == Kind::semaphore ? "--weight " : "");
  process::Request request;
  request.holder = holder;
  request.weight = weight;
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
  std::optional<process::Answer> tried;
  const bool can_make = name.kind == Kind::lock || name.capacity;
  const auto client =
      join_and(arguments.global, can_make ? IfMissing::create : IfMissing::fail, "", [&](const auto& participant) {
        auto made = can_make ? std::make_unique<PrimitiveClient>(participant, arguments.words[0], name)
                             : find_known(participant, arguments.words[0], name.kind);
        tried = made->acquire(request, process::try_once);
        return made;
      });
  const Acquired got = acquire_aloud(*client, request, deadline_of(rule), signals, std::move(tried));
  // A script that does not get the token does not know that it holds. Also when nobody reads: the signal would end us.
  ::signal(SIGPIPE, SIG_IGN);
  const auto told = [&](const std::string& text) {
    try {
      print_line(text);
    } catch (const Error& e) {
      if (!got.outcome) throw;
      const bool had_some = got.outcome.increased || got.outcome.result == AcquireResult::extended;
      if (!had_some) (void)client->release(holder);
      throw Error(e.errc(), e.what() + ("; " + title_of(*client)) + (had_some ? " is still held" : " was given back"));
    }
  };
  if (arguments.global.json) told(json_text(document_of(*client, holder, got.outcome)));
  if (!got.outcome) return say_not_acquired(*client, request, got, rule);
  if (!arguments.global.json) told(std::to_string(got.outcome.token));
  return exit_done;
}

int release_hold(const Arguments& arguments, Kind kind) {
  const std::string holder = required_holder(arguments);
  const auto client = known(arguments, kind);
  ReleaseOutcome got = client->release(holder).of_a_lock();
  const bool released = got.result == ReleaseResult::released;
  if (!released && !got.lost) got.lost = loss_of(*client, holder);
  const std::string result(kind == Kind::lock
                               ? to_string(got.result)
                               : to_string(released ? PermitRelease::released : PermitRelease::not_holder));
  if (arguments.global.json) {
    json::object document = named(kind, client->name());
    document["holder"] = holder;
    document["result"] = result;
    document["lost"] = to_json(got.lost);
    print(document);
  }
  if (released) return exit_done;
  if (kind == Kind::semaphore || got.result == ReleaseResult::not_owner) {
    return say_not_theirs(*client, result, holder, got.lost);
  }
  say_error(result,
            result + ": nobody holds " + title_of(*client) +
                (got.lost ? "; '" + printable(holder) + "' lost it: " + std::string(describe(got.lost->why)) : ""));
  return exit_missing;
}

int heartbeat_hold(const Arguments& arguments, Kind kind) { return beat(arguments, kind, std::nullopt); }

int renew_hold(const Arguments& arguments, Kind kind) {
  const auto ttl = arguments.value("--ttl");
  if (!ttl) throw UsageError{"--ttl is missing: give the new lease, e.g. --ttl 60s"};
  return beat(arguments, kind, parse_duration("--ttl", *ttl));
}

int status_of_holds(const Arguments& arguments, Kind kind) {
  const auto asked = arguments.value("--holder");
  if (asked) require_name("holder id", *asked);
  // Only looks: no session, no write access, and news for the next holder stay where they are.
  const auto mapping = open_read_only(arguments.global);
  const process::Clock& clock = process::real_clock();
  const process::Picture picture = process::take_picture(*mapping, clock.now_ns(), arguments.words);
  if (picture.locks.empty()) throw no_such(kind, arguments.words[0], mapping->name());
  const process::LockView& seen = picture.locks.front();
  if (seen.kind != kind) {
    throw Error(Errc::wrong_type, fmt::format("'{}' exists as a {}, not as a {}", printable(seen.name),
                                              word_of(seen.kind), word_of(kind)));
  }
  const bool theirs = !asked || std::any_of(seen.holders.begin(), seen.holders.end(),
                                            [&](const process::GrantView& g) { return g.holder == *asked; });
  if (arguments.global.json) {
    const Scene scene{*mapping, picture, clock.wall_ns(), true, false, process::keeping_alive(*mapping, picture)};
    std::string text;
    inspect_json(scene, [&](std::string_view piece) { text += piece; });
    const json::value document = json::parse(text);
    print_line(json_text(document.at(kind == Kind::lock ? "locks" : "semaphores").at(0)));
  } else {
    print_status(*mapping, picture, seen);
  }
  if (theirs) return exit_done;
  const bool lost = seen.previous && seen.previous->holder == *asked;
  say_error(kind == Kind::lock ? "not_owner" : "not_holder",
            fmt::format("{} '{}' is not held by '{}'{}", word_of(kind), printable(seen.name), printable(*asked),
                        lost ? " any more: " + std::string(describe(seen.previous->why)) : ""));
  return exit_missing;
}

int remove_name(const Arguments& arguments, Kind kind) {
  const auto participant = join(arguments.global, IfMissing::fail);
  PrimitiveClient::remove(*participant, arguments.words[0], arguments.has("--force"), kind);
  if (arguments.global.json) {
    json::object document = named(kind, arguments.words[0]);
    document["result"] = "removed";
    print(document);
  }
  return exit_done;
}

int force_release(const Arguments& arguments) {
  const auto reason = reason_of(arguments);
  if (!reason || reason->empty()) throw UsageError{"--reason is missing: say why, the holder and others will ask"};
  const auto holder = arguments.value("--holder");
  if (holder) require_name("holder id", *holder);
  const auto client = join_and(arguments.global, IfMissing::fail, "",
                               [&](const auto& participant) { return find_either(participant, arguments.words[0]); });
  const Kind kind = client->kind();
  std::vector<PermitHolder> before = client->holders();
  const bool done = client->force_release(holder.value_or(""));
  if (done && holder) std::erase_if(before, [&](const PermitHolder& h) { return h.holder != *holder; });
  const std::string result = done                 ? "released"
                             : before.empty()     ? "already_free"
                             : kind == Kind::lock ? "not_owner"
                                                  : "not_holder";
  if (arguments.global.json) {
    json::object document = named(kind, client->name());
    document["result"] = result;
    if (kind == Kind::lock) document["holder"] = before.empty() ? json::value(nullptr) : to_json(before.front());
    document["holders"] = to_json(kind, before);
    document["reason"] = printable(*reason);
    print(document);
  }
  if (done) {
    if (!arguments.global.json) {
      print_line(title_of(*client) + " taken away" + (before.empty() ? "" : " from ") +
                 holders_text(Kind::lock, before));
    }
    return exit_done;
  }
  if (!before.empty()) return say_not_theirs(*client, result, holder.value_or(""), std::nullopt);
  say_error(result, result + ": nobody holds " + title_of(*client));
  return exit_missing;
}

}  // namespace shmcoord::tool
