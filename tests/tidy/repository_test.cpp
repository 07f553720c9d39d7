#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "rules.hpp"

// The rules of rules.hpp, over the repository this was built from.

namespace tidy {

static void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.name; }

}  // namespace tidy

namespace {

namespace fs = std::filesystem;

tidy::Tree read_repository() {
  const fs::path top = SHMCOORD_SOURCE_DIR;
  tidy::Tree tree;
  for (const auto& entry : fs::directory_iterator(top)) {
    tree.top_level.push_back(entry.path().filename().string());
  }
  for (auto walk = fs::recursive_directory_iterator(top); walk != fs::recursive_directory_iterator(); ++walk) {
    const auto path = fs::relative(walk->path(), top).string();
    if (path == "build" || path == ".git" || path == ".cache") {
      walk.disable_recursion_pending();
    } else if (walk->is_regular_file()) {
      std::ifstream in(walk->path(), std::ios::binary);
      tree.files.push_back({path, {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()}});
    }
  }
  return tree;
}

const tidy::Tree& repository() {
  static const tidy::Tree tree = read_repository();
  return tree;
}

class Repository : public testing::TestWithParam<tidy::Rule> {};

TEST_P(Repository, Obeys) {
  for (const auto& finding : GetParam().check(repository())) {
    ADD_FAILURE() << finding.path << ":" << finding.line << ": " << finding.what;
  }
}

INSTANTIATE_TEST_SUITE_P(The, Repository, testing::ValuesIn(tidy::rules()),
                         [](const auto& rule) { return rule.param.name; });

TEST(RepositoryItself, WasRead) {
  EXPECT_GT(repository().files.size(), 20U);
  for (const auto* name : {"README.md", "src", "include", "tests"}) {
    EXPECT_TRUE(tidy::is_one_of(name, repository().top_level)) << name;
  }
}

// Who includes shmcoord.hpp has all of it but for components, fakes, and what no program includes.
TEST(RepositoryItself, HasItsWholeFaceInOneHeader) {
  constexpr std::array others{"shmcoord.hpp", "adapters.hpp", "tasks.hpp", "testing.hpp", "export.hpp"};
  std::string face;
  std::vector<std::string> headers;
  for (const auto& file : repository().files) {
    const fs::path path = file.path;
    if (path == "include/shmcoord/shmcoord.hpp") face = file.text;
    if (path.parent_path() == "include/shmcoord") headers.push_back(path.filename());
  }
  ASSERT_FALSE(face.empty());
  for (const std::string& header : headers) {
    if (tidy::is_one_of(header, others)) continue;
    EXPECT_NE(face.find("#include \"shmcoord/" + header + "\""), std::string::npos) << header;
  }
}

}  // namespace
