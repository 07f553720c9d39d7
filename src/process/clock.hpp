#pragma once

#include <cstdint>

#include "engine/words.hpp"

// What time it is, as an argument that can be replaced (C-43).
//
// Everything that decides uses CLOCK_MONOTONIC, which all processes of one host share, which never steps, and which
// does not run while the host is suspended, so that leases do not expire in a sleeping laptop. The wall clock is for
// people to read and decides nothing.

namespace shmcoord::process {

class Clock {
 public:
  virtual ~Clock() = default;
  /// CLOCK_MONOTONIC, exact.
  [[nodiscard]] virtual std::int64_t now_ns() const noexcept = 0;
  /// Nanoseconds since 1970, for display only.
  [[nodiscard]] virtual std::int64_t wall_ns() const noexcept = 0;
};

/// The host's clocks. Lives for ever, usable from every thread.
[[nodiscard]] const Clock& real_clock() noexcept;

/// A clock that stands still until it is told to go. Usable from every thread.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(std::int64_t start_ns = 1'000'000'000'000) noexcept { set(start_ns); }
  [[nodiscard]] std::int64_t now_ns() const noexcept override;
  [[nodiscard]] std::int64_t wall_ns() const noexcept override { return now_ns(); }
  void set(std::int64_t now_ns) noexcept;
  void advance(std::int64_t by_ns) noexcept;

 private:
  engine::Word64 now_;
};

}  // namespace shmcoord::process
