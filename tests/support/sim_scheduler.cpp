#include "support/sim_scheduler.hpp"

#include <charconv>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <iostream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "support/sim_run.hpp"

namespace shmcoord::sim {

thread_local Scheduler* Scheduler::active = nullptr;

namespace {

double cpu_seconds_since(std::clock_t start) noexcept {
  return static_cast<double>(std::clock() - start) / static_cast<double>(CLOCKS_PER_SEC);
}

// A variable that somebody forgot leaves most schedules out, so it is read strictly and said aloud.
std::optional<std::uint64_t> seed_to_replay() {
  const char* const given = std::getenv("SHMCOORD_SIM_SEED");
  if (given == nullptr || *given == '\0') return std::nullopt;
  const std::string_view text = given;
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument("SHMCOORD_SIM_SEED is '" + std::string(text) + "', not a number");
  }
  std::cout << "SHMCOORD_SIM_SEED: of the random schedules only number " << seed << std::endl;
  return seed;
}

}  // namespace

// --- runs ------------------------------------------------------------------------------------------------------------

void Scheduler::run_body() {
  Scheduler& s = *active;
  bool thrown = true;
  try {
    s.scenario_.tasks_[s.current_].body();
    thrown = false;
  } catch (const std::exception& e) {
    s.note(e.what());
  } catch (...) {
    s.note("not a std::exception");
  }
  if (thrown) s.fail("a task ended with an exception");
  s.me().fate = Fate::finished;
  s.changed();
  s.tell("finished");
  s.decide(false, false);
}

Outcome Scheduler::run_once() {
  current_ = nobody;
  outcome_ = Outcome::complete;
  preemptions_ = options_.preemptions;
  deaths_ = options_.deaths;
  early_timeouts_ = options_.early_timeouts;
  stale_loads_ = options_.stale_loads;
  if (weak()) weak_memory_.start(count(), options_.without);
  steps_ = sleeps_ = memory_ = 0;
  now_ns_ = 1'000'000'000;
  next_choice_ = 0;
  what_.clear();
  if (scenario_.reset_) scenario_.reset_();
  for (TaskIndex t = 0; t < count(); ++t) {
    Task& task = tasks_[t];
    task.fate = Fate::ready;
    task.knows = t;
    task.yields = 0;
    task.yielded = false;
    task.fiber.start(&Scheduler::run_body);
  }
  decide(false, false);
  current_ = nobody;
  if (outcome_ == Outcome::complete && scenario_.check_) {
    try {
      scenario_.check_();
    } catch (const CheckFailed&) {
      outcome_ = Outcome::failed;
    }
  }
  return outcome_;
}

Report Scheduler::explore() {
  Report report;
  const std::clock_t start = std::clock();
  for (;;) {
    const Outcome outcome = run_once();
    ++report.schedules;
    report.steps += steps_;
    if (outcome == Outcome::failed) {
      failure(report, "the same exploration finds it again");
      break;
    }
    if (sharing_.next_run()) {
      choices_.clear();
      seen_.clear();
    } else {
      while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count) choices_.pop_back();
      report.exhausted = choices_.empty();
      if (report.exhausted) break;
      ++choices_.back().taken;
    }
    if (report.schedules >= options_.max_schedules) break;
  }
  report.states = seen_.size();
  report.seconds = cpu_seconds_since(start);
  return report;
}

Report Scheduler::sample(std::uint64_t schedules, std::uint64_t seed) {
  Report report;
  random_mode_ = true;
  const std::clock_t start = std::clock();
  if (seed == 0) seed = 1;
  if (const std::optional<std::uint64_t> given = seed_to_replay()) {
    seed = *given;
    schedules = 1;
  }
  for (std::uint64_t i = 0; i < schedules; ++i) {
    random_ = mix(seed + i);
    // Some schedules switch all the time, some hardly ever: each finds what the other does not.
    switch_one_in_ = std::uint64_t{1} << (1 + random() % 6);
    kill_one_in_ = std::uint64_t{1} << (3 + random() % 6);
    stale_one_in_ = std::uint64_t{1} << (1 + random() % 6);
    choices_.clear();
    const Outcome outcome = run_once();
    ++report.schedules;
    report.steps += steps_;
    if (outcome == Outcome::failed) {
      failure(report, "SHMCOORD_SIM_SEED=" + std::to_string(seed + i));
      break;
    }
  }
  report.seconds = cpu_seconds_since(start);
  return report;
}

void Scheduler::failure(Report& report, std::string replay) {
  const std::string first = what_;
  tracing_ = true;
  trace_.str("");
  run_once();
  tracing_ = false;
  if (what_ != first) what_ += " (at first: " + first + "; the scenario is not deterministic)";
  report.failure = Failure{what_, trace_.str(), std::move(replay)};
}

// --- choices ---------------------------------------------------------------------------------------------------------

// Who acts next. The options stand in a fixed order, so that an index is a choice that can be replayed. First to go on.
unsigned Scheduler::collect(MoveOption* options, bool may_continue, bool yielding) noexcept {
  unsigned n = 0;
  const bool free = !may_continue || yielding;  // a switch that is no preemption
  const bool may_switch = free || random_mode_ || preemptions_ > 0;
  if (may_continue && !yielding) options[n++] = {Move::go, current_};
  if (may_switch) {
    for (TaskIndex t = 0; t < count(); ++t) {
      const bool itself = t == current_ && may_continue;
      if (!itself && can_run(t) && !tasks_[t].yielded) options[n++] = {Move::go, t};
    }
    if (n == 0 || (yielding && me().yields < yields_in_a_row)) {
      // Those that only spin, when nobody else can do anything; or one more round of one that spins.
      for (TaskIndex t = 0; t < count(); ++t) {
        if (tasks_[t].yielded && can_run(t) && (n == 0 || t == current_)) options[n++] = {Move::go, t};
      }
    }
  }
  if (n != 0 && may_switch && early_timeouts_ > 0) {
    for (TaskIndex t = 0; t < count(); ++t) {
      if (tasks_[t].fate == Fate::sleeping && tasks_[t].deadline_ns < options_.stall_after_ns + now_ns_) {
        options[n++] = {Move::time_out, t};
      }
    }
  }
  if (may_continue && deaths_ > 0 && scenario_.tasks_[current_].mortal) options[n++] = {Move::kill, current_};
  return n;
}

unsigned Scheduler::choose(const MoveOption* options, unsigned n, bool may_continue) noexcept {
  if (next_choice_ < choices_.size()) {
    const Choice c = choices_[next_choice_++];
    if (c.count != n) {
      fail("the scenario is not deterministic: another number of choices at the same point");
      return 0;
    }
    return c.taken;
  }
  unsigned taken = 0;
  if (n == 1) {
    // Written down all the same, so that a replay need not find out.
  } else if (random_mode_) {
    const unsigned others = options[n - 1].move == Move::kill ? n - 1 : n;
    if (others < n && one_in(kill_one_in_)) {
      taken = n - 1;
    } else if (!may_continue || one_in(switch_one_in_)) {
      taken = static_cast<unsigned>(random() % others);
    }
  } else if (!seen_.visit(state(), preemptions_)) {
    go_home(Outcome::seen_before);
  }
  choices_.push_back({static_cast<std::uint16_t>(taken), static_cast<std::uint16_t>(n)});
  ++next_choice_;
  return taken;
}

// How many stores back a load looks, of those that it may see.
unsigned Scheduler::choose_age(unsigned readable) noexcept {
  if (readable < 2 || stale_loads_ == 0) return 0;
  unsigned age = 0;
  if (next_choice_ < choices_.size()) {
    const Choice c = choices_[next_choice_];
    if (c.count != readable) {
      fail("the scenario is not deterministic: another number of values at the same load");
      return 0;
    }
    age = c.taken;
  } else {
    if (random_mode_) {
      if (one_in(stale_one_in_)) age = static_cast<unsigned>(random() % readable);
    } else if (!seen_.visit(mix(state(), readable), preemptions_)) {
      go_home(Outcome::seen_before);
    }
    choices_.push_back({static_cast<std::uint16_t>(age), static_cast<std::uint16_t>(readable)});
  }
  ++next_choice_;
  if (age != 0) --stale_loads_;
  return age;
}

// May return to a different stack's past: whoever is chosen goes on, and the caller returns when it is chosen again.
void Scheduler::decide(bool may_continue, bool yielding) noexcept {
  if (may_continue && !yielding && !random_mode_) {
    // Nothing to choose, or chosen already: the short way for the many steps that only lead to where it gets
    // interesting.
    if (preemptions_ == 0 && (deaths_ == 0 || !scenario_.tasks_[current_].mortal)) return;
    if (next_choice_ < choices_.size() && choices_[next_choice_].taken == 0) {
      ++next_choice_;
      return;
    }
  }
  MoveOption options[3 * max_tasks];
  for (;;) {
    const unsigned n = collect(options, may_continue, yielding);
    if (n == 0) {
      if (!let_time_pass()) return;
      continue;
    }
    const MoveOption m = options[choose(options, n, may_continue)];
    switch (m.move) {
      case Move::go:
        if (m.task != current_ && may_continue && !yielding && !random_mode_) --preemptions_;
        resume(m.task,
               !may_continue && current_ != nobody && me().fate != Fate::sleeping && me().fate != Fate::awaiting);
        return;
      case Move::time_out:
        --early_timeouts_;
        if (may_continue && !yielding && !random_mode_) --preemptions_;
        now_ns_ = tasks_[m.task].deadline_ns > now_ns_ ? tasks_[m.task].deadline_ns : now_ns_;
        time_out(m.task);
        resume(m.task, false);
        return;
      case Move::kill:
        --deaths_;
        me().fate = Fate::dead;
        changed();
        tell("=== killed ===");
        may_continue = yielding = false;
        break;
    }
  }
}

// Nobody can run. False: the run is over, and we are at home again.
bool Scheduler::let_time_pass() noexcept {
  bool all_ended = true;
  std::int64_t earliest = std::numeric_limits<std::int64_t>::max();
  for (TaskIndex t = 0; t < count(); ++t) {
    const Task& task = tasks_[t];
    if (task.fate != Fate::finished && task.fate != Fate::dead) all_ended = false;
    if (task.fate == Fate::sleeping && task.deadline_ns < earliest) earliest = task.deadline_ns;
  }
  if (all_ended) {
    go_home(Outcome::complete);
    return false;
  }
  if (earliest == std::numeric_limits<std::int64_t>::max()) {
    fail("deadlock: ", true);
    return false;
  }
  if (earliest - now_ns_ > options_.stall_after_ns) {
    fail("stall: nothing but a time-out far away would go on: ", true);
    return false;
  }
  if (earliest > now_ns_) now_ns_ = earliest;
  for (TaskIndex t = 0; t < count(); ++t) {
    if (tasks_[t].fate == Fate::sleeping && tasks_[t].deadline_ns <= now_ns_) time_out(t);
  }
  return true;
}

void Scheduler::time_out(TaskIndex t) noexcept {
  changed();
  tasks_[t].fate = Fate::ready;
  tasks_[t].timed_out = true;
  if (tracing_) tell("time is " + std::to_string(now_ns_) + ": " + scenario_.tasks_[t].name + " timed out");
}

void Scheduler::resume(TaskIndex t, bool for_good) noexcept {
  Task& next = tasks_[t];
  if (next.fate == Fate::awaiting) next.fate = Fate::ready;
  next.yielded = false;
  if (t == current_) return;
  Fiber& from = current_ == nobody ? home_ : me().fiber;
  current_ = t;
  Fiber::jump(from, next.fiber, for_good);
}

void Scheduler::go_home(Outcome outcome) noexcept {
  outcome_ = outcome;
  if (current_ == nobody) return;
  Fiber::jump(me().fiber, home_, true);
}

// All that the future depends on.
std::uint64_t Scheduler::state() noexcept {
  std::uint64_t h = mix(memory_, static_cast<std::uint64_t>(now_ns_));
  h = mix(h, current_ * 16U + early_timeouts_);
  if (stale_loads_ > 0) {  // else everybody sees the newest from here on
    h = mix(h + stale_loads_, weak_memory_.hash(count(), [this](TaskIndex t) {
      return tasks_[t].fate != Fate::finished && tasks_[t].fate != Fate::dead;
    }));
  }
  for (TaskIndex t = 0; t < count(); ++t) {
    const Task& task = tasks_[t];
    std::uint64_t how = static_cast<std::uint64_t>(task.fate) | (task.yielded ? 8U : 0U) | (task.timed_out ? 16U : 0U) |
                        task.yields * 1024U;
    if (task.fate == Fate::sleeping) {  // its place in the kernel's queue
      for (TaskIndex u = 0; u < count(); ++u) {
        if (tasks_[u].fate == Fate::sleeping && tasks_[u].slept_since < task.slept_since) how += 32;
      }
    }
    h = mix(h, mix(task.knows, how));
  }
  return h;
}

// --- the face --------------------------------------------------------------------------------------------------------

namespace {

struct Activate {
  explicit Activate(Scheduler& s) noexcept : before(std::exchange(Scheduler::active, &s)) {}
  ~Activate() { Scheduler::active = before; }
  Activate(const Activate&) = delete;
  Activate& operator=(const Activate&) = delete;
  Scheduler* before;
};

}  // namespace

TaskIndex Scenario::task(std::string name, std::function<void()> body) {
  tasks_.push_back({std::move(name), std::move(body), false});
  return static_cast<TaskIndex>(tasks_.size() - 1);
}
TaskIndex Scenario::mortal(std::string name, std::function<void()> body) {
  tasks_.push_back({std::move(name), std::move(body), true});
  return static_cast<TaskIndex>(tasks_.size() - 1);
}
void Scenario::name(const void* word, std::string text, Format format) {
  names_.push_back({word, std::move(text), format});
}

std::string Report::text() const {
  std::ostringstream out;
  out << schedules << " schedules" << (exhausted ? " (all)" : "") << ", " << states << " states, " << steps
      << " steps, " << seconds << " s";
  if (failure) out << "\n" << failure->what << "\nagain: " << failure->replay << failure->trace << "\n";
  return out.str();
}

Report explore(const Scenario& scenario, const Options& options) {
  Scheduler s(scenario, options);
  const Activate on(s);
  return s.explore();
}

Report sample(const Scenario& scenario, const Options& options, std::uint64_t schedules, std::uint64_t seed) {
  Scheduler s(scenario, options);
  const Activate on(s);
  return s.sample(schedules, seed);
}

}  // namespace shmcoord::sim
