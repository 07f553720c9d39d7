#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/entry_text.hpp"

namespace shmcoord::engine {
namespace {

class SegmentText : public testing::Test {
 protected:
  SegmentText() : view_{nullptr, geometry_of({4, 16, 4})}, memory_(view_.geo.total + page_size) {
    view_.base = reinterpret_cast<std::byte*>(memory_.data());
    view_.base += page_size - reinterpret_cast<std::uintptr_t>(view_.base) % page_size;
    std::memset(view_.base + view_.geo.bitmap, 0xff, view_.geo.buckets - view_.geo.bitmap);
  }
  bool write(EntryIndex i, std::string_view holder, std::string_view reason) {
    return write_texts(view_, pages_, i, holder, reason);
  }

  View view_;
  std::vector<char> memory_;
  AllPagesExist pages_;
};

TEST_F(SegmentText, ComesBackAsWrittenAtEveryLength) {
  for (const std::size_t holder : {0U, 1U, 7U, 8U, 9U, 127U, 128U, 129U, 255U}) {
    for (const std::size_t reason : {0U, 1U, 8U, 100U, 120U, 121U, 128U, 129U, 4095U, 4096U}) {
      const std::string h(holder, 'h');
      const std::string r(reason, 'r');
      ASSERT_TRUE(write(3, h, r));
      const EntryTexts texts = read_texts(view_, 3);
      EXPECT_TRUE(texts.settled);
      EXPECT_EQ(texts.holder, h);
      EXPECT_EQ(texts.reason, r);
      EXPECT_TRUE(holder_equals(view_, 3, h));
      EXPECT_FALSE(holder_equals(view_, 3, h + "x"));
      if (holder > 0) {
        EXPECT_FALSE(holder_equals(view_, 3, h.substr(1)));
        std::string other = h;
        other.back() = 'x';
        EXPECT_FALSE(holder_equals(view_, 3, other));
      }
    }
  }
}

TEST_F(SegmentText, NeighboursKeepTheirs) {
  for (EntryIndex i = 0; i < 16; ++i)
    ASSERT_TRUE(write(i, "h" + std::to_string(i), std::string(4096, static_cast<char>('a' + i))));
  for (EntryIndex i = 0; i < 16; ++i) {
    const EntryTexts texts = read_texts(view_, i);
    EXPECT_EQ(texts.holder, "h" + std::to_string(i));
    EXPECT_EQ(texts.reason, std::string(4096, static_cast<char>('a' + i)));
  }
}

TEST_F(SegmentText, ReadersSeeOneWritingOrAnotherNeverAMixture) {
  std::atomic<bool> stop{false};
  ASSERT_TRUE(write(0, "a", "a"));
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      const char c = static_cast<char>('a' + i % 26);
      (void)write(0, std::string(static_cast<std::size_t>(1 + i % 97), c),
                  std::string(static_cast<std::size_t>(i % 61), c));
    }
  });
  int settled = 0;
  for (int i = 0; i < 30'000; ++i) {
    const EntryTexts texts = read_texts(view_, 0);
    if (!texts.settled) continue;
    ++settled;
    const std::string all = texts.holder + texts.reason;
    ASSERT_EQ(all, std::string(all.size(), all[0]));
  }
  stop = true;
  writer.join();
  EXPECT_GT(settled, 0);
}

TEST_F(SegmentText, AnOwnerWhoDiedWhileWritingIsSaidSo) {
  ASSERT_TRUE(write(0, "me", "why"));
  view_.entry(0).text_version.raw += 1;
  const EntryTexts texts = read_texts(view_, 0);
  EXPECT_FALSE(texts.settled);
  EXPECT_EQ(texts.holder, "me");
  EXPECT_TRUE(holder_equals(view_, 0, "me")) << "else nobody could release a detached hold any more";
  EXPECT_FALSE(holder_equals(view_, 0, "you"));
  ASSERT_TRUE(write(0, "next", ""));
  EXPECT_TRUE(read_texts(view_, 0).settled);
}

TEST_F(SegmentText, GarbageIsNeverFollowedOutOfBounds) {
  std::minstd_rand random(3);
  for (int i = 0; i < 5000; ++i) {
    auto* const p = reinterpret_cast<unsigned char*>(&view_.entry(0));
    for (std::size_t k = 0; k < sizeof(Entry); ++k) p[k] = static_cast<unsigned char>(random());
    if (i % 2 == 0) view_.entry(0).text_version.raw &= ~1U;
    const EntryTexts texts = read_texts(view_, 0);
    EXPECT_LE(texts.holder.size(), max_holder);
    EXPECT_LE(texts.reason.size(), max_reason);
    (void)holder_equals(view_, 0, "x");
  }
  view_.entry(0).holder_bytes = 200;
  view_.entry(0).reason_bytes = 200;
  std::memset(view_.base + view_.geo.bitmap, 0, view_.geo.buckets - view_.geo.bitmap);
  EXPECT_EQ(read_texts(view_, 0).holder, "") << "the row's page does not exist";
}

}  // namespace
}  // namespace shmcoord::engine
