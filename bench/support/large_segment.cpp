#include "bench/support/large_segment.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <random>
#include <utility>

#include "bench/support/processes.hpp"
#include "engine/control.hpp"
#include "engine/entry_text.hpp"

extern char** environ;

namespace shmcoord::bench {

using engine::Mapping;
using engine::RealPolicy;
using process::Participant;
using Names = engine::NameIndex<RealPolicy>;

Made::Made(std::string name, const engine::Sizes& sizes) : name_(std::move(name)) {
  join(child([&] { Mapping::create(name_, {.sizes = sizes, .mode = 0600, .group = {}}); }));
}
Made::~Made() { Mapping::remove(name_); }

std::string name_of(std::uint32_t number) {
  const std::string digits = std::to_string(number);
  return "job-" + std::string(7 - digits.size(), '0') + digits;
}

engine::Found insert(Participant& me, std::uint32_t number) {
  const std::lock_guard guard(me.names_mutex());
  Names names(me.mapping().view(), &me.mapping());
  return names.find_or_insert(name_of(number), engine::Kind::lock, 1, {}, me.slot()).found;
}

void insert_all(const std::string& segment, std::uint32_t count) {
  join(child([&] {
    const auto me = Participant::join(Mapping::open(segment));
    for (std::uint32_t n = 0; n < count; ++n) insert(*me, n);
  }));
}

std::vector<std::uint32_t> shuffled(std::uint32_t count, unsigned seed) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(seed));
  return numbers;
}

std::int64_t allocated_bytes(const Mapping& mapping) {
  struct stat st {};
  ::fstat(mapping.fd(), &st);
  return std::int64_t{st.st_blocks} * 512;
}

void put(Participant& me, const engine::Found& lock, Into into, const Asked& asked) {
  const engine::View& view = me.mapping().view();
  const engine::EntryIndex i = me.take_entry();
  RealPolicy::store(view.entry(i).weight, 1);
  if (!engine::write_texts(view, me.mapping(), i, asked.holder, asked.reason)) fail("no room for a text");
  const engine::ControlOps<RealPolicy> ops(view, lock.record, lock.generation);
  const engine::Step step =
      into == Into::hold ? ops.try_acquire(i, 1, now_ns()).step : ops.acquire_or_queue(i, 1, now_ns()).step;
  if (step != (into == Into::hold ? engine::Step::acquired : engine::Step::queued)) fail("an entry went elsewhere");
  ops.finish_now();
}

pid_t holding(const std::string& segment, const std::vector<std::uint32_t>& numbers, engine::SlotIndex* slot,
              engine::RecordIndex* first) {
  struct Told {
    engine::Word32 ready;
    engine::SlotIndex slot;
    engine::RecordIndex first;
  };
  SharedArray<Told> memory(1);
  Told& told = memory[0];
  const pid_t pid = child([&] {
    const auto me =
        Participant::join(Mapping::open(segment), {.label = "bench", .heartbeat_interval = std::chrono::hours(1)});
    for (const std::uint32_t n : numbers) {
      put(*me, insert(*me, n), Into::hold, {.holder = "pipeline:" + std::to_string(n)});
    }
    told.slot = me->slot();
    told.first = insert(*me, numbers.front()).record;
    RealPolicy::store(told.ready, 1);
    for (;;) ::pause();
  });
  while (RealPolicy::load(told.ready) == 0) {
    if (::waitpid(pid, nullptr, WNOHANG) != 0) fail("who should hold many locks ended");
    ::usleep(1000);
  }
  if (slot != nullptr) *slot = told.slot;
  if (first != nullptr) *first = told.first;
  return pid;
}

Spent spent_by(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const std::int64_t start = now_ns();
  pid_t pid = 0;
  if (::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ) != 0) {
    fail(command.front() + " cannot be started");
  }
  int status = 0;
  rusage used{};
  if (::wait4(pid, &status, 0, &used) != pid || status != 0) fail(command.front() + " failed");
  const std::int64_t end = now_ns();
  posix_spawn_file_actions_destroy(&actions);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return {static_cast<double>(end - start) / 1e6, ms(used.ru_utime) + ms(used.ru_stime)};
}

}  // namespace shmcoord::bench
