#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/semaphore_machine.hpp"
#include "support/history_steps.hpp"

// What a recorded history of one semaphore is judged by: the pure machine of core/, as lock_specification.hpp does it
// for a lock (tokens, leases, deaths and what is owed are the same there), and what weights bring along.
//
// Queue      The machine knows no waiting. Here who waits has its place in a queue, from a step of its call that need
//            not come: at a moment when the weight does not fit, or others wait. Only the head is let in, and nobody
//            past a queue. A place that was looked at, and a try that was refused although its weight is free, prove
//            who was there, so that a wrong order shows.
// Never      A waiter is refused when the capacity was too small at some moment while it waited.
// Available  What a refusal says to be free was looked at after it, and may be what others wait for.
// News       Of several losses the next holder hears of the last one, and asks after it was let in: meanwhile another
//            one who was let in may have asked, or another loss have come, of which it does not hear. The name of the
//            loser may be missing then.
// Robbing    An acquire of the machine takes away first what others lost; the engine does it one hold at a time, and
//            only if something does not fit. So that is drift, like the lapse of a lease.
// Leases    Counted from the call of the last sign of life. Without a ttl none runs out: no history is as long as the
//           stale threshold.
// Increase   What is missing is acquired as a hold of its own and then joined to the first one. When the first one is
//            lost meanwhile, or the process dies, both come to an end separately: a passing hold. It goes back without
//            a word, also with the news that it took; then all of the weight is acquired anew.

namespace shmcoord::test {

class PermitSpecification {
 public:
  using Operation = Step;
  using Machine = core::SemaphoreMachine<Holder, std::monostate>;
  struct Waiter {
    Holder holder;
    std::uint32_t need = 0;    // what it has not yet
    std::uint32_t weight = 0;  // of all of it
    bool never = false;        // there was less than that
    friend bool operator==(const Waiter&, const Waiter&) = default;
  };
  struct News {
    Text who;
    Loss why = Loss::none;
    std::uint64_t before = 0;  // the next token when it happened
    friend bool operator==(const News&, const News&) = default;
  };
  struct State {
    Machine::State pool;
    std::vector<Waiter> queue;
    std::optional<News> news;
    std::vector<Owed> owed;
    friend bool operator==(const State&, const State&) = default;
  };

  explicit PermitSpecification(ObjectFacts facts) : facts_(std::move(facts)) {
    config_.stale_threshold_ns = std::numeric_limits<std::int64_t>::max();
    config_.ttl_ns = facts_.config.ttl_ns;
  }

  [[nodiscard]] State initial() const {
    State state;
    state.pool.capacity = facts_.capacity;
    return state;
  }

  static bool only_looks(const Operation& o) {
    switch (o.part) {
      case Part::available: return true;
      case Part::news: return o.returned() && o.why == Loss::none;
      case Part::call: return o.verb == Verb::status || o.verb == Verb::is_current || o.verb == Verb::place;
      default: return false;
    }
  }
  static bool comes_at_once(const Operation& o) { return o.part == Part::queued; }

  void apply(const State& state, const Operation& o, Moment when, std::vector<State>& next) const {
    const Holder caller{o.process(), o.holder};
    switch (o.part) {
      case Part::call: return call(state, o, caller, when, next);
      case Part::passing: return pass(state, o, caller, when, next);
      case Part::queued: return queue(state, o, caller, next);
      case Part::news: return hear(state, o, next);
      case Part::available:
        if (!o.returned() || o.available == state.pool.available_slots()) next.push_back(state);
    }
  }

  void drift(const State& state, Moment when, std::vector<State>& next) const {
    const auto died = [&](const Holder& holder) {
      const auto death = facts_.deaths.find(holder.process);
      return death != facts_.deaths.end() && death->second <= when.until_ns;
    };
    for (const Machine::Held& held : state.pool.holders) {
      if (died(held.holder)) next.push_back(robbed(state, held, Loss::died));
      const Loss why = Machine::reclaimable(config_, held, when.until_ns);
      if (why != Loss::none) next.push_back(robbed(state, held, why));
      if (!held.holder.passing) continue;
      next.push_back(robbed(state, held, Loss::forced));
      State& back = next.emplace_back(state);
      does(back, Machine::Release{held.holder});
      if (!back.news) continue;
      State heard = back;
      heard.news.reset();
      next.push_back(std::move(heard));
    }
    for (std::size_t i = 0; i < state.queue.size(); ++i) {
      if (!died(state.queue[i].holder)) continue;
      State& after = next.emplace_back(state);
      after.queue.erase(after.queue.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  [[nodiscard]] std::uint64_t hash(const State& state) const {
    std::uint64_t h = sim::mix(state.pool.next_token, state.pool.capacity);
    for (const Machine::Held& held : state.pool.holders) {
      h = sim::mix(held.holder.mixed_into(h), held.weight);
      h = sim::mix(h, held.token);
      h = sim::mix(h, static_cast<std::uint64_t>(held.last_heartbeat_ns));
    }
    for (const Waiter& waiter : state.queue) h = sim::mix(waiter.holder.mixed_into(h), waiter.need);
    for (const Owed& owed : state.owed) h = owed.holder.mixed_into(h);
    return state.news ? sim::mix(h, state.news->before) : h;
  }

 private:
  Machine::Outcome does(State& state, Machine::Input input, std::int64_t now_ns = 0) const {
    Machine::Outcome outcome = Machine::transition(config_, std::move(state.pool), std::move(input), now_ns);
    outcome.state.previous.clear();  // told as `news`
    for (Machine::Held& held : outcome.state.holders) {
      held.acquired_at_ns = 0;  // says nothing of a semaphore's leases
      if (held.ttl_ns == 0) held.last_heartbeat_ns = 0;
    }
    state.pool = outcome.state;
    return outcome;
  }

  // An acquire that takes nothing away from others: that is drift.
  Machine::Outcome acquires(State& state, Machine::Acquire input, std::int64_t now_ns) const {
    std::map<std::uint64_t, std::int64_t> heard;
    for (Machine::Held& held : state.pool.holders) {
      if (held.holder == input.holder) continue;
      heard[held.token] = std::exchange(held.last_heartbeat_ns, now_ns);
    }
    Machine::Outcome outcome = does(state, std::move(input), now_ns);
    for (Machine::Held& held : state.pool.holders) {
      if (const auto at = heard.find(held.token); at != heard.end()) held.last_heartbeat_ns = at->second;
    }
    return outcome;
  }

  [[nodiscard]] State robbed(const State& before, const Machine::Held& held, Loss why) const {
    State after = before;
    if (why == Loss::died) {
      does(after, Machine::Died{held.holder});
    } else {
      does(after, Machine::Force{held.holder, {}});
    }
    after.news = News{held.holder.id, why, after.pool.next_token};
    remember(after.owed, {held.holder, why, held.weight});
    return after;
  }

  static auto place_of(const State& state, const Holder& holder) {
    return std::find_if(state.queue.begin(), state.queue.end(), [&](const Waiter& w) { return w.holder == holder; });
  }
  static bool admits(const State& state, std::uint32_t need) {
    return state.queue.empty() && state.pool.can_acquire(need);
  }

  // Lets it in from the head of the queue, or past an empty one.
  static bool lets_in(State& state, const Holder& caller, std::uint32_t need) {
    const auto at = place_of(state, caller);
    if (at == state.queue.end()) return admits(state, need);
    if (at != state.queue.begin() || at->need != need || !state.pool.can_acquire(need)) return false;
    state.queue.erase(at);
    return true;
  }

  // What it may ask for beside what it has, or had when it looked.
  static std::vector<std::uint32_t> needs(const State& state, const Holder& caller, std::uint32_t weight) {
    const Machine::Held* const held = state.pool.find(caller);
    const auto owed = find_owed(state.owed, caller);
    const std::uint32_t has = held != nullptr ? held->weight : owed != state.owed.end() ? owed->weight : 0;
    std::vector<std::uint32_t> all;
    if (held == nullptr) all.push_back(weight);
    if (has != 0 && has < weight) all.push_back(weight - has);
    return all;
  }

  void queue(const State& state, const Operation& o, const Holder& caller, std::vector<State>& next) const {
    if (place_of(state, caller) != state.queue.end() || o.weight > state.pool.capacity) return;
    for (const std::uint32_t need : needs(state, caller, o.weight)) {
      if (!admits(state, need)) next.emplace_back(state).queue.push_back({caller, need, o.weight, false});
    }
  }

  void pass(const State& state, const Operation& o, const Holder& caller, Moment when, std::vector<State>& next) const {
    Holder passing = caller;
    passing.passing = true;
    const auto at = place_of(state, caller);
    const bool queued = at != state.queue.end();
    if (state.pool.find(passing) != nullptr || (!queued && when.from_ns > facts_.end_ns(o))) return;
    // What it had may be lost since it queued.
    for (const std::uint32_t need : queued ? std::vector{at->need} : needs(state, caller, o.weight)) {
      State after = state;
      if (!lets_in(after, caller, need)) continue;
      Machine::Acquire input{passing, need, {}, {}};
      if (o.ttl_ns != 0) input.ttl_ns = o.ttl_ns;
      acquires(after, std::move(input), o.call_ns);
      next.push_back(std::move(after));
    }
  }

  static void hear(const State& state, const Operation& o, std::vector<State>& next) {
    const auto taken = [&] { next.emplace_back(state).news.reset(); };
    if (!o.returned()) return taken();
    // The token of an increase is older than what it was let in with.
    const bool increase = says(o, to_string(PermitResult::increased));
    if (!increase && state.pool.next_token <= o.got) return;  // not let in yet
    const bool told = o.why != Loss::none;
    const bool younger = state.news && state.news->before > o.got;
    if (!told && (!state.news || younger || increase)) return next.push_back(state);
    if (!told || !state.news || (younger && !increase)) return;
    if (o.why == state.news->why && (o.who.empty() || o.who == state.news->who)) taken();
  }

  void call(const State& state, const Operation& o, const Holder& caller, Moment when, std::vector<State>& next) const {
    switch (o.verb) {
      case Verb::try_acquire:
      case Verb::acquire: return acquire(state, o, caller, when, next);
      case Verb::release: return release(state, o, caller, next);
      case Verb::heartbeat: return beat(state, o, caller, Machine::Heartbeat{caller}, next);
      case Verb::renew: return beat(state, o, caller, Machine::Renew{caller, o.ttl_ns}, next);
      case Verb::force_release: return force(state, o, next);
      case Verb::resize: return resize(state, o, next);
      default:
        if (!o.returned() || looks(state, o, caller)) next.push_back(state);
    }
  }

  void acquire(const State& state, const Operation& o, const Holder& caller, Moment when,
               std::vector<State>& next) const {
    const auto at = place_of(state, caller);
    const bool queued = at != state.queue.end();
    // Of the dead only the place in the queue goes on.
    if (!queued && when.from_ns > facts_.end_ns(o)) return;
    const Machine::Held* const held = state.pool.find(caller);
    const std::uint32_t own = held == nullptr ? 0 : held->weight;
    State after = state;
    if (o.weight <= own ? !queued : lets_in(after, caller, o.weight - own)) {
      if (own == 0 && o.returned()) {
        if (o.got < after.pool.next_token) return;
        after.pool.next_token = o.got;
      }
      Machine::Acquire input{caller, o.weight, {}, {}};
      if (o.ttl_ns != 0) input.ttl_ns = o.ttl_ns;
      const Machine::Outcome outcome = acquires(after, std::move(input), o.call_ns);
      forget(after.owed, caller);
      const bool same = says(o, to_string(std::get<core::SemaphoreResult>(outcome.result))) &&
                        (!o.returned() || (o.got == outcome.token && o.has == std::max(own, o.weight)));
      if (same) next.push_back(std::move(after));
      if (o.returned()) return;  // else it may have been refused
    }
    if (o.weight > own) refuse(state, o, caller, next);
  }

  void refuse(const State& state, const Operation& o, const Holder& caller, std::vector<State>& next) const {
    const auto at = place_of(state, caller);
    const bool queued = at != state.queue.end();
    const Machine::Held* const held = state.pool.find(caller);
    const auto owed = find_owed(state.owed, caller);
    if (o.returned()) {
      const bool full = says(o, to_string(PermitResult::full));
      if (!full && (o.verb != Verb::acquire || !says(o, to_string(PermitResult::timed_out)))) return;
      if (o.verb == Verb::try_acquire) {
        if (queued || admits(state, o.weight - (held == nullptr ? 0 : held->weight))) return;
      } else if (queued) {
        if (full && !at->never) return;
      } else if (o.weight <= state.pool.capacity && !o.fleeting) {
        return;  // taken out of the queue only for that, or after it had been let in
      }
      const bool as_lost = o.has == 0 || (owed != state.owed.end() && o.has == owed->weight);
      if (held != nullptr ? o.has != held->weight : !as_lost) return;
    }
    State& after = next.emplace_back(state);
    if (queued) after.queue.erase(place_of(after, caller));
    if (held != nullptr) does(after, Machine::Heartbeat{caller}, o.call_ns);  // a refusal is a sign of life as well
    if (o.returned() && o.has == 0) forget(after.owed, caller);               // it knew of the loss
  }

  void release(const State& state, const Operation& o, const Holder& caller, std::vector<State>& next) const {
    State after = state;
    const auto owed = find_owed(after.owed, caller);
    const Loss why = owed == after.owed.end() ? Loss::none : owed->why;
    const auto result = std::get<core::SemaphoreResult>(does(after, Machine::Release{caller}).result);
    if (!says(o, to_string(result)) || (o.returned() && o.why != why)) return;
    forget(after.owed, caller);
    next.push_back(std::move(after));
  }

  void beat(const State& state, const Operation& o, const Holder& caller, Machine::Input input,
            std::vector<State>& next) const {
    State after = state;
    const auto owed = find_owed(after.owed, caller);
    const Loss why = owed == after.owed.end() ? Loss::none : owed->why;
    const auto result = std::get<HeartbeatResult>(does(after, std::move(input), o.call_ns).result);
    if (says(o, to_string(result)) && (!o.returned() || o.why == why)) next.push_back(std::move(after));
  }

  // Its holds are taken one after the other: another may have ended by itself meanwhile.
  void force(const State& state, const Operation& o, std::vector<State>& next) const {
    std::vector<State> taken;
    for (const Machine::Held& held : state.pool.holders) {
      if (held.holder.id != o.holder) continue;
      const std::size_t before = taken.size();
      for (std::size_t i = 0; i < before; ++i) taken.push_back(robbed(taken[i], held, Loss::forced));
      taken.push_back(robbed(state, held, Loss::forced));
    }
    if (taken.empty() && says(o, to_string(core::MaintenanceResult::nothing))) next.push_back(state);
    if (!says(o, to_string(core::MaintenanceResult::reclaimed))) return;
    std::move(taken.begin(), taken.end(), std::back_inserter(next));
  }

  void resize(const State& state, const Operation& o, std::vector<State>& next) const {
    if (!says(o, "resized")) return;
    State& after = next.emplace_back(state);
    does(after, Machine::Resize{o.capacity});
    for (Waiter& waiter : after.queue) waiter.never = waiter.never || waiter.weight > o.capacity;
  }

  static bool looks(const State& state, const Operation& o, const Holder& caller) {
    if (o.verb == Verb::status) return o.capacity == state.pool.capacity && o.used == state.pool.used_slots();
    if (o.verb == Verb::is_current) {
      const auto& all = state.pool.holders;
      const bool stands = std::any_of(all.begin(), all.end(), [&](const auto& held) { return held.token == o.token; });
      return says(o, stands ? "true" : "false");
    }
    // The caller's session knows a little later than the queue that it waits; a place that it names is its own.
    if (o.verb != Verb::place) return false;
    return o.got == 0 || (o.got <= state.queue.size() && state.queue[o.got - 1].holder == caller);
  }

  ObjectFacts facts_;
  core::SemaphoreConfig config_;
};

/// The steps of the operations on one semaphore.
inline std::vector<Step> permit_steps(const History& operations, const ObjectFacts& facts) {
  std::vector<Step> steps;
  const auto answers = [](const Operation& o, PermitResult result) {
    return std::string_view(o.answer) == to_string(result);
  };
  std::map<std::pair<Text, Text>, bool> had;  // holds, if nobody robbed it
  for (const Operation& o : operations) {
    Step step{o};
    const std::int64_t end_ns = facts.end_ns(o);
    const bool acquires = o.verb == Verb::acquire || o.verb == Verb::try_acquire;
    if (o.verb != Verb::acquire) step.latest_ns = end_ns;
    const auto times = static_cast<std::size_t>(acquires ? robberies(operations, o, facts) : 0);
    step.fleeting = times > 0;
    steps.push_back(step);
    bool& has = had[{o.process(), o.holder}];
    if (o.verb == Verb::release) has = false;
    if (!acquires) continue;
    const bool granted = answers(o, PermitResult::acquired) || answers(o, PermitResult::increased);
    const bool refused = answers(o, PermitResult::full) || answers(o, PermitResult::timed_out);
    // What it had was lost meanwhile, or it was killed: a part of an increase may have been there by itself.
    const bool parted = !o.returned() || (has && (answers(o, PermitResult::acquired) || (refused && o.has == 0)));
    if (o.verb == Verb::acquire && !answers(o, PermitResult::already_held)) {
      steps.insert(steps.end(), times + 1, step.possible(Part::queued, end_ns));
    }
    steps.insert(steps.end(), times + (parted ? 1 : 0),
                 step.possible(Part::passing, o.returned() ? end_ns : step.latest_ns));
    if (!o.returned()) steps.push_back(step.possible(Part::news, end_ns));
    if (granted || refused) steps.push_back(step);
    if (granted || refused) steps.back().part = granted ? Part::news : Part::available;
    has = o.returned() ? o.has != 0 : true;
  }
  return steps;
}

}  // namespace shmcoord::test
