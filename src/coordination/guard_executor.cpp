#include "shmcoord/guard_executor.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "process/clock.hpp"

// Asking for what a condition needs.
//
// Problem: a port may be slow (a repository on a network file system), may hang, and may throw; the caller gets an
// answer by its deadline all the same, and slow ones are asked side by side. So each is asked by a thread of its own,
// of which there are at most `most_threads`; each answer goes into a Gathering that the threads and the caller own
// together; and at the deadline the caller takes what is there and closes it. A thread that comes back later finds it
// closed. Threads are detached: nobody could wait for one that hangs.

namespace shmcoord {
namespace {

constexpr std::size_t most_threads = 16;  // more than a person's condition asks, fewer than a machine would feel

[[noreturn]] void nobody(const char* what) { throw std::runtime_error(std::string("no ") + what + " to ask"); }

template <class Port>
Port& present(const std::shared_ptr<Port>& port, const char* what) {
  if (port == nullptr) nobody(what);
  return *port;
}

// The answer to one question, as the only thing that is known.
GuardInputs answer(const GuardPorts& ports, const GuardInput& q, const GuardDeadline& deadline) {
  using enum GuardInputKind;
  GuardInputs in;
  const GuardInputs::Pair pair(q.subject, q.argument);
  switch (q.kind) {
    case lock_state: {
      auto lock = present(ports.primitives, "segment").lock(q.subject);
      in.locks[q.subject] = !lock || lock->free;
      if (lock && !lock->free) in.lock_holders[q.subject] = std::move(lock->holders);
      return in;
    }
    case semaphore_state: {
      const auto available = present(ports.primitives, "segment").semaphore(q.subject);
      if (!available) throw std::runtime_error("there is no such semaphore");
      in.semaphores[q.subject] = *available;
      return in;
    }
    case branch_exists:
      in.branches[q.subject] = present(ports.repository, "repository").branch_exists(q.subject, deadline);
      return in;
    case branch_merged:
      in.branch_merged[pair] = present(ports.repository, "repository").is_merged(q.subject, q.argument, deadline);
      return in;
    case branch_clean:
      in.branch_clean[q.subject] = present(ports.repository, "repository").is_clean(q.subject, deadline);
      return in;
    case issue_status: in.issues[q.subject] = present(ports.issues, "issues").status(q.subject, deadline); return in;
    case issues_for_filter:
      in.issue_lists[q.subject] = present(ports.issues, "issues").issues(IssueFilter::parse(q.subject), deadline);
      return in;
    case file_exists: in.files[q.subject] = present(ports.files, "files").exists(q.subject, deadline); return in;
    case file_contains:
      in.file_contains[pair] = present(ports.files, "files").contains(q.subject, q.argument, deadline);
      return in;
    case session_alive:
      in.sessions[q.subject] = present(ports.sessions, "sessions").is_alive(q.subject, deadline);
      return in;
    case custom_check: {
      CommandResult result = present(ports.commands, "commands").run(q.subject, deadline);
      in.custom_checks[q.subject] = result.success;
      if (!result.detail.empty()) in.command_details[q.subject] = std::move(result.detail);
      return in;
    }
    case pipeline_state:
      in.pipelines[q.subject] = present(ports.pipelines, "pipelines").state(q.subject, deadline);
      return in;
  }
  return in;
}

GuardInputs answer_or_failure(const GuardPorts& ports, const GuardInput& q, const GuardDeadline& deadline) {
  GuardInputs failed;
  try {
    return answer(ports, q, deadline);
  } catch (const std::exception& e) {
    failed.failures[q] = e.what();
  } catch (...) {
    failed.failures[q] = "for a reason that is not known";
  }
  return failed;
}

void merge(GuardInputs& into, GuardInputs&& from) {
  into.locks.merge(from.locks);
  into.lock_holders.merge(from.lock_holders);
  into.semaphores.merge(from.semaphores);
  into.branches.merge(from.branches);
  into.branch_merged.merge(from.branch_merged);
  into.branch_clean.merge(from.branch_clean);
  into.issues.merge(from.issues);
  into.issue_lists.merge(from.issue_lists);
  into.files.merge(from.files);
  into.file_contains.merge(from.file_contains);
  into.sessions.merge(from.sessions);
  into.custom_checks.merge(from.custom_checks);
  into.command_details.merge(from.command_details);
  into.pipelines.merge(from.pipelines);
  into.failures.merge(from.failures);
}

bool answers_at_once(const GuardInput& q) {
  return q.kind == GuardInputKind::lock_state || q.kind == GuardInputKind::semaphore_state;
}

// What the caller and its threads own together.
struct Gathering {
  std::shared_ptr<const GuardPorts> ports;
  std::vector<GuardInput> questions;
  GuardDeadline deadline;
  std::stop_source enough;  // the deadline passed, or the caller was stopped

  std::mutex mutex;
  std::condition_variable_any changed;
  std::size_t next = 0;
  std::vector<bool> answered;
  std::size_t count = 0;  // of those
  bool closed = false;
  GuardInputs inputs;

  void ask() {
    for (;;) {
      std::size_t mine = 0;
      {
        const std::scoped_lock lock(mutex);
        if (closed || next == questions.size()) return;
        mine = next++;
      }
      GuardInputs found = answer_or_failure(*ports, questions[mine], deadline);
      const std::scoped_lock lock(mutex);
      if (closed) return;
      merge(inputs, std::move(found));
      answered[mine] = true;
      ++count;
      changed.notify_all();
    }
  }

  // By the caller: all answers, or those that there are when the time is over.
  GuardInputs wait(const GuardExecutor::Limits& limits) {
    std::unique_lock lock(mutex);
    const bool all = changed.wait_until(lock, limits.stop, deadline.at, [&] { return count == questions.size(); });
    closed = true;
    if (!all) {
      const std::string why = limits.stop.stop_requested() ? "asking was stopped" : "no answer in time";
      for (std::size_t i = 0; i < questions.size(); ++i) {
        if (!answered[i]) inputs.failures[questions[i]] = why;
      }
    }
    GuardInputs result = std::move(inputs);
    lock.unlock();
    enough.request_stop();
    return result;
  }
};

GuardInputs ask_slow_ones(std::shared_ptr<const GuardPorts> ports, std::vector<GuardInput> questions,
                          const GuardExecutor::Limits& limits) {
  const auto gathering = std::make_shared<Gathering>();
  gathering->ports = std::move(ports);
  gathering->answered.resize(questions.size());
  gathering->questions = std::move(questions);
  // The same clock; there is one place that reads it.
  const std::chrono::steady_clock::time_point now{std::chrono::nanoseconds(process::real_clock().now_ns())};
  const auto longest = std::chrono::steady_clock::time_point::max() - now;
  gathering->deadline = {now + std::clamp<std::chrono::nanoseconds>(limits.timeout, {}, longest),
                         gathering->enough.get_token(), limits.kept_open};
  const std::size_t threads = std::min(most_threads, gathering->questions.size());
  std::size_t started = 0;
  for (; started < threads; ++started) {
    try {
      std::thread([gathering] { gathering->ask(); }).detach();
    } catch (const std::system_error&) {
      break;  // fewer do it too
    }
  }
  if (started == 0) {
    GuardInputs failed;
    for (const GuardInput& q : gathering->questions) failed.failures[q] = "no thread could be started to find out";
    return failed;
  }
  return gathering->wait(limits);
}

}  // namespace

GuardPrimitives::~GuardPrimitives() = default;
GuardSessions::~GuardSessions() = default;
GuardRepository::~GuardRepository() = default;
GuardIssues::~GuardIssues() = default;
GuardFiles::~GuardFiles() = default;
GuardCommands::~GuardCommands() = default;
GuardPipelines::~GuardPipelines() = default;

GuardExecutor::GuardExecutor(GuardPorts ports) : ports_(std::make_shared<const GuardPorts>(std::move(ports))) {}

GuardInputs GuardExecutor::gather(const GuardCondition& condition, const Limits& limits) const {
  // What answers at once is asked last, so that it is as new as can be when the others took their time.
  std::vector<GuardInput> quick;
  std::vector<GuardInput> slow;
  std::vector<GuardInput> all = condition.required_inputs();
  for (GuardInput& q : all) {
    (answers_at_once(q) ? quick : slow).push_back(std::move(q));
  }
  GuardInputs inputs;
  if (!slow.empty()) inputs = ask_slow_ones(ports_, std::move(slow), limits);
  for (const GuardInput& q : quick) merge(inputs, answer_or_failure(*ports_, q, {}));
  return inputs;
}

ConditionResult GuardExecutor::evaluate(const GuardCondition& condition, const Limits& limits) const {
  return condition.evaluate(gather(condition, limits));
}

GuardOutcome GuardExecutor::evaluate(const Guard& guard, const Limits& limits) const {
  return guard.evaluate(gather(guard.condition, limits));
}

}  // namespace shmcoord
