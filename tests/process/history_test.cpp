#include "support/history.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "process/face.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/history_round.hpp"

// Histories of locks (support/history_round.hpp), judged by support/lock_specification.hpp.

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

constexpr std::array<const char*, 3> names{"plain", "bounded", "removed"};
constexpr std::chrono::nanoseconds max_hold = 20ms;  // of "bounded"

class LockClient : public HistoryClient {
 public:
  struct Names {
    explicit Names(Session& session) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        locks.emplace_back(session, names[i], i == 1 ? LockOptions{.max_hold_duration = max_hold} : LockOptions{});
      }
    }
    std::vector<Lock> locks;
  };
  static History configure(const Segment&) {
    History facts;
    for (const char* const name : names) {
      facts.push_back(operation("run", name, Verb::configure));
      if (name == names[1]) facts.back().limit_ns = max_hold.count();
    }
    return facts;
  }

  LockClient(const Place& place, Session& session, Names& shared)
      : HistoryClient(place), session_(session), locks_(shared.locks) {
    for (const char* const object : names) {
      others_.push_back(std::make_unique<process::PrimitiveClient>(detail::Access::state(session)->participant, object,
                                                                   process::NameOptions{}));
    }
  }

  static constexpr std::size_t last_words = names.size() * 2;

 private:
  static constexpr int ids = 2;  // holder ids of a thread

  [[nodiscard]] std::string id(int which) const {
    return "h" + name_.substr(name_.find('.')) + (which == 0 ? "" : "b");
  }
  [[nodiscard]] Operation about(std::size_t lock, Verb verb, const std::string& holder = {}) const {
    return operation(name_, names[lock], verb, holder);
  }

  void release_all() override {
    for (std::size_t lock = 0; lock < names.size(); ++lock) {
      for (int id = 0; id < ids; ++id) release(lock, id);
    }
  }

  void step() override {
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

  Session& session_;
  std::vector<Lock>& locks_;
  std::vector<std::unique_ptr<process::PrimitiveClient>> others_;  // for what the face does not offer
  std::array<std::uint64_t, names.size()> tokens_{};
};

TEST(History, of_several_processes_is_linearizable) { expect_linearizable_histories<LockClient>("history"); }

}  // namespace
}  // namespace shmcoord::test
