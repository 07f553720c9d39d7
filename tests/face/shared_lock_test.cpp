#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "support/face_fixture.hpp"

// Readers and writers, alone and with other processes.

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using testing::Child;
using testing::say;

class SharedLockFace : public testing::FaceTest {};

Errc error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.errc();
  }
  return Errc{};
}

TEST_F(SharedLockFace, ReadersShareAndWritersExclude) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  Session other_session{segment_};
  SharedLock other{other_session, "tree"};
  Lock exclusive{other_session, "tree"};
  {
    const std::shared_lock reads{tree};
    EXPECT_GE(tree.token(), 1U);
    EXPECT_TRUE(std::shared_lock(other, std::try_to_lock).owns_lock());
    EXPECT_FALSE(std::unique_lock(other, std::try_to_lock).owns_lock());
    EXPECT_FALSE(exclusive.try_lock()) << "a Lock of the same name is the same lock";
  }
  EXPECT_EQ(tree.token(), 0U);
  {
    const std::unique_lock writes{tree};
    EXPECT_FALSE(std::shared_lock(other, std::try_to_lock).owns_lock());
    EXPECT_FALSE(other.try_lock_shared_for(5ms));
    EXPECT_FALSE(other.try_lock_until(std::chrono::steady_clock::now() + 5ms));
  }
  const std::scoped_lock holds{exclusive};
  EXPECT_FALSE(tree.try_lock_shared());
}

TEST_F(SharedLockFace, LockingTwiceInOneThreadThrows) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  tree.lock_shared();
  EXPECT_EQ(error_of([&] { tree.lock_shared(); }), Errc::deadlock);
  EXPECT_EQ(error_of([&] { tree.lock(); }), Errc::deadlock);
  EXPECT_FALSE(tree.try_lock());
  tree.unlock_shared();
  tree.lock();
  EXPECT_EQ(error_of([&] { tree.lock_shared(); }), Errc::deadlock);
  tree.unlock();
}

// S3-15: readers who come after a waiting writer wait behind it.
TEST_F(SharedLockFace, AWriterIsNotStarved) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  tree.lock_shared();
  std::atomic<bool> wrote = false;
  std::jthread writer([&] {
    const std::unique_lock writes{tree};
    wrote = true;
  });
  until_waiting(1);
  std::jthread reader([&] {
    const std::shared_lock reads{tree};
    EXPECT_TRUE(wrote) << "a reader went past a waiting writer";
  });
  until_waiting(2);
  std::thread([&] { EXPECT_FALSE(tree.try_lock_shared()); }).join();
  tree.unlock_shared();
}

TEST_F(SharedLockFace, ADowngradeLetsInReadersAndNoWriter) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  Session other_session{segment_};
  SharedLock other{other_session, "tree"};
  tree.lock();
  const std::uint64_t token = tree.token();
  std::jthread reader([&] { const std::shared_lock reads{other}; });
  until_waiting(1);
  tree.downgrade();
  reader.join();
  EXPECT_EQ(tree.token(), token);
  EXPECT_FALSE(other.try_lock());
  EXPECT_TRUE(other.try_lock_shared());
  other.unlock_shared();
  tree.downgrade();  // is shared already
  tree.unlock_shared();
  EXPECT_TRUE(other.try_lock());
  other.unlock();
  EXPECT_EQ(error_of([&] { tree.downgrade(); }), Errc::invalid_argument) << "holds nothing";
}

TEST_F(SharedLockFace, AnUpgradeWaitsForTheOtherReadersBeforeAllOthers) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  Session other_session{segment_};
  SharedLock other{other_session, "tree"};
  Session third_session{segment_};
  SharedLock third{third_session, "tree"};
  tree.lock_shared();
  const std::uint64_t token = tree.token();
  EXPECT_TRUE(tree.try_upgrade());
  EXPECT_FALSE(other.try_lock_shared());
  EXPECT_TRUE(tree.try_upgrade()) << "has all of it already";
  tree.downgrade();
  other.lock_shared();
  EXPECT_FALSE(tree.try_upgrade());
  EXPECT_FALSE(tree.try_upgrade_for(5ms));
  EXPECT_EQ(tree.token(), token) << "the shared hold stays";
  std::atomic<bool> upgraded = false;
  std::jthread writer([&] {
    const std::unique_lock writes{third};
    EXPECT_TRUE(upgraded) << "a writer went past who upgrades";
  });
  until_waiting(1);
  std::jthread reader([&] {
    until_waiting(2);
    EXPECT_EQ(error_of([&] { other.upgrade(); }), Errc::deadlock) << "each would wait for the other";
    other.unlock_shared();
  });
  tree.upgrade();
  upgraded = true;
  EXPECT_EQ(tree.token(), token);
  tree.unlock();
}

TEST_F(SharedLockFace, ADowngradeOfWhatWasLostSaysSo) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  for (const bool writes : {false, true}) {
    if (writes) {
      tree.lock();
    } else {
      tree.lock_shared();
    }
    Lock::remove(session, "tree", true);
    EXPECT_TRUE(tree.lost());
    EXPECT_EQ(error_of([&] { tree.downgrade(); }), Errc::session_dead);
    tree.unlock();
  }
}

TEST_F(SharedLockFace, ADeadReaderIsNotWaitedFor) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  for (const bool writes : {false, true}) {
    Child holder([&](int ready) {
      Session mine{segment_};
      SharedLock theirs{mine, "tree"};
      if (writes) {
        theirs.lock();
      } else {
        theirs.lock_shared();
      }
      say(ready, 'h');
      ::pause();
    });
    ASSERT_EQ(holder.next(), 'h');
    holder.kill(SIGKILL);
    ASSERT_TRUE(tree.try_lock_for(20s));
    ASSERT_TRUE(tree.previous());
    EXPECT_EQ(tree.previous()->why, Loss::died);
    tree.unlock();
  }
}

TEST_F(SharedLockFace, ReadersAndWritersOfManyThreads) {
  Session session{segment_};
  SharedLock tree{session, "tree"};
  std::int64_t written = 0;  // not atomic: the lock is what makes it right
  std::atomic<int> readers = 0;
  std::atomic<bool> wrong = false;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2'000; ++i) {
        if ((i + t) % 4 == 0) {
          const std::unique_lock writes{tree};
          if (readers != 0) wrong = true;
          ++written;
          if (i % 3 == 0) {
            tree.downgrade();
            ++readers;
            --readers;
          }
        } else {
          const std::shared_lock reads{tree};
          ++readers;
          if (written < 0) wrong = true;
          --readers;
        }
      }
    });
  }
  threads.clear();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(written, 2'000);
}

}  // namespace
}  // namespace shmcoord
