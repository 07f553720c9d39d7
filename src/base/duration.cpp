#include "base/duration.hpp"

#include <array>
#include <cstdint>
#include <utility>

namespace shmcoord::base {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
    {{"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view parse_duration(std::string_view text, Zero zero, nanoseconds& duration) noexcept {
  constexpr std::string_view form = "is not a duration: write a number and a unit, like 250ms, 5s, 2m or 1h";
  constexpr std::string_view too_long = "is longer than ten years";
  if (text == "0" && zero == Zero::allowed) {
    duration = nanoseconds{0};
    return {};
  }
  if (!text.empty() && text.front() == '-') return "is negative";

  std::string_view rest = text;
  std::int64_t whole = 0;
  if (rest.empty() || !is_digit(rest.front())) return form;
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
    whole = whole * 10 + (rest.front() - '0');
    if (whole > 1'000'000'000'000) return too_long;
  }
  std::int64_t fraction = 0;
  std::int64_t scale = 1;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    if (rest.empty() || !is_digit(rest.front())) return form;
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      if (scale == 1'000'000) continue;
      fraction = fraction * 10 + (rest.front() - '0');
      scale *= 10;
    }
  }
  if (rest.empty() && whole == 0 && fraction == 0) return "is zero";
  for (const auto& [name, unit_ns] : units) {
    if (rest != name) continue;
    if (whole > longest_duration.count() / unit_ns) return too_long;
    // A fraction has at most six digits and an hour 3.6e12 ns: the product stays below 2^62.
    const std::int64_t total = whole * unit_ns + fraction * unit_ns / scale;
    if (total > longest_duration.count()) return too_long;
    if (total == 0 && zero == Zero::refused) return "is zero";
    duration = nanoseconds{total};
    return {};
  }
  return form;
}

std::string exact_duration(nanoseconds duration) {
  const std::int64_t ns = duration.count();
  for (std::size_t i = units.size(); i-- > 0;) {
    if (ns != 0 && ns % units[i].second == 0) return std::to_string(ns / units[i].second) + std::string(units[i].first);
  }
  // The six digits of a fraction are just those between a millisecond and a nanosecond.
  std::string fraction = std::to_string(ns % 1'000'000 + 1'000'000).substr(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return std::to_string(ns / 1'000'000) + (fraction.empty() ? "" : "." + fraction) + "ms";
}

}  // namespace shmcoord::base
