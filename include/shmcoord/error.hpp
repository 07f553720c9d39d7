#pragma once

#include <stdexcept>
#include <string>
#include <system_error>

#include "shmcoord/export.hpp"

// What cannot be answered with a value. Results of normal life (busy, not owner, timed out) never come this way.

namespace shmcoord {

/// Why a call could not be carried out. Each value is stable: scripts and logs may rely on the number.
enum class Errc {
  segment_not_found = 1,  ///< no segment of that name; create it or check the name
  segment_exists,         ///< `create` found one already
  segment_foreign,        ///< not a shmcoord segment, or not a regular file, or on a network file system
  segment_version,        ///< made by another layout version, word size or byte order
  segment_corrupt,        ///< an invariant of the segment is broken; `shmcoord segment check` says which
  segment_gone,           ///< removed or replaced while in use: every hold in it is lost
  no_permission,          ///< the file's mode, owner or directory forbids it
  no_space,               ///< the file system that holds the segment is full
  table_full,             ///< all names, entries or sessions of the segment are in use
  invalid_argument,       ///< a bad name, holder id, duration, weight or capacity
  wrong_type,             ///< the name exists as another kind of primitive (C-26)
  config_differs,         ///< the name exists with another configuration than the one asked for (C-26)
  not_found,              ///< no such lock, semaphore or holder
  in_use,                 ///< held or waited for, so it cannot be removed without force (C-37)
  name_removed,           ///< the name was removed by force while this caller waited for it
  session_dead,           ///< the session was left, fenced, or its keeper is gone; join anew
  not_a_participant,      ///< this process is a forked child: handles of the parent do not work here; join anew
  unsupported,            ///< the kernel or file system lacks something that cannot be done without
  deadlock,               ///< this thread already holds it, or waits for who waits for this thread
  system,                 ///< a system call failed; the message names it
  snapshot_damaged,       ///< a saved snapshot was changed or cut; the message says where
};

/// The category of Errc; its name is "shmcoord". Thread-safe, never throws.
SHMCOORD_EXPORT const std::error_category& error_category() noexcept;

inline std::error_code make_error_code(Errc e) noexcept { return {static_cast<int>(e), error_category()}; }

/// Every exception of the library. what() is one line that says what is wrong and what to do.
class SHMCOORD_EXPORT Error : public std::system_error {
 public:
  Error(Errc code, const std::string& what);
  ~Error() override;

  [[nodiscard]] Errc errc() const noexcept { return static_cast<Errc>(code().value()); }
  [[nodiscard]] const char* what() const noexcept override { return text_.what(); }

 private:
  std::runtime_error text_;  // without the category's words behind it; copies without throwing
};

}  // namespace shmcoord

template <>
struct std::is_error_code_enum<shmcoord::Errc> : std::true_type {};
