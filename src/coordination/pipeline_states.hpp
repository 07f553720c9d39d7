#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "shmcoord/pipeline.hpp"

// Which of the states that lie beside each other counts: the rule of pipeline_store.hpp, as a pure function.

namespace shmcoord::coordination {

/// One state as it was written.
struct WrittenState {
  std::string_view definition;  // the tag of the definition that it is of
  std::uint64_t run = 0;        // token of the runner's hold that it was written under
  PipelineStatus status = PipelineStatus::waiting;
  std::uint64_t order = 0;  // its own token
};

/// Indices of what was asked about.
struct CountingState {
  std::optional<std::size_t> counts = {};  // nothing: none was written of that definition
  /// The others, in an order in which they can be taken away one by one, and nothing else comes to count. What was
  /// overtaken before it was written is kept from counting by the state that was there then, though that one was
  /// replaced since: so it goes before that one.
  std::vector<std::size_t> idle = {};
};

/// Nothing comes after it.
[[nodiscard]] constexpr bool is_final(PipelineStatus status) noexcept {
  return status == PipelineStatus::done || status == PipelineStatus::cancelled;
}

/// They are taken in their order: each replaces the one before, but for one of an earlier run than that, and nothing
/// replaces a final one.
[[nodiscard]] CountingState which_counts(std::span<const WrittenState> written, std::string_view definition);

}  // namespace shmcoord::coordination
