#include "support/death_scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/journal_reader.hpp"
#include "process/liveness.hpp"
#include "process/recovery.hpp"
#include "process/snapshot.hpp"
#include "support/long_form.hpp"
#include "support/sim_scheduler.hpp"

namespace shmcoord::test {
namespace {

using engine::RealPolicy;
using State = Stepper::State;

// Nothing expires while somebody is stepped.
const LockOptions patient{.stale_threshold = std::chrono::hours(1)};

std::string line_of(const process::LockView& lock) {
  std::string text;
  for (const auto& h : lock.holders) text += h.holder.empty() ? "?" : h.holder;
  for (const auto& w : lock.waiters) text += " > " + w.holder;
  if (lock.previous) text += " after " + std::string(to_string(lock.previous->why));
  return text;
}

process::LockView look_at(const engine::Mapping& mapping, const std::string& name) {
  const process::Picture picture = process::take_picture(mapping, RealPolicy::now_ns(), {name});
  return picture.locks.empty() ? process::LockView{} : picture.locks.front();
}

bool anybody_dead(const engine::Mapping& mapping) {
  const auto snapshot = process::take_snapshot(mapping, RealPolicy::now_ns());
  return std::any_of(snapshot.sessions.begin(), snapshot.sessions.end(),
                     [](const auto& s) { return s.life.life == process::Life::dead; });
}

void expect_whole(const engine::Mapping& mapping) {
  for (const process::Finding& f : process::check_segment(mapping, RealPolicy::now_ns()).findings) {
    ADD_FAILURE() << to_string(f.kind) << ": " << f.where << ": " << f.what;
  }
}

/// Of each lock: what was told of it has no gap, and leads to who has it now.
void expect_told(const engine::Mapping& mapping) {
  std::map<std::string, std::set<std::uint64_t>> held;
  engine::JournalReader<RealPolicy> reader(mapping.view(), engine::JournalEnd{0, 1});
  engine::JournalRecord r;
  std::uint64_t lost = 0;
  engine::JournalRead read{};
  while ((read = reader.next(r, lost)) == engine::JournalRead::record) {
    if (r.head.source != engine::JournalSource::record) continue;
    const bool comes = r.head.told == engine::Told::acquired;
    std::set<std::uint64_t>& tokens = held[r.name];
    if (comes) {
      EXPECT_TRUE(tokens.insert(r.head.token()).second) << r.name << " was acquired twice by " << r.head.token();
    } else {
      EXPECT_EQ(tokens.erase(r.head.token()), 1U) << r.name << ": " << r.head.token() << " ended, and never began";
    }
    if (r.head.told == engine::Told::handed_over || r.head.told == engine::Told::taken_over) {
      EXPECT_TRUE(tokens.insert(r.head.seq()).second) << r.name;
    }
  }
  EXPECT_EQ(read, engine::JournalRead::nothing) << lost << " records are lost";
  for (const auto& [name, tokens] : held) {
    std::set<std::uint64_t> now;
    for (const process::GrantView& h : look_at(mapping, name).holders) now.insert(h.token);
    EXPECT_EQ(tokens, now) << name;
  }
}

// --- the people ------------------------------------------------------------------------------------------------------

class World {
 public:
  explicit World(const Scenario& scenario) : scenario_(scenario) {
    if (scenario.holder) {
      holder_.emplace([this](const Child::Line& line) {
        Actor me = actor(line);
        me.join();
        me.attach();
        me.note(me.lock->try_acquire(HolderId{"H"}));
        line.ready();
        line.await_go();
        me.lock->release(HolderId{"H"});
        line.ready();
        line.await_go();
        return 0;
      });
      expect_ready(*holder_);
    }
    if (scenario.first) {
      first_.emplace(actor_that(scenario.first_before, scenario.first));
      first_slot_ = expect_ready(*first_);
    }
    victim_.emplace(actor_that(scenario.before, scenario.operation));
    const std::int64_t slot = expect_ready(*victim_);
    waiter_.emplace([this](const Child::Line& line) { return wait_for_it(line); });
    expect_ready(*waiter_);
    if (scenario.waiter == Scenario::Waiter::queued) queue_waiter();
    if (!scenario.others_run) {
      if (holder_) stop(*holder_);
      stop(*waiter_);
    }
    victim.emplace(victim_->pid(), scenario.others_run ? 0 : keeper_of(slot));
    EXPECT_TRUE(victim->begin([this] { victim_->go(); }));
    if (first_) first_goes_half_way();
  }
  ~World() {
    victim.reset();
    first.reset();
  }

  // Everybody else goes on, V is dead: what is held must come to W.
  // The dead are buried by the ring, which may take its second, or by the reaper.
  void go_on(const std::string& what, bool by_the_ring) {
    SCOPED_TRACE(what);
    victim_->wait();
    if (!scenario_.others_run) {
      if (holder_) holder_->kill(SIGCONT);
      waiter_->kill(SIGCONT);
    }
    if (first) first->let_go();
    if (holder_ && !yielded_) yield();
    if (!waiting_) waiter_->go();
    const Child::Line nobody;
    Actor r = actor(nobody);
    const std::int64_t end = RealPolicy::now_ns() + watchdog_ns;
    while (board_->waiter_token == 0) {
      const auto holders = look_at(*segment.mapping(), scenario_.lock).holders;
      if (!holders.empty() && holders[0].slot == engine::detached_slot) {
        r.join();
        r.attach();
        EXPECT_EQ(r.lock->release(HolderId{"D"}).result, ReleaseResult::released);
        r.lock.reset();
        r.session.reset();
      }
      if (RealPolicy::now_ns() > end) {
        ADD_FAILURE() << "the waiter did not come through: " << line_of(look_at(*segment.mapping(), scenario_.lock));
        return;
      }
      ::usleep(200);
    }
    EXPECT_GT(board_->waiter_token, board_->highest_token);
    EXPECT_TRUE(eventually([&] {
      if (!by_the_ring) process::sweep(*segment.mapping(), RealPolicy::now_ns());
      return !anybody_dead(*segment.mapping());
    }));
    const process::LockView lock = look_at(*segment.mapping(), scenario_.lock);
    EXPECT_EQ(line_of(lock), "W");
    EXPECT_EQ(lock.holders.empty() ? 0 : lock.holders[0].token, board_->waiter_token.load());
    expect_others(*segment.mapping());
    if (scenario_.found) {
      r.join();
      EXPECT_THAT(scenario_.outcomes, ::testing::Contains(scenario_.found(r)));
      r.session.reset();
    }
    expect_whole(*segment.mapping());
    if (scenario_.journal) expect_told(*segment.mapping());
    waiter_->go();
    EXPECT_EQ(waiter_->wait(), 0);
    if (holder_) {
      holder_->go();
      EXPECT_EQ(holder_->wait(), 0);
    }
  }

  /// One image, with V dead in it. The lock's state as the next one finds it.
  std::string recovered(const SegmentImage& image, bool swept) {
    const SegmentCopy copy(image);
    const engine::Mapping& mapping = *copy.mapping();
    copy.die(victim_->pid());
    if (swept) process::sweep(mapping, RealPolicy::now_ns());
    watch_who_comes(mapping);
    std::string line;
    {
      const Child::Line nobody;
      Actor r{copy.mapping(), *board_, scenario_.lock, nobody};
      r.join();
      r.attach();
      const AcquireOutcome got = r.lock->try_acquire(HolderId{"R"});
      if (got) {
        EXPECT_GT(got.token, board_->highest_token);
        line = "free";
        if (got.previous) line += " after " + std::string(to_string(got.previous->why));
        EXPECT_EQ(r.lock->release(HolderId{"R"}).result, ReleaseResult::released);
      } else {
        line = line_of(look_at(mapping, scenario_.lock));
      }
      if (scenario_.found) line = scenario_.found(r);
      expect_others(mapping);
      process::sweep(mapping, RealPolicy::now_ns());
      EXPECT_FALSE(anybody_dead(mapping));
      expect_whole(mapping);
      if (scenario_.journal) expect_told(mapping);
      drain(r);
    }
    expect_whole(mapping);
    return line;
  }

  /// In one image: V's burial alone, as the ring does it, calls W if the lock is W's. W asleep would not look before
  /// its second is over.
  void expect_called_by_the_burial(const SegmentImage& image) {
    if (first && !scenario_.first_dies) return;  // U is in the middle of it, and lives
    const SegmentCopy copy(image);
    copy.die(victim_->pid());
    const engine::View& view = copy.view();
    for (engine::SlotIndex s = 1; view.has_slot(s); ++s) process::bury(*copy.mapping(), s);
    const process::LockView lock = look_at(*copy.mapping(), scenario_.lock);
    if (line_of(lock).substr(0, 1) != "W") return;
    const engine::Entry& entry = view.entry(lock.holders[0].entry);
    EXPECT_EQ(engine::unpack_status(RealPolicy::load(entry.status)).phase, engine::Phase::held);
  }

  /// V sleeps: who makes it go on? The memory may change at each step of them.
  void victim_sleeps(const std::function<void()>& look) {
    look();
    if (scenario_.waiter == Scenario::Waiter::behind_victim && !waiting_) {
      if (!scenario_.others_run) waiter_->kill(SIGCONT);
      queue_waiter();
      if (!scenario_.others_run) stop(*waiter_);
      look();
    }
    if (scenario_.holder_yields && !yielded_) {
      if (!scenario_.others_run) holder_->kill(SIGCONT);
      yield();
      if (!scenario_.others_run) stop(*holder_);
      look();
    }
    if (scenario_.cancelled && !cancelled_) {
      cancelled_ = true;
      victim_->go();
    }
  }

  [[nodiscard]] bool first_ended() const noexcept { return first_ended_; }
  [[nodiscard]] const OwnSegment& own() const noexcept { return segment; }

 private:
  static std::int64_t expect_ready(const Child& child) {
    const std::int64_t said = child.wait_ready();
    EXPECT_GE(said, 0) << "it did not come so far";
    return said;
  }
  // Nobody runs in a copy, so nobody would watch R's slot, and R's joining would wait for that in vain.
  static void watch_who_comes(const engine::Mapping& mapping) {
    const engine::View& view = mapping.view();
    engine::SlotIndex next = 1;
    while (view.has_slot(next) && process::life_of(mapping, next).life != process::Life::dead) ++next;
    for (engine::SlotIndex s = 1; view.has_slot(s); ++s) {
      if (view.slot_exists(s) && s != next) RealPolicy::store(view.slot(s).watching, next + 1U);
    }
  }
  static void stop(const Child& child) {
    child.kill(SIGSTOP);
    int status = 0;
    ::waitpid(child.pid(), &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  Actor actor(const Child::Line& line) { return {segment.mapping(), *board_, scenario_.lock, line}; }
  pid_t keeper_of(std::int64_t slot) const {
    return slot <= 0 ? 0
                     : static_cast<pid_t>(
                           RealPolicy::get(segment.view().slot(static_cast<engine::SlotIndex>(slot)).keeper_tid));
  }

  std::function<int(const Child::Line&)> actor_that(const Act& before, const Act& operation) {
    return [this, before, operation](const Child::Line& line) -> int {
      Actor me = actor(line);
      before(me);
      line.ready(me.session ? detail::Access::state(*me.session)->participant->slot() : 0);
      line.await_go();
      operation_begins();
      operation(me);
      operation_ends();
      line.ready();
      line.await_go();
      ::_exit(0);
    };
  }

  int wait_for_it(const Child::Line& line) {
    Actor me = actor(line);
    me.join();
    me.attach("other");
    Lock other = std::move(*me.lock);
    board_->other_token = other.try_acquire(HolderId{"W"}).token;
    line.ready();
    line.await_go();
    me.attach();
    for (;;) {
      try {
        board_->waiter_token = me.lock->acquire(HolderId{"W"}).token;
        break;
      } catch (const Error& e) {
        if (e.errc() != Errc::name_removed) throw;  // that one it is told; it may come again
      }
    }
    line.await_go();
    return me.lock->release(HolderId{"W"}).result == ReleaseResult::released ? 0 : 1;
  }

  void queue_waiter() {
    waiting_ = true;
    waiter_->go();
    EXPECT_TRUE(eventually([&] {
      const auto snapshot = process::take_snapshot(*segment.mapping(), RealPolicy::now_ns());
      return std::any_of(snapshot.entries.begin(), snapshot.entries.end(),
                         [](const auto& e) { return e.phase == engine::Phase::waiting && e.holder == "W"; });
    }));
  }
  void yield() {
    yielded_ = true;
    holder_->go();
    expect_ready(*holder_);
  }

  void first_goes_half_way() {
    first.emplace(first_->pid(), keeper_of(first_slot_));
    EXPECT_TRUE(first->begin([this] { first_->go(); }));
    SegmentImage image(*segment.mapping());
    for (std::size_t changes = 0; changes < scenario_.first_changes;) {
      if (first->step() != State::stopped) {
        first_ended_ = true;
        break;
      }
      if (image.changed()) ++changes;
    }
    if (!scenario_.first_dies) return;
    first.reset();
    first_->wait();
    EXPECT_TRUE(process::confirm_death(*segment.mapping(), static_cast<engine::SlotIndex>(first_slot_),
                                       incarnation_of(first_slot_), RealPolicy::now_ns() + watchdog_ns));
  }
  std::uint64_t incarnation_of(std::int64_t slot) const {
    const auto s = static_cast<engine::SlotIndex>(slot);
    return engine::unpack_slot(RealPolicy::load(segment.view().slot(s).id)).incarnation;
  }

  void expect_others(const engine::Mapping& mapping) {
    const process::LockView other = look_at(mapping, "other");
    EXPECT_EQ(line_of(other), "W");
    EXPECT_EQ(other.holders.empty() ? 0 : other.holders[0].token, board_->other_token.load());
  }

  // Who is there gets the lock in turn, and at the end it is free.
  void drain(Actor& r) {
    const engine::Mapping& mapping = *r.mapping;
    process::LockView lock = look_at(mapping, scenario_.lock);
    std::uint64_t highest = board_->highest_token;
    while (!lock.holders.empty()) {
      const process::GrantView holder = lock.holders[0];
      if (holder.slot == engine::detached_slot) {
        EXPECT_EQ(r.lock->release(HolderId{holder.holder}).result, ReleaseResult::released) << holder.holder;
      } else {
        const auto generation = RealPolicy::load(mapping.view().record(lock.record).generation);
        const engine::ControlOps<RealPolicy> ops(mapping.view(), lock.record, generation);
        EXPECT_EQ(ops.release(holder.entry, holder.token).step, engine::Step::released) << holder.holder;
        EXPECT_TRUE(ops.finish_now());
      }
      highest = std::max(highest, holder.token);
      const process::LockView next = look_at(mapping, scenario_.lock);
      const std::string due = lock.waiters.empty() ? "" : lock.waiters[0].holder;
      const std::string has = next.holders.empty() ? "" : next.holders[0].holder;
      EXPECT_EQ(has, due);
      if (has != due || ::testing::Test::HasFatalFailure()) return;
      lock = next;
    }
    const AcquireOutcome got = r.lock->try_acquire(HolderId{"R"});
    EXPECT_TRUE(got);
    EXPECT_GT(got.token, highest);
  }

  const Scenario& scenario_;
  Common<Board> board_;
  OwnSegment segment{scenario_.sizes, scenario_.journal ? engine::journal_always : 0U};
  std::optional<Child> holder_;
  std::optional<Child> first_;
  std::optional<Child> victim_;
  std::optional<Child> waiter_;
  std::int64_t first_slot_ = 0;
  bool waiting_ = false;
  bool yielded_ = false;
  bool cancelled_ = false;
  bool first_ended_ = false;

 public:
  std::optional<Stepper> first;
  std::optional<Stepper> victim;
};

// --- the pass --------------------------------------------------------------------------------------------------------

struct Place {
  std::uint64_t executed;  // instructions before it
  bool asleep = false;     // inside the system call that it executes there
};

struct Pass {
  std::vector<std::uintptr_t> trace;  // the address of each instruction
  std::vector<Place> changes;         // after each change of the memory, and after each system call
  Counts counts;
  bool first_ended = false;
};

// Of images of which some were left out, all with one of the lines may be missing.
bool are_lines(const std::vector<std::string>& lines, const std::vector<std::string>& due, bool all) {
  if (all) return lines == due;
  auto at = due.begin();
  for (const std::string& line : lines) {
    at = std::find(at, due.end(), line);
    if (at == due.end()) return false;
  }
  return true;
}

void expect_lines(const std::vector<std::string>& lines, const Scenario& scenario, bool all) {
  if (are_lines(lines, scenario.outcomes, all)) return;
  if (!scenario.or_else.empty() && are_lines(lines, scenario.or_else, all)) return;
  ADD_FAILURE() << ::testing::PrintToString(lines) << " instead of " << ::testing::PrintToString(scenario.outcomes);
}

// `recover`: else only where it goes and when the memory changes.
Pass pass_through(const Scenario& scenario, const Effort& effort, bool recover) {
  SCOPED_TRACE(scenario.name + ", stepped");
  Pass pass;
  World world(scenario);
  pass.first_ended = world.first_ended();
  if (::testing::Test::HasFailure()) return pass;
  SegmentImage image(*world.own().mapping());
  std::set<std::uint64_t> seen;
  std::vector<std::string> lines[2];
  const auto look = [&] {
    if (!recover || !seen.insert(image.hash()).second || (seen.size() - 1) % effort.every_image != 0) return;
    if (scenario.waiter != Scenario::Waiter::later) world.expect_called_by_the_burial(image);
    for (const bool swept : {true, false}) {
      SCOPED_TRACE((swept ? "swept, after " : "somebody came, after ") + std::to_string(pass.trace.size()) +
                   " instructions");
      ++pass.counts.recoveries;
      std::string line = world.recovered(image, swept);
      if (lines[swept].empty() || lines[swept].back() != line) lines[swept].push_back(std::move(line));
    }
  };
  world.victim->on_asleep = [&] {
    pass.changes.push_back({pass.trace.size() - 1, true});
    world.victim_sleeps([&] {
      if (image.changed()) look();
    });
    return true;
  };
  look();
  for (State state = State::stopped; state == State::stopped && !::testing::Test::HasFailure();) {
    const bool call = world.victim->at_system_call();
    pass.trace.push_back(world.victim->at());
    state = world.victim->step();
    if (state == State::dead) ADD_FAILURE() << "it ended while it was stepped";
    const bool changed = image.changed();
    if (changed) ++pass.counts.changes;
    if (changed || call) pass.changes.push_back({pass.trace.size(), false});
    if (changed) look();
  }
  pass.counts.instructions = pass.trace.size();
  pass.counts.images = seen.size();
  for (const auto& l : lines)
    if (recover) expect_lines(l, scenario, effort.every_image == 1);
  return pass;
}

// --- the kills -------------------------------------------------------------------------------------------------------

std::vector<Place> places_of(const Pass& pass, const Effort& effort) {
  std::vector<Place> all;
  for (const Place& p : pass.changes) {
    if (!p.asleep && p.executed > 0) all.push_back({p.executed - 1});
    if (p.asleep || p.executed < pass.trace.size()) all.push_back(p);
  }
  const std::size_t others = effort.all ? effort.kills : 1;
  std::vector<Place> chosen;
  const std::size_t wanted = effort.all ? all.size() : std::min(effort.kills, all.size());
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(all[(2 * i + 1) * all.size() / (2 * wanted)]);
  for (std::size_t i = 0; i < others; ++i) chosen.push_back({(2 * i + 1) * pass.trace.size() / (2 * others)});
  return chosen;
}

void kill_at(const Scenario& scenario, const Pass& pass, const Place& place, Counts& counts) {
  const std::uintptr_t address = pass.trace[place.executed];
  // An instruction that repeats itself was stepped once for each round, but a breakpoint meets it once.
  std::uint64_t time = 0;
  for (std::size_t i = 0; i <= place.executed; ++i) {
    if (pass.trace[i] == address && (i == 0 || pass.trace[i - 1] != address)) ++time;
  }
  World world(scenario);
  if (::testing::Test::HasFailure()) return;
  world.victim->on_asleep = [&] {
    world.victim_sleeps([] {});
    return true;
  };
  State state = State::stopped;
  if (scenario.others_run || scenario.cancelled) {
    // The text is that of all threads of the process: who runs into a breakpoint untraced dies of it.
    for (std::uint64_t n = 0; n < place.executed && state == State::stopped; ++n) state = world.victim->step();
  } else {
    state = world.victim->run_to(address, time);
  }
  if (state == State::stopped && place.asleep) {
    world.victim->on_asleep = [] { return false; };
    state = world.victim->step();
  }
  ++counts.kills;
  if (state != (place.asleep ? State::asleep : State::stopped)) ++counts.missed;
  world.victim->kill();
  world.go_on(scenario.name + ", killed after " + std::to_string(place.executed) + " instructions" +
                  (place.asleep ? ", asleep" : ""),
              counts.kills == 1);
}

}  // namespace

// --- actors ----------------------------------------------------------------------------------------------------------

void Actor::join() { session.emplace(detail::Access::segment(mapping)); }
void Actor::attach(std::string_view other) { lock.emplace(*session, other, patient); }
process::PrimitiveClient& Actor::client() const { return *detail::Access::state(*session)->client(lock->name(), {}); }

std::uint64_t Actor::note(const AcquireOutcome& outcome) const {
  std::uint64_t before = board.highest_token;
  while (before < outcome.token && !board.highest_token.compare_exchange_weak(before, outcome.token)) {
  }
  return outcome.token;
}

Counts& Counts::operator+=(const Counts& more) {
  instructions += more.instructions;
  changes += more.changes;
  images += more.images;
  recoveries += more.recoveries;
  kills += more.kills;
  missed += more.missed;
  return *this;
}

Effort Effort::of_this_run() {
  if (long_form()) return {.every_image = 1, .kills = 32, .all = true};
  // Instrumented code takes many times as many instructions, and each recovery as much longer.
  if (sim::instrumented) return {.every_image = 7, .kills = 2, .all = false};
  return {};
}

Death die_everywhere(const Scenario& scenario, const Effort& effort) {
  const Pass pass = pass_through(scenario, effort, true);
  Death death{pass.counts, pass.first_ended};
  if (::testing::Test::HasFailure()) return death;
  // Once more for the way: what the recoverer called too is bound by now, and is not bound again in each child.
  const Pass way = effort.kills > 1 ? pass_through(scenario, effort, false) : pass;
  for (const Place& place : places_of(way, effort)) {
    if (::testing::Test::HasFailure()) break;
    kill_at(scenario, way, place, death.counts);
  }
  const bool most_hit = death.counts.missed * 3 <= death.counts.kills + 2;
  EXPECT_TRUE(effort.kills == 1 || most_hit)
      << death.counts.missed << " of " << death.counts.kills << " were elsewhere";
  return death;
}

}  // namespace shmcoord::test
