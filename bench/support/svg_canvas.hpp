#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What all pictures are made of: texts, lines, axes, a legend.

namespace shmcoord::bench::svg {

inline constexpr double width = 760;
inline constexpr double text_size = 13;

/// For the content of an element or an attribute. What XML forbids is written so that one sees it.
[[nodiscard]] std::string escaped(std::string_view text);
/// About as many pixels as it takes, rather more.
[[nodiscard]] double room_of(std::string_view text, double size = text_size);
/// Cut so that it fits, "…" behind it.
[[nodiscard]] std::string fitting(std::string_view text, double room, double size = text_size);
/// 1 decimal: a tenth of a pixel is finer than one sees.
[[nodiscard]] std::string pixels(double value);

struct Tick {
  double place = 0;  // 0 to 1 along the axis
  std::string label = {};
};

/// Where on an axis a value is, and what is written there.
struct Ruler {
  std::string title;
  std::function<double(double)> place;  // of a value: 0 to 1
  std::vector<Tick> ticks;
};

struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  [[nodiscard]] double x(double place) const { return left + place * (right - left); }
  [[nodiscard]] double y(double place) const { return bottom - place * (bottom - top); }
};

enum class Anchor : unsigned char { start, middle, end };

class Canvas {
 public:
  /// Writes title and subtitle; what follows begins below().
  Canvas(std::string title, const std::string& subtitle);

  [[nodiscard]] double below() const { return below_; }
  void go_on_below(double y) { below_ = y; }
  void text(double x, double y, std::string_view text, std::string_view css = {}, Anchor anchor = Anchor::start);
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void box(double x, double y, double w, double h, std::string_view css);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css);
  void area(const std::vector<std::pair<double, double>>& points, std::string_view css);
  void marker(std::size_t series, double x, double y);

  /// The two axes with grid and titles; where the data goes.
  Box axes(const Ruler& x, const Ruler& y, double height);
  /// Line, marker and name of each, in rows.
  void legend(const std::vector<std::string>& names, bool dashes, bool markers);
  /// The whole file.
  [[nodiscard]] std::string finish(const std::string& description) const;

 private:
  std::string title_;
  std::string body_;
  double below_ = 0;
};

/// The classes of series n: its colour, and its dashes if wanted.
[[nodiscard]] std::string series_css(std::size_t series, bool dashes);
/// Its colour to fill with.
[[nodiscard]] std::string fill_css(std::size_t series);

}  // namespace shmcoord::bench::svg
