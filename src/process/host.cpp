#include "process/host.hpp"

#include <algorithm>
#include <array>

#include "engine/notice.hpp"
#include "process/byte_lock.hpp"

namespace shmcoord::process {

using engine::EntryIndex;
using engine::RealPolicy;
using engine::RecordIndex;

bool Host::owns(SlotIndex s) const { return owns_slot(mapping_, s); }
bool Host::lock(SlotIndex s) const { return lock_slot(mapping_, s); }
void Host::unlock(SlotIndex s) const { unlock_slot(mapping_, s); }
bool Host::bytes_free(SlotIndex s) const { return probe_slot(mapping_, s) == ByteState::free; }
bool Host::inherited_free(SlotIndex s) const { return probe_inherited(mapping_, s) == ByteState::free; }

ProcessState Host::state_of(const engine::SessionSlot& slot) {
  return process_state(RealPolicy::get(slot.pid), RealPolicy::get(slot.start_time),
                       RealPolicy::get(slot.pid_namespace));
}

bool Host::earlier_boot(const engine::SessionSlot& slot) { return is_earlier_boot(RealPolicy::get(slot.boot)); }

void Host::prepare_notices(const ChunkList& chunks) const {
  const engine::View& view = mapping_.view();
  std::array<RecordIndex, chunks_at_once * engine::entries_per_chunk> records;
  for (const auto part : {Mapping::NoticePart::head, Mapping::NoticePart::rest}) {
    auto end = records.begin();
    for (const std::uint32_t chunk : chunks) {
      for (EntryIndex n = 0; n < engine::entries_per_chunk; ++n) {
        const EntryIndex i = chunk * engine::entries_per_chunk + n;
        const engine::Status status = engine::unpack_status(RealPolicy::load(view.entry(i).status));
        if (status.phase == engine::Phase::free) continue;
        if (part == Mapping::NoticePart::head || engine::needs_notice_rest(view, i)) *end++ = status.record;
      }
    }
    std::sort(records.begin(), end);
    mapping_.prepare_notices(part, {records.begin(), end});
  }
}

}  // namespace shmcoord::process
