#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

// What a fuzzer once broke, again with every build: each ends, and nothing is read where nothing is.

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace shmcoord::test {

inline void expect_seeds_end(const std::string& target) {
  const std::filesystem::path folder = SHMCOORD_SOURCE_DIR "/tests/fuzz/seeds/" + target;
  std::vector<std::filesystem::path> seeds(std::filesystem::directory_iterator(folder), {});
  ASSERT_FALSE(seeds.empty());
  std::sort(seeds.begin(), seeds.end());
  for (const auto& seed : seeds) {
    SCOPED_TRACE(seed.filename());
    std::ifstream file(seed, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_FALSE(bytes.empty());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
  }
}

}  // namespace shmcoord::test
