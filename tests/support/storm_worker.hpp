#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "process/face.hpp"
#include "process/segment_check.hpp"
#include "process/snapshot.hpp"
#include "support/child_pool.hpp"
#include "support/storm_ledger.hpp"

// A program that does everything that programs do with locks, at random, and checks each answer.

namespace shmcoord::test {

using namespace std::chrono_literals;

// Locks that nobody is robbed of. The last one is held by bound scripts for long: programs only try it.
inline constexpr std::array<const char*, Ledger::accounts> accounts{"account0", "account1", "account2", "account3"};
inline constexpr std::size_t bound_account = 3;
// Locks with short leases, which the operator takes away and removes as he likes.
inline constexpr std::array<const char*, Ledger::fences> fences{"fence0", "fence1"};
inline constexpr unsigned job_names = 200;  // more than there is room for

/// One program in the storm.
class Worker {
 public:
  Worker(Ledger& ledger, const Segment& segment, unsigned seed, const Common<std::atomic<bool>>& over)
      : ledger_(ledger), segment_(segment), random_(seed), over_(over) {
    ledger_.begin_life();
  }

  int run(unsigned most) {
    Session session{segment_, {.label = "storm"}};
    for (unsigned n = 0; n < most && !*over_; ++n) {
      try {
        step(session);
      } catch (const Error& e) {
        if (e.errc() != Errc::name_removed) ledger_.wrong(e.what());
      }
      ledger_.step();
    }
    return 0;
  }

 private:
  unsigned dice(unsigned sides) { return static_cast<unsigned>(random_() % sides); }
  std::size_t some_account() { return dice(bound_account); }

  void step(Session& session) {
    switch (dice(32)) {
      case 0: return look(session);
      case 1: return remove_something(session);
      case 2: return fork_one(session);
      case 3: return join_anew(session);
      case 4: return try_bound(session);
      case 5:
      case 6: return wait_by_descriptor(session);
      case 7:
      case 8:
      case 9:
      case 10: return leased(session);
      case 11: return rob(session);
      case 12:
      case 13:
      case 14: return job(session);
      case 15:
      case 16:
      case 17:
      case 18: return by_id(session);
      default: return like_a_mutex(session);
    }
  }

  /// What the holder of an account does.
  void add(std::size_t n, std::uint64_t token) {
    if (dice(8) == 0) ledger_.note(n, token);
    ledger_.add(n, token, [this] { in_the_middle(); });
  }
  /// Process 1 of a PID namespace cannot end or stop itself by a signal, and goes on here.
  void in_the_middle() {
    switch (dice(256)) {
      case 0: ::kill(::getpid(), SIGKILL); break;
      case 1: ::raise(SIGSTOP); break;  // the storm continues whoever is stopped
      case 2: end_by_exec(); break;
      case 3: std::this_thread::sleep_for(1ms); break;
      default:
        if (dice(4) == 0) ::sched_yield();
    }
  }
  [[noreturn]] void end_by_exec() {
    ledger_.end_life();
    ::execl("/bin/sleep", "sleep", "0.01", nullptr);
    ::_exit(127);
  }

  void like_a_mutex(Session& session) {
    const std::size_t n = some_account();
    Lock lock{session, accounts[n]};
    if (dice(4) == 0) {
      if (!lock.try_lock_for(std::chrono::microseconds(dice(3000)))) return;
    } else {
      lock.lock();
    }
    add(n, lock.token());
    if (lock.lost()) ledger_.wrong("the hold of an account was lost");
    if (dice(8) != 0) lock.unlock();  // else its destructor does
  }

  void by_id(Session& session) {
    const std::size_t n = some_account();
    Lock lock{session, accounts[n]};
    const AcquireOutcome got =
        dice(4) == 0 ? lock.try_acquire(me_) : lock.acquire(me_, {.reason = "storm"}, std::nullopt);
    if (!got) return;
    add(n, got.token);
    const AcquireOutcome again = lock.try_acquire(me_);
    if (again.result != AcquireResult::extended || again.token != got.token) ledger_.wrong("not extended");
    if (!lock.is_current(got.token)) ledger_.wrong("the token of a holder is not the current one");
    if (lock.heartbeat(me_).result != HeartbeatResult::refreshed) ledger_.wrong("a holder was not refreshed");
    if (lock.release(me_).result != ReleaseResult::released) ledger_.wrong("a holder could not release");
  }

  void wait_by_descriptor(Session& session) {
    const std::size_t n = some_account();
    Lock lock{session, accounts[n]};
    pollfd ready{lock.wait_fd(me_), POLLIN, 0};
    if (::poll(&ready, 1, dice(2) == 0 ? -1 : static_cast<int>(dice(3))) == 0) return lock.cancel_wait(me_);
    const AcquireOutcome got = lock.acquire(me_);
    if (!got) return ledger_.wrong("the descriptor was readable, but there is no hold");
    add(n, got.token);
    if (lock.release(me_).result != ReleaseResult::released) ledger_.wrong("a holder could not release");
  }

  void try_bound(Session& session) {
    Lock lock{session, accounts[bound_account]};
    if (!lock.try_lock_for(5ms)) return;
    add(bound_account, lock.token());
    lock.unlock();
  }

  void job(Session& session) {
    Lock lock{session, "job-" + std::to_string(dice(job_names))};
    if (!lock.try_lock_for(20ms)) return;
    in_the_middle();
    lock.unlock();
  }

  /// With a lease that a stop outlasts, or the operator ends: what was promised before is true nevertheless.
  void leased(Session& session) {
    const std::size_t n = dice(fences.size());
    Lock lock{session, fences[n]};
    lock.on_lost([this](const HolderId&, const Lost&) { ledger_.step(); });
    AcquireOutcome got = lock.acquire(me_, {.ttl = 20ms}, 50ms);
    if (!got) return;
    for (unsigned times = dice(4); times > 0; --times) {
      const bool passed = ledger_.pass(n, got.token);
      const bool overtaken = ledger_.overtaken(n, got.token);
      if (passed && dice(2) == 0) in_the_middle();
      switch (dice(4)) {
        case 0:
          if (lock.heartbeat(me_).result == HeartbeatResult::refreshed && overtaken) told_wrong();
          break;
        case 1:
          if (lock.renew(me_, 30ms).result == HeartbeatResult::refreshed && overtaken) told_wrong();
          break;
        case 2:
          if ((lock.is_current(got.token) || lock.stands(me_, got.token)) && overtaken) told_wrong();
          break;
        default: {
          const AcquireOutcome again = lock.try_acquire(me_, {.ttl = 20ms});
          if (!again) return;
          if (again.result == AcquireResult::extended ? again.token != got.token || overtaken
                                                      : again.token <= got.token) {
            told_wrong();
          }
          got = again;
        }
      }
    }
    const bool overtaken = ledger_.overtaken(n, got.token);
    const bool released = lock.release(me_).result == ReleaseResult::released;
    if (!released) ledger_.robbed();
    if (released && overtaken) told_wrong();
  }
  void told_wrong() { ledger_.wrong("a holder that a greater token had overtaken was told that it holds"); }

  void rob(Session& session) {
    const auto client = process::PrimitiveClient::find(detail::Access::state(session)->participant, fences[dice(2)]);
    if (client) (void)client->force_release("");
  }

  void look(const Session& session) {
    const engine::Mapping& mapping = *detail::Access::mapping(session.segment());
    if (dice(4) == 0 && process::check_segment(mapping, engine::RealPolicy::now_ns()).damaged()) {
      ledger_.wrong("the segment is damaged");
    }
    for (const process::LockView& lock : process::take_picture(mapping, engine::RealPolicy::now_ns()).locks) {
      if (lock.settled && (lock.damaged || lock.holders.size() > 1))
        ledger_.wrong("a lock is damaged, or has two holders");
    }
  }

  void remove_something(Session& session) {
    const unsigned what = dice(8);
    try {
      if (what == 0) return Lock::remove(session, fences[dice(2)], true);
      if (what == 1) return Lock::remove(session, accounts[dice(accounts.size())]);
      Lock::remove(session, "job-" + std::to_string(dice(job_names)), what == 2);
    } catch (const Error& e) {
      if (e.errc() != Errc::in_use && e.errc() != Errc::not_found) throw;
    }
  }

  /// Leaving gives back what is held.
  void join_anew(Session& session) {
    const std::size_t n = some_account();
    Lock lock{session, accounts[n]};
    if (const AcquireOutcome got = lock.try_acquire(me_)) ledger_.note(n, got.token);
    session.leave();
    session = Session{segment_, {.label = "storm, again"}};
  }

  /// The child has copies of handles, perhaps of a lock that is held, and then joins by itself.
  void fork_one(Session& session) {
    const std::size_t n = some_account();
    Lock lock{session, accounts[n]};
    const bool held = dice(2) == 0 && lock.try_acquire(me_);
    const pid_t parent = ::getpid();
    const pid_t child = start_child([&] {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) return 0;
      std::error_code ec;
      (void)lock.release(me_, ec);
      if (ec != Errc::not_a_participant) ledger_.wrong("a forked child is taken for its parent");
      return Worker(ledger_, segment_, dice(1U << 30U), over_).run(8);
    });
    if (held && lock.release(me_).result != ReleaseResult::released) ledger_.wrong("a holder was robbed by its child");
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!ended_or_killed(status)) ledger_.wrong("a forked child ended badly");
  }

  Ledger& ledger_;
  const Segment& segment_;
  std::minstd_rand random_;
  const Common<std::atomic<bool>>& over_;
  const HolderId me_{"storm:" + std::to_string(random_())};
};

}  // namespace shmcoord::test
