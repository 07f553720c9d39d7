#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace shmcoord::tool {

/// A number and nothing else; `to` is untouched otherwise.
template <class Number>
[[nodiscard]] bool parse_whole(std::string_view text, Number& to, int base = 10) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  to = value;
  return true;
}

}  // namespace shmcoord::tool
