#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/face_fixture.hpp"
#include "support/long_form.hpp"

// More names than a segment has room for: those that nobody uses make room, and nobody notices.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

const HolderId a{"pipeline:a"};
const HolderId b{"worker:b"};

class NamesFace : public testing::FaceTest {
 protected:
  /// Takes and gives back as many names as it takes to go through the table several times.
  static void use_other_names(Session& session, int count = 500) {
    for (int i = 0; i < count; ++i) {
      Lock lock{session, "job-" + std::to_string(i)};
      const std::scoped_lock hold{lock};
    }
  }
};

TEST_F(NamesFace, AHandleOutlivesTheRecordOfItsName) {
  Session session{segment_};
  Session elsewhere{segment_};
  Lock lock{session, "deploy", {.stale_threshold = 10s}};
  Lock same{elsewhere, "deploy"};
  std::uint64_t last = 0;
  for (int round = 0; round < 5; ++round) {
    for (Lock* const handle : {&lock, &same}) {
      use_other_names(session);
      const AcquireOutcome got = handle->try_acquire(a);
      ASSERT_EQ(got.result, AcquireResult::acquired);
      EXPECT_GT(got.token, last) << "tokens of a name grow";
      last = got.token;
      EXPECT_TRUE(lock.is_current(got.token));
      EXPECT_EQ((handle == &lock ? same : lock).try_acquire(b).result, AcquireResult::busy) << "it is one lock";
      EXPECT_EQ(handle->release(a).result, ReleaseResult::released);
      {
        use_other_names(session);
        const std::scoped_lock hold{*handle};
        EXPECT_GT(handle->token(), last);
        last = handle->token();
        EXPECT_FALSE(handle->lost());
      }
    }
  }
  // Whichever of the two made it anew, it is as it was.
  Session third{segment_};
  EXPECT_THROW((Lock{third, "deploy", {.stale_threshold = 20s}}), Error);
  EXPECT_NO_THROW((Lock{third, "deploy", {.stale_threshold = 10s}}));
}

TEST_F(NamesFace, AHandleThatWasMovedFromSaysSo) {
  Session session{segment_};
  Lock lock{session, "deploy"};
  Semaphore pool{session, "pool", {.capacity = 2}};
  SharedLock tree{session, "tree"};
  Permit permit{pool};
  const Lock moved_lock = std::move(lock);
  const Semaphore moved_pool = std::move(pool);
  const SharedLock moved_tree = std::move(tree);
  const auto refuses = [](auto&& use) {
    try {
      use();
    } catch (const Error& e) {
      return e.errc() == Errc::invalid_argument && std::string(e.what()).find("moved from") != std::string::npos;
    }
    return false;
  };
  EXPECT_TRUE(refuses([&] { lock.lock(); }));
  EXPECT_TRUE(refuses([&] { (void)lock.try_acquire(a); }));
  EXPECT_TRUE(refuses([&] { (void)lock.holder(); }));
  EXPECT_TRUE(refuses([&] { (void)pool.try_acquire(a); }));
  EXPECT_TRUE(refuses([&] { pool.resize(3); }));
  EXPECT_TRUE(refuses([&] { const Permit another(pool); }));
  EXPECT_TRUE(refuses([&] { tree.lock_shared(); }));
  EXPECT_TRUE(refuses([&] { tree.downgrade(); }));
  std::error_code ec;
  (void)lock.release(a, ec);
  EXPECT_EQ(ec, Errc::invalid_argument);
  EXPECT_EQ(moved_pool.used(), 1U) << "a permit goes with its semaphore";
  permit.release();
  EXPECT_EQ(moved_pool.used(), 0U);
}

TEST_F(NamesFace, WhatIsHeldOrAwaitedStays) {
  Session session{segment_};
  Session other{segment_};
  Lock lock{session, "deploy"};
  const AcquireOutcome got = lock.try_acquire(a);
  ASSERT_TRUE(got);
  Lock waiting{other, "deploy"};
  const int fd = waiting.wait_fd(b);
  ASSERT_GE(fd, 0);
  use_other_names(session);
  EXPECT_TRUE(lock.stands(a, got.token));
  EXPECT_TRUE(lock.is_current(got.token));
  ASSERT_EQ(lock.release(a).result, ReleaseResult::released);
  use_other_names(session);
  EXPECT_TRUE(waiting.acquire(b, {}, 10s));
}

TEST_F(NamesFace, WithEveryNameHeldTheErrorSaysSo) {
  Session session{segment_};
  std::vector<std::unique_ptr<Lock>> locks;
  for (int i = 0; i < 64; ++i) {
    locks.push_back(std::make_unique<Lock>(session, "held-" + std::to_string(i)));
    ASSERT_TRUE(locks.back()->try_acquire(a));
  }
  std::error_code ec;
  EXPECT_FALSE(Lock::attach(session, "one-too-many", {}, ec));
  EXPECT_EQ(ec, Errc::table_full);
  ASSERT_EQ(locks.front()->release(a).result, ReleaseResult::released);
  EXPECT_TRUE(Lock::attach(session, "one-too-many", {}, ec));
  // The released name has no record now, and no room for one either, until another is given back.
  EXPECT_FALSE(locks.front()->holder());
  ASSERT_TRUE(locks.front()->try_acquire(a));
}

TEST_F(NamesFace, NamesHeldByTheDeadMakeRoom) {
  Child child([&](int ready) {
    auto segment = Segment::open(name_);
    Session session{segment};
    std::vector<std::unique_ptr<Lock>> locks;
    for (int i = 0; i < 64; ++i) {
      locks.push_back(std::make_unique<Lock>(session, "held-" + std::to_string(i)));
      (void)locks.back()->try_acquire(a);
    }
    say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(child.next(), 'h');
  child.kill(SIGKILL);
  child.wait();
  Session session{segment_};
  Lock lock{session, "another"};
  EXPECT_TRUE(lock.try_acquire(a));
}

// C-52: of two hundred names that come and go, the one whose holder was killed is kept, since somebody has to be told.
TEST_F(NamesFace, NewsOfADeathOutliveOtherNames) {
  Child child([&](int ready) {
    auto segment = Segment::open(name_);
    Session session{segment};
    Lock lock{session, "deploy"};
    (void)lock.try_acquire(a);
    say(ready, 'h');
    ::pause();
  });
  ASSERT_EQ(child.next(), 'h');
  child.kill(SIGKILL);
  child.wait();
  Session session{segment_};
  use_other_names(session);
  Lock lock{session, "deploy"};
  const AcquireOutcome got = lock.try_acquire(b);
  ASSERT_TRUE(got);
  ASSERT_TRUE(got.previous);
  EXPECT_EQ(got.previous->holder, a.str());
}

// Many processes on more names than there is room for: nobody is ever inside a lock together with another.
TEST_F(NamesFace, ExclusionHoldsWhileNamesComeAndGo) {
  constexpr std::size_t names = 200;
  struct Shared {
    std::array<std::atomic<int>, names> inside;
    std::array<std::uint64_t, names> count;
    std::array<std::uint64_t, names> token;
  };
  auto* const shared =
      static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(shared), MAP_FAILED);
  const int rounds = test::long_form() ? 500'000 : 5'000;
  constexpr unsigned processes = 4;
  {
    std::vector<std::unique_ptr<Child>> children;
    for (unsigned p = 0; p < processes; ++p) {
      children.push_back(std::make_unique<Child>([&, p](int ready) {
        auto segment = Segment::open(name_);
        Session session{segment};
        std::minstd_rand random(p + 1);
        std::vector<std::optional<Lock>> kept(names);  // handles that live long, beside those of one use
        for (int i = 0; i < rounds; ++i) {
          const std::size_t n = random() % names;
          std::optional<Lock> once;
          std::optional<Lock>& lock = n % 2 == 0 ? kept[n] : once;
          if (!lock) lock.emplace(session, "n" + std::to_string(n));
          const std::scoped_lock hold{*lock};
          if (shared->inside[n].fetch_add(1) != 0) say(ready, '2');
          if (lock->token() <= shared->token[n]) say(ready, 't');
          shared->token[n] = lock->token();
          ++shared->count[n];
          shared->inside[n].fetch_sub(1);
        }
        say(ready, 'd');
      }));
    }
    for (const auto& child : children) EXPECT_EQ(child->next(), 'd') << "2: two inside, t: a token that did not grow";
  }
  std::uint64_t all = 0;
  for (const std::uint64_t count : shared->count) all += count;
  EXPECT_EQ(all, processes * static_cast<std::uint64_t>(rounds));
  ::munmap(shared, sizeof(Shared));
}

}  // namespace
}  // namespace shmcoord
