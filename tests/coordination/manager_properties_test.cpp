// Random lives of a manager: both stores answer alike and as the pure machines do, and what must hold always does.
//
// A hundred cases each unless RC_PARAMS says otherwise (RC_PARAMS="max_success=1000 seed=7").

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "core/lock_machine.hpp"
#include "core/semaphore_machine.hpp"
#include "support/manager_world.hpp"

namespace shmcoord {
namespace {

using namespace std::chrono_literals;

// Time passes in steps of 7 s, of which no sum comes near the threshold of 100 s. No longest hold: when one was warned
// of is a matter of when somebody looked (is_warned() in coordination/segment_store.cpp).
constexpr auto tick = 7s;
constexpr auto threshold = 100s;
constexpr std::uint32_t slots = 6;

struct Move {
  enum Verb : std::uint8_t { lock, unlock, beat, take, give, beat_permits, warn, reclaim, maintain, pass };
  int verb = 0;
  int name = 0;    // 0, 1
  int who = 0;     // 0 .. 3
  int amount = 1;  // slots; ticks that pass
  int text = 0;    // 0: no metadata

  [[nodiscard]] HolderId holder() const { return HolderId(std::string(1, static_cast<char>('a' + who))); }
  [[nodiscard]] std::string of_lock() const { return "lock" + std::to_string(name); }
  [[nodiscard]] std::string of_semaphore() const { return "permits" + std::to_string(name); }
  [[nodiscard]] std::optional<std::string> metadata() const {
    return text == 0 ? std::nullopt : std::optional("text" + std::to_string(text));
  }
  [[nodiscard]] std::optional<CoordinationCommand> command() const {
    switch (verb) {
      case lock: return AcquireLock{of_lock(), holder(), metadata()};
      case unlock: return ReleaseLock{of_lock(), holder()};
      case beat: return HeartbeatLock{of_lock(), holder()};
      case take: return AcquireSemaphore{of_semaphore(), holder(), static_cast<std::uint32_t>(amount), metadata()};
      case give: return ReleaseSemaphore{of_semaphore(), holder()};
      case beat_permits: return HeartbeatSemaphore{of_semaphore(), holder()};
      default: return std::nullopt;
    }
  }
};

std::ostream& operator<<(std::ostream& out, const Move& m) {
  return out << "{verb " << m.verb << ", name " << m.name << ", who " << m.who << ", amount " << m.amount << ", text "
             << m.text << '}';
}

rc::Gen<std::vector<Move>> life() {
  return rc::gen::container<std::vector<Move>>(rc::gen::build<Move>(
      // Half of the time somebody asks for something; what passes adds up to a lapse now and then.
      rc::gen::set(&Move::verb, rc::gen::weightedElement<int>({{5, Move::lock},
                                                               {2, Move::unlock},
                                                               {2, Move::beat},
                                                               {5, Move::take},
                                                               {2, Move::give},
                                                               {2, Move::beat_permits},
                                                               {1, Move::warn},
                                                               {1, Move::reclaim},
                                                               {1, Move::maintain},
                                                               {5, Move::pass}})),
      rc::gen::set(&Move::name, rc::gen::inRange(0, 2)), rc::gen::set(&Move::who, rc::gen::inRange(0, 4)),
      rc::gen::set(&Move::amount, rc::gen::inRange(1, 8)), rc::gen::set(&Move::text, rc::gen::inRange(0, 3))));
}

void prepare(CoordinationManager& manager) {
  for (const char* name : {"lock0", "lock1"}) manager.ensure_lock({name, threshold});
  for (const char* name : {"permits0", "permits1"}) manager.ensure_semaphore({name, slots, threshold});
}

template <class World>
std::string play(test::Play<World>& world, const Move& move) {
  if (const auto command = move.command()) return world.does(*command);
  switch (move.verb) {
    case Move::warn: return world.tick();
    case Move::reclaim: return world.reclaim();
    case Move::maintain: return world.maintain();
    default: world.pass(move.amount * tick); return {};
  }
}

/// What the rules themselves say, without a manager.
class Rules {
 public:
  /// Empty where there is no answer to compare; without tokens and what comes behind.
  std::string play(const Move& move) {
    switch (move.verb) {
      case Move::lock: return word(lock(move, Locks::Acquire{move.holder().str(), move.metadata(), {}, 0}));
      case Move::unlock: return word(lock(move, Locks::Release{move.holder().str()}));
      case Move::beat: return word(lock(move, Locks::Heartbeat{move.holder().str()}));
      case Move::take:
        return word(permits(
            move,
            Permits::Acquire{move.holder().str(), static_cast<std::uint32_t>(move.amount), move.metadata(), {}, {}}));
      case Move::give: return word(permits(move, Permits::Release{move.holder().str()}));
      case Move::beat_permits: return word(permits(move, Permits::Heartbeat{move.holder().str()}));
      case Move::pass: now_ns_ += std::chrono::nanoseconds(move.amount * tick).count(); return {};
      case Move::warn: to_all(Locks::Tick{}, Permits::Tick{}); return {};
      case Move::reclaim: to_all(Locks::Reclaim{}, Permits::Reclaim{}); return {};
      default:
        to_all(Locks::Tick{}, Permits::Tick{});
        to_all(Locks::Reclaim{}, Permits::Reclaim{});
        return {};
    }
  }
  [[nodiscard]] std::string lock_seen(const std::string& name) const {
    const auto at = locks_.find(name);
    if (at == locks_.end() || at->second.is_free()) return "free";
    return "held" + tail(*at->second.held, Locks::reclaimable(lock_config, at->second, now_ns_), 0);
  }
  [[nodiscard]] std::string permits_seen(const std::string& name) const {
    const auto at = permits_.find(name);
    if (at == permits_.end()) return "0+" + std::to_string(slots);
    const Permits::State& state = at->second;
    std::string text = std::to_string(state.used_slots()) + "+" + std::to_string(state.available_slots());
    for (const auto& h : state.holders) {
      text += tail(h, Permits::reclaimable(permit_config, h, now_ns_), h.weight);
    }
    return text;
  }

 private:
  using Locks = core::LockMachine<std::string, std::string>;
  using Permits = core::SemaphoreMachine<std::string, std::string>;
  static constexpr core::LockConfig lock_config{.stale_threshold_ns = std::chrono::nanoseconds(threshold).count()};
  static constexpr core::SemaphoreConfig permit_config{.stale_threshold_ns =
                                                           std::chrono::nanoseconds(threshold).count()};

  template <class Result>
  static std::string word(const Result& result) {
    return std::visit(
        [](const auto& r) -> std::string {
          if constexpr (requires { to_string(r); })
            return std::string(to_string(r));
          else
            return "?";
        },
        result);
  }
  template <class Held>
  static std::string tail(const Held& held, Loss lapsed, std::uint32_t weight) {
    std::string text = ' ' + held.holder;
    if (weight != 0) text += ':' + std::to_string(weight);
    if (held.metadata && !held.metadata->empty()) text += " '" + *held.metadata + "'";
    if (lapsed != Loss::none) text += ' ' + std::string(to_string(lapsed));
    return text;
  }
  core::LockResult lock(const Move& move, Locks::Input input) {
    auto out = Locks::transition(lock_config, locks_[move.of_lock()], std::move(input), now_ns_);
    locks_[move.of_lock()] = out.state;
    return out.result;
  }
  Permits::Result permits(const Move& move, Permits::Input input) {
    Permits::State& state = permits_.try_emplace(move.of_semaphore(), Permits::State{slots, {}, {}, 1}).first->second;
    auto out = Permits::transition(permit_config, state, std::move(input), now_ns_);
    state = out.state;
    return out.result;
  }
  void to_all(const Locks::Input& of_locks, const Permits::Input& of_permits) {
    for (auto& [name, state] : locks_) state = Locks::transition(lock_config, state, of_locks, now_ns_).state;
    for (auto& [name, state] : permits_) state = Permits::transition(permit_config, state, of_permits, now_ns_).state;
  }

  std::int64_t now_ns_ = 1'000'000'000'000;
  std::map<std::string, Locks::State> locks_;
  std::map<std::string, Permits::State> permits_;
};

std::string first_word(const std::string& text) { return text.substr(0, text.find(' ')); }

RC_GTEST_PROP(ManagerProperties, both_stores_answer_alike_and_as_the_machines_do, ()) {
  const std::vector<Move> moves = *life();
  test::Play<test::LocalWorld> local;
  test::Play<test::SegmentWorld> shared;
  Rules rules;
  prepare(local.manager);
  prepare(shared.manager);
  for (const Move& move : moves) {
    const std::string answer = play(local, move);
    RC_ASSERT(play(shared, move) == answer);
    const std::string rule = rules.play(move);
    if (move.command()) {
      RC_ASSERT(first_word(answer) == rule);
    }
    for (const char* name : {"lock0", "lock1"}) {
      RC_ASSERT(local.sees(name) == rules.lock_seen(name));
      RC_ASSERT(shared.sees(name) == rules.lock_seen(name));
    }
    for (const char* name : {"permits0", "permits1"}) {
      RC_ASSERT(local.sees(name) == rules.permits_seen(name));
      RC_ASSERT(shared.sees(name) == rules.permits_seen(name));
    }
  }
}

template <class World, class Check>
void live(const std::vector<Move>& moves, const Check& check) {
  test::Play<World> world;
  prepare(world.manager);
  for (const Move& move : moves) {
    (void)play(world, move);
    check(world.manager);
  }
}

// S1-159.
RC_GTEST_PROP(ManagerProperties, lock_transitions_preserve_invariants, ()) {
  std::map<std::string, std::uint64_t> newest;
  const auto check = [&](const CoordinationManager& manager) {
    RC_ASSERT(manager.lock_names() == (std::vector<std::string>{"lock0", "lock1"}));
    for (const std::string& name : manager.lock_names()) {
      const LockStatus lock = *manager.get_lock(name);
      RC_ASSERT(lock.is_free() || lock.holders.size() == 1U);
      if (lock.is_free()) continue;
      RC_ASSERT(lock.is_held_by(HolderId(lock.holders[0].holder)));
      RC_ASSERT(lock.holders[0].token >= 1U);
      RC_ASSERT(lock.holders[0].token >= newest[name]);
      newest[name] = lock.holders[0].token;
    }
  };
  const std::vector<Move> moves = *life();
  live<test::LocalWorld>(moves, check);
  newest.clear();
  live<test::SegmentWorld>(moves, check);
}

// S1-159.
RC_GTEST_PROP(ManagerProperties, semaphore_never_exceeds_capacity, ()) {
  const auto check = [&](const CoordinationManager& manager) {
    for (const char* name : {"permits0", "permits1"}) {
      const SemaphoreStatus semaphore = *manager.get_semaphore(name);
      RC_ASSERT(semaphore.used_slots() <= slots);
      RC_ASSERT(semaphore.used_slots() + semaphore.available_slots() == slots);
      for (const HolderStatus& holder : semaphore.holders) RC_ASSERT(holder.weight >= 1U);
    }
  };
  const std::vector<Move> moves = *life();
  live<test::LocalWorld>(moves, check);
  live<test::SegmentWorld>(moves, check);
}

// C-45: what is done to a copy is not done to the manager, and the other way round.
RC_GTEST_PROP(ManagerProperties, a_copy_goes_its_own_way, ()) {
  test::Play<test::LocalWorld> world;
  prepare(world.manager);
  for (const Move& move : *life()) (void)play(world, move);
  const std::string before = world.manager.str();
  CoordinationManager copy = world.manager;
  RC_ASSERT(copy.str() == before);
  for (const Move& move : *life()) {
    if (const auto command = move.command()) (void)copy.handle(*command);
    (void)copy.maintain();
  }
  RC_ASSERT(world.manager.str() == before);
}

// A property that no random life could break would be worthless: the lives must reach every effect and every answer.
TEST(ManagerProperties, lives_reach_every_effect) {
  std::map<std::string, int> heard;
  test::Play<test::LocalWorld> world;
  prepare(world.manager);
  const auto note = [&](const Effects& effects) {
    for (const Event& e : effects) ++heard[std::string(e.name())];
  };
  rc::Random random(1);
  for (int n = 0; n < 100; ++n) {
    for (const Move& move : life()(random.split(), 100).value()) {
      if (const auto command = move.command()) {
        const Handled handled = world.manager.handle(*command);
        note(handled.effects);
        ++heard[first_word(world.scribe(*command, handled))];
      } else if (move.verb == Move::pass) {
        world.pass(move.amount * tick);
      } else {
        note(world.manager.maintain());
      }
    }
  }
  for (const char* const what : {"lock:acquired",
                                 "lock:released",
                                 "lock:denied",
                                 "lock:reclaimed",
                                 "lock:stale",
                                 "semaphore:acquired",
                                 "semaphore:released",
                                 "semaphore:denied",
                                 "semaphore:stale",
                                 "semaphore:reclaimed",
                                 "acquired",
                                 "extended",
                                 "reclaimed",
                                 "busy",
                                 "already_held",
                                 "increased",
                                 "full",
                                 "released",
                                 "not_owner",
                                 "already_free",
                                 "not_holder",
                                 "refreshed"}) {
    EXPECT_GT(heard[what], 0) << what;
  }
}

}  // namespace
}  // namespace shmcoord
