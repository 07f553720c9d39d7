#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "coordination/file_watch.hpp"
#include "coordination/guard_flag_state.hpp"
#include "core/event_pattern.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"
#include "process/event_stream.hpp"

// Waiting until a guard passes.
//
// Problem: it must not poll what can notify, must not miss a change that comes while it evaluates, and must not run a
// condition's commands each time that somebody somewhere takes a lock.
//
// So it listens first (the journal of the segment, inotify), evaluates then, and sleeps until something that was heard
// since then matters; whatever happens while it evaluates is heard before it sleeps. Locks and semaphores are compared
// by their state: an event of them makes it look at those that the condition names, which is cheap, and only a state
// that differs from the one that was evaluated makes it evaluate. So the events are hints, and one that is lost, with
// the process that should have told it, costs a second: that is how often it looks in any case.
//
// Its own evaluations are told, and may wake other guards by their patterns. So that two of them do not wake each other
// for ever, a wait tells its first evaluation and then only that it passes or fails where it did not before; and what
// it tells itself wakes it never.
//
// If we die here: the mark of the subscriber goes with the session, watches with the process. No other waiter and no
// later one depends on us.

namespace shmcoord {
namespace {

// So many times as rarely, files are asked too: not all that changes them is told.
constexpr int files_recheck = 10;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

std::int64_t later(std::int64_t now_ns, std::chrono::nanoseconds by) {
  return by.count() > never - now_ns ? never : now_ns + by.count();
}

// What of a condition has to be looked after in which way.
struct Needs {
  std::vector<GuardCondition> primitives;  // each asks for one lock or semaphore
  std::set<std::string> sessions;
  std::vector<std::string> files;
  bool asks_others = false;  // what cannot notify

  /// A look at those is all that an evaluation takes.
  [[nodiscard]] bool only_primitives() const { return files.empty() && !asks_others; }

  Needs(const GuardCondition& condition, const std::string& directory) {
    namespace fs = std::filesystem;
    std::set<std::string> paths;
    for (const GuardInput& input : condition.required_inputs()) {
      switch (input.kind) {
        case GuardInputKind::lock_state: primitives.push_back(GuardCondition::lock_free(input.subject)); break;
        case GuardInputKind::semaphore_state:
          primitives.push_back(GuardCondition::semaphore_available(input.subject));
          break;
        case GuardInputKind::file_exists:
        case GuardInputKind::file_contains: paths.insert(fs::absolute(fs::path(directory) / input.subject)); break;
        case GuardInputKind::session_alive: sessions.insert(input.subject); [[fallthrough]];
        default: asks_others = true;  // whether a session lives may be known to another port only
      }
    }
    files.assign(paths.begin(), paths.end());
  }
};

// The state of the locks and semaphores that a condition names.
struct PrimitiveStates {
  std::map<std::string, bool> locks;
  std::map<std::string, std::vector<std::string>> lock_holders;
  std::map<std::string, std::uint32_t> semaphores;
  std::map<GuardInput, std::string> failures;
  friend bool operator==(const PrimitiveStates&, const PrimitiveStates&) = default;

  static PrimitiveStates of(const GuardInputs& inputs) {
    PrimitiveStates states{inputs.locks, inputs.lock_holders, inputs.semaphores, {}};
    for (const auto& [input, why] : inputs.failures) {
      const bool primitive = input.kind == GuardInputKind::lock_state || input.kind == GuardInputKind::semaphore_state;
      if (primitive) states.failures.emplace(input, why);
    }
    for (auto& [name, holders] : states.lock_holders) std::sort(holders.begin(), holders.end());
    return states;
  }
};

using coordination::StoredGuard;

enum class Wakes : std::uint8_t { nothing, look, evaluation };

Wakes wakes(const Event& event, const Guard& guard, const Needs& needs) {
  if (event.kind == EventKind::journal_lost) return Wakes::evaluation;
  if (event.subject == guard.name && event.name().starts_with("guard:")) {
    return event.kind == EventKind::guard_removed ? Wakes::look : Wakes::nothing;
  }
  const auto matches = [&](const std::string& pattern) { return core::pattern_matches(pattern, event.name()); };
  if (!guard.wake_on.empty()) {
    const bool matters = std::any_of(guard.wake_on.begin(), guard.wake_on.end(), matches);
    return matters ? Wakes::evaluation : Wakes::nothing;
  }
  const bool session = matches("session:*");
  if (session) return needs.sessions.contains(event.subject) ? Wakes::evaluation : Wakes::nothing;
  const bool primitive = matches("lock:*") || matches("semaphore:*");
  const bool named = primitive && std::any_of(needs.primitives.begin(), needs.primitives.end(), [&](const auto& c) {
                       return c.required_inputs().front().subject == event.subject;
                     });
  return named ? Wakes::look : Wakes::nothing;
}

class Waiting {
 public:
  Waiting(const GuardFlag& flag, const std::shared_ptr<process::Participant>& participant,
          const GuardExecutor& executor, const GuardWaitOptions& options, Guard guard, const StoredGuard& stored)
      : flag_(flag),
        participant_(*participant),
        executor_(executor),
        options_(options),
        guard_(std::move(guard)),
        stored_(stored),
        needs_(guard_.condition, options.directory),
        deadline_ns_(options.timeout ? later(now_ns(), std::max(*options.timeout, std::chrono::nanoseconds(0)))
                                     : never),
        once_(options.timeout && options.timeout->count() <= 0),
        stream_(participant),
        stop_(options.stop, Interrupt{stream_}),
        files_(std::make_unique<coordination::FileWatch>(needs_.files, Interrupt{stream_})) {}

  /// Nothing: the wait was over before it was known.
  std::optional<GuardOutcome> evaluate() {
    files_are_watched_ = files_->arm();
    (void)files_->take_changed();
    const std::int64_t began = now_ns();
    GuardExecutor::Limits limits{options_.evaluation_timeout, options_.stop};
    const bool cut = !once_ && deadline_ns_ - began < limits.timeout.count();
    if (cut) limits.timeout = std::chrono::nanoseconds(std::max<std::int64_t>(deadline_ns_ - began, 0));
    const GuardInputs inputs = executor_.gather(guard_.condition, limits);
    GuardOutcome outcome = guard_.evaluate(inputs);
    states_ = PrimitiveStates::of(inputs);
    evaluated_ns_ = now_ns();
    const bool passed = std::holds_alternative<GuardPassed>(outcome);
    const bool unfinished = options_.stop.stop_requested() || (cut && evaluated_ns_ >= deadline_ns_);
    if (!passed && unfinished) return std::nullopt;
    return outcome;
  }

  [[nodiscard]] bool over() const { return once_ || options_.stop.stop_requested() || now_ns() >= deadline_ns_; }

  /// Sleeps until it is worth another evaluation, or the wait is over. True: worth it.
  bool until_worth_it() {
    std::int64_t again_ns = never;
    const bool asks_others = needs_.asks_others || !files_are_watched_;
    if (asks_others) again_ns = later(evaluated_ns_, options_.recheck);
    if (!needs_.files.empty()) again_ns = std::min(again_ns, later(evaluated_ns_, options_.recheck * files_recheck));
    if (const auto* const retry = std::get_if<Retry>(&guard_.on_failure)) {
      again_ns = std::min(again_ns, later(evaluated_ns_, retry->delay));
    }
    std::int64_t look_ns = evaluated_ns_ + engine::recheck_ns;
    for (;;) {
      auto heard = Wakes::nothing;
      while (const std::optional<Event> event = stream_.next()) heard = std::max(heard, wakes(*event, guard_, needs_));
      if (over()) return false;
      const std::int64_t now = now_ns();
      if (heard == Wakes::evaluation || files_->take_changed() || now >= again_ns) return true;
      if (now >= look_ns) definition_is_old_ = true;
      if (heard == Wakes::look || now >= look_ns) {
        look_ns = now + engine::recheck_ns;
        participant_.require_usable();  // the segment may be gone, with whoever would have told
        if (needs_.only_primitives() || is_another_guard() || are_other_states()) return true;
      }
      stream_.wait(std::min({deadline_ns_, again_ns, look_ns}));
    }
  }

  /// Has the definition to be read again? Once a second, in case a part of it was taken away by force, and when the
  /// name is no more what it was.
  [[nodiscard]] bool definition_is_old() const { return definition_is_old_ || !is_still(); }
  /// The definition as it is now.
  void is_now(Guard guard, const StoredGuard& stored) {
    stored_ = stored;
    definition_is_old_ = false;
    if (guard.condition == guard_.condition && guard.on_failure == guard_.on_failure &&
        guard.wake_on == guard_.wake_on) {
      return;
    }
    guard_ = std::move(guard);
    needs_ = Needs(guard_.condition, options_.directory);
    files_.reset();
    files_ = std::make_unique<coordination::FileWatch>(needs_.files, Interrupt{stream_});
  }

 private:
  struct Interrupt {
    process::EventStream& stream;
    void operator()() const noexcept { stream.interrupt(); }
  };

  static std::int64_t now_ns() noexcept { return process::real_clock().now_ns(); }

  [[nodiscard]] bool are_other_states() const {
    if (needs_.primitives.empty()) return false;
    const GuardInputs inputs = executor_.gather(GuardCondition::all(needs_.primitives), {});
    return PrimitiveStates::of(inputs) != states_;
  }
  [[nodiscard]] bool is_still() const { return coordination::is_still(participant_.mapping(), guard_.name, stored_); }
  [[nodiscard]] bool is_another_guard() const {
    if (!definition_is_old_) return !is_still();
    try {
      const Guard there = flag_.guard();
      return there.condition != guard_.condition || there.on_failure != guard_.on_failure ||
             there.wake_on != guard_.wake_on;
    } catch (const Error&) {
      return true;  // whoever evaluates it says what is wrong
    }
  }

  const GuardFlag& flag_;
  process::Participant& participant_;
  const GuardExecutor& executor_;
  const GuardWaitOptions& options_;
  Guard guard_;
  StoredGuard stored_;
  bool definition_is_old_ = false;
  Needs needs_;
  std::int64_t deadline_ns_;
  bool once_;
  process::EventStream stream_;
  std::stop_callback<Interrupt> stop_;
  std::unique_ptr<coordination::FileWatch> files_;  // ended before the stream that it interrupts
  bool files_are_watched_ = false;
  PrimitiveStates states_;
  std::int64_t evaluated_ns_ = 0;
};

}  // namespace

GuardOutcome GuardFlag::wait(const GuardExecutor& executor, const GuardWaitOptions& options) {
  if (!state_) throw Error(Errc::invalid_argument, "the handle was moved from: use the one that it was moved to");
  const State& state = *state_;
  process::require_duration("recheck", options.recheck);
  const std::shared_ptr<process::Participant>& participant = state.session->participant;
  participant->require_usable();
  auto [guard, stored] = state.read();
  Waiting waiting(*this, participant, executor, options, guard, stored);
  std::optional<GuardOutcome> last;
  for (;;) {
    if (!last) state.tell(EventKind::guard_evaluating, {});
    std::optional<GuardOutcome> outcome = waiting.evaluate();
    participant->require_usable();
    if (outcome && outcome != last) {
      (void)coordination::set_verdict(*participant, state.name, stored, *outcome);
      // Another reason is no other state: two that wake each other would never come to rest.
      if (!last || last->index() != outcome->index()) state.tell(*outcome);
      last = outcome;
      if (options.on_outcome) options.on_outcome(*outcome);
    }
    if (!outcome) {
      if (last) return *std::move(last);
      const char* const why = options.stop.stop_requested() ? "it was stopped" : "the time was over";
      return GuardFailed{guard.name, guard.on_failure, std::string(why) + " before it was known"};
    }
    const auto* const failed = std::get_if<GuardFailed>(&*outcome);
    if (may_proceed(*outcome) || std::holds_alternative<Fail>(failed->action)) return *std::move(outcome);
    if (waiting.over() || !waiting.until_worth_it()) return *std::move(outcome);
    if (!waiting.definition_is_old()) continue;
    try {
      std::tie(guard, stored) = state.read();
    } catch (const Error& e) {
      if (e.errc() != Errc::not_found && e.errc() != Errc::wrong_type) throw;
      throw Error(Errc::name_removed, "guard '" + state.name + "' was removed while it was waited for");
    }
    waiting.is_now(guard, stored);
  }
}

}  // namespace shmcoord
