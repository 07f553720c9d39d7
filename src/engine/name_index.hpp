#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/names.hpp"
#include "engine/layout.hpp"
#include "engine/name_words.hpp"
#include "engine/pages.hpp"
#include "engine/shared_bytes.hpp"
#include "engine/view.hpp"
#include "shmcoord/error.hpp"

// From a name to its record, for processes that may die at any instruction.
//
// Problem: two processes that name "deploy" at the same moment must end up with one record. Open addressing with
// tombstones lets two inserts of one name both succeed; so names hang in chains, and all inserts of one bucket go
// through one word.
//
// Insert: claim a free record, write it, read the bucket word, look through the chain, read the token floor, point the
// record at the head, CAS the bucket word to {sequence + 1, record}. If anybody inserted meanwhile the CAS fails: look
// again. Each attempt gets a new generation, so that no word written by an earlier one is ever seen again. Removal
// (Harris): the control word is closed (the point of no return: no operation follows on a closed word), the token floor
// is raised to its sequence, the chain word marked, every marked record of that chain unlinked, the bucket's sequence
// raised, the record's generation cleared, its directory word set free. Each step is a CAS from an exact value, so
// *anybody* may do the rest, several at once, late or again: whoever finds a closed record under a name finishes it
// instead of waiting.
//
// Why a reader is never misled. It loads the bucket word, walks, and loads the bucket word again: a record is recycled
// only after the sequence was raised, which came after it could no longer be reached; so if the word is the same, all
// that was read belonged to records of this chain. Else it starts over. (Links that carry the generation of their
// target would do for walking, but not for a late unlink, which needs to know that the word it changes is not a later
// one that looks alike.) Why a late unlink does no harm. A chain word carries its record's own generation, and inside
// one life `next` only moves down the chain and never comes back: the CAS succeeds only while that link was there all
// the time, and then what hangs on it was not recycled either. Why tokens grow over a removal: the floor is raised
// before the mark, and an inserter reads it after it saw that the name is absent.
//
// What if we die here. Before a session claims or removes record r it writes r + 1 into its slot's `claiming`:
//   before the directory CAS        nothing happened
//   claimed, not in the chain       recover_claim sets it free
//   in the chain, still "claimed"   it counts as live for everybody; recover_claim says so in the directory
//   word closed                     recover_claim, or anybody who looks the name up, finishes the removal
// A record in the chain is complete: its fields are written before the bucket CAS. A record's long-name page that was
// allocated for nothing stays allocated.
//
// Legal to be wrong: record_hint; `claiming` of a session that went on without clearing it (it died); a directory word
// that says claimed for a record that is in use already.
//
// tests/model/names.pml checks all orders of these steps, with a death at any of them, for small configurations.

namespace shmcoord::engine {

/// One life of one name.
struct Found {
  RecordIndex record = 0;
  std::uint64_t generation = 0;

  friend constexpr bool operator==(const Found&, const Found&) = default;
};

struct NameConfigNs {
  std::int64_t stale_threshold_ns = 60'000'000'000;
  std::int64_t ttl_ns = 0;       // 0 none
  std::int64_t max_hold_ns = 0;  // 0 none
  std::int64_t heartbeat_interval_ns = 15'000'000'000;
  std::uint32_t per_session = 0;  // of a quota; 0: the capacity is fixed
};

enum class Removal : std::uint8_t {
  removed,
  in_use,  // held or waited for; nothing changed
  gone,    // somebody else removed it
};

/// Cheap; make one where it is needed. Thread-safe, except that calls that name a slot are one at a time for each slot
/// (the slot has one `claiming` word): the session holds a mutex of its own around them.
template <class P>
class NameIndex {
 public:
  struct Inserted {
    Found found;
    bool inserted = false;
  };

  /// `pages` may be null where nothing is inserted.
  explicit NameIndex(const View& view, PageSource* pages = nullptr) noexcept : view_(view), pages_(pages) {}

  /// The live record of that name. Writes nothing. Throws Error segment_corrupt when the chain is damaged.
  [[nodiscard]] std::optional<Found> find(std::string_view name) const;

  /// The record of that name, made when there is none. One that exists comes back as it is, also when its kind or
  /// configuration differs. The name was checked by the caller (core::check_name). Throws Error: table_full, no_space,
  /// segment_corrupt; nothing is inserted then.
  /// `make_room()` is asked when no record is free (recycling.hpp), and says whether it is worth another look.
  template <class MakeRoom>
  Inserted find_or_insert(std::string_view name, Kind kind, std::uint32_t capacity, const NameConfigNs& config,
                          SlotIndex slot, MakeRoom&& make_room);
  Inserted find_or_insert(std::string_view name, Kind kind, std::uint32_t capacity, const NameConfigNs& config,
                          SlotIndex slot) {
    return find_or_insert(name, kind, capacity, config, slot, [] { return false; });
  }

  /// Takes the name out and sets its record free. `close()` moves the control word from an idle one to core::Op::close
  /// by CAS, after it checked the generation, and says whether it did; it has finished the word's last operation
  /// before.
  template <class Close>
  Removal remove(Found found, SlotIndex slot, Close&& close);

  /// Finishes or undoes what the slot's dead owner was doing. Only after proof of death, before the slot is set free;
  /// by anybody, several at once, again. A late one is harmless: it stops when the slot's identity is not the dead
  /// one's. Does not clear `claiming`: whoever joins in the slot next does.
  void recover_claim(SlotIndex slot);

  /// Finishes the removal of a record whose control word is closed; does nothing to any other.
  void complete_removal(Found found);

  [[nodiscard]] bool is_current(Found found) const noexcept {
    return P::load(view_.record(found.record).generation) == found.generation;
  }

  /// Empty when the record is not that life any more.
  [[nodiscard]] std::string name_of(Found found) const;

  /// Calls fn(Found, std::string_view name, const Record&) for each live record. Read-only, never stuck, never out of
  /// bounds, whatever the bytes are; what is inserted or removed meanwhile may or may not be seen.
  template <class Fn>
  void for_each_live(Fn&& fn) const;

 private:
  enum class Walk : std::uint8_t { absent, found, changed };
  using NameBuffer = char[long_name_bytes];

  [[nodiscard]] Word64& bucket_of(std::uint64_t hash) const noexcept {
    return view_.bucket(static_cast<std::uint32_t>(hash & (view_.geo.bucket_count - 1)));
  }
  [[nodiscard]] std::uint64_t hash(std::string_view name) const noexcept {
    return hash_name(name, view_.header().segment_id);
  }
  [[nodiscard]] bool usable(RecordIndex r) const noexcept {
    return view_.has_record(r) && row_exists(view_.geo.records, r, sizeof(Record));
  }
  [[nodiscard]] bool row_exists(std::uint64_t table, std::uint64_t row, std::uint64_t bytes) const noexcept {
    return view_.pages_exist(table + row * bytes, bytes);
  }
  [[nodiscard]] bool closed(Found found) const noexcept {
    const Record& record = view_.record(found.record);
    const core::Control control = P::load(record.control);
    return control.op == core::Op::close && P::load(record.generation) == found.generation;
  }

  template <class Match>
  Walk walk(const Word64& bucket, std::uint64_t seen, Match&& match, Found* found) const;
  Walk look_up(std::uint64_t seen, std::string_view name, std::uint64_t name_hash, Found* found) const;
  [[nodiscard]] bool name_equals(RecordIndex r, std::string_view name, std::uint64_t name_hash) const noexcept;
  [[nodiscard]] std::string_view copy_name(RecordIndex r, NameBuffer& buffer) const noexcept;
  [[nodiscard]] bool linked(Found found) const;
  void sweep(Word64& bucket);
  bool sweep_once(Word64& bucket);

  std::optional<Found> claim(std::string_view name, SlotIndex slot);
  bool try_claim(RecordIndex r, bool long_name, SlotIndex slot, Found* claimed);
  void renew_attempt(Found* mine, SlotIndex slot);
  void write_record(RecordIndex r, std::string_view name, std::uint64_t name_hash, Kind kind,
                    const NameConfigNs& config);
  void write_control(RecordIndex r, std::uint64_t seq, std::uint32_t capacity);
  void set_free(Found found);

  static void raise(Word64& word, std::uint64_t to) {
    for (std::uint64_t now = P::load(word); now < to; now = P::load(word)) {
      if (P::cas(word, now, to)) return;
    }
  }
  [[noreturn]] static void corrupt(const char* what) {
    throw Error(Errc::segment_corrupt,
                std::string("the name index is damaged: ") + what + "; `shmcoord segment check` tells more");
  }

  View view_;
  PageSource* pages_;
};

// --- looking --------------------------------------------------------------------------------------------------------

/// Goes through the chain as it was when the bucket word was `seen`. `changed`: it is not that any more; nothing is
/// known.
template <class P>
template <class Match>
auto NameIndex<P>::walk(const Word64& bucket, std::uint64_t seen, Match&& match, Found* found) const -> Walk {
  std::uint32_t steps = 0;
  for (std::uint32_t next = unpack_bucket(seen).head; next != 0; ++steps) {
    const RecordIndex r = next - 1;
    if (!usable(r) || steps > view_.geo.sizes.names) {
      if (P::load(bucket) != seen) return Walk::changed;
      corrupt(usable(r) ? "a chain has a circle" : "a link leads outside");
    }
    const Record& record = view_.record(r);
    // All of its lines at once, or a hit waits for three misses one after the other.
    __builtin_prefetch(&record.control);
    __builtin_prefetch(record.name.data() + record.name.size() / 2);
    const Chain chain = unpack_chain(P::load(record.chain));
    if (match(r, chain)) {
      const std::uint64_t generation = P::load(record.generation);
      if (P::load(bucket) != seen && P::keeps(Safety::walk_found_again)) return Walk::changed;
      if (generation == 0) corrupt("a record in a chain has no generation");
      *found = {r, generation};
      return Walk::found;
    }
    next = chain.next;
  }
  return P::load(bucket) == seen || !P::keeps(Safety::walk_absent_again) ? Walk::absent : Walk::changed;
}

template <class P>
auto NameIndex<P>::look_up(std::uint64_t seen, std::string_view name, std::uint64_t name_hash, Found* found) const
    -> Walk {
  return walk(
      bucket_of(name_hash), seen,
      [&](RecordIndex r, const Chain& chain) { return !chain.marked && name_equals(r, name, name_hash); }, found);
}

template <class P>
std::optional<Found> NameIndex<P>::find(std::string_view name) const {
  const std::uint64_t name_hash = hash(name);
  for (;;) {
    Found found;
    const Walk result = look_up(P::load(bucket_of(name_hash)), name, name_hash, &found);
    if (result == Walk::changed) continue;
    if (result == Walk::absent || (P::keeps(Safety::find_closed) && closed(found))) return std::nullopt;
    return found;
  }
}

template <class P>
bool NameIndex<P>::name_equals(RecordIndex r, std::string_view name, std::uint64_t name_hash) const noexcept {
  const Record& record = view_.record(r);
  if (P::load(record.name_hash) != name_hash || P::load(record.name_bytes) != name.size()) return false;
  if (name.size() <= inline_name_bytes) return text_equals<P>(record.name.data(), name);
  return row_exists(view_.geo.long_names, r, long_name_bytes) && text_equals<P>(view_.long_name(r), name);
}

/// Not necessarily the name of any one life: the caller checks the generation afterwards.
template <class P>
std::string_view NameIndex<P>::copy_name(RecordIndex r, NameBuffer& buffer) const noexcept {
  const Record& record = view_.record(r);
  const std::uint32_t bytes = P::load(record.name_bytes);
  if (bytes > max_name) return {};
  if (bytes <= inline_name_bytes) {
    load_text<P>(record.name.data(), 0, buffer, bytes);
  } else {
    if (!row_exists(view_.geo.long_names, r, long_name_bytes)) return {};
    load_text<P>(view_.long_name(r), 0, buffer, bytes);
  }
  return {buffer, bytes};
}

template <class P>
std::string NameIndex<P>::name_of(Found found) const {
  if (!usable(found.record) || !is_current(found)) return {};
  NameBuffer buffer;
  std::string name(copy_name(found.record, buffer));
  return is_current(found) ? name : std::string();
}

template <class P>
template <class Fn>
void NameIndex<P>::for_each_live(Fn&& fn) const {
  const std::uint64_t high = P::load(view_.header().record_high);
  for (RecordIndex r = 0; r < high && r < view_.geo.sizes.names; ++r) {
    if (!row_exists(view_.geo.directory, r, sizeof(Word64))) continue;
    const RecordId id = unpack_record(P::load(view_.directory(r)));
    if (id.state == RecordState::free || !usable(r)) continue;
    const Found found{r, id.generation};
    if (!is_current(found) || closed(found)) continue;
    // Claimed, written, and not in its chain yet: it is nobody's name.
    if (id.state == RecordState::claimed && !linked(found)) continue;
    NameBuffer buffer;
    const std::string_view name = copy_name(r, buffer);
    if (!name.empty() && is_current(found)) fn(found, name, static_cast<const Record&>(view_.record(r)));
  }
}

template <class P>
bool NameIndex<P>::linked(Found found) const {
  const std::uint64_t name_hash = P::load(view_.record(found.record).name_hash);
  // Of another life's hash: then `found` is over, and is not found in that chain either.
  const Word64& bucket = bucket_of(name_hash);
  for (;;) {
    Found here;
    const Walk result = walk(
        bucket, P::load(bucket), [&](RecordIndex r, const Chain&) { return r == found.record; }, &here);
    if (result != Walk::changed) return result == Walk::found && here == found;
  }
}

// --- inserting ------------------------------------------------------------------------------------------------------

template <class P>
template <class MakeRoom>
auto NameIndex<P>::find_or_insert(std::string_view name, Kind kind, std::uint32_t capacity, const NameConfigNs& config,
                                  SlotIndex slot, MakeRoom&& make_room) -> Inserted {
  if (const std::optional<Found> found = find(name)) return {*found, false};
  if (name.empty() || name.size() > max_name) throw Error(Errc::invalid_argument, "a name has 1 to 255 bytes");
  const std::uint64_t name_hash = hash(name);
  Word64& bucket = bucket_of(name_hash);
  Word64& claiming = view_.slot(slot).claiming;
  std::optional<Found> free = claim(name, slot);
  while (!free) {
    P::store(claiming, 0);
    if (!make_room()) {
      throw Error(Errc::table_full, "all " + std::to_string(view_.geo.sizes.names) +
                                        " names of the segment are held or waited for; create a segment with more "
                                        "(`shmcoord segment create --names`)");
    }
    if (const std::optional<Found> found = find(name)) return {*found, false};
    free = claim(name, slot);
  }
  Found mine = *free;
  Record& record = view_.record(mine.record);
  try {
    write_record(mine.record, name, name_hash, kind, config);
    for (;;) {
      const std::uint64_t early = P::keeps(Safety::floor_after_lookup) ? 0 : P::load(view_.header().token_floor);
      const std::uint64_t seen = P::load(bucket);
      Found found;
      const Walk result = look_up(seen, name, name_hash, &found);
      if (result == Walk::changed) continue;
      if (result == Walk::found) {
        if (P::keeps(Safety::insert_finishes_removal) && closed(found)) {
          complete_removal(found);
          continue;
        }
        set_free(mine);
        P::store(claiming, 0);
        return {found, false};
      }
      const std::uint64_t floor = P::keeps(Safety::floor_after_lookup) ? P::load(view_.header().token_floor) : early;
      write_control(mine.record, P::keeps(Safety::floor_read) ? floor + 1 : 1, capacity);
      const Bucket before = unpack_bucket(seen);
      P::store(record.chain, pack(Chain{mine.generation, false, before.head}));
      if (P::keeps(Safety::generation_before_link)) P::store(record.generation, mine.generation);
      const bool linked = P::cas(bucket, seen, pack(after(before, mine.record + 1)));
      if (!P::keeps(Safety::generation_before_link)) P::store(record.generation, mine.generation);
      if (linked) break;
      renew_attempt(&mine, slot);
    }
  } catch (...) {
    set_free(mine);
    P::store(claiming, 0);
    throw;
  }
  P::cas(view_.directory(mine.record), pack(RecordId{RecordState::claimed, slot, mine.generation}),
         pack(RecordId{RecordState::live, 0, mine.generation}));
  P::store(claiming, 0);
  return {mine, true};
}

/// From the hint upwards, then new ones, then from the start: a name that is made and removed again and again reuses
/// one record, and a table that only grows is never searched. A full one is searched once for each batch of names that
/// make room (recycling.hpp).
template <class P>
std::optional<Found> NameIndex<P>::claim(std::string_view name, SlotIndex slot) {
  const RecordIndex names = view_.geo.sizes.names;
  const bool long_name = name.size() > inline_name_bytes;
  const std::uint64_t hint = P::load(view_.header().record_hint);
  const RecordIndex start = hint < names ? static_cast<RecordIndex>(hint) : 0;
  constexpr RecordIndex words_per_page = page_size / sizeof(Word64);
  Found claimed;
  const auto search = [&](RecordIndex from, RecordIndex to) {
    bool exists = false;
    for (RecordIndex r = from; r < to; ++r) {
      if (r == from || r % words_per_page == 0) exists = row_exists(view_.geo.directory, r, sizeof(Word64));
      if (exists && unpack_record(P::load(view_.directory(r))).state != RecordState::free) continue;
      if (try_claim(r, long_name, slot, &claimed)) return true;
    }
    return false;
  };
  if (search(start, names) || search(0, start)) return claimed;
  return std::nullopt;
}

template <class P>
bool NameIndex<P>::try_claim(RecordIndex r, bool long_name, SlotIndex slot, Found* claimed) {
  pages_->ensure(view_.geo.directory + std::uint64_t{r} * sizeof(Word64), sizeof(Word64));
  Word64& directory = view_.directory(r);
  const std::uint64_t seen = P::load(directory);
  const RecordId id = unpack_record(seen);
  if (id.state != RecordState::free) return false;
  pages_->ensure(view_.geo.records + std::uint64_t{r} * sizeof(Record), sizeof(Record));
  if (long_name) pages_->ensure(view_.geo.long_names + std::uint64_t{r} * long_name_bytes, long_name_bytes);
  raise(view_.header().record_high, std::uint64_t{r} + 1);
  if (P::keeps(Safety::claiming_before_claim)) P::store(view_.slot(slot).claiming, std::uint64_t{r} + 1);
  const RecordId mine{RecordState::claimed, slot, id.generation + 1};
  if (!P::cas(directory, seen, pack(mine))) return false;
  P::store(view_.header().record_hint, std::uint64_t{r} + 1);
  *claimed = {r, mine.generation};
  return true;
}

/// A new generation for the next try, before any word of it is written.
template <class P>
void NameIndex<P>::renew_attempt(Found* mine, SlotIndex slot) {
  P::cas(view_.directory(mine->record), pack(RecordId{RecordState::claimed, slot, mine->generation}),
         pack(RecordId{RecordState::claimed, slot, mine->generation + 1}));
  ++mine->generation;
}

template <class P>
void NameIndex<P>::write_record(RecordIndex r, std::string_view name, std::uint64_t name_hash, Kind kind,
                                const NameConfigNs& config) {
  Record& record = view_.record(r);
  P::store(record.kind, static_cast<std::uint32_t>(kind));
  P::store(record.per_session, config.per_session);
  P::store(record.stale_threshold_ns, static_cast<std::uint64_t>(config.stale_threshold_ns));
  P::store(record.default_ttl_ns, static_cast<std::uint64_t>(config.ttl_ns));
  P::store(record.max_hold_ns, static_cast<std::uint64_t>(config.max_hold_ns));
  P::store(record.heartbeat_interval_ns, static_cast<std::uint64_t>(config.heartbeat_interval_ns));
  P::store(record.name_hash, name_hash);
  P::store(record.name_bytes, static_cast<std::uint32_t>(name.size()));
  store_text<P>(name.size() <= inline_name_bytes ? record.name.data() : view_.long_name(r), name);
}

/// The word by CAS, because half of an old closed one and half of a new one would look like an idle one. What finishers
/// change by CAS starts with the stamp of this birth, so that one who slept since an earlier life finds no value it
/// knows.
template <class P>
void NameIndex<P>::write_control(RecordIndex r, std::uint64_t seq, std::uint32_t capacity) {
  if (seq > core::seq_limit) corrupt("the token floor is out of range");
  Record& record = view_.record(r);
  const std::uint64_t stamp = P::keeps(Safety::birth_stamps) ? seq : 0;
  P::store(record.capacity, pack(Amount{capacity, link_stamp(r, stamp)}));
  P::store(record.holder, pack(Link{nil_entry, link_stamp(r, stamp)}));
  P::store(record.previous, pack(Handoff{nil_entry, Loss::none, handoff_stamp(r, stamp)}));
  while (
      !P::cas(record.control, P::load(record.control), core::Control{seq, 0, nil_entry, nil_entry, core::Op::none})) {
  }
}

/// Ends a claim that is not in any chain, or a removal whose record cannot be reached any more.
template <class P>
void NameIndex<P>::set_free(Found found) {
  Word64& generation = view_.record(found.record).generation;
  const std::uint64_t shown = P::load(generation);
  // An attempt that died young may show an earlier generation; a later one is not ours to touch.
  const bool ours = shown <= found.generation || !P::keeps(Safety::free_own_attempt);
  if (shown != 0 && ours && P::keeps(Safety::free_generation)) P::cas(generation, shown, 0);
  Word64& directory = view_.directory(found.record);
  for (;;) {
    const std::uint64_t seen = P::load(directory);
    const RecordId id = unpack_record(seen);
    if (id.state == RecordState::free) return;
    if (id.generation != found.generation && P::keeps(Safety::free_own_life)) return;
    if (P::cas(directory, seen, pack(RecordId{RecordState::free, 0, found.generation}))) break;
    // Its inserter, or whoever recovered that one's claim, said just now that it is live.
    if (!P::keeps(Safety::free_again)) return;
  }
  P::store(view_.header().record_hint, found.record);
}

// --- removing -------------------------------------------------------------------------------------------------------

template <class P>
template <class Close>
Removal NameIndex<P>::remove(Found found, SlotIndex slot, Close&& close) {
  Word64& claiming = view_.slot(slot).claiming;
  if (P::keeps(Safety::claiming_before_removal)) P::store(claiming, std::uint64_t{found.record} + 1);
  Removal result = Removal::removed;
  if (!close()) result = is_current(found) && !closed(found) ? Removal::in_use : Removal::gone;
  if (result != Removal::in_use) complete_removal(found);
  P::store(claiming, 0);
  return result;
}

template <class P>
void NameIndex<P>::complete_removal(Found found) {
  Record& record = view_.record(found.record);
  const core::Control control = P::load(record.control);
  const std::uint64_t generation = P::load(record.generation);
  if (generation == found.generation) {
    if (control.op != core::Op::close) return;
    const auto raise_floor = [&] {
      raise(view_.header().token_floor, P::keeps(Safety::floor_raised) ? control.seq : 0);
    };
    if (P::keeps(Safety::floor_before_mark)) raise_floor();
    for (;;) {
      const std::uint64_t raw = P::load(record.chain);
      Chain chain = unpack_chain(raw);
      if (!P::keeps(Safety::removal_marks) || chain.marked ||
          (chain.generation != (found.generation & chain_generation_mask) && P::keeps(Safety::removal_own_life))) {
        break;
      }
      chain.marked = true;
      if (P::cas(record.chain, raw, pack(chain))) break;
    }
    const std::uint64_t name_hash = P::load(record.name_hash);
    if (is_current(found)) {
      Word64& bucket = bucket_of(name_hash);
      sweep(bucket);
      if (!P::keeps(Safety::floor_before_mark)) raise_floor();
      // Raised after the last moment at which it could be reached, before it can be recycled.
      while (P::keeps(Safety::bucket_raised)) {
        const std::uint64_t seen = P::load(bucket);
        if (P::cas(bucket, seen, pack(after(unpack_bucket(seen), unpack_bucket(seen).head)))) break;
      }
    }
  }
  // Here either we took it out, or somebody else cleared the generation after doing so and may have died since.
  set_free(found);
}

template <class P>
void NameIndex<P>::sweep(Word64& bucket) {
  while (!sweep_once(bucket) && P::keeps(Safety::sweep_again)) {
  }
}

/// Unlinks every marked record of the chain; false when somebody changed it under us. It may wander into a record that
/// was recycled into another chain: then it does there what it does here, unlinks what is marked.
template <class P>
bool NameIndex<P>::sweep_once(Word64& bucket) {
  std::uint64_t seen = P::load(bucket);
  Word64* before = nullptr;  // the chain word that leads to `next`; null: the bucket
  std::uint64_t before_raw = 0;
  std::uint32_t steps = 0;
  for (std::uint32_t next = unpack_bucket(seen).head; next != 0; ++steps) {
    const RecordIndex r = next - 1;
    if (!usable(r) || steps > view_.geo.sizes.names) {
      if (P::load(bucket) != seen) return false;
      corrupt("a chain has a circle or leads outside");
    }
    Word64& word = view_.record(r).chain;
    const std::uint64_t raw = P::load(word);
    const Chain chain = unpack_chain(raw);
    next = chain.next;
    if (!chain.marked) {
      before = &word;
      before_raw = raw;
    } else if (before == nullptr) {
      const std::uint64_t shorter = pack(after(unpack_bucket(seen), chain.next));
      if (!P::cas(bucket, seen, shorter)) return false;
      seen = shorter;
    } else {
      const std::uint64_t shorter = pack(Chain{unpack_chain(before_raw).generation, false, chain.next});
      if (!P::cas(*before, before_raw, shorter)) return false;
      before_raw = shorter;
    }
  }
  return true;
}

// --- after a death --------------------------------------------------------------------------------------------------

template <class P>
void NameIndex<P>::recover_claim(SlotIndex slot) {
  const SessionSlot& dead = view_.slot(slot);
  const std::uint64_t id = P::load(dead.id);
  const std::uint64_t claiming = P::load(dead.claiming);
  if (claiming == 0 || claiming > view_.geo.sizes.names) return;
  const auto r = static_cast<RecordIndex>(claiming - 1);
  if (!row_exists(view_.geo.directory, r, sizeof(Word64)) || !usable(r)) return;
  const RecordId record = unpack_record(P::load(view_.directory(r)));
  // Still the same dead session: so the directory word cannot be a later claim of the slot's next owner.
  const bool same = P::load(dead.id) == id && unpack_slot(id).state == SlotState::dying;
  if (!same && P::keeps(Safety::recover_same_session)) return;
  const Found found{r, record.generation};
  if (record.state == RecordState::live) {
    complete_removal(found);
  } else if (record.state == RecordState::claimed && record.claimer == slot) {
    // Asked before it is asked whether it is closed: if a removal unlinked it meanwhile, that one raises the bucket
    // first.
    const bool early = P::keeps(Safety::recover_asks_chain_first) && linked(found);
    const bool removed = closed(found);
    const bool in_chain = P::keeps(Safety::recover_asks_chain_first) ? early : linked(found);
    if (removed && P::keeps(Safety::recover_closed)) {
      complete_removal(found);
    } else if (in_chain) {
      P::cas(view_.directory(r), pack(record), pack(RecordId{RecordState::live, 0, record.generation}));
    } else {
      set_free(found);
    }
  }
}

}  // namespace shmcoord::engine
