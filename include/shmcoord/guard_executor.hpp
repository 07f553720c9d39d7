#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "shmcoord/condition.hpp"
#include "shmcoord/export.hpp"
#include "shmcoord/guard.hpp"
#include "shmcoord/segment.hpp"

// From a condition to its answer: walk the tree for what has to be known, ask for it through ports, all at once and up
// to a deadline, then evaluate (S0-77 to S0-79, S1-114 to S1-116). A port is a small interface to something outside;
// programs bring their own, and tests bring fakes (S1-117).

namespace shmcoord {

/// How long a port may take, and who says that it need not go on. Work that can be ended is ended by either; what is
/// answered later is thrown away.
struct GuardDeadline {
  std::chrono::steady_clock::time_point at;
  std::stop_token stop;
  int kept_open = -1;  ///< a descriptor that a command, and all that it starts, is to keep open; -1: none
};

// Every function of a port may throw: what() is then the reason for which it is not known, one line for people. Each is
// called from several threads at once, and from a thread that the executor starts, but for GuardPrimitives.

/// Locks and semaphores. Called from the evaluating thread; answers at once.
class SHMCOORD_EXPORT GuardPrimitives {
 public:
  struct Lock {
    bool free = true;
    std::vector<std::string> holders = {};  ///< ids of who holds it, without those that gave none
  };
  virtual ~GuardPrimitives();
  /// Nothing: there is no such lock, so it counts as free (C-18).
  [[nodiscard]] virtual std::optional<Lock> lock(const std::string& name) = 0;
  /// Permits that are free. Nothing: there is no such semaphore, which is a failure (C-18).
  [[nodiscard]] virtual std::optional<std::uint32_t> semaphore(const std::string& name) = 0;
};

class SHMCOORD_EXPORT GuardSessions {
 public:
  virtual ~GuardSessions();
  [[nodiscard]] virtual bool is_alive(const std::string& session, const GuardDeadline& deadline) = 0;
};

class SHMCOORD_EXPORT GuardRepository {
 public:
  virtual ~GuardRepository();
  [[nodiscard]] virtual bool branch_exists(const std::string& branch, const GuardDeadline& deadline) = 0;
  [[nodiscard]] virtual bool is_clean(const std::string& branch, const GuardDeadline& deadline) = 0;
  [[nodiscard]] virtual bool is_merged(const std::string& branch, const std::string& into,
                                       const GuardDeadline& deadline) = 0;
};

class SHMCOORD_EXPORT GuardIssues {
 public:
  virtual ~GuardIssues();
  [[nodiscard]] virtual IssueStatus status(const std::string& issue, const GuardDeadline& deadline) = 0;
  /// All that the filter means; more does no harm.
  [[nodiscard]] virtual std::vector<Issue> issues(const IssueFilter& filter, const GuardDeadline& deadline) = 0;
};

class SHMCOORD_EXPORT GuardFiles {
 public:
  virtual ~GuardFiles();
  [[nodiscard]] virtual bool exists(const std::string& path, const GuardDeadline& deadline) = 0;
  [[nodiscard]] virtual bool contains(const std::string& path, const std::string& pattern,
                                      const GuardDeadline& deadline) = 0;
};

/// How a command ended.
struct CommandResult {
  bool success = false;     ///< it exited with 0
  std::string detail = {};  ///< one line for people: "exit code 2: make: No rule to make target 'check'"; may be empty
  friend bool operator==(const CommandResult&, const CommandResult&) = default;
};

class SHMCOORD_EXPORT GuardCommands {
 public:
  virtual ~GuardCommands();
  /// Runs it to its end. One that cannot be run, or does not end in time, throws: it neither succeeded nor failed.
  [[nodiscard]] virtual CommandResult run(const std::string& command, const GuardDeadline& deadline) = 0;
};

class SHMCOORD_EXPORT GuardPipelines {
 public:
  virtual ~GuardPipelines();
  [[nodiscard]] virtual PipelineState state(const std::string& pipeline, const GuardDeadline& deadline) = 0;
};

/// What there is to ask. Where one is missing, what it would know is not known, with that reason.
struct GuardPorts {
  std::shared_ptr<GuardPrimitives> primitives = {};
  std::shared_ptr<GuardSessions> sessions = {};
  std::shared_ptr<GuardRepository> repository = {};
  std::shared_ptr<GuardIssues> issues = {};
  std::shared_ptr<GuardFiles> files = {};
  std::shared_ptr<GuardCommands> commands = {};
  std::shared_ptr<GuardPipelines> pipelines = {};
};

/// The locks, semaphores and sessions of a segment; a session is meant by its label, and lives if one of that label
/// does. Looking takes no lock, changes nothing, and needs no write access.
[[nodiscard]] SHMCOORD_EXPORT std::shared_ptr<GuardPrimitives> primitives_of(const Segment& segment);
[[nodiscard]] SHMCOORD_EXPORT std::shared_ptr<GuardSessions> sessions_of(const Segment& segment);

/// Thread-safe. If the process dies here, nothing was changed: asking changes nothing.
class SHMCOORD_EXPORT GuardExecutor {
 public:
  explicit GuardExecutor(GuardPorts ports);

  struct Limits {
    std::chrono::nanoseconds timeout = std::chrono::seconds(30);  ///< for all together
    std::stop_token stop = {};
    int kept_open = -1;  ///< as GuardDeadline::kept_open
  };

  /// Asks for all that the condition may need. Never throws because of a port, and never waits longer than the limits
  /// say, also for one that does not heed them: that one keeps its thread until it comes back.
  [[nodiscard]] GuardInputs gather(const GuardCondition& condition, const Limits& limits) const;
  [[nodiscard]] ConditionResult evaluate(const GuardCondition& condition, const Limits& limits) const;
  [[nodiscard]] GuardOutcome evaluate(const Guard& guard, const Limits& limits) const;

 private:
  std::shared_ptr<const GuardPorts> ports_;
};

}  // namespace shmcoord
