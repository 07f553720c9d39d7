#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_birth.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/error.hpp"

// A full file system is an error that names the file, never a SIGBUS; and looking allocates nothing (F38).

namespace shmcoord::engine {
namespace {

class SegmentSpace : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a small tmpfs in a mount namespace of its own";
    char pattern[] = "/tmp/shmcoord-test.XXXXXX";
    directory_ = ::mkdtemp(pattern);
  }
  void TearDown() override {
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  /// Runs `body` in a child that sees a tmpfs of that size; its EXPECTs count there, and the child's end here.
  void with_tmpfs(const char* size, const std::function<void(const std::string& path)>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string options = std::string("mode=0700,size=") + size;
      if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
          ::mount("tmpfs", directory_.c_str(), "tmpfs", 0, options.c_str()) != 0) {
        ::_exit(77);
      }
      body(directory_ + "/segment");
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "this machine lets us mount no tmpfs";
    EXPECT_FALSE(WIFSIGNALED(status)) << "died by signal " << WTERMSIG(status);
    EXPECT_EQ(status, 0);
  }
  static void expect_no_space(const std::string& path, const std::function<void()>& body) {
    try {
      body();
      ADD_FAILURE() << "there was room";
    } catch (const Error& e) {
      EXPECT_EQ(e.errc(), Errc::no_space) << e.what();
      EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
    }
  }

  std::string directory_;
};

TEST_F(SegmentSpace, CreatingInAFullOneLeavesNothing) {
  with_tmpfs("256k", [&](const std::string& path) {
    expect_no_space(path, [&] { Mapping::create(path); });
    expect_no_space(path, [&] { give_birth(path, {{}, 0600, std::nullopt}, path, BirthWay::temporary_name); });
    EXPECT_TRUE(std::filesystem::is_empty(directory_));
    const auto m = Mapping::create(path, {.sizes = {64, 64, 8}, .mode = 0600, .group = std::nullopt});
    EXPECT_EQ(m->view().header().sizes.names, 64U) << "a smaller one fits";
  });
}

TEST_F(SegmentSpace, AFullOneIsAnErrorAndEverythingInItGoesOn) {
  with_tmpfs("1m", [&](const std::string& path) {
    const auto m = Mapping::create(path);
    const View& view = m->view();
    m->ensure_slot(1);
    NameIndex<RealPolicy> index(view, m.get());
    const auto name = [](int i) { return "n" + std::to_string(i) + std::string(200, 'x'); };
    int inserted = 0;
    expect_no_space(path, [&] {
      for (;; ++inserted) index.find_or_insert(name(inserted), Kind::lock, 1, {}, 1);
    });
    EXPECT_GT(inserted, 100);
    EXPECT_EQ(view.slot(1).claiming.raw, 0U);
    for (int i = 0; i < inserted; ++i) EXPECT_TRUE(index.find(name(i)).has_value());
    EXPECT_FALSE(index.find(name(inserted)).has_value());
    EXPECT_FALSE(m->try_ensure(view.geo.long_texts, long_text_bytes));
    expect_no_space(path, [&] { m->ensure_entry(0); });
    int seen = 0;
    index.for_each_live([&](Found, std::string_view, const Record&) { ++seen; });
    EXPECT_EQ(seen, inserted);
    // A name less is a record and a row more.
    const Found found = *index.find(name(0));
    const auto close = [&] {
      Word128& word = view.record(found.record).control;
      const core::Control c = RealPolicy::load(word);
      return RealPolicy::cas(word, c, core::Control{c.seq + 1, 0, nil_entry, nil_entry, core::Op::close});
    };
    EXPECT_EQ(index.remove(found, 1, close), Removal::removed);
    EXPECT_TRUE(index.find_or_insert(name(inserted), Kind::lock, 1, {}, 1).inserted);
  });
}

TEST_F(SegmentSpace, LongTextsThatDoNotFitLeaveTheOldOnes) {
  with_tmpfs("128k", [&](const std::string& path) {
    const auto m = Mapping::create(path, {.sizes = {64, 64, 8}, .mode = 0600, .group = std::nullopt});
    const View& view = m->view();
    m->ensure_entry(0);
    ASSERT_TRUE(write_texts(view, *m, 0, "me", "short"));
    bool full = false;
    for (EntryIndex i = 1; i < 64 && !full; ++i) {
      m->ensure_entry(i);
      full = !write_texts(view, *m, i, "me", std::string(4096, 'r'));
    }
    EXPECT_TRUE(full);
    EXPECT_FALSE(write_texts(view, *m, 0, "me", std::string(4096, 'r')) &&
                 !view.pages_exist(view.geo.long_texts, long_text_bytes));
    EXPECT_EQ(read_texts(view, 0).holder, "me");
  });
}

TEST_F(SegmentSpace, NoticesThatDoNotAllFitTakeWhatThereIs) {
  with_tmpfs("1m", [&](const std::string& path) {
    const auto m = Mapping::create(path);
    const View& view = m->view();
    const auto blocks = [&] {
      struct stat st {};
      ::stat(path.c_str(), &st);
      return static_cast<std::uint64_t>(st.st_blocks) * 512;
    };
    const auto exists = [&](RecordIndex r) {
      return view.pages_exist(view.offset_of(&view.notice_rest(r)), sizeof(NoticeRest));
    };
    // Neighbours, and one further away: no page that none of them needs.
    const std::uint64_t empty = blocks();
    const std::vector<RecordIndex> few{0, 0, 1, 100};
    m->prepare_notices(Mapping::NoticePart::rest, few);
    for (const RecordIndex r : few) EXPECT_TRUE(exists(r)) << r;
    EXPECT_EQ(blocks() - empty, 2 * page_size);
    EXPECT_FALSE(exists(50));
    // A run that is longer than the room, with an index that damage made.
    std::vector<RecordIndex> many(4'000);
    std::iota(many.begin(), many.end(), 1'000);
    many.push_back(1'000'000);
    m->prepare_notices(Mapping::NoticePart::rest, many);
    EXPECT_FALSE(exists(4'999)) << "there was room for all";
    std::size_t there = 0;
    for (RecordIndex r = 1'000; r < 5'000 && exists(r); ++r) ++there;
    EXPECT_GT(there, 100U) << "what there was room for";
    EXPECT_FALSE(m->try_ensure(view.geo.long_texts, long_text_bytes)) << "nothing was left over";
  });
}

TEST_F(SegmentSpace, LookingAllocatesNothing) {
  with_tmpfs("4m", [&](const std::string& path) {
    const auto m = Mapping::create(path);
    m->ensure_slot(1);
    NameIndex<RealPolicy> index(m->view(), m.get());
    for (int i = 0; i < 50; ++i) index.find_or_insert("n" + std::to_string(i), Kind::lock, 1, {}, 1);
    const auto blocks = [&] {
      struct stat st {};
      ::stat(path.c_str(), &st);
      return st.st_blocks;
    };
    const auto before = blocks();
    // Claims of more than there is, as damage would make them.
    m->view().header().record_high.raw = 60'000;
    int seen = 0;
    index.for_each_live([&](Found, std::string_view, const Record&) { ++seen; });
    EXPECT_EQ(seen, 50);
    EXPECT_FALSE(index.find("nobody").has_value());
    EXPECT_EQ(index.name_of({50'000, 1}), "");
    index.recover_claim(1);
    EXPECT_EQ(blocks(), before);
  });
}

}  // namespace
}  // namespace shmcoord::engine
