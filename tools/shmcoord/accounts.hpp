#pragma once

#include <optional>
#include <string>

// Users and groups by name or number. By the files in /etc and not by getpwnam: a static binary has no name service,
// and local accounts are what a local segment needs.

namespace shmcoord::tool {

[[nodiscard]] std::optional<unsigned> user_id_of(const std::string& name_or_number);
[[nodiscard]] std::optional<unsigned> group_id_of(const std::string& name_or_number);

}  // namespace shmcoord::tool
