#include "bench/support/comparison.hpp"

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <random>

#include "bench/support/options.hpp"
#include "bench/support/processes.hpp"

namespace shmcoord::bench {
namespace {

/// Takes what Google Benchmark measured itself; the figures go their own way.
class Quiet final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& r : runs) {
      if (r.error_occurred) fail(r.benchmark_name() + ": " + r.error_message);
      if (on_run) on_run(r.run_name.function_name, r.cpu_accumulated_time);
    }
  }
  std::function<void(const std::string&, double)> on_run;
};

const std::vector<double>& drawn_quantiles() {
  static const std::vector<double> all = [] {
    std::vector<double> q;
    for (int percent = 0; percent < 99; ++percent) q.push_back(percent / 100.0);
    for (const double tail : {0.99, 0.995, 0.999, 0.9995, 0.9999, 1.0}) q.push_back(tail);
    return q;
  }();
  return all;
}

std::vector<double> pooled(const std::vector<Round>& rounds) {
  std::vector<double> all;
  for (const Round& r : rounds) all.insert(all.end(), r.samples.begin(), r.samples.end());
  return all;
}

bool is_ratio(double r) { return std::isfinite(r) && r > 0; }

/// Of the 99th percentiles of all samples; the spread by drawing as many rounds again and again, with both subjects'
/// samples of each: no single round has enough of them for a tail.
Spread tail_ratio(const std::vector<Round>& first, const std::vector<Round>& other) {
  constexpr int draws = 100;
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> any(0, first.size() - 1);
  std::vector<double> ratios;
  for (int d = 0; d < draws; ++d) {
    std::vector<double> a;
    std::vector<double> b;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const std::size_t r = any(random);
      a.insert(a.end(), first[r].samples.begin(), first[r].samples.end());
      b.insert(b.end(), other[r].samples.begin(), other[r].samples.end());
    }
    const double ratio = at(std::move(a), 0.99) / at(std::move(b), 0.99);
    if (is_ratio(ratio)) ratios.push_back(ratio);
  }
  Spread spread = Spread::of(ratios);
  const double whole = at(pooled(first), 0.99) / at(pooled(other), 0.99);
  spread.median = is_ratio(whole) ? whole : 0;
  return spread;
}

/// Three digits that say something, whatever the size.
std::string digits(double value) {
  char text[32];
  const double size = std::abs(value);
  std::snprintf(text, sizeof text, size >= 10 || size == 0 ? "%.1f" : "%.3f", value);
  return text;
}

void print_ratio(const char* what, const Spread& ratio, double target) {
  if (ratio.median <= 0) return;
  const auto text = [](double r) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), r < 0.095 ? "%.2g" : "%.2f", r);
    return std::string(digits.data());
  };
  std::printf("   %s = %s [%s – %s]", what, text(ratio.median).c_str(), text(ratio.low).c_str(),
              text(ratio.high).c_str());
  if (target > 0) std::printf("  target %.2f: %s", target, ratio.median <= target ? "met" : "MISSED");
}

void print(const Result& result, int rounds) {
  progress("");
  std::printf("%s (%s, median [p10 – p90] of %d rounds)\n", result.name.c_str(), result.unit.c_str(), rounds);
  for (const Subject& s : result.subjects) {
    const Spread value = Spread::of(s.values);
    std::printf("  %-34s %10s [%s – %s]", s.name.c_str(), digits(value.median).c_str(), digits(value.low).c_str(),
                digits(value.high).c_str());
    print_ratio("ours / this", s.ratio, s.target);
    std::printf("\n");
    if (s.samples > 0) {
      std::printf("    p50 %s  p90 %s  p99 %s  p99.9 %s  max %s  of %zu", digits(s.percentile(0.5)).c_str(),
                  digits(s.percentile(0.9)).c_str(), digits(s.percentile(0.99)).c_str(),
                  digits(s.percentile(0.999)).c_str(), digits(s.percentile(1)).c_str(), s.samples);
      print_ratio("p99: ours / this", s.tail_ratio, s.tail_target);
      std::printf("\n");
    }
    for (const auto& [name, spread] : s.counters) {
      std::printf("    %s %s [%s – %s]\n", name.c_str(), digits(spread.median).c_str(), digits(spread.low).c_str(),
                  digits(spread.high).c_str());
    }
  }
  std::fflush(stdout);
}

}  // namespace

void progress(const std::string& what) {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  if (terminal) std::fprintf(stderr, "\r%s\033[K", what.c_str());
}

void prepare_library() {
  std::string program = "shmcoord_bench";
  std::string shuffled = "--benchmark_enable_random_interleaving=true";
  std::array<char*, 3> arguments{program.data(), shuffled.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, arguments.data());
  const benchmark::BenchmarkReporter::Context about_the_machine;
  static_cast<void>(about_the_machine);
}

Comparison::Comparison(std::string name, std::string unit, int rounds)
    : name_(std::move(name)), unit_(std::move(unit)), rounds_(bench::rounds(rounds)) {}

std::vector<std::vector<Round>> Comparison::measure(Result& result) const {
  const double unit_s = seconds_in(unit_);
  std::vector<std::vector<Round>> rounds(measures_.size());
  Quiet reporter;
  benchmark::ClearRegisteredBenchmarks();
  for (std::size_t i = 0; i < measures_.size(); ++i) {
    const auto once = [&, i](benchmark::State& state) {
      for (auto _ : state) {
        const std::int64_t start = now_ns();
        Round& r = rounds[i].emplace_back(measures_[i].run());
        const double took_s = static_cast<double>(now_ns() - start) / 1e9;
        if (rounds_are_samples_) r.samples = {r.value};
        result.subjects[i].values.push_back(r.value);
        result.subjects[i].took_s.push_back(took_s);
        state.SetIterationTime(unit_s > 0 ? r.value * unit_s : took_s);
      }
    };
    // By number: a name could have what the library takes for a pattern.
    benchmark::RegisterBenchmark(std::to_string(i).c_str(), once)->Iterations(1)->UseManualTime();
  }
  reporter.on_run = [&](const std::string& number, double cpu_s) {
    result.subjects[std::stoul(number)].cpu_s.push_back(cpu_s);
  };
  for (int r = 0; r < rounds_; ++r) {
    progress(current_case() + ": " + name_ + ", round " + std::to_string(r + 1) + " of " + std::to_string(rounds_));
    if (benchmark::RunSpecifiedBenchmarks(&reporter, "all") != measures_.size()) fail(name_ + ": not all was measured");
  }
  benchmark::ClearRegisteredBenchmarks();
  return rounds;
}

void Comparison::run() const {
  Result result{.of_case = current_case(), .name = name_, .unit = unit_, .place = place_};
  for (const Entry& m : measures_) {
    result.subjects.push_back({.name = m.name, .target = m.target, .tail_target = m.tail_target});
  }
  const auto rounds = measure(result);
  for (std::size_t i = 0; i < measures_.size(); ++i) {
    Subject& s = result.subjects[i];
    if (i > 0) {
      std::vector<double> ratios;
      for (std::size_t r = 0; r < s.values.size(); ++r) {
        const double ratio = result.subjects[0].values[r] / s.values[r];
        if (is_ratio(ratio)) ratios.push_back(ratio);
      }
      s.ratio = Spread::of(ratios);
    }
    const std::vector<double> samples = pooled(rounds[i]);
    s.samples = samples.size();
    if (!samples.empty()) {
      for (const double q : drawn_quantiles()) s.percentiles.push_back({q, at(samples, q)});
      const double unit_ns = seconds_in(unit_) * 1e9;
      for (const double sample : samples) {
        if (unit_ns > 0) s.histogram.add(static_cast<std::int64_t>(sample * unit_ns));
      }
      if (i > 0 && result.subjects[0].samples > 0) s.tail_ratio = tail_ratio(rounds[0], rounds[i]);
    }
    for (std::size_t c = 0; c < rounds[i].front().counters.size(); ++c) {
      std::vector<double> values;
      for (const Round& r : rounds[i]) values.push_back(r.counters.at(c).second);
      s.counters.emplace_back(rounds[i].front().counters[c].first, Spread::of(values));
    }
  }
  print(result, rounds_);
  send(result);
}

void report(const std::string& name, const std::string& unit, const std::vector<double>& values, double target) {
  progress("");
  std::printf("%s: %.3f %s [%.3f – %.3f], median [p10 – p90] of %zu", name.c_str(), at(values, 0.5), unit.c_str(),
              at(values, 0.1), at(values, 0.9), values.size());
  if (target > 0) std::printf("  target %.0f: %s", target, at(values, 0.5) <= target ? "met" : "MISSED");
  std::printf("\n");
  std::fflush(stdout);
  send({.of_case = current_case(),
        .name = name,
        .unit = unit,
        .subjects = {{.name = "shmcoord", .values = values, .target = target}}});
}

}  // namespace shmcoord::bench
