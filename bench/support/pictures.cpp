#include "bench/support/pictures.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <stdexcept>
#include <utility>

#include "bench/support/options.hpp"
#include "bench/support/svg.hpp"

namespace shmcoord::bench {
namespace {

/// "a lock, that 2 want" -> "a-lock-that-2-want".
std::string file_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      name += static_cast<char>(std::tolower(letter));
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name;
}

class Album {
 public:
  explicit Album(std::string directory) : directory_(std::move(directory)) {}

  void add(const std::string& name, const std::string& svg) {
    const std::string path = directory_ + "/" + name + ".svg";
    std::ofstream file(path);
    file << svg;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
    written_.push_back(path);
  }
  [[nodiscard]] std::vector<std::string> written() && { return std::move(written_); }

 private:
  std::string directory_;
  std::vector<std::string> written_;
};

std::string rounds_of(const Result& result) {
  const std::size_t rounds = result.subjects.front().values.size();
  return std::to_string(rounds) + " rounds, each subject once in each" +
         (options().short_form ? "; SHORT FORM: shows that it works, not the figures" : "");
}

void draw_ratios(Album& album, const std::string& name, const Result& result) {
  std::vector<svg::Bar> bars;
  for (const Subject& s : result.subjects) {
    if (s.ratio.median <= 0) continue;
    bars.push_back({s.name, s.ratio.median, s.ratio.low, s.ratio.high, s.target});
  }
  if (bars.empty()) return;
  album.add(name + "-ratios", svg::ratio_bars({.title = result.name, .subtitle = rounds_of(result)},
                                              "time of shmcoord / time of the other, median and p10 to p90", bars));
}

void draw_latencies(Album& album, const std::string& name, const Result& result) {
  const double unit_ns = seconds_in(result.unit) * 1e9;
  std::vector<svg::Curve> curves;
  std::vector<svg::Counted> histograms;
  for (const Subject& s : result.subjects) {
    if (s.histogram.count() == 0) continue;
    svg::Curve& curve = curves.emplace_back(svg::Curve{s.name, {}});
    for (const Percentile& p : s.percentiles) curve.points.push_back({p.q, std::max(p.value * unit_ns, 1.0)});
    histograms.push_back({s.name, s.histogram});
  }
  if (curves.empty()) return;
  const svg::Titles titles{.title = result.name, .subtitle = rounds_of(result)};
  album.add(name + "-percentiles", svg::percentile_curves(titles, curves));
  album.add(name + "-histogram", svg::histograms(titles, histograms));
}

/// A picture of several comparisons.
struct Series {
  std::string axis;
  double unit_ns = 0;
  std::string unit;
  std::string subtitle;
  std::vector<svg::Line> lines = {};

  svg::Line& line(const std::string& name) {
    const auto found = std::find_if(lines.begin(), lines.end(), [&](const svg::Line& l) { return l.name == name; });
    return found != lines.end() ? *found : lines.emplace_back(svg::Line{name, {}});
  }
};

void draw_series(Album& album, const std::string& name, const std::string& title, const Series& series) {
  bool from_nothing = false;  // which no logarithmic axis has
  for (const svg::Line& l : series.lines) {
    for (const svg::Point& p : l.points) from_nothing = from_nothing || p.x <= 0;
  }
  const svg::Axis x{.title = series.axis, .scale = from_nothing ? svg::Scale::linear : svg::Scale::logarithmic};
  const bool time = series.unit_ns > 0;
  const svg::Axis y{.title = time ? "time, median and p10 to p90" : series.unit,
                    .scale = svg::Scale::logarithmic,
                    .unit = time ? svg::Unit::nanoseconds : svg::Unit::none};
  album.add(name, svg::lines({.title = title, .subtitle = series.subtitle}, x, y, series.lines));
}

}  // namespace

std::vector<std::string> draw_pictures(const std::string& directory, const std::vector<Result>& results) {
  Album album(directory);
  std::map<std::pair<std::string, std::string>, Series> pictures;  // by case and title
  for (const Result& result : results) {
    const std::string name = file_name(result.of_case + " " + result.name);
    draw_ratios(album, name, result);
    draw_latencies(album, name, result);
    if (result.place.picture.empty()) continue;
    const double unit_ns = seconds_in(result.unit) * 1e9;
    Series& series = pictures
                         .try_emplace({result.of_case, result.place.picture},
                                      Series{result.place.axis, unit_ns, result.unit, rounds_of(result)})
                         .first->second;
    for (const Subject& s : result.subjects) {
      const Spread value = Spread::of(s.values);
      const double scale = unit_ns > 0 ? unit_ns : 1;
      if (value.low <= 0) continue;  // nothing that a logarithmic axis has
      series.line(s.name).points.push_back(
          {result.place.x, value.median * scale, value.low * scale, value.high * scale});
    }
  }
  for (const auto& [key, series] : pictures) {
    draw_series(album, file_name(key.first + " " + key.second), key.second, series);
  }
  return std::move(album).written();
}

}  // namespace shmcoord::bench
