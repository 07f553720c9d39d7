#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <thread>

#include "bench/support/large_segment.hpp"
#include "bench/support/peers.hpp"
#include "bench/support/series.hpp"
#include "engine/control.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/liveness.hpp"
#include "process/participant.hpp"
#include "process/recovery.hpp"

// Large segments. The short form has a tenth of everything and few rounds.
//
// Whatever is timed runs in a process of its own that opened the segment a moment ago, as a keeper or a tool would: no
// page of it is mapped yet, nothing is in its caches because it was made there. Only look-ups are timed after a first
// pass, for they are what a process does over and over.

namespace shmcoord::bench {
namespace {

using engine::Mapping;
using engine::RealPolicy;
using engine::Sizes;
using process::Participant;
using Names = engine::NameIndex<RealPolicy>;

// --- a: a name among very many ---------------------------------------------------------------------------------------

/// What any index in such a file needs at least: hash, one word of a table of that size, one line of a record.
class TwoMisses {
 public:
  explicit TwoMisses(const engine::Geometry& geo) : mask_(geo.bucket_count - 1) {
    const std::size_t index_bytes = std::size_t{geo.bucket_count} * 8;
    const std::size_t bytes = index_bytes + std::size_t{geo.sizes.names} * sizeof(engine::Record);
    const int fd = ::open("/dev/shm", O_TMPFILE | O_RDWR, 0600);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) std::abort();
    void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) std::abort();
    index_ = static_cast<std::uint64_t*>(p);
    records_ = static_cast<char*>(p) + index_bytes;
    std::memset(p, 0, bytes);
    std::mt19937 random(7);
    for (std::uint32_t b = 0; b <= mask_; ++b) index_[b] = random() % geo.sizes.names;
  }

  [[nodiscard]] std::uint64_t probe(std::uint64_t hash) const {
    const std::uint64_t record = __atomic_load_n(&index_[hash & mask_], __ATOMIC_ACQUIRE);
    const auto* const line = reinterpret_cast<const std::uint64_t*>(records_ + record * sizeof(engine::Record));
    return __atomic_load_n(line, __ATOMIC_ACQUIRE);
  }

 private:
  std::uint32_t mask_;
  std::uint64_t* index_;
  char* records_;
};

void find_case() {
  const std::uint32_t count = size(1'000'000);
  const std::uint32_t batch = size(10'000);
  const Made segment(scratch_name("find"), {.names = count, .entries = 1'000, .sessions = 16});
  insert_all(segment.name(), count);
  join(child([&] {
    const auto mapping = Mapping::open(segment.name());
    const Names index(mapping->view());
    const TwoMisses peer(mapping->view().geo);
    const std::uint64_t key = mapping->view().header().segment_id;
    // One behind the other, so that the text of the next name is no miss of its own.
    const std::size_t length = name_of(0).size();
    std::string text;
    for (const std::uint32_t n : shuffled(count, 1)) text += name_of(n);
    std::uint32_t turn = 0;
    // The next lookup starts when this one is over: its name is found through the answer, to which `zero` is nothing.
    const auto timed = [&](auto&& look_up) {
      const std::uint32_t from = turn++ * batch % count;
      const std::int64_t start = now_ns();
      std::uint64_t zero = 0;
      for (std::uint32_t i = 0; i < batch; ++i) {
        const std::size_t at = (from + i) % count + zero;
        zero = look_up(std::string_view(text).substr(at * length, length)) >> 40U;
      }
      const double took = static_cast<double>(now_ns() - start) / batch;
      if (zero != 0) std::abort();
      return took;
    };
    // Every page is mapped before the first round.
    for (std::uint32_t n = 0; n < count; ++n) {
      if (!index.find(name_of(n))) std::abort();
      if (peer.probe(engine::hash_name(name_of(n), key)) != 0) std::abort();
    }
    Comparison c("look-up of one name among " + std::to_string(count), "ns", 601);
    c.ours(
        [&] { return timed([&](std::string_view name) { return std::uint64_t{index.find(name).value().record}; }); });
    c.peer("hash and two dependent misses", 1.2,
           [&] { return timed([&](std::string_view name) { return peer.probe(engine::hash_name(name, key)); }); });
    c.run();
  }));
}
const Register find_is_a_case{"find", "a name among a million beside two dependent misses", find_case};

// --- b: opening ------------------------------------------------------------------------------------------------------

double open_us(const std::string& segment) {
  double& took = shared<double>();
  join(child([&] {
    const std::int64_t start = now_ns();
    const auto mapping = Mapping::open(segment);
    took = static_cast<double>(now_ns() - start) / 1e3;
  }));
  const double us = took;
  ::munmap(&took, 4096);
  return us;
}

void open_case() {
  const Sizes sizes{.names = size(1'000'000)};
  const Made full(scratch_name("full"), sizes);
  const Made empty(scratch_name("empty"), sizes);
  insert_all(full.name(), sizes.names);
  insert_all(empty.name(), 10);
  std::vector<double> opened;
  Comparison c("opening a segment with " + std::to_string(sizes.names) + " names", "us", 101);
  c.ours([&] { return opened.emplace_back(open_us(full.name())); });
  c.peer("the same with 10 names", 0, [&] { return open_us(empty.name()); });
  c.run();
  report("opening with that many names", "us", opened, 2'000);
}
const Register open_is_a_case{"open", "opening a segment with a million names", open_case};

// --- c: room ---------------------------------------------------------------------------------------------------------

void room_case() {
  const std::uint32_t count = size(1'000'000);
  std::vector<double> bytes;
  for (int r = 0; r < rounds(3); ++r) {
    const Made segment(scratch_name("room"), {.names = count});
    double& one = shared<double>();
    join(child([&] {
      const auto me = Participant::join(Mapping::open(segment.name()));
      const std::int64_t before = allocated_bytes(me->mapping());
      for (std::uint32_t n = 0; n < count; ++n) insert(*me, n);
      one = static_cast<double>(allocated_bytes(me->mapping()) - before) / count;
    }));
    bytes.push_back(one);
  }
  report("room of a free lock with a short name", "bytes", bytes, 256);
}
const Register room_is_a_case{"room", "memory that a free lock takes", room_case};

// --- d: looking at it ------------------------------------------------------------------------------------------------

/// A hash over all that is allocated in the segment, and how much that is.
std::pair<std::uint64_t, std::int64_t> contents_of(const std::string& segment) {
  std::uint64_t& hash = shared<std::uint64_t>();
  std::int64_t& bytes = shared<std::int64_t>();
  join(child([&] {
    const auto mapping = Mapping::open(segment, {.trusted_owner = {}, .read_only = true});
    bytes = allocated_bytes(*mapping);
    std::string block(1U << 20U, '\0');
    for (off_t at = ::lseek(mapping->fd(), 0, SEEK_DATA); at >= 0; at = ::lseek(mapping->fd(), at, SEEK_DATA)) {
      const off_t end = ::lseek(mapping->fd(), at, SEEK_HOLE);
      while (at < end) {
        const ssize_t n = ::pread(mapping->fd(), block.data(), block.size(), at);
        if (n <= 0) std::abort();
        hash = engine::hash_name({block.data(), static_cast<std::size_t>(std::min<off_t>(n, end - at))}, hash + 1);
        at += n;
      }
    }
  }));
  const std::pair<std::uint64_t, std::int64_t> contents{hash, bytes};
  ::munmap(&hash, 4096);
  ::munmap(&bytes, 4096);
  return contents;
}

void inspect_case() {
  const std::vector<std::uint32_t> counts{10, size(10'000), size(100'000)};
  std::vector<std::unique_ptr<Made>> segments;
  for (const std::uint32_t count : counts) {
    const std::string name = scratch_name("inspect-" + std::to_string(count));
    segments.push_back(std::make_unique<Made>(name, Sizes{.names = std::max(Sizes{}.names, count)}));
    insert_all(name, count);
  }
  const auto measure = [&](const std::string& what) {
    Growth growth("inspect as a whole process, of " + what, "ms", "locks", 21,
                  {"--json", "of that CPU time", "as text", "of that CPU time, as text"});
    std::vector<std::pair<std::uint64_t, std::int64_t>> before;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const std::string& name = segments[i]->name();
      before.push_back(contents_of(name));
      growth.at(counts[i], [&name] {
        const Spent json = spent_by({SHMCOORD_TOOL_PATH, "-s", name, "inspect", "--json"});
        const Spent text = spent_by({SHMCOORD_TOOL_PATH, "-s", name, "inspect"});
        return std::vector<double>{json.wall_ms, json.cpu_ms, text.wall_ms, text.cpu_ms};
      });
    }
    growth.run();
    report("inspect --json of " + std::to_string(counts.back()) + " " + what, "ms", growth.values(counts.back(), 0),
           500);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (contents_of(segments[i]->name()) != before[i]) fail("inspect has changed the segment");
    }
  };
  measure("free locks");
  std::vector<pid_t> holders;
  holders.reserve(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    holders.push_back(holding(segments[i]->name(), shuffled(counts[i], 2)));
  }
  measure("held locks");
  for (const pid_t holder : holders) end_child(holder);
}
const Register inspect_is_a_case{
    "inspect", "inspect of 10, 10,000 and 100,000 locks, free and held; it changes nothing", inspect_case};

// --- what a reaper looks through -------------------------------------------------------------------------------------

/// A look at everything without anything to do.
double sweep_ms(const std::string& segment) {
  SharedArray<double> took(1);
  join(child([&] {
    const auto mapping = Mapping::open(segment);
    const auto sweep = [&] { return process::sweep(*mapping, now_ns(), {.reclaim_stale = false}).planned.size(); };
    if (sweep() != 0) fail("there was something to do");  // and from here on every page is mapped
    const std::int64_t start = now_ns();
    sweep();
    took[0] = static_cast<double>(now_ns() - start) / 1e6;
  }));
  return took[0];
}

void scan_case() {
  const std::vector<std::uint32_t> counts{10, 1'000, size(25'000), size(250'000)};
  std::vector<std::unique_ptr<Made>> segments;
  std::vector<pid_t> holders;
  Growth growth("a reaper's look at what is held by the living", "ms", "entries in use", 15,
                {"reap --once", "of that CPU time", "a look of a reaper that runs"});
  for (const std::uint32_t count : counts) {
    const std::string name = scratch_name("scan-" + std::to_string(count));
    segments.push_back(std::make_unique<Made>(name, Sizes{.names = std::max(Sizes{}.names, count)}));
    holders.push_back(holding(name, shuffled(count, 4)));
    growth.at(count, [name] {
      const Spent once = spent_by({SHMCOORD_TOOL_PATH, "-s", name, "reap", "--once"});
      return std::vector<double>{once.wall_ms, once.cpu_ms, sweep_ms(name)};
    });
  }
  growth.run();
  for (const pid_t holder : holders) end_child(holder);
}
const Register scan_is_a_case{"scan", "reap --once among 250,000 entries in use, and a look of a reaper that runs",
                              scan_case};

// --- e: what a dead session held -------------------------------------------------------------------------------------

/// How long it takes until the first hold is free, and until all are; and the same by a whole sweep.
struct Took {
  double first_ms;
  double all_ms;
};

Took reclaim_ms(bool scattered, bool by_sweep) {
  const std::uint32_t entries = size(250'000);
  const std::uint32_t dying = size(10'000);
  const Made segment(scratch_name("reclaim"), {.names = entries, .entries = entries, .sessions = 64});
  insert_all(segment.name(), entries);
  std::vector<std::uint32_t> numbers(entries);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (scattered) numbers = shuffled(entries, 3);
  const auto split = numbers.end() - dying;
  // The living one is stopped, so that nobody but we bury.
  const pid_t living = holding(segment.name(), {numbers.begin(), split});
  engine::SlotIndex slot = 0;
  engine::RecordIndex first = 0;
  const pid_t dead = holding(segment.name(), {split, numbers.end()}, &slot, &first);
  ::kill(living, SIGSTOP);
  ::waitpid(living, nullptr, WUNTRACED);
  end_child(dead);
  Took& took = shared<Took>();
  join(child([&] {
    const auto mapping = Mapping::open(segment.name());
    const engine::Record& watched = mapping->view().record(first);
    engine::Word32 looking;
    std::int64_t first_ns = 0;
    std::thread observer([&] {
      while (RealPolicy::load(watched.control).used != 0) RealPolicy::store(looking, 1);
      first_ns = now_ns();
    });
    // On CPUs of their own, if there are two: what looks on must not wait for what it looks at.
    if (allowed_cpus() > 1) {
      pin_to(1, observer.native_handle());
      pin_to(0);
    }
    while (RealPolicy::load(looking) == 0) RealPolicy::pause();
    const std::int64_t start = now_ns();
    const bool buried = by_sweep ? process::sweep(*mapping, start, {.reclaim_stale = false}).buried == 1
                                 : process::bury(*mapping, slot);
    const std::int64_t all_ns = now_ns();
    if (!buried) std::abort();
    observer.join();
    took = {static_cast<double>(first_ns - start) / 1e6, static_cast<double>(all_ns - start) / 1e6};
  }));
  const Took t = took;
  ::munmap(&took, 4096);
  end_child(living);
  return t;
}

void reclaim_case() {
  const std::string what = std::to_string(size(10'000)) + " holds among " + std::to_string(size(250'000));
  const auto measure = [&](const std::string& how, bool scattered, bool by_sweep, int times, double first_target,
                           double all_target) {
    std::vector<double> first;
    std::vector<double> all;
    for (int r = 0; r < times; ++r) {
      const Took t = reclaim_ms(scattered, by_sweep);
      first.push_back(t.first_ms);
      all.push_back(t.all_ms);
    }
    report(what + ", " + how + ": first", "ms", first, first_target);
    report(what + ", " + how + ": all", "ms", all, all_target);
  };
  measure("names side by side", false, false, rounds(11), 1, 20);
  measure("names scattered", true, false, rounds(11), 1, 20);
  measure("by a whole sweep", false, true, rounds(3), 0, 0);
}
const Register reclaim_is_a_case{"reclaim", "what 10,000 holds of a dead session take to come back", reclaim_case};

}  // namespace
}  // namespace shmcoord::bench
