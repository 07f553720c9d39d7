#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "process/primitive_client.hpp"
#include "shmcoord/arguments.hpp"
#include "shmcoord/companion.hpp"

// Acquiring for somebody at a terminal or in a script: says what it waits for, and leaves the queue on Ctrl-C.
//
// The second thread (companion.hpp) is started only when the first try found the lock busy; it writes one line. What if
// we die here: the session dies, and the place in the queue with it.

namespace shmcoord::tool {

/// -w, -n and -E.
struct WaitRule {
  std::optional<std::chrono::nanoseconds> limit;  // none: for ever; 0: one try
  int conflict_code = 1;
};
/// Throws UsageError. `weight`: what stands before a number of permits ("--weight "), which somebody may have meant who
/// gives a number as the time.
[[nodiscard]] WaitRule wait_rule(const Arguments& arguments, std::string_view weight = {});

/// --reason, not too long.
[[nodiscard]] std::optional<std::string> reason_of(const Arguments& arguments);

struct Acquired {
  process::Answer outcome;
  int signal = 0;          // what stopped the wait; it is not held then
  bool outer_run = false;  // deadlock: with the `run` that we are part of
};

/// Acquires by the deadline (process::try_once, process::no_deadline, or a time), and says whom it waits for, and on
/// success who lost it before. `tried`: what a first try said already.
[[nodiscard]] Acquired acquire_aloud(process::PrimitiveClient& client, const process::Request& request,
                                     std::int64_t deadline_ns, const StopSignals& signals,
                                     std::optional<process::Answer> tried);

[[nodiscard]] std::int64_t deadline_of(const WaitRule& rule);

/// Says why it was not acquired; the exit code.
int say_not_acquired(process::PrimitiveClient& client, const process::Request& request, const Acquired& got,
                     const WaitRule& rule);

}  // namespace shmcoord::tool
