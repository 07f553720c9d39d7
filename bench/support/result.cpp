#include "bench/support/result.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

#include <boost/json.hpp>

#include "bench/support/processes.hpp"

namespace shmcoord::bench {
namespace {

namespace json = boost::json;

json::value spread_value(const Spread& s) { return json::array{s.median, s.low, s.high}; }
double number(const json::value& v) { return v.to_number<double>(); }
Spread spread_from(const json::value& v) {
  const json::array& a = v.as_array();
  return {number(a[0]), number(a[1]), number(a[2])};
}
json::array numbers_value(const std::vector<double>& values) { return json::array(values.begin(), values.end()); }
std::vector<double> numbers_from(const json::value& v) {
  std::vector<double> values;
  for (const json::value& one : v.as_array()) values.push_back(number(one));
  return values;
}
std::string text(const json::value& v) { return std::string(v.as_string()); }

/// A bucket by its middle; those of the ends by the exact ends.
json::array histogram_value(const Histogram& h) {
  json::array buckets;
  h.for_each_filled([&](const Histogram::Bucket& b) {
    const std::int64_t ns = std::clamp(b.middle(), h.min(), h.max());
    buckets.push_back(json::array{ns, b.count});
  });
  if (h.count() > 0) buckets.push_back(json::array{h.min(), h.max()});
  return buckets;
}
Histogram histogram_from(const json::value& v) {
  Histogram h;
  const json::array& buckets = v.as_array();
  if (buckets.empty()) return h;
  const auto number_at = [&](std::size_t bucket, std::size_t i) {
    return buckets[bucket].as_array()[i].to_number<std::int64_t>();
  };
  const std::size_t last = buckets.size() - 1;  // which is no bucket, but the ends
  const std::int64_t min = number_at(last, 0);
  const std::int64_t max = number_at(last, 1);
  for (std::size_t i = 0; i < last; ++i) {
    auto count = number_at(i, 1);
    for (const std::int64_t end : {min, max}) {
      if (count == 0 || Histogram::index_of(end) != Histogram::index_of(number_at(i, 0))) continue;
      h.add(end);
      --count;
    }
    h.add(number_at(i, 0), static_cast<std::uint64_t>(count));
  }
  return h;
}

json::value subject_value(const Subject& s) {
  json::array percentiles;
  for (const Percentile& p : s.percentiles) percentiles.push_back(json::array{p.q, p.value});
  json::array counters;
  for (const auto& [name, spread] : s.counters) counters.push_back(json::array{name, spread_value(spread)});
  return {{"name", s.name},
          {"values", numbers_value(s.values)},
          {"took_s", numbers_value(s.took_s)},
          {"cpu_s", numbers_value(s.cpu_s)},
          {"target", s.target},
          {"ratio", spread_value(s.ratio)},
          {"tail_target", s.tail_target},
          {"tail_ratio", spread_value(s.tail_ratio)},
          {"samples", s.samples},
          {"percentiles", percentiles},
          {"histogram", histogram_value(s.histogram)},
          {"counters", counters}};
}

Subject subject_from(const json::value& v) {
  const json::object& o = v.as_object();
  Subject s{.name = text(o.at("name")),
            .values = numbers_from(o.at("values")),
            .took_s = numbers_from(o.at("took_s")),
            .cpu_s = numbers_from(o.at("cpu_s")),
            .target = number(o.at("target")),
            .ratio = spread_from(o.at("ratio")),
            .tail_target = number(o.at("tail_target")),
            .tail_ratio = spread_from(o.at("tail_ratio")),
            .samples = o.at("samples").to_number<std::size_t>(),
            .histogram = histogram_from(o.at("histogram"))};
  for (const json::value& p : o.at("percentiles").as_array()) {
    s.percentiles.push_back({number(p.as_array()[0]), number(p.as_array()[1])});
  }
  for (const json::value& c : o.at("counters").as_array()) {
    s.counters.emplace_back(text(c.as_array()[0]), spread_from(c.as_array()[1]));
  }
  return s;
}

}  // namespace

double at(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

Spread Spread::of(const std::vector<double>& values) { return {at(values, 0.5), at(values, 0.1), at(values, 0.9)}; }

double Subject::percentile(double q) const {
  for (const Percentile& p : percentiles) {
    if (std::abs(p.q - q) < 1e-9) return p.value;
  }
  return 0;
}

double seconds_in(const std::string& unit) {
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  return unit == "s" ? 1 : 0;
}

std::string to_line(const Result& result) {
  json::array subjects;
  for (const Subject& s : result.subjects) subjects.push_back(subject_value(s));
  return json::serialize(json::value{{"case", result.of_case},
                                     {"name", result.name},
                                     {"unit", result.unit},
                                     {"picture", result.place.picture},
                                     {"axis", result.place.axis},
                                     {"x", result.place.x},
                                     {"subjects", subjects}});
}

Result from_line(const std::string& line) {
  const json::value v = json::parse(line);
  const json::object& o = v.as_object();
  Result result{.of_case = text(o.at("case")),
                .name = text(o.at("name")),
                .unit = text(o.at("unit")),
                .place = {text(o.at("picture")), text(o.at("axis")), number(o.at("x"))}};
  for (const json::value& s : o.at("subjects").as_array()) result.subjects.push_back(subject_from(s));
  return result;
}

void send(const Result& result) {
  const int to = surroundings().results;
  if (to < 0) return;
  const std::string line = to_line(result) + "\n";
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t n = ::write(to, line.data() + sent, line.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail("the runner does not take a result");
    sent += static_cast<std::size_t>(n);
  }
}

std::string& current_case() {
  static std::string name;
  return name;
}

}  // namespace shmcoord::bench
