#include "bench/support/svg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "bench/support/svg_canvas.hpp"

namespace shmcoord::bench::svg {
namespace {

constexpr double plot_height = 300;

[[noreturn]] void refuse(const std::string& series, const std::string& why) {
  throw std::invalid_argument("'" + series + "' cannot be drawn: " + why);
}

void require_series(const std::string& title, std::size_t series) {
  if (series == 0) refuse(title, "there is nothing in it");
}

std::string number(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

/// "1.5 us"; three digits are more than the measurement is good for.
std::string written(double value, Unit unit, int digits = 3) {
  using Step = std::pair<double, const char*>;
  static constexpr Step times[] = {{1e9, " s"}, {1e6, " ms"}, {1e3, " us"}, {1, " ns"}};
  static constexpr Step bytes[] = {
      {1099511627776.0, " TiB"}, {1073741824.0, " GiB"}, {1048576.0, " MiB"}, {1024.0, " KiB"}, {1, " B"}};
  static constexpr Step counts[] = {{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
  const auto with = [&](const auto& steps) {
    // 999.9 ns is 1 us when rounded.
    const double rounded = std::strtod(number(std::abs(value), digits).c_str(), nullptr);
    for (const auto& [size, name] : steps) {
      if (rounded >= size) return number(value / size, digits) + name;
    }
    return number(value, digits) + std::rbegin(steps)->second;
  };
  switch (unit) {
    case Unit::nanoseconds: return with(times);
    case Unit::bytes: return with(bytes);
    case Unit::none: break;
  }
  return with(counts);
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool empty() const { return low > high; }
};

/// At least so wide that two of the ticks 1, 2, 5 are in it.
Ruler log_ruler(const std::string& title, Range values, Unit unit) {
  if (values.empty()) values = {1, 1000};
  double low = std::log10(values.low);
  double high = std::log10(values.high);
  const double pad = std::max(0.04 * (high - low), (0.8 - (high - low)) / 2);
  low -= pad;
  high += pad;
  Ruler r{title, [low, high](double v) { return (std::log10(v) - low) / (high - low); }, {}};
  const int every = std::max(1, static_cast<int>(std::ceil((high - low) / 9)));
  for (int decade = static_cast<int>(std::floor(low)); decade <= static_cast<int>(std::ceil(high)); ++decade) {
    for (const double digit : {1.0, 2.0, 5.0}) {
      if (digit > 1 && high - low > 2.5) continue;
      if (digit == 1 && decade % every != 0) continue;
      const double value = digit * std::pow(10, decade);
      const double place = r.place(value);
      if (place >= 0 && place <= 1) r.ticks.push_back({place, written(value, unit)});
    }
  }
  return r;
}

/// From zero, unless something is below it.
Ruler linear_ruler(const std::string& title, Range values, Unit unit, const char* suffix = "") {
  if (values.empty()) values = {0, 1};
  values.include(0);
  if (values.high == values.low) values.high = values.low + 1;
  const double rough = (values.high - values.low) / 5;
  const double decade = std::pow(10, std::floor(std::log10(rough)));
  double step = decade * 10;
  for (const double digit : {5.0, 2.0, 1.0}) {
    if (digit * decade >= rough) step = digit * decade;
  }
  const double low = std::floor(values.low / step) * step;
  const double high = values.high + 0.04 * (values.high - low);
  Ruler r{title, [low, high](double v) { return (v - low) / (high - low); }, {}};
  for (int i = 0; low + i * step <= high; ++i) {
    const double value = low + i * step;
    r.ticks.push_back({r.place(value), written(value, unit) + suffix});
  }
  return r;
}

Ruler ruler(const Axis& axis, const Range& values) {
  return axis.scale == Scale::logarithmic ? log_ruler(axis.title, values, axis.unit)
                                          : linear_ruler(axis.title, values, axis.unit);
}

/// Each further nine takes as much room as the one before. The longest of all has no place among them and stands on
/// top.
Ruler nines_ruler(double most_nines) {
  const double top = std::max(most_nines, 2.0) + 0.35;
  Ruler r{"share of all that took at most that long",
          [top](double q) { return q >= 1 ? 1.0 : std::min(-std::log10(1 - q) / top, 1.0); },
          {}};
  for (const auto& [q, label] : std::initializer_list<std::pair<double, const char*>>{{0, "0 %"},
                                                                                      {0.5, "50 %"},
                                                                                      {0.9, "90 %"},
                                                                                      {0.99, "99 %"},
                                                                                      {0.999, "99.9 %"},
                                                                                      {0.9999, "99.99 %"},
                                                                                      {0.99999, "99.999 %"},
                                                                                      {0.999999, "99.9999 %"}}) {
    if (-std::log10(1 - q) < top - 0.2) r.ticks.push_back({r.place(q), label});
  }
  r.ticks.push_back({1, "all"});
  return r;
}

std::string line_css(std::size_t series, bool dashes) {
  return "line " + series_css(series, dashes) + (series == 0 ? " first" : "");
}

template <class Series>
std::vector<std::string> legend_of(const std::vector<Series>& all, const std::function<bool(const Series&)>& is_empty) {
  std::vector<std::string> names;
  for (const Series& s : all) names.push_back(s.name + (is_empty(s) ? " (not measured)" : ""));
  return names;
}

/// What the curve says at q: the first point that reaches it.
double value_at(const std::vector<Share>& sorted, double q) {
  for (const Share& s : sorted) {
    if (s.q >= q) return s.ns;
  }
  return sorted.back().ns;
}

struct Bins {
  static constexpr int per_decade = 24;
  static double edge(int bin) { return std::pow(10, static_cast<double>(bin) / per_decade); }
  std::map<int, double> share;  // of all samples, in percent
};

/// Buckets are as wide as the clock's nanosecond where times are short and bins narrow: what is in one is shared out
/// over the bins that it covers.
Bins bins_of(const Histogram& h) {
  Bins bins;
  h.for_each_filled([&](const Histogram::Bucket& b) {
    const auto place = [](double ns) { return std::log10(std::max(ns, 1.0)) * Bins::per_decade; };
    const double from = place(static_cast<double>(b.low));
    const double to = std::max(place(static_cast<double>(b.high) + 1), from + 1e-9);
    const double percent = 100.0 * static_cast<double>(b.count) / static_cast<double>(h.count());
    for (int bin = static_cast<int>(std::floor(from)); bin < to; ++bin) {
      bins.share[bin] += percent * (std::min(to, bin + 1.0) - std::max(from, static_cast<double>(bin))) / (to - from);
    }
  });
  return bins;
}

std::string said(const std::string& before, const std::string& sentence) {
  return before.empty() ? sentence : before + ' ' + sentence;
}

}  // namespace

std::vector<Share> curve_of(const Histogram& histogram) {
  std::vector<Share> curve;
  std::uint64_t seen = 0;
  histogram.for_each_filled([&](const Histogram::Bucket& b) {
    seen += b.count;
    const bool last = seen == histogram.count();
    const std::int64_t ns = last ? histogram.max() : std::min(b.high, histogram.max());
    curve.push_back({last ? 1.0 : static_cast<double>(seen) / static_cast<double>(histogram.count()),
                     static_cast<double>(std::max<std::int64_t>(ns, 1))});
  });
  return curve;
}

std::string percentile_curves(const Titles& titles, const std::vector<Curve>& curves) {
  require_series(titles.title, curves.size());
  Range times;
  double most_nines = 0;
  std::string description = titles.description;
  std::vector<Curve> sorted = curves;
  for (Curve& c : sorted) {
    for (const Share& s : c.points) {
      if (!(s.q >= 0 && s.q <= 1)) refuse(c.name, "a share is from 0 to 1");
      if (!(s.ns > 0) || !std::isfinite(s.ns)) refuse(c.name, "a time must be above zero");
      times.include(s.ns);
      if (s.q < 1) most_nines = std::max(most_nines, -std::log10(1 - s.q));
    }
    std::sort(c.points.begin(), c.points.end(),
              [](const Share& a, const Share& b) { return std::tie(a.q, a.ns) < std::tie(b.q, b.ns); });
    if (c.points.empty()) continue;
    description = said(description, c.name + ": median " + written(value_at(c.points, 0.5), Unit::nanoseconds) +
                                        ", 99 % within " + written(value_at(c.points, 0.99), Unit::nanoseconds) +
                                        ", all within " + written(c.points.back().ns, Unit::nanoseconds) + ".");
  }
  Canvas canvas(titles.title, titles.subtitle);
  const Ruler x = log_ruler("time", times, Unit::nanoseconds);
  const Ruler y = nines_ruler(most_nines);
  const Box plot = canvas.axes(x, y, plot_height);
  for (std::size_t i = sorted.size(); i-- > 0;) {  // the first one on top
    std::vector<std::pair<double, double>> points;
    for (const Share& s : sorted[i].points) points.emplace_back(plot.x(x.place(s.ns)), plot.y(y.place(s.q)));
    if (points.size() == 1) canvas.marker(i, points[0].first, points[0].second);
    if (points.size() > 1) canvas.polyline(points, line_css(i, true));
  }
  canvas.legend(legend_of<Curve>(sorted, [](const Curve& c) { return c.points.empty(); }), true, false);
  return canvas.finish(description);
}

std::string histograms(const Titles& titles, const std::vector<Counted>& subjects) {
  require_series(titles.title, subjects.size());
  Range times;
  Range shares;
  std::vector<Bins> all;
  std::string description = titles.description;
  for (const Counted& s : subjects) {
    all.push_back(bins_of(s.histogram));
    for (const auto& [bin, share] : all.back().share) {
      times.include(Bins::edge(bin));
      times.include(Bins::edge(bin + 1));
      shares.include(share);
    }
    if (s.histogram.count() == 0) continue;
    const auto ns = [&](double q) { return written(static_cast<double>(s.histogram.quantile(q)), Unit::nanoseconds); };
    description = said(description, s.name + ": " + std::to_string(s.histogram.count()) + " samples, median " +
                                        ns(0.5) + ", 99 % within " + ns(0.99) + ", all within " + ns(1) + ".");
  }
  Canvas canvas(titles.title, titles.subtitle);
  const Ruler x = log_ruler("time", times, Unit::nanoseconds);
  const Ruler y = linear_ruler("share of the samples", shares, Unit::none, " %");
  const Box plot = canvas.axes(x, y, plot_height);
  for (std::size_t i = all.size(); i-- > 0;) {
    if (all[i].share.empty()) continue;
    // Steps: up and down at the edges of each bin, along the ground where there are none.
    std::vector<std::pair<double, double>> outline;
    int next = all[i].share.begin()->first;
    outline.emplace_back(plot.x(x.place(Bins::edge(next))), plot.y(y.place(0)));
    const auto step = [&](int bin, double share) {
      outline.emplace_back(plot.x(x.place(Bins::edge(bin))), plot.y(y.place(share)));
      outline.emplace_back(plot.x(x.place(Bins::edge(bin + 1))), plot.y(y.place(share)));
    };
    for (const auto& [bin, share] : all[i].share) {
      for (; next < bin; ++next) step(next, 0);
      step(bin, share);
      next = bin + 1;
    }
    outline.emplace_back(plot.x(x.place(Bins::edge(next))), plot.y(y.place(0)));
    canvas.area(outline, "area " + fill_css(i));
    canvas.polyline(outline, line_css(i, true));
  }
  canvas.legend(legend_of<Counted>(subjects, [](const Counted& s) { return s.histogram.count() == 0; }), true, false);
  return canvas.finish(description);
}

std::string lines(const Titles& titles, const Axis& x_axis, const Axis& y_axis, const std::vector<Line>& lines) {
  require_series(titles.title, lines.size());
  Range xs;
  std::set<double> places;
  Range ys;
  std::string description = titles.description;
  std::vector<Line> sorted = lines;
  for (Line& l : sorted) {
    for (const Point& p : l.points) {
      for (const double v : {p.x, p.y, p.low, p.high}) {
        if (!std::isfinite(v)) refuse(l.name, "a figure is not a number");
      }
      if (p.low > p.y || p.y > p.high) refuse(l.name, "the spread does not enclose the figure");
      if (x_axis.scale == Scale::logarithmic && p.x <= 0) refuse(l.name, "nothing on the axis across is above zero");
      if (y_axis.scale == Scale::logarithmic && p.low <= 0) refuse(l.name, "nothing on the axis up is above zero");
      xs.include(p.x);
      places.insert(p.x);
      ys.include(p.low);
      ys.include(p.high);
    }
    std::sort(l.points.begin(), l.points.end(),
              [](const Point& a, const Point& b) { return std::tie(a.x, a.y) < std::tie(b.x, b.y); });
    if (l.points.empty()) continue;
    std::string figures;
    for (const Point& p : l.points) {
      figures += (figures.empty() ? " " : ", ") + written(p.y, y_axis.unit) + " at " + written(p.x, x_axis.unit);
    }
    description = said(description, l.name + ":" + figures + ".");
  }
  Canvas canvas(titles.title, titles.subtitle);
  Ruler x = ruler(x_axis, xs);
  const Ruler y = ruler(y_axis, ys);
  if (!places.empty() && places.size() <= 9) {  // what was measured rather than round numbers
    x.ticks.clear();
    for (const double place : places) x.ticks.push_back({x.place(place), written(place, x_axis.unit)});
  }
  const Box plot = canvas.axes(x, y, plot_height);
  for (std::size_t i = sorted.size(); i-- > 0;) {
    std::vector<std::pair<double, double>> points;
    const std::string whisker = "whisker " + series_css(i, false);
    for (const Point& p : sorted[i].points) {
      points.emplace_back(plot.x(x.place(p.x)), plot.y(y.place(p.y)));
      if (p.low == p.high) continue;
      const double at = points.back().first;
      const double from = plot.y(y.place(p.low));
      const double to = plot.y(y.place(p.high));
      canvas.line(at, from, at, to, whisker);
      canvas.line(at - 4, from, at + 4, from, whisker);
      canvas.line(at - 4, to, at + 4, to, whisker);
    }
    if (points.size() > 1) canvas.polyline(points, line_css(i, false));
    for (const auto& [px, py] : points) canvas.marker(i, px, py);
  }
  canvas.legend(legend_of<Line>(sorted, [](const Line& l) { return l.points.empty(); }), false, true);
  return canvas.finish(description);
}

std::string ratio_bars(const Titles& titles, const std::string& meaning, const std::vector<Bar>& bars) {
  require_series(titles.title, bars.size());
  Range values;
  values.include(1);
  std::string description = titles.description;
  std::vector<std::string> figures;
  for (const Bar& b : bars) {
    for (const double v : {b.ratio, b.low, b.high}) {
      if (!(v > 0) || !std::isfinite(v)) refuse(b.name, "a ratio must be above zero");
      values.include(v);
    }
    if (b.low > b.ratio || b.ratio > b.high) refuse(b.name, "the spread does not enclose the figure");
    if (!(b.target >= 0) || !std::isfinite(b.target)) refuse(b.name, "a target is a number above zero, or none");
    if (b.target > 0) values.include(b.target);
    std::string text = number(b.ratio, 3) + " [" + number(b.low, 3) + " – " + number(b.high, 3) + "]";
    if (b.target > 0) text += ", target " + number(b.target, 3) + (b.ratio <= b.target ? ": met" : ": missed");
    description = said(description, b.name + ": " + text + ".");
    figures.push_back(std::move(text));
  }
  constexpr double row_height = 46;
  constexpr double side = 30;
  Canvas canvas(titles.title, titles.subtitle);
  const Ruler x = log_ruler(meaning, values, Unit::none);
  const Box plot{side, canvas.below() + 4, width - side,
                 canvas.below() + 4 + row_height * static_cast<double>(bars.size())};
  const double one = plot.x(x.place(1));
  double last = 0;
  for (const Tick& t : x.ticks) {
    const double at = plot.x(t.place);
    canvas.line(at, plot.top, at, plot.bottom, "grid");
    if (at - room_of(t.label) / 2 < last) continue;
    last = at + room_of(t.label) / 2 + 8;
    canvas.text(at, plot.bottom + 18, t.label, "quiet", Anchor::middle);
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& b = bars[i];
    const double top = plot.top + row_height * static_cast<double>(i);
    const double text_at = top + 16;
    const double middle = top + 31;
    const double at = plot.x(x.place(b.ratio));
    // Texts stand on the ground of the picture, so that no line of the grid goes through them.
    canvas.box(plot.left, top + 3, plot.right - plot.left, 17, "bg");
    canvas.text(plot.right, text_at, figures[i], "quiet", Anchor::end);
    canvas.text(plot.left, text_at, fitting(b.name, plot.right - plot.left - room_of(figures[i]) - 16));
    const char* const css = b.target == 0 ? "open" : b.ratio <= b.target ? "met" : "missed";
    canvas.box(std::min(one, at), middle - 7, std::max(std::abs(at - one), 1.0), 14, css);
    canvas.line(plot.x(x.place(b.low)), middle, plot.x(x.place(b.high)), middle, "spread");
    for (const double end : {b.low, b.high}) {
      canvas.line(plot.x(x.place(end)), middle - 4, plot.x(x.place(end)), middle + 4, "spread");
    }
    if (b.target > 0) {
      const double mark = plot.x(x.place(b.target));
      canvas.line(mark, middle - 11, mark, middle + 11, "mark");
    }
    canvas.line(one, middle - 11, one, middle + 11, "one");
  }
  canvas.text(width / 2, plot.bottom + 40, fitting(meaning, width - 40), {}, Anchor::middle);
  canvas.text(width / 2, plot.bottom + 60, "from 1, to the left: less; thick mark: the target, at most that much",
              "quiet", Anchor::middle);
  canvas.go_on_below(plot.bottom + 62);
  return canvas.finish(description);
}

}  // namespace shmcoord::bench::svg
