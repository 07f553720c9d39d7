#pragma once

#include <memory>
#include <string>
#include <vector>

// What a program could use instead, behind one interface: each works between processes that were forked after it was
// made.

namespace shmcoord::bench {

class LockPeer {
 public:
  virtual ~LockPeer() = default;
  LockPeer(const LockPeer&) = delete;
  LockPeer& operator=(const LockPeer&) = delete;

  [[nodiscard]] virtual std::string name() const = 0;
  /// In each process that uses it, once, before all else: for what a fork would share or forbid.
  virtual void enter() {}
  virtual void lock() = 0;
  virtual void unlock() = 0;
  [[nodiscard]] virtual bool try_lock() = 0;
  /// Nanoseconds of each of n times lock() and unlock(), without the cost of this interface; likewise shared.
  virtual double pairs(int n) = 0;
  virtual double shared_pairs(int n) = 0;
  /// Likewise of try_lock(), while somebody else holds it.
  virtual double refused_tries(int n) = 0;
  /// Burns a CPU while it waits, and what it waits for may need that CPU.
  [[nodiscard]] virtual bool only_spins() const { return false; }
  /// Of those that can be had shared, else as lock() and unlock().
  virtual void lock_shared() { lock(); }
  virtual void unlock_shared() { unlock(); }
  [[nodiscard]] virtual bool can_be_shared() const { return false; }

 protected:
  LockPeer() = default;
};

/// The lock of this project, as a C++ program uses it; `shared`: the one with readers.
std::unique_ptr<LockPeer> our_lock(const std::string& name);
std::unique_ptr<LockPeer> our_shared_lock(const std::string& name);

/// A semaphore of one permit.
std::unique_ptr<LockPeer> our_permit(const std::string& name);

std::unique_ptr<LockPeer> flock_lock();
std::unique_ptr<LockPeer> ofd_lock();
std::unique_ptr<LockPeer> robust_lock();
/// With SEM_UNDO: what dies gives it back.
std::unique_ptr<LockPeer> sysv_lock();
/// The floor of ours: one word of 16 bytes and a coarse clock.
std::unique_ptr<LockPeer> bare_wide_word();
/// As fair as ours: FIFO, and each waiter sleeps on a word of its own.
std::unique_ptr<LockPeer> ticket_lock();

/// Everything else that there is on this host. The last ones are the limits: bare futexes and a bare atomic, which do
/// nothing for whoever dies.
std::vector<std::unique_ptr<LockPeer>> lock_peers();

/// Repetitions that take about so long.
int pairs_in(LockPeer& peer, double seconds);

}  // namespace shmcoord::bench
