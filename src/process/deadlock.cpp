#include "process/deadlock.hpp"

#include <algorithm>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/wait_graph.hpp"
#include "engine/chunks.hpp"
#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/participant.hpp"
#include "process/snapshot.hpp"

namespace shmcoord::process {
namespace {

using engine::Entry;
using engine::EntryIndex;
using engine::Phase;
using engine::RecordIndex;
using engine::SlotIndex;
using engine::View;
using P = engine::RealPolicy;

/// A word, and what it needs to say what its entries are (process/snapshot.hpp).
struct Word {
  core::Control control;
  engine::Handoff handoff;
  engine::Amount last;
};

Word load_word(const View& view, RecordIndex record) {
  Word word{P::load(view.record(record).control), {}, {}};
  const EntryIndex touched = core::touched(word.control);
  if (touched == engine::nil_entry || !view.entry_exists(touched)) return word;
  word.handoff = engine::unpack_handoff(P::load(view.entry(touched).handoff));
  word.last = engine::unpack_amount(P::load(view.entry(touched).weight));
  return word;
}

/// A wait or a hold, as its word and its entry say.
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
class Graph {
 public:
  /// The words of `exact` are read before any entry, so that what is read of theirs was true at one time if they have
  /// not moved at the end.
  Graph(const View& view, const std::vector<RecordIndex>& exact) : view_(view) {
    for (const RecordIndex record : exact) word_of(record);
    collect();
    for (const Seen& wait : waits) add_wait(wait);
    for (const Seen& hold : holds) add_hold(hold);
    edges.actors = static_cast<std::uint32_t>(actors_.size());
  }
  [[nodiscard]] bool stood_still(RecordIndex record) const {
    return P::load_seq(view_.record(record).control) == words_.at(record).control.seq;
  }

  core::WaitGraph edges;
  std::vector<Seen> waits;  // as in the graph
  std::vector<Seen> holds;  // likewise

 private:
  /// All waits, and what is held of that by those who wait: who does not wait runs, and what it holds keeps nobody for
  /// ever.
  void collect() {
    const auto may_wait = [](const engine::Status& s) {
      return s.phase == Phase::waiting || s.phase == Phase::prepared;
    };
    each_entry(may_wait, [this](const Seen& seen, Role role) {
      const bool timed = (seen.flags & engine::entry_timed) != 0;
      if (role == Role::waiting && !timed && takes_part(seen.owner.slot)) waits.push_back(seen);
    });
    if (waits.empty()) return;
    std::unordered_set<RecordIndex> waited_for;
    std::vector<bool> waiting(view_.geo.sizes.sessions);
    bool detached = false;
    for (const Seen& wait : waits) {
      waited_for.insert(wait.record);
      if (wait.owner.slot < waiting.size()) waiting[wait.owner.slot] = true;
      detached = detached || (wait.flags & (engine::entry_detached | engine::entry_for_detached)) != 0;
    }
    const auto matters = [&](const engine::Status& s) { return waited_for.contains(s.record); };
    each_entry(matters, [&](const Seen& seen, Role role) {
      if (role != Role::held || ends_by_itself(view_, seen.record, seen.entry)) return;
      const SlotIndex slot = seen.owner.slot;
      const bool waits_too = slot == engine::detached_slot ? detached : slot < waiting.size() && waiting[slot];
      if (waits_too) holds.push_back(seen);
    });
  }
  [[nodiscard]] bool takes_part(SlotIndex slot) const noexcept {
    return !view_.slot_exists(slot) || (P::load(view_.slot(slot).flags) & engine::slot_undetected) == 0;
  }
  template <class Look, class Fn>
  void each_entry(Look&& look, Fn&& fn) {
    engine::Chunks<P>(view_).for_each([&](std::uint32_t chunk, std::uint64_t owner) {
      for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
        const EntryIndex i = chunk * engine::entries_per_chunk + n;
        const Entry& e = view_.entry(i);
        const std::uint64_t raw = P::load(e.status);
        const engine::Status status = engine::unpack_status(raw);
        if (status.phase == Phase::free || !view_.record_exists(status.record) || !look(status)) continue;
        const Word& word = word_of(status.record);
        const Meaning meaning = meaning_of(word.control, status.record, i, status, word.handoff);
        fn(Seen{i, raw, status.record, engine::unpack_owner(owner), P::load(e.flags)}, meaning.role);
      }
    });
  }
  const Word& word_of(RecordIndex record) {
    const auto known = words_.find(record);
    return known != words_.end() ? known->second : words_.emplace(record, load_word(view_, record)).first->second;
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
    std::string id = engine::read_texts(view_, seen.entry).holder;
    constexpr std::uint32_t detached = engine::entry_detached | engine::entry_for_detached;
    if ((seen.flags & detached) != 0) return actor({engine::detached_slot, 0, 0, std::move(id)});
    return actor({seen.owner.slot, seen.owner.incarnation, 0, std::move(id)});
  }
  std::uint32_t resource(RecordIndex record) {
    const auto next = static_cast<std::uint32_t>(edges.capacity.size());
    const auto [at, added] = resources_.try_emplace(record, next);
    if (added) {
      const Word& word = word_of(record);
      const engine::Amount capacity = engine::unpack_amount(P::load(view_.record(record).capacity));
      edges.capacity.push_back(capacity_to_be(word.control, record, capacity, word.last));
    }
    return at->second;
  }
  [[nodiscard]] std::uint32_t weight_of(const Seen& seen) {
    const Word& word = word_of(seen.record);
    const engine::Amount weight = engine::unpack_amount(P::load(view_.entry(seen.entry).weight));
    return weight_to_be(word.control, seen.record, seen.entry, weight, word.last, word.handoff);
  }

  void add_wait(const Seen& seen) {
    core::WaitEdge& wait = edges.waits.emplace_back();
    wait.actor = actor_of(seen);
    // Nobody sleeps on a wait of wait_fd().
    const bool sleeps = (seen.flags & engine::entry_async) == 0;
    if (const std::uint32_t thread = thread_of(seen); sleeps && thread != wait.actor) wait.also = thread;
    wait.resource = resource(seen.record);
    wait.need = weight_of(seen);
    wait.more = P::load(view_.entry(seen.entry).beside) != 0;
    const bool first = (seen.flags & engine::entry_first) != 0;
    const std::uint64_t now = word_of(seen.record).control.seq;
    wait.place = first ? 0 : engine::seq_of_stamp(engine::unpack_status(seen.status).stamp, now);
    wait.since = static_cast<std::int64_t>(P::load(view_.entry(seen.entry).since_ns));
  }
  void add_hold(const Seen& seen) { edges.holds.push_back({actor_of(seen), resource(seen.record), weight_of(seen)}); }

  const View& view_;
  std::unordered_map<RecordIndex, Word> words_;
  std::unordered_map<RecordIndex, std::uint32_t> resources_;
  std::map<ActorName, std::uint32_t> actors_;
};

DeadlockMember describe(const View& view, const Graph& graph, const core::Deadlock& found, std::size_t at,
                        std::int64_t now_ns) {
  const auto& circle = found.circle;
  const Seen& wait = graph.waits[circle[at].wait];
  const Entry& e = view.entry(wait.entry);
  const auto since = [now_ns](const Entry& of) {
    return std::chrono::nanoseconds(core::age_ns(static_cast<std::int64_t>(P::load(of.since_ns)), now_ns));
  };
  const auto title = [&view](RecordIndex record) {
    const auto id = engine::unpack_record(P::load(view.directory(record)));
    const auto kind = static_cast<engine::Kind>(P::load(view.record(record).kind));
    return std::string(engine::word_of(kind)) + " '" + engine::NameIndex<P>(view).name_of({record, id.generation}) +
           "'";
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
    member.holds = title(graph.holds[*hold].record);
    member.held_for = since(view.entry(graph.holds[*hold].entry));
  }
  return member;
}

std::vector<RecordIndex> records_of(const Graph& graph, const core::Deadlock& found) {
  std::vector<RecordIndex> records;
  records.reserve(found.waits.size());
  for (const std::size_t wait : found.waits) records.push_back(graph.waits[wait].record);
  std::sort(records.begin(), records.end());
  records.erase(std::unique(records.begin(), records.end()), records.end());
  return records;
}

}  // namespace

std::vector<FoundDeadlock> find_deadlocks(const engine::Mapping& mapping, std::int64_t now_ns) {
  const View& view = mapping.view();
  std::vector<RecordIndex> suspect;
  {
    const Graph graph(view, {});
    for (const core::Deadlock& found : core::find_deadlocks(graph.edges)) {
      const auto records = records_of(graph, found);
      suspect.insert(suspect.end(), records.begin(), records.end());
    }
  }
  if (suspect.empty()) return {};
  const Graph graph(view, suspect);
  std::vector<FoundDeadlock> all;
  for (const core::Deadlock& found : core::find_deadlocks(graph.edges)) {
    FoundDeadlock deadlock;
    deadlock.waits.reserve(found.waits.size());
    deadlock.circle.reserve(found.circle.size());
    const Seen& victim = graph.waits[found.circle.front().wait];
    deadlock.victim = victim.entry;
    deadlock.status = victim.status;
    deadlock.slot = victim.owner.slot;
    deadlock.incarnation = victim.owner.incarnation;
    deadlock.since_ns = graph.edges.waits[found.circle.front().wait].since;
    for (std::size_t at = 0; at < found.circle.size(); ++at) {
      deadlock.circle.push_back(describe(view, graph, found, at, now_ns));
    }
    for (const std::size_t wait : found.waits) deadlock.waits.push_back(graph.waits[wait].entry);
    const auto records = records_of(graph, found);
    const bool was_true = std::all_of(records.begin(), records.end(), [&](RecordIndex record) {
      const bool exact = std::find(suspect.begin(), suspect.end(), record) != suspect.end();
      return exact && graph.stood_still(record);
    });
    if (was_true) all.push_back(std::move(deadlock));
  }
  return all;
}

void DeadlockWatch::look(Participant& who, std::int64_t now_ns) {
  if (now_ns < static_cast<std::int64_t>(P::load(next_ns_))) return;
  const std::unique_lock one(looking_, std::try_to_lock);
  if (!one) return;
  const View& view = who.mapping().view();
  auto found = find_deadlocks(who.mapping(), now_ns);
  {
    const std::scoped_lock lock(mutex_);
    told_.clear();
    for (FoundDeadlock& d : found) {
      const bool ours = d.slot == who.slot() && engine::same_incarnation(d.incarnation, who.incarnation());
      if (ours && now_ns - d.since_ns >= patience_ns) told_[d.victim] = {d.status, std::move(d.circle)};
    }
    P::store(count_, static_cast<std::uint32_t>(told_.size()));
    for (const auto& [entry, told] : told_) engine::Finisher<P>::call(view.entry(entry));
    if (!told_.empty()) who.keeper().poke();  // for those of wait_fd()
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
