#include "process/participant.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/chunks.hpp"
#include "engine/control.hpp"
#include "engine/detached.hpp"
#include "engine/random.hpp"
#include "engine/segment_file.hpp"
#include "engine/shared_bytes.hpp"
#include "process/byte_lock.hpp"
#include "process/fork_guard.hpp"
#include "process/host.hpp"
#include "process/identity.hpp"
#include "process/lease.hpp"
#include "process/liveness.hpp"
#include "process/recovery.hpp"
#include "process/surroundings.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {

using engine::Chunks;
using engine::EntryIndex;
using engine::Mapping;
using engine::Phase;
using engine::RealPolicy;
using engine::Safety;
using engine::SessionSlot;
using engine::SlotId;
using engine::SlotIndex;
using engine::SlotState;
using engine::View;

namespace {

constexpr std::int64_t watched_within_ns = 50'000'000;
constexpr std::int64_t watched_look_again_ns = 5'000'000;
constexpr std::chrono::nanoseconds longest_interval = std::chrono::hours(24 * 365 * 10);

std::string who_is_there(const Mapping& mapping, std::int64_t now_ns) {
  constexpr std::size_t at_most = 8;
  const Snapshot snapshot = take_snapshot(mapping, now_ns);
  std::string text;
  for (std::size_t i = 0; i < snapshot.sessions.size() && i < at_most; ++i) {
    const SessionView& s = snapshot.sessions[i];
    text += (i == 0 ? " " : "; ") + std::string("slot ") + std::to_string(s.slot) + ": pid " + std::to_string(s.pid);
    if (!s.label.empty()) text += " \"" + s.label + "\"";
    if (!s.command.empty()) text += " (" + s.command.substr(0, 40) + ")";
  }
  if (snapshot.sessions.size() > at_most)
    text += "; and " + std::to_string(snapshot.sessions.size() - at_most) + " more";
  return text;
}

[[noreturn]] void throw_full(const Mapping& mapping, std::int64_t now_ns) {
  const std::uint32_t slots = mapping.view().geo.sizes.joinable();
  throw Error(Errc::table_full, "all " + std::to_string(slots) + " session slots of segment " + mapping.name() +
                                    " are taken by live processes:" + who_is_there(mapping, now_ns) +
                                    "; end one of them, or create the segment with more --sessions");
}

// NUL-terminated, cut between characters and with an ellipsis when it does not fit.
template <std::size_t N>
void store_line(std::array<char, N>& row, std::string_view text) {
  constexpr std::string_view ellipsis = "\xE2\x80\xA6";
  std::string line(text);
  std::replace(line.begin(), line.end(), '\0', ' ');
  if (line.size() >= N) {
    std::size_t end = N - 1 - ellipsis.size();
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;
    line.resize(end);
    line += ellipsis;
  }
  line.resize(N, '\0');
  engine::store_text<RealPolicy>(row.data(), line);
}

}  // namespace

std::unique_ptr<Participant> Participant::join(const std::shared_ptr<Mapping>& mapping, const JoinOptions& options) {
  if (mapping->read_only()) {
    throw Error(Errc::no_permission, mapping->path() + " can only be read by this process; joining needs write access");
  }
  if (mapping->removed()) throw Error(Errc::segment_gone, "segment " + mapping->name() + " was removed");
  if (options.heartbeat_interval.count() <= 0 || options.heartbeat_interval > longest_interval) {
    throw Error(Errc::invalid_argument, "the heartbeat interval must be above 0 and at most 10 years");
  }
  // Everybody in it is dead, and no kernel will say so: nobody must wait for them.
  if (mapping->from_earlier_boot()) sweep(*mapping, RealPolicy::now_ns(), {.reclaim_stale = false});
  const SlotIndex slots = mapping->view().geo.sizes.sessions;
  for (const Look look : {Look::quick, Look::thorough}) {
    for (SlotIndex s = 1; s < slots; ++s) {
      mapping->ensure_slot(s);
      const std::uint64_t incarnation = slots_of(*mapping).claim(s, look);
      if (incarnation == 0) continue;
      std::unique_ptr<Participant> joined;
      try {
        joined.reset(new Participant(mapping, s, incarnation));
        joined->become_alive(options);
      } catch (...) {
        if (!joined) {
          bury_left(*mapping, s, incarnation);
          unlock_slot(*mapping, s);
        }
        throw;  // else its destructor gives the slot back
      }
      return joined;
    }
  }
  throw_full(*mapping, RealPolicy::now_ns());
}

Participant::Participant(std::shared_ptr<Mapping> mapping, SlotIndex slot, std::uint64_t incarnation)
    : mapping_(std::move(mapping)),
      slot_(slot),
      incarnation_(incarnation),
      process_(process_number()),
      process_word_(process_word()),
      id_word_(mapping_->view().slot(slot).id),
      removed_word_(mapping_->view().header().removed),
      alive_(engine::pack(SlotId{SlotState::alive, incarnation})) {
  free_.reserve(std::size_t{4} * engine::entries_per_chunk);
}

Participant::~Participant() {
  leave();
  // In a child, destroying its condition variable could wait for threads that were not copied.
  if (!same_process(process_) && keeper_) {
    Keeper* const left_behind = keeper_.release();
    left_behind->abandon();
  }
}

SessionSlot& Participant::session() const noexcept { return mapping_->view().slot(slot_); }

std::uint64_t Participant::owner_word() const noexcept { return engine::pack_owner({slot_, incarnation_}); }

void Participant::become_alive(const JoinOptions& options) {
  SessionSlot& s = session();
  const auto slots = slots_of(*mapping_);
  slots.reset_life(slot_);
  manual_ = options.manual_heartbeat;
  if (options.detect_deadlocks) deadlocks_.emplace();
  describe(options);
  keeper_ = std::make_unique<Keeper>(mapping_, slot_, Keeper::Options{manual_, options.heartbeat_interval.count()});
  if (!keeper_->start()) RealPolicy::store(s.flags, RealPolicy::load(s.flags) | engine::slot_no_life_word);
  note_silence(mapping_->view(), RealPolicy::now_ns());
  RealPolicy::store(s.heartbeat_ns, static_cast<std::uint64_t>(RealPolicy::now_ns()));
  if (!slots.become_alive(slot_, incarnation_)) {
    throw Error(Errc::session_dead,
                "the session was declared dead while it joined: this process closed a descriptor of " +
                    mapping_->path() + ", which gives up the locks that prove it alive");
  }
  if (const View& view = mapping_->view(); engine::Journal<RealPolicy>::wanted(view)) {
    engine::Journal<RealPolicy>(view).tell_session(slot_, incarnation_, engine::SessionStage::joined);
  }
  keeper_->go();
  slots.wait_until_watched(slot_, RealPolicy::now_ns() + watched_within_ns, watched_look_again_ns);
}

void Participant::describe(const JoinOptions& options) {
  SessionSlot& s = session();
  const pid_t pid = ::getpid();
  session_id_ = engine::random_word();
  if (RealPolicy::keeps(Safety::slot_is_described_anew)) {
    RealPolicy::store(s.claiming, 0);
    RealPolicy::store(s.helping, 0);
    RealPolicy::store(s.subscribed, 0);
  }
  RealPolicy::store(s.watching, 0);
  RealPolicy::store(s.flags, (manual_ ? engine::slot_manual : 0U) | (has_futex_waitv() ? 0U : engine::slot_no_waitv) |
                                 (deadlocks_ ? 0U : engine::slot_undetected));
  RealPolicy::store(s.beat_interval_ns, static_cast<std::uint64_t>(options.heartbeat_interval.count()));
  RealPolicy::set(s.uid, ::geteuid());
  RealPolicy::set(s.session_id, session_id_);
  RealPolicy::set(s.pid, pid);
  RealPolicy::set(s.keeper_tid, 0);
  RealPolicy::set(s.start_time, own_start_time().value_or(0));
  RealPolicy::set(s.pid_namespace, own_pid_namespace());
  RealPolicy::set(s.joined_ns, RealPolicy::now_ns());
  RealPolicy::set(s.group_pid, 0);
  RealPolicy::set(s.boot, boot_number());
  store_line(s.label, options.label);
  store_line(s.command, own_command());
}

void Participant::require_usable() const {
  if (usable()) return;
  if (!same_process(process_)) {
    throw Error(Errc::not_a_participant, "this process was forked from the one that joined; it must join anew");
  }
  if (mapping_->removed() || (keeper_ && keeper_->segment_gone())) {
    throw Error(Errc::segment_gone,
                "segment " + mapping_->path() + " was removed or replaced; every hold in it is lost");
  }
  throw Error(Errc::session_dead, RealPolicy::load(left_) != 0
                                      ? "the session was left; join anew"
                                      : "the session was ended by others (fenced); every hold of it is lost");
}

void Participant::beat(std::int64_t now_ns) noexcept {
  if (usable()) keeper_->beat(now_ns);
}

std::uint32_t Participant::claim_chunk() {
  const View& view = mapping_->view();
  using Outcome = Chunks<RealPolicy>::Outcome;
  const Chunks<RealPolicy> chunks(view);
  auto claim = chunks.claim(*mapping_, owner_word());
  if (claim.outcome == Outcome::full) {
    // What the dead still have is not in use.
    sweep(*mapping_, RealPolicy::now_ns(), {.reclaim_stale = false, .dry_run = false});
    claim = chunks.claim(*mapping_, owner_word());
  }
  if (claim.outcome == Outcome::claimed) return claim.chunk;
  if (claim.outcome == Outcome::full) {
    throw Error(Errc::table_full,
                "all " + std::to_string(view.geo.entry_count()) + " entries of segment " + mapping_->name() +
                    " are given out, in " + std::to_string(view.geo.chunk_count) + " blocks of " +
                    std::to_string(engine::entries_per_chunk) +
                    ": each session that holds or waits has at least one block to itself, and so has "
                    "each hold without a process and each part of a guard; end some, or create it with more --entries");
  }
  throw Error(Errc::no_space, "the file system of " + mapping_->path() + " is full; make room in it");
}

EntryIndex Participant::take_entry() {
  require_usable();
  const std::lock_guard guard(mutex_);
  while (!free_.empty()) {
    const EntryIndex i = free_.back();
    free_.pop_back();
    if (engine::unpack_status(RealPolicy::load(mapping_->view().entry(i).status)).phase == Phase::free) return i;
  }
  const std::uint32_t chunk = claim_chunk();
  owned_ += engine::entries_per_chunk;
  free_.reserve(owned_);  // so that giving back never allocates
  for (EntryIndex n = engine::entries_per_chunk; n-- > 1;) free_.push_back(chunk * engine::entries_per_chunk + n);
  return chunk * engine::entries_per_chunk;
}

void Participant::give_back(EntryIndex entry) noexcept {
  if (!same_process(process_) || RealPolicy::load(left_) != 0) return;
  const View& view = mapping_->view();
  if (!view.entry_exists(entry)) return;
  const std::uint64_t owner = RealPolicy::load(view.owner_of(entry));
  if (owner != owner_word()) return tidy_detached(view, entry);
  engine::Word64& status = view.entry(entry).status;
  const std::uint64_t raw = RealPolicy::load(status);
  engine::Status now = engine::unpack_status(raw);
  if (now.phase == Phase::lost) {
    now.phase = Phase::free;
    RealPolicy::cas(status, raw, engine::pack(now));
  } else if (now.phase != Phase::free && view.record_exists(now.record) &&
             RealPolicy::keeps(Safety::given_back_is_finished)) {
    engine::ControlOps<RealPolicy>(view, now.record, 0).finish_now();
  }
  if (engine::unpack_status(RealPolicy::load(status)).phase != Phase::free) return;  // leave() will get it
  const std::lock_guard guard(mutex_);
  for (Spare& spare : detached_chunks_) {
    if (spare.chunk == entry / engine::entries_per_chunk) {
      spare.taken = false;
      return;
    }
  }
  free_.push_back(entry);
}

EntryIndex Participant::take_detached_entry() {
  require_usable();
  const std::lock_guard guard(mutex_);
  for (Spare& spare : detached_chunks_) {
    if (spare.taken) continue;
    spare.taken = true;
    return spare.chunk * engine::entries_per_chunk;
  }
  detached_chunks_.reserve(detached_chunks_.size() + 1);
  const std::uint32_t chunk = claim_chunk();
  detached_chunks_.push_back({chunk, true});
  return chunk * engine::entries_per_chunk;
}

bool Participant::commit_detached(EntryIndex entry) {
  require_usable();
  const View& view = mapping_->view();
  const std::uint32_t chunk = entry / engine::entries_per_chunk;
  RealPolicy::store(view.entry(entry).boot, boot_number());
  const std::lock_guard guard(mutex_);
  // Random, so that the chunk word of one detached life never comes back (chunks.hpp).
  const std::uint64_t permanent = engine::pack_owner(
      {engine::detached_slot, RealPolicy::keeps(Safety::detached_name_is_new) ? engine::random_word() : 1});
  if (!Chunks<RealPolicy>(view).hand_over(chunk, owner_word(), permanent)) return false;
  std::erase_if(detached_chunks_, [&](const Spare& spare) { return spare.chunk == chunk; });
  tidy_detached(view, entry);  // it may have been reclaimed already
  return true;
}

int Participant::inherited_lock() {
  require_usable();
  const std::scoped_lock lock(mutex_);
  if (inherited_lock_ < 0) inherited_lock_ = open_inherited_lock(*mapping_, slot_);
  RealPolicy::store(session().flags, RealPolicy::load(session().flags) | engine::slot_inherited_lock);
  return inherited_lock_;
}

void Participant::set_group(std::int32_t group_pid) noexcept {
  if (usable()) RealPolicy::set(session().group_pid, group_pid);
}

void Participant::leave() noexcept {
  if (!same_process(process_)) {
    if (keeper_) keeper_->abandon();
    return;
  }
  if (!RealPolicy::cas(left_, 0, 1)) return;
  RealPolicy::store(session().flags, RealPolicy::load(session().flags) | engine::slot_leaving);
  release_everything(*mapping_, slot_, incarnation_);
  if (keeper_) keeper_->stop();
  bury_left(*mapping_, slot_, incarnation_);
  unlock_slot(*mapping_, slot_);
}

void tidy_detached(const View& view, EntryIndex entry) noexcept { engine::tidy_detached<RealPolicy>(view, entry); }

}  // namespace shmcoord::process
