#pragma once

#include <string>
#include <vector>

#include "bench/support/histogram.hpp"

// Figures as pictures: from data to the text of an SVG file, which needs nothing else and runs nothing.
//
// They are looked at in a README, in light and in dark mode, by people who see colours differently or none at all: each
// series has a colour, and a dash or a marker of its own besides; what the picture says stands in its description too.
// Where no tool measured a text, its room is reckoned generously.
//
// What cannot be drawn (not a number; nothing above zero on a logarithmic axis; no series at all) is refused by
// std::invalid_argument that names the series. A series without points stays in the legend, so that a peer that was not
// measured is seen to be missing; one point is a marker.

namespace shmcoord::bench::svg {

struct Titles {
  std::string title;
  std::string subtitle = {};     // what was measured and where; may be empty
  std::string description = {};  // goes before what is said of each series
};

/// A share q (0 to 1) of all took at most that long.
struct Share {
  double q = 0;
  double ns = 0;
};
/// What was counted, as a curve. Less than a nanosecond is shown as one.
[[nodiscard]] std::vector<Share> curve_of(const Histogram& histogram);

struct Curve {
  std::string name;
  std::vector<Share> points;
};
/// How many were how fast: time across, percentiles up, each further nine as high as the one before it.
[[nodiscard]] std::string percentile_curves(const Titles& titles, const std::vector<Curve>& curves);

struct Counted {
  std::string name;
  Histogram histogram;
};
/// The histograms over each other: time across, share of the samples up.
[[nodiscard]] std::string histograms(const Titles& titles, const std::vector<Counted>& subjects);

enum class Scale : unsigned char { linear, logarithmic };
enum class Unit : unsigned char { none, nanoseconds, bytes };
struct Axis {
  std::string title;  // with its unit, if the ticks do not say it
  Scale scale = Scale::logarithmic;
  Unit unit = Unit::none;
};
/// With its spread; low = high = y: there is none.
struct Point {
  double x = 0;
  double y = 0;
  double low = 0;
  double high = 0;
};
struct Line {
  std::string name;
  std::vector<Point> points;
};
/// Cost against a number: lines with markers, whiskers for the spread.
[[nodiscard]] std::string lines(const Titles& titles, const Axis& x, const Axis& y, const std::vector<Line>& lines);

struct Bar {
  std::string name;
  double ratio = 0;
  double low = 0;
  double high = 0;
  double target = 0;  // at most that; 0: none
};
/// Ratios, from 1 to the left (less) or to the right (more), the target a mark across. `meaning`: of what to what.
[[nodiscard]] std::string ratio_bars(const Titles& titles, const std::string& meaning, const std::vector<Bar>& bars);

}  // namespace shmcoord::bench::svg
