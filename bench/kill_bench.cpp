#include "bench/support/kill.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "bench/support/locks.hpp"
#include "bench/support/peers.hpp"

// From SIGKILL of the holder to the next one, who waits in another process.

extern char** environ;

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::Word32;

/// What the holder has besides when it is killed.
struct Burden {
  std::uint32_t other_names = 0;
  std::size_t resident_bytes = 0;
};

/// The parent has entered the peer. In microseconds.
double kill_to_next_us(LockPeer& peer, const Burden& burden) {
  Word32& held = shared<Word32>();
  const pid_t holder = child([&] {
    peer.enter();
    if (burden.resident_bytes > 0) {
      void* const p =
          ::mmap(nullptr, burden.resident_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) fail("no memory for the holder");
      std::memset(p, 1, burden.resident_bytes);
    }
    if (burden.other_names > 0) {
      auto* const s = new Session{segment()};
      const HolderId me{"bench"};
      for (std::uint32_t i = 0; i < burden.other_names; ++i) {
        Lock other{*s, "other-" + std::to_string(i)};
        if (!other.try_acquire(me)) fail("another name is not free");
      }
    }
    peer.lock();
    RealPolicy::store(held, 1);
    for (;;) ::pause();
  });
  while (RealPolicy::load(held) == 0) ::poll(nullptr, 0, 1);
  ::munmap(&held, 4096);
  const std::int64_t took_ns = kill_to_next_ns(holder, [&] { peer.lock(); });
  peer.unlock();
  ::waitpid(holder, nullptr, 0);
  return static_cast<double>(took_ns) / 1e3;
}

Comparison::Measure measure(std::shared_ptr<LockPeer> peer, const Burden& burden) {
  peer->enter();
  return [peer = std::move(peer), burden] { return kill_to_next_us(*peer, burden); };
}

void compare(const std::string& what, const Burden& burden, int rounds, double of_flock) {
  Comparison c("SIGKILL to next holder, " + what, "us", rounds);
  c.rounds_are_samples();
  c.ours(measure(our_lock("kill"), burden));
  // The peers have no names; they die with the same memory.
  const Burden memory{.other_names = 0, .resident_bytes = burden.resident_bytes};
  c.peer("flock", of_flock, measure(flock_lock(), memory), of_flock);
  c.peer("OFD lock", 0, measure(ofd_lock(), memory));
  c.peer("robust process-shared mutex", of_flock > 0 ? 1.6 : 0, measure(robust_lock(), memory));
  c.peer("SysV semop with SEM_UNDO", 0, measure(sysv_lock(), memory));
  c.run();
}

void kill_case() { compare("no reaper", {}, 201, 1.05); }
const Register kill_is_a_case{"kill", "SIGKILL of the holder to the next one, without a reaper", kill_case};

void reaper_case() {
  (void)segment();
  const std::string name = segment_name();
  const char* const argv[] = {SHMCOORD_TOOL_PATH, "-s", name.c_str(), "reap", nullptr};
  posix_spawn_file_actions_t quiet;  // it says whom it buried
  posix_spawn_file_actions_init(&quiet);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t reaper = 0;
  if (::posix_spawn(&reaper, SHMCOORD_TOOL_PATH, &quiet, nullptr, const_cast<char**>(argv), environ) != 0) {
    fail(std::string("cannot start ") + SHMCOORD_TOOL_PATH);
  }
  posix_spawn_file_actions_destroy(&quiet);
  ::poll(nullptr, 0, 300);
  compare("with a reaper", {}, 101, 0);
  if (::waitpid(reaper, nullptr, WNOHANG) != 0) fail("the reaper has ended");
  end_child(reaper);
}
const Register reaper_is_a_case{"reaper", "the same beside a reaper", reaper_case};

void estate_case() {
  const std::uint32_t many = size(10'000);
  Comparison c("SIGKILL to next holder, who held " + std::to_string(many) + " other names", "us", 61);
  c.rounds_are_samples();
  c.ours(measure(our_lock("estate"), {.other_names = many}));
  c.peer("who held one other name", 2, measure(our_lock("estate"), {.other_names = 1}), 2);
  c.peer("flock", 0, measure(flock_lock(), {}));
  c.run();
}
const Register estate_is_a_case{"estate", "the same when the dead held 10,000 other names", estate_case};

void resident_case() {
  const std::size_t bytes = std::size_t{size(1024)} << 20U;
  compare("who had " + std::to_string(bytes >> 20U) + " MiB in memory", {.resident_bytes = bytes}, 21, 0);
}
const Register resident_is_a_case{"resident", "the same when the dead had 1 GiB in memory", resident_case};

}  // namespace
}  // namespace shmcoord::bench
