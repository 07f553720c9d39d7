#include "engine/entry_text.hpp"

#include "engine/shared_bytes.hpp"

namespace shmcoord::engine {
namespace {

constexpr int read_tries = 100;

// Plain numbers of the layout that change under a reader like the text itself.
Word32& word(std::uint32_t& number) noexcept { return reinterpret_cast<Word32&>(number); }

bool fits_inline(std::size_t holder_bytes, std::size_t reason_bytes) noexcept {
  return holder_bytes + reason_bytes <= sizeof(Entry::text);
}

/// Where the text of these lengths stands; null when its page does not exist, or the lengths are garbage.
const char* row_of(const View& view, EntryIndex entry, std::uint32_t holder_bytes,
                   std::uint32_t reason_bytes) noexcept {
  if (holder_bytes > max_holder || reason_bytes > max_reason) return nullptr;
  if (fits_inline(holder_bytes, reason_bytes)) return view.entry(entry).text.data();
  const char* const row = view.long_text(entry);
  return view.pages_exist(view.offset_of(row), std::uint64_t{holder_bytes} + reason_bytes) ? row : nullptr;
}

}  // namespace

bool write_texts(const View& view, PageSource& pages, EntryIndex entry, std::string_view holder,
                 std::string_view reason) noexcept {
  Entry& e = view.entry(entry);
  const bool inlined = fits_inline(holder.size(), reason.size());
  char* const row = inlined ? e.text.data() : view.long_text(entry);
  if (!inlined && !pages.try_ensure(view.offset_of(row), holder.size() + reason.size())) return false;
  const std::uint32_t writing = RealPolicy::load(e.text_version) | 1U;
  RealPolicy::store(e.text_version, writing);
  RealPolicy::fence();
  store_text<RealPolicy>(row, holder, reason);
  RealPolicy::store(word(e.holder_bytes), static_cast<std::uint32_t>(holder.size()));
  RealPolicy::store(word(e.reason_bytes), static_cast<std::uint32_t>(reason.size()));
  RealPolicy::store(e.text_version, writing + 1);
  return true;
}

EntryTexts read_texts(const View& view, EntryIndex entry) {
  Entry& e = view.entry(entry);
  EntryTexts texts;
  for (int i = 0; i < read_tries; ++i) {
    const std::uint32_t version = RealPolicy::load(e.text_version);
    const std::uint32_t holder_bytes = RealPolicy::load(word(e.holder_bytes));
    const std::uint32_t reason_bytes = RealPolicy::load(word(e.reason_bytes));
    texts.holder.clear();
    texts.reason.clear();
    const char* const row = row_of(view, entry, holder_bytes, reason_bytes);
    if (row != nullptr) {
      texts.holder.resize(holder_bytes);
      texts.reason.resize(reason_bytes);
      load_text<RealPolicy>(row, 0, texts.holder.data(), holder_bytes);
      load_text<RealPolicy>(row, holder_bytes, texts.reason.data(), reason_bytes);
    }
    texts.settled = row != nullptr && (version & 1U) == 0 && RealPolicy::load(e.text_version) == version;
    if (texts.settled) return texts;
    RealPolicy::pause();
  }
  return texts;
}

bool holder_equals(const View& view, EntryIndex entry, std::string_view holder) noexcept {
  Entry& e = view.entry(entry);
  const std::uint32_t first = RealPolicy::load(e.text_version);
  bool equal = false;
  bool same_writer = true;  // one who never gets further: stopped, or dead
  for (int i = 0; i < read_tries; ++i) {
    const std::uint32_t version = RealPolicy::load(e.text_version);
    const std::uint32_t holder_bytes = RealPolicy::load(word(e.holder_bytes));
    const char* const row = row_of(view, entry, holder_bytes, RealPolicy::load(word(e.reason_bytes)));
    equal = holder_bytes == holder.size() && row != nullptr && text_equals<RealPolicy>(row, holder);
    const bool still = RealPolicy::load(e.text_version) == version;
    if (still && (version & 1U) == 0) return equal;
    same_writer = same_writer && still && version == first;
    RealPolicy::pause();
  }
  return same_writer && equal;
}

}  // namespace shmcoord::engine
