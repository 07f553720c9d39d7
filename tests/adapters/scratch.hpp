#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>

#include "shmcoord/guard_executor.hpp"

// A directory for each test, the deadlines that ports get, and what a port says when it throws.

namespace shmcoord::test {

namespace fs = std::filesystem;

/// Far away: a watchdog, not a measure.
inline GuardDeadline patient(std::stop_token stop = {}) {
  return {std::chrono::steady_clock::now() + std::chrono::seconds(60), std::move(stop)};
}
inline GuardDeadline within(std::chrono::milliseconds time) { return {std::chrono::steady_clock::now() + time, {}}; }

/// what() of the exception; "no exception" if there is none.
template <class Call>
std::string reason(const Call& call) {
  try {
    (void)call();
  } catch (const std::exception& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "no exception";
}

class ScratchTest : public ::testing::Test {
 protected:
  ScratchTest() {
    std::string name = (fs::temp_directory_path() / "shmcoord-adapters-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ::abort();
    scratch_ = fs::canonical(name);
  }
  ~ScratchTest() override {
    std::error_code ignored;
    fs::remove_all(scratch_, ignored);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  fs::path scratch_;
};

}  // namespace shmcoord::test
