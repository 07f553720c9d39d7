#include "rules.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

// Canaries: each rule is shown text that it must object to, and text that it must let pass. A rule that finds nothing
// in the repository says something only because it finds something here.

namespace {

using tidy::File;
using tidy::Tree;

struct Canary {
  std::string rule;
  std::vector<File> bad;
  std::vector<File> good;
};

std::string repeat(const std::string& what, std::size_t times) {
  std::string out;
  for (std::size_t n = 0; n < times; ++n) out += what;
  return out;
}

std::vector<Canary> canaries() {
  const std::string left_over = std::string("// TO") + "DO: later\n";
  const std::string skip = std::string("GTEST_") + "SKIP()";
  return {
      {"arrows_point_down",
       {{"src/core/a.hpp", "#include \"engine/b.hpp\"\n"}},
       {{"src/engine/a.hpp", "#include \"core/b.hpp\"\n#include \"shmcoord/error.hpp\"\n#include <vector>\n"}}},
      {"arrows_point_down", {{"src/base/a.cpp", "#  include \"process/b.hpp\"\n"}}, {}},
      {"arrows_point_down", {{"src/engine/a.cpp", "#include \"sibling.hpp\"\n"}}, {}},
      {"arrows_point_down",
       {{"include/shmcoord/a.hpp", "#include \"process/b.hpp\"\n"}},
       {{"include/shmcoord/a.hpp", "// #include \"process/b.hpp\"\n#include \"shmcoord/b.hpp\"\n"}}},
      {"arrows_point_down", {{"src/misc/a.cpp", "int a;\n"}}, {}},
      {"arrows_point_down",
       {{"src/process/a.cpp", "#include \"shmcoord/tasks/a.hpp\"\n"}},
       {{"src/tasks/a.cpp", "#include \"core/b.hpp\"\n#include \"shmcoord/tasks.hpp\"\n"}}},
      {"arrows_point_down",
       {{"include/shmcoord/a.hpp", "#include <shmcoord/tasks.hpp>\n"}},
       {{"include/shmcoord/tasks/a.hpp", "#include \"shmcoord/tasks/b.hpp\"\n#include \"shmcoord/lock.hpp\"\n"}}},
      {"arrows_point_down",
       {{"src/coordination/a.cpp", "#include \"shmcoord/adapters.hpp\"\n"}},
       {{"src/adapters/a.cpp", "#include \"shmcoord/adapters.hpp\"\n#include \"base/b.hpp\"\n"}}},
      {"arrows_point_down", {{"include/shmcoord/a.hpp", "#include \"shmcoord/testing.hpp\"\n"}}, {}},
      {"face_hides_its_insides", {{"include/shmcoord/adapters.hpp", "#include <git2.h>\n"}}, {}},
      {"face_hides_its_insides", {{"include/shmcoord/adapters.hpp", "#include <re2/re2.h>\n"}}, {}},
      {"face_hides_its_insides",
       {{"include/shmcoord/a.hpp", "#include <boost/json.hpp>\n"}},
       {{"include/shmcoord/tasks/a.hpp", "#include <boost/asio/awaitable.hpp>\n"}}},
      {"face_hides_its_insides", {{"include/shmcoord/tasks/a.hpp", "#include <unistd.h>\n"}}, {}},
      {"face_hides_its_insides", {{"include/shmcoord/task.hpp", "boost::asio::io_context a;\n"}}, {}},
      {"face_hides_its_insides", {{"include/shmcoord/a.hpp", "#include <atomic>\n"}}, {}},
      {"face_hides_its_insides",
       {{"include/shmcoord/a.hpp", "#include <sys/mman.h>\n"}},
       {{"include/shmcoord/a.hpp", "#include <system_error>\n"}}},
      {"face_hides_its_insides", {{"include/shmcoord/a.hpp", "std::atomic<int> a;\n"}}, {}},
      {"core_is_pure", {{"src/core/a.hpp", "#include <mutex>\n"}}, {{"src/core/a.hpp", "#include <chrono>\n"}}},
      {"core_is_pure", {{"src/core/a.hpp", "#include <unistd.h>\n"}}, {{"src/engine/a.hpp", "#include <unistd.h>\n"}}},
      {"core_is_pure",
       {{"src/core/a.hpp", "auto t = std::chrono::steady_clock::now();\n"}},
       {{"src/core/a.hpp", "// not steady_clock\n"}}},
      {"core_is_pure", {{"src/core/a.hpp", "throw 1;\n"}}, {{"src/base/a.cpp", "throw Error(1);\n"}}},
      {"atomics_stay_in_the_engine",
       {{"src/process/a.cpp", "#include <atomic>\n"}},
       {{"src/engine/a.hpp", "#include <atomic>\n"}}},
      {"atomics_stay_in_the_engine", {{"src/process/a.cpp", "word.compare_exchange_strong(a, b);\n"}}, {}},
      {"atomics_stay_in_the_engine", {{"src/base/a.cpp", "__atomic_load_n(&a, 0);\n"}}, {}},
      {"atomics_stay_in_the_engine", {{"include/shmcoord/a.hpp", "std::atomic_ref<int> a;\n"}}, {}},
      {"clocks_have_one_home",
       {{"src/process/a.cpp", "::clock_gettime(CLOCK_MONOTONIC, &t);\n"}},
       {{"src/process/clock.cpp", "::clock_gettime(CLOCK_MONOTONIC, &t);\n"}}},
      {"clocks_have_one_home",
       {{"src/engine/a.hpp", "std::chrono::steady_clock::now();\n"}},
       {{"src/engine/real_policy.hpp", "std::chrono::steady_clock::now();\n"}}},
      {"clocks_have_one_home",
       {{"src/process/a.hpp", "using namespace std::chrono; system_clock::time_point t;\n"}},
       {{"src/process/a.hpp", "std::chrono::steady_clock::time_point t;  // not system_clock\n"}}},
      {"nobody_sleeps",
       {{"src/process/a.cpp", "std::this_thread::sleep_for(1s);\n"}},
       {{"tests/process/a_test.cpp", "std::this_thread::sleep_for(1s);\n"}}},
      {"nobody_sleeps", {{"src/engine/a.cpp", "::usleep(10);\n"}}, {}},
      {"files_are_readable", {{"src/core/a.hpp", repeat("\n", 601)}}, {{"src/core/a.hpp", repeat("\n", 600)}}},
      {"files_are_readable",
       {{"tests/core/a_test.cpp", repeat("a", 121)}},
       {{"tests/core/a_test.cpp", repeat("\u00e9", 120)}}},
      {"files_are_readable", {{"src/core/a.hpp", "int a; \n"}}, {{"README.md", repeat("a", 121)}}},
      {"nothing_is_left_over",
       {{"src/core/a.hpp", left_over}},
       {{"src/core/a.hpp", "// a method of doing; XXXXXX of mkstemp\n"}}},
      {"nothing_is_left_over",
       {{"src/core/a.hpp", std::string("// To") + "do: later\n"}},
       {{"src/core/a.hpp", std::string("return \"To") + "do\";\n"}}},
      {"nothing_is_left_over", {{"tools/quickstart", std::string("# FIX") + "ME\n"}}, {}},
      {"headers_are_guarded",
       {{"src/core/a.hpp", "// #pragma once\nint a;\n"}},
       {{"src/core/a.hpp", "#pragma once\nint a;\n"}}},
      {"names_are_snake_case", {{"src/core/LockMachine.cpp", ""}}, {{"src/core/lock_machine.cpp", ""}}},
      {"skips_say_why",
       {{"tests/field/a_test.cpp", skip + ";\n"}},
       {{"tests/field/a_test.cpp", skip + "\n    << \"no PID namespaces here\";\n"}}},
      {"skips_say_why", {{"tests/field/a_test.cpp", std::string("TEST(A, DISA") + "BLED_b) {}\n"}}, {}},
      {"few_files_swap_words",
       {{"src/engine/a.hpp", "a.compare_exchange(b);"},
        {"src/engine/b.hpp", "a.compare_exchange(b);"},
        {"src/engine/c.hpp", "a.compare_exchange(b);"},
        {"src/engine/d.hpp", "a.compare_exchange(b);"}},
       {{"src/engine/a.hpp", "a.compare_exchange(b);"},
        {"src/engine/b.hpp", "a.compare_exchange(b);"},
        {"src/engine/c.hpp", "a.compare_exchange(b);"},
        {"src/engine/d.hpp", "// compare_exchange is done elsewhere"}}},
      {"no_header_is_dead",
       {{"src/core/a.hpp", "#include \"core/a.hpp\"\n"}},
       {{"src/core/a.hpp", ""},
        {"src/core/a.cpp", "#include \"core/a.hpp\"\n"},
        {"tests/support/b.hpp", ""},
        {"tests/core/b_test.cpp", "#include \"support/b.hpp\"\n#include \"c.hpp\"\n"},
        {"tests/core/c.hpp", ""},
        {"include/shmcoord/shmcoord.hpp", ""}}},
      {"every_source_is_built",
       {{"src/CMakeLists.txt", "shmcoord_add_layer(core)\n"}, {"src/cor/a.cpp", ""}},
       {{"src/CMakeLists.txt", "shmcoord_add_layer(core)\n"}, {"src/core/a.cpp", ""}}},
      {"every_source_is_built",
       {{"tests/CMakeLists.txt", "shmcoord_add_tests(core LINK x)\n"}, {"tests/core/a_tests.cpp", ""}},
       {{"tests/CMakeLists.txt", "shmcoord_add_tests(core LINK x)\nadd_executable(b core/b.cpp)\n"},
        {"tests/core/a_test.cpp", ""},
        {"tests/core/b.cpp", ""},
        {"tests/support/c.cpp", ""},
        {"bench/d_bench.cpp", ""},
        {"bench/main.cpp", ""},
        {"bench/support/e.cpp", ""},
        {"tools/adapters/ports.cpp", ""},
        {"tools/shmcoord/main.cpp", ""}}},
      {"every_source_is_built", {{"bench/lock.cpp", ""}}, {}},
  };
}

const tidy::Rule* rule_named(const std::vector<tidy::Rule>& rules, const std::string& name) {
  for (const auto& rule : rules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

TEST(Rules, FindWhatIsPlantedAndNothingElse) {
  const auto rules = tidy::rules();
  for (const auto& canary : canaries()) {
    const auto* rule = rule_named(rules, canary.rule);
    ASSERT_NE(rule, nullptr) << canary.rule;
    EXPECT_FALSE(rule->check(Tree{canary.bad, {}}).empty()) << canary.rule << " misses: " << canary.bad.back().text;
    const auto found = rule->check(Tree{canary.good, {}});
    EXPECT_TRUE(found.empty()) << canary.rule << " objects to: " << found.front().path << ": " << found.front().what;
  }
}

TEST(Rules, TopLevelIsSmall) {
  const auto rules = tidy::rules();
  const auto* rule = rule_named(rules, "top_level_is_small");
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->check(Tree{{}, {"src", "docs", ".ci", "notes.md"}}).size(), 2U);
  EXPECT_TRUE(rule->check(Tree{{}, {"CMakeLists.txt", "src", "bench", "build", ".git"}}).empty());
}

TEST(Rules, EachHasACanary) {
  std::map<std::string, int> seen{{"top_level_is_small", 1}};
  for (const auto& canary : canaries()) ++seen[canary.rule];
  for (const auto& rule : tidy::rules()) EXPECT_GT(seen[rule.name], 0) << rule.name;
}

TEST(SourceText, CommentsAndLiteralsAreNotCode) {
  const std::string text =
      "int a = 1'000; // b\n/* c\n c */ char d = '\\''; auto e = \"f\\\"f\"; auto g = R\"x(h\n\" h)x\"; int i;\n";
  const std::string code = tidy::code_of(text);
  for (const auto* word : {"a", "1'000", "d", "e", "g", "i"}) EXPECT_TRUE(tidy::has_word(code, word)) << word;
  for (const auto* word : {"b", "c", "f", "h"}) EXPECT_FALSE(tidy::has_word(code, word)) << word << " in " << code;
  EXPECT_EQ(tidy::lines_of(code).size(), tidy::lines_of(text).size());
}

TEST(SourceText, Includes) {
  const auto found = tidy::includes_of("#include <a>\n  #  include \"b/c.hpp\"  // d\n// #include <e>\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_TRUE(found[0].angled);
  EXPECT_EQ(found[1].name, "b/c.hpp");
  EXPECT_EQ(found[1].line, 2U);
}

}  // namespace
