#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <span>
#include <type_traits>

#include "engine/safety.hpp"
#include "engine/words.hpp"

#if defined(__SANITIZE_THREAD__)
#define SHMCOORD_TSAN 1
#elif defined(__has_feature)
#define SHMCOORD_TSAN __has_feature(thread_sanitizer)
#else
#define SHMCOORD_TSAN 0
#endif
#if SHMCOORD_TSAN
#include <sanitizer/tsan_interface.h>
#endif

// The engine's hands on a real machine: atomic words, futexes, clocks. The other implementation is the simulated policy
// of the deterministic scheduler (tests/support/sim_policy.hpp); the engine is a template over it and touches shared
// words in no other way.
//
// Orders. A CAS is a full barrier: on x86 every locked instruction is. C++ promises less of a seq_cst CAS, namely
// nothing about acquire loads after it; a port to another machine would have to add the fence, because the engine needs
// it (a finisher sets `held`, then looks whether the waiter is parked; a remover marks its record, then walks the
// chain). A load is acquire, a store release: what an owner writes into its entry must be visible before the CAS that
// publishes the entry. Where a *store* must be seen before a later load (Dekker: parked against granted, heartbeat
// against mark), the code says `fence`. Each of these left out is found by the scenarios of the deterministic
// scheduler.
//
// The 128-bit CAS uses the __sync builtin: with -mcx16 both compilers inline cmpxchg16b for it, where the __atomic one
// is a call into libatomic with gcc. ThreadSanitizer replaces either by a lock of its own process, which excludes no
// other process; there the instruction is written out and TSan is told what it orders. A 128-bit *load* by cmpxchg16b
// would write, fault on a read-only mapping and steal the line, so load() takes two 64-bit loads between equal
// sequences.

namespace shmcoord::engine {

/// One futex to sleep on: returns when *word != expected or when it is woken.
struct WaitOn {
  const Word32* word;
  std::uint32_t expected;
};

enum class Woken : std::uint8_t { woken, changed, timed_out, unsupported };

struct RealPolicy {
#if defined(SHMCOORD_MUTATIONS)
  static bool keeps(Safety line) noexcept { return line != turned_off(); }
#else
  static consteval bool keeps(Safety) noexcept { return true; }
#endif

  static std::uint32_t load(const Word32& w) noexcept { return __atomic_load_n(&w.raw, __ATOMIC_ACQUIRE); }
  static std::uint64_t load(const Word64& w) noexcept { return __atomic_load_n(&w.raw, __ATOMIC_ACQUIRE); }

  static core::Control load(const Word128& w) noexcept {
    for (;;) {
      const std::uint64_t seq = __atomic_load_n(&w.seq, __ATOMIC_ACQUIRE);
      const std::uint64_t bits = __atomic_load_n(&w.bits, __ATOMIC_ACQUIRE);
      if (__atomic_load_n(&w.seq, __ATOMIC_ACQUIRE) == seq) return core::unpack(seq, bits);
    }
  }
  /// Both halves without making sure that they belong together: only for a guess that a CAS then confirms.
  static core::Packed guess(const Word128& w) noexcept {
    return {__atomic_load_n(&w.seq, __ATOMIC_ACQUIRE), __atomic_load_n(&w.bits, __ATOMIC_ACQUIRE)};
  }
  static std::uint64_t load_seq(const Word128& w) noexcept { return __atomic_load_n(&w.seq, __ATOMIC_ACQUIRE); }

  static void store(Word32& w, std::uint32_t v) noexcept { __atomic_store_n(&w.raw, v, __ATOMIC_RELEASE); }
  static void store(Word64& w, std::uint64_t v) noexcept { __atomic_store_n(&w.raw, v, __ATOMIC_RELEASE); }

  static bool cas(Word32& w, std::uint32_t expected, std::uint32_t desired) noexcept {
    return __atomic_compare_exchange_n(&w.raw, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  static bool cas(Word64& w, std::uint64_t expected, std::uint64_t desired) noexcept {
    return __atomic_compare_exchange_n(&w.raw, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  static bool cas(Word128& w, const core::Packed& expected, const core::Packed& desired) noexcept {
#if SHMCOORD_TSAN
    std::uint64_t seq = expected.seq;
    std::uint64_t bits = expected.bits;
    bool swapped = false;
    __tsan_release(&w);
    asm volatile("lock cmpxchg16b %1"
                 : "=@ccz"(swapped), "+m"(w), "+a"(seq), "+d"(bits)
                 : "b"(desired.seq), "c"(desired.bits)
                 : "memory");
    __tsan_acquire(&w);
    return swapped;
#else
    __extension__ using Wide = unsigned __int128;
    const auto wide = [](const core::Packed& p) { return Wide{p.bits} << 64U | p.seq; };
    return __sync_bool_compare_and_swap(reinterpret_cast<Wide*>(&w), wide(expected), wide(desired));
#endif
  }
  static bool cas(Word128& w, const core::Control& expected, const core::Control& desired) noexcept {
    return cas(w, core::pack(expected), core::pack(desired));
  }

  /// Adds and returns the value before.
  static std::uint32_t add(Word32& w, std::uint32_t n) noexcept {
    return __atomic_fetch_add(&w.raw, n, __ATOMIC_SEQ_CST);
  }
  static std::uint64_t set_bits(Word64& w, std::uint64_t bits) noexcept {
    return __atomic_fetch_or(&w.raw, bits, __ATOMIC_SEQ_CST);
  }

  static void fence() noexcept { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

  /// Of a number that is no word of the protocol, but may be read by people's tools while its owner writes it.
  template <class T>
  static T get(const T& number) noexcept {
    return __atomic_load_n(&number, __ATOMIC_ACQUIRE);
  }
  template <class T>
  static void set(T& number, std::type_identity_t<T> value) noexcept {
    __atomic_store_n(&number, value, __ATOMIC_RELEASE);
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// Lets others run that want this CPU.
  static void yield() noexcept { ::sched_yield(); }

  /// CLOCK_MONOTONIC, to the nearest tick (1–4 ms): what the uncontended path may afford.
  static std::int64_t coarse_now_ns() noexcept { return read_clock(CLOCK_MONOTONIC_COARSE); }
  /// CLOCK_MONOTONIC, exact.
  static std::int64_t now_ns() noexcept { return read_clock(CLOCK_MONOTONIC); }
  /// Since 1970. It steps: nothing that lives in a segment is ever judged by it.
  static std::int64_t wall_ns() noexcept { return read_clock(CLOCK_REALTIME); }

  static void wake(Word32& w, int count = INT_MAX) noexcept {
    ::syscall(SYS_futex, &w.raw, FUTEX_WAKE, count, nullptr, nullptr, 0);
  }

  /// Sleeps until one of the words differs, is woken, or CLOCK_MONOTONIC reaches deadline_ns. Shared futexes only:
  /// private ones are not seen by other processes. More than one word needs futex_waitv (Linux 5.16); without it,
  /// `unsupported`.
  static Woken wait(std::span<const WaitOn> words, std::int64_t deadline_ns) noexcept {
    const timespec until{deadline_ns / 1'000'000'000, deadline_ns % 1'000'000'000};
    long r = 0;
    if (words.size() == 1) {
      r = ::syscall(SYS_futex, &words[0].word->raw, FUTEX_WAIT_BITSET, words[0].expected, &until, nullptr,
                    FUTEX_BITSET_MATCH_ANY);
    } else {
      futex_waitv vec[max_wait_words];
      const unsigned n = static_cast<unsigned>(std::min<std::size_t>(words.size(), max_wait_words));
      for (unsigned i = 0; i < n; ++i) {
        vec[i] = {};
        vec[i].val = words[i].expected;
        vec[i].uaddr = reinterpret_cast<std::uintptr_t>(&words[i].word->raw);
        vec[i].flags = FUTEX_32;
      }
      r = ::syscall(SYS_futex_waitv, vec, n, 0U, &until, CLOCK_MONOTONIC);
    }
    if (r >= 0 || errno == EINTR) return Woken::woken;
    if (errno == EAGAIN) return Woken::changed;
    if (errno == ETIMEDOUT) return Woken::timed_out;
    return Woken::unsupported;
  }

  static constexpr unsigned max_wait_words = 8;

 private:
  static std::int64_t read_clock(clockid_t id) noexcept {
    timespec t{};
    ::clock_gettime(id, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }
};

}  // namespace shmcoord::engine
