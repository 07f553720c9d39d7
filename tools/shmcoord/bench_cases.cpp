#include "shmcoord/bench_cases.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "bench/support/kill.hpp"
#include "bench/support/process_mutex.hpp"
#include "bench/support/sides.hpp"
#include "core/control_word.hpp"
#include "process/face.hpp"
#include "process/surroundings.hpp"
#include "shmcoord/shmcoord.hpp"

extern char** environ;

namespace shmcoord::tool {
namespace {

using bench::Histogram;
using engine::RealPolicy;
using engine::Word32;
using engine::Word64;

constexpr int least_rounds = 3;
constexpr int warm_rounds = 3;

[[noreturn]] void system_error(const std::string& what) {
  throw Error(Errc::system, what + ": " + std::strerror(errno));
}

template <class Body>
double each_ns(int n, Body&& body) {
  const std::int64_t start = RealPolicy::now_ns();
  for (int i = 0; i < n; ++i) body();
  return static_cast<double>(RealPolicy::now_ns() - start) / n;
}

int open_file(const BenchPlace& place) {
  const int fd = ::open(place.file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) system_error("cannot open " + place.file);
  return fd;
}

void lock_file(int fd, int how) {
  while (::flock(fd, how) != 0) {
    if (errno != EINTR) system_error("flock");
  }
}

// --- an uncontended pair ---------------------------------------------------------------------------------------------

BenchMeasure our_pair(const BenchPlace& place, BenchBoard&) {
  const auto session = std::make_shared<Session>(Segment::open(place.segment));
  const auto lock = std::make_shared<Lock>(*session, "pair");
  return [session, lock](int n, Histogram&) {
    return each_ns(n, [&] {
      lock->lock();
      lock->unlock();
    });
  };
}

BenchMeasure mutex_pair(bool robust) {
  const auto mutex = std::make_shared<ForChildren<pthread_mutex_t>>();
  bench::make_process_mutex(**mutex, robust);
  return [mutex](int n, Histogram&) {
    pthread_mutex_t& m = **mutex;
    return each_ns(n, [&] {
      ::pthread_mutex_lock(&m);
      ::pthread_mutex_unlock(&m);
    });
  };
}

BenchMeasure flock_pair(const BenchPlace& place, BenchBoard&) {
  const int fd = open_file(place);
  return [fd](int n, Histogram&) {
    return each_ns(n, [&] {
      lock_file(fd, LOCK_EX);
      lock_file(fd, LOCK_UN);
    });
  };
}

/// The least that a lock and an unlock can cost.
BenchMeasure swap_pair(const BenchPlace&, BenchBoard&) {
  const auto word = std::make_shared<ForChildren<Word64>>();
  return [word](int n, Histogram&) {
    Word64& w = **word;
    return each_ns(n, [&] {
      (void)RealPolicy::cas(w, 0, 1);
      (void)RealPolicy::cas(w, 1, 0);
    });
  };
}

/// The least that a lock and an unlock of ours can cost, which change a word of 128 bits.
BenchMeasure wide_swap_pair(const BenchPlace&, BenchBoard&) {
  const auto word = std::make_shared<ForChildren<engine::Word128>>();
  return [word](int n, Histogram&) {
    engine::Word128& w = **word;
    const core::Packed free{};
    const core::Packed taken{1, 1};
    return each_ns(n, [&] {
      (void)RealPolicy::cas(w, free, taken);
      (void)RealPolicy::cas(w, taken, free);
    });
  };
}

// --- hand-off between two processes ----------------------------------------------------------------------------------

/// What both ends write down. Only one of them has it at a time, which is what is measured.
struct Turns {
  Word32 ready;
  alignas(64) Word32 waits;
  alignas(64) std::int64_t given_ns;
  alignas(64) Histogram took;
};

class Ends {
 public:
  Ends(Turns& turns, std::uint32_t side) : turns_(turns), side_(side) {}

  [[nodiscard]] std::uint32_t side() const { return side_; }
  void received() {
    if (turns_.given_ns != 0) turns_.took.add(RealPolicy::now_ns() - turns_.given_ns);
    turns_.given_ns = 0;
  }
  void about_to_give(bool parked) {
    bench::let_it_wait(parked);
    turns_.given_ns = RealPolicy::now_ns();
  }
  void about_to_wait() { RealPolicy::store(turns_.waits, 1); }
  void await_waiter() {
    while (RealPolicy::load(turns_.waits) == 0) ::sched_yield();
    RealPolicy::store(turns_.waits, 0);
  }

 private:
  Turns& turns_;
  std::uint32_t side_;
};

/// Both sides in processes of their own; the median.
double hand_off(BenchBoard& board, Histogram& samples, const std::function<void(Ends&)>& run) {
  const ForChildren<Turns> turns;
  std::array<pid_t, 2> pids{};
  for (std::uint32_t side = 0; side < 2; ++side) {
    pids[side] = start_child(board, [&, side] {
      RealPolicy::add(turns->ready, 1);
      while (RealPolicy::load(turns->ready) < 2) ::sched_yield();
      Ends ends(*turns, side);
      run(ends);
    });
  }
  for (std::size_t left = pids.size(); left > 0; --left) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0) system_error("waitpid");
    if (status == 0) continue;
    if (left > 1) ::kill(pids[0] == ended ? pids[1] : pids[0], SIGKILL);  // it may wait for this one for ever
    board.rethrow({});
    throw std::runtime_error("a process that hands off ended with status " + std::to_string(status));
  }
  samples.merge(turns->took);
  return static_cast<double>(turns->took.quantile(0.5));
}

auto lock_hand_off(bool parked) {
  return [parked](const BenchPlace& place, BenchBoard& board) -> BenchMeasure {
    const Segment segment = Segment::open(place.segment);
    return [=, &board](int n, Histogram& samples) {
      return hand_off(board, samples, [&](Ends& ends) {
        if (!bench::lock_side(ends, detail::Access::mapping(segment), n, parked)) {
          throw std::runtime_error("the lock was not got");
        }
      });
    };
  };
}

auto bare_hand_off(std::size_t words) {
  return [words](const BenchPlace&, BenchBoard& board) -> BenchMeasure {
    return [words, &board](int n, Histogram& samples) {
      const ForChildren<bench::BareWords> memory;
      const bench::BareBell bell(*memory, words);
      return hand_off(board, samples, [&](Ends& ends) { bench::bell_side(ends, n, words != 0, bell); });
    };
  };
}

// --- from a kill to the next holder ----------------------------------------------------------------------------------

/// `hold` in a child, `wait` here.
double kill_to_next(BenchBoard& board, const std::function<void()>& hold, const std::function<void()>& wait) {
  const ForChildren<Word32> held;
  const pid_t holder = start_child(board, [&] {
    hold();
    RealPolicy::store(*held, 1);
    for (;;) ::pause();
  });
  while (RealPolicy::load(*held) == 0) {
    if (::waitpid(holder, nullptr, WNOHANG) != 0) {
      board.rethrow({});
      throw std::runtime_error("the process to be killed ended by itself");
    }
    ::poll(nullptr, 0, 1);
  }
  const std::int64_t took_ns = bench::kill_to_next_ns(holder, wait);
  ::waitpid(holder, nullptr, 0);
  return static_cast<double>(took_ns);
}

double sample(double ns, Histogram& samples) {
  samples.add(std::llround(ns));
  return ns;
}

BenchMeasure our_kill(const BenchPlace& place, BenchBoard& board) {
  const auto session = std::make_shared<Session>(Segment::open(place.segment));
  const auto lock = std::make_shared<Lock>(*session, "kill");
  return [session, lock, path = place.segment, &board](int, Histogram& samples) {
    const HolderId me{"bench"};
    const double ns = kill_to_next(
        board,
        [&] {
          // They live until this process is killed.
          auto* const own = new Session{Segment::open(path)};
          auto* const held = new Lock{*own, "kill"};
          if (!held->try_acquire(me)) throw std::runtime_error("the lock is not free");
        },
        [&] {
          if (!lock->acquire(me)) throw std::runtime_error("the lock was not got");
        });
    (void)lock->release(me);
    return sample(ns, samples);
  };
}

BenchMeasure flock_kill(const BenchPlace& place, BenchBoard& board) {
  return [=, &board](int, Histogram& samples) {
    int fd = -1;
    const double ns = kill_to_next(
        board, [&] { lock_file(open_file(place), LOCK_EX); },
        [&] {
          fd = open_file(place);
          lock_file(fd, LOCK_EX);
        });
    ::close(fd);
    return sample(ns, samples);
  };
}

// --- as a whole process ----------------------------------------------------------------------------------------------

/// Of this program, whatever became of its file meanwhile.
constexpr const char* own_program = "/proc/self/exe";

std::string in_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  std::string_view left = path == nullptr ? "/usr/bin:/bin" : path;
  for (;;) {
    const std::string_view folder = left.substr(0, left.find(':'));
    std::string found = std::string(folder.empty() ? "." : folder) + '/' + program;
    if (::access(found.c_str(), X_OK) == 0) return found;
    if (folder.size() == left.size()) return {};
    left.remove_prefix(folder.size() + 1);
  }
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  all.reserve(words.size() + 1);
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

BenchMeasure whole_process(std::vector<std::string> words, const BenchPlace& place) {
  return [words = std::move(words), mask = place.signals](int, Histogram& samples) mutable {
    const std::vector<char*> argv = pointers(words);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    ::posix_spawnattr_setsigmask(&attributes, &mask);
    pid_t pid = 0;
    int status = 0;
    const std::int64_t start = RealPolicy::now_ns();
    const int error = ::posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environ);
    if (error == 0) ::waitpid(pid, &status, 0);
    const auto ns = static_cast<double>(RealPolicy::now_ns() - start);
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) throw Error(Errc::system, "cannot start " + words[0] + ": " + std::strerror(error));
    if (status != 0) throw std::runtime_error("'" + words[0] + "' ended with status " + std::to_string(status));
    return sample(ns, samples);
  };
}

BenchMeasure our_process(const BenchPlace& place, BenchBoard&) {
  return whole_process({own_program, "-s", place.segment, "run", "-l", "x", "--", place.nothing}, place);
}

BenchMeasure flock_process(const BenchPlace& place, BenchBoard&) {
  return whole_process({place.flock, place.file, place.nothing}, place);
}

}  // namespace

BenchPlan bench_plan(const BenchPlace& given) {
  BenchPlan plan;
  plan.cases.push_back({"pair",
                        "acquire + release, uncontended",
                        0.2,
                        1'000,
                        2'000'000,
                        false,
                        {{"shmcoord", our_pair},
                         {"robust process-shared mutex", [](const auto&, auto&) { return mutex_pair(true); }},
                         {"plain process-shared mutex", [](const auto&, auto&) { return mutex_pair(false); }},
                         {"flock", flock_pair},
                         {"limit: 64-bit CAS pair", swap_pair},
                         {"limit: 128-bit CAS pair", wide_swap_pair}}});
  if (given.cpus > 1) {
    plan.cases.push_back({"spinning",
                          "hand-off to a spinning waiter",
                          0.15,
                          20,
                          30'000'000,
                          true,
                          {{"shmcoord", lock_hand_off(false)}, {"limit: bare atomic", bare_hand_off(0)}}});
  } else {
    plan.left_out.emplace_back("hand-off to a spinning waiter: with one CPU nobody spins");
  }
  BenchCase sleeping{"sleeping",
                     "hand-off to a sleeping waiter",
                     0.2,
                     20,
                     30'000'000,
                     true,
                     {{"shmcoord", lock_hand_off(true)}, {"limit: bare futex", bare_hand_off(1)}}};
  if (process::has_futex_waitv()) {
    sleeping.subjects.push_back({"limit: bare futex_waitv of two", bare_hand_off(2)});
  } else {
    plan.left_out.emplace_back("bare futex_waitv of two: it is not available here");
  }
  plan.cases.push_back(std::move(sleeping));
  plan.cases.push_back(
      {"kill", "SIGKILL to next holder", 0.25, 1, 0, true, {{"shmcoord", our_kill}, {"flock", flock_kill}}});
  if (given.nothing.empty() || ::access(own_program, X_OK) != 0) {
    plan.left_out.emplace_back(given.nothing.empty() ? "run -l x -- true: there is no `true` in PATH"
                                                     : "run -l x -- true: /proc is not available here");
    return plan;
  }
  BenchCase whole{"run", "as a whole process", 0.2, 1, 0, true, {{"shmcoord run -l x -- true", our_process}}};
  if (given.flock.empty()) {
    plan.left_out.emplace_back("flock x true: there is no `flock` in PATH");
  } else {
    whole.subjects.push_back({"flock x true", flock_process});
  }
  plan.cases.push_back(std::move(whole));
  return plan;
}

void find_programs(BenchPlace& place) {
  place.flock = in_path("flock");
  place.nothing = in_path("true");
}

void measure(const BenchCase& what, const BenchPlace& place, BenchBoard& board, std::int64_t until_ns) {
  struct Turn {
    BenchMeasure measure;
    double repetitions;
  };
  std::vector<Turn> turns;
  turns.reserve(what.subjects.size());
  for (const BenchSubject& s : what.subjects) turns.push_back({s.make(place, board), double(what.repetitions)});
  const auto take = [&](std::size_t i, Histogram& samples) {
    Turn& t = turns[i];
    const std::int64_t start = RealPolicy::now_ns();
    const double ns = t.measure(static_cast<int>(t.repetitions), samples);
    // What a turn takes besides, such as starting two processes, does not shrink with the repetitions.
    const auto took = static_cast<double>(std::max<std::int64_t>(RealPolicy::now_ns() - start, 1));
    if (what.turn_ns > 0) {
      const double factor = std::clamp(static_cast<double>(what.turn_ns) / took, 0.25, 4.0);
      t.repetitions = std::clamp(t.repetitions * factor, 10.0, 1e7);
    }
    return ns;
  };
  const auto none = std::make_unique<Histogram>();  // too large for a stack that is ours to be careful with
  const std::int64_t warm_until_ns = RealPolicy::now_ns() + (until_ns - RealPolicy::now_ns()) / 3;
  for (int r = 0; r < warm_rounds && RealPolicy::now_ns() < warm_until_ns; ++r) {
    for (std::size_t i = 0; i < turns.size(); ++i) (void)take(i, *none);
  }
  for (std::size_t r = 0; r < BenchBoard::most_rounds; ++r) {
    if (r >= least_rounds && RealPolicy::now_ns() >= until_ns) break;
    for (std::size_t k = 0; k < turns.size(); ++k) {
      const std::size_t i = (r + k) % turns.size();  // each is the first one as often as any other
      BenchBoard::Subject& figures = board.subjects[i];
      figures.ns[r] = take(i, figures.samples);
    }
    board.rounds = r + 1;
  }
}

}  // namespace shmcoord::tool
