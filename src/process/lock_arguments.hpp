#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "core/names.hpp"
#include "engine/layout.hpp"
#include "shmcoord/error.hpp"

// What a caller may pass to a lock. Checked before anything is touched, so that a refusal changes nothing.

namespace shmcoord::process {

inline constexpr std::chrono::nanoseconds longest_duration = std::chrono::hours{24 * 3650};

inline void require_holder(std::string_view holder) {
  if (const std::string_view wrong = core::check_name(holder); !wrong.empty()) {
    throw Error(Errc::invalid_argument,
                "the holder id '" + std::string(holder.substr(0, 64)) + "' " + std::string(wrong));
  }
}

inline void require_lock_name(std::string_view name) {
  if (const std::string_view wrong = core::check_name(name); !wrong.empty()) {
    throw Error(Errc::invalid_argument,
                "the lock name '" + std::string(name.substr(0, 64)) + "' " + std::string(wrong));
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
