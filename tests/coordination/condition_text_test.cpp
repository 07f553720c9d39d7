#include <gtest/gtest.h>

#include <string>

#include "coordination/random_condition.hpp"
#include "shmcoord/condition.hpp"

namespace shmcoord {
namespace {

using C = GuardCondition;

// The three ways of C++, text and JSON mean the same and convert into each other.
void expect_same(const C& condition, const std::string& text, const std::string& json) {
  EXPECT_EQ(condition.str(), text);
  EXPECT_EQ(C::parse(text), condition) << text;
  EXPECT_EQ(condition.json(), json);
  EXPECT_EQ(C::parse_json(json), condition) << json;
}

TEST(ConditionText, EachKindInItsThreeForms) {
  const IssueFilter filter{{"7"}, {"x"}, {IssueStatus::blocked}};
  expect_same(C::lock_free("main"), "lock_free(main)", R"({"type":"lock_free","lock":"main"})");
  expect_same(C::lock_held("main"), "lock_held(main)", R"({"type":"lock_held","lock":"main"})");
  expect_same(C::lock_held("main", "pipeline:42"), "lock_held(main, pipeline:42)",
              R"({"type":"lock_held","lock":"main","by":"pipeline:42"})");
  expect_same(C::semaphore_available("agents", 2), "semaphore_available(agents, 2)",
              R"({"type":"semaphore_available","semaphore":"agents","weight":2})");
  expect_same(C::issues_complete(), "issues_complete()", R"({"type":"issues_complete","filter":{}})");
  expect_same(C::issues_complete(filter), R"(issues_complete("id=7,label=x,status=Blocked"))",
              R"({"type":"issues_complete","filter":{"ids":["7"],"labels":["x"],"statuses":["Blocked"]}})");
  expect_same(C::no_blocked_issues({.labels = {"x"}}), "no_blocked_issues(label=x)",
              R"({"type":"no_blocked_issues","filter":{"labels":["x"]}})");
  expect_same(C::issue_status("7", IssueStatus::in_progress), "issue_status(7, InProgress)",
              R"({"type":"issue_status","issue":"7","expected":"InProgress"})");
  expect_same(C::branch_exists("feature/x"), "branch_exists(feature/x)",
              R"({"type":"branch_exists","branch":"feature/x"})");
  expect_same(C::branch_not_exists("x"), "branch_not_exists(x)", R"({"type":"branch_not_exists","branch":"x"})");
  expect_same(C::branch_clean("x"), "branch_clean(x)", R"({"type":"branch_clean","branch":"x"})");
  expect_same(C::branch_merged("x", "main"), "branch_merged(x, main)",
              R"({"type":"branch_merged","branch":"x","into":"main"})");
  expect_same(C::file_exists(".lock"), "file_exists(.lock)", R"({"type":"file_exists","path":".lock"})");
  expect_same(C::file_not_exists("a b"), R"(file_not_exists("a b"))", R"({"type":"file_not_exists","path":"a b"})");
  expect_same(C::file_contains("VERSION", "^1\\.\t\"x\""), R"(file_contains(VERSION, "^1\\.\t\"x\""))",
              R"({"type":"file_contains","path":"VERSION","pattern":"^1\\.\t\"x\""})");
  expect_same(C::session_alive("builder"), "session_alive(builder)", R"({"type":"session_alive","session":"builder"})");
  expect_same(C::pipeline_in_phase("p", "test"), "pipeline_in_phase(p, test)",
              R"({"type":"pipeline_in_phase","pipeline":"p","phase":"test"})");
  expect_same(C::pipeline_complete("p"), "pipeline_complete(p)", R"({"type":"pipeline_complete","pipeline":"p"})");
  expect_same(C::command("make test"), R"(command("make test"))",
              R"({"type":"command","command":"make test","expect_success":true})");
  expect_same(C::command("false", false, "it fails"), R"(command(false, "it fails", expect=failure))",
              R"({"type":"command","command":"false","description":"it fails","expect_success":false})");
  expect_same(C::command("a", true, "expect=failure"), R"(command(a, "expect=failure"))",
              R"({"type":"command","command":"a","description":"expect=failure","expect_success":true})");
  const C a = C::lock_free("a");
  const C b = C::lock_free("b");
  const std::string ja = R"({"type":"lock_free","lock":"a"})";
  const std::string jb = R"({"type":"lock_free","lock":"b"})";
  const auto of = [](const std::string& type, const std::string& list) {
    return R"({"type":")" + type + R"(","conditions":[)" + list + "]}";
  };
  expect_same(C::all({}), "all()", of("all", ""));
  expect_same(C::any({}), "any()", of("any", ""));
  expect_same(C::all({a}), "all(lock_free(a))", of("all", ja));
  expect_same(C::all({a, b}), "lock_free(a) && lock_free(b)", of("all", ja + "," + jb));
  expect_same(C::any({a, b}), "lock_free(a) || lock_free(b)", of("any", ja + "," + jb));
  expect_same(!a, "!lock_free(a)", R"({"type":"not","condition":)" + ja + "}");
  expect_same(!(a && b), "!(lock_free(a) && lock_free(b))",
              R"({"type":"not","condition":)" + of("all", ja + "," + jb) + "}");
}

TEST(ConditionText, BindsAsInEveryLanguage) {
  const C a = C::lock_free("a");
  const C b = C::lock_free("b");
  const C c = C::lock_free("c");
  const auto same = [](const char* text, const C& condition) { EXPECT_EQ(C::parse(text), condition) << text; };
  same("lock_free(a)&&lock_free(b)||lock_free(c)", (a && b) || c);
  same("lock_free(a) || lock_free(b) && lock_free(c)", a || (b && c));
  same("(lock_free(a) || lock_free(b)) && lock_free(c)", (a || b) && c);
  same("!lock_free(a) && lock_free(b)", !a && b);
  same("! ( lock_free(a) && lock_free(b) )", !(a && b));
  same("!!lock_free(a)", !!a);
  same("not(lock_free(a) || lock_free(b))", !(a || b));
  same("all(lock_free(a), lock_free(b) || lock_free(c))", C::all({a, b || c}));
  same("lock_free(a) && lock_free(b) && lock_free(c)", C::all({a, b, c}));
  same("(lock_free(a) && lock_free(b)) && lock_free(c)", C::all({C::all({a, b}), c}));
  same("((lock_free(a)))", a);
  same("\n lock_free (\t'a' )\n", a);
  EXPECT_EQ(C::all({C::all({a, b}), c}).str(), "(lock_free(a) && lock_free(b)) && lock_free(c)");
  EXPECT_EQ((a && (b || c)).str(), "lock_free(a) && (lock_free(b) || lock_free(c))");
  EXPECT_EQ(((a && b) || c).str(), "lock_free(a) && lock_free(b) || lock_free(c)");
}

TEST(ConditionText, WordsAsInAShell) {
  const auto path = [](const char* text) { return std::get<FileExists>(C::parse(text).kind()).path; };
  EXPECT_EQ(path(R"(file_exists("a \"b\" \\ \n\t"))"), "a \"b\" \\ \n\t");
  EXPECT_EQ(path(R"(file_exists('a "b" \'))"), "a \"b\" \\");
  EXPECT_EQ(path(R"(file_exists(a"b c"'d'e))"), "ab cde");
  EXPECT_EQ(path("file_exists(/var/run/x.y-z_1:2@3%#*?[]{}~^$;<>=+)"), "/var/run/x.y-z_1:2@3%#*?[]{}~^$;<>=+");
  EXPECT_EQ(path("file_exists(\xC3\xA4)"), "\xC3\xA4");
  const IssueFilter filter{.labels = {"my label"}, .statuses = {IssueStatus::done}};
  EXPECT_EQ(C::parse(R"(issues_complete(label="my label", status=Done))"), C::issues_complete(filter));
  EXPECT_EQ(C::parse(R"(issues_complete("label=my label,status=Done"))"), C::issues_complete(filter));
  EXPECT_EQ(C::parse("command(x, expect=success)"), C::command("x"));
  EXPECT_EQ(C::parse("semaphore_available(s)"), C::semaphore_available("s", 1));
}

struct Mistake {
  std::string text;
  std::size_t column;
  std::string says;
};

TEST(ConditionText, AMistakeIsToldWithItsColumnAndWhatWasExpected) {
  const std::vector<Mistake> mistakes{
      {"", 1, "expected a condition such as lock_free(NAME), `!` or `(`, found the end"},
      {"   ", 4, "expected a condition such as lock_free(NAME), `!` or `(`, found the end"},
      {"lock_fre(a)", 1, "there is no condition 'lock_fre'; there are lock_free, lock_held,"},
      {"lock_free", 10, "expected `(` behind lock_free, found the end"},
      {"lock_free a", 11, "expected `(` behind lock_free, found 'a'"},
      {"lock_free(", 11, "expected a word, in quotes if it has blanks or one of ()!&|,\\, found the end"},
      {"lock_free()", 11, "expected the lock of lock_free, found ')'"},
      {"lock_free(a", 12, "expected `,` or `)`, found the end"},
      {"lock_free(a b)", 13, "expected `,` or `)`, found 'b'"},
      {"lock_free(a,)", 13, "expected a word"},
      {"lock_free(a, b)", 14, "expected `)`: lock_free takes no more, found 'b'"},
      {"lock_free(\"\")", 11, "lock '' is empty"},
      {"lock_free(\"a\\n\")", 11, "lock 'a\\n' contains a control character"},
      {"lock_free(\"a", 11, "the quote that begins here has no end"},
      {"lock_free(\"a\\q\")", 14, "expected `\"`, `\\`, `n` or `t` behind a backslash, found 'q'"},
      {"lock_free(a) lock_free(b)", 14, "expected `&&`, `||` or the end, found 'l'"},
      {"lock_free(a) & lock_free(b)", 14, "expected `&&`, `||` or the end, found '&'"},
      {"lock_free(a) &&", 16, "expected a condition such as"},
      {"(lock_free(a)", 14, "expected `)`, `&&` or `||`, found the end"},
      {"lock_free(a))", 13, "expected `&&`, `||` or the end, found ')'"},
      {"all(lock_free(a) lock_free(b))", 18, "expected `,`, `)`, `&&` or `||`, found 'l'"},
      {"not()", 5, "expected a condition such as"},
      {"semaphore_available(s, 0)", 24, "expected a whole number from 1 as weight, found '0'"},
      {"semaphore_available(s, -1)", 24, "expected a whole number from 1 as weight, found '-1'"},
      {"semaphore_available(s, 2x)", 24, "expected a whole number from 1 as weight, found '2x'"},
      {"semaphore_available(s, 4294967296)", 24, "expected a whole number from 1 as weight"},
      {"issue_status(7, open)", 17, "expected Todo, InProgress, Blocked, Done or Cancelled, found 'open'"},
      {"issue_status(7)", 15, "expected the status of issue_status, found ')'"},
      {"issues_complete(lable=x)", 17, "the key 'lable' is not known in the issue filter 'lable=x'"},
      {"command(x, expect=maybe)", 12, "expected expect=success or expect=failure, found 'expect=maybe'"},
      {"\xC3\xA4\xC3\xB6 lock_free(a)", 1, "there is no condition '\xC3\xA4\xC3\xB6'"},
      {"file_exists(\xC3\xA4\xC3\xB6) x", 17, "expected `&&`, `||` or the end, found 'x'"},
      {"lock_free(\xFF)", 11, "lock '\\xff' is not valid UTF-8"},
  };
  for (const Mistake& m : mistakes) {
    try {
      (void)C::parse(m.text);
      ADD_FAILURE() << "taken: " << m.text;
    } catch (const ConditionError& e) {
      EXPECT_EQ(e.errc(), Errc::invalid_argument);
      EXPECT_EQ(e.column(), m.column) << m.text << ": " << e.what();
      const std::string start = "column " + std::to_string(m.column) + ": " + m.says;
      EXPECT_EQ(std::string(e.what()).substr(0, start.size()), start) << m.text;
    }
  }
}

TEST(ConditionText, AbsurdlyDeepOrLongOnesAreRefused) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      (void)C::parse(text);
    } catch (const ConditionError& e) {
      return e.what();
    }
    return "taken";
  };
  const std::string one = "lock_free(a)";
  const auto nested = [&](const std::string& open, const std::string& close, int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += open;
    text += one;
    for (int i = 0; i < n; ++i) text += close;
    return text;
  };
  EXPECT_EQ(message(nested("!", "", 63)), "taken");
  EXPECT_NE(message(nested("!", "", 64)).find("more than 64 deep"), std::string::npos);
  EXPECT_EQ(message(nested("(", ")", 63)), "taken");
  EXPECT_NE(message(nested("(", ")", 64)).find("more than 64 deep"), std::string::npos);
  EXPECT_EQ(message(nested("all(", ")", 63)), "taken");
  EXPECT_NE(message(nested("all(", ")", 64)).find("more than 64 deep"), std::string::npos);
  EXPECT_NE(message(nested("any(" + one + " && not(", "))", 40)).find("more than 64 deep"), std::string::npos);
  EXPECT_NE(message(std::string(60'000, '(')).find("more than 64 deep"), std::string::npos);
  std::string many = one;
  for (int i = 0; i < 998; ++i) many += "&&" + one;
  EXPECT_EQ(message(many), "taken");
  EXPECT_NE(message(many + "&&" + one).find("more than 1000 conditions"), std::string::npos);
  EXPECT_EQ(message(std::string(70'000, 'x')), "the condition is longer than 65536 bytes");
}

TEST(ConditionText, RandomOnesComeBackEqual) {
  for (std::uint64_t seed = 0; seed < 2'000; ++seed) {
    const C condition = test::RandomCondition(seed).condition();
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_NO_THROW(condition.check());
    const std::string text = condition.str();
    ASSERT_EQ(C::parse(text), condition) << text;
    const std::string json = condition.json();
    ASSERT_EQ(C::parse_json(json), condition) << json;
  }
}

// Every text that is one character away from a good one is taken as what it says, or refused; and what is taken comes
// back equal.
TEST(ConditionText, WhatIsNearlyRightIsRefusedOrMeansSomething) {
  const std::string good =
      R"(lock_free(a) && !any("b", semaphore_available('s', 2)) || command("x \" y", expect=failure))";
  const std::string better =
      R"(lock_free(a) && !any(lock_held("b"), semaphore_available('s', 2)) || command("x \" y", expect=failure))";
  EXPECT_THROW((void)C::parse(good), ConditionError);
  EXPECT_NO_THROW((void)C::parse(better));
  std::size_t taken = 0;
  for (std::size_t i = 0; i <= better.size(); ++i) {
    for (const char c : {'(', ')', '!', '&', '|', ',', '"', '\'', '\\', ' ', 'x', '\0', '\n', '\xC3'}) {
      for (const bool insert : {true, false}) {
        std::string text = better;
        if (insert) {
          text.insert(i, 1, c);
        } else if (i < text.size()) {
          text[i] = c;
        }
        try {
          const C condition = C::parse(text);
          ++taken;
          EXPECT_EQ(C::parse(condition.str()), condition) << text;
        } catch (const ConditionError& e) {
          EXPECT_LE(e.column(), text.size() + 1) << text;
        }
      }
    }
  }
  EXPECT_GT(taken, 100U);
}

}  // namespace
}  // namespace shmcoord
