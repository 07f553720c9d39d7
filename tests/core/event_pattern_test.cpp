#include "core/event_pattern.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace shmcoord::core {
namespace {

// While compiling: it is pure.
static_assert(pattern_matches("lock:released", "lock:released"));
static_assert(!pattern_matches("", "lock:released"));

struct Case {
  const char* pattern;
  std::vector<const char*> matches;
  std::vector<const char*> does_not;
};

// C-28, word for word.
TEST(EventPattern, MeansWhatIsWritten) {
  const std::vector<Case> cases{
      {"lock:released", {"lock:released"}, {"lock:release", "lock:released:x", "lock", "xlock:released", ""}},
      {"lock:*", {"lock:released", "lock:x"}, {"lock", "lock:a:b", "semaphore:released", "locks:x"}},
      {"*:released", {"lock:released", "semaphore:released"}, {"lock:denied", "released", "a:lock:released"}},
      {"a:*:c", {"a:b:c", "a:x:c"}, {"a:c", "a:b:b:c", "a:b:d"}},
      {"lock:**", {"lock:released", "lock:a:b"}, {"lock", "locks:a"}},
      {"*:b:**", {"a:b:c", "x:b:c:d"}, {"a:b", "a:c:c"}},
      {"lock:", {"lock:released", "lock:a:b"}, {"lock", "locks:a", "semaphore:x"}},
      {"pipeline:7:", {"pipeline:7:failed", "pipeline:7:a:b"}, {"pipeline:7", "pipeline:8:failed"}},
      {"*", {"lock", "lock:released", "a:b:c"}, {""}},
      {"**", {"lock", "lock:released", "a:b:c"}, {""}},
      {"*:*", {"lock:released"}, {"lock", "a:b:c"}},
      {"", {}, {"", "lock", "lock:released"}},
  };
  for (const Case& c : cases) {
    for (const char* event : c.matches) EXPECT_TRUE(pattern_matches(c.pattern, event)) << c.pattern << " " << event;
    for (const char* event : c.does_not) EXPECT_FALSE(pattern_matches(c.pattern, event)) << c.pattern << " " << event;
  }
}

TEST(EventPattern, OneThatCouldNeverMatchIsRefused) {
  for (const char* good : {"*", "**", "lock", "lock:", "lock:*", "lock:**", "*:released", "a:*:c", "\xC3\xA4:x"}) {
    EXPECT_EQ(check_pattern(good), "") << good;
  }
  EXPECT_EQ(check_pattern(""), "is empty, which matches nothing");
  EXPECT_EQ(check_pattern(":"), "has an empty segment");
  EXPECT_EQ(check_pattern("a::b"), "has an empty segment");
  EXPECT_EQ(check_pattern("**:b"), "has `**` before its end");
  EXPECT_EQ(check_pattern("lo*"), "has a `*` inside of a word; it stands for a whole segment");
  EXPECT_EQ(check_pattern("a:***"), "has a `*` inside of a word; it stands for a whole segment");
  EXPECT_EQ(check_pattern("lock: x"), "contains a blank or a control character");
  EXPECT_EQ(check_pattern("lock\n"), "contains a blank or a control character");
  EXPECT_EQ(check_pattern(std::string(255, 'x')), "");
  EXPECT_EQ(check_pattern(std::string(256, 'x')), "is longer than 255 bytes");
}

// Every pattern of up to three segments from a small alphabet against every event of up to three: a second, slower
// reading of C-28 agrees.
bool slowly(const std::vector<std::string>& pattern, const std::vector<std::string>& event, std::size_t i = 0) {
  if (pattern.size() == 1 && (pattern[0] == "*" || pattern[0] == "**")) return true;
  if (i == pattern.size()) return i == event.size();
  const bool tail = i + 1 == pattern.size() && (pattern[i] == "**" || (pattern[i].empty() && i > 0));
  if (tail) return event.size() > i;
  if (i >= event.size() || (pattern[i] != "*" && pattern[i] != event[i])) return false;
  return slowly(pattern, event, i + 1);
}

std::string colons(const std::vector<std::string>& segments) {
  std::string text;
  for (std::size_t i = 0; i < segments.size(); ++i) text += (i == 0 ? "" : ":") + segments[i];
  return text;
}

template <class Fn>
void each_list(const std::vector<std::string>& alphabet, std::vector<std::string>& list, const Fn& fn) {
  if (!list.empty()) fn(list);
  if (list.size() == 3) return;
  for (const std::string& word : alphabet) {
    list.push_back(word);
    each_list(alphabet, list, fn);
    list.pop_back();
  }
}

TEST(EventPattern, AgreesWithASlowReading) {
  std::size_t checked = 0;
  std::vector<std::string> pattern;
  each_list({"a", "b", "*", "**", ""}, pattern, [&](const std::vector<std::string>& p) {
    const std::string text = colons(p);
    if (!check_pattern(text).empty()) return;
    std::vector<std::string> event;
    each_list({"a", "b", "c"}, event, [&](const std::vector<std::string>& e) {
      EXPECT_EQ(pattern_matches(text, colons(e)), slowly(p, e)) << text << " " << colons(e);
      ++checked;
    });
  });
  EXPECT_GT(checked, 1'000U);
}

}  // namespace
}  // namespace shmcoord::core
