#pragma once

namespace shmcoord::tool {

/// The whole tool: what main() gets, to the exit code.
[[noreturn]] void run_command_line(int argc, char** argv);

}  // namespace shmcoord::tool
