#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/sim_fiber.hpp"
#include "support/sim_memory.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_tables.hpp"

// The inside of the deterministic scheduler; scenarios include sim_scheduler.hpp and sim_policy.hpp.
//
// One Scheduler runs one exploration. A schedule is the list of choices taken at points of choice; to take another one,
// the scenario is run again from the start with a longer or different list (sim_scheduler.cpp). Decisions are made on
// the stack of the task that reaches a point, so that a step without a switch costs no switch. What a task's operations
// do to the simulated world is in sim_operations.cpp.

namespace shmcoord::sim {

struct CheckFailed {};  // thrown by require() in a scenario's check, never in a task

enum class Fate : std::uint8_t { ready, sleeping, awaiting, finished, dead };

struct Task {
  Fiber fiber;
  Fate fate = Fate::ready;
  std::uint64_t knows = 0;  // hash of everything it was told
  unsigned yields = 0;      // in a row, without anybody else doing anything
  bool yielded = false;
  const void* const* words = nullptr;  // what it sleeps on
  unsigned word_count = 0;
  std::int64_t deadline_ns = 0;
  std::uint64_t slept_since = 0;  // order of sleepers
  bool timed_out = false;
  const std::function<bool()>* condition = nullptr;
};

struct Choice {
  std::uint16_t taken;
  std::uint16_t count;
};

enum class Move : std::uint8_t { go, time_out, kill };
struct MoveOption {
  Move move;
  TaskIndex task;
};

enum class Outcome : std::uint8_t { complete, seen_before, failed };

inline constexpr TaskIndex nobody = max_tasks;
inline constexpr unsigned yields_in_a_row = 2;

class Scheduler {
 public:
  /// The one that explores on this thread, if any.
  static thread_local Scheduler* active;

  Scheduler(const Scenario& scenario, const Options& options) : scenario_(scenario), options_(options) {
    if (scenario.tasks_.size() > max_tasks) throw std::exception();
  }

  Report explore();
  Report sample(std::uint64_t schedules, std::uint64_t seed);

  // What tasks call.
  [[nodiscard]] bool in_task() const noexcept { return current_ != nobody; }
  void point(detail::Access access, const void* word) noexcept;
  void done(const void* word, std::uint64_t before, std::uint64_t after, std::uint64_t told) noexcept;
  [[nodiscard]] Held loaded(const void* word, const Held& newest, detail::Order order) noexcept;
  void stored(const void* word, const Held& before, const Held& after, detail::Order order) noexcept;
  void exchanged(const void* word, const Held& before, const Held& after, bool wrote) noexcept;
  void fence() noexcept;
  void yield() noexcept;
  void wake(const void* word, unsigned count) noexcept;
  bool sleep(const void* const* words, unsigned count, std::int64_t deadline_ns) noexcept;
  void await(const std::function<bool()>& condition);
  void plain(const void* variable, std::uint64_t before, std::uint64_t after) noexcept;
  void fail(std::string_view what, bool with_sleepers = false) noexcept;
  void require(bool ok, std::string_view what);
  void note(std::string_view text);
  [[nodiscard]] std::int64_t now_ns() noexcept;
  [[nodiscard]] bool several_words() const noexcept { return options_.several_words; }
  [[nodiscard]] bool has_fate(TaskIndex t, Fate fate) noexcept;

 private:
  static void run_body();
  [[nodiscard]] TaskIndex count() const noexcept { return static_cast<TaskIndex>(scenario_.tasks_.size()); }
  [[nodiscard]] Task& me() noexcept { return tasks_[current_]; }

  Outcome run_once();
  void failure(Report& report, std::string replay);
  void decide(bool may_continue, bool yielding) noexcept;
  [[nodiscard]] unsigned collect(MoveOption* options, bool may_continue, bool yielding) noexcept;
  [[nodiscard]] unsigned choose(const MoveOption* options, unsigned n, bool may_continue) noexcept;
  [[nodiscard]] unsigned choose_age(unsigned readable) noexcept;
  void learn_ends(std::uint32_t tasks) noexcept;
  [[nodiscard]] bool weak() const noexcept { return options_.stale_loads > 0; }
  [[nodiscard]] bool let_time_pass() noexcept;
  [[nodiscard]] bool can_run(TaskIndex t) noexcept {
    return tasks_[t].fate == Fate::ready || (tasks_[t].fate == Fate::awaiting && is_true(*tasks_[t].condition));
  }
  [[nodiscard]] bool is_true(const std::function<bool()>& condition) noexcept;
  void changed() noexcept;
  void time_out(TaskIndex t) noexcept;
  void resume(TaskIndex t, bool for_good) noexcept;
  void go_home(Outcome outcome) noexcept;
  [[nodiscard]] std::uint64_t state() noexcept;
  [[nodiscard]] std::string sleepers() const;
  [[nodiscard]] std::string name_of_word(const void* word) const;
  [[nodiscard]] std::string value_of(const void* word, std::uint64_t v) const;
  void tell(const std::string& line);
  std::uint64_t random() noexcept { return mix(random_ += 0x9e3779b97f4a7c15ULL); }
  [[nodiscard]] bool one_in(std::uint64_t n) noexcept { return random() % n == 0; }

  const Scenario& scenario_;
  const Options options_;
  std::array<Task, max_tasks> tasks_;
  Fiber home_;
  Sharing sharing_;
  Seen seen_;
  WeakMemory weak_memory_;

  // Of the run.
  TaskIndex current_ = nobody;
  Outcome outcome_ = Outcome::complete;
  unsigned preemptions_ = 0;
  unsigned deaths_ = 0;
  unsigned early_timeouts_ = 0;
  unsigned stale_loads_ = 0;
  bool shared_here_ = false;  // is the word of the operation under way one of those that matter?
  std::uint32_t ended_ = 0;   // tasks of whose end a condition was told, while asking
  std::uint64_t steps_ = 0;
  std::uint64_t sleeps_ = 0;
  std::uint64_t memory_ = 0;  // hash of what the words hold, as a difference from the start
  std::int64_t now_ns_ = 0;
  bool asking_ = false;  // a condition is being evaluated: nobody learns anything
  std::string what_;

  // Of the exploration.
  bool random_mode_ = false;
  bool tracing_ = false;
  std::vector<Choice> choices_;
  std::size_t next_choice_ = 0;
  std::uint64_t random_ = 0;
  std::uint64_t switch_one_in_ = 2;
  std::uint64_t kill_one_in_ = 2;
  std::uint64_t stale_one_in_ = 2;
  std::ostringstream trace_;
};

}  // namespace shmcoord::sim
