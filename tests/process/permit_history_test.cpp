#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "process/face.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/history.hpp"
#include "support/history_round.hpp"

// Histories of weighted semaphores (support/history_round.hpp), judged by support/permit_specification.hpp.

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

struct Pool {
  const char* name;
  std::uint32_t capacity;
  bool leased;  // the leases of manual sessions run out there
};
constexpr std::array<Pool, 2> pools{{{"resized", 5, false}, {"leased", 4, true}}};
constexpr std::uint32_t most_permits = 7;

class PermitClient : public HistoryClient {
 public:
  struct Names {
    explicit Names(Session& session) {
      for (const Pool& pool : pools) semaphores.emplace_back(session, pool.name);
    }
    std::vector<Semaphore> semaphores;
  };
  static History configure(const Segment& segment) {
    Session session{segment};
    History facts;
    for (const Pool& pool : pools) {
      const Semaphore made{session, pool.name, {.capacity = pool.capacity}};
      facts.push_back(operation("run", pool.name, Verb::configure));
      facts.back().capacity = pool.capacity;
    }
    return facts;
  }

  PermitClient(const Place& place, Session& session, Names& shared)
      : HistoryClient(place), semaphores_(shared.semaphores) {
    for (const Pool& pool : pools) {
      clients_.push_back(
          detail::Access::state(session)->client(pool.name, process::NameOptions{.kind = engine::Kind::semaphore}));
    }
  }

  static constexpr std::size_t last_words = pools.size() * 2;

 private:
  static constexpr int ids = 2;  // holder ids of a thread

  [[nodiscard]] std::string id(int which) const { return name_ + (which == 0 ? "" : "b"); }
  /// Of any process: the operator names one holder, since he cannot take from several at one moment.
  [[nodiscard]] std::string anybody() {
    const auto process = below(static_cast<unsigned>(round_.all_processes()));
    return "p" + std::to_string(process) + "." + std::to_string(below(2));
  }
  /// Of this process: mostly another thread's.
  [[nodiscard]] std::string a_mate() { return name_.substr(0, name_.find('.') + 1) + std::to_string(below(2)); }

  [[nodiscard]] Operation about(std::size_t pool, Verb verb, const std::string& holder = {}) const {
    return operation(name_, pools[pool].name, verb, holder);
  }

  void release_all() override {
    for (std::size_t pool = 0; pool < pools.size(); ++pool) {
      for (int id = 0; id < ids; ++id) release(pool, id);
    }
  }

  void step() override {
    const std::size_t pool = below(pools.size());
    const int who = static_cast<int>(below(6) == 0);
    const unsigned dice = below(100);
    if (dice < 44) {
      acquire(pool, who, dice < 26 ? Verb::acquire : Verb::try_acquire);
    } else if (dice < 68) {
      release(pool, who);
    } else if (dice < 76) {
      beat(pool, who, dice < 72 ? Verb::heartbeat : Verb::renew);
    } else if (dice < 84) {
      record(about(pool, Verb::status), [&](Operation& o) {
        const auto amounts = clients_[pool]->amounts();
        o.used = amounts.used;
        o.capacity = amounts.capacity;
      });
    } else if (dice < 91) {
      record(about(pool, Verb::place, a_mate()),
             [&](Operation& o) { o.got = clients_[pool]->place_in_queue(o.holder.str()); });
    } else if (dice < 94) {
      Operation o = about(pool, Verb::is_current);
      o.token = tokens_[pool];
      if (o.token == 0) return;
      record(o, [&](Operation& out) { out.answer = semaphores_[pool].is_current(out.token) ? "true" : "false"; });
    } else if (dice < 97) {
      record(about(pool, Verb::force_release, anybody()),
             [&](Operation& o) { o.answer = clients_[pool]->force_release(o.holder.str()) ? "reclaimed" : "nothing"; });
    } else if (!pools[pool].leased) {
      Operation o = about(pool, Verb::resize);
      o.capacity = 1 + below(most_permits);
      record(o, [&](Operation& out) {
        semaphores_[pool].resize(out.capacity);
        out.answer = "resized";
      });
    }
  }

  void acquire(std::size_t pool, int who, Verb verb) {
    Operation o = about(pool, verb, id(who));
    o.weight = 1 + below(below(4) == 0 ? most_permits : 3);
    AcquireOptions options;
    if (manual_ && pools[pool].leased && below(2) == 0) options.ttl = std::chrono::microseconds(15'000 + below(10'000));
    o.ttl_ns = options.ttl.value_or(0ns).count();
    if (verb == Verb::acquire) o.limit_ns = 100'000 + below(4'000'000);
    const HolderId holder{id(who)};
    record(o, [&](Operation& out) {
      const PermitOutcome got =
          verb == Verb::acquire
              ? semaphores_[pool].acquire(holder, out.weight, options, std::chrono::nanoseconds(out.limit_ns))
              : semaphores_[pool].try_acquire(holder, out.weight, options);
      out.answer = to_string(got.result);
      out.got = got.token;
      out.has = got.weight;
      out.available = got.available;
      if (got) tokens_[pool] = got.token;
      if (!got.previous) return;
      out.who = got.previous->holder;
      out.why = got.previous->why;
    });
  }

  void release(std::size_t pool, int who) {
    record(about(pool, Verb::release, id(who)), [&](Operation& o) {
      const PermitReleaseOutcome got = semaphores_[pool].release(HolderId{id(who)});
      o.answer = to_string(got.result);
      if (got.lost) o.why = got.lost->why;
    });
  }

  void beat(std::size_t pool, int who, Verb verb) {
    Operation o = about(pool, verb, id(who));
    if (verb == Verb::renew && (!pools[pool].leased || !manual_)) o.verb = Verb::heartbeat;
    if (o.verb == Verb::renew) o.ttl_ns = 15'000'000 + below(10'000'000);
    record(o, [&](Operation& out) {
      const HolderId holder{id(who)};
      const HeartbeatOutcome got = out.verb == Verb::renew
                                       ? semaphores_[pool].renew(holder, std::chrono::nanoseconds(out.ttl_ns))
                                       : semaphores_[pool].heartbeat(holder);
      out.answer = to_string(got.result);
      if (got.lost) out.why = got.lost->why;
    });
  }

  std::vector<Semaphore>& semaphores_;
  std::vector<std::shared_ptr<process::PrimitiveClient>> clients_;  // for what the face does not offer
  std::array<std::uint64_t, pools.size()> tokens_{};
};

TEST(PermitHistory, of_several_processes_is_linearizable) {
  // Fewer at a time than of a lock: whoever waits has a place in the queue, and any order of those is tried.
  expect_linearizable_histories<PermitClient>("permit-history", {.processes = 3});
}

}  // namespace
}  // namespace shmcoord::test
