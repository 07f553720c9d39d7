#include "bench/support/processes.hpp"

#include <sched.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <vector>

namespace shmcoord::bench {
namespace {

struct Leftovers {
  engine::Word32 count;
  std::array<engine::Word32, 256> semaphores;
};

Surroundings around;
Leftovers* leftovers = nullptr;
std::vector<std::size_t> cpus;  // of the case as it began: who is pinned already has only one left

std::vector<std::size_t> cpus_now() {
  std::vector<std::size_t> found;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) found.push_back(cpu);
  }
  return found;
}

void tell_runner() noexcept {
  const std::uint64_t one = 1;
  if (around.failed >= 0) (void)!::write(around.failed, &one, sizeof one);
}

/// SIGABRT and its like, in any process of a case: the others may wait for this one for ever.
void on_crash(int signal) {
  tell_runner();
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

void fail(const std::string& why) {
  // In one call, so that two who fail together do not mix their words.
  const std::string line = "shmcoord_bench: " + why + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
  tell_runner();
  ::_exit(1);
}

pid_t child(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) fail(std::string("no process can be made: ") + std::strerror(errno));
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  try {
    body();
  } catch (const std::exception& e) {
    fail(e.what());
  }
  std::fflush(nullptr);
  ::_exit(0);
}

namespace {

void require_good_end(int status) {
  if (WIFSIGNALED(status)) fail(std::string("a process of the case ended: ") + ::strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) {
    fail("a process of the case ended with exit code " + std::to_string(WEXITSTATUS(status)));
  }
}

}  // namespace

void join(pid_t pid) { join_all({&pid, 1}); }

void join_all(std::span<const pid_t> pids) {
  for (std::size_t left = pids.size(); left > 0;) {
    int status = 0;
    const pid_t got = ::waitpid(pids.size() == 1 ? pids[0] : -1, &status, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("a process of the case is gone");
    if (std::find(pids.begin(), pids.end(), got) == pids.end()) continue;
    require_good_end(status);
    --left;
  }
}

void await(std::span<const pid_t> pids, const std::function<bool()>& ready) {
  while (!ready()) {
    for (const pid_t pid : pids) {
      siginfo_t ended{};
      ::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT);
      if (ended.si_pid != pid) continue;
      join(pid);
      fail("a process of the case ended too soon");
    }
    ::usleep(100);
  }
}

void end_child(pid_t pid) {
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

std::size_t allowed_cpus() { return cpus.empty() ? cpus_now().size() : cpus.size(); }

bool pin_to(std::size_t nth, pthread_t thread) {
  if (cpus.empty()) return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[nth % cpus.size()], &one);
  return ::pthread_setaffinity_np(thread, sizeof one, &one) == 0;
}

std::string scratch_name(const std::string& what) { return "bench-" + std::to_string(around.runner) + "-" + what; }
std::string scratch_path(const std::string& what) { return "/dev/shm/" + scratch_name(what); }

void remove_at_end(int semaphores) {
  if (semaphores < 0) fail(std::string("no SysV semaphore can be made: ") + std::strerror(errno));
  const std::uint32_t place = engine::RealPolicy::add(leftovers->count, 1);
  if (place >= leftovers->semaphores.size()) fail("too many SysV semaphores in one case");
  engine::RealPolicy::store(leftovers->semaphores[place], static_cast<std::uint32_t>(semaphores) + 1);
}

void prepare_runner() {
  around.runner = ::getpid();
  leftovers = &shared<Leftovers>();
}

void enter_case(int results, int failed) {
  around.results = results;
  around.failed = failed;
  cpus = cpus_now();
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(signal, on_crash);
}

const Surroundings& surroundings() { return around; }

void remove_leftovers() {
  for (engine::Word32& word : leftovers->semaphores) {
    const std::uint32_t id = engine::RealPolicy::load(word);
    if (id != 0) ::semctl(static_cast<int>(id - 1), 0, IPC_RMID);
    engine::RealPolicy::store(word, 0);
  }
  engine::RealPolicy::store(leftovers->count, 0);
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    if (file.path().filename().string().find(scratch_name("")) != std::string::npos) {
      std::filesystem::remove_all(file.path(), ignored);
    }
  }
}

}  // namespace shmcoord::bench
