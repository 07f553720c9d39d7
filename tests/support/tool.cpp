#include "support/tool.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "engine/segment_file.hpp"
#include "shmcoord/error.hpp"
#include "support/sound.hpp"

namespace shmcoord::test {
namespace {

using Clock = std::chrono::steady_clock;

int next_number() {
  static int number = 0;
  return ++number;
}

std::string stat_after_name(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto close = stat.rfind(')');
  return close == std::string::npos ? std::string() : stat.substr(close + 2);
}

}  // namespace

int Finished::code() const {
  if (status == -1) return -1;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool process_gone(pid_t pid) {
  const std::string stat = stat_after_name(pid);
  return stat.empty() || stat.front() == 'Z' || stat.front() == 'X';
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found;
  std::istringstream text(read_file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) + "/children"));
  for (pid_t child = 0; text >> child;) found.push_back(child);
  return found;
}

ToolProcess::ToolProcess(std::vector<std::string> argv, const std::string& scratch,
                         const std::function<bool()>& before_exec)
    : base_(scratch + "/" + std::to_string(next_number())) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  const int out = ::open((base_ + ".out").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  const int err = ::open((base_ + ".err").c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    if (!before_exec()) ::_exit(not_prepared);
    ::execvp(words[0], words.data());
    ::_exit(99);
  }
  ::setpgid(pid_, pid_);
  ::close(out);
  ::close(err);
}

ToolProcess::~ToolProcess() {
  if (ended_) return;
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);
  (void)::waitpid(pid_, nullptr, 0);
}

void ToolProcess::signal(int signal) const { ::kill(pid_, signal); }

bool ToolProcess::reap() {
  if (!ended_ && ::waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
  return ended_;
}

bool ToolProcess::running() { return !reap(); }

Finished ToolProcess::wait() {
  if (!eventually([this] { return reap(); })) {
    ADD_FAILURE() << "pid " << pid_ << " did not end; it said: " << err();
    ::kill(-pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
    ended_ = true;
    status_ = -1;
  }
  return {status_, out(), err()};
}

ToolTest::ToolTest(std::string tool_path) : tool_(std::move(tool_path)) {
  segment_ = "test-tool-" + std::to_string(::getpid()) + "-" + std::to_string(next_number());
  scratch_ = (std::filesystem::temp_directory_path() / segment_).string();
  std::filesystem::create_directory(scratch_);
  ::setenv("SHMCOORD_SEGMENT", segment_.c_str(), 1);
  ::setenv("SHMCOORD", tool_.c_str(), 1);
  ::setenv("SCRATCH", scratch_.c_str(), 1);
}

ToolTest::~ToolTest() {
  std::error_code ignored;
  if (std::filesystem::is_regular_file("/dev/shm/shmcoord." + segment_, ignored)) {
    try {
      test::expect_sound(*engine::Mapping::open(segment_, {.trusted_owner = {}, .read_only = true}));
    } catch (const Error&) {  // a test made it unusable
    }
  }
  std::filesystem::remove("/dev/shm/shmcoord." + segment_, ignored);
  std::filesystem::remove_all(scratch_, ignored);
}

std::unique_ptr<ToolProcess> ToolTest::start(std::vector<std::string> arguments,
                                             const std::function<bool()>& before_exec) {
  arguments.insert(arguments.begin(), tool_);
  return std::make_unique<ToolProcess>(std::move(arguments), scratch_, before_exec);
}

Finished ToolTest::run(std::vector<std::string> arguments) { return start(std::move(arguments))->wait(); }

std::unique_ptr<ToolProcess> ToolTest::start_shell(const std::string& script) {
  return std::make_unique<ToolProcess>(std::vector<std::string>{"/bin/sh", "-c", script}, scratch_);
}

pid_t ToolTest::pid_from(const std::string& name) const {
  pid_t pid = 0;
  (void)eventually([&] {
    const std::string text = read_file(file(name));
    if (!text.ends_with('\n')) return false;
    pid = static_cast<pid_t>(std::atoi(text.c_str()));
    return pid > 0;
  });
  return pid;
}

bool ToolTest::is_free(const std::string& lock) { return run({"run", "-n", "-l", lock, "--", "true"}).code() == 0; }

}  // namespace shmcoord::test
