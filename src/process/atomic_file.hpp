#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Files that are there as a whole.
//
// Replacing writes a file beside the old one, makes sure that it is on the disk, renames it, and makes sure of that:
// whoever dies in between leaves the old file, or the new one, and maybe a file `.NAME.new.<random>` that nobody reads
// and that the next one who replaces this file takes away if its writer is gone.

namespace shmcoord::process {

/// The right to replace one file: of those who ask, one at a time has it, as long as this lives.
class FileReplacement {
 public:
  /// Follows links. Throws Error: invalid_argument (a directory, a device), no_permission, in_use (somebody else is
  /// replacing a file of that directory, and does not come to an end), not_found (the directory), system.
  explicit FileReplacement(std::string path);
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  /// Keeps the mode of a file that is there, else 0600. Throws Error: no_permission, no_space, system; then what was
  /// there is as it was.
  void write(std::string_view content) const;

 private:
  std::string path_;
  std::string name_;
  int directory_;
  unsigned mode_ = 0600;
};

/// Throws Error: not_found, invalid_argument (no regular file, or larger than `most`), no_permission, system.
[[nodiscard]] std::string read_whole_file(const std::string& path, std::size_t most);

}  // namespace shmcoord::process
