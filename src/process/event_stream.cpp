#include "process/event_stream.hpp"

#include <algorithm>
#include <utility>

#include "engine/journal_switch.hpp"
#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"

namespace shmcoord::process {
namespace {

using engine::RealPolicy;

const engine::View& journal_of(Participant& participant) {
  participant.require_usable();
  engine::Mapping& mapping = participant.mapping();
  const engine::Geometry& geo = mapping.view().geo;
  mapping.ensure(geo.journal, std::uint64_t{geo.sizes.journal} * sizeof(engine::Word128));
  return mapping.view();
}

}  // namespace

EventStream::EventStream(std::shared_ptr<Participant> participant, std::optional<std::uint64_t> since)
    : participant_(std::move(participant)),
      end_(engine::JournalSwitch<RealPolicy>(journal_of(*participant_)).subscribe(participant_->slot())),
      reader_(participant_->mapping().view(), end_),
      since_(since.value_or(0)) {
  if (since) reader_ = {participant_->mapping().view(), *since};
}

EventStream::~EventStream() {
  // Whoever left gave its mark away with its slot.
  if (participant_->usable()) {
    engine::JournalSwitch<RealPolicy>(participant_->mapping().view()).unsubscribe(participant_->slot());
  }
}

std::optional<Event> EventStream::next() {
  while (ready_.empty()) {
    std::uint64_t lost = 0;
    switch (reader_.next(record_, lost)) {
      case engine::JournalRead::nothing: return std::nullopt;
      case engine::JournalRead::record:
        if (record_.head.number() >= since_) events_of(record_, ready_);
        active_ = true;
        break;
      case engine::JournalRead::lapped:
        ready_.emplace_back();
        ready_.back().kind = EventKind::journal_lost;
        ready_.back().lost = lost;
        ready_.back().at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(real_clock().now_ns()));
        break;
      case engine::JournalRead::unfinished:  // not told to who completes
      case engine::JournalRead::damaged:
        throw Error(Errc::segment_corrupt, "the journal of segment " + participant_->mapping().path() +
                                               " is damaged; `shmcoord segment check` tells more");
    }
  }
  Event e = std::move(ready_.front());
  ready_.pop_front();
  return e;
}

void EventStream::wait(std::int64_t deadline_ns) {
  if (!ready_.empty()) return;
  const auto interrupted = [this] { return RealPolicy::load(interrupted_) != 0; };
  // Where much happens, sleeping and being woken costs everybody more than looking again in a moment.
  const int looks = std::exchange(active_, false) ? looks_before_sleep : 0;
  for (int n = 0; n < looks && reader_.at_end() && !interrupted(); ++n) {
    RealPolicy::pause();
    if (n % 16 == 15) RealPolicy::yield();  // on one CPU somebody else has to run
  }
  if (reader_.at_end()) {
    reader_.wait(std::min(deadline_ns, real_clock().now_ns() + engine::recheck_ns), interrupted);
  }
  RealPolicy::store(interrupted_, 0);
}

void EventStream::interrupt() noexcept {
  RealPolicy::store(interrupted_, 1);
  engine::Journal<RealPolicy>(participant_->mapping().view()).interrupt();
}

}  // namespace shmcoord::process
