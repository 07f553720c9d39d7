#include "shmcoord/issue_list.hpp"

#include <gtest/gtest.h>

#include <string>

namespace shmcoord {
namespace {

std::string mistake(const std::string& text) {
  try {
    (void)issues_from_json(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::invalid_argument);
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "taken";
}

TEST(IssueList, IsAnArrayOrAnObjectWithOne) {
  const char* const array = R"([{"id": "A-7", "status": "Blocked", "labels": ["x", "y"], "title": {"a": 1}},
                                {"status": "closed", "id": 8, "labels": null}, {"id": -3, "status": "new"}])";
  const std::vector<Issue> expected{
      {"A-7", IssueStatus::blocked, {"x", "y"}}, {"8", IssueStatus::done, {}}, {"-3", IssueStatus::to_do, {}}};
  EXPECT_EQ(issues_from_json(array).issues, expected);
  EXPECT_TRUE(issues_from_json(array).warnings.empty());
  const std::string object = std::string("{\"total\": 3, \"issues\": ") + array + "}\n\n";
  EXPECT_EQ(issues_from_json(object).issues, expected);
  EXPECT_TRUE(issues_from_json("[]").issues.empty());
  EXPECT_EQ(issues_from_json(R"([{"id": 18446744073709551615, "status": "Done"}])").issues.front().id,
            "18446744073709551615");
}

TEST(IssueList, MapsTheWordsOfOtherTrackers) {
  using enum IssueStatus;
  const auto like = [](const char* text) { return issue_status_like(text); };
  for (const IssueStatus status : {to_do, in_progress, blocked, done, cancelled}) {
    EXPECT_EQ(issue_status_like(to_string(status)), status);
  }
  for (const char* const text : {"to do", "TO-DO", "Open", "backlog", "NEW", "reopened"}) EXPECT_EQ(like(text), to_do);
  for (const char* const text : {"in progress", "In_Progress", "in-progress", "Doing", "started", "In Review"}) {
    EXPECT_EQ(like(text), in_progress);
  }
  for (const char* const text : {"BLOCKED", "on hold", "waiting"}) EXPECT_EQ(like(text), blocked);
  for (const char* const text : {"done", "Closed", "RESOLVED", "completed", "fixed"}) EXPECT_EQ(like(text), done);
  for (const char* const text : {"cancelled", "Canceled", "wontfix", "won't fix", "Won't do", "not planned"}) {
    EXPECT_EQ(like(text), cancelled);
  }
  for (const char* const text : {"", " ", "-", "donee", "opening", "a word that is longer than any that is known"}) {
    EXPECT_EQ(like(text), std::nullopt) << text;
  }
}

// C-54.
TEST(IssueList, UnderstandsWhatGhWrites) {
  const IssueList list = issues_from_json(
      R"([{"number":7,"state":"OPEN","labels":[{"id":"L1","name":"urgent"}]},{"number":8,"state":"CLOSED"}])");
  ASSERT_EQ(list.issues.size(), 2U);
  EXPECT_EQ(list.issues[0].id, "7");
  EXPECT_EQ(list.issues[0].status, IssueStatus::to_do);
  EXPECT_EQ(list.issues[0].labels, std::vector<std::string>{"urgent"});
  EXPECT_EQ(list.issues[1].status, IssueStatus::done);
  EXPECT_TRUE(list.warnings.empty());
}

TEST(IssueList, AnUnknownStatusIsInProgressAndReported) {
  const IssueList list = issues_from_json(
      R"([{"id": 1, "status": "QA"}, {"id": 2, "status": "Done"}, {"id": 3, "status": "QA"},
          {"id": 4, "status": "od\nd"}])");
  EXPECT_EQ(list.issues[0].status, IssueStatus::in_progress);
  EXPECT_EQ(list.issues[3].status, IssueStatus::in_progress);
  EXPECT_EQ(list.warnings,
            (std::vector<std::string>{"status 'QA' is not known, taken as InProgress: issue '1' and 1 more",
                                      "status 'od\\nd' is not known, taken as InProgress: issue '4'"}));
}

TEST(IssueList, WarningsAreFewHoweverManyThereAre) {
  std::string text = "[";
  for (int n = 0; n < 500; ++n) {
    const std::string number = std::to_string(n);
    text += (n == 0 ? "" : ",") + std::string("{\"id\":") + number + ",\"status\":\"s" + number + "\"}";
  }
  const IssueList list = issues_from_json(text + "]");
  EXPECT_EQ(list.issues.size(), 500U);
  ASSERT_EQ(list.warnings.size(), 21U);
  EXPECT_EQ(list.warnings.back(), "and more statuses that are not known: 500 in all");
}

TEST(IssueList, EveryMistakeIsToldWithItsPlace) {
  const struct {
    const char* text;
    const char* said;
  } cases[] = {
      {"{}", "$: expected an array of issues, or an object with \"issues\""},
      {"7", "$: expected an array of issues, found 7"},
      {"null", "$: expected an array of issues, found null"},
      {R"({"issues": {"id": 1}})", "$.issues: expected an array of issues, found an object"},
      {"[7]", "$[0]: expected an object, found 7"},
      {R"([{"id": 1, "status": "Done"}, [1]])", "$[1]: expected an object, found an array"},
      {R"([{"status": "Done"}])", "$[0]: \"id\" is missing"},
      {R"([{"id": 1}])", "$[0]: \"status\" is missing"},
      {R"([{"id": "", "status": "Done"}])", "$[0].id: is empty"},
      {R"([{"id": 1.5, "status": "Done"}])", "$[0].id: expected a text or a whole number, found 1.5"},
      {R"([{"id": "}", "status": "Done"}, {"id":99999999999999999999}])",
       "$[1].id: expected a text or a whole number, found 99999999999999999999"},
      {R"([{"id": true, "status": "Done"}])", "$[0].id: expected a text or a whole number, found true"},
      {R"([{"id": 1, "status": 2}])", "$[0].status: expected a text, found 2"},
      {R"([{"id": 1, "status": ""}])", "$[0].status: is empty"},
      {R"([{"id": 1, "status": "Done", "labels": "x"}])", "$[0].labels: expected an array of texts, found \"x\""},
      {R"([{"id": 1, "status": "Done", "labels": ["x", 3]}])", "$[0].labels[1]: expected a text, found 3"},
      {R"({"issues": [{"id": 7, "status": "Done"}, {"id": "7", "status": "Done"}]})",
       "$.issues[1].id: '7' is there twice"},
  };
  for (const auto& c : cases) EXPECT_EQ(mistake(c.text), c.said) << c.text;
}

TEST(IssueList, NoJsonIsToldWithLineAndColumn) {
  EXPECT_EQ(mistake("[\n  {\"id\": x}]"), "this is no JSON: syntax error at line 2, column 10");
  EXPECT_EQ(mistake(""), "this is no JSON: incomplete JSON at line 1, column 1");
  EXPECT_EQ(mistake(R"([{"id":7,"status":"open","status":"done"}])"), "\"status\" is there twice at line 1, column 26");
  EXPECT_EQ(mistake("[] []"), "this is no JSON: extra data at line 1, column 4");
  EXPECT_NE(mistake("[{\"id\": \"\xff\", \"status\": \"Done\"}]").find("line 1, column"), std::string::npos);
  EXPECT_NE(mistake(std::string(1000, '[')).find("column"), std::string::npos);
  EXPECT_EQ(mistake(std::string(max_issue_text + 1, ' ')), "the issues are longer than 16777216 bytes");
}

}  // namespace
}  // namespace shmcoord
