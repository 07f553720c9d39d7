#include "process/primitive_client.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "process/liveness.hpp"
#include "process/participant.hpp"
#include "support/process_child.hpp"

// What a handle on a lock must not be fooled by.

namespace shmcoord::process {
namespace {

using test::OwnSegment;

/// Is the last one in the queue past its spinning?
bool somebody_sleeps(const PrimitiveClient& client) {
  const auto ops = client.ops();
  const engine::EntryIndex tail = ops.load().tail;
  return tail != engine::nil_entry && engine::RealPolicy::load(ops.view().entry(tail).wake) == engine::wake_parked;
}

// There is room for one name, so each of the two is given up for the other all the time. Both threads are of one
// session: whoever ends its turn at the names wakes the other one right then.
TEST(PrimitiveClient, AHandleIsNotMadeOfARecordThatIsAnotherNamesByNow) {
  OwnSegment segment({.names = 1, .entries = 16, .sessions = 4});
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  std::atomic<int> wrong = 0;
  const auto attach = [&](const char* name, int seconds) {
    try {
      const PrimitiveClient client(me, name, {.lease = {.stale_threshold = std::chrono::seconds(seconds)}});
    } catch (const Error& e) {
      if (e.errc() == Errc::config_differs) ++wrong;
    }
  };
  // Each comes in the middle of the other one's attach now and then only, so there are many.
  constexpr int enough = 300'000;
  std::atomic<int> turns = 0;
  std::atomic<bool> stop = false;
  std::thread coming([&] {
    for (; !stop; ++turns) attach("other", 7);
  });
  const std::int64_t end = engine::RealPolicy::now_ns() + test::watchdog_ns;
  for (int n = 0; (n < enough || turns < enough) && wrong == 0 && engine::RealPolicy::now_ns() < end; ++n) {
    attach("one", 60);
  }
  stop = true;
  coming.join();
  EXPECT_EQ(wrong, 0) << "the other name's configuration was read";
}

// The keeper of the next session buries the dead one right then: a try that found the lock held by it must not be told
// "busy" because meanwhile nobody holds it.
TEST(PrimitiveClient, ATryBehindADeathGetsItWhoeverBuries) {
  OwnSegment segment;
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  PrimitiveClient lock(me, "x", {});
  Request request;
  request.holder = "next";
  for (int round = 0; round < 300; ++round) {
    test::Child holder([&](const test::Child::Line& line) {
      const std::shared_ptr<Participant> other = Participant::join(segment.mapping());
      Request mine;
      mine.holder = "dies";
      const bool got = static_cast<bool>(PrimitiveClient(other, "x", {}).acquire(mine, try_once));
      line.ready(got ? 1 : 0);
      line.await_go();
      return 0;
    });
    ASSERT_EQ(holder.wait_ready(), 1U);
    holder.kill(SIGKILL);
    holder.wait();
    ASSERT_TRUE(lock.acquire(request, try_once)) << round;
    ASSERT_EQ(lock.release("next").result, ReleaseResult::released);
  }
}

// A large process gives back its memory before the kernel lets go of its lock bytes. All of it is exiting by then, as
// `inspect` says, and nobody needs to wait for the rest.
TEST(PrimitiveClient, ATryDoesNotWaitForTheMemoryOfTheDead) {
  OwnSegment segment;
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  PrimitiveClient lock(me, "x", {});
  Request request;
  request.holder = "next";
  int while_dying = 0;
  for (int round = 0; round < 20; ++round) {
    test::Child holder([&](const test::Child::Line& line) {
      const std::shared_ptr<Participant> other = Participant::join(segment.mapping());
      Request mine;
      mine.holder = "dies";
      const bool got = static_cast<bool>(PrimitiveClient(other, "x", {}).acquire(mine, try_once));
      constexpr std::size_t bytes = std::size_t{192} << 20U;
      const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
      if (::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, how, -1, 0) == MAP_FAILED) return 1;
      line.ready(got ? other->slot() : 0);
      line.await_go();
      return 0;
    });
    const std::int64_t ready = holder.wait_ready();
    ASSERT_GT(ready, 0);
    const auto slot = static_cast<SlotIndex>(ready);
    holder.kill(SIGKILL);
    ASSERT_TRUE(test::eventually([&] {
      const LifeReport seen = life_of(*segment.mapping(), slot, Look::thorough);
      if (seen.proof == Proof::life_word_and_tasks) ++while_dying;
      return seen.life == Life::dead;
    }));
    EXPECT_TRUE(lock.acquire(request, try_once)) << round;
    (void)lock.release("next");
    holder.wait();
  }
  EXPECT_GT(while_dying, 0) << "else this test shows nothing";
}

// Who waits takes out of the way what it waits for; what else the dead one held, the keepers give back.
TEST(PrimitiveClient, TheRestOfADeadSessionIsBuriedToo) {
  constexpr int others = 300;
  OwnSegment segment({.names = 1024, .entries = 1024, .sessions = 8});
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  const std::shared_ptr<Participant> between = Participant::join(segment.mapping());
  PrimitiveClient wanted(me, "wanted", {});
  Request request;
  request.holder = "next";
  test::Child holder([&](const test::Child::Line& line) {
    const std::shared_ptr<Participant> other = Participant::join(segment.mapping());
    Request mine;
    mine.holder = "dies";
    std::vector<std::unique_ptr<PrimitiveClient>> held;
    held.reserve(others + 1);
    for (int n = 0; n <= others; ++n) {
      const std::string name = n == others ? "wanted" : "other-" + std::to_string(n);
      held.push_back(std::make_unique<PrimitiveClient>(other, name, NameOptions{}));
      if (!held.back()->acquire(mine, try_once)) line.ready(0);
    }
    line.ready(1 + other->slot());
    line.await_go();
    return 0;
  });
  const std::int64_t ready = holder.wait_ready();
  ASSERT_GT(ready, 0);
  std::thread killer([&] {
    EXPECT_TRUE(test::eventually([&] { return somebody_sleeps(wanted); }));
    holder.kill(SIGKILL);
  });
  const Answer got = wanted.acquire(request, no_deadline);
  EXPECT_TRUE(got);
  EXPECT_TRUE(got.previous && got.previous->holder == "dies" && got.previous->why == Loss::died);
  killer.join();
  holder.wait();
  const engine::Word64& id = segment.mapping()->view().slot(static_cast<engine::SlotIndex>(ready - 1)).id;
  EXPECT_TRUE(test::eventually(
      [&] { return engine::unpack_slot(engine::RealPolicy::load(id)).state == engine::SlotState::free; }));
  for (int n = 0; n < others; ++n) {
    EXPECT_TRUE(PrimitiveClient(me, "other-" + std::to_string(n), {}).acquire(request, try_once)) << n;
  }
}

TEST(PrimitiveClient, NoHoldBeginsInAFileThatWasDeletedMeanwhile) {
  OwnSegment segment;
  const std::shared_ptr<Participant> me = Participant::join(segment.mapping());
  const std::shared_ptr<Participant> next = Participant::join(segment.mapping());
  PrimitiveClient held(me, "deploy", {});
  PrimitiveClient wanted(next, "deploy", {});
  Request request;
  request.holder = "a";
  ASSERT_TRUE(held.acquire(request, try_once));
  Errc error{};
  std::thread waiting([&] {
    try {
      Request other;
      other.holder = "b";
      (void)wanted.acquire(other, no_deadline);
    } catch (const Error& e) {
      error = e.errc();
    }
  });
  EXPECT_TRUE(test::eventually([&] { return somebody_sleeps(held); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // who waits less than one is not asked
  ::unlink(segment.mapping()->path().c_str());
  EXPECT_EQ(held.release("a").result, ReleaseResult::released);
  waiting.join();
  EXPECT_EQ(error, Errc::segment_gone);
}

}  // namespace
}  // namespace shmcoord::process
