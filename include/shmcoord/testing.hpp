#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "shmcoord/clock.hpp"
#include "shmcoord/guard_executor.hpp"

// A component of its own, header-only: link shmcoord::testing. All of it may be used from several threads at once.
//
// A clock for tests of programs that leave the time to one (C-43).
//
// Ports for tests of programs that use guards (S1-117, S1-118): each answers from what a test told it, and can fail or
// hang where a test wants it to.
//
//   shmcoord::testing::FakePorts fakes;
//   fakes.repository->branch("fix").merged("fix", "main");
//   fakes.files->fails("VERSION", "Permission denied");
//   EXPECT_TRUE(passes(shmcoord::GuardExecutor{fakes.ports()}));
//
// What was told holds from then on; telling again replaces it.

namespace shmcoord::testing {

/// A clock that stands still until it is told to go on.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(TimePoint start = TimePoint(std::chrono::seconds(1000))) : now_(start) {}

  [[nodiscard]] TimePoint now() const noexcept override {
    const std::scoped_lock lock(mutex_);
    return now_;
  }
  bool wait_until(TimePoint at, const std::stop_token& stop) const override {
    std::unique_lock lock(mutex_);
    const auto mine = awaited_.insert(at);
    changed_.notify_all();
    const bool is_time = changed_.wait(lock, stop, [&] { return now_ >= at; });
    awaited_.erase(mine);
    return is_time && !stop.stop_requested();
  }

  void advance(std::chrono::nanoseconds by) {
    const std::scoped_lock lock(mutex_);
    now_ += std::chrono::duration_cast<TimePoint::duration>(by);
    changed_.notify_all();
  }
  /// Blocks until exactly so many wait for it, for a time that has not come.
  void await_waiting(std::size_t count) const {
    std::unique_lock lock(mutex_);
    const auto has_not_come = [this](TimePoint at) { return at > now_; };
    changed_.wait(lock, [&] {
      return static_cast<std::size_t>(std::count_if(awaited_.begin(), awaited_.end(), has_not_come)) == count;
    });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  mutable std::multiset<TimePoint> awaited_;
  TimePoint now_;
};

/// What every fake can do. A subject is what is asked about: the name, branch, path, issue, command or filter text; of
/// questions about two things, the first.
class Fake {
 public:
  enum class Heeds : std::uint8_t { stop, nothing };

  Fake() = default;
  virtual ~Fake() = default;
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;

  /// Asking about it throws std::runtime_error with this reason; with none, something that is no exception.
  void fails(const std::string& subject, std::optional<std::string> reason) {
    const std::scoped_lock lock(mutex_);
    failures_[subject] = std::move(reason);
  }
  /// Asking about it takes until let_go(), or until the stop of the deadline, which then throws. Of GuardPrimitives,
  /// which have no deadline: until let_go().
  void hangs(const std::string& subject, Heeds heeds = Heeds::stop) {
    const std::scoped_lock lock(mutex_);
    hangs_[subject] = heeds;
  }
  /// Nothing hangs any more; whoever does goes on with its answer.
  void let_go() {
    const std::scoped_lock lock(mutex_);
    hangs_.clear();
    changed_.notify_all();
  }

  /// How often it was asked, in all or about one subject.
  [[nodiscard]] std::size_t asked() const {
    const std::scoped_lock lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [subject, count] : asked_) sum += count;
    return sum;
  }
  [[nodiscard]] std::size_t asked(const std::string& subject) const {
    const std::scoped_lock lock(mutex_);
    const auto at = asked_.find(subject);
    return at == asked_.end() ? 0 : at->second;
  }
  /// The largest number of threads that were in it at one time.
  [[nodiscard]] std::size_t most_at_once() const {
    const std::scoped_lock lock(mutex_);
    return most_inside_;
  }
  /// Blocks until exactly so many hang in it.
  void await_hanging(std::size_t count) const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return hanging_ == count; });
  }

 protected:
  /// One question: counts, hangs, fails, or gives what `answer` returns, which is called under the lock.
  template <class Answer>
  auto ask(const std::string& subject, const GuardDeadline& deadline, const Answer& answer) {
    std::unique_lock lock(mutex_);
    const Inside inside(*this, subject);
    if (const auto how = hangs_.find(subject); how != hangs_.end()) hang(lock, subject, how->second, deadline);
    if (const auto failure = failures_.find(subject); failure != failures_.end()) {
      if (!failure->second) throw 0;  // NOLINT(hicpp-exception-baseclass): it is what the test wants
      throw std::runtime_error(*failure->second);
    }
    return answer();
  }
  template <class Change>
  void tell(const Change& change) {
    const std::scoped_lock lock(mutex_);
    change();
  }
  template <class Map, class Key>
  static const typename Map::mapped_type& told(const Map& map, const Key& key, const std::string& otherwise) {
    const auto at = map.find(key);
    if (at == map.end()) throw std::runtime_error(otherwise);
    return at->second;
  }

 private:
  // In ask(), under the lock from the first to the last line.
  struct Inside {
    Inside(Fake& fake, const std::string& subject) : fake_(fake) {
      ++fake_.asked_[subject];
      fake_.most_inside_ = std::max(fake_.most_inside_, ++fake_.inside_);
      fake_.changed_.notify_all();
    }
    ~Inside() {
      --fake_.inside_;
      fake_.changed_.notify_all();
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    Fake& fake_;
  };

  void hang(std::unique_lock<std::mutex>& lock, const std::string& subject, Heeds heeds,
            const GuardDeadline& deadline) {
    ++hanging_;
    changed_.notify_all();
    const auto gone_on = [&] { return !hangs_.contains(subject); };
    bool let_go = true;
    if (heeds == Heeds::stop && deadline.stop.stop_possible()) {
      let_go = changed_.wait(lock, deadline.stop, gone_on);
    } else {
      changed_.wait(lock, gone_on);
    }
    --hanging_;
    changed_.notify_all();
    if (!let_go) throw std::runtime_error("it was stopped");
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  std::map<std::string, std::optional<std::string>> failures_;
  std::map<std::string, Heeds> hangs_;
  std::map<std::string, std::size_t> asked_;
  std::size_t inside_ = 0;
  std::size_t most_inside_ = 0;
  std::size_t hanging_ = 0;
};

/// Without being told: no lock of that name, no semaphore of that name.
class FakePrimitives final : public Fake, public GuardPrimitives {
 public:
  FakePrimitives& free_lock(const std::string& name) {
    tell([&] { locks_[name] = {}; });
    return *this;
  }
  FakePrimitives& held_lock(const std::string& name, std::vector<std::string> holders = {}) {
    tell([&] { locks_[name] = Lock{false, std::move(holders)}; });
    return *this;
  }
  FakePrimitives& free_permits(const std::string& semaphore, std::uint32_t permits) {
    tell([&] { semaphores_[semaphore] = permits; });
    return *this;
  }

  std::optional<Lock> lock(const std::string& name) override {
    return ask(name, {}, [&]() -> std::optional<Lock> {
      const auto at = locks_.find(name);
      return at == locks_.end() ? std::nullopt : std::optional(at->second);
    });
  }
  std::optional<std::uint32_t> semaphore(const std::string& name) override {
    return ask(name, {}, [&]() -> std::optional<std::uint32_t> {
      const auto at = semaphores_.find(name);
      return at == semaphores_.end() ? std::nullopt : std::optional(at->second);
    });
  }

 private:
  std::map<std::string, Lock> locks_;
  std::map<std::string, std::uint32_t> semaphores_;
};

/// Without being told: it is not alive.
class FakeSessions final : public Fake, public GuardSessions {
 public:
  FakeSessions& alive(const std::string& session, bool is = true) {
    tell([&] { is ? static_cast<void>(alive_.insert(session)) : static_cast<void>(alive_.erase(session)); });
    return *this;
  }
  bool is_alive(const std::string& session, const GuardDeadline& deadline) override {
    return ask(session, deadline, [&] { return alive_.contains(session); });
  }

 private:
  std::set<std::string> alive_;
};

/// Without being told: there is no such branch, and asking for more than whether it exists throws. One that was told is
/// clean, and merged into none but itself.
class FakeRepository final : public Fake, public GuardRepository {
 public:
  FakeRepository& branch(const std::string& name, bool clean = true) {
    tell([&] { branches_[name] = clean; });
    return *this;
  }
  FakeRepository& no_branch(const std::string& name) {
    tell([&] { branches_.erase(name); });
    return *this;
  }
  /// Both exist from then on.
  FakeRepository& merged(const std::string& branch, const std::string& into, bool is = true) {
    tell([&] {
      branches_.try_emplace(branch, true);
      branches_.try_emplace(into, true);
      merged_[{branch, into}] = is;
    });
    return *this;
  }

  bool branch_exists(const std::string& branch, const GuardDeadline& deadline) override {
    return ask(branch, deadline, [&] { return branches_.contains(branch); });
  }
  bool is_clean(const std::string& branch, const GuardDeadline& deadline) override {
    return ask(branch, deadline, [&] { return need(branch); });
  }
  bool is_merged(const std::string& branch, const std::string& into, const GuardDeadline& deadline) override {
    return ask(branch, deadline, [&] {
      (void)need(branch);
      (void)need(into);
      const auto at = merged_.find({branch, into});
      return at == merged_.end() ? branch == into : at->second;
    });
  }

 private:
  [[nodiscard]] bool need(const std::string& branch) const {
    return told(branches_, branch, "there is no branch '" + branch + "'");
  }
  std::map<std::string, bool> branches_;  // clean
  std::map<std::pair<std::string, std::string>, bool> merged_;
};

/// Without being told: there is no such issue, which throws.
class FakeIssues final : public Fake, public GuardIssues {
 public:
  FakeIssues& issue(Issue issue) {
    tell([&] {
      std::string id = issue.id;
      issues_.insert_or_assign(std::move(id), std::move(issue));
    });
    return *this;
  }
  FakeIssues& issue(const std::string& id, IssueStatus status, std::vector<std::string> labels = {}) {
    return issue(Issue{id, status, std::move(labels)});
  }

  IssueStatus status(const std::string& issue, const GuardDeadline& deadline) override {
    return ask(issue, deadline, [&] { return told(issues_, issue, "there is no issue '" + issue + "'").status; });
  }
  std::vector<Issue> issues(const IssueFilter& filter, const GuardDeadline& deadline) override {
    return ask(filter.str(), deadline, [&] {
      std::vector<Issue> list;
      for (const auto& [id, issue] : issues_) {
        if (filter.matches(issue)) list.push_back(issue);
      }
      return list;
    });
  }

 private:
  std::map<std::string, Issue> issues_;
};

/// Without being told: there is no such file, and asking what it contains throws.
class FakeFiles final : public Fake, public GuardFiles {
 public:
  /// A file that contains what these patterns, word for word, mean, and nothing that another one means.
  FakeFiles& file(const std::string& path, std::set<std::string> patterns = {}) {
    tell([&] { files_[path] = std::move(patterns); });
    return *this;
  }
  FakeFiles& no_file(const std::string& path) {
    tell([&] { files_.erase(path); });
    return *this;
  }

  bool exists(const std::string& path, const GuardDeadline& deadline) override {
    return ask(path, deadline, [&] { return files_.contains(path); });
  }
  bool contains(const std::string& path, const std::string& pattern, const GuardDeadline& deadline) override {
    return ask(path, deadline, [&] { return told(files_, path, "there is no such file").contains(pattern); });
  }

 private:
  std::map<std::string, std::set<std::string>> files_;
};

/// Without being told: it cannot be run, which throws. Runs nothing.
class FakeCommands final : public Fake, public GuardCommands {
 public:
  FakeCommands& command(const std::string& command, bool success, std::string detail = {}) {
    tell([&] { results_[command] = {success, std::move(detail)}; });
    return *this;
  }
  CommandResult run(const std::string& command, const GuardDeadline& deadline) override {
    return ask(command, deadline, [&] { return told(results_, command, "it cannot be run"); });
  }

 private:
  std::map<std::string, CommandResult> results_;
};

/// Without being told: there is no such pipeline, which throws.
class FakePipelines final : public Fake, public GuardPipelines {
 public:
  FakePipelines& pipeline(const std::string& name, std::string phase, bool complete = false) {
    tell([&] { states_[name] = {std::move(phase), complete}; });
    return *this;
  }
  PipelineState state(const std::string& pipeline, const GuardDeadline& deadline) override {
    return ask(pipeline, deadline, [&] { return told(states_, pipeline, "there is no pipeline '" + pipeline + "'"); });
  }

 private:
  std::map<std::string, PipelineState> states_;
};

/// One of each.
struct FakePorts {
  std::shared_ptr<FakePrimitives> primitives = std::make_shared<FakePrimitives>();
  std::shared_ptr<FakeSessions> sessions = std::make_shared<FakeSessions>();
  std::shared_ptr<FakeRepository> repository = std::make_shared<FakeRepository>();
  std::shared_ptr<FakeIssues> issues = std::make_shared<FakeIssues>();
  std::shared_ptr<FakeFiles> files = std::make_shared<FakeFiles>();
  std::shared_ptr<FakeCommands> commands = std::make_shared<FakeCommands>();
  std::shared_ptr<FakePipelines> pipelines = std::make_shared<FakePipelines>();

  [[nodiscard]] GuardPorts ports() const {
    return {primitives, sessions, repository, issues, files, commands, pipelines};
  }
};

}  // namespace shmcoord::testing
