#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "shmcoord/lock.hpp"
#include "shmcoord/session.hpp"

namespace shmcoord {

/// A reader-writer lock between processes (and threads): SharedTimedMutex, so that std::shared_lock, std::unique_lock
/// and std::scoped_lock work. It is another face of the lock of that name: lock() excludes what a Lock of that name
/// holds, and the other way round. A handle: move-only, cheap, usable by several threads at once; each of them holds
/// through it once, shared or not.
///
/// FIFO: readers who come after a waiting writer wait behind it, so neither side starves (C-35, S3-15). A thread that
/// reads and reads again through another handle can so wait for itself, as with std::shared_mutex.
///
/// Errors and deaths as of Lock. If the process dies here, its readers and writers are free for the next ones at once.
class SHMCOORD_EXPORT SharedLock {
 public:
  SharedLock(Session& session, std::string_view name, const LockOptions& options = {});
  static std::optional<SharedLock> attach(Session& session, std::string_view name, const LockOptions& options,
                                          std::error_code& ec) noexcept;

  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;
  SharedLock(SharedLock&&) noexcept;
  SharedLock& operator=(SharedLock&&) noexcept;
  /// Releases what is still held through this handle.
  ~SharedLock();

  // --- exclusive ---

  /// Waits, FIFO. Throws Error: deadlock if this thread holds it, shared or not, through this handle already, or if the
  /// wait closes a circle of waits.
  void lock();
  [[nodiscard]] bool try_lock();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) {
    return lock_within(Mode::exclusive, detail::to_wait(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::until(deadline, [&](auto timeout) { return lock_within(Mode::exclusive, timeout); });
  }
  /// Like std::shared_mutex: the caller must hold it. If it was lost meanwhile, does nothing; lost() tells.
  void unlock() noexcept;

  // --- shared ---

  void lock_shared();
  [[nodiscard]] bool try_lock_shared();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& timeout) {
    return lock_within(Mode::shared, detail::to_wait(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& deadline) {
    return detail::until(deadline, [&](auto timeout) { return lock_within(Mode::shared, timeout); });
  }
  void unlock_shared() noexcept;

  // --- from one to the other ---

  /// What this thread holds exclusively it holds shared from now on, without letting a writer in between; readers who
  /// stand first in the queue come in. Does nothing to a shared hold. Throws Error: session_dead and the like when the
  /// hold was lost.
  void downgrade();
  /// What this thread holds shared it holds exclusively when this returns, with no writer in between: it waits for the
  /// other readers, before all others who wait. Two who upgrade would wait for each other: the second one is told at
  /// once by Error(deadlock), keeps its shared hold, and must give it back for the first to go on.
  void upgrade();
  /// The same without waiting: false if there are other readers; the shared hold stays.
  [[nodiscard]] bool try_upgrade();
  template <class Rep, class Period>
  [[nodiscard]] bool try_upgrade_for(const std::chrono::duration<Rep, Period>& timeout) {
    return upgrade_within(detail::to_wait(timeout));
  }

  /// Token of this thread's hold; 0 if it holds none through this handle. Changing from one mode to the other keeps it.
  [[nodiscard]] std::uint64_t token() const noexcept;
  /// Was this thread's hold lost (reclaimed, forced, segment gone)? False may be outdated at once.
  [[nodiscard]] bool lost() const;
  /// As Lock::previous.
  [[nodiscard]] std::optional<Previous> previous() const;
  [[nodiscard]] const std::string& name() const noexcept;

 private:
  friend struct detail::Access;
  enum class Mode : bool { shared, exclusive };
  struct State;

  void lock_as(Mode mode);
  bool lock_within(Mode mode, std::chrono::nanoseconds timeout);
  bool upgrade_within(std::optional<std::chrono::nanoseconds> timeout);

  std::unique_ptr<State> state_;
};

}  // namespace shmcoord
