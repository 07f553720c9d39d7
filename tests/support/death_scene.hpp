#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "process/face.hpp"
#include "support/process_child.hpp"
#include "support/stepper.hpp"

// Death after every instruction of one operation, in a real process among others.
//
// One pass steps through the operation. After each instruction the segment is compared with what it was, and each
// distinct image is written to two files, in which the process that was stepped is dead: one is swept as by the reaper,
// to the other somebody comes who just wants the lock. Both must leave a sound segment; must find what the scenario
// says the lock's state is, as one line of text; whoever waits gets the lock in turn; tokens grow. The lines of one
// pass, each once, must be those of the scenario and in their order: so an operation took effect at one instruction,
// or not at all.
//
// Then the same operation runs again in fresh processes, to those instructions and no further: SIGKILL. A waiter, a
// real one this time, must come through, the others keep what they have, and the dead are buried by whoever is there.
//
// Kernel state (locked bytes, life words held) is not in the image, so each system call counts as a change.
//
// People: V, the victim, is stepped. H holds the lock. W waits for it, or comes later. U, if there is one, is in the
// middle of an operation of its own, stopped or dead. W also holds the lock "other", which nobody may touch. D is a
// detached holder, R he who comes after the death. While V is stepped all others are stopped, unless it needs them.

namespace shmcoord::test {

struct Board {
  std::atomic<std::uint64_t> highest_token;  // that somebody was given
  std::atomic<std::uint64_t> waiter_token;
  std::atomic<std::uint64_t> other_token;
};

/// One of them, in its own process.
struct Actor {
  std::shared_ptr<engine::Mapping> mapping;
  Board& board;
  std::string name;  // of the lock
  const Child::Line& line;
  std::optional<Session> session{};
  std::optional<Lock> lock{};

  void join();
  /// To the lock that all is about.
  void attach() { attach(name); }
  void attach(std::string_view other);
  std::uint64_t note(const AcquireOutcome& outcome) const;
  [[nodiscard]] process::PrimitiveClient& client() const;
};

using Act = std::function<void(Actor&)>;

struct Scenario {
  std::string name;
  Act before = [](Actor& v) {
    v.join();
    v.attach();
  };
  Act operation{};
  std::vector<std::string> outcomes{};
  std::vector<std::string> or_else{};  // other lines that will do
  // What it is about, if it is not the lock: the line that R finds of it, who then goes on with it. After a kill too.
  std::function<std::string(Actor&)> found{};
  std::string lock = "deploy";
  bool holder = false;  // H holds
  enum class Waiter : std::uint8_t { later, queued, behind_victim } waiter = Waiter::later;
  bool holder_yields = false;  // H releases when the victim sleeps
  bool cancelled = false;      // V's wait is, when it sleeps: it is told to go on once more
  bool others_run = false;     // for an operation that needs them, or its own keeper
  engine::Sizes sizes{.names = 8, .entries = 48, .sessions = 8};
  bool journal = false;  // everything is told; what was must add up to what is, in the end
  // U goes through so many changes of the memory, and is stopped there, or killed.
  Act first_before{};
  Act first{};
  std::size_t first_changes = 0;
  bool first_dies = false;
};

/// What happened, for the reader.
struct Counts {
  std::uint64_t instructions = 0;
  std::uint64_t changes = 0;
  std::uint64_t images = 0;  // distinct
  std::uint64_t recoveries = 0;
  std::uint64_t kills = 0;
  std::uint64_t missed = 0;  // the instruction did not come again; killed at the operation's end

  Counts& operator+=(const Counts& more);
};

struct Effort {
  std::uint64_t every_image = 1;  // every so-manyth is recovered
  std::size_t kills = 6;          // per scenario
  bool all = false;               // a kill before and after every change, and that many others
  static Effort of_this_run();
};

struct Death {
  Counts counts;
  bool first_ended = false;  // U's operation was over before so many changes
};
/// The pass and the kills.
Death die_everywhere(const Scenario& scenario, const Effort& effort);

}  // namespace shmcoord::test
