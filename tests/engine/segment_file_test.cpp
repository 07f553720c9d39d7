#include "engine/segment_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "engine/segment_birth.hpp"
#include "engine/segment_header.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

constexpr Sizes small{64, 64, 8};

class SegmentFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/dev/shm/shmcoord-test.XXXXXX";
    directory_ = ::mkdtemp(pattern);
    name_ = "test-" + directory_.substr(directory_.rfind('.') + 1);
    path_ = directory_ + "/segment";
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    ::unlink(segment_path(name_).c_str());
  }

  /// The error of opening path_, as text; EXPECTs its code.
  std::string refused(Errc code, const OpenOptions& options = {}) {
    try {
      Mapping::open(path_, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), code) << e.what();
      return e.what();
    }
    ADD_FAILURE() << "opened";
    return {};
  }
  template <class T>
  void overwrite(std::uint64_t at, const T& value) {
    const int fd = ::open(path_.c_str(), O_RDWR);
    ASSERT_EQ(::pwrite(fd, &value, sizeof value, static_cast<off_t>(at)), static_cast<ssize_t>(sizeof value));
    ::close(fd);
  }
  /// A good segment at path_ that this process has not opened.
  void make_by_another_process() {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }

  std::string directory_;
  std::string name_;
  std::string path_;
};

/// Exit status of a child that runs `body`.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool locked_by_other(int fd, off_t byte) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = byte;
  lock.l_len = 1;
  return ::fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

TEST_F(SegmentFile, IsCompleteFromTheStart) {
  const auto m = Mapping::create(name_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  EXPECT_EQ(m->name(), name_);
  EXPECT_EQ(m->path(), "/dev/shm/shmcoord." + name_);
  EXPECT_FALSE(m->read_only());
  EXPECT_FALSE(m->from_earlier_boot());
  EXPECT_FALSE(m->removed());
  EXPECT_EQ(m->check_identity(), Mapping::Identity::same);
  const View& v = m->view();
  EXPECT_EQ(v.header().sizes, small);
  EXPECT_NE(v.header().segment_id, 0U);
  EXPECT_EQ(v.header().slot_high.raw, 1U);
  const SlotId slot = unpack_slot(v.slot(detached_slot).id.raw);
  EXPECT_EQ(slot, (SlotId{SlotState::permanent, 1}));
  EXPECT_NE(v.slot(detached_slot).session_id, 0U);
  EXPECT_TRUE(v.pages_exist(0, v.geo.directory)) << "header, bitmap and buckets";
  EXPECT_TRUE(v.pages_exist(v.geo.slots, sizeof(SessionSlot)));
  EXPECT_FALSE(v.pages_exist(v.geo.records, sizeof(Record)));
  for (std::uint32_t b = 0; b < v.geo.bucket_count; ++b) EXPECT_EQ(v.bucket(b).raw, 0U);
}

TEST_F(SegmentFile, TokensOfANewSegmentStartFromTheTime) {
  constexpr std::int64_t second = 1'000'000'000;
  constexpr std::int64_t year_2020 = 1'577'836'800 * second;
  EXPECT_EQ(first_token_floor(0), 0U) << "a clock that was never set";
  EXPECT_EQ(first_token_floor(INT64_MIN), 0U);
  EXPECT_EQ(first_token_floor(year_2020), 0U);
  EXPECT_EQ(first_token_floor(year_2020 + second), 1'000'000U);
  EXPECT_EQ(first_token_floor(INT64_MAX), core::seq_limit / 2) << "most are left";
  std::uint64_t last = 0;
  for (int n = 0; n < 3; ++n) {
    const auto mapping = Mapping::create(path_, {.sizes = {16, 16, 4}, .mode = 0600, .group = {}});
    const std::uint64_t floor = mapping->view().header().token_floor.raw;
    EXPECT_GT(floor, last);
    EXPECT_LE(floor, core::seq_limit / 2);
    last = floor;
    Mapping::remove(path_);
  }
}

TEST_F(SegmentFile, DefaultSizesAreSparse) {
  const auto m = Mapping::create(path_);
  struct stat st {};
  ASSERT_EQ(::stat(path_.c_str(), &st), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_size), geometry_of({}).total);
  EXPECT_LT(st.st_blocks * 512, 1'000'000);
}

TEST_F(SegmentFile, ModeIsExactWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{077}, mode_t{0777}}) {
    for (const BirthWay way : {BirthWay::proc_link, BirthWay::temporary_name}) {
      const mode_t before = ::umask(mask);
      const int fd = give_birth(path_, {small, 0666, 1}, "it", way);
      ::umask(before);
      struct stat st {};
      ASSERT_EQ(::fstat(fd, &st), 0);
      EXPECT_EQ(st.st_mode & 07777U, 0666U);
      if (::geteuid() == 0) {
        EXPECT_EQ(st.st_gid, 1U);
      }
      ::close(fd);
      ASSERT_EQ(::unlink(path_.c_str()), 0);
    }
  }
}

TEST_F(SegmentFile, EveryWayOfBirthMakesTheSameAndReplacesNothing) {
  for (const BirthWay way : {BirthWay::proc_link, BirthWay::empty_path_link, BirthWay::temporary_name}) {
    const int fd = give_birth(path_, {small, 0600, std::nullopt}, "it", way);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(give_birth(path_, {small, 0600, std::nullopt}, "it", way), -1);
    ::close(fd);
    const auto m = Mapping::open(path_);
    EXPECT_EQ(m->view().header().sizes, small);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator(directory_)) ++files;
    EXPECT_EQ(files, 1U) << "a temporary is left";
    Mapping::remove(path_);
  }
}

TEST_F(SegmentFile, CreateRefusesWhatExistsAndOpenWhatDoesNot) {
  refused(Errc::segment_not_found);
  const auto m = Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  try {
    Mapping::create(path_);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::segment_exists);
  }
  EXPECT_EQ(Mapping::open(path_), m) << "one mapping for each inode";
  EXPECT_EQ(Mapping::open_or_create(path_), m);
  EXPECT_EQ(Mapping::open(path_, {.trusted_owner = std::nullopt, .read_only = true}), m);
}

TEST_F(SegmentFile, NamesAreChecked) {
  for (const std::string& bad :
       {std::string(), std::string(201, 'a'), std::string("."), std::string(".hidden"), std::string("a\nb"),
        std::string("\xff"), std::string("a\0b", 3), std::string("dir/")}) {
    try {
      Mapping::open_or_create(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::invalid_argument) << e.what();
    }
  }
  const std::string longest = name_ + std::string(200 - name_.size(), 'x');
  EXPECT_EQ(segment_path(longest), "/dev/shm/shmcoord." + longest);
  EXPECT_EQ(default_segment_name(), "default-" + std::to_string(::geteuid()));
  EXPECT_EQ(segment_path("./x"), (std::filesystem::current_path() / "./x").string());
}

TEST_F(SegmentFile, BadOptionsAreRefusedAndNothingIsLeft) {
  const auto code_of = [&](const CreateOptions& options) {
    try {
      Mapping::create(path_, options);
    } catch (const Error& e) {
      return e.errc();
    }
    return Errc{};
  };
  const auto sized = [&](Sizes s) { return code_of({.sizes = s, .mode = 0600, .group = std::nullopt}); };
  const auto moded = [&](mode_t m) { return code_of({.sizes = small, .mode = m, .group = std::nullopt}); };
  EXPECT_EQ(sized({0, 8, 8}), Errc::invalid_argument);
  EXPECT_EQ(sized({0xffffffff, 8, 8}), Errc::invalid_argument);
  EXPECT_EQ(sized({8, 0xfffffff8, 8}), Errc::invalid_argument);
  EXPECT_EQ(sized({8, 1048575, 8}), Errc::invalid_argument) << "the last chunk would contain nil";
  EXPECT_EQ(sized({8, 8, 1}), Errc::invalid_argument);
  EXPECT_EQ(sized({8, 8, 65535}), Errc::invalid_argument);
  EXPECT_EQ(moded(0400), Errc::invalid_argument);
  EXPECT_EQ(moded(04600), Errc::invalid_argument);
  EXPECT_EQ(code_of({.sizes = small, .mode = 0600, .group = static_cast<gid_t>(-1)}), Errc::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(sized({core::index_mask - 1, 1048568, 65534}), Errc{}) << "the largest of all";
}

TEST_F(SegmentFile, RefusesWhatIsNotARegularFile) {
  ASSERT_EQ(::symlink("/etc/hostname", path_.c_str()), 0);
  EXPECT_NE(refused(Errc::segment_foreign).find("symbolic link"), std::string::npos);
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(refused(Errc::segment_foreign).find("pipe"), std::string::npos);
  ::unlink(path_.c_str());
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  EXPECT_NE(refused(Errc::segment_foreign).find("directory"), std::string::npos);
  ::rmdir(path_.c_str());
  const int s = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_NE(refused(Errc::segment_foreign).find("socket"), std::string::npos);
  ::close(s);
}

TEST_F(SegmentFile, RefusesForeignAndShortFiles) {
  std::ofstream(path_) << "short";
  EXPECT_NE(refused(Errc::segment_foreign).find("5 bytes"), std::string::npos);
  std::ofstream(path_) << std::string(100'000, 'x');
  EXPECT_NE(refused(Errc::segment_foreign).find("0x7878787878787878"), std::string::npos);
  std::ofstream(path_, std::ios::trunc).close();
  refused(Errc::segment_foreign);
  const auto before = std::filesystem::file_size(path_);
  EXPECT_THROW(Mapping::open_or_create(path_), Error);
  EXPECT_EQ(std::filesystem::file_size(path_), before) << "somebody else's file was touched";
}

// F40.
TEST_F(SegmentFile, RefusesWhatDiffersAndPrintsBothSides) {
  make_by_another_process();
  Header good{};
  {
    const int fd = ::open(path_.c_str(), O_RDONLY);
    ASSERT_EQ(::pread(fd, &good, sizeof good, 0), static_cast<ssize_t>(sizeof good));
    ::close(fd);
  }
  const auto with = [&](auto change, Errc code) {
    Header h = good;
    change(h);
    overwrite(0, h);
    return refused(code);
  };
  EXPECT_NE(with([](Header& h) { h.version = layout_version + 1; }, Errc::segment_version)
                .find("layout version " + std::to_string(layout_version + 1) + ", this library has " +
                      std::to_string(layout_version)),
            std::string::npos);
  with([](Header& h) { h.magic = __builtin_bswap64(h.magic); }, Errc::segment_version);
  EXPECT_NE(with([](Header& h) { h.word_bits = 32; }, Errc::segment_version).find("32, this library has 64"),
            std::string::npos);
  with([](Header& h) { h.byte_order = 0x04030201; }, Errc::segment_version);
  with([](Header& h) { h.page_bytes = 65536; }, Errc::segment_version);
  with([](Header& h) { h.sizes.names = 0xffffffff; }, Errc::segment_corrupt);
  with([](Header& h) { h.sizes.names = 640; }, Errc::segment_corrupt);
  with([](Header& h) { h.total_bytes += 4096; }, Errc::segment_corrupt);
  with([](Header& h) { h.segment_id = 0; }, Errc::segment_corrupt);
  const std::string other = with([](Header& h) { h.time_namespace += 1; }, Errc::unsupported);
  EXPECT_NE(other.find(std::to_string(good.time_namespace)), std::string::npos);
  EXPECT_NE(other.find(std::to_string(good.time_namespace + 1)), std::string::npos);

  overwrite(0, good);
  ASSERT_EQ(::truncate(path_.c_str(), 8192), 0);
  EXPECT_NE(refused(Errc::segment_corrupt).find("8192 bytes"), std::string::npos);
  ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(good.total_bytes)), 0);
  Header old = good;
  old.boot_id[3] ^= 1U;
  old.time_namespace += 1;
  overwrite(0, old);
  EXPECT_TRUE(Mapping::open(path_)->from_earlier_boot());
}

TEST_F(SegmentFile, RefusesSquattersAndTrustsWhomItIsTold) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: files of several owners";
  make_by_another_process();
  constexpr uid_t nobody = 65534;
  ASSERT_EQ(::chown(path_.c_str(), nobody, nobody), 0);
  EXPECT_NE(refused(Errc::no_permission).find("uid 65534, this process is uid 0"), std::string::npos);
  EXPECT_NO_THROW(Mapping::open(path_, {.trusted_owner = nobody, .read_only = false}));
  refused(Errc::no_permission);  // also when it is open already

  // Seen from a user: root's is fine where the mode lets it, another user's is not.
  ASSERT_EQ(::chmod(directory_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  const auto as_user = [&] {
    return in_child([&] {
      if (::setresuid(1000, 1000, 1000) != 0) return 99;
      try {
        Mapping::open(path_);
      } catch (const Error& e) {
        return static_cast<int>(e.errc());
      }
      return 0;
    });
  };
  EXPECT_EQ(as_user(), static_cast<int>(Errc::no_permission));
  ASSERT_EQ(::chown(path_.c_str(), 0, 0), 0);
  EXPECT_EQ(as_user(), 0);
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  make_by_another_process();
  EXPECT_EQ(as_user(), static_cast<int>(Errc::no_permission)) << "mode 0600";
}

TEST_F(SegmentFile, ReadOnlyReadsAndAllocatesNothing) {
  make_by_another_process();
  const auto m = Mapping::open(path_, {.trusted_owner = std::nullopt, .read_only = true});
  EXPECT_TRUE(m->read_only());
  EXPECT_EQ(m->view().header().sizes, small);
  EXPECT_FALSE(m->try_ensure(m->view().geo.records, sizeof(Record)));
  EXPECT_THROW(m->ensure_record(0), Error);
  const auto w = Mapping::open(path_);
  EXPECT_FALSE(w->read_only());
  EXPECT_EQ(w->view().header().segment_id, m->view().header().segment_id);
}

TEST_F(SegmentFile, OpeningAgainKeepsTheRecordLocks) {
  const auto m = Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_start = 5;
  lock.l_len = 1;
  ASSERT_EQ(::fcntl(m->fd(), F_SETLK, &lock), 0);
  for (int i = 0; i < 10; ++i) {
    Mapping::open(path_);
    Mapping::open_or_create(path_);
    EXPECT_THROW(Mapping::create(path_), Error);
    Mapping::list();
    Mapping::open(path_, {.trusted_owner = std::nullopt, .read_only = true});
  }
  EXPECT_TRUE(in_child([&] { return locked_by_other(m->fd(), 5) ? 0 : 1; }) == 0);
}

TEST_F(SegmentFile, RemoveMarksWakesAndUnlinks) {
  const auto m = Mapping::create(name_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  View v = m->view();
  v.slot(0).signal.raw = 7;
  Mapping::remove(name_);
  EXPECT_TRUE(m->removed());
  EXPECT_EQ(v.slot(0).signal.raw, 8U);
  EXPECT_EQ(m->check_identity(), Mapping::Identity::unlinked);
  try {
    Mapping::remove(name_);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::segment_not_found);
  }
  const auto next = Mapping::open_or_create(name_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  EXPECT_NE(next, m);
  EXPECT_EQ(m->check_identity(), Mapping::Identity::replaced);
  EXPECT_EQ(next->check_identity(), Mapping::Identity::same);
  EXPECT_NE(next->view().header().segment_id, m->view().header().segment_id);
}

TEST_F(SegmentFile, WhoMayNotDeleteItDoesNotMarkItEither) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: another uid";
  make_by_another_process();
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  for (const mode_t directory : {mode_t{0755}, mode_t{01777}}) {
    ASSERT_EQ(::chmod(directory_.c_str(), directory), 0);
    EXPECT_EQ(in_child([&] {
                if (::setresuid(1000, 1000, 1000) != 0) return 99;
                try {
                  Mapping::remove(path_);
                } catch (const Error& e) {
                  return static_cast<int>(e.errc());
                }
                return 0;
              }),
              static_cast<int>(Errc::no_permission));
    EXPECT_FALSE(Mapping::open(path_)->removed());
  }
}

TEST_F(SegmentFile, WhatAKilledRemoverLeftIsFinishedByTheNext) {
  for (int round = 0; round < 4; ++round) {
    auto m = Mapping::open_or_create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
    ASSERT_FALSE(m->removed());
    m->view().header().removed.raw = 1;  // and died before the unlink
    if (round == 0) {
      refused(Errc::segment_not_found);
      EXPECT_FALSE(std::filesystem::exists(path_));
    } else if (round == 1) {
      EXPECT_NO_THROW(Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt}));
    } else if (round == 2) {
      EXPECT_NO_THROW(Mapping::remove(path_));
    }
  }
}

TEST_F(SegmentFile, ListShowsGoodAndBad) {
  Mapping::create(name_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  const std::string bad = "/dev/shm/shmcoord." + name_ + "-bad";
  const std::string stale = std::string("/dev/shm/") + temporary_prefix + name_;
  std::ofstream(bad) << "x";
  std::ofstream(stale) << "x";
  const auto listed = Mapping::list();
  ::unlink(bad.c_str());
  EXPECT_FALSE(std::filesystem::exists(stale)) << "a dead creator's temporary";
  ::unlink(stale.c_str());
  int seen = 0;
  for (const ListedSegment& one : listed) {
    if (one.name == name_) {
      ++seen;
      EXPECT_TRUE(one.ok) << one.error;
    }
    if (one.name == name_ + "-bad") {
      ++seen;
      EXPECT_FALSE(one.ok);
      EXPECT_NE(one.error.find("not a shmcoord segment"), std::string::npos);
    }
  }
  EXPECT_EQ(seen, 2);
}

TEST_F(SegmentFile, PagesAreMarkedWhenTheyExistAndOnlyThose) {
  const auto m = Mapping::create(path_, {.sizes = {4096, 4096, 64}, .mode = 0600, .group = std::nullopt});
  const View& v = m->view();
  const auto blocks = [&] {
    struct stat st {};
    ::fstat(m->fd(), &st);
    return st.st_blocks / 8;
  };
  const auto before = blocks();
  m->ensure_record(1000);
  EXPECT_TRUE(v.pages_exist(v.offset_of(&v.record(1000)), sizeof(Record)));
  EXPECT_EQ(blocks() - before, v.offset_of(&v.record(1000)) % page_size > page_size - sizeof(Record) ? 2 : 1);
  m->ensure(v.geo.long_texts, 3 * page_size + 1);
  EXPECT_TRUE(v.pages_exist(v.geo.long_texts, 4 * page_size));
  EXPECT_FALSE(v.pages_exist(v.geo.long_texts + 4 * page_size, 1));
  EXPECT_TRUE(m->try_ensure(v.geo.long_texts, 1));
  const auto now = blocks();
  m->ensure(v.geo.long_texts, page_size);
  EXPECT_EQ(blocks(), now);
  ASSERT_EQ(::truncate(path_.c_str(), 1 << 20), 0);
  try {
    m->ensure_entry(4000);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::segment_corrupt) << e.what();
  }
}

TEST_F(SegmentFile, AForkedChildReadsAndOpensWhileThreadsOpen) {
  const auto m = Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (int i = 0; !stop; ++i)
      Mapping::open_or_create(path_ + std::to_string(i % 3), {.sizes = small, .mode = 0600, .group = {}});
  });
  for (int i = 0; i < 100; ++i) {
    const int status = in_child([&] {
      ::alarm(20);
      if (m->view().header().sizes != small) return 1;
      return Mapping::open(path_) == m ? 0 : 2;
    });
    ASSERT_EQ(status, 0);
  }
  stop = true;
  other.join();
}

TEST_F(SegmentFile, AProcessThatCreatesAndRemovesForEverKeepsNothing) {
  const auto descriptors = [] {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  };
  const std::size_t before = descriptors();
  for (int i = 0; i < 200; ++i) {
    Mapping::create(path_, {.sizes = small, .mode = 0600, .group = std::nullopt});
    Mapping::remove(path_);
  }
  EXPECT_LE(descriptors(), before + 2);
}

}  // namespace
}  // namespace shmcoord::engine
