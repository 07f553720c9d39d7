#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// The built tool as its users start it: run it, look at what it says, kill it, wait for it with a watchdog.
//
// Output goes to files, not pipes, because what is left of a command may keep a pipe open for longer than a test waits.
// Everything that a test started is killed when the test ends, and the kernel kills it when the test is killed.

namespace shmcoord::test {

inline constexpr std::chrono::seconds patience{20};
inline constexpr int not_prepared = 98;

struct Finished {
  int status = -1;  // as of waitpid
  std::string out;
  std::string err;

  /// The exit code, 128 + N after a signal, -1 if it did not end in time.
  [[nodiscard]] int code() const;
};

/// True as soon as the condition holds; false after `patience`.
[[nodiscard]] bool eventually(const std::function<bool()>& condition);

/// Gone, or only a zombie.
[[nodiscard]] bool process_gone(pid_t pid);
/// The processes whose parent is `pid`.
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);
[[nodiscard]] std::string read_file(const std::string& path);

class ToolProcess {
 public:
  /// `before_exec` runs in the child; where it fails, the child ends with `not_prepared`.
  ToolProcess(
      std::vector<std::string> argv, const std::string& scratch,
      const std::function<bool()>& before_exec = [] { return true; });
  ~ToolProcess();
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int signal) const;
  [[nodiscard]] bool running();
  /// Waits, with the watchdog: after `patience` it is killed and the code is -1.
  Finished wait();
  [[nodiscard]] std::string out() const { return read_file(base_ + ".out"); }
  [[nodiscard]] std::string err() const { return read_file(base_ + ".err"); }

 private:
  bool reap();

  std::string base_;
  pid_t pid_ = 0;
  int status_ = -1;
  bool ended_ = false;
};

/// A fixture with a segment of its own (SHMCOORD_SEGMENT) and a scratch directory (also in $SCRATCH).
class ToolTest : public ::testing::Test {
 protected:
  explicit ToolTest(std::string tool_path);
  ~ToolTest() override;

  /// `shmcoord ARGUMENT…`, in the background.
  std::unique_ptr<ToolProcess> start(
      std::vector<std::string> arguments, const std::function<bool()>& before_exec = [] { return true; });
  /// … to its end.
  Finished run(std::vector<std::string> arguments);
  /// `sh -c SCRIPT`; the tool is `$SHMCOORD`.
  std::unique_ptr<ToolProcess> start_shell(const std::string& script);

  /// The path of a file in the scratch directory.
  [[nodiscard]] std::string file(const std::string& name) const { return scratch_ + "/" + name; }
  /// Waits for a file with a number in it; 0 when it does not come.
  [[nodiscard]] pid_t pid_from(const std::string& name) const;
  /// Is it free, as a try tells?
  [[nodiscard]] bool is_free(const std::string& lock);

  std::string tool_;
  std::string segment_;
  std::string scratch_;
};

}  // namespace shmcoord::test
