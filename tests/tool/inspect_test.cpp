#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>

#include <boost/json.hpp>

#include "shmcoord/shmcoord.hpp"
#include "support/tool.hpp"

namespace shmcoord::test {
namespace {

namespace json = boost::json;

class Inspect : public ToolTest {
 protected:
  Inspect() : ToolTest(SHMCOORD_TOOL_PATH) {}

  json::object look(std::vector<std::string> words = {}) {
    std::vector<std::string> arguments{"--json", "inspect"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const Finished f = run(arguments);
    EXPECT_EQ(f.code(), 0) << f.err;
    json::error_code error;
    const json::value value = json::parse(f.out, error);
    EXPECT_FALSE(error) << f.out;
    return value.is_object() ? value.get_object() : json::object{};
  }

  /// The only lock, with so many waiters; {} when it does not come to that.
  json::object lock_with(std::size_t waiters) {
    json::object lock;
    EXPECT_TRUE(eventually([&] {
      const json::object seen = look();
      const json::value* const locks = seen.if_contains("locks");
      if (locks == nullptr || locks->as_array().size() != 1) return false;
      lock = locks->as_array()[0].as_object();
      return lock.at("waiters").as_array().size() == waiters && !lock.at("holder").is_null();
    }));
    return lock;
  }
};

std::string text(const json::value& v) { return v.is_string() ? std::string(v.get_string()) : json::serialize(v); }

TEST_F(Inspect, ShowsGuardsWithTheirVerdictAndNotAsWhatTheyAreMadeOf) {
  {
    const Segment segment = Segment::open_or_create(segment_);
    Session session{segment};
    GuardFlag release = GuardFlag::add(
        session, {"release", GuardCondition::lock_held("main"), Retry{std::chrono::seconds(5)}, {"lock:released"}});
    (void)GuardFlag::add(session, {"new", GuardCondition::lock_free("main"), Block{}, {}});
    (void)release.evaluate(GuardExecutor{{.primitives = primitives_of(segment)}});
  }
  const json::object all = look();
  EXPECT_TRUE(all.at("locks").as_array().empty());
  EXPECT_TRUE(all.at("semaphores").as_array().empty());
  const json::array& guards = all.at("guards").as_array();
  ASSERT_EQ(guards.size(), 2U);
  EXPECT_TRUE(guards[0].as_object().at("verdict").is_null());
  const json::object& release = guards[1].as_object();
  EXPECT_EQ(text(release.at("name")), "release");
  EXPECT_EQ(text(release.at("condition")), "lock_held(main)");
  EXPECT_TRUE(text(release.at("action")).starts_with("retry:5"));
  EXPECT_EQ(text(release.at("wake_on").as_array().at(0)), "lock:released");
  const json::object& verdict = release.at("verdict").as_object();
  EXPECT_FALSE(verdict.at("passed").as_bool());
  EXPECT_FALSE(text(verdict.at("reason")).empty());
  EXPECT_EQ(verdict.at("pid").to_number<std::int64_t>(), ::getpid());
  EXPECT_EQ(look({"release"}).at("guards").as_array().size(), 1U);
  const Finished shown = run({"inspect"});
  EXPECT_NE(shown.out.find("2 guards"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find(text(verdict.at("reason"))), std::string::npos) << shown.out;
  const Finished forced = run({"force-release", "release", "--reason", "x"});
  EXPECT_EQ(forced.code(), 64) << forced.err;
  EXPECT_NE(forced.err.find("is a guard"), std::string::npos) << forced.err;
  EXPECT_EQ(look().at("guards").as_array().size(), 2U);
  EXPECT_EQ(run({"segment", "check"}).code(), 0);
  EXPECT_EQ(run({"reap", "--once"}).code(), 0);
  EXPECT_EQ(look().at("guards").as_array().size(), 2U);
  EXPECT_EQ(run({"segment", "remove"}).code(), 0);  // nobody holds anything
}

TEST_F(Inspect, NamesHolderReasonAgeAndWaitersInOrder) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto holder = start({"run", "-l", "deploy", "--holder", "first", "--reason", "rev=abc", "--", "sleep", "60"});
  json::object lock = lock_with(0);
  const auto second = start({"run", "-l", "deploy", "--holder", "second", "--", "true"});
  lock_with(1);
  const auto third = start({"run", "-l", "deploy", "--holder", "third", "--reason", "last", "--", "true"});
  lock = lock_with(2);

  EXPECT_EQ(text(lock.at("name")), "deploy");
  EXPECT_EQ(text(lock.at("state")), "held");
  EXPECT_GE(lock.at("token").to_number<std::int64_t>(), 1);
  const json::object& h = lock.at("holder").as_object();
  EXPECT_EQ(text(h.at("id")), "first");
  EXPECT_EQ(h.at("pid").to_number<std::int64_t>(), holder->pid());
  EXPECT_EQ(text(h.at("session")).size(), 16U);
  EXPECT_EQ(text(h.at("reason")), "rev=abc");
  EXPECT_GE(h.at("held_s").to_number<double>(), 0);
  EXPECT_LT(h.at("heartbeat_age_s").to_number<double>(), 600);
  EXPECT_TRUE(h.at("ttl_s").is_null());
  EXPECT_TRUE(h.at("alive").as_bool());
  const json::array& w = lock.at("waiters").as_array();
  EXPECT_EQ(text(w[0].as_object().at("holder")), "second");
  EXPECT_EQ(text(w[1].as_object().at("holder")), "third");
  EXPECT_EQ(w[1].as_object().at("pid").to_number<std::int64_t>(), third->pid());
  EXPECT_GE(w[0].as_object().at("waiting_s").to_number<double>(), 0);

  const json::object all = look({"--graph"});
  EXPECT_EQ(all.at("sessions").as_array().size(), 3U);
  EXPECT_EQ(all.at("graph").as_array().size(), 2U);
  EXPECT_TRUE(all.at("semaphores").as_array().empty());
  EXPECT_TRUE(all.at("guards").as_array().empty());
  EXPECT_EQ(text(all.at("segment").as_object().at("name")), segment_);

  const std::string people = run({"inspect", "--graph"}).out;
  for (const char* part : {"deploy", "first", "rev=abc", "second", "third", "HEARTBEAT", " 1. ", "second (pid "}) {
    EXPECT_NE(people.find(part), std::string::npos) << part << "\n" << people;
  }
  EXPECT_LT(people.find("  1.    waits"), people.find("  2.    waits"));
}

TEST_F(Inspect, ShowsWhoSharesALock) {
  for (const char* const reader : {"a", "b"}) {
    ASSERT_EQ(run({"lock", "acquire", "tree", "--holder", reader, "--shared"}).code(), 0);
  }
  ASSERT_EQ(run({"lock", "acquire", "one", "--holder", "me"}).code(), 0);
  const auto writer = start({"run", "-l", "tree", "--holder", "writer", "--", "true"});
  ASSERT_TRUE(eventually([&] { return !look({"tree", "--graph"}).at("graph").as_array().empty(); }));
  const json::object seen = look({"--graph"});
  const json::object& held = seen.at("locks").as_array().at(0).as_object();
  EXPECT_EQ(text(held.at("state")), "held");
  EXPECT_TRUE(held.at("readers").as_array().empty());
  const json::object& shared = seen.at("locks").as_array().at(1).as_object();
  EXPECT_EQ(text(shared.at("state")), "shared");
  EXPECT_TRUE(shared.at("holder").is_null());
  EXPECT_TRUE(shared.at("token").is_null());
  const json::array& readers = shared.at("readers").as_array();
  ASSERT_EQ(readers.size(), 2U);
  EXPECT_GE(readers[0].as_object().at("token").to_number<std::int64_t>(), 1);
  EXPECT_TRUE(readers[0].as_object().contains("held_s"));
  EXPECT_EQ(seen.at("graph").as_array().size(), 2U);
  const std::string people = run({"inspect"}).out;
  EXPECT_NE(people.find("tree  shared  a "), std::string::npos) << people;
  EXPECT_NE(people.find("tree  shared  b "), std::string::npos) << people;
}

TEST_F(Inspect, ShowsSemaphoresOnTheirOwn) {
  ASSERT_EQ(run({"sem", "create", "agents", "--capacity", "8"}).code(), 0);
  ASSERT_EQ(run({"sem", "create", "quota", "--per-session", "3"}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "me"}).code(), 0);
  ASSERT_EQ(run({"sem", "acquire", "agents", "--holder", "a", "--weight", "5", "--reason", "why"}).code(), 0);
  const auto member = start({"run", "-S", "quota", "-S", "agents:4", "--holder", "late", "--", "true"});
  ASSERT_TRUE(eventually([&] { return !look({"agents", "--graph"}).at("graph").as_array().empty(); }));
  const json::object seen = look({"--graph"});
  EXPECT_EQ(seen.at("locks").as_array().size(), 1U);
  const json::array& semaphores = seen.at("semaphores").as_array();
  ASSERT_EQ(semaphores.size(), 2U);
  const json::object& agents = semaphores[0].as_object();
  EXPECT_EQ(agents.at("capacity"), 8);
  EXPECT_EQ(agents.at("used"), 5);
  EXPECT_EQ(agents.at("available"), 3);
  EXPECT_TRUE(agents.at("per_session").is_null());
  EXPECT_TRUE(agents.at("sessions").is_null());
  const json::object& holder = agents.at("holders").as_array().at(0).as_object();
  EXPECT_EQ(text(holder.at("id")), "a");
  EXPECT_EQ(text(holder.at("reason")), "why");
  EXPECT_EQ(holder.at("weight"), 5);
  EXPECT_GE(holder.at("token").to_number<std::int64_t>(), 1);
  const json::object& waiter = agents.at("waiters").as_array().at(0).as_object();
  EXPECT_EQ(text(waiter.at("holder")), "late");
  EXPECT_EQ(waiter.at("weight"), 4);
  for (const char* const field : {"previous", "stale_threshold_s", "ttl_s", "settled"}) {
    EXPECT_TRUE(agents.contains(field)) << field;
  }
  EXPECT_EQ(semaphores[1].as_object().at("per_session"), 3);
  EXPECT_EQ(semaphores[1].as_object().at("sessions"), 1);
  const json::object& edge = seen.at("graph").as_array().at(0).as_object();
  EXPECT_TRUE(edge.at("lock").is_null());
  EXPECT_EQ(text(edge.at("semaphore")), "agents");
  EXPECT_TRUE(look({"x"}).at("semaphores").as_array().empty());

  const std::string people = run({"inspect", "--graph"}).out;
  for (const char* const part : {"1 locks, 2 semaphores, ", "\nSEMAPHORE  USED  STATE ", "\nagents     5/8   3 free\n",
                                 "\n           5     held    a ", "\n  1.       4     waits   late ",
                                 "\n  3 per session, 1 session\n", " -> a  on agents"}) {
    EXPECT_NE(people.find(part), std::string::npos) << part << "\n" << people;
  }
  EXPECT_NE(run({"inspect", "nowhere"}).err.find("no lock or semaphore 'nowhere'"), std::string::npos);
  EXPECT_NE(run({"force-release", "nowhere", "--reason", "r"}).err.find("no lock or semaphore 'nowhere'"),
            std::string::npos);
}

TEST_F(Inspect, ShowsWhoWaitsForEver) {
  const std::string script = std::to_string(::getpid());
  ASSERT_EQ(run({"lock", "acquire", "left", "--holder", "a", "--pid", script}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "right", "--holder", "\"b\"", "--pid", script}).code(), 0);
  const auto older = start({"lock", "acquire", "right", "--holder", "a", "--pid", script});
  ASSERT_TRUE(eventually([&] { return look({"--graph"}).at("graph").as_array().size() == 1; }));
  EXPECT_TRUE(look({"--graph"}).at("deadlocks").as_array().empty());
  EXPECT_EQ(run({"inspect", "--graph"}).out.find("deadlock"), std::string::npos);
  const auto younger = start({"lock", "acquire", "left", "--holder", "\"b\"", "--pid", script});
  ASSERT_TRUE(eventually([&] { return !look({"--graph"}).at("deadlocks").as_array().empty(); }));
  const json::object seen = look({"--graph"});
  const json::array& circle = seen.at("deadlocks").as_array().at(0).as_array();
  ASSERT_EQ(circle.size(), 2U);
  EXPECT_EQ(text(circle[0].as_object().at("holder")), "\"b\"");
  EXPECT_EQ(text(circle[0].as_object().at("holds")), "lock 'right'");
  EXPECT_EQ(text(circle[0].as_object().at("waits_for")), "lock 'left'");
  EXPECT_EQ(text(circle[1].as_object().at("holder")), "a");
  EXPECT_GE(circle[1].as_object().at("held_s").to_number<double>(), 0);
  const std::string people = run({"inspect", "--graph"}).out;
  EXPECT_NE(people.find("\ndeadlock: '\"b\"' (pid "), std::string::npos) << people;
  const std::string dot = run({"inspect", "--dot"}).out;
  EXPECT_EQ(dot.rfind("digraph waits {\n", 0), 0U) << dot;
  EXPECT_NE(dot.find("[label=\"\\\"b\\\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("-> "), std::string::npos) << dot;
  EXPECT_NE(dot.find(", color=red, fontcolor=red];\n"), std::string::npos) << dot;
  EXPECT_EQ(run({"inspect", "--dot", "--watch"}).code(), 64);
  const Finished told = younger->wait();
  EXPECT_EQ(told.code(), 1);
  EXPECT_NE(told.err.find("lock 'left' would never be free (deadlock): '\"b\"' (pid "), std::string::npos) << told.err;
  ASSERT_EQ(run({"lock", "release", "right", "--holder", "\"b\""}).code(), 0);
  EXPECT_EQ(older->wait().code(), 0);
}

// F3: a dead holder is shown as that, and the next one is told all the same.
TEST_F(Inspect, ShowsADeadHolderWithoutUsingUpTheNotice) {
  const auto holder = start_shell("exec \"$SHMCOORD\" lock acquire x --holder bound --pid $$ >/dev/null");
  EXPECT_EQ(holder->wait().code(), 0);
  for (int again = 0; again < 3; ++again) {
    const json::object lock = lock_with(0);
    EXPECT_FALSE(lock.at("holder").as_object().at("alive").as_bool());
    EXPECT_EQ(text(lock.at("holder").as_object().at("life")), "dead");
  }
  const Finished next = run({"--json", "lock", "acquire", "x", "--holder", "next", "-n"});
  EXPECT_EQ(next.code(), 0) << next.err;
  EXPECT_NE((next.out + next.err).find("bound"), std::string::npos) << next.out << next.err;
}

TEST_F(Inspect, OfWhatIsNotThereEndsWithTwo) {
  const Finished none = run({"inspect"});
  EXPECT_EQ(none.code(), 2);
  EXPECT_NE(none.err.find("no such segment"), std::string::npos) << none.err;
  EXPECT_EQ(run({"lock", "acquire", "here", "--holder", "me"}).code(), 0);
  const Finished unknown = run({"inspect", "here", "elsewhere"});
  EXPECT_EQ(unknown.code(), 2);
  EXPECT_NE(unknown.err.find("elsewhere"), std::string::npos) << unknown.err;
  EXPECT_NE(unknown.out.find("here"), std::string::npos);
  EXPECT_EQ(look({"here"}).at("locks").as_array().size(), 1U);
}

TEST_F(Inspect, TextsOfOthersDoNotDriveTheTerminal) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "me", "--reason", "a\x1b[2Jb\xff\"c"}).code(), 0);
  const std::string people = run({"inspect"}).out;
  EXPECT_EQ(people.find('\x1b'), std::string::npos);
  EXPECT_EQ(text(lock_with(0).at("holder").as_object().at("reason")), "a\\x1b[2Jb\\xff\"c");
}

TEST_F(Inspect, NothingMisleadingIsPrinted) {
  // Overrides and marks of direction, a line separator, invisible signs; the joiner of an emoji stays.
  const std::string name = "a\u202Eb\u200Fc\u2028d\u200Be\uFEFFf\U000E0041\u2066g\u061Ch";
  const std::string family = "\U0001F468\u200D\U0001F469";
  ASSERT_EQ(run({"lock", "acquire", name, "--holder", family}).code(), 0);
  const std::string clean = R"(a\u202eb\u200fc\u2028d\u200be\ufefff\U000e0041\u2066g\u061ch)";
  for (const Finished& got :
       {run({"inspect"}), run({"lock", "status", name}), run({"lock", "acquire", name, "--holder", "b", "-n"})}) {
    EXPECT_NE((got.out + got.err).find(clean), std::string::npos) << got.out << got.err;
    EXPECT_NE((got.out + got.err).find(family), std::string::npos) << got.out << got.err;
  }
  // Also where the words are those of the caller itself.
  const Finished usage = run({"inspect", "--\x1b[2J\xff"});
  EXPECT_EQ(usage.code(), 64);
  EXPECT_EQ(usage.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(usage.err.find('\xff'), std::string::npos);
}

TEST_F(Inspect, ColumnsAreAlignedAsATerminalShowsThem) {
  const struct {
    const char* name;
    std::size_t columns;
  } names[] = {{"ascii", 5},      {"e\u0301te\u0301", 3}, {"\u65E5\u672C\u8A9E", 6}, {"\uFF21\uFF22", 4},
               {"\U0001F512", 2}, {"\u0645\u064E", 1},    {"\u0E01\u0E34\u0E19", 2}, {"\uD55C\uAE00", 4},
               {"\U00020000", 2}, {"\u00FC", 1},          {"a-much-longer-name", 18}};
  for (const auto& n : names) ASSERT_EQ(run({"lock", "acquire", n.name, "--holder", n.name}).code(), 0);
  const std::string table = run({"inspect"}).out;
  for (const auto& [name, columns] : names) {
    const std::string line = "\n" + std::string(name) + std::string(18 - columns + 2, ' ') + "held   " + name +
                             std::string(18 - columns + 2, ' ') + "-    ";
    EXPECT_NE(table.find(line), std::string::npos) << name << "\n" << table;
  }
}

TEST_F(Inspect, ADocumentOfManyPiecesIsWhole) {
  constexpr int locks = 40;
  const auto reason_of = [](int n) { return std::to_string(n) + std::string(4'000, static_cast<char>('a' + n % 26)); };
  for (int n = 0; n < locks; ++n) {
    const std::string name = "lock-" + std::to_string(100 + n);
    ASSERT_EQ(run({"lock", "acquire", name, "--holder", "me", "--reason", reason_of(n)}).code(), 0);
  }
  const json::object seen = look();
  const json::array& all = seen.at("locks").as_array();
  ASSERT_EQ(all.size(), static_cast<std::size_t>(locks));
  for (int n = 0; n < locks; ++n) {
    const json::object& lock = all[static_cast<std::size_t>(n)].as_object();
    EXPECT_EQ(text(lock.at("name")), "lock-" + std::to_string(100 + n));
    EXPECT_EQ(text(lock.at("holder").as_object().at("reason")), reason_of(n));
  }
}

TEST_F(Inspect, WatchOfWhatIsNotThereEndsAtOnce) {
  ASSERT_EQ(run({"lock", "acquire", "here", "--holder", "me"}).code(), 0);
  const Finished got = run({"inspect", "--watch", "here", "nope"});
  EXPECT_EQ(got.code(), 2);
  EXPECT_NE(got.err.find("no lock or semaphore 'nope' in segment " + segment_ + "; `shmcoord inspect` lists"),
            std::string::npos)
      << got.err;
}

TEST_F(Inspect, WatchTellsOnceWhatIsGone) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "me"}).code(), 0);
  const auto watch = start({"--json", "inspect", "--watch", "x"});
  const auto lines = [&] {
    const std::string out = watch->out();
    return std::count(out.begin(), out.end(), '\n');
  };
  ASSERT_TRUE(eventually([&] { return lines() >= 1; })) << watch->err();
  ASSERT_EQ(run({"lock", "remove", "x", "--force"}).code(), 0);
  ASSERT_TRUE(eventually([&] { return watch->err().find("'x' is gone; watching on") != std::string::npos; }));
  const auto before = lines();
  ASSERT_TRUE(eventually([&] { return lines() >= before + 2; }));
  watch->signal(SIGTERM);
  const Finished f = watch->wait();
  EXPECT_EQ(f.code(), 0);
  EXPECT_EQ(f.err, "shmcoord: 'x' is gone; watching on\n");
}

TEST_F(Inspect, WatchSendsNoSequencesToATerminalThatObeysNone) {
  if (start_shell("command -v script")->wait().code() != 0) {
    GTEST_SKIP() << "script(1) of util-linux is not installed";
  }
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "me"}).code(), 0);
  for (const std::string term : {"dumb", "xterm"}) {
    const std::string tty = file("tty-" + term);
    const auto shell = start_shell("TERM=" + term + " script -qefc 'echo $$ >$SCRATCH/" + term +
                                   "; exec $SHMCOORD inspect --watch' " + tty);
    EXPECT_TRUE(eventually([&] { return read_file(tty).find("locks") != std::string::npos; })) << read_file(tty);
    EXPECT_EQ(read_file(tty).find("\x1b[J") == std::string::npos, term == "dumb") << read_file(tty);
    ::kill(pid_from(term), SIGTERM);
    (void)shell->wait();
  }
}

TEST_F(Inspect, WatchWritesADocumentALineUntilItIsInterrupted) {
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "me"}).code(), 0);
  const auto watch = start({"--json", "inspect", "--watch"});
  ASSERT_TRUE(eventually([&] {
    const std::string out = watch->out();
    return std::count(out.begin(), out.end(), '\n') >= 2;
  }));
  watch->signal(SIGINT);
  const Finished f = watch->wait();
  EXPECT_EQ(f.code(), 0);
  std::size_t at = 0;
  for (std::size_t end = f.out.find('\n'); end != std::string::npos; at = end + 1, end = f.out.find('\n', at)) {
    json::error_code error;
    static_cast<void>(json::parse(f.out.substr(at, end - at), error));
    EXPECT_FALSE(error);
  }
  EXPECT_EQ(at, f.out.size());
}

}  // namespace
}  // namespace shmcoord::test
