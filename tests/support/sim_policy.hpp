#pragma once

#include <climits>
#include <cstdint>
#include <span>

#include "core/control_word.hpp"
#include "engine/real_policy.hpp"
#include "engine/words.hpp"
#include "support/sim_scheduler.hpp"

// RealPolicy's interface on plain memory, each operation a scheduling point of the simulated task that makes it.
// Outside of a task (a scenario's set-up and check) an operation just acts. Sequentially consistent: what the x86
// memory model allows beyond that (a store that becomes visible after a later load) is not shown.

namespace shmcoord::sim {

struct SimPolicy {
  static std::uint32_t load(const engine::Word32& w) noexcept { return read(w); }
  static std::uint64_t load(const engine::Word64& w) noexcept { return read(w); }

  // The real one is two loads between equal sequences, so it is one operation here.
  static core::Control load(const engine::Word128& w) noexcept {
    detail::point(detail::Access::load, &w);
    detail::done(&w, w.seq, w.seq, w.seq);
    detail::done(&w.bits, w.bits, w.bits, w.bits);
    return core::unpack(w.seq, w.bits);
  }
  // Two operations: the halves need not belong together.
  static core::Packed guess(const engine::Word128& w) noexcept {
    const std::uint64_t seq = load_seq(w);
    detail::point(detail::Access::load, &w);
    detail::done(&w.bits, w.bits, w.bits, w.bits);
    return {seq, w.bits};
  }
  static std::uint64_t load_seq(const engine::Word128& w) noexcept {
    detail::point(detail::Access::load, &w);
    detail::done(&w, w.seq, w.seq, w.seq);
    return w.seq;
  }

  static void store(engine::Word32& w, std::uint32_t v) noexcept { write(w, v); }
  static void store(engine::Word64& w, std::uint64_t v) noexcept { write(w, v); }

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
    detail::done(&w, before.seq, w.seq, same ? 1 : 0);
    detail::done(&w.bits, before.bits, w.bits, 0);
    return same;
  }

  static std::uint32_t add(engine::Word32& w, std::uint32_t n) noexcept {
    detail::point(detail::Access::add, &w);
    const std::uint32_t before = w.raw;
    w.raw = before + n;
    detail::done(&w, before, w.raw, before);
    return before;
  }
  static std::uint64_t set_bits(engine::Word64& w, std::uint64_t bits) noexcept {
    detail::point(detail::Access::set_bits, &w);
    const std::uint64_t before = w.raw;
    w.raw = before | bits;
    detail::done(&w, before, w.raw, before);
    return before;
  }

  static void fence() noexcept {}
  static void pause() noexcept { detail::yield(); }

  static std::int64_t coarse_now_ns() noexcept { return detail::now_ns(); }
  static std::int64_t now_ns() noexcept { return detail::now_ns(); }

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
  template <class Word>
  static decltype(Word::raw) read(const Word& w) noexcept {
    detail::point(detail::Access::load, &w);
    detail::done(&w, w.raw, w.raw, w.raw);
    return w.raw;
  }
  template <class Word, class Value>
  static void write(Word& w, Value v) noexcept {
    detail::point(detail::Access::store, &w);
    const std::uint64_t before = w.raw;
    w.raw = v;
    detail::done(&w, before, v, 0);
  }
  template <class Word, class Value>
  static bool swap(Word& w, Value expected, Value desired) noexcept {
    detail::point(detail::Access::cas, &w);
    const Value before = w.raw;
    const bool same = before == expected;
    if (same) w.raw = desired;
    detail::done(&w, before, w.raw, same ? 1 : 0);
    return same;
  }
};

}  // namespace shmcoord::sim
