#include "engine/notice.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/sim_segment.hpp"

namespace shmcoord::engine {
namespace {

class NoticeOf : public testing::Test {
 protected:
  void holds(const std::string& holder) {
    AllPagesExist pages;
    ASSERT_TRUE(write_texts(view(), pages, 0, holder, "why"));
    view().entry(0).since_ns.raw = 1'234'567'890'123'456'789;
  }
  void write(std::uint64_t seq) const {
    write_notice<RealPolicy>(view(), 1, 0, seq, [] { return true; });
  }
  [[nodiscard]] NoticeText read(std::uint64_t seq) const {
    return read_notice<RealPolicy>(view(), 1, handoff_stamp(1, seq));
  }
  [[nodiscard]] const View& view() const { return segment_.view(); }
  void take_page(std::uint64_t offset) const {
    Word64* const bitmap = reinterpret_cast<Word64*>(view().base + view().geo.bitmap);
    bitmap[offset / page_size / 64].raw &= ~(1ULL << (offset / page_size % 64));
  }

  sim::Segment segment_{2};
};

TEST_F(NoticeOf, aHolderOfEachLengthIsToldWhole) {
  std::string holder;
  for (std::uint64_t seq = 10; holder.size() <= max_holder; ++seq) {
    holds(holder);
    write(seq);
    const NoticeText text = read(seq);
    EXPECT_EQ(text.holder, holder);
    EXPECT_EQ(text.pid, sim::Segment::pid_of(0));
    EXPECT_EQ(text.since_ns, 1'234'567'890'123'456'789);
    EXPECT_TRUE(read(seq + 1).holder.empty()) << "another robbery's";
    holder += static_cast<char>(0x80 + holder.size());
  }
}

TEST_F(NoticeOf, oneWordOfAnotherRobberyAndNothingIsTold) {
  for (const std::size_t bytes : {std::size_t{1}, short_notice_holder, short_notice_holder + 1, max_holder}) {
    for (std::size_t at = 0; at < (notice_head_bytes + bytes + notice_word_bytes - 1) / notice_word_bytes; ++at) {
      holds(std::string(bytes, 'h'));
      write(10);
      Notice& head = view().notice(1);
      Word128& word = at < head.words.size() ? head.words[at] : view().notice_rest(1).words[at - head.words.size()];
      const Word128 before = word;
      ++word.seq;
      EXPECT_TRUE(read(10).holder.empty()) << bytes << ' ' << at;
      word = before;
      EXPECT_EQ(read(10).holder.size(), bytes) << at;
      write(11);  // the next one overwrites all
      EXPECT_EQ(read(11).holder.size(), bytes) << at;
    }
  }
}

TEST_F(NoticeOf, withoutTheSecondPageItIsToldWithoutTheName) {
  take_page(view().geo.notice_rests);
  holds(std::string(short_notice_holder, 's'));
  write(10);
  EXPECT_EQ(read(10).holder.size(), short_notice_holder);
  EXPECT_FALSE(needs_notice_rest(view(), 0));
  holds(std::string(short_notice_holder + 1, 'l'));
  EXPECT_TRUE(needs_notice_rest(view(), 0));
  write(11);
  EXPECT_EQ(read(11).holder, "");
  EXPECT_EQ(read(11).pid, sim::Segment::pid_of(0));
  take_page(view().geo.notices);
  EXPECT_EQ(read(11).pid, 0);
}

}  // namespace
}  // namespace shmcoord::engine
