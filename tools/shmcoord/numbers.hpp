#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "core/control_word.hpp"
#include "shmcoord/durations.hpp"

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

/// A weight or a capacity. Throws UsageError that names `option`, e.g. "--weight".
[[nodiscard]] inline std::uint32_t parse_permits(const std::string& option, const std::string& text) {
  std::uint32_t permits = 0;
  if (parse_whole(text, permits) && permits != 0 && permits <= core::max_capacity) return permits;
  throw UsageError{option + ": '" + text + "' is not a number of permits; give a whole number from 1 to " +
                   std::to_string(core::max_capacity)};
}

}  // namespace shmcoord::tool
