#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "shmcoord/export.hpp"

namespace shmcoord {

/// Who holds: an opaque string that the caller chooses, 1–255 bytes of UTF-8 without control characters (S0-8). Checked
/// when it is used, not here. Two calls of one session with equal ids are the same holder; another session's equal id
/// is not (C-50).
class HolderId {
 public:
  explicit HolderId(std::string id) : id_(std::move(id)) {}

  /// "pipeline:<id>" (S0-9).
  static HolderId from_pipeline(std::string_view id) { return HolderId("pipeline:" + std::string(id)); }
  /// "worker:<id>" (S0-10).
  static HolderId from_worker(std::string_view id) { return HolderId("worker:" + std::string(id)); }

  [[nodiscard]] const std::string& str() const noexcept { return id_; }

  friend bool operator==(const HolderId&, const HolderId&) = default;

 private:
  std::string id_;
};

}  // namespace shmcoord

template <>
struct std::hash<shmcoord::HolderId> {
  std::size_t operator()(const shmcoord::HolderId& h) const noexcept { return std::hash<std::string>{}(h.str()); }
};
