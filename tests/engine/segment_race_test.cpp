#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "engine/segment_birth.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/error.hpp"
#include "support/child_pool.hpp"
#include "support/common.hpp"
#include "support/long_form.hpp"

// Creating, opening, removing and crashing on one name (F10, F11, F41): what anybody finds there is whole, and nothing
// of the dead stays.

namespace shmcoord::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Sizes small{64, 64, 8};
constexpr CreateOptions create_small{.sizes = small, .mode = 0600, .group = std::nullopt};

using test::long_form;

class SegmentRace : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/dev/shm/shmcoord-test.XXXXXX";
    directory_ = ::mkdtemp(pattern);
    path_ = directory_ + "/segment";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  static pid_t start(const std::function<int()>& body) {
    return test::start_child([&] {
      ::alarm(60);
      return body();
    });
  }
  [[nodiscard]] std::size_t files() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory_)) ++n;
    return n;
  }
  static bool whole(const Mapping& m) {
    const View& v = m.view();
    return v.header().magic == segment_magic && v.header().sizes == small && v.pages_exist(0, v.geo.directory) &&
           unpack_slot(RealPolicy::load(v.slot(0).id)) == SlotId{SlotState::permanent, 1};
  }

  std::string directory_;
  std::string path_;
  test::Common<std::atomic<std::uint64_t>> shared_{64};
};

TEST_F(SegmentRace, OfManyCreatorsOneWinsAndAllShareItWhateverTheirUmask) {
  constexpr std::size_t processes = 16;
  for (int round = 0; round < (long_form() ? 500 : 25); ++round) {
    std::atomic<std::uint64_t>& gate = shared_[processes];
    gate = 0;
    std::vector<pid_t> children;
    for (std::size_t i = 0; i < processes; ++i) {
      children.push_back(start([&, i] {
        ::umask(i % 2 == 0 ? 077 : 0);
        while (gate == 0) ::sched_yield();
        const auto m = Mapping::open_or_create(path_, {.sizes = small, .mode = 0660, .group = std::nullopt});
        shared_[i] = m->view().header().segment_id;
        return whole(*m) ? 0 : 4;
      }));
    }
    gate = 1;
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      ASSERT_EQ(status, 0);
    }
    for (std::size_t i = 1; i < processes; ++i) ASSERT_EQ(shared_[i], shared_[0]);
    struct stat st {};
    ASSERT_EQ(::stat(path_.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777U, 0660U);
    EXPECT_EQ(files(), 1U);
    ASSERT_EQ(::unlink(path_.c_str()), 0);
  }
}

TEST_F(SegmentRace, ACreatorKilledAnywhereLeavesNothingOrAWholeSegment) {
  std::minstd_rand random(11);
  int left_nothing = 0;
  int left_segment = 0;
  int left_temporary = 0;
  for (const BirthWay way : {BirthWay::proc_link, BirthWay::temporary_name}) {
    for (int round = 0; round < (long_form() ? 5000 : 150); ++round) {
      shared_[0] = 0;
      const pid_t child = start([&] {
        shared_[0] = 1;
        const int fd = give_birth(path_, {small, 0600, std::nullopt}, "it", way);
        ::pause();
        return fd;
      });
      while (shared_[0] == 0) ::sched_yield();
      // From one microsecond to some milliseconds, each scale equally often: an instrumented birth takes longer.
      const auto end = Clock::now() + std::chrono::microseconds(1U << random() % 13U);
      while (Clock::now() < end) {
      }
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      const bool there = std::filesystem::exists(path_);
      (there ? left_segment : left_nothing) += 1;
      left_temporary += files() > (there ? 1U : 0U) ? 1 : 0;
      const auto m = Mapping::open_or_create(path_, create_small);
      ASSERT_TRUE(whole(*m));
      clean_temporaries(directory_, [](dev_t, ino_t) { return false; });
      ASSERT_EQ(files(), 1U) << "a temporary stayed";
      Mapping::remove(path_);
    }
  }
  std::cout << "killed creators left nothing " << left_nothing << ", a segment " << left_segment << ", a temporary "
            << left_temporary << " times\n";
  EXPECT_GT(left_nothing, 0);
  EXPECT_GT(left_segment, 0);
}

TEST_F(SegmentRace, TheTemporaryOfALivingCreatorIsLeftAlone) {
  const std::string temporary = directory_ + "/" + temporary_prefix + "x";
  const pid_t child = start([&] {
    const int fd = ::open(temporary.c_str(), O_CREAT | O_RDWR, 0600);
    if (::flock(fd, LOCK_EX) != 0) return 5;
    shared_[0] = 1;
    ::pause();
    return 0;
  });
  while (shared_[0] == 0) ::sched_yield();
  clean_temporaries(directory_, [](dev_t, ino_t) { return false; });
  EXPECT_TRUE(std::filesystem::exists(temporary));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  clean_temporaries(directory_, [](dev_t, ino_t) { return false; });
  EXPECT_FALSE(std::filesystem::exists(temporary));
}

TEST_F(SegmentRace, ProcessesThatCreateRemoveAndCrashNeverSeeAHalfMadeSegment) {
  constexpr std::size_t processes = 16;
  const auto until = Clock::now() + std::chrono::seconds(long_form() ? 180 : 3);
  std::atomic<std::uint64_t>& opened = shared_[0];
  std::atomic<std::uint64_t>& removed = shared_[1];
  const auto body = [&](unsigned seed) {
    std::minstd_rand random(seed);
    ::alarm(60);
    for (;;) {
      const auto m = Mapping::open_or_create(path_, create_small);
      if (!whole(*m)) return 4;
      ++opened;
      const auto dice = random() % 16;
      if (dice == 0) ::kill(::getpid(), SIGKILL);
      if (dice == 1) return 0;
      if (dice == 2) RealPolicy::cas(m->view().header().removed, 0, 1);  // a remover that gets no further
      if (dice <= 4) {
        try {
          Mapping::remove(path_);
          ++removed;
        } catch (const Error& e) {
          if (e.errc() != Errc::segment_not_found) throw;
        }
      }
    }
  };
  std::minstd_rand random(5);
  test::ChildPool pool(processes, 0, [&](std::size_t, unsigned seed) { return start([&] { return body(seed); }); });
  std::uint64_t crashed = 0;
  const auto goes_on = [&] {
    const bool raced = opened > 100U && removed > 0U;
    return Clock::now() < until + std::chrono::seconds(raced ? 0 : 60);  // where others have the CPUs
  };
  while (goes_on()) {
    const auto ended = pool.take_ended();
    if (!ended) {
      // Kills from outside come at any instruction.
      if (random() % 64 == 0) pool.signal(random() % processes, SIGKILL);
      ::sched_yield();
      continue;
    }
    ASSERT_TRUE(test::ended_or_killed(ended->status)) << "status " << ended->status;
    if (ended->status != 0) ++crashed;
    pool.start_at(ended->place);
  }
  pool.end();
  std::cout << "opened " << opened << ", removed " << removed << ", crashed " << crashed << "\n";
  EXPECT_TRUE(whole(*Mapping::open_or_create(path_, create_small)));
  EXPECT_EQ(files(), 1U);
  EXPECT_GT(opened, 100U);
  EXPECT_GT(removed, 0U);
}

}  // namespace
}  // namespace shmcoord::engine
