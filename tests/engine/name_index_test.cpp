#include "engine/name_index.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/control.hpp"
#include "engine/recycling.hpp"
#include "engine/segment_file.hpp"
#include "support/long_form.hpp"

// The index on real atomics: many names, races of threads and of processes, kills, garbage. Every interleaving of a few
// operations, with a death at each, is in name_index_sim_test.cpp.

namespace shmcoord::engine {
namespace {

using Index = NameIndex<RealPolicy>;
constexpr NameConfigNs config;

class NameIndexTest : public testing::Test {
 protected:
  void SetUp() override { make({256, 64, 16}); }
  void TearDown() override { Mapping::remove(path_); }

  void make(const Sizes& sizes) {
    path_ = "/dev/shm/shmcoord-test-names-" + std::to_string(::getpid());
    mapping_ = Mapping::open_or_create(path_, {.sizes = sizes, .mode = 0600, .group = std::nullopt});
    for (SlotIndex s = 0; s < 16; ++s) mapping_->ensure_slot(s);
    mapping_->ensure(view().geo.entries, entries_per_chunk * sizeof(Entry));
    mapping_->ensure(view().geo.chunks, sizeof(Word64));
    for (EntryIndex i = 0; i < entries_per_chunk; ++i) RealPolicy::store(view().entry(i).weight, 1);
  }
  void remake(const Sizes& sizes) {
    Mapping::remove(path_);
    make(sizes);
  }

  [[nodiscard]] const View& view() const { return mapping_->view(); }
  Index index() { return Index(view(), mapping_.get()); }
  Found insert(const std::string& name, SlotIndex slot = 1) {
    return index().find_or_insert(name, Kind::lock, 1, config, slot).found;
  }
  Found insert_recycling(const std::string& name, SlotIndex slot = 1) {
    return index()
        .find_or_insert(name, Kind::lock, 1, config, slot, [&] { return recycle_names<RealPolicy>(view(), slot); })
        .found;
  }
  Removal remove(Found found, SlotIndex slot = 1) {
    const ControlOps<RealPolicy> ops(view(), found.record, found.generation);
    return index().remove(found, slot, [&] { return index().is_current(found) && ops.close(); });
  }
  [[nodiscard]] std::uint64_t sequence(Found found) const {
    return RealPolicy::load_seq(view().record(found.record).control);
  }
  void bury(SlotIndex slot) {
    RealPolicy::store(view().slot(slot).id, pack(SlotId{SlotState::dying, 1}));
    index().recover_claim(slot);
    index().recover_claim(slot);
    RealPolicy::store(view().slot(slot).id, pack(SlotId{SlotState::alive, 1}));
    RealPolicy::store(view().slot(slot).claiming, 0);
  }

  /// Every record is free or live; each live one hangs in the chain of its name, once; no two have one name.
  void check_invariants() {
    std::map<std::string, int> names;
    std::size_t live = 0;
    for (RecordIndex r = 0; r < view().geo.sizes.names && r < view().header().record_high.raw; ++r) {
      const RecordId id = unpack_record(view().directory(r).raw);
      EXPECT_TRUE(id.state == RecordState::free || id.state == RecordState::live) << "record " << r;
      EXPECT_EQ(view().record(r).generation.raw, id.state == RecordState::live ? id.generation : 0) << "record " << r;
      if (id.state != RecordState::live) continue;
      ++live;
      const std::string name = index().name_of({r, id.generation});
      ++names[name];
      EXPECT_EQ(index().find(name), (Found{r, id.generation})) << name;
    }
    std::size_t linked = 0;
    for (std::uint32_t b = 0; b < view().geo.bucket_count; ++b) {
      for (std::uint32_t next = unpack_bucket(view().bucket(b).raw).head; next != 0; ++linked) {
        const Chain chain = unpack_chain(view().record(next - 1).chain.raw);
        EXPECT_FALSE(chain.marked);
        next = chain.next;
      }
    }
    EXPECT_EQ(linked, live);
    for (const auto& [name, times] : names) EXPECT_EQ(times, 1) << name;
  }

  std::string path_;
  std::shared_ptr<Mapping> mapping_;
};

TEST_F(NameIndexTest, FindsWhatWasInsertedAndNothingElse) {
  EXPECT_EQ(index().find("deploy"), std::nullopt);
  const Index::Inserted first = index().find_or_insert("deploy", Kind::semaphore, 8, {1, 2, 3, 4}, 1);
  EXPECT_TRUE(first.inserted);
  EXPECT_EQ(index().find("deploy"), first.found);
  EXPECT_EQ(index().find("deplo"), std::nullopt);
  EXPECT_EQ(index().find("deploy2"), std::nullopt);
  const Index::Inserted again = index().find_or_insert("deploy", Kind::lock, 1, config, 2);
  EXPECT_FALSE(again.inserted);
  EXPECT_EQ(again.found, first.found);
  const Record& record = view().record(first.found.record);
  EXPECT_EQ(record.kind.raw, static_cast<std::uint32_t>(Kind::semaphore));
  EXPECT_EQ(unpack_amount(record.capacity.raw).amount, 8U);
  EXPECT_EQ(record.stale_threshold_ns.raw, 1U);
  EXPECT_EQ(record.default_ttl_ns.raw, 2U);
  EXPECT_EQ(record.max_hold_ns.raw, 3U);
  EXPECT_EQ(record.heartbeat_interval_ns.raw, 4U);
  EXPECT_EQ(RealPolicy::load(record.control),
            (core::Control{view().header().token_floor.raw + 1, 0, nil_entry, nil_entry, core::Op::none}));
  EXPECT_EQ(view().slot(1).claiming.raw, 0U);
  check_invariants();
}

TEST_F(NameIndexTest, HoldsManyNamesOfEveryLength) {
  remake({5000, 64, 16});
  std::vector<std::string> names;
  for (std::size_t i = 0; i < 5000; ++i) {
    std::string name = "name-" + std::to_string(i) + "-";
    if (i % 7 == 0) name.resize(5 + i % 251, 'x');
    if (i % 7 == 0) name += std::to_string(i);
    names.push_back(name.substr(0, 255));
  }
  names[0] = std::string(inline_name_bytes, 'a');
  names[1] = std::string(89, 'a');
  names[2] = std::string(255, 'a');
  std::vector<Found> found;
  found.reserve(names.size());
  for (const std::string& name : names) found.push_back(insert(name));
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(index().find(names[i]), found[i]) << names[i];
    ASSERT_EQ(index().name_of(found[i]), names[i]);
  }
  std::set<std::string> seen;
  index().for_each_live([&](Found, std::string_view name, const Record&) { seen.insert(std::string(name)); });
  EXPECT_EQ(seen, std::set<std::string>(names.begin(), names.end()));
  try {
    insert("one too many");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::table_full);
    EXPECT_NE(std::string(e.what()).find("5000"), std::string::npos);
  }
  EXPECT_EQ(remove(found[17]), Removal::removed);
  EXPECT_NO_THROW(insert("one too many"));
  check_invariants();
}

TEST_F(NameIndexTest, RemovalIsRefusedWhileHeldAndLeavesNothing) {
  const Found found = insert("deploy");
  const Found neighbour = insert("neighbour");
  Record& record = view().record(found.record);
  const core::Control idle = RealPolicy::load(record.control);
  ASSERT_TRUE(
      RealPolicy::cas(record.control, idle, core::Control{idle.seq + 1, 1, nil_entry, nil_entry, core::Op::none}));
  EXPECT_EQ(remove(found), Removal::in_use);
  EXPECT_EQ(index().find("deploy"), found);
  ASSERT_TRUE(RealPolicy::cas(record.control, RealPolicy::load(record.control),
                              core::Control{idle.seq + 2, 0, nil_entry, nil_entry, core::Op::none}));
  EXPECT_EQ(remove(found), Removal::removed);
  EXPECT_EQ(index().find("deploy"), std::nullopt);
  EXPECT_EQ(index().name_of(found), "");
  EXPECT_EQ(remove(found), Removal::gone);
  EXPECT_EQ(index().find("neighbour"), neighbour);
  EXPECT_EQ(view().header().token_floor.raw, idle.seq + 3);
  check_invariants();
}

TEST_F(NameIndexTest, NamesThatComeAndGoNeverFillASegmentAndTokensGrow) {
  remake({4, 64, 16});
  const Found other = insert("other");
  std::uint64_t last = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Found found = insert("job-" + std::to_string(i % 3));
    const std::uint64_t born = sequence(found);
    ASSERT_GT(born, last);
    const core::Control c = RealPolicy::load(view().record(found.record).control);
    ASSERT_TRUE(RealPolicy::cas(
        view().record(found.record).control, c,
        core::Control{c.seq + static_cast<std::uint64_t>(i % 5), 0, nil_entry, nil_entry, core::Op::none}));
    ASSERT_EQ(remove(found), Removal::removed);
    last = born + static_cast<std::uint64_t>(i % 5);
  }
  EXPECT_EQ(index().find("other"), other);
  EXPECT_LE(view().header().record_high.raw, 2U) << "one record is used again and again";
  check_invariants();
}

TEST_F(NameIndexTest, OfManyThreadsThatInsertOneNameOneDoes) {
  constexpr SlotIndex threads = 8;
  constexpr int names = 200;
  std::vector<std::vector<Index::Inserted>> results(threads);
  std::vector<std::thread> running;
  for (SlotIndex t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      for (int i = 0; i < names; ++i) {
        results[t].push_back(index().find_or_insert("n" + std::to_string(i), Kind::lock, 1, config, t + 1));
      }
    });
  }
  for (std::thread& t : running) t.join();
  for (std::size_t i = 0; i < names; ++i) {
    int inserted = 0;
    for (SlotIndex t = 0; t < threads; ++t) {
      inserted += results[t][i].inserted ? 1 : 0;
      EXPECT_EQ(results[t][i].found, results[0][i].found);
    }
    EXPECT_EQ(inserted, 1);
  }
  check_invariants();
}

TEST_F(NameIndexTest, ThreadsThatInsertAndRemoveLeaveAWholeIndexAndLoseNobody) {
  remake({8, 64, 16});
  const Found stays = insert("stays");
  constexpr SlotIndex threads = 4;
  std::vector<std::thread> running;
  for (SlotIndex t = 1; t <= threads; ++t) {
    running.emplace_back([&, t] {
      std::minstd_rand random(t);
      for (int i = 0; i < 5000; ++i) {
        const std::string name = "n" + std::to_string(random() % 3);
        try {
          const Found found = insert(name, t);
          if (index().find("stays") != stays) ADD_FAILURE() << "a live name was not found";
          remove(found, t);
        } catch (const Error& e) {
          EXPECT_EQ(e.errc(), Errc::table_full);
        }
      }
    });
  }
  for (std::thread& t : running) t.join();
  for (const char* name : {"n0", "n1", "n2"}) {
    if (const auto found = index().find(name)) {
      EXPECT_EQ(remove(*found), Removal::removed);
    }
  }
  check_invariants();
}

TEST_F(NameIndexTest, ProcessesKilledAnywhereLeaveAWholeIndex) {
  const Found stays = insert("stays");
  std::minstd_rand random(42);
  constexpr SlotIndex processes = 3;
  const int rounds = test::long_form() ? 2000 : 100;
  std::uint64_t floor = 0;
  for (int round = 0; round < rounds; ++round) {
    pid_t children[processes + 1];
    for (SlotIndex slot = 1; slot <= processes; ++slot) {
      RealPolicy::store(view().slot(slot).id, pack(SlotId{SlotState::alive, 1}));
      children[slot] = ::fork();
      if (children[slot] == 0) {
        std::minstd_rand mine(static_cast<unsigned>(round) * 16 + slot);
        for (;;) remove(insert("n" + std::to_string(mine() % 4), slot), slot);
      }
    }
    const auto pause = std::chrono::microseconds(random() % 3000);
    for (const auto end = std::chrono::steady_clock::now() + pause; std::chrono::steady_clock::now() < end;)
      ::sched_yield();
    for (SlotIndex slot = 1; slot <= processes; ++slot) ::kill(children[slot], SIGKILL);
    for (SlotIndex slot = 1; slot <= processes; ++slot) ::waitpid(children[slot], nullptr, 0);
    for (SlotIndex slot = 1; slot <= processes; ++slot) bury(slot);
    check_invariants();
    ASSERT_EQ(index().find("stays"), stays);
    ASSERT_GE(view().header().token_floor.raw, floor);
    floor = view().header().token_floor.raw;
    for (RecordIndex r = 0; r < view().header().record_high.raw; ++r) {
      if (view().record(r).generation.raw != 0 && r != stays.record) {
        EXPECT_GT(RealPolicy::load_seq(view().record(r).control), 0U);
      }
    }
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

TEST_F(NameIndexTest, GarbageEndsInAnErrorAndNeverInAWildAccess) {
  std::minstd_rand random(7);
  for (int i = 0; i < 30; ++i) insert("n" + std::to_string(i) + std::string(static_cast<std::size_t>(i) * 8, 'x'));
  int damaged = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto garble = [&](void* at, std::size_t bytes) {
      auto* const p = static_cast<unsigned char*>(at);
      for (int k = 0; k < 8; ++k) p[random() % bytes] = static_cast<unsigned char>(random());
    };
    std::vector<char> records(30 * sizeof(Record));
    std::memcpy(records.data(), &view().record(0), records.size());
    const std::uint64_t bucket = view().bucket(static_cast<std::uint32_t>(round) % 256).raw;
    garble(&view().record(0), records.size());
    garble(&view().bucket(static_cast<std::uint32_t>(round) % 256), 8);
    garble(&view().header().record_high, 16);
    index().for_each_live([&](Found, std::string_view name, const Record&) { EXPECT_LE(name.size(), 255U); });
    for (int i = 0; i < 30; ++i) {
      try {
        (void)index().find("n" + std::to_string(i));
      } catch (const Error& e) {
        EXPECT_EQ(e.errc(), Errc::segment_corrupt);
        ++damaged;
      }
    }
    std::memcpy(&view().record(0), records.data(), records.size());
    view().bucket(static_cast<std::uint32_t>(round) % 256).raw = bucket;
  }
  EXPECT_GT(damaged, 0);
}

// --- recycling -------------------------------------------------------------------------------------------------------

TEST_F(NameIndexTest, MillionsOfNamesGoThroughATableOfAFew) {
  remake({100, 64, 16});
  const int names = test::long_form() ? 10'000'000 : 200'000;
  const std::uint64_t floor = view().header().token_floor.raw;
  for (int i = 0; i < names; ++i) {
    const Found found = insert_recycling("job-" + std::to_string(i));
    const ControlOps<RealPolicy> ops(view(), found.record, found.generation);
    const Result got = ops.try_acquire(0, 1, 0);
    ASSERT_EQ(got.step, Step::acquired);
    // Of one record, so of whatever name it had before.
    ASSERT_GT(got.seq, view().header().token_floor.raw);
    ASSERT_EQ(ops.release(0, got.seq).step, Step::released);
    ops.finish_now();
  }
  EXPECT_GT(view().header().token_floor.raw, floor);
  EXPECT_EQ(view().header().record_high.raw, 100U);
  check_invariants();
}

TEST_F(NameIndexTest, AHeldOrAwaitedNameIsNeverRecycled) {
  remake({8, 64, 16});
  const Found held = insert("held");
  const ControlOps<RealPolicy> ops(view(), held.record, held.generation);
  const Result got = ops.try_acquire(0, 1, 0);
  ASSERT_EQ(got.step, Step::acquired);
  const Found awaited = insert("awaited");
  const ControlOps<RealPolicy> other(view(), awaited.record, awaited.generation);
  ASSERT_EQ(other.try_acquire(1, 1, 0).step, Step::acquired);
  ASSERT_EQ(other.acquire_or_queue(2, 1, 0).step, Step::queued);
  for (int i = 0; i < 1000; ++i) insert_recycling("n" + std::to_string(i));
  EXPECT_EQ(index().find("held"), held);
  EXPECT_EQ(index().find("awaited"), awaited);
  EXPECT_TRUE(ops.holds(0, got.seq));
  check_invariants();
}

TEST_F(NameIndexTest, WithEveryNameHeldTheTableIsFull) {
  remake({4, 64, 16});
  for (EntryIndex i = 0; i < 4; ++i) {
    const Found found = insert("held-" + std::to_string(i));
    ASSERT_EQ(ControlOps<RealPolicy>(view(), found.record, found.generation).try_acquire(i, 1, 0).step, Step::acquired);
  }
  try {
    insert_recycling("one too many");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::table_full);
  }
  check_invariants();
}

TEST_F(NameIndexTest, WhatLosesNothingIsRecycledFirstAndNewsLast) {
  remake({3, 64, 16});
  const Found news = insert("news");
  const ControlOps<RealPolicy> ops(view(), news.record, news.generation);
  ASSERT_EQ(ops.try_acquire(0, 1, 0).step, Step::acquired);
  ASSERT_EQ(ops.reclaim(0, [](const Entry&) { return Loss::died; }).step, Step::reclaimed);
  const Found configured = index().find_or_insert("configured", Kind::lock, 1, {.ttl_ns = 5}, 1).found;
  const Found semaphore = index().find_or_insert("semaphore", Kind::semaphore, 8, config, 1).found;
  insert_recycling("a");
  EXPECT_FALSE(index().find("configured")) << "there was nothing else";
  EXPECT_EQ(index().find("news"), news);
  EXPECT_TRUE(recycle_names<RealPolicy>(view(), 1));
  EXPECT_FALSE(index().find("a"));
  EXPECT_EQ(index().find("news"), news) << "kept while there is a name that loses nothing";
  EXPECT_NE(insert_recycling("b"), configured);
  insert_recycling("c");
  EXPECT_FALSE(index().find("b"));
  const Found held = *index().find("c");
  ASSERT_EQ(ControlOps<RealPolicy>(view(), held.record, held.generation).try_acquire(1, 1, 0).step, Step::acquired);
  insert_recycling("d");
  EXPECT_FALSE(index().find("news")) << "in the end they go, too";
  EXPECT_EQ(index().find("semaphore"), semaphore) << "a semaphore is its capacity";
  check_invariants();
}

TEST_F(NameIndexTest, RecyclersKilledAnywhereLeaveAWholeIndex) {
  remake({16, 64, 16});
  const Found held = insert("held");
  ASSERT_EQ(ControlOps<RealPolicy>(view(), held.record, held.generation).try_acquire(0, 1, 0).step, Step::acquired);
  std::minstd_rand random(43);
  constexpr SlotIndex processes = 3;
  const int rounds = test::long_form() ? 2000 : 100;
  for (int round = 0; round < rounds; ++round) {
    pid_t children[processes + 1];
    for (SlotIndex slot = 1; slot <= processes; ++slot) {
      RealPolicy::store(view().slot(slot).id, pack(SlotId{SlotState::alive, 1}));
      children[slot] = ::fork();
      if (children[slot] == 0) {
        std::minstd_rand mine(static_cast<unsigned>(round) * 16 + slot);
        try {
          for (;;) insert_recycling("n" + std::to_string(mine() % 50), slot);
        } catch (...) {
          ::_exit(1);
        }
      }
    }
    const auto pause = std::chrono::microseconds(random() % 3000);
    for (const auto end = std::chrono::steady_clock::now() + pause; std::chrono::steady_clock::now() < end;)
      ::sched_yield();
    for (SlotIndex slot = 1; slot <= processes; ++slot) ::kill(children[slot], SIGKILL);
    for (SlotIndex slot = 1; slot <= processes; ++slot) {
      int status = 0;
      ::waitpid(children[slot], &status, 0);
      EXPECT_TRUE(WIFSIGNALED(status)) << "for one there is always room";
      bury(slot);
    }
    check_invariants();
    ASSERT_EQ(index().find("held"), held);
    if (HasFailure()) FAIL() << "in round " << round;
  }
}

}  // namespace
}  // namespace shmcoord::engine
