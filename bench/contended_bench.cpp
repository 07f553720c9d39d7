#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/support/locks.hpp"
#include "bench/support/peers.hpp"

// Many processes want the same one.

namespace shmcoord::bench {
namespace {

using engine::RealPolicy;
using engine::Word32;
using engine::Word64;

struct Contest {
  struct alignas(64) Count {
    Word64 visits;
    std::uint32_t samples;
  };
  static constexpr std::size_t most = 64;
  static constexpr std::uint32_t samples_each = 2'048;

  Word32 ready;
  Word32 stop;
  alignas(64) std::uint64_t written;  // by those who have the lock for themselves
  std::array<Count, most> count;
};

struct Rules {
  std::size_t processes = 2;
  double seconds = 0.2;
  int writes_percent = 100;
  bool pinned = false;  // each to a CPU of its own
};

/// One process of a contest. Of every eighth visit, but not of the first, it notes how long it took to get in; when
/// there is no room any more, each has the same chance to be kept.
void compete(LockPeer& peer, const Rules& rules, Contest& contest, std::size_t me, double* samples) {
  if (rules.pinned && !pin_to(me)) fail("a process cannot be pinned to a CPU");
  peer.enter();
  std::minstd_rand random(static_cast<unsigned>(me) + 1);
  Contest::Count& mine = contest.count[me];
  std::uint64_t writes = 0;
  std::uint32_t timed = 0;
  RealPolicy::add(contest.ready, 1);
  for (std::uint64_t visit = 0; RealPolicy::load(contest.stop) == 0; ++visit) {
    const bool writes_now = rules.writes_percent == 100 || static_cast<int>(random() % 100) < rules.writes_percent;
    const bool timed_now = visit % 8 == 7;
    const std::int64_t wanted_ns = timed_now ? now_ns() : 0;
    writes_now ? peer.lock() : peer.lock_shared();
    const std::int64_t got_ns = timed_now ? now_ns() : 0;
    if (writes_now) ++contest.written;
    writes_now ? peer.unlock() : peer.unlock_shared();
    writes += writes_now ? 1 : 0;
    RealPolicy::store(mine.visits, visit + 1);
    if (!timed_now) continue;
    const std::uint32_t place =
        timed < Contest::samples_each ? timed : static_cast<std::uint32_t>(random() % (timed + 1));
    if (place < Contest::samples_each) samples[place] = static_cast<double>(got_ns - wanted_ns);
    ++timed;
  }
  mine.samples = std::min(timed, Contest::samples_each);
  samples[Contest::samples_each] = static_cast<double>(writes);
}

/// Nanoseconds for a visit of any of them; the samples are how long one waits to get in. The caller has entered the
/// peer, and holds it until all wait for it: else those that come first may keep the CPUs, and the lock, among
/// themselves.
Round contend(LockPeer& peer, const Rules& rules) {
  SharedArray<Contest> memory(1);
  Contest& contest = memory[0];
  constexpr std::size_t stride = Contest::samples_each + 1;
  SharedArray<double> samples(rules.processes * stride);
  std::vector<pid_t> pids;
  peer.lock();
  for (std::size_t p = 0; p < rules.processes; ++p) {
    pids.push_back(child([&, p] { compete(peer, rules, contest, p, &samples[p * stride]); }));
  }
  await(pids, [&] { return RealPolicy::load(contest.ready) == rules.processes; });
  ::usleep(options().short_form ? 1'000 : 10'000);
  const std::int64_t began_ns = now_ns();
  peer.unlock();
  ::usleep(static_cast<useconds_t>(rules.seconds * 1e6));
  double sum = 0;
  double squares = 0;
  for (std::size_t p = 0; p < rules.processes; ++p) {
    const auto n = static_cast<double>(RealPolicy::load(contest.count[p].visits));
    sum += n;
    squares += n * n;
  }
  const auto took_ns = static_cast<double>(now_ns() - began_ns);
  RealPolicy::store(contest.stop, 1);
  join_all(pids);
  Round round{.value = took_ns / std::max(sum, 1.0)};
  double writes = 0;
  for (std::size_t p = 0; p < rules.processes; ++p) {
    const double* const from = &samples[p * stride];
    round.samples.insert(round.samples.end(), from, from + contest.count[p].samples);
    writes += from[Contest::samples_each];
  }
  // What all wrote must be what is there, else it was no lock.
  if (writes != static_cast<double>(contest.written)) fail(peer.name() + " let two in at once");
  round.counters = {{"jain", squares == 0 ? 0 : sum * sum / (static_cast<double>(rules.processes) * squares)}};
  return round;
}

Comparison::MeasureRound measure(std::shared_ptr<LockPeer> peer, const Rules& rules) {
  peer->enter();
  return [peer = std::move(peer), rules] { return contend(*peer, rules); };
}

void contended_by(const Rules& rules) {
  const std::string many = std::to_string(rules.processes);
  Comparison c("a lock that " + many + " processes want" + (rules.pinned ? ", pinned" : ""), "ns", 9);
  c.ours(measure(our_lock("contended"), rules));
  for (auto& peer : lock_peers()) {
    if (peer->only_spins() && rules.processes > allowed_cpus()) continue;
    const std::string name = peer->name();
    c.peer(name, 0, measure(std::move(peer), rules));
  }
  if (!rules.pinned) {
    c.place({"Time per visit of a lock that many processes want", "processes", static_cast<double>(rules.processes)});
  }
  c.run();
}

void contended_case() {
  for (const std::size_t processes : {2U, 4U, 8U, 32U}) {
    contended_by({.processes = processes, .seconds = seconds(0.2)});
    if (processes <= allowed_cpus()) contended_by({.processes = processes, .seconds = seconds(0.2), .pinned = true});
  }
}
const Register contended_is_a_case{"contended", "one lock, 2 to 32 processes: time per visit, time to get in",
                                   contended_case};

void readers_case() {
  for (const int writes : {0, 50, 100}) {
    const Rules rules{.processes = 8, .seconds = seconds(0.2), .writes_percent = writes};
    Comparison c("8 processes, " + std::to_string(writes) + " % of the visits to write", "ns", 9);
    c.ours(measure(our_shared_lock("readers"), rules));
    for (auto& peer : lock_peers()) {
      if (!peer->can_be_shared()) continue;
      const std::string name = peer->name();
      c.peer(name, 0, measure(std::move(peer), rules));
    }
    c.place({"Time per visit of 8 readers and writers", "percent of writes", static_cast<double>(writes)});
    c.run();
  }
}
const Register readers_is_a_case{"readers", "readers and writers of one lock: 0, 50 and 100 % writes", readers_case};

// --- against a fair lock ---------------------------------------------------------------------------------------------

void fair_case() {
  const Rules rules{.processes = 32, .seconds = seconds(2)};
  const auto compare = [&](const std::string& what, std::unique_ptr<LockPeer> ours, double target) {
    Comparison c(what + " that 32 processes want, beside a fair lock", "ns", 9);
    c.ours(measure(std::move(ours), rules));
    c.peer("FIFO ticket lock, each on its own futex", target, measure(ticket_lock(), rules));
    c.run();
  };
  compare("a lock", our_lock("fair-lock"), 1 / 1.3);
  compare("a semaphore of one permit", our_permit("fair-permit"), 1);
}
const Register fair_is_a_case{"fair", "32 processes: throughput and fairness beside a FIFO ticket lock", fair_case};

}  // namespace
}  // namespace shmcoord::bench
