#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/words.hpp"

// The segment's structs. One set for debug and release; no pointers, no std types with hidden state, no PID as an
// identity; every field has its offset asserted in layout_asserts.cpp and its golden line in tests. Change a field, or
// what lies in one (the holders of coordination/stored_text.hpp): raise `layout_version`. Each table is an array in the
// (sparse) file; a page of it exists once the page bitmap says so (segment_file.hpp), and is never touched before.

namespace shmcoord::engine {

inline constexpr std::uint64_t segment_magic = 0x64726f6f636d6873ULL;  // "shmcoord", little endian
inline constexpr std::uint32_t layout_version = 7;
inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t page_size = 4096;

inline constexpr std::size_t max_name = 255;
inline constexpr std::size_t max_holder = 255;
inline constexpr std::size_t max_reason = 4096;
inline constexpr EntryIndex entries_per_chunk = 8;

/// What `create` was asked for; stored in the header, and everything else about the file follows from it (Geometry).
struct Sizes {
  std::uint32_t names = 65'536;
  std::uint32_t entries = 250'000;
  std::uint32_t sessions = 4'097;  // slots: slot 0 is nobody's to join in
  std::uint32_t journal =
      262'144;  // words of the ring of events, a power of two; no page of it exists before it is used

  /// Of the slots, those that a session may have.
  [[nodiscard]] constexpr std::uint32_t joinable() const noexcept { return sessions - 1; }
  friend constexpr bool operator==(const Sizes&, const Sizes&) = default;
};

enum HeaderFlag : std::uint32_t {
  journal_always = 1,  // events are kept also while nobody subscribes
};

// A saved snapshot promises that no token above its reservation was given out, so that whoever restores it can begin
// above. So an acquire that would pass it is refused until a newer snapshot reserved more. Only what lets in somebody
// new is refused: who waits already is let in, and holds end as ever, for which there is a margin above it.
inline constexpr std::uint64_t token_reserve = 1ULL << 38U;  // three days of a million changes of a name a second
inline constexpr std::uint64_t token_margin = 1ULL << 32U;

struct alignas(cache_line) Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t byte_order;  // 0x01020304 as written by the creator
  std::uint32_t word_bits;   // sizeof(void*) * 8 of the creator; layouts are equal, refused for certainty
  std::uint32_t page_bytes;
  std::uint64_t total_bytes;
  std::uint64_t segment_id;  // random; two segments of one name are told apart by it
  Sizes sizes;
  std::uint32_t flags;                   // HeaderFlag
  std::array<std::uint8_t, 16> boot_id;  // of the creator's boot; another one: everybody in here is dead
  std::uint64_t time_namespace;          // inode of the creator's, 0 unknown
  std::int64_t created_wall_s;           // for people only
  Word64 token_reserved;                 // no acquire passes this sequence, 0: none; see below
  std::uint64_t reserved[3];
  // The second group changes while in use.
  alignas(cache_line) Word64
      token_floor;     // every new record starts its sequence above it; CAS-max before a record is freed
  Word64 removed;      // not 0: `segment remove` was called; everybody's holds are lost
  Word64 chunk_high;   // no chunk at or above it was ever claimed
  Word64 slot_high;    // no slot at or above it was ever claimed
  Word64 record_high;  // no record at or above it was ever claimed
  Word64 record_hint;  // where to look for a free record first; may be wrong
  Word64 chunk_hint;   // likewise for chunks
  Word64 journal;      // are events kept? {state, epoch} of journal_switch.hpp; beside `removed`, so nobody pays for it
  // Written by whoever journals.
  alignas(cache_line) Word128 journal_tail;  // {end of the last record, JournalClaim}
  Word32 journal_parked;                     // futex of the readers, see journal.hpp
  std::uint32_t reserved32;
  Word64 silence_ns;  // when everybody was last found silent; one interval of grace runs from then
};

// --- session slot ----------------------------------------------------------------------------------------------------

enum class SlotState : std::uint8_t {
  free = 0,     // may be claimed
  joining = 1,  // claimed, not yet alive: its byte lock decides whether the claimer lives
  alive = 2,
  dying = 3,      // death is proven; its holds are being released by anyone
  fenced = 4,     // robbed by a lease or the operator while it may still run; ends by its own life word
  permanent = 5,  // slot 0: owns the detached entries; never dies
};

/// {state:4 | incarnation:60}; the incarnation grows with every claim and never repeats.
struct SlotId {
  SlotState state = SlotState::free;
  std::uint64_t incarnation = 0;

  friend constexpr bool operator==(const SlotId&, const SlotId&) = default;
};
constexpr std::uint64_t pack(const SlotId& s) noexcept {
  return static_cast<std::uint64_t>(s.state) | s.incarnation << 4U;
}
constexpr SlotId unpack_slot(std::uint64_t raw) noexcept { return {static_cast<SlotState>(raw & 15U), raw >> 4U}; }

inline constexpr SlotIndex detached_slot = 0;

enum SlotFlag : std::uint32_t {
  slot_manual = 1,          // heartbeats come from the holder, not from the keeper
  slot_no_life_word = 2,    // set_robust_list is not available: heartbeat and byte lock only
  slot_inherited_lock = 4,  // a command inherits the second byte lock; dead only when that is free too (`run`)
  slot_no_waitv = 8,        // futex_waitv is not available: its waits are re-checked at short intervals
  slot_undetected = 16,     // wants no part in finding deadlocks
  slot_leaving = 32,        // it ends because it wants to
};

struct alignas(cache_line) SessionSlot {
  Word64 id;            // SlotId
  Word32 life;          // see words.hpp; futex
  Word32 signal;        // futex of the keeper: bumped to make it look again (ring changed, hold lost, async grant)
  Word64 heartbeat_ns;  // CLOCK_MONOTONIC of the keeper's last beat
  Word64 watching;      // slot index + 1 that the keeper watches now; 0: nobody
  Word64 beat_interval_ns;
  Word64 claiming;  // record index + 1 that the session is claiming or removing (crash-safe intent); 0: none
  Word32 flags;
  std::uint32_t uid;
  std::uint64_t session_id;  // random, for people and logs; 0 never
  // For people only, except that pid, start time and namespace may *confirm* a death, never prove one alone.
  alignas(cache_line) std::int32_t pid;
  std::uint32_t keeper_tid;
  std::uint64_t start_time;     // field 22 of /proc/PID/stat, clock ticks
  std::uint64_t pid_namespace;  // inode
  std::int64_t joined_ns;
  std::int32_t group_pid;  // process group of the command under `run`, 0 none
  Word32 subscribed;       // not 0: it reads events
  std::uint64_t boot;      // number of the boot that the session joined in: in another one it is dead
  Word64 helping;  // record index + 1 that the session robs or settles as a third party; its burial finishes the word
  std::array<char, 128> label;    // NUL-terminated, cut with "…" when longer
  std::array<char, 256> command;  // likewise
  Word64 journaled;               // {incarnation, stage} of the last event of a session here; journal.hpp
};

// --- entries ---------------------------------------------------------------------------------------------------------

/// Owner of a chunk of entries: {slot + 1 : 16 | incarnation low 48}; 0 free. Chunks of the detached slot only empty
/// out.
struct ChunkOwner {
  SlotIndex slot = 0;
  std::uint64_t incarnation = 0;
};
inline constexpr std::uint64_t owner_incarnation_mask = (1ULL << 48U) - 1;
constexpr std::uint64_t pack_owner(const ChunkOwner& o) noexcept {
  return std::uint64_t{o.slot + 1} | (o.incarnation & owner_incarnation_mask) << 16U;
}
/// Are both the same life of a slot, if one of them comes from a chunk's owner?
constexpr bool same_incarnation(std::uint64_t a, std::uint64_t b) noexcept {
  return ((a ^ b) & owner_incarnation_mask) == 0;
}
/// Only for a value that is not 0.
constexpr ChunkOwner unpack_owner(std::uint64_t raw) noexcept {
  return {static_cast<SlotIndex>((raw & 0xffffU) - 1), raw >> 16U};
}

enum EntryFlag : std::uint32_t {
  entry_detached = 1,       // outlives its process: heartbeat/ttl or a bound process only
  entry_implicit = 2,       // of lock()/try_lock(): no holder id given
  entry_async = 4,          // nobody sleeps on it: a grant signals the owner's keeper, which writes the pollable fd
  entry_no_lease = 8,       // `run` without --ttl: only release, proof of death or the operator ends it (C-51)
  entry_timed = 16,         // its wait has a deadline
  entry_first = 32,         // waits before all others, for it holds already what they wait for
  entry_for_detached = 64,  // gets more for a detached holder
};

struct alignas(cache_line) Entry {
  // Hot: owner, helpers and its waiter.
  Word64 status;        // Status
  Word64 next;          // Link: the one behind me; of the tail: the head
  Word64 prev;          // Link: the one before me; of the head: meaningless
  Word64 handoff;       // Handoff
  Word64 since_ns;      // waiting since, then held since (set again by whoever finishes the grant)
  Word64 heartbeat_ns;  // last explicit sign of life
  Word64 weight;        // Amount
  Word32 wake;          // futex, see words.hpp
  Word32 flags;         // EntryFlag
  // Cold: written by the owner before it is prepared, read by people and recoverers.
  Word64 ttl_ns;           // 0: none; replaces the record's stale threshold (C-51)
  Word32 text_version;     // odd while the texts are being changed
  std::uint32_t thread;    // owner's thread id, for the deadlock picture
  std::int32_t bound_pid;  // detached: dies with this process; 0 none
  Word32 beside;           // of a wait for more: what its owner holds already, in another entry
  std::uint64_t bound_start_time;
  std::uint64_t bound_pid_namespace;
  Word64 token;  // full sequence of the grant, as the owner saw it; its low bits are in status
  std::uint32_t holder_bytes;
  std::uint32_t reason_bytes;
  Word64 boot;                 // of a detached hold: number of the boot that it was acquired in
  std::array<char, 128> text;  // holder, then reason, when both fit; else all of it stands in the long-text row
};
inline constexpr std::size_t long_text_bytes = max_holder + 1 + max_reason;  // 4352

// --- names -----------------------------------------------------------------------------------------------------------

enum class Kind : std::uint32_t { none = 0, lock = 1, semaphore = 2, guard = 3, pipeline = 4 };

/// One that nobody takes: what is said of it lies in its holds.
constexpr bool is_registered(Kind kind) noexcept { return kind == Kind::guard || kind == Kind::pipeline; }

/// "lock". Of a damaged one: "name".
constexpr std::string_view word_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::lock: return "lock";
    case Kind::semaphore: return "semaphore";
    case Kind::guard: return "guard";
    case Kind::pipeline: return "pipeline";
    case Kind::none: break;
  }
  return "name";
}

/// State of a record, in the dense directory: {state:2 | claimer's slot:16 | generation:46}. The generation grows at
/// each claim, so (record, generation) names one life of one name for ever.
enum class RecordState : std::uint8_t { free = 0, claimed = 1, live = 2 };
struct RecordId {
  RecordState state = RecordState::free;
  SlotIndex claimer = 0;  // only while claimed
  std::uint64_t generation = 0;

  friend constexpr bool operator==(const RecordId&, const RecordId&) = default;
};
constexpr std::uint64_t pack(const RecordId& r) noexcept {
  return static_cast<std::uint64_t>(r.state) | std::uint64_t{r.claimer & 0xffffU} << 2U | r.generation << 18U;
}
constexpr RecordId unpack_record(std::uint64_t raw) noexcept {
  return {static_cast<RecordState>(raw & 3U), static_cast<SlotIndex>(raw >> 2U & 0xffffU), raw >> 18U};
}

struct alignas(cache_line) Record {
  // Hot line: all that an uncontended acquire or release reads or writes beside the caller's own entry.
  Word128 control;
  Word64 holder;      // Link: the latest holder; of a lock, the holder
  Word64 previous;    // Handoff: robbed holder, until the next one has been told (C-52)
  Word64 generation;  // of this life, equal to the directory's; 0 while not live
  Word64 capacity;    // Amount
  Word64 stale_threshold_ns;
  Word64 default_ttl_ns;  // 0 none
  // Cold.
  Word64 max_hold_ns;  // 0 none
  Word64 heartbeat_interval_ns;
  Word64 chain;  // name index: {next record, mark, its generation}
  Word64 name_hash;
  Word32 name_bytes;
  Word32 kind;         // Kind
  Word32 per_session;  // of a quota: what each session that joins adds to the capacity; 0: it is fixed
  std::uint32_t reserved32;
  Word64 journaled;           // sequence up to which events stand in the journal, or are not wanted; journal.hpp
  std::array<char, 72> name;  // when it fits; else in the long-name row
};
inline constexpr std::size_t inline_name_bytes = 72;
inline constexpr std::size_t long_name_bytes = 256;

/// Who was robbed, kept for the next holder beyond the life of the robbed entry. Each word is {low 32 bits of the
/// stamp, 12 bytes of payload}, set by CAS by everybody who finishes the reclaim: a late helper cannot mix two notices.
/// Payload: pid (4 bytes), held since (8), length (1), holder. Most holder ids fit here, so that the notices of a big
/// session lie close together; of the others the rest stands in a row of the table behind.
struct Notice {
  std::array<Word128, 4> words;
};
struct NoticeRest {
  std::array<Word128, 19> words;
};
inline constexpr std::size_t notice_word_bytes = 12;
inline constexpr std::size_t notice_head_bytes = 13;
inline constexpr std::size_t short_notice_holder = 4 * notice_word_bytes - notice_head_bytes;
static_assert((4 + 19) * notice_word_bytes >= notice_head_bytes + max_holder && max_holder < 256);

static_assert(sizeof(SessionSlot) == 512);
static_assert(sizeof(Entry) == 256);
static_assert(sizeof(Record) == 192);
static_assert(sizeof(Notice) == 64);
static_assert(sizeof(NoticeRest) == 304);

// --- geometry --------------------------------------------------------------------------------------------------------

/// Where the tables stand. A pure function of the sizes; every table starts on a page.
struct Geometry {
  std::uint64_t bitmap = 0;        // one bit per page of the file, allocated in full at creation
  std::uint64_t buckets = 0;       // Word64 each, bucket_count of them, allocated in full at creation
  std::uint64_t directory = 0;     // Word64 per record
  std::uint64_t slots = 0;         // SessionSlot
  std::uint64_t chunks = 0;        // Word64 per chunk: ChunkOwner
  std::uint64_t records = 0;       // Record
  std::uint64_t entries = 0;       // Entry
  std::uint64_t long_names = 0;    // long_name_bytes per record
  std::uint64_t notices = 0;       // Notice per record
  std::uint64_t notice_rests = 0;  // NoticeRest per record
  std::uint64_t long_texts = 0;    // long_text_bytes per entry
  std::uint64_t journal = 0;       // Word128 each: a ring
  std::uint64_t total = 0;
  std::uint32_t bucket_count = 0;  // power of two, at least the number of names; twice that in a big segment
  std::uint32_t chunk_count = 0;
  Sizes sizes;

  /// What was asked for, rounded up to whole chunks.
  [[nodiscard]] constexpr std::uint32_t entry_count() const noexcept { return chunk_count * entries_per_chunk; }
};

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) noexcept { return (n + to - 1) / to * to; }

constexpr Geometry geometry_of(const Sizes& sizes) noexcept {
  Geometry g;
  g.sizes = sizes;
  // Every second record in a chain is one more cache miss for a look-up, so big segments have room to spare; the
  // default one shall fit into a small /dev/shm.
  const std::uint32_t buckets = sizes.names > Sizes{}.names ? 2 * sizes.names : sizes.names;
  g.bucket_count = 1;
  while (g.bucket_count < buckets) g.bucket_count *= 2;
  g.chunk_count = (sizes.entries + entries_per_chunk - 1) / entries_per_chunk;
  const std::uint64_t entries = std::uint64_t{g.chunk_count} * entries_per_chunk;
  std::uint64_t at = page_size;
  const auto place = [&at](std::uint64_t bytes) {
    const std::uint64_t here = at;
    at = round_up(at + bytes, page_size);
    return here;
  };
  // The bitmap covers itself and everything behind it; its size follows from the rest, so it is placed with a bound.
  std::uint64_t rest = 0;
  const std::uint64_t tables[] = {std::uint64_t{g.bucket_count} * 8,
                                  std::uint64_t{sizes.names} * 8,
                                  std::uint64_t{sizes.sessions} * sizeof(SessionSlot),
                                  std::uint64_t{g.chunk_count} * 8,
                                  std::uint64_t{sizes.names} * sizeof(Record),
                                  entries * sizeof(Entry),
                                  std::uint64_t{sizes.names} * long_name_bytes,
                                  std::uint64_t{sizes.names} * sizeof(Notice),
                                  std::uint64_t{sizes.names} * sizeof(NoticeRest),
                                  entries * long_text_bytes,
                                  std::uint64_t{sizes.journal} * sizeof(Word128)};
  for (const std::uint64_t t : tables) rest += round_up(t, page_size);
  const std::uint64_t pages = rest / page_size + 2;
  g.bitmap = place((pages + pages / (8 * page_size) + 8) / 8 + 8);
  g.buckets = place(tables[0]);
  g.directory = place(tables[1]);
  g.slots = place(tables[2]);
  g.chunks = place(tables[3]);
  g.records = place(tables[4]);
  g.entries = place(tables[5]);
  g.long_names = place(tables[6]);
  g.notices = place(tables[7]);
  g.notice_rests = place(tables[8]);
  g.long_texts = place(tables[9]);
  g.journal = place(tables[10]);
  g.total = at;
  return g;
}

}  // namespace shmcoord::engine
