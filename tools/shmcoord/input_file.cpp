#include "shmcoord/input_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shmcoord/durations.hpp"

namespace shmcoord::tool {

std::string content_of(const std::string& path, const std::string& what, std::size_t most, const std::string& nothing) {
  const auto fail = [&](const std::string& why) { return UsageError{what + ": " + why}; };
  const bool given = path == "-";
  const int fd = given ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) throw fail(std::strerror(errno));
  std::string text;
  int error = 0;
  for (;;) {
    char buffer[4096];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) error = errno;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > most) break;
  }
  if (!given) ::close(fd);
  if (error != 0) throw fail(std::strerror(error));
  if (text.size() > most) throw fail("it is larger than " + std::to_string(most) + " bytes, which " + nothing + " is");
  return text;
}

}  // namespace shmcoord::tool
