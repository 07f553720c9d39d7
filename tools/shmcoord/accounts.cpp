#include "shmcoord/accounts.hpp"

#include <grp.h>
#include <pwd.h>

#include <cstdio>
#include <limits>
#include <memory>

#include "shmcoord/numbers.hpp"

namespace shmcoord::tool {
namespace {

/// `next` reads one entry of the file, `id` takes the name and the number out of it.
template <class Next, class Entry>
std::optional<unsigned> find(const std::string& text, const char* path, const Next& next, const Entry& entry) {
  unsigned number = 0;
  // The greatest number stands for "none" in every call that takes one.
  if (parse_whole(text, number)) {
    return number == std::numeric_limits<unsigned>::max() ? std::nullopt : std::optional(number);
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "re"), std::fclose);
  if (file == nullptr) return std::nullopt;
  while (const auto* const one = next(file.get())) {
    const auto [name, id] = entry(*one);
    if (text == name) return id;
  }
  return std::nullopt;
}

}  // namespace

std::optional<unsigned> user_id_of(const std::string& name_or_number) {
  return find(name_or_number, "/etc/passwd", ::fgetpwent,
              [](const passwd& e) { return std::pair<const char*, unsigned>(e.pw_name, e.pw_uid); });
}

std::optional<unsigned> group_id_of(const std::string& name_or_number) {
  return find(name_or_number, "/etc/group", ::fgetgrent,
              [](const group& e) { return std::pair<const char*, unsigned>(e.gr_name, e.gr_gid); });
}

}  // namespace shmcoord::tool
