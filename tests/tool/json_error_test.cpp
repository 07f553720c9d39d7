#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "support/tool.hpp"

// What programs get when a command fails.

namespace shmcoord::test {
namespace {

namespace json = boost::json;

class JsonError : public ToolTest {
 protected:
  JsonError() : ToolTest(SHMCOORD_TOOL_PATH) {}

  static json::object parsed(const std::string& text) {
    json::error_code error;
    const json::value value = json::parse(text, error);
    EXPECT_FALSE(error) << text;
    return value.is_object() ? value.get_object() : json::object{};
  }
  static void expect_error(const json::object& document, const std::string& code, const std::string& message) {
    ASSERT_TRUE(document.contains("error")) << json::serialize(document);
    const json::object& error = document.at("error").as_object();
    EXPECT_EQ(json::value_to<std::string>(error.at("code")), code);
    EXPECT_EQ(json::value_to<std::string>(error.at("message")), message);
  }

  /// One document on standard output, with the text that people get on standard error.
  void expect_document(std::vector<std::string> words, int exit_code, const std::string& code) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished got = run(std::move(words));
    EXPECT_EQ(got.code(), exit_code) << got.err;
    ASSERT_TRUE(got.err.starts_with("shmcoord: ") && got.err.ends_with('\n')) << got.err;
    ASSERT_EQ(std::count(got.out.begin(), got.out.end(), '\n'), 1) << got.out;
    expect_error(parsed(got.out), code, got.err.substr(10, got.err.size() - 11));
  }
};

TEST_F(JsonError, IsADocument) {
  expect_document({"--json"}, 64, "usage");
  expect_document({"--json", "frobnicate"}, 64, "usage");
  expect_document({"segment", "info", "--json", "--frobnicate"}, 64, "usage");
  expect_document({"--json", "lock", "acquire", "x", "--holder", "a", "--ttl", "0"}, 64, "usage");
  expect_document({"-s", " x", "--json", "inspect"}, 64, "invalid_argument");
  expect_document({"--json", "inspect"}, 2, "segment_not_found");
  expect_document({"--json", "reap", "--once"}, 2, "segment_not_found");
  expect_document({"--json", "segment", "remove"}, 2, "segment_not_found");
  expect_document({"--json", "lock", "status", "x"}, 2, "segment_not_found");
  expect_document({"--json", "lock", "status", "run"}, 2, "segment_not_found");
  expect_document({"--json", "sem", "create", "x", "--capacity", "0"}, 64, "usage");
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  expect_document({"--json", "sem", "create", "x", "--capacity", "1"}, 64, "wrong_type");
  expect_document({"--json", "sem", "acquire", "y", "--holder", "a"}, 2, "not_found");
  expect_document({"--json", "segment", "create"}, 1, "segment_exists");
  expect_document({"--json", "segment", "remove"}, 1, "in_use");
  expect_document({"--json", "lock", "remove", "x"}, 1, "in_use");
  expect_document({"--json", "lock", "release", "no\xE2\x80\xAE", "--holder", "a"}, 2, "not_found");
  const auto gone = start_shell("exit 0");
  (void)gone->wait();
  expect_document({"--json", "lock", "acquire", "x", "--holder", "b", "--pid", std::to_string(gone->pid())}, 2,
                  "not_found");
  std::ofstream(file("foreign")) << "this is not a segment";
  expect_document({"--json", "-s", file("foreign"), "segment", "info"}, 69, "segment_foreign");
  expect_document({"--json", "-s", file("no/such"), "segment", "create"}, 69, "system");
}

TEST_F(JsonError, IsNotASecondDocument) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--capacity", "1", "--holder", "a"}).code(), 0);
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--json", "lock", "acquire", "x", "--holder", "b", "-n"},
           {"--json", "lock", "release", "x", "--holder", "b"},
           {"--json", "lock", "status", "x", "--holder", "b"},
           {"--json", "force-release", "x", "--holder", "b", "--reason", "r"},
           {"--json", "sem", "acquire", "agents", "--holder", "b", "-n"},
           {"--json", "sem", "release", "agents", "--holder", "b"},
           {"--json", "sem", "status", "agents", "--holder", "b"},
           {"--json", "inspect", "y"},
       }) {
    SCOPED_TRACE(::testing::PrintToString(words));
    const Finished got = run(words);
    EXPECT_NE(got.code(), 0);
    EXPECT_FALSE(parsed(got.out).contains("error")) << got.out;
    EXPECT_TRUE(got.err.starts_with("shmcoord: ")) << got.err;
  }
}

TEST_F(JsonError, OfATruncatedSegment) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  const auto waiter = start({"--json", "lock", "acquire", "x", "--holder", "b"});
  ASSERT_TRUE(eventually([&] { return waiter->err().find("waiting") != std::string::npos; }));
  ASSERT_EQ(::truncate(("/dev/shm/shmcoord." + segment_).c_str(), 4096), 0);
  const Finished got = waiter->wait();
  EXPECT_EQ(got.code(), 69);
  EXPECT_EQ(json::value_to<std::string>(parsed(got.out).at("error").at("code")), "segment_corrupt") << got.out;
}

TEST_F(JsonError, OfACommandThatCannotBeFound) {
  const Finished got = run({"run", "--json", "-l", "y", "--", "no-such-command-anywhere"});
  EXPECT_EQ(got.code(), 127);
  EXPECT_EQ(json::value_to<std::string>(parsed(got.err).at("error").at("code")), "command_not_found") << got.err;
}

// Standard output is the command's.
TEST_F(JsonError, OfRunIsALineOnStandardError) {
  const auto holder =
      start({"run", "-l", "x", "--holder", "a", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 60"});
  ASSERT_GT(pid_from("in"), 0);
  const auto code_of = [](const Finished& got) {
    EXPECT_EQ(got.out, "");
    return json::value_to<std::string>(parsed(got.err).at("error").at("code"));
  };
  EXPECT_EQ(code_of(run({"--json", "run", "-n", "-l", "x", "--", "echo", "in"})), "busy");
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "1"}).code(), 0);
  EXPECT_EQ(code_of(run({"--json", "run", "-S", "agents:2", "--", "echo", "in"})), "full");
  EXPECT_EQ(code_of(run({"--json", "run", "-S", "none", "--", "echo", "in"})), "not_found");
  EXPECT_EQ(code_of(run({"run", "--json", "-w", "10ms", "-l", "x", "--", "echo", "in"})), "timed_out");
  EXPECT_EQ(code_of(run({"run", "--json", "-l", "y", "--ttl", "0", "--", "true"})), "usage");
  const Finished good = run({"--json", "run", "-l", "y", "--", "echo", "in"});
  EXPECT_EQ(good.out + good.err, "in\n");
  const Finished theirs = run({"run", "-n", "-l", "x", "echo", "--json"});
  EXPECT_TRUE(theirs.err.starts_with("shmcoord: ")) << "that --json is the command's: " << theirs.err;

  const auto waiter = start({"--json", "run", "-l", "x", "--", "true"});
  ASSERT_TRUE(eventually([&] { return waiter->err().ends_with('\n'); }));
  const std::string line = waiter->err();
  EXPECT_NE(json::value_to<std::string>(parsed(line).at("message")).find("waiting for lock 'x'"), std::string::npos);
}

}  // namespace
}  // namespace shmcoord::test
