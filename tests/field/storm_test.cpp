#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "process/face.hpp"
#include "process/recovery.hpp"
#include "process/segment_check.hpp"
#include "process/snapshot.hpp"
#include "process/table_use.hpp"
#include "support/child_pool.hpp"
#include "support/common.hpp"
#include "support/long_form.hpp"
#include "support/sim_scheduler.hpp"
#include "support/storm_ledger.hpp"
#include "support/storm_worker.hpp"
#include "support/tool.hpp"

// Everything at once: programs that lock in every way there is, scripts, commands under `run`, the operator, the
// reaper, some of them in PID namespaces of their own, all of them killed, stopped, forked and replaced by exec at any
// moment. At the end the books are right (support/storm_ledger.hpp), nobody is stuck, and nothing is left in the
// segment.
//
// SHMCOORD_STORM_SEED=N replays what each life does. When the kernel lets whom run, and so who is hit where, does not.
//
// A waiter looks again each second by itself, so a forgotten one is late here and not lost. That nobody has to be late
// is shown where time stands still (engine/control_sim_test.cpp).

namespace shmcoord::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Who starts the storm, and is everybody's enemy.
class StormTest : public ToolTest {
 protected:
  StormTest()
      : ToolTest(SHMCOORD_TOOL_PATH),
        handle_(Segment::create(segment_, {.names = names, .entries = 4096, .sessions = 128})),
        ledger_(scratch_) {
    const char* const given = std::getenv("SHMCOORD_STORM_SEED");
    seed_ = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    random_.seed(seed_);
    std::cout << "SHMCOORD_STORM_SEED=" << seed_ << std::endl;
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what others leave behind comes to us
    Session session{handle_};
    for (const StormPool& pool : storm_pools) Semaphore{session, pool.name, {.capacity = pool.capacity}};
  }
  ~StormTest() override {
    do {
      strike_all(SIGKILL);
    } while (::waitpid(-1, nullptr, 0) > 0);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  void rage(std::size_t in_namespaces) {
    constexpr std::size_t programs = 7;
    constexpr std::size_t reaper = programs;
    const auto start = [&](std::size_t place, unsigned seed) {
      if (place < in_namespaces) return start_child_in_namespace([&] { return program(seed); });
      if (place < programs) return start_child([&] { return program(seed); });
      if (place == reaper) return shell("exec \"$SHMCOORD\" reap --interval 50ms");
      return shell(place == reaper + 1 ? operators_command(seed) : script(seed));
    };
    ChildPool pool(programs + 4, seed_, [&](std::size_t place, unsigned seed) {
      const pid_t child = start(place, seed);
      ::setpgid(child, child);
      return child;
    });
    const auto until = Clock::now() + (long_form() ? 240s : 3s);
    while ((Clock::now() < until || !raged()) && !HasFailure() && goes_on()) {
      if (dice(sim::instrumented ? 40 : 10) == 0) strike(SIGKILL);
      if (dice(16) == 0) strike(SIGSTOP);
      if (dice(8) == 0) strike_all(SIGCONT);
      while (const auto ended = pool.take_ended()) {
        judge(ended->status);
        pool.start_at(ended->place);
      }
      std::this_thread::sleep_for(1ms);
    }
    // Everybody comes to an end, without the reaper.
    *over_ = true;
    pool.signal(reaper, SIGKILL);
    while (!children_of(::getpid()).empty() && goes_on()) {
      strike_all(SIGCONT);
      while (const auto ended = pool.take_ended()) judge(ended->status);
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(ledger_.faults(), 0U);
  }

  /// With nobody there any more, and nothing cleaned up.
  void expect_all_free_and_exact() {
    const engine::Mapping& mapping = *detail::Access::mapping(handle_);
    {
      Session session{handle_};
      for (const char* const name : accounts) {
        Lock lock{session, name};
        EXPECT_TRUE(lock.try_acquire(HolderId("next"))) << name << " is not free at once";
      }
      for (const char* const name : fences) {
        Lock lock{session, name};
        EXPECT_TRUE(lock.acquire(HolderId("next"), {}, patience)) << name;  // the last lease may run for a moment
      }
      for (const StormPool& made : storm_pools) {
        Semaphore pool{session, made.name};
        pool.resize(made.capacity);
        EXPECT_TRUE(pool.try_acquire(HolderId("next"), made.capacity)) << made.name << ": some permits are not free";
        EXPECT_EQ(pool.used(), made.capacity) << made.name;
        pool.release(HolderId("next"));
        EXPECT_EQ(pool.available(), made.capacity) << made.name;
        Semaphore::remove(session, made.name);
      }
      for (const process::LockView& seen : process::take_picture(mapping, engine::RealPolicy::now_ns()).locks) {
        Lock lock{session, seen.name};
        EXPECT_TRUE(lock.try_acquire(HolderId("next"))) << seen.name << " is not free at once";
      }
    }
    for (std::size_t n = 0; n < Ledger::accounts; ++n) {
      const Ledger::Sum sum = ledger_.sum(n);
      EXPECT_EQ(sum.value, sum.added) << accounts[n];
      const auto tokens = ledger_.noted(n);
      EXPECT_EQ(std::adjacent_find(tokens.begin(), tokens.end(), std::greater_equal<>()), tokens.end()) << accounts[n];
      EXPECT_FALSE(tokens.empty()) << accounts[n];
    }
    EXPECT_EQ(ledger_.faults(), 0U);
    process::sweep(mapping, engine::RealPolicy::now_ns());
    for (const auto& finding : process::check_segment(mapping, engine::RealPolicy::now_ns()).findings) {
      ADD_FAILURE() << finding.where << ": " << finding.what;
    }
    const auto snapshot = process::take_snapshot(mapping, engine::RealPolicy::now_ns());
    EXPECT_TRUE(snapshot.sessions.empty());
    EXPECT_TRUE(snapshot.entries.empty());
    const auto use = process::use_of(mapping, snapshot);
    EXPECT_EQ(use.blocks_left, mapping.view().geo.chunk_count) << "entries that belong to nobody";
    EXPECT_EQ(use.names.left, names);
    EXPECT_EQ(run({"segment", "check"}).code(), 0);
    std::cout << ledger_.lives() << " lives, " << killed_ << " killed and " << stopped_ << " stopped from outside, "
              << ledger_.additions() << " additions, " << ledger_.carried() << " of them ended by the next holder, "
              << ledger_.visits() << " visits with permits, " << ledger_.marks_of_the_dead()
              << " of them ended by a death, " << ledger_.robberies() << " holders robbed, " << ledger_.steps()
              << " steps\n";
    EXPECT_TRUE(raged());
  }

 private:
  static constexpr std::uint32_t names = 48;

  unsigned dice(unsigned sides) { return static_cast<unsigned>(random_() % sides); }

  /// In a process group of its own: the kernel ends a whole group in which somebody is stopped when it loses its last
  /// tie to a shell, and ours may be a background job.
  static void be_a_child() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
  }
  int program(unsigned seed) {
    be_a_child();
    return Worker(ledger_, handle_, seed, over_).run(500);
  }

  pid_t shell(const std::string& text) const {
    const std::string errors = file("errors");
    return start_child([&] {
      be_a_child();
      const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      ::dup2(null, 0);
      ::dup2(null, 1);
      ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
      ::execl("/bin/sh", "sh", "-c", text.c_str(), nullptr);
      return 127;
    });
  }

  std::string script(unsigned seed) {
    const std::size_t n = dice(Ledger::accounts);
    const std::string holder = " --holder script-" + std::to_string(seed) + " ";
    const std::string bound = std::string("lock acquire ") + accounts[bound_account] + holder;
    switch (dice(12)) {
      case 8: {
        const std::string permits = std::string(storm_pools[seed % storm_pools.size()].name) + holder;
        return "\"$SHMCOORD\" sem acquire -w 2s --weight 2 --pid $$ " + permits + ">&2 || exit 1; [ " +
               std::to_string(dice(2)) + " = 0 ] || \"$SHMCOORD\" sem release " + permits;
      }
      case 9:
        return std::string("exec \"$SHMCOORD\" run -w 2s -S ") + storm_pools[seed % storm_pools.size()].name + ":" +
               std::to_string(1 + dice(3)) + " -- true";
      case 10: return std::string("exec \"$SHMCOORD\" run -w 2s --shared ") + tree_name + " -- true";
      case 11: return std::string("exec \"$SHMCOORD\" run -w 2s -l ") + tree_name + " -- true";
      case 0: return "exec \"$SHMCOORD\" lock acquire fence0 --ttl 30ms -n" + holder;
      case 1: {
        const auto all = children_of(::getpid());
        if (all.empty()) return "exit 0";
        const pid_t somebody = all[dice(static_cast<unsigned>(all.size()))];
        // 64: that process has ended since.
        return "\"$SHMCOORD\" " + bound + "-n --pid " + std::to_string(somebody) + "; [ $? = 64 ] || exit $?";
      }
      case 2:
      case 3:
        return "token=$(\"$SHMCOORD\" " + bound + "-w 2s --pid $$) || exit 0; echo $token >>'" +
               ledger_.note_path(bound_account) + "'; [ " + std::to_string(dice(2)) + " = 0 ] || \"$SHMCOORD\" " +
               "lock release " + accounts[bound_account] + holder;
      default:
        return std::string("exec \"$SHMCOORD\" run -w 2s -l ") + accounts[n] +
               " -- sh -c 'echo $SHMCOORD_TOKEN >>\"$0\"' '" + ledger_.note_path(n) + "'";
    }
  }

  std::string operators_command(unsigned seed) {
    const std::string lock = fences[seed % 2];
    switch (dice(6)) {
      case 0: return "exec \"$SHMCOORD\" force-release --reason storm " + lock;
      case 1: return "exec \"$SHMCOORD\" lock remove --force " + lock;
      case 2: return "exec \"$SHMCOORD\" inspect --graph";
      case 3: return "exec \"$SHMCOORD\" reap --once";
      case 4: return "exec \"$SHMCOORD\" --json lock status " + std::string(accounts[seed % Ledger::accounts]);
      default: return "\"$SHMCOORD\" segment check >&2; [ $? != 1 ] || exit 70";
    }
  }

  /// Everyday answers, and what one gives whose own helpers were killed.
  void judge(int status) {
    if (ended_or_killed(status)) return;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    // SIGHUP: the group of a stopped command lost its guardian.
    const bool everyday = code == 1 || code == 2 || code == 128 + SIGKILL || code == 128 + SIGHUP;
    const std::string errors = read_file(file("errors"));
    EXPECT_TRUE(everyday || (code == 70 && errors.find("the guardian process is gone") != std::string::npos))
        << "status " << status << "; " << errors;
  }

  /// At one of us, or of what it started, and so on. By a descriptor, so that it is no other's pid by then.
  void strike(int signal) {
    pid_t parent = ::getpid();
    auto children = children_of(parent);
    pid_t victim = 0;
    while (!children.empty()) {
      if (victim != 0) parent = victim;
      victim = children[dice(static_cast<unsigned>(children.size()))];
      children = dice(2) == 0 ? children_of(victim) : std::vector<pid_t>{};
    }
    send(parent, victim, signal);
    ++(signal == SIGKILL ? killed_ : stopped_);
  }
  static void strike_all(int signal, pid_t parent = ::getpid()) {
    for (const pid_t child : children_of(parent)) {
      strike_all(signal, child);
      send(parent, child, signal);
    }
  }
  static void send(pid_t parent, pid_t child, int signal) {
    const int fd = child > 0 ? static_cast<int>(::syscall(SYS_pidfd_open, child, 0)) : -1;
    if (fd < 0) return;
    const auto children = children_of(parent);
    if (std::find(children.begin(), children.end(), child) != children.end()) {
      ::syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0);
    }
    ::close(fd);
  }

  /// Has everything happened that the end is to be right after? A slow machine takes its time.
  [[nodiscard]] bool raged() const {
    return ledger_.additions() > 100 && ledger_.carried() > 0 && ledger_.robberies() > 0 && killed_ > 10 &&
           ledger_.visits() > 100 && ledger_.marks_of_the_dead() > 0;
  }

  /// False when nothing has happened for a minute: no step, nobody ended or began.
  bool goes_on() {
    const std::pair now{ledger_.steps(), children_of(::getpid())};
    if (now != last_) {
      last_ = now;
      last_change_ = Clock::now();
    }
    if (Clock::now() - last_change_ < 60s) return true;
    ADD_FAILURE() << "somebody is stuck\n" << run({"inspect"}).out;
    return false;
  }

  Segment handle_;
  Ledger ledger_;
  Common<std::atomic<bool>> over_;
  unsigned seed_ = 0;
  std::minstd_rand random_;
  std::uint64_t killed_ = 0;
  std::uint64_t stopped_ = 0;
  std::pair<std::uint64_t, std::vector<pid_t>> last_;
  Clock::time_point last_change_ = Clock::now();
};

TEST_F(StormTest, AllAtOnce) {
  rage(0);
  expect_all_free_and_exact();
}

TEST_F(StormTest, AlsoInPidNamespaces) {
  const pid_t child = start_child_in_namespace([] { return 0; });
  if (child < 0) GTEST_SKIP() << "no permission to make a PID namespace";
  ::waitpid(child, nullptr, 0);
  rage(4);
  expect_all_free_and_exact();
}

}  // namespace
}  // namespace shmcoord::test
