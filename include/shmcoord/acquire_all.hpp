#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "shmcoord/lock.hpp"
#include "shmcoord/semaphore.hpp"
#include "shmcoord/shared_lock.hpp"

namespace shmcoord {

/// One of the things that acquire_all() is to get. Refers to the handle only during the call.
class SHMCOORD_EXPORT Wanted {
 public:
  Wanted(Lock& lock);                                      // NOLINT(google-explicit-constructor): {deploy, {agents, 2}}
  Wanted(SharedLock& lock);                                // NOLINT(google-explicit-constructor)
  Wanted(Semaphore& semaphore, std::uint32_t weight = 1);  // NOLINT(google-explicit-constructor)
  /// Shared with others who read.
  [[nodiscard]] static Wanted shared(SharedLock& lock);

 private:
  friend struct detail::Access;
  Wanted(const void* client, std::uint32_t weight) noexcept : client_(client), weight_(weight) {}

  const void* client_;
  std::uint32_t weight_;
};

/// What acquire_all() came to: holds of everything, or of nothing. RAII; move-only. The holds have an implicit holder
/// of their own, and may be given back in another thread.
///
/// If the process dies here: whatever it held is free for the next ones at once.
class SHMCOORD_EXPORT MultiHold {
 public:
  MultiHold(MultiHold&&) noexcept;
  MultiHold& operator=(MultiHold&&) noexcept;
  MultiHold(const MultiHold&) = delete;
  MultiHold& operator=(const MultiHold&) = delete;
  /// Gives all back.
  ~MultiHold();

  [[nodiscard]] explicit operator bool() const noexcept;
  /// acquired; or why nothing is held: busy (a timeout of 0), timed_out, cancelled, deadlock.
  [[nodiscard]] AcquireResult result() const noexcept;
  /// The name that was waited for in vain; empty when all is held.
  [[nodiscard]] const std::string& missing() const noexcept;
  /// Who waits for whom, when it is a deadlock; the caller comes first.
  [[nodiscard]] const std::vector<DeadlockMember>& circle() const noexcept;
  /// Fencing token of the hold of that name; 0 if there is none.
  [[nodiscard]] std::uint64_t token(std::string_view name) const noexcept;
  /// Who lost that name before, once after a reclaim (C-52).
  [[nodiscard]] std::optional<Previous> previous(std::string_view name) const;
  /// Was one of the holds lost? False may be outdated at once: fence with the tokens where it matters.
  [[nodiscard]] bool lost() const;
  void release() noexcept;

 private:
  friend struct detail::Access;
  struct State;
  explicit MultiHold(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

/// Gets all of it or nothing: any mix of locks and permits of one session. Everybody takes several in one order, by
/// name, and waits in each queue like others do; so no two such calls wait for each other, and nobody is overtaken for
/// ever. While it waits for one name, those before it in the order are taken already: who wants little of them waits
/// too. A caller that holds something else already can still close a circle; then it is told (deadlock), or another one
/// in the circle is.
///
/// Of a semaphore that is named twice the weights add up. Without a timeout it waits for ever; 0 is one try.
///
/// Errors (thrown as Error, nothing is held then): invalid_argument (an empty list, a lock named twice, a handle of
/// another session, more permits than there are), and as of Lock::acquire and Semaphore::acquire. Thread-safe.
/// If the process dies here, at any instruction: nothing stays held.
[[nodiscard]] SHMCOORD_EXPORT MultiHold acquire_all(Session& session, std::span<const Wanted> wanted,
                                                    std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
                                                    const std::stop_token& stop = {});
[[nodiscard]] SHMCOORD_EXPORT MultiHold acquire_all(Session& session, std::initializer_list<Wanted> wanted,
                                                    std::optional<std::chrono::nanoseconds> timeout = std::nullopt,
                                                    const std::stop_token& stop = {});
/// The same without exceptions; an empty MultiHold on an error.
[[nodiscard]] SHMCOORD_EXPORT std::optional<MultiHold> acquire_all(Session& session, std::span<const Wanted> wanted,
                                                                   std::optional<std::chrono::nanoseconds> timeout,
                                                                   const std::stop_token& stop,
                                                                   std::error_code& ec) noexcept;

}  // namespace shmcoord
