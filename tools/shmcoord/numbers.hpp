#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
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

/// "agents:2", as `run -S` takes it, where a name alone should be.
struct NameAndWeight {
  std::string name;
  std::string weight;
};
[[nodiscard]] inline std::optional<NameAndWeight> name_and_weight(std::string_view text) {
  const auto colon = text.rfind(':');
  std::uint32_t weight = 0;
  if (colon == 0 || colon == std::string_view::npos || !parse_whole(text.substr(colon + 1), weight)) return {};
  return NameAndWeight{std::string(text.substr(0, colon)), std::string(text.substr(colon + 1))};
}

}  // namespace shmcoord::tool
