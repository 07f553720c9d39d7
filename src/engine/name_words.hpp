#pragma once

#include <cstdint>
#include <string_view>

#include "engine/words.hpp"

// The two words that the name index is made of, and the hash that spreads names over its buckets.
//
// Bucket: {sequence:44 | head:20}. Every insert, every unlink of the head and every end of a removal raises the
// sequence, so an unchanged bucket word means: nobody inserted here, and nothing that could be reached from here was
// recycled. Chain (in the record): {generation:43 | mark:1 | next:20}. The generation is the record's own, of this
// attempt to insert it; it makes the word unique, so that a late CAS of somebody who slept through the record's life
// fails. The mark says that the record is removed, and freezes `next`. head and next are record index + 1; 0 ends a
// chain. Zeroed memory is an empty bucket.

namespace shmcoord::engine {

inline constexpr std::uint64_t bucket_sequence_mask = (1ULL << 44U) - 1;
inline constexpr std::uint64_t chain_generation_mask = (1ULL << 43U) - 1;

struct Bucket {
  std::uint64_t sequence = 0;
  std::uint32_t head = 0;
};
constexpr std::uint64_t pack(const Bucket& b) noexcept {
  return std::uint64_t{b.head} | (b.sequence & bucket_sequence_mask) << 20U;
}
constexpr Bucket unpack_bucket(std::uint64_t raw) noexcept {
  return {raw >> 20U, static_cast<std::uint32_t>(raw & core::index_mask)};
}
/// The word after `b`, with another head.
constexpr Bucket after(const Bucket& b, std::uint32_t head) noexcept { return {b.sequence + 1, head}; }

struct Chain {
  std::uint64_t generation = 0;
  bool marked = false;
  std::uint32_t next = 0;
};
constexpr std::uint64_t pack(const Chain& c) noexcept {
  return std::uint64_t{c.next} | std::uint64_t{c.marked} << 20U | (c.generation & chain_generation_mask) << 21U;
}
constexpr Chain unpack_chain(std::uint64_t raw) noexcept {
  return {raw >> 21U, (raw >> 20U & 1U) != 0, static_cast<std::uint32_t>(raw & core::index_mask)};
}

/// FNV-1a over the bytes from a start that depends on the segment, then a finish that lets every bit reach the low ones
/// (the bucket is taken from those). Keyed, so that a list of names that collide in one segment does not in another.
constexpr std::uint64_t hash_name(std::string_view name, std::uint64_t key) noexcept {
  std::uint64_t h = 0xcbf29ce484222325ULL ^ key;
  for (const char c : name) {
    h ^= static_cast<unsigned char>(c);
    h *= 0x100000001b3ULL;
  }
  h ^= h >> 32U;
  h *= 0xd6e8feb86659fd93ULL;
  h ^= h >> 32U;
  h *= 0xd6e8feb86659fd93ULL;
  return h ^ h >> 32U;
}

}  // namespace shmcoord::engine
