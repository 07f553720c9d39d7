#pragma once

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

#include "engine/control.hpp"
#include "engine/name_index.hpp"
#include "engine/wait.hpp"
#include "process/participant.hpp"
#include "shmcoord/lock.hpp"

// One lock as one session uses it: what stands behind every Lock handle of that session on that name, and behind the
// tool's commands.
//
// A Hold is this session's relation to the lock by one holder id (C-50): an entry of the segment and what this process
// knows of it. Holds are kept when they end, so that acquiring again allocates nothing. The mutex guards the list and
// the fields, never a wait: a thread that waits owns its Hold by `busy`, and another thread that names the same holder
// waits for that in turn (it then finds it held, and extends). An implicit Hold belongs to the one thread that uses it.
//
// A name that nobody holds or waits for may be recycled (engine/recycling.hpp) or removed, and be made anew at another
// record. So the record is not part of the client's identity: `ops()` is where the name was last, each Hold keeps the
// record that it was acquired or queued on, and an acquire that finds it closed attaches again. Only who was waiting
// when the name was taken out from under it (a forced removal) is told `name_removed`.
//
// What if we die here: nothing in this file is shared; the entries speak for themselves (engine/control.hpp).

namespace shmcoord::process {

/// An acquire, as the tool and the face ask for it.
struct Request {
  std::string_view holder;  // empty: implicit
  std::optional<std::string_view> reason;
  std::optional<std::chrono::nanoseconds> ttl;
  bool no_lease = false;       // only release, proof of death or the operator ends it (C-51)
  bool detached = false;       // outlives this process
  std::int32_t bound_pid = 0;  // detached: ends with that process of this PID namespace
};

inline constexpr std::int64_t no_deadline = INT64_MAX;
inline constexpr std::int64_t try_once = 0;

struct Hold {
  explicit Hold(const engine::ControlOps<engine::RealPolicy>& on) noexcept : ops(on) {}

  engine::ControlOps<engine::RealPolicy> ops;  // the record that it holds, waits for or was last used on
  std::string holder;
  engine::EntryIndex entry = engine::nil_entry;
  std::uint64_t token = 0;  // of the present hold; valid while `state` is held
  enum class State : std::uint8_t { idle, waiting, held } state = State::idle;
  bool busy = false;       // a thread is inside acquire() with it
  bool told_lost = false;  // on_lost was called for this token
  bool implicit = false;
  bool detached = false;
  bool prepared = false;          // its entry says what the present record's configuration wants
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

class LockClient {
 public:
  /// Attaches to, or creates, the lock; Errors as Lock's constructor.
  LockClient(std::shared_ptr<Participant> participant, std::string_view name, const LockOptions& options);
  /// Attaches to an existing lock; nullptr if there is none.
  static std::unique_ptr<LockClient> find(std::shared_ptr<Participant> participant, std::string_view name);
  ~LockClient();
  LockClient(const LockClient&) = delete;
  LockClient& operator=(const LockClient&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// The record that the name was attached to last. Thread-safe.
  [[nodiscard]] engine::ControlOps<engine::RealPolicy> ops() const noexcept;
  [[nodiscard]] Participant& participant() const noexcept { return *participant_; }

  /// deadline_ns on CLOCK_MONOTONIC, or try_once, or no_deadline.
  AcquireOutcome acquire(const Request& request, std::int64_t deadline_ns, const std::stop_token& stop = {});
  /// How far the wait of that holder is: its place (1 = next), or 0 if it does not wait.
  [[nodiscard]] std::uint32_t place_in_queue(std::string_view holder);
  /// Ends the hold of this session, else of a detached holder of that id (C-50).
  ReleaseOutcome release(std::string_view holder);
  /// Renews when ttl is given.
  HeartbeatOutcome heartbeat(std::string_view holder, std::optional<std::chrono::nanoseconds> ttl = std::nullopt);

  // Implicit holds, for lock() and unlock(): the Hold belongs to one thread at a time.
  Hold& new_implicit();
  /// True: held. False: deadline. Throws like acquire().
  bool lock_implicit(Hold& hold, std::int64_t deadline_ns);
  /// The uncontended path of a Hold that was used before. False: take the long way.
  bool try_fast(Hold& hold) noexcept {
    if (hold.entry == engine::nil_entry || !participant_->usable()) return false;
    const engine::Result r = hold.ops.try_acquire(hold.entry, 1, hold.start_ns());
    if (r.step != engine::Step::acquired) return false;
    hold.token = r.seq;
    hold.state = Hold::State::held;
    if (hold.previous) hold.previous.reset();
    if (engine::unpack_handoff(engine::RealPolicy::load(hold.ops.record().previous)).loss != Loss::none) {
      take_news(hold);
    }
    return true;
  }
  void unlock_implicit(Hold& hold) noexcept;
  /// Ends it for good: releases what it holds.
  void retire_implicit(Hold& hold) noexcept;

  /// Does it stand for nothing: no hold, no wait, no news for a holder?
  [[nodiscard]] bool idle();
  /// Attaches (again), creating the lock if there is none; for every handle of the name. Throws config_differs where an
  /// option is given, now or by an earlier handle, and the lock has another value (C-26).
  void attach(const LockOptions& options);

  /// Queues without waiting; the descriptor becomes readable when the wait is over.
  int wait_fd(const Request& request);
  void cancel_wait(std::string_view holder);

  std::uint64_t on_lost(LostCallback callback);
  void remove_on_lost(std::uint64_t id);

  [[nodiscard]] bool is_current(std::uint64_t token);
  /// Does this session's hold with that token still stand?
  [[nodiscard]] bool stands(std::string_view holder, std::uint64_t token);
  [[nodiscard]] std::optional<HolderInfo> holder();

  /// The operator's last resort: takes the lock from its holder (from that one only, if named). False: free, or other.
  bool force_release(std::string_view holder);
  /// Closes and removes the name. Throws in_use, unless forced.
  static void remove(Participant& participant, std::string_view name, bool force);

 private:
  struct Around;
  struct Busy;
  using Ops = engine::ControlOps<engine::RealPolicy>;
  struct Current {
    Ops ops;
    engine::EntryIndex entry;
    std::uint64_t token;
  };
  struct Seen {
    bool closed;
    std::optional<Current> holder;
  };

  int queue_async(const Request& request);
  [[nodiscard]] const engine::View& view() const noexcept;
  bool make_room() noexcept;
  void attach_again(Hold& hold);
  [[nodiscard]] std::int64_t default_ttl_ns() const noexcept;
  AcquireOutcome acquire_with(Hold& hold, const Request& request, std::int64_t deadline_ns,
                              const std::stop_token& stop);
  void prepare(Hold& hold, const Request& request);
  void require_segment(const Hold& hold, std::uint64_t token);
  AcquireOutcome now_held(Hold& hold, std::uint64_t token, bool robbed);
  AcquireOutcome not_held(AcquireResult result);
  std::optional<AcquireOutcome> extend(Hold& hold, const Request& request);
  engine::Result beat(const Ops& ops, engine::EntryIndex entry, std::uint64_t token,
                      std::optional<std::chrono::nanoseconds> ttl);
  void change_reason(engine::EntryIndex entry, const Request& request);
  Hold* find_hold(std::string_view holder);
  Hold& hold_of(std::string_view holder, bool detached);
  void finish_hold(Hold& hold) noexcept;
  bool settle_loss(Hold& hold);
  Lost lost_text(Loss why);
  void take_news(Hold& hold) noexcept;
  std::optional<Previous> take_previous(const Ops& ops, std::uint64_t token);
  Seen look(const Ops& ops) const;
  std::optional<Current> current();
  std::optional<Current> detached_hold(std::string_view holder);
  HolderInfo describe(engine::EntryIndex entry, std::uint64_t token);
  void set_need(Hold& hold, std::int64_t ttl_ns) noexcept;
  void need_tick();
  void tick();
  [[noreturn]] void fail(engine::Step step) const;

  std::shared_ptr<Participant> participant_;
  std::string name_;
  mutable std::mutex record_mutex_;  // guards the next three; the innermost but for the session's names_mutex()
  Ops ops_;
  engine::LockConfigNs config_;  // as it was when attached: what the name is made with when it is gone
  std::array<std::optional<std::int64_t>, 4> wanted_;  // what handles asked for
  std::mutex mutex_;
  std::condition_variable_any idle_;
  std::vector<std::unique_ptr<Hold>> holds_;
  std::recursive_mutex callbacks_mutex_;  // held while callbacks run: after a removal returned, none runs
  std::vector<std::pair<std::uint64_t, LostCallback>> lost_callbacks_;
  std::uint64_t next_callback_ = 1;
  std::uint64_t tick_id_ = 0;
};

}  // namespace shmcoord::process
