#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <string>
#include <vector>

#include <boost/interprocess/sync/interprocess_semaphore.hpp>

#include "bench/support/locks.hpp"
#include "bench/support/peers.hpp"

// Semaphores and shared locks where nobody is in the way, and where very many wait.

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;

// --- uncontended pairs -----------------------------------------------------------------------------------------------

void permit_case() {
  const int n = repeats(200'000);
  Session session{segment()};
  Semaphore pool{session, "permit", {.capacity = 8}};
  sem_t& posix = shared<sem_t>();
  ::sem_init(&posix, 1, 8);
  const int sysv = ::semget(IPC_PRIVATE, 1, 0600);
  remove_at_end(sysv);
  ::semctl(sysv, 0, SETVAL, 8);
  auto& boosted = *new (shared_bytes(4096)) boost::interprocess::interprocess_semaphore(8);
  const int event = ::eventfd(8, EFD_SEMAPHORE | EFD_CLOEXEC);
  Comparison c("a permit of weight 1 taken and given back, uncontended", "ns", 41);
  c.ours([&] { return each_ns(n, [&] { const Permit permit(pool); }); });
  c.peer("sem_t, process-shared", 1.3, [&] {
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
  c.peer("Boost interprocess_semaphore", 0, [&] {
    return each_ns(n, [&] {
      boosted.wait();
      boosted.post();
    });
  });
  c.peer("eventfd, EFD_SEMAPHORE", 0, [&] {
    return each_ns(n / 20, [&] {
      std::uint64_t one = 1;
      if (::read(event, &one, sizeof one) < 0 || ::write(event, &one, sizeof one) < 0) fail("an eventfd failed");
    });
  });
  const std::shared_ptr<LockPeer> floor = bare_wide_word();
  c.peer(floor->name(), 0, [&] { return floor->pairs(n); });
  c.run();
}
const Register permit_is_a_case{"permit", "a permit of a semaphore taken and given back, uncontended", permit_case};

void weighted_case() {
  const int n = repeats(50'000);
  Session session{segment()};
  Semaphore pool{session, "weighted", {.capacity = 8}};
  const int sysv = ::semget(IPC_PRIVATE, 1, 0600);
  remove_at_end(sysv);
  ::semctl(sysv, 0, SETVAL, 8);
  Comparison c("permits of weight 3 of 8 taken and given back, uncontended", "ns", 41);
  c.ours([&] { return each_ns(n, [&] { const Permit permit(pool, 3); }); });
  c.peer("one permit", 0, [&] { return each_ns(n, [&] { const Permit permit(pool); }); });
  c.peer("SysV semop of 3 with SEM_UNDO", 0, [&] {
    return each_ns(std::max(n / 20, 1), [&] {
      sembuf take{0, -3, SEM_UNDO};
      sembuf give{0, 3, SEM_UNDO};
      if (::semop(sysv, &take, 1) != 0 || ::semop(sysv, &give, 1) != 0) fail("semop failed");
    });
  });
  c.run();
}
const Register weighted_is_a_case{"weighted", "permits of weight 3 taken and given back, uncontended", weighted_case};

void shared_case() {
  Comparison c("lock_shared and back, uncontended", "ns", 41);
  const auto measure = [](std::shared_ptr<LockPeer> peer) {
    peer->enter();
    const int n = repeats(pairs_in(*peer, 0.004));
    return [peer = std::move(peer), n] { return peer->shared_pairs(n); };
  };
  c.ours(measure(our_shared_lock("shared")));
  for (auto& peer : lock_peers()) {
    if (!peer->can_be_shared()) continue;
    const std::string name = peer->name();
    c.peer(name, name.ends_with("pthread_rwlock") ? 2.0 : 0, measure(std::move(peer)));
  }
  c.run();
}
const Register shared_is_a_case{"shared", "lock_shared and back, uncontended", shared_case};

// --- the releaser's cost with many waiters ---------------------------------------------------------------------------

void queue_case() {
  const auto participant = std::shared_ptr<process::Participant>(
      process::Participant::join(detail::Access::mapping(segment()), process::JoinOptions{}));
  const auto queue_of = [&](const char* name, std::size_t length) {
    struct Queue {
      Queue(const std::shared_ptr<process::Participant>& of, const char* called)
          : client(of, called, {.kind = engine::Kind::semaphore, .capacity = 2}) {}
      process::PrimitiveClient client;
      std::vector<engine::EntryIndex> entries = {};
      std::size_t holder = 0;
    };
    const auto q = std::make_shared<Queue>(participant, name);
    for (std::size_t i = 0; i <= length; ++i) {
      const engine::EntryIndex e = q->entries.emplace_back(participant->take_entry());
      q->client.ops().set_weight(e, 2);
      (void)q->client.ops().acquire_or_queue(e, 2, 0);
    }
    return q;
  };
  const auto few = queue_of("few", 2);
  const std::size_t waiters = size(10'000);
  const auto many = queue_of("many", waiters);
  const auto release_ns = [&](const auto& q) {
    const int n = repeats(2'000);
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
  Comparison c("a release with " + std::to_string(waiters) + " waiters", "ns", 41);
  c.ours([&] { return release_ns(many); });
  c.peer("with 2", 1.3, [&] { return release_ns(few); });
  c.run();
}

const Register queue_is_a_case{"queue", "a release with 10,000 waiters beside one with 2", queue_case};

}  // namespace
}  // namespace shmcoord::bench
