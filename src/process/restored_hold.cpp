#include "process/restored_hold.hpp"

#include "engine/control.hpp"
#include "engine/real_policy.hpp"

namespace shmcoord::process {

using engine::RealPolicy;

bool restore_hold(const engine::View& view, engine::RecordIndex record, std::uint64_t generation,
                  engine::EntryIndex entry, std::uint64_t token, std::int64_t since_ns, std::int64_t last_sign_ns) {
  engine::Entry& e = view.entry(entry);
  RealPolicy::store(e.since_ns, static_cast<std::uint64_t>(since_ns));
  RealPolicy::store(e.heartbeat_ns, static_cast<std::uint64_t>(last_sign_ns));
  // An acquire says in the control word who holds, with its own sequence; another operation behind it leaves that to
  // the entry.
  const engine::ControlOps<RealPolicy> ops(view, record, generation);
  const engine::Result passed = ops.use_up_sequence(entry);
  if (passed.step != engine::Step::refreshed || token == 0 || token >= passed.seq) return false;
  if (engine::seq_of_stamp(token & engine::stamp_mask, passed.seq) != token) return false;
  engine::Status status = engine::unpack_status(RealPolicy::load(e.status));
  status.stamp = token & engine::stamp_mask;
  RealPolicy::store(e.status, engine::pack(status));
  RealPolicy::store(e.token, token);
  return true;
}

}  // namespace shmcoord::process
