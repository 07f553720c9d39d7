#include "bench/support/svg_canvas.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace shmcoord::bench::svg {
namespace {

constexpr double margin = 14;
constexpr double title_size = 16;
constexpr double row = 18;  // of text

// Distinct for people with any of the usual colour deficiencies, dark enough on white, light enough on dark grey; after
// them the dashes and markers go on.
struct Colour {
  const char* on_light;
  const char* on_dark;
};
constexpr std::array<Colour, 8> colours{{
    {"#0072b2", "#56b4e9"},
    {"#d55e00", "#ff9a4d"},
    {"#007a5a", "#2fcf9f"},
    {"#aa3377", "#ee99cc"},
    {"#8a6a00", "#f0d04a"},
    {"#222222", "#f0f0f0"},
    {"#6a51a3", "#b9a6ff"},
    {"#7a7a7a", "#a8a8a8"},
}};
constexpr std::array<const char*, 6> dashes_of_series{"none", "7 3", "2 3", "9 3 2 3", "4 2", "12 4"};

std::string style() {
  std::string light =
      ".bg{fill:#ffffff}text{fill:#24292f}.quiet{fill:#57606a}.grid{stroke:#d8dee4}.frame{stroke:#57606a}"
      ".met{fill:#0072b2}.missed{fill:#d55e00}.open{fill:#7a7a7a}.mark,.spread{stroke:#24292f}.one{stroke:#57606a}";
  std::string dark =
      ".bg{fill:#0d1117}text{fill:#e6edf3}.quiet{fill:#9da7b1}.grid{stroke:#2b323b}.frame{stroke:#9da7b1}"
      ".met{fill:#56b4e9}.missed{fill:#ff9a4d}.open{fill:#a8a8a8}.mark,.spread{stroke:#e6edf3}.one{stroke:#9da7b1}";
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const std::string c = ".c" + std::to_string(i);
    light += c + "{stroke:" + colours[i].on_light + "}" + c + "f{fill:" + colours[i].on_light + "}";
    dark += c + "{stroke:" + colours[i].on_dark + "}" + c + "f{fill:" + colours[i].on_dark + "}";
  }
  std::string text =
      "text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',Arial,sans-serif;font-size:13px}"
      ".title{font-size:16px;font-weight:bold}.line,.whisker{fill:none;stroke-linejoin:round}.line{stroke-width:1.8}"
      ".first{stroke-width:3}.whisker{stroke-width:1.2}.area{stroke:none;fill-opacity:.14}.marker{stroke-width:1.5}"
      ".grid{stroke-width:1}.frame{stroke-width:1;fill:none}.mark{stroke-width:2.5}.one{stroke-width:1.5}.spread{"
      "stroke-width:1.2}";
  for (std::size_t i = 1; i < dashes_of_series.size(); ++i) {
    text += ".d" + std::to_string(i) + "{stroke-dasharray:" + dashes_of_series[i] + "}";
  }
  return text + light + "@media (prefers-color-scheme:dark){" + dark + "}";
}

/// Whole characters of well-formed UTF-8, one by one.
template <class See>
void each_character(std::string_view text, See&& see) {
  while (!text.empty()) {
    char32_t code = 0;
    const std::size_t length = std::max<std::size_t>(base::utf8_sequence(text, &code), 1);
    see(text.substr(0, length), code);
    text.remove_prefix(length);
  }
}

/// Broken at blanks; a word that alone is too long is cut.
std::vector<std::string> in_rows(std::string_view text, double room, double size) {
  std::vector<std::string> rows;
  while (!text.empty()) {
    const std::string word(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!rows.empty() && room_of(rows.back() + ' ' + word, size) <= room) {
      rows.back() += ' ' + word;
    } else {
      rows.push_back(fitting(word, room, size));
    }
  }
  return rows;
}

std::string attribute(const char* name, double value) { return std::string(" ") + name + "=\"" + pixels(value) + '"'; }
std::string with_class(std::string_view css) {
  return css.empty() ? std::string() : " class=\"" + std::string(css) + '"';
}

std::string points_text(const std::vector<std::pair<double, double>>& points) {
  std::string text;
  for (const auto& [x, y] : points) text += (text.empty() ? "" : " ") + pixels(x) + ',' + pixels(y);
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : base::printable(text)) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

double room_of(std::string_view text, double size) {
  double columns = 0;
  each_character(base::printable(text), [&](std::string_view, char32_t code) {
    const bool narrow =
        code < 128 && std::string_view("iljtfrI.,:;|![]() '").find(static_cast<char>(code)) != std::string_view::npos;
    columns += code >= 0x1100 && code != U'–' && code != U'…' && code != U'≤' ? 1.7 : narrow ? 0.42 : 0.66;
  });
  return columns * size;
}

std::string fitting(std::string_view text, double room, double size) {
  if (room_of(text, size) <= room) return std::string(text);
  const std::string whole = base::printable(text);
  std::string cut;
  bool full = false;
  each_character(whole, [&](std::string_view c, char32_t) {
    full = full || room_of(cut + std::string(c) + "…", size) > room;
    if (!full) cut += c;
  });
  return cut + "…";
}

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string series_css(std::size_t series, bool dashes) {
  std::string css = "c" + std::to_string(series % colours.size());
  // Where the markers tell them apart, dashes begin with the second round of colours.
  const std::size_t dash = dashes ? series : series / colours.size();
  if (dash % dashes_of_series.size() != 0) css += " d" + std::to_string(dash % dashes_of_series.size());
  return css;
}

std::string fill_css(std::size_t series) { return "c" + std::to_string(series % colours.size()) + "f"; }

Canvas::Canvas(std::string title, const std::string& subtitle) : title_(std::move(title)), below_(margin) {
  const auto say = [this](const std::string& what, double size, const char* css) {
    for (const std::string& line : in_rows(what, width - 2 * margin, size)) {
      below_ += size + 4;
      text(margin, below_ - 4, line, css);
    }
  };
  say(title_, title_size * 1.08, "title");  // bold is wider
  say(subtitle, text_size, "quiet");
  below_ += 6;
}

void Canvas::text(double x, double y, std::string_view text, std::string_view css, Anchor anchor) {
  constexpr const char* anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  body_ += "<text" + attribute("x", x) + attribute("y", y) + with_class(css) +
           anchors[static_cast<std::size_t>(anchor)] + ">" + escaped(text) + "</text>\n";
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
           with_class(css) + "/>\n";
}

void Canvas::box(double x, double y, double w, double h, std::string_view css) {
  body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", w) + attribute("height", h) +
           with_class(css) + "/>\n";
}

void Canvas::polyline(const std::vector<std::pair<double, double>>& points, std::string_view css) {
  body_ += "<polyline points=\"" + points_text(points) + '"' + with_class(css) + "/>\n";
}

void Canvas::area(const std::vector<std::pair<double, double>>& points, std::string_view css) {
  body_ += "<polygon points=\"" + points_text(points) + '"' + with_class(css) + "/>\n";
}

void Canvas::marker(std::size_t series, double x, double y) {
  const std::string css = with_class("marker " + series_css(series % colours.size(), false) + ' ' + fill_css(series));
  constexpr double r = 4.2;
  const auto corners = [&](std::initializer_list<std::pair<double, double>> offsets) {
    std::vector<std::pair<double, double>> points;
    for (const auto& [dx, dy] : offsets) points.emplace_back(x + dx * r, y + dy * r);
    body_ += "<polygon points=\"" + points_text(points) + '"' + css + "/>\n";
  };
  switch (series % 8) {
    case 0: body_ += "<circle" + attribute("cx", x) + attribute("cy", y) + attribute("r", r) + css + "/>\n"; return;
    case 1: return corners({{-.9, -.9}, {.9, -.9}, {.9, .9}, {-.9, .9}});
    case 2: return corners({{0, -1.15}, {1.1, .85}, {-1.1, .85}});
    case 3: return corners({{0, -1.25}, {1.1, 0}, {0, 1.25}, {-1.1, 0}});
    case 4: return corners({{0, 1.15}, {1.1, -.85}, {-1.1, -.85}});
    case 5:
      return corners({{-.3, -1.1},
                      {.3, -1.1},
                      {.3, -.3},
                      {1.1, -.3},
                      {1.1, .3},
                      {.3, .3},
                      {.3, 1.1},
                      {-.3, 1.1},
                      {-.3, .3},
                      {-1.1, .3},
                      {-1.1, -.3},
                      {-.3, -.3}});
    case 6: return corners({{1.15, 0}, {-.85, 1.1}, {-.85, -1.1}});
    default: return corners({{-1.15, 0}, {.85, 1.1}, {.85, -1.1}});
  }
}

Box Canvas::axes(const Ruler& x, const Ruler& y, double height) {
  double labels = 0;
  for (const Tick& t : y.ticks) labels = std::max(labels, room_of(t.label));
  const Box plot{margin + row + 4 + labels + 8, below_ + 8, width - 40, below_ + 8 + height};
  double last = plot.bottom + 100;
  for (const Tick& t : y.ticks) {
    const double at = plot.y(t.place);
    line(plot.left, at, plot.right, at, "grid");
    if (last - at < text_size + 2) continue;  // one label would stand in the other
    last = at;
    text(plot.left - 8, at + 4.5, t.label, "quiet", Anchor::end);
  }
  last = 0;
  for (const Tick& t : x.ticks) {
    const double at = plot.x(t.place);
    const double half = room_of(t.label) / 2;
    line(at, plot.top, at, plot.bottom, "grid");
    if (at - half < last) continue;
    last = at + half + 8;
    text(at, plot.bottom + row, t.label, "quiet", Anchor::middle);
  }
  box(plot.left, plot.top, plot.right - plot.left, plot.bottom - plot.top, "frame");
  text((plot.left + plot.right) / 2, plot.bottom + 2 * row + 4, fitting(x.title, plot.right - plot.left), {},
       Anchor::middle);
  const double middle = (plot.top + plot.bottom) / 2;
  const std::string turned = "rotate(-90 " + pixels(margin + 12) + ' ' + pixels(middle) + ')';
  body_ += "<text" + attribute("x", margin + 12) + attribute("y", middle) + " transform=\"" + turned +
           "\" text-anchor=\"middle\">" + escaped(fitting(y.title, plot.bottom - plot.top)) + "</text>\n";
  below_ = plot.bottom + 2 * row + 16;
  return plot;
}

void Canvas::legend(const std::vector<std::string>& names, bool dashes, bool markers) {
  constexpr double sample = 34;
  constexpr double gap = 24;
  double x = margin;
  below_ += row;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = fitting(names[i], width - 2 * margin - sample - 8);
    const double room = sample + 8 + room_of(name);
    if (x > margin && x + room > width - margin) {
      x = margin;
      below_ += row + 2;
    }
    line(x, below_ - 4.5, x + sample, below_ - 4.5, "line " + series_css(i, dashes) + (i == 0 ? " first" : ""));
    if (markers) marker(i, x + sample / 2, below_ - 4.5);
    text(x + sample + 8, below_, name);
    x += room + gap;
  }
  below_ += 6;
}

std::string Canvas::finish(const std::string& description) const {
  const std::string h = pixels(std::ceil(below_ + margin));
  const std::string w = pixels(width);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"" + w + "\" height=\"" + h +
         "\" viewBox=\"0 0 " + w + ' ' + h + "\">\n<title>" + escaped(title_) + "</title>\n<desc>" +
         escaped(description) + "</desc>\n<style>" + style() + "</style>\n<rect x=\"0\" y=\"0\" width=\"" + w +
         "\" height=\"" + h + "\" class=\"bg\"/>\n" + body_ + "</svg>\n";
}

}  // namespace shmcoord::bench::svg
