#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/control.hpp"
#include "engine/name_index.hpp"

// Room for new names: when the table is full, names that nobody holds or waits for are given up, so that a script that
// locks `job-$N` for ever never fills a segment.
//
// Nobody can tell whether some process still has a handle on an idle name: a count of handles would not survive a kill.
// It need not be told either. An idle name has no state but its configuration and perhaps the notice of a robbery; a
// handle that finds its record gone makes the name anew, with the configuration it knew, and its tokens go on growing
// (the floor, name_index.hpp). So what is lost decides the order: names of default configuration first (nothing is
// lost), then configured ones, and only when there is nothing else those whose last holder was robbed and whose next
// one would be told so.
//
// Names go in the order of their records, a batch at a time, from where the last batch ended: the search for a free
// record, which goes through the whole table when there is none, is paid once for a batch. In use for long or just now
// makes no difference, since coming back costs a name no more than coming into being.
//
// What if we die here: each name is removed by the protocol of the index, with its record in `claiming`; whoever buries
// us, or looks that name up, finishes that one removal. Several who recycle at once meet at closed words, and help each
// other. Semaphores are left alone: their capacity is what they are. Modelled in tests/model/names.pml.

namespace shmcoord::engine {

enum class Forfeit : std::uint8_t { nothing, configuration, news };

/// What would be lost with an idle name.
template <class P>
[[nodiscard]] Forfeit forfeit_of(const Record& record) noexcept {
  if (unpack_handoff(P::load(record.previous)).loss != Loss::none) return Forfeit::news;
  constexpr NameConfigNs usual;
  const auto is = [](const Word64& word, std::int64_t value) {
    return P::load(word) == static_cast<std::uint64_t>(value);
  };
  const bool plain = is(record.stale_threshold_ns, usual.stale_threshold_ns) &&
                     is(record.default_ttl_ns, usual.ttl_ns) && is(record.max_hold_ns, usual.max_hold_ns) &&
                     is(record.heartbeat_interval_ns, usual.heartbeat_interval_ns);
  return plain ? Forfeit::nothing : Forfeit::configuration;
}

/// Removes a batch of idle locks. False: every name is in use; true: there is room, or was a moment ago. `slot` as in
/// NameIndex. Throws Error segment_corrupt.
template <class P>
bool recycle_names(const View& view, SlotIndex slot) {
  NameIndex<P> names(view);
  const RecordIndex count = view.geo.sizes.names;
  const std::uint32_t batch = std::clamp<std::uint32_t>(count / 256, 64, 1024);
  Word64& hint = view.header().record_hint;
  for (const Forfeit most : {Forfeit::nothing, Forfeit::configuration, Forfeit::news}) {
    const auto start = static_cast<RecordIndex>(P::load(hint) % count);
    std::uint32_t freed = 0;
    RecordIndex first = 0;
    bool room = false;
    bool more_to_lose = false;
    for (RecordIndex n = 0; n < count && freed < batch; ++n) {
      const RecordIndex r = (start + n) % count;
      if (!view.record_exists(r) || !view.pages_exist(view.offset_of(&view.directory(r)), sizeof(Word64))) continue;
      const RecordId id = unpack_record(P::load(view.directory(r)));
      const Record& record = view.record(r);
      room = room || id.state == RecordState::free;
      if (id.state != RecordState::live || P::load(record.kind) != static_cast<std::uint32_t>(Kind::lock)) continue;
      const core::Control c = P::load(record.control);
      if (c.op != core::Op::close && !core::idle(c)) continue;
      if (forfeit_of<P>(record) > most) {
        more_to_lose = true;
        continue;
      }
      const ControlOps<P> ops(view, r, id.generation);
      const auto close = [&] { return ops.close_if([&](const Record& now) { return forfeit_of<P>(now) <= most; }); };
      const Removal removal = names.remove({r, id.generation}, slot, close);
      room = room || removal != Removal::in_use;
      if (removal == Removal::removed && freed++ == 0) first = r;
    }
    if (freed != 0) P::store(hint, first);
    if (room) return true;
    if (!more_to_lose) break;
  }
  return false;
}

}  // namespace shmcoord::engine
