#pragma once

#include <string>

#include "engine/view.hpp"

// The notice that the next holder gets about a robbed one (C-52): who it was, since when it held.
//
// It must outlive the robbed entry, whose owner's slot may be recycled before anybody acquires again, and several
// finishers of one reclaim write it at once, any of them possibly late by hours. So every word carries the stamp of the
// reclaim and is set by CAS from exactly what was read: all finishers write the same content (the entry's texts stand
// still while the reclaim is unfinished), and a late one fails. A reader takes it only if all stamps agree. Its page
// may be missing when the file system is full; then the loss is told without a name.

namespace shmcoord::engine {

struct NoticeText {
  std::int32_t pid = 0;
  std::int64_t since_ns = 0;
  std::string holder;
};

inline constexpr std::size_t notice_head_words = 4;  // pid, since low, since high, length

template <class P>
void write_notice(const View& view, RecordIndex record, EntryIndex entry, std::uint64_t seq) noexcept {
  Notice& notice = view.notice(record);
  if (!view.pages_exist(view.offset_of(&notice), sizeof(Notice))) return;
  const Entry& e = view.entry(entry);
  const std::uint64_t stamp = handoff_stamp(record, seq) & 0xffffffffU;
  const auto put = [&](std::size_t at, std::uint32_t payload) {
    Word64& w = notice.words[at];
    const std::uint64_t read = P::load(w);
    if ((read & 0xffffffffU) != stamp) P::cas(w, read, stamp | std::uint64_t{payload} << 32U);
  };
  std::int32_t pid = RealPolicy::get(e.bound_pid);
  if (const std::uint64_t owner = P::load(view.owner_of(entry)); pid == 0 && owner != 0) {
    const SlotIndex s = unpack_owner(owner).slot;
    if (view.slot_exists(s)) pid = RealPolicy::get(view.slot(s).pid);
  }
  const std::uint64_t since = P::load(e.since_ns);
  // Each is loaded once: who may write the segment could change it between the check and the use.
  const auto length = [](const std::uint32_t& stored, std::size_t most) {
    const std::uint32_t read = P::load(reinterpret_cast<const Word32&>(stored));
    return read <= most ? read : 0;
  };
  const std::uint32_t bytes = length(e.holder_bytes, max_holder);
  const bool inlined = std::size_t{bytes} + length(e.reason_bytes, max_reason) <= e.text.size();
  const char* const text = inlined ? e.text.data() : view.long_text(entry);
  const bool readable = inlined || (bytes != 0 && view.pages_exist(view.offset_of(text), bytes));
  put(0, static_cast<std::uint32_t>(pid));
  put(1, static_cast<std::uint32_t>(since));
  put(2, static_cast<std::uint32_t>(since >> 32U));
  put(3, readable ? bytes : 0);
  for (std::uint32_t i = 0; readable && i < bytes; i += 4) {
    std::uint32_t four = 0;
    for (std::uint32_t k = 0; k < 4 && i + k < bytes; ++k) {
      four |= std::uint32_t{static_cast<unsigned char>(text[i + k])} << (8 * k);
    }
    put(notice_head_words + i / 4, four);
  }
}

/// The notice with that stamp (of the record's `previous` word), or an empty one if it cannot be had whole.
template <class P>
NoticeText read_notice(const View& view, RecordIndex record, std::uint64_t previous_stamp) {
  const Notice& notice = view.notice(record);
  if (!view.pages_exist(view.offset_of(&notice), sizeof(Notice))) return {};
  const std::uint64_t stamp = previous_stamp & 0xffffffffU;
  bool whole = true;
  const auto get = [&](std::size_t at) {
    const std::uint64_t read = P::load(notice.words[at]);
    whole = whole && (read & 0xffffffffU) == stamp;
    return static_cast<std::uint32_t>(read >> 32U);
  };
  NoticeText text;
  text.pid = static_cast<std::int32_t>(get(0));
  text.since_ns = static_cast<std::int64_t>(std::uint64_t{get(1)} | std::uint64_t{get(2)} << 32U);
  const std::uint32_t bytes = get(3);
  if (!whole || bytes > max_holder) return {};
  for (std::uint32_t i = 0; i < bytes; i += 4) {
    const std::uint32_t four = get(notice_head_words + i / 4);
    for (std::uint32_t k = 0; k < 4 && i + k < bytes; ++k)
      text.holder.push_back(static_cast<char>(four >> (8 * k) & 0xffU));
  }
  return whole ? text : NoticeText{};
}

}  // namespace shmcoord::engine
