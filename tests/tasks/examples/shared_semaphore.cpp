#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <shmcoord/shmcoord.hpp>
#include <shmcoord/tasks.hpp>

// A thousand coroutines of one thread, and other processes that do the same, share four permits of the host. Run it
// twice at once, with the name of a segment. Exit code 0: each coroutine had its turn.

namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using namespace shmcoord::tasks;

awaitable<std::uint64_t> fetch(AsyncSemaphore& connections) {
  const auto permit = co_await connections.async_permit();  // parks the coroutine, not its thread
  co_await Scheduler::delay(100us);
  co_return permit.outcome().token;
}  // given back here, and if the coroutine is cancelled or the process dies

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "example";
  const auto segment = shmcoord::Segment::open_or_create(name);
  shmcoord::Session session{segment};
  shmcoord::Semaphore semaphore{session, "connections", {.capacity = 4}};
  AsyncSemaphore connections{semaphore};

  boost::asio::io_context context;
  Scheduler scheduler(context.get_executor());
  std::vector<Task<std::uint64_t>> tasks;
  for (int i = 0; i < 1'000; ++i) tasks.push_back(scheduler.spawn(fetch(connections)));
  context.run();

  std::uint64_t last = 0;
  for (const auto& task : tasks) {  // in the order in which they asked
    if (task.get() <= last) return 1;
    last = task.get();
  }
  std::cout << tasks.size() << " served, last token " << last << '\n';
  return 0;
}
