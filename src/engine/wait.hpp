#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "engine/control.hpp"

// Waiting for a queued entry to be granted: a short adaptive spin at the head of the queue, else sleep.
//
// Who is called and still has to wait spins again for a moment: where holds are short, whoever releases calls the one
// behind its grantee as well (ControlOps::call_ahead), so that a wake-up takes place during the hold before and not
// between two holds.
//
// A sleeper sleeps with one futex_waitv on its own wake word (a grant, a changed predecessor, a stop request), and on
// the life words of those whose deaths concern it: of its predecessor in the queue, or, at the head, of up to four
// holders (the keepers' ring sees the others). Nothing is re-armed when the predecessor is granted: the same process is
// watched then. So every death in the chain wakes exactly the one behind it, who buries the dead and looks again.
//
// No wake-up is lost: the waiter sets its wake word to `parked`, then looks at everything (fence), then sleeps on that
// value; a waker changes what there is to see, then the wake word. Should a waker be killed in between, the sleeper
// wakes by its 1 s re-check, which also finishes the word, settles it and judges the holders' leases, in case nobody
// else does.
//
// If we die here: the entry is `waiting` in the word; whoever buries our session cancels it through the word.

namespace shmcoord::engine {

enum class WaitEnd : std::uint8_t {
  granted,
  timed_out,
  stopped,
  impossible,  // it waits for more than there is: the capacity became smaller
  deadlock,    // it waits for somebody who waits for its caller
  closed,
  unusable,
};

/// How long to spin before sleeping, learnt from what happened last. Not shared between threads without care: a wrong
/// value costs time only.
struct SpinBudget {
  static constexpr std::uint32_t most = 400;  // pauses: about the cost of going to sleep and being woken
  static constexpr std::uint32_t least = 10;
  static constexpr std::uint32_t in_a_row = 16;  // then others may run who want this CPU
  std::uint32_t pauses = 100;                    // 0: never

  constexpr void learn(bool spin_was_enough) noexcept {
    pauses = spin_was_enough ? std::min(most, pauses + pauses / 4 + 1) : std::max(least, pauses - pauses / 8);
  }
};

/// A process that is killed lets go of its byte lock some ten microseconds after the notice, and no sleep is that
/// short.
inline constexpr std::uint32_t confirm_polls = 300;
inline constexpr std::int64_t recheck_ns = 1'000'000'000;
inline constexpr std::int64_t without_waitv_recheck_ns = 50'000'000;

/// No event tells that a dying process let go of its byte lock, so it is asked again: each pause is a sixteenth of the
/// time that has passed, so that nobody waits much too long, and a command that outlives its `run` costs nothing.
constexpr std::int64_t confirm_pause(std::int64_t elapsed_ns) noexcept {
  return std::clamp<std::int64_t>(elapsed_ns / 16, 10'000, 1'000'000'000);
}

/// Whose life words a waiter sleeps on.
class Watched {
 public:
  static constexpr std::size_t most = 4;  // a futex_waitv of five words costs little more than of two
  explicit Watched(SlotIndex self) noexcept : self_(self) {}

  /// Whoever owns the entry just now, if that is somebody else, and there is room.
  void add(const View& view, std::uint64_t owner) noexcept {
    if (owner == 0 || count_ == most) return;
    const SlotIndex slot = unpack_owner(owner).slot;
    if (slot == detached_slot || slot == self_ || !view.slot_exists(slot)) return;
    if (std::find(begin(), end(), slot) == end()) slots_[count_++] = slot;
  }
  [[nodiscard]] const SlotIndex* begin() const noexcept { return slots_.data(); }
  [[nodiscard]] const SlotIndex* end() const noexcept { return slots_.data() + count_; }

 private:
  SlotIndex self_;
  std::array<SlotIndex, most> slots_{};
  std::size_t count_ = 0;
};

/// `Surroundings` is what the process layer knows:
///   bool bury(SlotIndex, elapsed_ns)  a life word says that the session died: confirm it and release what it had.
///                                     False: not confirmed yet, ask again soon. True only when the wait is over, or
///                                     nothing names the dead session as the owner of an entry any more, since it is
///                                     asked at once again.
///   std::int64_t check_holders(ops, watched)
///                                     reclaim holds whose lease ran out, and add those who hold to the watched;
///                                     returns when to ask again (CLOCK_MONOTONIC).
///   bool stop_requested()             the caller wants to leave.
///   bool deadlocked()                 the wait was found to be for ever, and is the one to end.
///   bool usable()                     the own session lives and the segment is still there.
///   SlotIndex self()                  the own slot, which is not watched.
template <class P, class Surroundings>
class Waiter {
 public:
  Waiter(const ControlOps<P>& ops, EntryIndex entry, Surroundings& around) noexcept
      : ops_(ops), view_(ops.view()), i_(entry), e_(view_.entry(entry)), around_(around) {}

  /// Returns when the entry is held, or why it was given up; then the caller cancels it (and may find it granted after
  /// all).
  WaitEnd wait(std::int64_t deadline_ns, SpinBudget& spin) noexcept {
    std::uint32_t polls = 0;      // of a death that is not confirmed yet
    std::int64_t noticed_ns = 0;  // != 0: when a death was noticed that is not confirmed yet
    bool due = false;             // the last sleep ran its full time: look after what nobody may have told us
    bool soon = ops_.head_of(ops_.load()).entry == i_;  // it may be over before a sleep would have begun
    for (;;) {
      if (soon && is_over_soon(spin)) return outcome();
      if (P::keeps(Safety::park_before_look)) P::store(e_.wake, wake_parked);
      P::fence();  // parked before everything is looked at; pairs with Finisher::call
      const WaitEnd end = look(deadline_ns);
      if (end != still_waiting) {
        P::store(e_.wake, wake_awake);
        return end;
      }
      if (!P::keeps(Safety::park_before_look)) P::store(e_.wake, wake_parked);
      std::array<WaitOn, 1 + Watched::most> words{WaitOn{&e_.wake, wake_parked}};
      std::size_t count = 1;
      std::int64_t until = P::keeps(Safety::waiter_looks_again) ? P::now_ns() + recheck_ns : deadline_ns;
      const core::Control c = ops_.load();
      ops_.finish(c);
      const bool head = ops_.head_of(c).entry == i_;
      Watched watched(around_.self());
      if (due && P::keeps(Safety::waiter_settles)) ops_.settle();
      if ((head || due) && P::keeps(Safety::waiter_judges)) {
        until = std::min(until, around_.check_holders(ops_, watched));
      }
      watch_before(head, watched);
      bool buried = false;
      bool unconfirmed = false;
      for (const SlotIndex slot : watched) {
        if (!P::keeps(Safety::waiter_watches) || (count > 1 && !P::keeps(Safety::head_watches_holders))) break;
        Word32& life = view_.slot(slot).life;
        const std::uint32_t seen = P::load(life);
        if ((seen & life_died) == 0) {
          words[count++] = WaitOn{&life, seen};
          continue;
        }
        if (P::keeps(Safety::waiter_tells_others)) P::wake(life);  // the kernel woke one
        const std::int64_t now = P::now_ns();
        if (noticed_ns == 0) noticed_ns = now;
        if (around_.bury(slot, now - noticed_ns)) {
          buried = true;
        } else {
          unconfirmed = true;
          until = std::min(until, now + confirm_pause(now - noticed_ns));
        }
      }
      if (!unconfirmed) noticed_ns = polls = 0;
      if (buried) continue;
      if (unconfirmed && spin.pauses != 0 && polls < confirm_polls) {
        ++polls;
        P::yield();
        continue;
      }
      const Woken how = P::wait(std::span(words.data(), count), std::min(until, deadline_ns));
      due = how == Woken::timed_out && noticed_ns == 0;
      if (how == Woken::unsupported && P::keeps(Safety::waiter_without_waitv)) {
        P::wait(std::span(words.data(), 1), std::min({until, deadline_ns, P::now_ns() + without_waitv_recheck_ns}));
        due = true;
      }
      soon = P::load(e_.wake) == wake_called;
      if (soon) P::store(e_.wake, wake_awake);
    }
  }

  /// For a stop callback of another thread: makes the waiter look again.
  static void interrupt(Entry& e) noexcept { Finisher<P>::call(e); }

 private:
  static constexpr auto still_waiting = static_cast<WaitEnd>(255);

  [[nodiscard]] bool waiting() const noexcept {
    const Phase phase = ops_.status(i_).phase;
    return phase == Phase::waiting || phase == Phase::prepared;  // prepared: queued, and not finished yet
  }

  // On one CPU, or with more who wait than CPUs, others have to run for it to be over.
  [[nodiscard]] bool is_over_soon(SpinBudget& spin) const noexcept {
    for (std::uint32_t n = 1; n <= spin.pauses; ++n) {
      if (!waiting()) {
        spin.learn(true);
        return true;
      }
      n % SpinBudget::in_a_row == 0 ? P::yield() : P::pause();
    }
    if (spin.pauses != 0) spin.learn(false);
    return false;
  }

  // What ended the wait, once the entry is neither waiting nor prepared. Who was let in lets in whoever fits as well:
  // the one who granted may have died before it went on.
  [[nodiscard]] WaitEnd outcome() const noexcept {
    const core::Control c = ops_.load();
    const bool more = c.tail != nil_entry && c.used < ops_.capacity();
    if (more && P::keeps(Safety::granted_settles)) ops_.settle();
    const Status s = ops_.status(i_);
    if (s.phase == Phase::held || s.phase == Phase::marked || s.phase == Phase::lost) return WaitEnd::granted;
    // Others took it out of the queue: with all that its session has, by force, or because it would have waited for
    // ever.
    if (!around_.usable()) return WaitEnd::unusable;
    const Handoff why = unpack_handoff(P::load(e_.handoff));
    const std::uint64_t seq = seq_of_stamp(s.stamp, P::load_seq(ops_.record().control));
    const bool forced = why.loss != Loss::none && why.stamp == handoff_stamp(ops_.index(), seq);
    return forced ? WaitEnd::closed : WaitEnd::impossible;
  }

  [[nodiscard]] WaitEnd look(std::int64_t deadline_ns) const noexcept {
    if (!waiting()) return outcome();
    if (around_.stop_requested()) return WaitEnd::stopped;
    if (!around_.usable()) return WaitEnd::unusable;
    if (ops_.need_of(i_) > ops_.capacity() && P::keeps(Safety::waiter_knows_its_need)) return WaitEnd::impossible;
    if (around_.deadlocked()) return WaitEnd::deadlock;
    if (P::now_ns() >= deadline_ns) return WaitEnd::timed_out;
    return still_waiting;
  }

  void watch_before(bool head, Watched& watched) const noexcept {
    EntryIndex before = unpack_link(P::load(e_.prev)).entry;
    // An acquire that is not finished is hardly ever the word's last operation: none follows while somebody waits (I3),
    // but for an upgrade, whose owner finishes it.
    if (head) before = unpack_link(P::load(ops_.record().holder)).entry;
    if (before != nil_entry && view_.entry_exists(before)) watched.add(view_, P::load(view_.owner_of(before)));
  }

  const ControlOps<P>& ops_;
  const View& view_;
  EntryIndex i_;
  Entry& e_;
  Surroundings& around_;
};

}  // namespace shmcoord::engine
