#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <boost/json.hpp>

#include "coordination/guard_store.hpp"
#include "coordination/pipeline_store.hpp"
#include "core/lease.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/circle_json.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/snapshot_text.hpp"

// JSON of inspect and reap. Locks are written as they come: a segment with 100,000 of them needs no tree of millions of
// values.

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

json::string_view view_of(std::string_view text) { return {text.data(), text.size()}; }

json::value text_or_null(std::string_view text, json::storage_ptr sp) {
  if (text.empty()) return nullptr;
  return json::value(view_of(printable(text)), std::move(sp));
}
json::value number_or_null(std::int64_t number) { return number == 0 ? json::value(nullptr) : json::value(number); }
json::value id_or_null(std::uint64_t id, json::storage_ptr sp) {
  if (id == 0) return nullptr;
  return json::value(view_of(fmt::format("{:016x}", id)), std::move(sp));
}
/// Seconds to the millisecond; null for 0, which stands for "none" or "never" wherever it is used.
json::value seconds(std::int64_t ns) {
  if (ns == 0) return nullptr;
  return std::round(static_cast<double>(ns) / 1e6) / 1e3;
}
/// How long ago; null when it never was.
json::value age(std::int64_t then_ns, std::int64_t now_ns) {
  if (then_ns == 0) return nullptr;
  return std::round(static_cast<double>(core::age_ns(then_ns, now_ns)) / 1e6) / 1e3;
}
json::value alive(const process::LifeReport& life) {
  if (life.life == process::Life::unknown) return nullptr;
  return life.life == process::Life::alive;
}
json::value loss_or_null(Loss loss) { return loss == Loss::none ? json::value(nullptr) : view_of(to_string(loss)); }

json::object object_of_segment(const Scene& scene) {
  const engine::View& view = scene.mapping.view();
  const engine::Header& header = view.header();
  const auto used = [](std::uint64_t count, std::uint64_t of) { return json::object{{"used", count}, {"of", of}}; };
  const auto& seen = scene.picture.snapshot;
  return {{"name", view_of(printable(scene.mapping.name()))},
          {"path", view_of(printable(scene.mapping.path()))},
          {"id", id_or_null(header.segment_id, {})},
          {"layout_version", header.version},
          {"created", text_or_null(rfc3339(created_wall_ns(scene.mapping)), {})},
          {"removed", scene.mapping.removed()},
          {"earlier_boot", scene.mapping.from_earlier_boot()},
          {"bytes", view.geo.total},
          {"names", used(process::names_in_use(view), view.geo.sizes.names)},
          {"entries", used(seen.entries.size(), view.geo.entry_count())},
          {"sessions", used(seen.sessions.size(), view.geo.sizes.joinable())}};
}

json::object object_of(const SessionUse& use, std::int64_t now_ns) {
  const process::SessionView& s = *use.session;
  json::object o;
  o["id"] = id_or_null(s.session_id, {});
  o["slot"] = s.slot;
  o["label"] = text_or_null(s.label, {});
  o["pid"] = number_or_null(s.pid);
  o["uid"] = s.uid;
  o["command"] = text_or_null(s.command, {});
  o["alive"] = alive(s.life);
  o["life"] = view_of(to_string(s.life.life));
  o["proof"] = view_of(to_string(s.life.proof));
  o["fenced"] = s.state == engine::SlotState::fenced;
  o["joined_s"] = age(s.joined_ns, now_ns);
  o["heartbeat_age_s"] = age(s.heartbeat_ns, now_ns);
  o["heartbeat_interval_s"] = seconds(s.beat_interval_ns);
  o["manual_heartbeat"] = (s.flags & engine::slot_manual) != 0;
  o["holds"] = use.holds;
  o["waits"] = use.waits;
  return o;
}

void add_text_or_null(ObjectWriter& o, std::string_view key, const std::string& text) {
  if (text.empty()) {
    o.add(key, nullptr);
  } else {
    o.add_text(key, printable(text));
  }
}

/// The fields that holders and waiters have in common.
void add_grant(ObjectWriter& o, const process::GrantView& g, std::string_view id_field) {
  add_text_or_null(o, id_field, g.holder);
  if (g.session_id == 0) {
    o.add("session", nullptr);
  } else {
    o.add_text("session", fmt::format("{:016x}", g.session_id));
  }
  o.add("pid", number_or_null(g.pid));
  add_text_or_null(o, "label", g.label);
  add_text_or_null(o, "command", g.command);
  add_text_or_null(o, "reason", g.reason);
  o.add("detached", (g.flags & engine::entry_detached) != 0);
  o.add("alive", alive(g.life));
  o.add_text("life", to_string(g.life.life));
  o.add_text("proof", to_string(g.life.proof));
}

/// Null unless it is dying.
json::value kept_by(const Scene& scene, const process::GrantView& g) {
  const auto keeping = keeping_of(scene, g);
  if (!keeping) return nullptr;
  json::array all;
  for (const process::KeepingAlive& k : *keeping) {
    all.emplace_back(json::object({{"pid", k.pid}, {"command", text_or_null(k.command, {})}}));
  }
  return all;
}

json::value token_or_null(const process::GrantView& g) {
  return g.token == 0 ? json::value(nullptr) : json::value(g.token);
}

void add_holder(ObjectWriter& o, const Scene& scene, const process::GrantView& g) {
  const std::int64_t now_ns = scene.picture.now_ns;
  add_grant(o, g, "id");
  o.add("held_s", age(g.since_ns, now_ns));
  o.add("heartbeat_age_s", age(g.last_sign_ns, now_ns));
  o.add("ttl_s", seconds(g.ttl_ns));
  o.add("has_lease", (g.flags & engine::entry_no_lease) == 0);
  o.add("lease_ended", loss_or_null(g.lease));
  o.add("kept_by", kept_by(scene, g));
  add_text_or_null(o, "notice", g.sight == process::Sight::seen ? std::string() : describe(g.sight, g.pid));
}

void add_previous(ObjectWriter& o, const process::LockView& lock) {
  if (!lock.previous) return o.add("previous", nullptr);
  ObjectWriter previous(o.key("previous"));
  add_text_or_null(previous, "holder", lock.previous->holder);
  previous.add("pid", number_or_null(lock.previous->pid));
  previous.add_text("why", to_string(lock.previous->why));
}

/// Of a lock they mean nothing to whoever reads.
enum class Weights : bool { left_out, told };

void add_waiters(ObjectWriter& o, JsonWriter& writer, const Scene& scene, const process::LockView& lock,
                 Weights weights) {
  o.key("waiters").write_array(lock.waiters, [&](const process::GrantView& w) {
    ObjectWriter waiter(writer);
    add_grant(waiter, w, "holder");
    waiter.add("waiting_s", age(w.since_ns, scene.picture.now_ns));
    if (weights == Weights::told) waiter.add("weight", w.weight);
  });
}

void write_guard(JsonWriter& writer, const Scene& scene, const GuardListing& listed) {
  ObjectWriter o(writer);
  o.add_text("name", printable(listed.guard.name));
  o.add_text("condition", listed.guard.condition.str());
  o.add_text("action", action_text(listed.guard.on_failure));
  o.key("wake_on").write_array(listed.guard.wake_on,
                               [&](const std::string& pattern) { writer.write_text(printable(pattern)); });
  if (!listed.verdict) return o.add("verdict", nullptr);
  const GuardVerdict& said = *listed.verdict;
  ObjectWriter verdict(o.key("verdict"));
  verdict.add("passed", said.passed);
  add_text_or_null(verdict, "reason", said.reason);
  verdict.add("age_s", age(std::chrono::nanoseconds(said.at.time_since_epoch()).count(), scene.picture.now_ns));
  verdict.add("pid", number_or_null(said.pid));
}

json::object object_of(const PipelineListing& listing, std::int64_t now_ns) {
  json::object o = pipeline_members(listing.pipeline);
  if (!listing.runner) {
    o["runner"] = nullptr;
    return o;
  }
  const PipelineRunner& runner = *listing.runner;
  const std::int64_t since_ns = std::chrono::nanoseconds(runner.since.time_since_epoch()).count();
  o["runner"] = json::object{{"pid", number_or_null(runner.pid)},
                             {"session", text_or_null(runner.session, {})},
                             {"age_s", age(since_ns, now_ns)},
                             {"alive", runner.alive}};
  return o;
}

void write_lock(JsonWriter& writer, const Scene& scene, const process::LockView& lock) {
  ObjectWriter o(writer);
  const bool shared = is_shared(lock);
  const process::GrantView* const holder = lock.holders.empty() || shared ? nullptr : &lock.holders.front();
  o.add_text("name", printable(lock.name));
  o.add_text("state", lock.damaged ? "damaged" : shared ? "shared" : holder != nullptr ? "held" : "free");
  o.add("token", holder == nullptr ? json::value(nullptr) : token_or_null(*holder));
  if (holder == nullptr) {
    o.add("holder", nullptr);
  } else {
    ObjectWriter one(o.key("holder"));
    add_holder(one, scene, *holder);
  }
  o.key("readers");
  if (!shared) writer.write_array(std::array<int, 0>{}, [](int) {});
  if (shared) {
    writer.write_array(lock.holders, [&](const process::GrantView& g) {
      ObjectWriter reader(writer);
      add_holder(reader, scene, g);
      reader.add("token", token_or_null(g));
    });
  }
  add_waiters(o, writer, scene, lock, Weights::left_out);
  add_previous(o, lock);
  o.add("stale_threshold_s", seconds(lock.stale_threshold_ns));
  o.add("ttl_s", seconds(lock.default_ttl_ns));
  o.add("max_hold_s", seconds(lock.max_hold_ns));
  o.add("settled", lock.settled);
}

void write_semaphore(JsonWriter& writer, const Scene& scene, const process::LockView& semaphore) {
  ObjectWriter o(writer);
  const bool quota = semaphore.per_session != 0;
  const std::uint32_t free = semaphore.capacity > semaphore.used ? semaphore.capacity - semaphore.used : 0;
  o.add_text("name", printable(semaphore.name));
  o.add_text("state", semaphore.damaged ? "damaged" : free == 0 ? "full" : semaphore.used == 0 ? "free" : "held");
  o.add("capacity", semaphore.capacity);
  o.add("used", semaphore.used);
  o.add("available", free);
  o.add("per_session", quota ? json::value(semaphore.per_session) : json::value(nullptr));
  o.add("sessions", quota ? json::value(semaphore.members) : json::value(nullptr));
  o.key("holders").write_array(semaphore.holders, [&](const process::GrantView& g) {
    ObjectWriter holder(writer);
    add_holder(holder, scene, g);
    holder.add("weight", g.weight);
    holder.add("token", token_or_null(g));
  });
  add_waiters(o, writer, scene, semaphore, Weights::told);
  add_previous(o, semaphore);
  o.add("stale_threshold_s", seconds(semaphore.stale_threshold_ns));
  o.add("ttl_s", seconds(semaphore.default_ttl_ns));
  o.add("settled", semaphore.settled);
}

constexpr std::size_t piece_bytes = 65'536;

}  // namespace

void inspect_json(const Scene& scene, const std::function<void(std::string_view)>& write) {
  std::string out;
  JsonWriter writer(out);
  // Gives `out` away whenever it has a piece.
  const auto array = [&](const auto& range, auto&& write_one) {
    writer.write_array(range, [&](const auto& element) {
      if (out.size() >= piece_bytes) {
        write(out);
        out.clear();
      }
      write_one(element);
    });
  };
  {
    ObjectWriter o(writer);
    o.add("time", text_or_null(rfc3339(scene.wall_ns), {}));
    o.add("segment", object_of_segment(scene));
    o.key("sessions");
    array(sessions_of(scene), [&](const SessionUse& use) { writer.write(object_of(use, scene.picture.now_ns)); });
    o.key("locks");
    array(of_kind(scene.picture, engine::Kind::lock),
          [&](const process::LockView* lock) { write_lock(writer, scene, *lock); });
    o.key("semaphores");
    array(of_kind(scene.picture, engine::Kind::semaphore),
          [&](const process::LockView* semaphore) { write_semaphore(writer, scene, *semaphore); });
    o.key("guards");
    array(coordination::list_guards(scene.mapping, scene.picture),
          [&](const GuardListing& listed) { write_guard(writer, scene, listed); });
    o.key("pipelines");
    array(coordination::list_pipelines(scene.picture),
          [&](const PipelineListing& listing) { writer.write(object_of(listing, scene.picture.now_ns)); });
    o.key("notices");
    array(scene.notices, [&](const Notice& notice) {
      json::array sessions;
      for (const process::SessionView* const s : notice.sessions) sessions.emplace_back(id_or_null(s->session_id, {}));
      ObjectWriter n(writer);
      n.add_text("code", notice.code);
      n.add_text("text", notice.text);
      n.add("sessions", sessions);
    });
    if (scene.graph) {
      o.key("graph");
      array(edges_of(scene), [&](const Edge& edge) {
        ObjectWriter e(writer);
        const bool is_lock = edge.lock->kind == engine::Kind::lock;
        e.add("lock", is_lock ? text_or_null(edge.lock->name, {}) : json::value(nullptr));
        e.add("semaphore", is_lock ? json::value(nullptr) : text_or_null(edge.lock->name, {}));
        add_text_or_null(e, "waiter", edge.waiter->holder);
        e.add("waiter_session", id_or_null(edge.waiter->session_id, {}));
        static const process::GrantView nobody;
        const process::GrantView& holder = edge.holds ? *edge.blocker : nobody;
        const process::GrantView& before = edge.holds ? nobody : *edge.blocker;
        add_text_or_null(e, "holder", holder.holder);
        e.add("holder_session", id_or_null(holder.session_id, {}));
        add_text_or_null(e, "before", before.holder);
        e.add("before_session", id_or_null(before.session_id, {}));
      });
      json::array deadlocks;
      for (const process::FoundDeadlock& deadlock : scene.deadlocks) {
        deadlocks.emplace_back(circle_of(deadlock.circle));
      }
      o.add("deadlocks", deadlocks);
    }
  }
  out += '\n';
  write(out);
}

std::string guards_json(const Scene& scene) {
  std::string out;
  JsonWriter writer(out);
  writer.write_array(coordination::list_guards(scene.mapping, scene.picture),
                     [&](const GuardListing& listed) { write_guard(writer, scene, listed); });
  return out + '\n';
}

json::object pipeline_members(const Pipeline& pipeline) {
  const auto& blocked = pipeline.blocked();
  const bool begun = pipeline.status() != PipelineStatus::waiting;
  json::array phases;
  for (const GuardedPhase& phase : pipeline.phases()) phases.emplace_back(printable(phase.name));
  json::array wake_on;
  if (blocked) {
    for (const std::string& pattern : blocked->wake_on) wake_on.emplace_back(printable(pattern));
  }
  return {
      {"id", printable(pipeline.id())},
      {"status", view_of(to_string(pipeline.status()))},
      {"phase", begun ? text_or_null(pipeline.phase().name, {}) : json::value(nullptr)},
      {"step", begun ? json::value(view_of(to_string(pipeline.step()))) : json::value(nullptr)},
      {"phases", std::move(phases)},
      {"waiting_on", blocked ? text_or_null(blocked->waiting_on, {}) : json::value(nullptr)},
      {"guard", blocked ? text_or_null(blocked->guard_id, {}) : json::value(nullptr)},
      {"condition", blocked && !blocked->condition.empty() ? json::value(blocked->condition) : json::value(nullptr)},
      {"wake_on", std::move(wake_on)},
      {"failure", text_or_null(pipeline.failure(), {})}};
}

std::string pipeline_json(const PipelineListing& listing, std::int64_t now_ns) {
  return json_text(object_of(listing, now_ns)) + '\n';
}

std::string pipelines_json(const Scene& scene) {
  std::string out;
  JsonWriter writer(out);
  writer.write_array(coordination::list_pipelines(scene.picture),
                     [&](const PipelineListing& listing) { writer.write(object_of(listing, scene.picture.now_ns)); });
  return out + '\n';
}

std::string reap_json(const ReapEvent& event, std::int64_t wall_ns) {
  json::object o{{"time", text_or_null(rfc3339(wall_ns), {})}, {"event", view_of(event.event)}};
  if (event.action != nullptr) {
    o["action"] = view_of(to_string(event.action->kind));
    o["why"] = loss_or_null(event.action->why);
    o["slot"] = event.action->slot;
    o["entry"] = event.action->entry;
  }
  if (event.warning != nullptr) {
    o["type"] = view_of(event.warning->name());
    o["name"] = text_or_null(event.warning->subject, {});
    o["holder"] = text_or_null(event.warning->holder, {});
    o["pid"] = number_or_null(event.warning->pid);
    o["token"] = event.warning->token;
    o["why"] = loss_or_null(event.warning->why);
  }
  if (event.restored != nullptr) add_restored(o, *event.restored);
  if (event.saved != nullptr) o["saved"] = counts_json(*event.saved);
  if (!event.error.empty()) o["error"] = view_of(event.error);
  if (event.report != nullptr) {
    o["buried"] = event.report->buried;
    o["reclaimed"] = event.report->reclaimed;
    o["unsure"] = event.report->unsure;
  }
  o["text"] = text_or_null(event.text, {});
  std::string out;
  JsonWriter(out).write(json::value(std::move(o)));
  out += '\n';
  return out;
}

}  // namespace shmcoord::tool
