#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "coordination/save.hpp"
#include "process/primitive_client.hpp"
#include "shmcoord/snapshot.hpp"
#include "support/face_fixture.hpp"

// Whose file is it? What saves by itself replaces only snapshots of its own segment.

namespace shmcoord {
namespace {

using coordination::Over;
using ::testing::AllOf;
using testing::Child;
using ::testing::HasSubstr;
using testing::say;

class SnapshotOwner : public testing::FaceTest {
 protected:
  SnapshotOwner()
      : directory_(std::filesystem::temp_directory_path() / name_), file_((directory_ / "snapshot.json").string()) {
    std::filesystem::create_directories(directory_);
  }
  SnapshotOwner(const SnapshotOwner&) = delete;
  SnapshotOwner& operator=(const SnapshotOwner&) = delete;
  ~SnapshotOwner() override {
    std::filesystem::remove_all(directory_);
    try {
      Segment::remove(other_, true);
    } catch (const Error&) {  // it is gone, or never was
    }
  }

  [[nodiscard]] std::string read() const {
    std::ifstream in(file_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& text) const { std::ofstream(file_, std::ios::binary) << text; }
  [[nodiscard]] coordination::SavedState saved() const { return coordination::state_from(read(), file_); }
  void save(const Segment& segment) const {
    (void)coordination::save(*detail::Access::mapping(segment), file_, Over::its_own);
  }
  /// What it threw, after which the file must be as it was.
  [[nodiscard]] Error refusal(const Segment& segment) const {
    const std::string before = read();
    try {
      save(segment);
    } catch (const Error& e) {
      EXPECT_EQ(read(), before);
      return e;
    }
    return {Errc{}, "it was replaced"};
  }
  static void hold(const Session& session, const std::string& lock) {
    process::PrimitiveClient client(detail::Access::state(session)->participant, lock, {});
    process::Request request;
    request.holder = "script";
    request.weight = process::whole_lock;
    request.detached = true;
    request.no_lease = true;
    ASSERT_TRUE(client.acquire(request, process::try_once)) << lock;
  }

  std::filesystem::path directory_;
  std::string file_;
  const std::string other_ = name_ + "-other";
};

TEST_F(SnapshotOwner, ItsOwnIsReplaced) {
  Session session{segment_};
  save(segment_);
  hold(session, "deploy");
  save(segment_);
  EXPECT_EQ(saved().names.size(), 1U);
  EXPECT_THAT(saved().instance, ::testing::MatchesRegex("[0-9a-f]{16}"));
}

TEST_F(SnapshotOwner, ThatOfAnotherInstanceIsLeftAsItIs) {
  const Segment another = Segment::create(other_);
  (void)save_snapshot(another, file_);
  Segment::remove(other_, true);
  const Error e = refusal(segment_);
  EXPECT_EQ(e.errc(), Errc::segment_exists);
  EXPECT_THAT(e.what(),
              AllOf(HasSubstr(file_), HasSubstr(saved().instance), HasSubstr("-s " + name_ + " segment remove"),
                    HasSubstr("snapshot restore " + file_), HasSubstr("move the file away")));
  (void)save_snapshot(segment_, file_);  // who says so by hand means it
  save(segment_);
}

TEST_F(SnapshotOwner, WhatIsNoSoundSnapshotIsLeftAsItIs) {
  Session session{segment_};
  hold(session, "deploy");
  save(segment_);
  std::string text = read();
  text[text.find("deploy")] = 'D';
  write(text);
  const Error damaged = refusal(segment_);
  EXPECT_EQ(damaged.errc(), Errc::snapshot_damaged);
  EXPECT_THAT(damaged.what(), HasSubstr(file_ + ":2: this line was changed"));
  for (const char* const foreign : {"", "important\n"}) {
    write(foreign);
    EXPECT_EQ(refusal(segment_).errc(), Errc::snapshot_damaged);
  }
}

TEST_F(SnapshotOwner, TheRestoredOneHasTheFile) {
  (void)save_snapshot(segment_, file_);
  (void)restore_snapshot(file_, other_);
  const Segment restored = Segment::open(other_);
  save(restored);
  EXPECT_EQ(saved().segment, other_);
  EXPECT_EQ(refusal(segment_).errc(), Errc::segment_exists);
  Segment::remove(other_, true);
}

// The file says which of them is there, whoever was first at which step.
TEST_F(SnapshotOwner, OfSeveralWhoRestoreTheSameFileOneDoes) {
  for (int round = 0; round < 20; ++round) {
    (void)save_snapshot(segment_, file_);
    std::vector<std::unique_ptr<Child>> children;
    children.reserve(4);
    for (int n = 0; n < 4; ++n) {
      children.push_back(std::make_unique<Child>([&](int ready) {
        try {
          (void)restore_snapshot(file_, other_);
          say(ready, 'r');
        } catch (const Error& e) {
          say(ready, e.errc() == Errc::segment_exists ? 'e' : '?');
        }
      }));
    }
    std::string answers;
    for (const auto& child : children) answers += child->next();
    std::sort(answers.begin(), answers.end());
    ASSERT_EQ(answers, "eeer");
    const Segment restored = Segment::open(other_);
    ASSERT_NO_THROW(save(restored));
    Segment::remove(other_, true);
  }
}

// Else it would put back what was before another one's save.
TEST_F(SnapshotOwner, WhoWaitsForTheFileLooksAtTheSegmentAfterwards) {
  const int directory = ::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(directory, LOCK_EX), 0);  // as another one who saves
  Child late([&](int ready) {
    save(segment_);
    say(ready, 's');
  });
  const auto waits = [&] {
    std::error_code ended;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/" + std::to_string(late.pid()) + "/fd", ended)) {
      if (std::filesystem::read_symlink(fd, ended) == directory_ && fd.path().filename() != std::to_string(directory)) {
        return true;
      }
    }
    return false;
  };
  for (int watchdog = 20'000; !waits(); --watchdog) {
    ASSERT_GT(watchdog, 0);
    ::usleep(1000);
  }
  Session session{segment_};
  hold(session, "deploy");
  ::flock(directory, LOCK_UN);
  ::close(directory);
  ASSERT_EQ(late.next(), 's');
  EXPECT_EQ(saved().names.size(), 1U);
}

TEST_F(SnapshotOwner, ANameIsTheSameHoweverItIsWritten) {
  coordination::SavedState state;
  state.segment = "ci";
  EXPECT_NO_THROW(coordination::require_name("ci", state, file_));
  EXPECT_NO_THROW(coordination::require_name("/dev/shm/shmcoord.ci", state, file_));
  try {
    coordination::require_name("other", state, file_);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::config_differs);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("segment ci"), HasSubstr("-s other snapshot restore " + file_)));
  }
  state.segment = "no name of a segment, since it ends with a blank ";
  EXPECT_THROW(coordination::require_name("other", state, file_), Error);
}

}  // namespace
}  // namespace shmcoord
