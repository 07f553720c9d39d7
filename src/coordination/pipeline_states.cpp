#include "coordination/pipeline_states.hpp"

#include <algorithm>
#include <numeric>

namespace shmcoord::coordination {

CountingState which_counts(std::span<const WrittenState> written, std::string_view definition) {
  std::vector<std::size_t> in_order(written.size());
  std::iota(in_order.begin(), in_order.end(), std::size_t{0});
  std::sort(in_order.begin(), in_order.end(),
            [&](std::size_t a, std::size_t b) { return written[a].order < written[b].order; });
  CountingState found;
  for (const std::size_t next : in_order) {
    const WrittenState& state = written[next];
    const WrittenState* const before = found.counts ? &written[*found.counts] : nullptr;
    const bool overtaken = before != nullptr && (state.run < before->run || is_final(before->status));
    if (state.definition != definition || overtaken) {
      found.idle.push_back(next);
      continue;
    }
    if (found.counts) found.idle.push_back(*found.counts);
    found.counts = next;
  }
  return found;
}

}  // namespace shmcoord::coordination
