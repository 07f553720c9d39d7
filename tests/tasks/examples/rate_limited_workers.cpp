#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <shmcoord/tasks.hpp>

// The first example of the specification (S3-22): ten workers, three permits. Exit code 0: never more than three were
// inside, and the results came in order.

namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using namespace shmcoord::tasks;

int inside = 0;
int most_inside = 0;

awaitable<std::string> worker(Scheduler& scheduler, CooperativeSemaphore semaphore, int id) {
  const CooperativePermit permit = co_await semaphore.acquire_permit();
  most_inside = std::max(most_inside, ++inside);
  scheduler.log("Worker " + std::to_string(id) + " in critical section");
  co_await Scheduler::delay(10ms);
  --inside;
  co_return "result-" + std::to_string(id);
}

awaitable<std::vector<std::string>> rate_limited_work(Scheduler& scheduler) {
  CooperativeSemaphore semaphore = scheduler.create_semaphore(3);
  std::vector<Task<std::string>> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(scheduler.spawn(worker(scheduler, semaphore, i)));
  co_return co_await Scheduler::gather(tasks);
}

}  // namespace

int main() {
  boost::asio::io_context context;
  Scheduler scheduler(context.get_executor(), [](std::string_view line) { std::cout << line << '\n'; });
  const auto work = scheduler.spawn(rate_limited_work(scheduler));
  context.run();
  int next = 0;
  for (const std::string& result : work.get()) {
    std::cout << result << '\n';
    if (result != "result-" + std::to_string(next++)) return 1;
  }
  std::cout << "at most " << most_inside << " inside\n";
  return next == 10 && most_inside == 3 ? 0 : 1;
}
