#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "process/face.hpp"
#include "process/identity.hpp"
#include "shmcoord/segment_pipeline.hpp"
#include "support/child_pool.hpp"
#include "support/sim_scheduler.hpp"
#include "support/sound.hpp"

// A thousand pipelines through one semaphore of eight, while those who run them are killed all the time. Never more
// than eight are inside, no phase is left out, and each comes to its end.
//
// Who is inside is counted by the kernel, so that it is right whoever is killed where: each takes one of eight byte
// locks of a file, that go with their process.
//
// SHMCOORD_STORM_SEED=N replays what is killed when; who runs when, the kernel decides.

namespace shmcoord::test {
namespace {

using namespace std::chrono_literals;

// A runner that is watched by a sanitizer takes ten times as long to begin anything.
constexpr std::size_t pipelines = sim::instrumented ? 300 : 1'000;
constexpr useconds_t pause_us = sim::instrumented ? 100'000 : 10'000;
constexpr std::size_t runners = 12;
constexpr short inside_at_most = 8;

struct Books {
  std::array<std::atomic<std::uint32_t>, pipelines> begun;  // of the command that is gated
  std::array<std::atomic<std::uint32_t>, pipelines> ended;  // of the one behind it
  std::atomic<std::uint32_t> too_many;
};

std::string id_of(std::size_t n) { return "p" + std::to_string(n); }

class PipelineStorm : public ::testing::Test {
 protected:
  PipelineStorm()
      : places_(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)),
        name_("test-" + std::to_string(::getpid()) + "-pipelines"),
        segment_(Segment::create(name_, {.names = 2048, .entries = 100'000, .sessions = 256})),
        books_(new (::mmap(nullptr, sizeof(Books), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                   Books()) {
    const char* const given = std::getenv("SHMCOORD_STORM_SEED");
    seed_ = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
    std::cout << "SHMCOORD_STORM_SEED=" << seed_ << std::endl;
  }
  ~PipelineStorm() override {
    expect_sound(*detail::Access::mapping(segment_));
    Segment::remove(name_, true);
    ::munmap(books_, sizeof(Books));
    ::close(places_);
  }

  static struct flock place(short type, short number) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = number;
    lock.l_len = 1;
    return lock;
  }
  /// True: there was one of the eight places. It goes with leave(), or with the process.
  bool enter(short& number) const {
    for (number = 0; number < inside_at_most; ++number) {
      struct flock lock = place(F_WRLCK, number);
      if (::fcntl(places_, F_SETLK, &lock) == 0) return true;
    }
    // Who is past its last instruction is dead, though the kernel has not closed its files yet.
    for (number = 0; number < inside_at_most; ++number) {
      struct flock lock = place(F_WRLCK, number);
      if (::fcntl(places_, F_GETLK, &lock) != 0) return false;
      const auto start = lock.l_type == F_UNLCK ? std::nullopt : process::start_time_of(lock.l_pid);
      using State = process::ProcessState;
      const State state =
          !start ? State::gone : process::process_state(lock.l_pid, *start, process::own_pid_namespace());
      if (state == State::running || state == State::unknown) continue;
      lock = place(F_WRLCK, number);
      return ::fcntl(places_, F_SETLKW, &lock) == 0;
    }
    return false;
  }
  void leave(short number) const {
    struct flock lock = place(F_UNLCK, number);
    (void)::fcntl(places_, F_SETLK, &lock);
  }

  /// Runs whatever it comes across, from a place of its own on, until all are done.
  int run_all(unsigned seed) {
    const Segment segment = Segment::open(name_);
    Session session{segment};
    const GuardExecutor executor{{.primitives = primitives_of(segment), .pipelines = pipelines_of(segment)}};
    std::mt19937 random(seed);
    PipelineRunOptions options;
    options.recheck = 1h;
    options.run_command = [&](const PhaseRun& run) {
      const std::size_t n = std::stoul(run.pipeline.id().substr(1));
      if (run.pipeline.current() != 0) {
        ++books_->ended[n];
        return std::string();
      }
      ++books_->begun[n];
      short number = 0;
      if (!enter(number)) ++books_->too_many;
      for (auto pause = random() % 200; pause > 0; --pause) ::sched_yield();
      leave(number);
      return std::string(random() % 50 == 0 ? "bad luck" : "");  // failed: to be resumed as well
    };
    std::size_t at = random() % pipelines;
    for (std::size_t idle = 0; idle < pipelines; at = (at + 1) % pipelines) {
      SegmentPipeline pipeline(session, id_of(at));
      const bool over = pipeline.look().pipeline.status() == PipelineStatus::done;
      idle = over ? idle + 1 : 0;
      if (!over) (void)pipeline.run(executor, options);
    }
    return 0;
  }

  const int places_;
  const std::string name_;
  const Segment segment_;
  Books* const books_;
  unsigned seed_ = 0;
};

TEST_F(PipelineStorm, AThousandThroughASemaphoreOfEight) {
  {
    Session session{segment_};
    const Semaphore agents{session, "agents", {.capacity = inside_at_most}};
    for (std::size_t n = 0; n < pipelines; ++n) {
      GuardedPhase gated{.name = "gated", .command = {"x"}, .permits = {{"agents", 1}}};
      gated.guards = PhaseGuards().with_pre(GuardCondition::semaphore_available("agents", 1));
      (void)SegmentPipeline::add(session, {id_of(n), {gated, {.name = "behind", .command = {"x"}}}});
    }
  }
  std::mt19937 random(seed_);
  std::size_t killed = 0;
  ChildPool pool(runners, seed_,
                 [&](std::size_t, unsigned seed) { return start_child([&, seed] { return run_all(seed); }); });
  for (std::size_t over = 0; over < runners;) {
    ::usleep(pause_us + static_cast<useconds_t>(random() % 4) * pause_us);
    pool.signal(random() % runners, SIGKILL);
    while (const auto ended = pool.take_ended()) {
      ASSERT_TRUE(ended_or_killed(ended->status)) << ended->status;
      if (ended->status == 0) {
        ++over;  // it saw all done
      } else {
        ++killed;
        pool.start_at(ended->place);
      }
    }
  }
  pool.end();
  std::cout << killed << " runners killed" << std::endl;
  EXPECT_EQ(books_->too_many, 0U) << "more than eight were inside";
  const auto all = SegmentPipeline::list(segment_);
  ASSERT_EQ(all.size(), pipelines);
  for (std::size_t n = 0; n < pipelines; ++n) {
    EXPECT_EQ(all[n].pipeline.status(), PipelineStatus::done) << all[n].pipeline.id();
    EXPECT_GE(books_->begun[n], 1U) << n;
    EXPECT_GE(books_->ended[n], 1U) << n;
  }
  Session session{segment_};
  EXPECT_EQ(Semaphore(session, "agents").available(), static_cast<std::uint32_t>(inside_at_most));
}

}  // namespace
}  // namespace shmcoord::test
