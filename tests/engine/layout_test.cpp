#include "engine/layout.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>

// The layout as text, compared with the golden one. Differs? Then processes with the older library and this one would
// read each other's segments wrongly: raise layout_version, then take the new text from the failure's output.

namespace shmcoord::engine {
namespace {

template <class T>
void print(std::ostream& out, const char* name, std::size_t fields_end) {
  out << name << " " << sizeof(T) << " bytes, aligned to " << alignof(T) << ", padding at the end "
      << sizeof(T) - fields_end << "\n";
}

std::string layout_text() {
  std::ostringstream out;
  out << "layout version " << layout_version << "\n";
  out << "\n";
  print<Sizes>(out, "Sizes", offsetof(Sizes, journal) + sizeof(Sizes::journal));
#define FIELD(f) out << "  " << offsetof(Sizes, f) << " +" << sizeof(Sizes::f) << " " #f "\n"
  FIELD(names);
  FIELD(entries);
  FIELD(sessions);
  FIELD(journal);
#undef FIELD
  out << "\n";
  print<Header>(out, "Header", sizeof(Header));
#define FIELD(f) out << "  " << offsetof(Header, f) << " +" << sizeof(Header::f) << " " #f "\n"
  FIELD(magic);
  FIELD(version);
  FIELD(byte_order);
  FIELD(word_bits);
  FIELD(page_bytes);
  FIELD(total_bytes);
  FIELD(segment_id);
  FIELD(sizes);
  FIELD(flags);
  FIELD(boot_id);
  FIELD(time_namespace);
  FIELD(created_wall_s);
  FIELD(token_reserved);
  FIELD(reserved);
  FIELD(token_floor);
  FIELD(removed);
  FIELD(chunk_high);
  FIELD(slot_high);
  FIELD(record_high);
  FIELD(record_hint);
  FIELD(chunk_hint);
  FIELD(journal);
  FIELD(journal_tail);
  FIELD(journal_parked);
  FIELD(reserved32);
  FIELD(silence_ns);
#undef FIELD
  out << "\n";
  print<SessionSlot>(out, "SessionSlot", sizeof(SessionSlot));
#define FIELD(f) out << "  " << offsetof(SessionSlot, f) << " +" << sizeof(SessionSlot::f) << " " #f "\n"
  FIELD(id);
  FIELD(life);
  FIELD(signal);
  FIELD(heartbeat_ns);
  FIELD(watching);
  FIELD(beat_interval_ns);
  FIELD(claiming);
  FIELD(flags);
  FIELD(uid);
  FIELD(session_id);
  FIELD(pid);
  FIELD(keeper_tid);
  FIELD(start_time);
  FIELD(pid_namespace);
  FIELD(joined_ns);
  FIELD(group_pid);
  FIELD(subscribed);
  FIELD(boot);
  FIELD(helping);
  FIELD(label);
  FIELD(command);
  FIELD(journaled);
#undef FIELD
  out << "\n";
  print<Entry>(out, "Entry", offsetof(Entry, text) + sizeof(Entry::text));
#define FIELD(f) out << "  " << offsetof(Entry, f) << " +" << sizeof(Entry::f) << " " #f "\n"
  FIELD(status);
  FIELD(next);
  FIELD(prev);
  FIELD(handoff);
  FIELD(since_ns);
  FIELD(heartbeat_ns);
  FIELD(weight);
  FIELD(wake);
  FIELD(flags);
  FIELD(ttl_ns);
  FIELD(text_version);
  FIELD(thread);
  FIELD(bound_pid);
  FIELD(beside);
  FIELD(bound_start_time);
  FIELD(bound_pid_namespace);
  FIELD(token);
  FIELD(holder_bytes);
  FIELD(reason_bytes);
  FIELD(boot);
  FIELD(text);
#undef FIELD
  out << "\n";
  print<Record>(out, "Record", offsetof(Record, name) + sizeof(Record::name));
#define FIELD(f) out << "  " << offsetof(Record, f) << " +" << sizeof(Record::f) << " " #f "\n"
  FIELD(control);
  FIELD(holder);
  FIELD(previous);
  FIELD(generation);
  FIELD(capacity);
  FIELD(stale_threshold_ns);
  FIELD(default_ttl_ns);
  FIELD(max_hold_ns);
  FIELD(heartbeat_interval_ns);
  FIELD(chain);
  FIELD(name_hash);
  FIELD(name_bytes);
  FIELD(kind);
  FIELD(per_session);
  FIELD(reserved32);
  FIELD(journaled);
  FIELD(name);
#undef FIELD
  out << "\n";
  print<Notice>(out, "Notice", offsetof(Notice, words) + sizeof(Notice::words));
#define FIELD(f) out << "  " << offsetof(Notice, f) << " +" << sizeof(Notice::f) << " " #f "\n"
  FIELD(words);
#undef FIELD
  out << "\n";
  print<NoticeRest>(out, "NoticeRest", offsetof(NoticeRest, words) + sizeof(NoticeRest::words));
#define FIELD(f) out << "  " << offsetof(NoticeRest, f) << " +" << sizeof(NoticeRest::f) << " " #f "\n"
  FIELD(words);
#undef FIELD
  const Geometry g = geometry_of({});
  out << "\ndefault geometry\n  bitmap " << g.bitmap << "\n  buckets " << g.buckets << "\n  directory " << g.directory
      << "\n  slots " << g.slots << "\n  chunks " << g.chunks << "\n  records " << g.records << "\n  entries "
      << g.entries << "\n  long_names " << g.long_names << "\n  notices " << g.notices << "\n  notice_rests "
      << g.notice_rests << "\n  long_texts " << g.long_texts << "\n  journal " << g.journal << "\n  total " << g.total
      << "\n";
  return out.str();
}

TEST(Layout, IsTheGoldenOne) {
  std::ifstream file(SHMCOORD_SOURCE_DIR "/tests/engine/golden/layout.txt");
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(layout_text(), golden.str()) << layout_text();
}

TEST(Layout, TablesStandOnPagesOneBehindTheOther) {
  for (const Sizes sizes :
       {Sizes{}, Sizes{1, 1, 2}, Sizes{4, 16, 4}, Sizes{1'000'000, 1'000'000, 65'000}, Sizes{513, 9, 9}}) {
    const Geometry g = geometry_of(sizes);
    const std::uint64_t chunk_entries = std::uint64_t{g.chunk_count} * entries_per_chunk;
    const struct {
      std::uint64_t at, bytes, next;
    } tables[] = {{g.bitmap, g.total / page_size / 8 + 1, g.buckets},
                  {g.buckets, std::uint64_t{g.bucket_count} * 8, g.directory},
                  {g.directory, std::uint64_t{sizes.names} * 8, g.slots},
                  {g.slots, std::uint64_t{sizes.sessions} * sizeof(SessionSlot), g.chunks},
                  {g.chunks, std::uint64_t{g.chunk_count} * 8, g.records},
                  {g.records, std::uint64_t{sizes.names} * sizeof(Record), g.entries},
                  {g.entries, chunk_entries * sizeof(Entry), g.long_names},
                  {g.long_names, std::uint64_t{sizes.names} * long_name_bytes, g.notices},
                  {g.notices, std::uint64_t{sizes.names} * sizeof(Notice), g.notice_rests},
                  {g.notice_rests, std::uint64_t{sizes.names} * sizeof(NoticeRest), g.long_texts},
                  {g.long_texts, chunk_entries * long_text_bytes, g.journal},
                  {g.journal, std::uint64_t{sizes.journal} * sizeof(Word128), g.total}};
    EXPECT_EQ(g.bitmap, page_size);
    for (const auto& table : tables) {
      EXPECT_EQ(table.at % page_size, 0U);
      EXPECT_LE(table.at + table.bytes, table.next);
      EXPECT_LT(table.next - table.at - table.bytes, page_size + (table.at == g.bitmap ? page_size : 0));
    }
    EXPECT_GE(g.bucket_count, sizes.names);
    EXPECT_EQ(g.bucket_count & (g.bucket_count - 1), 0U);
  }
}

TEST(Layout, WordsKeepTheirParts) {
  const SlotId slot{SlotState::fenced, (1ULL << 60U) - 1};
  EXPECT_EQ(unpack_slot(pack(slot)), slot);
  const RecordId record{RecordState::claimed, 0xfffe, (1ULL << 46U) - 1};
  EXPECT_EQ(unpack_record(pack(record)), record);
  const ChunkOwner owner = unpack_owner(pack_owner({0xfffe, (1ULL << 48U) - 1}));
  EXPECT_EQ(owner.slot, 0xfffeU);
  EXPECT_EQ(owner.incarnation, (1ULL << 48U) - 1);
  EXPECT_NE(pack_owner({0, 0}), 0U) << "0 stands for a free chunk";
}

}  // namespace
}  // namespace shmcoord::engine
