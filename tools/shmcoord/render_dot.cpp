#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/lease.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/render.hpp"

// The graph of `inspect --dot`: who waits for whom. A node is whoever goes on as one (process/deadlock.hpp).

namespace shmcoord::tool {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// Nodes by who they are, named in the order in which they come.
class Nodes {
 public:
  std::string name(const process::GrantView& g) {
    const bool implicit = g.holder.empty();
    const bool detached = (g.flags & engine::entry_detached) != 0;
    const auto key = std::tuple(detached ? 0 : g.session_id, g.holder, implicit ? g.thread : 0);
    const auto [at, added] = known_.try_emplace(key, "n" + std::to_string(known_.size()));
    if (!added) return at->second;
    std::string label = implicit ? "thread " + std::to_string(g.thread) : g.holder;
    if (g.pid != 0) label += "  pid " + std::to_string(g.pid);
    if (!g.label.empty()) label += "  " + g.label;
    lines_ += fmt::format("  {} [label={}];\n", at->second, quoted(label));
    return at->second;
  }
  [[nodiscard]] const std::string& lines() const noexcept { return lines_; }

 private:
  std::map<std::tuple<std::uint64_t, std::string, std::uint32_t>, std::string> known_;
  std::string lines_;
};

}  // namespace

std::string inspect_dot(const Scene& scene) {
  std::set<engine::EntryIndex> stuck;  // waits of deadlocks
  for (const process::FoundDeadlock& deadlock : scene.deadlocks) {
    stuck.insert(deadlock.waits.begin(), deadlock.waits.end());
  }
  Nodes nodes;
  std::string edges;
  for (const Edge& edge : edges_of(scene)) {
    const std::string from = nodes.name(*edge.waiter);
    const std::string to = nodes.name(*edge.blocker);
    const std::string waits = format_duration_ns(core::age_ns(edge.waiter->since_ns, scene.picture.now_ns));
    edges += fmt::format("  {} -> {} [label={}{}{}];\n", from, to, quoted(edge.lock->name + " for " + waits),
                         edge.holds ? "" : ", style=dashed",
                         stuck.contains(edge.waiter->entry) ? ", color=red, fontcolor=red" : "");
  }
  return "digraph waits {\n  node [shape=box];\n" + nodes.lines() + edges + "}\n";
}

}  // namespace shmcoord::tool
