#include "bench/support/svg.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "bench/support/svg_canvas.hpp"

namespace shmcoord::bench::svg {
namespace {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;  // directly in it

  [[nodiscard]] double number(const std::string& attribute) const {
    const auto found = attributes.find(attribute);
    return found == attributes.end() ? std::nan("") : std::strtod(found->second.c_str(), nullptr);
  }
  [[nodiscard]] std::set<std::string> classes() const {
    std::set<std::string> all;
    const auto found = attributes.find("class");
    if (found == attributes.end()) return all;
    std::string word;
    for (const char c : found->second + ' ') {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        all.insert(std::exchange(word, {}));
      }
    }
    return all;
  }
};

/// Reads as much of XML as the pictures use, and refuses what is not well-formed: one root, tags that match, attributes
/// that are quoted and given once, known entities, no stray < & >, no control characters.
class Reader {
 public:
  explicit Reader(std::string_view text) : left_(text) {}

  std::optional<std::vector<Element>> read() {
    bool had_root = false;
    while (!left_.empty()) {
      if (left_.front() != '<') {
        if (!content()) return {};
      } else if (left_.starts_with("</")) {
        const auto end = left_.find('>');
        if (end == std::string_view::npos || open_.empty() || left_.substr(2, end - 2) != all_[open_.back()].name) {
          return {};
        }
        open_.pop_back();
        left_.remove_prefix(end + 1);
      } else {
        if (open_.empty() && std::exchange(had_root, true)) return {};
        if (!tag()) return {};
      }
    }
    return had_root && open_.empty() ? std::optional(all_) : std::nullopt;
  }

 private:
  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-'; }
  std::string name() {
    std::size_t n = 0;
    while (n < left_.size() && is_name(left_[n])) ++n;
    const std::string found(left_.substr(0, n));
    left_.remove_prefix(n);
    return found;
  }
  static std::optional<std::string> unescaped(std::string_view text) {
    static const std::map<std::string_view, char> entities{
        {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&#39;", '\''}};
    std::string out;
    while (!text.empty()) {
      const char c = text.front();
      if (c == '<' || c == '>' || (static_cast<unsigned char>(c) < 0x20 && c != '\n')) return {};
      if (c != '&') {
        out += c;
        text.remove_prefix(1);
        continue;
      }
      const auto end = text.find(';');
      if (end == std::string_view::npos || !entities.contains(text.substr(0, end + 1))) return {};
      out += entities.at(text.substr(0, end + 1));
      text.remove_prefix(end + 1);
    }
    return out;
  }
  bool content() {
    const auto end = std::min(left_.find('<'), left_.size());
    const auto text = unescaped(left_.substr(0, end));
    left_.remove_prefix(end);
    if (!text) return false;
    if (open_.empty()) return text->find_first_not_of('\n') == std::string::npos;
    all_[open_.back()].text += *text;
    return true;
  }
  bool tag() {
    left_.remove_prefix(1);
    Element e;
    e.name = name();
    if (e.name.empty()) return false;
    for (;;) {
      const bool blank = left_.starts_with(' ');
      while (left_.starts_with(' ')) left_.remove_prefix(1);
      const bool closed = left_.starts_with("/>");
      if (closed || left_.starts_with('>')) {
        left_.remove_prefix(closed ? 2 : 1);
        all_.push_back(e);
        if (!closed) open_.push_back(all_.size() - 1);
        return true;
      }
      const std::string attribute = name();
      if (!blank || attribute.empty() || !left_.starts_with("=\"")) return false;
      left_.remove_prefix(2);
      const auto end = left_.find('"');
      if (end == std::string_view::npos) return false;
      const auto value = unescaped(left_.substr(0, end));
      left_.remove_prefix(end + 1);
      if (!value || !e.attributes.emplace(attribute, *value).second) return false;
    }
  }

  std::string_view left_;
  std::vector<Element> all_;
  std::vector<std::size_t> open_;
};

std::vector<std::pair<double, double>> points_of(const Element& e) {
  std::vector<std::pair<double, double>> points;
  const std::string& text = e.attributes.at("points");
  const char* at = text.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const double x = std::strtod(at, &end);
    EXPECT_EQ(*end, ',') << text;
    const double y = std::strtod(end + 1, &end);
    points.emplace_back(x, y);
    at = *end == ' ' ? end + 1 : end;
    if (end == at && *at != '\0') {
      ADD_FAILURE() << text;
      break;
    }
  }
  return points;
}

struct Picture {
  std::vector<Element> all;
  double width = 0;
  double height = 0;

  [[nodiscard]] std::vector<Element> of(const std::string& name, const std::string& css = {}) const {
    std::vector<Element> found;
    for (const Element& e : all) {
      if (e.name == name && (css.empty() || e.classes().contains(css))) found.push_back(e);
    }
    return found;
  }
  [[nodiscard]] bool says(const std::string& text) const {
    for (const Element& e : all) {
      if (e.name == "text" && e.text == text) return true;
    }
    return false;
  }
};

/// Well-formed, with a title and a description, for both modes, nothing that runs or is fetched; all coordinates are
/// within it, and no text runs out of it or into another one.
Picture checked(const std::string& svg) {
  Picture p;
  auto read = Reader(svg).read();
  if (!read) {
    ADD_FAILURE() << "not well-formed: " << svg;
    p.all.resize(4);
    return p;
  }
  p.all = std::move(*read);
  const Element& root = p.all.front();
  EXPECT_EQ(root.name, "svg");
  p.width = root.number("width");
  p.height = root.number("height");
  EXPECT_EQ(root.attributes.at("viewBox"), "0 0 " + pixels(p.width) + ' ' + pixels(p.height));
  EXPECT_GE(p.all.size(), 4U);
  EXPECT_EQ(p.all[1].name, "title");
  EXPECT_EQ(p.all[2].name, "desc");
  EXPECT_FALSE(p.all[1].text.empty());
  EXPECT_NE(p.all[3].text.find("@media (prefers-color-scheme:dark)"), std::string::npos);
  for (const char* const word : {"<script", "href", "url(", "@import", "nan", "inf,", "NaN"}) {
    EXPECT_EQ(svg.find(word), std::string::npos) << word;
  }
  const auto within = [&](double x, double y, const std::string& what) {
    EXPECT_TRUE(x >= 0 && x <= p.width && y >= 0 && y <= p.height) << what << " at " << x << ", " << y;
  };
  struct Room {
    double left, right, y;
    std::string text;
  };
  std::vector<Room> rooms;
  for (const Element& e : p.all) {
    if (e.attributes.contains("points")) {
      for (const auto& [x, y] : points_of(e)) within(x, y, e.name);
    } else if (e.name == "line") {
      within(e.number("x1"), e.number("y1"), e.name);
      within(e.number("x2"), e.number("y2"), e.name);
    } else if (e.name == "circle") {
      within(e.number("cx"), e.number("cy"), e.name);
    } else if (e.name == "rect") {
      within(e.number("x"), e.number("y"), e.name);
      within(e.number("x") + e.number("width"), e.number("y") + e.number("height"), e.name);
    } else if (e.name == "text") {
      within(e.number("x"), e.number("y"), e.text);
      if (e.attributes.contains("transform")) continue;  // the turned title of the axis, alone in its column
      const double room = room_of(e.text);
      const auto anchor = e.attributes.find("text-anchor");
      const double left = e.number("x") - (anchor == e.attributes.end() ? 0
                                           : anchor->second == "end"    ? room
                                                                        : room / 2);
      within(left, e.number("y"), e.text);
      within(left + room, e.number("y"), e.text);
      for (const Room& r : rooms) {
        const bool apart = left >= r.right || left + room <= r.left || std::abs(e.number("y") - r.y) >= text_size;
        EXPECT_TRUE(apart) << "'" << e.text << "' stands in '" << r.text << "'";
      }
      rooms.push_back({left, left + room, e.number("y"), e.text});
    }
  }
  return p;
}

const Axis names{"names", Scale::logarithmic, Unit::none};
const Axis cost{"cost", Scale::logarithmic, Unit::nanoseconds};
const Axis cost_from_zero{"cost", Scale::linear, Unit::nanoseconds};

Line line_of(const std::string& name, std::size_t points, double factor = 1) {
  Line l{name, {}};
  for (std::size_t i = 0; i < points; ++i) {
    const double y = factor * (50 + 10 * static_cast<double>(i));
    l.points.push_back({std::pow(10, static_cast<double>(i)), y, y * 0.9, y * 1.2});
  }
  return l;
}

/// Markers of a series, without the one in the legend.
std::size_t markers(const Picture& p, std::size_t series) {
  std::size_t n = 0;
  for (const Element& e : p.all) {
    if (e.classes().contains("marker") && e.classes().contains("c" + std::to_string(series))) ++n;
  }
  return n == 0 ? 0 : n - 1;
}

TEST(SvgReader, RefusesWhatIsNotWellFormed) {
  EXPECT_TRUE(Reader("<a x=\"1\"><b/>t &amp; u</a>\n").read());
  for (const char* const bad :
       {"", "<a>", "</a>", "<a></b>", "<a/><b/>", "<a x=1/>", "<a x=\"1\" x=\"2\"/>", "<a>&</a>", "<a>&nbsp;</a>",
        "<a>></a>", "<a x=\"<\"/>", "<a>\x01</a>", "<a", "t<a/>", "<a x=\"1\"y=\"2\"/>"}) {
    EXPECT_FALSE(Reader(bad).read()) << bad;
  }
}

TEST(Svg, LinesHaveAsManyPointsAsGiven) {
  const Picture p =
      checked(lines({"Cost", "here"}, names, cost, {line_of("ours", 5), line_of("theirs", 3, 40), line_of("no", 0)}));
  EXPECT_EQ(markers(p, 0), 5U);
  EXPECT_EQ(markers(p, 1), 3U);
  EXPECT_EQ(markers(p, 2), 0U);
  const auto drawn = p.of("polyline", "line");
  ASSERT_EQ(drawn.size(), 2U);
  EXPECT_EQ(points_of(drawn[0]).size(), 3U);  // the first series is on top: drawn last
  EXPECT_EQ(points_of(drawn[1]).size(), 5U);
  EXPECT_EQ(p.of("line", "whisker").size(), 3U * (5 + 3));
  for (const char* const text : {"Cost", "here", "names", "cost", "ours", "theirs", "no (not measured)", "10k"}) {
    EXPECT_TRUE(p.says(text)) << text;
  }
  EXPECT_NE(p.all[2].text.find("ours: 50 ns at 1, 60 ns at 10"), std::string::npos) << p.all[2].text;
}

TEST(Svg, GreaterIsHigherAndFurtherRight) {
  for (const Axis& up : {cost, cost_from_zero}) {
    const Picture p = checked(lines({"Cost"}, names, up, {line_of("ours", 4)}));
    const auto points = points_of(p.of("polyline", "line").at(0));
    ASSERT_EQ(points.size(), 4U);
    for (std::size_t i = 1; i < points.size(); ++i) {
      EXPECT_GT(points[i].first, points[i - 1].first);
      EXPECT_LT(points[i].second, points[i - 1].second);
    }
    // A decade is as wide as each other decade.
    EXPECT_NEAR(points[1].first - points[0].first, points[3].first - points[2].first, 0.2);
    for (const Element& w : p.of("line", "whisker")) EXPECT_GE(w.number("y1"), w.number("y2"));
  }
}

TEST(Svg, OnePointIsAMarker) {
  const Picture p = checked(lines({"Cost"}, names, cost, {line_of("ours", 1)}));
  EXPECT_EQ(markers(p, 0), 1U);
  EXPECT_TRUE(p.of("polyline").empty());
  const Picture q = checked(percentile_curves({"Latency"}, {{"ours", {{0.5, 100}}}}));
  EXPECT_EQ(q.of("circle", "marker").size(), 1U);
  EXPECT_TRUE(q.of("polyline").empty());
}

TEST(Svg, NothingToDrawIsRefusedOrSaid) {
  EXPECT_THROW((void)lines({"Cost"}, names, cost, {}), std::invalid_argument);
  EXPECT_THROW((void)percentile_curves({"Latency"}, {}), std::invalid_argument);
  EXPECT_THROW((void)histograms({"Latency"}, {}), std::invalid_argument);
  EXPECT_THROW((void)ratio_bars({"Ratios"}, "a / b", {}), std::invalid_argument);
  EXPECT_TRUE(checked(lines({"Cost"}, names, cost, {{"ours", {}}})).says("ours (not measured)"));
  EXPECT_TRUE(checked(percentile_curves({"Latency"}, {{"ours", {}}})).says("ours (not measured)"));
  EXPECT_TRUE(checked(histograms({"Latency"}, {{"ours", {}}})).says("ours (not measured)"));
}

TEST(Svg, WhatIsNoFigureIsRefused) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto refused = [](const std::function<std::string()>& draw) {
    try {
      (void)draw();
    } catch (const std::invalid_argument& e) {
      return std::string(e.what()).find("'theirs'") != std::string::npos;
    }
    return false;
  };
  for (const double bad : {std::nan(""), inf, -inf, 0.0, -1.0}) {
    for (const Point& point : {Point{bad, 1, 1, 1}, Point{1, bad, bad, bad}, Point{1, 1, bad, 1}}) {
      EXPECT_TRUE(refused([&] {
        return lines({"Cost"}, names, cost, {line_of("ours", 2), {"theirs", {point}}});
      })) << bad;
    }
    EXPECT_TRUE(refused([&] { return percentile_curves({"Latency"}, {{"theirs", {{0.5, bad}}}}); })) << bad;
    EXPECT_TRUE(refused([&] { return ratio_bars({"Ratios"}, "a / b", {{"theirs", bad, bad, bad}}); })) << bad;
    if (bad != 0) {
      EXPECT_TRUE(refused([&] { return percentile_curves({"Latency"}, {{"theirs", {{bad, 1}}}}); })) << bad;
      EXPECT_TRUE(refused([&] { return ratio_bars({"Ratios"}, "a / b", {{"theirs", 1, 1, 1, bad}}); })) << bad;
    }
  }
  EXPECT_TRUE(refused([&] { return lines({"Cost"}, names, cost, {{"theirs", {{1, 5, 6, 7}}}}); }));
  EXPECT_TRUE(refused([&] { return ratio_bars({"Ratios"}, "a / b", {{"theirs", 5, 1, 4}}); }));
  // From zero there is room for zero.
  checked(lines({"Cost"}, {"n", Scale::linear}, cost_from_zero, {{"theirs", {{0, 0, 0, 0}}}}));
}

TEST(Svg, CurvesHaveAsManyPointsAsGiven) {
  Histogram h;
  for (std::int64_t v = 1; v <= 5'000; ++v) h.add(v * v);
  std::size_t buckets = 0;
  h.for_each_filled([&](const Histogram::Bucket&) { ++buckets; });
  const std::vector<Share> curve = curve_of(h);
  ASSERT_EQ(curve.size(), buckets);
  EXPECT_EQ(curve.back().q, 1.0);
  EXPECT_EQ(curve.back().ns, 25'000'000);
  const Picture p = checked(percentile_curves(
      {"Latency"}, {{"ours", curve}, {"theirs", {{0.5, 1'000}, {0, 500}, {1, 9'000}, {0.99, 2'000}}}}));
  const auto drawn = p.of("polyline", "line");
  ASSERT_EQ(drawn.size(), 2U);
  EXPECT_EQ(points_of(drawn[1]).size(), buckets);
  const auto theirs = points_of(drawn[0]);
  ASSERT_EQ(theirs.size(), 4U);
  for (std::size_t i = 1; i < theirs.size(); ++i) {  // sorted, and each slower one higher
    EXPECT_GT(theirs[i].first, theirs[i - 1].first);
    EXPECT_LT(theirs[i].second, theirs[i - 1].second);
  }
  EXPECT_NE(p.all[2].text.find("theirs: median 1 us, 99 % within 2 us, all within 9 us"), std::string::npos)
      << p.all[2].text;
  for (const char* const tick : {"50 %", "90 %", "99 %", "all", "1 ms"}) EXPECT_TRUE(p.says(tick)) << tick;
  EXPECT_TRUE(curve_of(Histogram{}).empty());
  const Picture many = checked(percentile_curves({"Latency"}, {{"ours", {{0, 1}, {1 - 1e-9, 2}, {1, 3}}}}));
  EXPECT_FALSE(many.says("50 %")) << "no room beside 0 %";
}

TEST(Svg, HistogramsShowWhereTheSamplesAre) {
  Histogram fast;
  Histogram slow;
  for (std::int64_t v = 0; v < 1'000; ++v) {
    fast.add(v % 2 == 0 ? 90 + v % 20 : 500);
    slow.add(900'000 + v * 200);
  }
  const Picture p = checked(histograms({"Latency"}, {{"ours", fast}, {"theirs", slow}, {"none", {}}}));
  ASSERT_EQ(p.of("polygon", "area").size(), 2U);
  ASSERT_EQ(p.of("polyline", "line").size(), 2U);
  const auto theirs = points_of(p.of("polyline", "line")[0]);
  const auto ours = points_of(p.of("polyline", "line")[1]);
  EXPECT_LT(ours.back().first, theirs.front().first) << "the fast one is on the left";
  // What is drawn is all of it: the steps add up to 100 %.
  const auto ground = ours.front().second;
  double top = ground;
  for (const Element& e : p.of("line", "grid")) {
    if (e.number("y1") == e.number("y2")) top = std::min(top, e.number("y1"));
  }
  std::string highest;
  for (const Element& e : p.of("text", "quiet")) {
    if (std::abs(e.number("y") - 4.5 - top) < 0.2) highest = e.text;
  }
  const double per_pixel = std::strtod(highest.c_str(), nullptr) / (ground - top);
  for (const auto& outline : {ours, theirs}) {
    double sum = 0;
    for (std::size_t i = 1; i + 1 < outline.size(); i += 2) sum += (ground - outline[i].second) * per_pixel;
    EXPECT_NEAR(sum, 100, 1.5);
    for (std::size_t i = 1; i + 2 < outline.size(); i += 2) {  // nothing slopes, also where nothing was counted
      EXPECT_EQ(outline[i].second, outline[i + 1].second);
      EXPECT_EQ(outline[i + 1].first, outline[i + 2].first);
    }
  }
  // Also where the buckets are wider than what is drawn, and of the shortest time.
  Histogram one;
  one.add(0);
  checked(histograms({"Latency"}, {{"ours", one}}));
}

TEST(Svg, BarsGoFromOneToTheRatio) {
  const std::vector<Bar> bars{
      {"faster", 0.5, 0.4, 0.6, 0.85}, {"slower", 2, 1.5, 3, 1.5}, {"no target", 0.01, 0.01, 0.01}};
  const Picture p = checked(ratio_bars({"Ratios"}, "ours / theirs", bars));
  ASSERT_EQ(p.of("rect", "met").size(), 1U);
  ASSERT_EQ(p.of("rect", "missed").size(), 1U);
  ASSERT_EQ(p.of("rect", "open").size(), 1U);
  EXPECT_EQ(p.of("line", "mark").size(), 2U);
  const Element met = p.of("rect", "met")[0];
  const Element missed = p.of("rect", "missed")[0];
  const double one = missed.number("x");
  EXPECT_NEAR(met.number("x") + met.number("width"), one, 0.2);
  EXPECT_NEAR(met.number("width"), missed.number("width"), 0.2) << "half is as far as twice";
  EXPECT_LT(p.of("line", "mark")[0].number("x1"), one);
  EXPECT_GT(p.of("line", "mark")[1].number("x1"), one);
  EXPECT_LT(p.of("line", "mark")[1].number("x1"), one + missed.number("width"));
  EXPECT_TRUE(p.says("0.5 [0.4 – 0.6], target 0.85: met"));
  EXPECT_TRUE(p.says("2 [1.5 – 3], target 1.5: missed"));
  EXPECT_TRUE(p.says("0.01 [0.01 – 0.01]"));
}

TEST(Svg, AnyTextIsSafe) {
  const std::string nasty = "<b a='x'>&\"\x01\x1b[31m\xff\n]]>";
  const std::string shown = "<b a='x'>&\"\\x01\\x1b[31m\\xff\\n]]>";
  Histogram h;
  h.add(5);
  const Axis axis{nasty, Scale::linear, Unit::none};
  for (const std::string& svg : {lines({nasty, nasty, nasty}, axis, axis, {{nasty, {{1, 1, 1, 1}, {2, 2, 2, 2}}}}),
                                 percentile_curves({nasty, nasty, nasty}, {{nasty, curve_of(h)}}),
                                 histograms({nasty, nasty, nasty}, {{nasty, h}}),
                                 ratio_bars({nasty, nasty, nasty}, nasty, {{nasty, 1, 1, 1}})}) {
    const Picture p = checked(svg);
    EXPECT_TRUE(p.says(shown)) << svg;
    EXPECT_EQ(p.all[1].text, shown);
  }
}

TEST(Svg, ManyLongNamesStayApart) {
  std::vector<Line> all;
  std::vector<Bar> bars;
  std::vector<Curve> curves;
  const std::string word = "a rather long name of a subject, such as boost::interprocess::named_mutex ";
  for (std::size_t i = 0; i < 20; ++i) {
    std::string name = std::to_string(i) + ": ";
    for (std::size_t n = 0; n < i % 4; ++n) name += word;
    if (i == 7) name = std::string(300, 'W');
    all.push_back(line_of(name, 4, static_cast<double>(i + 1)));
    curves.push_back({name, {{0, 10.0 + static_cast<double>(i)}, {1, 1e9}}});
    bars.push_back({name, 0.001 * static_cast<double>(i + 1), 0.0001, 1e5, 1});
  }
  const std::string title = word + word + word + std::string(200, 'M');
  const Axis long_axis{title, Scale::logarithmic, Unit::bytes};
  const Picture p = checked(lines({title, title}, long_axis, long_axis, all));
  for (std::size_t series = 0; series < 4; ++series)
    EXPECT_EQ(markers(p, series), 4U * 3 + 2);  // 3 of 20 have each colour
  checked(percentile_curves({title, title}, curves));
  checked(ratio_bars({title, title}, title, bars));
}

// Whatever the figures are: ticks, whiskers and markers stay where they belong.
TEST(Svg, RandomFiguresStayWithin) {
  const char* const given = std::getenv("SHMCOORD_SVG_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  SCOPED_TRACE("SHMCOORD_SVG_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  for (int round = 0; round < 300 && !::testing::Test::HasFailure(); ++round) {
    const double from = between(-3, 6);
    const double decades = between(0, 9);
    std::vector<Line> all(1 + random() % 5);
    Histogram h;
    for (Line& l : all) {
      l.name = "series";
      l.points.resize(random() % 12);
      for (Point& p : l.points) {
        const double y = std::pow(10, between(from, from + decades));
        p = {std::pow(10, between(from, from + decades)), y, y * between(0.1, 1), y * between(1, 10)};
        h.add(static_cast<std::int64_t>(y), 1 + random() % 1'000);
      }
    }
    const auto scale = [&] { return random() % 2 == 0 ? Scale::linear : Scale::logarithmic; };
    const auto unit = [&] { return static_cast<Unit>(random() % 3); };
    checked(lines({"random"}, {"across", scale(), unit()}, {"up", scale(), unit()}, all));
    checked(percentile_curves({"random"}, {{"ours", curve_of(h)}}));
    checked(histograms({"random"}, {{"ours", h}}));
  }
}

}  // namespace
}  // namespace shmcoord::bench::svg
