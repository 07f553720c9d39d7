#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <boost/json.hpp>
#include <boost/json/src.hpp>  // the library itself: this file is its only user

#include "core/lease.hpp"
#include "engine/segment_file.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"

// JSON of inspect and reap. A lock at a time is built, in a buffer that is reused, so that a segment with 100,000 locks
// needs no tree of millions of values.

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

json::object object_of(const SessionUse& use, std::int64_t now_ns, const json::storage_ptr& sp) {
  const process::SessionView& s = *use.session;
  json::object o(sp);
  o["id"] = id_or_null(s.session_id, sp);
  o["slot"] = s.slot;
  o["label"] = text_or_null(s.label, sp);
  o["pid"] = number_or_null(s.pid);
  o["uid"] = s.uid;
  o["command"] = text_or_null(s.command, sp);
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

/// The fields that holders and waiters have in common.
json::object object_of(const process::GrantView& g, std::string_view id_field, const json::storage_ptr& sp) {
  json::object o(sp);
  o.reserve(16);
  o[view_of(id_field)] = text_or_null(g.holder, sp);
  o["session"] = id_or_null(g.session_id, sp);
  o["pid"] = number_or_null(g.pid);
  o["label"] = text_or_null(g.label, sp);
  o["command"] = text_or_null(g.command, sp);
  o["reason"] = text_or_null(g.reason, sp);
  o["detached"] = (g.flags & engine::entry_detached) != 0;
  o["alive"] = alive(g.life);
  o["life"] = view_of(to_string(g.life.life));
  o["proof"] = view_of(to_string(g.life.proof));
  return o;
}

/// Null unless it is dying.
json::value kept_by(const Scene& scene, const process::GrantView& g, const json::storage_ptr& sp) {
  const auto keeping = keeping_of(scene, g);
  if (!keeping) return nullptr;
  json::array all(sp);
  for (const process::KeepingAlive& k : *keeping) {
    all.emplace_back(json::object({{"pid", k.pid}, {"command", text_or_null(k.command, sp)}}, sp));
  }
  return all;
}

json::object object_of_holder(const Scene& scene, const process::GrantView& g, const json::storage_ptr& sp) {
  const std::int64_t now_ns = scene.picture.now_ns;
  json::object o = object_of(g, "id", sp);
  o["held_s"] = age(g.since_ns, now_ns);
  o["heartbeat_age_s"] = age(g.last_sign_ns, now_ns);
  o["ttl_s"] = seconds(g.ttl_ns);
  o["has_lease"] = (g.flags & engine::entry_no_lease) == 0;
  o["lease_ended"] = loss_or_null(g.lease);
  o["kept_by"] = kept_by(scene, g, sp);
  o["notice"] = g.sight == process::Sight::seen ? json::value(nullptr) : text_or_null(describe(g.sight, g.pid), sp);
  return o;
}

json::object object_of(const Scene& scene, const process::LockView& lock, const json::storage_ptr& sp) {
  const std::int64_t now_ns = scene.picture.now_ns;
  json::object o(sp);
  o.reserve(12);
  const process::GrantView* const holder = lock.holders.empty() ? nullptr : &lock.holders.front();
  o["name"] = view_of(printable(lock.name));
  o["state"] = lock.damaged ? "damaged" : holder != nullptr ? "held" : "free";
  o["token"] = holder == nullptr || holder->token == 0 ? json::value(nullptr) : json::value(holder->token);
  o["holder"] = nullptr;
  if (holder != nullptr) o["holder"] = object_of_holder(scene, *holder, sp);
  json::array waiters(sp);
  for (const process::GrantView& w : lock.waiters) {
    json::object waiter = object_of(w, "holder", sp);
    waiter["waiting_s"] = age(w.since_ns, now_ns);
    waiters.emplace_back(std::move(waiter));
  }
  o["waiters"] = std::move(waiters);
  o["previous"] = nullptr;
  if (lock.previous) {
    o["previous"] = json::object({{"holder", text_or_null(lock.previous->holder, sp)},
                                  {"pid", number_or_null(lock.previous->pid)},
                                  {"why", view_of(to_string(lock.previous->why))}},
                                 sp);
  }
  o["stale_threshold_s"] = seconds(lock.stale_threshold_ns);
  o["ttl_s"] = seconds(lock.default_ttl_ns);
  o["max_hold_s"] = seconds(lock.max_hold_ns);
  o["settled"] = lock.settled;
  return o;
}

constexpr std::size_t piece_bytes = 65'536;

/// Calls make(element, storage) for each and writes the results as one array; gives `out` away whenever it has a piece.
template <class Range, class Make, class Give>
void write_array(std::string& out, JsonWriter& writer, const Range& range, Make&& make, Give&& give) {
  alignas(16) unsigned char buffer[16'384];
  char before = '[';
  for (const auto& element : range) {
    json::monotonic_resource memory(buffer, sizeof buffer);
    out += std::exchange(before, ',');
    writer.write(json::value(make(element, json::storage_ptr(&memory))));
    if (out.size() < piece_bytes) continue;
    give(out);
    out.clear();
  }
  out += before == '[' ? "[]" : "]";
}

}  // namespace

void inspect_json(const Scene& scene, const std::function<void(std::string_view)>& write) {
  const std::int64_t now_ns = scene.picture.now_ns;
  std::string out;
  JsonWriter writer(out);
  out += R"({"time":)";
  writer.write(text_or_null(rfc3339(scene.wall_ns), {}));
  out += R"(,"segment":)";
  writer.write(json::value(object_of_segment(scene)));
  out += R"(,"sessions":)";
  const auto array = [&](const auto& range, auto&& make) { write_array(out, writer, range, make, write); };
  array(sessions_of(scene),
        [&](const SessionUse& use, const json::storage_ptr& sp) { return object_of(use, now_ns, sp); });
  out += R"(,"locks":)";
  array(scene.picture.locks,
        [&](const process::LockView& lock, const json::storage_ptr& sp) { return object_of(scene, lock, sp); });
  out += R"(,"semaphores":[],"guards":[],"notices":)";
  array(scene.notices, [](const Notice& notice, const json::storage_ptr& sp) {
    json::array sessions(sp);
    for (const process::SessionView* const s : notice.sessions) sessions.emplace_back(id_or_null(s->session_id, sp));
    return json::object({{"code", view_of(notice.code)}, {"text", view_of(notice.text)}, {"sessions", sessions}}, sp);
  });
  if (scene.graph) {
    out += R"(,"graph":)";
    array(edges_of(scene), [&](const Edge& edge, const json::storage_ptr& sp) {
      return json::object({{"lock", view_of(printable(edge.lock->name))},
                           {"waiter", text_or_null(edge.waiter->holder, sp)},
                           {"waiter_session", id_or_null(edge.waiter->session_id, sp)},
                           {"holder", text_or_null(edge.holder->holder, sp)},
                           {"holder_session", id_or_null(edge.holder->session_id, sp)}},
                          sp);
    });
  }
  out += "}\n";
  write(out);
}

std::string reap_json(const ReapEvent& event, std::int64_t wall_ns) {
  json::object o{{"time", text_or_null(rfc3339(wall_ns), {})}, {"event", view_of(event.event)}};
  if (event.action != nullptr) {
    o["action"] = view_of(to_string(event.action->kind));
    o["why"] = loss_or_null(event.action->why);
    o["slot"] = event.action->slot;
    o["entry"] = event.action->entry;
  }
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
