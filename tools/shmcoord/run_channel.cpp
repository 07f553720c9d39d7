#include "shmcoord/run_channel.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shmcoord/error.hpp"

namespace shmcoord::tool {
namespace {

/// A receive that failed only for now. ECONNRESET: the other end was closed while something that we sent was unread. It
/// is said once, and before what the other end sent last, which is still there to be received.
bool try_again(ssize_t got) noexcept { return got < 0 && (errno == EINTR || errno == ECONNRESET); }

union Ancillary {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

}  // namespace

Channel::~Channel() {
  if (fd_ >= 0) ::close(fd_);
}

std::pair<Channel, Channel> Channel::make() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) {
    throw Error(Errc::system, std::string("socketpair: ") + std::strerror(errno));
  }
  return {Channel(fds[0]), Channel(fds[1])};
}

bool Channel::send(const Order& order, const std::string& text, int fd) const noexcept {
  Order copy = order;
  iovec parts[] = {{&copy, sizeof copy}, {const_cast<char*>(text.data()), text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = text.empty() ? 1 : 2;
  Ancillary ancillary{};
  if (fd >= 0) {
    message.msg_control = ancillary.bytes;
    message.msg_controllen = sizeof ancillary.bytes;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  while (::sendmsg(fd_, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

bool Channel::send(const Report& report) const noexcept {
  while (::send(fd_, &report, sizeof report, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

std::optional<Channel::Received> Channel::receive_order() const {
  Received got;
  ssize_t n = 0;
  do {
    n = ::recv(fd_, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  } while (try_again(n));
  if (n < static_cast<ssize_t>(sizeof got.order)) return std::nullopt;
  got.text.resize(static_cast<std::size_t>(n) - sizeof got.order);
  iovec parts[] = {{&got.order, sizeof got.order}, {got.text.data(), got.text.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  Ancillary ancillary{};
  message.msg_control = ancillary.bytes;
  message.msg_controllen = sizeof ancillary.bytes;
  do {
    n = ::recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
  } while (try_again(n));
  if (n < static_cast<ssize_t>(sizeof got.order)) return std::nullopt;
  if (const cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    std::memcpy(&got.fd, CMSG_DATA(header), sizeof got.fd);
  }
  return got;
}

std::optional<Report> Channel::receive_report() const noexcept {
  Report report;
  ssize_t n = 0;
  do {
    n = ::recv(fd_, &report, sizeof report, 0);
  } while (try_again(n));
  return n == static_cast<ssize_t>(sizeof report) ? std::optional(report) : std::nullopt;
}

}  // namespace shmcoord::tool
