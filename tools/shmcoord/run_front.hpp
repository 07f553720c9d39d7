#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "process/participant.hpp"
#include "shmcoord/global.hpp"
#include "shmcoord/lock.hpp"
#include "shmcoord/run_guardian.hpp"
#include "shmcoord/run_terminal.hpp"

// The side of `run` and `pipeline run` that faces the user while a command runs: signals, the terminal, the loss of
// what is held, and how it ended. The other side is the guardian (run_guardian.hpp).

namespace shmcoord::tool {

/// News from the keeper's thread: something was lost, and the command has to end.
class LossBell {
 public:
  LossBell();
  LossBell(const LossBell&) = delete;
  LossBell& operator=(const LossBell&) = delete;
  ~LossBell();

  /// The first text is what is said.
  void ring(const std::string& text);
  /// Forgets it.
  void hush() noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] std::string text();

 private:
  int fd_;
  std::mutex mutex_;
  std::string text_;
};

[[nodiscard]] std::string loss_text(const std::string& title, const Lost& lost);

/// The guardian does not outlive us, and leaves no zombie to a parent that does not reap.
class GuardianHandle {
 public:
  explicit GuardianHandle(const GuardianTask& task) : guardian_(std::make_unique<Guardian>(start_guardian(task))) {}
  GuardianHandle(const GuardianHandle&) = delete;
  GuardianHandle& operator=(const GuardianHandle&) = delete;
  ~GuardianHandle();
  [[nodiscard]] const Channel& channel() const noexcept { return guardian_->channel; }

 private:
  std::unique_ptr<Guardian> guardian_;
};

/// How a command ended.
struct CommandEnd {
  int code = 0;          // for an exit code of ours
  bool lost = false;     // the bell rang
  int signal = 0;        // that was to end it, sent to us or typed; 0: none was
  std::string how = {};  // "exit code 2", "killed by SIGKILL", "cannot run 'x': …"; empty: it exited with 0
};

/// Orphans of the command come to us if the guardian is killed, unless we have other children already (of a shell that
/// became `run` by exec): theirs would come too, and must not be ended.
[[nodiscard]] bool adopt_orphans();

/// For a command: the segment that it is run in.
[[nodiscard]] std::vector<std::string> segment_environment(const Global& global);

/// What a command is run with.
struct Front {
  const GuardianHandle& guardian;
  Terminal& terminal;
  LossBell& bell;
  const GuardianTask& task;
  bool adopts;  // of adopt_orphans()
};

/// Until the command of that number, of the guardian's task, and its tree have ended. `environment`: NAME=VALUE, each
/// with a NUL behind it but for the last.
[[nodiscard]] CommandEnd run_in_front(const Front& front, process::Participant& participant, std::size_t which,
                                      const std::string& environment);

}  // namespace shmcoord::tool
