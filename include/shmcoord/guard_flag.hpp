#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/guard.hpp"
#include "shmcoord/guard_executor.hpp"
#include "shmcoord/session.hpp"

// Guards that are registered in a segment: under a name that all processes know, with what the last of them found out.
//
//   GuardFlag::add(session, {"release", GuardCondition::parse("lock_free(deploy) && !file_exists('.hold')")});
//   GuardFlag release{session, "release"};
//   if (may_proceed(release.wait(executor, {.timeout = 5min}))) …
//
// Who asks brings the executor: what a condition is about is seen with the eyes of the process that evaluates it (its
// working directory, its repository). The definition and the verdict are shared.

namespace shmcoord {

/// What the last evaluation found, whoever made it (S0-41).
struct GuardVerdict {
  bool passed = false;
  std::string reason = {};  ///< why it did not pass; cut at 254 bytes
  std::int32_t pid = 0;     ///< who evaluated it, in its own namespace
  std::chrono::steady_clock::time_point at = {};
};

/// A registered guard as `list` shows it.
struct GuardListing {
  Guard guard;
  std::optional<GuardVerdict> verdict = {};  ///< nothing: it was not evaluated yet, or the last one died over it
};

struct GuardWaitOptions {
  /// For all together; none: until it passes. Zero or less: one evaluation.
  std::optional<std::chrono::nanoseconds> timeout = {};
  std::stop_token stop = {};
  /// How often what cannot notify is asked again: git, commands, issues, pipelines, sessions of another port, and files
  /// where inotify does not work. More than zero.
  std::chrono::nanoseconds recheck = std::chrono::seconds(1);
  std::chrono::nanoseconds evaluation_timeout = std::chrono::seconds(30);  ///< as GuardExecutor::Limits::timeout
  std::string directory = {};  ///< what relative paths of the condition start from; empty: the working directory
  int kept_open = -1;          ///< as GuardDeadline::kept_open
  /// Told what this wait found, first and whenever it is another than before; the verdict may be somebody else's. By
  /// the waiting thread, which goes on when it returns; what it throws ends the wait.
  std::function<void(const GuardOutcome& outcome)> on_outcome = {};
};

/// Passed, or failed where its action is to warn (S0-59, C-23).
[[nodiscard]] SHMCOORD_EXPORT bool may_proceed(const GuardOutcome& outcome) noexcept;

/// A handle of a registered guard (S0-41, S1-4, S1-5, S1-94). Cheap, move-only, thread-safe.
///
/// The name is common to locks, semaphores and guards. A guard stays until it is removed, however its makers end.
///
/// Errors, beside those of every call of a session: not_found (no guard of that name), wrong_type (the name is a lock
/// or a semaphore), name_removed (it was removed while it was waited for).
class SHMCOORD_EXPORT GuardFlag {
 public:
  /// Registers it. One that is there with the same definition is left as it is. Errors: config_differs (it is there
  /// with another definition; both are told), invalid_argument (a name, action, or pattern that cannot be),
  /// ConditionError, table_full, no_space. If the process dies here, the guard is registered as a whole or not at all,
  /// and whoever adds it next tidies up.
  static GuardFlag add(Session& session, const Guard& guard);
  /// The guard of that name; throws not_found if there is none.
  GuardFlag(Session& session, std::string_view name);
  GuardFlag(const GuardFlag&) = delete;
  GuardFlag& operator=(const GuardFlag&) = delete;
  GuardFlag(GuardFlag&&) noexcept;
  GuardFlag& operator=(GuardFlag&&) noexcept;
  ~GuardFlag();

  [[nodiscard]] const std::string& name() const noexcept;
  /// As it is registered now.
  [[nodiscard]] Guard guard() const;
  /// The last verdict, of whichever process. Nothing: none is known, for nobody evaluated it, or who did died over it.
  [[nodiscard]] std::optional<GuardVerdict> verdict() const;

  /// Asks, says the outcome, and leaves it as the verdict; tells `guard:evaluating` and `guard:passed` or
  /// `guard:failed`. If the process dies here: the verdict before stands, or none.
  GuardOutcome evaluate(const GuardExecutor& executor, const GuardExecutor::Limits& limits = {});

  /// Evaluates until it passes, or its action is Warn or Fail, or the time is over, or the stop comes; says the last
  /// outcome. In between it sleeps, and looks again (S1-5, S1-150):
  /// - after an event that its wake patterns name (S1-94, C-28); without patterns of its own, when the state of a
  ///   lock or semaphore that it names has changed, or a session of that label joined, left or died (C-27);
  /// - when a file that it names comes, goes or changes;
  /// - after `recheck`, if it asks what cannot notify, and after ten times that, if it asks for files, since a change
  ///   through another hard link, a mapping or a mount is not told; after the delay of Retry (C-23).
  /// It waits for a state, not for its change: what happens while it evaluates is not missed. Once a second it looks at
  /// the locks and semaphores, in case whoever should have told died.
  /// The verdict is written when it changes. If the process dies here: nothing is left behind (a guard has no waiters
  /// in the segment), and other waiters do not notice.
  GuardOutcome wait(const GuardExecutor& executor, const GuardWaitOptions& options = {});

  /// All that are registered, by name. Needs no session and changes nothing.
  [[nodiscard]] static std::vector<GuardListing> list(const Segment& segment);
  /// Takes it out, also while others wait for it: they are told name_removed. If the process dies here, it is removed
  /// by whoever looks it up or buries the session, or can be removed again.
  static void remove(Session& session, std::string_view name);

 private:
  struct State;
  explicit GuardFlag(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace shmcoord
