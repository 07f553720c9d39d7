#include <cstddef>
#include <type_traits>

#include "engine/layout.hpp"

// The layout, number by number. A field that moves breaks every process that still runs the library before the change,
// so it must not happen by accident: change a number here only together with layout_version (and the golden layout
// test). Sizes are asserted too, which leaves no hidden padding that is not between two numbers below.

namespace shmcoord::engine {
namespace {

static_assert(sizeof(Sizes) == 16 && alignof(Sizes) == 4 && std::is_standard_layout_v<Sizes> &&
              std::is_trivially_copyable_v<Sizes>);
static_assert(offsetof(Sizes, names) == 0 && sizeof(Sizes::names) == 4);
static_assert(offsetof(Sizes, entries) == 4 && sizeof(Sizes::entries) == 4);
static_assert(offsetof(Sizes, sessions) == 8 && sizeof(Sizes::sessions) == 4);
static_assert(offsetof(Sizes, journal) == 12 && sizeof(Sizes::journal) == 4);

static_assert(sizeof(Header) == 256 && alignof(Header) == 64 && std::is_standard_layout_v<Header> &&
              std::is_trivially_copyable_v<Header>);
static_assert(offsetof(Header, magic) == 0 && sizeof(Header::magic) == 8);
static_assert(offsetof(Header, version) == 8 && sizeof(Header::version) == 4);
static_assert(offsetof(Header, byte_order) == 12 && sizeof(Header::byte_order) == 4);
static_assert(offsetof(Header, word_bits) == 16 && sizeof(Header::word_bits) == 4);
static_assert(offsetof(Header, page_bytes) == 20 && sizeof(Header::page_bytes) == 4);
static_assert(offsetof(Header, total_bytes) == 24 && sizeof(Header::total_bytes) == 8);
static_assert(offsetof(Header, segment_id) == 32 && sizeof(Header::segment_id) == 8);
static_assert(offsetof(Header, sizes) == 40 && sizeof(Header::sizes) == 16);
static_assert(offsetof(Header, flags) == 56 && sizeof(Header::flags) == 4);
static_assert(offsetof(Header, boot_id) == 60 && sizeof(Header::boot_id) == 16);
static_assert(offsetof(Header, time_namespace) == 80 && sizeof(Header::time_namespace) == 8);
static_assert(offsetof(Header, created_wall_s) == 88 && sizeof(Header::created_wall_s) == 8);
static_assert(offsetof(Header, token_reserved) == 96 && sizeof(Header::token_reserved) == 8);
static_assert(offsetof(Header, reserved) == 104 && sizeof(Header::reserved) == 24);
static_assert(offsetof(Header, token_floor) == 128 && sizeof(Header::token_floor) == 8);
static_assert(offsetof(Header, removed) == 136 && sizeof(Header::removed) == 8);
static_assert(offsetof(Header, chunk_high) == 144 && sizeof(Header::chunk_high) == 8);
static_assert(offsetof(Header, slot_high) == 152 && sizeof(Header::slot_high) == 8);
static_assert(offsetof(Header, record_high) == 160 && sizeof(Header::record_high) == 8);
static_assert(offsetof(Header, record_hint) == 168 && sizeof(Header::record_hint) == 8);
static_assert(offsetof(Header, chunk_hint) == 176 && sizeof(Header::chunk_hint) == 8);
static_assert(offsetof(Header, journal) == 184 && sizeof(Header::journal) == 8);
static_assert(offsetof(Header, journal_tail) == 192 && sizeof(Header::journal_tail) == 16);
static_assert(offsetof(Header, journal_parked) == 208 && sizeof(Header::journal_parked) == 4);
static_assert(offsetof(Header, reserved32) == 212 && sizeof(Header::reserved32) == 4);
static_assert(offsetof(Header, silence_ns) == 216 && sizeof(Header::silence_ns) == 8);

static_assert(sizeof(SessionSlot) == 512 && alignof(SessionSlot) == 64 && std::is_standard_layout_v<SessionSlot> &&
              std::is_trivially_copyable_v<SessionSlot>);
static_assert(offsetof(SessionSlot, id) == 0 && sizeof(SessionSlot::id) == 8);
static_assert(offsetof(SessionSlot, life) == 8 && sizeof(SessionSlot::life) == 4);
static_assert(offsetof(SessionSlot, signal) == 12 && sizeof(SessionSlot::signal) == 4);
static_assert(offsetof(SessionSlot, heartbeat_ns) == 16 && sizeof(SessionSlot::heartbeat_ns) == 8);
static_assert(offsetof(SessionSlot, watching) == 24 && sizeof(SessionSlot::watching) == 8);
static_assert(offsetof(SessionSlot, beat_interval_ns) == 32 && sizeof(SessionSlot::beat_interval_ns) == 8);
static_assert(offsetof(SessionSlot, claiming) == 40 && sizeof(SessionSlot::claiming) == 8);
static_assert(offsetof(SessionSlot, flags) == 48 && sizeof(SessionSlot::flags) == 4);
static_assert(offsetof(SessionSlot, uid) == 52 && sizeof(SessionSlot::uid) == 4);
static_assert(offsetof(SessionSlot, session_id) == 56 && sizeof(SessionSlot::session_id) == 8);
static_assert(offsetof(SessionSlot, pid) == 64 && sizeof(SessionSlot::pid) == 4);
static_assert(offsetof(SessionSlot, keeper_tid) == 68 && sizeof(SessionSlot::keeper_tid) == 4);
static_assert(offsetof(SessionSlot, start_time) == 72 && sizeof(SessionSlot::start_time) == 8);
static_assert(offsetof(SessionSlot, pid_namespace) == 80 && sizeof(SessionSlot::pid_namespace) == 8);
static_assert(offsetof(SessionSlot, joined_ns) == 88 && sizeof(SessionSlot::joined_ns) == 8);
static_assert(offsetof(SessionSlot, group_pid) == 96 && sizeof(SessionSlot::group_pid) == 4);
static_assert(offsetof(SessionSlot, subscribed) == 100 && sizeof(SessionSlot::subscribed) == 4);
static_assert(offsetof(SessionSlot, boot) == 104 && sizeof(SessionSlot::boot) == 8);
static_assert(offsetof(SessionSlot, helping) == 112 && sizeof(SessionSlot::helping) == 8);
static_assert(offsetof(SessionSlot, journaled) == 504 && sizeof(SessionSlot::journaled) == 8);
static_assert(offsetof(SessionSlot, label) == 120 && sizeof(SessionSlot::label) == 128);
static_assert(offsetof(SessionSlot, command) == 248 && sizeof(SessionSlot::command) == 256);

static_assert(sizeof(Entry) == 256 && alignof(Entry) == 64 && std::is_standard_layout_v<Entry> &&
              std::is_trivially_copyable_v<Entry>);
static_assert(offsetof(Entry, status) == 0 && sizeof(Entry::status) == 8);
static_assert(offsetof(Entry, next) == 8 && sizeof(Entry::next) == 8);
static_assert(offsetof(Entry, prev) == 16 && sizeof(Entry::prev) == 8);
static_assert(offsetof(Entry, handoff) == 24 && sizeof(Entry::handoff) == 8);
static_assert(offsetof(Entry, since_ns) == 32 && sizeof(Entry::since_ns) == 8);
static_assert(offsetof(Entry, heartbeat_ns) == 40 && sizeof(Entry::heartbeat_ns) == 8);
static_assert(offsetof(Entry, weight) == 48 && sizeof(Entry::weight) == 8);
static_assert(offsetof(Entry, wake) == 56 && sizeof(Entry::wake) == 4);
static_assert(offsetof(Entry, flags) == 60 && sizeof(Entry::flags) == 4);
static_assert(offsetof(Entry, ttl_ns) == 64 && sizeof(Entry::ttl_ns) == 8);
static_assert(offsetof(Entry, text_version) == 72 && sizeof(Entry::text_version) == 4);
static_assert(offsetof(Entry, thread) == 76 && sizeof(Entry::thread) == 4);
static_assert(offsetof(Entry, bound_pid) == 80 && sizeof(Entry::bound_pid) == 4);
static_assert(offsetof(Entry, beside) == 84 && sizeof(Entry::beside) == 4);
static_assert(offsetof(Entry, bound_start_time) == 88 && sizeof(Entry::bound_start_time) == 8);
static_assert(offsetof(Entry, bound_pid_namespace) == 96 && sizeof(Entry::bound_pid_namespace) == 8);
static_assert(offsetof(Entry, token) == 104 && sizeof(Entry::token) == 8);
static_assert(offsetof(Entry, holder_bytes) == 112 && sizeof(Entry::holder_bytes) == 4);
static_assert(offsetof(Entry, reason_bytes) == 116 && sizeof(Entry::reason_bytes) == 4);
static_assert(offsetof(Entry, boot) == 120 && sizeof(Entry::boot) == 8);
static_assert(offsetof(Entry, text) == 128 && sizeof(Entry::text) == 128);

static_assert(sizeof(Record) == 192 && alignof(Record) == 64 && std::is_standard_layout_v<Record> &&
              std::is_trivially_copyable_v<Record>);
static_assert(offsetof(Record, control) == 0 && sizeof(Record::control) == 16);
static_assert(offsetof(Record, holder) == 16 && sizeof(Record::holder) == 8);
static_assert(offsetof(Record, previous) == 24 && sizeof(Record::previous) == 8);
static_assert(offsetof(Record, generation) == 32 && sizeof(Record::generation) == 8);
static_assert(offsetof(Record, capacity) == 40 && sizeof(Record::capacity) == 8);
static_assert(offsetof(Record, stale_threshold_ns) == 48 && sizeof(Record::stale_threshold_ns) == 8);
static_assert(offsetof(Record, default_ttl_ns) == 56 && sizeof(Record::default_ttl_ns) == 8);
static_assert(offsetof(Record, max_hold_ns) == 64 && sizeof(Record::max_hold_ns) == 8);
static_assert(offsetof(Record, heartbeat_interval_ns) == 72 && sizeof(Record::heartbeat_interval_ns) == 8);
static_assert(offsetof(Record, chain) == 80 && sizeof(Record::chain) == 8);
static_assert(offsetof(Record, name_hash) == 88 && sizeof(Record::name_hash) == 8);
static_assert(offsetof(Record, name_bytes) == 96 && sizeof(Record::name_bytes) == 4);
static_assert(offsetof(Record, kind) == 100 && sizeof(Record::kind) == 4);
static_assert(offsetof(Record, per_session) == 104 && sizeof(Record::per_session) == 4);
static_assert(offsetof(Record, reserved32) == 108 && sizeof(Record::reserved32) == 4);
static_assert(offsetof(Record, journaled) == 112 && sizeof(Record::journaled) == 8);
static_assert(offsetof(Record, name) == 120 && sizeof(Record::name) == 72);

static_assert(sizeof(Notice) == 64 && alignof(Notice) == 16 && std::is_standard_layout_v<Notice> &&
              std::is_trivially_copyable_v<Notice>);
static_assert(offsetof(Notice, words) == 0 && sizeof(Notice::words) == 64);

static_assert(sizeof(NoticeRest) == 304 && alignof(NoticeRest) == 16 && std::is_standard_layout_v<NoticeRest> &&
              std::is_trivially_copyable_v<NoticeRest>);
static_assert(offsetof(NoticeRest, words) == 0 && sizeof(NoticeRest::words) == 304);

}  // namespace
}  // namespace shmcoord::engine
