#pragma once

#include <optional>
#include <string>

#include "engine/view.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/lock.hpp"

// What the journal is told beside changes: notices, which change nothing and may get lost with their process. Each does
// nothing while nobody listens.

namespace shmcoord::process {

/// Who asked by that entry was told that it is busy (C-5, C-11).
void tell_denied(const engine::View& view, engine::RecordIndex record, engine::EntryIndex asked,
                 const std::optional<HolderInfo>& holder);
/// The hold of that entry may be taken from its holder, and is about to be (C-16).
void tell_stale(const engine::View& view, engine::RecordIndex record, engine::EntryIndex held, Loss why);
/// An event of somebody's own: kind, subject, holder, other, reason.
void tell_event(const engine::View& view, const Event& event, std::int32_t pid);

}  // namespace shmcoord::process
