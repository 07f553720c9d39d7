#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "coordination/random_condition.hpp"
#include "shmcoord/pipeline.hpp"

namespace shmcoord {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using C = GuardCondition;

// What a user would write.
constexpr std::string_view release = R"json({
  "id": "release",
  "phases": [
    {
      "name": "build",
      "command": ["make", "all"],
      "pre": "lock_free(main) && !file_exists('.hold')",
      "post": {"condition": "file_exists(out/app)", "on_failure": "fail:the build made nothing"},
      "wake_on": ["lock:*"],
      "locks": ["main"],
      "permits": {"agents": 2, "disk": 1}
    },
    {
      "name": "test",
      "command": "ctest --test-dir build | tee log",
      "pre": {"type": "semaphore_available", "semaphore": "hosts", "weight": 3},
      "post": {"condition": {"type": "not", "condition": {"type": "file_contains", "path": "log", "pattern": "FAILED"}},
               "on_failure": "warn"}
    },
    {"name": "approve", "pre": {"condition": "file_exists(approved)", "on_failure": "retry:1.5s"}},
    {"name": "deploy", "command": ["deploy"], "post": {"condition": "lock_free(main)", "on_failure": "block"}}
  ]
}
)json";

Pipeline as_made() {
  return {"release",
          {{.name = "build",
            .command = {"make", "all"},
            .guards = PhaseGuards()
                          .with_pre(C::lock_free("main") && !C::file_exists(".hold"))
                          .with_post(C::file_exists("out/app"), Fail{"the build made nothing"})
                          .with_wake_on({"lock:*"}),
            .locks = {"main"},
            .permits = {{"agents", 2}, {"disk", 1}}},
           {.name = "test",
            .command = {"/bin/sh", "-c", "ctest --test-dir build | tee log"},
            .guards = PhaseGuards()
                          .with_pre(C::semaphore_available("hosts", 3))
                          .with_post(!C::file_contains("log", "FAILED"), Warn{})},
           {.name = "approve", .guards = PhaseGuards().with_pre(C::file_exists("approved"), Retry{1500ms})},
           {.name = "deploy", .command = {"deploy"}, .guards = PhaseGuards().with_post(C::lock_free("main"))}}};
}

void expect_comes_back(const Pipeline& pipeline) {
  const std::string text = pipeline.json();
  const Pipeline again = Pipeline::parse_json(text);
  EXPECT_EQ(again.id(), pipeline.id()) << text;
  EXPECT_EQ(again.phases(), pipeline.phases()) << text;
  EXPECT_EQ(again.json(), text);
  EXPECT_EQ(again.status(), PipelineStatus::waiting);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(PipelineJson, IsReadAsItWasMeant) {
  const Pipeline pipeline = Pipeline::parse_json(release);
  EXPECT_EQ(pipeline.id(), "release");
  EXPECT_EQ(pipeline.phases(), as_made().phases());
  EXPECT_EQ(pipeline.status(), PipelineStatus::waiting);
  expect_comes_back(pipeline);
}

TEST(PipelineJson, HasOneWrittenForm) {
  EXPECT_EQ(Pipeline("p", {{.name = "a"}}).json(), R"({"id":"p","phases":[{"name":"a"}]})");
  const PhaseGuards guards = PhaseGuards().with_pre(C::lock_free("l"), Retry{90s}).with_wake_on({"lock:*"});
  EXPECT_EQ(
      Pipeline("p", {{.name = "a", .command = {"x", ""}, .guards = guards, .locks = {"l"}, .permits = {{"s", 7}}}})
          .json(),
      R"({"id":"p","phases":[{"name":"a","command":["x",""],)"
      R"json("pre":{"condition":"lock_free(l)","on_failure":"retry:90s"},"wake_on":["lock:*"],)json"
      R"("locks":["l"],"permits":{"s":7}}]})");
  EXPECT_EQ(Pipeline::parse_json(release).json(), as_made().json());
}

TEST(PipelineJson, GuardsAloneAreTextToo) {
  EXPECT_EQ(PhaseGuards().json(), "{}");
  EXPECT_EQ(PhaseGuards::parse_json("{}"), PhaseGuards());
  const Pipeline pipeline = as_made();
  for (const GuardedPhase& phase : pipeline.phases()) {
    EXPECT_EQ(PhaseGuards::parse_json(phase.guards.json()), phase.guards);
  }
  EXPECT_NE(PhaseGuards(), PhaseGuards().with_pre(C::lock_free("a")));
  EXPECT_NE(PhaseGuards().with_pre(C::lock_free("a")), PhaseGuards().with_pre(C::lock_free("a"), Warn{}));
}

// --- each comes back ------------------------------------------------------------------------------------------------

class RandomPipeline {
 public:
  explicit RandomPipeline(std::uint64_t seed) : conditions_(seed), random_(seed) {}

  Pipeline pipeline() {
    std::vector<GuardedPhase> phases(1 + below(4));
    for (GuardedPhase& phase : phases) phase_of(phase);
    return {name(), phases};
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  // Another one each time.
  std::string name() { return text({"a", "/", "\"", "\\", "ä", "'", "\xF0\x9F\x94\x92"}) + std::to_string(++names_); }
  std::string text(const std::vector<std::string>& parts) {
    std::string made;
    for (std::uint64_t n = below(5); n > 0; --n) made += parts[below(parts.size())];
    return made;
  }
  std::string word() { return text({"a", " ", "\n", "\t", "\x01", "\x7F", "\"", "\\", "/", "ß", "\xF0\x9F\x94\x92"}); }

  GuardAction action() {
    switch (below(4)) {
      case 0: return Block{};
      case 1: return Warn{};
      case 2: return Fail{word()};
      default: break;
    }
    constexpr std::int64_t longest = std::chrono::nanoseconds(std::chrono::hours{24 * 3650}).count();
    std::int64_t delay = 1 + static_cast<std::int64_t>(below(longest));
    for (std::uint64_t n = below(19); n > 0; --n) delay = std::max<std::int64_t>(1, delay / 10);
    if (below(3) == 0) delay -= delay > 1'000'000'000 ? delay % 1'000'000'000 : 0;
    return Retry{std::chrono::nanoseconds(delay)};
  }
  std::optional<PhaseGuard> guard() {
    if (below(3) == 0) return std::nullopt;
    return PhaseGuard{conditions_.condition(), action()};
  }
  void phase_of(GuardedPhase& phase) {
    phase.name = name();
    for (std::uint64_t n = below(4); n > 0; --n) phase.command.push_back(word());
    if (!phase.command.empty()) phase.command.front() += 'x';
    phase.guards.pre = guard();
    phase.guards.post = guard();
    const std::vector<std::string> patterns{"lock:*", "**", "semaphore:", "pipeline:blocked"};
    for (std::uint64_t n = below(4); n > 0; --n) phase.guards.wake_on.push_back(patterns[below(patterns.size())]);
    for (std::uint64_t n = below(3); n > 0; --n) phase.locks.push_back(name());
    for (std::uint64_t n = below(4); n > 0; --n) {
      phase.permits.push_back({name(), 1 + static_cast<std::uint32_t>(below(1'048'575))});
    }
  }

  test::RandomCondition conditions_;
  std::mt19937_64 random_;
  int names_ = 0;
};

TEST(PipelineJson, EachDefinitionComesBack) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    const Pipeline pipeline = RandomPipeline(seed).pipeline();
    expect_comes_back(pipeline);
    for (const GuardedPhase& phase : pipeline.phases()) {
      EXPECT_EQ(PhaseGuards::parse_json(phase.guards.json()), phase.guards);
    }
    EXPECT_EQ(pipeline.json(), RandomPipeline(seed).pipeline().json());
  }
}

// --- mistakes -------------------------------------------------------------------------------------------------------

/// A text with an `@` at the place where it is wrong.
struct Marked {
  std::string text;
  std::size_t line = 0;
  std::size_t column = 0;

  explicit Marked(std::string marked) : text(std::move(marked)) {
    const std::size_t at = text.find('@');
    if (at == std::string::npos) return;
    text.erase(at, 1);
    const std::string before = text.substr(0, at);
    line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
    const std::size_t begin = before.rfind('\n') == std::string::npos ? 0 : before.rfind('\n') + 1;
    column = 1 + static_cast<std::size_t>(std::count_if(before.begin() + static_cast<std::ptrdiff_t>(begin),
                                                        before.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }
};

template <class Parse>
void expect_mistake(const Parse& parse, const std::string& marked, const std::string& says) {
  SCOPED_TRACE(marked.substr(0, 300));
  const Marked m(marked);
  try {
    (void)parse(m.text);
    ADD_FAILURE() << "taken";
  } catch (const PipelineTextError& e) {
    EXPECT_EQ(e.errc(), Errc::invalid_argument);
    EXPECT_EQ(e.line(), m.line) << e.what();
    EXPECT_EQ(e.column(), m.column) << e.what();
    const std::string place =
        m.line == 0 ? "" : "line " + std::to_string(m.line) + ", column " + std::to_string(m.column) + ": ";
    EXPECT_THAT(e.what(), StartsWith(place + says));
  }
}
void expect_mistake(const std::string& marked, const std::string& says) {
  expect_mistake([](std::string_view text) { return Pipeline::parse_json(text); }, marked, says);
}
/// Of what stands in the second phase.
void expect_mistake_in(const std::string& members, const std::string& says) {
  expect_mistake("{\"id\": \"p\",\n \"phases\": [{\"name\": \"ä\"}, {\"name\": \"b\", " + members + "}]}", says);
}

TEST(PipelineJson, WhatIsNoJsonIsToldWhere) {
  const std::string form = R"(there is nothing but blanks: expected an object like {"id": "release", )";
  expect_mistake("@", form);
  expect_mistake("@ \n\t\n", form);
  expect_mistake("@[]", R"(expected an object like {"id": "release", "phases": [{"name": "build"}]}, found [])");
  expect_mistake("\n  @null", "expected an object like");
  expect_mistake("{\"id\": \"ä\",\n \"phases\" @[}", "this is no JSON: ");
  expect_mistake("{\"id\": \"ä@\xFF\"}", "this is no JSON: ");
  expect_mistake("{\"id\": \"a\", \"phases\": [] }@x", "this is no JSON: extra data");
  expect_mistake("{\"id\": \"ä\", @\"id\": \"b\", \"phases\": []}", "\"id\" is there twice");
  expect_mistake("{\"i\\\\\": \"ä\",\n @\"i\\\\\": \"b\", \"phases\": []}", "\"i\\\" is there twice");
  expect_mistake_in(R"("permits": {"a\"": 1, "b": 1, @"a\"": 2})", "\"a\"\" is there twice");
}

TEST(PipelineJson, WhatIsMissingOrUnknownIsToldWhere) {
  expect_mistake("@{}", "\"id\" is missing");
  expect_mistake(R"( @{"id": "p"})", "\"phases\" is missing");
  expect_mistake(R"({"id": "p", "phases": @[]})", "pipeline 'p' has no phases");
  expect_mistake("@\xEF\xBB\xBF{\"id\": \"p\"}", "this begins with a byte order mark");
  expect_mistake(R"({"id": "p", "phases": [{"name": "a"}, @{"locks": []}]})", "\"name\" is missing");
  expect_mistake(R"({"id": "p", "phases": [{"name": "a"}, {@"nam": "b"}]})", "\"nam\" is not known here");
  expect_mistake("{\"id\": \"p\", \"phases\": [{\"name\": \"a\"}],\n\n @\"phase\" : 1}",
                 "\"phase\" is not known here; there are id, phases");
  expect_mistake_in(R"(@"lock": "a")",
                    "\"lock\" is not known here; there are name, command, pre, post, wake_on, "
                    "locks, permits");
  expect_mistake_in(R"("pre": @{"on_failure": "warn"})", "\"condition\" is missing");
  expect_mistake_in(R"("pre": {"condition": "all() ", @"on_fail": "warn"})",
                    "\"on_fail\" is not known here; there are condition, on_failure");
}

TEST(PipelineJson, WhatIsOfAnotherTypeIsToldWhere) {
  expect_mistake(R"({"id": @7, "phases": []})", "expected a text, found 7");
  expect_mistake(R"({"id": "p", "phases": @{}})", "expected an array of phases, found {}");
  expect_mistake(R"({"id": "p", "phases": [@"build"]})",
                 "expected a phase as an object with \"name\", found \"build\"");
  expect_mistake(R"({"id": "p", "phases": [{"name": @null}]})", "expected a text, found null");
  expect_mistake_in(R"("command": @{"a": [1, {"b": "]}"}]})", "expected a text or an array of texts, found {");
  expect_mistake_in(R"("command": ["a", @1])", "expected a text, found 1");
  expect_mistake_in(R"("pre": @null)",
                    "expected a condition as text or object, or an object with \"condition\", found");
  expect_mistake_in(R"("pre": {"condition": @true})", "expected a condition as text or object, found true");
  expect_mistake_in(R"("post": {"condition": "all() ", "on_failure": @{}})", "expected a text, found {}");
  expect_mistake_in(R"("wake_on": @"lock:*")", "expected an array of texts, found \"lock:*\"");
  expect_mistake_in(R"("locks": [@["a"]])", "expected a text, found [\"a\"]");
  expect_mistake_in(R"("permits": @["a"])", "expected an object with a weight for each semaphore, found [\"a\"]");
}

TEST(PipelineJson, WhatCannotBeIsToldWhere) {
  expect_mistake(R"({"id": @"", "phases": [{"name": "a"}]})", "the id of the pipeline '' is empty");
  expect_mistake(R"({"id": @"a\u0000", "phases": [{"name": "a"}]})", R"(the id of the pipeline 'a\x00' contains a)");
  const std::string longest(246, 'p');  // its holder is "pipeline:…"
  for (const char* const more : {"p", "ppppppppp", "pppppppppp"}) {
    expect_mistake(R"({"id": @")" + longest + more + R"(", "phases": [{"name": "a"}]})",
                   "the id of the pipeline '" + longest.substr(0, 60) + "…' is longer than 246 bytes");
  }
  EXPECT_EQ(Pipeline::parse_json(R"({"id": ")" + longest + R"(", "phases": [{"name": "a"}]})").id(), longest);
  expect_mistake(R"({"id": "p", "phases": [{"name": @"a\n"}]})", R"(the name of phase 1 'a\n' contains a control)");
  expect_mistake(R"({"id": "p", "phases": [{"name": "a"}, {"name": "b"}, {"command": "x", "name": @"a"}]})",
                 "there are two phases 'a'");
  expect_mistake_in(R"("command": @[])", "the command is empty; without \"command\" nothing is run");
  expect_mistake_in(R"("command": @"")", "the command is empty");
  expect_mistake_in(R"("command": [@"", "x"])", "the command of phase 'b' names no program");
  expect_mistake_in(R"("command": ["x", "", @"a\u0000b"])", "the command of phase 'b' contains a zero byte");
  expect_mistake_in(R"("command": @"a\u0000b")", "the command of phase 'b' contains a zero byte");
  expect_mistake_in(R"("locks": ["a", "ä", @"a"])", "phase 'b' holds 'a' twice");
  expect_mistake_in(R"("locks": ["a", @""])", "phase 'b': the name '' is empty");
  expect_mistake_in(R"("permits": {"l": 1, @"a" : 1}, "locks": ["a"])", "phase 'b' holds 'a' twice");
  expect_mistake_in(R"("permits": {"l": 1, @"": 1})", "phase 'b': the name '' is empty");
  for (const char* const weight :
       {"0", "-1", "1.5", "1.0", "1048576", "4294967297", "1e400", "99999999999999999999", "\"2\"", "null"}) {
    expect_mistake_in(R"("permits": {"l": 1, "a" : @)" + std::string(weight) + "}",
                      std::string("expected a whole number from 1 to 1048575, found ") + weight);
  }
  expect_mistake_in(R"("wake_on": ["lock:*", @"lock:rel*"])", "the wake pattern 'lock:rel*' ");
  expect_mistake_in(R"("wake_on": ["lock:*", @"", "lock:*"], "pre": "all() ")", "the wake pattern '' ");
  std::string patterns = R"("lock:*")";
  for (int i = 0; i < 64; ++i) patterns += R"(, "lock:*")";
  expect_mistake_in("\"wake_on\": @[" + patterns + "]", "a guard has at most 64 wake patterns");
}

TEST(PipelineJson, AnActionThatIsNoneIsToldWhere) {
  const auto expect_refused = [](const std::string& action, const std::string& says) {
    expect_mistake_in(R"("pre": {"on_failure": @")" + action + R"(", "condition": {"type": "all", "conditions": []}})",
                      says);
  };
  for (const char* const action : {"", "stop", "retry", "fail", "warn:x", "Block"}) {
    expect_refused(action, "'" + std::string(action) + "' is none of block, warn, retry:DUR ");
  }
  expect_refused("retry:", "the delay '' is not a duration");
  expect_refused("retry:5", "the delay '5' is not a duration: write a number and a unit, like 250ms");
  expect_refused("retry:0s", "the delay '0s' is zero");
  expect_refused("retry:-1s", "the delay '-1s' is negative");
  expect_refused("retry:87601h", "the delay '87601h' is longer than ten years");
  expect_refused("fail:" + std::string(4097, 'x'), "the message of a failure is longer than 4096 bytes");
}

// The column of the condition's text is one of the file's then, whatever way its characters are written there.
TEST(PipelineJson, AMistakeInAConditionIsToldWhereItStandsInTheFile) {
  const auto expect_in_guard = [](const std::string& text, const std::string& says) {
    expect_mistake_in("\"pre\": \"" + text + "\"", says);
    expect_mistake_in(
        "\"locks\": [\"\\\"\"],\n\"post\": {\"on_failure\": \"warn\", \"condition\":\n  \"" + text + "\"}", says);
  };
  expect_in_guard("@lock_fre(a)", "there is no condition 'lock_fre'; there are lock_free, ");
  expect_in_guard("lock_free(a) && @lock_fre(a)", "there is no condition 'lock_fre'");
  expect_in_guard(R"(lock_free(\"a\") && @x())", "there is no condition 'x'");
  expect_in_guard(R"(lock_\u0066ree(\u0022a\u00e4\") && @x())", "there is no condition 'x'");
  expect_in_guard(R"(lock_free(\ud83d\udd12\/) && @x())", "there is no condition 'x'");
  expect_in_guard(R"(lock_free(\uD83D\uDD12) \n\t&& @\u0078())", "there is no condition 'x'");
  expect_in_guard("lock_free(äß\xF0\x9F\x94\x92) && @x()", "there is no condition 'x'");
  expect_in_guard(R"(lock_free(a)@\\)", "expected `&&`, `||` or the end");
  expect_in_guard("lock_free(a@", "expected `,` or `)`, found the end");
  expect_in_guard("@", "expected a condition such as lock_free(NAME)");
  expect_in_guard("semaphore_available(s, @0)", "expected a whole number from 1");
  expect_in_guard("issues_complete(@kind=7)", "the key 'kind' is not known");
  expect_mistake_in(R"("pre": @")" + std::string(65'537, ' ') + R"(")", "the condition is longer than 65536 bytes");
}

TEST(PipelineJson, AMistakeInAConditionAsObjectIsToldWhereItStands) {
  for (const std::string guard : {R"("pre": )", R"("post": {"on_failure": "warn", "condition": )"}) {
    const auto expect_in_guard = [&](const std::string& object, const std::string& says) {
      expect_mistake_in(guard + object + (guard.back() == ' ' && guard.size() > 10 ? "}" : ""), says);
    };
    expect_in_guard(R"({"type": @"lock_fre"})", "there is no condition 'lock_fre'");
    expect_in_guard(R"({"type": "lock_free", "lock": @7})", "expected a text, found 7");
    expect_in_guard(R"(@{"type": "lock_free"})", "\"lock\" is missing");
    expect_in_guard(R"({"lock": "a", @"by": "b", "type": "lock_free"})",
                    "\"by\" is not known here; there are type, lock");
    expect_in_guard(R"({"type": "not", "condition": {"type": "all", "conditions": [{"type": "all", "conditions": []},
                        {"type": "file_exists", "path": @""}]}})",
                    "'' is empty");
    // Each is good, and all together are longer than a condition may be.
    std::string many;
    for (int i = 0; i < 20; ++i) {
      many +=
          (i == 0 ? "" : ",") + std::string(R"({"type": "file_exists", "path": ")") + std::string(4000, 'x') + "\"}";
    }
    expect_in_guard(R"(@{"type": "not", "condition": {"type": "all", "conditions": [)" + many + "]}}",
                    "the condition is longer than 65536 bytes");
  }
}

TEST(PipelineJson, MistakesInGuardsAloneAreToldWhere) {
  const auto expect_wrong = [](const std::string& marked, const std::string& says) {
    expect_mistake([](std::string_view text) { return PhaseGuards::parse_json(text); }, marked, says);
  };
  expect_wrong("@", "there is nothing but blanks: expected an object with \"pre\", \"post\" or \"wake_on\"");
  expect_wrong("@[]", "expected an object with \"pre\", \"post\" or \"wake_on\", found []");
  expect_wrong(R"({@"name": "a"})", "\"name\" is not known here; there are pre, post, wake_on");
  expect_wrong("{\"pre\":\n \"lock_free(a) @b\"}", "expected `&&`, `||` or the end, found 'b'");
  expect_wrong(R"({"wake_on": ["**", @"lock"]})", "the wake pattern 'lock' ");
  expect_wrong(R"({"post": {"condition": "all() ", "on_failure": @"fail:)" + std::string(4097, 'x') + "\"}}",
               "the message of a failure is longer");
}

// However the pipeline was made.
TEST(PipelineJson, WhatItCouldNotCarryNoPipelineHas) {
  const auto says = [](const GuardedPhase& phase) -> std::string {
    try {
      (void)Pipeline("p", {phase});
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  EXPECT_EQ(says({.name = "a", .command = {"x", ""}}), "taken");
  EXPECT_EQ(says({.name = "a", .command = {""}}), "the command of phase 'a' names no program");
  EXPECT_EQ(says({.name = "a", .command = {"x", "\xFF"}}), "the command of phase 'a' is not valid UTF-8");
  EXPECT_EQ(says({.name = "a", .command = {"x", std::string("y\0", 2)}}),
            "the command of phase 'a' contains a zero byte");
  EXPECT_THAT(says({.name = "a", .guards = PhaseGuards().with_wake_on({"nothing:*"})}), HasSubstr("'nothing:*'"));
}

// --- large ones -----------------------------------------------------------------------------------------------------

TEST(PipelineJson, LargeOnesAreTakenAndAbsurdOnesRefused) {
  std::vector<GuardedPhase> phases(1'000);
  for (std::size_t i = 0; i < phases.size(); ++i) {
    phases[i] = {.name = "phase " + std::to_string(i),
                 .command = {"make", std::to_string(i)},
                 .guards = PhaseGuards()
                               .with_pre(C::lock_free("main") && !C::file_exists(".hold"), Retry{1s})
                               .with_post(C::file_exists(std::string(1'000, 'x'))),
                 .locks = {"a", "b"}};
  }
  const Pipeline large("p", phases);
  expect_comes_back(large);
  // A mistake at its end is found there.
  std::string text = large.json();
  text.insert(text.size() - 2, R"(,{"name":"last","locks":["a",@"a"]})");
  expect_mistake(text, "phase 'last' holds 'a' twice");

  const std::string over = "the text is longer than 16777216 bytes";
  expect_mistake(large.json() + std::string(Pipeline::max_text, ' '), over);
  const std::string small = Pipeline("p", {{.name = "a"}}).json();
  EXPECT_EQ(Pipeline::parse_json(small + std::string(Pipeline::max_text - small.size(), ' ')).id(), "p");
  expect_mistake(small + std::string(Pipeline::max_text - small.size() + 1, ' '), over);

  for (const std::size_t depth : {300U, 1'000'000U}) {
    EXPECT_THROW((void)Pipeline::parse_json(std::string(depth, '[')), PipelineTextError);
    EXPECT_THROW((void)Pipeline::parse_json(std::string(depth, '[') + std::string(depth, ']')), PipelineTextError);
  }
  std::string nested;
  for (int i = 0; i < 63; ++i) nested += R"({"type":"all","conditions":[)";
  nested += R"({"type":"lock_free","lock":"a"})";
  for (int i = 0; i < 63; ++i) nested += "]}";
  EXPECT_NO_THROW(
      (void)Pipeline::parse_json(R"({"id":"p","phases":[{"name":"a","pre":{"condition":)" + nested + "}}]}"));
  expect_mistake_in(
      R"("pre": {"type": "not", "condition": )" + nested.replace(nested.find("{\"type\":\"lock"), 0, "@") + "}",
      "conditions are nested more than 64 deep");
}

}  // namespace
}  // namespace shmcoord
