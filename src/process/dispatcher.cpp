#include "process/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "core/event_pattern.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"
#include "process/quiet_thread.hpp"

namespace shmcoord::process {

using engine::RealPolicy;

// --- one subscription ------------------------------------------------------------------------------------------------

Mailbox::Mailbox(std::vector<std::string> patterns, std::function<void(const Event&)> callback)
    : patterns_(std::move(patterns)),
      callback_(std::move(callback)),
      thread_(quiet_thread([this](const std::stop_token& stop) { deliver(stop); })) {}

Mailbox::~Mailbox() {
  thread_.request_stop();
  RealPolicy::store(asleep_, 0);
  RealPolicy::wake(asleep_);
}

bool Mailbox::wants(const Event& event) const noexcept {
  if (event.kind == EventKind::journal_lost) return true;
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& p) { return core::pattern_matches(p, event.name()); });
}

void Mailbox::put(const std::shared_ptr<const Event>& event) {
  if (RealPolicy::load(lost_) == 0 && queue_.push(event)) return;
  RealPolicy::store(lost_number_, event->number);
  const std::uint64_t more = event->kind == EventKind::journal_lost ? event->lost : 1;
  for (std::uint64_t seen = RealPolicy::load(lost_); !RealPolicy::cas(lost_, seen, seen + more);
       seen = RealPolicy::load(lost_)) {
  }
}

void Mailbox::call_owner() noexcept {
  RealPolicy::fence();  // filled before the look whether it sleeps; pairs with deliver()
  if (RealPolicy::load(asleep_) == 0) return;
  RealPolicy::store(asleep_, 0);
  RealPolicy::wake(asleep_);
}

void Mailbox::call(const Event& event) noexcept {
  try {
    callback_(event);
  } catch (...) {  // its own business
  }
}

/// What was lost comes behind what is in the queue, and nothing is put there before it was told.
bool Mailbox::deliver_one() {
  if (queue_.consume_one([this](const std::shared_ptr<const Event>& event) { call(*event); })) return true;
  std::uint64_t lost = RealPolicy::load(lost_);
  // The queue was looked at before that; what came in between comes first.
  if (lost == 0 || queue_.read_available() != 0) return lost != 0;
  Event event;
  event.kind = EventKind::journal_lost;
  event.number = RealPolicy::load(lost_number_);
  while (!RealPolicy::cas(lost_, lost, 0)) lost = RealPolicy::load(lost_);
  event.lost = lost;
  event.at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(real_clock().now_ns()));
  call(event);
  return true;
}

void Mailbox::deliver(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (deliver_one()) continue;
    RealPolicy::store(asleep_, 1);
    RealPolicy::fence();  // asleep before the last look; pairs with call_owner()
    if (deliver_one() || stop.stop_requested()) {
      RealPolicy::store(asleep_, 0);
      continue;
    }
    const engine::WaitOn word{&asleep_, 1};
    RealPolicy::wait({&word, 1}, real_clock().now_ns() + 60 * engine::recheck_ns);
  }
}

// --- all of a session ------------------------------------------------------------------------------------------------

Dispatcher::Dispatcher(const std::shared_ptr<Participant>& participant)
    : participant_(participant),
      stream_(participant),
      thread_(quiet_thread([this](const std::stop_token& stop) { read(stop); })) {}

Dispatcher::~Dispatcher() {
  thread_.request_stop();
  stream_.interrupt();
  thread_.join();
}

void Dispatcher::add(Mailbox& mailbox) {
  const std::scoped_lock lock(mutex_);
  mailboxes_.push_back(&mailbox);
}

void Dispatcher::remove(Mailbox& mailbox) noexcept {
  const std::scoped_lock lock(mutex_);
  std::erase(mailboxes_, &mailbox);
}

bool Dispatcher::read_one() {
  auto event = stream_.next();
  if (!event) return false;
  const auto shared = std::make_shared<const Event>(*std::move(event));
  const std::scoped_lock lock(mutex_);
  for (Mailbox* const mailbox : mailboxes_) {
    if (mailbox->wants(*shared)) mailbox->put(shared);
  }
  return true;
}

void Dispatcher::read(const std::stop_token& stop) {
  try {
    while (!stop.stop_requested() && participant_->usable()) {
      for (int n = 0; n < at_once && read_one(); ++n) {
      }
      {
        const std::scoped_lock lock(mutex_);
        for (Mailbox* const mailbox : mailboxes_) mailbox->call_owner();
      }
      if (!stream_.at_end()) continue;
      stream_.wait(real_clock().now_ns() + engine::recheck_ns);
    }
  } catch (const std::exception&) {  // a damaged journal, or no memory: nothing more is delivered
  }
}

}  // namespace shmcoord::process
