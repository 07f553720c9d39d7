#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>

#include <memory>
#include <optional>
#include <thread>

#include "bench/support/cases.hpp"
#include "bench/support/peers.hpp"
#include "process/clock.hpp"
#include "process/face.hpp"

// How the lock compares, as ratios to peers of the same run: `ratios_bench [CASE]…`, cases as in main().

extern char** environ;

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::WaitOn;
using engine::Word32;

std::string segment_name() { return "bench-" + std::to_string(::getpid()); }

Segment& segment() {
  static Segment s = Segment::open_or_create(segment_name());
  return s;
}

// --- an uncontended pair ---------------------------------------------------------------------------------------------

void pair_case() {
  constexpr int n = 200'000;
  Session session{segment()};
  Lock lock{session, "pair"};
  pthread_mutex_t& robust = robust_mutex();
  const auto timed = [](auto&& body) {
    const std::int64_t start = now_ns();
    for (int i = 0; i < n; ++i) body();
    return static_cast<double>(now_ns() - start) / n;
  };
  Comparison c("acquire + release, uncontended", "ns", 41);
  c.ours([&] {
    return timed([&] {
      lock.lock();
      lock.unlock();
    });
  });
  c.peer("robust process-shared mutex", 1.0, [&] {
    return timed([&] {
      pthread_mutex_lock(&robust);
      pthread_mutex_unlock(&robust);
    });
  });
  const int fd = ::open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
  c.peer("flock", 0, [&] {
    const std::int64_t start = now_ns();
    for (int i = 0; i < n / 50; ++i) {
      ::flock(fd, LOCK_EX);
      ::flock(fd, LOCK_UN);
    }
    return static_cast<double>(now_ns() - start) / (n / 50);
  });
  c.run();
}

// --- hand-off between two processes ----------------------------------------------------------------------------------

/// What both ends of a hand-off write down. CLOCK_MONOTONIC is one clock for all CPUs.
struct HandOffs {
  static constexpr int most = 20'000;
  Word32 ready;
  Word32 asleep;
  std::int64_t given_ns;
  int count;
  double took_ns[most];

  void received() {
    if (given_ns != 0 && count < most) took_ns[count++] = static_cast<double>(now_ns() - given_ns);
  }
};

/// Runs both sides in processes of their own; the median of the times from giving to having.
double median_hand_off(const std::function<void(HandOffs&, std::uint32_t side)>& run) {
  HandOffs& h = shared<HandOffs>();
  pid_t pids[2];
  for (std::uint32_t side = 0; side < 2; ++side) {
    pids[side] = child([&, side] {
      RealPolicy::add(h.ready, 1);
      while (RealPolicy::load(h.ready) < 2) ::sched_yield();
      run(h, side);
    });
  }
  for (const pid_t pid : pids) join(pid);
  const double median = at(std::vector<double>(h.took_ns, h.took_ns + h.count), 0.5);
  ::munmap(&h, sizeof h);
  return median;
}

/// Long enough for the other side to get from its decision to sleep into the kernel.
void let_it_fall_asleep() {
  for (const std::int64_t until = now_ns() + 20'000; now_ns() < until;) RealPolicy::pause();
}

double lock_hand_off(int n, bool parked) {
  return median_hand_off([&](HandOffs& h, std::uint32_t) {
    const auto participant = std::shared_ptr<process::Participant>(
        process::Participant::join(detail::Access::mapping(segment()), process::JoinOptions{}));
    process::PrimitiveClient client(participant, "handoff", {});
    process::Hold& hold = client.new_implicit();
    const auto other_waits = [&] {
      const engine::EntryIndex tail = client.ops().load().tail;
      if (tail == engine::nil_entry) return false;
      return !parked || RealPolicy::load(client.ops().view().entry(tail).wake) == engine::wake_parked;
    };
    for (int i = 0; i < n; ++i) {
      hold.spin.pauses = parked ? 0 : 1'000'000;
      if (!client.acquire_implicit(hold, process::whole_lock, process::no_deadline)) std::abort();
      h.received();
      if (i + 1 < n) {
        while (!other_waits()) ::sched_yield();
        if (parked) let_it_fall_asleep();
      }
      h.given_ns = i + 1 < n ? now_ns() : 0;
      client.unlock_implicit(hold);
    }
  });
}

/// The same with a word that two processes pass to and fro. words = 1: futex; 2: futex_waitv; 0: spinning.
double bare_hand_off(int n, std::size_t words) {
  struct Words {
    Word32 turn;
    alignas(64) Word32 other;
  };
  Words& w = shared<Words>();
  const double median = median_hand_off([&](HandOffs& h, std::uint32_t side) {
    for (int i = 0; i < n; ++i) {
      for (;;) {
        const std::uint32_t turn = RealPolicy::load(w.turn);
        if (turn == side) break;
        RealPolicy::store(h.asleep, 1);
        if (words == 0) {
          RealPolicy::pause();
          continue;
        }
        const WaitOn on[] = {{&w.turn, turn}, {&w.other, 0}};
        RealPolicy::wait({on, words}, now_ns() + 1'000'000'000);
      }
      h.received();
      if (i + 1 < n) {
        while (RealPolicy::load(h.asleep) == 0) ::sched_yield();
        if (words != 0) let_it_fall_asleep();
      }
      RealPolicy::store(h.asleep, 0);
      h.given_ns = now_ns();
      RealPolicy::store(w.turn, 1 - side);
      if (words != 0) RealPolicy::wake(w.turn, 1);
    }
  });
  ::munmap(&w, 4096);
  return median;
}

void parked_case() {
  constexpr int n = 2'000;
  Comparison c("hand-off to a sleeping waiter", "ns", 21);
  c.ours([&] { return lock_hand_off(n, true); });
  c.peer("bare futex", 1.4, [&] { return bare_hand_off(n, 1); });
  c.peer("bare futex_waitv of two", 1.15, [&] { return bare_hand_off(n, 2); });
  c.run();
}

void spinning_case() {
  constexpr int n = 10'000;
  Comparison c("hand-off to a spinning waiter", "ns", 21);
  c.ours([&] { return lock_hand_off(n, false); });
  c.peer("bare atomic, half a round trip", 3.0, [&] { return bare_hand_off(n, 0); });
  c.run();
}

// --- from a kill to the next holder ----------------------------------------------------------------------------------

/// `hold` runs in the child and says so; `wait` in the parent, returning when it has the lock.
double kill_to_next(const std::function<void()>& hold, const std::function<void()>& wait) {
  Word32& held = shared<Word32>();
  const pid_t holder = child([&] {
    hold();
    RealPolicy::store(held, 1);
    ::pause();
  });
  while (RealPolicy::load(held) == 0) ::poll(nullptr, 0, 1);
  std::int64_t killed_ns = 0;
  std::thread killer([&] {
    ::poll(nullptr, 0, 5);  // the waiter sleeps by then
    killed_ns = now_ns();
    ::kill(holder, SIGKILL);
  });
  wait();
  const std::int64_t got_ns = now_ns();
  killer.join();
  ::waitpid(holder, nullptr, 0);
  ::munmap(&held, 4096);
  return static_cast<double>(got_ns - killed_ns) / 1e3;
}

void kill_case(bool with_reaper) {
  const std::string path = "/dev/shm/" + segment_name() + ".flock";
  std::optional<Session> session{std::in_place, segment()};
  Lock lock{*session, "kill"};
  const HolderId me{"bench"};
  pid_t reaper = 0;
  if (with_reaper) {
    const std::string name = segment_name();
    const char* const argv[] = {SHMCOORD_TOOL_PATH, "-s", name.c_str(), "reap", nullptr};
    ::posix_spawn(&reaper, SHMCOORD_TOOL_PATH, nullptr, nullptr, const_cast<char**>(argv), environ);
    ::poll(nullptr, 0, 300);
  }
  Comparison c(with_reaper ? "SIGKILL to next holder, with a reaper" : "SIGKILL to next holder, no reaper", "us", 61);
  c.ours([&] {
    return kill_to_next(
        [&] {
          auto* const s = new Session{segment()};
          auto* const l = new Lock{*s, "kill"};
          if (!l->try_acquire(me)) std::abort();
        },
        [&] {
          if (!lock.acquire(me)) std::abort();
          (void)lock.release(me);
        });
  });
  c.peer("flock", 1.15, [&] {
    int fd = -1;
    const double took = kill_to_next(
        [&] {
          const int held = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
          if (::flock(held, LOCK_EX) != 0) std::abort();
        },
        [&] {
          fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
          if (::flock(fd, LOCK_EX) != 0) std::abort();
        });
    ::close(fd);
    return took;
  });
  c.peer("robust process-shared mutex", 1.6, [&] {
    pthread_mutex_t& m = robust_mutex();
    const double took = kill_to_next([&] { pthread_mutex_lock(&m); },
                                     [&] {
                                       if (pthread_mutex_lock(&m) == EOWNERDEAD) pthread_mutex_consistent(&m);
                                       pthread_mutex_unlock(&m);
                                     });
    ::munmap(&m, 4096);
    return took;
  });
  c.run();
  if (reaper > 0) {
    ::kill(reaper, SIGTERM);
    ::waitpid(reaper, nullptr, 0);
  }
  ::unlink(path.c_str());
}

// --- the tool as a whole process -------------------------------------------------------------------------------------

double spawn_us(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::int64_t start = now_ns();
  pid_t pid = 0;
  if (::posix_spawnp(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0) std::abort();
  join(pid);
  return static_cast<double>(now_ns() - start) / 1e3;
}

void run_case() {
  const std::string path = "/dev/shm/" + segment_name() + ".flock";
  (void)segment();
  Comparison c("the tool as a whole process: run -l x -- true", "us", 101);
  c.ours([&] { return spawn_us({SHMCOORD_TOOL_PATH, "-s", segment_name(), "run", "-l", "x", "--", "true"}); });
  c.peer("flock x true", 1.5, [&] { return spawn_us({"flock", path, "true"}); });
  c.run();
  ::unlink(path.c_str());
}

// --- idle waiters ----------------------------------------------------------------------------------------------------

void idle_case() {
  constexpr int waiters = 100;
  constexpr int seconds = 10;
  Session session{segment()};
  Lock lock{session, "idle"};
  const HolderId me{"bench"};
  if (!lock.try_acquire(me)) std::abort();
  struct Usage {
    Word32 waiting;
    std::int64_t cpu_us[waiters];
  };
  Usage& usage = shared<Usage>();
  std::vector<pid_t> pids;
  for (int i = 0; i < waiters; ++i) {
    pids.push_back(child([&, i] {
      Session mine{segment()};
      Lock wanted{mine, "idle"};
      const auto cpu_us = [] {
        rusage u{};
        ::getrusage(RUSAGE_SELF, &u);
        return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1'000'000 + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
      };
      RealPolicy::add(usage.waiting, 1);
      const std::int64_t before = cpu_us();
      (void)wanted.acquire(HolderId("w" + std::to_string(i)), {}, std::chrono::seconds(seconds));
      usage.cpu_us[i] = cpu_us() - before;
    }));
  }
  for (const pid_t pid : pids) join(pid);
  std::int64_t total_us = 0;
  for (const std::int64_t us : usage.cpu_us) total_us += us;
  const double percent = static_cast<double>(total_us) / (seconds * 1e4);
  std::printf("%d idle waiters for %d s\n  %-34s %10.2f %% of one CPU together  target 1.00: %s\n", waiters, seconds,
              "shmcoord", percent, percent < 1.0 ? "met" : "MISSED");
  (void)lock.release(me);
}

}  // namespace
}  // namespace shmcoord::bench

int main(int argc, char** argv) {
  using namespace shmcoord::bench;
  const int code = run_cases({argv + 1, argv + argc}, {{"pair", pair_case},
                                                       {"parked", parked_case},
                                                       {"spinning", spinning_case},
                                                       {"kill", [] { kill_case(false); }},
                                                       {"reaper", [] { kill_case(true); }},
                                                       {"run", run_case},
                                                       {"idle", idle_case}});
  (void)segment();
  shmcoord::Segment::remove(segment_name(), true);
  return code;
}
