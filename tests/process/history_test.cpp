#include "support/history.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/face.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/lock_specification.hpp"
#include "support/long_form.hpp"
#include "support/process_child.hpp"

// Several processes with several threads each do random things with a few locks, some are killed, and what they saw is
// judged by the pure machine (support/lock_specification.hpp). A history that it cannot explain is kept as a file.
//
//   SHMCOORD_HISTORY=<file>   judges that file and makes no history of its own
//   SHMCOORD_SEED=<number>    makes the rounds that this seed made (the processes' timing is the machine's)

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using engine::RealPolicy;
using test::History;
using test::Operation;
using test::OwnSegment;
using test::Recorder;
using test::Verb;

struct Round {
  unsigned seed = 0;
  std::size_t processes = 4;
  std::size_t threads = 2;      // of each process
  std::size_t operations = 60;  // of each thread
  std::size_t kills = 3;
  [[nodiscard]] std::size_t clients() const { return (processes + kills) * threads; }
};

constexpr std::array<const char*, 3> names{"plain", "bounded", "removed"};
constexpr std::chrono::nanoseconds max_hold = 20ms;  // of "bounded"

Operation operation(std::string client, const char* object, Verb verb, std::string holder = {}) {
  Operation o;
  o.client = client;
  o.object = object;
  o.verb = verb;
  o.holder = holder;
  return o;
}

// One thread of one process: its pen, its view of what it holds, and dice.
class Client {
 public:
  Client(Session& session, std::vector<Lock>& locks, Recorder::Pen pen, std::string name, const Round& round,
         unsigned seed, bool manual)
      : participant_(detail::Access::state(session)->participant),
        session_(session),
        locks_(locks),
        pen_(pen),
        name_(std::move(name)),
        round_(round),
        random_(seed),
        manual_(manual) {
    for (const char* const object : names) {
      others_.push_back(std::make_unique<process::PrimitiveClient>(participant_, object, process::NameOptions{}));
    }
  }

  void run() {
    for (std::size_t i = 0; i < round_.operations; ++i) {
      step();
      if (below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(manual_ ? 3'000 : 300)));
    }
    for (std::size_t lock = 0; lock < names.size(); ++lock) {
      for (int id = 0; id < ids; ++id) release(lock, id);
    }
  }

  static constexpr std::size_t last_words = names.size() * 2;

 private:
  static constexpr int ids = 2;  // holder ids of a thread

  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }
  [[nodiscard]] std::string id(int which) const {
    return "h" + name_.substr(name_.find('.')) + (which == 0 ? "" : "b");
  }

  template <class Run>
  void record(const Operation& what, Run&& run) {
    pen_.record(what, [&](Operation& o) {
      try {
        run(o);
      } catch (const Error& e) {
        o.answer = e.code() == Errc::not_found ? "not_found"
                   : e.code() == Errc::in_use  ? "in_use"
                                               : std::string_view(e.what()).substr(0, 31);  // explained by nothing
      }
    });
  }
  [[nodiscard]] Operation about(std::size_t lock, Verb verb, const std::string& holder = {}) const {
    return operation(name_, names[lock], verb, holder);
  }

  void step() {
    const std::size_t lock = below(names.size());
    const int who = static_cast<int>(below(8) == 0);
    const unsigned dice = below(100);
    if (dice < 45) {
      acquire(lock, who, dice < 30 ? Verb::acquire : Verb::try_acquire);
    } else if (dice < 70) {
      release(lock, who);
    } else if (dice < 80) {
      beat(lock, who, dice < 75 ? Verb::heartbeat : Verb::renew);
    } else if (dice < 88) {
      record(about(lock, Verb::status), [&](Operation& o) {
        const auto holder = locks_[lock].holder();
        o.answer = holder ? "held" : "free";
        if (!holder) return;
        o.who = holder->holder;
        o.got = holder->token;
      });
    } else if (dice < 93) {
      Operation o = about(lock, Verb::is_current);
      o.token = tokens_[lock];
      if (o.token == 0) return;
      record(o, [&](Operation& out) { out.answer = locks_[lock].is_current(out.token) ? "true" : "false"; });
    } else if (dice < 96) {
      const std::string whom = below(2) == 0 ? std::string() : id(0);
      record(about(lock, Verb::force_release, whom),
             [&](Operation& o) { o.answer = others_[lock]->force_release(whom) ? "reclaimed" : "nothing"; });
    } else {
      record(about(2, Verb::remove), [&](Operation& o) {
        Lock::remove(session_, names[2]);
        o.answer = "removed";
      });
    }
  }

  void acquire(std::size_t lock, int who, Verb verb) {
    Operation o = about(lock, verb, id(who));
    AcquireOptions options;
    if (manual_ && lock == 0 && below(2) == 0) options.ttl = std::chrono::microseconds(15'000 + below(10'000));
    o.ttl_ns = options.ttl.value_or(0ns).count();
    if (verb == Verb::acquire) o.limit_ns = 100'000 + below(8'000'000);
    const HolderId holder{id(who)};
    record(o, [&](Operation& out) {
      const AcquireOutcome got = verb == Verb::acquire
                                     ? locks_[lock].acquire(holder, options, std::chrono::nanoseconds(out.limit_ns))
                                     : locks_[lock].try_acquire(holder, options);
      out.answer = to_string(got.result);
      out.got = got.token;
      if (got.token != 0) tokens_[lock] = got.token;
      if (!got.previous) return;
      out.who = got.previous->holder;
      out.why = got.previous->why;
    });
  }

  void release(std::size_t lock, int who) {
    record(about(lock, Verb::release, id(who)), [&](Operation& o) {
      const ReleaseOutcome got = locks_[lock].release(HolderId{id(who)});
      o.answer = to_string(got.result);
      if (got.lost) o.why = got.lost->why;
    });
  }

  void beat(std::size_t lock, int who, Verb verb) {
    Operation o = about(lock, verb, id(who));
    if (verb == Verb::renew && (lock != 0 || !manual_)) o.verb = Verb::heartbeat;
    if (o.verb == Verb::renew) o.ttl_ns = 15'000'000 + below(10'000'000);
    record(o, [&](Operation& out) {
      const HolderId holder{id(who)};
      const HeartbeatOutcome got = out.verb == Verb::renew
                                       ? locks_[lock].renew(holder, std::chrono::nanoseconds(out.ttl_ns))
                                       : locks_[lock].heartbeat(holder);
      out.answer = to_string(got.result);
      if (got.lost) out.why = got.lost->why;
    });
  }

  std::shared_ptr<process::Participant> participant_;
  Session& session_;
  std::vector<Lock>& locks_;
  std::vector<std::unique_ptr<process::PrimitiveClient>> others_;  // for what the face does not offer
  Recorder::Pen pen_;
  std::string name_;
  const Round& round_;
  std::mt19937 random_;
  bool manual_;
  std::array<std::uint64_t, names.size()> tokens_{};
};

// What one process does. `number` counts all that ever ran in the round.
int live(const std::string& segment_name, const Recorder& recorder, const Round& round, std::size_t number) {
  const Segment segment = Segment::open(segment_name);
  const bool manual = number % 2 == 0;  // such sessions' leases run out
  Session session{segment, {.manual_heartbeat = manual}};
  std::vector<Lock> locks;
  for (std::size_t i = 0; i < names.size(); ++i) {
    locks.emplace_back(session, names[i], i == 1 ? LockOptions{.max_hold_duration = max_hold} : LockOptions{});
  }
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < round.threads; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "p" + std::to_string(number) + "." + std::to_string(t);
      const auto client = number * round.threads + t;
      Client(session, locks, recorder.pen(client), name, round, round.seed + static_cast<unsigned>(client), manual)
          .run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}

History play(const Round& round) {
  OwnSegment segment;
  const Recorder recorder(round.clients(), round.operations + Client::last_words);
  History facts;
  for (const char* const name : names) {
    facts.push_back(operation("run", name, Verb::configure));
    if (name == names[1]) facts.back().limit_ns = max_hold.count();
    facts.back().call_ns = facts.back().return_ns = RealPolicy::now_ns();
  }
  std::mt19937 random(round.seed);
  std::vector<std::pair<std::size_t, test::Child>> running;
  std::size_t started = 0;
  const auto start = [&] {
    const std::size_t number = started++;
    running.emplace_back(number, test::Child([&, number](const test::Child::Line&) {
                           return live(segment.name(), recorder, round, number);
                         }));
  };
  for (std::size_t i = 0; i < round.processes; ++i) start();
  for (std::size_t i = 0; i < round.kills; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    const auto victim = running.begin() + static_cast<std::ptrdiff_t>(random() % running.size());
    Operation death = operation("p" + std::to_string(victim->first), "*", Verb::died);
    death.call_ns = RealPolicy::now_ns();
    victim->second.kill(SIGKILL);
    const int end = victim->second.wait();
    death.return_ns = RealPolicy::now_ns();
    if (end == -SIGKILL) facts.push_back(death);  // else it was done before
    // Whoever is named p<number> never comes back; another one takes its place.
    std::vector<std::pair<std::size_t, test::Child>> rest;
    for (auto& child : running) {
      if (child.first != victim->first) rest.push_back(std::move(child));
    }
    running.swap(rest);
    start();
  }
  for (auto& [number, child] : running) EXPECT_EQ(child.wait(), 0) << "p" << number;
  History history = recorder.collect();
  history.insert(history.begin(), facts.begin(), facts.end());
  return history;
}

/// The last lines of the prefix, where the trouble is.
std::string describe(const test::UnexplainedLock& bad) {
  constexpr std::size_t shown = 40;
  const std::size_t from = bad.prefix.size() > shown ? bad.prefix.size() - shown : 0;
  std::string text =
      "lock '" + bad.object.str() + "': no order explains these first " + std::to_string(bad.prefix.size()) + " lines";
  if (from > 0) text += ", of which the last " + std::to_string(shown) + " are";
  text += ":\n";
  for (std::size_t i = from; i < bad.prefix.size(); ++i) text += to_json(bad.prefix[i]) + '\n';
  return text;
}

::testing::AssertionResult linearizable(const History& history) {
  const auto bad = test::unexplained_lock(history);
  if (!bad) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << describe(*bad);
}

std::filesystem::path keep(const History& history, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / (name + ".jsonl");
  test::write(history, path);
  return path;
}

TEST(History, of_several_processes_is_linearizable) {
  if (const char* const path = std::getenv("SHMCOORD_HISTORY"); path != nullptr) {
    EXPECT_TRUE(linearizable(test::read_history(path)));
    return;
  }
  const char* const given = std::getenv("SHMCOORD_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::cout << "SHMCOORD_SEED=" << seed << '\n';
  const auto end = std::chrono::steady_clock::now() + (test::long_form() ? 180s : 4s);
  std::size_t operations = 0;
  std::size_t rounds = 0;
  for (; rounds == 0 || std::chrono::steady_clock::now() < end; ++rounds) {
    const History history = play({.seed = seed + static_cast<unsigned>(rounds) * 1000});
    operations += history.size();
    if (const auto verdict = linearizable(history); !verdict) {
      const auto path = keep(history, "history-" + std::to_string(seed) + "-" + std::to_string(rounds));
      FAIL() << verdict.message() << "the whole history: " << path.string();
    }
  }
  std::cout << operations << " operations in " << rounds << " rounds\n";
}

}  // namespace
}  // namespace shmcoord
