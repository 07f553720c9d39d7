#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/layout.hpp"
#include "engine/pages.hpp"
#include "engine/segment_name.hpp"
#include "engine/view.hpp"

// A segment as a file: created, opened, checked, mapped, removed.
//
// Invariant 1: a name in the directory always leads to a complete segment (segment_birth.hpp), so an opener only checks
// and never initialises, whoever died in the middle of creating one. Invariant 2: in one process there is one Mapping,
// and one descriptor, per inode, and the descriptor is not closed while the file can still be reached. Closing *any*
// descriptor of an inode drops all POSIX record locks that the process has on it, and those locks are the proof that
// its sessions live (segment_registry.hpp). So descriptors are leaked deliberately: one for each segment that a process
// ever opened; they are taken back when the segment is unlinked and nobody uses it.
//
// What if we die here: opening changes nothing. `remove` marks the header, wakes, unlinks; whoever dies between leaves
// a marked segment under its name, and the next one who opens, creates or removes that name unlinks it.

namespace shmcoord::engine {

class SegmentRegistry;

struct OpenOptions {
  /// Accept a file of this owner too. Always accepted: the caller's own (effective uid) and root's.
  std::optional<uid_t> trusted_owner;
  /// Read access is enough. A process that has the segment writable already gets that mapping again.
  bool read_only = false;
};

struct CreateOptions {
  Sizes sizes;
  mode_t mode = 0600;          ///< exactly this, whatever the umask; its owner must be able to read and write
  std::optional<gid_t> group;  ///< of the file; none: as the file system does it
  std::uint32_t flags = 0;     ///< HeaderFlag
};

struct ListedSegment {
  std::string name;
  std::string path;
  bool ok = false;    ///< could be opened by this process now
  std::string error;  ///< else why not
};

class Mapping final : public PageSource {
 public:
  /// Each takes a name (1–200 bytes; /dev/shm/shmcoord.<name>) or, when it has a '/', a path. Each throws Error:
  /// segment_not_found, segment_exists, segment_foreign, segment_version, segment_corrupt, segment_gone, no_permission,
  /// no_space, invalid_argument, unsupported, system; nothing was changed then. Thread-safe, usable in a forked child.
  static std::shared_ptr<Mapping> open(const std::string& name_or_path, const OpenOptions& options = {});
  static std::shared_ptr<Mapping> create(const std::string& name_or_path, const CreateOptions& options = {});
  /// `create_options` count only if it is this call that creates it.
  static std::shared_ptr<Mapping> open_or_create(const std::string& name_or_path,
                                                 const CreateOptions& create_options = {},
                                                 const OpenOptions& open_options = {});

  enum class Damaged : std::uint8_t { refuse, unlink };
  /// Marks the segment as removed (everybody's holds in it are lost), wakes all keepers, unlinks it. Unconditional:
  /// whether it is in use is for the caller to ask first. A file that cannot be opened as a segment because of what is
  /// in it is only unlinked, if wanted: with a plain name whatever it contains, at a path only when it starts as a
  /// segment does, since a path may be a slip that leads to anybody's file. Who still uses it sees that it is gone.
  static void remove(const std::string& name_or_path, const OpenOptions& options = {},
                     Damaged damaged = Damaged::refuse);

  /// The segments with a plain name, by name. Cleans up what killed creators left.
  static std::vector<ListedSegment> list(const OpenOptions& options = {});
  /// Only that, in the directory of that file.
  static void clean_up_beside(const std::string& path);

  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() override;

  [[nodiscard]] const View& view() const noexcept { return view_; }
  /// The process's one descriptor of the file: for record locks. Never close it, nor any duplicate of it.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< as given; a path for a path
  [[nodiscard]] const std::string& path() const noexcept { return path_; }  ///< absolute
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  /// Made before the last boot (a file on a disk): everybody in it is dead. The caller cleans up; the file stays.
  [[nodiscard]] bool from_earlier_boot() const noexcept { return from_earlier_boot_; }
  /// `remove` was called on it: every hold is lost.
  [[nodiscard]] bool removed() const noexcept { return RealPolicy::load(view_.header().removed) != 0; }

  /// Makes the pages of [offset, offset + bytes) exist. Throws Error: no_space, naming the path and what to do;
  /// segment_corrupt when another process truncated the file; no_permission on a read-only mapping.
  void ensure(std::uint64_t offset, std::uint64_t bytes) override;
  [[nodiscard]] bool try_ensure(std::uint64_t offset, std::uint64_t bytes) const noexcept override;

  void ensure_slot(SlotIndex s) { ensure_row(view_.geo.slots, s, sizeof(SessionSlot)); }
  void ensure_chunk_word(std::uint32_t c) { ensure_row(view_.geo.chunks, c, sizeof(Word64)); }
  void ensure_entry(EntryIndex i) { ensure_row(view_.geo.entries, i, sizeof(Entry)); }
  void ensure_record(RecordIndex r) { ensure_row(view_.geo.records, r, sizeof(Record)); }
  /// Before a reclaim, so that the next holder can be told who was robbed; without the room it is told only why.
  void prepare_notice(RecordIndex r, EntryIndex robbed) const noexcept;
  /// The same for many records, in ascending order: pages side by side are asked for at once, and none that nobody
  /// needs. The rest is for those whose holder id is longer than short_notice_holder.
  enum class NoticePart : std::uint8_t { head, rest };
  void prepare_notices(NoticePart part, std::span<const RecordIndex> records) const noexcept;

  /// Its file has another name now. Only as long as nobody but the caller knows this mapping.
  void renamed(std::string name, std::string path) {
    name_ = std::move(name);
    path_ = std::move(path);
  }

  enum class Identity : std::uint8_t {
    same,      ///< the path leads to this file
    unlinked,  ///< nothing is at the path any more
    replaced,  ///< another file is
  };
  /// Is the file that others would open now still this one? Two stat calls; errors other than "not there" count as
  /// same.
  [[nodiscard]] Identity check_identity() const noexcept;
  /// The part of it that is cheap: false when no path leads to this file any more, be it deleted or replaced.
  [[nodiscard]] bool linked() const noexcept;

 private:
  friend class SegmentRegistry;
  struct Region;   // the mapped memory; Boost stays out of this header
  struct Checked;  // a file that was opened and found good, not yet mapped
  struct Opened;   // what an attempt to open came to

  Mapping(std::string name, std::string path, Checked&& file);
  static void check_file(const std::string& name, const std::string& path, const OpenOptions& options, int fd,
                         Checked* file);
  static bool open_checked(const SegmentRegistry& registry, const std::string& name, const std::string& path,
                           const OpenOptions& options, Checked* file, std::shared_ptr<Mapping>* known);
  static Opened try_open(const std::string& name, const std::string& path, const OpenOptions& options);
  static std::shared_ptr<Mapping> try_create(const std::string& name, const std::string& path,
                                             const CreateOptions& options);
  [[nodiscard]] bool unlink_removed() const;
  static void unlink_damaged(const std::string& path, const std::string& what);
  void ensure_row(std::uint64_t table, std::uint64_t row, std::uint64_t row_bytes) {
    ensure(table + row * row_bytes, row_bytes);
  }
  int allocate(std::uint64_t offset, std::uint64_t bytes) const noexcept;  // 0, or an errno

  std::string name_;
  std::string path_;
  int fd_;
  bool read_only_;
  bool from_earlier_boot_;
  dev_t device_;
  ino_t inode_;
  View view_;
  std::unique_ptr<Region> region_;
};

/// Opens /dev/null (close-on-exec) as each of the descriptors 0, 1 and 2 that is closed. Called before a segment is
/// opened or made: a segment that became the program's standard output would be overwritten by its next message.
void occupy_standard_descriptors() noexcept;

}  // namespace shmcoord::engine
