#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/tool.hpp"

// `shmcoord events`.

namespace shmcoord::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class EventsTool : public ToolTest {
 protected:
  EventsTool() : ToolTest(SHMCOORD_TOOL_PATH) {}

  /// Follows, once it has subscribed.
  std::unique_ptr<ToolProcess> follow(std::vector<std::string> arguments) {
    auto events = start(std::move(arguments));
    EXPECT_TRUE(eventually([&] { return run({"inspect"}).out.find("events") != std::string::npos; }));
    return events;
  }
  static bool says(const ToolProcess& events, const std::string& text) {
    return eventually([&] { return events.out().find(text) != std::string::npos; });
  }
};

TEST_F(EventsTool, FollowsWhatHappensUntilItIsEnded) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto events = follow({"events"});
  ASSERT_TRUE(eventually([&] {  // it joined, and may not have subscribed yet
    EXPECT_EQ(run({"lock", "acquire", "deploy", "--holder", "a", "--reason", "rev=abc"}).code(), 0);
    EXPECT_EQ(run({"lock", "acquire", "deploy", "--holder", "b", "-n"}).code(), 1);
    EXPECT_EQ(run({"lock", "release", "deploy", "--holder", "a"}).code(), 0);
    const std::string out = events->out();
    const std::size_t denied = out.find("lock:denied", out.find("lock:acquired"));
    return out.find("session:left", out.find("lock:released", denied)) != std::string::npos;
  }));
  EXPECT_THAT(events->out(), AllOf(HasSubstr("lock:acquired"), HasSubstr("deploy  a"), HasSubstr("reason: rev=abc"),
                                   HasSubstr("lock:released"), HasSubstr("held by a")));
  EXPECT_TRUE(events->running());
  events->signal(SIGTERM);
  const Finished end = events->wait();
  EXPECT_EQ(end.code(), 0);
  EXPECT_EQ(end.err, "");
}

TEST_F(EventsTool, PatternsChoose) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "2"}).code(), 0);
  ASSERT_EQ(run({"run", "-l", "deploy", "-S", "agents", "--", "true"}).code(), 0);
  const Finished got = run({"events", "lock:*", "semaphore:acquired", "--no-follow"});
  EXPECT_EQ(got.code(), 0) << got.err;
  EXPECT_THAT(got.out, AllOf(HasSubstr("lock:acquired"), HasSubstr("lock:released"), HasSubstr("semaphore:acquired")));
  EXPECT_THAT(got.out, AllOf(Not(HasSubstr("session:")), Not(HasSubstr("semaphore:released"))));
  const Finished wrong = run({"events", "lock:rel*"});
  EXPECT_EQ(wrong.code(), 64);
  EXPECT_THAT(wrong.err, HasSubstr("`*` inside of a word"));
}

TEST_F(EventsTool, AJournalIsKeptAndReadFromANumberOn) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  ASSERT_EQ(run({"run", "-l", "deploy", "--holder", "h", "--", "true"}).code(), 0);
  const Finished all = run({"--json", "events", "--no-follow", "lock:acquired"});
  ASSERT_THAT(all.out, AllOf(HasSubstr("\"event\":\"lock:acquired\""), HasSubstr("\"subject\":\"deploy\""),
                             HasSubstr("\"holder\":\"h\""), HasSubstr("\"shared\":false"), HasSubstr("\"token\":")));
  const std::size_t at = all.out.find("\"number\":");
  const std::string number = all.out.substr(at + 9, all.out.find(',', at) - at - 9);
  EXPECT_THAT(run({"--json", "events", "--no-follow", "lock:*", "--since", number}).out, HasSubstr("lock:acquired"));
  const std::string next = std::to_string(std::stoull(number) + 1);
  EXPECT_THAT(run({"--json", "events", "--no-follow", "lock:*", "--since", next}).out,
              AllOf(Not(HasSubstr("lock:acquired")), HasSubstr("lock:released")));
  for (const char* const wrong : {"0", "x", "-1"}) {
    EXPECT_EQ(run({"events", "--since", wrong}).code(), 64) << wrong;
  }
}

TEST_F(EventsTool, SaysWhenNothingIsKept) {
  EXPECT_EQ(run({"events"}).code(), 2);
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const Finished got = run({"events", "--no-follow"});
  EXPECT_EQ(got.code(), 0);
  EXPECT_THAT(got.err, HasSubstr("--journal"));
}

TEST_F(EventsTool, EndsWithTheSegment) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto events = follow({"events"});
  ASSERT_EQ(run({"segment", "remove", "--force"}).code(), 0);
  const Finished end = events->wait();
  EXPECT_EQ(end.code(), 2) << end.err;
  EXPECT_THAT(end.err, HasSubstr("was removed"));
}

TEST_F(EventsTool, ADeathIsTold) {
  ASSERT_EQ(run({"segment", "create", "--journal"}).code(), 0);
  const auto holder = start({"run", "-l", "deploy", "--holder", "victim", "--", "sleep", "60"});
  const auto events = start({"events"});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "deploy"}).out.find("victim") != std::string::npos; }));
  ASSERT_TRUE(eventually([&] { return run({"inspect"}).out.find("events") != std::string::npos; }));
  holder->signal(SIGKILL);
  EXPECT_TRUE(says(*events, "session:died"));
  EXPECT_THAT(events->out(), AllOf(HasSubstr("lock:reclaimed"), HasSubstr("victim")));
}

}  // namespace
}  // namespace shmcoord::test
