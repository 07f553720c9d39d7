#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/pages.hpp"
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

/// Writes both. False: the file system is full, and the texts are as before. Holder up to 255 bytes, reason up to 4096
/// (the caller has checked).
[[nodiscard]] bool write_texts(const View& view, PageSource& pages, EntryIndex entry, std::string_view holder,
                               std::string_view reason) noexcept;

[[nodiscard]] EntryTexts read_texts(const View& view, EntryIndex entry);

/// Is that its holder id? Allocates nothing. False while texts keep changing; of a writer that got stuck, what is
/// there.
[[nodiscard]] bool holder_equals(const View& view, EntryIndex entry, std::string_view holder) noexcept;

}  // namespace shmcoord::engine
