#include "shmcoord/render.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "core/names.hpp"

namespace shmcoord::tool {

std::string rfc3339(std::int64_t wall_ns) {
  if (wall_ns <= 0) return {};
  const time_t seconds = wall_ns / 1'000'000'000;
  tm t{};
  if (::gmtime_r(&seconds, &t) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                     t.tm_min, t.tm_sec, wall_ns / 1'000'000 % 1000);
}

std::string printable(std::string_view text) {
  const auto plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out;
  while (!text.empty()) {
    char32_t code = 0;
    const std::size_t length = core::detail::utf8_sequence(text, &code);
    const bool control = code < 0x20 || (code >= 0x7F && code <= 0x9F);
    // Bidirectional overrides can make a line read as another one.
    const bool misleading = (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    if (length == 0 || control || misleading) {
      out += code == '\n' || code == '\t' ? " " : "\xEF\xBF\xBD";
      text.remove_prefix(std::max<std::size_t>(length, 1));
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return out;
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

std::vector<Edge> edges_of(const Scene& scene) {
  std::vector<Edge> edges;
  for (const process::LockView& lock : scene.picture.locks) {
    for (const process::GrantView& waiter : lock.waiters) {
      for (const process::GrantView& holder : lock.holders) edges.push_back({&lock, &waiter, &holder});
    }
  }
  return edges;
}

std::string holder_name(const process::GrantView& grant) {
  return grant.holder.empty() ? "(implicit)" : printable(grant.holder);
}

}  // namespace shmcoord::tool
