#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "engine/segment_name.hpp"
#include "shmcoord/error.hpp"
#include "support/child_pool.hpp"

// What surroundings refuse: directories, limits, groups and owners. One clear error each time, and nothing is left.

namespace shmcoord::engine {
namespace {

constexpr Sizes small{64, 64, 8};

class SegmentRefusal : public testing::Test {
 protected:
  SegmentRefusal() {
    char pattern[] = "/dev/shm/shmcoord-test.XXXXXX";
    directory_ = ::mkdtemp(pattern);
    path_ = directory_ + "/segment";
  }
  ~SegmentRefusal() override { std::filesystem::remove_all(directory_); }

  /// What the call throws; EXPECTs its code and that the text says that part.
  static void expect(Errc code, const std::string& part, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), code) << e.what();
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
  static void create(const std::string& path, std::optional<gid_t> group = {}) {
    Mapping::create(path, {.sizes = small, .mode = 0600, .group = group});
  }
  /// In a child, as that user (0: as it is).
  static void as_user(uid_t uid, const std::function<void()>& body) {
    const pid_t child = test::start_child([&] {
      if (uid != 0 && (::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0)) return 2;
      body();
      return testing::Test::HasFailure() ? 1 : 0;
    });
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  void expect_nothing_left() const { EXPECT_TRUE(std::filesystem::is_empty(directory_)); }

  static constexpr uid_t somebody = 4000;
  std::string directory_;
  std::string path_;
};

TEST_F(SegmentRefusal, DirectoriesThatAreNone) {
  expect(Errc::system, "the directory " + directory_ + "/no does not exist; make it first",
         [&] { create(directory_ + "/no/segment"); });
  const std::string file = directory_ + "/file";
  ::close(::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  expect(Errc::system, file + " is not a directory", [&] { create(file + "/segment"); });
  expect(Errc::segment_not_found, "", [&] { Mapping::open(file + "/segment"); });
  expect(Errc::segment_not_found, "", [&] { Mapping::open(directory_ + "/no/segment"); });
}

TEST_F(SegmentRefusal, ALimitOfFileSizesIsSaidAndNotRunInto) {
  as_user(0, [&] {
    const rlimit limit{4096, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    expect(Errc::no_space, "limit of 4096 (ulimit -f)", [&] { create(path_); });
    const rlimit wide{1U << 30U, RLIM_INFINITY};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &wide), 0);
    create(path_);
    Mapping::remove(path_);
  });
  expect_nothing_left();
}

TEST_F(SegmentRefusal, OfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of several users";
  as_user(somebody, [&] { expect(Errc::no_permission, "creating it in " + directory_, [&] { create(path_); }); });
  as_user(0, [&] { create(path_); });  // a child of who has it open would have it too
  as_user(somebody, [&] {
    // The directory is closed to others, so that not even its being there can be told.
    expect(Errc::no_permission, path_, [&] { Mapping::open(path_); });
  });
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  as_user(somebody, [&] {
    expect(Errc::no_permission, path_, [&] { Mapping::open(path_); });
    expect(Errc::no_permission, "", [&] { Mapping::remove(path_); });
  });
  EXPECT_TRUE(std::filesystem::exists(path_));
  Mapping::remove(path_);
  expect_nothing_left();
}

TEST_F(SegmentRefusal, AGroupThatTheCreatorIsNotIn) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: processes of several users";
  ASSERT_EQ(::chmod(directory_.c_str(), 0777), 0);
  as_user(somebody, [&] {
    expect(Errc::no_permission, "giving it to group 0", [&] { create(path_, 0); });
    expect_nothing_left();
    create(path_, somebody);
  });
  struct stat st {};
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(st.st_gid, somebody);
}

TEST_F(SegmentRefusal, ReadersShareOneMappingUntilSomebodyWrites) {
  as_user(0, [&] { create(path_); });
  const OpenOptions look{.trusted_owner = {}, .read_only = true};
  const auto first = Mapping::open(path_, look);
  EXPECT_EQ(Mapping::open(path_, look), first);
  EXPECT_TRUE(first->read_only());
  expect(Errc::no_permission, path_, [&] { first->ensure(first->view().geo.total - page_size, page_size); });
  const auto writer = Mapping::open(path_);
  EXPECT_NE(writer, first);
  EXPECT_EQ(Mapping::open(path_, look), writer) << "who may write may read";
}

TEST_F(SegmentRefusal, ListsSayWhatARemoverLeftAndSkipNamesThatAreNone) {
  const std::string name = "test-list-" + std::to_string(::getpid());
  const std::string odd = segment_path(name) + " ";
  ::close(::open(odd.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const auto half_removed = Mapping::create(name, {.sizes = small, .mode = 0600, .group = {}});
  RealPolicy::store(half_removed->view().header().removed, 1);
  std::string error = "not listed";
  for (const ListedSegment& one : Mapping::list()) {
    EXPECT_NE(one.path, odd);
    if (one.name != name) continue;
    EXPECT_FALSE(one.ok);
    error = one.error;
  }
  EXPECT_EQ(error, "removed");
  ::unlink(odd.c_str());
  ::unlink(segment_path(name).c_str());
}

}  // namespace
}  // namespace shmcoord::engine
