#include "engine/segment_name.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "shmcoord/error.hpp"

namespace shmcoord::engine {
namespace {

std::string refusal(const std::string& name) {
  try {
    return "accepted: " + segment_path(name);
  } catch (const Error& e) {
    EXPECT_EQ(e.errc(), Errc::invalid_argument);
    return e.what();
  }
}

TEST(SegmentName, LeadsToAFileOfThatName) {
  EXPECT_EQ(segment_path("build"), std::string(segment_directory) + "/" + std::string(segment_prefix) + "build");
  EXPECT_EQ(segment_path("two words"), segment_path("two") + " words");
  EXPECT_EQ(segment_path(std::string(max_segment_name, 'x')),
            segment_path("x") + std::string(max_segment_name - 1, 'x'));
  EXPECT_EQ(segment_path("/tmp/x"), "/tmp/x");
  EXPECT_EQ(segment_path("./x"), std::filesystem::absolute("./x").string());
}

TEST(SegmentName, OthersAreRefusedWithTheReason) {
  EXPECT_EQ(refusal(""), "segment name is empty");
  EXPECT_EQ(refusal("a\nb"), "segment name contains a control character") << "it must not reach a terminal";
  EXPECT_EQ(refusal("\xff"), "segment name is not valid UTF-8");
  EXPECT_EQ(refusal(".x"), "segment name \".x\" starts with a dot");
  EXPECT_EQ(refusal(" x"), "segment name \" x\" starts or ends with a space");
  EXPECT_EQ(refusal("x "), "segment name \"x \" starts or ends with a space");
  const std::string long_name(max_segment_name + 1, 'x');
  EXPECT_EQ(refusal(long_name), "segment name \"" + long_name + "\" is longer than 200 bytes");
  EXPECT_EQ(check_segment_name("a/b"), "contains a slash");
  EXPECT_EQ(refusal("a/b/"), "segment path \"a/b/\" ends with a slash: it names a directory");
  EXPECT_EQ(refusal(std::string("a/b\0c", 5)), "segment path contains a zero byte");
}

}  // namespace
}  // namespace shmcoord::engine
