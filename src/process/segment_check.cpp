#include "process/segment_check.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/names.hpp"
#include "engine/entry_text.hpp"
#include "engine/journal_reader.hpp"
#include "engine/journal_switch.hpp"
#include "engine/name_index.hpp"
#include "process/snapshot.hpp"

namespace shmcoord::process {
namespace {

using engine::Chain;
using engine::ChunkOwner;
using engine::Entry;
using engine::Phase;
using engine::Record;
using engine::RecordState;
using engine::SessionSlot;
using engine::SlotId;
using engine::SlotState;
using engine::Status;
using engine::View;
using P = engine::RealPolicy;

constexpr std::int64_t look_again_after_ns = 3'000'000;
constexpr std::uint32_t known_entry_flags = engine::entry_detached | engine::entry_implicit | engine::entry_async |
                                            engine::entry_no_lease | engine::entry_timed | engine::entry_first |
                                            engine::entry_for_detached;

bool in_word(Phase phase) {
  return phase == Phase::held || phase == Phase::marked || phase == Phase::waiting || phase == Phase::member;
}

class Checker {
 public:
  Checker(const engine::Mapping& mapping, std::int64_t now_ns)
      : mapping_(mapping), view_(mapping.view()), now_(now_ns) {}

  CheckReport run() {
    header();
    pages();
    sessions();
    chunks();
    names();
    locks();
    journal();
    return std::move(report_);
  }

 private:
  void damage(std::string where, std::string what) {
    report_.findings.push_back({Finding::Kind::damage, std::move(where), std::move(what), life_});
  }
  void pending(std::string where, std::string what) {
    report_.findings.push_back({Finding::Kind::pending, std::move(where), std::move(what), life_});
  }

  // --- header and pages ----------------------------------------------------------------------------------------------

  void header() {
    const engine::Header& h = view_.header();
    const auto at_most = [&](const engine::Word64& word, std::uint64_t most, const char* name) {
      if (const std::uint64_t value = P::load(word); value > most) {
        damage("header", std::string(name) + " is " + std::to_string(value) + ", above " + std::to_string(most));
      }
    };
    at_most(h.slot_high, view_.geo.sizes.sessions, "slot_high");
    at_most(h.record_high, view_.geo.sizes.names, "record_high");
    at_most(h.chunk_high, view_.geo.chunk_count, "chunk_high");
    at_most(h.token_floor, core::seq_limit, "token_floor");
    switch (engine::JournalSwitch<P>::state_of(P::load(h.journal))) {
      case engine::JournalState::off:
      case engine::JournalState::on:
      case engine::JournalState::starting: break;
      default: damage("header", "the journal's switch has an unknown state");
    }
    if (mapping_.removed()) pending("header", "the segment was removed; who opens or creates it next deletes the file");
  }

  void pages() {
    const std::uint64_t all = view_.geo.total / engine::page_size;
    const std::uint64_t words = (view_.geo.buckets - view_.geo.bitmap) / sizeof(engine::Word64);
    std::uint64_t marked = 0;
    for (std::uint64_t w = 0; w < words; ++w) {
      const std::uint64_t bits = P::load(view_.bitmap_word(w));
      marked += static_cast<std::uint64_t>(std::popcount(bits));
      const std::uint64_t first = w * 64;
      const std::uint64_t beyond = first >= all ? bits : all - first < 64 ? bits >> (all - first) : 0;
      if (beyond != 0) damage("page bitmap", "marks pages beyond the end of the file, near " + std::to_string(first));
    }
    if (!view_.pages_exist(0, view_.geo.directory)) {
      damage("page bitmap", "does not know the header, itself or the name index, which are there from the beginning");
    }
    struct stat file {};
    // Counted in what a file takes, not in what it says: a saved copy on another file system may be sparse.
    const bool in_memory = ::fstat(mapping_.fd(), &file) == 0 && mapping_.path().starts_with("/dev/shm/");
    if (in_memory && static_cast<std::uint64_t>(file.st_blocks) * 512 < marked * engine::page_size) {
      damage("page bitmap", "marks " + std::to_string(marked) + " pages, but the file has only " +
                                std::to_string(file.st_blocks * 512 / static_cast<long>(engine::page_size)));
    }
  }

  // --- sessions ------------------------------------------------------------------------------------------------------

  static std::string slot_text(SlotIndex s) { return "session slot " + std::to_string(s); }

  void sessions() {
    const std::uint64_t high = P::load(view_.header().slot_high);
    std::map<std::uint64_t, SlotIndex> ids;
    for (SlotIndex s = 0; view_.has_slot(s); ++s) {
      if (!view_.slot_exists(s)) continue;
      const SessionSlot& slot = view_.slot(s);
      life_ = P::load(slot.id);
      const SlotId id = engine::unpack_slot(life_);
      if (id.state > SlotState::permanent) {
        damage(slot_text(s), "has the unknown state " + std::to_string(static_cast<int>(id.state)));
        continue;
      }
      if ((s == engine::detached_slot) != (id.state == SlotState::permanent)) {
        damage(slot_text(s), s == 0 ? "must be permanent and is not" : "is permanent; only slot 0 may be");
      }
      if (id.state == SlotState::free || id.state == SlotState::permanent) continue;
      ++report_.sessions;
      session(s, slot, id, high);
      if (id.state != SlotState::alive || P::get(slot.session_id) == 0) continue;
      if (const auto [other, first] = ids.emplace(P::get(slot.session_id), s); !first) {
        damage(slot_text(s), "has the session id of slot " + std::to_string(other->second));
      }
    }
  }

  void session(SlotIndex s, const SessionSlot& slot, const SlotId& id, std::uint64_t high) {
    if (s >= high) damage(slot_text(s), "is taken, but not below slot_high: nobody would find its death");
    const auto at_most = [&](const engine::Word64& word, std::uint64_t most, const char* name) {
      if (P::load(word) > most) damage(slot_text(s), std::string(name) + " leads outside of its table");
    };
    at_most(slot.watching, view_.geo.sizes.sessions, "watching");
    at_most(slot.claiming, view_.geo.sizes.names, "claiming");
    at_most(slot.helping, view_.geo.sizes.names, "helping");
    if (id.state == SlotState::alive && P::get(slot.session_id) == 0)
      damage(slot_text(s), "lives without a session id");
    if (life_of(mapping_, s, id.incarnation, Look::thorough).life == Life::dead) {
      pending(slot_text(s),
              "its process (pid " + std::to_string(P::get(slot.pid)) + ") is dead, and it is not buried yet");
    }
  }

  // --- chunks and their entries --------------------------------------------------------------------------------------

  static std::string entry_text(EntryIndex i) { return "entry " + std::to_string(i); }

  void chunks() {
    const std::uint64_t high = P::load(view_.header().chunk_high);
    for (std::uint32_t c = 0; c < view_.geo.chunk_count; ++c) {
      const EntryIndex first = c * engine::entries_per_chunk;
      if (!view_.pages_exist(view_.offset_of(&view_.chunk(c)), sizeof(engine::Word64))) continue;
      const std::uint64_t owner = life_ = P::load(view_.chunk(c));
      const bool there = view_.entry_exists(first) && view_.entry_exists(first + engine::entries_per_chunk - 1);
      if (owner != 0) chunk_owner(c, engine::unpack_owner(owner), high, there);
      for (EntryIndex i = first; there && i < first + engine::entries_per_chunk; ++i) entry(i, owner != 0);
      if (owner != 0 && there) report_.entries += engine::entries_per_chunk;
    }
  }

  void chunk_owner(std::uint32_t c, const ChunkOwner& owner, std::uint64_t high, bool there) {
    const std::string where = "chunk " + std::to_string(c);
    if (c >= high) damage(where, "is taken, but not below chunk_high: nobody would recover it");
    if (!there) damage(where, "is taken, but its entries have no pages");
    if (!view_.slot_exists(owner.slot)) {
      damage(where, "belongs to the session slot " + std::to_string(owner.slot) + ", which there is not");
    } else if (owner.slot != engine::detached_slot) {
      const SlotId id = engine::unpack_slot(P::load(view_.slot(owner.slot).id));
      if (id.state == SlotState::free || !engine::same_incarnation(id.incarnation, owner.incarnation)) {
        damage(where, "was left behind by a session of slot " + std::to_string(owner.slot) + " that is buried");
      }
    }
  }

  void entry(EntryIndex i, bool owned) {
    const Entry& e = view_.entry(i);
    life_ = P::load(e.status);
    const Status status = engine::unpack_status(life_);
    if (status.phase > Phase::member) {
      damage(entry_text(i), "has the unknown phase " + std::to_string(static_cast<int>(status.phase)));
      return;
    }
    if (!in_word(status.phase)) return;
    if (!owned) damage(entry_text(i), "is in use, but its chunk belongs to nobody");
    if (!view_.record_exists(status.record) || P::load(view_.record(status.record).generation) == 0) {
      damage(entry_text(i), "holds or waits for record " + std::to_string(status.record) + ", which is no name");
    }
    if (const std::uint32_t flags = P::load(e.flags); (flags & ~known_entry_flags) != 0) {
      damage(entry_text(i), "has unknown flags");
    }
    if (engine::unpack_amount(P::load(e.weight)).amount == 0) damage(entry_text(i), "has no weight");
    if (e.holder_bytes > engine::max_holder || e.reason_bytes > engine::max_reason) {
      damage(entry_text(i), "its holder id or reason is longer than one can be");
      return;
    }
    const engine::EntryTexts texts = engine::read_texts(view_, i);
    if (!texts.settled) return;
    const std::uint32_t flags = P::load(e.flags);
    const bool implicit = texts.holder.empty() && (flags & engine::entry_implicit) != 0;
    if (const auto fault = core::check_name(texts.holder); !implicit && !fault.empty()) {
      damage(entry_text(i), "its holder id " + std::string(fault));
    }
  }

  // --- names ---------------------------------------------------------------------------------------------------------

  [[nodiscard]] std::string record_text(RecordIndex r) const { return "record " + std::to_string(r); }

  [[nodiscard]] std::optional<engine::RecordId> directory_of(RecordIndex r) const {
    const engine::Word64& word = view_.directory(r);
    if (!view_.pages_exist(view_.offset_of(&word), sizeof word)) return std::nullopt;
    return engine::unpack_record(P::load(word));
  }

  void names() {
    reached_.assign(view_.geo.sizes.names, false);
    for (std::uint32_t b = 0; b < view_.geo.bucket_count; ++b) chain(b);
    const std::uint64_t high = P::load(view_.header().record_high);
    for (RecordIndex r = 0; view_.has_record(r); ++r) {
      const auto id = directory_of(r);
      if (!id || id->state == RecordState::free) continue;
      life_ = id->generation;
      if (r >= high) damage(record_text(r), "is taken, but not below record_high: no listing would show it");
      switch (id->state) {
        case RecordState::live:
          if (!reached_[r]) unreached(r);
          break;
        case RecordState::claimed:
          if (!reached_[r]) claimed(r, *id);
          break;
        default: damage(record_text(r), "has an unknown state");
      }
    }
  }

  void chain(std::uint32_t b) {
    const std::uint64_t seen = life_ = P::load(view_.bucket(b));
    const auto changed = [&] { return P::load(view_.bucket(b)) != seen; };
    const std::string where = "name bucket " + std::to_string(b);
    std::vector<std::string> names_here;
    for (std::uint32_t next = engine::unpack_bucket(seen).head; next != 0;) {
      const RecordIndex r = next - 1;
      if (!view_.record_exists(r)) {
        if (!changed()) damage(where, "its chain leads to record " + std::to_string(r) + ", which there is not");
        return;
      }
      if (reached_[r]) {
        if (!changed()) damage(where, "its chain leads to record " + std::to_string(r) + " for the second time");
        return;
      }
      reached_[r] = true;
      const Record& record = view_.record(r);
      life_ = P::load(record.generation);
      const Chain link = engine::unpack_chain(P::load(record.chain));
      if (link.marked) {
        pending(record_text(r), "its removal is not finished");
      } else {
        name(b, r, record, names_here);
      }
      next = link.next;
    }
  }

  void name(std::uint32_t b, RecordIndex r, const Record& record, std::vector<std::string>& names_here) {
    const std::uint64_t generation = life_;
    const auto id = directory_of(r);
    if (!id || id->state == RecordState::free || id->generation != generation || generation == 0) {
      damage(record_text(r), "is in a chain, but the directory does not have it in this life");
      return;
    }
    ++report_.names;
    const std::uint32_t bytes = P::load(record.name_bytes);
    const std::string text = engine::NameIndex<P>(view_).name_of({r, generation});
    if (bytes == 0 || bytes > engine::max_name || text.size() != bytes) {
      damage(record_text(r), "has no readable name");
      return;
    }
    const std::string where = "lock '" + text + "'";
    if (const auto fault = core::check_name(text); !fault.empty())
      damage(record_text(r), "its name " + std::string(fault));
    const std::uint64_t hash = engine::hash_name(text, view_.header().segment_id);
    if (hash != P::load(record.name_hash) || (hash & (view_.geo.bucket_count - 1)) != b) {
      damage(where, "is not in the chain where it would be looked for");
    }
    if (std::find(names_here.begin(), names_here.end(), text) != names_here.end()) damage(where, "is there twice");
    names_here.push_back(text);
    const std::uint64_t journaled = P::load(record.journaled);  // before the word that it follows
    if (journaled > P::load_seq(record.control)) damage(where, "changes were journaled that have not happened yet");
  }

  void unreached(RecordIndex r) {
    const Record& record = view_.record(r);
    // Unlinked by a removal that has not set it free yet: the word is closed.
    if (view_.record_exists(r) && static_cast<core::Control>(P::load(record.control)).op == core::Op::close) {
      pending(record_text(r), "its removal is not finished");
    } else {
      damage(record_text(r), "is a name that no chain leads to");
    }
  }

  void claimed(RecordIndex r, const engine::RecordId& id) {
    const bool by_somebody = view_.slot_exists(id.claimer) &&
                             engine::unpack_slot(P::load(view_.slot(id.claimer).id)).state != SlotState::free &&
                             P::load(view_.slot(id.claimer).claiming) == std::uint64_t{r} + 1;
    if (!by_somebody)
      damage(record_text(r), "is claimed by a session that does not know of it: it would never be freed");
  }

  // --- locks ---------------------------------------------------------------------------------------------------------

  void locks() {
    life_ = 0;  // judged while the word stood still; a lock that is always in use must be found too
    const Picture picture = take_picture(mapping_, now_);
    for (const LockView& lock : picture.locks) {
      if (!lock.settled) {
        ++report_.moving;
      } else {
        judge(lock);
      }
    }
  }

  void judge(const LockView& lock) {
    const bool is_lock = lock.kind == engine::Kind::lock;
    const bool is_registered = engine::is_registered(lock.kind);
    const std::string where = std::string(engine::word_of(lock.kind)) + " '" + lock.name + "'";
    if (!is_lock && !is_registered && lock.kind != engine::Kind::semaphore) damage(where, "is of no known kind");
    if (lock.damaged) {
      damage(where, "its control word cannot be right");
      return;
    }
    const bool quota = lock.per_session != 0;
    // The engine's own locks are of one; those that can be shared are of everything.
    const bool of_a_lock = lock.capacity == 1 || lock.capacity == core::max_capacity;
    if ((lock.capacity == 0 && !quota) || ((is_lock || is_registered) && !of_a_lock)) {
      damage(where, "its capacity is " + std::to_string(lock.capacity));
    }
    if (!quota && lock.members != 0) damage(where, "sessions joined it, but its capacity is fixed");
    if (quota && lock.shares != lock.capacity) {
      damage(where, "its capacity is " + std::to_string(lock.capacity) + ", but the sessions that joined it brought " +
                        std::to_string(lock.shares));
    }
    std::uint64_t held = 0;
    for (const GrantView& g : lock.holders) {
      held += g.weight;
      if (g.token == 0) damage(where, "entry " + std::to_string(g.entry) + " holds it with an impossible token");
    }
    if (held != lock.used) {
      damage(where, "used is " + std::to_string(lock.used) + ", but its holders have " + std::to_string(held));
    }
    if (!lock.queue_whole) damage(where, "the circle of its waiters does not lead through all of them");
    for (const std::int64_t duration : {lock.stale_threshold_ns, lock.default_ttl_ns, lock.max_hold_ns}) {
      if (duration < 0) damage(where, "has a negative duration");
    }
    if (!lock.waiters.empty() && lock.queue_whole && lock.used <= lock.capacity &&
        lock.waiters.front().weight <= lock.capacity - lock.used) {
      pending(where, "its first waiter could be let in, and is not yet");
    }
  }

  // --- journal -------------------------------------------------------------------------------------------------------

  /// Up to where it ends now: it may grow faster than it is read.
  void journal() {
    const std::uint64_t end = P::load_seq(view_.header().journal_tail);
    auto reader = engine::JournalReader<P>::only_looking(view_);
    engine::JournalRecord record;
    std::uint64_t lost = 0;
    std::uint64_t begins = 0;  // where the next record begins, and its number; 0: not known
    std::uint64_t number = 0;
    while (reader.position() < end) {
      life_ = reader.position();
      const std::string where = "journal word " + std::to_string(life_);
      switch (reader.next(record, lost)) {
        case engine::JournalRead::nothing: return;
        case engine::JournalRead::lapped: break;
        case engine::JournalRead::unfinished:
          pending(where, "its last record is not whole; who writes or reads next completes it");
          return;
        case engine::JournalRead::damaged:
          damage(where, "no record that can be begins here; nobody can read on");
          return;
        case engine::JournalRead::record:
          ++report_.journal_records;
          event(record, begins == record.position ? number : 0);
          begins = record.position + record.head.words;
          number = record.head.number() + 1;
      }
    }
  }

  void event(const engine::JournalRecord& record, std::uint64_t expected) {
    life_ = record.position;
    const std::string where = "journal record " + std::to_string(record.head.number());
    if (expected != 0 && record.head.number() != expected) {
      damage(where, "follows on record " + std::to_string(expected - 1));
    }
    if (record.head.told == engine::Told::nothing || record.head.told > engine::Told::named) {
      damage(where, "tells of nothing that there is");
    }
  }

  const engine::Mapping& mapping_;
  const View& view_;
  std::int64_t now_;
  CheckReport report_;
  std::uint64_t life_ = 0;  // of what is being judged
  std::vector<bool> reached_;
};

}  // namespace

std::string_view to_string(Finding::Kind kind) noexcept { return kind == Finding::Kind::damage ? "damage" : "pending"; }

bool CheckReport::damaged() const noexcept {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.kind == Finding::Kind::damage; });
}

CheckReport check_segment(const engine::Mapping& mapping, std::int64_t now_ns, int looks) {
  CheckReport report = Checker(mapping, now_ns).run();
  for (int again = 1; again < looks && !report.findings.empty(); ++again) {
    const engine::Word32 nobody_wakes;
    const engine::WaitOn word{&nobody_wakes, 0};
    P::wait({&word, 1}, P::now_ns() + look_again_after_ns);
    const std::set<Finding> before(report.findings.begin(), report.findings.end());
    report = Checker(mapping, now_ns).run();
    std::erase_if(report.findings, [&](const Finding& f) { return !before.contains(f); });
  }
  return report;
}

}  // namespace shmcoord::process
