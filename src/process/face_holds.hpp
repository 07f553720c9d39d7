#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "process/face.hpp"

// The holds of calls that name no holder: one for each thread that uses a handle. The first thread gets its own without
// any search; others look theirs up.

namespace shmcoord {

/// What a handle stands for; throws when it was moved from.
template <class State>
State& present(const std::unique_ptr<State>& state) {
  if (!state) throw Error(Errc::invalid_argument, "the handle was moved from: use the one that it was moved to");
  return *state;
}

inline std::int64_t deadline_after(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) return process::no_deadline;
  if (*timeout <= std::chrono::nanoseconds::zero()) return process::try_once;
  const std::int64_t now = engine::RealPolicy::now_ns();
  return timeout->count() > process::no_deadline - now ? process::no_deadline : now + timeout->count();
}

inline process::Request request_of(const HolderId& holder, std::uint32_t weight, const AcquireOptions& options) {
  process::Request r;
  r.holder = holder.str();
  r.weight = weight;
  r.reason = options.reason;
  r.ttl = options.ttl;
  r.gives_up = options.gives_up;
  return r;
}

// Tells threads of this process apart without a call. Initial-exec: one instruction, also from a shared library.
inline const void* this_thread() noexcept {
  static thread_local char mark __attribute__((tls_model("initial-exec")));
  return &mark;
}

class ThreadHolds {
 public:
  using Hold = process::Hold;

  explicit ThreadHolds(process::PrimitiveClient& client) noexcept : client_(client) {}
  ThreadHolds(const ThreadHolds&) = delete;
  ThreadHolds& operator=(const ThreadHolds&) = delete;

  /// Gives all back.
  ~ThreadHolds() {
    if (client_.participant().forked()) return;
    if (first_hold_ != nullptr) client_.retire_implicit(*first_hold_);
    for (const auto& [thread, hold] : others_) client_.retire_implicit(*hold);
  }

  /// This thread's, made if it has none yet.
  Hold& mine() {
    if (first_thread_is(this_thread())) return *first_hold_;
    client_.participant().require_not_forked();
    const std::scoped_lock lock(mutex_);
    if (first_hold_ == nullptr) {
      first_hold_ = &client_.new_implicit();
      first_thread_ = this_thread();
      engine::RealPolicy::store(first_known_, 1);
      return *first_hold_;
    }
    for (const auto& [thread, hold] : others_) {
      if (thread == this_thread()) return *hold;
    }
    // A thread that ended may have left its Hold; its mark is another thread's now, or nobody's.
    return *others_.emplace_back(this_thread(), &client_.new_implicit()).second;
  }

  /// The one that an unlock means: this thread's, else whichever holds (acquired in one thread, released in another).
  Hold* held() {
    if (first_thread_is(this_thread()) && first_hold_->state == Hold::State::held) return first_hold_;
    if (client_.participant().forked()) return nullptr;
    const std::scoped_lock lock(mutex_);
    const auto is_held = [](const Hold* h) { return h != nullptr && h->state == Hold::State::held; };
    for (const auto& [thread, hold] : others_) {
      if (thread == this_thread() && is_held(hold)) return hold;
    }
    if (is_held(first_hold_)) return first_hold_;
    for (const auto& [thread, hold] : others_) {
      if (is_held(hold)) return hold;
    }
    return nullptr;
  }

  /// This thread's if it can be used to lock; throws if the thread holds already.
  Hold& to_lock() {
    Hold& hold = mine();
    if (hold.state == Hold::State::held) {
      if (hold.ops.holds(hold.entry, hold.token) && client_.participant().usable()) {
        throw Error(Errc::deadlock, "this thread holds " + client_.title() + " already");
      }
      client_.unlock_implicit(hold);  // lost, and nobody asked
    }
    return hold;
  }

  void lock(std::uint32_t weight) {
    Hold& hold = to_lock();
    if (client_.try_fast(hold, weight)) return;
    client_.require_no_deadlock(client_.acquire_implicit(hold, weight, process::no_deadline));
  }
  /// False: not within the time, or this thread holds already.
  bool lock_within(std::uint32_t weight, std::chrono::nanoseconds timeout) {
    Hold& hold = mine();
    if (hold.state == Hold::State::held) return false;
    if (client_.try_fast(hold, weight)) return true;
    const process::Answer answer = client_.acquire_implicit(hold, weight, deadline_after(timeout));
    client_.require_no_deadlock(answer);
    return static_cast<bool>(answer);
  }
  void unlock() noexcept {
    if (Hold* const hold = held()) client_.unlock_implicit(*hold);
  }

  [[nodiscard]] std::uint64_t token() noexcept {
    const Hold* const hold = held();
    return hold == nullptr ? 0 : hold->token;
  }
  [[nodiscard]] bool lost() {
    const Hold* const hold = held();
    if (hold == nullptr) return false;
    return !client_.participant().usable() || !hold->ops.holds(hold->entry, hold->token);
  }
  [[nodiscard]] std::optional<Previous> previous() {
    const Hold* const hold = held();
    return hold == nullptr ? std::nullopt : hold->previous;
  }

 private:
  [[nodiscard]] bool first_thread_is(const void* thread) const noexcept {
    return engine::RealPolicy::load(first_known_) != 0 && first_thread_ == thread;
  }

  process::PrimitiveClient& client_;
  const void* first_thread_ = nullptr;
  Hold* first_hold_ = nullptr;
  engine::Word32 first_known_;  // set after the two above, which then never change
  std::mutex mutex_;
  std::vector<std::pair<const void*, Hold*>> others_;
};

}  // namespace shmcoord
