#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <boost/json.hpp>

#include "shmcoord/bench_figures.hpp"
#include "support/small_shm.hpp"
#include "support/tool.hpp"

// `bench` measures, says all of it, and leaves nothing behind. Never that anything is fast.

namespace shmcoord::test {
namespace {

namespace json = boost::json;

bool exists(const std::string& path) { return std::filesystem::exists(path); }

/// What that run of it has in /dev/shm.
std::vector<std::string> scratch_of(pid_t pid) {
  std::vector<std::string> found;
  for (const auto& e : std::filesystem::directory_iterator("/dev/shm")) {
    if (e.path().filename().string().starts_with("shmcoord-bench-" + std::to_string(pid) + "-"))
      found.push_back(e.path().string());
  }
  return found;
}

std::set<pid_t> descendants_of(pid_t pid) {
  std::set<pid_t> all;
  for (const pid_t child : children_of(pid)) {
    all.insert(child);
    all.merge(descendants_of(child));
  }
  return all;
}

class BenchCommand : public ToolTest {
 protected:
  BenchCommand() : ToolTest(SHMCOORD_TOOL_PATH) {}
  ~BenchCommand() override {
    EXPECT_FALSE(exists("/dev/shm/shmcoord." + segment_)) << "the user's segment was touched";
  }

  /// It has begun its nth comparison; false: it ended before that.
  static bool measures(const ToolProcess& bench, std::size_t nth) {
    std::set<pid_t> seen;
    return eventually([&] {
             for (const pid_t pid : children_of(bench.pid())) seen.insert(pid);
             return seen.size() >= nth || process_gone(bench.pid());
           }) &&
           !process_gone(bench.pid());
  }
  /// However long a busy machine makes it take.
  static Finished finish(ToolProcess& bench) {
    for (int patiences = 0; patiences < 4 && !eventually([&] { return !bench.running(); }); ++patiences) {
    }
    return bench.wait();
  }
  json::value report(const std::function<bool()>& before = [] { return true; }) {
    auto process = start({"bench", "--seconds", "1", "--json"}, before);
    const Finished got = finish(*process);
    EXPECT_EQ(got.code(), 0) << got.err;
    EXPECT_EQ(got.err, "");
    EXPECT_TRUE(scratch_of(process->pid()).empty());
    return json::parse(got.out);
  }
  static const json::object* comparison(const json::value& report, const std::string& name) {
    for (const json::value& c : report.at("comparisons").as_array()) {
      if (c.at("name").as_string() == name) return &c.as_object();
    }
    return nullptr;
  }
  static std::vector<std::string> subjects(const json::object& comparison) {
    std::vector<std::string> names;
    for (const json::value& s : comparison.at("subjects").as_array())
      names.emplace_back(s.at("name").as_string().c_str());
    return names;
  }
  static bool mentions(const json::value& texts, const std::string& text) {
    const json::array& all = texts.as_array();
    return std::any_of(all.begin(), all.end(), [&](const json::value& t) {
      return std::string(t.as_string().c_str()).find(text) != std::string::npos;
    });
  }
};

void expect_spread(const json::value& s) {
  const double p10 = s.at("p10").to_number<double>();
  const double median = s.at("median").to_number<double>();
  const double p90 = s.at("p90").to_number<double>();
  EXPECT_GT(p10, 0);
  EXPECT_LE(p10, median);
  EXPECT_LE(median, p90);
}

TEST_F(BenchCommand, JsonHasAllFigures) {
  const json::value all = report();
  EXPECT_EQ(all.at("seconds").to_number<int>(), 1);
  const json::value& machine = all.at("machine");
  EXPECT_GE(machine.at("cpus").to_number<int>(), 1);
  EXPECT_GE(machine.at("cpus_allowed").to_number<int>(), 1);
  EXPECT_TRUE(std::string(machine.at("kernel").as_string().c_str()).starts_with("Linux "));
  EXPECT_EQ(machine.at("load_average").as_array().size(), 3U);
  for (const char* const field : {"cpu", "clock_source", "virtualised"}) (void)machine.at(field);
  (void)all.at("busy").as_array();
  std::vector<std::string> wanted{"pair", "sleeping", "kill", "run"};
  if (machine.at("cpus_allowed").to_number<int>() > 1) wanted.insert(wanted.begin() + 1, "spinning");
  std::vector<std::string> names;
  for (const json::value& c : all.at("comparisons").as_array()) {
    names.emplace_back(c.at("name").as_string().c_str());
    SCOPED_TRACE(names.back());
    const auto rounds = c.at("rounds").to_number<std::uint64_t>();
    EXPECT_GE(rounds, 3U);
    bool ours = true;
    for (const json::value& s : c.at("subjects").as_array()) {
      SCOPED_TRACE(s.at("name").as_string().c_str());
      expect_spread(s.at("ns"));
      EXPECT_EQ(s.at("ratio").is_null(), ours);
      if (!ours) expect_spread(s.at("ratio"));
      EXPECT_EQ(s.at("latency").is_null(), names.back() == "pair");
      if (!s.at("latency").is_null()) {
        const json::value& l = s.at("latency");
        EXPECT_GE(l.at("samples").to_number<std::uint64_t>(), rounds);
        std::int64_t last = 1;
        for (const char* const field : {"p50_ns", "p90_ns", "p99_ns", "max_ns"}) {
          EXPECT_GE(l.at(field).to_number<std::int64_t>(), last) << field;
          last = l.at(field).to_number<std::int64_t>();
        }
        EXPECT_EQ(l.at("p99_ratio").is_null(), ours);
      }
      ours = false;
    }
  }
  EXPECT_EQ(names, wanted);
  EXPECT_EQ(subjects(*comparison(all, "pair")),
            (std::vector<std::string>{"shmcoord", "robust process-shared mutex", "plain process-shared mutex", "flock",
                                      "limit: 64-bit CAS pair", "limit: 128-bit CAS pair"}));
}

TEST_F(BenchCommand, TextNamesAllThatWasMeasured) {
  auto process = start({"bench", "--seconds", "1"});
  const Finished got = finish(*process);
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.err, "") << "progress is for terminals";
  for (const char* const text :
       {"shmcoord", "robust process-shared mutex", "plain process-shared mutex", "flock", "64-bit CAS pair",
        "128-bit CAS pair", "sleeping waiter", "bare futex", "SIGKILL to next holder", "run -l x -- true",
        "shmcoord / this", "[p10 - p90]", " p99 ", "CPU", "Linux ", "load average"}) {
    EXPECT_NE(got.out.find(text), std::string::npos) << text << " is not in\n" << got.out;
  }
  EXPECT_EQ(got.out.find('\x1b'), std::string::npos);
  EXPECT_TRUE(scratch_of(process->pid()).empty());
}

TEST_F(BenchCommand, WithOneCpuNobodySpins) {
  const json::value all = report([] {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    std::size_t first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    CPU_ZERO(&allowed);
    CPU_SET(first, &allowed);
    return ::sched_setaffinity(0, sizeof allowed, &allowed) == 0;
  });
  EXPECT_EQ(comparison(all, "spinning"), nullptr);
  EXPECT_TRUE(mentions(all.at("not_measured"), "with one CPU nobody spins"));
  EXPECT_NE(comparison(all, "sleeping"), nullptr);
}

TEST_F(BenchCommand, WithoutOtherProgramsItDoesWithout) {
  const auto only = [this](const std::string& folder, const char* program) {
    std::filesystem::create_directory(file(folder));
    if (program != nullptr)
      std::filesystem::create_symlink("/bin/" + std::string(program), file(folder) + "/" + program);
    return [path = file(folder)] { return ::setenv("PATH", path.c_str(), 1) == 0; };
  };
  const json::value no_flock = report(only("a", "true"));
  EXPECT_TRUE(mentions(no_flock.at("not_measured"), "there is no `flock` in PATH"));
  ASSERT_NE(comparison(no_flock, "run"), nullptr);
  EXPECT_EQ(subjects(*comparison(no_flock, "run")).size(), 1U);
  const json::value nothing = report(only("b", nullptr));
  EXPECT_TRUE(mentions(nothing.at("not_measured"), "there is no `true` in PATH"));
  EXPECT_EQ(comparison(nothing, "run"), nullptr);
}

// The settings of the user's shell are for the user's segment, whatever they are.
TEST_F(BenchCommand, SettingsOfTheUserAreNotInTheWay) {
  const json::value all = report([] {
    return ::setenv("SHMCOORD_SEGMENT", "/no/such/place", 1) == 0 && ::setenv("SHMCOORD_HELD", "lock:x", 1) == 0;
  });
  EXPECT_NE(comparison(all, "run"), nullptr);
}

TEST_F(BenchCommand, InterruptedItLeavesNothing) {
  const std::vector<int> signals{SIGINT, SIGTERM, SIGHUP, SIGINT, SIGTERM, SIGHUP};
  const std::size_t comparisons = std::thread::hardware_concurrency() > 1 ? 5 : 4;
  for (std::size_t nth = 1; nth <= comparisons; ++nth) {
    SCOPED_TRACE("in comparison " + std::to_string(nth));
    // The first one would go on for minutes; to the others it has to get.
    auto bench = start({"bench", "--seconds", nth == 1 ? "600" : "2"});
    ASSERT_TRUE(measures(*bench, nth)) << bench->err();
    const std::vector<std::string> scratch = scratch_of(bench->pid());
    ASSERT_EQ(scratch.size(), 1U);
    const std::set<pid_t> processes = descendants_of(bench->pid());
    bench->signal(signals[nth]);
    const Finished got = bench->wait();
    EXPECT_EQ(got.code(), 128 + signals[nth]);
    EXPECT_EQ(got.out, "");
    EXPECT_NE(got.err.find("interrupted"), std::string::npos) << got.err;
    EXPECT_TRUE(scratch_of(bench->pid()).empty());
    for (const pid_t pid : processes) EXPECT_TRUE(process_gone(pid)) << pid;
  }
  auto programs = start({"bench", "--seconds", "2", "--json"});
  ASSERT_TRUE(measures(*programs, 1)) << programs->err();
  programs->signal(SIGINT);
  const Finished got = programs->wait();
  EXPECT_EQ(got.code(), 128 + SIGINT);
  EXPECT_EQ(json::parse(got.out).at("error").at("code").as_string(), "interrupted");
}

// Whoever is killed cannot clean up; but its processes go, and the next run cleans up, not what is still in use.
TEST_F(BenchCommand, KilledItLeavesNoProcessAndTheNextOneRemovesTheRest) {
  auto running = start({"bench", "--seconds", "600"});
  ASSERT_TRUE(measures(*running, 1)) << running->err();
  ASSERT_EQ(scratch_of(running->pid()).size(), 1U);
  auto killed = start({"bench", "--seconds", "600"});
  ASSERT_TRUE(measures(*killed, 1)) << killed->err();
  const std::set<pid_t> processes = descendants_of(killed->pid());
  EXPECT_FALSE(processes.empty());
  killed->signal(SIGKILL);
  (void)killed->wait();
  for (const pid_t pid : processes) EXPECT_TRUE(eventually([&] { return process_gone(pid); })) << pid;
  ASSERT_EQ(scratch_of(killed->pid()).size(), 1U) << "there is nothing to be removed";
  (void)report();
  EXPECT_TRUE(scratch_of(killed->pid()).empty());
  EXPECT_EQ(scratch_of(running->pid()).size(), 1U) << "one that is in use was removed";
  EXPECT_TRUE(running->running());
  running->signal(SIGINT);
  EXPECT_EQ(running->wait().code(), 128 + SIGINT);
  EXPECT_TRUE(scratch_of(running->pid()).empty());
}

TEST_F(BenchCommand, BadArguments) {
  for (const char* const seconds : {"0", "601", "-1", "1.5", "ten", "", "10s", "99999999999999999999"}) {
    const Finished got = run({"bench", "--seconds", seconds});
    EXPECT_EQ(got.code(), 64) << seconds;
    EXPECT_NE(got.err.find("--seconds"), std::string::npos) << got.err;
  }
  EXPECT_EQ(run({"bench", "--seconds", "5", "--seconds", "5"}).code(), 64);
  EXPECT_EQ(run({"bench", "kill"}).code(), 64);
  EXPECT_EQ(run({"bench", "--rounds", "5"}).code(), 64);
  const Finished other = run({"-s", segment_, "bench"});
  EXPECT_EQ(other.code(), 64);
  EXPECT_NE(other.err.find("--segment"), std::string::npos) << other.err;
}

TEST_F(BenchCommand, WithoutRoomItSaysSo) {
  const Ran ran = with_small_shm([&] {
    Filler filler;
    for (const std::uint64_t pages : {0U, 4U}) {
      filler.leave(pages);
      auto bench = start({"bench", "--seconds", "1"});
      const Finished got = bench->wait();
      EXPECT_EQ(got.code(), 69) << got.err;
      EXPECT_NE(got.err.find("/dev/shm"), std::string::npos) << got.err;
      EXPECT_TRUE(scratch_of(bench->pid()).empty());
      filler.empty();
    }
  });
  if (ran == Ran::not_allowed) GTEST_SKIP() << "no mounts here";
}

// --- how it is shown -------------------------------------------------------------------------------------------------

tool::BenchReport two_subjects() {
  tool::BenchReport r;
  r.machine = {"Some CPU", 2, 2, "Linux 6.1", "tsc", true, {0.1, 0.2, 0.3}};
  r.seconds = 10;
  r.comparisons = {
      {"pair",
       "a pair",
       9,
       {{"shmcoord", {10, 9, 11}, {}, {}}, {"slow", {1'000, 900, 1'200}, tool::Spread{0.01, 0.009, 0.011}, {}}}}};
  return r;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

TEST(BenchText, BarsWhereThereIsRoom) {
  const tool::BenchReport report = two_subjects();
  for (const std::size_t columns : {0U, 80U, 129U}) {
    EXPECT_EQ(tool::bench_text(report, columns, false).find("█"), std::string::npos) << columns;
  }
  const std::string wide = tool::bench_text(report, 200, false);
  EXPECT_EQ(count(wide, "█"), 5U + 15U) << "a factor of ten is five columns: " << wide;
  EXPECT_NE(wide.find("10 ns [9 ns - 11 ns]"), std::string::npos) << wide;
  EXPECT_NE(wide.find("1 us [900 ns - 1.2 us]"), std::string::npos) << wide;
  EXPECT_NE(wide.find("0.01 [0.01 - 0.01]"), std::string::npos) << wide;
  EXPECT_EQ(wide.find('\x1b'), std::string::npos);
  EXPECT_NE(tool::bench_text(report, 200, true).find("\x1b[1m"), std::string::npos);
}

TEST(BenchText, ABusyMachineIsTold) {
  tool::BenchReport report = two_subjects();
  EXPECT_TRUE(tool::signs_of_other_work(report).empty());
  EXPECT_EQ(tool::bench_text(report, 0, false).find("busy"), std::string::npos);
  report.machine.load[0] = 1.5;
  ASSERT_EQ(tool::signs_of_other_work(report).size(), 1U);
  EXPECT_NE(tool::bench_text(report, 0, false).find("mean little"), std::string::npos);
  report.comparisons[0].subjects[1].ns.p90 = 5'000;
  const auto signs = tool::signs_of_other_work(report);
  ASSERT_EQ(signs.size(), 2U);
  EXPECT_NE(signs[1].find("'slow' alone took from 900 ns to 5 us"), std::string::npos) << signs[1];
  EXPECT_EQ(tool::bench_json(report).at("busy").as_array().size(), 2U);
}

TEST(BenchText, WhatIsNotKnownOfTheMachineIsNull) {
  tool::BenchReport report = two_subjects();
  report.machine.cpu.clear();
  report.machine.clock_source.clear();
  report.machine.virtualised.reset();
  const json::value machine = tool::bench_json(report).at("machine");
  for (const char* const field : {"cpu", "clock_source", "virtualised"})
    EXPECT_TRUE(machine.at(field).is_null()) << field;
  const std::string text = tool::bench_text(report, 0, false);
  EXPECT_EQ(text.find("virtualised"), std::string::npos) << text;
}

TEST(BenchText, Times) {
  EXPECT_EQ(tool::format_ns(0.5), "0.5 ns");
  EXPECT_EQ(tool::format_ns(11.24), "11.2 ns");
  EXPECT_EQ(tool::format_ns(999.4), "999 ns");
  EXPECT_EQ(tool::format_ns(999.7), "1 us");
  EXPECT_EQ(tool::format_ns(1'240), "1.24 us");
  EXPECT_EQ(tool::format_ns(330'000), "330 us");
  EXPECT_EQ(tool::format_ns(7'100'000), "7.1 ms");
  EXPECT_EQ(tool::format_ns(2.5e9), "2.5 s");
}

TEST(BenchText, Spreads) {
  EXPECT_EQ(tool::Spread::of({}).median, 0);
  std::vector<double> values;
  for (int i = 100; i >= 0; --i) values.push_back(i);
  const tool::Spread s = tool::Spread::of(values);
  EXPECT_EQ(s.median, 50);
  EXPECT_EQ(s.p10, 10);
  EXPECT_EQ(s.p90, 90);
}

TEST(BenchText, RatiosAreThoseOfTheRounds) {
  // The machine was three times as slow in the last round, which hit both.
  const auto figures = tool::beside_each_other({"ours", "theirs", "none"}, {{10, 12, 33}, {20, 24, 60}, {0, 0, 0}});
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_FALSE(figures[0].ratio);
  EXPECT_EQ(figures[0].ns.median, 12);
  EXPECT_EQ(figures[1].ns.median, 24);
  ASSERT_TRUE(figures[1].ratio);
  EXPECT_DOUBLE_EQ(figures[1].ratio->median, 0.5);
  EXPECT_DOUBLE_EQ(figures[1].ratio->p90, 0.55);
  ASSERT_TRUE(figures[2].ratio);
  EXPECT_EQ(figures[2].ratio->median, 0) << "nothing to compare with";
}

}  // namespace
}  // namespace shmcoord::test
