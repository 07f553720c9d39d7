#include "coordination/stale_warnings.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "coordination/manager_store.hpp"
#include "process/clock.hpp"
#include "process/lease.hpp"
#include "process/telling.hpp"

namespace shmcoord::coordination {
namespace {

using engine::Kind;
using process::GrantView;
using process::LockView;

/// The age of the hold at its last sign of life.
std::int64_t heard_after_ns(const GrantView& g) { return core::age_ns(g.since_ns, g.last_sign_ns); }

}  // namespace

// A sign of life ends the episode if the hold was safe by it; one that is held too long is not (core/lock_machine.hpp).
// Only the last one is seen: of a hold that went silent, was safe once more and then held too long, all between two
// passes, nobody is warned again.
bool StaleWarnings::is_warned(const engine::View& view, const LockView& seen, const GrantView& g) const {
  const auto at = warned_.find({seen.record, seen.generation, g.token});
  if (at == warned_.end()) return false;
  if (at->second == heard_after_ns(g)) return true;
  const core::LeaseTerms terms = process::terms_of(view, seen.record, g.entry);
  return core::judge(terms, g.since_ns, g.last_sign_ns, g.last_sign_ns) != Loss::none;
}

Effects StaleWarnings::warn(const engine::Mapping& mapping, std::int64_t now_ns, Journal journal) {
  const engine::View& view = mapping.view();
  process::Picture picture = process::take_picture(mapping, now_ns);
  Effects effects;
  std::map<HoldKey, std::int64_t> warned;
  for (const Kind kind : {Kind::lock, Kind::semaphore}) {
    for (LockView& seen : picture.locks) {
      if (seen.kind != kind || seen.damaged) continue;
      std::sort(seen.holders.begin(), seen.holders.end(),
                [](const auto& a, const auto& b) { return a.token < b.token; });
      for (const GrantView& g : seen.holders) {
        if (g.lease == Loss::none || g.life.life == process::Life::dead) continue;
        warned.emplace(HoldKey{seen.record, seen.generation, g.token}, heard_after_ns(g));
        if (is_warned(view, seen, g)) continue;
        Event& e = effects.emplace_back(effect(kind, EventKind::lock_stale, seen.name, process::real_clock().now()));
        e.holder = g.holder;
        e.pid = g.pid;
        e.why = g.lease;
        e.token = g.token;
        if (kind == Kind::semaphore) {
          e.weight = g.weight;
          e.available = seen.capacity > seen.used ? seen.capacity - seen.used : 0;
        }
        if (journal == Journal::told) process::tell_stale(view, seen.record, g.entry, g.lease);
      }
    }
  }
  warned_ = std::move(warned);
  return effects;
}

}  // namespace shmcoord::coordination
