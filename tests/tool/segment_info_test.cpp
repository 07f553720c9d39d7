#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include "shmcoord/shmcoord.hpp"
#include "support/tool.hpp"

// How full the segment is, and what it says when it is.

namespace shmcoord::test {
namespace {

class SegmentInfo : public ToolTest {
 protected:
  SegmentInfo() : ToolTest(SHMCOORD_TOOL_PATH) {}
};

boost::json::object parse(const std::string& text) { return boost::json::parse(text).as_object(); }

std::int64_t number(const boost::json::object& tables, const char* table, const char* what) {
  return tables.at(table).at(what).to_number<std::int64_t>();
}

TEST_F(SegmentInfo, InfoSaysWhatIsUsedAndWhatIsLeftOfEachTable) {
  ASSERT_EQ(run({"segment", "create", "--names", "100", "--entries", "20", "--sessions", "16"}).code(), 0);
  const auto before = parse(run({"--json", "segment", "info"}).out).at("tables").as_object();
  EXPECT_EQ(number(before, "sessions", "bytes"), 4096) << "slot 0 is there from the start";
  for (const char* const table : {"names", "entries", "long_names", "notices", "long_texts"}) {
    EXPECT_EQ(number(before, table, "used"), 0) << table;
    EXPECT_EQ(number(before, table, "bytes"), 0) << table;
    EXPECT_EQ(number(before, table, "left"), number(before, table, "of")) << table;
  }
  EXPECT_EQ(number(before, "names", "of"), 100);
  EXPECT_EQ(number(before, "entries", "of"), 24) << "whole blocks";
  EXPECT_EQ(number(before, "sessions", "of"), 16);

  const std::string long_name(200, 'n');
  ASSERT_EQ(run({"lock", "acquire", "a", "--holder", "me", "--reason", std::string(4000, 'r')}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", long_name, "--holder", "me"}).code(), 0);
  ASSERT_EQ(run({"force-release", "a", "--reason", "test"}).code(), 0);  // the next holder of a will be told
  const auto holder = start({"run", "-l", "b", "--", "sleep", "1000"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "b"}).out.find("held") != std::string::npos; }));
  const auto info = parse(run({"--json", "segment", "info"}).out);
  EXPECT_EQ(info.at("names").to_number<int>(), 3);
  EXPECT_GT(info.at("free_bytes").to_number<std::int64_t>(), 0);
  const auto& now = info.at("tables").as_object();
  EXPECT_EQ(number(now, "names", "used"), 3);
  EXPECT_EQ(number(now, "names", "left"), 98) << "a is idle, and makes room";
  EXPECT_EQ(number(now, "entries", "used"), 2);
  EXPECT_EQ(number(now, "entries", "left"), 8) << "two of three blocks are somebody's";
  EXPECT_EQ(number(now, "sessions", "used"), 1);
  EXPECT_EQ(number(now, "sessions", "left"), 15);
  EXPECT_EQ(number(now, "long_names", "used"), 1);
  EXPECT_EQ(number(now, "notices", "used"), 1);
  EXPECT_EQ(number(now, "long_texts", "used"), 0) << "the one with the long reason was ended";
  EXPECT_GT(number(now, "long_texts", "bytes"), 0) << "its pages stay";
  const std::string text = run({"segment", "info"}).out;
  EXPECT_NE(text.find("\nnames           3 of 100, 98 left (idle names make room), 8192 bytes\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\nentries         2 of 24, 8 left (1 blocks of 8), "), std::string::npos) << text;
}

// As many as were asked for, and the text says how many there are.
TEST_F(SegmentInfo, FullTablesNameTheirTrueSize) {
  ASSERT_EQ(run({"segment", "create", "--names", "2", "--entries", "20", "--sessions", "3"}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "a", "--holder", "1"}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "b", "--holder", "2"}).code(), 0);
  const Finished names = run({"lock", "acquire", "c", "--holder", "3"});
  EXPECT_EQ(names.code(), 69);
  EXPECT_NE(names.err.find("all 2 names of the segment are held or waited for"), std::string::npos) << names.err;
  const auto first = start({"run", "-l", "a", "--", "true"});
  ASSERT_TRUE(eventually([&] { return run({"inspect"}).out.find("waits") != std::string::npos; }));
  const Finished entries = run({"run", "-l", "b", "--", "true"});
  EXPECT_EQ(entries.code(), 69);
  EXPECT_NE(entries.err.find("all 24 entries"), std::string::npos) << entries.err;
  EXPECT_NE(entries.err.find("in 3 blocks of 8"), std::string::npos) << entries.err;

  const Segment segment = Segment::open(segment_);
  std::vector<Session> sessions;
  while (sessions.size() < 2) sessions.emplace_back(segment);  // and the one of the waiting `run`
  const Finished full = run({"lock", "release", "b", "--holder", "2"});
  EXPECT_EQ(full.code(), 69);
  EXPECT_NE(full.err.find("all 3 session slots"), std::string::npos) << full.err;
  sessions.pop_back();
  EXPECT_EQ(run({"lock", "release", "b", "--holder", "2"}).code(), 0);
}

TEST_F(SegmentInfo, SizesOutOfRangeSayTheRange) {
  const Finished sessions = run({"segment", "create", "--sessions", "65534"});
  EXPECT_EQ(sessions.code(), 64) << sessions.err;
  const Finished entries = run({"segment", "create", "--entries", "16000000"});
  EXPECT_EQ(entries.code(), 64);
  EXPECT_NE(entries.err.find("16000000 entries (allowed: 1 to "), std::string::npos) << entries.err;
  try {
    (void)Segment::create(segment_, {.sessions = 0});
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("0 sessions (allowed: 1 to 65533)"), std::string::npos) << e.what();
  }
  EXPECT_EQ(run({"segment", "create", "--entries", "1", "--names", "1", "--sessions", "1"}).code(), 0);
  EXPECT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0) << "room for one";
}

}  // namespace
}  // namespace shmcoord::test
