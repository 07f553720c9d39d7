#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "support/tool.hpp"

// That the measurements work, never that anything is fast: every case in its short form, and what happens to a run that
// is interrupted, fails or is asked for what there is not.

namespace shmcoord::test {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

/// As the program itself lists them.
const std::vector<std::string>& all_cases() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    FILE* const list = ::popen(SHMCOORD_BENCH_PATH " --list", "r");
    char line[512];
    while (list != nullptr && std::fgets(line, sizeof line, list) != nullptr) {
      std::string name;
      std::istringstream(line) >> name;
      found.push_back(name);
    }
    if (list != nullptr) ::pclose(list);
    return found;
  }();
  return names;
}

/// What a run of that process left in /dev/shm.
std::vector<std::string> left_by(pid_t pid) {
  std::vector<std::string> found;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = file.path().filename().string();
    if (name.find("bench-" + std::to_string(pid) + "-") != std::string::npos) found.push_back(name);
  }
  return found;
}

std::vector<pid_t> descendants_of(pid_t pid) {
  std::vector<pid_t> found;
  for (const pid_t child : children_of(pid)) {
    found.push_back(child);
    const auto below = descendants_of(child);
    found.insert(found.end(), below.begin(), below.end());
  }
  return found;
}

class Bench : public ToolTest {
 protected:
  Bench() : ToolTest(SHMCOORD_BENCH_PATH) {}

  /// A run that would go on for long, when so many of its processes are there.
  std::unique_ptr<ToolProcess> start_crowd(std::vector<std::string> arguments, std::size_t processes) {
    auto run = start(std::move(arguments));
    EXPECT_TRUE(eventually([&] { return descendants_of(run->pid()).size() >= processes; })) << run->err();
    crowd_ = descendants_of(run->pid());
    return run;
  }
  /// A hundred that wait for a lock, for ten seconds.
  std::unique_ptr<ToolProcess> start_idle() { return start_crowd({"idle"}, 101); }
  [[nodiscard]] bool crowd_gone() const { return std::all_of(crowd_.begin(), crowd_.end(), process_gone); }

  std::vector<pid_t> crowd_;
};

// --- every case ------------------------------------------------------------------------------------------------------

class EveryCase : public Bench, public ::testing::WithParamInterface<std::string> {};

TEST_P(EveryCase, MeasuresInItsShortForm) {
  const auto run = start({"--short", "--json", file("json"), GetParam()});
  const pid_t pid = run->pid();
  // However slow the machine is: each comparison says something when it is over.
  std::size_t said = 0;
  while (eventually([&] { return !run->running() || run->out().size() > said; }) && run->running()) {
    said = run->out().size();
  }
  const Finished got = run->wait();
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.err, "");
  EXPECT_THAT(got.out, HasSubstr("median [p10 – p90]"));
  EXPECT_THAT(left_by(pid), ::testing::IsEmpty());

  const json::value whole = json::parse(read_file(file("json")));
  std::set<std::string> measured;
  std::set<std::string> judged;
  for (const json::value& one : whole.at("benchmarks").as_array()) {
    const std::string name(one.at("run_name").as_string());
    EXPECT_TRUE(name.starts_with(GetParam() + "/")) << name;
    const json::value* const value = one.as_object().if_contains("value");
    const double figure = (value != nullptr ? *value : one.at("real_time")).to_number<double>();
    EXPECT_TRUE(std::isfinite(figure) && figure >= 0) << name << ": " << figure;
    (one.at("run_type").as_string() == "aggregate" ? judged : measured).insert(name);
  }
  EXPECT_FALSE(measured.empty());
  EXPECT_EQ(measured, judged);
  for (const std::string& name : measured) {  // what the file says the table says too
    const std::string subject = name.substr(name.rfind('/') + 1);
    if (subject != "shmcoord") {
      EXPECT_THAT(got.out, HasSubstr(subject));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryCase, ::testing::ValuesIn(all_cases()), [](const auto& one) { return one.param; });

// --- the command line ------------------------------------------------------------------------------------------------

TEST_F(Bench, ListsItsCasesWithWhatTheyShow) {
  const Finished got = run({"--list"});
  EXPECT_EQ(got.code(), 0);
  std::istringstream lines(got.out);
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const auto blank = line.find(' ');
    ASSERT_NE(blank, std::string::npos) << line;
    EXPECT_NE(line.find_first_not_of(' ', blank), std::string::npos) << line;
    EXPECT_TRUE(names.insert(line.substr(0, blank)).second) << "twice: " << line;
  }
  for (const char* known : {"pair", "parked", "spinning", "kill", "contended", "readers", "permit", "find"}) {
    EXPECT_TRUE(names.contains(known)) << known;
  }
}

TEST_F(Bench, RefusesACaseThatThereIsNotNamingThoseThereAre) {
  for (const char* wrong : {"pears", "nothing*", ""}) {
    const Finished got = run({"--short", "pair", wrong});
    EXPECT_EQ(got.code(), 64);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, HasSubstr(std::string("'") + wrong + "'"));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
    for (const std::string& name : all_cases()) EXPECT_THAT(got.err, HasSubstr(" " + name));
  }
}

TEST_F(Bench, RefusesBadOptions) {
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--frobnicate"},
                                                {"--rounds", "0"},
                                                {"--rounds", "many"},
                                                {"--json"},
                                                {"--json", ""},
                                                {"--svg", ""}}) {
    const Finished got = run(wrong);
    EXPECT_EQ(got.code(), 64) << got.err;
    EXPECT_TRUE(got.err.starts_with("shmcoord_bench: ")) << got.err;
  }
}

TEST_F(Bench, ComplainsAboutTheFileBeforeItMeasures) {
  Finished got = run({"--short", "--json", file("no/such/folder"), "pair"});
  EXPECT_EQ(got.code(), 1);
  EXPECT_EQ(got.out, "");
  EXPECT_THAT(got.err, HasSubstr("no/such/folder"));
  got = run({"--short", "--svg", "/dev/null/pictures", "pair"});
  EXPECT_EQ(got.code(), 1);
  EXPECT_EQ(got.out, "");
  EXPECT_THAT(got.err, HasSubstr("/dev/null/pictures"));
}

TEST_F(Bench, TakesPatternsAndRounds) {
  const Finished got = run({"--short", "--rounds", "4", "--json", file("json"), "per*", "share?"});
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("of 4 rounds"));
  EXPECT_THAT(got.out, ::testing::Not(HasSubstr("of 2 rounds")));
  std::set<std::string> cases;
  const json::value whole = json::parse(read_file(file("json")));
  for (const json::value& one : whole.at("benchmarks").as_array()) {
    const std::string name(one.at("run_name").as_string());
    cases.insert(name.substr(0, name.find('/')));
    EXPECT_EQ(one.at("repetitions").as_int64(), 4) << name;
  }
  EXPECT_EQ(cases, (std::set<std::string>{"permit", "shared"}));
}

TEST_F(Bench, DrawsWhatItMeasured) {
  const Finished got = run({"--short", "--svg", file("pictures/here"), "readers", "room"});
  ASSERT_EQ(got.code(), 0) << got.err;
  std::set<std::string> names;
  for (const auto& picture : std::filesystem::directory_iterator(file("pictures/here"))) {
    const std::string name = picture.path().filename().string();
    names.insert(name);
    const std::string text = read_file(picture.path().string());
    EXPECT_TRUE(text.starts_with("<svg")) << name;
    EXPECT_THAT(text, HasSubstr("</svg>")) << name;
    for (const char* peer : {"pthread_rwlock", "flock", "OFD lock"}) EXPECT_THAT(text, HasSubstr(peer)) << name;
    EXPECT_THAT(text, HasSubstr("SHORT FORM")) << name;
  }
  // Of room there is one figure and no peer, so nothing to draw.
  std::set<std::string> wanted{"readers-time-per-visit-of-8-readers-and-writers.svg"};
  for (const std::string writes : {"0", "50", "100"}) {
    for (const std::string what : {"ratios", "percentiles", "histogram"}) {
      wanted.insert("readers-8-processes-" + writes + "-of-the-visits-to-write-" + what + ".svg");
    }
  }
  EXPECT_EQ(names, wanted);
}

// --- what goes wrong -------------------------------------------------------------------------------------------------

TEST_F(Bench, LeavesNothingWhenInterrupted) {
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1}) {
    const auto run = start_idle();
    run->signal(signal);
    const Finished got = run->wait();
    EXPECT_EQ(got.code(), 128 + signal);
    EXPECT_THAT(got.err, HasSubstr("interrupted"));
    EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
    EXPECT_TRUE(crowd_gone());
  }
}

TEST_F(Bench, KeepsTheFiguresOfWhatWasOverWhenInterrupted) {
  const auto run = start_crowd({"--rounds", "2", "--json", file("json"), "pair", "idle"}, 101);
  run->signal(SIGINT);
  EXPECT_EQ(run->wait().code(), 128 + SIGINT);
  const json::value whole = json::parse(read_file(file("json")));
  EXPECT_FALSE(whole.at("benchmarks").as_array().empty());
  for (const json::value& one : whole.at("benchmarks").as_array()) {
    EXPECT_TRUE(one.at("run_name").as_string().starts_with("pair/"));
    // CPU time of one operation, as the real time.
    EXPECT_LE(one.at("cpu_time").to_number<double>(), 2 * one.at("real_time").to_number<double>());
  }
}

/// The others would wait for it for ever.
TEST_F(Bench, ACaseOfWhichAProcessIsKilledFails) {
  for (const char* name : {"parked", "contended", "grant"}) {
    const auto run = start_crowd({"--rounds", "1000", name}, 3);
    // The processes of a round are soon gone by themselves.
    EXPECT_TRUE(eventually([&] {
      for (const pid_t of_case : children_of(run->pid())) {
        for (const pid_t pid : children_of(of_case)) ::kill(pid, SIGKILL);
      }
      return !run->running();
    })) << name;
    const Finished got = run->wait();
    EXPECT_EQ(got.code(), 1) << name;
    EXPECT_THAT(got.err, HasSubstr("a process of the case ended: Killed")) << name;
    EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
  }
}

TEST_F(Bench, LostOutputIsAFailure) {
  for (const char* arguments : {" --list", " --short permit"}) {
    const int status = ::system((std::string(SHMCOORD_BENCH_PATH) + arguments + " >/dev/full 2>/dev/null").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << arguments;
  }
}

/// As a terminal does: everybody in the foreground gets it.
TEST_F(Bench, LeavesNothingWhenTheWholeGroupIsInterrupted) {
  const auto run = start_idle();
  ::kill(-run->pid(), SIGINT);
  EXPECT_EQ(run->wait().code(), 128 + SIGINT);
  EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
  EXPECT_TRUE(crowd_gone());
}

TEST_F(Bench, EndsACaseOfWhichAProcessCrashes) {
  const auto run = start_idle();
  ::kill(crowd_.back(), SIGABRT);
  const Finished got = run->wait();
  EXPECT_EQ(got.code(), 1);
  EXPECT_THAT(got.err, HasSubstr("case idle failed"));
  EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
  EXPECT_TRUE(crowd_gone());
}

/// The reaper is another program, which does not end by itself.
TEST_F(Bench, LeavesNoToolBehindWhenInterrupted) {
  const auto run = start({"--rounds", "1000000", "reaper"});
  const auto is_tool = [](pid_t pid) { return read_file("/proc/" + std::to_string(pid) + "/comm") == "shmcoord\n"; };
  EXPECT_TRUE(eventually([&] {
    crowd_ = descendants_of(run->pid());
    return std::any_of(crowd_.begin(), crowd_.end(), is_tool);
  }));
  run->signal(SIGINT);
  EXPECT_EQ(run->wait().code(), 128 + SIGINT);
  EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
  EXPECT_TRUE(crowd_gone());
}

/// Those who hold a lock wait for nothing but a signal.
TEST_F(Bench, NobodyMeasuresForARunnerThatIsGone) {
  const auto run = start_crowd({"--rounds", "1000000", "try"}, 10);
  run->signal(SIGKILL);
  EXPECT_EQ(run->wait().code(), 128 + SIGKILL);
  EXPECT_TRUE(eventually([&] { return crowd_gone(); }));
  for (const std::string& name : left_by(run->pid())) std::filesystem::remove("/dev/shm/" + name);
}

}  // namespace
}  // namespace shmcoord::test
