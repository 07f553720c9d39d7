#include "process/table_use.hpp"

#include <algorithm>
#include <set>

#include "engine/chunks.hpp"
#include "engine/segment_file.hpp"

namespace shmcoord::process {
namespace {

using engine::RecordState;
using engine::View;
using P = engine::RealPolicy;

std::uint64_t bytes_between(const View& view, std::uint64_t from, std::uint64_t to) {
  std::uint64_t bytes = 0;
  for (std::uint64_t at = from; at < to; at += engine::page_size) {
    if (view.pages_exist(at, 1)) bytes += engine::page_size;
  }
  return bytes;
}

void count_records(const View& view, SegmentUse& use) {
  const std::uint64_t high = P::load(view.header().record_high);
  for (RecordIndex r = 0; r < high && view.has_record(r); ++r) {
    const engine::Word64& directory = view.directory(r);
    if (!view.pages_exist(view.offset_of(&directory), sizeof directory)) continue;
    if (engine::unpack_record(P::load(directory)).state == RecordState::free) continue;
    ++use.names.used;
    if (!view.record_exists(r)) continue;
    const engine::Record& record = view.record(r);
    if (P::load(record.name_bytes) > engine::inline_name_bytes) ++use.long_names.used;
    const bool untold = engine::unpack_handoff(P::load(record.previous)).loss != Loss::none;
    if (untold && view.pages_exist(view.offset_of(&view.notice(r)), sizeof(engine::Notice))) ++use.notices.used;
  }
}

/// Of names that nobody holds or waits for, new ones take the place (engine/recycling.hpp).
std::uint64_t names_in_the_way(const Snapshot& snapshot) {
  std::set<RecordIndex> records;
  for (const EntryView& e : snapshot.entries) records.insert(e.record);
  return records.size();
}

void set_rows(TableUse& table, std::uint64_t rows) {
  table.rows = rows;
  table.left = rows - std::min(rows, table.used);
}

}  // namespace

SegmentUse use_of(const Mapping& mapping, const Snapshot& snapshot) {
  const View& view = mapping.view();
  const engine::Geometry& geo = view.geo;
  SegmentUse use;
  count_records(view, use);
  for (const EntryView& e : snapshot.entries) {
    ++use.entries.used;
    if (e.holder.size() + e.reason.size() > sizeof(engine::Entry::text)) ++use.long_texts.used;
  }
  use.sessions.used = snapshot.sessions.size();

  set_rows(use.names, geo.sizes.names);
  use.names.left = geo.sizes.names - std::min<std::uint64_t>(geo.sizes.names, names_in_the_way(snapshot));
  set_rows(use.sessions, geo.sizes.joinable());
  set_rows(use.long_names, geo.sizes.names);
  set_rows(use.notices, geo.sizes.names);
  set_rows(use.long_texts, geo.entry_count());
  set_rows(use.entries, geo.entry_count());
  std::uint64_t owned = 0;
  engine::Chunks<P>(view).for_each([&](std::uint32_t, std::uint64_t) { ++owned; });
  use.blocks_left = geo.chunk_count - owned;
  use.entries.left = use.blocks_left * engine::entries_per_chunk;

  use.names.bytes = bytes_between(view, geo.directory, geo.slots) + bytes_between(view, geo.records, geo.entries);
  use.entries.bytes = bytes_between(view, geo.chunks, geo.records) + bytes_between(view, geo.entries, geo.long_names);
  use.sessions.bytes = bytes_between(view, geo.slots, geo.chunks);
  use.long_names.bytes = bytes_between(view, geo.long_names, geo.notices);
  use.notices.bytes = bytes_between(view, geo.notices, geo.long_texts);
  use.long_texts.bytes = bytes_between(view, geo.long_texts, geo.total);
  return use;
}

}  // namespace shmcoord::process
