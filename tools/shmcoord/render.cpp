#include "shmcoord/render.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "engine/segment_file.hpp"
#include "shmcoord/durations.hpp"

namespace shmcoord::tool {

std::int64_t created_wall_ns(const process::Mapping& mapping) {
  constexpr std::int64_t second = 1'000'000'000;
  const std::int64_t seconds = mapping.view().header().created_wall_s;
  return seconds < 0 || seconds > INT64_MAX / second ? 0 : seconds * second;
}

std::string rfc3339(std::int64_t wall_ns) {
  if (wall_ns <= 0) return {};
  const time_t seconds = wall_ns / 1'000'000'000;
  tm t{};
  if (::gmtime_r(&seconds, &t) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                     t.tm_min, t.tm_sec, wall_ns / 1'000'000 % 1000);
}

std::vector<SessionUse> sessions_of(const Scene& scene) {
  std::vector<SessionUse> uses;
  std::vector<std::uint32_t> of_slot;
  for (const process::SessionView& s : scene.picture.snapshot.sessions) {
    if (s.state == engine::SlotState::free || s.state == engine::SlotState::permanent) continue;
    if (s.slot >= of_slot.size()) of_slot.resize(std::size_t{s.slot} + 1, 0);
    uses.push_back({&s, 0, 0});
    of_slot[s.slot] = static_cast<std::uint32_t>(uses.size());
  }
  const auto use_of = [&](const process::GrantView& g) -> SessionUse* {
    if (g.session_id == 0 || g.slot >= of_slot.size() || of_slot[g.slot] == 0) return nullptr;
    SessionUse& use = uses[of_slot[g.slot] - 1];
    return use.session->session_id == g.session_id ? &use : nullptr;
  };
  for (const process::LockView& lock : scene.picture.locks) {
    for (const process::GrantView& g : lock.holders) {
      if (SessionUse* const use = use_of(g)) ++use->holds;
    }
    for (const process::GrantView& g : lock.waiters) {
      if (SessionUse* const use = use_of(g)) ++use->waits;
    }
  }
  if (scene.filtered) std::erase_if(uses, [](const SessionUse& u) { return u.holds == 0 && u.waits == 0; });
  return uses;
}

std::vector<const process::LockView*> of_kind(const process::Picture& picture, engine::Kind kind) {
  std::vector<const process::LockView*> found;
  for (const process::LockView& lock : picture.locks) {
    // What is of no known kind is shown with the locks.
    const bool known = lock.kind == engine::Kind::semaphore || engine::is_registered(lock.kind);
    if ((known ? lock.kind : engine::Kind::lock) == kind) found.push_back(&lock);
  }
  return found;
}

bool is_shared(const process::LockView& lock) noexcept {
  return lock.kind == engine::Kind::lock && !lock.holders.empty() &&
         (lock.holders.size() > 1 || lock.holders.front().weight < lock.capacity);
}

std::string quota_text(const process::LockView& semaphore) {
  if (semaphore.per_session == 0) return {};
  return fmt::format("; {} per session, {} session{}", semaphore.per_session, semaphore.members,
                     semaphore.members == 1 ? "" : "s");
}

std::string action_text(const GuardAction& action) {
  if (const auto* const retry = std::get_if<Retry>(&action)) return "retry:" + format_duration(retry->delay);
  if (const auto* const fail = std::get_if<Fail>(&action)) return "fail:" + printable(fail->message);
  return std::holds_alternative<Warn>(action) ? "warn" : "block";
}

std::vector<Edge> edges_of(const Scene& scene) {
  std::vector<Edge> edges;
  for (const process::LockView& lock : scene.picture.locks) {
    const process::GrantView* before = nullptr;
    for (const process::GrantView& waiter : lock.waiters) {
      if (before != nullptr) {
        edges.push_back({&lock, &waiter, before, false});
      } else {
        for (const process::GrantView& holder : lock.holders) {
          // Who waits for more does not wait for what it has.
          const bool same =
              holder.holder == waiter.holder && (!holder.holder.empty() || holder.thread == waiter.thread);
          if (waiter.beside == 0 || !same) edges.push_back({&lock, &waiter, &holder, true});
        }
      }
      before = &waiter;
    }
  }
  return edges;
}

std::optional<std::vector<process::KeepingAlive>> keeping_of(const Scene& scene, const process::GrantView& grant) {
  if (grant.life.life != process::Life::dying) return std::nullopt;
  std::vector<process::KeepingAlive> keeping;
  std::copy_if(scene.keeping.begin(), scene.keeping.end(), std::back_inserter(keeping),
               [&](const process::KeepingAlive& k) { return k.slot == grant.slot; });
  return keeping;
}

std::string holder_name(const process::GrantView& grant) {
  return grant.holder.empty() ? "(implicit)" : printable(grant.holder);
}

}  // namespace shmcoord::tool
