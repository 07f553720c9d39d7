#include <spawn.h>
#include <sys/ipc.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/locks.hpp"
#include "bench/support/peers.hpp"

// The lock where nobody is in the way, or where one is who does not move; and what waiting costs those who wait.

extern char** environ;

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::Word32;

// --- an uncontended pair ---------------------------------------------------------------------------------------------

void pair_case() {
  Comparison c("acquire + release, uncontended", "ns", 41);
  const auto measure = [](std::shared_ptr<LockPeer> peer) {
    peer->enter();
    const int n = repeats(pairs_in(*peer, 0.004));
    return [peer = std::move(peer), n] { return peer->pairs(n); };
  };
  c.ours(measure(our_lock("pair")));
  for (auto& peer : lock_peers()) {
    const std::string name = peer->name();
    c.peer(name, name.starts_with("robust") ? 0.85 : 0, measure(std::move(peer)));
  }
  auto floor = bare_wide_word();
  const std::string floor_name = floor->name();
  c.peer(floor_name, 0, measure(std::move(floor)));
  c.run();
}
const Register pair_is_a_case{"pair", "an uncontended pair beside every other lock", pair_case};

// --- a pair that somebody hears of ----------------------------------------------------------------------------------

/// A process that subscribes while it is wanted.
class Listener {
 public:
  Listener() : wanted_(shared<Word32>()), listens_(shared<Word32>()) {
    pid_ = child([this] {
      Session session{segment()};
      for (;;) {
        await_parent([this] { return RealPolicy::load(wanted_) != 0; });
        const Subscription all(session, {"*"}, [](const Event&) {});
        RealPolicy::store(listens_, 1);
        await_parent([this] { return RealPolicy::load(wanted_) == 0; });
        RealPolicy::store(listens_, 0);
      }
    });
  }
  void listen(bool yes) {
    RealPolicy::store(wanted_, yes ? 1 : 0);
    await({&pid_, 1}, [&] { return (RealPolicy::load(listens_) != 0) == yes; });
  }
  ~Listener() { end_child(pid_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  template <class Condition>
  static void await_parent(Condition&& condition) {
    while (!condition()) ::usleep(500);
  }
  Word32& wanted_;
  Word32& listens_;
  pid_t pid_ = -1;
};

void heard_case() {
  Comparison c("acquire + release, uncontended, while another process hears of it", "ns", 41);
  Listener listener;
  const std::shared_ptr<LockPeer> lock = our_lock("heard");
  lock->enter();
  const int n = repeats(pairs_in(*lock, 0.004));
  c.ours([&] {
    listener.listen(true);
    const double ns = lock->pairs(n);
    listener.listen(false);
    return ns;
  });
  c.peer("the same while nobody listens", 12, [&] { return lock->pairs(n); });
  c.run();
}
const Register heard_is_a_case{
    "heard", "an uncontended pair while somebody subscribes, beside one that nobody hears of", heard_case};

// --- a try that is refused -------------------------------------------------------------------------------------------

void try_case() {
  std::vector<pid_t> holders;
  const auto measure = [&](std::shared_ptr<LockPeer> peer) {
    Word32& held = shared<Word32>();
    holders.push_back(child([&] {
      peer->enter();
      peer->lock();
      RealPolicy::store(held, 1);
      for (;;) ::pause();
    }));
    await({&holders.back(), 1}, [&] { return RealPolicy::load(held) != 0; });
    ::munmap(&held, 4096);
    peer->enter();
    const int n = repeats(5'000);
    return [peer = std::move(peer), n] { return peer->refused_tries(n); };
  };
  Comparison c("try_lock of what another process holds", "ns", 41);
  c.ours(measure(our_lock("try")));
  for (auto& peer : lock_peers()) {
    const std::string name = peer->name();
    c.peer(name, 0, measure(std::move(peer)));
  }
  // By name, and told who has it.
  Session session{segment()};
  Lock lock{session, "try"};
  const HolderId me{"bench"};
  c.peer("shmcoord, try_acquire by holder id", 0, [&, n = repeats(5'000)] {
    return each_ns(n, [&] {
      if (lock.try_acquire(me)) fail("a lock that is held was got again");
    });
  });
  c.run();
  for (const pid_t pid : holders) end_child(pid);
}
const Register try_is_a_case{"try", "a try_lock of what another process holds", try_case};

// --- several at once -------------------------------------------------------------------------------------------------

void all_of(int many) {
  const int n = repeats(5'000);
  const auto times = static_cast<std::size_t>(many);
  Session session{segment()};
  std::vector<Lock> locks;
  for (int i = 0; i < many; ++i) locks.emplace_back(session, "all-" + std::to_string(i));
  const std::vector<Wanted> wanted(locks.begin(), locks.end());
  Comparison c("acquire_all of " + std::to_string(many) + " and back, uncontended", "ns", 41);
  c.ours([&] {
    return each_ns(n, [&] {
      const MultiHold hold = acquire_all(session, wanted);
      if (!hold) fail("acquire_all got nothing");
    });
  });
  c.peer("the same locks one by one, in order", 0, [&] {
    return each_ns(n, [&] {
      for (Lock& l : locks) l.lock();
      for (Lock& l : locks) l.unlock();
    });
  });
  const int set = ::semget(IPC_PRIVATE, many, 0600);
  remove_at_end(set);
  for (int i = 0; i < many; ++i) ::semctl(set, i, SETVAL, 1);
  c.peer("one SysV semop of all, SEM_UNDO", 0, [&] {
    std::vector<sembuf> take;
    for (int i = 0; i < many; ++i) take.push_back({static_cast<unsigned short>(i), -1, SEM_UNDO});
    std::vector<sembuf> give = take;
    for (sembuf& one : give) one.sem_op = 1;
    return each_ns(n, [&] {
      if (::semop(set, take.data(), times) != 0 || ::semop(set, give.data(), times) != 0) fail("semop failed");
    });
  });
  std::vector<pthread_mutex_t*> mutexes;
  for (int i = 0; i < many; ++i) mutexes.push_back(&robust_mutex());
  c.peer("robust mutexes one by one, in order", 0, [&] {
    return each_ns(n, [&] {
      for (pthread_mutex_t* m : mutexes) pthread_mutex_lock(m);
      for (pthread_mutex_t* m : mutexes) pthread_mutex_unlock(m);
    });
  });
  c.place({"Several names at once", "names", static_cast<double>(many)});
  c.run();
}

void all_case() {
  for (const int many : {2, 8}) all_of(many);
}
const Register all_is_a_case{"all", "acquire_all of 2 and of 8 names", all_case};

// --- the tool as a whole process -------------------------------------------------------------------------------------

double spawn_us(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::int64_t start = now_ns();
  pid_t pid = 0;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) fail("cannot start " + command[0]);
  join(pid);
  return static_cast<double>(now_ns() - start) / 1e3;
}

void run_case() {
  const std::string path = scratch_path("flock");
  (void)segment();
  Comparison c("the tool as a whole process: run -l x -- true", "us", 101);
  c.ours([&] { return spawn_us({SHMCOORD_TOOL_PATH, "-s", segment_name(), "run", "-l", "x", "--", "true"}); });
  c.peer("flock x true", 1.3, [&] { return spawn_us({"flock", path, "true"}); });
  c.rounds_are_samples();
  c.run();
}
const Register run_is_a_case{"run", "shmcoord run -l x -- true as a whole process, beside flock x true", run_case};

// --- idle waiters ----------------------------------------------------------------------------------------------------

void idle_case() {
  constexpr std::size_t waiters = 100;
  const double lasts_s = options().short_form ? 1 : 10;
  Session session{segment()};
  Lock lock{session, "idle"};
  const HolderId me{"bench"};
  if (!lock.try_acquire(me)) fail("a new lock is not free");
  SharedArray<std::int64_t> cpu_us(waiters);
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < waiters; ++i) {
    pids.push_back(child([&, i] {
      Session mine{segment()};
      Lock wanted{mine, "idle"};
      const auto used_us = [] {
        rusage u{};
        ::getrusage(RUSAGE_SELF, &u);
        return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1'000'000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
      };
      const std::int64_t before = used_us();
      const auto got = wanted.acquire(HolderId("w" + std::to_string(i)), {},
                                      std::chrono::milliseconds(static_cast<int>(lasts_s * 1e3)));
      if (got) fail("a held lock was got");
      cpu_us[i] = used_us() - before;
    }));
  }
  join_all(pids);
  std::int64_t total_us = 0;
  for (const std::int64_t us : cpu_us) total_us += us;
  report(std::to_string(waiters) + " idle waiters for " + std::to_string(static_cast<int>(lasts_s)) + " s, together",
         "% of one CPU", {static_cast<double>(total_us) / (lasts_s * 1e4)}, options().short_form ? 0 : 1);
  (void)lock.release(me);
}
const Register idle_is_a_case{"idle", "what 100 waiters cost that nobody wakes", idle_case};

}  // namespace
}  // namespace shmcoord::bench
