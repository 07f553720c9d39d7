#include "shmcoord/adapters_program.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "shmcoord/exit_codes.hpp"
#include "shmcoord/messages.hpp"

namespace shmcoord::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* program = "shmcoord-adapters";
AddAdapters known = nullptr;

/// Where it may be. Never ourselves by another name: that would go on for ever.
std::vector<fs::path> candidates() {
  std::vector<fs::path> all;
  std::error_code none;
  const fs::path self = fs::read_symlink("/proc/self/exe", none);
  if (self.filename() == program) return all;
  const auto add = [&](const fs::path& directory) {
    const fs::path path = (directory / program).lexically_normal();
    const bool ourselves = !self.empty() && fs::equivalent(self, path, none);
    if (!ourselves && std::find(all.begin(), all.end(), path) == all.end()) all.push_back(path);
  };
  if (!self.empty()) {
    add(self.parent_path());
    add(self.parent_path() / SHMCOORD_LIBEXEC_FROM_BIN);
  }
  add(SHMCOORD_LIBEXEC);
  return all;
}

}  // namespace

void use_adapters(AddAdapters add) noexcept { known = add; }
AddAdapters known_adapters() noexcept { return known; }

void become_adapters_program(char** argv) {
  std::string looked;
  for (const fs::path& path : candidates()) {
    ::execv(path.c_str(), argv);
    looked += (looked.empty() ? "" : ", ") + ("'" + path.string() + "' (") + std::strerror(errno) + ')';
  }
  throw Refusal{
      exit_unusable, "unsupported",
      std::string("this command needs the program ") + program +
          ", which asks git, files and commands, and it cannot be run: " + (looked.empty() ? "there is none" : looked) +
          "; install the whole package, or build it with -DSHMCOORD_ADAPTERS=ON, for which libgit2 and RE2 "
          "are needed"};
}

}  // namespace shmcoord::tool
