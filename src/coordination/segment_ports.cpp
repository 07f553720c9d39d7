#include <algorithm>
#include <stdexcept>
#include <utility>

#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/face.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/guard_executor.hpp"

// A segment as what conditions ask. It is looked at as `inspect` looks: nothing is created, finished or taken. Who is
// proven dead holds nothing any more, whether or not somebody has buried it yet: a guard must not wait for the dead.

namespace shmcoord {
namespace {

using process::GrantView;

bool is_dead(const GrantView& holder) { return holder.life.life == process::Life::dead; }

class SegmentPrimitives final : public GuardPrimitives {
 public:
  explicit SegmentPrimitives(std::shared_ptr<engine::Mapping> mapping) : mapping_(std::move(mapping)) {}

  std::optional<Lock> lock(const std::string& name) override {
    if (unused(name, engine::Kind::lock)) return Lock{};
    const std::optional<process::LockView> seen = look(name, engine::Kind::lock);
    if (!seen) return std::nullopt;
    Lock lock;
    for (const GrantView& holder : seen->holders) {
      if (is_dead(holder)) continue;
      lock.free = false;
      if (!holder.holder.empty()) lock.holders.push_back(holder.holder);
    }
    return lock;
  }

  std::optional<std::uint32_t> semaphore(const std::string& name) override {
    if (const auto capacity = unused(name, engine::Kind::semaphore)) return capacity;
    const std::optional<process::LockView> seen = look(name, engine::Kind::semaphore);
    if (!seen) return std::nullopt;
    std::uint64_t used = 0;
    for (const GrantView& holder : seen->holders) used += is_dead(holder) ? 0 : holder.weight;
    return used >= seen->capacity ? 0 : seen->capacity - static_cast<std::uint32_t>(used);
  }

 private:
  // Its capacity, if nobody holds it: then there is nobody to be looked for among all the sessions.
  [[nodiscard]] std::optional<std::uint32_t> unused(const std::string& name, engine::Kind kind) const {
    using P = engine::RealPolicy;
    const engine::View& view = mapping_->view();
    const auto found = engine::NameIndex<P>(view).find(name);
    if (!found) return std::nullopt;
    const engine::Record& record = view.record(found->record);
    const core::Control c = P::load(record.control);
    const auto capacity = engine::unpack_amount(P::load(record.capacity)).amount;
    const bool still = P::load_seq(record.control) == c.seq && P::load(record.generation) == found->generation;
    const bool fixed = P::load(record.per_session) == 0 && c.op != core::Op::resize;
    const bool such = static_cast<engine::Kind>(P::load(record.kind)) == kind && core::plausible(c);
    return still && fixed && such && c.used == 0 ? std::optional(capacity) : std::nullopt;
  }

  [[nodiscard]] std::optional<process::LockView> look(const std::string& name, engine::Kind kind) const {
    auto seen = process::look_at(*mapping_, name);
    if (seen && seen->kind != kind) {
      throw std::runtime_error("it is a " + std::string(engine::word_of(seen->kind)) + ", not a " +
                               std::string(engine::word_of(kind)));
    }
    return seen;
  }

  std::shared_ptr<engine::Mapping> mapping_;
};

class SegmentSessions final : public GuardSessions {
 public:
  explicit SegmentSessions(std::shared_ptr<engine::Mapping> mapping) : mapping_(std::move(mapping)) {}

  bool is_alive(const std::string& session, const GuardDeadline& /*deadline*/) override {
    const process::Snapshot seen =
        process::take_snapshot(*mapping_, process::real_clock().now_ns(), process::Detail::brief);
    return std::any_of(seen.sessions.begin(), seen.sessions.end(), [&](const process::SessionView& s) {
      return s.state == engine::SlotState::alive && s.label == session && s.life.life != process::Life::dead;
    });
  }

 private:
  std::shared_ptr<engine::Mapping> mapping_;
};

}  // namespace

std::shared_ptr<GuardPrimitives> primitives_of(const Segment& segment) {
  return std::make_shared<SegmentPrimitives>(detail::Access::mapping(segment));
}
std::shared_ptr<GuardSessions> sessions_of(const Segment& segment) {
  return std::make_shared<SegmentSessions>(detail::Access::mapping(segment));
}

}  // namespace shmcoord
