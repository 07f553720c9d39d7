#pragma once

#include <array>
#include <cstring>
#include <string>

#include "engine/entry_text.hpp"
#include "engine/view.hpp"

// The notice that the next holder gets about a robbed one (C-52): who it was, since when it held.
//
// It must outlive the robbed entry, whose owner's slot may be recycled before anybody acquires again, and several
// finishers of one reclaim write it at once, any of them possibly late by hours. So every word carries the stamp of the
// reclaim and is set by CAS from what was read while the reclaim was still the word's last operation: all finishers
// write the same content (the entry's texts stand still while the reclaim is unfinished), and a late one fails, since a
// later reclaim has written the word. A reader takes it only if all stamps agree. Its page may be missing when the file
// system is full; then the loss is told without a name.
//
// The news is for who holds after the robbery. Who was granted, and robbed before it asked, finds the news of its own
// loss here; it belongs to the next one, so a holder takes only what is not younger than its token.

namespace shmcoord::engine {

struct NoticeText {
  std::int32_t pid = 0;
  std::int64_t since_ns = 0;
  std::string holder;
};

inline constexpr std::size_t notice_head_words = 4;  // pid, since low, since high, length
inline constexpr std::size_t notice_words = sizeof(Notice) / sizeof(Word64);
static_assert(notice_words == notice_head_words + (max_holder + 3) / 4);

/// `current()`: is that reclaim still the last operation on the word?
template <class P, class Current>
void write_notice(const View& view, RecordIndex record, EntryIndex entry, std::uint64_t seq,
                  Current&& current) noexcept {
  Notice& notice = view.notice(record);
  if (!view.pages_exist(view.offset_of(&notice), sizeof(Notice))) return;
  Entry& e = view.entry(entry);
  const std::uint64_t stamp = handoff_stamp(record, seq) & 0xffffffffU;
  std::int32_t pid = RealPolicy::get(e.bound_pid);
  if (const std::uint64_t owner = P::load(view.owner_of(entry)); pid == 0 && owner != 0) {
    const SlotIndex s = unpack_owner(owner).slot;
    if (view.slot_exists(s)) pid = RealPolicy::get(view.slot(s).pid);
  }
  const std::uint64_t since = P::load(e.since_ns);
  // Each is loaded once: who may write the segment could change it between the check and the use.
  const std::uint32_t stored_bytes = P::load(detail::length_word(e.holder_bytes));
  const char* const text = detail::text_row(view, entry, stored_bytes, P::load(detail::length_word(e.reason_bytes)));
  const std::uint32_t bytes = text == nullptr ? 0 : stored_bytes;
  std::array<char, (notice_words - notice_head_words) * 4> holder{};
  load_text<P>(text, 0, holder.data(), bytes);
  std::array<std::uint32_t, notice_words> payload{static_cast<std::uint32_t>(pid), static_cast<std::uint32_t>(since),
                                                  static_cast<std::uint32_t>(since >> 32U), bytes};
  const std::size_t count = notice_head_words + (bytes + 3) / 4;
  std::memcpy(&payload[notice_head_words], holder.data(), holder.size());
  std::array<std::uint64_t, notice_words> read{};
  for (std::size_t at = 0; at < count; ++at) read[at] = P::load(notice.words[at]);
  if (!current()) return;
  for (std::size_t at = 0; at < count; ++at) {
    if ((read[at] & 0xffffffffU) == stamp && P::keeps(Safety::notice_written_once)) continue;
    P::cas(notice.words[at], read[at], stamp | std::uint64_t{payload[at]} << 32U);
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
    whole = whole && ((read & 0xffffffffU) == stamp || !P::keeps(Safety::notice_whole));
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

struct News {
  Loss loss = Loss::none;  // none: nobody was robbed, or somebody else was told
  NoticeText text;
};

/// What the holder since `token` is to be told, once.
template <class P>
News take_news(const View& view, RecordIndex record, std::uint64_t token) {
  Word64& word = view.record(record).previous;
  const std::uint64_t raw = P::load(word);
  const Handoff previous = unpack_handoff(raw);
  if (previous.loss == Loss::none) return {};
  const std::uint64_t mine = handoff_stamp(record, token);
  const bool younger = ((mine - previous.stamp) & handoff_stamp_mask) > handoff_stamp_mask / 2;
  if (younger && P::keeps(Safety::news_of_before)) return {};
  const NoticeText text = read_notice<P>(view, record, previous.stamp);
  if (!P::cas(word, raw, pack(Handoff{nil_entry, Loss::none, mine}))) return {};
  return {previous.loss, text};
}

}  // namespace shmcoord::engine
