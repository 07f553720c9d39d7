#pragma once

#include <signal.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "process/primitive_client.hpp"
#include "shmcoord/arguments.hpp"

// Acquiring for somebody at a terminal or in a script: says what it waits for, and leaves the queue on Ctrl-C.
//
// The main thread waits in the library, so that a hand-over wakes it directly. A second thread, started only when the
// first try found the lock busy, reads the signals, asks the library to stop, and after a moment writes the one line
// that tells what is going on. What if we die here: the session dies, and the place in the queue with it.

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

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT, as far as they are not ignored already: blocked from construction on, so that
/// they can be read at a time of our choosing. Threads started later inherit that.
class StopSignals {
 public:
  StopSignals();
  [[nodiscard]] const sigset_t& set() const noexcept { return set_; }
  /// The mask as it was before: what a command has to get.
  [[nodiscard]] const sigset_t& original() const noexcept { return original_; }

 private:
  sigset_t set_{};
  sigset_t original_{};
};

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
