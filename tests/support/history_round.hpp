#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "process/face.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/history_judge.hpp"
#include "support/long_form.hpp"
#include "support/process_child.hpp"

// How histories are made: several processes with several threads each do random things with a few names, some are
// killed, and what they saw is judged by the pure machines. A history that these cannot explain is kept as a file.
//
//   SHMCOORD_HISTORY=<file>   judges that file and makes no history of its own
//   SHMCOORD_SEED=<number>    makes the rounds that this seed made (the processes' timing is the machine's)

namespace shmcoord::test {

struct Round {
  unsigned seed = 0;
  std::size_t processes = 4;
  std::size_t threads = 2;      // of each process
  std::size_t operations = 60;  // of each thread
  std::size_t kills = 3;
  [[nodiscard]] std::size_t all_processes() const { return processes + kills; }
};

inline Operation operation(const std::string& client, const char* object, Verb verb, const std::string& holder = {}) {
  Operation o;
  o.client = client;
  o.object = object;
  o.verb = verb;
  o.holder = holder;
  return o;
}

/// One thread of one process: its pen and dice. What it does is the business of who derives from it.
class HistoryClient {
 public:
  struct Place {
    const Round& round;
    std::size_t process;  // counts all that ever ran in the round
    std::size_t thread;
    Recorder::Pen pen;
    [[nodiscard]] std::string name() const { return "p" + std::to_string(process) + "." + std::to_string(thread); }
    /// Such sessions' leases run out.
    [[nodiscard]] bool manual() const { return process % 2 == 0; }
  };

  explicit HistoryClient(const Place& place)
      : round_(place.round),
        name_(place.name()),
        manual_(place.manual()),
        pen_(place.pen),
        random_(round_.seed + static_cast<unsigned>(place.process * round_.threads + place.thread)) {}
  virtual ~HistoryClient() = default;

  void run() {
    for (std::size_t i = 0; i < round_.operations; ++i) {
      step();
      if (below(4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(manual_ ? 3'000 : 300)));
    }
    release_all();
  }

 protected:
  virtual void step() = 0;
  virtual void release_all() = 0;

  unsigned below(unsigned bound) { return static_cast<unsigned>(random_() % bound); }

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

  const Round& round_;
  const std::string name_;
  const bool manual_;

 private:
  Recorder::Pen pen_;
  std::mt19937 random_;
};

/// `Client` has Names (made once in a process, of its session), last_words (operations of release_all()) and
/// configure(), which may make the names, and says how they are made.
template <class Client>
History play(const Round& round) {
  using Number = std::size_t;
  OwnSegment segment;
  const Recorder recorder(round.all_processes() * round.threads, round.operations + Client::last_words);
  const auto live = [&](Number number) {
    Session session{Segment::open(segment.name()), {.manual_heartbeat = number % 2 == 0}};
    typename Client::Names names(session);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < round.threads; ++t) {
      threads.emplace_back([&, t] {
        Client({round, number, t, recorder.pen(number * round.threads + t)}, session, names).run();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return 0;
  };
  History facts = Client::configure(Segment::open(segment.name()));
  for (Operation& fact : facts) fact.call_ns = fact.return_ns = engine::RealPolicy::now_ns();
  std::mt19937 random(round.seed);
  std::vector<std::pair<Number, Child>> running;
  Number started = 0;
  const auto start = [&] {
    const Number number = started++;
    running.emplace_back(number, Child([&, number](const Child::Line&) { return live(number); }));
  };
  for (std::size_t i = 0; i < round.processes; ++i) start();
  for (std::size_t i = 0; i < round.kills; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15'000));
    const auto victim = running.begin() + static_cast<std::ptrdiff_t>(random() % running.size());
    Operation death = operation("p" + std::to_string(victim->first), "*", Verb::died);
    death.call_ns = engine::RealPolicy::now_ns();
    victim->second.kill(SIGKILL);
    const int end = victim->second.wait();
    death.return_ns = engine::RealPolicy::now_ns();
    if (end == -SIGKILL) facts.push_back(death);  // else it was done before
    // Whoever is named p<number> never comes back; another one takes its place.
    std::vector<std::pair<Number, Child>> rest;
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
inline std::string describe(const UnexplainedObject& bad) {
  constexpr std::size_t shown = 40;
  const std::size_t from = bad.prefix.size() > shown ? bad.prefix.size() - shown : 0;
  std::string text =
      "'" + bad.object.str() + "': no order explains these first " + std::to_string(bad.prefix.size()) + " lines";
  if (from > 0) text += ", of which the last " + std::to_string(shown) + " are";
  text += ":\n";
  for (std::size_t i = from; i < bad.prefix.size(); ++i) text += to_json(bad.prefix[i]) + '\n';
  return text;
}

inline ::testing::AssertionResult linearizable(const History& history) {
  const auto bad = unexplained_object(history);
  if (!bad) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << describe(*bad);
}

/// Plays and judges round after round. `name` is that of the file in which a history is kept that nothing explains.
template <class Client>
void expect_linearizable_histories(const std::string& name, Round round = {}) {
  if (const char* const path = std::getenv("SHMCOORD_HISTORY"); path != nullptr) {
    EXPECT_TRUE(linearizable(read_history(path)));
    return;
  }
  const char* const given = std::getenv("SHMCOORD_SEED");
  const unsigned seed = given != nullptr ? static_cast<unsigned>(std::stoul(given)) : std::random_device{}();
  std::cout << "SHMCOORD_SEED=" << seed << '\n';
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(long_form() ? 180 : 4);
  std::size_t operations = 0;
  std::size_t rounds = 0;
  for (; rounds == 0 || std::chrono::steady_clock::now() < end; ++rounds) {
    round.seed = seed + static_cast<unsigned>(rounds) * 1000;
    const History history = play<Client>(round);
    operations += history.size();
    if (const auto verdict = linearizable(history); !verdict) {
      const auto path = std::filesystem::path(::testing::TempDir()) /
                        (name + "-" + std::to_string(seed) + "-" + std::to_string(rounds) + ".jsonl");
      write(history, path);
      FAIL() << verdict.message() << "the whole history: " << path.string();
    }
  }
  std::cout << operations << " operations in " << rounds << " rounds\n";
}

}  // namespace shmcoord::test
