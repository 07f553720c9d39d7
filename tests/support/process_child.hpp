#pragma once

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "support/common.hpp"
#include "support/sound.hpp"

// Real processes for tests: a segment of its own for each test, forked children that say when they are ready, memory
// that both sides see, and waits that a watchdog ends.

namespace shmcoord::test {

/// A new segment with a unique name; at the end, whoever made it finds it sound and removes it.
class OwnSegment {
 public:
  explicit OwnSegment(engine::Sizes sizes = {.names = 64, .entries = 512, .sessions = 64}, std::uint32_t flags = 0)
      : maker_(::getpid()) {
    static int count = 0;
    name_ = "test-" + std::to_string(maker_) + "-" + std::to_string(++count);
    mapping_ = engine::Mapping::create(name_, {.sizes = sizes, .mode = 0600, .group = {}, .flags = flags});
  }
  ~OwnSegment() {
    if (::getpid() != maker_) return;
    if (!damaged_) expect_sound(*mapping_);
    try {
      engine::Mapping::remove(name_);
    } catch (const std::exception&) {
      ::unlink(mapping_->path().c_str());  // a test may have removed it already
    }
  }
  OwnSegment(const OwnSegment&) = delete;
  OwnSegment& operator=(const OwnSegment&) = delete;

  [[nodiscard]] const std::shared_ptr<engine::Mapping>& mapping() const { return mapping_; }
  [[nodiscard]] const engine::View& view() const { return mapping_->view(); }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// The test overwrites what it should not.
  void damaged_on_purpose() { damaged_ = true; }

 private:
  pid_t maker_;
  bool damaged_ = false;
  std::string name_;
  std::shared_ptr<engine::Mapping> mapping_;
};

#if defined(SHMCOORD_MUTATIONS)
inline constexpr std::int64_t watchdog_ns = 5'000'000'000;  // what was taken away is often what ends a wait
#else
inline constexpr std::int64_t watchdog_ns = 60'000'000'000;
#endif

/// Asks again and again until it is true; false when the watchdog ends it.
template <class Condition>
bool eventually(Condition&& condition, std::int64_t within_ns = watchdog_ns) {
  const std::int64_t end = engine::RealPolicy::now_ns() + within_ns;
  while (!condition()) {
    if (engine::RealPolicy::now_ns() > end) return false;
    ::usleep(200);
  }
  return true;
}

/// A forked child that runs a function and exits with its result. It can tell its parent once that it is ready, with a
/// number, and can be told to go on. Killed and reaped at the end in any case.
class Child {
 public:
  class Line {
   public:
    void ready(std::int64_t number = 0) const { static_cast<void>(!::write(to_parent, &number, sizeof number)); }
    /// Blocks until the parent says go(), or is gone.
    void await_go() const {
      char c = 0;
      while (::read(from_parent, &c, 1) < 0) {
      }
    }
    int to_parent = -1;
    int from_parent = -1;
  };

  explicit Child(const std::function<int(const Line&)>& run) {
    int up[2] = {-1, -1};
    int down[2] = {-1, -1};
    if (::pipe(up) != 0 || ::pipe(down) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(up[0]);
      ::close(down[1]);
      ::signal(SIGPIPE, SIG_IGN);
      int code = 99;
      try {
        code = run(Line{up[1], down[0]});
      } catch (const std::exception& e) {
        static_cast<void>(!::write(2, e.what(), std::string(e.what()).size()));
      }
      ::_exit(code);
    }
    ::close(up[1]);
    ::close(down[0]);
    from_child_ = up[0];
    to_child_ = down[1];
  }
  Child(Child&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)),
        from_child_(std::exchange(other.from_child_, -1)),
        to_child_(std::exchange(other.to_child_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::kill(pid_, SIGCONT);
      wait();
    }
    if (from_child_ >= 0) ::close(from_child_);
    if (to_child_ >= 0) ::close(to_child_);
  }

  [[nodiscard]] pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  void go() const { static_cast<void>(!::write(to_child_, "g", 1)); }

  /// What the child said with ready(); -1 if it ended instead or the watchdog did.
  [[nodiscard]] std::int64_t wait_ready() const {
    pollfd p{from_child_, POLLIN, 0};
    std::int64_t number = -1;
    if (::poll(&p, 1, static_cast<int>(watchdog_ns / 1'000'000)) != 1) return -1;
    return ::read(from_child_, &number, sizeof number) == sizeof number ? number : -1;
  }

  /// Reaps it: its exit code, or -signal.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  int from_child_ = -1;
  int to_child_ = -1;
};

}  // namespace shmcoord::test
