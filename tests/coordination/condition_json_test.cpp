#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shmcoord/condition.hpp"

// What condition_text_test.cpp shows of all three forms is not shown again: here are JSON's own mistakes.

namespace shmcoord {
namespace {

using C = GuardCondition;

std::string message(const std::string& json) {
  try {
    (void)C::parse_json(json);
  } catch (const ConditionError& e) {
    EXPECT_EQ(e.errc(), Errc::invalid_argument);
    return e.what();
  }
  return "taken";
}

TEST(ConditionJson, WhatNeedNotBeGiven) {
  EXPECT_EQ(C::parse_json(R"( {"lock": "a", "type": "lock_free"} )"), C::lock_free("a"));
  EXPECT_EQ(C::parse_json(R"({"type":"lock_held","lock":"a","by":null})"), C::lock_held("a"));
  EXPECT_EQ(C::parse_json(R"({"type":"semaphore_available","semaphore":"s"})"), C::semaphore_available("s", 1));
  EXPECT_EQ(C::parse_json(R"({"type":"issues_complete"})"), C::issues_complete());
  EXPECT_EQ(C::parse_json(R"({"type":"command","command":"x"})"), C::command("x"));
}

TEST(ConditionJson, AMistakeIsToldWithItsPath) {
  struct Mistake {
    const char* json;
    const char* says;
  };
  const std::vector<Mistake> mistakes{
      {"", "this is no JSON: "},
      {"{", "this is no JSON: "},
      {R"({"type":"all","conditions":[]} x)", "this is no JSON: extra data (line 1, column 32)"},
      {"[]", "$: expected an object, found []"},
      {"null", "$: expected an object, found null"},
      {"{}", "$: \"type\" is missing"},
      {R"({"type":1})", "$.type: expected a text, found 1"},
      {"{\"type\":\"all\",\n\"conditions\":[{\"type\":\"lock_free\",\"lock\":\"a\"}],\"conditions\":[]}",
       "\"conditions\" is there twice (line 2, column "},
      {R"({"type":"not","condition":{"type":"lock_free","lock":"a","lock":"b"}})", "\"lock\" is there twice"},
      {R"({"type":"lock_fre","lock":"a"})", "$.type: there is no condition 'lock_fre'; there are lock_free,"},
      {R"({"type":"lock_free"})", "$: \"lock\" is missing"},
      {R"({"type":"lock_free","lock":""})", "$.lock: '' is empty"},
      {R"({"type":"lock_free","lock": 1.50 })", "$.lock: expected a text, found 1.50"},
      {R"({"type":"lock_free","lock":7})", "$.lock: expected a text, found 7"},
      {R"({"type":"lock_free","lock":"a","by":"b"})", "$.by: \"by\" is not known here; there are type, lock"},
      {R"({"type":"semaphore_available","semaphore":"s","weight":0})",
       "$.weight: expected a whole number from 1 to 4294967295, found 0"},
      {R"({"type":"semaphore_available","semaphore":"s","weight":1.5})", "$.weight: expected a whole number"},
      {R"({"type":"semaphore_available","semaphore":"s","weight":4294967296})", "$.weight: expected a whole number"},
      {R"({"type":"semaphore_available","semaphore":"s","weight":"2"})", "$.weight: expected a whole number"},
      {R"({"type":"command","command":"x","expect_success":"no"})",
       "$.expect_success: expected true or false, found \"no\""},
      {R"({"type":"issue_status","issue":"7","expected":"done"})",
       "$.expected: expected Todo, InProgress, Blocked, Done or Cancelled, found \"done\""},
      {R"({"type":"issues_complete","filter":"label=x"})", "$.filter: expected an object, found \"label=x\""},
      {R"({"type":"issues_complete","filter":{"label":["x"]}})",
       "$.filter.label: \"label\" is not known here; there are ids, labels, statuses"},
      {R"({"type":"issues_complete","filter":{"labels":["x",""]}})", "$.filter.labels[1]: '' is empty"},
      {R"({"type":"issues_complete","filter":{"statuses":["Done","Open"]}})", "$.filter.statuses[1]: expected Todo,"},
      {R"({"type":"all"})", "$: \"conditions\" is missing"},
      {R"({"type":"all","conditions":{}})", "$.conditions: expected an array, found {}"},
      {R"({"type":"all","conditions":[{"type":"not","condition":{"type":"lock_free"}}]})",
       "$.conditions[0].condition: \"lock\" is missing"},
      {R"({"type":"not","conditions":[]})", "$: \"condition\" is missing"},
      {"{\"type\":\"lock_free\",\"lock\":\"a\\u0000b\"}", "$.lock: 'a\\x00b' contains a control character"},
      {"{\"type\":\"file_exists\",\"path\":\"\xFF\"}", "this is no JSON: "},
  };
  for (const Mistake& m : mistakes) {
    const std::string said = message(m.json);
    EXPECT_EQ(said.substr(0, std::string(m.says).size()), m.says) << m.json;
  }
}

TEST(ConditionJson, AbsurdlyDeepOrLongOnesAreRefused) {
  const auto nested = [](int n) {
    std::string json;
    for (int i = 0; i < n; ++i) json += R"({"type":"not","condition":)";
    json += R"({"type":"lock_free","lock":"a"})";
    return json + std::string(static_cast<std::size_t>(n), '}');
  };
  EXPECT_EQ(message(nested(63)), "taken");
  EXPECT_NE(message(nested(64)).find("more than 64 deep"), std::string::npos);
  EXPECT_NE(message(nested(2'000)).find("this is no JSON"), std::string::npos);
  EXPECT_NE(message(std::string(60'000, '[')).find("this is no JSON"), std::string::npos);
  const std::string one = R"({"type":"all","conditions":[]})";
  std::string many = R"({"type":"all","conditions":[)" + one;
  for (int i = 0; i < 998; ++i) many += "," + one;
  EXPECT_EQ(message(many + "]}"), "taken");
  EXPECT_NE(message(many + "," + one + "]}").find("more than 1000 conditions"), std::string::npos);
  EXPECT_EQ(message(std::string(70'000, ' ')), "the condition is longer than 65536 bytes");
}

}  // namespace
}  // namespace shmcoord
