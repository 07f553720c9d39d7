#include "process/deadlock.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "core/wait_graph.hpp"
#include "engine/chunks.hpp"
#include "engine/control.hpp"
#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"
#include "process/participant.hpp"

namespace shmcoord::process {
namespace {

using engine::Entry;
using engine::EntryIndex;
using engine::Phase;
using engine::RecordIndex;
using engine::SlotIndex;
using engine::View;
using P = engine::RealPolicy;

/// A wait or a hold, as its entry says.
struct Seen {
  EntryIndex entry = 0;
  std::uint64_t status = 0;
  RecordIndex record = 0;
  engine::ChunkOwner owner;
  std::uint32_t flags = 0;
};

/// What goes on as one: a thread of a session, a holder of a session, or a detached holder.
using ActorName = std::tuple<SlotIndex, std::uint64_t, std::uint32_t, std::string>;

/// The segment as a graph, and the way back from it.
class Picture {
 public:
  explicit Picture(const View& view) : view_(view) {
    collect();
    for (const Seen& wait : waits) add_wait(wait);
    for (const Seen& hold : holds) add_hold(hold);
    graph.actors = static_cast<std::uint32_t>(actors_.size());
  }

  core::WaitGraph graph;
  std::vector<Seen> waits;  // as in the graph
  std::vector<Seen> holds;  // likewise
  std::vector<RecordIndex> records;

 private:
  /// All waits, and what is held by those who wait: who does not wait runs, and what it holds keeps nobody for ever.
  void collect() {
    each_entry([this](const Seen& seen, Phase phase) {
      if (phase == Phase::waiting && (seen.flags & engine::entry_async) == 0 && takes_part(seen.owner.slot)) {
        waits.push_back(seen);
      }
    });
    if (waits.empty()) return;
    std::vector<bool> waiting(view_.geo.sizes.sessions);
    bool detached = false;
    for (const Seen& wait : waits) {
      if (wait.owner.slot < waiting.size()) waiting[wait.owner.slot] = true;
      detached = detached || (wait.flags & engine::entry_detached) != 0;
    }
    each_entry([&](const Seen& seen, Phase phase) {
      if (phase != Phase::held && phase != Phase::marked) return;
      const bool waits_too = seen.owner.slot == engine::detached_slot
                                 ? detached
                                 : seen.owner.slot < waiting.size() && waiting[seen.owner.slot];
      if (waits_too) holds.push_back(seen);
    });
  }
  [[nodiscard]] bool takes_part(SlotIndex slot) const noexcept {
    return !view_.slot_exists(slot) || (P::load(view_.slot(slot).flags) & engine::slot_undetected) == 0;
  }
  template <class Fn>
  void each_entry(Fn&& fn) const {
    engine::Chunks<P>(view_).for_each([&](std::uint32_t chunk, std::uint64_t owner) {
      for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
        const EntryIndex i = chunk * engine::entries_per_chunk + n;
        const Entry& e = view_.entry(i);
        const std::uint64_t raw = P::load(e.status);
        const engine::Status s = engine::unpack_status(raw);
        if (!view_.record_exists(s.record)) continue;
        fn(Seen{i, raw, s.record, engine::unpack_owner(owner), P::load(e.flags)}, s.phase);
      }
    });
  }

  std::uint32_t actor(ActorName name) {
    const auto next = static_cast<std::uint32_t>(actors_.size());
    return actors_.try_emplace(std::move(name), next).first->second;
  }
  std::uint32_t thread_of(const Seen& seen) {
    return actor({seen.owner.slot, seen.owner.incarnation, P::get(view_.entry(seen.entry).thread), {}});
  }
  /// The id alone is the identity of a detached holder.
  std::uint32_t actor_of(const Seen& seen) {
    if ((seen.flags & engine::entry_implicit) != 0) return thread_of(seen);
    std::string id = 'h' + engine::read_texts(view_, seen.entry).holder;
    if ((seen.flags & engine::entry_detached) != 0) return actor({engine::detached_slot, 0, 0, std::move(id)});
    return actor({seen.owner.slot, seen.owner.incarnation, 0, std::move(id)});
  }
  std::uint32_t resource(RecordIndex record) {
    const auto next = static_cast<std::uint32_t>(records.size());
    const auto [at, added] = resources_.try_emplace(record, next);
    if (added) {
      records.push_back(record);
      graph.capacity.push_back(engine::unpack_amount(P::load(view_.record(record).capacity)).amount);
    }
    return at->second;
  }

  void add_wait(const Seen& seen) {
    const Entry& e = view_.entry(seen.entry);
    const std::uint64_t now = P::load_seq(view_.record(seen.record).control);
    core::WaitEdge& wait = graph.waits.emplace_back();
    wait.actor = actor_of(seen);
    const std::uint32_t thread = thread_of(seen);
    if (thread != wait.actor) wait.also = thread;
    wait.resource = resource(seen.record);
    wait.need = engine::unpack_amount(P::load(e.weight)).amount;
    const bool first = (seen.flags & engine::entry_first) != 0;
    wait.place = first ? 0 : engine::seq_of_stamp(engine::unpack_status(seen.status).stamp, now);
    wait.since = static_cast<std::int64_t>(P::load(e.since_ns));
  }
  void add_hold(const Seen& seen) {
    const std::uint32_t weight = engine::unpack_amount(P::load(view_.entry(seen.entry).weight)).amount;
    graph.holds.push_back({actor_of(seen), resource(seen.record), weight});
  }

  const View& view_;
  std::map<ActorName, std::uint32_t> actors_;
  std::map<RecordIndex, std::uint32_t> resources_;
};

DeadlockMember describe(const View& view, const Picture& picture, const core::Deadlock& found, std::size_t at,
                        std::int64_t now_ns) {
  const auto& circle = found.circle;
  const Seen& wait = picture.waits[circle[at].wait];
  const Entry& e = view.entry(wait.entry);
  const auto since = [now_ns](const Entry& of) {
    return std::chrono::nanoseconds(core::age_ns(static_cast<std::int64_t>(P::load(of.since_ns)), now_ns));
  };
  const auto title = [&view](RecordIndex record) {
    const auto id = engine::unpack_record(P::load(view.directory(record)));
    const bool is_lock = P::load(view.record(record).kind) == static_cast<std::uint32_t>(engine::Kind::lock);
    return (is_lock ? "lock '" : "semaphore '") + engine::NameIndex<P>(view).name_of({record, id.generation}) + "'";
  };
  DeadlockMember member;
  member.holder = engine::read_texts(view, wait.entry).holder;
  member.thread = P::get(e.thread);
  member.waits_for = title(wait.record);
  member.waiting_for = since(e);
  if (view.slot_exists(wait.owner.slot) && wait.owner.slot != engine::detached_slot) {
    const engine::SessionSlot& slot = view.slot(wait.owner.slot);
    member.pid = P::get(slot.pid);
    member.label = engine::load_line<P>(slot.label.data(), slot.label.size());
    member.command = engine::load_line<P>(slot.command.data(), slot.command.size());
  }
  if (const auto hold = circle[(at + circle.size() - 1) % circle.size()].hold) {
    member.holds = title(picture.holds[*hold].record);
    member.held_for = since(view.entry(picture.holds[*hold].entry));
  }
  return member;
}

std::vector<RecordIndex> records_of(const Picture& picture, const core::Deadlock& found) {
  std::vector<RecordIndex> records;
  for (const std::size_t wait : found.waits) records.push_back(picture.waits[wait].record);
  std::sort(records.begin(), records.end());
  records.erase(std::unique(records.begin(), records.end()), records.end());
  return records;
}

}  // namespace

std::vector<FoundDeadlock> find_deadlocks(const engine::Mapping& mapping, std::int64_t now_ns, const Participant* who) {
  const View& view = mapping.view();
  std::map<RecordIndex, std::uint64_t> sequences;  // of those that may take part
  {
    const Picture first(view);
    if (first.waits.empty()) return {};
    for (const core::Deadlock& found : core::find_deadlocks(first.graph)) {
      for (const RecordIndex record : records_of(first, found)) sequences.try_emplace(record, 0);
    }
  }
  if (sequences.empty()) return {};
  for (auto& [record, seq] : sequences) {
    if (who != nullptr) {
      const Participant::Helping helping(*who, record);
      engine::ControlOps<P>(view, record, 0).finish_now();
    }
    seq = P::load_seq(view.record(record).control);
  }
  const Picture second(view);
  std::vector<FoundDeadlock> all;
  for (const core::Deadlock& found : core::find_deadlocks(second.graph)) {
    FoundDeadlock deadlock;
    const Seen& victim = second.waits[found.circle.front().wait];
    deadlock.victim = victim.entry;
    deadlock.status = victim.status;
    deadlock.slot = victim.owner.slot;
    deadlock.incarnation = victim.owner.incarnation;
    deadlock.since_ns = second.graph.waits[found.circle.front().wait].since;
    for (std::size_t at = 0; at < found.circle.size(); ++at) {
      deadlock.circle.push_back(describe(view, second, found, at, now_ns));
    }
    const auto records = records_of(second, found);
    const bool stood_still = std::all_of(records.begin(), records.end(), [&](RecordIndex record) {
      const auto noted = sequences.find(record);
      return noted != sequences.end() && P::load_seq(view.record(record).control) == noted->second;
    });
    if (stood_still) all.push_back(std::move(deadlock));
  }
  return all;
}

void DeadlockWatch::look(const Participant& who, std::int64_t now_ns) {
  if (now_ns < static_cast<std::int64_t>(P::load(next_ns_))) return;
  const std::unique_lock one(looking_, std::try_to_lock);
  if (!one) return;
  const View& view = who.mapping().view();
  auto found = find_deadlocks(who.mapping(), now_ns, &who);
  {
    const std::scoped_lock lock(mutex_);
    told_.clear();
    for (FoundDeadlock& d : found) {
      const bool ours = d.slot == who.slot() && engine::same_incarnation(d.incarnation, who.incarnation());
      if (ours && now_ns - d.since_ns >= patience_ns) told_[d.victim] = {d.status, std::move(d.circle)};
    }
    P::store(count_, static_cast<std::uint32_t>(told_.size()));
    for (const auto& [entry, told] : told_) engine::Finisher<P>::call(view.entry(entry));
  }
  constexpr std::int64_t share = 20;
  const std::int64_t end = real_clock().now_ns();
  P::store(next_ns_, static_cast<std::uint64_t>(end + std::max(patience_ns, share * (end - now_ns))));
}

bool DeadlockWatch::is_told(EntryIndex entry, std::uint64_t status) noexcept {
  if (P::load(count_) == 0) return false;
  const std::scoped_lock lock(mutex_);
  const auto at = told_.find(entry);
  return at != told_.end() && at->second.status == status;
}

std::vector<DeadlockMember> DeadlockWatch::take(EntryIndex entry) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto at = told_.find(entry);
  if (at == told_.end()) return {};
  std::vector<DeadlockMember> circle = std::move(at->second.circle);
  told_.erase(at);
  P::store(count_, static_cast<std::uint32_t>(told_.size()));
  return circle;
}

}  // namespace shmcoord::process
