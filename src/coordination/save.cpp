#include "coordination/save.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>

#include "base/printable.hpp"
#include "coordination/guard_store.hpp"
#include "coordination/pipeline_store.hpp"
#include "engine/segment_name.hpp"
#include "process/clock.hpp"
#include "process/face.hpp"
#include "process/primitive_client.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/snapshot.hpp"

namespace shmcoord {
namespace coordination {
namespace {

using engine::Kind;
using engine::RealPolicy;
using process::GrantView;
using process::LockView;

constexpr std::size_t most_bytes = std::size_t{4} << 30U;

std::string instance_of(const engine::Mapping& mapping) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx",
                static_cast<unsigned long long>(mapping.view().header().segment_id));
  return text.data();
}

/// Where that name leads; itself when it leads nowhere.
std::string path_or_name(const std::string& name) {
  try {
    return base::printable(engine::segment_path(name));
  } catch (const Error&) {
    return name;
  }
}

std::string in_hex(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    std::array<char, 3> two{};
    std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned>(byte));
    text += two.data();
  }
  return text;
}

std::int64_t age(std::int64_t then_ns, std::int64_t now_ns) {
  if (then_ns >= now_ns) return 0;
  return then_ns < now_ns - longest_duration_ns ? longest_duration_ns : now_ns - then_ns;
}

SavedHold hold_of(const engine::View& view, const GrantView& g, Kind kind, std::int64_t now_ns) {
  SavedHold hold;
  hold.holder = g.holder;
  hold.weight = kind == Kind::lock ? 1 : g.weight;
  hold.shared = kind == Kind::lock && g.weight != process::whole_lock;
  hold.token = g.token;
  hold.reason = g.reason;
  hold.held_ns = age(g.since_ns, now_ns);
  hold.silent_ns = age(g.last_sign_ns, now_ns);
  hold.ttl_ns = g.ttl_ns;
  hold.leased = (g.flags & engine::entry_no_lease) == 0;
  hold.pid = g.pid;
  hold.session = base::printable(g.label);
  hold.command = base::printable(g.command);
  if ((g.flags & engine::entry_detached) == 0) {
    hold.of = SavedHold::Of::session;
  } else if (g.pid != 0) {
    hold.of = SavedHold::Of::process;
    hold.process_start = RealPolicy::get(view.entry(g.entry).bound_start_time);
  }
  return hold;
}

SavedName name_of(const engine::View& view, const LockView& seen, std::int64_t now_ns) {
  SavedName name;
  name.kind = seen.kind;
  name.name = seen.name;
  if (seen.kind == Kind::semaphore) {
    name.per_session = seen.per_session;
    name.capacity = seen.per_session == 0 ? seen.capacity : 0;
  }
  name.stale_threshold_ns = seen.stale_threshold_ns;
  name.heartbeat_interval_ns =
      static_cast<std::int64_t>(RealPolicy::load(view.record(seen.record).heartbeat_interval_ns));
  name.ttl_ns = seen.default_ttl_ns;
  name.max_hold_ns = seen.max_hold_ns;
  for (const GrantView& g : seen.holders) name.holders.push_back(hold_of(view, g, seen.kind, now_ns));
  std::sort(name.holders.begin(), name.holders.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  return name;
}

/// Of a damaged segment there may be a text that nobody can read, which must not take the place of an older one.
std::string readable_text_of(const SavedState& state, const engine::Mapping& mapping) {
  std::string text = text_of(state);
  try {
    (void)state_from(text, "line");
  } catch (const Error& e) {
    const std::string_view why = e.what();
    throw Error(Errc::segment_corrupt, "segment " + mapping.name() + " has what no snapshot can say (" +
                                           std::string(why.substr(0, why.find(';'))) +
                                           "), so nothing was saved; `shmcoord segment check` says more");
  }
  return text;
}

}  // namespace

SavedState state_of(const engine::Mapping& mapping) {
  const engine::View& view = mapping.view();
  const engine::Header& header = view.header();
  SavedState state;
  state.saved_wall_ns = process::real_clock().wall_ns();
  state.boot = in_hex(header.boot_id);
  state.segment = base::printable(mapping.name());
  state.instance = instance_of(mapping);
  state.sizes = header.sizes;
  state.flags = header.flags;
  struct stat file {};
  if (::fstat(mapping.fd(), &file) == 0) {
    state.mode = file.st_mode & 0777U;
    state.group = file.st_gid;
  }
  std::uint64_t highest = RealPolicy::load(header.token_floor);
  const std::int64_t now_ns = process::real_clock().now_ns();
  process::Picture picture = process::take_picture(mapping, now_ns);
  for (LockView& seen : picture.locks) {
    if (!seen.settled || seen.damaged) {  // it was changed while it was read
      auto again = process::look_at(mapping, seen.name);
      if (!again) continue;
      seen = *std::move(again);
    }
    highest = std::max(highest, seen.seq);
    if (seen.kind == Kind::guard) {
      const auto stored = stored_text(seen);
      if (!stored) continue;
      SavedName name;
      name.kind = Kind::guard;
      name.name = seen.name;
      name.definition = definition_of(guard_from(seen.name, stored->text));
      state.names.push_back(std::move(name));
    } else if (seen.kind == Kind::pipeline) {
      const auto stored = stored_pipeline(seen);
      if (!stored) continue;
      SavedName name;
      name.kind = Kind::pipeline;
      name.name = seen.name;
      name.definition = stored->pipeline.json();
      name.progress = stored->pipeline.progress();
      state.names.push_back(std::move(name));
    } else {
      state.names.push_back(name_of(view, seen, now_ns));
    }
  }
  state.token_reserved = std::min(highest + engine::token_reserve, core::seq_limit);
  return state;
}

void write_state(const engine::Mapping& mapping, SavedState& state, const process::FileReplacement& replacement) {
  engine::Word64& word = mapping.view().header().token_reserved;
  // The first snapshot limits before it promises; later ones promise more before that is used.
  for (std::uint64_t seen = RealPolicy::load(word); seen == 0; seen = RealPolicy::load(word)) {
    RealPolicy::cas(word, seen, state.token_reserved);
  }
  state.token_reserved = std::max(state.token_reserved, RealPolicy::load(word));
  replacement.write(readable_text_of(state, mapping));
  for (std::uint64_t seen = RealPolicy::load(word); seen < state.token_reserved; seen = RealPolicy::load(word)) {
    RealPolicy::cas(word, seen, state.token_reserved);
  }
}

SnapshotCounts counts_of(const SavedState& state) {
  SnapshotCounts counts;
  for (const SavedName& name : state.names) {
    switch (name.kind) {
      case Kind::semaphore: ++counts.semaphores; break;
      case Kind::guard: ++counts.guards; break;
      case Kind::pipeline: ++counts.pipelines; break;
      default: ++counts.locks;
    }
    counts.holds += name.holders.size();
  }
  return counts;
}

std::optional<SavedState> read_state(const std::string& file) {
  std::string text;
  try {
    text = process::read_whole_file(file, most_bytes);
  } catch (const Error& e) {
    if (e.errc() == Errc::not_found) return std::nullopt;
    throw;
  }
  return state_from(text, file);
}

void require_same(const engine::Mapping& mapping, const SavedState& state, const std::string& file) {
  const std::string own = instance_of(mapping);
  if (state.instance == own) return;
  const std::string name = base::printable(mapping.name());
  throw Error(Errc::segment_exists, file + ": this is a snapshot of another segment (id " +
                                        base::printable(state.instance) + ") than the one that exists as " +
                                        base::printable(mapping.path()) + " (id " + own +
                                        "), and what it holds would be lost; to go back to it: `shmcoord -s " + name +
                                        " segment remove`, then `shmcoord -s " + name + " snapshot restore " + file +
                                        "`; to keep the one that exists: move the file away; nothing was changed");
}

void require_name(std::string_view segment, const SavedState& state, const std::string& file) {
  const std::string wanted(segment);
  if (state.segment == wanted || path_or_name(state.segment) == path_or_name(wanted)) return;
  const std::string name = base::printable(wanted);
  throw Error(Errc::config_differs, file + ": this is a snapshot of segment " + base::printable(state.segment) +
                                        ", not of " + name + "; `shmcoord -s " + name + " snapshot restore " + file +
                                        "` makes it under that name; nothing was changed");
}

SnapshotCounts save(const engine::Mapping& mapping, const std::string& file, Over over) {
  if (mapping.read_only()) {
    throw Error(Errc::no_permission, "segment " + mapping.path() +
                                         ": saving it takes write permission, for it reserves the tokens of after a "
                                         "restore; ask its owner");
  }
  if (mapping.removed()) throw Error(Errc::segment_gone, "segment " + mapping.name() + " was removed");
  const process::FileReplacement replacement(file);
  if (over == Over::its_own) {
    if (const auto there = read_state(file)) require_same(mapping, *there, file);
  }
  SavedState state = state_of(mapping);
  write_state(mapping, state, replacement);
  return counts_of(state);
}

}  // namespace coordination

SnapshotCounts save_snapshot(const Segment& segment, const std::string& file) {
  return coordination::save(*detail::Access::mapping(segment), file, coordination::Over::anything);
}

}  // namespace shmcoord
