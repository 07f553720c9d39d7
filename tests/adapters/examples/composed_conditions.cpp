#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <shmcoord/adapters.hpp>
#include <shmcoord/shmcoord.hpp>

// Conditions put together (S1-151), over a real segment, repository and directory: each is asked when it must hold and
// when it must not, with the reason that it gives. Exit code 0: all said what they should.

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using Is = shmcoord::GuardCondition;

bool good = true;

void expect(const shmcoord::GuardExecutor& ask, const Is& condition, const std::string& expected) {
  const shmcoord::Guard guard{"composed", condition, shmcoord::Block{}, {}};
  const shmcoord::GuardOutcome outcome = ask.evaluate(guard, {.timeout = 60s, .stop = {}});
  const auto* const failed = std::get_if<shmcoord::GuardFailed>(&outcome);
  const std::string said = failed == nullptr ? "passed" : failed->reason;
  std::printf("%s: %s\n", condition.str().c_str(), said.c_str());
  if (said == expected) return;
  std::printf("  but should have said: %s\n", expected.c_str());
  good = false;
}

bool git(const std::string& directory, const std::string& words) {
  const std::string line = "cd '" + directory + "' && git -c user.name=a -c user.email=a@b " + words + " >git.log 2>&1";
  return std::system(line.c_str()) == 0;  // NOLINT(cert-env33-c)
}

void compose(const shmcoord::Segment& segment, const std::string& directory) {
  shmcoord::Session session{segment, {.label = "composed conditions"}};
  shmcoord::Lock main_branch{session, "main-branch"};
  shmcoord::Semaphore agents{session, "agents", {.capacity = 2}};
  const shmcoord::GuardExecutor ask{{.primitives = primitives_of(segment),
                                     .repository = shmcoord::adapters::git_repository(directory),
                                     .files = shmcoord::adapters::files({.base_dir = directory})}};

  const Is ready = Is::all({Is::lock_free("main-branch"), Is::semaphore_available("agents", 1)});
  const shmcoord::HolderId me{"pipeline:42"};
  expect(ask, ready, "passed");
  (void)main_branch.try_acquire(me);
  expect(ask, ready, "lock 'main-branch' is held by 'pipeline:42'");
  (void)main_branch.release(me);
  (void)agents.try_acquire(me, 2);
  expect(ask, ready, "semaphore 'agents' has 0 free, 1 is needed");
  (void)agents.release(me);
  expect(ask, ready, "passed");

  const Is branch = Is::any({Is::branch_exists("x"), Is::branch_exists("y")});
  expect(ask, branch, "branch 'y' does not exist");
  good = git(directory, "branch y") && good;
  expect(ask, branch, "passed");
  good = git(directory, "branch x") && git(directory, "branch -d y") && good;
  expect(ask, branch, "passed");

  const Is unlocked = Is::negation(Is::file_exists(".lock"));
  expect(ask, unlocked, "passed");
  std::ofstream(directory + "/.lock") << "held\n";
  expect(ask, unlocked, "this holds, and should not: file_exists(.lock)");
  fs::remove(directory + "/.lock");

  // The same as text, and all of it at once.
  expect(ask, Is::parse("lock_free(main-branch) && semaphore_available(agents, 1)"), "passed");
  expect(ask, ready && branch && unlocked, "passed");
}

}  // namespace

int main() {
  std::string directory = (fs::temp_directory_path() / "composed-conditions-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return 2;
  const std::string name = "composed-conditions-" + std::to_string(::getpid());
  good = git(directory, "init -q") && git(directory, "commit -q --allow-empty -m first");
  try {
    compose(shmcoord::Segment::create(name), directory);
    shmcoord::Segment::remove(name);
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    good = false;
  }
  fs::remove_all(directory);
  return good ? 0 : 1;
}
