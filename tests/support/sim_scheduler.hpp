#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/sim_memory.hpp"

// The deterministic scheduler: real code, simulated processes, every interleaving to a bound.
//
// A *scenario* is memory, a few tasks (processes) over SimPolicy, and a check for the end. Every operation of SimPolicy
// on a word is a scheduling point: there the running task may go on, be preempted, or die. explore() walks all choices
// depth first within the bounds; sample() takes random ones beyond them. A preemption lasts as long as it likes: the
// task goes on when it is chosen again, perhaps only when all others have ended.
//
// Memory. Sequentially consistent, unless `stale_loads` is set: then so many loads of a schedule may return an older
// value, wherever the orders that the engine asked for allow it (sim_memory.hpp). x86 hides most of that; the orders
// are what the code promises, and a wrong one is found here.
//
// How the number of schedules is kept down, without losing any behaviour within the bounds:
//   - Only words that more than one task touches, at least one of them writing, are points of choice. Which ones is
//   learnt:
//     the exploration starts anew when a word turns out to be shared.
//   - A state that was seen is not explored again. All that a task knows is a function of what its operations returned,
//   so
//     (what the words hold, what each task has been told so far, who runs) is the state, whatever path led to it. That
//     needs a little discipline of a scenario: what tasks share beside words is a Plain<T>.
// A seen state is recognised by 60 bits of hash; two different ones are taken for equal about once in 10^5 explorations
// of ten million states.
//
// Death: the task just never runs again, its stack is not unwound. What lives on a task's stack across an operation
// must own nothing. A task that sleeps in wait() dies by dying just before, which no other task can tell from the real
// thing. Time: stands still while anybody can run, then jumps to the earliest deadline. Bounds that keep an exploration
// honest: a jump beyond `stall_after_ns` is reported (somebody needed a time-out to notice what it should have been
// told).

namespace shmcoord::sim {

using TaskIndex = unsigned;
inline constexpr unsigned max_tasks = 8;

/// Under a sanitizer a schedule costs some fifty times as much, and much where branches are counted: tests take fewer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SHMCOORD_COUNTS_BRANCHES)
inline constexpr bool instrumented = true;
#elif defined(__has_feature)
inline constexpr bool instrumented = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool instrumented = false;
#endif

/// How a trace shows the value of a word.
using Format = std::string (*)(std::uint64_t);

struct Options {
  unsigned preemptions = 2;          // how often a task that could go on is interrupted; explore() only
  unsigned deaths = 0;               // of mortal tasks
  unsigned early_timeouts = 0;       // how often a wait with a deadline ends although others could still run
  unsigned stale_loads = 0;          // how often a load returns an older value than the newest that it may see
  Without without{};                 // for canaries, with stale_loads
  std::uint64_t max_steps = 20'000;  // of one schedule; more is a livelock
  std::uint64_t max_schedules = 50'000'000;
  std::int64_t stall_after_ns = 500'000'000;
  bool several_words = true;  // does wait() take more than one word? (futex_waitv)
};

struct Failure {
  std::string what;
  std::string trace;   // step by step
  std::string replay;  // how to see it again
};

struct Report {
  std::uint64_t schedules = 0;  // runs, also those cut short at a state that was seen
  std::uint64_t steps = 0;
  std::uint64_t states = 0;  // distinct ones at points of choice
  bool exhausted = false;    // every schedule within the bounds was covered
  double seconds = 0;        // of CPU time
  std::optional<Failure> failure;

  [[nodiscard]] std::string text() const;
};

class Scenario {
 public:
  /// Makes the memory as new, at the same addresses every time.
  void on_start(std::function<void()> reset) { reset_ = std::move(reset); }
  /// Judges the end, when every task has finished or died. Uses require(); may use SimPolicy, which then just acts.
  void at_end(std::function<void()> check) { check_ = std::move(check); }
  TaskIndex task(std::string name, std::function<void()> body);
  /// A task that may be killed, as often as Options::deaths allows in all.
  TaskIndex mortal(std::string name, std::function<void()> body);
  /// For traces.
  void name(const void* word, std::string text, Format format = nullptr);

 private:
  friend class Scheduler;
  struct Task {
    std::string name;
    std::function<void()> body;
    bool mortal = false;
  };
  struct Name {
    const void* word;
    std::string text;
    Format format;
  };
  std::function<void()> reset_;
  std::function<void()> check_;
  std::vector<Task> tasks_;
  std::vector<Name> names_;
};

/// Every schedule within the bounds.
Report explore(const Scenario& scenario, const Options& options);

/// `schedules` random ones; `seed` 0 stands for 1. With SHMCOORD_SIM_SEED in the environment only the schedule of that
/// seed.
Report sample(const Scenario& scenario, const Options& options, std::uint64_t schedules, std::uint64_t seed = 0);

// --- what a task may ask ---------------------------------------------------------------------------------------------

/// Ends the schedule with a failure; outside of one, throws.
void require(bool ok, std::string_view what);
/// A line in the trace.
void note(std::string_view text);
[[nodiscard]] bool is_dead(TaskIndex task);
[[nodiscard]] bool is_finished(TaskIndex task);
/// Sleeps until `condition`, of the fates of tasks and of Plain variables, is true. For the stage machinery of a
/// scenario.
void await(const std::function<bool()>& condition);

namespace detail {

enum class Access : std::uint8_t { load, store, cas, add, set_bits, fence, wake, wait };
enum class Order : std::uint8_t { relaxed, ordered };  // ordered: an acquire load, a release store

/// Is a simulated task running (and not the scenario's own set-up or check)?
[[nodiscard]] bool in_task() noexcept;
/// The scheduling point before an operation. May not return.
void point(Access access, const void* word) noexcept;
/// The operation has been done. `told`: what the task learnt by it.
void done(const void* word, std::uint64_t before, std::uint64_t after, std::uint64_t told) noexcept;
/// What a load of the word returns that holds `newest` now.
[[nodiscard]] Held loaded(const void* word, const Held& newest, Order order) noexcept;
void stored(const void* word, const Held& before, const Held& after, Order order) noexcept;
void exchanged(const void* word, const Held& before, const Held& after, bool wrote) noexcept;
void fence() noexcept;
void yield() noexcept;
[[nodiscard]] std::int64_t now_ns() noexcept;
void wake(const void* word, unsigned count) noexcept;
/// Sleeps until woken or until the deadline. The words were compared already. False: timed out.
bool sleep(const void* const* words, unsigned count, std::int64_t deadline_ns) noexcept;
[[nodiscard]] bool several_words() noexcept;
void plain(const void* variable, std::uint64_t before, std::uint64_t after) noexcept;

}  // namespace detail

/// A variable that tasks of a scenario share beside the words: what an oracle remembers. Not a scheduling point.
template <class T>
class Plain {
 public:
  Plain() = default;
  Plain(T v) : value_(v) {}  // NOLINT(google-explicit-constructor): it stands for its value
  operator T() const {       // NOLINT(google-explicit-constructor)
    detail::plain(this, static_cast<std::uint64_t>(value_), static_cast<std::uint64_t>(value_));
    return value_;
  }
  Plain(const Plain&) = delete;
  Plain& operator=(const Plain&) = delete;
  Plain& operator=(T v) {
    detail::plain(this, static_cast<std::uint64_t>(value_), static_cast<std::uint64_t>(v));
    value_ = v;
    return *this;
  }

 private:
  T value_{};
};

}  // namespace shmcoord::sim
