#include <sys/stat.h>

#include <string>

#include "adapters/scratch.hpp"
#include "shmcoord/adapters.hpp"

namespace shmcoord::test {
namespace {

class Files : public ScratchTest {
 protected:
  bool contains(const std::string& path, const std::string& pattern) {
    return files_->contains(path, pattern, patient());
  }
  std::string refused(const std::string& path, const std::string& pattern = "x") {
    return reason([&] { return contains(path, pattern); });
  }
  std::shared_ptr<GuardFiles> files_ = adapters::files({.base_dir = scratch_.string(), .max_bytes = 1 << 20});
};

TEST_F(Files, ExistIfAnythingHasTheName) {
  write("a/file", "x");
  fs::create_symlink("a/file", path("link"));
  fs::create_symlink("nowhere", path("dangling"));
  fs::create_symlink("loop", path("loop"));
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const auto exists = [&](const std::string& name) { return files_->exists(name, patient()); };
  for (const char* const name : {"a/file", "a", "a/", "link", "fifo", ".", "/dev/null"}) EXPECT_TRUE(exists(name));
  for (const char* const name : {"b", "a/file/x", "b/c", "dangling"}) EXPECT_FALSE(exists(name)) << name;
  EXPECT_TRUE(exists(path("a/file")));  // absolute
  EXPECT_EQ(reason([&] { return exists("loop"); }), "Too many levels of symbolic links");
  EXPECT_EQ(reason([&] { return exists(""); }), "the path is empty");
  EXPECT_EQ(reason([&] { return exists(std::string("a\0b", 3)); }), "the path contains a zero byte");
  EXPECT_EQ(reason([&] { return exists(std::string(5000, 'a')); }), "File name too long");
}

TEST_F(Files, RelativePathsAreOfTheWorkingDirectoryWithoutABase) {
  write("here", "x");
  const fs::path before = fs::current_path();
  fs::current_path(scratch_);
  const bool exists = adapters::files()->exists("here", patient());
  const bool contains = adapters::files()->contains("here", "x", patient());
  fs::current_path(before);
  EXPECT_TRUE(exists && contains);
}

TEST_F(Files, WhatMayNotBeLookedAtIsNotKnown) {
  // Root may look at everything, so it becomes somebody else for a moment.
  const bool root = ::geteuid() == 0;
  write("closed/file", "x");
  write("unreadable", "x");
  fs::permissions(path("unreadable"), fs::perms::none);
  fs::permissions(path("closed"), fs::perms::none);
  fs::permissions(scratch_, fs::perms::owner_all | fs::perms::others_exec);
  if (root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  EXPECT_EQ(reason([&] { return files_->exists("closed/file", patient()); }), "Permission denied");
  EXPECT_EQ(refused("closed/file"), "Permission denied");
  EXPECT_EQ(refused("unreadable"), "Permission denied");
  if (root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  fs::permissions(path("closed"), fs::perms::owner_all);
}

// C-55.
TEST_F(Files, ContainAPatternAnywhere) {
  write("text", "first line\nversion 1.25\nlast");
  EXPECT_TRUE(contains("text", "ion 1"));
  EXPECT_TRUE(contains("text", "^version [0-9.]+$"));
  EXPECT_TRUE(contains("text", "^last$"));
  EXPECT_TRUE(contains("text", "line\nversion"));
  EXPECT_TRUE(contains("text", "nothing|last"));
  EXPECT_TRUE(contains("text", "(?i)VERSION"));
  EXPECT_TRUE(contains("text", "nothing|^version"));  // the lines are meant behind a bar, too
  EXPECT_FALSE(contains("text", "^ion"));
  EXPECT_FALSE(contains("text", "first.*last"));  // a dot is no end of a line
  EXPECT_FALSE(contains("text", "VERSION"));
  EXPECT_FALSE(contains("text", "\\Aversion"));
  write("empty", "");
  EXPECT_TRUE(contains("empty", "^$"));
  EXPECT_FALSE(contains("empty", "."));
  fs::create_symlink("text", path("link"));
  EXPECT_TRUE(contains("link", "last"));
}

TEST_F(Files, LinesEndWithANewlineAlone) {
  write("dos", "one\r\ntwo\r\n");
  EXPECT_FALSE(contains("dos", "^one$"));
  EXPECT_TRUE(contains("dos", "^one\r?$"));
  EXPECT_TRUE(contains("dos", "^two"));
}

TEST_F(Files, AnyBytesMayBeSearched) {
  write("binary", std::string("\0\xff\xfe head\n\0needle\0\xc3", 19));
  EXPECT_TRUE(contains("binary", "needle"));
  EXPECT_TRUE(contains("binary", "\\x00needle\\x00"));
  EXPECT_FALSE(contains("binary", "^needle"));
  write("utf8", "gr\xc3\xbc\xc3\x9f");
  EXPECT_TRUE(contains("utf8", "gr.\xc3\x9f"));
}

TEST_F(Files, WhatIsNoRegularFileIsRefusedAndNeverWaitedFor) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  fs::create_directory(path("directory"));
  fs::create_symlink("fifo", path("link"));
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(refused("fifo"), "it is no regular file");
  EXPECT_EQ(refused("link"), "it is no regular file");
  EXPECT_EQ(refused("/dev/zero"), "it is no regular file");
  EXPECT_EQ(refused("/dev/tty"), "it is no regular file");
  EXPECT_EQ(refused("directory"), "it is a directory, not a file");
  EXPECT_EQ(refused("absent"), "there is no such file");
  EXPECT_EQ(refused("absent/too"), "there is no such file");
  EXPECT_EQ(refused("loop"), "Too many levels of symbolic links");
}

TEST_F(Files, ALargeOneIsNotRead) {
  write("just", std::string((1 << 20) - 1, 'a') + "x");
  write("over", std::string(1 << 20, 'a') + "x");
  EXPECT_TRUE(contains("just", "x$"));
  EXPECT_EQ(refused("over"), "it is larger than 1048576 bytes, and is not read");
  write("huge", "");
  fs::resize_file(path("huge"), std::uintmax_t{1} << 40U);  // a terabyte of holes
  EXPECT_EQ(refused("huge"), "it is larger than 1048576 bytes, and is not read");
  EXPECT_EQ(reason([&] { return adapters::files()->contains(path("huge"), "x", patient()); }),
            "it is larger than 8388608 bytes, and is not read");
}

// Its size says nothing: it is counted what comes.
TEST_F(Files, OneWhoseSizeSaysNothingIsReadToItsEnd) {
  EXPECT_TRUE(contains("/proc/self/status", "^Name:\t"));
  const auto few = adapters::files({.base_dir = {}, .max_bytes = 10});
  EXPECT_EQ(reason([&] { return few->contains("/proc/self/status", "x", patient()); }),
            "it is larger than 10 bytes, and is not read");
}

TEST_F(Files, APatternThatRe2RefusesIsToldWithItsReason) {
  write("text", "x");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(refused("text", "("), "the pattern is not valid: missing ): (?m)(");
  EXPECT_EQ(refused("text", "[b-a]"), "the pattern is not valid: invalid character class range: b-a");
  EXPECT_EQ(refused("text", "(a)\\1"), "the pattern is not valid: invalid escape sequence: \\1");
  EXPECT_EQ(refused("text", "a\xff"), "the pattern is not valid: invalid UTF-8");
  EXPECT_EQ(refused("text", "((a{100}){100}){100}").substr(0, 26), "the pattern is not valid: ");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// A search that would take for ever where patterns backtrack, and more states than there is memory for.
TEST_F(Files, APatternCostsNeitherTimeNorMemoryWithoutEnd) {
  write("text", std::string(200'000, 'a'));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(contains("text", "(a*)*(a*)*b"));
  EXPECT_FALSE(contains("text", "(a|b)*a(a|b){400}c"));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(Files, NothingIsReadWhenTheTimeIsOver) {
  write("text", "x");
  EXPECT_EQ(reason([&] { return files_->contains("text", "x", within({})); }), "it did not end in time");
  EXPECT_EQ(reason([&] { return files_->exists("text", within({})); }), "it did not end in time");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(reason([&] { return files_->contains("text", "x", patient(stop.get_token())); }), "it was stopped");
}

}  // namespace
}  // namespace shmcoord::test
