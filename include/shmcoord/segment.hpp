#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "shmcoord/error.hpp"
#include "shmcoord/export.hpp"

namespace shmcoord {

namespace detail {
struct Access;  // lets the inner layers see the parts of public objects
}

/// How a segment is made. Tables are sparse: what is not used takes no memory, so the defaults may stay.
struct SegmentOptions {
  unsigned mode = 0600;                        ///< exact permissions of the file, whatever the umask
  std::optional<unsigned> group = {};          ///< group id of the file
  std::uint32_t names = 65'536;                ///< locks and semaphores that can exist at once
  std::uint32_t entries = 250'000;             ///< holders and waiters at once; given out to sessions by eights
  std::uint32_t sessions = 4'096;              ///< joined sessions at once
  bool journal = false;                        ///< keeps events also while nobody subscribes; 4 MiB of them
  std::optional<unsigned> trusted_owner = {};  ///< accept an existing file of this user too (always: own and root's)
};

struct SegmentListing {
  std::string name;
  std::string path;
  bool usable = false;
  std::string problem = {};  ///< why not usable
};

namespace engine {
class Mapping;
}

/// A handle of a shared-memory segment: the place that processes of one host meet in. Cheap to copy; thread-safe.
/// The name leads to /dev/shm/shmcoord.<name>; one with a '/' is the path of a file. An empty name is the user's
/// default segment, "default-<uid>".
///
/// Errors of every function that opens: Errc::segment_not_found, segment_exists, segment_foreign, segment_version,
/// segment_corrupt, no_permission, no_space, invalid_argument. A refusal changes nothing and says both sides.
/// If the process dies here: a segment is born complete or not at all; opening changes nothing.
class SHMCOORD_EXPORT Segment {
 public:
  static Segment open(std::string_view name = {}, const SegmentOptions& options = {});
  static Segment create(std::string_view name, const SegmentOptions& options = {});
  /// The options of creation count only if this call creates it.
  static Segment open_or_create(std::string_view name = {}, const SegmentOptions& options = {});

  static std::optional<Segment> open(std::string_view name, const SegmentOptions& options,
                                     std::error_code& ec) noexcept;
  static std::optional<Segment> create(std::string_view name, const SegmentOptions& options,
                                       std::error_code& ec) noexcept;
  static std::optional<Segment> open_or_create(std::string_view name, const SegmentOptions& options,
                                               std::error_code& ec) noexcept;

  /// Unlinks the segment. Refused with Errc::in_use while anything in it is held or waited for, unless forced; then
  /// every hold in it is lost and its holders are told. Forced, a damaged one is deleted too: by its plain name
  /// whatever the file contains, by a path only if it starts as a segment does; never what is not a regular file.
  /// `trusted_owner`: as in SegmentOptions.
  static void remove(std::string_view name, bool force = false, std::optional<unsigned> trusted_owner = {});
  /// The segments of this host in /dev/shm, whether or not this user may open them.
  static std::vector<SegmentListing> list(std::optional<unsigned> trusted_owner = {});

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] const std::string& path() const noexcept;

 private:
  friend struct detail::Access;
  explicit Segment(std::shared_ptr<engine::Mapping> mapping) noexcept;
  std::shared_ptr<engine::Mapping> mapping_;
};

}  // namespace shmcoord
