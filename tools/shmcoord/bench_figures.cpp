#include "shmcoord/bench_figures.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/printable.hpp"
#include "shmcoord/display_width.hpp"

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

// One of a machine that does nothing else varies by a few percent.
constexpr double wide_spread = 1.5;

std::string first_line(const char* path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

/// The value of the first "key : value" in /proc/cpuinfo.
std::optional<std::string> cpu_field(std::string_view key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(key)) continue;
    const auto from = line.find_first_not_of(' ', colon + 1);
    return from == std::string::npos ? std::string() : line.substr(from);
  }
  return {};
}

/// On a scale of 5 columns for each factor of ten, from 1 ns on: the same for all, so that bars of different
/// comparisons can be compared too.
std::string bar(double ns, std::size_t room) {
  static constexpr std::array<const char*, 8> eighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double columns = std::clamp(5 * std::log10(std::max(ns, 1.0)), 0.125, static_cast<double>(room));
  const auto parts = static_cast<std::size_t>(std::lround(columns * 8));
  std::string text;
  for (std::size_t i = 0; i < parts / 8; ++i) text += "█";
  return text + eighths[parts % 8];
}

std::string spread_text(const Spread& s) {
  return fmt::format("{} [{} - {}]", format_ns(s.median), format_ns(s.p10), format_ns(s.p90));
}

std::string ratio_text(const Spread& s) { return fmt::format("{:.2f} [{:.2f} - {:.2f}]", s.median, s.p10, s.p90); }

std::string machine_text(const Machine& m) {
  std::string text = m.cpu.empty() ? "unknown CPU" : base::printable(m.cpu);
  text += fmt::format(", {} CPU{}", m.cpus, m.cpus == 1 ? "" : "s");
  if (m.cpus_allowed != m.cpus) text += fmt::format(" ({} for this process)", m.cpus_allowed);
  text += ", " + m.kernel;
  if (!m.clock_source.empty()) text += ", clock " + base::printable(m.clock_source);
  if (m.virtualised) text += *m.virtualised ? ", virtualised" : ", not virtualised";
  return text + fmt::format("; load average {:.2f}", m.load[0]);
}

json::object spread_json(const Spread& s) { return {{"median", s.median}, {"p10", s.p10}, {"p90", s.p90}}; }

}  // namespace

Machine this_machine() {
  Machine m;
  m.cpu = cpu_field("model name").value_or("");
  m.cpus = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  m.cpus_allowed =
      ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<unsigned>(CPU_COUNT(&allowed)) : m.cpus;
  utsname name{};
  if (::uname(&name) == 0) m.kernel = fmt::format("{} {}", name.sysname, name.release);
  m.clock_source = first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  if (const auto flags = cpu_field("flags")) {
    m.virtualised = (' ' + *flags + ' ').find(" hypervisor ") != std::string::npos;
  }
  std::istringstream load(first_line("/proc/loadavg"));
  load >> m.load[0] >> m.load[1] >> m.load[2];
  return m;
}

Spread Spread::of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

std::vector<SubjectFigures> beside_each_other(const std::vector<std::string>& names,
                                              const std::vector<std::vector<double>>& rounds) {
  std::vector<SubjectFigures> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    SubjectFigures s{names[i], Spread::of(rounds[i]), {}, {}};
    if (i > 0) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < rounds[i].size(); ++r) {
        if (rounds[i][r] > 0) ratios.push_back(rounds[0][r] / rounds[i][r]);
      }
      s.ratio = Spread::of(std::move(ratios));
    }
    all.push_back(std::move(s));
  }
  return all;
}

std::string format_ns(double ns) {
  static constexpr std::pair<double, const char*> units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
  // What would be written as 1000 of a unit is 1 of the next one.
  for (const auto& [size, name] : units) {
    if (ns >= size * 0.9995) return fmt::format("{:.3g} {}", ns / size, name);
  }
  return fmt::format("{:.3g} ns", ns);
}

std::vector<std::string> signs_of_other_work(const BenchReport& report) {
  std::vector<std::string> signs;
  const Machine& m = report.machine;
  if (m.load[0] > 0.5 * m.cpus) {
    signs.push_back(fmt::format("the load average was {:.2f} with {} CPU{} before it began", m.load[0], m.cpus,
                                m.cpus == 1 ? "" : "s"));
  }
  for (const ComparisonFigures& c : report.comparisons) {
    const auto wide = [&](const SubjectFigures& s) { return s.ns.p90 > wide_spread * s.ns.p10; };
    if (c.key != "pair") continue;
    const auto found = std::find_if(c.subjects.begin(), c.subjects.end(), wide);
    if (found == c.subjects.end()) continue;
    signs.push_back(
        fmt::format("'{}' alone took from {} to {}", found->name, format_ns(found->ns.p10), format_ns(found->ns.p90)));
  }
  return signs;
}

std::string bench_text(const BenchReport& report, std::size_t columns, bool color) {
  constexpr std::size_t name_width = 34;
  constexpr std::size_t figure_width = 34;
  constexpr std::size_t ratio_width = 24;
  constexpr std::size_t least_bar = 36;  // up to 10 ms
  constexpr std::size_t left = 2 + name_width + figure_width + ratio_width;
  const std::size_t room = columns >= left + least_bar ? std::min<std::size_t>(columns - left, 45) : 0;

  std::string out = machine_text(report.machine) + '\n';
  for (const std::string& note : report.notes) out += "not measured: " + note + '\n';
  for (const ComparisonFigures& c : report.comparisons) {
    out += fmt::format("\n{:<{}}{:<{}}{}\n", c.title, 2 + name_width, fmt::format("{} rounds [p10 - p90]", c.rounds),
                       figure_width, "shmcoord / this");
    for (const SubjectFigures& s : c.subjects) {
      const bool bold = color && !s.ratio;
      std::string line = fmt::format("  {:<{}}{:<{}}{:<{}}", s.name, name_width, spread_text(s.ns), figure_width,
                                     s.ratio ? ratio_text(*s.ratio) : "", ratio_width);
      if (room > 0) line += bar(s.ns.median, room);
      line.erase(line.find_last_not_of(' ') + 1);
      out += (bold ? "\x1b[1m" : "") + line + (bold ? "\x1b[0m" : "") + '\n';
      if (!s.latency) continue;
      const Latency& l = *s.latency;
      const Latency& ours = *c.subjects.front().latency;
      std::string all = fmt::format("    of {}: p50 {}, p90 {}, p99 {}, max {}", l.samples,
                                    format_ns(static_cast<double>(l.p50_ns)), format_ns(static_cast<double>(l.p90_ns)),
                                    format_ns(static_cast<double>(l.p99_ns)), format_ns(static_cast<double>(l.max_ns)));
      if (s.ratio && l.p99_ns > 0) {
        all += fmt::format("; of the p99 {:.2f}", static_cast<double>(ours.p99_ns) / static_cast<double>(l.p99_ns));
      }
      out += all + '\n';
    }
  }
  out += "\nMedians of rounds in which all take their turn; a ratio below 1: shmcoord is faster.";
  if (room > 0) out += " Bars: from 1 ns, 5 columns for each factor of ten.";
  out += '\n';
  const std::vector<std::string> signs = signs_of_other_work(report);
  for (const std::string& sign : signs) out += "This machine was busy: " + sign + ".\n";
  if (!signs.empty()) out += "So these figures mean little; run it again when it is idle.\n";
  return out;
}

json::value bench_json(const BenchReport& report) {
  const Machine& m = report.machine;
  const auto known = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(base::printable(text));
  };
  const auto texts = [](const std::vector<std::string>& all) {
    json::array array;
    for (const std::string& text : all) array.emplace_back(text);
    return array;
  };
  json::array comparisons;
  for (const ComparisonFigures& c : report.comparisons) {
    json::array subjects;
    for (const SubjectFigures& s : c.subjects) {
      json::object o{{"name", s.name},
                     {"ns", spread_json(s.ns)},
                     {"ratio", s.ratio ? json::value(spread_json(*s.ratio)) : json::value(nullptr)},
                     {"latency", nullptr}};
      if (s.latency) {
        const Latency& l = *s.latency;
        const Latency& ours = *c.subjects.front().latency;
        o["latency"] = json::object{
            {"samples", l.samples},
            {"p50_ns", l.p50_ns},
            {"p90_ns", l.p90_ns},
            {"p99_ns", l.p99_ns},
            {"max_ns", l.max_ns},
            {"p99_ratio", s.ratio && l.p99_ns > 0
                              ? json::value(static_cast<double>(ours.p99_ns) / static_cast<double>(l.p99_ns))
                              : json::value(nullptr)}};
      }
      subjects.push_back(std::move(o));
    }
    comparisons.push_back(json::object{{"name", json::string_view(c.key.data(), c.key.size())},
                                       {"title", json::string_view(c.title.data(), c.title.size())},
                                       {"rounds", c.rounds},
                                       {"subjects", std::move(subjects)}});
  }
  return json::object{
      {"machine", json::object{{"cpu", known(m.cpu)},
                               {"cpus", m.cpus},
                               {"cpus_allowed", m.cpus_allowed},
                               {"kernel", m.kernel},
                               {"clock_source", known(m.clock_source)},
                               {"virtualised", m.virtualised ? json::value(*m.virtualised) : json::value(nullptr)},
                               {"load_average", json::array{m.load[0], m.load[1], m.load[2]}}}},
      {"seconds", report.seconds},
      {"busy", texts(signs_of_other_work(report))},
      {"not_measured", texts(report.notes)},
      {"comparisons", std::move(comparisons)}};
}

}  // namespace shmcoord::tool
