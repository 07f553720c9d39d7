#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/layout.hpp"
#include "engine/view.hpp"
#include "process/deadlock.hpp"
#include "process/keeper.hpp"

// One joined session: a slot, its keeper, and the entries that it owns.
//
// Joining, and what is left if we die after a step:
//   1 reserve the slot in this process, lock its byte    nothing: the kernel drops the lock
//   2 id: free -> joining, incarnation + 1               `joining` with a free byte: anybody buries it
//   3 identity fields, heartbeat, life word by the keeper   the same
//   4 id: joining -> alive                               a full member; its life word tells
//   5 the ring predecessor watches us                    it does so within a second in any case
// Leaving is the reverse: entries out of their words, chunks freed, keeper stopped (the kernel ends the life word),
// then dying -> free, and the byte. If we die in between, we are buried as anybody else.
//
// Slots of the dead are recycled on the way. If every slot is taken by the living, that is an error that names them.
//
// Entries come in chunks of eight, so that who buries us scans only ours. The local free list is guarded by a mutex;
// taking an entry that was given back allocates nothing and makes no system call.
//
// Fork: the child's copy is not usable(), and its destructor touches nothing.

namespace shmcoord::engine {
class Mapping;
}

namespace shmcoord::process {

struct JoinOptions {
  std::string label;
  bool manual_heartbeat = false;
  std::chrono::nanoseconds heartbeat_interval = std::chrono::seconds(15);
  bool detect_deadlocks = true;
};

class Participant {
 public:
  /// Joins. Throws Error: table_full (naming who has the slots), no_space, no_permission (mapped read-only),
  /// segment_gone, invalid_argument (interval), system.
  [[nodiscard]] static std::unique_ptr<Participant> join(const std::shared_ptr<engine::Mapping>& mapping,
                                                         const JoinOptions& options = {});
  /// Leaves.
  ~Participant();
  Participant(const Participant&) = delete;
  Participant& operator=(const Participant&) = delete;

  [[nodiscard]] engine::SlotIndex slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint64_t incarnation() const noexcept { return incarnation_; }
  [[nodiscard]] std::uint64_t session_id() const noexcept { return session_id_; }
  [[nodiscard]] engine::Mapping& mapping() const noexcept { return *mapping_; }
  [[nodiscard]] const std::shared_ptr<engine::Mapping>& shared_mapping() const noexcept { return mapping_; }
  [[nodiscard]] bool manual_heartbeat() const noexcept { return manual_; }
  [[nodiscard]] Keeper& keeper() noexcept { return *keeper_; }
  /// nullptr: the session wants no part in it.
  [[nodiscard]] DeadlockWatch* deadlocks() noexcept { return deadlocks_ ? &*deadlocks_ : nullptr; }

  /// False after leave(), in a forked child, when fenced, when the segment was removed or replaced. Five loads.
  [[nodiscard]] bool usable() const noexcept {
    using engine::RealPolicy;
    using engine::Safety;
    return (RealPolicy::load(process_word_) == process_ || !RealPolicy::keeps(Safety::child_is_no_member)) &&
           RealPolicy::load(left_) == 0 &&
           (RealPolicy::load(id_word_) == alive_ || !RealPolicy::keeps(Safety::fenced_is_told)) &&
           RealPolicy::load(removed_word_) == 0 && !keeper_->segment_gone();
  }
  /// Throws the Error that says why it is not usable: not_a_participant, session_dead, segment_gone.
  void require_usable() const;
  /// Is this a child of the process that joined? Then no mutex of its copy may be locked, nor a condition variable be
  /// destroyed: they may belong to threads that are not here.
  [[nodiscard]] bool forked() const noexcept { return engine::RealPolicy::load(process_word_) != process_; }
  /// Throws not_a_participant in such a child; for calls that answer in a session that has ended too.
  void require_not_forked() const {
    if (forked()) require_usable();
  }

  /// The session's sign of life, for manual mode (harmless in automatic mode).
  void beat(std::int64_t now_ns) noexcept;

  /// An entry that is in no control word, for one hold or wait. Throws Error: table_full, no_space, and as
  /// require_usable().
  [[nodiscard]] engine::EntryIndex take_entry();
  /// Takes it back. If it is still in a word (its release was left unfinished), that is finished first.
  void give_back(engine::EntryIndex entry) noexcept;

  /// Detached holds outlive us. The entry is ours while we acquire on it, so that it dies with us until
  /// commit_detached() moves its chunk to the permanent slot: true = from now on only its lease, bound process or
  /// release ends the hold. Entries that are not committed are given back with give_back().
  [[nodiscard]] engine::EntryIndex take_detached_entry();
  [[nodiscard]] bool commit_detached(engine::EntryIndex entry);

  /// Held around every call of the name index that names our slot: the slot has one `claiming` word.
  [[nodiscard]] std::mutex& names_mutex() noexcept { return names_mutex_; }

  /// For `run`: the descriptor that each command inherits as the second byte lock (byte_lock.hpp). The slot is dead
  /// only when nobody has it open any more. Never close it in this process.
  [[nodiscard]] int inherited_lock();
  /// Around what is done to a word without an own entry in it: if we die inside, our burial finishes that word.
  class Helping {
   public:
    Helping(const Participant& who, engine::RecordIndex record) noexcept : word_(who.session().helping) {
      const bool noted = engine::RealPolicy::keeps(engine::Safety::helping_is_noted);
      if (noted) engine::RealPolicy::store(word_, std::uint64_t{record} + 1);
    }
    ~Helping() { engine::RealPolicy::store(word_, 0); }
    Helping(const Helping&) = delete;
    Helping& operator=(const Helping&) = delete;

   private:
    engine::Word64& word_;
  };

  /// For people: the process group of the command under `run`.
  void set_group(std::int32_t group_pid) noexcept;

  /// Gives up all holds and waits, frees the slot. Idempotent. Does nothing in a forked child.
  void leave() noexcept;

 private:
  struct Spare {
    std::uint32_t chunk;
    bool taken;
  };

  Participant(std::shared_ptr<engine::Mapping> mapping, engine::SlotIndex slot, std::uint64_t incarnation);
  void become_alive(const JoinOptions& options);
  void describe(const JoinOptions& options);
  std::uint32_t claim_chunk();
  [[nodiscard]] std::uint64_t owner_word() const noexcept;
  engine::SessionSlot& session() const noexcept;

  std::shared_ptr<engine::Mapping> mapping_;
  const engine::SlotIndex slot_;
  const std::uint64_t incarnation_;
  const std::uint64_t process_;
  const engine::Word64& process_word_;
  const engine::Word64& id_word_;
  const engine::Word64& removed_word_;
  const std::uint64_t alive_;
  std::uint64_t session_id_ = 0;
  bool manual_ = false;
  engine::Word32 left_;
  std::unique_ptr<Keeper> keeper_;
  std::optional<DeadlockWatch> deadlocks_;
  std::mutex names_mutex_;
  std::mutex mutex_;
  std::vector<engine::EntryIndex> free_;
  int inherited_lock_ = -1;
  std::size_t owned_ = 0;               // entries in our chunks, and so the most that free_ can hold
  std::vector<Spare> detached_chunks_;  // not committed; only the first entry of each is used
};

/// A detached entry of the permanent slot was freed (released, reclaimed): frees its chunk if all eight are free.
void tidy_detached(const engine::View& view, engine::EntryIndex entry) noexcept;

}  // namespace shmcoord::process
