#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/control.hpp"
#include "engine/journal_reader.hpp"
#include "engine/journal_switch.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sim_segment.hpp"

// The journal under the deterministic scheduler, with a death possible at every operation: what is changed is told, in
// the order of the word, once, whoever dies; a reader that is too slow is told how much it lost; starting and stopping
// it loses nothing for whoever listens.

namespace shmcoord::engine {
namespace {

using sim::expect_good;
using sim::is_dead;
using sim::is_finished;
using sim::judge;
using sim::Plain;
using sim::require;
using sim::Scenario;
using sim::Segment;
using P = sim::SimPolicy;

constexpr std::uint64_t on = static_cast<std::uint64_t>(JournalState::on);

/// Follows what the journal tells of each name, and finds whatever cannot be.
class Listener {
 public:
  void begin() {
    holders_ = {};
    told_.clear();
    last_ = {};
  }

  void hear(const JournalRecord& r) {
    if (r.head.source != JournalSource::record) return;
    const auto name = static_cast<std::uint32_t>(r.name[0] - '0');
    require(name < Segment::records, "an event of a name that there is not");
    require(r.head.seq() > last_[name], "an event came twice, or in the wrong order");
    last_[name] = r.head.seq();
    told_.push_back({name, r.head.seq()});
    std::string& holder = holders_[name];
    switch (r.head.told) {
      case Told::acquired:
        require(holder.empty() || !known_[name], "acquired, but somebody has it");
        holder = r.holder;
        break;
      case Told::released:
      case Told::reclaimed:
        require(holder == r.holder || !known_[name], "somebody lost what it did not have");
        holder.clear();
        break;
      case Told::handed_over:
      case Told::taken_over:
        require(holder == r.holder || !known_[name], "somebody handed over what it did not have");
        holder = r.other;
        break;
      default: require(false, "an event that nobody made");
    }
    known_[name] = true;
  }
  /// Who holds it is known from the start on.
  void knows(bool yes) { known_.fill(yes); }

  [[nodiscard]] bool heard(RecordIndex r, std::uint64_t seq) const {
    return std::any_of(told_.begin(), told_.end(), [&](const Event& e) { return e.name == r && e.seq == seq; });
  }
  [[nodiscard]] bool nobody_holds() const {
    return std::all_of(holders_.begin(), holders_.end(), [](const std::string& h) { return h.empty(); });
  }
  [[nodiscard]] std::uint64_t last(RecordIndex r) const { return last_[r]; }
  [[nodiscard]] std::size_t count() const { return told_.size(); }

 private:
  struct Event {
    std::uint32_t name;
    std::uint64_t seq;
  };
  std::array<std::string, Segment::records> holders_;
  std::array<bool, Segment::records> known_{};
  std::array<std::uint64_t, Segment::records> last_{};
  std::vector<Event> told_;
};

/// Everything that stands behind `from`.
void hear_all(const View& view, const JournalEnd& from, Listener& listener, bool may_be_lapped = false) {
  JournalReader<P> reader(view, from);
  JournalRecord record;
  std::uint64_t lost = 0;
  for (;;) {
    const JournalRead read = reader.next(record, lost);
    if (read == JournalRead::nothing) return;
    require(read != JournalRead::damaged, "the journal is damaged");
    require(read != JournalRead::lapped || may_be_lapped, "the reader was lapped");
    if (read == JournalRead::lapped) listener.knows(false);
    if (read == JournalRead::record) listener.hear(record);
  }
}

/// Processes that acquire and release names, of which any may die; one buries them. What each was told about its own
/// operations must be in the journal at the end.
class World {
 public:
  using Script = std::vector<RecordIndex>;

  World(std::vector<Script> scripts, bool waits) : scripts_(std::move(scripts)), waits_(waits), segment_(1) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      segment_.view().header().journal.raw = on;
      for (auto& of : seen_) {
        for (auto& v : of) {
          v.acquired = 0;
          v.released = 0;
        }
      }
    });
    for (unsigned p = 0; p < scripts_.size(); ++p) {
      scenario_.mortal(std::string(1, Segment::name_of(p)), [this, p] { play(p); });
    }
    scenario_.task("reaper", [this] { reap(); });
    scenario_.at_end([this] { judge_end(); });
  }
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  struct Visit {
    Plain<std::uint64_t> acquired;
    Plain<std::uint64_t> released;
  };

  void play(unsigned p) {
    for (unsigned v = 0; v < scripts_[p].size(); ++v) {
      const RecordIndex r = scripts_[p][v];
      const auto ops = segment_.ops(r);
      const EntryIndex i = Segment::entry_of(p);
      P::store(segment_.view().entry(i).weight, 1);
      P::store(segment_.view().entry(i).wake, wake_awake);
      const Result got = waits_ ? ops.acquire_or_queue(i, 1, P::now_ns()) : ops.try_acquire(i, 1, P::now_ns());
      if (got.step == Step::busy) continue;
      std::uint64_t token = got.seq;
      if (got.step == Step::queued) {
        require(segment_.wait(r, p, INT64_MAX) == WaitEnd::granted, "the wait ended for no reason");
        token = segment_.token(r, p);
      }
      seen_[p][v].acquired = token;
      const Result gone = ops.release(i, token);
      require(gone.step == Step::released, "the release failed");
      seen_[p][v].released = gone.seq;
    }
  }
  void reap() {
    unsigned known = 0;
    for (;;) {
      sim::await([this, &known] { return all_over() || unburied(known) < scripts_.size(); });
      const unsigned dead = unburied(known);
      if (dead == scripts_.size()) return;
      known |= 1U << dead;
      segment_.announce_death(dead);
      segment_.bury(dead);
    }
  }
  [[nodiscard]] unsigned unburied(unsigned known) const {
    unsigned p = 0;
    while (p < scripts_.size() && (!is_dead(p) || (known >> p & 1U) != 0)) ++p;
    return p;
  }
  [[nodiscard]] bool all_over() const {
    for (unsigned p = 0; p < scripts_.size(); ++p) {
      if (!is_dead(p) && !is_finished(p)) return false;
    }
    return true;
  }

  void judge_end() {
    segment_.require_idle();
    Listener listener;
    listener.knows(true);
    hear_all(segment_.view(), {0, 1}, listener, may_be_lapped());
    if (may_be_lapped()) return;
    require(listener.nobody_holds(), "a release was not told");
    for (unsigned p = 0; p < scripts_.size(); ++p) {
      for (unsigned v = 0; v < scripts_[p].size(); ++v) {
        const Visit& seen = seen_[p][v];
        const RecordIndex r = scripts_[p][v];
        require(seen.acquired == 0 || listener.heard(r, seen.acquired), "an acquire was not told");
        require(seen.released == 0 || listener.heard(r, seen.released), "a release was not told");
      }
    }
  }
  [[nodiscard]] bool may_be_lapped() const {
    std::size_t visits = 0;
    for (const Script& s : scripts_) visits += s.size();
    return visits > 3;
  }

  std::vector<Script> scripts_;
  bool waits_;
  Segment segment_;
  Scenario scenario_;
  std::array<std::array<Visit, 4>, Segment::processes> seen_;
};

TEST(JournalSim, two_on_one_name) {
  judge("two on one name", World({{0, 0}, {0}}, false).scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, two_on_one_name_who_wait) {
  judge("two who wait", World({{0}, {0}}, true).scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, three_who_wait) {
  judge("three who wait", World({{0}, {0}, {0}}, true).scenario(), {.preemptions = 1, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, two_on_two_names) {
  judge("two names", World({{0}, {1, 1}}, false).scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, three_on_two_names_who_lap_each_other) {
  judge("lapped", World({{0}, {1, 1, 1, 1}, {0}}, false).scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}

// Two bury a session, the slot is somebody else's soon, and a third, who has nothing to do with it, completes what they
// began.
TEST(JournalSim, the_end_of_a_session_is_told_once) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  const SlotIndex dead = Segment::slot_of(2);
  s.on_start([&] {
    segment.reset();
    segment.view().header().journal.raw = on;
    P::store(segment.view().slot(dead).id, pack(SlotId{SlotState::dying, 102}));
    P::store(segment.view().entry(Segment::entry_of(1)).weight, 1);
  });
  for (const char* const name : {"burier", "second burier"}) {
    s.mortal(name, [&] {
      Word64& id = segment.view().slot(dead).id;
      const std::uint64_t dying = pack(SlotId{SlotState::dying, 102});
      if (P::load(id) != dying) return;
      const Journal<P> journal(segment.view());
      journal.tell_session(dead, 102, SessionStage::joined);
      journal.tell_session(dead, 102, SessionStage::ended);
      if (P::cas(id, dying, pack(SlotId{SlotState::free, 102}))) {
        P::cas(id, pack(SlotId{SlotState::free, 102}), pack(SlotId{SlotState::joining, 103}));
      }
    });
  }
  s.task("c", [&] {
    const Result got = segment.ops(0).try_acquire(Segment::entry_of(1), 1, P::now_ns());
    segment.ops(0).release(Segment::entry_of(1), got.seq);
  });
  s.at_end([&] {
    JournalReader<P> reader(segment.view(), {0, 1});
    JournalRecord record;
    std::uint64_t lost = 0;
    int joined = 0;
    int died = 0;
    int changes = 0;
    while (reader.next(record, lost) == JournalRead::record) {
      joined += record.head.told == Told::session_joined ? 1 : 0;
      died += record.head.told == Told::session_died ? 1 : 0;
      changes += record.head.source == JournalSource::record ? 1 : 0;
    }
    const bool buried = unpack_slot(P::load(segment.view().slot(dead).id)).state != SlotState::dying;
    require(changes == 2, "a change was not told");
    require(joined <= 1 && died <= 1, "told twice");
    require(!buried || (joined == 1 && died == 1), "buried, and not told");
  });
  judge("the end of a session", s, {.preemptions = 3, .deaths = 1}, {.deaths = 2});
}

// --- readers -------------------------------------------------------------------------------------------------------

// Whoever sleeps is woken for each change, also when who made it dies before it could call.
TEST(JournalSim, a_sleeping_reader_hears_of_everything) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  Listener listener;
  JournalRecord record;
  std::optional<JournalReader<P>> reader;
  s.on_start([&] {
    segment.reset();
    segment.view().header().journal.raw = on;
    listener.begin();
    listener.knows(true);
    reader.emplace(segment.view(), JournalEnd{0, 1});
    P::store(segment.view().entry(Segment::entry_of(0)).weight, 1);
  });
  s.mortal("a", [&] {
    const Result got = segment.ops(0).try_acquire(Segment::entry_of(0), 1, P::now_ns());
    segment.ops(0).release(Segment::entry_of(0), got.seq);
  });
  s.task("reader", [&] {
    while (listener.last(0) < 3) {
      std::uint64_t lost = 0;
      const JournalRead read = reader->next(record, lost);
      require(read == JournalRead::record || read == JournalRead::nothing, "the reader was lapped");
      if (read == JournalRead::record) listener.hear(record);
      if (read == JournalRead::nothing) reader->wait(INT64_MAX, [] { return false; });
    }
  });
  s.task("reaper", [&] {
    sim::await([] { return is_dead(0) || is_finished(0); });
    if (is_finished(0)) return;
    segment.bury(0);
    // Who died before it had it never will.
    const auto ops = segment.ops(0);
    const EntryIndex mine = Segment::entry_of(2);
    P::store(segment.view().entry(mine).weight, 1);
    while (P::load_seq(ops.record().control) < 3) {
      const Result got = ops.try_acquire(mine, 1, P::now_ns());
      require(got.step == Step::acquired, "what the dead one had is not free");
      ops.release(mine, got.seq);
    }
  });
  s.at_end([&] { require(listener.nobody_holds() || is_dead(0), "a release was not told"); });
  judge("a reader", s, {.preemptions = 3, .deaths = 1}, {.deaths = 1});
}

// Of a ring for some six records, twelve are written.
TEST(JournalSim, a_slow_reader_is_told_how_much_it_lost) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  Listener listener;
  JournalRecord record;
  std::optional<JournalReader<P>> reader;
  std::uint64_t lost = 0;
  s.on_start([&] {
    segment.reset();
    segment.view().header().journal.raw = on;
    listener.begin();
    listener.knows(false);
    lost = 0;
    reader.emplace(segment.view(), JournalEnd{0, 1});
    P::store(segment.view().entry(Segment::entry_of(0)).weight, 1);
  });
  const auto read_on = [&] {
    for (;;) {
      std::uint64_t now = 0;
      const JournalRead read = reader->next(record, now);
      require(read != JournalRead::damaged, "damaged");
      if (read == JournalRead::nothing) return;
      if (read == JournalRead::lapped) lost += now;
      if (read == JournalRead::lapped) listener.knows(false);
      if (read == JournalRead::record) listener.hear(record);
    }
  };
  s.task("a", [&] {
    for (int n = 0; n < 6; ++n) {
      const Result got = segment.ops(0).try_acquire(Segment::entry_of(0), 1, P::now_ns());
      segment.ops(0).release(Segment::entry_of(0), got.seq);
    }
  });
  s.task("reader", [&] {
    for (int n = 0; n < 3; ++n) {
      read_on();
      P::pause();
    }
  });
  s.at_end([&] {
    read_on();
    require(listener.count() + lost == 12, "what was read and what was lost is not all there was");
  });
  judge("a slow reader", s, {.preemptions = 3}, {});
}

// --- starting and stopping -----------------------------------------------------------------------------------------

// One cycles all the time; another subscribes, and must hear of all from then on, and of nothing from before.
class Subscribing {
 public:
  Subscribing(unsigned subscribers, bool unsubscribes) : alone_(subscribers == 1), segment_(1) {
    segment_.name_words(scenario_);
    scenario_.on_start([this] {
      segment_.reset();
      for (const unsigned p : {0U, 1U, 2U}) P::store(segment_.view().entry(Segment::entry_of(p)).weight, 1);
      // Held since long before, by somebody who did not finish it.
      held_ = segment_.ops(0).try_acquire(Segment::entry_of(0), 1, P::now_ns()).seq;
      for (auto& end : ends_) end.done = false;
    });
    scenario_.mortal("a", [this] {
      const auto ops = segment_.ops(0);
      const EntryIndex i = Segment::entry_of(0);
      ops.release(i, held_);
      const Result got = ops.try_acquire(i, 1, P::now_ns());
      if (got.step == Step::acquired) ops.release(i, got.seq);
    });
    for (unsigned n = 0; n < subscribers; ++n) {
      scenario_.mortal(n == 0 ? "subscriber" : "second subscriber", [this, n, unsubscribes] {
        const JournalSwitch<P> journal(segment_.view());
        ends_[n].before = P::load_seq(segment_.view().record(0).control);
        const JournalEnd end = journal.subscribe(Segment::slot_of(n + 1));
        ends_[n].position = end.position;
        ends_[n].number = end.number;
        ends_[n].after = P::load_seq(segment_.view().record(0).control);
        if (unsubscribes && n == 0) return journal.unsubscribe(Segment::slot_of(n + 1));
        ends_[n].done = true;
      });
    }
    scenario_.task("reaper", [this, subscribers] {
      for (unsigned p = 0; p <= subscribers; ++p) {
        sim::await([p] { return is_dead(p) || is_finished(p); });
        if (!is_dead(p)) continue;
        segment_.bury(p);
        P::store(segment_.view().slot(Segment::slot_of(p)).id, pack(SlotId{SlotState::dying, 100U + p}));
        JournalSwitch<P>(segment_.view()).turn_off();
      }
    });
    scenario_.at_end([this, subscribers] {
      require(segment_.ops(0).finish_now(), "corrupt");
      bool listens = false;
      for (unsigned n = 0; n < subscribers; ++n) {
        listens = listens || ends_[n].done;
        if (ends_[n].done) judge_one(ends_[n]);
      }
      require(JournalSwitch<P>::state_of(segment_.view().header().journal.raw) ==
                      (listens ? JournalState::on : JournalState::off) ||
                  somebody_else_listens(subscribers),
              "on for nobody, or off for somebody");
    });
  }
  [[nodiscard]] const Scenario& scenario() const noexcept { return scenario_; }

 private:
  struct End {
    Plain<std::uint64_t> position;
    Plain<std::uint64_t> number;
    Plain<std::uint64_t> before;  // sequence before it began to subscribe
    Plain<std::uint64_t> after;   // and after
    Plain<bool> done;
  };

  // Marked, and dead before it knew.
  [[nodiscard]] bool somebody_else_listens(unsigned subscribers) const {
    for (unsigned n = 0; n < subscribers; ++n) {
      if (!is_dead(n + 1) && segment_.view().slot(Segment::slot_of(n + 1)).subscribed.raw != 0) return true;
    }
    return false;
  }

  void judge_one(const End& end) {
    Listener listener;
    hear_all(segment_.view(), {end.position, end.number}, listener);
    const core::Control now = segment_.ops(0).load();
    for (std::uint64_t seq = end.after + 1; seq <= now.seq; ++seq) {
      const bool passed_over = seq == now.seq && now.op == core::Op::keep;  // the burial of one who had prepared
      require(listener.heard(0, seq) || passed_over || is_dead(0), "a change after the subscription was not told");
    }
    // While another one listens already, somebody may be about to tell of what it did before.
    for (std::uint64_t seq = 1; alone_ && seq <= end.before; ++seq) {
      require(!listener.heard(0, seq), "what was before the subscription was told");
    }
  }

  bool alone_;
  Segment segment_;
  Scenario scenario_;
  std::uint64_t held_ = 0;
  std::array<End, 2> ends_;
};

// The journal is switched on while one goes on that saw it off, and changes its holder id meanwhile: whoever tells of
// what it did before tells that, or nothing.
TEST(JournalSim, who_tells_late_mixes_nothing) {
  Segment segment(1);
  Scenario s;
  segment.name_words(s);
  AllPagesExist pages;
  const std::string before(Segment::holder_bytes, 'a');
  const std::string after(Segment::holder_bytes, 'z');
  Plain<std::uint64_t> changed = 0;  // sequences above it are of the second one
  s.on_start([&] {
    segment.reset();
    changed = INT64_MAX;
    P::store(segment.view().entry(Segment::entry_of(0)).weight, 1);
  });
  s.task("a", [&] {
    const auto ops = segment.ops(0);
    const EntryIndex i = Segment::entry_of(0);
    const Result got = ops.try_acquire(i, 1, P::now_ns());
    changed = ops.release(i, got.seq).seq;
    ops.set_aside(i);
    require(write_texts<P>(segment.view(), pages, i, after, {}), "no room");
    const Result again = ops.try_acquire(i, 1, P::now_ns());
    ops.release(i, again.seq);
  });
  s.task("b", [&] {
    P::store(segment.view().header().journal, on);
    segment.ops(0).finish_now();
  });
  s.at_end([&] {
    JournalReader<P> reader(segment.view(), {0, 1});
    JournalRecord record;
    std::uint64_t lost = 0;
    while (reader.next(record, lost) == JournalRead::record) {
      require(record.holder == (record.head.seq() > changed ? after : before), "an event names somebody else");
    }
  });
  judge("late", s, {.preemptions = 3}, {});
}

TEST(JournalSim, who_subscribes_hears_of_all_from_then_on) {
  judge("subscribe", Subscribing(1, false).scenario(), {.preemptions = 3, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, two_subscribe) {
  judge("two subscribe", Subscribing(2, false).scenario(), {.preemptions = 2, .deaths = 1}, {.deaths = 2});
}
TEST(JournalSim, one_goes_while_another_comes) {
  judge("come and go", Subscribing(2, true).scenario(), {.preemptions = 3, .deaths = 1}, {.deaths = 2});
}

}  // namespace
}  // namespace shmcoord::engine
