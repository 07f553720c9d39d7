#include "bench/support/servers.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/support/hand_off.hpp"
#include "bench/support/locks.hpp"
#include "bench/support/peers.hpp"

// For the picture: what people run when they have no lock of the host, a lock on a server. What is not installed is
// left out.

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::Word32;
using std::chrono::milliseconds;

constexpr milliseconds no_hurry{600'000};

/// Any of them.
struct Contender {
  std::string name;
  std::function<void(milliseconds lease)> enter;
  std::function<void()> lock;
  std::function<void()> unlock;
  std::function<milliseconds()> lease;
  int pairs;  // that do not take for ever
};

Contender contender(std::unique_ptr<LockPeer> peer, int pairs) {
  const std::shared_ptr<LockPeer> p = std::move(peer);
  return {p->name(),
          [p](milliseconds) { p->enter(); },
          [p] { p->lock(); },
          [p] { p->unlock(); },
          [] { return milliseconds(0); },
          pairs};
}

Contender contender(const Server& server, const std::string& key) {
  const std::shared_ptr<ServerLock> lock = server.lock_of(key);
  return {server.name(),
          [lock](milliseconds lease) { lock->enter(lease); },
          [lock] { lock->lock(); },
          [lock] { lock->unlock(); },
          [lock] { return lock->lease(); },
          100};
}

/// First ours, then flock, which needs no server either.
std::vector<Contender> contenders(const std::vector<std::unique_ptr<Server>>& servers, const std::string& key) {
  std::vector<Contender> all;
  all.push_back(contender(our_lock(key), 20'000));
  all.push_back(contender(flock_lock(), 2'000));
  for (const auto& s : servers) all.push_back(contender(*s, key));
  return all;
}

void compare(Comparison& c, const std::vector<Contender>& all,
             const std::function<Comparison::MeasureRound(const Contender&)>& measure) {
  c.ours(measure(all.front()));
  for (std::size_t i = 1; i < all.size(); ++i) c.peer(all[i].name, 0, measure(all[i]));
  c.run();
}

void pair_case() {
  const auto running = servers();
  const auto all = contenders(running, "pair");
  for (const Contender& one : all) one.enter(no_hurry);
  Comparison c("acquire + release, uncontended, beside a server's", "us", 21);
  compare(c, all, [](const Contender& one) {
    return [&one] {
      return Round{.value = each_ns(repeats(one.pairs),
                                    [&] {
                                      one.lock();
                                      one.unlock();
                                    }) /
                            1e3};
    };
  });
}
const Register pair_is_a_case{"servers_pair", "an uncontended pair beside a lock on Redis and on etcd", pair_case};

/// Two who have it in turn, for 110 to 120 ms: so who polls is anywhere between two polls when it becomes free, and
/// etcd knows its waiter, at whose watch it looks every 100 ms at first. Who gave it away wants it again only when the
/// other one has it: it would get it back before many a poll.
Round hand_offs_us(const Contender& one, std::uint32_t turns) {
  SharedArray<Word32> had(1);
  Round round = measure_hand_offs({}, static_cast<int>(turns), [&](HandOffs& h) {
    one.enter(no_hurry);
    std::mt19937 random(h.side() + static_cast<unsigned>(now_ns()));
    for (std::uint32_t turn = h.side(); turn < turns; turn += 2) {
      while (RealPolicy::load(had[0]) < turn) ::usleep(100);
      if (turn > 0) h.about_to_wait();
      one.lock();
      h.received();
      RealPolicy::store(had[0], turn + 1);
      if (turn + 1 < turns) {
        h.await_waiter();
        const timespec work{0, 110'000'000 + static_cast<long>(random() % 10'000'000)};
        ::nanosleep(&work, nullptr);
        h.about_to_give(false);
      }
      one.unlock();
    }
  });
  for (double& ns : round.samples) ns /= 1e3;
  return Round::of(std::move(round.samples));
}

void hand_off_case() {
  const auto running = servers();
  const std::uint32_t turns = options().short_form ? 3 : 11;
  Comparison c("from a release to a client that waits", "us", 9);
  compare(c, contenders(running, "handoff"),
          [&](const Contender& one) { return [one, turns] { return hand_offs_us(one, turns); }; });
}
const Register hand_off_is_a_case{"servers_handoff", "a hand-off to a waiter, beside a lock on Redis and on etcd",
                                  hand_off_case};

/// The parent has entered, for longer than all this takes.
double kill_to_next_ms(const Contender& one, milliseconds lease) {
  SharedArray<Word32> held(1);
  const pid_t holder = child([&] {
    one.enter(lease);
    one.lock();
    RealPolicy::store(held[0], 1);
    for (;;) ::pause();
  });
  await({&holder, 1}, [&] { return RealPolicy::load(held[0]) != 0; });
  std::int64_t killed_ns = 0;
  std::thread killer([&] {
    ::poll(nullptr, 0, 5);  // the waiter waits by then
    killed_ns = now_ns();
    ::kill(holder, SIGKILL);
  });
  one.lock();
  const std::int64_t got_ns = now_ns();
  killer.join();
  one.unlock();
  ::waitpid(holder, nullptr, 0);
  return static_cast<double>(got_ns - killed_ns) / 1e6;
}

void kill_case() {
  const auto running = servers();
  const milliseconds asked = options().short_form ? milliseconds(200) : milliseconds(1000);
  auto all = contenders(running, "kill");
  for (Contender& one : all) {
    one.enter(asked);
    const milliseconds lease = one.lease();
    if (lease.count() > 0) one.name += ", lease " + std::to_string(lease.count()) + " ms";
    one.enter(no_hurry);
  }
  Comparison c("SIGKILL to next holder; who cannot see the death waits for the lease", "ms",
               options().short_form ? 1 : 9);
  compare(c, all, [&](const Contender& one) { return [&one, asked] { return Round{kill_to_next_ms(one, asked)}; }; });
}
const Register kill_is_a_case{"servers_kill", "kill to next holder, beside the leases of Redis and etcd", kill_case};

}  // namespace
}  // namespace shmcoord::bench
