#include <stdexcept>
#include <utility>

#include "adapters/read_file.hpp"
#include "adapters/shell.hpp"
#include "base/printable.hpp"
#include "shmcoord/adapters.hpp"
#include "shmcoord/issue_list.hpp"

// What is known by running a command: whether it succeeds, issues, and sessions. How it runs: shell.cpp.

namespace shmcoord::adapters {
namespace {

ShellRun run_of(const std::string& command, const CommandOptions& options) {
  return {.command = command,
          .directory = options.directory,
          .grace = options.grace,
          .max_output = options.max_output,
          .launcher = options.launcher};
}

class ShellCommands final : public GuardCommands {
 public:
  explicit ShellCommands(CommandOptions options) : options_(std::move(options)) {}

  CommandResult run(const std::string& command, const GuardDeadline& deadline) override {
    const ShellResult result = run_shell(run_of(command, options_), deadline);
    return {result.success(), result.detail()};
  }

 private:
  CommandOptions options_;
};

class CommandSessions final : public GuardSessions {
 public:
  CommandSessions(std::string command, CommandOptions options)
      : command_(std::move(command)), options_(std::move(options)) {}

  bool is_alive(const std::string& session, const GuardDeadline& deadline) override {
    if (session.find('\0') != std::string::npos) throw std::runtime_error("the session's name contains a zero byte");
    ShellRun run = run_of(command_, options_);
    run.environment.emplace_back("SHMCOORD_SESSION", session);
    return run_shell(run, deadline).success();
  }

 private:
  std::string command_;
  CommandOptions options_;
};

class AnyOf final : public GuardSessions {
 public:
  explicit AnyOf(std::vector<std::shared_ptr<GuardSessions>> sessions) : sessions_(std::move(sessions)) {
    for (const auto& port : sessions_) {
      if (port == nullptr) throw std::invalid_argument("any_of: one of the sessions is null");
    }
  }

  bool is_alive(const std::string& session, const GuardDeadline& deadline) override {
    std::exception_ptr unknown;
    for (const auto& port : sessions_) {
      try {
        if (port->is_alive(session, deadline)) return true;
      } catch (...) {
        if (unknown == nullptr) unknown = std::current_exception();
      }
    }
    if (unknown != nullptr) std::rethrow_exception(unknown);
    return false;
  }

 private:
  std::vector<std::shared_ptr<GuardSessions>> sessions_;
};

// --- issues --------------------------------------------------------------------------------------------------------

class JsonIssues : public GuardIssues {
 public:
  explicit JsonIssues(IssueOptions options) : options_(std::move(options)) {}

  IssueStatus status(const std::string& issue, const GuardDeadline& deadline) override {
    for (const Issue& known : read(deadline)) {
      if (known.id == issue) return known.status;
    }
    throw std::runtime_error("there is no issue '" + base::printable(issue) + "'");
  }
  std::vector<Issue> issues(const IssueFilter& /*filter*/, const GuardDeadline& deadline) override {
    return read(deadline);
  }

 private:
  [[nodiscard]] virtual std::string text(const GuardDeadline& deadline) const = 0;

  [[nodiscard]] std::vector<Issue> read(const GuardDeadline& deadline) const {
    IssueList list = issues_from_json(text(deadline));
    if (options_.warn) {
      for (const std::string& warning : list.warnings) options_.warn(warning);
    }
    return std::move(list.issues);
  }

  IssueOptions options_;
};

class FileIssues final : public JsonIssues {
 public:
  FileIssues(std::string path, IssueOptions options) : JsonIssues(std::move(options)), path_(std::move(path)) {}

 private:
  [[nodiscard]] std::string text(const GuardDeadline& deadline) const override {
    try {
      return read_regular_file(path_, max_issue_text, deadline);
    } catch (const std::runtime_error& e) {
      throw std::runtime_error("'" + base::printable(path_) + "': " + e.what());
    }
  }
  std::string path_;
};

class CommandIssues final : public JsonIssues {
 public:
  CommandIssues(std::string command, CommandOptions command_options, IssueOptions options)
      : JsonIssues(std::move(options)), command_(std::move(command)), command_options_(std::move(command_options)) {}

 private:
  [[nodiscard]] std::string text(const GuardDeadline& deadline) const override {
    ShellRun run = run_of(command_, command_options_);
    run.max_output = max_issue_text;
    run.separate_errors = true;
    ShellResult result = run_shell(run, deadline);
    if (!result.success()) throw std::runtime_error("the command failed: " + result.detail());
    if (result.output_bytes > max_issue_text) {
      throw std::runtime_error("the command wrote more than " + std::to_string(max_issue_text) + " bytes");
    }
    return std::move(result.output);
  }
  std::string command_;
  CommandOptions command_options_;
};

}  // namespace

std::shared_ptr<GuardCommands> shell_commands(CommandOptions options) {
  return std::make_shared<ShellCommands>(std::move(options));
}

std::shared_ptr<GuardIssues> issues_from_file(std::string path, IssueOptions options) {
  return std::make_shared<FileIssues>(std::move(path), std::move(options));
}

std::shared_ptr<GuardIssues> issues_from_command(std::string command, CommandOptions command_options,
                                                 IssueOptions options) {
  return std::make_shared<CommandIssues>(std::move(command), std::move(command_options), std::move(options));
}

std::shared_ptr<GuardSessions> sessions_from_command(std::string command, CommandOptions options) {
  return std::make_shared<CommandSessions>(std::move(command), std::move(options));
}

std::shared_ptr<GuardSessions> any_of(std::vector<std::shared_ptr<GuardSessions>> sessions) {
  return std::make_shared<AnyOf>(std::move(sessions));
}

}  // namespace shmcoord::adapters
