#include <cstdint>
#include <functional>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "support/sim_run.hpp"

// What an operation of a task does: to the words' hash, to sleepers, to what the task knows; and the trace of it.

namespace shmcoord::sim {

namespace {

const char* name_of(detail::Access a) noexcept {
  switch (a) {
    case detail::Access::load: return "load";
    case detail::Access::store: return "store";
    case detail::Access::cas: return "cas";
    case detail::Access::add: return "add";
    case detail::Access::set_bits: return "set_bits";
    case detail::Access::fence: return "fence";
    case detail::Access::wake: return "wake";
    case detail::Access::wait: return "wait";
  }
  return "?";
}

}  // namespace

// --- operations of tasks ---------------------------------------------------------------------------------------------

void Scheduler::point(detail::Access access, const void* word) noexcept {
  if (!in_task()) return;
  if (++steps_ > options_.max_steps) fail("livelock, or too few steps allowed");
  const bool writes = access != detail::Access::load && access != detail::Access::wait;
  const bool shared = sharing_.touch(word, current_, writes) || random_mode_ || access == detail::Access::fence;
  if (shared) decide(true, false);
  shared_here_ = shared;
  if (weak() && access == detail::Access::wait) weak_memory_.system_call(current_);
  if (tracing_) tell(std::string(name_of(access)) + " " + name_of_word(word));
}

void Scheduler::done(const void* word, std::uint64_t before, std::uint64_t after, std::uint64_t told) noexcept {
  if (!in_task()) return;
  const auto at = reinterpret_cast<std::uintptr_t>(word);
  if (before != after) {
    memory_ ^= mix(at, before) ^ mix(at, after);
    changed();
  }
  me().knows = mix(me().knows, told);
  if (tracing_) {
    trace_ << "  " << value_of(word, before);
    if (before != after) trace_ << " -> " << value_of(word, after);
    if (told == 0 && before == after) trace_ << "  (unchanged)";
  }
}

// Of a word that only one task touches, that task sees the newest.
Held Scheduler::loaded(const void* word, const Held& newest, detail::Order order) noexcept {
  if (!weak() || !in_task() || !shared_here_) return newest;
  const unsigned age = choose_age(weak_memory_.readable(word, current_, newest));
  if (tracing_ && age != 0) trace_ << "  (" << age << " behind)";
  return weak_memory_.load(word, current_, newest, age, order == detail::Order::ordered);
}

void Scheduler::stored(const void* word, const Held& before, const Held& after, detail::Order order) noexcept {
  if (!weak() || !in_task() || !shared_here_) return;
  weak_memory_.store(word, current_, before, after, order == detail::Order::ordered);
}

void Scheduler::exchanged(const void* word, const Held& before, const Held& after, bool wrote) noexcept {
  if (!weak() || !in_task()) return;
  if (!shared_here_) return weak_memory_.exchange_own(current_);
  weak_memory_.exchange(word, current_, before, after, wrote);
}

void Scheduler::fence() noexcept {
  if (!weak() || !in_task()) return;
  point(detail::Access::fence, &weak_memory_);
  weak_memory_.fence(current_);
}

void Scheduler::learn_ends(std::uint32_t tasks) noexcept {
  if (!weak()) return;
  for (TaskIndex t = 0; t < count(); ++t) {
    if ((tasks >> t & 1U) != 0) weak_memory_.learn_of_end(current_, t);
  }
}

void Scheduler::plain(const void* variable, std::uint64_t before, std::uint64_t after) noexcept {
  if (!in_task() || asking_) return;
  const auto at = reinterpret_cast<std::uintptr_t>(variable);
  if (before != after) {
    memory_ ^= mix(at, before) ^ mix(at, after);
    changed();
  }
  me().knows = mix(me().knows, before);
}

bool Scheduler::has_fate(TaskIndex t, Fate fate) noexcept {
  const bool yes = tasks_[t].fate == fate;
  const std::uint32_t told = yes && (fate == Fate::dead || fate == Fate::finished) ? 1U << t : 0;
  if (asking_) {
    ended_ |= told;
  } else if (in_task()) {
    me().knows = mix(me().knows, yes ? 1 : 0);
    learn_ends(told);
  }
  return yes;
}

bool Scheduler::is_true(const std::function<bool()>& condition) noexcept {
  asking_ = true;
  const bool yes = condition();
  asking_ = false;
  return yes;
}

// Who spins may hope again.
void Scheduler::changed() noexcept {
  for (TaskIndex t = 0; t < count(); ++t) {
    if (t == current_) continue;
    tasks_[t].yielded = false;
    tasks_[t].yields = 0;
  }
}

void Scheduler::yield() noexcept {
  if (!in_task()) return;
  if (++steps_ > options_.max_steps) fail("livelock, or too few steps allowed");
  ++me().yields;
  me().yielded = true;
  me().knows = mix(me().knows, 1);
  tell("pause");
  decide(true, true);
}

void Scheduler::wake(const void* word, unsigned limit) noexcept {
  if (!in_task()) return;
  if (weak()) weak_memory_.system_call(current_);
  while (limit-- > 0) {
    Task* first = nullptr;
    for (TaskIndex t = 0; t < count(); ++t) {
      Task& task = tasks_[t];
      if (task.fate != Fate::sleeping) continue;
      bool on_it = false;
      for (unsigned w = 0; w < task.word_count; ++w) on_it = on_it || task.words[w] == word;
      if (on_it && (first == nullptr || task.slept_since < first->slept_since)) first = &task;
    }
    if (first == nullptr) return;
    first->fate = Fate::ready;
    if (tracing_) trace_ << "  wakes " << scenario_.tasks_[static_cast<std::size_t>(first - tasks_.data())].name;
  }
}

bool Scheduler::sleep(const void* const* words, unsigned n, std::int64_t deadline_ns) noexcept {
  if (!in_task() || deadline_ns <= now_ns_) return false;
  Task& task = me();
  task.words = words;
  task.word_count = n;
  task.deadline_ns = deadline_ns;
  task.slept_since = ++sleeps_;
  task.timed_out = false;
  task.fate = Fate::sleeping;
  tell("sleeps");
  decide(false, false);
  if (weak()) weak_memory_.system_call(current_);
  task.knows = mix(task.knows, task.timed_out ? 1 : 0);
  if (tracing_) tell(task.timed_out ? "wakes: timed out" : "wakes");
  return !task.timed_out;
}

void Scheduler::await(const std::function<bool()>& condition) {
  Task& task = me();
  ended_ = 0;
  if (!is_true(condition)) {
    task.condition = &condition;
    task.fate = Fate::awaiting;
    tell("awaits");
    decide(false, false);
    ended_ = 0;
    static_cast<void>(is_true(condition));
  }
  learn_ends(ended_);
}

std::int64_t Scheduler::now_ns() noexcept {
  if (in_task()) me().knows = mix(me().knows, static_cast<std::uint64_t>(now_ns_));
  return now_ns_;
}

// Nothing on this stack may own memory when it is left for good.
void Scheduler::fail(std::string_view what, bool with_sleepers) noexcept {
  what_ = what;
  if (with_sleepers) what_ += sleepers();
  tell("FAILED: " + what_);
  go_home(Outcome::failed);
}

void Scheduler::require(bool ok, std::string_view what) {
  if (ok) return;
  fail(what);
  throw CheckFailed{};
}

// --- the trace -------------------------------------------------------------------------------------------------------

void Scheduler::tell(const std::string& line) {
  if (!tracing_) return;
  trace_ << '\n' << steps_ << '\t' << (in_task() ? scenario_.tasks_[current_].name : std::string("-")) << '\t' << line;
}

void Scheduler::note(std::string_view text) { tell("# " + std::string(text)); }

std::string Scheduler::sleepers() const {
  std::string text;
  for (TaskIndex t = 0; t < count(); ++t) {
    const Task& task = tasks_[t];
    if (task.fate == Fate::sleeping) {
      text += scenario_.tasks_[t].name + " sleeps on";
      for (unsigned w = 0; w < task.word_count; ++w) text += " [" + name_of_word(task.words[w]) + "]";
      text += "; ";
    } else if (task.fate == Fate::awaiting) {
      text += scenario_.tasks_[t].name + " awaits; ";
    }
  }
  return text;
}

std::string Scheduler::name_of_word(const void* word) const {
  if (word == &weak_memory_) return "of all";
  for (const Scenario::Name& n : scenario_.names_) {
    if (n.word == word) return n.text;
  }
  std::ostringstream out;
  out << word;
  return out.str();
}

std::string Scheduler::value_of(const void* word, std::uint64_t v) const {
  for (const Scenario::Name& n : scenario_.names_) {
    if (n.word == word && n.format != nullptr) return n.format(v);
  }
  return std::to_string(v);
}

// --- what tasks and the policy call ----------------------------------------------------------------------------------

void require(bool ok, std::string_view what) {
  if (Scheduler::active != nullptr) return Scheduler::active->require(ok, what);
  if (!ok) throw std::logic_error(std::string(what));
}
void note(std::string_view text) { Scheduler::active->note(text); }
bool is_dead(TaskIndex task) { return Scheduler::active->has_fate(task, Fate::dead); }
bool is_finished(TaskIndex task) { return Scheduler::active->has_fate(task, Fate::finished); }
void await(const std::function<bool()>& condition) { Scheduler::active->await(condition); }

namespace detail {

bool in_task() noexcept { return Scheduler::active != nullptr && Scheduler::active->in_task(); }
void point(Access access, const void* word) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->point(access, word);
}
void done(const void* word, std::uint64_t before, std::uint64_t after, std::uint64_t told) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->done(word, before, after, told);
}
Held loaded(const void* word, const Held& newest, Order order) noexcept {
  return Scheduler::active != nullptr ? Scheduler::active->loaded(word, newest, order) : newest;
}
void stored(const void* word, const Held& before, const Held& after, Order order) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->stored(word, before, after, order);
}
void exchanged(const void* word, const Held& before, const Held& after, bool wrote) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->exchanged(word, before, after, wrote);
}
void fence() noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->fence();
}
void yield() noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->yield();
}
std::int64_t now_ns() noexcept { return Scheduler::active != nullptr ? Scheduler::active->now_ns() : 0; }
void wake(const void* word, unsigned count) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->wake(word, count);
}
bool sleep(const void* const* words, unsigned count, std::int64_t deadline_ns) noexcept {
  return Scheduler::active != nullptr && Scheduler::active->sleep(words, count, deadline_ns);
}
bool several_words() noexcept { return Scheduler::active == nullptr || Scheduler::active->several_words(); }
void plain(const void* variable, std::uint64_t before, std::uint64_t after) noexcept {
  if (Scheduler::active != nullptr) Scheduler::active->plain(variable, before, after);
}

}  // namespace detail

}  // namespace shmcoord::sim
