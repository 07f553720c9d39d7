#include "process/lease.hpp"

#include <algorithm>
#include <limits>

#include "engine/segment_file.hpp"

namespace shmcoord::process {

using engine::EntryIndex;
using engine::RealPolicy;
using engine::RecordIndex;
using engine::Safety;
using engine::SessionSlot;
using engine::SlotIndex;
using engine::SlotState;
using engine::View;
using engine::Word64;

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

std::int64_t read(const Word64& w) noexcept { return static_cast<std::int64_t>(RealPolicy::load(w)); }

// Of any two numbers: both may be read from damaged memory.
std::int64_t later(std::int64_t at_ns, std::int64_t by_ns) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(at_ns, by_ns, &sum) ? never : sum;
}

// When everybody was last found silent; the grace runs from then.
Word64& silence_word(const View& view) noexcept { return view.header().silence_ns; }

// The slot of the entry's session if a keeper beats for it.
const SessionSlot* beaten_by_keeper(const View& view, EntryIndex entry) noexcept {
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner == 0) return nullptr;
  const SlotIndex s = engine::unpack_owner(owner).slot;
  if (s == engine::detached_slot || !view.slot_exists(s)) return nullptr;
  const SessionSlot& slot = view.slot(s);
  const bool manual = (RealPolicy::load(slot.flags) & engine::slot_manual) != 0;
  return manual && RealPolicy::keeps(Safety::grace_is_for_keepers) ? nullptr : &slot;
}

struct Silence {
  bool everybody = false;
  std::int64_t newest_beat_ns = 0;
};

Silence listen(const View& view, std::int64_t now_ns) noexcept {
  Silence silence;
  bool anybody = false;
  const std::uint64_t high = RealPolicy::load(view.header().slot_high);
  for (SlotIndex s = 1; s < high && view.has_slot(s); ++s) {
    if (!view.slot_exists(s)) continue;
    const SessionSlot& slot = view.slot(s);
    const SlotState state = engine::unpack_slot(RealPolicy::load(slot.id)).state;
    if (state != SlotState::alive && state != SlotState::fenced) continue;
    const bool died = (RealPolicy::load(slot.life) & engine::life_died) != 0;
    if (died && RealPolicy::keeps(Safety::silence_of_the_living)) continue;
    if ((RealPolicy::load(slot.flags) & engine::slot_manual) != 0) continue;
    const std::int64_t beat = read(slot.heartbeat_ns);
    const std::int64_t interval = read(slot.beat_interval_ns);
    silence.newest_beat_ns = std::max(silence.newest_beat_ns, beat);
    if (core::age_ns(beat, now_ns) / 2 <= interval) return silence;
    anybody = true;
  }
  silence.everybody = anybody;
  return silence;
}

Loss judge_without_grace(const View& view, RecordIndex record, EntryIndex entry, std::int64_t now_ns) {
  const engine::Entry& e = view.entry(entry);
  if ((RealPolicy::load(e.flags) & engine::entry_no_lease) != 0) return Loss::none;
  // The terms first: a ttl that became shorter is written after the sign of life that goes with it.
  const core::LeaseTerms terms = terms_of(view, record, entry);
  return core::judge(terms, read(e.since_ns), last_sign_of(view, entry), now_ns);
}

// Until when the holder may not be judged by its silence; 0: no grace.
std::int64_t grace_until(const View& view, const SessionSlot& slot, std::int64_t now_ns) {
  if (!RealPolicy::keeps(Safety::silence_has_grace)) return 0;
  const std::int64_t noted = read(silence_word(view));
  const std::int64_t interval = read(slot.beat_interval_ns);
  if (noted != 0 && now_ns < later(noted, interval)) return later(noted, interval);
  const Silence silence = listen(view, now_ns);
  if (silence.everybody && noted <= silence.newest_beat_ns) return later(now_ns, interval);  // to be noted
  return 0;
}

}  // namespace

core::LeaseTerms terms_of(const View& view, RecordIndex record, EntryIndex entry) {
  const engine::Record& rec = view.record(record);
  const std::int64_t threshold = read(rec.stale_threshold_ns);
  return {threshold > 0 ? threshold : never, read(view.entry(entry).ttl_ns), read(rec.max_hold_ns)};
}

std::int64_t last_sign_of(const View& view, EntryIndex entry) {
  const engine::Entry& e = view.entry(entry);
  const std::int64_t own = std::max(read(e.heartbeat_ns), read(e.since_ns));
  const SessionSlot* const slot = beaten_by_keeper(view, entry);
  return slot == nullptr ? own : std::max(own, read(slot->heartbeat_ns));
}

Loss judge_lease(const View& view, RecordIndex record, EntryIndex entry, std::int64_t now_ns) {
  const Loss loss = judge_without_grace(view, record, entry, now_ns);
  if (loss != Loss::stale && loss != Loss::expired) return loss;
  const SessionSlot* const slot = beaten_by_keeper(view, entry);
  if (slot == nullptr || grace_until(view, *slot, now_ns) == 0) return loss;
  if (!RealPolicy::keeps(Safety::grace_is_about_silence)) return Loss::none;
  // The grace is about silence; how long it has been held is another matter (C-2).
  return core::judge(terms_of(view, record, entry), read(view.entry(entry).since_ns), now_ns, now_ns);
}

bool ends_by_itself(const View& view, RecordIndex record, EntryIndex entry) {
  if ((RealPolicy::load(view.entry(entry).flags) & engine::entry_no_lease) != 0) return false;
  return terms_of(view, record, entry).max_hold_ns > 0 || beaten_by_keeper(view, entry) == nullptr;
}

std::int64_t next_lease_deadline(const View& view, RecordIndex record, EntryIndex entry) {
  const engine::Entry& e = view.entry(entry);
  if ((RealPolicy::load(e.flags) & engine::entry_no_lease) != 0) return never;
  const core::LeaseTerms terms = terms_of(view, record, entry);
  const std::int64_t sign = last_sign_of(view, entry);
  std::int64_t silent = terms.ttl_ns > 0 ? later(sign, terms.ttl_ns) : later(later(sign, terms.stale_threshold_ns), 1);
  if (const SessionSlot* const slot = beaten_by_keeper(view, entry); slot != nullptr) {
    const std::int64_t noted = read(silence_word(view));
    if (noted != 0) silent = std::max(silent, later(noted, read(slot->beat_interval_ns)));
  }
  const std::int64_t held = terms.max_hold_ns > 0 ? later(later(read(e.since_ns), terms.max_hold_ns), 1) : never;
  return std::min(silent, held);
}

engine::Result reclaim_lease(const engine::Mapping& mapping, RecordIndex record, EntryIndex entry,
                             std::int64_t now_ns) {
  const View& view = mapping.view();
  if (judge_without_grace(view, record, entry, now_ns) == Loss::none) return {engine::Step::fresh};
  note_silence(view, now_ns);
  if (judge_lease(view, record, entry, now_ns) == Loss::none) return {engine::Step::fresh};
  const engine::ControlOps<RealPolicy> ops(view, record, RealPolicy::load(view.record(record).generation));
  mapping.prepare_notice(record, entry);
  return ops.reclaim(entry, [&](const engine::Entry&) {
    return RealPolicy::keeps(Safety::lease_judged_again) ? judge_lease(view, record, entry, now_ns) : Loss::stale;
  });
}

void note_silence(const View& view, std::int64_t now_ns) noexcept {
  Word64& word = silence_word(view);
  const std::uint64_t noted = RealPolicy::load(word);
  const Silence silence = listen(view, now_ns);
  // Noted since the last beat already: one silence, one grace.
  const bool again = static_cast<std::int64_t>(noted) > silence.newest_beat_ns;
  if (!silence.everybody || (again && RealPolicy::keeps(Safety::silence_has_one_grace))) return;
  RealPolicy::cas(word, noted, static_cast<std::uint64_t>(now_ns));
}

}  // namespace shmcoord::process
