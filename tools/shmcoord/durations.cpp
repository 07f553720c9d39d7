#include "shmcoord/durations.hpp"

#include <cstdint>

namespace shmcoord::tool {
namespace {

using std::chrono::nanoseconds;

std::string two_parts(std::int64_t big, const char* big_unit, std::int64_t small, const char* small_unit) {
  return std::to_string(big) + big_unit + (small < 10 ? "0" : "") + std::to_string(small) + small_unit;
}

}  // namespace

nanoseconds parse_duration(std::string_view option, std::string_view text, Zero zero) {
  nanoseconds duration{};
  if (const std::string_view wrong = base::parse_duration(text, zero, duration); !wrong.empty()) {
    throw UsageError{std::string(option) + ": duration '" + std::string(text) + "' " + std::string(wrong)};
  }
  return duration;
}

bool is_duration(std::string_view text) {
  nanoseconds duration{};
  return base::parse_duration(text, Zero::refused, duration).empty();
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
