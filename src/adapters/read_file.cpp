#include "adapters/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "adapters/time_left.hpp"
#include "engine/descriptor.hpp"

// A bounded read of a file whose name somebody else chose.
//
// Problem: the name may be that of a pipe, where an open waits for a writer, or of a device, where an open has effects.
// So it is looked at before it is opened, opened without waiting, and looked at again, because it may have been
// replaced in between. The size is only a hint (a file in /proc says 0, a log grows): what is read is counted. A file
// system that does not answer holds the thread; no call of the system could be ended by a deadline.

namespace shmcoord::adapters {
namespace {

using engine::Descriptor;

constexpr std::size_t step = 1U << 20U;

void check_kind(const struct stat& st) {
  if (S_ISREG(st.st_mode)) return;
  if (S_ISDIR(st.st_mode)) throw std::runtime_error("it is a directory, not a file");
  throw std::runtime_error("it is no regular file");
}

[[noreturn]] void fail(int error) {
  throw std::runtime_error(error == ENOENT || error == ENOTDIR ? "there is no such file" : error_text(error));
}

[[noreturn]] void too_large(std::size_t max_bytes) {
  throw std::runtime_error("it is larger than " + std::to_string(max_bytes) + " bytes, and is not read");
}

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

void check_path(const std::string& path) {
  if (path.empty()) throw std::runtime_error("the path is empty");
  if (path.find('\0') != std::string::npos) throw std::runtime_error("the path contains a zero byte");
}

std::string read_regular_file(const std::string& path, std::size_t max_bytes, const GuardDeadline& deadline) {
  check_path(path);
  check_time(deadline);
  struct stat st {};
  if (::stat(path.c_str(), &st) != 0) fail(errno);
  check_kind(st);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.valid() || ::fstat(file.get(), &st) != 0) fail(errno);
  check_kind(st);
  const auto size = static_cast<std::size_t>(std::max<off_t>(st.st_size, 0));
  if (size > max_bytes) too_large(max_bytes);
  std::string text;
  std::size_t used = 0;
  for (;;) {
    check_time(deadline);
    // One byte more than it says, so that a file that is as it says takes two reads.
    text.resize(used + std::clamp<std::size_t>(size + 1 - std::min(size, used), 4096, step));
    const ssize_t got = ::read(file.get(), text.data() + used, text.size() - used);
    if (got < 0) {
      if (errno == EINTR) continue;
      fail(errno);
    }
    used += static_cast<std::size_t>(got);
    if (used > max_bytes) too_large(max_bytes);
    if (got == 0) break;
  }
  text.resize(used);
  return text;
}

}  // namespace shmcoord::adapters
