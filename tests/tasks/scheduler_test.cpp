#include "shmcoord/tasks/scheduler.hpp"

#include <stdexcept>

#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tasks/run_tasks.hpp"

// What S3 uses of its scheduler (S3-24).

namespace shmcoord::tasks {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using Story = std::vector<std::string>;

class SchedulerTest : public TasksTest {
 protected:
  static awaitable<int> later(std::chrono::nanoseconds after, int result) {
    co_await Scheduler::delay(after);
    co_return result;
  }
  static awaitable<int> fails() {
    throw std::domain_error("no");
    co_return 0;
  }
};

TEST_F(SchedulerTest, SpawnedTasksRunInTheirOrderAndNotAtOnce) {
  const auto say = [](Scheduler& scheduler, std::string what) -> awaitable<void> {
    scheduler.log(what);
    co_return;
  };
  (void)scheduler_.spawn(say(scheduler_, "one"));
  (void)scheduler_.spawn(say(scheduler_, "two"));
  EXPECT_TRUE(story_.empty());
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"one", "two"}));
  // Nor inside of the task that spawns it.
  story_.clear();
  const auto parent = [](Scheduler& scheduler, auto child) -> awaitable<void> {
    (void)scheduler.spawn(child(scheduler, "child"));
    scheduler.log("parent");
    co_return;
  };
  (void)scheduler_.spawn(parent(scheduler_, say));
  (void)scheduler_.spawn(say(scheduler_, "ready before the child"));
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"parent", "ready before the child", "child"}));
}

TEST_F(SchedulerTest, WaitGivesTheResultOrWhatItFailedWith) {
  const auto slow = scheduler_.spawn(later(1ms, 7));
  const auto bad = scheduler_.spawn(fails());
  EXPECT_FALSE(slow.done());
  EXPECT_THROW((void)slow.get(), std::logic_error);
  const auto waits = [](Task<int> good, Task<int> failed) -> awaitable<int> {
    const int got = co_await Scheduler::wait(good);
    EXPECT_EQ(co_await Scheduler::wait(good), got) << "as often as one likes";
    try {
      (void)co_await Scheduler::wait(failed);
      ADD_FAILURE();
    } catch (const std::domain_error& e) {
      EXPECT_STREQ(e.what(), "no");
    }
    co_return got;
  };
  EXPECT_EQ(run(waits(slow, bad)), 7);
  EXPECT_THROW((void)bad.get(), std::domain_error);
}

TEST_F(SchedulerTest, GatherKeepsTheOrderOfTheTasks) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 5; ++i) tasks.push_back(scheduler_.spawn(later(5ms - i * 1ms, i)));
  EXPECT_EQ(run(Scheduler::gather(tasks)), (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(run(Scheduler::gather(std::vector<Task<int>>{})), std::vector<int>{});
  tasks.insert(tasks.begin() + 1, scheduler_.spawn(fails()));
  EXPECT_THROW((void)run(Scheduler::gather(tasks)), std::domain_error);
}

TEST_F(SchedulerTest, RaceNamesTheFirstAndLetsTheOthersGoOn) {
  const Promise<int> never = Scheduler::promise<int>();
  const Task<int> slow = scheduler_.spawn(later(1h, 1));
  const std::vector<Future<int>> futures{slow, never.future(), scheduler_.spawn(later(1ms, 2))};
  const auto race = scheduler_.spawn(Scheduler::race(futures));
  while (!race.done()) context_.run_one();
  EXPECT_EQ(race.get(), 2U);
  EXPECT_EQ(futures[2].get(), 2);
  EXPECT_FALSE(slow.done());
  Scheduler::cancel(slow);
  EXPECT_THROW((void)run(Scheduler::race(std::vector<Task<int>>{})), std::invalid_argument);
}

TEST_F(SchedulerTest, APromiseIsKeptOnce) {
  Promise<std::string> promise = Scheduler::promise<std::string>();
  const auto one = scheduler_.spawn(Scheduler::wait(promise.future()));
  const auto two = scheduler_.spawn(Scheduler::wait(promise.future()));
  run_ready();
  EXPECT_FALSE(one.done());
  EXPECT_TRUE(promise.set_value("kept"));
  EXPECT_FALSE(promise.set_value("again"));
  EXPECT_FALSE(promise.set_exception(std::make_exception_ptr(std::domain_error("broken"))));
  run_ready();
  EXPECT_EQ(one.get(), "kept");
  EXPECT_EQ(two.get(), "kept");
  Promise<void> broken = Scheduler::promise<void>();
  EXPECT_TRUE(broken.set_exception(std::make_exception_ptr(std::domain_error("broken"))));
  EXPECT_THROW(run(Scheduler::wait(broken.future())), std::domain_error);
}

TEST_F(SchedulerTest, CancelReachesATaskWhereverItIsParked) {
  const CooperativeSemaphore none = scheduler_.create_semaphore(1);
  ASSERT_TRUE(none.try_acquire());
  const Promise<void> never = Scheduler::promise<void>();
  const auto raw = []() -> awaitable<void> {
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, 24h);
    co_await timer.async_wait(boost::asio::use_awaitable);
  };
  std::vector<Task<void>> tasks;
  tasks.push_back(scheduler_.spawn(Scheduler::delay(24h)));
  tasks.push_back(scheduler_.spawn(Scheduler::wait(never.future())));
  tasks.push_back(scheduler_.spawn(none.acquire()));
  tasks.push_back(scheduler_.spawn(raw()));
  tasks.push_back(scheduler_.spawn(Scheduler::gather(std::vector<Task<void>>{tasks[0]})));
  run_ready();
  const auto not_begun = scheduler_.spawn(later(0ms, 1));
  Scheduler::cancel(not_begun);
  for (const auto& task : tasks) Scheduler::cancel(task);
  run_ready();
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_TRUE(tasks[i].done()) << i;
    EXPECT_THROW(tasks[i].get(), TaskCancelledError) << i;
  }
  EXPECT_THROW((void)not_begun.get(), TaskCancelledError);
  EXPECT_THROW(run(Scheduler::wait<void>(tasks[0])), TaskCancelledError) << "told to whoever waits for it";
  Scheduler::cancel(tasks[0]);
}

// To code that knows only Asio it is an aborted operation.
TEST_F(SchedulerTest, ACancelledTaskIsAnAbortedOperationToAsio) {
  const auto task = scheduler_.spawn(Scheduler::delay(24h));
  run_ready();
  Scheduler::cancel(task);
  run_ready();
  try {
    task.get();
    ADD_FAILURE();
  } catch (const boost::system::system_error& e) {
    EXPECT_EQ(e.code(), boost::asio::error::operation_aborted);
  }
}

TEST_F(SchedulerTest, ATaskRunsOnWithoutItsHandle) {
  const auto work = [](Scheduler& scheduler) -> awaitable<void> {
    co_await Scheduler::delay(1ms);
    scheduler.log("done");
  };
  (void)scheduler_.spawn(work(scheduler_));
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"done"}));
}

TEST(SchedulerAlone, CancellingATaskWhoseContextIsGoneDoesNothing) {
  std::optional<Task<void>> task;
  {
    boost::asio::io_context context;
    Scheduler scheduler(context.get_executor());
    task = scheduler.spawn([]() -> awaitable<void> { co_await Scheduler::delay(1h); }());
    context.poll();
  }
  Scheduler::cancel(*task);
  EXPECT_FALSE(task->done());
}

}  // namespace
}  // namespace shmcoord::tasks
