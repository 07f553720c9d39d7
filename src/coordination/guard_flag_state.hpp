#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "coordination/guard_store.hpp"
#include "process/call_arguments.hpp"
#include "process/face.hpp"
#include "process/telling.hpp"
#include "shmcoord/event.hpp"
#include "shmcoord/guard_flag.hpp"

// What a handle of a guard holds: a name. The definition is read anew with each call, since somebody else may have
// removed the guard and registered another one by that name.

namespace shmcoord {

struct GuardFlag::State {
  std::shared_ptr<detail::Access::SessionState> session;
  std::string name;

  State(std::shared_ptr<detail::Access::SessionState> of, std::string called)
      : session(std::move(of)), name(std::move(called)) {}

  /// Throws not_found, wrong_type, segment_corrupt.
  [[nodiscard]] std::pair<Guard, coordination::StoredText> read() const;
  void tell(EventKind kind, const std::string& reason) const;
  void tell(const GuardOutcome& outcome) const;
};

namespace coordination {

/// Registers or removes, and tells; errors as GuardFlag::add and remove.
void register_guard(const std::shared_ptr<detail::Access::SessionState>& session, const Guard& guard);
void remove_guard(const std::shared_ptr<detail::Access::SessionState>& session, std::string_view name);

}  // namespace coordination

}  // namespace shmcoord
