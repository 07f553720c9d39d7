#pragma once

#include <cstddef>
#include <string_view>

// How many columns of a terminal a text takes, by utf8proc. wcwidth() of libc would need a locale with UTF-8, which the
// static tool does not load and a small container does not have. Terminals disagree about sequences that make one sign
// of several characters; these are counted as their parts.

namespace shmcoord::tool {

/// What combines with the character before it takes none, wide ones (most of East Asia, emoji) take two. Bytes that are
/// not UTF-8 take one column each. Control characters are the caller's to remove.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;
/// The longest start of the text, in bytes, that takes at most so many columns; nothing that combines is torn off.
[[nodiscard]] std::size_t bytes_within(std::string_view text, std::size_t columns) noexcept;

}  // namespace shmcoord::tool
