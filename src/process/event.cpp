#include "shmcoord/event.hpp"

#include <algorithm>
#include <array>

#include "core/control_word.hpp"
#include "core/event_pattern.hpp"
#include "process/event_stream.hpp"
#include "process/primitive_client.hpp"

// From a record of the journal to events.

namespace shmcoord {
namespace {

// In the order of EventKind.
constexpr std::array<std::string_view, 26> names{
    "lock:acquired",      "lock:released",      "lock:denied",      "lock:reclaimed",      "lock:stale",
    "semaphore:acquired", "semaphore:released", "semaphore:denied", "semaphore:reclaimed", "semaphore:stale",
    "session:joined",     "session:left",       "session:died",     "guard:registered",    "guard:removed",
    "guard:evaluating",   "guard:passed",       "guard:failed",     "pipeline:blocked",    "pipeline:resumed",
    "pipeline:failed",    "pipeline:completed", "phase:entered",    "phase:left",          "journal:started",
    "journal:lost"};
static_assert(names[static_cast<std::size_t>(EventKind::journal_lost)] == "journal:lost");
static_assert(names[static_cast<std::size_t>(EventKind::guard_failed)] == "guard:failed");

}  // namespace

std::string_view to_string(EventKind kind) noexcept {
  const auto at = static_cast<std::size_t>(kind);
  return at < names.size() ? names[at] : "unknown";
}

std::optional<EventKind> event_kind_from(std::string_view name) noexcept {
  const auto* const at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<EventKind>(at - names.begin());
}

}  // namespace shmcoord

namespace shmcoord::process {

std::string_view fault_of_pattern(std::string_view pattern) noexcept {
  if (const std::string_view fault = core::check_pattern(pattern); !fault.empty()) return fault;
  const bool some = std::any_of(names.begin(), names.end(),
                                [&](std::string_view name) { return core::pattern_matches(pattern, name); });
  return some ? std::string_view() : "matches no event that there is; `lock:*`, `semaphore:*`, `*` are some that do";
}

namespace {

using engine::Told;

// What both events of a change have in common.
Event about(const engine::JournalRecord& r, EventKind of_lock) {
  const bool semaphore = (r.head.flags & engine::told_semaphore) != 0;
  Event e;
  e.kind = semaphore ? static_cast<EventKind>(static_cast<unsigned>(of_lock) + 5) : of_lock;
  e.number = r.head.number();
  e.subject = r.name;
  if (semaphore && r.head.capacity > r.head.used) e.available = r.head.capacity - r.head.used;
  e.at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(r.head.time_ns()));
  return e;
}
static_assert(static_cast<int>(EventKind::semaphore_acquired) == static_cast<int>(EventKind::lock_acquired) + 5);
static_assert(static_cast<int>(EventKind::semaphore_stale) == static_cast<int>(EventKind::lock_stale) + 5);

void set_weight(Event& e, std::uint32_t weight) {
  const bool lock = e.kind <= EventKind::lock_stale;
  e.shared = lock && weight < whole_lock;
  if (!lock) e.weight = weight;
}

Event of_holder(const engine::JournalRecord& r, EventKind of_lock) {
  Event e = about(r, of_lock);
  e.holder = r.holder;
  e.token = r.head.token();
  e.pid = r.head.pid;
  set_weight(e, r.head.weight);
  return e;
}

// Who got it by the change.
Event of_other(const engine::JournalRecord& r) {
  Event e = about(r, EventKind::lock_acquired);
  e.holder = r.other;
  e.token = r.head.seq();
  e.pid = r.head.other_pid;
  e.reason = r.reason;
  set_weight(e, r.head.other_weight);
  return e;
}

Event of_session(const engine::JournalRecord& r, EventKind kind) {
  Event e = about(r, kind);
  e.kind = kind;
  e.reason = r.reason;
  e.pid = r.head.pid;
  e.session_id = r.head.token();
  return e;
}

}  // namespace

void events_of(const engine::JournalRecord& r, std::deque<Event>& events) {
  const auto why = static_cast<Loss>((r.head.flags & engine::told_loss_mask) >> engine::told_loss_shift);
  switch (r.head.told) {
    case Told::nothing: return;
    case Told::acquired:
      events.push_back(of_holder(r, EventKind::lock_acquired));
      events.back().reason = r.reason;
      return;
    case Told::released: events.push_back(of_holder(r, EventKind::lock_released)); return;
    case Told::handed_over:
      events.push_back(of_holder(r, EventKind::lock_released));
      events.push_back(of_other(r));
      return;
    case Told::reclaimed:
      events.push_back(of_holder(r, EventKind::lock_reclaimed));
      events.back().why = why;
      // So that who waits for either hears of it (C-14).
      events.push_back(of_holder(r, EventKind::lock_released));
      return;
    case Told::taken_over: {
      events.push_back(of_holder(r, EventKind::lock_reclaimed));
      events.back().why = why;
      events.back().other = r.other;
      events.push_back(of_other(r));
      const Event room = about(r, EventKind::lock_released);
      if (room.available != 0) events.push_back(room);
      return;
    }
    case Told::room: events.push_back(about(r, EventKind::lock_released)); return;
    case Told::session_joined: events.push_back(of_session(r, EventKind::session_joined)); return;
    case Told::session_left: events.push_back(of_session(r, EventKind::session_left)); return;
    case Told::session_died: events.push_back(of_session(r, EventKind::session_died)); return;
    case Told::denied:
      events.push_back(of_holder(r, EventKind::lock_denied));
      events.back().other = r.other;
      return;
    case Told::stale:
      events.push_back(of_holder(r, EventKind::lock_stale));
      events.back().why = why;
      return;
    case Told::started:
      events.push_back(about(r, EventKind::journal_started));
      events.back().kind = EventKind::journal_started;
      return;
    case Told::named: {
      if (r.head.index > static_cast<std::uint32_t>(EventKind::journal_lost)) return;
      Event e = about(r, EventKind::lock_acquired);
      e.kind = static_cast<EventKind>(r.head.index);
      e.holder = r.holder;
      e.other = r.other;
      e.reason = r.reason;
      e.pid = r.head.pid;
      events.push_back(std::move(e));
      return;
    }
  }
}

}  // namespace shmcoord::process
