#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "shmcoord/results.hpp"
#include "support/linearizability.hpp"

// What several processes did with locks and semaphores, and when: a recorder that loses nothing when a process is
// killed, and a file with one JSON object per line.
//
// An operation is a plain value, and the recorder's rows lie in memory that forked processes share. The call is written
// before the operation begins and the return after it ended, so whoever is killed in between leaves a call without a
// return: it may have taken effect or not, now or later.
//
// Two lines are no calls of a client but facts about the run, written by whoever runs it: `died` says that process
// `client` was killed, not before call_ns and not after return_ns; `configure` says how a lock or a semaphore was made.

namespace shmcoord::test {

/// A short text that may lie in shared memory.
class Text {
 public:
  constexpr Text() noexcept = default;
  constexpr Text(std::string_view text) {  // NOLINT: a text like any other
    if (text.size() >= bytes_.size()) throw std::length_error("too long for a line of a history");
    for (std::size_t i = 0; i < text.size(); ++i) bytes_[i] = text[i];
  }
  constexpr Text(const char* text) : Text(std::string_view(text)) {}       // NOLINT
  Text(const std::string& text) : Text(std::string_view(text)) {}          // NOLINT
  constexpr operator std::string_view() const { return {bytes_.data()}; }  // NOLINT
  [[nodiscard]] std::string str() const { return bytes_.data(); }
  [[nodiscard]] constexpr bool empty() const noexcept { return bytes_[0] == '\0'; }
  friend constexpr bool operator==(const Text&, const Text&) = default;
  friend constexpr auto operator<=>(const Text&, const Text&) = default;

 private:
  std::array<char, 32> bytes_{};
};

enum class Verb : std::uint8_t {
  try_acquire,
  acquire,  // waits until its deadline
  release,
  heartbeat,
  renew,
  status,
  is_current,
  force_release,
  remove,
  resize,
  place,  // in the queue: of a holder of the same process
  died,
  configure,
};
inline constexpr std::array<std::string_view, 13> verbs{
    "try_acquire",   "acquire", "release", "heartbeat", "renew", "status",   "is_current",
    "force_release", "remove",  "resize",  "place",     "died",  "configure"};
constexpr std::string_view to_string(Verb verb) { return verbs.at(static_cast<std::size_t>(verb)); }

struct Operation {
  Text client;  ///< process.thread; it has one operation at a time
  Text object;  ///< name of the lock or semaphore
  Verb verb = Verb::status;
  // in
  Text holder;                ///< force_release: empty is anybody
  std::int64_t ttl_ns = 0;    ///< acquire: 0 is the lock's own
  std::int64_t limit_ns = 0;  ///< acquire: how long to wait; configure: max_hold_duration
  std::uint64_t token = 0;    ///< is_current: of that hold
  std::uint32_t weight = 0;   ///< of permits that are asked for
  std::int64_t call_ns = 0;
  // out
  Text answer;                  ///< as to_string() of the result has it
  std::uint64_t got = 0;        ///< acquire, status: token of the hold; place: 1 is next, 0 none
  Text who;                     ///< status: who holds; acquire: who lost it before
  Loss why = Loss::none;        ///< why `who` lost it; release, heartbeat: why the caller did
  std::uint32_t has = 0;        ///< acquire: permits that the holder has now
  std::uint32_t available = 0;  ///< acquire that was refused: permits that are free
  std::uint32_t used = 0;       ///< status
  std::uint32_t capacity = 0;   ///< status; of a resize and of a semaphore's configure: what is given
  std::int64_t return_ns = no_return;

  [[nodiscard]] bool returned() const noexcept { return return_ns != no_return; }
  [[nodiscard]] Text process() const {
    const std::string_view name = client;
    return name.substr(0, name.find('.'));
  }
  friend bool operator==(const Operation&, const Operation&) = default;
};

using History = std::vector<Operation>;

/// Memory for the operations of some clients, shared with the processes that are forked after it was made.
class Recorder {
 public:
  Recorder(std::size_t clients, std::size_t operations_each);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Writes down one client's operations, in that client only.
  class Pen {
   public:
    [[nodiscard]] bool full() const noexcept { return next_ == end_; }
    /// Runs `run(operation)`, which fills in the out part, between the call and the return.
    template <class Run>
    Operation record(const Operation& what, Run&& run) {
      Operation& o = call(what);
      run(o);
      returned();
      return o;
    }

   private:
    friend class Recorder;
    struct Row;
    Pen(Row* next, Row* end) noexcept : next_(next), end_(end) {}
    Operation& call(const Operation& what);
    void returned();
    Row* next_;
    Row* end_;
  };

  [[nodiscard]] Pen pen(std::size_t client) const;
  /// All of them in the order of their calls. When every client has ended.
  [[nodiscard]] History collect() const;

 private:
  std::size_t clients_;
  std::size_t each_;
  Pen::Row* rows_;
};

std::string to_json(const Operation& operation);
/// Throws std::runtime_error when it is no such line.
Operation from_json(std::string_view line);
void write(const History& history, const std::filesystem::path& path);
History read_history(const std::filesystem::path& path);

}  // namespace shmcoord::test
