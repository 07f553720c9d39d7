#include "shmcoord/tasks/shared.hpp"

#include <unistd.h>

#include <optional>
#include <thread>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "support/face_fixture.hpp"
#include "tasks/run_tasks.hpp"

// Coroutines that wait for what other sessions and processes hold.

namespace shmcoord::tasks {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using shmcoord::testing::Child;
using shmcoord::testing::say;
using Story = std::vector<std::string>;

const HolderId a{"task:a"};
const HolderId b{"task:b"};
const HolderId other{"other"};

Errc error_of(const Task<PermitOutcome>& task) {
  try {
    (void)task.get();
  } catch (const Error& e) {
    return e.errc();
  }
  return Errc{};
}

/// One session for the coroutines, and another that holds what they wait for.
class SharedTasks : public WithTasks<shmcoord::testing::FaceTest> {
 protected:
  /// Runs tasks until so many wait in the segment's queue.
  void run_until_waiting(std::size_t count) {
    for (int i = 0; i < 60'000 && waiters() != count; ++i) {
      run_ready();
      std::this_thread::sleep_for(1ms);
    }
    ASSERT_EQ(waiters(), count);
  }
  Task<PermitOutcome> ask(const HolderId& holder, std::uint32_t weight = 1,
                          std::optional<std::chrono::nanoseconds> timeout = std::nullopt) {
    return scheduler_.spawn(pool_->async_acquire(holder, weight, {}, timeout));
  }
  static awaitable<void> hold_for_ever(AsyncSemaphore& pool, Scheduler& scheduler, std::string name) {
    const auto permit = co_await pool.async_permit();
    scheduler.log(name);
    co_await Scheduler::delay(24h);
  }
  void make(std::uint32_t capacity, int waits = 16) {
    semaphore_.emplace(session_, "pool", SemaphoreOptions{.capacity = capacity});
    theirs_.emplace(others_, "pool");
    pool_.emplace(*semaphore_, AsyncOptions{.waits = waits});
  }

  Session session_{segment_};
  Session others_{segment_};
  std::optional<Semaphore> semaphore_;
  std::optional<Semaphore> theirs_;
  std::optional<AsyncSemaphore> pool_;
};

TEST_F(SharedTasks, WhoClosesACircleIsTold) {
  Lock left{session_, "left"};
  Lock right{session_, "right"};
  AsyncLock waits_left{left};
  AsyncLock waits_right{right};
  ASSERT_TRUE(left.try_acquire(a));
  ASSERT_TRUE(right.try_acquire(b));
  const auto older = scheduler_.spawn(waits_right.async_acquire(a));
  run_until_waiting(1);
  std::this_thread::sleep_for(50ms);  // waits begin by the coarse clock
  const AcquireOutcome told = run(waits_left.async_acquire(b));
  ASSERT_EQ(told.result, AcquireResult::deadlock);
  EXPECT_EQ(told.circle.size(), 2U);
  EXPECT_FALSE(older.done());
  (void)right.release(b);
  EXPECT_TRUE(run(Scheduler::wait(older)));
  // With a timeout there is no circle.
  ASSERT_TRUE(right.release(a).result == ReleaseResult::released && right.try_acquire(b));
  const auto timed = scheduler_.spawn(waits_right.async_acquire(a, {}, 2500ms));
  run_until_waiting(1);
  const auto patient = scheduler_.spawn(waits_left.async_acquire(b));
  EXPECT_EQ(run(Scheduler::wait(timed)).result, AcquireResult::timed_out);
  EXPECT_FALSE(patient.done());
  (void)left.release(a);
  EXPECT_EQ(run(Scheduler::wait(patient)).result, AcquireResult::acquired);
}

TEST_F(SharedTasks, AWaitThatSomebodyElseEndsLeavesOtherDescriptorsAlone) {
  Lock lock{session_, "deploy"};
  Lock theirs{others_, "deploy"};
  AsyncLock waits{lock};
  ASSERT_TRUE(theirs.try_acquire(other));
  const auto waiting = scheduler_.spawn(waits.async_acquire(a));
  run_until_waiting(1);
  lock.cancel_wait(a);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // which may get the number of the one that was closed
  boost::asio::posix::stream_descriptor reads(context_, ends[0]);
  char byte = 0;
  bool read = false;
  reads.async_read_some(boost::asio::buffer(&byte, 1),
                        [&](const boost::system::error_code&, std::size_t) { read = true; });
  run_until_waiting(1);  // it queued up again
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  for (int i = 0; i < 5'000 && !read; ++i) {
    run_ready();
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(read);
  ::close(ends[1]);
  (void)theirs.release(other);
  EXPECT_TRUE(run(Scheduler::wait(waiting)));
}

TEST_F(SharedTasks, WhatIsFreeIsHadAtOnce) {
  make(4);
  const auto first = ask(a, 3);
  run_ready();
  ASSERT_TRUE(first.done()) << "nothing was waited for";
  EXPECT_EQ(first.get().result, PermitResult::acquired);
  EXPECT_EQ(first.get().weight, 3U);
  EXPECT_TRUE(semaphore_->stands(a, first.get().token));
  EXPECT_EQ(run(pool_->async_acquire(a, 2)).result, PermitResult::already_held);
  EXPECT_EQ(run(pool_->async_acquire(b, 5)).result, PermitResult::full) << "it could never fit";
  EXPECT_EQ(run(pool_->async_acquire(b, 2, {}, 0ns)).result, PermitResult::full) << "one try";
  EXPECT_EQ(run(pool_->async_acquire(b, 1, {.reason = "rev=abc"}, 0ns)).result, PermitResult::acquired);
  EXPECT_EQ(semaphore_->holders().at(1).reason, "rev=abc");
  EXPECT_EQ(semaphore_->release(a).result, PermitRelease::released);
  EXPECT_EQ(semaphore_->release(b).result, PermitRelease::released);
  const auto wrong = ask(a, 0);
  ASSERT_TRUE(run());
  EXPECT_EQ(error_of(wrong), Errc::invalid_argument);
  EXPECT_EQ(semaphore_->available(), 4U);
  EXPECT_THROW(AsyncSemaphore(*semaphore_, AsyncOptions{.waits = 0}), Error);
}

TEST_F(SharedTasks, AWaitParksTheTaskAndNotItsThread) {
  make(1);
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto waits = ask(a);
  const auto works = [](Scheduler& scheduler, Semaphore& theirs) -> awaitable<void> {
    for (int i = 0; i < 3; ++i) co_await Scheduler::delay(1ms);
    scheduler.log("worked");
    theirs.release(other);
  };
  run_until_waiting(1);
  (void)scheduler_.spawn(works(scheduler_, *theirs_));
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"worked"}));
  EXPECT_EQ(waits.get().result, PermitResult::acquired);
  EXPECT_EQ(theirs_->try_acquire(other).result, PermitResult::full);
}

// FIFO through both queues: two stand in the segment's, the others here.
TEST_F(SharedTasks, ServesInTheOrderOfAskingWithFewWaitsInTheSegment) {
  make(1, 2);
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto work = [](Scheduler& scheduler, AsyncSemaphore& pool, int number) -> awaitable<void> {
    const auto permit = co_await pool.async_permit();
    EXPECT_EQ(permit.outcome().result, PermitResult::acquired);
    scheduler.log(std::to_string(number));
    co_await Scheduler::delay(100us);
  };
  for (int i = 0; i < 8; ++i) (void)scheduler_.spawn(work(scheduler_, *pool_, i));
  run_until_waiting(2);
  EXPECT_EQ(pool_->queued(), 6U);
  theirs_->release(other);
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"0", "1", "2", "3", "4", "5", "6", "7"}));
  EXPECT_EQ(semaphore_->available(), 1U);
}

// Between sessions the segment's queue decides: who comes from outside waits behind those of us who stand there, not
// behind all of us.
TEST_F(SharedTasks, ANewcomerWaitsBehindThoseInTheSegmentOnly) {
  make(1, 1);
  const HolderId rival{"rival"};
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto work = [](Scheduler& scheduler, AsyncSemaphore& pool, std::string name) -> awaitable<void> {
    const auto permit = co_await pool.async_permit();
    scheduler.log(name);
  };
  for (const char* const name : {"first", "second", "third"}) (void)scheduler_.spawn(work(scheduler_, *pool_, name));
  run_until_waiting(1);
  (void)theirs_->wait_fd(rival);
  ASSERT_EQ(waiters(), 2U);
  theirs_->release(other);
  while (!theirs_->acquire(rival, 1, {}, 0ns)) (void)context_.run_one_for(1ms);
  run_until_waiting(1);
  EXPECT_EQ(story_, (Story{"first"}));
  theirs_->release(rival);
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"first", "second", "third"}));
}

TEST_F(SharedTasks, ATimeOutEndsTheWaitInTheSegment) {
  make(2, 1);
  ASSERT_TRUE(theirs_->try_acquire(other, 2));
  const auto in_segment = ask(a, 1, 20ms);
  const auto in_process = ask(b, 1, 20ms);
  run_until_waiting(1);
  EXPECT_EQ(pool_->queued(), 1U);
  ASSERT_TRUE(run());
  EXPECT_EQ(in_segment.get().result, PermitResult::timed_out);
  EXPECT_EQ(in_process.get().result, PermitResult::timed_out);
  EXPECT_EQ(waiters(), 0U);
  theirs_->release(other);
  EXPECT_EQ(semaphore_->available(), 2U) << "nothing was consumed";
}

// S3-16.
TEST_F(SharedTasks, ACancellationEndsTheWaitInTheSegment) {
  make(1, 1);
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto in_segment = ask(a);
  const auto in_process = ask(b);
  run_until_waiting(1);
  Scheduler::cancel(in_process);
  Scheduler::cancel(in_segment);
  ASSERT_TRUE(run());
  EXPECT_THROW((void)in_segment.get(), TaskCancelledError);
  EXPECT_THROW((void)in_process.get(), TaskCancelledError);
  EXPECT_EQ(waiters(), 0U);
  theirs_->release(other);
  EXPECT_EQ(semaphore_->available(), 1U);
  EXPECT_EQ(run(pool_->async_acquire(a)).result, PermitResult::acquired) << "and may ask again";
}

// The permit was handed over in the segment, the task did not run to see it, and is cancelled.
TEST_F(SharedTasks, ATaskCancelledAfterTheHandOverPassesThePermitOn) {
  for (const bool somebody_behind : {true, false}) {
    story_.clear();
    make(1);
    ASSERT_TRUE(theirs_->try_acquire(other));
    const auto first = ask(a);
    run_until_waiting(1);
    std::optional<Task<void>> behind;
    if (somebody_behind) {
      behind = scheduler_.spawn(hold_for_ever(*pool_, scheduler_, "second"));
      run_until_waiting(2);
    }
    theirs_->release(other);
    EXPECT_EQ(semaphore_->used(), 1U) << "the first one has it in the segment";
    EXPECT_EQ(waiters(), somebody_behind ? 1U : 0U);
    Scheduler::cancel(first);
    for (int i = 0; i < 60'000 && (!first.done() || story_.size() != (somebody_behind ? 1U : 0U)); ++i) {
      run_ready();
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_THROW((void)first.get(), TaskCancelledError);
    EXPECT_EQ(story_, somebody_behind ? Story{"second"} : Story{});
    EXPECT_EQ(semaphore_->available(), somebody_behind ? 0U : 1U);
    if (behind) Scheduler::cancel(*behind);
    ASSERT_TRUE(run());
    EXPECT_EQ(semaphore_->available(), 1U);
  }
}

// A cancellation after any number of steps of the hand-over: either the task has the permit, or nobody lost one.
TEST_F(SharedTasks, NoPermitIsLostWheneverTheCancellationComes) {
  make(1);
  int got = 0;
  int cancelled = 0;
  for (int steps = 0; steps < 24; ++steps) {
    ASSERT_TRUE(theirs_->try_acquire(other));
    const auto task = ask(a);
    run_until_waiting(1);
    theirs_->release(other);
    context_.restart();
    for (int i = 0; i < steps && !task.done(); ++i) (void)context_.run_one_for(20ms);
    Scheduler::cancel(task);
    ASSERT_TRUE(run());
    try {
      EXPECT_TRUE(task.get());
      EXPECT_EQ(semaphore_->release(a).result, PermitRelease::released);
      ++got;
    } catch (const TaskCancelledError&) {
      ++cancelled;
    }
    ASSERT_EQ(semaphore_->available(), 1U) << "after " << steps << " steps";
    ASSERT_EQ(waiters(), 0U);
  }
  EXPECT_GT(got, 0);
  EXPECT_GT(cancelled, 1);
}

// C-35, C-37: what can never fit any more, and what is no more, is not waited for.
TEST_F(SharedTasks, AResizeAndARemovalEndWaits) {
  make(3);
  ASSERT_TRUE(theirs_->try_acquire(other, 1));
  const auto turned_away = ask(a, 3);
  run_until_waiting(1);
  theirs_->resize(2);
  ASSERT_TRUE(run());
  EXPECT_EQ(turned_away.get().result, PermitResult::full);
  const auto removed = ask(a, 2);
  run_until_waiting(1);
  Semaphore::remove(others_, "pool", true);
  ASSERT_TRUE(run());
  EXPECT_EQ(error_of(removed), Errc::name_removed);
}

TEST_F(SharedTasks, AHolderWaitsOnceAndForAllOrNothing) {
  make(2);
  ASSERT_TRUE(theirs_->try_acquire(other, 1));
  EXPECT_TRUE(run(pool_->async_acquire(b, 1)));
  const auto more = ask(b, 2);
  const auto first = ask(a, 2);
  const auto again = ask(a, 2);
  run_until_waiting(1);
  ASSERT_TRUE(again.done());
  EXPECT_EQ(error_of(again), Errc::in_use);
  EXPECT_EQ(error_of(more), Errc::in_use) << "it has one and wants two";
  semaphore_->release(b);
  theirs_->release(other);
  ASSERT_TRUE(run());
  EXPECT_EQ(first.get().weight, 2U);
}

// It would wait for itself.
TEST_F(SharedTasks, WhoHasItDoesNotQueueBehindThoseWhoWaitForIt) {
  make(2, 1);
  EXPECT_TRUE(run(pool_->async_acquire(a, 2)));
  const auto waits = ask(b);
  run_until_waiting(1);
  EXPECT_EQ(run(pool_->async_acquire(a, 2)).result, PermitResult::already_held);
  EXPECT_EQ(run(pool_->async_acquire(a, 1, {}, 0ns)).result, PermitResult::already_held);
  semaphore_->release(a);
  ASSERT_TRUE(run());
  EXPECT_TRUE(waits.get());
  EXPECT_TRUE(run(pool_->async_acquire(a)));
  const auto again = ask(other);
  run_until_waiting(1);
  const auto more = ask(a, 2);
  run_ready();
  EXPECT_EQ(error_of(more), Errc::in_use);
  Scheduler::cancel(again);
  ASSERT_TRUE(run());
}

TEST_F(SharedTasks, TheQueueMayGoBeforeItsTasks) {
  make(1, 1);
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto in_segment = ask(a);
  const auto in_process = ask(b);
  run_until_waiting(1);
  pool_.reset();
  EXPECT_EQ(waiters(), 0U) << "at once";
  semaphore_.reset();
  run_ready();
  ASSERT_TRUE(in_segment.done()) << "told at once, as Asio let go of the descriptor before it was closed";
  ASSERT_TRUE(in_process.done());
  EXPECT_THROW((void)in_segment.get(), std::runtime_error);
  EXPECT_THROW((void)in_process.get(), std::runtime_error);
  theirs_->release(other);
  EXPECT_EQ(theirs_->available(), 1U);
}

TEST_F(SharedTasks, TheContextMayGoFirst) {
  make(1);
  {
    boost::asio::io_context context;
    Scheduler scheduler(context.get_executor(), [](std::string_view) {});
    for (const char* const name : {"holds", "waits"}) (void)scheduler.spawn(hold_for_ever(*pool_, scheduler, name));
    while (waiters() != 1) context.poll();
  }
  EXPECT_EQ(waiters(), 0U);
  EXPECT_EQ(semaphore_->available(), 1U);
}

TEST_F(SharedTasks, AWaitEndsWithItsSession) {
  make(1);
  ASSERT_TRUE(theirs_->try_acquire(other));
  const auto waits = ask(a);
  run_until_waiting(1);
  session_.leave();
  ASSERT_TRUE(run());
  EXPECT_EQ(error_of(waits), Errc::session_dead);
}

TEST_F(SharedTasks, TheDeathOfAHolderWakesTheTask) {
  make(2);
  Child child([&](int ready) {
    Session mine{segment_};
    Semaphore pool{mine, "pool"};
    say(ready, pool.try_acquire(other, 2) ? 'h' : 'x');
    ::pause();
  });
  ASSERT_EQ(child.next(), 'h');
  const auto one = ask(a);
  const auto two = ask(b);
  run_until_waiting(2);
  child.kill(SIGKILL);
  child.wait();
  ASSERT_TRUE(run());
  EXPECT_TRUE(one.get());
  EXPECT_TRUE(two.get());
}

// Nobody else looks: not a blocked waiter, not the reaper.
TEST_F(SharedTasks, ALeaseThatRunsOutWakesTheTask) {
  Session silent{segment_, {.manual_heartbeat = true}};
  make(1);
  Semaphore held{silent, "pool"};
  ASSERT_TRUE(held.try_acquire(other, 1, {.ttl = 50ms}));
  const auto waits = ask(a);
  ASSERT_TRUE(run());
  ASSERT_TRUE(waits.get());
  ASSERT_TRUE(waits.get().previous.has_value());
  EXPECT_EQ(waits.get().previous->why, Loss::expired);
}

TEST_F(SharedTasks, LocksAreAwaitedAsWell) {
  Lock lock{session_, "deploy"};
  Lock theirs{others_, "deploy"};
  AsyncLock deploy{lock};
  ASSERT_TRUE(theirs.try_acquire(other));
  const auto work = [](AsyncLock& which, Scheduler& scheduler, std::string name) -> awaitable<std::uint64_t> {
    const auto hold = co_await which.async_hold({.reason = "rev=abc"});
    scheduler.log(name + "(");
    co_await Scheduler::delay(1ms);
    scheduler.log(")");
    co_return hold.outcome().token;
  };
  const auto one = scheduler_.spawn(work(deploy, scheduler_, "one"));
  const auto two = scheduler_.spawn(work(deploy, scheduler_, "two"));
  run_until_waiting(2);
  EXPECT_EQ(run(deploy.async_acquire(a, {}, 0ns)).result, AcquireResult::busy);
  const auto late = run(deploy.async_acquire(a, {}, 5ms));
  EXPECT_EQ(late.result, AcquireResult::timed_out);
  ASSERT_TRUE(late.current.has_value());
  EXPECT_EQ(late.current->holder, other.str());
  theirs.release(other);
  ASSERT_TRUE(run());
  EXPECT_EQ(story_, (Story{"one(", ")", "two(", ")"}));
  EXPECT_LT(one.get(), two.get()) << "fencing tokens grow";
  EXPECT_EQ(run(deploy.async_acquire(a)).result, AcquireResult::acquired);
  EXPECT_EQ(run(deploy.async_acquire(a)).result, AcquireResult::extended);
  EXPECT_EQ(lock.release(a).result, ReleaseResult::released);
}

}  // namespace
}  // namespace shmcoord::tasks
