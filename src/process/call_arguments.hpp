#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/duration.hpp"
#include "base/printable.hpp"
#include "core/names.hpp"
#include "engine/layout.hpp"
#include "shmcoord/error.hpp"

// What a caller may pass to a lock or a semaphore. Checked before anything is touched, so that a refusal changes
// nothing.

namespace shmcoord::process {

using base::longest_duration;

inline void require_holder(std::string_view holder) {
  if (const std::string_view wrong = core::check_name(holder); !wrong.empty()) {
    throw Error(Errc::invalid_argument, "the holder id '" + base::shortened(holder, 64) + "' " + std::string(wrong));
  }
}

inline void require_primitive_name(engine::Kind kind, std::string_view name) {
  if (const std::string_view wrong = core::check_name(name); !wrong.empty()) {
    throw Error(Errc::invalid_argument, "the " + std::string(engine::word_of(kind)) + " name '" +
                                            base::shortened(name, 64) + "' " + std::string(wrong));
  }
}

/// Of a weight or a capacity (C-12).
inline void require_permits(std::string_view what, std::uint32_t permits) {
  if (permits == 0 || permits > core::max_capacity) {
    throw Error(Errc::invalid_argument, std::string(what) + " must be 1 to " + std::to_string(core::max_capacity) +
                                            ", not " + std::to_string(permits));
  }
}

inline void require_reason(const std::optional<std::string_view>& reason) {
  if (reason && reason->size() > engine::max_reason) {
    throw Error(Errc::invalid_argument, "the reason is longer than 4096 bytes");
  }
}

inline void require_duration(std::string_view what, const std::optional<std::chrono::nanoseconds>& d) {
  if (d && (*d <= std::chrono::nanoseconds::zero() || *d > longest_duration)) {
    throw Error(Errc::invalid_argument, std::string(what) + " must be more than zero and at most 10 years");
  }
}

}  // namespace shmcoord::process
