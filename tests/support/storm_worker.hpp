#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
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
// Semaphores, the second of which is resized, and a lock that is shared; their rooms are in this order.
struct StormPool {
  const char* name;
  std::uint32_t capacity;
};
inline constexpr std::array<StormPool, 2> storm_pools{{{"permits", 5}, {"resized", 6}}};
inline constexpr std::size_t resized_pool = 1;
inline constexpr std::size_t tree_room = 2;
inline constexpr const char* tree_name = "tree";
inline constexpr std::uint32_t writer = 1000;  // weight of its mark: the whole room
inline constexpr unsigned job_names = 200;     // more than there is room for

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
    switch (dice(44)) {
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
      case 32:
      case 33:
      case 34: return one_permit(session);
      case 35:
      case 36: return permits_by_id(session);
      case 37: return permits_by_descriptor(session);
      case 38: return resize(session);
      case 39:
      case 40: return read(session);
      case 41: return write(session);
      case 42: return upgrade(session);
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

  // --- permits -------------------------------------------------------------------------------------------------------

  /// The holder of permits, while it has them.
  void visit(std::size_t room, std::uint32_t weight, std::uint32_t size) {
    ledger_.enter(room, weight, size);
    in_the_middle();
  }
  void visit(std::size_t pool, std::uint32_t weight) { visit(pool, weight, storm_pools[pool].capacity); }

  void one_permit(Session& session) {
    const std::size_t n = dice(storm_pools.size());
    const std::uint32_t weight = 1 + dice(3);
    Semaphore pool{session, storm_pools[n].name};
    try {
      Permit permit = dice(4) == 0   ? Permit(pool, weight, std::try_to_lock)
                      : dice(3) == 0 ? Permit(pool, weight, std::chrono::microseconds(dice(3000)))
                                     : Permit(pool, weight);
      if (!permit) return;
      visit(n, weight);
      if (permit.lost()) ledger_.wrong("a permit was lost");
      ledger_.leave(n);
    } catch (const Error& e) {
      if (n != resized_pool || e.errc() != Errc::invalid_argument) throw;  // more than there is just now
    }
  }

  void permits_by_id(Session& session) {
    const std::size_t n = dice(storm_pools.size());
    Semaphore pool{session, storm_pools[n].name};
    std::uint32_t weight = 1 + dice(2);
    const PermitOutcome got = dice(4) == 0 ? pool.try_acquire(me_, weight) : pool.acquire(me_, weight, {}, 50ms);
    if (!got) return;
    visit(n, weight);
    // Two who wait for more could wait for each other.
    const PermitOutcome more = pool.acquire(me_, weight + 1 + dice(2), {.reason = "storm"}, 5ms);
    if (more.token != got.token) ledger_.wrong("an increase, or its refusal, changed the token");
    if (more ? more.result != PermitResult::increased : more.weight != weight) ledger_.wrong("an increase went wrong");
    weight = more.weight;
    visit(n, weight);
    if (pool.try_acquire(me_, 1).result != PermitResult::already_held) ledger_.wrong("permits that are not held");
    if (!pool.is_current(got.token)) ledger_.wrong("the token of permits is not a current one");
    if (pool.heartbeat(me_).result != HeartbeatResult::refreshed)
      ledger_.wrong("a holder of permits was not refreshed");
    ledger_.leave(n);
    if (dice(8) == 0) return join_again(session);  // which gives them back
    if (pool.release(me_).result != PermitRelease::released) ledger_.wrong("a holder could not release its permits");
  }

  void permits_by_descriptor(Session& session) {
    const std::size_t n = dice(storm_pools.size());
    const std::uint32_t weight = 1 + dice(3);
    Semaphore pool{session, storm_pools[n].name};
    try {
      pollfd ready{pool.wait_fd(me_, weight), POLLIN, 0};
      if (::poll(&ready, 1, dice(2) == 0 ? -1 : static_cast<int>(dice(3))) == 0) return pool.cancel_wait(me_);
    } catch (const Error& e) {
      if (n != resized_pool || e.errc() != Errc::invalid_argument) throw;
      return;
    }
    const PermitOutcome got = pool.acquire(me_, weight);
    if (!got) {  // there was less than that meanwhile
      if (n != resized_pool) ledger_.wrong("the descriptor was readable, but there are no permits");
      return;
    }
    visit(n, weight);
    ledger_.leave(n);
    if (pool.release(me_).result != PermitRelease::released) ledger_.wrong("a holder could not release its permits");
  }

  void resize(Session& session) {
    const StormPool& pool = storm_pools[resized_pool];
    Semaphore{session, pool.name}.resize(2 + dice(pool.capacity - 1));
  }

  void read(Session& session) {
    SharedLock tree{session, tree_name};
    if (dice(4) == 0 ? !tree.try_lock_shared_for(2ms) : (tree.lock_shared(), false)) return;
    visit(tree_room, 1, writer);
    ledger_.leave(tree_room);
    tree.unlock_shared();
  }

  void write(Session& session) {
    SharedLock tree{session, tree_name};
    if (dice(4) == 0 ? !tree.try_lock_for(2ms) : (tree.lock(), false)) return;
    visit(tree_room, writer, writer);
    const std::uint64_t token = tree.token();
    const bool down = dice(2) == 0;
    if (down) {
      ledger_.enter(tree_room, 1, writer);  // before others come in
      tree.downgrade();
      in_the_middle();
    }
    if (tree.token() != token || tree.lost()) ledger_.wrong("a writer lost the tree");
    ledger_.leave(tree_room);
    down ? tree.unlock_shared() : tree.unlock();
  }

  void upgrade(Session& session) {
    SharedLock tree{session, tree_name};
    tree.lock_shared();
    visit(tree_room, 1, writer);
    bool up = false;
    try {
      up = dice(2) == 0 ? (tree.upgrade(), true) : tree.try_upgrade_for(2ms);
    } catch (const Error& e) {
      if (e.errc() != Errc::deadlock) throw;  // another one does the same
    }
    if (up) visit(tree_room, writer, writer);
    if (tree.lost()) ledger_.wrong("a reader lost the tree");
    ledger_.leave(tree_room);
    up ? tree.unlock() : tree.unlock_shared();
  }

  // --- a lock that others hold for long ----------------------------------------------------------------------

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
      const bool shared = lock.kind == engine::Kind::semaphore || lock.name == tree_name;
      const bool too_many =
          shared ? lock.used > lock.capacity && lock.name != storm_pools[resized_pool].name : lock.holders.size() > 1;
      if (lock.settled && (lock.damaged || too_many)) ledger_.wrong("a lock is damaged, or has too many holders");
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
    join_again(session);
  }
  void join_again(Session& session) {
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
