#include <sched.h>
#include <semaphore.h>
#include <sys/ipc.h>
#include <sys/sem.h>

#include <array>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "bench/support/cases.hpp"
#include "bench/support/peers.hpp"
#include "process/face.hpp"

// How semaphores and shared locks compare, as ratios to peers of the same run: `semaphore_bench [CASE]…`, cases as in
// main().

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::WaitOn;
using engine::Word32;
using engine::Word64;

std::string segment_name() { return "bench-" + std::to_string(::getpid()); }

Segment& segment() {
  static Segment s = Segment::open_or_create(segment_name(), {.names = 1024, .entries = 40'000, .sessions = 128});
  return s;
}

template <class Body>
double each_ns(int n, Body&& body) {
  const std::int64_t start = now_ns();
  for (int i = 0; i < n; ++i) body();
  return static_cast<double>(now_ns() - start) / n;
}

// --- uncontended pairs -----------------------------------------------------------------------------------------------

void permit_case() {
  constexpr int n = 200'000;
  Session session{segment()};
  Semaphore pool{session, "permit", {.capacity = 8}};
  sem_t& posix = shared<sem_t>();
  ::sem_init(&posix, 1, 8);
  const int sysv = ::semget(IPC_PRIVATE, 1, 0600);
  ::semctl(sysv, 0, SETVAL, 8);
  Comparison c("a permit of weight 1 taken and given back, uncontended", "ns", 41);
  c.ours([&] { return each_ns(n, [&] { const Permit permit(pool); }); });
  c.peer("sem_t, process-shared", 1.5, [&] {
    return each_ns(n, [&] {
      ::sem_wait(&posix);
      ::sem_post(&posix);
    });
  });
  c.peer("SysV semop with SEM_UNDO", 1.0 / 30, [&] {
    return each_ns(n / 20, [&] {
      sembuf take{0, -1, SEM_UNDO};
      sembuf give{0, 1, SEM_UNDO};
      ::semop(sysv, &take, 1);
      ::semop(sysv, &give, 1);
    });
  });
  c.run();
  ::semctl(sysv, 0, IPC_RMID);
}

void shared_case() {
  constexpr int n = 200'000;
  Session session{segment()};
  SharedLock ours{session, "shared"};
  pthread_rwlock_t& rwlock = shared<pthread_rwlock_t>();
  pthread_rwlockattr_t a;
  pthread_rwlockattr_init(&a);
  pthread_rwlockattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_rwlock_init(&rwlock, &a);
  Comparison c("std::shared_lock and back, uncontended", "ns", 41);
  c.ours([&] { return each_ns(n, [&] { const std::shared_lock reads(ours); }); });
  c.peer("process-shared pthread_rwlock", 2.0, [&] {
    return each_ns(n, [&] {
      pthread_rwlock_rdlock(&rwlock);
      pthread_rwlock_unlock(&rwlock);
    });
  });
  c.run();
}

// --- 32 processes contend --------------------------------------------------------------------------------------------

/// FIFO, and each waiter sleeps on a word of its own.
struct TicketLock {
  static constexpr std::uint32_t places = 64;
  struct alignas(64) Place {
    Word32 turn;  // the ticket that is served here
  };
  alignas(64) Word32 next;
  std::array<Place, places> place;

  std::uint32_t lock() noexcept {
    const std::uint32_t ticket = RealPolicy::add(next, 1);
    Word32& turn = place[ticket % places].turn;
    for (int spin = 0; spin < 100 && RealPolicy::load(turn) != ticket; ++spin) RealPolicy::pause();
    for (std::uint32_t seen = RealPolicy::load(turn); seen != ticket; seen = RealPolicy::load(turn)) {
      const WaitOn on{&turn, seen};
      RealPolicy::wait({&on, 1}, now_ns() + 1'000'000'000);
    }
    return ticket;
  }
  void unlock(std::uint32_t ticket) noexcept {
    Word32& turn = place[(ticket + 1) % places].turn;
    RealPolicy::store(turn, ticket + 1);
    RealPolicy::fence();
    if (RealPolicy::load(next) != ticket + 1) RealPolicy::wake(turn, 1);
  }
};

struct Contest {
  static constexpr std::size_t processes = 32;
  struct alignas(64) Count {
    Word64 served;
  };
  Word32 ready;
  Word32 stop;
  std::array<Count, processes> count;
};

struct Standing {
  double total_per_s = 0;
  double jain = 0;
};

/// `visit()` of each process, from a start at which all are in the queue.
template <class MakeVisit>
Standing contend(double seconds, MakeVisit&& make_visit, const std::function<void()>& start) {
  Contest& contest = shared<Contest>();
  std::vector<pid_t> pids;
  for (std::size_t p = 0; p < Contest::processes; ++p) {
    pids.push_back(child([&, p] {
      auto visit = make_visit();
      RealPolicy::add(contest.ready, 1);
      while (RealPolicy::load(contest.stop) == 0) {
        visit();
        Word64& served = contest.count[p].served;
        RealPolicy::store(served, RealPolicy::load(served) + 1);
      }
    }));
  }
  while (RealPolicy::load(contest.ready) < Contest::processes) ::sched_yield();
  ::usleep(50'000);
  const std::int64_t began_ns = now_ns();
  start();
  ::usleep(static_cast<useconds_t>(seconds * 1e6));
  RealPolicy::store(contest.stop, 1);
  const double took_s = static_cast<double>(now_ns() - began_ns) / 1e9;
  double sum = 0;
  double squares = 0;
  for (const Contest::Count& c : contest.count) {
    const auto n = static_cast<double>(RealPolicy::load(c.served));
    sum += n;
    squares += n * n;
  }
  for (const pid_t pid : pids) join(pid);
  ::munmap(&contest, sizeof contest);
  return {sum / took_s, squares == 0 ? 0 : sum * sum / (Contest::processes * squares)};
}

void fair_case() {
  constexpr int rounds = 3;
  constexpr double seconds = 10;
  Session session{segment()};
  Semaphore pool{session, "fair", {.capacity = 1}};
  const HolderId me{"bench"};
  TicketLock& ticket = shared<TicketLock>();
  std::vector<double> jain;
  std::vector<double> ratio;
  std::vector<double> ours;
  for (int r = 0; r < rounds; ++r) {
    if (!pool.try_acquire(me)) std::abort();
    const Standing mine = contend(
        seconds,
        [] {
          auto* const s = new Session{segment()};
          auto* const p = new Semaphore{*s, "fair"};
          return [p] { const Permit permit(*p); };
        },
        [&] { (void)pool.release(me); });
    const std::uint32_t held = ticket.lock();
    const Standing theirs = contend(
        seconds, [&] { return [&ticket] { ticket.unlock(ticket.lock()); }; }, [&] { ticket.unlock(held); });
    jain.push_back(mine.jain);
    ours.push_back(mine.total_per_s);
    ratio.push_back(mine.total_per_s / theirs.total_per_s);
  }
  std::printf("32 processes contend for %.0f s, %d times\n", seconds, rounds);
  std::printf("  visits in a second                 %10.0f [%.0f – %.0f]\n", at(ours, 0.5), at(ours, 0), at(ours, 1));
  std::printf("  ours / FIFO ticket lock, parked        %.2f [%.2f – %.2f]  target 1.00: %s\n", at(ratio, 0.5),
              at(ratio, 0), at(ratio, 1), at(ratio, 0.5) >= 1 ? "met" : "MISSED");
  std::printf("  Jain's fairness index                %.4f [%.4f – %.4f]  target 0.99: %s\n", at(jain, 0.5),
              at(jain, 0), at(jain, 1), at(jain, 0.5) >= 0.99 ? "met" : "MISSED");
}

// --- the releaser's cost with many waiters ---------------------------------------------------------------------------

void queue_case() {
  const auto participant = std::shared_ptr<process::Participant>(
      process::Participant::join(detail::Access::mapping(segment()), process::JoinOptions{}));
  const auto queue_of = [&](const char* name, std::size_t waiters) {
    struct Queue {
      Queue(const std::shared_ptr<process::Participant>& of, const char* called)
          : client(of, called, {.kind = engine::Kind::semaphore, .capacity = 2}) {}
      process::PrimitiveClient client;
      std::vector<engine::EntryIndex> entries = {};
      std::size_t holder = 0;
    };
    const auto q = std::make_shared<Queue>(participant, name);
    for (std::size_t i = 0; i <= waiters; ++i) {
      const engine::EntryIndex e = q->entries.emplace_back(participant->take_entry());
      q->client.ops().set_weight(e, 2);
      (void)q->client.ops().acquire_or_queue(e, 2, 0);
    }
    return q;
  };
  const auto few = queue_of("few", 2);
  const auto many = queue_of("many", 10'000);
  const auto release_ns = [](const auto& q) {
    constexpr int n = 2'000;
    const auto ops = q->client.ops();
    std::int64_t spent = 0;
    for (int i = 0; i < n; ++i) {
      const engine::EntryIndex e = q->entries[q->holder];
      const std::uint64_t token = engine::seq_of_stamp(ops.status(e).stamp, RealPolicy::load_seq(ops.record().control));
      const std::int64_t start = now_ns();
      if (ops.release(e, token).step != engine::Step::released) std::abort();
      spent += now_ns() - start;
      (void)ops.acquire_or_queue(e, 2, 0);  // behind all others again
      q->holder = (q->holder + 1) % q->entries.size();
    }
    return static_cast<double>(spent) / n;
  };
  Comparison c("a release with 10,000 waiters", "ns", 41);
  c.ours([&] { return release_ns(many); });
  c.peer("with 2", 0, [&] { return release_ns(few); });
  c.run();
}

}  // namespace
}  // namespace shmcoord::bench

int main(int argc, char** argv) {
  using namespace shmcoord::bench;
  const int code =
      run_cases({argv + 1, argv + argc},
                {{"permit", permit_case}, {"shared", shared_case}, {"fair", fair_case}, {"queue", queue_case}});
  (void)segment();
  shmcoord::Segment::remove(segment_name(), true);
  return code;
}
