#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "engine/layout.hpp"
#include "engine/own_namespace.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/tool.hpp"

// What may stand where a segment should: each is refused by the library and by every command, with both sides in the
// text, and nothing about it is changed.

namespace shmcoord::test {
namespace {

using engine::Header;

/// What is at the path, as far as a refusal could have changed it.
struct Picture {
  struct stat st {};
  std::string bytes;

  friend bool operator==(const Picture& a, const Picture& b) {
    return a.st.st_ino == b.st.st_ino && a.st.st_mode == b.st.st_mode && a.st.st_size == b.st.st_size &&
           a.st.st_uid == b.st.st_uid && a.st.st_gid == b.st.st_gid && a.st.st_blocks == b.st.st_blocks &&
           a.st.st_mtim.tv_sec == b.st.st_mtim.tv_sec && a.st.st_mtim.tv_nsec == b.st.st_mtim.tv_nsec &&
           a.bytes == b.bytes;
  }
};

struct Bad {
  const char* what;
  Errc code;
  /// Makes it at the path, where a good segment is; false: this machine cannot.
  std::function<bool(const std::string& path)> make;
  std::vector<std::string> says;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.what; }

template <class T>
std::function<bool(const std::string&)> with(std::size_t offset, T value) {
  return [=](const std::string& path) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const bool done = ::pwrite(fd, &value, sizeof value, static_cast<off_t>(offset)) == sizeof value;
    ::close(fd);
    return done;
  };
}

std::function<bool(const std::string&)> contents(const std::string& text) {
  return [=](const std::string& path) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return true;
  };
}

std::function<bool(const std::string&)> instead(const std::function<int(const char*)>& make) {
  return [=](const std::string& path) { return ::unlink(path.c_str()) == 0 && make(path.c_str()) == 0; };
}

int make_socket(const char* path) {
  const int s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::string(path).copy(address.sun_path, sizeof address.sun_path - 1);
  const int r = ::bind(s, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(s);
  return r;
}

int make_link(const char* path) {
  const std::string target = std::string(path) + ".target";
  std::ofstream(target) << "somebody's file";
  return ::symlink(target.c_str(), path);
}

std::vector<Bad> all_bad() {
  constexpr std::uint32_t later = engine::layout_version + 1;
  const std::string version =
      "layout version " + std::to_string(later) + ", this library has " + std::to_string(engine::layout_version);
  const std::string magic = "a segment with 0x64726f6f636d6873";
  return {
      {"empty", Errc::segment_foreign, contents(""), {"it has 0 bytes", "the header alone has"}},
      {"short text", Errc::segment_foreign, contents("hello\n"), {"it has 6 bytes", "the header alone has"}},
      {"long text", Errc::segment_foreign, contents(std::string(100'000, 'x')), {"0x7878787878787878", magic}},
      {"zeroes", Errc::segment_foreign, contents(std::string(8192, '\0')), {"it starts with 0x0,", magic}},
      {"cut within the header",
       Errc::segment_foreign,
       [](const std::string& path) { return ::truncate(path.c_str(), 100) == 0; },
       {"it has 100 bytes", "the header alone has"}},
      {"cut behind the header",
       Errc::segment_corrupt,
       [](const std::string& path) { return ::truncate(path.c_str(), 8192) == 0; },
       {"the file has 8192 bytes, its header says "}},
      {"another version", Errc::segment_version, with(offsetof(Header, version), later), {version}},
      {"another word size",
       Errc::segment_version,
       with(offsetof(Header, word_bits), 32U),
       {"word size in bits 32, this library has 64"}},
      {"the other byte order",
       Errc::segment_version,
       with(offsetof(Header, magic), __builtin_bswap64(engine::segment_magic)),
       {"the other byte order"}},
      {"another page size",
       Errc::segment_version,
       with(offsetof(Header, page_bytes), 65536U),
       {"page size 65536, this library has 4096"}},
      {"another time namespace",
       Errc::unsupported,
       with(offsetof(Header, time_namespace), std::uint64_t{12345}),
       {"time namespace 12345", std::to_string(engine::own_namespace(engine::NamespaceKind::time))}},
      {"sizes beyond all bounds",
       Errc::segment_corrupt,
       with(offsetof(Header, sizes), 0xffffffffU),
       {"4294967295 names", "allowed: 1 to "}},
      {"a directory",
       Errc::segment_foreign,
       instead([](const char* p) { return ::mkdir(p, 0700); }),
       {"it is a directory, not a regular file"}},
      {"a link", Errc::segment_foreign, instead(make_link), {"it is a symbolic link, not a regular file"}},
      {"a link to nothing",
       Errc::segment_foreign,
       instead([](const char* p) { return ::symlink("/nowhere/at/all", p); }),
       {"it is a symbolic link, not a regular file"}},
      {"a pipe",
       Errc::segment_foreign,
       instead([](const char* p) { return ::mkfifo(p, 0600); }),
       {"it is a pipe, not a regular file"}},
      {"a socket", Errc::segment_foreign, instead(make_socket), {"it is a socket, not a regular file"}},
      {"a device",
       Errc::segment_foreign,
       instead([](const char* p) { return ::mknod(p, S_IFCHR | 0600, ::makedev(1, 3)); }),
       {"it is a device, not a regular file"}},
  };
}

class BadSegment : public ToolTest, public ::testing::WithParamInterface<Bad> {
 protected:
  BadSegment() : ToolTest(SHMCOORD_TOOL_PATH), path_(file("segment")) {}

  [[nodiscard]] Picture picture() const {
    Picture p;
    EXPECT_EQ(::lstat(path_.c_str(), &p.st), 0);
    if (S_ISLNK(p.st.st_mode)) p.bytes = std::filesystem::read_symlink(path_).string() + read_file(path_ + ".target");
    if (!S_ISREG(p.st.st_mode)) return p;
    p.bytes.resize(200'000);
    std::ifstream in(path_, std::ios::binary);
    in.read(p.bytes.data(), static_cast<std::streamsize>(p.bytes.size()));
    p.bytes.resize(static_cast<std::size_t>(in.gcount()));
    return p;
  }
  void expect_both_sides(const std::string& text) const {
    EXPECT_NE(text.find(path_), std::string::npos) << text;
    for (const std::string& side : GetParam().says) EXPECT_NE(text.find(side), std::string::npos) << text;
  }

  std::string path_;
};

// F40 among others.
TEST_P(BadSegment, IsRefusedAndLeftAlone) {
  ASSERT_EQ(run({"-s", path_, "segment", "create", "--names", "64", "--entries", "64", "--sessions", "7"}).code(), 0);
  if (!GetParam().make(path_)) GTEST_SKIP() << "this machine lets us make no such file";
  const Picture before = picture();

  const std::vector<std::function<void()>> calls = {
      [&] { (void)Segment::open(path_); },
      [&] { (void)Segment::open_or_create(path_); },
      [&] { (void)Segment::create(path_); },
      [&] { Segment::remove(path_); },
  };
  for (const auto& call : calls) {
    try {
      call();
      ADD_FAILURE() << "it was taken for a segment";
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), GetParam().code) << e.what();
      expect_both_sides(e.what());
    }
    EXPECT_EQ(picture(), before);
  }

  const std::vector<std::vector<std::string>> commands = {
      {"run", "-l", "x", "--", "true"},
      {"lock", "acquire", "x", "--holder", "h"},
      {"inspect"},
      {"reap", "--once"},
      {"segment", "info"},
      {"segment", "check"},
      {"segment", "remove"},
  };
  for (const auto& command : commands) {
    SCOPED_TRACE(::testing::PrintToString(command));
    std::vector<std::string> words{"-s", path_};
    words.insert(words.end(), command.begin(), command.end());
    const Finished got = run(words);
    EXPECT_EQ(got.code(), 69) << got.err;
    expect_both_sides(got.err);
    EXPECT_EQ(got.out, "");
    EXPECT_EQ(picture(), before);
  }
}

std::string name_of_bad(const ::testing::TestParamInfo<Bad>& info) {
  std::string name = info.param.what;
  for (char& c : name) c = c == ' ' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BadSegment, ::testing::ValuesIn(all_bad()), name_of_bad);

class SegmentOfAnotherBoot : public ToolTest {
 protected:
  SegmentOfAnotherBoot() : ToolTest(SHMCOORD_TOOL_PATH) {}
};

// Not a bad file: everybody in it is dead.
TEST_F(SegmentOfAnotherBoot, ItsHoldersAreDeadAndTheFileIsGood) {
  const std::string path = file("segment");
  const std::vector<std::string> on{"-s", path};
  const auto with_path = [&](std::vector<std::string> words) {
    words.insert(words.begin(), on.begin(), on.end());
    return run(words);
  };
  ASSERT_EQ(with_path({"segment", "create", "--names", "64", "--entries", "64", "--sessions", "7"}).code(), 0);
  ASSERT_EQ(with_path({"lock", "acquire", "detached", "--holder", "old"}).code(), 0);
  const auto holder = start({"-s", path, "run", "-l", "held", "--holder", "old", "--", "sleep", "1000"});
  ASSERT_TRUE(eventually([&] {
    return with_path({"lock", "status", "held"}).out.find("held by") != std::string::npos;
  }));
  // A copy of what the disk had when the power went, seen after the next start.
  const std::string copy = file("copy");
  std::filesystem::copy_file(path, copy);
  const engine::Geometry geo = engine::geometry_of({.names = 64, .entries = 64, .sessions = 8});
  const int fd = ::open(copy.c_str(), O_RDWR | O_CLOEXEC);
  const auto flip = [&](std::uint64_t at) {
    unsigned char byte = 0;
    ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
    byte ^= 1U;
    ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  };
  flip(offsetof(Header, boot_id) + 3);
  for (std::uint64_t s = 1; s < 4; ++s)
    flip(geo.slots + s * sizeof(engine::SessionSlot) + offsetof(engine::SessionSlot, boot));
  for (std::uint64_t e = 0; e < 16; ++e) flip(geo.entries + e * sizeof(engine::Entry) + offsetof(engine::Entry, boot));
  ::close(fd);
  const auto at_copy = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"-s", copy});
    return run(words);
  };
  EXPECT_EQ(at_copy({"segment", "check"}).code(), 0);
  EXPECT_NE(at_copy({"inspect"}).out.find("everybody in it is dead"), std::string::npos);
  for (const char* const lock : {"held", "detached"}) {
    const Finished got = at_copy({"lock", "acquire", lock, "--holder", "new", "-n"});
    EXPECT_EQ(got.code(), 0) << got.err;
    EXPECT_NE(got.err.find("previous holder old"), std::string::npos) << got.err;
  }
  EXPECT_EQ(at_copy({"segment", "check"}).code(), 0);
  EXPECT_EQ(at_copy({"segment", "remove", "--force"}).code(), 0);
}

class SegmentGroup : public ToolTest {
 protected:
  SegmentGroup() : ToolTest(SHMCOORD_TOOL_PATH) {}
};

TEST_F(SegmentGroup, AGroupThatDoesNotExistMakesNothing) {
  const std::string path = file("segment");
  const Finished got = run({"-s", path, "segment", "create", "--group", "no-such-group"});
  EXPECT_EQ(got.code(), 64);
  EXPECT_NE(got.err.find("no group 'no-such-group'"), std::string::npos) << got.err;
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace shmcoord::test
