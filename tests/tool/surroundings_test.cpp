#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <string>

#include <boost/json.hpp>

#include "support/refuse_calls.hpp"
#include "support/tool.hpp"

// The tool where something is missing: system calls, /proc, the sight of other users' or other namespaces' processes.
// Nobody alive is robbed, nothing hangs, the dead are replaced, and `inspect` says what is missing.

namespace shmcoord::test {
namespace {

namespace json = boost::json;

class Surroundings : public ToolTest {
 protected:
  Surroundings() : ToolTest(SHMCOORD_TOOL_PATH) {}

  /// The notice with that code; null when there is none.
  static json::value notice(const Finished& inspected, const std::string& code) {
    json::error_code error;
    const json::value all = json::parse(inspected.out, error);
    EXPECT_FALSE(error) << inspected.out << inspected.err;
    if (error) return nullptr;
    for (const json::value& n : all.at("notices").as_array()) {
      if (n.at("code").as_string() == code.c_str()) return n;
    }
    return nullptr;
  }

  /// Runs a script that set itself up with `prefix` (unshare …), if this machine lets it.
  std::unique_ptr<ToolProcess> start_in(const std::string& prefix, const std::string& script) {
    std::ofstream(file("script")) << wait_for << script;
    return start_shell("exec " + prefix + " sh $SCRATCH/script");
  }
  bool possible(const std::string& command) { return start_shell("exec " + command)->wait().code() == 0; }
  bool there(const std::string& name) {
    return eventually([&] { return read_file(file(name)).ends_with('\n'); });
  }
  void tell(const std::string& name) { std::ofstream(file(name)) << '\n'; }

  // `await NAME` in a script: until that file is there.
  static constexpr const char* wait_for = "await() { until [ -e $SCRATCH/$1 ]; do sleep 0.02; done; }\n";
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// F43: with each error that filters are known to give.
TEST_F(Surroundings, F43_RefusedCallsAreDoneWithoutAndTold) {
  for (const int error : {EPERM, ENOSYS}) {
    SCOPED_TRACE(error);
    const auto refuse = [error] {
      return refuse_calls(error, {SYS_set_robust_list, SYS_futex_waitv, SYS_pidfd_open, SYS_getrandom});
    };
    const auto holder = start({"run", "-l", "x", "--", "sh", "-c", "echo $$ >$SCRATCH/in; exec sleep 1000"}, refuse);
    if (!eventually([&] { return read_file(file("in")).ends_with('\n') || !holder->running(); }) ||
        !holder->running()) {
      if (holder->wait().code() == not_prepared) GTEST_SKIP() << "no seccomp filter can be set here";
      FAIL() << holder->err();
    }
    const auto reaper = start({"reap"}, refuse);
    EXPECT_TRUE(eventually([&] { return has(reaper->out(), "pidfd_open is not available here"); }));
    const auto waiter = start({"run", "-l", "x", "--", "true"}, refuse);
    EXPECT_TRUE(eventually([&] { return has(waiter->err(), "waiting"); })) << waiter->err();
    EXPECT_EQ(start({"run", "-n", "-l", "x", "--", "true"}, refuse)->wait().code(), 1);

    const Finished seen = start({"--json", "inspect"}, refuse)->wait();
    EXPECT_FALSE(notice(seen, "no_pidfd").is_null()) << seen.out;
    EXPECT_FALSE(notice(seen, "no_futex_waitv").is_null()) << seen.out;
    for (const char* const code : {"no_life_word", "sessions_without_futex_waitv"}) {
      const json::value of_sessions = notice(seen, code);
      ASSERT_TRUE(of_sessions.is_object()) << code << seen.out;
      EXPECT_EQ(of_sessions.at("sessions").as_array().size(), 3U) << code;
    }
    // Who looks from where nothing is missing is told of the sessions only.
    const Finished text = run({"inspect"});
    EXPECT_TRUE(has(text.out, "\nnotice: no death notice from the kernel")) << text.out;
    EXPECT_TRUE(has(text.out, std::to_string(holder->pid()))) << text.out;
    EXPECT_FALSE(has(text.out, "not available here")) << text.out;

    holder->signal(SIGKILL);
    EXPECT_EQ(waiter->wait().code(), 0) << waiter->err();
    reaper->signal(SIGTERM);
    EXPECT_EQ(reaper->wait().code(), 0);
    std::ofstream(file("in"), std::ios::trunc);
  }
  EXPECT_TRUE(has(run({"--json", "inspect"}).out, R"("notices":[])"));
}

// F20: no /proc at all. The command is ended with its `run` all the same, and before the next one gets in.
TEST_F(Surroundings, F20_WithoutProc) {
  const std::string prefix = "unshare -m -p -f --kill-child sh -c 'umount -l /proc && exec \"$@\"' -";
  if (!possible(prefix + " true")) GTEST_SKIP() << "no permission to make namespaces and to unmount /proc";
  const auto inside = start_in(prefix, R"(
    $SHMCOORD run -l x -- sh -c 'sleep 1000 & echo $! >$SCRATCH/child; wait' &
    holder=$!
    await child
    $SHMCOORD --json inspect >$SCRATCH/json
    $SHMCOORD inspect >$SCRATCH/text
    $SHMCOORD run -n -l x -- true; echo $? >$SCRATCH/busy
    $SHMCOORD lock acquire y --holder a --pid $$ 2>$SCRATCH/bound_text; echo $? >$SCRATCH/bound
    $SHMCOORD run -l x -- sh -c 'kill -0 $(cat $SCRATCH/child) 2>/dev/null; echo $? >$SCRATCH/gone' &
    next=$!
    kill -9 $holder
    wait $next; echo $? >$SCRATCH/next
    $SHMCOORD run -l z -- sh -c 'sleep 1000 &' 2>$SCRATCH/said &
    holder=$!
    until grep -q 'go on' $SCRATCH/said; do sleep 0.02; done
    kill -9 $holder
    $SHMCOORD run -l z -- true; echo $? >$SCRATCH/after
  )");
  EXPECT_EQ(inside->wait().code(), 0) << inside->err();
  EXPECT_EQ(read_file(file("after")), "0\n") << "what a command that ended had left behind was to be ended as well";
  EXPECT_EQ(read_file(file("busy")), "1\n");
  EXPECT_EQ(read_file(file("bound")), "69\n") << "its end could never be told";
  EXPECT_TRUE(has(read_file(file("bound_text")), "/proc")) << read_file(file("bound_text"));
  EXPECT_EQ(read_file(file("next")), "0\n") << inside->err();
  EXPECT_EQ(read_file(file("gone")), "1\n") << "the child of the killed `run` was there when the next one got in";
  const Finished seen{0, read_file(file("json")), {}};
  EXPECT_FALSE(notice(seen, "proc_missing").is_null()) << seen.out;
  EXPECT_EQ(notice(seen, "sessions_without_proc").at("sessions").as_array().size(), 1U) << seen.out;
  EXPECT_TRUE(has(read_file(file("text")), "\nnotice: /proc cannot be read here")) << read_file(file("text"));
}

// F20: a /proc of another PID namespace. Its numbers are other processes': none is bound to, none is signalled.
TEST_F(Surroundings, F20_WithAForeignProc) {
  const std::string prefix = "unshare -p -f --kill-child";
  if (!possible(prefix + " true")) GTEST_SKIP() << "no permission to make a PID namespace";
  const auto inside = start_in(prefix, R"(
    $SHMCOORD run -l x -- sh -c 'sleep 1000 & echo $! >$SCRATCH/child; wait' &
    holder=$!
    await child
    $SHMCOORD --json inspect >$SCRATCH/json
    $SHMCOORD lock acquire y --holder a --pid $$; echo $? >$SCRATCH/bound
    kill -9 $holder
    $SHMCOORD run -l x -- sh -c 'kill -0 $(cat $SCRATCH/child) 2>/dev/null; echo $? >$SCRATCH/gone'
    echo $? >$SCRATCH/next
  )");
  EXPECT_EQ(inside->wait().code(), 0) << inside->err();
  EXPECT_EQ(read_file(file("bound")), "69\n");
  EXPECT_EQ(read_file(file("next")), "0\n") << inside->err();
  EXPECT_EQ(read_file(file("gone")), "1\n");
  const Finished seen{0, read_file(file("json")), {}};
  EXPECT_FALSE(notice(seen, "proc_foreign").is_null()) << seen.out;
}

// F19, F20: signals to the holder are refused (EPERM) and /proc hides it: alive until the kernel says otherwise.
TEST_F(Surroundings, F19_F20_OfAnotherUserHiddenByHidepid) {
  const std::string prefix = "unshare -m sh -c 'mount -o remount,hidepid=2 /proc && exec \"$@\"' -";
  const std::string other = "setpriv --reuid 65534 --regid 65534 --clear-groups ";
  if (!possible(prefix + " true") || !possible(other + tool_ + " --version")) {
    GTEST_SKIP() << "no permission to remount /proc, or to run the tool as another user";
  }
  ASSERT_EQ(run({"segment", "create", "--mode", "0666"}).code(), 0);
  const auto inside = start_in(prefix, "OTHER='" + other + "'" + R"(
    $SHMCOORD run -l x -- sh -c 'echo in >$SCRATCH/in; exec sleep 1000' &
    holder=$!
    await in
    sleep 1000 &
    bound=$!
    $SHMCOORD lock acquire y --holder b --pid $bound
    $OTHER $SHMCOORD --json inspect >$SCRATCH/json
    $OTHER $SHMCOORD lock status y >$SCRATCH/status
    $OTHER $SHMCOORD reap --once
    $OTHER $SHMCOORD run -n -l x -- true; echo $? >$SCRATCH/busy
    $OTHER $SHMCOORD lock acquire y --holder c -n; echo $? >>$SCRATCH/busy
    $OTHER $SHMCOORD run -l x -- true & waiter=$!
    kill -9 $holder $bound
    wait $waiter; echo $? >$SCRATCH/next
    wait $bound
    $OTHER $SHMCOORD lock acquire y --holder c -w 10s; echo $? >>$SCRATCH/next
  )");
  EXPECT_EQ(inside->wait().code(), 0) << inside->err();
  EXPECT_EQ(read_file(file("busy")), "1\n1\n") << inside->err();
  EXPECT_EQ(read_file(file("next")), "0\n0\n") << inside->err();
  const Finished seen{0, read_file(file("json")), {}};
  ASSERT_TRUE(notice(seen, "processes_hidden").is_object()) << seen.out;
  EXPECT_EQ(notice(seen, "processes_hidden").at("sessions").as_array().size(), 1U) << seen.out;
  EXPECT_TRUE(has(read_file(file("status")), "which /proc does not show here")) << read_file(file("status"));
}

// Monotonic clocks of two time namespaces cannot be compared, and /proc is not needed to see that (Linux 6.11; before
// that, `inspect` says that it is not known).
TEST_F(Surroundings, AnotherTimeNamespaceIsRefused) {
  const std::string prefix = "unshare -T --monotonic 86400 --boottime 86400 -m -f";
  if (!possible(prefix + " true")) GTEST_SKIP() << "no permission to make a time namespace";
  ASSERT_EQ(run({"lock", "acquire", "x", "--holder", "a"}).code(), 0);
  const auto inside = start_in(prefix, R"(
    $SHMCOORD run -n -l x -- true 2>$SCRATCH/told; echo $? >$SCRATCH/with
    umount -l /proc
    $SHMCOORD inspect >$SCRATCH/seen 2>&1; echo $? >$SCRATCH/without
  )");
  EXPECT_EQ(inside->wait().code(), 0) << inside->err();
  EXPECT_EQ(read_file(file("with")), "69\n");
  EXPECT_TRUE(has(read_file(file("told")), "time namespace")) << read_file(file("told"));
  const std::string seen = read_file(file("seen"));
  if (read_file(file("without")) == "0\n") {
    EXPECT_TRUE(has(seen, "notice: the time namespace of this process cannot be found out")) << seen;
  } else {
    EXPECT_EQ(read_file(file("without")), "69\n") << seen;
  }
  EXPECT_EQ(run({"lock", "status", "x", "--holder", "a"}).code(), 0);
  // Who cannot use it can still make room for one of its own.
  const auto removal = start_in(prefix, R"(
    $SHMCOORD segment remove; echo $? >$SCRATCH/plain
    $SHMCOORD segment remove --force; echo $? >$SCRATCH/forced
  )");
  EXPECT_EQ(removal->wait().code(), 0) << removal->err();
  EXPECT_EQ(read_file(file("plain")), "69\n");
  EXPECT_EQ(read_file(file("forced")), "0\n") << removal->err();
}

// A filter that refuses record locks: no session can be joined, and that is what is said.
TEST_F(Surroundings, WithoutRecordLocksNobodyJoins) {
  ASSERT_EQ(run({"segment", "create"}).code(), 0);
  const auto got = start({"run", "-l", "x", "--", "true"}, [] { return refuse_calls(EPERM, {SYS_fcntl}); });
  const Finished end = got->wait();
  if (end.code() == not_prepared) GTEST_SKIP() << "no seccomp filter can be set here";
  EXPECT_EQ(end.code(), 70) << end.err;
  EXPECT_TRUE(has(end.err, "cannot lock a byte")) << end.err;
  EXPECT_EQ(run({"run", "-l", "x", "--", "true"}).code(), 0);
}

// F16: a hold that is bound to a process of another PID namespace. From here nobody can tell whether that lives, so it
// stays, and that is said; the reaper there frees it.
TEST_F(Surroundings, F16_BoundToAProcessOfAnotherNamespace) {
  const std::string prefix = "unshare -p -f --mount-proc --kill-child";
  if (!possible(prefix + " true")) GTEST_SKIP() << "no permission to make a PID namespace";
  const auto inside = start_in(prefix, R"(
    sleep 1000 &
    $SHMCOORD lock acquire x --holder there --pid $!; echo held >$SCRATCH/held
    await kill
    kill -9 $!
    wait $!
    echo dead >$SCRATCH/dead
    await reap
    $SHMCOORD reap --once >$SCRATCH/reaped
  )");
  ASSERT_TRUE(there("held")) << inside->err();
  const std::string said = "of another PID namespace, which cannot be judged from here";
  const auto waiter = start({"lock", "acquire", "x", "--holder", "here"});
  EXPECT_TRUE(eventually([&] { return has(waiter->err(), said); })) << waiter->err();
  for (const bool dead : {false, true}) {
    SCOPED_TRACE(dead);
    if (dead) {
      tell("kill");
      ASSERT_TRUE(there("dead"));
    }
    EXPECT_TRUE(has(run({"inspect"}).out, said));
    EXPECT_TRUE(has(run({"lock", "status", "x"}).out, said));
    const Finished status = run({"--json", "lock", "status", "x"});
    const json::value holder = json::parse(status.out).at("holder");
    EXPECT_TRUE(holder.at("alive").is_null()) << status.out;
    EXPECT_TRUE(holder.at("notice").is_string()) << status.out;
    EXPECT_EQ(run({"reap", "--once"}).code(), 0);
    EXPECT_TRUE(has(run({"lock", "acquire", "x", "--holder", "third", "-n"}).err, said));
    EXPECT_TRUE(waiter->running());
  }
  tell("reap");
  EXPECT_EQ(waiter->wait().code(), 0) << waiter->err();
  EXPECT_EQ(inside->wait().code(), 0) << inside->err();
  EXPECT_TRUE(has(read_file(file("reaped")), "released hold of x by there")) << read_file(file("reaped"));
}

}  // namespace
}  // namespace shmcoord::test
