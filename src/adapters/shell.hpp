#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shmcoord/guard_executor.hpp"

namespace shmcoord::adapters {

struct ShellRun {
  std::string command;
  std::string directory = {};
  std::chrono::milliseconds grace{500};
  std::size_t max_output = 0;  ///< bytes that are kept of the end of each stream
  std::vector<std::string> launcher = {};
  bool separate_errors = false;  ///< standard error goes into `errors`, else with the output, in order
  std::vector<std::pair<std::string, std::string>> environment = {};  ///< beside that of this process
};

struct ShellResult {
  int exit_code = 0;
  int signal = 0;  ///< that ended it; 0: it exited
  std::string output = {};
  std::uint64_t output_bytes = 0;  ///< all that it wrote
  std::string errors = {};

  [[nodiscard]] bool success() const noexcept { return signal == 0 && exit_code == 0; }
  /// "exit code 2: the last line that it wrote".
  [[nodiscard]] std::string detail() const;
};

/// Runs a command to its end, with what the deadline says is kept open, as CommandOptions in adapters.hpp tell; throws
/// std::runtime_error as told there. When it returns or throws, nothing of the command runs that could be ended, and no
/// descriptor or zombie of it is left.
[[nodiscard]] ShellResult run_shell(const ShellRun& run, const GuardDeadline& deadline);

}  // namespace shmcoord::adapters
