#include "shmcoord/occupancy.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "process/clock.hpp"
#include "process/keeping_alive.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

using engine::Kind;
using process::PrimitiveClient;

/// "; it is dead, but sleep 60 (pid 123) goes on…" when the lock's holder is dying, "; bound to process 7 of another
/// PID namespace…" when it cannot be judged from here; else nothing.
std::string kept_text(const PrimitiveClient& client) {
  if (const auto keeping = process::keeping_holder_alive(client)) return "; it is dead, but " + describe(*keeping);
  if (const auto hidden = process::holder_out_of_sight(client)) return "; " + describe(hidden->sight, hidden->pid);
  return {};
}

/// Likewise of the first of several that it is true of, by name.
std::string kept_by_some_text(const PrimitiveClient& client) {
  const engine::Mapping& mapping = client.participant().mapping();
  const process::Picture picture = process::take_picture(mapping, process::real_clock().now_ns(), {client.name()});
  for (const process::LockView& lock : picture.locks) {
    for (const process::GrantView& g : lock.holders) {
      if (g.life.life == process::Life::dying) {
        auto keeping = process::keeping_alive(mapping, picture);
        std::erase_if(keeping, [&](const process::KeepingAlive& k) { return k.slot != g.slot; });
        return "; " + holder_name(g) + " is dead, but " + describe(keeping);
      }
      if (g.sight != process::Sight::seen) return "; " + holder_name(g) + " is " + describe(g.sight, g.pid);
    }
  }
  return {};
}

}  // namespace

std::string title_of(const PrimitiveClient& client) { return printable(client.title()); }

std::string holders_text(Kind kind, const std::vector<PermitHolder>& holders) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, holders.size()); ++i) {
    if (i != 0) text += "; ";
    if (kind == Kind::semaphore) text += std::to_string(holders[i].weight) + " by ";
    text += describe(holders[i]);
  }
  if (holders.size() > shown) text += fmt::format("; and {} more", holders.size() - shown);
  return text;
}

std::string occupancy_text(PrimitiveClient& client, const std::optional<HolderInfo>& last_seen) {
  const std::vector<PermitHolder> holders = client.holders();
  const std::string all = holders_text(client.kind(), holders);
  if (client.kind() == Kind::semaphore) {
    const PrimitiveClient::Amounts amounts = client.amounts();
    return fmt::format("{} of {} free{}{}", amounts.available(), amounts.capacity,
                       holders.empty() ? "" : ", held: " + all, kept_by_some_text(client));
  }
  if (holders.empty()) return last_seen ? "held by " + describe(*last_seen) : std::string();
  const bool shared = holders.size() > 1 || holders.front().weight != process::whole_lock;
  return shared ? "shared by " + all + kept_by_some_text(client) : "held by " + all + kept_text(client);
}

std::string takeover_text(const PrimitiveClient& client, const Previous& previous) {
  const std::string how = previous.why == Loss::died ? "died" : "lost it: " + std::string(describe(previous.why));
  return fmt::format("{}: previous holder {} {}; taking over", title_of(client), describe(previous), how);
}

}  // namespace shmcoord::tool
