#pragma once

#include <cstdint>

#include "engine/pages.hpp"
#include "engine/view.hpp"

// Entries are handed to sessions in chunks of eight: who recovers a dead session scans its chunks only, and a session
// that takes and gives back entries touches no shared word for it.
//
// A chunk belongs to {slot, incarnation} or to nobody (0); claiming is one CAS. Before it, all pages are made to exist
// and chunk_high is raised, so that no claimed chunk is ever beyond what recovery scans. If we die before the CAS:
// allocated pages that the next claim finds. After it: a chunk of the dead session.
//
// Detached entries outlive their session: their chunk is moved to the permanent slot by one CAS, under a random
// incarnation, so that the word of one life of the chunk never comes back: whoever frees it may have slept for long.

namespace shmcoord::engine {

template <class P>
class Chunks {
 public:
  explicit Chunks(const View& view) noexcept : view_(view) {}

  enum class Outcome : std::uint8_t { claimed, full, no_space };
  struct Claim {
    Outcome outcome;
    std::uint32_t chunk = 0;
  };

  Claim claim(PageSource& pages, std::uint64_t owner) const noexcept {
    Header& h = view_.header();
    const std::uint32_t count = view_.geo.chunk_count;
    const auto hint = static_cast<std::uint32_t>(P::load(h.chunk_hint) % count);
    // Near the hint first; then fresh ones, which need no search; then everything.
    for (std::uint32_t n = 0; n < near && hint + n < high(); ++n) {
      if (const Claim c = try_claim(pages, hint + n, owner); c.outcome != Outcome::full) return c;
    }
    for (std::uint32_t c = high(); c < count; c = high()) {
      if (const Claim got = try_claim(pages, c, owner); got.outcome != Outcome::full) return got;
      if (high() == c) return {Outcome::full};
    }
    for (std::uint32_t n = 0; n < count; ++n) {
      const std::uint32_t c = (hint + n) % count;
      if (const Claim got = try_claim(pages, c, owner); got.outcome != Outcome::full) return got;
    }
    return {Outcome::full};
  }

  /// False: it was not (or no longer) the owner's.
  bool free(std::uint32_t chunk, std::uint64_t owner) const noexcept {
    if (!P::cas(view_.chunk(chunk), P::keeps(Safety::chunk_freed_by_owner) ? owner : P::load(view_.chunk(chunk)), 0)) {
      return false;
    }
    P::store(view_.header().chunk_hint, chunk);
    return true;
  }

  bool hand_over(std::uint32_t chunk, std::uint64_t from, std::uint64_t to) const noexcept {
    return P::cas(view_.chunk(chunk), from, to);
  }

  /// Calls fn(chunk, owner word) for each chunk that belongs to somebody; touches no page that does not exist.
  template <class Fn>
  void for_each(Fn&& fn) const {
    const std::uint32_t end = high();
    for (std::uint32_t c = 0; c < end; ++c) {
      if (c % words_per_page == 0 && !view_.pages_exist(view_.geo.chunks + std::uint64_t{c} * 8, 8)) {
        c += words_per_page - 1;
        continue;
      }
      const std::uint64_t owner = P::load(view_.chunk(c));
      if (owner == 0 || !entries_exist(c)) continue;
      fn(c, owner);
    }
  }

  [[nodiscard]] bool entries_exist(std::uint32_t chunk) const noexcept {
    return view_.pages_exist(entries_at(chunk), entries_per_chunk * sizeof(Entry));
  }

 private:
  static constexpr std::uint32_t near = 64;
  static constexpr std::uint32_t words_per_page = page_size / 8;

  [[nodiscard]] std::uint32_t high() const noexcept {
    const std::uint64_t h = P::load(view_.header().chunk_high);
    return h < view_.geo.chunk_count ? static_cast<std::uint32_t>(h) : view_.geo.chunk_count;
  }
  [[nodiscard]] std::uint64_t entries_at(std::uint32_t chunk) const noexcept {
    return view_.geo.entries + std::uint64_t{chunk} * entries_per_chunk * sizeof(Entry);
  }

  // full: taken by another.
  Claim try_claim(PageSource& pages, std::uint32_t chunk, std::uint64_t owner) const noexcept {
    if (!pages.try_ensure(view_.geo.chunks + std::uint64_t{chunk} * 8, 8)) return {Outcome::no_space};
    Word64& w = view_.chunk(chunk);
    if (P::load(w) != 0) return {Outcome::full};
    if (!pages.try_ensure(entries_at(chunk), entries_per_chunk * sizeof(Entry))) return {Outcome::no_space};
    Word64& high_word = view_.header().chunk_high;
    const auto raise = [&] {
      for (std::uint64_t h = P::load(high_word); h <= chunk; h = P::load(high_word)) P::cas(high_word, h, chunk + 1U);
    };
    if (P::keeps(Safety::chunk_high_first)) raise();
    if (!P::cas(w, 0, owner)) return {Outcome::full};
    if (!P::keeps(Safety::chunk_high_first)) raise();
    P::store(view_.header().chunk_hint, chunk + 1U);
    return {Outcome::claimed, chunk};
  }

  const View& view_;
};

}  // namespace shmcoord::engine
