#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/pages.hpp"
#include "engine/real_policy.hpp"
#include "engine/shared_bytes.hpp"
#include "engine/view.hpp"

// Holder id and reason of an entry: two texts, one behind the other, in the entry when both fit, else in the entry's
// row of the long-text table.
//
// One writer at a time, the entry's owner; any number of readers, who may look at any moment at any entry, also at one
// that is being recycled. `text_version` is odd while the texts change, and a reader takes only what stood still
// between two equal even versions. Where the text stands follows from the two lengths, which are bounded before they
// are used.
//
// What if we die here: the version stays odd until somebody writes again; readers give up after some tries and take
// what is there, marked as not settled. The holder id is then still right when the dead writer was changing only the
// reason, because it is written again with the same bytes, and where it stands changes with one word. That matters for
// a detached hold, which outlives who changed its reason, and is found by nothing but its holder id.

namespace shmcoord::engine {

struct EntryTexts {
  std::string holder;
  std::string reason;
  bool settled = true;  // false: the owner died while writing; best effort
};

namespace detail {

inline constexpr int text_read_tries = 100;

// Plain numbers of the layout that change under a reader like the text itself.
inline Word32& length_word(std::uint32_t& number) noexcept { return reinterpret_cast<Word32&>(number); }

inline bool fits_inline(std::size_t holder_bytes, std::size_t reason_bytes) noexcept {
  return holder_bytes + reason_bytes <= sizeof(Entry::text);
}

/// Where the text of these lengths stands; null when its page does not exist, or the lengths are garbage.
inline const char* text_row(const View& view, EntryIndex entry, std::uint32_t holder_bytes,
                            std::uint32_t reason_bytes) noexcept {
  if (holder_bytes > max_holder || reason_bytes > max_reason) return nullptr;
  if (fits_inline(holder_bytes, reason_bytes)) return view.entry(entry).text.data();
  const char* const row = view.long_text(entry);
  return view.pages_exist(view.offset_of(row), std::uint64_t{holder_bytes} + reason_bytes) ? row : nullptr;
}

}  // namespace detail

/// Writes both. False: the file system is full, and the texts are as before. Holder up to 255 bytes, reason up to 4096
/// (the caller has checked).
template <class P = RealPolicy>
[[nodiscard]] bool write_texts(const View& view, PageSource& pages, EntryIndex entry, std::string_view holder,
                               std::string_view reason) noexcept {
  Entry& e = view.entry(entry);
  const bool inlined = detail::fits_inline(holder.size(), reason.size());
  char* const row = inlined ? e.text.data() : view.long_text(entry);
  if (!inlined && !pages.try_ensure(view.offset_of(row), holder.size() + reason.size())) return false;
  const std::uint32_t writing = P::load(e.text_version) | 1U;
  P::store(e.text_version, writing);
  P::fence();
  store_text<P>(row, holder, reason);
  P::store(detail::length_word(e.holder_bytes), static_cast<std::uint32_t>(holder.size()));
  P::store(detail::length_word(e.reason_bytes), static_cast<std::uint32_t>(reason.size()));
  P::store(e.text_version, writing + 1);
  return true;
}

/// Into an object of the caller's, which keeps its room.
template <class P = RealPolicy>
void read_texts(const View& view, EntryIndex entry, EntryTexts& texts) {
  Entry& e = view.entry(entry);
  for (int i = 0; i < detail::text_read_tries; ++i) {
    const std::uint32_t version = P::load(e.text_version);
    const std::uint32_t holder_bytes = P::load(detail::length_word(e.holder_bytes));
    const std::uint32_t reason_bytes = P::load(detail::length_word(e.reason_bytes));
    texts.holder.clear();
    texts.reason.clear();
    const char* const row = detail::text_row(view, entry, holder_bytes, reason_bytes);
    if (row != nullptr) {
      texts.holder.resize(holder_bytes);
      texts.reason.resize(reason_bytes);
      load_text<P>(row, 0, texts.holder.data(), holder_bytes);
      load_text<P>(row, holder_bytes, texts.reason.data(), reason_bytes);
    }
    texts.settled = row != nullptr && (version & 1U) == 0 && P::load(e.text_version) == version;
    if (texts.settled) return;
    P::pause();
  }
}

template <class P = RealPolicy>
[[nodiscard]] EntryTexts read_texts(const View& view, EntryIndex entry) {
  EntryTexts texts;
  read_texts<P>(view, entry, texts);
  return texts;
}

/// Is that its holder id? Allocates nothing. False while texts keep changing; of a writer that got stuck, what is
/// there.
template <class P = RealPolicy>
[[nodiscard]] bool holder_equals(const View& view, EntryIndex entry, std::string_view holder) noexcept {
  Entry& e = view.entry(entry);
  const std::uint32_t first = P::load(e.text_version);
  bool equal = false;
  bool same_writer = true;  // one who never gets further: stopped, or dead
  for (int i = 0; i < detail::text_read_tries; ++i) {
    const std::uint32_t version = P::load(e.text_version);
    const std::uint32_t holder_bytes = P::load(detail::length_word(e.holder_bytes));
    const char* const row = detail::text_row(view, entry, holder_bytes, P::load(detail::length_word(e.reason_bytes)));
    equal = holder_bytes == holder.size() && row != nullptr && text_equals<P>(row, holder);
    const bool still = P::load(e.text_version) == version;
    if (still && (version & 1U) == 0) return equal;
    same_writer = same_writer && still && version == first;
    P::pause();
  }
  return same_writer && equal;
}

}  // namespace shmcoord::engine
