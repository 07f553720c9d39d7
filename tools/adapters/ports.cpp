#include "adapters/ports.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adapters/with_parent.hpp"
#include "shmcoord/adapters.hpp"
#include "shmcoord/messages.hpp"

// The ports of the library's component, as the command line asks for them.
//
// Problem: the executor leaves a port alone whose time is over, and a port ends its command then: asked first, killed
// half a second later. That takes a thread of this process, and the process is about to end. So the calls that run
// commands are counted, and the end of the process waits until there are none.

namespace shmcoord::tool {
namespace {

class Calls {
 public:
  class One {
   public:
    explicit One(Calls& calls) : calls_(calls) {
      const std::scoped_lock lock(calls_.mutex_);
      ++calls_.count_;
    }
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    ~One() {
      const std::scoped_lock lock(calls_.mutex_);
      --calls_.count_;
      calls_.changed_.notify_all();
    }

   private:
    Calls& calls_;
  };

  /// Until there are none. A call that cannot be ended (the kernel holds its command) is left behind at last.
  void settle() {
    constexpr std::chrono::seconds most{5};
    std::unique_lock lock(mutex_);
    (void)changed_.wait_for(lock, most, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
};

class CountedCommands final : public GuardCommands {
 public:
  CountedCommands(std::shared_ptr<GuardCommands> port, std::shared_ptr<Calls> calls)
      : port_(std::move(port)), calls_(std::move(calls)) {}
  CommandResult run(const std::string& command, const GuardDeadline& deadline) override {
    const Calls::One call(*calls_);
    return port_->run(command, deadline);
  }

 private:
  std::shared_ptr<GuardCommands> port_;
  std::shared_ptr<Calls> calls_;
};

class CountedIssues final : public GuardIssues {
 public:
  CountedIssues(std::shared_ptr<GuardIssues> port, std::shared_ptr<Calls> calls)
      : port_(std::move(port)), calls_(std::move(calls)) {}
  IssueStatus status(const std::string& issue, const GuardDeadline& deadline) override {
    const Calls::One call(*calls_);
    return port_->status(issue, deadline);
  }
  std::vector<Issue> issues(const IssueFilter& filter, const GuardDeadline& deadline) override {
    const Calls::One call(*calls_);
    return port_->issues(filter, deadline);
  }

 private:
  std::shared_ptr<GuardIssues> port_;
  std::shared_ptr<Calls> calls_;
};

class CountedSessions final : public GuardSessions {
 public:
  CountedSessions(std::shared_ptr<GuardSessions> port, std::shared_ptr<Calls> calls)
      : port_(std::move(port)), calls_(std::move(calls)) {}
  bool is_alive(const std::string& session, const GuardDeadline& deadline) override {
    const Calls::One call(*calls_);
    return port_->is_alive(session, deadline);
  }

 private:
  std::shared_ptr<GuardSessions> port_;
  std::shared_ptr<Calls> calls_;
};

/// Each once: they are read anew with each evaluation.
class Warnings {
 public:
  void operator()(const std::string& warning) {
    {
      const std::scoped_lock lock(mutex_);
      if (!told_.insert(warning).second) return;
    }
    say("issues: " + warning);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> told_;
};

}  // namespace

std::function<void()> add_adapters(GuardPorts& ports, const AskOptions& options) {
  const auto calls = std::make_shared<Calls>();
  adapters::CommandOptions commands{.directory = options.directory};
  if (options.end_with_us) commands.launcher = with_parent();
  const std::string here = options.directory.empty() ? "." : options.directory;
  ports.repository = adapters::git_repository(options.repository.value_or(here));
  ports.files = adapters::files({.base_dir = options.directory});
  ports.commands = std::make_shared<CountedCommands>(adapters::shell_commands(commands), calls);
  const adapters::IssueOptions issues{
      [warnings = std::make_shared<Warnings>()](const std::string& w) { (*warnings)(w); }};
  if (options.issues_file) ports.issues = adapters::issues_from_file(*options.issues_file, issues);
  if (options.issues_command) {
    ports.issues = std::make_shared<CountedIssues>(
        adapters::issues_from_command(*options.issues_command, commands, issues), calls);
  }
  if (options.sessions_command) {
    std::shared_ptr<GuardSessions> by_command =
        std::make_shared<CountedSessions>(adapters::sessions_from_command(*options.sessions_command, commands), calls);
    ports.sessions = ports.sessions == nullptr ? std::move(by_command) : adapters::any_of({ports.sessions, by_command});
  }
  return [calls] { calls->settle(); };
}

}  // namespace shmcoord::tool
