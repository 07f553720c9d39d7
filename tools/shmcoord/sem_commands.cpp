#include <optional>
#include <string>

#include <boost/json.hpp>

#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/hold_commands.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/render.hpp"

// `shmcoord sem …`: what locks do not have. The rest is in hold_commands.cpp.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

using engine::Kind;
using process::PrimitiveClient;

std::optional<std::uint32_t> permits_of(const Arguments& arguments, std::string_view option) {
  const auto text = arguments.value(option);
  return text ? std::optional(parse_permits(std::string(option), *text)) : std::nullopt;
}

json::value number_or_null(const std::optional<std::uint32_t>& number) {
  return number ? json::value(*number) : json::value(nullptr);
}

}  // namespace

int sem_create(const Arguments& arguments) {
  process::NameOptions options;
  options.kind = Kind::semaphore;
  options.capacity = permits_of(arguments, "--capacity");
  options.per_session = permits_of(arguments, "--per-session");
  options.joins = false;
  const std::string& name = arguments.words[0];
  if (options.capacity.has_value() == options.per_session.has_value()) {
    if (const auto parts = name_and_weight(name); parts && !options.capacity) {
      throw UsageError{
          "--capacity is missing: NAME:WEIGHT is how `run -S` asks for permits; to make so many, `shmcoord "
          "sem create " +
          parts->name + " --capacity " + parts->weight + "`"};
    }
    throw UsageError{options.capacity ? "--capacity and --per-session exclude each other: give one of them"
                                      : "--capacity is missing: say how many permits there are, e.g. --capacity 8, or "
                                        "with --per-session how many each session brings"};
  }
  const bool existed = join_and(arguments.global, IfMissing::create, "", [&](const auto& participant) {
    const bool found = PrimitiveClient::find(participant, name, Kind::semaphore) != nullptr;
    const PrimitiveClient made(participant, name, options);
    return found;
  });
  if (arguments.global.json) {
    print_line(json_text(json::object{{"semaphore", printable(name)},
                                      {"result", existed ? "exists" : "created"},
                                      {"capacity", number_or_null(options.capacity)},
                                      {"per_session", number_or_null(options.per_session)}}));
  }
  return exit_done;
}

int sem_acquire(const Arguments& arguments) {
  process::NameOptions options;
  options.kind = Kind::semaphore;
  options.capacity = permits_of(arguments, "--capacity");
  options.joins = false;
  return acquire_hold(arguments, options, permits_of(arguments, "--weight").value_or(1));
}

int sem_resize(const Arguments& arguments) {
  const auto capacity = permits_of(arguments, "--capacity");
  if (!capacity) throw UsageError{"--capacity is missing: say how many permits there are to be, e.g. --capacity 8"};
  const auto client = join_and(arguments.global, IfMissing::fail, "", [&](const auto& participant) {
    return find_known(participant, arguments.words[0], Kind::semaphore);
  });
  client->resize(*capacity);
  if (arguments.global.json) {
    const PrimitiveClient::Amounts amounts = client->amounts();
    print_line(json_text(json::object{{"semaphore", printable(client->name())},
                                      {"result", "resized"},
                                      {"capacity", *capacity},
                                      {"used", amounts.used},
                                      {"available", amounts.available()}}));
  }
  return exit_done;
}

int sem_release(const Arguments& arguments) { return release_hold(arguments, Kind::semaphore); }
int sem_heartbeat(const Arguments& arguments) { return heartbeat_hold(arguments, Kind::semaphore); }
int sem_renew(const Arguments& arguments) { return renew_hold(arguments, Kind::semaphore); }
int sem_status(const Arguments& arguments) { return status_of_holds(arguments, Kind::semaphore); }
int sem_remove(const Arguments& arguments) { return remove_name(arguments, Kind::semaphore); }

}  // namespace shmcoord::tool
