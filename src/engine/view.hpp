#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/layout.hpp"
#include "engine/real_policy.hpp"

// Typed access to the tables of a mapped segment. A View owns nothing and checks nothing but what it says; whoever
// takes an index out of shared memory checks it with has_entry()/has_record() first, because a damaged segment must end
// in an error and never in a wild access.

namespace shmcoord::engine {

struct View {
  std::byte* base = nullptr;
  Geometry geo{};

  [[nodiscard]] Header& header() const noexcept { return at<Header>(0, 0); }
  [[nodiscard]] Word64& bucket(std::uint32_t b) const noexcept { return at<Word64>(geo.buckets, b); }
  [[nodiscard]] Word64& directory(RecordIndex r) const noexcept { return at<Word64>(geo.directory, r); }
  [[nodiscard]] SessionSlot& slot(SlotIndex s) const noexcept { return at<SessionSlot>(geo.slots, s); }
  [[nodiscard]] Word64& chunk(std::uint32_t c) const noexcept { return at<Word64>(geo.chunks, c); }
  [[nodiscard]] Record& record(RecordIndex r) const noexcept { return at<Record>(geo.records, r); }
  [[nodiscard]] Entry& entry(EntryIndex i) const noexcept { return at<Entry>(geo.entries, i); }
  [[nodiscard]] Notice& notice(RecordIndex r) const noexcept { return at<Notice>(geo.notices, r); }
  [[nodiscard]] NoticeRest& notice_rest(RecordIndex r) const noexcept { return at<NoticeRest>(geo.notice_rests, r); }
  [[nodiscard]] Word128& journal(std::uint64_t word) const noexcept { return at<Word128>(geo.journal, word); }
  [[nodiscard]] char* long_name(RecordIndex r) const noexcept {
    return reinterpret_cast<char*>(base + geo.long_names + std::uint64_t{r} * long_name_bytes);
  }
  [[nodiscard]] char* long_text(EntryIndex i) const noexcept {
    return reinterpret_cast<char*>(base + geo.long_texts + std::uint64_t{i} * long_text_bytes);
  }

  [[nodiscard]] bool has_entry(EntryIndex i) const noexcept { return i / entries_per_chunk < geo.chunk_count; }
  [[nodiscard]] bool has_record(RecordIndex r) const noexcept { return r < geo.sizes.names; }
  [[nodiscard]] bool has_slot(SlotIndex s) const noexcept { return s < geo.sizes.sessions; }
  /// The chunk word that owns the entry.
  [[nodiscard]] Word64& owner_of(EntryIndex i) const noexcept { return chunk(i / entries_per_chunk); }

  /// Do all pages of [offset, offset + bytes) exist? Bits only ever go from 0 to 1, so a yes stays true. Touching a
  /// page that does not exist would allocate it, and end in SIGBUS when the file system is full.
  [[nodiscard]] bool pages_exist(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    for (std::uint64_t p = offset / page_size; p <= (offset + bytes - 1) / page_size; ++p) {
      if ((RealPolicy::load(bitmap_word(p / 64)) >> (p % 64) & 1U) == 0) return false;
    }
    return true;
  }
  /// Inside of the table, and with its pages there: for whoever walks a table, or has the index from where it may be
  /// damaged.
  [[nodiscard]] bool slot_exists(SlotIndex s) const noexcept { return has_slot(s) && exists(slot(s)); }
  [[nodiscard]] bool record_exists(RecordIndex r) const noexcept { return has_record(r) && exists(record(r)); }
  [[nodiscard]] bool entry_exists(EntryIndex i) const noexcept {
    return has_entry(i) && exists(entry(i)) && exists(owner_of(i));
  }

  [[nodiscard]] Word64& bitmap_word(std::uint64_t i) const noexcept { return at<Word64>(geo.bitmap, i); }

  [[nodiscard]] std::uint64_t offset_of(const void* p) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(p) - base);
  }

 private:
  template <class T>
  [[nodiscard]] bool exists(const T& part) const noexcept {
    return pages_exist(offset_of(&part), sizeof part);
  }
  template <class T>
  [[nodiscard]] T& at(std::uint64_t table, std::uint64_t index) const noexcept {
    return *reinterpret_cast<T*>(base + table + index * sizeof(T));
  }
};

}  // namespace shmcoord::engine
