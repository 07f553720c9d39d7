#pragma once

#include <climits>
#include <cstdint>
#include <span>

#include "core/control_word.hpp"
#include "engine/real_policy.hpp"
#include "engine/safety.hpp"
#include "engine/words.hpp"
#include "support/sim_scheduler.hpp"

// RealPolicy's interface on plain memory, each operation a scheduling point of the simulated task that makes it.
// Outside of a task (a scenario's set-up and check) an operation just acts. What a load may see beside the newest value
// is in sim_memory.hpp; the orders are those of RealPolicy: loads acquire, stores release, the rest is seq_cst.

namespace shmcoord::sim {

struct SimPolicy {
#if defined(SHMCOORD_COUNTS_BRANCHES)
  static consteval bool keeps(engine::Safety) noexcept { return true; }  // or each would count as a branch
#else
  static bool keeps(engine::Safety line) noexcept { return line != off; }
#endif

  static std::uint32_t load(const engine::Word32& w) noexcept { return read(w, Order::ordered); }
  static std::uint64_t load(const engine::Word64& w) noexcept { return read(w, Order::ordered); }
  // For canaries; the engine has no such thing.
  static std::uint64_t load_relaxed(const engine::Word64& w) noexcept { return read(w, Order::relaxed); }

  // The real one is two loads between equal sequences: both halves of one store, so it is one operation here.
  static core::Control load(const engine::Word128& w) noexcept {
    detail::point(detail::Access::load, &w);
    const Held held = detail::loaded(&w, {w.seq, w.bits}, Order::ordered);
    detail::done(&w, held.low, held.low, held.low);
    detail::done(&w.bits, held.high, held.high, held.high);
    return core::unpack(held.low, held.high);
  }
  // Two operations: the halves need not belong together.
  static core::Packed guess(const engine::Word128& w) noexcept {
    const std::uint64_t seq = load_seq(w);
    detail::point(detail::Access::load, &w);
    const Held held = detail::loaded(&w, {w.seq, w.bits}, Order::ordered);
    detail::done(&w.bits, held.high, held.high, held.high);
    return {seq, held.high};
  }
  static std::uint64_t load_seq(const engine::Word128& w) noexcept {
    detail::point(detail::Access::load, &w);
    const Held held = detail::loaded(&w, {w.seq, w.bits}, Order::ordered);
    detail::done(&w, held.low, held.low, held.low);
    return held.low;
  }

  static void store(engine::Word32& w, std::uint32_t v) noexcept { write(w, v, Order::ordered); }
  static void store(engine::Word64& w, std::uint64_t v) noexcept { write(w, v, Order::ordered); }
  static void store_relaxed(engine::Word64& w, std::uint64_t v) noexcept { write(w, v, Order::relaxed); }

  static bool cas(engine::Word32& w, std::uint32_t expected, std::uint32_t desired) noexcept {
    return swap(w, expected, desired);
  }
  static bool cas(engine::Word64& w, std::uint64_t expected, std::uint64_t desired) noexcept {
    return swap(w, expected, desired);
  }
  static bool cas(engine::Word128& w, const core::Packed& expected, const core::Packed& desired) noexcept {
    return cas(w, core::unpack(expected.seq, expected.bits), core::unpack(desired.seq, desired.bits));
  }
  static bool cas(engine::Word128& w, const core::Control& expected, const core::Control& desired) noexcept {
    detail::point(detail::Access::cas, &w);
    const bool same = w.seq == expected.seq && w.bits == core::pack_bits(expected);
    const engine::Word128 before = w;
    if (same) w = {desired.seq, core::pack_bits(desired)};
    detail::exchanged(&w, {before.seq, before.bits}, {w.seq, w.bits}, same);
    detail::done(&w, before.seq, w.seq, same ? 1 : 0);
    detail::done(&w.bits, before.bits, w.bits, 0);
    return same;
  }

  static std::uint32_t add(engine::Word32& w, std::uint32_t n) noexcept {
    detail::point(detail::Access::add, &w);
    const std::uint32_t before = w.raw;
    w.raw = before + n;
    detail::exchanged(&w, {before}, {w.raw}, true);
    detail::done(&w, before, w.raw, before);
    return before;
  }
  static std::uint64_t set_bits(engine::Word64& w, std::uint64_t bits) noexcept {
    detail::point(detail::Access::set_bits, &w);
    const std::uint64_t before = w.raw;
    w.raw = before | bits;
    detail::exchanged(&w, {before}, {w.raw}, true);
    detail::done(&w, before, w.raw, before);
    return before;
  }

  static void fence() noexcept { detail::fence(); }
  static void pause() noexcept { detail::yield(); }
  static void yield() noexcept { detail::yield(); }

  static std::int64_t now_ns() noexcept { return detail::now_ns(); }
  static std::int64_t coarse_now_ns() noexcept { return detail::now_ns(); }

  static void wake(engine::Word32& w, int count = INT_MAX) noexcept {
    detail::point(detail::Access::wake, &w);
    detail::wake(&w, static_cast<unsigned>(count));
  }

  static engine::Woken wait(std::span<const engine::WaitOn> words, std::int64_t deadline_ns) noexcept {
    if (words.size() > max_wait_words || (words.size() > 1 && !detail::several_words()))
      return engine::Woken::unsupported;
    const void* addresses[max_wait_words] = {};
    unsigned n = 0;
    for (const engine::WaitOn& w : words) addresses[n++] = w.word;
    // The kernel compares all of them under its locks: one operation, a point of choice for each word.
    for (const engine::WaitOn& w : words) detail::point(detail::Access::wait, w.word);
    for (const engine::WaitOn& w : words) {
      detail::done(w.word, w.word->raw, w.word->raw, w.word->raw);
      if (w.word->raw != w.expected) return engine::Woken::changed;
    }
    return detail::sleep(addresses, n, deadline_ns) ? engine::Woken::woken : engine::Woken::timed_out;
  }

  static constexpr unsigned max_wait_words = 8;

 private:
  using Order = detail::Order;
  static inline const engine::Safety off = engine::turned_off();

  template <class Word>
  static decltype(Word::raw) read(const Word& w, Order order) noexcept {
    detail::point(detail::Access::load, &w);
    const auto raw = static_cast<decltype(Word::raw)>(detail::loaded(&w, {w.raw}, order).low);
    detail::done(&w, raw, raw, raw);
    return raw;
  }
  template <class Word, class Value>
  static void write(Word& w, Value v, Order order) noexcept {
    detail::point(detail::Access::store, &w);
    const std::uint64_t before = w.raw;
    w.raw = v;
    detail::stored(&w, {before}, {v}, order);
    detail::done(&w, before, v, 0);
  }
  template <class Word, class Value>
  static bool swap(Word& w, Value expected, Value desired) noexcept {
    detail::point(detail::Access::cas, &w);
    const Value before = w.raw;
    const bool same = before == expected;
    if (same) w.raw = desired;
    detail::exchanged(&w, {before}, {w.raw}, same);
    detail::done(&w, before, w.raw, same ? 1 : 0);
    return same;
  }
};

}  // namespace shmcoord::sim
