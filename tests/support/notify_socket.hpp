#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "support/tool.hpp"

// What a program tells its supervisor (sd_notify).

namespace shmcoord::test {

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() < sizeof address.sun_path) std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    bound_ = fd_ >= 0 && ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const timeval watchdog{patience.count(), 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &watchdog, sizeof watchdog);
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  [[nodiscard]] bool bound() const { return bound_; }
  /// The next message; empty when none comes, or without waiting (MSG_DONTWAIT) when none is there.
  [[nodiscard]] std::string hear(int flags = 0) const {
    char text[256];
    const ssize_t bytes = ::recv(fd_, text, sizeof text, flags);
    return {text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0};
  }

 private:
  int fd_;
  bool bound_ = false;
};

}  // namespace shmcoord::test
