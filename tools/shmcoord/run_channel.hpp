#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

// What the two processes of `run` say to each other: one socket of messages, one end each. The end of either process
// closes its end, however it came, and that is how the other one learns of it.

namespace shmcoord::tool {

struct Order {
  enum class Kind : std::int32_t { start, signal, end };
  Kind kind = Kind::signal;
  std::int32_t signal = 0;      // signal; end: instead of SIGTERM
  std::int32_t foreground = 0;  // start: the command gets the terminal
  std::int32_t which = 0;       // start: number of the command
  std::int64_t grace_ns = 0;    // end: from SIGTERM to SIGKILL
};

struct Report {
  enum class Kind : std::int32_t {
    started,  // pid of the command
    failed,   // errno of exec
    stopped,  // signal that stopped the command
    typed,    // signal that the terminal sent to the command
    exited,   // code or signal; tree_goes_on: processes are left
    gone,     // after exited with tree_goes_on: nothing is left
  };
  Kind kind = Kind::gone;
  std::int32_t value = 0;         // pid, errno, signal, exit code
  std::int32_t by_signal = 0;     // exited: value is a signal
  std::int32_t tree_goes_on = 0;  // exited
};

class Channel {
 public:
  explicit Channel(int fd) noexcept : fd_(fd) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  Channel(Channel&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  /// Throws Error(system).
  [[nodiscard]] static std::pair<Channel, Channel> make();

  [[nodiscard]] int fd() const noexcept { return fd_; }

  /// `text` goes along, and a copy of the descriptor unless it is -1. False: the other end is gone, or errno says why
  /// not.
  bool send(const Order& order, const std::string& text = {}, int fd = -1) const noexcept;
  bool send(const Report& report) const noexcept;

  struct Received {
    Order order;
    std::string text;
    int fd = -1;
  };
  /// Waits. Nothing: the other end is gone.
  [[nodiscard]] std::optional<Received> receive_order() const;
  [[nodiscard]] std::optional<Report> receive_report() const noexcept;

 private:
  int fd_;
};

}  // namespace shmcoord::tool
