#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// What the fuzzer once broke, again with every build: each ends, and nothing is read where nothing is.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace shmcoord::test {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(SHMCOORD_SOURCE_DIR "/tests/fuzz/seeds")) {
    names.push_back(file.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(SegmentFuzz, SeedsComeToAnEnd) {
  ASSERT_FALSE(seeds().empty());
  for (const std::string& name : seeds()) {
    SCOPED_TRACE(name);
    std::ifstream file(SHMCOORD_SOURCE_DIR "/tests/fuzz/seeds/" + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_FALSE(bytes.empty());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

}  // namespace
}  // namespace shmcoord::test
