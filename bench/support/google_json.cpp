#include "bench/support/google_json.hpp"

#include <benchmark/benchmark.h>

#include <cmath>
#include <fstream>
#include <stdexcept>

#include "bench/support/options.hpp"

namespace shmcoord::bench {
namespace {

using Run = benchmark::BenchmarkReporter::Run;

benchmark::TimeUnit time_unit(const std::string& unit) {
  if (unit == "us") return benchmark::kMicrosecond;
  if (unit == "ms") return benchmark::kMillisecond;
  return unit == "s" ? benchmark::kSecond : benchmark::kNanosecond;
}

/// The library would write "NaN" and "Infinity", which are no JSON.
void count(Run& run, const std::string& name, double value) {
  if (std::isfinite(value)) run.counters[name] = benchmark::Counter(value);
}

Run run_of(const Result& result, const Subject& s, double value, double took_s, double cpu_s) {
  Run run;
  run.run_name.function_name = result.of_case + "/" + result.name + "/" + s.name;
  run.repetitions = static_cast<std::int64_t>(s.values.size());
  run.time_unit = time_unit(result.unit);
  const double unit_s = seconds_in(result.unit);
  run.real_accumulated_time = unit_s > 0 ? value * unit_s : took_s;
  // Of one operation, as the real time is: in the same proportion as over the whole round.
  run.cpu_accumulated_time = took_s > 0 ? cpu_s * run.real_accumulated_time / took_s : cpu_s;
  if (unit_s <= 0) {
    run.report_label = result.unit;
    count(run, "value", value);
  }
  return run;
}

Run median_of(const Result& result, const Subject& s) {
  const Spread value = Spread::of(s.values);
  Run run = run_of(result, s, value.median, at(s.took_s, 0.5), at(s.cpu_s, 0.5));
  run.run_type = Run::RT_Aggregate;
  run.aggregate_name = "median";
  run.repetition_index = Run::no_repetition_index;
  run.iterations = run.repetitions;
  // The times of an aggregate are those of one, however many it is of.
  run.real_accumulated_time *= static_cast<double>(run.iterations);
  run.cpu_accumulated_time *= static_cast<double>(run.iterations);
  count(run, "round_p10", value.low);
  count(run, "round_p90", value.high);
  if (s.samples > 0) {
    count(run, "samples", static_cast<double>(s.samples));
    count(run, "p50", s.percentile(0.5));
    count(run, "p90", s.percentile(0.9));
    count(run, "p99", s.percentile(0.99));
    count(run, "p99_9", s.percentile(0.999));
    count(run, "max", s.percentile(1));
  }
  if (s.ratio.median > 0) {
    count(run, "ratio", s.ratio.median);
    count(run, "ratio_p10", s.ratio.low);
    count(run, "ratio_p90", s.ratio.high);
  }
  if (s.tail_ratio.median > 0) {
    count(run, "ratio_of_p99", s.tail_ratio.median);
    count(run, "ratio_of_p99_p10", s.tail_ratio.low);
    count(run, "ratio_of_p99_p90", s.tail_ratio.high);
  }
  if (s.target > 0) count(run, "target", s.target);
  if (s.tail_target > 0) count(run, "target_of_p99", s.tail_target);
  if (!result.place.picture.empty()) count(run, result.place.axis, result.place.x);
  for (const auto& [name, spread] : s.counters) count(run, name, spread.median);
  return run;
}

}  // namespace

void write_json(const std::string& path, const std::vector<Result>& results) {
  std::ofstream file(path);
  benchmark::JSONReporter reporter;
  reporter.SetOutputStream(&file);
  reporter.SetErrorStream(&file);
  benchmark::AddCustomContext("form", options().short_form ? "short: works, no figures" : "whole");
  const benchmark::BenchmarkReporter::Context context;
  reporter.ReportContext(context);
  std::int64_t family = 0;
  for (const Result& result : results) {
    std::int64_t instance = 0;
    for (const Subject& s : result.subjects) {
      std::vector<Run> runs;
      for (std::size_t r = 0; r < s.values.size(); ++r) {
        runs.push_back(
            run_of(result, s, s.values[r], r < s.took_s.size() ? s.took_s[r] : 0, r < s.cpu_s.size() ? s.cpu_s[r] : 0));
        runs.back().repetition_index = static_cast<std::int64_t>(r);
      }
      runs.push_back(median_of(result, s));
      for (Run& run : runs) {
        run.threads = 1;
        run.family_index = family;
        run.per_family_instance_index = instance;
      }
      reporter.ReportRuns(runs);
      ++instance;
    }
    ++family;
  }
  reporter.Finalize();
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

}  // namespace shmcoord::bench
