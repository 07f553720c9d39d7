#include "process/segment_check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/name_index.hpp"
#include "process/event_stream.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "process/recovery.hpp"
#include "support/process_child.hpp"

namespace shmcoord::process {
namespace {

using engine::RealPolicy;
using test::Child;
using test::OwnSegment;
using Names = engine::NameIndex<RealPolicy>;

Request request_of(std::string_view holder) {
  Request request;
  request.holder = holder;
  return request;
}

CheckReport check(const OwnSegment& segment) { return check_segment(*segment.mapping(), RealPolicy::now_ns()); }

std::string text_of(const CheckReport& report) {
  std::string text;
  for (const Finding& f : report.findings)
    text += std::string(to_string(f.kind)) + " " + f.where + ": " + f.what + "\n";
  return text;
}

/// Takes, gives back and now and then removes two names, until it is killed.
int move(const OwnSegment& segment, int number, const Child::Line& line) {
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  const std::string holder = "mover" + std::to_string(number);
  line.ready(1);
  for (int round = 0;; ++round) {
    const std::string name = "busy" + std::to_string(round % 2);
    try {
      PrimitiveClient lock(me, name, {});
      if (!lock.acquire(request_of(holder), no_deadline)) return 1;
      lock.release(holder);
      if (round % 3 == 0) PrimitiveClient::remove(*me, name, false);
    } catch (const Error&) {  // in use, or removed under us
    }
  }
}

TEST(SegmentCheck, ANewSegmentIsSound) {
  const OwnSegment segment;
  EXPECT_EQ(text_of(check(segment)), "");
}

TEST(SegmentCheck, HoldersWaitersAndTheDeadAreSound) {
  const OwnSegment segment;
  Child holder([&](const Child::Line& line) {
    PrimitiveClient lock(Participant::join(segment.mapping()), "deploy", {});
    if (!lock.acquire(request_of("holder"), try_once)) return 1;
    line.ready(1);
    line.await_go();
    return 0;
  });
  ASSERT_EQ(holder.wait_ready(), 1);
  Child waiter([&](const Child::Line& line) {
    const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
    PrimitiveClient lock(me, "deploy", {});
    static_cast<void>(lock.wait_fd(request_of("waiter")));
    line.ready(1);
    line.await_go();
    return 0;
  });
  ASSERT_EQ(waiter.wait_ready(), 1);
  const CheckReport busy = check(segment);
  EXPECT_EQ(text_of(busy), "");
  EXPECT_EQ(busy.names, 1U);
  EXPECT_EQ(busy.sessions, 2U);
  // With nobody left to notice it.
  waiter.kill(SIGKILL);
  holder.kill(SIGKILL);
  waiter.wait();
  holder.wait();
  const CheckReport dead = check(segment);
  EXPECT_FALSE(dead.damaged()) << text_of(dead);
  EXPECT_NE(text_of(dead).find("pending session slot"), std::string::npos) << text_of(dead);
  sweep(*segment.mapping(), RealPolicy::now_ns());
  EXPECT_EQ(text_of(check(segment)), "");
}

/// Without a journal, and with one that is overwritten all the time.
class SegmentInUse : public testing::TestWithParam<std::uint32_t> {
 protected:
  OwnSegment segment_{{.names = 64, .entries = 512, .sessions = 64, .journal = engine::least_journal}, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Journal, SegmentInUse, testing::Values(0U, std::uint32_t{engine::journal_always}),
                         [](const auto& flags) { return flags.param == 0 ? "Off" : "Always"; });

TEST_P(SegmentInUse, TrafficIsNoDamage) {
  const OwnSegment& segment = segment_;
  std::vector<Child> movers;
  for (int n = 0; n < 3; ++n) {
    movers.emplace_back([&, n](const Child::Line& line) { return move(segment, n, line); });
  }
  for (const Child& m : movers) ASSERT_EQ(m.wait_ready(), 1);
  for (int n = 0; n < 50; ++n) {
    const CheckReport report = check(segment);
    // What a mover has begun may be pending at all looks, if it does not run meanwhile.
    ASSERT_FALSE(report.damaged()) << text_of(report);
  }
}

TEST_P(SegmentInUse, KillsAtAnyMomentLeaveNoDamage) {
  const OwnSegment& segment = segment_;
  std::minstd_rand random(20'261'128);
  for (int round = 0; round < 60; ++round) {
    std::vector<Child> children;
    for (int n = 0; n < 3; ++n) {
      children.emplace_back([&, n](const Child::Line& line) { return move(segment, n, line); });
    }
    for (const Child& c : children) ASSERT_EQ(c.wait_ready(), 1);
    ::usleep(static_cast<useconds_t>(random() % 3000));
    for (Child& c : children) c.kill(SIGKILL);
    for (Child& c : children) c.wait();
    const CheckReport before = check(segment);
    ASSERT_FALSE(before.damaged()) << "round " << round << "\n" << text_of(before);
    sweep(*segment.mapping(), RealPolicy::now_ns());
    const CheckReport after = check(segment);
    ASSERT_EQ(text_of(after), "") << "round " << round;
  }
}

// --- each invariant, broken by hand --------------------------------------------------------------------------------

/// One lock held, one waited for, by a session of this process; what the tests then overwrite.
class Damage : public testing::Test {
 protected:
  Damage()
      : me_(Participant::join(segment_.mapping())), events_(me_), lock_(me_, "deploy", {}), other_(me_, "other", {}) {
    EXPECT_TRUE(lock_.acquire(request_of("holder"), try_once));
    EXPECT_TRUE(other_.acquire(request_of("holder"), try_once));
    (void)other_.release("holder");
    fds_.push_back(lock_.wait_fd(request_of("first")));
    fds_.push_back(lock_.wait_fd(request_of("second")));
    const auto held = me_->mapping().view().record(lock_.ops().index()).control;
    EXPECT_EQ(RealPolicy::load(held).used, whole_lock);
    for (std::size_t n = 0; n < words(); ++n) saved_.push_back(RealPolicy::load(word(n)));
  }
  ~Damage() override { restore(); }

  [[nodiscard]] const engine::View& view() const { return segment_.view(); }
  // Word by word, since the keeper goes on meanwhile.
  [[nodiscard]] std::size_t words() const { return view().geo.total / sizeof(engine::Word64); }
  [[nodiscard]] engine::Word64& word(std::size_t n) const { return reinterpret_cast<engine::Word64*>(view().base)[n]; }
  void restore() {
    for (std::size_t n = 0; n < words(); ++n) {
      if (RealPolicy::load(word(n)) != saved_[n]) RealPolicy::store(word(n), saved_[n]);
    }
  }
  [[nodiscard]] engine::RecordIndex record() const { return lock_.ops().index(); }
  [[nodiscard]] engine::EntryIndex holder() const {
    return engine::unpack_link(RealPolicy::load(view().record(record()).holder)).entry;
  }
  [[nodiscard]] engine::EntryIndex tail() const { return RealPolicy::load(view().record(record()).control).tail; }
  static void set(engine::Word64& word, std::uint64_t value) { RealPolicy::store(word, value); }
  static void set(engine::Word32& word, std::uint32_t value) { RealPolicy::store(word, value); }
  void change_control(const std::function<void(core::Control&)>& change) {
    engine::Word128& word = view().record(record()).control;
    const core::Control before = RealPolicy::load(word);
    core::Control after = before;
    change(after);
    ASSERT_TRUE(RealPolicy::cas(word, before, after));
  }
  void set_status(engine::EntryIndex i, const std::function<void(engine::Status&)>& change) {
    engine::Status status = engine::unpack_status(RealPolicy::load(view().entry(i).status));
    change(status);
    set(view().entry(i).status, engine::pack(status));
  }

  /// The damage is found, and named with that text.
  void expect(const std::string& text) {
    const CheckReport report = check(segment_);
    EXPECT_TRUE(report.damaged());
    EXPECT_NE(text_of(report).find("damage " + text), std::string::npos) << text << "\n got:\n" << text_of(report);
    restore();
    ASSERT_EQ(text_of(check(segment_)), "") << "after " << text;
  }

  OwnSegment segment_{{.names = 64, .entries = 64, .sessions = 8, .journal = engine::least_journal}};
  std::shared_ptr<Participant> me_;
  EventStream events_;
  PrimitiveClient lock_;
  PrimitiveClient other_;
  std::vector<int> fds_;
  std::vector<std::uint64_t> saved_;
};

TEST_F(Damage, OfTheHeader) {
  for (const auto& [word, name] : {std::pair{&engine::Header::slot_high, "slot_high"},
                                   {&engine::Header::record_high, "record_high"},
                                   {&engine::Header::chunk_high, "chunk_high"},
                                   {&engine::Header::token_floor, "token_floor"}}) {
    set(view().header().*word, core::seq_limit + 1);
    expect(std::string("header: ") + name + " is");
  }
}

TEST_F(Damage, OfTheJournal) {
  const engine::View& v = view();
  EXPECT_GT(check(segment_).journal_records, 0U);
  const auto half = [&](std::uint64_t position, unsigned which) -> engine::Word64& {
    return word(v.geo.journal / sizeof(engine::Word64) + 2 * position + which);
  };
  set(v.header().journal, RealPolicy::load(v.header().journal) ^ 3U);
  expect("header: the journal's switch");
  engine::Word64& journaled = v.record(record()).journaled;
  set(journaled, RealPolicy::load_seq(v.record(record()).control) + 1);
  expect("lock 'deploy': changes were journaled that have not happened yet");

  // The first word of each record: {stamp, low half of its number | high half, words, what it tells, source, flags}.
  std::vector<std::uint64_t> begins;
  auto reader = engine::JournalReader<RealPolicy>::only_looking(v);
  engine::JournalRecord r;
  std::uint64_t lost = 0;
  for (std::uint64_t at = reader.position(); reader.next(r, lost) == engine::JournalRead::record;
       at = reader.position()) {
    begins.push_back(at);
  }
  ASSERT_GE(begins.size(), 2U);
  const std::uint64_t first = begins[0];
  const std::uint64_t last = begins.back();
  EXPECT_EQ(first, 0U);

  set(half(last, 0), RealPolicy::load(half(last, 0)) + (7ULL << 32U));
  expect("journal record " + std::to_string(begins.size() + 7) + ": follows on record " +
         std::to_string(begins.size() - 1));
  set(half(last, 0), RealPolicy::load(half(last, 0)) & ~1ULL);  // no beginning any more
  expect("journal word " + std::to_string(last) + ": no record");
  set(half(last, 1), RealPolicy::load(half(last, 1)) | 0xffff0000ULL);  // longer than can be
  expect("journal word " + std::to_string(last) + ": no record");
  set(half(last, 1), RealPolicy::load(half(last, 1)) | 0xff00000000ULL);
  expect("journal record " + std::to_string(begins.size()) + ": tells of nothing");
  set(half(begins[1], 0), 0);
  set(half(begins[1], 1), 0);  // a record that nobody wrote, and it is not the last one
  expect("journal word " + std::to_string(begins[1]) + ": no record");

  // The last one: its writer may have been killed, and the next one writes it.
  const std::uint64_t end = RealPolicy::load_seq(v.header().journal_tail);
  set(half(end - 1, 0), 0);
  set(half(end - 1, 1), 0);
  const CheckReport report = check(segment_);
  EXPECT_FALSE(report.damaged()) << text_of(report);
  EXPECT_EQ(text_of(report), "pending journal word " + std::to_string(last) +
                                 ": its last record is not whole; who writes or reads next completes it\n");
}

TEST_F(Damage, OfThePageBitmap) {
  const std::uint64_t last = view().geo.total / engine::page_size - 1;
  RealPolicy::set_bits(view().bitmap_word((last + 1) / 64), 1ULL << ((last + 1) % 64));
  expect("page bitmap: marks pages beyond the end");
  set(view().bitmap_word(0), RealPolicy::load(view().bitmap_word(0)) & ~2ULL);
  expect("page bitmap: does not know the header");
}

TEST_F(Damage, OfSessions) {
  engine::SessionSlot& slot = view().slot(me_->slot());
  const std::string where = "session slot " + std::to_string(me_->slot()) + ": ";
  set(slot.id, RealPolicy::load(slot.id) | 15U);
  expect(where + "has the unknown state 15");
  set(slot.id, engine::pack(engine::SlotId{engine::SlotState::permanent, me_->incarnation()}));
  expect(where + "is permanent; only slot 0");
  set(view().slot(0).id, engine::pack(engine::SlotId{engine::SlotState::free, 1}));
  expect("session slot 0: must be permanent");
  set(slot.watching, 1000);
  expect(where + "watching leads outside");
  set(slot.claiming, 1000);
  expect(where + "claiming leads outside");
  set(slot.helping, 1000);
  expect(where + "helping leads outside");
  set(view().header().slot_high, 1);
  expect(where + "is taken, but not below slot_high");
  slot.session_id = 0;
  expect(where + "lives without a session id");
}

TEST_F(Damage, OfChunks) {
  const std::uint32_t chunk = holder() / engine::entries_per_chunk;
  const std::string where = "chunk " + std::to_string(chunk) + ": ";
  set(view().header().chunk_high, 0);
  expect(where + "is taken, but not below chunk_high");
  set(view().chunk(chunk), engine::pack_owner({5'000, 1}));
  expect(where + "belongs to the session slot 5000, which there is not");
  set(view().chunk(chunk), engine::pack_owner({me_->slot(), me_->incarnation() + 1}));
  expect(where + "was left behind by a session of slot " + std::to_string(me_->slot()));
  set(view().chunk(chunk), 0);
  expect("entry " + std::to_string(holder()) + ": is in use, but its chunk belongs to nobody");
}

TEST_F(Damage, OfEntries) {
  engine::Entry& e = view().entry(holder());
  const std::string where = "entry " + std::to_string(holder()) + ": ";
  set(e.status, RealPolicy::load(e.status) | 7U);
  expect(where + "has the unknown phase 7");
  set_status(holder(), [](engine::Status& s) { s.record = 63; });
  expect(where + "holds or waits for record 63, which is no name");
  set(e.flags, 1U << 20U);
  expect(where + "has unknown flags");
  set(e.weight, 0);
  expect(where + "has no weight");
  e.holder_bytes = 4'000'000;
  expect(where + "its holder id or reason is longer");
  e.text[0] = '\n';
  expect(where + "its holder id contains a control character");
}

TEST_F(Damage, OfNames) {
  engine::Record& r = view().record(record());
  const std::string where = "record " + std::to_string(record()) + ": ";
  const std::uint64_t generation = RealPolicy::load(r.generation);
  const auto bucket = static_cast<std::uint32_t>(RealPolicy::load(r.name_hash) & (view().geo.bucket_count - 1));
  engine::Word64& head = view().bucket(bucket);
  const std::string in_bucket = "name bucket " + std::to_string(bucket) + ": ";
  set(head, engine::pack(engine::Bucket{7, 1'000}));
  expect(in_bucket + "its chain leads to record 999, which there is not");
  set(head, 0);
  expect(where + "is a name that no chain leads to");
  set(r.chain, engine::pack(engine::Chain{generation, false, record() + 1}));
  expect(in_bucket + "its chain leads to record " + std::to_string(record()) + " for the second time");
  set(view().directory(record()), engine::pack(engine::RecordId{engine::RecordState::free, 0, generation}));
  expect(where + "is in a chain, but the directory does not have it");
  set(r.generation, generation + 1);
  expect(where + "is in a chain, but the directory does not have it");
  set(view().directory(record()), RealPolicy::load(view().directory(record())) | 3U);
  expect(where + "has an unknown state");
  set(view().directory(63), engine::pack(engine::RecordId{engine::RecordState::claimed, me_->slot(), 1}));
  expect("record 63: is claimed by a session that does not know of it");
  set(view().header().record_high, 0);
  expect(where + "is taken, but not below record_high");
  set(r.name_bytes, 0);
  expect(where + "has no readable name");
  r.name[0] = '\x01';
  expect(where + "its name contains a control character");
  r.name[0] = 'D';
  expect("lock 'Deploy': is not in the chain where it would be looked for");
  engine::Record& other = view().record(other_.ops().index());
  other.name = r.name;
  set(other.name_bytes, RealPolicy::load(r.name_bytes));
  expect("lock 'deploy': is not in the chain where it would be looked for");
  // Both in one chain: r leads on to other, which has r's name.
  other.name = r.name;
  set(other.name_bytes, RealPolicy::load(r.name_bytes));
  set(other.name_hash, RealPolicy::load(r.name_hash));
  const auto others = static_cast<std::uint32_t>(other_.ops().index());
  for (std::uint32_t b = 0; b < view().geo.bucket_count; ++b) {
    if (engine::unpack_bucket(RealPolicy::load(view().bucket(b))).head == others + 1) set(view().bucket(b), 0);
  }
  // They may have been in one chain already: where names go is different in each segment.
  engine::Bucket first = engine::unpack_bucket(RealPolicy::load(view().bucket(bucket)));
  first.head = record() + 1;
  set(view().bucket(bucket), engine::pack(first));
  set(r.chain, engine::pack(engine::Chain{generation, false, others + 1}));
  expect("lock 'deploy': is there twice");
}

TEST_F(Damage, OfLocks) {
  change_control([](core::Control& c) { c.used = 2; });
  expect("lock 'deploy': used is 2, but its holders have " + std::to_string(whole_lock));
  change_control([](core::Control& c) { c.used = 0; });
  expect("lock 'deploy': used is 0, but its holders have " + std::to_string(whole_lock));
  change_control([](core::Control& c) { c.seq = core::seq_limit + 1; });
  expect("lock 'deploy': its control word cannot be right");
  change_control([](core::Control& c) { c.tail = 60; });
  expect("lock 'deploy': its control word cannot be right");
  set(view().record(record()).capacity, 0);
  expect("lock 'deploy': its capacity is 0");
  set(view().record(record()).capacity, 3);
  expect("lock 'deploy': its capacity is 3");
  set(view().record(record()).kind, 9);
  expect("name 'deploy': is of no known kind");
  set(view().record(record()).max_hold_ns, static_cast<std::uint64_t>(-1));
  expect("lock 'deploy': has a negative duration");
  set(view().entry(tail()).next, engine::pack(engine::Link{tail(), 1}));
  expect("lock 'deploy': the circle of its waiters does not lead through all of them");
  change_control([](core::Control& c) { c.tail = core::nil_entry; });
  expect("lock 'deploy': the circle of its waiters does not lead through all of them");
  // Ahead of a word that has not given out as many yet as stamps can tell apart.
  change_control([](core::Control& c) { c.seq = 100; });
  set_status(holder(), [](engine::Status& s) { s.stamp = 1'000'000; });
  expect("lock 'deploy': entry " + std::to_string(holder()) + " holds it with an impossible token");
}

// A release whose grantee was never let in: the head fits, and nobody grants it.
TEST_F(Damage, AForgottenWaiterIsPending) {
  set_status(holder(), [](engine::Status& s) { s.phase = engine::Phase::free; });
  change_control([&](core::Control& c) {
    c.used = 0;
    c.op = core::Op::keep;
  });
  const CheckReport report = check(segment_);
  EXPECT_FALSE(report.damaged()) << text_of(report);
  EXPECT_EQ(text_of(report), "pending lock 'deploy': its first waiter could be let in, and is not yet\n");
}

// What a capacity and a quota must agree with.
TEST(SegmentCheck, OfSemaphores) {
  OwnSegment segment;
  segment.damaged_on_purpose();
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  PrimitiveClient pool(me, "pool", {.kind = engine::Kind::semaphore, .capacity = 4});
  PrimitiveClient quota(me, "quota", {.kind = engine::Kind::semaphore, .per_session = 2});
  Request request = request_of("holder");
  request.weight = 3;
  ASSERT_TRUE(pool.acquire(request, try_once));
  ASSERT_EQ(text_of(check(segment)), "");
  const auto finds = [&](engine::Word64& word, std::uint64_t value, const std::string& expected) {
    const std::uint64_t before = RealPolicy::load(word);
    RealPolicy::store(word, value);
    EXPECT_NE(text_of(check(segment)).find(expected), std::string::npos) << text_of(check(segment));
    RealPolicy::store(word, before);
  };
  engine::Record& of_pool = pool.ops().record();
  engine::Record& of_quota = quota.ops().record();
  finds(of_pool.capacity, 0, "semaphore 'pool': its capacity is 0");
  const engine::Amount brought = engine::unpack_amount(RealPolicy::load(of_quota.capacity));
  finds(of_quota.capacity, engine::pack(engine::Amount{3, brought.stamp}),
        "semaphore 'quota': its capacity is 3, but the sessions that joined it brought 2");
  RealPolicy::store(of_quota.per_session, 0);
  EXPECT_NE(text_of(check(segment)).find("semaphore 'quota': sessions joined it, but its capacity is fixed"),
            std::string::npos);
  RealPolicy::store(of_quota.per_session, 2);
  pool.resize(2);  // below what is in use: no damage
  EXPECT_EQ(text_of(check(segment)), "");
}

TEST(SegmentCheck, AnyBytesComeToAnEnd) {
  std::minstd_rand random(7);
  for (int round = 0; round < 200; ++round) {
    OwnSegment segment({.names = 64, .entries = 64, .sessions = 8});
    segment.damaged_on_purpose();
    {
      const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
      for (int n = 0; n < 5; ++n) {
        PrimitiveClient lock(me, "lock" + std::to_string(n), {});
        ASSERT_TRUE(lock.acquire(request_of("h"), try_once));
      }
    }
    const engine::View& view = segment.view();
    for (int n = 0; n < 40; ++n) {
      const std::uint64_t at = view.geo.buckets + random() % (view.geo.total - view.geo.buckets - 8);
      if (!view.pages_exist(at, 8)) continue;
      const std::uint64_t value = std::uint64_t{random()} << (random() % 34);
      std::memcpy(view.base + at, &value, 1 + random() % 8);
    }
    static_cast<void>(check(segment));
  }
}

}  // namespace
}  // namespace shmcoord::process
