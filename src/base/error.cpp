#include "shmcoord/error.hpp"

#include "base/printable.hpp"

namespace shmcoord {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "shmcoord"; }

  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::segment_not_found: return "no such segment";
      case Errc::segment_exists: return "the segment exists already";
      case Errc::segment_foreign: return "not a usable shmcoord segment";
      case Errc::segment_version: return "segment of another layout version";
      case Errc::segment_corrupt: return "segment is corrupt";
      case Errc::segment_gone: return "segment was removed or replaced while in use";
      case Errc::no_permission: return "permission denied";
      case Errc::no_space: return "no space left for the segment";
      case Errc::table_full: return "a table of the segment is full";
      case Errc::invalid_argument: return "invalid argument";
      case Errc::wrong_type: return "the name belongs to another kind of primitive";
      case Errc::config_differs: return "the name exists with another configuration";
      case Errc::not_found: return "no such name; create it first, or check the spelling";
      case Errc::in_use: return "still held or waited for";
      case Errc::name_removed: return "the name was removed; acquire it again to make it anew";
      case Errc::session_dead: return "the session is dead";
      case Errc::not_a_participant: return "this process did not join (forked child)";
      case Errc::unsupported: return "not supported here";
      case Errc::deadlock: return "would wait for itself";
      case Errc::system: return "system call failed";
      case Errc::snapshot_damaged: return "the snapshot is damaged";
    }
    return "unknown shmcoord error";
  }

  // Lets portable code ask `ec == std::errc::resource_deadlock_would_occur`, as it would of std::mutex.
  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<Errc>(value)) {
      case Errc::segment_not_found:
      case Errc::not_found: return std::errc::no_such_file_or_directory;
      case Errc::segment_exists: return std::errc::file_exists;
      case Errc::no_permission: return std::errc::permission_denied;
      case Errc::no_space: return std::errc::no_space_on_device;
      case Errc::invalid_argument: return std::errc::invalid_argument;
      case Errc::in_use: return std::errc::device_or_resource_busy;
      case Errc::unsupported: return std::errc::not_supported;
      case Errc::deadlock: return std::errc::resource_deadlock_would_occur;
      default: return {value, *this};
    }
  }
};

}  // namespace

const std::error_category& error_category() noexcept {
  static const Category category;
  return category;
}

// Texts name what the caller gave, also a name that is wrong or a path of any bytes, and end in logs and on terminals.
Error::Error(Errc code, const std::string& what)
    : std::system_error(make_error_code(code)), text_(base::printable(what)) {}
Error::~Error() = default;

}  // namespace shmcoord
