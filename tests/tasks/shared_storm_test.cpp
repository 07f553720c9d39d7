#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "support/face_fixture.hpp"
#include "support/process_child.hpp"
#include "tasks/run_tasks.hpp"

// Ten thousand coroutines of one thread share a semaphore of eight with processes that are killed while they hold. All
// of it with the few descriptors that a process can spare.

namespace shmcoord::tasks {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using shmcoord::testing::Child;
using shmcoord::testing::say;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all))) - 1;  // without the one that reads them
}

/// No more than so many descriptors may be open, until the end of the test.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(std::size_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = most;
    ::setrlimit(RLIMIT_NOFILE, &now);
  }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

struct Books {
  unsigned inside = 0;
  unsigned most_inside = 0;
  unsigned served = 0;
  std::size_t most_descriptors = 0;
};

awaitable<void> worker(AsyncSemaphore& pool, Semaphore& semaphore, Books& books) {
  const auto permit = co_await pool.async_permit();
  EXPECT_EQ(permit.outcome().result, PermitResult::acquired);
  books.most_inside = std::max(books.most_inside, ++books.inside);
  if (books.served % 100 == 0) {
    books.most_descriptors = std::max(books.most_descriptors, open_descriptors());
    EXPECT_LE(semaphore.used(), 8U);
  }
  co_await Scheduler::delay(0ns);  // others run while it is inside
  --books.inside;
  ++books.served;
}

class SharedTasksStorm : public WithTasks<shmcoord::testing::FaceTest> {};

TEST_F(SharedTasksStorm, TenThousandCoroutinesShareEightPermitsWithProcessesThatDie) {
  constexpr unsigned coroutines = 10'000;
  constexpr std::size_t first_children = 24;
  constexpr int later_children = 10;
  // Each says that it holds, and goes on holding until it is killed.
  const auto child_holds = [this](int ready) {
    Session mine{segment_};
    Semaphore pool{mine, "pool", {.capacity = 8}};
    const bool got = static_cast<bool>(pool.acquire(HolderId{"child"}));
    say(ready, got ? 'h' : 'x');
    ::pause();
  };
  std::vector<std::unique_ptr<Child>> children;
  for (std::size_t i = 0; i < first_children; ++i) {  // one after the other, so that they hold in this order
    children.push_back(std::make_unique<Child>(child_holds));
    if (i < 8) {
      ASSERT_EQ(children.back()->next(), 'h');
    } else {
      until_waiting(i - 7);
    }
  }
  Session session{segment_};
  Semaphore semaphore{session, "pool", {.capacity = 8}};
  AsyncSemaphore pool{semaphore};
  ASSERT_EQ(semaphore.available(), 0U);
  Books books;
  std::vector<Task<void>> tasks;
  for (unsigned i = 0; i < coroutines; ++i) tasks.push_back(scheduler_.spawn(worker(pool, semaphore, books)));
  const std::size_t before = open_descriptors();
  const DescriptorLimit limit(before + 48);
  run_ready();
  EXPECT_EQ(waiters(), first_children - 8 + 16);
  EXPECT_EQ(pool.queued(), coroutines - 16);
  EXPECT_EQ(books.served, 0U) << "all permits are with the children";
  int killed = 0;
  std::jthread killer([&] {
    const auto end = [&](Child& child, bool known_to_hold = false) {
      if (!known_to_hold) {
        EXPECT_EQ(child.next(), 'h');
      }
      child.kill(SIGKILL);
      child.wait();
      ++killed;
    };
    for (std::size_t i = 0; i < children.size(); ++i) end(*children[i], i < 8);
    // And some who come from outside, while the coroutines pass permits on: they get their turn.
    for (int i = 0; i < later_children; ++i) {
      Child late(child_holds);
      end(late);
    }
  });
  EXPECT_TRUE(run()) << books.served << " of them were served";
  killer.join();
  for (const Task<void>& task : tasks) {
    ASSERT_TRUE(task.done());
    ASSERT_NO_THROW(task.get());
  }
  EXPECT_EQ(books.served, coroutines);
  EXPECT_EQ(books.inside, 0U);
  EXPECT_GT(books.most_inside, 1U);
  EXPECT_LE(books.most_inside, 8U);
  EXPECT_EQ(killed, static_cast<int>(first_children) + later_children);
  EXPECT_EQ(waiters(), 0U);
  EXPECT_LE(books.most_descriptors, before + 2 * 16 + 8) << "two for a wait, and what it takes to start a child";
  EXPECT_TRUE(test::eventually([&] { return semaphore.available() == 8; })) << "every permit came back";
  std::cout << "most inside " << books.most_inside << ", most descriptors beyond those before "
            << books.most_descriptors - before << "\n";
}

// Half of ten thousand waiters give up, in any place of the queue; those who stay are served, and nothing is lost.
TEST_F(SharedTasksStorm, ThousandsThatGiveUpLoseNothing) {
  Session session{segment_};
  Session others{segment_};
  Semaphore semaphore{session, "pool", {.capacity = 2}};
  Semaphore theirs{others, "pool"};
  AsyncSemaphore pool{semaphore};
  const HolderId other{"other"};
  ASSERT_TRUE(theirs.try_acquire(other, 2));
  Books books;
  std::vector<Task<void>> tasks;
  for (unsigned i = 0; i < 10'000; ++i) tasks.push_back(scheduler_.spawn(worker(pool, semaphore, books)));
  run_ready();
  unsigned cancelled = 0;
  for (std::size_t i = 0; i < tasks.size(); i += 2, ++cancelled) Scheduler::cancel(tasks[i]);
  theirs.release(other);  // handed to two that are cancelled just now
  ASSERT_TRUE(run());
  EXPECT_EQ(books.served, tasks.size() - cancelled);
  EXPECT_THROW(tasks[0].get(), TaskCancelledError);
  EXPECT_EQ(semaphore.available(), 2U);
  EXPECT_EQ(waiters(), 0U);
}

}  // namespace
}  // namespace shmcoord::tasks
