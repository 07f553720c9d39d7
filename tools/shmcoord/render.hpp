#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/object.hpp>

#include "base/printable.hpp"
#include "process/deadlock.hpp"
#include "process/keeping_alive.hpp"
#include "process/recovery.hpp"
#include "process/snapshot.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/guard.hpp"
#include "shmcoord/segment_pipeline.hpp"
#include "shmcoord/snapshot.hpp"

// From what was seen to text for people and to JSON for programs.
//
// Texts of a segment are other people's bytes, also damaged ones: what is printed never contains control characters (a
// label must not drive the reader's terminal) and JSON is always valid UTF-8.

namespace shmcoord::tool {

/// Something that is missing, and what that costs: here, or at the sessions it names. What it says of single holders
/// stands with them.
struct Notice {
  std::string_view code;
  std::string text;  // one line
  std::vector<const process::SessionView*> sessions = {};
};

/// All that a rendering needs: what was seen, and where and when.
struct Scene {
  const process::Mapping& mapping;
  const process::Picture& picture;
  std::int64_t wall_ns = 0;  // nanoseconds since 1970 at picture.now_ns
  bool filtered = false;     // only some locks were asked for: sessions that have nothing to do with them are left out
  bool graph = false;        // also who waits for whom, and the deadlocks
  std::vector<process::KeepingAlive> keeping = {};  // who keeps the dying holders
  std::vector<Notice> notices = {};                 // of notices_of()
  std::vector<process::FoundDeadlock> deadlocks = {};
};

/// One document on one line, given to `write` piece by piece, since it may be bigger than all that it is about; every
/// field is always there, null when it is unknown.
void inspect_json(const Scene& scene, const std::function<void(std::string_view)>& write);
/// Lines with aligned columns. `width`: columns of the terminal, 0: nothing is cut.
[[nodiscard]] std::string inspect_text(const Scene& scene, bool color, std::size_t width);

/// The registered guards of a scene alone: as inspect's `guards`, with a line break; and as its table, nothing of none.
[[nodiscard]] std::string guards_json(const Scene& scene);
[[nodiscard]] std::string guards_text(const Scene& scene, bool color, std::size_t width);

/// A pipeline by itself, as it is told while it runs.
[[nodiscard]] boost::json::object pipeline_members(const Pipeline& pipeline);
/// With who runs it, as in inspect's `pipelines`, with a line break; and as its table, with the phases.
[[nodiscard]] std::string pipeline_json(const PipelineListing& listing, std::int64_t now_ns);
[[nodiscard]] std::string pipeline_text(const PipelineListing& listing, std::int64_t now_ns, bool color,
                                        std::size_t width);
/// All of a scene, likewise.
[[nodiscard]] std::string pipelines_json(const Scene& scene);
[[nodiscard]] std::string pipelines_text(const Scene& scene, bool color, std::size_t width);

/// Who waits for whom, for Graphviz. What takes part in a deadlock is red.
[[nodiscard]] std::string inspect_dot(const Scene& scene);

/// What the reaper did, would do, or noticed: one line of either kind, with the line break.
struct ReapEvent {
  // "planned", "done", "died", "stale", "swept", "restored", "saved", "save_failed", "notice"
  std::string_view event;
  const process::Action* action = nullptr;
  std::string text;
  const process::SweepReport* report = nullptr;
  const Event* warning = nullptr;           // of "stale"
  const RestoreReport* restored = nullptr;  // of "restored"
  const SnapshotCounts* saved = nullptr;    // of "saved"
  std::string_view error = {};              // of "save_failed": an error code as name_of() has it
};
[[nodiscard]] std::string reap_json(const ReapEvent& event, std::int64_t wall_ns);

/// When the segment was made, nanoseconds since 1970; 0: its header says nothing sensible.
[[nodiscard]] std::int64_t created_wall_ns(const process::Mapping& mapping);
/// "2026-11-27T23:12:50.123Z"; empty when the time is not known.
[[nodiscard]] std::string rfc3339(std::int64_t wall_ns);
using base::printable;

/// A session with the number of its holds and waits in the picture.
struct SessionUse {
  const process::SessionView* session = nullptr;
  std::uint32_t holds = 0;
  std::uint32_t waits = 0;
};
/// In slot order; without those that the rendering leaves out.
[[nodiscard]] std::vector<SessionUse> sessions_of(const Scene& scene);
/// Those of one kind.
[[nodiscard]] std::vector<const process::LockView*> of_kind(const process::Picture& picture, engine::Kind kind);
/// A lock that its holders share.
[[nodiscard]] bool is_shared(const process::LockView& lock) noexcept;
/// "; 4 per session, 2 sessions" of a quota, else nothing.
[[nodiscard]] std::string quota_text(const process::LockView& semaphore);
/// "block", "warn", "retry:5s", "fail:no release on Fridays".
[[nodiscard]] std::string action_text(const GuardAction& action);
/// Who waits for whom: the head of a queue for all who hold, every other one for the one before it.
struct Edge {
  const process::LockView* lock;
  const process::GrantView* waiter;
  const process::GrantView* blocker;
  bool holds;  // else it waits too, before that one
};
[[nodiscard]] std::vector<Edge> edges_of(const Scene& scene);
/// "pipeline:42", or "(implicit)".
[[nodiscard]] std::string holder_name(const process::GrantView& grant);
/// Who keeps that holder; nothing when it is not dying.
[[nodiscard]] std::optional<std::vector<process::KeepingAlive>> keeping_of(const Scene& scene,
                                                                           const process::GrantView& grant);

}  // namespace shmcoord::tool
