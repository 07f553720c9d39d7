#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "process/snapshot.hpp"
#include "shmcoord/guard_flag.hpp"
#include "shmcoord/testing.hpp"
#include "support/face_fixture.hpp"

// What the tests of registered guards have in common.

namespace shmcoord {
using namespace std::chrono_literals;  // of its tests alone
using C = GuardCondition;
using testing::Child;

inline bool passed(const GuardOutcome& outcome) { return std::holds_alternative<GuardPassed>(outcome); }
inline std::string reason(const GuardOutcome& outcome) {
  const auto* const failed = std::get_if<GuardFailed>(&outcome);
  return failed == nullptr ? "passed" : failed->reason;
}
template <class F>
Errc error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.errc();
  }
  return Errc{};
}

/// Files as this process sees them.
class RealFiles final : public GuardFiles {
 public:
  bool exists(const std::string& path, const GuardDeadline&) override {
    asked.fetch_add(1);
    return std::filesystem::exists(path);
  }
  bool contains(const std::string& path, const std::string& pattern, const GuardDeadline&) override {
    std::ifstream in(path);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    return all.find(pattern) != std::string::npos;
  }
  std::atomic<int> asked = 0;
};

class GuardFlags : public testing::FaceTest {
 protected:
  GuardFlags() : directory_(std::filesystem::temp_directory_path() / name_) {
    std::filesystem::create_directories(directory_);
  }
  ~GuardFlags() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] GuardExecutor executor() const {
    return GuardExecutor{{.primitives = primitives_of(segment_), .sessions = sessions_of(segment_), .files = files_}};
  }
  [[nodiscard]] std::string path(const std::string& file) const { return (directory_ / file).string(); }
  static void write(const std::string& path, const std::string& text = "") { std::ofstream(path) << text; }
  /// One that needs several parts.
  static Guard long_guard(const std::string& name, char word) {
    std::vector<C> all;
    for (int i = 0; i < 40; ++i) all.push_back(C::lock_free(std::string(200, word) + std::to_string(i)));
    return {name, C::all(all), Block{}, {}};
  }

  std::filesystem::path directory_;
  std::shared_ptr<RealFiles> files_ = std::make_shared<RealFiles>();
};

}  // namespace shmcoord
