#include "shmcoord/joined.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "support/process_child.hpp"

// A segment that nobody uses may be removed at any moment, also between the opening and the first try of a lock.

namespace shmcoord::tool {
namespace {

class Joined : public ::testing::Test {
 protected:
  Joined() { global_.segment = segment_.name(); }
  void remove() const { engine::Mapping::remove(global_.segment); }

  const test::OwnSegment segment_;
  Global global_;
};

TEST_F(Joined, WhoMakesMissingSegmentsDoesItAgain) {
  int removals = 3;
  const auto first = segment_.view().header().segment_id;
  const auto id = join_and(global_, IfMissing::create, "", [&](const std::shared_ptr<process::Participant>& joined) {
    if (removals-- > 0) remove();
    joined->require_usable();
    return joined->mapping().view().header().segment_id;
  });
  EXPECT_EQ(removals, -1);
  EXPECT_NE(id, first);
}

TEST_F(Joined, WhoOnlyOpensIsToldThatThereIsNone) {
  try {
    (void)join_and(global_, IfMissing::fail, "", [&](const std::shared_ptr<process::Participant>& joined) {
      remove();
      joined->require_usable();
      return true;
    });
    FAIL() << "it joined nothing";
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::segment_not_found);
  }
}

TEST_F(Joined, NobodyTriesForEver) {
  int tries = 0;
  try {
    (void)join_and(global_, IfMissing::create, "", [&](const std::shared_ptr<process::Participant>&) -> bool {
      ++tries;
      throw Error(Errc::segment_gone, "gone");
    });
    FAIL() << "it made something of nothing";
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::segment_gone);
  }
  EXPECT_GT(tries, 10);
}

}  // namespace
}  // namespace shmcoord::tool
