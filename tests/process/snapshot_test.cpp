#include "process/snapshot.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/control.hpp"
#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "process/participant.hpp"
#include "process/primitive_client.hpp"
#include "support/process_child.hpp"

// The picture must say of a word whose operation is unfinished what it says once it is finished. So each operation is
// done by somebody who dies right after the deciding CAS, the picture is taken, the word is finished, and the picture
// is taken again.

namespace shmcoord::process {
namespace {

using engine::ControlOps;
using engine::RealPolicy;
using test::Child;
using test::Common;
using test::OwnSegment;

/// Changes nothing any more after so many deciding CASes: what a process leaves that was killed there.
struct DyingPolicy : RealPolicy {
  static inline int left = 0;
  static void store(engine::Word32& w, std::uint32_t v) noexcept {
    if (left > 0) RealPolicy::store(w, v);
  }
  static void store(engine::Word64& w, std::uint64_t v) noexcept {
    if (left > 0) RealPolicy::store(w, v);
  }
  static bool cas(engine::Word32& w, std::uint32_t expected, std::uint32_t desired) noexcept {
    return left <= 0 || RealPolicy::cas(w, expected, desired);
  }
  static bool cas(engine::Word64& w, std::uint64_t expected, std::uint64_t desired) noexcept {
    return left <= 0 || RealPolicy::cas(w, expected, desired);
  }
  static bool cas(engine::Word128& w, const core::Packed& expected, const core::Packed& desired) noexcept {
    if (left <= 0) return true;
    if (!RealPolicy::cas(w, expected, desired)) return false;
    --left;
    return true;
  }
  static bool cas(engine::Word128& w, const core::Control& expected, const core::Control& desired) noexcept {
    return cas(w, core::pack(expected), core::pack(desired));
  }
  static std::uint32_t add(engine::Word32& w, std::uint32_t n) noexcept { return left > 0 ? RealPolicy::add(w, n) : 0; }
  static void wake(engine::Word32&, int = 0) noexcept {}
};

constexpr std::int64_t now_ns = 5'000'000'000;

Request request_of(std::string_view holder, std::optional<std::string_view> reason = std::nullopt) {
  Request request;
  request.holder = holder;
  request.reason = reason;
  return request;
}

class Unfinished : public testing::Test {
 protected:
  Unfinished() {
    participant_ = Participant::join(segment_.mapping());
    make("lock", 1);
    for (const char* holder : {"a", "b", "c", "d"}) {
      const EntryIndex i = participant_->take_entry();
      RealPolicy::store(view().entry(i).weight, 1);
      RealPolicy::store(view().entry(i).flags, 0);
      EXPECT_TRUE(engine::write_texts(view(), *segment_.mapping(), i, holder, std::string("reason of ") + holder));
      entries_.push_back(i);
    }
  }

  void make(const char* name, std::uint32_t capacity) {
    const auto made = engine::NameIndex<RealPolicy>(view(), segment_.mapping().get())
                          .find_or_insert(name, capacity == 1 ? engine::Kind::lock : engine::Kind::semaphore, capacity,
                                          {}, participant_->slot());
    segment_.mapping()->prepare_notices(engine::Mapping::NoticePart::head, {&made.found.record, 1});
    found_ = made.found;
    name_ = name;
  }

  [[nodiscard]] const engine::View& view() const { return segment_.view(); }
  [[nodiscard]] ControlOps<RealPolicy> ops() const { return {view(), found_.record, found_.generation}; }
  /// Dies after the n-th deciding CAS.
  [[nodiscard]] ControlOps<DyingPolicy> dying(int n = 1) const {
    DyingPolicy::left = n;
    return {view(), found_.record, found_.generation};
  }
  [[nodiscard]] EntryIndex entry(char who) const { return entries_[static_cast<std::size_t>(who - 'a')]; }
  [[nodiscard]] std::uint64_t seq() const { return ops().load().seq; }

  std::uint64_t acquire(char who, std::uint32_t weight = 1) {
    RealPolicy::store(view().entry(entry(who)).weight, weight);
    // Who comes later has the earlier time, so that the order of arrival cannot pass for that of the queue.
    const auto r = ops().acquire_or_queue(entry(who), weight, now_ns - who);
    EXPECT_TRUE(r.step == engine::Step::acquired || r.step == engine::Step::queued);
    return r.seq;
  }

  /// "a: b c": a holds, b and c wait; "*" behind a holder whose lease is being looked at.
  std::string picture() {
    Picture p = take_picture(*segment_.mapping(), now_ns, {name_});
    EXPECT_EQ(p.locks.size(), 1U);
    if (p.locks.size() != 1) return {};
    lock_ = p.locks[0];
    EXPECT_FALSE(lock_.damaged);
    EXPECT_TRUE(lock_.settled);
    std::string text;
    for (const GrantView& g : lock_.holders) text += g.holder + (g.marked ? "*" : "");
    text += ":";
    for (const GrantView& g : lock_.waiters) text += " " + g.holder;
    return text;
  }

  /// "a2 of 8": what is held, and the capacity.
  std::string amounts() {
    std::string text = picture();
    text.clear();
    for (const GrantView& g : lock_.holders) text += g.holder + std::to_string(g.weight) + " ";
    return text + "of " + std::to_string(lock_.capacity);
  }
  void expect_amounts_same_when_finished(const std::string& expected) {
    EXPECT_EQ(amounts(), expected) << "unfinished";
    EXPECT_TRUE(ops().finish_now());
    EXPECT_EQ(amounts(), expected) << "finished";
  }

  void expect_same_when_finished(const std::string& expected, std::uint64_t token = 0) {
    EXPECT_EQ(picture(), expected) << "unfinished";
    const std::uint64_t before = lock_.holders.empty() ? 0 : lock_.holders[0].token;
    const auto previous = lock_.previous;
    EXPECT_TRUE(ops().finish_now());
    EXPECT_EQ(picture(), expected) << "finished";
    EXPECT_EQ(lock_.holders.empty() ? 0 : lock_.holders[0].token, before);
    if (token != 0) {
      EXPECT_EQ(before, token);
    }
    ASSERT_EQ(previous.has_value(), lock_.previous.has_value());
    if (previous) {
      EXPECT_EQ(previous->why, lock_.previous->why);
      EXPECT_EQ(previous->holder, lock_.previous->holder);
      EXPECT_EQ(previous->pid, lock_.previous->pid);
    }
  }

  OwnSegment segment_;
  std::unique_ptr<Participant> participant_;
  engine::Found found_;
  std::string name_;
  std::vector<EntryIndex> entries_;
  LockView lock_;
};

TEST_F(Unfinished, Born) { expect_same_when_finished(":"); }

TEST_F(Unfinished, Acquire) {
  const std::uint64_t token = acquire('a');
  expect_same_when_finished("a:", token);
  ASSERT_EQ(lock_.holders.size(), 1U);
  const GrantView& a = lock_.holders[0];
  EXPECT_EQ(a.reason, "reason of a");
  EXPECT_EQ(a.pid, ::getpid());
  EXPECT_EQ(a.session_id, participant_->session_id());
  EXPECT_EQ(a.since_ns, now_ns - 'a');
  EXPECT_EQ(a.life.life, Life::alive);
}

TEST_F(Unfinished, AcquireThatWasNeverPublished) {
  acquire('a');
  dying(0).try_acquire(entry('b'), 1, now_ns);
  RealPolicy::store(view().entry(entry('b')).status, engine::pack(engine::Status{engine::Phase::prepared, found_.record,
                                                                                 (seq() + 1) & engine::stamp_mask}));
  expect_same_when_finished("a:");
}

TEST_F(Unfinished, ReleaseOfAnUnfinishedAcquire) {
  const std::uint64_t token = acquire('a');
  EXPECT_EQ(dying().release(entry('a'), token).step, engine::Step::released);
  expect_same_when_finished(":");
}

TEST_F(Unfinished, ReleaseOfAFinishedAcquire) {
  const std::uint64_t token = acquire('a');
  ops().finish_now();
  EXPECT_EQ(dying().release(entry('a'), token).step, engine::Step::released);
  expect_same_when_finished(":");
}

TEST_F(Unfinished, Enqueue) {
  const std::uint64_t token = acquire('a');
  for (const char who : {'b', 'c', 'd'}) {
    EXPECT_EQ(dying().acquire_or_queue(entry(who), 1, now_ns - who).step, engine::Step::queued);
    expect_same_when_finished(who == 'b' ? "a: b" : who == 'c' ? "a: b c" : "a: b c d", token);
  }
}

TEST_F(Unfinished, Handoff) {
  const std::uint64_t token = acquire('a');
  for (const char who : {'b', 'c', 'd'}) acquire(who);
  EXPECT_EQ(dying().release(entry('a'), token).step, engine::Step::released);
  expect_same_when_finished("b: c d", seq());
  EXPECT_EQ(dying().release(entry('b'), seq()).step, engine::Step::released);
  expect_same_when_finished("c: d", seq());
  EXPECT_EQ(dying().release(entry('c'), seq()).step, engine::Step::released);
  expect_same_when_finished("d:", seq());
}

TEST_F(Unfinished, Cancel) {
  for (const char gone : {'b', 'c', 'd'}) {
    const std::uint64_t token = acquire('a');
    for (const char who : {'b', 'c', 'd'}) acquire(who);
    EXPECT_EQ(dying().cancel(entry(gone)).step, engine::Step::cancelled);
    expect_same_when_finished(gone == 'b' ? "a: c d" : gone == 'c' ? "a: b d" : "a: b c", token);
    for (const char who : {'b', 'c', 'd'}) ops().cancel(entry(who));
    ops().release(entry('a'), token);
    EXPECT_EQ(picture(), ":");
  }
}

TEST_F(Unfinished, CancelOfTheOnlyOne) {
  const std::uint64_t token = acquire('a');
  acquire('b');
  EXPECT_EQ(dying().cancel(entry('b')).step, engine::Step::cancelled);
  expect_same_when_finished("a:", token);
}

TEST_F(Unfinished, Grant) {
  make("two", 2);
  acquire('a');
  acquire('b', 2);
  acquire('c');
  acquire('d');
  // The canceller dies after the second CAS, which lets c in.
  dying(2).cancel(entry('b'));
  EXPECT_EQ(ops().load().op, core::Op::grant);
  expect_same_when_finished("ac: d");
}

TEST_F(Unfinished, MergeAndShrink) {
  make("eight", 8);
  const std::uint64_t a = acquire('a', 2);
  const std::uint64_t b = acquire('b', 3);
  ops().finish_now();
  EXPECT_EQ(dying().merge(entry('a'), a, 2, entry('b'), b).step, engine::Step::merged);
  expect_amounts_same_when_finished("a5 of 8");
  expect_same_when_finished("a:", a);
  EXPECT_EQ(dying().shrink(entry('a'), a, 5, 4).step, engine::Step::shrunk);
  expect_amounts_same_when_finished("a4 of 8");
  expect_same_when_finished("a:", a);
}

TEST_F(Unfinished, Resize) {
  make("eight", 8);
  acquire('a', 2);
  EXPECT_EQ(dying().resize(3).step, engine::Step::resized);
  expect_amounts_same_when_finished("a2 of 3");
  EXPECT_EQ(dying().resize(core::max_capacity).step, engine::Step::resized);
  expect_amounts_same_when_finished("a2 of 1048575");
  expect_same_when_finished("a:");
}

TEST_F(Unfinished, JoinAndLeave) {
  make("quota", 2);
  RealPolicy::store(ops().record().per_session, 2);
  ops().set_weight(entry('a'), 2);
  ASSERT_TRUE(RealPolicy::cas(ops().record().capacity, RealPolicy::load(ops().record().capacity), 0));
  EXPECT_EQ(dying().join(entry('a')).step, engine::Step::joined);
  expect_amounts_same_when_finished("of 2");
  EXPECT_EQ(lock_.members, 1U);
  EXPECT_EQ(lock_.shares, 2U);
  EXPECT_EQ(dying().leave(entry('a')).step, engine::Step::left);
  expect_amounts_same_when_finished("of 0");
  EXPECT_EQ(lock_.members, 0U);
}

TEST_F(Unfinished, QueueFirst) {
  make("two", 2);
  acquire('a');
  acquire('b');
  for (const char who : {'c', 'd'}) {
    ops().set_weight(entry(who), 1);
    EXPECT_EQ(dying().acquire_or_queue_first(entry(who), 1, now_ns - who).step, engine::Step::queued);
    expect_same_when_finished(who == 'c' ? "ab: c" : "ab: d c");
  }
}

TEST_F(Unfinished, ReclaimOfTheDead) {
  acquire('a');
  const auto died = [](const engine::Entry&) { return Loss::died; };
  EXPECT_EQ(dying().reclaim(entry('a'), died).step, engine::Step::reclaimed);
  expect_same_when_finished(":");
  ASSERT_TRUE(lock_.previous);
  EXPECT_EQ(lock_.previous->why, Loss::died);
  EXPECT_EQ(lock_.previous->holder, "a");
  EXPECT_EQ(lock_.previous->pid, ::getpid());
}

TEST_F(Unfinished, ReclaimThatHandsOn) {
  acquire('a');
  acquire('b');
  acquire('c');
  const auto stale = [](const engine::Entry&) { return Loss::stale; };
  EXPECT_EQ(dying().reclaim(entry('a'), stale).step, engine::Step::reclaimed);
  expect_same_when_finished("b: c", seq());
  ASSERT_TRUE(lock_.previous);
  EXPECT_EQ(lock_.previous->why, Loss::stale);
}

TEST_F(Unfinished, AMarkStays) {
  const std::uint64_t token = acquire('a');
  const auto look = [&](const engine::Entry&) {
    EXPECT_EQ(picture(), "a*:");
    return Loss::none;
  };
  EXPECT_EQ(dying().reclaim(entry('a'), look).step, engine::Step::fresh);
  EXPECT_EQ(dying().heartbeat(entry('a'), token, now_ns).step, engine::Step::refreshed);
  EXPECT_EQ(ops().load().op, core::Op::keep);
  expect_same_when_finished("a*:", token);
}

TEST_F(Unfinished, ClosedNamesAreNotShown) {
  EXPECT_TRUE(dying().close());
  const Picture p = take_picture(*segment_.mapping(), now_ns, {"lock"});
  EXPECT_TRUE(p.locks.empty());
  EXPECT_EQ(p.unknown, std::vector<std::string>{"lock"});
}

TEST_F(Unfinished, ABrokenCircleIsGivenInTheOrderOfArrival) {
  segment_.damaged_on_purpose();
  acquire('a');
  for (const char who : {'d', 'c', 'b'}) {
    RealPolicy::store(view().entry(entry(who)).weight, 1);
    EXPECT_EQ(ops().acquire_or_queue(entry(who), 1, now_ns + ('z' - who)).step, engine::Step::queued);
  }
  EXPECT_EQ(picture(), "a: d c b");
  engine::Word64& next = view().entry(entry('d')).next;
  RealPolicy::store(next, engine::pack(engine::Link{entry('d'), 7}));  // a circle that leaves the tail out
  EXPECT_EQ(picture(), "a: d c b");
  RealPolicy::store(next, engine::pack(engine::Link{engine::nil_entry - 1, 7}));
  EXPECT_EQ(picture(), "a: d c b");
}

TEST_F(Unfinished, AnImpossibleWordIsDamageAndBelievedNowhere) {
  acquire('a');
  const core::Control c = ops().load();
  for (const core::Control bad : {core::Control{0, 1, core::nil_entry, entry('a'), core::Op::acquire},
                                  core::Control{c.seq, 1, core::nil_entry, core::nil_entry - 1, core::Op::acquire},
                                  core::Control{c.seq, 1, core::nil_entry - 1, entry('a'), core::Op::acquire}}) {
    ASSERT_TRUE(RealPolicy::cas(ops().record().control, ops().load(), bad));
    const Picture p = take_picture(*segment_.mapping(), now_ns, {"lock"});
    ASSERT_EQ(p.locks.size(), 1U);
    EXPECT_TRUE(p.locks[0].damaged);
    EXPECT_TRUE(p.locks[0].holders.empty());
  }
  ASSERT_TRUE(RealPolicy::cas(ops().record().control, ops().load(), c));
}

TEST_F(Unfinished, LookingAllocatesNothingAndChangesNothing) {
  acquire('a');
  acquire('b');
  const auto blocks = [&] {
    struct stat st {};
    ::fstat(segment_.mapping()->fd(), &st);
    return st.st_blocks;
  };
  const auto before_blocks = blocks();
  const core::Control before = ops().load();
  const std::uint64_t status = RealPolicy::load(view().entry(entry('b')).status);
  static_cast<void>(take_picture(*segment_.mapping(), now_ns));
  EXPECT_EQ(blocks(), before_blocks);
  EXPECT_EQ(ops().load(), before);
  EXPECT_EQ(RealPolicy::load(view().entry(entry('b')).status), status);
}

// At each moment several hold, and each of them comes and goes while the others are listed.
TEST(SnapshotOfTheLiving, NeverMissesAHolder) {
  const OwnSegment segment({.names = 64, .entries = 16'384, .sessions = 64});
  constexpr std::uint32_t always = 4;
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  const auto acquire = [&](PrimitiveClient& semaphore, const std::string& id) {
    Request request = request_of(id, "");
    request.weight = 1;
    request.detached = true;
    EXPECT_TRUE(semaphore.acquire(request, try_once));
  };
  // What takes long to be listed.
  PrimitiveClient others(me, "others", {.kind = engine::Kind::semaphore, .capacity = 1'500});
  for (int n = 0; n < 1'500; ++n) acquire(others, std::to_string(n));
  PrimitiveClient agents(me, "agents", {.kind = engine::Kind::semaphore, .capacity = 8});
  for (std::uint32_t n = 0; n < always; ++n) acquire(agents, std::to_string(n));
  std::jthread holder([&](const std::stop_token& stop) {
    for (std::uint32_t n = 0; !stop.stop_requested(); ++n) {
      acquire(agents, std::to_string(n + always));
      (void)agents.release(std::to_string(n));
    }
  });
  for (int looks = 0; looks < 1'000; ++looks) {
    const Picture p = take_picture(*segment.mapping(), RealPolicy::now_ns(), {"agents"});
    ASSERT_EQ(p.locks.size(), 1U);
    if (!p.locks[0].settled) continue;
    std::uint64_t held = 0;
    for (const GrantView& g : p.locks[0].holders) held += g.weight;
    ASSERT_EQ(held, p.locks[0].used);
    ASSERT_GE(held, always);
  }
  const auto seen = look_at(*segment.mapping(), "agents");
  ASSERT_TRUE(seen);
  EXPECT_GE(seen->holders.size(), always);
  EXPECT_FALSE(look_at(*segment.mapping(), "nobody"));
}

// F3: looking at a lock of a dead owner neither uses up nor hides the notice.
TEST(SnapshotOfTheDead, IsShownAndStillToldToTheNextHolder) {
  const OwnSegment segment;
  Child holder([&](const Child::Line& line) {
    const std::shared_ptr<Participant> me = Participant::join(segment.mapping(), {.label = "doomed"});
    PrimitiveClient lock(me, "deploy", {});
    const auto got = lock.acquire(request_of("pipeline:42", "rev=abc"), try_once);
    line.ready(static_cast<std::int64_t>(got.token));
    line.await_go();
    return 0;
  });
  const std::int64_t token = holder.wait_ready();
  ASSERT_GT(token, 0);
  const pid_t pid = holder.pid();
  holder.kill(SIGKILL);
  holder.wait();

  const auto look = [&] { return take_picture(*segment.mapping(), RealPolicy::now_ns()); };
  for (int again = 0; again < 3; ++again) {
    const Picture p = look();
    ASSERT_EQ(p.locks.size(), 1U);
    ASSERT_EQ(p.locks[0].holders.size(), 1U);
    const GrantView& g = p.locks[0].holders[0];
    EXPECT_EQ(g.holder, "pipeline:42");
    EXPECT_EQ(g.reason, "rev=abc");
    EXPECT_EQ(g.label, "doomed");
    EXPECT_EQ(g.pid, pid);
    EXPECT_EQ(g.token, static_cast<std::uint64_t>(token));
    EXPECT_EQ(g.life.life, Life::dead);
  }

  const Picture before = look();
  ASSERT_FALSE(before.snapshot.sessions.empty());
  ASSERT_TRUE(bury(*segment.mapping(), before.snapshot.sessions[0].slot, before.snapshot.sessions[0].incarnation));
  for (int again = 0; again < 3; ++again) {
    const Picture p = look();
    ASSERT_EQ(p.locks.size(), 1U);
    EXPECT_TRUE(p.locks[0].holders.empty());
    ASSERT_TRUE(p.locks[0].previous);
    EXPECT_EQ(p.locks[0].previous->holder, "pipeline:42");
    EXPECT_EQ(p.locks[0].previous->pid, pid);
    EXPECT_EQ(p.locks[0].previous->why, Loss::died);
  }

  const std::shared_ptr<Participant> next = Participant::join(segment.mapping());
  PrimitiveClient lock(next, "deploy", {});
  const auto got = lock.acquire(request_of("next"), try_once);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->holder, "pipeline:42");
  EXPECT_EQ(got.previous->why, Loss::died);
  EXPECT_FALSE(look().locks[0].previous);
}

TEST(SnapshotWhileMoving, ShowsAtMostOneHolderOfALock) {
  const OwnSegment segment;
  std::vector<Child> movers;
  for (int n = 0; n < 3; ++n) {
    movers.emplace_back([&, n](const Child::Line& line) {
      const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
      PrimitiveClient lock(me, "busy", {});
      const std::string holder = "mover" + std::to_string(n);
      line.ready(1);
      for (;;) {
        if (!lock.acquire(request_of(holder), no_deadline)) return 1;
        lock.release(holder);
      }
    });
  }
  for (const Child& m : movers) ASSERT_EQ(m.wait_ready(), 1);
  int settled = 0;
  std::uint64_t last_token = 0;
  for (int n = 0; n < 2000; ++n) {
    const Picture p = take_picture(*segment.mapping(), RealPolicy::now_ns());
    ASSERT_EQ(p.locks.size(), 1U);
    const LockView& lock = p.locks[0];
    if (!lock.settled) continue;
    ++settled;
    ASSERT_LE(lock.holders.size(), 1U);
    ASSERT_EQ(lock.holders.size() * whole_lock, lock.used);
    ASSERT_LE(lock.waiters.size(), 3U);
    if (lock.holders.empty()) continue;
    ASSERT_GE(lock.holders[0].token, last_token);
    last_token = lock.holders[0].token;
  }
  EXPECT_GT(settled, 0);
}

// The tables are overwritten with random bytes, page by page of those that exist: any answer will do, but it must come.
TEST(SnapshotOfDamage, ComesToAnEnd) {
  for (unsigned round = 0; round < 60; ++round) {
    OwnSegment segment;
    segment.damaged_on_purpose();
    const engine::View& view = segment.view();
    Child child([&](const Child::Line& line) {
      const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
      std::vector<std::unique_ptr<PrimitiveClient>> locks;
      for (int n = 0; n < 10; ++n) {
        locks.push_back(std::make_unique<PrimitiveClient>(me, "lock" + std::to_string(n), process::NameOptions{}));
        if (!locks.back()->acquire(request_of("h", std::string(300, 'r')), try_once)) return 1;
      }
      line.ready(1);
      line.await_go();
      return 0;
    });
    ASSERT_EQ(child.wait_ready(), 1);
    child.kill(SIGKILL);
    child.wait();
    std::mt19937_64 random(round);
    const std::uint64_t first = view.geo.buckets;
    const std::uint64_t most = round % 3 == 0 ? 8 : 64;
    for (std::uint64_t at = first; at < view.geo.total; at += engine::page_size) {
      if (!view.pages_exist(at, engine::page_size)) continue;
      for (std::uint64_t n = 0; n < most; ++n) {
        const std::uint64_t value = round % 2 == 0 ? random() : random() & 0x00ff'0000'00ff'ffffULL;
        std::memcpy(view.base + at + random() % (engine::page_size / 8) * 8, &value, sizeof value);
      }
    }
    Child reader([&](const Child::Line&) {
      try {
        static_cast<void>(take_picture(*segment.mapping(), RealPolicy::now_ns()));
      } catch (const Error& e) {
        return e.errc() == Errc::segment_corrupt ? 0 : 2;
      }
      return 0;
    });
    ASSERT_EQ(reader.wait(), 0) << "round " << round;
  }
}

}  // namespace
}  // namespace shmcoord::process
