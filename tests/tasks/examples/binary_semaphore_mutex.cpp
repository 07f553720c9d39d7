#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <shmcoord/tasks.hpp>

// The second example of the specification (S3-23): a semaphore with one permit is a mutex (S3-2). Exit code 0: the two
// tasks were inside one after the other.

namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using namespace shmcoord::tasks;

std::string story;

awaitable<void> critical_section(Scheduler& scheduler, CooperativeSemaphore lock, std::string name) {
  const CooperativePermit permit = co_await lock.acquire_permit();
  scheduler.log(name + ": entered critical section");
  story += name + "(";
  co_await Scheduler::delay(10ms);  // others run meanwhile, and cannot get in
  story += ")";
}

awaitable<void> mutex_example(Scheduler& scheduler) {
  CooperativeSemaphore lock = scheduler.create_semaphore(1);
  std::vector<Task<void>> tasks;
  tasks.push_back(scheduler.spawn(critical_section(scheduler, lock, "A")));
  tasks.push_back(scheduler.spawn(critical_section(scheduler, lock, "B")));
  co_await Scheduler::gather(tasks);
}

}  // namespace

int main() {
  boost::asio::io_context context;
  Scheduler scheduler(context.get_executor(), [](std::string_view line) { std::cout << line << '\n'; });
  const auto work = scheduler.spawn(mutex_example(scheduler));
  context.run();
  work.get();
  return story == "A()B()" ? 0 : 1;
}
