#include "shmcoord/acquire.hpp"

#include "process/clock.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/occupancy.hpp"
#include "shmcoord/outer_run.hpp"

namespace shmcoord::tool {
namespace {

using process::PrimitiveClient;

/// "lock 'deploy'", "4 permits of semaphore 'agents'".
std::string wanted_text(const PrimitiveClient& client, const process::Request& request) {
  if (client.kind() == engine::Kind::lock) return title_of(client);
  return std::to_string(request.weight) + (request.weight == 1 ? " permit of " : " permits of ") + title_of(client);
}

/// In the words of what was asked for.
std::string_view result_text(const PrimitiveClient& client, const process::Answer& answer) {
  return client.kind() == engine::Kind::lock ? to_string(answer.result) : to_string(process::permit_result(answer));
}

void tell_waiting(PrimitiveClient& client, const std::string& holder, const std::string& what) {
  try {
    const std::string occupancy = occupancy_text(client);
    const std::uint32_t place = client.place_in_queue(holder);
    std::string text = "waiting for " + what;
    text += ", " + (occupancy.empty() ? "which is about to be handed on" : occupancy);
    if (place != 0) text += "; place " + std::to_string(place) + " in the queue";
    say(text);
  } catch (const Error&) {
    return;  // the waiting thread meets the same error and reports it
  }
}

}  // namespace

WaitRule wait_rule(const Arguments& arguments, std::string_view weight) {
  WaitRule rule;
  const auto wait = arguments.value("--wait");
  if (wait && arguments.has("--no-wait")) {
    throw UsageError{"--wait and --no-wait exclude each other: give one of them"};
  }
  if (wait) {
    try {
      rule.limit = parse_duration("--wait", *wait, Zero::allowed);
    } catch (UsageError& e) {
      std::uint64_t number = 0;
      if (!weight.empty() && parse_whole(*wait, number)) {
        e.text += "; for " + *wait + " permits write " + std::string(weight) + *wait;
      }
      throw;
    }
  }
  if (arguments.has("--no-wait")) rule.limit = std::chrono::nanoseconds::zero();
  if (const auto code = arguments.value("--conflict-exit-code")) {
    if (!parse_whole(*code, rule.conflict_code) || rule.conflict_code < 0 || rule.conflict_code > 255) {
      throw UsageError{"-E: '" + *code + "' is not an exit code; give a number from 0 to 255"};
    }
  }
  return rule;
}

std::optional<std::string> reason_of(const Arguments& arguments) {
  auto reason = arguments.value("--reason");
  if (reason && reason->size() > engine::max_reason) {
    throw UsageError{"--reason: " + std::to_string(reason->size()) + " bytes are too many; give at most 4096"};
  }
  return reason;
}

std::int64_t deadline_of(const WaitRule& rule) {
  if (!rule.limit) return process::no_deadline;
  if (rule.limit->count() == 0) return process::try_once;
  return process::real_clock().now_ns() + rule.limit->count();
}

Acquired acquire_aloud(PrimitiveClient& client, const process::Request& request, std::int64_t deadline_ns,
                       const StopSignals& signals, std::optional<process::Answer> tried) {
  Acquired got{tried ? *std::move(tried) : client.acquire(request, process::try_once), 0};
  if (!got.outcome && !got.outcome.impossible && deadline_ns != process::try_once) {
    if (waits_for_outer_run(client, request, deadline_ns)) {
      got.outcome.result = AcquireResult::deadlock;
      got.outer_run = true;
      return got;
    }
    Companion companion(signals, [&client, holder = std::string(request.holder), what = wanted_text(client, request)] {
      tell_waiting(client, holder, what);
      return Companion::no_more;
    });
    got.outcome = client.acquire(request, deadline_ns, companion.token());
    got.signal = companion.finish();
    if (got.signal != 0 && got.outcome && !got.outcome.increased) {
      // Granted and interrupted at once. The signal is used up, so it has to win; but what there was before is not ours
      // to give back.
      (void)client.release(request.holder);
      got.outcome = process::Answer{};
      got.outcome.result = AcquireResult::cancelled;
    }
  }
  if (got.outcome.previous) say(takeover_text(client, *got.outcome.previous));
  return got;
}

int say_not_acquired(PrimitiveClient& client, const process::Request& request, const Acquired& got,
                     const WaitRule& rule) {
  const bool is_lock = client.kind() == engine::Kind::lock;
  const std::string title = title_of(client);
  const std::string_view result = result_text(client, got.outcome);
  const auto text = [&](const std::string& how) {
    const std::string occupancy = occupancy_text(client, got.outcome.current);
    // A share of a lock, too, that others came first for.
    const bool queue = got.outcome.available >= request.weight;
    return title + " " + how + ": " + occupancy + (queue && !occupancy.empty() ? "; " : "") +
           (queue ? "others wait for it and come first" : "");
  };
  const auto busy = [&](const std::string& how) {
    say_error(result, text(is_lock ? how : how + " (" + std::to_string(request.weight) + " asked for)"));
    return rule.conflict_code;
  };
  if (got.outcome.impossible) {
    say_error(result, client.too_much_text(request.weight));
    return exit_busy;
  }
  switch (got.outcome.result) {
    case AcquireResult::cancelled:
      say_error(result, "interrupted while waiting for " + wanted_text(client, request) + "; left the queue");
      return exit_by_signal + got.signal;
    case AcquireResult::timed_out:
      return busy((is_lock ? "was not free within " : "had no room within ") + format_duration(*rule.limit));
    case AcquireResult::deadlock:
      if (got.outer_run) {
        say_error(result, text("would never be free (deadlock)") +
                              "; that is the `shmcoord run` around this command, which gives it back only when this "
                              "has ended: it is held already, so leave the inner one out, or use another " +
                              std::string(word_of(client.kind())));
      } else {
        const std::string circle = got.outcome.circle.empty()
                                       ? "another one that shares it waits for the others to end already, and so for "
                                         "this one; give this share back, and acquire again"
                                       : to_string(got.outcome.circle);
        say_error(result, title + " would never be free (deadlock): " + circle);
      }
      return exit_busy;
    default: return busy(is_lock ? "is busy" : "is full");
  }
}

}  // namespace shmcoord::tool
