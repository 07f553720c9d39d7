#include "process/snapshot.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "engine/entry_text.hpp"
#include "engine/name_index.hpp"
#include "engine/notice.hpp"
#include "engine/segment_file.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {
namespace {

using engine::Entry;
using engine::Handoff;
using engine::Record;
using engine::Status;
using engine::View;
using P = engine::RealPolicy;

constexpr int tries = 6;
constexpr int looks = 1000;

std::int64_t as_time(const engine::Word64& word) noexcept { return static_cast<std::int64_t>(P::load(word)); }

class Painter {
 public:
  Painter(const Mapping& mapping, Picture& picture) : mapping_(mapping), view_(mapping.view()), picture_(picture) {
    for (const EntryView& e : picture.snapshot.entries) {
      if (view_.record_exists(e.record)) members_.push_back({e.record, e.entry});
    }
    list_sessions();
  }
  /// Of one record alone, whose entries these are.
  Painter(const Mapping& mapping, Picture& picture, RecordIndex record, const std::vector<EntryIndex>& entries)
      : mapping_(mapping), view_(mapping.view()), picture_(picture) {
    for (const EntryIndex i : entries) members_.push_back({record, i});
    list_sessions();
  }

  void list_sessions() {
    std::sort(members_.begin(), members_.end());
    const auto& sessions = picture_.snapshot.sessions;
    by_slot_.assign(view_.geo.sizes.sessions, none);
    for (std::size_t i = 0; i < sessions.size(); ++i) {
      if (sessions[i].slot < by_slot_.size()) by_slot_[sessions[i].slot] = static_cast<std::uint32_t>(i);
    }
  }

  void paint(engine::Found found, std::string_view name) {
    if (auto lock = look(found, name)) picture_.locks.push_back(*std::move(lock));
  }

  /// Nothing: it was removed meanwhile.
  std::optional<LockView> look(engine::Found found, std::string_view name) {
    const Record& record = view_.record(found.record);
    LockView lock;
    for (int left = tries; left > 0; --left) {
      lock = LockView{};
      lock.record = found.record;
      lock.generation = found.generation;
      lock.name = name;
      const core::Control c = P::load(record.control);
      read(lock, record, c);
      lock.settled = P::load_seq(record.control) == c.seq;
      if (lock.settled) break;
    }
    if (P::load(record.generation) != found.generation) return std::nullopt;
    return lock;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct Member {
    RecordIndex record;
    EntryIndex entry;
    friend constexpr auto operator<=>(const Member&, const Member&) = default;
  };

  void read(LockView& lock, const Record& record, const core::Control& c) {
    lock.kind = static_cast<engine::Kind>(P::load(record.kind));
    lock.seq = c.seq;
    lock.used = c.used;
    lock.per_session = P::load(record.per_session);
    lock.stale_threshold_ns = as_time(record.stale_threshold_ns);
    lock.heartbeat_interval_ns = as_time(record.heartbeat_interval_ns);
    lock.default_ttl_ns = as_time(record.default_ttl_ns);
    lock.max_hold_ns = as_time(record.max_hold_ns);
    const EntryIndex touched = core::touched(c);
    lock.damaged = !core::plausible(c) || (touched != engine::nil_entry && !view_.entry_exists(touched)) ||
                   (c.tail != engine::nil_entry && !view_.entry_exists(c.tail));
    if (lock.damaged) return;

    Handoff handoff;
    engine::Amount last;
    if (touched != engine::nil_entry) {
      handoff = engine::unpack_handoff(P::load(view_.entry(touched).handoff));
      last = weight_word(touched);
    }
    lock.capacity = capacity_to_be(c, lock.record, engine::unpack_amount(P::load(record.capacity)), last);
    const auto meaning = [&](EntryIndex i) {
      const Status status = engine::unpack_status(P::load(view_.entry(i).status));
      return meaning_of(c, lock.record, i, status, handoff);
    };
    std::vector<std::pair<std::int64_t, EntryIndex>> waiting;
    for (const EntryIndex i : candidates(lock.record, record, c, handoff)) {
      const Meaning m = meaning(i);
      if (m.role == Role::held) {
        lock.holders.push_back(describe(lock.record, i, m));
        lock.holders.back().weight = weight_to_be(c, lock.record, i, weight_word(i), last, handoff);
      }
      if (m.role == Role::waiting) waiting.push_back({as_time(view_.entry(i).since_ns), i});
      if (m.role == Role::member) {
        ++lock.members;
        lock.shares += weight_word(i).amount;
      }
    }
    std::sort(waiting.begin(), waiting.end());
    for (const EntryIndex i : in_queue_order(c, meaning, waiting, lock.queue_whole)) {
      lock.waiters.push_back(describe(lock.record, i, {Role::waiting, false, 0}));
    }
    lock.previous = previous(lock.record, record, c, handoff);
  }

  /// Those that named the record when the entries were listed, and those that the words name now.
  [[nodiscard]] std::vector<EntryIndex> candidates(RecordIndex r, const Record& record, const core::Control& c,
                                                   const Handoff& handoff) const {
    std::vector<EntryIndex> found;
    auto m = std::lower_bound(members_.begin(), members_.end(), Member{r, 0});
    for (; m != members_.end() && m->record == r; ++m) found.push_back(m->entry);
    const std::size_t listed = found.size();
    for (const EntryIndex i :
         {core::touched(c), handoff.entry, c.tail, engine::unpack_link(P::load(record.holder)).entry}) {
      const auto end = found.begin() + static_cast<std::ptrdiff_t>(listed);
      if (i == engine::nil_entry || std::binary_search(found.begin(), end, i)) continue;
      if (std::find(end, found.end(), i) == found.end()) found.push_back(i);
    }
    std::erase_if(found, [&](EntryIndex i) { return !view_.entry_exists(i); });
    return found;
  }

  /// Follows the circle from tail.next, as it will be once the word is finished. A queue that cannot be followed (it
  /// moves, or is damaged) is given in the order of arrival.
  template <class MeaningOf>
  std::vector<EntryIndex> in_queue_order(const core::Control& c, MeaningOf&& meaning,
                                         const std::vector<std::pair<std::int64_t, EntryIndex>>& waiting,
                                         bool& whole) const {
    std::vector<EntryIndex> order;
    const auto next_of = [&](EntryIndex i) { return engine::unpack_link(P::load(view_.entry(i).next)).entry; };
    // An unfinished enqueue is not behind its predecessor yet.
    EntryIndex before_last = engine::nil_entry;
    if (c.op == core::Op::enqueue) before_last = engine::unpack_link(P::load(view_.entry(c.last).prev)).entry;
    whole = c.tail == engine::nil_entry;
    EntryIndex at = whole ? engine::nil_entry : c.op == core::Op::queue_first ? c.last : next_of(c.tail);
    // Some may have come since the entries were listed. Bounded by what was listed, so that damage costs little.
    const std::size_t most = 2 * waiting.size() + 1000;
    for (std::size_t steps = 0; !whole && steps < most && view_.entry_exists(at); ++steps) {
      if (meaning(at).role == Role::waiting) order.push_back(at);
      whole = at == c.tail;
      at = at == before_last ? c.last : next_of(at);
    }
    whole = whole && order.size() >= waiting.size();
    if (whole) return order;
    order.clear();
    for (const auto& [since, i] : waiting) order.push_back(i);
    return order;
  }

  [[nodiscard]] engine::Amount weight_word(EntryIndex i) const noexcept {
    return engine::unpack_amount(P::load(view_.entry(i).weight));
  }

  GrantView describe(RecordIndex r, EntryIndex i, const Meaning& m) {
    const Entry& e = view_.entry(i);
    GrantView g;
    g.entry = i;
    g.token = m.token;
    g.marked = m.marked;
    g.weight = weight_word(i).amount;
    g.flags = P::load(e.flags);
    g.thread = P::get(e.thread);
    g.beside = P::load(e.beside);
    g.since_ns = as_time(e.since_ns);
    g.ttl_ns = as_time(e.ttl_ns);
    engine::EntryTexts texts = engine::read_texts(view_, i);
    g.holder = std::move(texts.holder);
    g.reason = std::move(texts.reason);
    g.last_sign_ns = last_sign_of(view_, i);
    if (m.role == Role::held) g.lease = judge_lease(view_, r, i, picture_.now_ns);
    const std::uint64_t raw = P::load(view_.owner_of(i));
    if (raw == 0) return g;
    const engine::ChunkOwner owner = engine::unpack_owner(raw);
    g.slot = owner.slot;
    g.incarnation = owner.incarnation;
    if (owner.slot == engine::detached_slot) {
      g.pid = P::get(e.bound_pid);
      g.life = life_of_entry(mapping_, i);
      if (g.pid != 0 && g.life.life != Life::dead) g.sight = sight_of(g.pid, P::get(e.bound_pid_namespace));
    } else if (const SessionView* s = session_of(owner)) {
      g.session_id = s->session_id;
      g.label = s->label;
      g.command = s->command;
      g.pid = s->pid;
      g.life = s->life;
    } else if (view_.slot_exists(owner.slot)) {
      g.life = life_of(mapping_, owner.slot, owner.incarnation);
    }
    return g;
  }

  /// Until the next call.
  [[nodiscard]] const SessionView* session_of(const engine::ChunkOwner& owner) {
    if (owner.slot >= by_slot_.size() || !view_.slot_exists(owner.slot)) return nullptr;
    if (by_slot_[owner.slot] == none) {  // it came after they were listed, or they were not
      by_slot_[owner.slot] = static_cast<std::uint32_t>(picture_.snapshot.sessions.size());
      picture_.snapshot.sessions.push_back(session_view(mapping_, owner.slot));
    }
    const SessionView& s = picture_.snapshot.sessions[by_slot_[owner.slot]];
    return engine::same_incarnation(s.incarnation, owner.incarnation) ? &s : nullptr;
  }

  /// Looked at, not taken: the next holder is told all the same.
  [[nodiscard]] std::optional<PreviousView> previous(RecordIndex r, const Record& record, const core::Control& c,
                                                     const Handoff& handoff) {
    const std::uint64_t stamp = engine::handoff_stamp(r, c.seq);
    const Handoff told = engine::unpack_handoff(P::load(record.previous));
    if (c.op == core::Op::reclaim && handoff.stamp == stamp && handoff.loss != Loss::none && told.stamp != stamp) {
      const GrantView robbed = describe(r, c.last, {});  // the reclaim is not finished yet
      return PreviousView{handoff.loss, robbed.holder, robbed.pid};
    }
    if (told.loss == Loss::none) return std::nullopt;
    engine::NoticeText text = engine::read_notice<P>(view_, r, told.stamp);
    return PreviousView{told.loss, std::move(text.holder), text.pid};
  }

  const Mapping& mapping_;
  const View& view_;
  Picture& picture_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> by_slot_;  // slot -> index of its session
};

/// Through keys and pointers: a view is big, and is moved once at most; most names differ within their first bytes.
void sort_by_name(std::vector<LockView>& locks) {
  if (std::is_sorted(locks.begin(), locks.end(), [](const auto& a, const auto& b) { return a.name < b.name; })) return;
  struct Key {
    std::array<unsigned char, 16> start{};
    LockView* lock = nullptr;
    bool operator<(const Key& other) const noexcept {
      const int order = std::memcmp(start.data(), other.start.data(), start.size());
      return order != 0 ? order < 0 : lock->name < other.lock->name;
    }
  };
  std::vector<Key> order;
  order.reserve(locks.size());
  for (LockView& lock : locks) {
    Key& key = order.emplace_back();
    std::copy_n(lock.name.begin(), std::min(lock.name.size(), key.start.size()), key.start.begin());
    key.lock = &lock;
  }
  std::sort(order.begin(), order.end());
  std::vector<LockView> sorted;
  sorted.reserve(locks.size());
  for (const Key& key : order) sorted.push_back(std::move(*key.lock));
  locks.swap(sorted);
}

/// Holders that came after the entries were listed are missing: those that are there have less than is in use.
bool is_behind(const LockView& lock) {
  std::uint64_t held = 0;
  for (const GrantView& g : lock.holders) held += g.weight;
  return lock.settled && !lock.damaged && held != lock.used;
}

/// Lists anew what is there, and looks again at those that the listing was behind of. One that stands still and does
/// not add up is damaged, and stays as it was seen.
void catch_up(const Mapping& mapping, Picture& picture) {
  std::vector<LockView*> behind;
  for (LockView& lock : picture.locks) {
    if (is_behind(lock)) behind.push_back(&lock);
  }
  for (int left = tries; left > 0 && !behind.empty(); --left) {
    picture.snapshot = take_snapshot(mapping, picture.now_ns, Detail::brief);
    Painter painter(mapping, picture);
    std::erase_if(behind, [&](LockView* lock) {
      const std::uint64_t seq = lock->seq;
      auto now = painter.look({lock->record, lock->generation}, lock->name);
      if (!now) {
        lock->settled = false;
        return true;
      }
      *lock = *std::move(now);
      return !is_behind(*lock) || lock->seq == seq;
    });
  }
  for (LockView* lock : behind) lock->settled = false;  // it moves faster than all can be listed
}

}  // namespace

std::uint64_t names_in_use(const View& view) noexcept {
  std::uint64_t names = 0;
  const std::uint64_t high = P::load(view.header().record_high);
  for (RecordIndex r = 0; r < high && view.has_record(r); ++r) {
    if (!view.pages_exist(view.offset_of(&view.directory(r)), sizeof(engine::Word64))) continue;
    if (engine::unpack_record(P::load(view.directory(r))).state != engine::RecordState::free) ++names;
  }
  return names;
}

Picture take_picture(const Mapping& mapping, std::int64_t now_ns, const std::vector<std::string>& names) {
  Picture picture;
  picture.now_ns = now_ns;
  picture.snapshot = take_snapshot(mapping, now_ns, Detail::brief);
  const engine::NameIndex<P> index(mapping.view());
  Painter painter(mapping, picture);
  if (names.empty()) {
    picture.locks.reserve(names_in_use(mapping.view()));
    index.for_each_live([&](engine::Found found, std::string_view name, const Record&) { painter.paint(found, name); });
  }
  for (auto n = names.begin(); n != names.end(); ++n) {
    const std::string& name = *n;
    if (std::find(names.begin(), n, name) != n) continue;
    const std::optional<engine::Found> found = index.find(name);
    const std::size_t before = picture.locks.size();
    if (found) painter.paint(*found, name);
    if (picture.locks.size() == before) picture.unknown.push_back(name);
  }
  catch_up(mapping, picture);
  sort_by_name(picture.locks);
  return picture;
}

std::optional<LockView> look_at(const Mapping& mapping, std::string_view name) {
  const View& view = mapping.view();
  for (int n = 0; n < looks; ++n) {
    const std::optional<engine::Found> found = engine::NameIndex<P>(view).find(name);
    if (!found) return std::nullopt;
    Picture picture;
    picture.now_ns = real_clock().now_ns();
    auto seen = Painter(mapping, picture, found->record, entries_of(view, found->record)).look(*found, name);
    if (!seen || !seen->settled) continue;
    // One that stands still and does not add up is damaged.
    const bool still = P::load_seq(view.record(found->record).control) == seen->seq;
    if (seen->damaged || (is_behind(*seen) && still && n + 1 == looks)) {
      throw Error(Errc::segment_corrupt, std::string(engine::word_of(seen->kind)) + " '" + seen->name +
                                             "' is damaged; `shmcoord segment check` tells more");
    }
    if (!is_behind(*seen)) return seen;
  }
  throw Error(Errc::segment_corrupt,
              "'" + std::string(name) + "' changes faster than it can be read; try again when less is going on");
}

}  // namespace shmcoord::process
