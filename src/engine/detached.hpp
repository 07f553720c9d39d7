#pragma once

#include <cstdint>

#include "engine/chunks.hpp"
#include "engine/control.hpp"

// The end of holds that outlived their session: their chunk belongs to the permanent slot, whom nobody buries, so
// whoever frees the last of its entries frees the chunk.
//
// Several may do so at once, and late: the owner word of one detached life never comes back (chunks.hpp). Nobody takes
// an entry of a detached chunk into use, so entries that were all seen free stay free while that word stands. If we die
// before: the next sweep frees it.

namespace shmcoord::engine {

/// The chunk of the permanent slot, named by that owner word, is set free if all of its entries are free.
template <class P>
void free_if_empty(const View& view, std::uint32_t chunk, std::uint64_t owner) noexcept {
  for (EntryIndex n = 0; n < entries_per_chunk; ++n) {
    const Entry& e = view.entry(chunk * entries_per_chunk + n);
    const bool free = unpack_status(P::load(e.status)).phase == Phase::free;
    if (!free && P::keeps(Safety::chunk_is_empty)) return;
  }
  Chunks<P>(view).free(chunk, owner);
}

/// A detached entry of the permanent slot was freed (released, reclaimed): frees its chunk if all eight are free.
template <class P>
void tidy_detached(const View& view, EntryIndex entry) noexcept {
  if (!P::keeps(Safety::detached_is_tidied)) return;
  const std::uint64_t owner = P::load(view.owner_of(entry));
  if (owner == 0 || unpack_owner(owner).slot != detached_slot) return;
  // A plain release may be left unfinished; here nobody would come back to finish it.
  const Status status = unpack_status(P::load(view.entry(entry).status));
  if (status.phase != Phase::free && view.record_exists(status.record)) {
    ControlOps<P>(view, status.record, 0).finish_now();
  }
  free_if_empty<P>(view, entry / entries_per_chunk, owner);
}

}  // namespace shmcoord::engine
