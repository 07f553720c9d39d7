#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/real_policy.hpp"
#include "process/face.hpp"
#include "process/segment_check.hpp"
#include "process/snapshot.hpp"
#include "process/table_use.hpp"
#include "support/face_fixture.hpp"
#include "support/small_shm.hpp"

// F38: a /dev/shm of 1 MiB that is full when an operation needs its first page, its second, its third …: an error that
// says so, never a signal; what was held before is held after; and with room the same call does it.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using engine::RealPolicy;
using test::Filler;
using test::Ran;

const HolderId me{"me"};
const HolderId other{"other"};
const std::string long_reason(4000, 'r');
const std::string long_name(200, 'n');

/// A segment with one hold, and a second session that has all it needs to try for it.
struct World {
  World() {
    kept_token = kept.acquire(me).token;
    EXPECT_EQ(rival_for_kept.try_acquire(other).result, AcquireResult::busy);
  }
  ~World() {
    if (std::filesystem::exists(segment.path())) Segment::remove(name, true);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void expect_kept() {
    EXPECT_TRUE(kept.is_current(kept_token));
    EXPECT_EQ(kept.heartbeat(me).result, HeartbeatResult::refreshed);
    EXPECT_EQ(rival_for_kept.try_acquire(other).result, AcquireResult::busy);
    const process::CheckReport report = process::check_segment(*detail::Access::mapping(segment), RealPolicy::now_ns());
    EXPECT_FALSE(report.damaged()) << report.findings.front().where << ": " << report.findings.front().what;
  }

  std::string name = "full";
  Segment segment = Segment::create(name);
  Session session{segment};
  Session rival{segment};
  Lock kept{session, "kept"};
  Lock rival_for_kept{rival, "kept"};
  std::uint64_t kept_token = 0;
  // What a case prepares.
  std::vector<Session> sessions;
  std::vector<Lock> locks;
  std::unique_ptr<testing::Child> doomed;
};

struct Case {
  const char* what;
  bool needs_pages;
  std::function<void(World&)> prepare;
  std::function<void(World&)> run;
};

/// Uses up the rows of the page that the next entries would come from.
void use_up_entries(World& w) {
  for (int i = 0; i < 2; ++i) {
    Lock& lock = w.locks.emplace_back(w.sessions.emplace_back(w.segment), "kept");
    (void)lock.try_acquire(other);
  }
}

/// A holder of the lock "orphan", to be killed when there is no room any more.
void start_doomed(World& w) {
  w.doomed = std::make_unique<testing::Child>([&](int ready) {
    Session session{w.segment};
    Lock lock{session, "orphan"};
    if (lock.acquire(HolderId{"late"})) testing::say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(w.doomed->next(), 'h');
}

void kill_doomed(World& w) {
  w.doomed->kill(SIGKILL);
  w.doomed->wait();
}

/// Each time with a fresh segment and one page more, until it succeeds.
void starve(const Case& one) {
  SCOPED_TRACE(one.what);
  Filler filler;
  for (std::uint64_t pages = 0;; ++pages) {
    SCOPED_TRACE(std::to_string(pages) + " pages left");
    ASSERT_LT(pages, 20U);
    World w;
    w.sessions.reserve(16);
    one.prepare(w);
    filler.leave(pages);
    bool done = false;
    try {
      one.run(w);
      done = true;
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::no_space) << e.what();
      EXPECT_NE(std::string(e.what()).find("/dev/shm/shmcoord."), std::string::npos) << e.what();
    }
    w.expect_kept();
    filler.empty();
    if (!done) {
      EXPECT_NO_THROW(one.run(w)) << "there is room now";
    }
    w.expect_kept();
    if (::testing::Test::HasFailure()) return;
    if (!done) continue;
    EXPECT_EQ(pages != 0, one.needs_pages) << "succeeded with " << pages << " pages";
    return;
  }
}

void nothing(World&) {}

std::vector<Case> cases() {
  const auto holding_aux = [](World& w) {
    EXPECT_TRUE(w.locks.emplace_back(w.session, "aux").try_acquire(me, {.reason = "short"}));
  };
  const auto with_orphan = [](World& w) {
    Lock& lock = w.locks.emplace_back(w.rival, "orphan");
    EXPECT_TRUE(lock.try_acquire(me));  // from now on this handle has its entry
    EXPECT_EQ(lock.release(me).result, ReleaseResult::released);
    start_doomed(w);
  };
  return {
      {"create", true, nothing,
       [](World&) {
         try {
           Segment::create("second", {.names = 64, .entries = 64, .sessions = 8});
         } catch (const Error&) {
           std::size_t files = 0;
           for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator("/dev/shm")) ++files;
           EXPECT_EQ(files, 2U) << "beside the filler and the segment something stayed";
           throw;
         }
         Segment::remove("second");
       }},
      {"join", true,
       [](World& w) {
         while (w.sessions.size() < 5) w.sessions.emplace_back(w.segment);  // the first page of slots has eight
       },
       [](World& w) { w.sessions.emplace_back(w.segment); }},
      {"attach", true,
       [](World& w) {
         for (int i = 1; i <= 20; ++i) Lock(w.session, "n" + std::to_string(i));  // the next row ends in a new page
       },
       [](World& w) { Lock(w.session, "new"); }},
      {"attach with a long name", true, nothing, [](World& w) { Lock(w.session, long_name); }},
      {"acquire", true, use_up_entries,
       [](World& w) { EXPECT_TRUE(Lock(w.sessions.emplace_back(w.segment), "x").try_acquire(me)); }},
      {"acquire with a long reason", true, nothing,
       [](World& w) { EXPECT_TRUE(Lock(w.rival, "x").try_acquire(me, {.reason = long_reason})); }},
      {"extend with a long reason", true, holding_aux,
       [](World& w) {
         const std::uint64_t token = w.locks[0].holder()->token;
         try {
           EXPECT_EQ(w.locks[0].try_acquire(me, {.reason = long_reason}).result, AcquireResult::extended);
         } catch (const Error&) {
           EXPECT_TRUE(w.locks[0].is_current(token));
           EXPECT_EQ(w.locks[0].holder()->reason, "short");
           throw;
         }
         EXPECT_EQ(w.locks[0].holder()->reason, long_reason);
       }},
      {"lock()", true, use_up_entries,
       [](World& w) {
         Lock lock{w.sessions.emplace_back(w.segment), "x"};
         lock.lock();
         lock.unlock();
       }},
      {"wait", true, use_up_entries,
       [](World& w) {
         Lock lock{w.sessions.emplace_back(w.segment), "kept"};
         EXPECT_EQ(lock.acquire(other, {}, 1ms).result, AcquireResult::timed_out);
       }},
      {"wait by descriptor", true, use_up_entries,
       [](World& w) {
         Lock lock{w.sessions.emplace_back(w.segment), "kept"};
         EXPECT_GE(lock.wait_fd(other), 0);
         lock.cancel_wait(other);
       }},
      {"acquire without a process", true, use_up_entries,
       [](World& w) {
         process::PrimitiveClient client(detail::Access::state(w.session)->participant, "x", {});
         process::Request request;
         request.holder = "script";
         request.detached = true;
         EXPECT_TRUE(client.acquire(request, process::try_once));
       }},
      {"release", false, holding_aux,
       [](World& w) { EXPECT_EQ(w.locks[0].release(me).result, ReleaseResult::released); }},
      {"hand over to a waiter", false,
       [&](World& w) {
         holding_aux(w);
         EXPECT_GE(w.locks.emplace_back(w.rival, "aux").wait_fd(other), 0);
       },
       [](World& w) {
         EXPECT_EQ(w.locks[0].release(me).result, ReleaseResult::released);
         EXPECT_TRUE(w.locks[1].acquire(other));
       }},
      {"take over from the dead", false, with_orphan,
       [](World& w) {
         kill_doomed(w);
         const AcquireOutcome got = w.locks[0].acquire(me, {}, 20s);
         EXPECT_TRUE(got);
         ASSERT_TRUE(got.previous);
         EXPECT_EQ(got.previous->why, Loss::died);
         EXPECT_EQ(got.previous->holder, "") << "why is always told; who would have needed a page";
       }},
      {"force a release", false, holding_aux,
       [](World& w) {
         process::PrimitiveClient client(detail::Access::state(w.rival)->participant, "aux", {});
         EXPECT_TRUE(client.force_release(""));
         EXPECT_EQ(w.locks[0].release(me).lost->why, Loss::forced);
       }},
      {"remove a name that is held", false, holding_aux, [](World& w) { Lock::remove(w.rival, "aux", true); }},
      {"reap", false, with_orphan,
       [](World& w) {
         kill_doomed(w);
         const auto& mapping = *detail::Access::mapping(w.segment);
         (void)process::sweep(mapping, RealPolicy::now_ns());
         EXPECT_EQ(process::take_snapshot(mapping, RealPolicy::now_ns()).sessions.size(), 2U);
       }},
      {"leave", false,
       [](World& w) { EXPECT_TRUE(w.locks.emplace_back(w.sessions.emplace_back(w.segment), "aux").try_acquire(me)); },
       [](World& w) { w.sessions[0].leave(); }},
      {"look", false, holding_aux,
       [](World& w) {
         const auto& mapping = *detail::Access::mapping(w.segment);
         const std::uint64_t before = Filler::free_pages();
         const process::Picture picture = process::take_picture(mapping, RealPolicy::now_ns());
         EXPECT_EQ(picture.locks.size(), 2U);
         EXPECT_EQ(process::use_of(mapping, picture.snapshot).names.used, 2U);
         EXPECT_FALSE(process::check_segment(mapping, RealPolicy::now_ns()).damaged());
         EXPECT_EQ(Segment::list().size(), 1U);
         EXPECT_EQ(Segment::open(w.name).path(), w.segment.path());
         EXPECT_EQ(Filler::free_pages(), before) << "looking allocates nothing";
       }},
  };
}

TEST(FullShm, F38_EveryCallAtEveryPage) {
  const Ran ran = test::with_small_shm([] {
    for (const Case& one : cases()) starve(one);
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "this machine lets us mount no tmpfs in a namespace of our own";
}

TEST(FullShm, F38_ASegmentIsRemovedFromAFullOne) {
  const Ran ran = test::with_small_shm([] {
    Filler filler;
    auto world = std::make_unique<World>();
    filler.leave(0);
    EXPECT_NO_THROW(Segment::remove(world->name, true));
    EXPECT_FALSE(std::filesystem::exists(world->segment.path()));
    try {
      (void)world->kept.try_acquire(me);
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::segment_gone) << e.what();
    }
    filler.empty();
    world.reset();
    EXPECT_NO_THROW(World());
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "this machine lets us mount no tmpfs in a namespace of our own";
}

}  // namespace
}  // namespace shmcoord
