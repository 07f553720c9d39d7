#include "shmcoord/display_width.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.hpp"

namespace shmcoord::tool {
namespace {

/// Takes the first character off; its columns.
std::size_t next_columns(std::string_view& text) noexcept {
  char32_t character = 0;
  const std::size_t bytes = base::utf8_sequence(text, &character);
  text.remove_prefix(std::max<std::size_t>(bytes, 1));
  return bytes == 0 ? 1 : static_cast<std::size_t>(::utf8proc_charwidth(static_cast<utf8proc_int32_t>(character)));
}

}  // namespace

std::size_t columns_of(std::string_view text) noexcept {
  std::size_t columns = 0;
  while (!text.empty()) columns += next_columns(text);
  return columns;
}

std::size_t bytes_within(std::string_view text, std::size_t columns) noexcept {
  std::string_view rest = text;
  for (std::size_t taken = 0; !rest.empty();) {
    const std::size_t before = text.size() - rest.size();
    taken += next_columns(rest);
    if (taken > columns) return before;
  }
  return text.size();
}

}  // namespace shmcoord::tool
