#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "coordination/guard_store.hpp"
#include "coordination/pipeline_store.hpp"
#include "core/lease.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/display_width.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// The picture as tables for people. A column is as wide as its widest cell; the command and the reason, which may be
// thousands of characters, are cut when the output is a terminal and never otherwise.

namespace shmcoord::tool {
namespace {

enum class Ink : std::uint8_t { plain, dim, bold, good, bad };

constexpr std::array<std::string_view, 5> codes{"", "\x1b[2m", "\x1b[1m", "\x1b[32m", "\x1b[31m"};

struct Cell {
  std::string text;
  Ink ink = Ink::plain;
};

std::string cut(std::string text, std::size_t most) {
  if (most == 0 || columns_of(text) <= most) return text;
  return text.substr(0, bytes_within(text, most - 1)) + "…";
}

class Table {
 public:
  explicit Table(std::vector<std::string> head) {
    std::vector<Cell> row;
    row.reserve(head.size());
    for (std::string& title : head) row.push_back({std::move(title), Ink::dim});
    widths_.resize(row.size());
    add(std::move(row));
  }

  void add(std::vector<Cell> row) {
    for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], columns_of(row[i].text));
    rows_.emplace_back(std::move(row), std::string());
  }
  /// A line that takes no part in the columns.
  void note(std::string line) { rows_.emplace_back(std::vector<Cell>(), std::move(line)); }

  void print(std::string& out, bool color, std::size_t width) const {
    std::size_t before_last = 0;
    for (std::size_t i = 0; i + 1 < widths_.size(); ++i) before_last += widths_[i] + 2;
    const std::size_t room = width == 0 ? 0 : std::max<std::size_t>(20, width > before_last ? width - before_last : 0);
    for (const auto& [cells, line] : rows_) {
      const std::size_t start = out.size();
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const bool last = i + 1 == cells.size();
        const std::string text = last ? cut(cells[i].text, room) : cells[i].text;
        const bool painted = color && cells[i].ink != Ink::plain && !text.empty();
        if (painted) out += codes[static_cast<std::size_t>(cells[i].ink)];
        out += text;
        if (painted) out += "\x1b[0m";
        if (!last) out.append(widths_[i] + 2 - columns_of(text), ' ');
      }
      out += line;
      while (out.size() > start && out.back() == ' ') out.pop_back();
      out += '\n';
    }
  }

 private:
  std::vector<std::pair<std::vector<Cell>, std::string>> rows_;
  std::vector<std::size_t> widths_;
};

constexpr std::size_t command_room = 32;

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }
std::string number_or_dash(std::int64_t n) { return n == 0 ? "-" : std::to_string(n); }
std::string age_or_dash(std::int64_t then_ns, std::int64_t now_ns) {
  return then_ns == 0 ? "-" : format_duration_ns(core::age_ns(then_ns, now_ns));
}
std::string duration_or_dash(std::int64_t ns) { return ns == 0 ? "-" : format_duration_ns(ns); }

Cell life_cell(const process::LifeReport& life) {
  const Ink ink = life.life == process::Life::alive     ? Ink::good
                  : life.life == process::Life::unknown ? Ink::plain
                                                        : Ink::bad;
  return {std::string(to_string(life.life)), ink};
}

/// "builder: make deploy"
std::string program_of(const process::GrantView& g, std::size_t width) {
  std::string text = printable(g.label);
  if (!g.command.empty()) text += (text.empty() ? "" : ": ") + printable(g.command);
  if (text.empty() && (g.flags & engine::entry_detached) != 0) text = "(detached)";
  return or_dash(cut(std::move(text), width == 0 ? 0 : command_room));
}

Cell state_of_holder(const process::GrantView& g, bool shared) {
  const std::string held = shared ? "shared" : "held";
  if (g.life.life == process::Life::dead || g.life.life == process::Life::dying) {
    return {held + ", " + std::string(to_string(g.life.life)), Ink::bad};
  }
  if (g.lease != Loss::none) return {held + ", " + std::string(to_string(g.lease)), Ink::bad};
  return {held, Ink::bold};
}

Cell state_of_waiter(const process::GrantView& g) {
  const bool dead = g.life.life == process::Life::dead || g.life.life == process::Life::dying;
  return dead ? Cell{"waits, " + std::string(to_string(g.life.life)), Ink::bad} : Cell{"waits"};
}

constexpr std::array grant_titles{"HOLDER", "PID", "SINCE", "HEARTBEAT", "TTL", "TOKEN", "PROGRAM", "REASON"};

std::vector<std::string> titles(std::vector<std::string> first) {
  first.insert(first.end(), grant_titles.begin(), grant_titles.end());
  return first;
}

/// The columns of one who holds or waits, behind those that are the table's own.
std::vector<Cell> row_of(std::vector<Cell> row, const process::GrantView& g, std::int64_t now_ns, std::size_t width) {
  row.reserve(row.size() + grant_titles.size());
  const bool leased = (g.flags & engine::entry_no_lease) == 0;
  row.push_back({holder_name(g)});
  row.push_back({number_or_dash(g.pid)});
  row.push_back({age_or_dash(g.since_ns, now_ns)});
  row.push_back({age_or_dash(g.last_sign_ns, now_ns)});
  row.push_back({leased ? duration_or_dash(g.ttl_ns) : "none"});
  row.push_back({g.token == 0 ? "-" : std::to_string(g.token)});
  row.push_back({program_of(g, width)});
  row.push_back({or_dash(printable(g.reason))});
  return row;
}

void note_holder(Table& table, const Scene& scene, const process::GrantView& g) {
  if (const auto keeping = keeping_of(scene, g)) table.note("  it is dead, but " + describe(*keeping));
  if (g.sight != process::Sight::seen) table.note("  " + describe(g.sight, g.pid));
}

void note_previous(Table& table, const process::LockView& lock) {
  if (!lock.previous) return;
  const std::string who = lock.previous->holder.empty() ? "the last holder" : printable(lock.previous->holder);
  const std::string pid = lock.previous->pid == 0 ? "" : fmt::format(" (pid {})", lock.previous->pid);
  table.note(fmt::format("  {}{} lost it: {}; the next holder will be told", who, pid, to_string(lock.previous->why)));
}

Table table_of_sessions(const Scene& scene, std::size_t width) {
  const std::int64_t now_ns = scene.picture.now_ns;
  Table table({"SESSION", "PID", "LABEL", "LIFE", "PROOF", "HEARTBEAT", "JOINED", "HOLDS", "WAITS", "COMMAND"});
  for (const SessionUse& use : sessions_of(scene)) {
    const process::SessionView& s = *use.session;
    const bool fenced = s.state == engine::SlotState::fenced;
    table.add({{fmt::format("{:016x}", s.session_id)},
               {number_or_dash(s.pid)},
               {or_dash(cut(printable(s.label), width == 0 ? 0 : command_room))},
               fenced ? Cell{"fenced", Ink::bad} : life_cell(s.life),
               {std::string(to_string(s.life.proof))},
               {age_or_dash(s.heartbeat_ns, now_ns)},
               {age_or_dash(s.joined_ns, now_ns)},
               {std::to_string(use.holds)},
               {std::to_string(use.waits)},
               {or_dash(printable(s.command))}});
  }
  return table;
}

void add_lock(Table& table, const Scene& scene, const process::LockView& lock, std::size_t width) {
  const std::int64_t now_ns = scene.picture.now_ns;
  const std::string name = printable(lock.name);
  const bool shared = is_shared(lock);
  for (const process::GrantView& g : lock.holders) {
    table.add(row_of({{name, Ink::bold}, state_of_holder(g, shared)}, g, now_ns, width));
    note_holder(table, scene, g);
  }
  if (lock.holders.empty()) {
    table.add({{name, Ink::bold}, lock.damaged ? Cell{"damaged", Ink::bad} : Cell{"free", Ink::good}});
  }
  note_previous(table, lock);
  std::size_t place = 0;
  for (const process::GrantView& g : lock.waiters) {
    table.add(row_of({{fmt::format("  {}.", ++place)}, state_of_waiter(g)}, g, now_ns, width));
  }
  if (!lock.settled) table.note("  (it moved while it was being read)");
}

void add_semaphore(Table& table, const Scene& scene, const process::LockView& semaphore, std::size_t width) {
  const std::int64_t now_ns = scene.picture.now_ns;
  const bool full = semaphore.used >= semaphore.capacity;
  const Cell state = semaphore.damaged ? Cell{"damaged", Ink::bad}
                     : full            ? Cell{"full", Ink::bold}
                                       : Cell{fmt::format("{} free", semaphore.capacity - semaphore.used), Ink::good};
  table.add(
      {{printable(semaphore.name), Ink::bold}, {fmt::format("{}/{}", semaphore.used, semaphore.capacity)}, state});
  if (const std::string quota = quota_text(semaphore); !quota.empty()) table.note("  " + quota.substr(2));
  const auto weight = [](const process::GrantView& g) { return Cell{std::to_string(g.weight)}; };
  for (const process::GrantView& g : semaphore.holders) {
    table.add(row_of({{""}, weight(g), state_of_holder(g, false)}, g, now_ns, width));
    note_holder(table, scene, g);
  }
  note_previous(table, semaphore);
  std::size_t place = 0;
  for (const process::GrantView& g : semaphore.waiters) {
    table.add(row_of({{fmt::format("  {}.", ++place)}, weight(g), state_of_waiter(g)}, g, now_ns, width));
  }
  if (!semaphore.settled) table.note("  (it moved while it was being read)");
}

void add_guard(Table& table, const GuardListing& listed, std::int64_t now_ns) {
  const Guard& guard = listed.guard;
  std::vector<Cell> row{{printable(guard.name)}, {"-"}, {"-"}, {"-"}};
  if (const auto& said = listed.verdict) {
    row[1] = said->passed ? Cell{"passed", Ink::good} : Cell{"failed", Ink::bad};
    row[2] = {age_or_dash(std::chrono::nanoseconds(said->at.time_since_epoch()).count(), now_ns)};
    row[3] = {number_or_dash(said->pid)};
  }
  row.push_back({action_text(guard.on_failure)});
  row.push_back({printable(guard.condition.str())});
  table.add(std::move(row));
  if (listed.verdict && !listed.verdict->passed) table.note("  " + printable(listed.verdict->reason));
}

Table table_of_guards(const std::vector<GuardListing>& guards, std::int64_t now_ns) {
  Table table({"GUARD", "VERDICT", "AGE", "PID", "ACTION", "CONDITION"});
  for (const GuardListing& listed : guards) add_guard(table, listed, now_ns);
  return table;
}

void add_pipeline(Table& table, const PipelineListing& listing, std::int64_t now_ns) {
  const Pipeline& p = listing.pipeline;
  const PipelineStatus status = p.status();
  const Ink ink = status == PipelineStatus::done                                            ? Ink::good
                  : status == PipelineStatus::failed || status == PipelineStatus::cancelled ? Ink::bad
                                                                                            : Ink::bold;
  std::vector<Cell> row{{printable(p.id())}, {std::string(to_string(status)), ink}, {"-"}, {"-"}, {"-"}, {"-"}};
  if (status != PipelineStatus::waiting) {
    row[2] = {fmt::format("{}/{}", p.current() + 1, p.phases().size())};
    row[5] = {printable(p.phase().name)};
  }
  const bool runs = listing.runner && listing.runner->alive;
  if (runs) {
    row[3] = {number_or_dash(listing.runner->pid)};
    row[4] = {age_or_dash(std::chrono::nanoseconds(listing.runner->since.time_since_epoch()).count(), now_ns)};
  }
  table.add(std::move(row));
  if (p.blocked()) table.note("  waiting on " + printable(p.blocked()->waiting_on));
  if (!p.failure().empty()) table.note("  " + printable(p.failure()));
  const bool left = !is_over(status) && status != PipelineStatus::waiting && !runs;
  if (left) table.note("  nobody runs it; `shmcoord pipeline resume " + shell_word(p.id()) + "` goes on with it");
}

Table table_of_pipelines(const std::vector<PipelineListing>& pipelines, std::int64_t now_ns) {
  Table table({"PIPELINE", "STATE", "PHASE", "RUNNER", "FOR", "NAME"});
  for (const PipelineListing& listing : pipelines) add_pipeline(table, listing, now_ns);
  return table;
}

std::string guard_text(const char* title, const std::optional<PhaseGuard>& guard) {
  return guard ? fmt::format("; {} {}", title, guard->condition.str()) : std::string();
}

std::string who_of(const process::GrantView& g) {
  return g.pid == 0 ? holder_name(g) : fmt::format("{} (pid {})", holder_name(g), g.pid);
}

}  // namespace

std::string guards_text(const Scene& scene, bool color, std::size_t width) {
  std::string out;
  const std::vector<GuardListing> guards = coordination::list_guards(scene.mapping, scene.picture);
  if (!guards.empty()) table_of_guards(guards, scene.picture.now_ns).print(out, color, width);
  return out;
}

std::string pipelines_text(const Scene& scene, bool color, std::size_t width) {
  std::string out;
  const std::vector<PipelineListing> pipelines = coordination::list_pipelines(scene.picture);
  if (!pipelines.empty()) table_of_pipelines(pipelines, scene.picture.now_ns).print(out, color, width);
  return out;
}

std::string pipeline_text(const PipelineListing& listing, std::int64_t now_ns, bool color, std::size_t width) {
  Table table = table_of_pipelines({listing}, now_ns);
  const Pipeline& p = listing.pipeline;
  for (std::size_t n = 0; n < p.phases().size(); ++n) {
    const GuardedPhase& phase = p.phases()[n];
    const bool left = n < p.current() || p.status() == PipelineStatus::done;
    const bool here = n == p.current() && p.status() != PipelineStatus::waiting;
    std::string line = fmt::format("  {}. {}{}", n + 1, printable(phase.name), left ? ": done" : here ? ": here" : "");
    line += guard_text("pre", phase.guards.pre) + guard_text("post", phase.guards.post);
    for (const std::string& lock : phase.locks) line += "; lock " + printable(lock);
    for (const PhasePermits& permits : phase.permits) {
      line += fmt::format("; {} of {}", permits.weight, printable(permits.semaphore));
    }
    table.note(cut(printable(line), width));
  }
  std::string out;
  table.print(out, color, width);
  return out;
}

std::string inspect_text(const Scene& scene, bool color, std::size_t width) {
  const engine::Mapping& mapping = scene.mapping;
  const engine::View& view = mapping.view();
  const process::Picture& picture = scene.picture;
  const std::int64_t created_ns = created_wall_ns(mapping);
  const std::vector<SessionUse> sessions = sessions_of(scene);
  const auto locks = of_kind(picture, engine::Kind::lock);
  const auto semaphores = of_kind(picture, engine::Kind::semaphore);
  const std::vector<GuardListing> guards = coordination::list_guards(mapping, picture);
  const std::vector<PipelineListing> pipelines = coordination::list_pipelines(picture);
  std::string out = fmt::format("{}segment {}{}  {}  id {:016x}", color ? "\x1b[1m" : "", printable(mapping.name()),
                                color ? "\x1b[0m" : "", printable(mapping.path()), view.header().segment_id);
  if (created_ns > 0) out += fmt::format("  created {} ago", age_or_dash(created_ns, scene.wall_ns));
  out += fmt::format("\n{} locks, {} semaphores, {}{}{} of {} entries, {} of {} sessions\n", locks.size(),
                     semaphores.size(), guards.empty() ? "" : fmt::format("{} guards, ", guards.size()),
                     pipelines.empty() ? "" : fmt::format("{} pipelines, ", pipelines.size()),
                     picture.snapshot.entries.size(), view.geo.entry_count(), picture.snapshot.sessions.size(),
                     view.geo.sizes.joinable());
  if (mapping.removed()) out += "it was removed: every hold in it is lost\n";
  if (mapping.from_earlier_boot()) out += "it was made before the last boot: everybody in it is dead\n";
  for (const Notice& notice : scene.notices) out += "notice: " + notice.text + '\n';
  if (!sessions.empty()) {
    out += '\n';
    table_of_sessions(scene, width).print(out, color, width);
  }
  if (!locks.empty()) {
    out += '\n';
    Table table(titles({"LOCK", "STATE"}));
    for (const process::LockView* const lock : locks) add_lock(table, scene, *lock, width);
    table.print(out, color, width);
  }
  if (!semaphores.empty()) {
    out += '\n';
    Table table(titles({"SEMAPHORE", "USED", "STATE"}));
    for (const process::LockView* const semaphore : semaphores) add_semaphore(table, scene, *semaphore, width);
    table.print(out, color, width);
  }
  if (!guards.empty()) {
    out += '\n';
    table_of_guards(guards, picture.now_ns).print(out, color, width);
  }
  if (!pipelines.empty()) {
    out += '\n';
    table_of_pipelines(pipelines, picture.now_ns).print(out, color, width);
  }
  if (scene.graph) {
    out += '\n';
    const std::vector<Edge> edges = edges_of(scene);
    for (const Edge& edge : edges) {
      out += fmt::format("{} -> {}  on {}{}\n", who_of(*edge.waiter), who_of(*edge.blocker), printable(edge.lock->name),
                         edge.holds ? "" : ", before it in the queue");
    }
    if (edges.empty()) out += "nobody waits for anybody\n";
    for (const process::FoundDeadlock& deadlock : scene.deadlocks) {
      out += "deadlock: " + printable(to_string(deadlock.circle)) + '\n';
    }
  }
  return out;
}

}  // namespace shmcoord::tool
