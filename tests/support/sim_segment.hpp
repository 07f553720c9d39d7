#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/bury_entry.hpp"
#include "engine/control.hpp"
#include "engine/notice.hpp"
#include "engine/view.hpp"
#include "engine/wait.hpp"
#include "support/sim_policy.hpp"
#include "support/sim_scheduler.hpp"

// A segment in plain memory for scenarios of the deterministic scheduler: a few records and, per simulated process, a
// session slot and a chunk of entries, the first of which names "a…", "b…", "c…" as its holder. Made once; every
// schedule starts from a copy of the tables.

namespace shmcoord::sim {

using engine::Entry;
using engine::EntryIndex;
using engine::RecordIndex;
using engine::SlotIndex;

class Segment {
 public:
  static constexpr std::uint32_t records = 3;
  static constexpr std::uint32_t processes = 3;
  EntryIndex entries_in_use = 1;                     // of each process
  static constexpr std::uint32_t holder_bytes = 12;  // reaches into both halves of a notice's words

  static constexpr std::uint32_t journal_words = 64;  // six or seven records

  explicit Segment(std::uint32_t capacity) {
    const auto geo = engine::geometry_of({.names = records,
                                          .entries = processes * engine::entries_per_chunk,
                                          .sessions = processes + 1,
                                          .journal = journal_words});
    memory_.reset(static_cast<std::byte*>(::operator new (geo.total, std::align_val_t{engine::page_size})));
    std::memset(memory_.get(), 0, geo.total);
    view_ = {memory_.get(), geo};
    std::memset(memory_.get() + geo.bitmap, 0xff, geo.total / engine::page_size / 8 + 1);
    for (RecordIndex r = 0; r < records; ++r) {
      engine::Record& rec = view_.record(r);
      rec.control = {1, core::pack_bits({.seq = 1})};
      rec.holder.raw = engine::pack(engine::Link{});
      rec.previous.raw = engine::pack(engine::Handoff{});
      rec.generation.raw = 1;
      rec.capacity.raw = capacity;
      rec.name_bytes.raw = 1;
      rec.name[0] = static_cast<char>('0' + r);
      rec.kind.raw = static_cast<std::uint32_t>(capacity == 1 ? engine::Kind::lock : engine::Kind::semaphore);
    }
    view_.header().slot_high.raw = processes + 1;
    view_.header().record_high.raw = records;
    for (unsigned p = 0; p < processes; ++p) {
      view_.slot(slot_of(p)).id.raw = engine::pack(engine::SlotId{engine::SlotState::alive, 100U + p});
      view_.slot(slot_of(p)).life.raw = engine::life_waiters | (p + 1);
      view_.slot(slot_of(p)).pid = pid_of(p);
      view_.entry(entry_of(p)).holder_bytes = holder_bytes;
      std::memset(view_.entry(entry_of(p)).text.data(), name_of(p), holder_bytes);
      view_.chunk(p).raw = owner_word(p);
    }
    remember(0, sizeof(engine::Header));
    remember(geo.slots, sizeof(engine::SessionSlot) * (processes + 1));
    remember(geo.chunks, 8ULL * geo.chunk_count);
    remember(geo.records, sizeof(engine::Record) * records);
    remember(geo.entries, sizeof(Entry) * processes * engine::entries_per_chunk);
    remember(geo.notices, sizeof(engine::Notice) * records);
    remember(geo.notice_rests, sizeof(engine::NoticeRest) * records);
    remember(geo.journal, sizeof(engine::Word128) * journal_words);
  }

  void reset() {
    for (const Part& p : parts_) std::memcpy(memory_.get() + p.offset, p.bytes.data(), p.bytes.size());
  }

  [[nodiscard]] const engine::View& view() const noexcept { return view_; }
  [[nodiscard]] engine::ControlOps<SimPolicy> ops(RecordIndex r) const noexcept { return {view_, r, 1}; }
  static constexpr SlotIndex slot_of(unsigned process) noexcept { return process + 1; }
  static constexpr unsigned process_of(SlotIndex slot) noexcept { return slot - 1; }
  /// The chunk word of the process's first life.
  static constexpr std::uint64_t owner_word(unsigned process) noexcept {
    return engine::pack_owner({slot_of(process), 100U + process});
  }
  static constexpr EntryIndex entry_of(unsigned process) noexcept { return process * engine::entries_per_chunk; }
  static constexpr std::int32_t pid_of(unsigned process) noexcept { return static_cast<std::int32_t>(1000 + process); }
  static constexpr char name_of(unsigned process) noexcept { return static_cast<char>('a' + process); }

  /// For traces.
  void name_words(Scenario& s) const;

  /// What whoever is convinced of the death of a process does to its entries, and to the word it said it helps.
  void bury(unsigned process) const noexcept {
    engine::Word64& chunk = view_.owner_of(entry_of(process));
    // Of its first life only: who looks late must leave the next one alone.
    if (const std::uint64_t owner = owner_word(process); SimPolicy::load(chunk) == owner) {
      for (EntryIndex n = 0; n < entries_in_use; ++n) {
        const bool sound = engine::bury_entry<SimPolicy>(view_, entry_of(process) + n, owner, engine::Burial::dead);
        require(sound, "the burial found damage");
      }
      SimPolicy::cas(chunk, owner, 0);
    }
    const std::uint64_t helping = SimPolicy::load(view_.slot(slot_of(process)).helping);
    if (helping != 0) ops(static_cast<RecordIndex>(helping - 1)).evict();
  }

  /// Around what a process does to a word without an entry of its own in it: its burial settles that word.
  class Helping {
   public:
    Helping(const Segment& segment, unsigned process, RecordIndex r) noexcept
        : word_(segment.view_.slot(slot_of(process)).helping) {
      SimPolicy::store(word_, r + 1ULL);
    }
    ~Helping() { SimPolicy::store(word_, 0); }
    Helping(const Helping&) = delete;
    Helping& operator=(const Helping&) = delete;

   private:
    engine::Word64& word_;
  };

  /// What a waiter knows of the world: how to bury; no leases, no end but the grant and its deadline.
  struct Around {
    const Segment& segment;
    unsigned process;
    bool bury(SlotIndex slot, std::int64_t) const noexcept {
      segment.bury(process_of(slot));
      return true;
    }
    std::int64_t check_holders(const engine::ControlOps<SimPolicy>&, engine::Watched&) const noexcept {
      return std::numeric_limits<std::int64_t>::max();
    }
    bool stop_requested() const noexcept { return false; }
    bool deadlocked() const noexcept { return false; }
    bool usable() const noexcept { return true; }
    SlotIndex self() const noexcept { return slot_of(process); }
  };

  /// Sleeps until the first entry of the process is granted, without spinning.
  [[nodiscard]] engine::WaitEnd wait(RecordIndex r, unsigned process, std::int64_t deadline_ns,
                                     EntryIndex nth = 0) const noexcept {
    const engine::ControlOps<SimPolicy> word = ops(r);
    Around around{*this, process};
    engine::SpinBudget spin{.pauses = 0};
    return engine::Waiter<SimPolicy, Around>(word, entry_of(process) + nth, around).wait(deadline_ns, spin);
  }
  [[nodiscard]] std::uint64_t token(RecordIndex r, unsigned process, EntryIndex nth = 0) const noexcept {
    const std::uint64_t stamp = ops(r).status(entry_of(process) + nth).stamp;
    return engine::seq_of_stamp(stamp, SimPolicy::load_seq(view_.record(r).control));
  }

  /// The news of a robbed holder; the holder since `token` takes it, once.
  struct News {
    Loss loss = Loss::none;
    std::int32_t pid = 0;
    char holder = '\0';  // not told
  };
  [[nodiscard]] News take_news(RecordIndex r, std::uint64_t token) const {
    const engine::News news = engine::take_news<SimPolicy>(view_, r, token);
    const std::string& holder = news.text.holder;
    if (holder.empty()) return {news.loss, news.text.pid};
    require(holder == std::string(holder_bytes, holder[0]), "the news is made of two notices");
    return {news.loss, news.text.pid, holder[0]};
  }

  /// What the kernel does at a death: sets the bit, wakes one.
  void announce_death(unsigned process) const noexcept {
    engine::Word32& life = view_.slot(slot_of(process)).life;
    SimPolicy::store(life, life.raw | engine::life_died);
    SimPolicy::wake(life, 1);
  }

  /// At the end: nothing is held, nobody waits, no entry is in use.
  void require_idle() const {
    for (RecordIndex r = 0; r < records; ++r) {
      require(ops(r).finish_now(), "a word is corrupt at the end");
      require(core::idle(ops(r).load()), "a word is not idle at the end: a permit or a waiter leaked");
    }
    for (unsigned p = 0; p < processes; ++p) {
      for (EntryIndex n = 0; n < entries_in_use; ++n) {
        const engine::Phase phase = ops(0).status(entry_of(p) + n).phase;
        require(phase == engine::Phase::free || phase == engine::Phase::lost, "an entry is not free at the end");
      }
    }
  }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept { ::operator delete (p, std::align_val_t{engine::page_size}); }
  };
  struct Part {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };
  void remember(std::uint64_t offset, std::uint64_t bytes) {
    parts_.push_back({offset, {memory_.get() + offset, memory_.get() + offset + bytes}});
  }

  std::unique_ptr<std::byte, Free> memory_;
  engine::View view_;
  std::vector<Part> parts_;
};

}  // namespace shmcoord::sim
