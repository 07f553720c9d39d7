#pragma once

#include "engine/real_policy.hpp"
#include "engine/segment_file.hpp"
#include "process/identity.hpp"
#include "process/liveness.hpp"
#include "process/session_slots.hpp"

namespace shmcoord::process {

/// What this host's kernel knows about the slots of a segment (session_slots.hpp).
class Host {
 public:
  explicit Host(const Mapping& mapping) noexcept : mapping_(mapping) {}

  [[nodiscard]] bool owns(SlotIndex s) const;
  [[nodiscard]] bool lock(SlotIndex s) const;
  void unlock(SlotIndex s) const;
  [[nodiscard]] bool bytes_free(SlotIndex s) const;
  [[nodiscard]] bool inherited_free(SlotIndex s) const;
  [[nodiscard]] static ProcessState state_of(const engine::SessionSlot& slot);
  [[nodiscard]] static bool earlier_boot(const engine::SessionSlot& slot);
  /// For many entries in one go, because each page costs a system call else.
  void prepare_notices(const ChunkList& chunks) const;

 private:
  const Mapping& mapping_;
};

/// The slots of that segment on this host.
[[nodiscard]] inline SessionSlots<engine::RealPolicy, Host> slots_of(const Mapping& mapping) noexcept {
  return {mapping.view(), Host(mapping)};
}

}  // namespace shmcoord::process
