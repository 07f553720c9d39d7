#pragma once

#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "engine/chunks.hpp"
#include "engine/control.hpp"
#include "engine/name_index.hpp"
#include "engine/wait.hpp"
#include "process/liveness.hpp"
#include "process/participant.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/lock.hpp"
#include "shmcoord/semaphore.hpp"

// One lock or semaphore as one session uses it: what stands behind every handle of that session on that name, and
// behind the tool's commands. A lock is a semaphore of which everybody takes all that there is; who shares it takes
// one.
//
// A Hold is this session's relation to it by one holder id (C-50): an entry of the segment and what this process knows
// of it. Holds are kept when they end, so that acquiring again allocates nothing. The mutex guards the list and the
// fields, never a wait: a thread that waits owns its Hold by `busy`, and another thread that names the same holder
// waits for that in turn (it then finds it held, and extends). An implicit Hold belongs to the one thread that uses it.
//
// Who has less than it asks for gets the rest by a Hold of its own, a `part`: tried or queued like any other, and
// merged into the first one once it is held. Should that be lost or released meanwhile, all of it is acquired anew.
//
// A name that nobody holds or waits for may be recycled (engine/recycling.hpp) or removed, and be made anew at another
// record. So the record is not part of the client's identity: `ops()` is where the name was last, each Hold keeps the
// record that it was acquired or queued on, and an acquire that finds it closed attaches again. Only who was waiting
// when the name was taken out from under it (a forced removal) is told `name_removed`.
//
// What if we die here: nothing in this file is shared; the entries speak for themselves (engine/control.hpp).

namespace shmcoord::process {

/// All of a lock: it is made with the largest capacity, so that it can be shared by anybody.
inline constexpr std::uint32_t whole_lock = core::max_capacity;
inline constexpr std::uint32_t shared_lock = 1;

/// An acquire, as the tool and the face ask for it.
struct Request {
  std::string_view holder;  // empty: implicit
  std::uint32_t weight = whole_lock;
  std::optional<std::string_view> reason;
  std::optional<std::chrono::nanoseconds> ttl;
  bool no_lease = false;                         // only release, proof of death or the operator ends it (C-51)
  bool detached = false;                         // outlives this process
  std::int32_t bound_pid = 0;                    // detached: ends with that process of this PID namespace
  bool gives_up = false;                         // of wait_fd(): as if it had a deadline
  bool for_detached = false;                     // of a part: what it is part of is detached
  std::uint32_t beside = 0;                      // of a part: what the holder has already
  engine::EntryIndex whole = engine::nil_entry;  // and where: not to be robbed for its own sake (C-10)
};

/// What an acquire came to.
struct Answer : AcquireOutcome {
  std::uint32_t weight = 0;     // what the holder has now
  std::uint32_t available = 0;  // not held: what is free just now
  bool increased = false;
  bool impossible = false;  // not held, and never: more than the capacity

  /// Of a lock there is no more to say.
  [[nodiscard]] AcquireOutcome of_a_lock() && {
    AcquireOutcome& outcome = *this;
    return std::move(outcome);
  }
  [[nodiscard]] PermitOutcome of_a_semaphore() &&;
};

/// What a release came to.
struct Return : ReleaseOutcome {
  std::uint32_t weight = 0;  // given back

  /// Of a lock there is no more to say.
  [[nodiscard]] ReleaseOutcome of_a_lock() && {
    ReleaseOutcome& outcome = *this;
    return std::move(outcome);
  }
};

/// A hold that was taken away.
struct Taken : PermitHolder {
  Loss why = Loss::none;
};

/// The same in the words of a semaphore.
[[nodiscard]] constexpr PermitResult permit_result(const Answer& answer) noexcept {
  switch (answer.result) {
    case AcquireResult::acquired:
    case AcquireResult::reclaimed: return answer.increased ? PermitResult::increased : PermitResult::acquired;
    case AcquireResult::extended: return PermitResult::already_held;
    case AcquireResult::busy: return PermitResult::full;
    case AcquireResult::timed_out: return PermitResult::timed_out;
    case AcquireResult::cancelled: return PermitResult::cancelled;
    case AcquireResult::deadlock: return PermitResult::deadlock;
  }
  return PermitResult::full;
}

inline PermitOutcome Answer::of_a_semaphore() && {
  return {permit_result(*this), weight, available, token, std::move(previous), std::move(circle)};
}

/// What a name is made with, or must agree with.
struct NameOptions {
  engine::Kind kind = engine::Kind::lock;
  std::optional<std::uint32_t> capacity = {};
  std::optional<std::uint32_t> per_session = {};
  LockOptions lease = {};
  bool joins = true;  // a quota: brings a share
};

/// Error(not_found) that says what to do.
[[nodiscard]] Error no_such_name(engine::Kind kind, std::string_view name, const std::string& segment);

inline constexpr std::int64_t no_deadline = INT64_MAX;
inline constexpr std::int64_t try_once = 0;

/// Of the kernel, for people, and to tell the threads of a session apart. A forked child goes on with its parent's.
inline std::uint32_t this_thread_id() noexcept {
  static thread_local std::uint32_t id __attribute__((tls_model("initial-exec"))) = 0;
  if (id == 0) id = static_cast<std::uint32_t>(::gettid());
  return id;
}

struct Hold {
  explicit Hold(const engine::ControlOps<engine::RealPolicy>& on) noexcept : ops(on) {}

  engine::ControlOps<engine::RealPolicy> ops;  // the record that it holds, waits for or was last used on
  std::string holder;
  engine::EntryIndex entry = engine::nil_entry;
  std::uint32_t weight = 0;  // that the entry says, held or not
  std::uint32_t thread = 0;  // likewise: who prepared it
  std::uint64_t token = 0;   // of the present hold; valid while `state` is held
  enum class State : std::uint8_t { idle, waiting, held } state = State::idle;
  bool busy = false;           // a thread is inside acquire() with it
  bool told_lost = false;      // on_lost was called for this token
  bool told_deadlock = false;  // `fd` was made readable for it
  bool implicit = false;
  bool detached = false;
  bool part = false;              // what another Hold of this holder is to get in addition
  bool prepared = false;          // its entry says what the present record's configuration wants
  bool timed = false;             // its entry says that its wait ends by itself
  bool start_is_judged = false;   // by a maximum, a ttl, or as the only sign of life that there is
  int fd = -1;                    // eventfd of wait_fd()
  std::int64_t beat_need_ns = 0;  // what the keeper was asked for because of a ttl
  std::optional<Loss> lost;       // news for the holder's next call
  std::optional<Previous> previous;
  engine::SpinBudget spin;

  /// When a hold that is acquired now begins. The coarse clock is cheap, but on a busy virtual machine it lies back by
  /// ten milliseconds and more, and nobody may be robbed that much too early.
  [[nodiscard]] std::int64_t start_ns() const noexcept {
    return start_is_judged ? engine::RealPolicy::now_ns() : engine::RealPolicy::coarse_now_ns();
  }
};

using LostCallback = std::function<void(const HolderId&, const Lost&)>;

class PrimitiveClient {
 public:
  /// Attaches to, or creates, the lock or semaphore; Errors as of the handles' constructors.
  PrimitiveClient(std::shared_ptr<Participant> participant, std::string_view name, const NameOptions& options);
  /// Attaches to an existing one; nullptr if there is none.
  static std::unique_ptr<PrimitiveClient> find(std::shared_ptr<Participant> participant, std::string_view name,
                                               engine::Kind kind = engine::Kind::lock);
  ~PrimitiveClient();
  PrimitiveClient(const PrimitiveClient&) = delete;
  PrimitiveClient& operator=(const PrimitiveClient&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] engine::Kind kind() const noexcept { return kind_; }
  /// "lock 'deploy'", for messages.
  [[nodiscard]] std::string title() const;
  /// The record that the name was attached to last. Thread-safe.
  [[nodiscard]] engine::ControlOps<engine::RealPolicy> ops() const noexcept;
  [[nodiscard]] Participant& participant() const noexcept { return *participant_; }

  /// deadline_ns on CLOCK_MONOTONIC, or try_once, or no_deadline.
  Answer acquire(const Request& request, std::int64_t deadline_ns, const std::stop_token& stop = {});
  /// How far the wait of that holder is: its place (1 = next), or 0 if it does not wait.
  [[nodiscard]] std::uint32_t place_in_queue(std::string_view holder);
  /// Ends the hold of this session, else of a detached holder of that id (C-50).
  Return release(std::string_view holder);
  /// Renews when ttl is given.
  HeartbeatOutcome heartbeat(std::string_view holder, std::optional<std::chrono::nanoseconds> ttl = std::nullopt);

  // Implicit holds, for lock() and unlock(): the Hold belongs to one thread at a time.
  Hold& new_implicit();
  /// Throws like acquire().
  Answer acquire_implicit(Hold& hold, std::uint32_t weight, std::int64_t deadline_ns, const std::stop_token& stop = {});
  /// For those who have no answer to give: throws Error(deadlock) if it is one.
  void require_no_deadlock(const Answer& answer) const;
  /// The uncontended path of a Hold that was used before, with the same weight. False: take the long way.
  bool try_fast(Hold& hold, std::uint32_t weight) noexcept {
    const bool prepared = hold.weight == weight && hold.thread == this_thread_id() && hold.entry != engine::nil_entry;
    if (!prepared || !participant_->usable()) return false;
    const engine::Result r = hold.ops.try_acquire(hold.entry, weight, hold.start_ns());
    if (r.step != engine::Step::acquired) return false;
    hold.token = r.seq;
    hold.state = Hold::State::held;
    if (hold.previous) hold.previous.reset();
    if (engine::unpack_handoff(engine::RealPolicy::load(hold.ops.record().previous)).loss != Loss::none) {
      take_news(hold);
    }
    return true;
  }
  /// One who holds a weight gets the rest of the lock before all others who wait.
  Answer upgrade_implicit(Hold& hold, std::int64_t deadline_ns);
  /// And keeps `weight` of it. Throws Error session_dead or segment_gone when the hold was lost.
  void shrink_implicit(Hold& hold, std::uint32_t weight);
  void unlock_implicit(Hold& hold) noexcept;
  /// Ends it for good: releases what it holds.
  void retire_implicit(Hold& hold) noexcept;

  /// Does it stand for nothing: no hold, no wait, no news for a holder?
  [[nodiscard]] bool idle();
  /// Attaches (again), creating it if there is none; for every handle of the name. Throws config_differs where an
  /// option is given, now or by an earlier handle, and the name has another value; not_found where there is no
  /// semaphore, and nothing to make it with (C-26).
  void attach(const NameOptions& options);

  /// Queues without waiting; the descriptor becomes readable when the wait is over.
  int wait_fd(const Request& request);
  void cancel_wait(std::string_view holder);

  std::uint64_t on_lost(LostCallback callback);
  void remove_on_lost(std::uint64_t id);

  [[nodiscard]] bool is_current(std::uint64_t token);
  /// Does this session's hold with that token still stand?
  [[nodiscard]] bool stands(std::string_view holder, std::uint64_t token);
  [[nodiscard]] std::optional<HolderInfo> holder();
  /// All of them, those of the least recent acquire first.
  [[nodiscard]] std::vector<PermitHolder> holders();
  struct Amounts {
    std::uint32_t capacity;
    std::uint32_t used;
    [[nodiscard]] std::uint32_t available() const noexcept { return capacity > used ? capacity - used : 0; }
  };
  /// Throws name_removed when it is gone.
  [[nodiscard]] Amounts amounts();
  /// Why so many permits can never be had, and what to do.
  [[nodiscard]] std::string too_much_text(std::uint32_t weight);

  void resize(std::uint32_t capacity);
  /// Takes away what is proven lost or lapsed; but not from this session's holder of that id.
  std::vector<Taken> take_lost(std::string_view but_not = {});

  /// The operator's last resort: takes it from its holders (from that one only, if named). False: free, or other.
  bool force_release(std::string_view holder);
  /// Closes and removes the name. Throws in_use, unless forced; wrong_type, if it is none of that kind.
  static void remove(Participant& participant, std::string_view name, bool force,
                     engine::Kind kind = engine::Kind::lock);

 private:
  struct Around;
  /// Ends `busy` of a Hold that the caller made busy.
  struct Busy {
    Busy(PrimitiveClient& of, Hold& which) noexcept : client(of), hold(which) {}
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    ~Busy() {
      const std::scoped_lock lock(client.mutex_);
      hold.busy = false;
      client.idle_.notify_all();
    }

    PrimitiveClient& client;
    Hold& hold;
  };
  using Ops = engine::ControlOps<engine::RealPolicy>;
  struct Current {
    Ops ops;
    engine::EntryIndex entry;
    std::uint64_t token;
  };
  struct Seen {
    bool closed;
    std::optional<Current> holder;  // who has all that is in use
    bool more = false;              // several hold; `holder` is none of them
  };

  int queue_async(const Request& request);
  bool end_wait(Hold& hold) noexcept;
  [[nodiscard]] const engine::View& view() const noexcept;
  bool make_room() noexcept;
  void attach_again(Hold& hold);
  [[nodiscard]] std::int64_t default_ttl_ns() const noexcept;
  Answer acquire_with(Hold& hold, const Request& request, std::int64_t deadline_ns, const std::stop_token& stop);
  engine::Result start(Hold& hold, const Request& request, bool queue) const noexcept;
  std::optional<Answer> extend_detached(const Request& request, std::int64_t deadline_ns, const std::stop_token& stop);
  Answer increase(Hold& hold, const Request& request, std::int64_t deadline_ns, const std::stop_token& stop);
  std::optional<Answer> add_part(const Current& whole, const Request& request, std::int64_t deadline_ns,
                                 const std::stop_token& stop);
  void prepare(Hold& hold, const Request& request, bool timed);
  [[nodiscard]] bool has_segment(std::int64_t queued_ns) const noexcept;
  Answer now_held(Hold& hold, std::uint64_t token, bool robbed);
  Answer not_held(const Hold& hold, AcquireResult result, bool impossible = false);
  Answer denied(const Hold& hold, bool impossible);
  std::optional<Answer> extend(Hold& hold, const Request& request);
  engine::Result beat(const Ops& ops, engine::EntryIndex entry, std::uint64_t token,
                      std::optional<std::chrono::nanoseconds> ttl);
  void change_reason(engine::EntryIndex entry, const Request& request);
  Hold* find_hold(std::string_view holder);
  Hold& hold_of(std::string_view holder, bool detached, bool part = false);
  void finish_hold(Hold& hold) noexcept;
  bool settle_loss(Hold& hold);
  Lost lost_text(Loss why);
  void take_news(Hold& hold) noexcept;
  std::optional<Previous> take_previous(const Ops& ops, std::uint64_t token);
  bool join_quota();
  Seen look(const Ops& ops) const;
  /// Calls fn(Current) for each; a single holder of everything is found without a search. False: closed.
  template <class Fn>
  bool each_holder(const Ops& ops, Fn&& fn) const;
  /// Of whatever has the name now; of nothing when it is gone.
  template <class Fn>
  void each_present_holder(Fn&& fn) const;
  std::optional<Current> current() const;
  std::optional<Current> detached_hold(std::string_view holder);
  HolderInfo describe(engine::EntryIndex entry, std::uint64_t token);
  void set_need(Hold& hold, std::int64_t ttl_ns) noexcept;
  void need_tick();
  void tick();
  [[nodiscard]] bool is_dead(const Current& holder, Look look) const;
  bool rob_one(const Current& holder, std::int64_t now_ns, Look look);
  bool searches_now(std::int64_t now_ns) noexcept;
  [[noreturn]] void fail(engine::Step step) const;
  [[nodiscard]] std::string make_anew_text() const;
  [[noreturn]] void throw_lost() const;

  std::shared_ptr<Participant> participant_;
  std::string name_;
  const engine::Kind kind_;
  mutable std::mutex record_mutex_;  // guards the next five; the innermost but for the session's names_mutex()
  Ops ops_;
  engine::NameConfigNs config_;  // as it was when attached: what the name is made with when it is gone
  std::array<std::optional<std::int64_t>, 6> wanted_;  // what handles asked for
  bool joins_ = false;                                 // a quota: with a share
  engine::EntryIndex share_ = engine::nil_entry;
  std::mutex mutex_;
  std::condition_variable_any idle_;
  std::vector<std::unique_ptr<Hold>> holds_;
  std::recursive_mutex callbacks_mutex_;  // held while callbacks run: after a removal returned, none runs
  std::vector<std::pair<std::uint64_t, LostCallback>> lost_callbacks_;
  std::uint64_t next_callback_ = 1;
  std::uint64_t tick_id_ = 0;
  engine::Word64 searched_ns_;  // when a waiter that is not the head searched for all holders last
};

template <class Fn>
bool PrimitiveClient::each_holder(const Ops& ops, Fn&& fn) const {
  const Seen seen = look(ops);
  if (seen.closed) return false;
  if (seen.holder) fn(*seen.holder);
  if (!seen.more) return true;
  engine::Chunks<engine::RealPolicy>(view()).for_each([&](std::uint32_t chunk, std::uint64_t) {
    for (engine::EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
      const engine::EntryIndex entry = chunk * engine::entries_per_chunk + n;
      const engine::Status s = ops.status(entry);
      const bool held = s.phase == engine::Phase::held || s.phase == engine::Phase::marked;
      if (!held || s.record != ops.index()) continue;
      fn(Current{ops, entry, engine::seq_of_stamp(s.stamp, engine::RealPolicy::load_seq(ops.record().control))});
    }
  });
  return true;
}

template <class Fn>
void PrimitiveClient::each_present_holder(Fn&& fn) const {
  for (Ops now = ops();;) {
    if (each_holder(now, fn)) return;
    const auto found = engine::NameIndex<engine::RealPolicy>(view()).find(name_);
    if (!found) return;
    now = Ops(view(), found->record, found->generation);
  }
}

}  // namespace shmcoord::process
