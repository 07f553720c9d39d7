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

namespace detail {

inline constexpr std::size_t notice_words = Notice{}.words.size() + NoticeRest{}.words.size();
using NoticeBytes = std::array<char, notice_words * notice_word_bytes>;

inline Word128& notice_word(const View& view, RecordIndex record, std::size_t at) noexcept {
  Notice& notice = view.notice(record);
  return at < notice.words.size() ? notice.words[at] : view.notice_rest(record).words[at - notice.words.size()];
}
inline bool notice_exists(const View& view, RecordIndex record, std::size_t holder_bytes) noexcept {
  if (!view.pages_exist(view.offset_of(&view.notice(record)), sizeof(Notice))) return false;
  return holder_bytes <= short_notice_holder ||
         view.pages_exist(view.offset_of(&view.notice_rest(record)), sizeof(NoticeRest));
}
inline std::size_t notice_words_of(std::size_t holder_bytes) noexcept {
  return (notice_head_bytes + holder_bytes + notice_word_bytes - 1) / notice_word_bytes;
}

inline core::Packed notice_word_of(std::uint32_t stamp, const char* payload) noexcept {
  std::uint32_t four = 0;
  core::Packed word{};
  std::memcpy(&four, payload, sizeof four);
  std::memcpy(&word.bits, payload + sizeof four, sizeof word.bits);
  word.seq = stamp | std::uint64_t{four} << 32U;
  return word;
}

}  // namespace detail

/// Does its holder id need the second table? (False for garbage: of that nobody is told.)
inline bool needs_notice_rest(const View& view, EntryIndex entry) noexcept {
  if (!view.entry_exists(entry)) return false;
  const std::uint32_t bytes = RealPolicy::load(detail::length_word(view.entry(entry).holder_bytes));
  return bytes > short_notice_holder && bytes <= max_holder;
}

/// `current()`: is that reclaim still the last operation on the word?
template <class P, class Current>
void write_notice(const View& view, RecordIndex record, EntryIndex entry, std::uint64_t seq,
                  Current&& current) noexcept {
  if (!detail::notice_exists(view, record, 0)) return;
  Entry& e = view.entry(entry);
  const auto stamp = static_cast<std::uint32_t>(handoff_stamp(record, seq));
  std::int32_t pid = RealPolicy::get(e.bound_pid);
  if (const std::uint64_t owner = P::load(view.owner_of(entry)); pid == 0 && owner != 0) {
    const SlotIndex s = unpack_owner(owner).slot;
    if (view.slot_exists(s)) pid = RealPolicy::get(view.slot(s).pid);
  }
  const std::uint64_t since = P::load(e.since_ns);
  // Each is loaded once: who may write the segment could change it between the check and the use.
  const std::uint32_t stored = P::load(detail::length_word(e.holder_bytes));
  const char* const text = detail::text_row(view, entry, stored, P::load(detail::length_word(e.reason_bytes)));
  const std::uint32_t bytes = text != nullptr && detail::notice_exists(view, record, stored) ? stored : 0;
  detail::NoticeBytes payload{};
  std::memcpy(&payload[0], &pid, sizeof pid);
  std::memcpy(&payload[sizeof pid], &since, sizeof since);
  payload[notice_head_bytes - 1] = static_cast<char>(bytes);
  load_text<P>(text, 0, &payload[notice_head_bytes], bytes);
  const std::size_t count = detail::notice_words_of(bytes);
  std::array<core::Packed, detail::notice_words> read;
  for (std::size_t at = 0; at < count; ++at) read[at] = P::guess(detail::notice_word(view, record, at));
  if (!current()) return;
  for (std::size_t at = 0; at < count; ++at) {
    if (static_cast<std::uint32_t>(read[at].seq) == stamp && P::keeps(Safety::notice_written_once)) continue;
    P::cas(detail::notice_word(view, record, at), read[at],
           detail::notice_word_of(stamp, &payload[at * notice_word_bytes]));
  }
}

/// The notice with that stamp (of the record's `previous` word), or an empty one if it cannot be had whole.
template <class P>
NoticeText read_notice(const View& view, RecordIndex record, std::uint64_t previous_stamp) {
  if (!detail::notice_exists(view, record, 0)) return {};
  const auto stamp = static_cast<std::uint32_t>(previous_stamp);
  detail::NoticeBytes payload{};
  bool whole = true;
  std::size_t got = 0;
  const auto get_until = [&](std::size_t count) {
    for (; got < count; ++got) {
      const Word128& word = detail::notice_word(view, record, got);
      const core::Packed read = P::guess(word);
      const bool torn = P::load_seq(word) != read.seq && P::keeps(Safety::notice_word_whole);
      const bool ours = static_cast<std::uint32_t>(read.seq) == stamp && !torn;
      whole = whole && (ours || !P::keeps(Safety::notice_whole));
      const auto four = static_cast<std::uint32_t>(read.seq >> 32U);
      std::memcpy(&payload[got * notice_word_bytes], &four, sizeof four);
      std::memcpy(&payload[got * notice_word_bytes + sizeof four], &read.bits, sizeof read.bits);
    }
  };
  get_until(detail::notice_words_of(0));
  const std::size_t bytes = static_cast<unsigned char>(payload[notice_head_bytes - 1]);
  if (!whole || !detail::notice_exists(view, record, bytes)) return {};
  get_until(detail::notice_words_of(bytes));
  if (!whole) return {};
  NoticeText text;
  std::memcpy(&text.pid, &payload[0], sizeof text.pid);
  std::memcpy(&text.since_ns, &payload[sizeof text.pid], sizeof text.since_ns);
  text.holder.assign(&payload[notice_head_bytes], bytes);
  return text;
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
