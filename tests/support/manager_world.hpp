#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "process/face.hpp"
#include "process/recovery.hpp"
#include "shmcoord/coordination_manager.hpp"
#include "shmcoord/testing.hpp"
#include "support/sound.hpp"

// A manager over each of its stores, in a world whose time goes on when a test says so, and its answers as lines of
// text, in which tokens stand by their order.

namespace shmcoord::test {

class LocalWorld {
 public:
  void pass(std::chrono::nanoseconds by) { clock->advance(by); }

  std::shared_ptr<testing::FakeClock> clock = std::make_shared<testing::FakeClock>();
  CoordinationManager manager{clock};
};

/// The engine's clock cannot be moved, so what passes is taken off what the holds say. Real time passes as well: tests
/// stay some seconds away from each border.
class SegmentWorld {
 public:
  explicit SegmentWorld(const SegmentOptions& options = {.names = 64, .entries = 2048, .sessions = 16})
      : name_("test-" + std::to_string(::getpid()) + "-manager-" + std::to_string(++count_)),
        segment(Segment::create(name_, options)) {}
  ~SegmentWorld() {
    session.leave();
    expect_sound(*detail::Access::mapping(segment));
    Segment::remove(name_, true);
  }
  SegmentWorld(const SegmentWorld&) = delete;
  SegmentWorld& operator=(const SegmentWorld&) = delete;

  void pass(std::chrono::nanoseconds by) {
    using engine::RealPolicy;
    const engine::Mapping& mapping = *detail::Access::mapping(segment);
    for (const auto& e : process::take_snapshot(mapping, 0, process::Detail::brief).entries) {
      for (engine::Word64* word :
           {&mapping.view().entry(e.entry).since_ns, &mapping.view().entry(e.entry).heartbeat_ns}) {
        const std::uint64_t at = RealPolicy::load(*word);
        if (at != 0) RealPolicy::store(*word, at - static_cast<std::uint64_t>(by.count()));
      }
    }
  }

 private:
  static inline int count_ = 0;
  std::string name_;

 public:
  Segment segment;
  Session session{segment, {.manual_heartbeat = true}};
  CoordinationManager manager{session};
};

/// Writes down what a manager says.
class Scribe {
 public:
  std::string operator()(const Event& e) {
    std::string line = std::string(e.name()) + ' ' + e.subject;
    if (!e.holder.empty()) line += ' ' + e.holder;
    if (!e.other.empty()) line += '>' + e.other;
    if (e.why != Loss::none) line += ' ' + std::string(to_string(e.why));
    if (e.token != 0) line += ' ' + token(e.subject, e.token);
    if (e.weight != 0) line += " w" + std::to_string(e.weight);
    if (e.kind >= EventKind::semaphore_acquired) line += " free" + std::to_string(e.available);
    if (!e.reason.empty()) line += " '" + e.reason + "'";
    EXPECT_EQ(e.number, 0U);
    EXPECT_NE(e.at, std::chrono::steady_clock::time_point{});
    return line;
  }
  std::string operator()(const Effects& effects) {
    std::string text;
    for (const Event& e : effects) text += (text.empty() ? "" : "; ") + (*this)(e);
    return text;
  }
  std::string operator()(const CoordinationCommand& command, const Handled& handled) {
    const std::string subject = std::visit([](const auto& c) { return c.name; }, command);
    const std::string effects = (*this)(handled.effects);
    const std::string result = std::visit([&](const auto& r) { return result_of(r, subject); }, handled.result);
    return result + (effects.empty() ? "" : " | ") + effects;
  }

 private:
  std::string token(const std::string& subject, std::uint64_t token) {
    auto& known = tokens_[subject];
    const auto at = std::find(known.begin(), known.end(), token);
    if (at != known.end()) return '#' + std::to_string(at - known.begin() + 1);
    if (!known.empty()) {
      EXPECT_GT(token, known.back()) << "tokens grow";
    }
    known.push_back(token);
    return '#' + std::to_string(known.size());
  }
  std::string ending(const std::string& subject, std::uint64_t of, const std::optional<Previous>& previous) {
    std::string text;
    if (of != 0) text += ' ' + token(subject, of);
    if (previous) text += " after " + previous->holder + ' ' + std::string(to_string(previous->why));
    return text;
  }
  std::string result_of(const AcquireOutcome& r, const std::string& subject) {
    std::string text = std::string(to_string(r.result)) + ending(subject, r.token, r.previous);
    if (r.current) text += " with " + r.current->holder + ending(subject, r.current->token, {});
    return text;
  }
  std::string result_of(const PermitOutcome& r, const std::string& subject) {
    std::string text = std::string(to_string(r.result)) + ending(subject, r.token, r.previous);
    if (r.weight != 0) text += " has" + std::to_string(r.weight);
    if (r.available != 0) text += " free" + std::to_string(r.available);
    return text;
  }
  template <class Result>
  std::string result_of(Result r, const std::string& /*subject*/) {
    return std::string(to_string(r));
  }

  std::map<std::string, std::vector<std::uint64_t>> tokens_;
};

/// What everybody can see of one name.
inline std::string seen(const CoordinationManager& manager, const std::string& name) {
  std::string text;
  const auto add = [&](const std::vector<HolderStatus>& holders) {
    for (const HolderStatus& h : holders) {
      text += ' ' + h.holder;
      if (h.weight != 0) text += ':' + std::to_string(h.weight);
      if (!h.reason.empty()) text += " '" + h.reason + "'";
      if (h.lapsed != Loss::none) text += ' ' + std::string(to_string(h.lapsed));
    }
  };
  if (const auto lock = manager.get_lock(name)) {
    text += lock->is_free() ? "free" : "held";
    add(lock->holders);
  }
  if (const auto semaphore = manager.get_semaphore(name)) {
    text += std::to_string(semaphore->used_slots()) + "+" + std::to_string(semaphore->available_slots());
    add(semaphore->holders);
  }
  return text;
}

template <class World>
struct Play : World {
  Scribe scribe;

  std::string does(const CoordinationCommand& command) { return scribe(command, this->manager.handle(command)); }

  std::string lock(const std::string& name, const std::string& who, std::optional<std::string> metadata = {}) {
    return does(AcquireLock{name, HolderId(who), std::move(metadata)});
  }
  std::string unlock(const std::string& name, const std::string& who) { return does(ReleaseLock{name, HolderId(who)}); }
  std::string beat(const std::string& name, const std::string& who) { return does(HeartbeatLock{name, HolderId(who)}); }
  std::string take(const std::string& name, const std::string& who, std::uint32_t slots = 1,
                   std::optional<std::string> metadata = {}) {
    return does(AcquireSemaphore{name, HolderId(who), slots, std::move(metadata)});
  }
  std::string give(const std::string& name, const std::string& who) {
    return does(ReleaseSemaphore{name, HolderId(who)});
  }
  std::string beat_permits(const std::string& name, const std::string& who) {
    return does(HeartbeatSemaphore{name, HolderId(who)});
  }
  std::string tick() { return scribe(this->manager.tick()); }
  std::string reclaim() { return scribe(this->manager.reclaim_stale()); }
  std::string maintain() { return scribe(this->manager.maintain()); }
  [[nodiscard]] std::string sees(const std::string& name) const { return seen(this->manager, name); }
};

}  // namespace shmcoord::test
