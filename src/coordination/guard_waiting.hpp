#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "coordination/file_watch.hpp"
#include "process/event_stream.hpp"
#include "process/participant.hpp"
#include "shmcoord/guard_executor.hpp"
#include "shmcoord/guard_flag.hpp"

// Waiting until a guard passes.
//
// Problem: it must not poll what can notify, must not miss a change that comes while it evaluates, and must not run a
// condition's commands each time that somebody somewhere takes a lock.
//
// So it listens first (the journal of the segment, inotify), evaluates then, and sleeps until something that was heard
// since then matters; whatever happens while it evaluates is heard before it sleeps. Locks and semaphores are compared
// by their state: an event of them makes it look at those that the condition names, which is cheap, and only a state
// that differs from the one that was evaluated makes it evaluate. So the events are hints, and one that is lost, with
// the process that should have told it, costs a second: that is how often it looks in any case.
//
// Its own evaluations are told, and may wake other guards by their patterns. So that two of them do not wake each other
// for ever, a wait tells its first evaluation and then only that it passes or fails where it did not before; and what
// it tells itself wakes it never.
//
// If we die here: the mark of the subscriber goes with the session, watches with the process. No other waiter and no
// later one depends on us.

namespace shmcoord::coordination {

/// What of a condition has to be looked after in which way.
struct GuardNeeds {
  std::vector<GuardCondition> primitives;  // each asks for one lock or semaphore
  std::set<std::string> sessions;
  std::set<std::string> pipelines;
  std::vector<std::string> files;
  bool asks_others = false;  // what cannot notify

  GuardNeeds(const GuardCondition& condition, const std::string& directory);
  [[nodiscard]] bool only_primitives() const;
};

/// The state of the locks and semaphores that a condition names.
struct PrimitiveStates {
  std::map<std::string, bool> locks;
  std::map<std::string, std::vector<std::string>> lock_holders;
  std::map<std::string, std::uint32_t> semaphores;
  std::map<GuardInput, std::string> failures;
  friend bool operator==(const PrimitiveStates&, const PrimitiveStates&) = default;
};

/// One wait, of one thread. It listens from its construction on.
class GuardWaiting {
 public:
  /// Is the guard that is waited for another one by now? Asked often; `thoroughly`, once a second at most. Empty: it
  /// cannot become one.
  using IsAnother = std::function<bool(bool thoroughly)>;

  GuardWaiting(const std::shared_ptr<process::Participant>& participant, const GuardExecutor& executor,
               const GuardWaitOptions& options, Guard guard, IsAnother is_another = {});

  /// Nothing: the wait was over before it was known.
  std::optional<GuardOutcome> evaluate();
  [[nodiscard]] bool over() const;
  /// Sleeps until it is worth another evaluation, or the wait is over. True: worth it.
  bool until_worth_it();

  [[nodiscard]] const Guard& guard() const noexcept { return guard_; }
  /// Has the definition to be read again? Once a second, in case a part of it was taken away by force, and when the
  /// name is no more what it was.
  [[nodiscard]] bool definition_is_old() const;
  /// The definition as it is now.
  void is_now(Guard guard);

 private:
  struct Interrupt {
    process::EventStream& stream;
    void operator()() const noexcept { stream.interrupt(); }
  };

  [[nodiscard]] bool are_other_states() const;
  [[nodiscard]] bool is_another_guard() const;

  process::Participant& participant_;
  const GuardExecutor& executor_;
  const GuardWaitOptions& options_;
  Guard guard_;
  IsAnother is_another_;
  bool definition_is_old_ = false;
  GuardNeeds needs_;
  std::int64_t deadline_ns_;
  bool once_;
  process::EventStream stream_;
  std::stop_callback<Interrupt> stop_;
  std::unique_ptr<FileWatch> files_;  // ended before the stream that it interrupts
  bool files_are_watched_ = false;
  PrimitiveStates states_;
  std::int64_t evaluated_ns_ = 0;
};

/// The same definition?
[[nodiscard]] bool is_same_guard(const Guard& a, const Guard& b);

}  // namespace shmcoord::coordination
