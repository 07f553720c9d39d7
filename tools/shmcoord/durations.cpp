#include "shmcoord/durations.hpp"

#include <array>
#include <utility>

namespace shmcoord::tool {
namespace {

using std::chrono::nanoseconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
    {{"ms", 1'000'000}, {"s", 1'000'000'000}, {"m", 60'000'000'000}, {"h", 3'600'000'000'000}}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

[[noreturn]] void refuse(std::string_view option, std::string_view text, std::string_view what) {
  throw UsageError{std::string(option) + ": duration '" + std::string(text) + "' " + std::string(what)};
}

std::string two_parts(std::int64_t big, const char* big_unit, std::int64_t small, const char* small_unit) {
  return std::to_string(big) + big_unit + (small < 10 ? "0" : "") + std::to_string(small) + small_unit;
}

}  // namespace

nanoseconds parse_duration(std::string_view option, std::string_view text, Zero zero) {
  constexpr std::string_view form = "is not a duration: write a number and a unit, like 250ms, 5s, 2m or 1h";
  if (text == "0" && zero == Zero::allowed) return nanoseconds{0};
  if (!text.empty() && text.front() == '-') refuse(option, text, "is negative");

  std::string_view rest = text;
  std::int64_t whole = 0;
  const auto too_long = [&] { refuse(option, text, "is longer than ten years"); };
  if (rest.empty() || !is_digit(rest.front())) refuse(option, text, form);
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
    whole = whole * 10 + (rest.front() - '0');
    if (whole > 1'000'000'000'000) too_long();
  }
  std::int64_t fraction = 0;
  std::int64_t scale = 1;
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    if (rest.empty() || !is_digit(rest.front())) refuse(option, text, form);
    for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
      if (scale == 1'000'000) continue;
      fraction = fraction * 10 + (rest.front() - '0');
      scale *= 10;
    }
  }
  if (rest.empty() && whole == 0 && fraction == 0) refuse(option, text, "is zero");
  for (const auto& [name, unit_ns] : units) {
    if (rest != name) continue;
    if (whole > longest_duration.count() / unit_ns) too_long();
    // A fraction has at most six digits and an hour 3.6e12 ns: the product stays below 2^62.
    const std::int64_t total = whole * unit_ns + fraction * unit_ns / scale;
    if (total > longest_duration.count()) too_long();
    if (total == 0 && zero == Zero::refused) refuse(option, text, "is zero");
    return nanoseconds{total};
  }
  refuse(option, text, form);
}

bool is_duration(std::string_view text) {
  try {
    (void)parse_duration("", text);
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

std::string format_duration(nanoseconds duration) {
  const std::int64_t ns = duration.count() < 0 ? 0 : duration.count();
  const std::int64_t s = ns / 1'000'000'000;
  if (ns > 0 && ns < 100'000'000) return std::to_string((ns + 999'999) / 1'000'000) + "ms";
  if (s < 10) {
    const std::int64_t tenths = ns / 100'000'000;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "s";
  }
  if (s < 60) return std::to_string(s) + "s";
  if (s < 3600) return two_parts(s / 60, "m", s % 60, "s");
  if (s < 86'400) return two_parts(s / 3600, "h", s / 60 % 60, "m");
  return two_parts(s / 86'400, "d", s / 3600 % 24, "h");
}

}  // namespace shmcoord::tool
