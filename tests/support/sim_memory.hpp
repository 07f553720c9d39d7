#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/sim_tables.hpp"

// What a load may see beside the newest value: shared memory with the orders of C++, by views.
//
// Each word has its stores in the order in which they were made. A *view* says for each word up to which store somebody
// has seen it. A task has a view, a load may return any store that is not older than it, and each store carries a view:
//   release store    carries all that its task has seen; a relaxed one only what was seen at the task's last fence
//   acquire load     takes over what the store carries; a relaxed one only at the task's next fence
//   read-modify-write  reads the newest store, takes over and carries
//   fence            exchanges views with the one global view, both ways: of two tasks that meet there, the later sees
//                    what the earlier saw. A seq_cst read-modify-write does the same, and so do the futex calls
// So a store can be late for others (x86's store buffer: store, then load of another word), two readers may see two
// writers in different orders, and nothing is late behind a release, an acquire and a fence that match.
//
// Weaker than x86, which has one order of all stores. Two things are stronger than what C++ would allow: no store goes
// between older ones of its word, and a seq_cst read-modify-write orders the loads after it, as a locked instruction
// does and as the engine relies on (real_policy.hpp). Not more than the newest `depth` stores of a word are remembered.

namespace shmcoord::sim {

/// What a word holds; a 16-byte word both halves, since it only changes as a whole.
struct Held {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

/// Orders that are made to do nothing, to see whether a scenario would notice.
struct Without {
  bool acquire = false;  // of loads
  bool release = false;  // of stores
  bool fence = false;
  bool locked = false;  // of a read-modify-write: no part in the global view
};

class WeakMemory {
 public:
  static constexpr unsigned depth = 4;

  void start(unsigned tasks, const Without& without) {
    without_ = without;
    relaxed_ = without.acquire || without.release;
    ++run_;
    if (tasks_.size() < tasks) tasks_.resize(tasks);
    for (Task& t : tasks_) {
      for (View* v : {&t.now, &t.pending, &t.fenced}) v->assign(v->size(), 0);
    }
    global_.assign(global_.size(), 0);
    touched_.clear();
  }

  /// How many stores of the word a load of the task could return now: 1 is only the newest, which is `newest` if nobody
  /// stored in this run.
  unsigned readable(const void* word, unsigned task, const Held& newest) {
    const unsigned id = find(word, newest);
    const Location& l = locations_[id];
    return l.last - std::max(seen(tasks_[task].now, id), l.oldest()) + 1;
  }
  /// `age` 0 is the newest.
  Held load(const void* word, unsigned task, const Held& newest, unsigned age, bool acquire) {
    const unsigned id = find(word, newest);
    const Message& m = locations_[id].at(locations_[id].last - age);
    see(tasks_[task].now, id, locations_[id].last - age);
    relaxed_ = relaxed_ || !acquire;
    join(acquire && !without_.acquire ? tasks_[task].now : tasks_[task].pending, m.view);
    return m.held;
  }
  void store(const void* word, unsigned task, const Held& before, const Held& after, bool release) {
    const unsigned id = find(word, before);
    relaxed_ = relaxed_ || !release;
    append(id, task, after, release && !without_.release ? tasks_[task].now : tasks_[task].fenced);
  }
  /// A read-modify-write; one that failed wrote nothing.
  void exchange(const void* word, unsigned task, const Held& before, const Held& after, bool wrote) {
    const unsigned id = find(word, before);
    Task& t = tasks_[task];
    see(t.now, id, locations_[id].last);
    join(t.now, locations_[id].at(locations_[id].last).view);
    if (!without_.locked) meet(t);
    if (!wrote) return;
    append(id, task, after, t.now);
    if (!without_.locked) meet(t);
  }
  /// Of a word that nobody else touches.
  void exchange_own(unsigned task) {
    if (!without_.locked) meet(tasks_[task]);
  }
  void fence(unsigned task) {
    if (!without_.fence) meet(tasks_[task]);
  }
  /// In the kernel; what is left out of the code does not reach there.
  void system_call(unsigned task) { meet(tasks_[task]); }
  /// The kernel told `task` that the other one has ended: all that it did is visible.
  void learn_of_end(unsigned task, unsigned ended) { join(tasks_[task].now, tasks_[ended].now); }

  /// All that tells this memory from one in which everybody has seen everything. `may_load(task)`: it is not at its
  /// end.
  template <class MayLoad>
  [[nodiscard]] std::uint64_t hash(unsigned tasks, MayLoad&& may_load) {
    open_.clear();  // words of which somebody may still see an old value
    for (const unsigned id : touched_) {
      for (unsigned t = 0; t < tasks; ++t) {
        if (!may_load(t) || seen(tasks_[t].now, id) >= locations_[id].last) continue;
        open_.push_back(id);
        break;
      }
    }
    std::sort(open_.begin(), open_.end());  // whoever came first
    std::uint64_t h = 0;
    for (const unsigned id : open_) {
      const Location& l = locations_[id];
      std::uint64_t of = mix(id);
      for (std::uint32_t n = l.oldest(); n <= l.last; ++n) {
        const Message& m = l.at(n);
        of = mix(of, mix(m.held.low, m.held.high));
        of = mix(of, hash_of(m.view));
      }
      h ^= of;
    }
    for (unsigned t = 0; t < tasks; ++t) {
      h = mix(h, hash_of(tasks_[t].now));
      if (relaxed_) h = mix(h, mix(hash_of(tasks_[t].pending), hash_of(tasks_[t].fenced)));
    }
    return mix(h, hash_of(global_));
  }

 private:
  using View = std::vector<std::uint32_t>;  // by location; what is beyond its end is 0
  struct Task {
    View now;
    View pending;  // what relaxed loads saw: counts from the next fence on
    View fenced;   // what had been seen at the last fence
  };
  struct Message {
    Held held;
    View view;
  };
  struct Location {
    const void* word = nullptr;
    std::uint64_t run = 0;   // that it was touched in last
    std::uint32_t last = 0;  // number of the newest store
    std::array<Message, depth> messages;

    [[nodiscard]] std::uint32_t oldest() const noexcept { return last < depth ? 0 : last - (depth - 1); }
    [[nodiscard]] Message& at(std::uint32_t n) noexcept { return messages[n % depth]; }
    [[nodiscard]] const Message& at(std::uint32_t n) const noexcept { return messages[n % depth]; }
  };

  static std::uint32_t seen(const View& v, unsigned id) noexcept { return id < v.size() ? v[id] : 0; }
  static void see(View& v, unsigned id, std::uint32_t n) {
    if (id >= v.size()) v.resize(id + 1U);
    v[id] = std::max(v[id], n);
  }
  static void join(View& to, const View& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
  }
  void meet(Task& t) {
    join(t.now, t.pending);
    join(t.now, global_);
    global_ = t.now;
    t.fenced = t.now;
  }
  void append(unsigned id, unsigned task, const Held& held, const View& carried) {
    Location& l = locations_[id];
    ++l.last;
    Message& m = l.at(l.last);
    m.held = held;
    m.view = carried;
    see(m.view, id, l.last);
    see(tasks_[task].now, id, l.last);
  }
  [[nodiscard]] std::uint64_t hash_of(const View& v) const noexcept {
    std::uint64_t h = 0;
    for (const unsigned id : open_) {
      const std::uint32_t oldest = locations_[id].oldest();
      h = (h + std::max(seen(v, id), oldest) - oldest + 1) * 0x9e3779b97f4a7c15ULL;
    }
    return mix(h);
  }

  // Ids stay from run to run, since the words do.
  unsigned find(const void* word, const Held& newest) {
    if (2 * (locations_.size() + 1) > index_.size()) grow();
    std::size_t at = slot_of(word);
    while (index_[at] != 0 && locations_[index_[at] - 1].word != word) at = (at + 1) & (index_.size() - 1);
    if (index_[at] == 0) {
      locations_.emplace_back().word = word;
      index_[at] = static_cast<unsigned>(locations_.size());
    }
    const unsigned id = index_[at] - 1;
    Location& l = locations_[id];
    if (l.run != run_) {
      l.run = run_;
      l.last = 0;
      l.messages[0].held = newest;
      l.messages[0].view.clear();
      touched_.push_back(id);
    }
    return id;
  }
  [[nodiscard]] std::size_t slot_of(const void* word) const noexcept {
    return mix(reinterpret_cast<std::uintptr_t>(word)) & (index_.size() - 1);
  }
  void grow() {
    index_.assign(index_.size() * 2, 0);
    for (unsigned id = 0; id < locations_.size(); ++id) {
      std::size_t at = slot_of(locations_[id].word);
      while (index_[at] != 0) at = (at + 1) & (index_.size() - 1);
      index_[at] = id + 1;
    }
  }

  Without without_;
  bool relaxed_ = false;  // was anything relaxed in this run?
  std::uint64_t run_ = 0;
  std::vector<Task> tasks_;
  View global_;
  std::vector<Location> locations_;
  std::vector<unsigned> index_ = std::vector<unsigned>(256);  // id + 1
  std::vector<unsigned> touched_;                             // in this run, in the order of the first touch
  std::vector<unsigned> open_;
};

}  // namespace shmcoord::sim
