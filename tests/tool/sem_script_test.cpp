#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include <boost/json.hpp>

#include "support/tool.hpp"

// `sem …` and `lock acquire --shared`, as scripts use them: taken in one process, given back in another.

namespace shmcoord::test {
namespace {

namespace json = boost::json;

class SemScript : public ToolTest {
 protected:
  SemScript() : ToolTest(SHMCOORD_TOOL_PATH) {}

  void create(const std::string& capacity) {
    ASSERT_EQ(run({"sem", "create", "agents", "--capacity", capacity}).code(), 0);
  }
  Finished acquire(const std::string& holder, const std::string& weight, std::vector<std::string> options = {"-n"}) {
    std::vector<std::string> words{"sem", "acquire", "agents", "--holder", holder, "--weight", weight};
    words.insert(words.end(), options.begin(), options.end());
    return run(words);
  }
  Finished release(const std::string& holder) { return run({"sem", "release", "agents", "--holder", holder}); }
  json::object document(std::vector<std::string> words, int code) {
    words.insert(words.begin(), "--json");
    const Finished got = run(words);
    EXPECT_EQ(got.code(), code) << got.out << got.err;
    json::error_code error;
    const json::value value = json::parse(got.out, error);
    return value.is_object() ? value.get_object() : json::object{};
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
#define EXPECT_HAS(text, part) EXPECT_TRUE(has(text, part)) << (text)

TEST_F(SemScript, TakenHereGivenBackThere) {
  create("8");
  const Finished first = acquire("a", "5", {"-n", "--reason", "big build"});
  ASSERT_EQ(first.code(), 0) << first.err;
  EXPECT_EQ(first.out, std::to_string(std::stoull(first.out)) + "\n") << "the token and nothing else";
  EXPECT_EQ(acquire("b", "3").code(), 0);
  const Finished full = acquire("c", "1");
  EXPECT_EQ(full.code(), 1);
  EXPECT_EQ(full.out, "");
  for (const char* const part : {"semaphore 'agents' is full (1 asked for): 0 of 8 free, held: 5 by a for ",
                                 ", reason: big build; 3 by b for ", " since "}) {
    EXPECT_HAS(full.err, part);
  }
  EXPECT_EQ(acquire("c", "1", {"-n", "-E", "7"}).code(), 7);
  EXPECT_EQ(acquire("c", "1", {"-w", "50ms", "-E", "8"}).code(), 8);
  EXPECT_HAS(acquire("c", "1", {"-w", "50ms"}).err, "had no room within 50ms");
  EXPECT_EQ(release("a").code(), 0);
  EXPECT_EQ(acquire("c", "5").code(), 0);
}

TEST_F(SemScript, ResultsAreThoseOfTheLibrary) {
  create("8");
  const auto acquire_json = [this](const char* holder, const char* weight, int code, const char* wait = "-n") {
    return document({"sem", "acquire", "agents", "--holder", holder, "--weight", weight, wait,
                     std::string(wait) == "-w" ? "20ms" : "--reason=r"},
                    code);
  };
  const json::object got = acquire_json("a", "3", 0);
  EXPECT_EQ(got.size(), 7U) << json::serialize(got);
  EXPECT_EQ(got.at("semaphore"), "agents");
  EXPECT_EQ(got.at("holder"), "a");
  EXPECT_EQ(got.at("result"), "acquired");
  EXPECT_EQ(got.at("weight"), 3);
  EXPECT_EQ(got.at("available"), 5);
  EXPECT_TRUE(got.at("previous").is_null());
  EXPECT_EQ(acquire_json("a", "2", 0).at("result"), "already_held");
  const json::object more = acquire_json("a", "6", 0);
  EXPECT_EQ(more.at("result"), "increased");
  EXPECT_EQ(more.at("weight"), 6);
  EXPECT_EQ(more.at("available"), 2);
  EXPECT_EQ(more.at("token"), got.at("token"));
  const json::object full = acquire_json("b", "3", 1);
  EXPECT_EQ(full.at("result"), "full");
  EXPECT_EQ(full.at("weight"), 0);
  EXPECT_EQ(full.at("available"), 2);
  EXPECT_TRUE(full.at("token").is_null());
  EXPECT_EQ(acquire_json("b", "3", 1, "-w").at("result"), "timed_out");
}

TEST_F(SemScript, ReleasingTwiceIsRefused) {
  create("4");
  ASSERT_EQ(acquire("a", "2").code(), 0);
  ASSERT_EQ(release("a").code(), 0);
  for (const char* const holder : {"a", "stranger"}) {
    const Finished got = release(holder);
    EXPECT_EQ(got.code(), 2);
    EXPECT_HAS(got.err, "not_holder: semaphore 'agents' is not held by '" + std::string(holder) + "'; 4 of 4 free");
  }
  const json::object again = document({"sem", "release", "agents", "--holder", "a"}, 2);
  EXPECT_EQ(again.at("result"), "not_holder");
  EXPECT_EQ(again.at("semaphore"), "agents");
  EXPECT_EQ(document({"sem", "status", "agents"}, 0).at("available"), 4) << "nothing more than there was";
}

TEST_F(SemScript, MoreThanTheCapacityIsRefusedAtOnce) {
  create("4");
  const auto began = std::chrono::steady_clock::now();
  for (const auto& options : std::vector<std::vector<std::string>>{{}, {"-n"}, {"-w", "1h", "-E", "9"}}) {
    const Finished got = acquire("a", "5", options);
    EXPECT_EQ(got.code(), 1);
    EXPECT_HAS(got.err, "semaphore 'agents' has a capacity of 4, less than the 5 asked for");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, patience / 2);
}

TEST_F(SemScript, CreatedAgainItMustBeTheSame) {
  create("4");
  create("4");
  const Finished other = run({"sem", "create", "agents", "--capacity", "5"});
  EXPECT_EQ(other.code(), 64);
  EXPECT_HAS(other.err, "capacity 4, asked for 5");
  EXPECT_EQ(run({"sem", "create", "agents", "--per-session", "2"}).code(), 64);
  EXPECT_EQ(acquire("a", "1", {"--capacity", "5"}).code(), 64);
  EXPECT_EQ(acquire("a", "1", {"--capacity", "4"}).code(), 0);
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  const Finished lock = run({"sem", "create", "x", "--capacity", "4"});
  EXPECT_EQ(lock.code(), 64);
  EXPECT_HAS(lock.err, "'x' exists as a lock, not as a semaphore");
  for (const char* const command : {"acquire", "release", "heartbeat"}) {
    const Finished got = run({"lock", command, "agents", "--holder", "a"});
    EXPECT_EQ(got.code(), 64) << command;
    EXPECT_HAS(got.err, "'agents' exists as a semaphore");
  }
  EXPECT_EQ(run({"lock", "status", "agents"}).code(), 64);
  EXPECT_EQ(run({"sem", "status", "x"}).code(), 64);
  EXPECT_EQ(run({"sem", "remove", "x", "--force"}).code(), 64);
}

TEST_F(SemScript, WithoutOneItIsNotFound) {
  EXPECT_EQ(acquire("a", "1").code(), 2);
  EXPECT_EQ(run({"segment", "info"}).code(), 2) << "nothing was made";
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const Finished none = acquire("a", "1");
  EXPECT_EQ(none.code(), 2);
  EXPECT_HAS(none.err, "no semaphore 'agents' in segment " + segment_);
  for (const char* const command : {"release", "heartbeat", "status"}) {
    const Finished got = run({"sem", command, "agents", "--holder", "a"});
    EXPECT_EQ(got.code(), 2) << command;
    EXPECT_HAS(got.err, "no semaphore 'agents'");
  }
  EXPECT_EQ(run({"sem", "resize", "agents", "--capacity", "2"}).code(), 2);
  EXPECT_EQ(run({"sem", "remove", "agents"}).code(), 2);
  EXPECT_EQ(acquire("a", "1", {"--capacity", "2"}).code(), 0) << "made on the way";
}

TEST_F(SemScript, AWeightBehindTheNameIsForRun) {
  create("4");
  for (const char* const command : {"acquire", "release", "heartbeat", "status"}) {
    const Finished got = run({"sem", command, "agents:2", "--holder", "a"});
    EXPECT_EQ(got.code(), 2) << command;
    EXPECT_HAS(got.err, "NAME:WEIGHT is for `run -S`, here it is the name 'agents' and, to acquire, --weight 2");
  }
}

TEST_F(SemScript, AQuotaThatNobodyJoinedSaysHowTo) {
  ASSERT_EQ(run({"sem", "create", "agents", "--per-session", "2"}).code(), 0);
  const Finished got = acquire("a", "1", {});
  EXPECT_EQ(got.code(), 1);
  EXPECT_HAS(got.err,
             "semaphore 'agents' has no permits, since nobody joined it: there are 2 for each session that joins; a "
             "program joins by opening it, a command by `shmcoord run -S agents -- CMD`\n");
  const auto member = start({"run", "-S", "agents", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"});
  ASSERT_GT(pid_from("in"), 0) << member->err();
  EXPECT_EQ(acquire("a", "1").code(), 0) << "and that it is true";
  EXPECT_HAS(acquire("b", "3").err, "a capacity of 2 (2 for each session that joins), less than the 3 asked for");
}

TEST_F(SemScript, WhoDoesNotHoldIsNotAHolder) {
  create("2");
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"heartbeat"}, {"renew", "--ttl", "5s"}, {"release"}}) {
    std::vector<std::string> all{"sem", words[0], "agents", "--holder", "a"};
    all.insert(all.end(), words.begin() + 1, words.end());
    const json::object got = document(all, 2);
    EXPECT_EQ(got.at("result"), "not_holder") << words[0];
    EXPECT_TRUE(got.at("lost").is_null()) << words[0];
    EXPECT_HAS(run(all).err, "not_holder: semaphore 'agents' is not held by 'a'; 2 of 2 free");
  }
}

TEST_F(SemScript, WhoLostItIsToldWhy) {
  create("4");
  ASSERT_EQ(acquire("a", "2").code(), 0);
  ASSERT_EQ(acquire("b", "2").code(), 0);
  ASSERT_EQ(run({"force-release", "agents", "--holder", "a", "--reason", "r"}).code(), 0);
  for (int again = 0; again < 2; ++again) {
    for (const char* const command : {"heartbeat", "release"}) {
      const json::object got = document({"sem", command, "agents", "--holder", "a"}, 2);
      EXPECT_EQ(got.at("lost"), (json::object{{"why", "forced"}, {"by", nullptr}})) << command;
    }
  }
  EXPECT_HAS(run({"sem", "status", "agents", "--holder", "a"}).err, " any more: an operator took it away");
  EXPECT_TRUE(document({"sem", "heartbeat", "agents", "--holder", "c"}, 2).at("lost").is_null());
  EXPECT_HAS(acquire("c", "1").err, "previous holder a lost it") << "asking did not use up the news";
  EXPECT_TRUE(document({"sem", "heartbeat", "agents", "--holder", "a"}, 2).at("lost").is_null()) << "told to another";
}

TEST_F(SemScript, WaitsInOrderAndSaysSo) {
  create("4");
  ASSERT_EQ(acquire("a", "3").code(), 0);
  auto big = start({"sem", "acquire", "agents", "--holder", "big", "--weight", "4"});
  ASSERT_TRUE(eventually([&] { return has(big->err(), "place 1 in the queue"); })) << big->err();
  EXPECT_HAS(big->err(), "waiting for 4 permits of semaphore 'agents', 1 of 4 free, held: 3 by a ");
  const Finished small = acquire("small", "1");
  EXPECT_EQ(small.code(), 1) << "a big one is not overtaken";
  EXPECT_HAS(small.err, "others wait for it and come first");
  EXPECT_HAS(run({"sem", "status", "agents"}).out, "agents: 3 of 4 used, 1 free; 1 waiting\n");
  EXPECT_EQ(release("a").code(), 0);
  EXPECT_EQ(big->wait().code(), 0);
}

TEST_F(SemScript, Status) {
  create("8");
  EXPECT_EQ(run({"sem", "status", "agents"}).out, "agents: 0 of 8 used, 8 free\n");
  ASSERT_EQ(acquire("a", "3").code(), 0);
  ASSERT_EQ(acquire("b", "2").code(), 0);
  const std::string people = run({"sem", "status", "agents"}).out;
  EXPECT_TRUE(people.starts_with("agents: 5 of 8 used, 3 free\nagents: ")) << people;
  EXPECT_HAS(people, "\nagents: 3 held by a for ");
  EXPECT_HAS(people, "\nagents: 2 held by b for ");
  EXPECT_EQ(run({"sem", "status", "agents", "--holder", "b"}).code(), 0);
  EXPECT_EQ(run({"sem", "status", "agents", "--holder", "c"}).code(), 2);
  const json::object programs = document({"sem", "status", "agents"}, 0);
  EXPECT_EQ(programs.at("used"), 5);
  EXPECT_EQ(programs.at("holders").as_array().size(), 2U);
}

TEST_F(SemScript, Resize) {
  create("2");
  ASSERT_EQ(acquire("a", "2").code(), 0);
  auto waiter = start({"sem", "acquire", "agents", "--holder", "b"});
  ASSERT_TRUE(eventually([&] { return has(waiter->err(), "waiting"); }));
  const json::object bigger = document({"sem", "resize", "agents", "--capacity", "3"}, 0);
  EXPECT_EQ(bigger.at("capacity"), 3);
  EXPECT_EQ(waiter->wait().code(), 0) << "there is room now";
  EXPECT_EQ(document({"sem", "resize", "agents", "--capacity", "1"}, 0).at("used"), 3);
  EXPECT_EQ(document({"sem", "status", "agents"}, 0).at("available"), 0);
  ASSERT_EQ(run({"sem", "create", "quota", "--per-session", "2"}).code(), 0);
  EXPECT_EQ(run({"sem", "resize", "quota", "--capacity", "3"}).code(), 64);
}

TEST_F(SemScript, LivesByItsLease) {
  create("2");
  ASSERT_EQ(acquire("a", "2", {"--ttl", "300ms"}).code(), 0);
  EXPECT_EQ(run({"sem", "renew", "agents", "--holder", "a", "--ttl", "10m"}).code(), 0);
  EXPECT_EQ(acquire("b", "1", {"-w", "600ms"}).code(), 1);
  EXPECT_EQ(run({"sem", "heartbeat", "agents", "--holder", "a"}).code(), 0);
  EXPECT_EQ(run({"sem", "renew", "agents", "--holder", "a", "--ttl", "50ms"}).code(), 0);
  const Finished next = acquire("b", "1", {});
  EXPECT_EQ(next.code(), 0);
  EXPECT_HAS(next.err, "semaphore 'agents': previous holder a lost it: its ttl passed; taking over");
  EXPECT_EQ(run({"sem", "heartbeat", "agents", "--holder", "a"}).code(), 2);
}

TEST_F(SemScript, RemoveIsRefusedWhileHeld) {
  create("2");
  ASSERT_EQ(acquire("a", "1").code(), 0);
  EXPECT_EQ(run({"sem", "remove", "agents"}).code(), 1);
  EXPECT_EQ(document({"sem", "remove", "agents", "--force"}, 0).at("semaphore"), "agents");
  EXPECT_EQ(run({"sem", "status", "agents"}).code(), 2);
}

TEST_F(SemScript, ForceReleaseOfOneOrAll) {
  create("6");
  for (const char* const holder : {"a", "b", "c"}) ASSERT_EQ(acquire(holder, "2").code(), 0);
  const Finished stranger = run({"force-release", "agents", "--holder", "d", "--reason", "r"});
  EXPECT_EQ(stranger.code(), 2);
  EXPECT_HAS(stranger.err, "not_holder: semaphore 'agents' is not held by 'd'; 0 of 6 free, held: 2 by a ");
  const Finished one = run({"force-release", "agents", "--holder", "b", "--reason", "r"});
  EXPECT_EQ(one.code(), 0);
  EXPECT_TRUE(one.out.starts_with("semaphore 'agents' taken away from b for ")) << one.out;
  EXPECT_EQ(document({"sem", "status", "agents"}, 0).at("used"), 4);
  const json::object all = document({"force-release", "agents", "--reason", "r"}, 0);
  EXPECT_EQ(all.at("holders").as_array().size(), 2U);
  EXPECT_EQ(document({"sem", "status", "agents"}, 0).at("used"), 0);
  const Finished none = run({"force-release", "agents", "--reason", "r"});
  EXPECT_EQ(none.code(), 2);
  EXPECT_HAS(none.err, "already_free: nobody holds semaphore 'agents'");
}

TEST_F(SemScript, ForceReleaseTakesNothingFromThoseWhoComeInNext) {
  create("2");
  ASSERT_EQ(acquire("a", "1").code(), 0);
  ASSERT_EQ(acquire("b", "1").code(), 0);
  std::vector<std::unique_ptr<ToolProcess>> next;
  for (int n = 0; n < 2; ++n) {
    next.push_back(start({"run", "-S", "agents", "--", "sleep", "0.3"}));
    ASSERT_TRUE(eventually([&] { return has(next.back()->err(), "waiting"); }));
  }
  ASSERT_EQ(run({"force-release", "agents", "--reason", "r"}).code(), 0);
  for (const auto& process : next) EXPECT_EQ(process->wait().code(), 0) << process->err();
}

TEST_F(SemScript, ManyHoldersAreCounted) {
  create("10");
  for (int n = 0; n < 10; ++n) ASSERT_EQ(acquire("h" + std::to_string(n), "1").code(), 0);
  const std::string err = acquire("late", "1").err;
  EXPECT_HAS(err, "1 by h7 ");
  EXPECT_FALSE(has(err, "1 by h8 ")) << err;
  EXPECT_HAS(err, "; and 2 more");
}

TEST_F(SemScript, ASharedLock) {
  const auto acquire = [this](const char* holder, std::vector<std::string> options) {
    std::vector<std::string> words{"lock", "acquire", "x", "--holder", holder, "-n"};
    words.insert(words.end(), options.begin(), options.end());
    return run(words);
  };
  ASSERT_EQ(acquire("a", {"--shared"}).code(), 0);
  ASSERT_EQ(acquire("b", {"--shared", "--reason", "backup"}).code(), 0);
  const Finished busy = acquire("c", {});
  EXPECT_EQ(busy.code(), 1);
  EXPECT_HAS(busy.err, "lock 'x' is busy: shared by a for ");
  EXPECT_HAS(busy.err, "; b for ");
  EXPECT_HAS(busy.err, "reason: backup");
  EXPECT_HAS(run({"lock", "status", "x"}).out, "x: shared by b for ");
  ASSERT_EQ(run({"lock", "release", "x", "--holder", "a"}).code(), 0);
  EXPECT_EQ(acquire("c", {}).code(), 1);
  const Finished upgraded = acquire("b", {});
  EXPECT_EQ(upgraded.code(), 0) << "who shares it alone may have all of it";
  EXPECT_EQ(acquire("c", {"--shared"}).code(), 1);
  ASSERT_EQ(run({"lock", "release", "x", "--holder", "b"}).code(), 0);
  EXPECT_TRUE(is_free("x"));
}

TEST_F(SemScript, TwoWhoWantMoreThanTheyHaveAreTold) {
  ASSERT_EQ(run({"sem", "create", "gpu", "--capacity", "2"}).code(), 0);
  const std::string script = std::to_string(::getpid());
  for (const char* const holder : {"a", "b"}) {
    ASSERT_EQ(run({"sem", "acquire", "gpu", "--holder", holder, "--pid", script}).code(), 0);
  }
  const auto older = start({"sem", "acquire", "gpu", "--holder", "a", "--weight", "2", "--pid", script});
  ASSERT_TRUE(eventually([&] { return run({"sem", "status", "gpu"}).out.find("1 waiting") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // waits begin by the coarse clock
  const Finished told = run({"sem", "acquire", "gpu", "--holder", "b", "--weight", "2", "--pid", script});
  EXPECT_EQ(told.code(), 1);
  EXPECT_NE(told.err.find("semaphore 'gpu' would never be free (deadlock): 'b' (pid "), std::string::npos) << told.err;
  EXPECT_NE(told.err.find("; 'a' (pid "), std::string::npos) << told.err;
  ASSERT_EQ(run({"sem", "release", "gpu", "--holder", "b"}).code(), 0);
  EXPECT_EQ(older->wait().code(), 0);
}

TEST_F(SemScript, ASecondUpgradeIsToldWhatToDo) {
  const std::string script = std::to_string(::getpid());
  for (const char* const holder : {"a", "b"}) {
    ASSERT_EQ(run({"lock", "acquire", "tree", "--shared", "--holder", holder, "--pid", script}).code(), 0);
  }
  const auto first = start({"lock", "acquire", "tree", "--holder", "a", "--pid", script});
  ASSERT_TRUE(eventually([&] { return run({"lock", "status", "tree"}).out.find("1 waiting") != std::string::npos; }));
  const Finished second = run({"lock", "acquire", "tree", "--holder", "b", "--pid", script});
  EXPECT_EQ(second.code(), 1);
  EXPECT_NE(second.err.find("give this share back"), std::string::npos) << second.err;
  const Finished third = run({"lock", "acquire", "tree", "--shared", "--holder", "c", "-n"});
  EXPECT_EQ(third.code(), 1);
  EXPECT_NE(third.err.find("others wait for it and come first"), std::string::npos) << third.err;
  ASSERT_EQ(run({"lock", "release", "tree", "--holder", "b"}).code(), 0);
  EXPECT_EQ(first->wait().code(), 0);
}

}  // namespace
}  // namespace shmcoord::test
