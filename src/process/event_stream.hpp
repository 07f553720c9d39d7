#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "engine/journal_reader.hpp"
#include "process/participant.hpp"
#include "shmcoord/event.hpp"

// The journal as one reader in this process sees it: changes become events.
//
// While a stream of a session exists, changes are journaled (engine/journal_switch.hpp); several streams of one session
// count as one subscriber. Whatever is changed after the constructor returned will be read, or be reported as lost.
// What if we die here: our session is buried, and its subscription with it.

namespace shmcoord::process {

class EventStream {
 public:
  /// `since`: with what the journal still has from that number on; what it has no more is reported as lost. Throws
  /// no_space (the journal's pages), and as Participant::require_usable().
  explicit EventStream(std::shared_ptr<Participant> participant, std::optional<std::uint64_t> since = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// The next one that is there. Throws segment_corrupt. By one thread at a time.
  std::optional<Event> next();
  /// Is there no more just now?
  [[nodiscard]] bool at_end() const noexcept { return ready_.empty() && reader_.at_end(); }
  /// Sleeps until there may be more, interrupt() was called, or the deadline; at most a second.
  void wait(std::int64_t deadline_ns);
  /// From any thread: wait() returns, now or when it is called next.
  void interrupt() noexcept;

 private:
  static constexpr int looks_before_sleep = 400;

  std::shared_ptr<Participant> participant_;
  engine::JournalEnd end_;
  engine::JournalReader<engine::RealPolicy> reader_;
  std::uint64_t since_;
  engine::JournalRecord record_;
  std::deque<Event> ready_;
  engine::Word32 interrupted_;
  bool active_ = false;  // something was read since the last wait
};

/// What is wrong with a pattern by which no event could be meant, to be put behind the quoted pattern; else nothing.
[[nodiscard]] std::string_view fault_of_pattern(std::string_view pattern) noexcept;
/// The events of one record of the journal: none, one or two.
void events_of(const engine::JournalRecord& record, std::deque<Event>& events);

}  // namespace shmcoord::process
