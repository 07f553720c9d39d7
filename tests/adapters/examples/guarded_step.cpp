#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <shmcoord/adapters.hpp>
#include <shmcoord/testing.hpp>

// A deployment that starts only if its guard lets it, and the test of it without a repository, tracker or tool: the
// guard is the same, the ports are fakes. Exit code 0: both said what they should.

namespace {

using namespace std::chrono_literals;

const shmcoord::Guard& guard() {
  static const shmcoord::Guard ready{
      "ready to deploy",
      shmcoord::GuardCondition::parse("file_contains(VERSION, '^2\\.') && command('test -f VERSION')"),
      shmcoord::Block{},
      {}};
  return ready;
}

std::string answer(const shmcoord::GuardPorts& ports) {
  const shmcoord::GuardOutcome outcome = shmcoord::GuardExecutor{ports}.evaluate(guard(), {.timeout = 60s, .stop = {}});
  const auto* const failed = std::get_if<shmcoord::GuardFailed>(&outcome);
  return failed == nullptr ? "passed" : failed->reason;
}

bool is(const std::string& said, const std::string& expected) {
  if (said == expected) return true;
  std::printf("said \"%s\", not \"%s\"\n", said.c_str(), expected.c_str());
  return false;
}

}  // namespace

int main() {
  namespace adapters = shmcoord::adapters;
  std::string directory = (std::filesystem::temp_directory_path() / "guarded-step-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 2;
  std::ofstream(directory + "/VERSION") << "name\n2.1\n";
  bool good = is(answer({.files = adapters::files({.base_dir = directory}),
                         .commands = adapters::shell_commands({.directory = directory})}),
                 "passed");
  std::filesystem::remove_all(directory);

  const shmcoord::testing::FakePorts fakes;
  fakes.files->file("VERSION", {"^2\\."});
  fakes.commands->command("test -f VERSION", false, "exit code 1");
  good = is(answer(fakes.ports()), "command 'test -f VERSION' failed: exit code 1") && good;
  return good ? 0 : 1;
}
