#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "core/control_machine.hpp"
#include "engine/recycling.hpp"
#include "support/sim_judge.hpp"
#include "support/sim_policy.hpp"

// The index under the deterministic scheduler: every interleaving of two or three operations within the bounds, with a
// death possible at every operation on a shared word, and then recovery by one or by two at once.

namespace shmcoord::engine {
namespace {

using sim::SimPolicy;
using Index = NameIndex<SimPolicy>;
constexpr NameConfigNs config;

/// A small segment in plain memory, made new for each schedule at the same addresses.
class Memory {
 public:
  explicit Memory(std::uint32_t names = 4) : view_{nullptr, geometry_of({names, 8, 4})} {
    buffer_.resize(view_.geo.total + page_size);
    auto* at = buffer_.data();
    at += page_size - reinterpret_cast<std::uintptr_t>(at) % page_size;
    view_.base = reinterpret_cast<std::byte*>(at);
    std::memset(view_.base + view_.geo.bitmap, 0xff, view_.geo.buckets - view_.geo.bitmap);
  }
  void reset() {
    std::memset(view_.base, 0, sizeof(Header));
    std::memset(view_.base + view_.geo.buckets, 0, view_.geo.bucket_count * sizeof(Word64));
    std::memset(view_.base + view_.geo.directory, 0, view_.geo.sizes.names * sizeof(Word64));
    std::memset(view_.base + view_.geo.slots, 0, 4 * sizeof(SessionSlot));
    std::memset(view_.base + view_.geo.records, 0, view_.geo.sizes.names * sizeof(Record));
    std::memset(view_.base + view_.geo.entries, 0, 8 * sizeof(Entry));
    view_.header().segment_id = 1;
    for (SlotIndex s = 1; s < 4; ++s) view_.slot(s).id.raw = pack(SlotId{SlotState::alive, 1});
  }

  [[nodiscard]] const View& view() const { return view_; }
  Index index() { return Index(view_, &pages_); }
  Index::Inserted insert(std::string_view name, SlotIndex slot) {
    return index().find_or_insert(name, Kind::lock, 1, config, slot);
  }
  Removal remove(Found found, SlotIndex slot) {
    return index().remove(found, slot, [&] {
      Record& record = view_.record(found.record);
      const core::Control c = SimPolicy::load(record.control);
      if (!index().is_current(found) || c.op == core::Op::close || !core::idle(c)) return false;
      return SimPolicy::cas(record.control, c, core::close(c));
    });
  }
  [[nodiscard]] std::uint64_t sequence(Found found) { return SimPolicy::load_seq(view_.record(found.record).control); }
  void mark_dead(SlotIndex slot) { SimPolicy::store(view_.slot(slot).id, pack(SlotId{SlotState::dying, 1})); }

  /// Every record free or live; each live one in its chain, once; nothing marked; no name twice. The live names.
  std::vector<std::string> require_whole() {
    std::vector<std::string> names;
    std::size_t linked = 0;
    for (RecordIndex r = 0; r < view_.geo.sizes.names; ++r) {
      const RecordId id = unpack_record(view_.directory(r).raw);
      sim::require(id.state == RecordState::free || id.state == RecordState::live, "a record is neither free nor live");
      sim::require(view_.record(r).generation.raw == (id.state == RecordState::live ? id.generation : 0),
                   "a record's generation is not its directory's");
      if (id.state != RecordState::live) continue;
      const std::string name = index().name_of({r, id.generation});
      sim::require(index().find(name) == Found{r, id.generation}, "a live record is not found under its name");
      for (const std::string& other : names) sim::require(other != name, "two records have one name");
      names.push_back(name);
    }
    for (std::uint32_t b = 0; b < view_.geo.bucket_count; ++b) {
      for (std::uint32_t next = unpack_bucket(view_.bucket(b).raw).head; next != 0; ++linked) {
        sim::require(linked <= names.size(), "a chain has more records than are live");
        sim::require(!unpack_chain(view_.record(next - 1).chain.raw).marked, "a removed record is in a chain");
        next = unpack_chain(view_.record(next - 1).chain.raw).next;
      }
    }
    sim::require(linked == names.size(), "a live record is in no chain");
    return names;
  }
  /// `count` names that fall into one bucket.
  std::vector<std::string> colliding(std::size_t count) {
    std::vector<std::string> names;
    for (int i = 0; names.size() < count; ++i) {
      const std::string name = "n" + std::to_string(i);
      if ((hash_name(name, 1) & (view_.geo.bucket_count - 1)) == 0) names.push_back(name);
    }
    return names;
  }
  void name_words(sim::Scenario& scenario) {
    for (std::uint32_t b = 0; b < view_.geo.bucket_count; ++b)
      scenario.name(&view_.bucket(b), "bucket" + std::to_string(b));
    for (RecordIndex r = 0; r < view_.geo.sizes.names; ++r) {
      const std::string of = std::to_string(r);
      scenario.name(&view_.directory(r), "directory" + of);
      scenario.name(&view_.record(r).control, "control" + of);
      scenario.name(&view_.record(r).chain, "chain" + of);
      scenario.name(&view_.record(r).generation, "generation" + of);
      scenario.name(&view_.record(r).name_hash, "hash" + of);
    }
    for (SlotIndex s = 0; s < 4; ++s) {
      scenario.name(&view_.slot(s).id, "slot" + std::to_string(s));
      scenario.name(&view_.slot(s).claiming, "claiming" + std::to_string(s));
    }
    scenario.name(&view_.header().token_floor, "token_floor");
    scenario.name(&view_.header().record_high, "record_high");
    scenario.name(&view_.header().record_hint, "record_hint");
  }

 private:
  std::vector<char> buffer_;
  View view_;
  AllPagesExist pages_;
};

class NameIndexSim : public testing::Test {
 protected:
  static void run(const char* what, const sim::Scenario& scenario, unsigned deaths, unsigned preemptions = 2) {
    const sim::Options options{.preemptions = preemptions, .deaths = deaths};
    sim::judge(what, scenario, options, options);
  }
  void whoever_died_is_buried(sim::TaskIndex task, SlotIndex slot) {
    if (!sim::is_dead(task)) return;
    memory_.mark_dead(slot);
    memory_.index().recover_claim(slot);
    memory_.index().recover_claim(slot);
  }

  Memory memory_;
};

TEST_F(NameIndexSim, TwoInsertsOfOneNameNeverBothSucceed) {
  sim::Scenario scenario;
  memory_.name_words(scenario);
  sim::Plain<int> inserted;
  sim::TaskIndex tasks[2];
  scenario.on_start([&] {
    memory_.reset();
    inserted = 0;
  });
  for (SlotIndex slot = 1; slot <= 2; ++slot) {
    tasks[slot - 1] = scenario.mortal("insert" + std::to_string(slot), [&, slot] {
      if (memory_.insert("a", slot).inserted) inserted = inserted + 1;
    });
  }
  scenario.at_end([&] {
    for (SlotIndex slot = 1; slot <= 2; ++slot) whoever_died_is_buried(tasks[slot - 1], slot);
    const auto names = memory_.require_whole();
    const bool all_died = sim::is_dead(tasks[0]) && sim::is_dead(tasks[1]);
    sim::require(inserted <= 1, "both inserted");
    sim::require(names.size() == 1 || all_died, "the name is missing");
  });
  run("two inserts, no death", scenario, 0, 3);
  run("two inserts, one death", scenario, 1);
  run("two inserts, two deaths", scenario, 2, 1);
}

TEST_F(NameIndexSim, InsertsOfTwoNamesInOneBucketBothSucceed) {
  const auto names = memory_.colliding(2);
  sim::Scenario scenario;
  memory_.name_words(scenario);
  sim::TaskIndex tasks[2];
  scenario.on_start([&] { memory_.reset(); });
  for (SlotIndex slot = 1; slot <= 2; ++slot) {
    tasks[slot - 1] =
        scenario.mortal("insert" + std::to_string(slot), [&, slot] { memory_.insert(names[slot - 1], slot); });
  }
  scenario.at_end([&] {
    for (SlotIndex slot = 1; slot <= 2; ++slot) whoever_died_is_buried(tasks[slot - 1], slot);
    memory_.require_whole();
    for (SlotIndex slot = 1; slot <= 2; ++slot) {
      sim::require(sim::is_dead(tasks[slot - 1]) || memory_.index().find(names[slot - 1]).has_value(),
                   "a name was lost");
    }
  });
  run("two names, one bucket", scenario, 1);
}

TEST_F(NameIndexSim, RemovalAgainstInsertKeepsTokensGrowing) {
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found old;
  sim::TaskIndex remover = 0;
  sim::TaskIndex inserter = 0;
  sim::Plain<std::uint64_t> born;
  scenario.on_start([&] {
    memory_.reset();
    old = memory_.insert("a", 3).found;
    Record& record = memory_.view().record(old.record);
    SimPolicy::cas(record.control, SimPolicy::load(record.control),
                   core::Control{100, 0, nil_entry, nil_entry, core::Op::none});
    born = 0;
  });
  remover = scenario.mortal("remove", [&] { memory_.remove(old, 1); });
  inserter = scenario.mortal("insert", [&] {
    const Index::Inserted now = memory_.insert("a", 2);
    if (now.inserted) {
      sim::require(now.found != old, "a removed life came back");
      born = memory_.sequence(now.found);
    } else {
      sim::require(now.found == old, "found what nobody inserted");
    }
  });
  scenario.at_end([&] {
    whoever_died_is_buried(remover, 1);
    whoever_died_is_buried(inserter, 2);
    memory_.require_whole();
    sim::require(born == 0 || born > 101, "a token of the new life is not above the old one's");
    if (const auto now = memory_.index().find("a"); now && *now != old) {
      sim::require(memory_.sequence(*now) > 101, "a token of the new life is not above the old one's");
    }
    if (!sim::is_dead(remover)) sim::require(!memory_.index().is_current(old), "it was not removed");
    if (!sim::is_dead(inserter) && sim::is_finished(remover)) {
      sim::require(memory_.view().header().token_floor.raw >= 101, "the floor was not raised");
    }
  });
  run("remove and insert", scenario, 1);
  run("remove and insert, two deaths", scenario, 2, 1);
}

TEST_F(NameIndexSim, ABystanderInTheChainIsAlwaysFound) {
  const auto names = memory_.colliding(4);
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found first;
  Found second;
  sim::TaskIndex tasks[2];
  scenario.on_start([&] {
    memory_.reset();
    memory_.insert(names[0], 3);
    second = memory_.insert(names[1], 3).found;
    first = memory_.insert(names[2], 3).found;
  });
  // Neighbours are removed, and a record is used again in another bucket while somebody stands on it.
  tasks[0] = scenario.mortal("remove first", [&] {
    memory_.remove(first, 1);
    memory_.insert("other", 1);
  });
  tasks[1] = scenario.mortal("remove second", [&] { memory_.remove(second, 2); });
  scenario.task("look", [&] { sim::require(memory_.index().find(names[0]).has_value(), "a live name was not found"); });
  scenario.at_end([&] {
    whoever_died_is_buried(tasks[0], 1);
    whoever_died_is_buried(tasks[1], 2);
    memory_.require_whole();
    sim::require(memory_.index().find(names[0]).has_value(), "a live name was lost");
    if (!sim::is_dead(tasks[0])) sim::require(!memory_.index().find(names[2]), "the first is still there");
    if (!sim::is_dead(tasks[1])) sim::require(!memory_.index().find(names[1]), "the second is still there");
  });
  run("neighbours removed", scenario, 1);
  // Each marks its own record and then looks through the chain: of two neighbours one must see the other's mark.
  sim::expect_missed("neighbours without acquire", scenario, {}, {.acquire = true});
  sim::expect_missed("neighbours with locked ones that do not order", scenario, {}, {.locked = true});
}

TEST_F(NameIndexSim, ARecordFromTheMiddleOfAChainIsUsedAgainUnderAReader) {
  const auto names = memory_.colliding(3);
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found middle;
  scenario.on_start([&] {
    memory_.reset();
    memory_.insert(names[0], 3);
    middle = memory_.insert(names[1], 3).found;
    memory_.insert(names[2], 3);
  });
  scenario.task("remove and reuse", [&] {
    memory_.remove(middle, 1);
    const Found again = memory_.insert("b", 1).found;
    sim::require(again.record == middle.record, "the scenario is not what it should be");
  });
  scenario.task("look", [&] { sim::require(memory_.index().find(names[0]).has_value(), "a live name was not found"); });
  scenario.task("insert",
                [&] { sim::require(!memory_.insert(names[0], 2).inserted, "a live name was inserted again"); });
  scenario.at_end([&] { memory_.require_whole(); });
  run("reused under a reader", scenario, 0);
}

TEST_F(NameIndexSim, TwoRecoverersAndTheSlotsNextOwner) {
  for (const bool removing : {false, true}) {
    sim::Scenario scenario;
    memory_.name_words(scenario);
    Found old;
    scenario.on_start([&] {
      memory_.reset();
      old = memory_.insert("a", 3).found;
      if (!removing) memory_.remove(old, 3);
    });
    const sim::TaskIndex victim = scenario.mortal("victim", [&] {
      if (removing) {
        memory_.remove(old, 1);
      } else {
        memory_.insert("a", 1);
      }
    });
    const auto over = [=] { return sim::is_dead(victim) || sim::is_finished(victim); };
    // One of them finishes, sets the slot free, and the next owner does the same thing in it while the other is still
    // at it.
    scenario.task("first", [&] {
      sim::await(over);
      if (sim::is_dead(victim)) {
        memory_.mark_dead(1);
        memory_.index().recover_claim(1);
        SimPolicy::store(memory_.view().slot(1).id, pack(SlotId{SlotState::alive, 2}));
        SimPolicy::store(memory_.view().slot(1).claiming, 0);
      }
      // Also when nobody died, so that the explorer learns which words are shared.
      const Found again = memory_.insert("a", 1).found;
      sim::require(memory_.index().is_current(again), "the next owner's record was taken away");
      if (removing) memory_.remove(again, 1);
    });
    scenario.task("late", [&] {
      sim::await(over);
      memory_.index().recover_claim(1);
    });
    scenario.at_end([&] {
      const auto names = memory_.require_whole();
      sim::require(names.size() == (removing ? 0U : 1U), "not the names that there should be");
    });
    run(removing ? "recovery of a removal, twice" : "recovery of an insert, twice", scenario, 1);
  }
}

TEST_F(NameIndexSim, OneWhoLooksTheNameUpFinishesForAStoppedRemover) {
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found old;
  scenario.on_start([&] {
    memory_.reset();
    old = memory_.insert("a", 3).found;
  });
  // The remover just stops somewhere; nobody proves it dead.
  const sim::TaskIndex remover = scenario.mortal("remove", [&] { memory_.remove(old, 1); });
  scenario.task("insert", [&] {
    const auto over = [&] { return sim::is_dead(remover) || sim::is_finished(remover); };
    sim::await(over);
    const core::Control word = SimPolicy::load(memory_.view().record(old.record).control);
    const bool closed = !memory_.index().is_current(old) || word.op == core::Op::close;
    const Index::Inserted now = memory_.insert("a", 2);
    sim::require(now.inserted == closed, "a name whose removal was decided is in the way");
  });
  scenario.at_end([&] {
    whoever_died_is_buried(remover, 1);
    memory_.require_whole();
  });
  run("a stopped remover", scenario, 1);
}

// It stops after it has closed the word; others finish for it, and use the record again.
TEST_F(NameIndexSim, ALateRemoverMarksNoLaterLife) {
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found old;
  scenario.on_start([&] {
    memory_.reset();
    old = memory_.insert("a", 3).found;
  });
  scenario.task("remove", [&] { memory_.remove(old, 1); });
  scenario.task("others", [&] {
    memory_.insert("a", 2);
    memory_.insert("b", 2);
  });
  scenario.at_end([&] {
    memory_.require_whole();
    sim::require(memory_.index().find("b").has_value(), "a live name was lost");
  });
  run("a late remover", scenario, 0);
}

// Found while it was still called claimed: in the chain it is everybody's.
TEST_F(NameIndexSim, ANameIsRemovedWhileItsInserterSaysThatItIsLive) {
  sim::Scenario scenario;
  memory_.name_words(scenario);
  scenario.on_start([&] { memory_.reset(); });
  scenario.task("insert", [&] { memory_.insert("a", 1); });
  scenario.task("remove", [&] {
    if (const auto found = memory_.index().find("a")) memory_.remove(*found, 2);
  });
  scenario.at_end([&] { memory_.require_whole(); });
  run("removed while it becomes live", scenario, 0);
}

// Its inserter died before it could say that it is live, and it is being removed while somebody stands on it.
TEST_F(NameIndexSim, AClaimIsRecoveredWhileItsNameIsRemovedUnderAReader) {
  const auto names = memory_.colliding(3);
  sim::Scenario scenario;
  memory_.name_words(scenario);
  Found middle;
  scenario.on_start([&] {
    memory_.reset();
    memory_.insert(names[0], 3);
    middle = memory_.insert(names[1], 3).found;
    memory_.insert(names[2], 3);
    memory_.view().directory(middle.record).raw = pack(RecordId{RecordState::claimed, 1, middle.generation});
    memory_.view().slot(1).claiming.raw = middle.record + 1U;
    memory_.mark_dead(1);
  });
  scenario.task("look", [&] { sim::require(memory_.index().find(names[0]).has_value(), "a live name was not found"); });
  scenario.task("recover and reuse", [&] {
    memory_.index().recover_claim(1);
    memory_.insert("b", 3);
  });
  scenario.task("remove", [&] { memory_.remove(middle, 2); });
  scenario.at_end([&] { memory_.require_whole(); });
  run("recovered and removed under a reader", scenario, 0, 3);
}

// Who finishes a robbery falls asleep, and the record is another name's when it wakes.
TEST_F(NameIndexSim, ALateFinisherTellsTheNextNameNothing) {
  Memory memory(1);
  sim::Scenario scenario;
  memory.name_words(scenario);
  Found old;
  sim::Plain<std::uint64_t> token;
  const auto ops = [&](Found found) { return ControlOps<SimPolicy>(memory.view(), found.record, found.generation); };
  scenario.on_start([&] {
    memory.reset();
    token = 0;
    old = memory.insert("a", 3).found;
    memory.view().entry(0).weight.raw = 1;
    sim::require(ops(old).try_acquire(0, 1, 0).step == Step::acquired, "the start went wrong");
    ops(old).finish_now();
  });
  scenario.task("rob", [&] { ops(old).reclaim(0, [](const Entry&) { return Loss::forced; }); });
  scenario.task("others", [&] {
    ops(old).finish_now();
    if (memory.remove(old, 1) != Removal::removed) return;
    const Found next = memory.insert("b", 1).found;
    token = ops(next).try_acquire(1, 1, 0).seq;
  });
  scenario.at_end([&] {
    const Handoff previous = unpack_handoff(memory.view().record(0).previous.raw);
    sim::require(token == 0 || previous.loss == Loss::none, "the next name's first holder hears of a robbery");
  });
  run("told of another name", scenario, 0, 2);
}

// The same with a capacity.
TEST_F(NameIndexSim, ALateResizeChangesNoLaterLife) {
  Memory memory(1);
  sim::Scenario scenario;
  memory.name_words(scenario);
  Found old;
  sim::Plain<bool> renewed;
  const auto ops = [&](Found found) { return ControlOps<SimPolicy>(memory.view(), found.record, found.generation); };
  scenario.on_start([&] {
    memory.reset();
    renewed = false;
    old = memory.insert("a", 3).found;
  });
  scenario.task("resize", [&] { ops(old).resize(2); });
  scenario.task("others", [&] {
    ops(old).finish_now();
    if (memory.remove(old, 1) != Removal::removed) return;
    memory.insert("b", 1);
    renewed = true;
  });
  scenario.at_end([&] {
    const std::uint32_t capacity = unpack_amount(memory.view().record(0).capacity.raw).amount;
    sim::require(!renewed || capacity == 1, "the next name has the capacity of the last");
  });
  run("capacity of another name", scenario, 0, 2);
}

// The news of a robbery is lost with its name only when there is nothing else to give up.
TEST_F(NameIndexSim, ANameThatGetsNewsMeanwhileIsNotRecycled) {
  Memory memory(2);
  sim::Scenario scenario;
  memory.name_words(scenario);
  Found one;
  sim::Plain<bool> robbed;
  scenario.on_start([&] {
    memory.reset();
    robbed = false;
    one = memory.insert("a", 3).found;
    memory.insert("b", 3);
    memory.view().header().record_hint.raw = 0;
    memory.view().entry(0).weight.raw = 1;
  });
  scenario.task("recycle", [&] { recycle_names<SimPolicy>(memory.view(), 2); });
  scenario.task("rob", [&] {
    const ControlOps<SimPolicy> ops(memory.view(), one.record, one.generation);
    if (ops.try_acquire(0, 1, 0).step != Step::acquired) return;
    robbed = ops.reclaim(0, [](const Entry&) { return Loss::forced; }).step == Step::reclaimed;
  });
  scenario.at_end([&] { sim::require(!robbed || memory.index().is_current(one), "the news was given up"); });
  run("news meanwhile", scenario, 0);
}

// One record, two names: who acquires on a handle to the first, while somebody needs the record for the second.
TEST_F(NameIndexSim, ANameIsRecycledOrAcquiredAndNeverBoth) {
  Memory memory(1);
  sim::Scenario scenario;
  memory.name_words(scenario);
  Found old;
  sim::Plain<int> first;
  sim::Plain<int> second;
  sim::Plain<std::uint64_t> token;
  const auto take = [&](Found found, EntryIndex entry) {
    return ControlOps<SimPolicy>(memory.view(), found.record, found.generation).try_acquire(entry, 1, 0);
  };
  scenario.on_start([&] {
    memory.reset();
    old = memory.insert("a", 3).found;
    first = 0;
    second = 0;
    token = 0;
  });
  const sim::TaskIndex holder = scenario.mortal("acquire", [&] {
    const Result r = take(old, 0);
    sim::require(r.step == Step::acquired || r.step == Step::closed, "an idle lock is neither free nor gone");
    if (r.step == Step::acquired) first = 1;
    if (r.step == Step::acquired) token = r.seq;
  });
  const sim::TaskIndex newcomer = scenario.mortal("recycle", [&] {
    if (!recycle_names<SimPolicy>(memory.view(), 2)) return;
    const Result r = take(memory.insert("b", 2).found, 1);
    sim::require(r.step == Step::acquired, "nobody else can have the new lock");
    sim::require(r.seq > token, "a token of the record's next name is not above the last one's");
    second = 1;
  });
  scenario.at_end([&] {
    for (const auto& [task, slot] : {std::pair{holder, SlotIndex{1}}, std::pair{newcomer, SlotIndex{2}}}) {
      if (!sim::is_dead(task)) continue;
      memory.mark_dead(slot);
      memory.index().recover_claim(slot);
    }
    const auto names = memory.require_whole();
    sim::require(first + second <= 1, "both acquired on one record");
    const bool current = memory.index().is_current(old);
    sim::require(first == 0 || current, "a held lock was recycled");
    if (sim::is_finished(holder) && first == 0) sim::require(!current, "told that it is closed, and it is not");
    if (sim::is_finished(newcomer) && sim::is_finished(holder)) {
      sim::require(first + second == 1 && names.size() == 1, "nobody got it");
    }
  });
  run("recycled under a handle", scenario, 0, 3);
  run("recycled under a handle, one death", scenario, 1);
}

}  // namespace
}  // namespace shmcoord::engine
