#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "support/tool.hpp"

// `shmcoord guard add`, `list` and `remove`: what the tool does without the adapters, and every mistake in a
// definition. Evaluating and waiting: guard_ask_test.cpp.

namespace shmcoord::test {
namespace {

namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class GuardTool : public ToolTest {
 protected:
  GuardTool() : ToolTest(SHMCOORD_TOOL_PATH) {}

  Finished add(const std::string& name, const std::string& condition, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"guard", "add", name, "--condition", condition});
    return run(std::move(more));
  }
  json::array listed() { return json::parse(run({"--json", "guard", "list"}).out).as_array(); }
  /// A refusal: exit code 64, one error that says that, and no segment for it.
  void expect_refused(std::vector<std::string> words, const std::string& says) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished got = run(std::move(words));
    EXPECT_EQ(got.code(), 64) << got.err;
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("shmcoord: "), HasSubstr(says)));
    EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
  }
};

TEST_F(GuardTool, IsRegisteredOnce) {
  const Finished made = add("release", "lock_free(deploy)");
  EXPECT_EQ(made.code(), 0) << made.err;
  EXPECT_EQ(made.out + made.err, "");
  EXPECT_EQ(add("release", " lock_free( deploy )").code(), 0) << "the same, written otherwise";
  const Finished other = add("release", "lock_free(main)");
  EXPECT_EQ(other.code(), 64);
  EXPECT_THAT(other.err, AllOf(HasSubstr("lock_free(deploy)"), HasSubstr("lock_free(main)")));
  EXPECT_EQ(add("release", "lock_free(deploy)", {"--on-failure", "warn"}).code(), 64);
  EXPECT_EQ(add("release", "lock_free(deploy)", {"--wake", "lock:*"}).code(), 64);
  ASSERT_EQ(listed().size(), 1U);
  EXPECT_EQ(listed()[0].at("condition"), "lock_free(deploy)");
  ASSERT_EQ(run({"lock", "acquire", "taken", "--holder", "a"}).code(), 0);
  const Finished taken = add("taken", "lock_free(deploy)");
  EXPECT_EQ(taken.code(), 64);
  EXPECT_THAT(taken.err, HasSubstr("'taken' exists as a lock, not as a guard"));
}

TEST_F(GuardTool, AddSaysToProgramsWhatItDid) {
  const std::vector<std::string> words{"--json",       "guard",    "add",    "x",      "--condition", "lock_free(a)",
                                       "--on-failure", "retry:5s", "--wake", "lock:*", "--wake",      "guard:passed"};
  const json::object made = json::parse(run(words).out).as_object();
  EXPECT_EQ(made.at("guard"), "x");
  EXPECT_EQ(made.at("result"), "registered");
  EXPECT_EQ(made.at("condition"), "lock_free(a)");
  EXPECT_THAT(std::string(made.at("action").as_string()), StartsWith("retry:5"));
  EXPECT_EQ(made.at("wake_on"), (json::array{"lock:*", "guard:passed"}));
  EXPECT_EQ(json::parse(run(words).out).at("result"), "exists");
}

TEST_F(GuardTool, IsListedAndRemoved) {
  EXPECT_EQ(run({"guard", "list"}).code(), 2);
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  EXPECT_EQ(run({"guard", "list"}).out, "");
  EXPECT_EQ(run({"--json", "guard", "list"}).out, "[]\n");
  ASSERT_EQ(add("release", "lock_free(deploy) && !file_exists(.hold)").code(), 0);
  ASSERT_EQ(add("b", "lock_free(deploy)", {"--on-failure", "fail:no release on Fridays"}).code(), 0);
  const Finished list = run({"guard", "list"});
  EXPECT_EQ(list.code(), 0);
  EXPECT_EQ(list.out,
            "GUARD    VERDICT  AGE  PID  ACTION                      CONDITION\n"
            "b        -        -    -    fail:no release on Fridays  lock_free(deploy)\n"
            "release  -        -    -    block                       lock_free(deploy) && !file_exists(.hold)\n");
  EXPECT_EQ(json::parse(run({"--json", "inspect"}).out).at("guards"), listed()) << "the same keys";

  const Finished removed = run({"guard", "remove", "b"});
  EXPECT_EQ(removed.code(), 0) << removed.err;
  EXPECT_EQ(removed.out + removed.err, "");
  EXPECT_EQ(listed().size(), 1U);
  const Finished missing = run({"--json", "guard", "remove", "b"});
  EXPECT_EQ(missing.code(), 2);
  EXPECT_THAT(missing.out, HasSubstr(R"("code":"not_found")"));
  EXPECT_EQ(run({"--json", "guard", "remove", "release"}).out, "{\"guard\":\"release\",\"result\":\"removed\"}\n");
  ASSERT_EQ(run({"lock", "acquire", "l", "--holder", "a"}).code(), 0);
  EXPECT_EQ(run({"guard", "remove", "l"}).code(), 64);
  EXPECT_FALSE(is_free("l"));
}

TEST_F(GuardTool, AConditionComesFromAFileToo) {
  const std::string path = write("c.json", R"({"type":"lock_free","lock":"deploy"})");
  EXPECT_EQ(run({"guard", "add", "a", "--json-file", path}).code(), 0);
  EXPECT_EQ(start_shell("$SHMCOORD guard add b --json-file - <$SCRATCH/c.json")->wait().code(), 0);
  EXPECT_EQ(start_shell("cat $SCRATCH/c.json | $SHMCOORD guard add c --json-file /dev/stdin")->wait().code(), 0);
  for (const json::value& guard : listed()) EXPECT_EQ(guard.at("condition"), "lock_free(deploy)");
  EXPECT_EQ(listed().size(), 3U);
}

// The text, and a caret under the place.
TEST_F(GuardTool, AMistakeIsShown) {
  const auto shown = [&](const std::string& text) { return add("x", text).err; };
  EXPECT_EQ(shown("lock_free(main && x"),
            "shmcoord: --condition: column 16: expected `,` or `)`, found '&'\n"
            "  lock_free(main && x\n"
            "                 ^\n");
  EXPECT_THAT(shown("lock_free(main"), HasSubstr("\n  lock_free(main\n                ^\n"));
  EXPECT_THAT(shown(""), HasSubstr("found the end\n  \n  ^\n"));
  // Columns of a terminal: wide characters, and what is not to be seen.
  EXPECT_THAT(shown("file_exists(\xE6\x97\xA5\xE6\x9C\xAC) &"),
              HasSubstr("\n  file_exists(\xE6\x97\xA5\xE6\x9C\xAC) &\n                    ^\n"));
  EXPECT_THAT(shown("file_exists('\n') &"), HasSubstr("\n  file_exists('\\n') &\n                    ^\n"));
  EXPECT_THAT(shown("file_exists(\"\x1b[31m\") &"), Not(HasSubstr("\x1b")));
  // Of a long one what is around the place.
  std::string many;
  for (int i = 0; i < 50; ++i) many += "lock_free(a) && ";
  const std::string cut = shown(many + "foo(b) && " + many + "lock_free(a)");
  EXPECT_THAT(cut, AllOf(HasSubstr("column 801: there is no condition 'foo'"), HasSubstr("\n  …"), HasSubstr("…\n")));
  const std::size_t caret = cut.rfind("\n  ") + 1;
  const std::string line = cut.substr(cut.find("\n  …") + 1);
  EXPECT_EQ(line.substr(cut.size() - 2 - caret + std::string("…").size() - 1, 6), "foo(b)") << cut;
  // One document for programs, and no place where no place is.
  const Finished got = run({"--json", "guard", "add", "x", "--condition", "lock_free(main && x"});
  EXPECT_EQ(got.code(), 64);
  EXPECT_THAT(std::string(json::parse(got.out).at("error").at("message").as_string()), HasSubstr("column 16"));
  EXPECT_THAT(shown(std::string(65'537, ' ')), AllOf(HasSubstr("longer than 65536 bytes"), Not(HasSubstr("^"))));
  EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";
}

TEST_F(GuardTool, WhatCannotBeIsRefused) {
  const std::string c = "lock_free(a)";
  expect_refused({"guard", "add", "x"}, "--condition is missing");
  expect_refused({"guard", "add", "--condition", c}, "needs a name");
  expect_refused({"guard", "add", "", "--condition", c}, "guard name '' is empty");
  expect_refused({"guard", "add", std::string(256, 'n'), "--condition", c}, "longer than 255 bytes");
  expect_refused({"guard", "add", "x", "y", "--condition", c}, "'y'");
  expect_refused({"guard", "add", "x", "--condition", c, "--condition", c}, "given 2 times");
  expect_refused({"guard", "add", "x", "--condition", c, "--json-file", "-"}, "exclude each other");
  for (const char* const action : {"", "stop", "retry", "retry:", "fail", "fail:", "warn:x", "Block"}) {
    expect_refused({"guard", "add", "x", "--condition", c, "--on-failure", action}, "--on-failure");
  }
  expect_refused({"guard", "add", "x", "--condition", c, "--on-failure", "retry:0s"}, "'0s' is zero");
  expect_refused({"guard", "add", "x", "--condition", c, "--on-failure", "retry:5"}, "'5'");
  expect_refused({"guard", "add", "x", "--condition", c, "--on-failure", "fail:" + std::string(4097, 'f')}, "4096");
  expect_refused({"guard", "add", "x", "--condition", c, "--on-failure", "fail:\xff"}, "not UTF-8");
  expect_refused({"guard", "add", "x", "--condition", c, "--wake", "lock:rel*"}, "'lock:rel*'");
  std::vector<std::string> wakes{"guard", "add", "x", "--condition", c};
  for (int i = 0; i < 65; ++i) wakes.insert(wakes.end(), {"--wake", "lock:*"});
  expect_refused(wakes, "at most 64");
  expect_refused({"guard", "add", "x", "--condition", std::string(100, '(') + c + std::string(100, ')')}, "64 deep");
  std::string many = c;
  for (int i = 0; i < 1001; ++i) many += "&&" + c;
  expect_refused({"guard", "add", "x", "--condition", many}, "more than 1000 conditions");
  expect_refused({"guard", "add", "x", "--condition", "file_exists(" + std::string(5000, 'f') + ")"}, "4096");
  expect_refused({"guard", "add", "x", "--condition", "file_exists(\xff)"}, "UTF-8");
  expect_refused({"guard", "list", "x"}, "'x'");
  expect_refused({"guard", "remove"}, "needs a name");
  expect_refused({"guard", "frobnicate"}, "'guard frobnicate'");
}

TEST_F(GuardTool, FilesThatHoldNoCondition) {
  const auto refused = [&](const std::string& path, const std::string& says) {
    expect_refused({"guard", "add", "x", "--json-file", path}, "--json-file: '" + path + "': " + says);
  };
  refused(file("none"), "No such file");
  refused(scratch_, "Is a directory");
  refused("", "No such file");
  refused(write("large", std::string(65'537, ' ')), "it is larger than 65536 bytes");
  refused("/dev/zero", "it is larger than 65536 bytes");
  refused(write("empty", ""), "this is no JSON");
  refused(write("text", "lock_free(a)"), "this is no JSON");
  refused(write("cut", R"({"type":"lock_free")"), "this is no JSON");
  refused(write("path", R"({"type":"all","conditions":[{"type":"lock_free"}]})"), "$.conditions[0]: \"lock\" is");
  refused(write("deep", std::string(10'000, '[')), "");
  refused(write("nul", std::string("\0\0", 2)), "this is no JSON");
  expect_refused({"guard", "add", "x", "--json-file", "-"}, "--json-file: standard input: this is no JSON");
}

// The tool alone says what is missing, and never becomes itself for ever.
TEST_F(GuardTool, WithoutTheAdaptersTheRestWorks) {
  if (std::filesystem::exists(SHMCOORD_LIBEXEC "/shmcoord-adapters")) {
    GTEST_SKIP() << "it is installed on this machine, in " SHMCOORD_LIBEXEC;
  }
  ASSERT_EQ(start_shell("mkdir $SCRATCH/bin && cp $SHMCOORD $SCRATCH/bin/shmcoord")->wait().code(), 0);
  tool_ = file("bin/shmcoord");
  ASSERT_EQ(add("release", "lock_free(deploy)").code(), 0);
  EXPECT_EQ(listed().size(), 1U);
  for (const auto& words : std::vector<std::vector<std::string>>{{"guard", "eval", "release"},
                                                                 {"guard", "wait", "release"},
                                                                 {"guard", "eval", "--condition", "lock_free(a)"}}) {
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 69) << got.err;
    EXPECT_THAT(got.err, AllOf(HasSubstr("shmcoord-adapters"), HasSubstr(file("bin")),
                               HasSubstr("SHMCOORD_ADAPTERS=ON"), HasSubstr("libgit2")));
  }
  EXPECT_THAT(run({"--json", "guard", "eval", "release"}).out, HasSubstr(R"("code":"unsupported")"));
  EXPECT_EQ(run({"guard", "eval", "release", "--frobnicate"}).code(), 64) << "words are checked first";
  EXPECT_EQ(run({"guard", "wait", "--help"}).code(), 0);
  ASSERT_EQ(start_shell("ln -s shmcoord $SCRATCH/bin/shmcoord-adapters")->wait().code(), 0);
  EXPECT_EQ(run({"guard", "eval", "release"}).code(), 69) << "itself by another name";
  ASSERT_EQ(start_shell("cd $SCRATCH/bin && rm shmcoord-adapters && cp shmcoord shmcoord-adapters")->wait().code(), 0);
  EXPECT_EQ(run({"guard", "eval", "release"}).code(), 69) << "a copy of itself";
}

}  // namespace
}  // namespace shmcoord::test
