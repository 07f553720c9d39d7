#include <sys/stat.h>

#include <mutex>
#include <vector>

#include "adapters/scratch.hpp"
#include "shmcoord/adapters.hpp"
#include "shmcoord/issue_list.hpp"

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* two_issues =
    R"({"issues": [{"id": "A-7", "status": "in progress", "labels": ["x"]}, {"id": 8, "status": "closed"}]})";

class Issues : public ScratchTest {
 protected:
  static std::string refused(GuardIssues& issues) {
    return reason([&] { return issues.issues({}, patient()); });
  }
};

TEST_F(Issues, AreReadFromAFileAnewEachTime) {
  const auto issues = adapters::issues_from_file(write("issues", two_issues));
  EXPECT_EQ(issues->status("A-7", patient()), IssueStatus::in_progress);
  EXPECT_EQ(issues->status("8", patient()), IssueStatus::done);
  EXPECT_EQ(issues->issues({}, patient()).size(), 2U);
  EXPECT_EQ(reason([&] { return issues->status("9", patient()); }), "there is no issue '9'");
  EXPECT_EQ(reason([&] { return issues->status("\x1b", patient()); }), "there is no issue '\\x1b'");
  write("issues", R"([{"id": "A-7", "status": "Done"}])");
  EXPECT_EQ(issues->status("A-7", patient()), IssueStatus::done);
  EXPECT_EQ(reason([&] { return issues->status("8", patient()); }), "there is no issue '8'");
}

TEST_F(Issues, EveryMistakeOfAFileIsTold) {
  const std::string name = write("issues", "[{]");
  const auto issues = adapters::issues_from_file(name);
  EXPECT_EQ(refused(*issues).find("this is no JSON: syntax error at line 1, column "), 0U) << refused(*issues);
  write("issues", R"([{"id": 1, "status": "Done"}, {"id": 1, "status": "Done"}])");
  EXPECT_EQ(refused(*issues), "$[1].id: '1' is there twice");
  write("issues", "");
  fs::resize_file(name, max_issue_text + 1);
  EXPECT_EQ(refused(*issues), "'" + name + "': it is larger than 16777216 bytes, and is not read");
  fs::remove(name);
  EXPECT_EQ(refused(*issues), "'" + name + "': there is no such file");
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  EXPECT_EQ(refused(*issues), "'" + name + "': it is no regular file");
}

// C-54.
TEST_F(Issues, AStatusThatIsNotKnownIsReported) {
  std::vector<std::string> warnings;
  const auto issues = adapters::issues_from_file(write("issues", R"([{"id": 1, "status": "QA"}])"),
                                                 {.warn = [&](const std::string& w) { warnings.push_back(w); }});
  EXPECT_EQ(issues->status("1", patient()), IssueStatus::in_progress);
  EXPECT_EQ(warnings, std::vector<std::string>{"status 'QA' is not known, taken as InProgress: issue '1'"});
}

TEST_F(Issues, AreWhatACommandWrites) {
  write("issues", two_issues);
  const adapters::CommandOptions here{.directory = scratch_.string()};
  const auto issues = adapters::issues_from_command("echo working >&2; cat issues", here);
  EXPECT_EQ(issues->status("8", patient()), IssueStatus::done);
  EXPECT_EQ(issues->issues({}, patient()).size(), 2U);
  // Also when it is more than a command's kept output.
  const auto large = adapters::issues_from_command("printf '['; head -c 3000000 /dev/zero | tr '\\0' ' '; echo ']'",
                                                   {.max_output = 10});
  EXPECT_TRUE(large->issues({}, patient()).empty());
}

TEST_F(Issues, EveryMistakeOfACommandIsTold) {
  const auto refused_by = [&](const std::string& command) { return refused(*adapters::issues_from_command(command)); };
  EXPECT_EQ(refused_by("echo '[]'; echo 'no login' >&2; exit 4"), "the command failed: exit code 4: no login");
  EXPECT_EQ(refused_by("echo 'rate limit'; exit 4"), "the command failed: exit code 4: rate limit");
  EXPECT_EQ(refused_by("exec 2>/dev/null; no-such-command-here"), "it cannot be run: exit code 127");
  EXPECT_EQ(refused_by("echo '{}'"), "$: expected an array of issues, or an object with \"issues\"");
  EXPECT_EQ(refused_by("true"), "this is no JSON: incomplete JSON at line 1, column 1");
  EXPECT_EQ(refused_by("head -c 16777217 /dev/zero"), "the command wrote more than 16777216 bytes");
  const auto hangs = adapters::issues_from_command("sleep 1000");
  EXPECT_EQ(reason([&] { return hangs->status("1", within(200ms)); }), "it did not end in time");
}

class Sessions : public ScratchTest {};

TEST_F(Sessions, AreAskedOfACommandThatGetsTheNameInAVariable) {
  const auto sessions = adapters::sessions_from_command("test \"$SHMCOORD_SESSION\" = \"a'; \\$(touch x) b\"",
                                                        {.directory = scratch_.string()});
  EXPECT_TRUE(sessions->is_alive("a'; $(touch x) b", patient()));
  EXPECT_FALSE(sessions->is_alive("builder", patient()));
  EXPECT_FALSE(fs::exists(path("x")));
  EXPECT_EQ(reason([&] { return sessions->is_alive(std::string("a\0b", 3), patient()); }),
            "the session's name contains a zero byte");
  // Instead of one that is there already.
  ::setenv("SHMCOORD_SESSION", "outer", 1);
  EXPECT_EQ(
      adapters::sessions_from_command("test $(tr '\\0' '\\n' </proc/$$/environ | grep -c '^SHMCOORD_SESSION=') = 1 && "
                                      "test \"$SHMCOORD_SESSION\" = inner")
          ->is_alive("inner", patient()),
      true);
  ::unsetenv("SHMCOORD_SESSION");
  EXPECT_EQ(reason([&] { return adapters::sessions_from_command("exit 127")->is_alive("a", patient()); }),
            "it cannot be run: exit code 127");
}

TEST_F(Sessions, AnyOfThemMaySayThatItLives) {
  const auto of = [](const char* command) { return adapters::sessions_from_command(command); };
  const auto alive = [](std::vector<std::shared_ptr<GuardSessions>> all) {
    return adapters::any_of(std::move(all))->is_alive("a", patient());
  };
  EXPECT_TRUE(alive({of("false"), of("true")}));
  EXPECT_TRUE(alive({of("exit 127"), of("true")}));
  EXPECT_FALSE(alive({of("false"), of("false")}));
  EXPECT_FALSE(alive({}));
  EXPECT_EQ(reason([&] {
              return alive({of("exit 126"), of("exit 127"), of("false")});
            }),
            "it cannot be run: exit code 126");
  EXPECT_THROW((void)adapters::any_of({of("true"), nullptr}), std::invalid_argument);
}

}  // namespace
}  // namespace shmcoord::test
