#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include <boost/json.hpp>

#include "process/clock.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/adapters_program.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/guard_flag.hpp"
#include "shmcoord/guard_words.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// `shmcoord guard eval` and `guard wait`: in the program with the adapters.
//
// If we die here: nothing is left in the segment. A command that a condition runs goes on alone, which is why the end
// of every other kind waits until such commands were ended.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;
using std::chrono::nanoseconds;

constexpr int look_again_ms = 1000;

/// The executor, and what has to be done in the end, however that comes.
class Asker {
 public:
  Asker(GuardPorts ports, const AskOptions& options)
      : settle_(known_adapters()(ports, options)), executor_(std::move(ports)) {}
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;
  ~Asker() { settle_(); }
  [[nodiscard]] const GuardExecutor& executor() const noexcept { return executor_; }

 private:
  std::function<void()> settle_;
  GuardExecutor executor_;
};

struct Asked {
  Guard guard;  // without a name: a condition alone
  GuardOutcome outcome;
  int signal = 0;                         // that came meanwhile
  std::optional<nanoseconds> limit = {};  // of the wait; none: there was none
  nanoseconds waited = {};
};

std::string title_of(const Guard& guard) {
  return guard.name.empty() ? "the condition" : "guard '" + printable(guard.name) + "'";
}

nanoseconds duration_of(const Arguments& arguments, const char* option, nanoseconds otherwise) {
  const auto text = arguments.value(option);
  return text ? parse_duration(option, *text) : otherwise;
}

std::string_view state_of(const Asked& asked) {
  // The signal is used up, so it has to win: what comes behind `guard wait x &&` is not wanted any more.
  if (asked.signal != 0) return "cancelled";
  const auto* const failed = std::get_if<GuardFailed>(&asked.outcome);
  if (failed == nullptr) return "passed";
  if (may_proceed(asked.outcome)) return "warned";
  const bool in_vain = asked.limit && asked.limit->count() > 0 && !std::holds_alternative<Fail>(failed->action);
  return in_vain ? "timed_out" : "failed";
}

void print(const Asked& asked, std::string_view state) {
  const auto* const failed = std::get_if<GuardFailed>(&asked.outcome);
  const bool named = !asked.guard.name.empty();
  const auto text_or_null = [](bool there, const std::string& text) {
    return there ? json::value(printable(text)) : json::value(nullptr);
  };
  print_line(json_text(
      json::object{{"guard", text_or_null(named, asked.guard.name)},
                   {"state", json::string_view(state.data(), state.size())},
                   {"passed", failed == nullptr},
                   {"reason", text_or_null(failed != nullptr, failed == nullptr ? std::string() : failed->reason)},
                   {"action", named ? json::value(action_text(asked.guard.on_failure)) : json::value(nullptr)},
                   {"condition", asked.guard.condition.str()},
                   {"pid", ::getpid()},
                   {"time", rfc3339(process::real_clock().wall_ns())},
                   {"waited_s", static_cast<double>(asked.waited / std::chrono::milliseconds(1)) / 1e3}}));
}

/// The exit code.
int say_outcome(const Asked& asked, bool for_programs) {
  const std::string_view state = state_of(asked);
  const std::string title = title_of(asked.guard);
  if (for_programs) print(asked, state);
  const auto* const failed = std::get_if<GuardFailed>(&asked.outcome);
  if (state == "cancelled") {
    say_error(state, "interrupted while waiting for " + title + (failed == nullptr ? "" : ": " + failed->reason));
    return exit_by_signal + asked.signal;
  }
  if (failed == nullptr) {
    if (!for_programs) print_line(title + " passed");
    return exit_done;
  }
  if (state == "warned") {
    say("warning: " + title + " not passed: " + failed->reason);
    return exit_done;
  }
  const auto* const fail = std::get_if<Fail>(&failed->action);
  const std::string within = state == "timed_out" ? " within " + format_duration(*asked.limit) : "";
  const std::string message = fail == nullptr ? "" : fail->message + "; ";
  say_error(state, title + " not passed" + within + ": " + message + failed->reason);
  return exit_busy;
}

/// What is waited for and why, told again when the reason is another one; to programs once, as of other waits.
class WaitTold {
 public:
  WaitTold(std::string guard, bool for_programs) : guard_(std::move(guard)), for_programs_(for_programs) {}

  /// By the thread that waits.
  void found(const GuardOutcome& outcome) {
    const auto* const failed = std::get_if<GuardFailed>(&outcome);
    const std::scoped_lock lock(mutex_);
    if (failed != nullptr) reason_ = failed->reason;
  }
  /// By the one that tells.
  int tell() {
    std::string reason;
    {
      const std::scoped_lock lock(mutex_);
      reason = reason_;
    }
    if (reason != told_) say("waiting for guard '" + guard_ + "': " + reason);
    told_ = std::move(reason);
    return for_programs_ ? Companion::no_more : look_again_ms;
  }

 private:
  std::string guard_;
  bool for_programs_;
  std::string told_;
  std::mutex mutex_;
  std::string reason_ = "it is being evaluated";
};

/// `limit`: none: until it passes; 0: once.
int ask_registered(const Arguments& arguments, std::optional<nanoseconds> limit, const char* label) {
  const AskOptions options = ask_options_of(arguments);
  GuardWaitOptions wait;
  wait.timeout = limit;
  wait.recheck = duration_of(arguments, "--recheck", wait.recheck);
  wait.evaluation_timeout = duration_of(arguments, "--timeout", wait.evaluation_timeout);
  wait.directory = options.directory;

  const StopSignals signals;
  Session session = again_if_removed([&] { return join_session(arguments.global, IfMissing::fail, label); });
  GuardFlag flag(session, arguments.words[0]);
  Asked asked{flag.guard(), GuardPassed{}, 0, limit};
  const bool once = limit && limit->count() == 0;
  const bool for_programs = arguments.global.json;
  const std::int64_t began_ns = process::real_clock().now_ns();
  {
    GuardPorts ports;
    ports.primitives = primitives_of(session.segment());
    ports.sessions = sessions_of(session.segment());
    const Asker asker(std::move(ports), options);
    WaitTold told(flag.name(), for_programs);
    wait.on_outcome = [&told](const GuardOutcome& outcome) { told.found(outcome); };
    Companion companion(
        signals, once ? Companion::Tell() : [&told] { return told.tell(); });
    wait.stop = companion.token();
    asked.outcome = flag.wait(asker.executor(), wait);
    asked.waited = nanoseconds(process::real_clock().now_ns() - began_ns);
    asked.signal = companion.finish();
  }
  try {
    asked.guard = flag.guard();  // somebody may have replaced it meanwhile
  } catch (const Error&) {       // or removed it by now, which changes no answer
  }
  return say_outcome(asked, for_programs);
}

/// Registers nothing and writes nothing. Without locks and semaphores no segment is needed; nor for sessions, if there
/// is a command that knows them.
int ask_once(const Arguments& arguments, GuardCondition condition) {
  const AskOptions options = ask_options_of(arguments);
  GuardExecutor::Limits limits;
  limits.timeout = duration_of(arguments, "--timeout", limits.timeout);
  bool primitives = false;
  bool sessions = false;
  for (const GuardInput& input : condition.required_inputs()) {
    primitives =
        primitives || input.kind == GuardInputKind::lock_state || input.kind == GuardInputKind::semaphore_state;
    sessions = sessions || input.kind == GuardInputKind::session_alive;
  }
  const StopSignals signals;
  GuardPorts ports;
  if (primitives || sessions) {
    try {
      const Segment segment = detail::Access::segment(open_read_only(arguments.global));
      ports.primitives = primitives_of(segment);
      ports.sessions = sessions_of(segment);
    } catch (const Error& e) {
      if (e.errc() != Errc::segment_not_found || primitives || !options.sessions_command) throw;
    }
  }
  Asked asked{{"", std::move(condition), Block{}, {}}, GuardPassed{}};
  const std::int64_t began_ns = process::real_clock().now_ns();
  {
    const Asker asker(std::move(ports), options);
    Companion companion(signals);
    limits.stop = companion.token();
    asked.outcome = asker.executor().evaluate(asked.guard, limits);
    asked.waited = nanoseconds(process::real_clock().now_ns() - began_ns);
    asked.signal = companion.finish();
  }
  return say_outcome(asked, arguments.global.json);
}

}  // namespace

int guard_eval(const Arguments& arguments) {
  auto condition = condition_of(arguments);
  const bool named = !arguments.words.empty();
  if (named && condition) {
    throw UsageError{"the name of a guard and a condition exclude each other: '" + arguments.words[0] +
                     "' has its condition already"};
  }
  if (condition) return ask_once(arguments, *std::move(condition));
  if (!named) {
    throw UsageError{"'guard eval' needs the name of a guard, or a condition (--condition, --json-file)"};
  }
  return ask_registered(arguments, nanoseconds::zero(), "guard eval");
}

int guard_wait(const Arguments& arguments) {
  return ask_registered(arguments, wait_rule(arguments).limit, "guard wait");
}

}  // namespace shmcoord::tool
