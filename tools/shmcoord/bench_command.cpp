#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <string>

#include "process/clock.hpp"
#include "shmcoord/acquire.hpp"
#include "shmcoord/bench_cases.hpp"
#include "shmcoord/bench_figures.hpp"
#include "shmcoord/bench_scratch.hpp"
#include "shmcoord/command_table.hpp"
#include "shmcoord/exit_codes.hpp"
#include "shmcoord/joined.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/numbers.hpp"
#include "shmcoord/segment.hpp"
#include "shmcoord/terminal.hpp"

// `shmcoord bench`: how fast this machine is, with us and with others.
//
// This process only waits. What measures is a process of its own for each comparison, in a process group of its own, so
// that one kill ends it and whatever it started; ^C reaches this process alone. Here everything that is left of it is
// waited for (we are its subreaper), and then the scratch directory is removed. If we die ourselves, the kernel kills
// the measuring process and that its children, and the directory stays for the next run to remove.

namespace shmcoord::tool {
namespace {

constexpr long tick_ns = 100'000'000;

unsigned parse_seconds(const Arguments& arguments) {
  unsigned seconds = 10;
  const auto text = arguments.value("--seconds");
  if (!text) return seconds;
  if (parse_whole(*text, seconds) && seconds >= 1 && seconds <= 600) return seconds;
  throw UsageError{"--seconds: '" + *text + "' does not do; give a whole number from 1 to 600"};
}

/// What is going on, on one line of a terminal that is overwritten.
class Progress {
 public:
  Progress() : wanted_(obeys_sequences(STDERR_FILENO)) {}
  ~Progress() { show({}); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text) {
    if (!wanted_ || text == shown_) return;
    const std::string line = "\r\x1b[K" + text;
    (void)!::write(STDERR_FILENO, line.data(), line.size());
    shown_ = text;
  }

 private:
  bool wanted_;
  std::string shown_;
};

/// Kills the group and waits for all that there was of it, also for what it started in groups of its own.
void end_group(pid_t group) {
  ::kill(-group, SIGKILL);
  const std::int64_t give_up_ns = process::real_clock().now_ns() + 5'000'000'000;
  for (;;) {
    const pid_t got = ::waitpid(-1, nullptr, WNOHANG);
    if (got < 0 || process::real_clock().now_ns() > give_up_ns) return;
    if (got == 0) {
      const timespec moment{0, 1'000'000};
      ::nanosleep(&moment, nullptr);
    }
  }
}

class Bench {
 public:
  Bench(const StopSignals& signals, BenchPlace place, double seconds)
      : place_(std::move(place)), seconds_(seconds), started_ns_(process::real_clock().now_ns()) {
    wait_for_ = signals.set();
    ::sigaddset(&wait_for_, SIGCHLD);
  }

  ComparisonFigures run(const BenchCase& what, std::int64_t until_ns) {
    const ForChildren<BenchBoard> board;
    const pid_t pid = start_child(*board, [&] {
      ::setpgid(0, 0);
      ::pthread_sigmask(SIG_SETMASK, &place_.signals, nullptr);
      measure(what, place_, *board, until_ns);
    });
    ::setpgid(pid, pid);
    const int status = wait(pid, what);
    board->rethrow("measuring '" + std::string(what.title) + "': ");
    if (status != 0) {
      throw Refusal{exit_internal, "internal", fmt::format("measuring '{}' ended with status {}", what.title, status)};
    }
    return figures(what, *board);
  }

 private:
  int wait(pid_t pid, const BenchCase& what) {
    for (;;) {
      int status = 0;
      for (pid_t got = ::waitpid(-1, &status, WNOHANG); got > 0; got = ::waitpid(-1, &status, WNOHANG)) {
        if (got != pid) continue;  // an orphan that we adopted
        end_group(pid);
        return status;
      }
      const double passed_s = static_cast<double>(process::real_clock().now_ns() - started_ns_) / 1e9;
      progress_.show(fmt::format("{:3.0f} % {}", std::min(100.0, 100 * passed_s / seconds_), what.title));
      const timespec tick{0, tick_ns};
      const int signal = ::sigtimedwait(&wait_for_, nullptr, &tick);
      if (signal <= 0 || signal == SIGCHLD) continue;
      end_group(pid);
      progress_.show({});
      throw Refusal{exit_by_signal + signal, "interrupted",
                    fmt::format("interrupted ({}) while measuring '{}'", ::strsignal(signal), what.title)};
    }
  }

  static ComparisonFigures figures(const BenchCase& what, const BenchBoard& board) {
    std::vector<std::string> names;
    std::vector<std::vector<double>> rounds;
    for (std::size_t i = 0; i < what.subjects.size(); ++i) {
      const auto& ns = board.subjects[i].ns;
      names.push_back(what.subjects[i].name);
      rounds.emplace_back(ns.begin(), ns.begin() + static_cast<std::ptrdiff_t>(board.rounds));
    }
    ComparisonFigures found{what.key, what.title, board.rounds, beside_each_other(names, rounds)};
    for (std::size_t i = 0; what.latencies && i < names.size(); ++i) {
      const bench::Histogram& h = board.subjects[i].samples;
      found.subjects[i].latency = Latency{h.count(), h.quantile(0.5), h.quantile(0.9), h.quantile(0.99), h.max()};
    }
    return found;
  }

  BenchPlace place_;
  double seconds_;
  std::int64_t started_ns_;
  sigset_t wait_for_{};
  Progress progress_;
};

BenchReport measure_all(unsigned seconds) {
  BenchReport report;
  report.seconds = seconds;
  report.machine = this_machine();
  const StopSignals signals;
  ::signal(SIGCHLD, SIG_DFL);  // who ignores it cannot wait for a child
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);

  const BenchScratch scratch;
  const Segment segment = opening([&] { return Segment::create(scratch.segment()); });
  BenchPlace place{scratch.segment(), scratch.file(), signals.original(), {}, {}, report.machine.cpus_allowed};
  find_programs(place);
  const BenchPlan plan = bench_plan(place);
  report.notes = plan.left_out;
  const double shares = std::accumulate(plan.cases.begin(), plan.cases.end(), 0.0,
                                        [](double sum, const BenchCase& c) { return sum + c.share; });
  Bench bench(signals, place, seconds);
  for (const BenchCase& c : plan.cases) {
    const std::int64_t until_ns =
        process::real_clock().now_ns() + static_cast<std::int64_t>(1e9 * seconds * c.share / shares);
    report.comparisons.push_back(bench.run(c, until_ns));
  }
  return report;
}

std::size_t terminal_columns() {
  winsize size{};
  return ::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int bench_command(const Arguments& arguments) {
  const unsigned seconds = parse_seconds(arguments);
  if (arguments.has("--segment")) {
    throw UsageError{"--segment: bench measures in a segment of its own and touches no other; leave it out"};
  }
  const BenchReport report = measure_all(seconds);
  if (arguments.global.json) {
    print_line(json_text(bench_json(report)));
  } else {
    write_out(bench_text(report, terminal_columns(), arguments.global.color));
  }
  return exit_done;
}

}  // namespace shmcoord::tool
