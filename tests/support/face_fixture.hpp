#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <string>

#include "process/face.hpp"
#include "process/recovery.hpp"
#include "shmcoord/shmcoord.hpp"
#include "support/sound.hpp"

// A segment of the test's own, removed at its end, and children that do something with it.

namespace shmcoord::testing {

/// A child process running `body`; killed and reaped at the end if it still runs.
class Child {
 public:
  /// `body` gets the write end of a pipe: each byte that it writes is what next() waits for.
  explicit Child(const std::function<void(int ready)>& body) {
    int ends[2];
    if (::pipe(ends) != 0) ::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    kill(SIGKILL);
    wait();
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  /// Waits for the child's next byte; 0: it ended.
  char next() {
    char c = 0;
    return ::read(from_, &c, 1) == 1 ? c : '\0';
  }
  void kill(int signal) const {
    if (pid_ > 0) ::kill(pid_, signal);
  }
  /// Wait status; -1 if it was waited for already.
  int wait() {
    int status = -1;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

inline void say(int ready, char c) { (void)!::write(ready, &c, 1); }

class FaceTest : public ::testing::Test {
 protected:
  FaceTest()
      : name_("test-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()),
        segment_(Segment::create(name_, {.names = 64, .entries = 4096, .sessions = 64})) {}
  ~FaceTest() override {
    test::expect_sound(*detail::Access::mapping(segment_));
    Segment::remove(name_, true);
  }
  FaceTest(const FaceTest&) = delete;
  FaceTest& operator=(const FaceTest&) = delete;

  /// How many wait for anything.
  [[nodiscard]] std::size_t waiters() const {
    const auto& mapping = *detail::Access::mapping(segment_);
    const auto snapshot = process::take_snapshot(mapping, engine::RealPolicy::now_ns());
    return static_cast<std::size_t>(std::count_if(snapshot.entries.begin(), snapshot.entries.end(),
                                                  [](const auto& e) { return e.phase == engine::Phase::waiting; }));
  }
  void until_waiting(std::size_t count) const {
    while (waiters() != count) ::usleep(1000);
  }

  std::string name_;
  Segment segment_;
};

}  // namespace shmcoord::testing
