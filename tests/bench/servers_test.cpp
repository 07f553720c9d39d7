#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/tool.hpp"

// The servers beside which the benchmarks measure: what is said when there are none, and that none is left. Those here
// are scripts, which note down who they are.

namespace shmcoord::test {
namespace {

using ::testing::HasSubstr;

class BenchServers : public ToolTest {
 protected:
  BenchServers() : ToolTest(SHMCOORD_BENCH_PATH) { std::filesystem::create_directory(file("bin")); }

  void put_program(const std::string& name, const std::string& body) {
    const std::string path = file("bin/" + name);
    std::ofstream(path) << "#!/bin/sh\necho $$ > $SCRATCH/" << name << ".new\nmv $SCRATCH/" << name << ".new $SCRATCH/"
                        << name << ".pid\n"
                        << body << "\n";
    ::chmod(path.c_str(), 0755);
  }
  [[nodiscard]] pid_t pid_of(const std::string& program) const { return pid_from(program + ".pid"); }
  /// No other programs than those here, unless a path follows.
  std::unique_ptr<ToolProcess> start_case(std::vector<std::string> arguments, const std::string& then = "") {
    const std::string path = file("bin") + then;
    return start(std::move(arguments), [path] { return ::setenv("PATH", path.c_str(), 1) == 0; });
  }
  static std::vector<std::string> left_by(pid_t runner) {
    std::vector<std::string> left;
    for (const auto& one : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = one.path().filename().string();
      if (name.find("bench-" + std::to_string(runner) + "-") != std::string::npos) left.push_back(name);
    }
    return left;
  }
};

TEST_F(BenchServers, SaysWhatIsNotInstalledAndMeasuresTheRest) {
  const Finished got = start_case({"--short", "servers_pair"})->wait();
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_EQ(got.err, "");
  for (const char* said : {"not measured: redis-server, which is not installed (Debian package redis-server)",
                           "not measured: etcd, which is not installed (Debian package etcd-server)", "flock"}) {
    EXPECT_THAT(got.out, HasSubstr(said));
  }
}

TEST_F(BenchServers, SaysWhichServerEndedAndLeavesNoFolder) {
  put_program("redis-server", "exit 1");
  put_program("etcd", "exit 0");
  const auto run = start_case({"--short", "servers_pair"}, ":/usr/bin:/bin");
  const Finished got = run->wait();
  ASSERT_EQ(got.code(), 0) << got.err;
  for (const char* said : {"not measured: redis-server, which did not come up in 10 s: ended at once",
                           "not measured: etcd, which did not come up in 10 s: ended at once", "flock"}) {
    EXPECT_THAT(got.out, HasSubstr(said));
  }
  EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
}

TEST_F(BenchServers, AreEndedWithTheBench) {
  for (const int signal : {SIGINT, SIGTERM, SIGKILL}) {
    put_program("redis-server", "exit 1");
    put_program("etcd", "mkdir -p /dev/shm/\"${4##*/}\"/member/snap\nexec sleep 1000");
    std::filesystem::remove(file("etcd.pid"));
    const auto run = start_case({"servers_pair"}, ":/usr/bin:/bin");
    const pid_t server = pid_of("etcd");
    ASSERT_GT(server, 0) << run->err();
    ASSERT_TRUE(eventually([&] { return !left_by(run->pid()).empty(); }));
    run->signal(signal);
    EXPECT_EQ(run->wait().code(), 128 + signal);
    EXPECT_TRUE(eventually([&] { return process_gone(server); })) << signal;
    if (signal != SIGKILL) {
      EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
    }
    for (const std::string& name : left_by(run->pid())) std::filesystem::remove_all("/dev/shm/" + name);
  }
}

/// Whoever has them installed.
TEST_F(BenchServers, ThatAreRealAreMeasuredAndGone) {
  for (const std::string program : {"redis-server", "etcd"}) {
    const std::string real = "/usr/bin/" + program;
    if (!std::filesystem::exists(real)) GTEST_SKIP() << program << " is not installed";
    put_program(program, "exec " + real + " \"$@\"");
  }
  const auto run = start_case({"--short", "servers_pair", "servers_handoff"}, ":/usr/bin:/bin");
  const Finished got = run->wait();
  ASSERT_EQ(got.code(), 0) << got.err;
  EXPECT_THAT(got.out, HasSubstr("Redis"));
  EXPECT_THAT(got.out, HasSubstr("etcd"));
  EXPECT_THAT(got.out, ::testing::Not(HasSubstr("not measured")));
  for (const char* program : {"redis-server", "etcd"}) {
    EXPECT_GT(pid_of(program), 0);
    EXPECT_TRUE(process_gone(pid_of(program))) << program;
  }
  EXPECT_THAT(left_by(run->pid()), ::testing::IsEmpty());
}

}  // namespace
}  // namespace shmcoord::test
