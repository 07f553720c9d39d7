#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/segment_file.hpp"

// One instruction after the other of a real process, and what the segment looks like after each.
//
// The child is traced by the thread that forked it. The text of both is the same, at the same addresses, so what the
// child executes next is read from our own memory. Only x86-64: on machines with load-linked instructions a single step
// between load and store makes the store fail for ever.
//
// The session's keeper is a thread of the same process. While the main thread is stepped the keeper is held still in
// its sleep, so that every change of the memory comes from the instruction that was stepped, and so that the death of
// somebody else is found by the operation and not by the ring. Where the operation needs the keeper (joining, leaving)
// it runs; then an image may have its changes too, as in life, but is never torn: it is read twice and taken when both
// are equal.

namespace shmcoord::test {

/// The stepping starts where the child calls the first and ends where it calls the second.
[[gnu::noinline]] void operation_begins() noexcept;
[[gnu::noinline]] void operation_ends() noexcept;

class Stepper {
 public:
  enum class State : std::uint8_t { stopped, asleep, ended, dead };

  /// Why nobody can be stepped here; empty if it works.
  [[nodiscard]] static std::string refused();

  /// Takes hold of a forked child that waits in a system call, and holds its thread `still` (0: none).
  Stepper(pid_t pid, pid_t still);
  /// Kills it, unless it was let go.
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  /// `go` tells the child to begin; returns when it is at operation_begins(). False: it did something else.
  [[nodiscard]] bool begin(const std::function<void()>& go);
  /// Called when the thread sleeps inside a system call, once for each. True: it will wake. False: leave it asleep.
  std::function<bool()> on_asleep = [] { return true; };

  /// Executes one instruction; of one that repeats itself, one round.
  State step();
  /// Runs until it is about to execute the instruction there for that time (from operation_begins() on, 1 is the
  /// first). `ended` if it did not come there.
  State run_to(std::uintptr_t address, std::uint64_t time);

  /// Of the next instruction.
  [[nodiscard]] std::uintptr_t at() const noexcept { return at_; }
  [[nodiscard]] bool at_system_call() const noexcept;

  void kill() noexcept;
  /// Lets it run on by itself.
  void let_go() noexcept;

 private:
  class Breakpoint;
  State resume(int request);
  State await(bool may_sleep);
  State stopped_with(int status);
  void hold(pid_t thread);

  pid_t pid_;
  pid_t still_ = 0;
  bool traced_ = true;
  std::uintptr_t at_ = 0;
  int signal_ = 0;  // to be delivered when it goes on
};

/// The memory of a segment as it was when it last changed.
class SegmentImage {
 public:
  explicit SegmentImage(const engine::Mapping& mapping);
  /// Looks again. True: something is different.
  bool changed();
  [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::vector<std::uint64_t>& pages() const noexcept { return pages_; }
  [[nodiscard]] std::uint64_t hash() const noexcept;
  [[nodiscard]] const engine::Mapping& mapping() const noexcept { return mapping_; }

 private:
  void look_for_pages();
  void copy_pages();

  const engine::Mapping& mapping_;
  std::vector<std::byte> bytes_;      // of the whole file; zeroes where no page is
  std::vector<std::uint64_t> pages_;  // that exist: reading others would make them
};

/// A segment of its own that starts with such an image; removed at the end.
class SegmentCopy {
 public:
  explicit SegmentCopy(const SegmentImage& image);
  ~SegmentCopy();
  SegmentCopy(const SegmentCopy&) = delete;
  SegmentCopy& operator=(const SegmentCopy&) = delete;

  [[nodiscard]] const std::shared_ptr<engine::Mapping>& mapping() const noexcept { return mapping_; }
  [[nodiscard]] const engine::View& view() const noexcept { return mapping_->view(); }
  /// What the kernel does when the process of that pid ends: the life words that its keepers hold. Its lock bytes are
  /// not locked in this file.
  void die(pid_t pid) const;

 private:
  std::string name_;
  std::shared_ptr<engine::Mapping> mapping_;
};

}  // namespace shmcoord::test
