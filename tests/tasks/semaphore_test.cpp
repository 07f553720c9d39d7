#include "shmcoord/tasks/semaphore.hpp"

#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>

#include "tasks/run_tasks.hpp"

// The cooperative semaphore as SPEC-EFF-014 has it: S3-1 to S3-21, C-31 to C-37.

namespace shmcoord::tasks {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using Story = std::vector<std::string>;

class CooperativeSemaphoreTest : public TasksTest {
 protected:
  /// Acquires and says so; keeps the permit.
  static awaitable<void> take(Scheduler& scheduler, CooperativeSemaphore semaphore, std::string name) {
    co_await semaphore.acquire();
    scheduler.log(name);
  }
  /// The same without being a handle while it is parked.
  static awaitable<void> take_by_reference(const CooperativeSemaphore& semaphore) { co_await semaphore.acquire(); }
  static awaitable<bool> take_within(CooperativeSemaphore semaphore, std::chrono::nanoseconds timeout) {
    co_return co_await semaphore.acquire_for(timeout);
  }
  static awaitable<void> fail_inside(CooperativeSemaphore semaphore) {
    co_await semaphore.acquire();
    throw std::domain_error("inside");
  }
  static awaitable<void> fail_guarded(CooperativeSemaphore semaphore) {
    const CooperativePermit permit = co_await semaphore.acquire_permit();
    throw std::domain_error("inside");
  }
  static awaitable<void> hold_for_ever(CooperativeSemaphore semaphore) {
    const CooperativePermit permit = co_await semaphore.acquire_permit();
    co_await Scheduler::delay(24h);
  }
};

// S3-9, S3-10, S3-18.
TEST_F(CooperativeSemaphoreTest, IsMadeByTheSchedulerWithAnIdOfItsOwn) {
  static_assert(!std::is_default_constructible_v<CooperativeSemaphore>);
  static_assert(!std::is_assignable_v<decltype(std::declval<CooperativeSemaphore&>().id()), std::int64_t>);
  const CooperativeSemaphore one = scheduler_.create_semaphore(1);
  const CooperativeSemaphore three = scheduler_.create_semaphore(3);
  EXPECT_NE(one.id(), three.id());
  EXPECT_EQ(CooperativeSemaphore(one).id(), one.id());
  EXPECT_EQ(three.permits(), 3);
  EXPECT_EQ(three.available(), 3);
  for (const int wrong : {0, -1}) {
    try {
      (void)scheduler_.create_semaphore(wrong);
      ADD_FAILURE();
    } catch (const std::invalid_argument& e) {
      EXPECT_STREQ(e.what(), "permits must be >= 1");
    }
  }
}

// S3-6, step by step: what is ready runs between the steps, so that each state can be looked at.
TEST_F(CooperativeSemaphoreTest, TheDiagramOfAAndB) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  const Promise<void> a_leaves = Scheduler::promise<void>();
  const Promise<void> b_leaves = Scheduler::promise<void>();
  const auto task = [](Scheduler& scheduler, CooperativeSemaphore sem, std::string name,
                       Future<void> leave) -> awaitable<void> {
    co_await sem.acquire();
    scheduler.log(name + " critical section");
    co_await Scheduler::wait(leave);
    sem.release();
  };
  const auto a = scheduler_.spawn(task(scheduler_, semaphore, "A", a_leaves.future()));
  run_ready();
  EXPECT_EQ(semaphore.available(), 0) << "A has it";
  const auto b = scheduler_.spawn(task(scheduler_, semaphore, "B", b_leaves.future()));
  run_ready();
  EXPECT_EQ(semaphore.waiting(), 1U) << "B is parked";
  EXPECT_EQ(story_, (Story{"A critical section"}));
  a_leaves.set_value();
  run_ready();
  EXPECT_TRUE(a.done());
  EXPECT_EQ(semaphore.available(), 0) << "handed over, not given back";
  EXPECT_EQ(story_, (Story{"A critical section", "B critical section"}));
  b_leaves.set_value();
  run_ready();
  EXPECT_TRUE(b.done());
  EXPECT_EQ(semaphore.available(), 1);
}

// S3-3: a task that is parked stops nobody else.
TEST_F(CooperativeSemaphoreTest, AParkedTaskDoesNotBlockTheThread) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  ASSERT_TRUE(semaphore.try_acquire());
  const auto parked = scheduler_.spawn(take(scheduler_, semaphore, "parked"));
  const auto other = [](Scheduler& scheduler, CooperativeSemaphore sem) -> awaitable<void> {
    for (int i = 0; i < 3; ++i) co_await Scheduler::delay(1ms);
    scheduler.log("other");
    sem.release();
  };
  run(other(scheduler_, semaphore));
  run_ready();
  EXPECT_TRUE(parked.done());
  EXPECT_EQ(story_, (Story{"other", "parked"})) << "and released by another task than its holder";
}

// S3-5, S3-15: also when some in between give up.
TEST_F(CooperativeSemaphoreTest, ServesInTheOrderOfAsking) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(2);
  ASSERT_TRUE(semaphore.try_acquire());
  ASSERT_TRUE(semaphore.try_acquire());
  std::vector<Task<void>> tasks;
  for (int i = 0; i < 9; ++i) tasks.push_back(scheduler_.spawn(take(scheduler_, semaphore, std::to_string(i))));
  run_ready();
  ASSERT_EQ(semaphore.waiting(), 9U);
  for (const std::size_t gone : {0U, 4U, 5U, 8U}) Scheduler::cancel(tasks[gone]);  // head, middle twice, tail
  run_ready();
  ASSERT_EQ(semaphore.waiting(), 5U);
  tasks.push_back(scheduler_.spawn(take(scheduler_, semaphore, "late")));
  run_ready();
  for (int i = 0; i < 6; ++i) {
    semaphore.release();
    run_ready();
  }
  EXPECT_EQ(story_, (Story{"1", "2", "3", "6", "7", "late"}));
  EXPECT_EQ(semaphore.available(), 0);
}

TEST_F(CooperativeSemaphoreTest, SeveralReleasesAtOnceWakeInTheOrderOfAsking) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(semaphore.try_acquire());
  for (int i = 0; i < 4; ++i) (void)scheduler_.spawn(take(scheduler_, semaphore, std::to_string(i)));
  run_ready();
  for (int i = 0; i < 3; ++i) semaphore.release();
  EXPECT_EQ(semaphore.available(), 0);
  run_ready();
  EXPECT_EQ(story_, (Story{"0", "1", "2"}));
}

// S3-14: between the release and the resumption nobody gets in, neither by a try nor by asking properly.
TEST_F(CooperativeSemaphoreTest, NobodyStealsAPermitThatWasHandedOver) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  ASSERT_TRUE(semaphore.try_acquire());
  (void)scheduler_.spawn(take(scheduler_, semaphore, "first"));
  run_ready();
  const auto thief = [](Scheduler& scheduler, CooperativeSemaphore sem) -> awaitable<void> {
    sem.release();  // `first` has it, and did not run yet
    EXPECT_EQ(sem.available(), 0);
    EXPECT_FALSE(sem.try_acquire());
    EXPECT_FALSE(co_await sem.acquire_for(0ns));
    co_await sem.acquire();
    scheduler.log("thief");
  };
  (void)scheduler_.spawn(thief(scheduler_, semaphore));
  run_ready();
  EXPECT_EQ(story_, (Story{"first"}));
  semaphore.release();
  run_ready();
  EXPECT_EQ(story_, (Story{"first", "thief"}));
}

// C-35: a try does not overtake those who wait, also in the moment in which one of them was given up.
TEST_F(CooperativeSemaphoreTest, ATryDoesNotOvertake) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  EXPECT_TRUE(semaphore.try_acquire());
  EXPECT_FALSE(semaphore.try_acquire());
  (void)scheduler_.spawn(take(scheduler_, semaphore, "waits"));
  run_ready();
  EXPECT_FALSE(semaphore.try_acquire());
  semaphore.release();
  run_ready();
  semaphore.release();
  EXPECT_TRUE(semaphore.try_acquire());
}

// S3-16.
TEST_F(CooperativeSemaphoreTest, ACancelledWaiterLeavesTheQueueAndTakesNothing) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  ASSERT_TRUE(semaphore.try_acquire());
  const auto waiter = [](Scheduler& scheduler, CooperativeSemaphore sem) -> awaitable<void> {
    try {
      co_await sem.acquire();
      scheduler.log("got it");
    } catch (const TaskCancelledError&) {
      scheduler.log("TaskCancelledError");
      throw;
    }
  };
  const auto cancelled = scheduler_.spawn(waiter(scheduler_, semaphore));
  run_ready();
  ASSERT_EQ(semaphore.waiting(), 1U);
  Scheduler::cancel(cancelled);
  run_ready();
  EXPECT_EQ(semaphore.waiting(), 0U);
  EXPECT_EQ(story_, (Story{"TaskCancelledError"}));
  EXPECT_THROW(cancelled.get(), TaskCancelledError);
  semaphore.release();
  EXPECT_EQ(semaphore.available(), 1) << "no permit was consumed";
}

// The hand-over and the cancellation meet: the permit goes on to the next task, or back.
TEST_F(CooperativeSemaphoreTest, ATaskCancelledAfterTheHandOverPassesThePermitOn) {
  for (const bool guarded : {false, true}) {
    for (const bool somebody_behind : {true, false}) {
      story_.clear();
      const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
      ASSERT_TRUE(semaphore.try_acquire());
      const auto first = scheduler_.spawn(guarded ? hold_for_ever(semaphore) : take(scheduler_, semaphore, "first"));
      run_ready();
      if (somebody_behind) (void)scheduler_.spawn(take(scheduler_, semaphore, "second"));
      run_ready();
      semaphore.release();
      Scheduler::cancel(first);
      EXPECT_EQ(semaphore.available(), 0) << "it is the first one's until that one ends";
      run_ready();
      EXPECT_THROW(first.get(), TaskCancelledError);
      EXPECT_EQ(story_, somebody_behind ? Story{"second"} : Story{});
      EXPECT_EQ(semaphore.available(), somebody_behind ? 0 : 1);
    }
  }
}

// And the other way round: cancelled, and handed a permit before it ran to leave. It is out of the queue only when it
// runs, so the permit must go on.
TEST_F(CooperativeSemaphoreTest, ATaskHandedAPermitAfterItsCancellationPassesItOn) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  ASSERT_TRUE(semaphore.try_acquire());
  const auto first = scheduler_.spawn(take(scheduler_, semaphore, "first"));
  (void)scheduler_.spawn(take(scheduler_, semaphore, "second"));
  run_ready();
  Scheduler::cancel(first);
  semaphore.release();
  run_ready();
  EXPECT_THROW(first.get(), TaskCancelledError);
  EXPECT_EQ(story_, (Story{"second"}));
}

// S3-17, C-34: judged as available == max and nobody waiting.
TEST_F(CooperativeSemaphoreTest, OneReleaseTooManyIsAnErrorAndChangesNothing) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(2);
  const auto too_many = [&] {
    try {
      semaphore.release();
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "semaphore released too many times");
    }
    EXPECT_EQ(semaphore.available(), 2);
  };
  too_many();
  ASSERT_TRUE(semaphore.try_acquire());
  semaphore.release();
  too_many();
}

// S3-19, C-33: no ownership, no automatic give-back. S3-20: the guard gives back.
TEST_F(CooperativeSemaphoreTest, AFailedTaskLeaksItsPermitUnlessItHadAGuard) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(3);
  EXPECT_THROW(run(fail_inside(semaphore)), std::domain_error);
  EXPECT_EQ(semaphore.available(), 2) << "leaked";
  const auto cancelled = [](CooperativeSemaphore sem) -> awaitable<void> {
    co_await sem.acquire();
    co_await Scheduler::delay(24h);
  };
  const auto task = scheduler_.spawn(cancelled(semaphore));
  run_ready();
  Scheduler::cancel(task);
  run_ready();
  EXPECT_THROW(task.get(), TaskCancelledError);
  EXPECT_EQ(semaphore.available(), 1) << "leaked as well";
  EXPECT_THROW(run(fail_guarded(semaphore)), std::domain_error);
  EXPECT_EQ(semaphore.available(), 1) << "given back";
  const auto guarded = scheduler_.spawn(hold_for_ever(semaphore));
  run_ready();
  EXPECT_EQ(semaphore.available(), 0);
  Scheduler::cancel(guarded);
  run_ready();
  EXPECT_EQ(semaphore.available(), 1);
}

TEST_F(CooperativeSemaphoreTest, AGuardMovesAndGivesBackOnce) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(2);
  const auto work = [](CooperativeSemaphore sem) -> awaitable<void> {
    CooperativePermit one = co_await sem.acquire_permit();
    auto two = co_await sem.acquire_permit_for(1ms);
    EXPECT_TRUE(two.has_value());
    EXPECT_EQ(sem.available(), 0);
    EXPECT_FALSE((co_await sem.acquire_permit_for(1ms)).has_value());
    one = *std::move(two);
    EXPECT_EQ(sem.available(), 1);
    one.release();
    one.release();
    EXPECT_EQ(sem.available(), 2);
  };
  run(work(semaphore));
  EXPECT_EQ(semaphore.available(), 2);
}

// S3-25, C-36.
TEST_F(CooperativeSemaphoreTest, ATimedAcquireThatIsLateTakesNothing) {
  const CooperativeSemaphore semaphore = scheduler_.create_semaphore(1);
  EXPECT_TRUE(run(take_within(semaphore, 0ns)));
  EXPECT_FALSE(run(take_within(semaphore, 0ns)));
  EXPECT_FALSE(run(take_within(semaphore, 5ms)));
  EXPECT_EQ(semaphore.waiting(), 0U);
  const auto in_time = scheduler_.spawn(take_within(semaphore, 1h));
  const auto forever = scheduler_.spawn(take_within(semaphore, std::chrono::nanoseconds::max()));
  run_ready();
  semaphore.release();
  run_ready();
  EXPECT_TRUE(in_time.get());
  EXPECT_FALSE(forever.done());
  semaphore.release();
  run_ready();
  EXPECT_TRUE(forever.get());
}

// S3-21: a parked task is no handle; nobody could wake it any more, and so it is told.
TEST_F(CooperativeSemaphoreTest, TheLastHandleEndsWhatIsParked) {
  auto semaphore = std::make_unique<CooperativeSemaphore>(scheduler_.create_semaphore(1));
  ASSERT_TRUE(semaphore->try_acquire());
  const auto granted = scheduler_.spawn(take_by_reference(*semaphore));
  const auto first = scheduler_.spawn(take_by_reference(*semaphore));
  const auto second = scheduler_.spawn(take_by_reference(*semaphore));
  run_ready();
  ASSERT_EQ(semaphore->waiting(), 3U);
  semaphore->release();
  semaphore.reset();
  run_ready();
  EXPECT_NO_THROW(granted.get()) << "it had its permit";
  for (const auto& task : {first, second}) {
    ASSERT_TRUE(task.done());
    try {
      task.get();
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "semaphore dropped while waited for");
    }
  }
}

TEST_F(CooperativeSemaphoreTest, APermitIsAHandle) {
  auto semaphore = std::make_unique<CooperativeSemaphore>(scheduler_.create_semaphore(1));
  const auto holder = scheduler_.spawn(hold_for_ever(*semaphore));
  run_ready();
  const auto waits = scheduler_.spawn(take_by_reference(*semaphore));
  run_ready();
  semaphore.reset();
  run_ready();
  EXPECT_FALSE(waits.done());
  Scheduler::cancel(holder);
  run_ready();
  EXPECT_NO_THROW(waits.get());
}

// Tasks that are parked, handed a permit or holding one when their context goes: nothing is touched that is gone.
TEST(CooperativeSemaphoreEnd, TheContextMayGoFirst) {
  std::optional<CooperativeSemaphore> left;
  {
    boost::asio::io_context context;
    Scheduler scheduler(context.get_executor());
    CooperativeSemaphore semaphore = scheduler.create_semaphore(2);
    const auto holds = [](CooperativeSemaphore sem) -> awaitable<void> {
      const CooperativePermit permit = co_await sem.acquire_permit();
      co_await Scheduler::delay(24h);
    };
    for (int i = 0; i < 5; ++i) (void)scheduler.spawn(holds(semaphore));
    ASSERT_TRUE(semaphore.try_acquire());
    context.poll();
    ASSERT_EQ(semaphore.waiting(), 4U);
    semaphore.release();
    left = semaphore;
  }
  EXPECT_EQ(left->available(), 2) << "guards and waiters gave everything back";
  EXPECT_EQ(left->waiting(), 0U);
}

// S3-7: producer and consumer, with two semaphores and a bounded buffer.
TEST_F(CooperativeSemaphoreTest, ProducerAndConsumer) {
  const CooperativeSemaphore room = scheduler_.create_semaphore(4);
  const CooperativeSemaphore items = scheduler_.create_semaphore(4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(items.try_acquire());  // none yet
  std::vector<int> buffer;
  const auto produce = [](CooperativeSemaphore space, CooperativeSemaphore filled,
                          std::vector<int>& into) -> awaitable<void> {
    for (int i = 0; i < 100; ++i) {
      co_await space.acquire();
      into.push_back(i);
      filled.release();
    }
  };
  const auto consume = [](CooperativeSemaphore space, CooperativeSemaphore filled,
                          std::vector<int>& from) -> awaitable<int> {
    int sum = 0;
    for (int i = 0; i < 100; ++i) {
      co_await filled.acquire();
      EXPECT_LE(from.size(), 4U);
      sum += from.front();
      from.erase(from.begin());
      space.release();
    }
    co_return sum;
  };
  (void)scheduler_.spawn(produce(room, items, buffer));
  EXPECT_EQ(run(consume(room, items, buffer)), 4950);
}

// Every sequence of steps against the plain words of S3: a counter and a list of names.
TEST_F(CooperativeSemaphoreTest, AgreesWithTheSpecificationOnRandomHistories) {
  unsigned random = 4711;
  const auto next = [&random](unsigned below) { return (random = random * 1664525U + 1013904223U) / 65536U % below; };
  for (int round = 0; round < 200; ++round) {
    story_.clear();
    const int permits = 1 + static_cast<int>(next(3));
    const CooperativeSemaphore semaphore = scheduler_.create_semaphore(permits);
    int available = permits;
    std::vector<std::pair<std::string, Task<void>>> waiting;
    Story expected;
    for (int step = 0; step < 60; ++step) {
      switch (next(4)) {
        case 0:
        case 1: {
          const std::string name = std::to_string(step);
          Task<void> task = scheduler_.spawn(take(scheduler_, semaphore, name));
          run_ready();
          if (available > 0) {
            --available;
            expected.push_back(name);
          } else {
            waiting.emplace_back(name, task);
          }
          break;
        }
        case 2:
          if (available == permits && waiting.empty()) {
            EXPECT_THROW(semaphore.release(), std::runtime_error);
          } else {
            semaphore.release();
            if (waiting.empty()) {
              ++available;
            } else {
              expected.push_back(waiting.front().first);
              waiting.erase(waiting.begin());
            }
          }
          break;
        default:
          if (waiting.empty()) break;
          const auto gone = waiting.begin() + static_cast<std::ptrdiff_t>(next(static_cast<unsigned>(waiting.size())));
          Scheduler::cancel(gone->second);
          waiting.erase(gone);
      }
      run_ready();
      ASSERT_EQ(semaphore.available(), available) << "round " << round << ", step " << step;
      ASSERT_EQ(semaphore.waiting(), waiting.size());
      ASSERT_EQ(story_, expected);
    }
    for (const auto& [name, task] : waiting) Scheduler::cancel(task);
    run_ready();
  }
}

}  // namespace
}  // namespace shmcoord::tasks
