#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench/support/large_segment.hpp"
#include "bench/support/peers.hpp"
#include "bench/support/series.hpp"
#include "engine/finish.hpp"
#include "process/primitive_client.hpp"

// What things cost when there are many of them: waiters, sessions, names; and the memory that each takes.

namespace shmcoord::bench {
namespace {

using engine::EntryIndex;
using engine::Mapping;
using engine::RealPolicy;
using engine::Word32;
using process::Participant;
using process::PrimitiveClient;

// --- a grant, with many behind it ------------------------------------------------------------------------------------
//
// Two processes pass a lock to each other, and the one that waits is always at the head of a long queue. Those behind
// it are entries of a third process. After each grant it takes its turns, so that the queue is in order again; in a
// queue of its own it takes as many turns more as there are fewer behind the two, so that every size finds the caches
// in the same state.

constexpr std::uint32_t most_waiters = 10'000;

/// Entries that nobody sleeps on, in the queue of one lock.
class Crowd {
 public:
  Crowd(const std::shared_ptr<Participant>& me, const std::string& lock) : client_(me, lock, {}) {}

  void enter(std::uint32_t count) {
    const auto ops = client_.ops();
    for (std::uint32_t n = 0; n < count; ++n) {
      const EntryIndex e = entries_.emplace_back(client_.participant().take_entry());
      ops.set_weight(e, process::whole_lock);
      (void)ops.acquire_or_queue(e, process::whole_lock, now_ns());
    }
  }
  /// Each has it once, and goes to the end of the queue. The first one has it, or will have it in a moment.
  void take_turns() {
    const auto ops = client_.ops();
    for (const EntryIndex e : entries_) {
      while (ops.status(e).phase != engine::Phase::held) {
        ops.finish_now();
        ::sched_yield();
      }
      const std::uint64_t token = engine::seq_of_stamp(ops.status(e).stamp, RealPolicy::load_seq(ops.record().control));
      if (ops.release(e, token).step != engine::Step::released) fail("a turn was not taken");
      (void)ops.acquire_or_queue(e, process::whole_lock, now_ns());
    }
  }
  [[nodiscard]] bool empty() const { return entries_.empty(); }

 private:
  PrimitiveClient client_;
  std::vector<EntryIndex> entries_ = {};
};

struct Stage {
  Word32 joined;       // by all three
  Word32 waiter_slot;  // whose entry is to be at the head
  Word32 giver_slot;   // who queues behind the crowd
  Word32 crowd_entered;
  Word32 granted;  // grants that the waiter has seen
  Word32 turns;    // that the crowd has taken
  std::int64_t given_ns;
};

void wait_for(const Word32& word, std::uint32_t value) {
  while (RealPolicy::load(word) < value) ::usleep(50);
}

/// Whose entry that is; nobody's: 0.
engine::SlotIndex owner_of(const engine::View& view, EntryIndex e) {
  if (e == engine::nil_entry) return 0;
  const std::uint64_t owner = RealPolicy::load(view.owner_of(e));
  return owner == 0 ? 0 : engine::unpack_owner(owner).slot;
}

struct Member {
  explicit Member(const std::string& lock)
      : me(Participant::join(detail::Access::mapping(segment()), process::JoinOptions{})),
        client(me, lock, {}),
        hold(client.new_implicit()) {
    hold.spin.pauses = 0;
  }
  void acquire() {
    hold.spin.pauses = 0;
    if (!client.acquire_implicit(hold, process::whole_lock, process::no_deadline)) fail("the lock was not got");
  }
  void release() { client.unlock_implicit(hold); }
  [[nodiscard]] EntryIndex tail() const { return client.ops().load().tail; }
  [[nodiscard]] EntryIndex head() const { return client.ops().head_of(client.ops().load()).entry; }
  [[nodiscard]] const engine::View& view() const { return client.ops().view(); }

  std::shared_ptr<Participant> me;
  PrimitiveClient client;
  process::Hold& hold;
};

/// Asleep, and not a long time ago: a CPU that was idle for longer takes its time to wake up, which is another story.
void put_to_sleep_again(engine::Entry& e) {
  for (int i = 0; i < 3; ++i) {
    engine::Finisher<RealPolicy>::call(e);
    while (RealPolicy::load(e.wake) != engine::wake_parked) RealPolicy::pause();
    for (const std::int64_t until = now_ns() + 20'000; now_ns() < until;) RealPolicy::pause();
  }
}

void give(Stage& stage, const std::string& lock, int grants, SharedArray<double>& releases_ns) {
  pin_to(0);
  Member me(lock);
  me.acquire();
  RealPolicy::store(stage.giver_slot, me.me->slot());
  RealPolicy::add(stage.joined, 1);
  for (int i = 0; i < grants; ++i) {
    wait_for(stage.turns, static_cast<std::uint32_t>(i) + 1);
    const EntryIndex head = me.head();
    if (owner_of(me.view(), head) != RealPolicy::load(stage.waiter_slot)) fail("somebody else is at the head");
    while (RealPolicy::load(me.view().entry(head).wake) != engine::wake_parked) ::sched_yield();
    put_to_sleep_again(me.view().entry(head));
    const std::int64_t start = now_ns();
    stage.given_ns = start;
    me.release();
    releases_ns[static_cast<std::size_t>(i)] = static_cast<double>(now_ns() - start);
    wait_for(stage.granted, static_cast<std::uint32_t>(i) + 1);
    me.acquire();
  }
  me.release();
}

void take(Stage& stage, const std::string& lock, int grants, SharedArray<double>& grants_ns) {
  pin_to(1);
  Member me(lock);
  RealPolicy::store(stage.waiter_slot, me.me->slot());
  wait_for(stage.giver_slot, 1);
  RealPolicy::add(stage.joined, 1);
  for (int i = 0; i < grants; ++i) {
    me.acquire();
    grants_ns[static_cast<std::size_t>(i)] = static_cast<double>(now_ns() - stage.given_ns);
    RealPolicy::store(stage.granted, static_cast<std::uint32_t>(i) + 1);
    while (owner_of(me.view(), me.tail()) != RealPolicy::load(stage.giver_slot)) ::usleep(20);
    me.release();
  }
}

void crowd(Stage& stage, const std::string& lock, int grants, std::uint32_t waiters) {
  // One session that holds what it waits for would look like a deadlock.
  const std::shared_ptr<Participant> me = Participant::join(
      detail::Access::mapping(segment()), process::JoinOptions{.label = "crowd", .detect_deadlocks = false});
  PrimitiveClient client(me, lock, {});
  Crowd behind(me, lock);
  Crowd aside(me, lock + "-aside");
  wait_for(stage.joined, 2);
  const auto ops = client.ops();
  const auto waiter_is_queued = [&] {
    const EntryIndex tail = ops.load().tail;
    return owner_of(ops.view(), tail) == RealPolicy::load(stage.waiter_slot);
  };
  while (!waiter_is_queued()) ::usleep(20);
  behind.enter(waiters - 1);
  aside.enter(most_waiters + 1 - waiters);
  for (int i = 0; i < grants; ++i) {
    if (!aside.empty()) aside.take_turns();
    RealPolicy::store(stage.turns, static_cast<std::uint32_t>(i) + 1);
    wait_for(stage.granted, static_cast<std::uint32_t>(i) + 1);
    if (i + 1 == grants) return;
    // Behind the giver the waiter is the last one; of itself alone the giver has it before that.
    while (!waiter_is_queued()) ::usleep(20);
    behind.take_turns();
  }
}

std::vector<double> grant_ns(std::uint32_t waiters, int grants) {
  SharedArray<Stage> memory(1);
  Stage& stage = memory[0];
  SharedArray<double> granted(static_cast<std::size_t>(grants));
  SharedArray<double> released(static_cast<std::size_t>(grants));
  const std::string lock = "grant-" + std::to_string(waiters);
  const std::array pids{child([&] { give(stage, lock, grants, released); }),
                        child([&] { take(stage, lock, grants, granted); }),
                        child([&] { crowd(stage, lock, grants, waiters); })};
  join_all(pids);
  return {at({granted.begin(), granted.end()}, 0.5), at({released.begin(), released.end()}, 0.5)};
}

void grant_case() {
  (void)segment();
  const int grants = repeats(40);
  Growth growth("a release with waiters, the first of which sleeps", "ns", "waiters", 15,
                {"until that one has it", "until the releaser goes on"});
  for (const std::uint32_t waiters : {1U, 2U, 10U, 100U, 1'000U, 10'000U}) {
    if (waiters > size(most_waiters)) continue;
    growth.at(waiters, [=] { return grant_ns(waiters, grants); });
  }
  growth.compare(size(most_waiters), 2, 1.3);
  growth.run();
}
const Register grant_is_a_case{"grant", "from a release to the first of 1 to 10,000 waiters", grant_case};

// --- joining and leaving ---------------------------------------------------------------------------------------------

/// A process with so many sessions.
pid_t populate(const std::string& segment, std::uint32_t sessions) {
  SharedArray<Word32> ready(1);
  const pid_t pid = child([&] {
    const auto mapping = Mapping::open(segment);
    std::vector<std::unique_ptr<Participant>> all;
    all.reserve(sessions);
    for (std::uint32_t n = 0; n < sessions; ++n) {
      all.push_back(Participant::join(mapping, {.label = "bench", .heartbeat_interval = std::chrono::hours(1)}));
    }
    RealPolicy::store(ready[0], 1);
    for (;;) ::pause();
  });
  wait_for(ready[0], 1);
  return pid;
}

void join_case() {
  constexpr int times = 5;
  std::vector<std::unique_ptr<Made>> segments;
  std::vector<pid_t> populations;
  Growth growth("a session that joins and leaves", "us", "sessions there", 15, {"join", "leave"});
  for (const std::uint32_t sessions : {1U, size(100), size(1'000), size(4'000)}) {
    const std::string name = scratch_name("join-" + std::to_string(sessions));
    segments.push_back(std::make_unique<Made>(name, engine::Sizes{}));
    populations.push_back(populate(name, sessions));
    growth.at(sessions, [mapping = Mapping::open(name)] {
      std::vector<double> joined;
      std::vector<double> left;
      for (int i = 0; i < times; ++i) {
        const std::int64_t start = now_ns();
        const auto me = Participant::join(mapping);
        const std::int64_t in = now_ns();
        me->leave();
        const std::int64_t out = now_ns();
        joined.push_back(static_cast<double>(in - start) / 1e3);
        left.push_back(static_cast<double>(out - in) / 1e3);
      }
      return std::vector<double>{at(joined, 0.5), at(left, 0.5)};
    });
  }
  growth.compare(size(4'000), 1, 0);
  growth.run();
  for (const pid_t pid : populations) end_child(pid);
}
const Register join_is_a_case{"join", "join and leave of a session among 1 to 4,000", join_case};

// --- names -----------------------------------------------------------------------------------------------------------

/// A table of names in which some come and some go.
class Churn {
 public:
  Churn(const std::string& segment, std::uint32_t names) : me_(Participant::join(Mapping::open(segment))) {
    while (next_ < names) make_one();
    std::shuffle(live_.begin(), live_.end(), random_);
  }

  double look_up_ns(std::uint32_t count) {
    const engine::NameIndex<RealPolicy> index(me_->mapping().view());
    std::vector<std::string> names;
    names.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) names.push_back(name_of(live_[random_() % live_.size()]));
    return each(names, [&](const std::string& name) {
      if (!index.find(name)) fail("a name is not found");
    });
  }
  /// Any of them.
  double remove_ns(std::uint32_t count) {
    std::vector<std::string> names;
    names.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::swap(live_[random_() % live_.size()], live_.back());
      names.push_back(name_of(live_.back()));
      live_.pop_back();
    }
    return each(names, [&](const std::string& name) { PrimitiveClient::remove(*me_, name, false); });
  }
  double make_ns(std::uint32_t count) {
    const std::int64_t start = now_ns();
    for (std::uint32_t i = 0; i < count; ++i) make_one();
    return static_cast<double>(now_ns() - start) / count;
  }
  /// The first one has the place of the one that went; how long does the search for another place take?
  double second_ns(std::uint32_t count) {
    double sum = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      remove_ns(1);
      make_one();
      sum += make_ns(1);
      remove_ns(1);
    }
    return sum / count;
  }
  /// As a program does it, which makes room where there is none.
  double use_ns(std::uint32_t count) {
    std::vector<std::string> names;
    names.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) names.push_back(name_of(next_++));
    return each(names, [&](const std::string& name) { const PrimitiveClient client(me_, name, {}); });
  }

 private:
  void make_one() {
    insert(*me_, next_);
    live_.push_back(next_++);
  }
  template <class Body>
  static double each(const std::vector<std::string>& names, Body&& body) {
    const std::int64_t start = now_ns();
    for (const std::string& name : names) body(name);
    return static_cast<double>(now_ns() - start) / static_cast<double>(names.size());
  }

  std::shared_ptr<Participant> me_;
  std::uint32_t next_ = 0;
  std::vector<std::uint32_t> live_ = {};
  std::mt19937 random_{5};
};

void names_case() {
  constexpr std::uint32_t batch = 100;
  constexpr std::uint32_t full_batch = 2'048;  // more than are recycled at a time
  std::vector<std::unique_ptr<Made>> segments;
  const auto table = [&](const std::string& what, std::uint32_t room, std::uint32_t names) {
    const std::string name = scratch_name(what + std::to_string(names));
    segments.push_back(std::make_unique<Made>(name, engine::Sizes{.names = room, .entries = 1'000, .sessions = 16}));
    return std::make_shared<Churn>(name, names);
  };
  Growth growth(
      "a name among many", "ns", "names", 21,
      {"look-up", "removal", "creation", "creation, the second one after a removal", "creation where nothing is free"});
  for (const std::uint32_t names : {1'000U, 10'000U, 100'000U, size(1'000'000)}) {
    const auto some = table("some-", names + names / 21, names);  // a segment cannot have many more than a million
    const auto full = table("full-", names, names);
    growth.at(names, [=] {
      const double look_up = some->look_up_ns(batch);
      const double remove = some->remove_ns(batch);
      const double make = some->make_ns(batch);
      return std::vector<double>{look_up, remove, make, some->second_ns(batch), full->use_ns(full_batch)};
    });
    if (names == size(1'000'000)) break;
  }
  growth.compare(size(1'000'000), 1'000, 0);
  growth.run();
}
const Register names_is_a_case{"names", "look-up, creation and removal of a name among 1,000 to 1,000,000", names_case};

// --- memory ----------------------------------------------------------------------------------------------------------

/// Bytes of the segment for each of n that `add` makes.
double bytes_each(const Mapping& mapping, std::uint32_t n, const std::function<void(std::uint32_t)>& add) {
  const std::int64_t before = allocated_bytes(mapping);
  for (std::uint32_t i = 0; i < n; ++i) add(i);
  return static_cast<double>(allocated_bytes(mapping) - before) / n;
}

/// In this process: its own, and of the segment what it has touched.
struct Resident {
  double own_kib = 0;
  double shared_kib = 0;

  static Resident now() {
    Resident r;
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (word == "RssAnon:") status >> r.own_kib;
      if (word == "RssShmem:") status >> r.shared_kib;
    }
    return r;
  }
};

struct Room {
  double name, long_name, holder, long_reason, waiter, session, handle_own, handle_shared;
};

Room measure_room() {
  const std::uint32_t many = size(10'000);
  constexpr std::uint32_t sessions = 200;
  const Made segment(scratch_name("memory"), engine::Sizes{});
  SharedArray<Room> memory(1);
  Room& room = memory[0];
  join(child([&] {
    const std::shared_ptr<Participant> me = Participant::join(Mapping::open(segment.name()));
    const Mapping& mapping = me->mapping();
    std::vector<engine::Found> locks;
    room.name = bytes_each(mapping, 3 * many, [&](std::uint32_t n) { locks.push_back(insert(*me, n)); });
    const std::string longer(100, 'x');
    room.long_name =
        bytes_each(mapping, many, [&](std::uint32_t n) { const PrimitiveClient client(me, longer + name_of(n), {}); });
    const auto held = [&](std::uint32_t n, const Asked& asked) { put(*me, locks[n], Into::hold, asked); };
    room.holder = bytes_each(mapping, many, [&](std::uint32_t n) { held(n, {}); });
    room.long_reason =
        bytes_each(mapping, many, [&](std::uint32_t n) { held(many + n, {.reason = std::string(200, 'x')}); });
    room.waiter = bytes_each(mapping, many, [&](std::uint32_t) { put(*me, locks[0], Into::queue, {}); });
    std::vector<std::unique_ptr<Participant>> others;
    room.session = bytes_each(mapping, sessions,
                              [&](std::uint32_t) { others.push_back(Participant::join(me->shared_mapping())); });
  }));
  const Made of_handles(scratch_name("handles"), engine::Sizes{});
  join(child([&] {
    Session session{Segment::open_or_create(of_handles.name())};
    std::vector<std::unique_ptr<Lock>> handles(many);
    const Resident before = Resident::now();
    for (std::uint32_t n = 0; n < many; ++n) handles[n] = std::make_unique<Lock>(session, name_of(n));
    const Resident after = Resident::now();
    room.handle_own = (after.own_kib - before.own_kib) * 1024 / many;
    room.handle_shared = (after.shared_kib - before.shared_kib) * 1024 / many;
  }));
  return room;
}

void memory_case() {
  std::vector<Room> rooms(static_cast<std::size_t>(rounds(9)));
  for (Room& r : rooms) r = measure_room();
  const auto say = [&](const std::string& what, double Room::*field) {
    std::vector<double> values;
    values.reserve(rooms.size());
    for (const Room& r : rooms) values.push_back(r.*field);
    report("memory of " + what, "bytes", values, 0);
  };
  say("a name of 11 bytes", &Room::name);
  say("a name of 111 bytes", &Room::long_name);
  say("a hold, with holder and reason of 24 bytes", &Room::holder);
  say("a hold with a reason of 200 bytes", &Room::long_reason);
  say("a waiter, with holder and reason", &Room::waiter);
  say("a session", &Room::session);
  say("a handle, in its process", &Room::handle_own);
  say("a handle, of the segment as it is mapped there", &Room::handle_shared);
}
const Register memory_is_a_case{"memory", "bytes per name, hold, waiter, session, and handle", memory_case};

}  // namespace
}  // namespace shmcoord::bench
