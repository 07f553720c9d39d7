#pragma once

#include <cstdint>

// Where pages of the segment come from. The file is sparse: a page that was never allocated must not be touched,
// neither written nor read (a read of a hole allocates as well, and ends in SIGBUS when the file system is full). Code
// that is about to use a new row of a table asks here first. The mapped file is one source (segment_file.hpp); tests on
// plain memory use AllPagesExist.

namespace shmcoord::engine {

class PageSource {
 public:
  PageSource() = default;
  PageSource(const PageSource&) = delete;
  PageSource& operator=(const PageSource&) = delete;
  virtual ~PageSource() = default;

  /// Makes all pages of [offset, offset + bytes) exist. False: no space (or not writable); nothing else changed. Cheap
  /// when they exist already. Any thread, any process, any number at once; a death inside leaves at most a page that is
  /// allocated and not yet marked so, which the next call finds.
  [[nodiscard]] virtual bool try_ensure(std::uint64_t offset, std::uint64_t bytes) const noexcept = 0;
  /// The same for code that may throw: Error, with the path and what to do.
  virtual void ensure(std::uint64_t offset, std::uint64_t bytes) = 0;
};

/// For a segment in plain memory.
class AllPagesExist final : public PageSource {
 public:
  [[nodiscard]] bool try_ensure(std::uint64_t, std::uint64_t) const noexcept override { return true; }
  void ensure(std::uint64_t, std::uint64_t) override {}
};

}  // namespace shmcoord::engine
