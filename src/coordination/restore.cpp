#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/printable.hpp"
#include "coordination/guard_store.hpp"
#include "coordination/pipeline_store.hpp"
#include "coordination/save.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_birth.hpp"
#include "engine/segment_name.hpp"
#include "process/atomic_file.hpp"
#include "process/clock.hpp"
#include "process/identity.hpp"
#include "process/primitive_client.hpp"
#include "process/restored_hold.hpp"
#include "process/snapshot.hpp"

// A segment made anew from its snapshot.
//
// It is filled under a temporary name, by one session that leaves again, and gets its own name last; so nobody sees
// half of it. If we die here: the temporary goes with the next one who restores or lists segments
// (engine/segment_birth.hpp). The snapshot says more tokens by then, which it may.

namespace shmcoord {
namespace {

using coordination::SavedHold;
using coordination::SavedName;
using coordination::SavedState;
using engine::Kind;
using engine::RealPolicy;
using process::Participant;
using process::PrimitiveClient;

[[noreturn]] void throw_exists(const std::string& path) {
  throw Error(Errc::segment_exists, "segment " + path + " exists; remove it first, or restore under another name");
}

// Whatever it was that there was no room for, and whatever would be advised to who has the segment.
[[noreturn]] void throw_full(const std::string& path, const std::string& file) {
  throw Error(Errc::no_space, "segment " + path + ": no space left in its file system for what " + file +
                                  " holds; make room there (for /dev/shm: delete what nobody uses, or remount it with "
                                  "a larger size), and restore again; nothing was restored");
}

bool may_give_to(gid_t group) {
  if (::geteuid() == 0) return true;
  const int most = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(most > 0 ? static_cast<std::size_t>(most) : 0);
  const int got = ::getgroups(most > 0 ? most : 0, groups.data());
  groups.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  groups.push_back(::getegid());
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

/// What is told of the temporary file, told of the segment that was to be made of it.
Error told_of(const std::string& path, const std::string& temporary, const Error& e) {
  std::string text = e.what();
  for (std::size_t at = text.find(temporary); at != std::string::npos; at = text.find(temporary, at + path.size())) {
    text.replace(at, temporary.size(), path);
  }
  return {e.errc(), text};
}

/// A segment that has no name yet.
class Unfinished {
 public:
  Unfinished(const std::string& path, const SavedState& state, std::optional<gid_t> group) {
    constexpr int tries = 100;
    for (int n = 0; n < tries; ++n) {
      temporary_ = engine::temporary_beside(path);
      try {
        mapping_ = engine::Mapping::create(
            temporary_, {.sizes = state.sizes, .mode = state.mode, .group = group, .flags = state.flags});
      } catch (const Error& e) {
        throw told_of(path, temporary_, e);
      }
      const bool mine = ::flock(mapping_->fd(), LOCK_EX | LOCK_NB) == 0 && mapping_->linked();
      if (mine) return;  // else it was taken for what a dead one left
    }
    throw Error(Errc::system, path + ": its temporary file was removed " + std::to_string(tries) + " times");
  }
  ~Unfinished() {
    if (!named_) ::unlink(temporary_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  [[nodiscard]] const std::shared_ptr<engine::Mapping>& mapping() const noexcept { return mapping_; }
  [[nodiscard]] const std::string& temporary() const noexcept { return temporary_; }

  void give_name(const std::string& name, const std::string& path) {
    switch (engine::give_name(temporary_, path)) {
      case engine::Named::yes: break;
      case engine::Named::taken: throw_exists(path);
      case engine::Named::impossible:
        throw Error(Errc::system, path + ": giving it its name: " + std::generic_category().message(errno));
    }
    named_ = true;
    mapping_->renamed(name, path);
    ::flock(mapping_->fd(), LOCK_UN);
  }

 private:
  std::string temporary_;
  std::shared_ptr<engine::Mapping> mapping_;
  bool named_ = false;
};

std::chrono::nanoseconds ns(std::int64_t n) { return std::chrono::nanoseconds(n); }

process::NameOptions options_of(const SavedName& name) {
  process::NameOptions options;
  options.kind = name.kind;
  const auto given = [](std::int64_t n) { return n == 0 ? std::nullopt : std::optional(ns(n)); };
  options.lease = {given(name.stale_threshold_ns), given(name.heartbeat_interval_ns), given(name.max_hold_ns),
                   given(name.ttl_ns)};
  if (name.kind == Kind::semaphore && name.per_session != 0) {
    options.per_session = name.per_session;
    options.joins = false;
  } else if (name.kind == Kind::semaphore) {
    // It may have been made smaller than what was in use.
    std::uint32_t capacity = name.capacity;
    std::uint32_t used = 0;
    for (const SavedHold& hold : name.holders) used += hold.weight;
    options.capacity = std::max(capacity, used);
  }
  return options;
}

/// Empty: it can come back.
std::string why_not(const SavedHold& hold, bool same_boot) {
  if (hold.of == SavedHold::Of::session) return "it ended with its process, which finds only its own segment";
  if (hold.of == SavedHold::Of::detached) return {};
  const bool runs = same_boot && process::process_state(hold.pid, hold.process_start, process::own_pid_namespace()) ==
                                     process::ProcessState::running;
  return runs ? std::string() : "the process that it is bound to has ended";
}

class Restoration {
 public:
  Restoration(engine::Mapping& mapping, const SavedState& state, const std::string& file)
      : mapping_(mapping), state_(state), file_(file) {}

  RestoreReport run(const std::shared_ptr<Participant>& me) {
    const bool same_boot = state_.boot == coordination::state_of(mapping_).boot;
    for (const SavedName& name : state_.names) {
      try {
        restore(me, name, same_boot);
      } catch (const Error& e) {
        if (e.errc() == Errc::no_space || e.errc() == Errc::table_full) throw;
        throw Error(Errc::snapshot_damaged, file_ + ": '" + name.name + "' cannot be restored: " + e.what());
      }
    }
    set_ages();
    return std::move(report_);
  }

 private:
  void restore(const std::shared_ptr<Participant>& me, const SavedName& name, bool same_boot) {
    if (name.kind == Kind::guard) {
      (void)coordination::add_guard(me, coordination::guard_from(name.name, name.definition));
      ++report_.restored.guards;
      return;
    }
    if (name.kind == Kind::pipeline) {
      const Pipeline pipeline = Pipeline::parse_json(name.definition).with_progress(name.progress);
      coordination::restore_pipeline(me, pipeline);
      ++report_.restored.pipelines;
      return;
    }
    PrimitiveClient client(me, name.name, options_of(name));
    ++(name.kind == Kind::lock ? report_.restored.locks : report_.restored.semaphores);
    for (const SavedHold& hold : name.holders) {
      std::string why = why_not(hold, same_boot);
      // Two scripts may have acquired it at once with one id, which is one holder from here on.
      if (why.empty() && holds_.contains({name.name, hold.holder})) why = "its holder holds it already";
      if (!why.empty()) {
        report_.left_out.push_back({name.name, hold.holder, hold.pid, std::move(why)});
        continue;
      }
      process::Request request;
      request.holder = hold.holder;
      request.weight = name.kind == Kind::semaphore ? hold.weight
                       : hold.shared                ? process::shared_lock
                                                    : process::whole_lock;
      request.reason = hold.reason;
      if (hold.ttl_ns != 0) request.ttl = ns(hold.ttl_ns);
      request.no_lease = !hold.leased;
      request.detached = true;
      request.bound_pid = hold.of == SavedHold::Of::process ? hold.pid : 0;
      if (!client.acquire(request, process::try_once)) {
        throw Error(Errc::snapshot_damaged, "'" + hold.holder + "' and another one cannot both hold it");
      }
      holds_.emplace(std::pair(name.name, hold.holder), &hold);
      ++report_.restored.holds;
    }
    if (name.kind == Kind::semaphore && name.per_session == 0 && options_of(name).capacity != name.capacity) {
      client.resize(name.capacity);
    }
  }

  void set_ages() {
    const std::int64_t now_ns = process::real_clock().now_ns();
    for (const process::LockView& seen : process::take_picture(mapping_, now_ns).locks) {
      for (const process::GrantView& g : seen.holders) {
        const auto found = holds_.find({seen.name, g.holder});
        if (found == holds_.end()) continue;
        const SavedHold& hold = *found->second;
        const bool same = process::restore_hold(mapping_.view(), seen.record, seen.generation, g.entry, hold.token,
                                                now_ns - hold.held_ns, now_ns - hold.silent_ns);
        if (!same) report_.renewed.push_back({seen.name, hold.holder, hold.pid, "its token is too old to be kept"});
      }
    }
  }

  engine::Mapping& mapping_;
  const SavedState& state_;
  const std::string& file_;
  std::map<std::pair<std::string, std::string>, const SavedHold*> holds_;
  RestoreReport report_;
};

}  // namespace

RestoreReport restore_snapshot(const std::string& file, std::string_view segment) {
  // Alone with the file until the segment has its name: of two who restore, the second one finds what the first made,
  // and the file says which instance that is.
  const process::FileReplacement replacement(file);
  std::optional<SavedState> read = coordination::read_state(file);
  if (!read) throw Error(Errc::not_found, file + ": there is no such file");
  SavedState& state = *read;
  const std::string name = segment.empty() ? engine::default_segment_name() : std::string(segment);
  const std::string path = engine::segment_path(name);
  if (state.token_reserved + engine::token_margin + engine::token_reserve > core::seq_limit) {
    throw Error(Errc::table_full, file + ": it reserved the last tokens that there can be");
  }
  if (struct stat there{}; ::lstat(path.c_str(), &there) == 0) throw_exists(path);
  engine::Mapping::clean_up_beside(path);
  const bool of_group = (state.mode & 0070U) != 0;  // else it is nothing to anybody
  const bool gives = of_group && may_give_to(state.group);
  Unfinished unfinished(path, state, gives ? std::optional(static_cast<gid_t>(state.group)) : std::nullopt);
  engine::Mapping& mapping = *unfinished.mapping();
  engine::Word64& floor = mapping.view().header().token_floor;
  RealPolicy::store(floor, std::max(RealPolicy::load(floor), state.token_reserved + engine::token_margin));
  RestoreReport report;
  try {
    const std::shared_ptr<Participant> me = Participant::join(unfinished.mapping());
    report = Restoration(mapping, state, file).run(me);
  } catch (const Error& e) {
    if (e.errc() == Errc::no_space) throw_full(path, file);
    throw told_of(path, unfinished.temporary(), e);
  }
  if (of_group && !gives) report.lost_group = state.group;
  // Before anybody can use it: from the same file tokens would be given out a second time.
  const SavedState made = coordination::state_of(mapping);
  state.token_reserved = made.token_reserved;
  state.instance = made.instance;
  state.segment = base::printable(name);
  try {
    coordination::write_state(mapping, state, replacement);
  } catch (const Error& e) {
    throw Error(e.errc(), std::string(e.what()) +
                              "; restoring writes the snapshot anew, so that no token is given out twice, and who "
                              "restores must be able to replace it; nothing was restored");
  }
  unfinished.give_name(name, path);
  return report;
}

}  // namespace shmcoord
