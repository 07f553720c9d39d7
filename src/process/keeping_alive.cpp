#include "process/keeping_alive.hpp"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "engine/segment_file.hpp"
#include "process/identity.hpp"
#include "process/liveness.hpp"

namespace shmcoord::process {
namespace {

using P = engine::RealPolicy;

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

std::optional<std::int32_t> number_of(std::string_view name) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return number;
}

/// The slots whose bytes of the file with that inode are locked by the descriptor, as its fdinfo says:
/// "lock:\t1: OFDLCK ADVISORY  WRITE -1 00:1b:82998 3 3". Its link in /proc/PID/fd would not do: a segment is born
/// without a name, and who had it open then shows it without one for ever.
std::vector<SlotIndex> locked_slots(const std::string& fdinfo, ino_t inode) {
  std::vector<SlotIndex> slots;
  std::ifstream file(fdinfo);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("lock:")) continue;
    std::istringstream words(line);
    std::string skipped;
    std::string locked_file;
    std::uint64_t first = 0;
    for (int i = 0; i < 6; ++i) words >> skipped;
    if (!(words >> locked_file >> first) || first / 2 > std::numeric_limits<SlotIndex>::max()) continue;
    if (locked_file.ends_with(":" + std::to_string(inode))) slots.push_back(static_cast<SlotIndex>(first / 2));
  }
  return slots;
}

std::vector<KeepingAlive> keeping_alive(const Mapping& mapping, const std::vector<SlotIndex>& dying) {
  std::vector<KeepingAlive> found;
  if (dying.empty()) return found;
  struct stat segment {};
  if (::fstat(mapping.fd(), &segment) != 0) return found;
  const Directory processes(::opendir("/proc"));
  if (!processes) return found;
  while (const dirent* const process = ::readdir(processes.get())) {
    const auto pid = number_of(process->d_name);
    if (!pid) continue;
    const std::string folder = "/proc/" + std::to_string(*pid);
    const Directory descriptors(::opendir((folder + "/fd").c_str()));
    if (!descriptors) continue;  // another user's, or gone
    while (const dirent* const one = ::readdir(descriptors.get())) {
      if (!number_of(one->d_name)) continue;
      for (const SlotIndex slot : locked_slots(folder + "/fdinfo/" + one->d_name, segment.st_ino)) {
        struct stat st {};
        if (::stat((folder + "/fd/" + one->d_name).c_str(), &st) != 0 || st.st_dev != segment.st_dev) continue;
        const bool known = std::any_of(found.begin(), found.end(),
                                       [&](const KeepingAlive& k) { return k.pid == *pid && k.slot == slot; });
        if (known || std::find(dying.begin(), dying.end(), slot) == dying.end()) continue;
        found.push_back({slot, *pid, command_of(*pid)});
      }
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.pid < b.pid; });
  return found;
}

struct HolderEntry {
  engine::EntryIndex entry;
  engine::ChunkOwner owner;
};

std::optional<HolderEntry> holder_of(const PrimitiveClient& client) {
  const engine::View& view = client.participant().mapping().view();
  const auto ops = client.ops();
  const core::Control c = ops.load();
  if (c.used == 0) return std::nullopt;
  const engine::EntryIndex entry =
      c.op == core::Op::acquire ? c.last : engine::unpack_link(P::load(ops.record().holder)).entry;
  if (!view.entry_exists(entry)) return std::nullopt;
  const std::uint64_t owner = P::load(view.owner_of(entry));
  if (owner == 0) return std::nullopt;
  return HolderEntry{entry, engine::unpack_owner(owner)};
}

}  // namespace

std::vector<KeepingAlive> keeping_alive(const Mapping& mapping, const Picture& picture) {
  std::vector<SlotIndex> dying;
  for (const LockView& lock : picture.locks) {
    for (const GrantView& g : lock.holders) {
      if (g.life.life == Life::dying) dying.push_back(g.slot);
    }
  }
  return keeping_alive(mapping, dying);
}

std::optional<std::vector<KeepingAlive>> keeping_holder_alive(const PrimitiveClient& client) {
  const auto holder = holder_of(client);
  if (!holder || holder->owner.slot == engine::detached_slot) return std::nullopt;
  const auto& mapping = client.participant().mapping();
  if (life_of(mapping, holder->owner.slot, holder->owner.incarnation).life != Life::dying) return std::nullopt;
  return keeping_alive(mapping, std::vector<SlotIndex>{holder->owner.slot});
}

std::optional<OutOfSight> holder_out_of_sight(const PrimitiveClient& client) {
  const auto holder = holder_of(client);
  if (!holder || holder->owner.slot != engine::detached_slot) return std::nullopt;
  const engine::Entry& e = client.participant().mapping().view().entry(holder->entry);
  const std::int32_t pid = P::get(e.bound_pid);
  const Sight sight = pid == 0 ? Sight::seen : sight_of(pid, P::get(e.bound_pid_namespace));
  return sight == Sight::seen ? std::nullopt : std::optional(OutOfSight{pid, sight});
}

}  // namespace shmcoord::process
