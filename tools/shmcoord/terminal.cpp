#include "shmcoord/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace shmcoord::tool {

bool obeys_sequences(int fd) noexcept {
  const char* const term = std::getenv("TERM");
  const std::string_view kind = term == nullptr ? std::string_view() : std::string_view(term);
  return !kind.empty() && kind != "dumb" && ::isatty(fd) == 1;
}

}  // namespace shmcoord::tool
