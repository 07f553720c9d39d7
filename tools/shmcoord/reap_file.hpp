#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/segment_file.hpp"
#include "shmcoord/global.hpp"
#include "shmcoord/render.hpp"

// The file that `reap --save` keeps of its segment.
//
// Problem: a segment in memory is gone after a boot, and what made it anew then may have been quicker than the reaper.
// So at the start the file decides: there is no segment, and it is restored from the file, or made empty when there is
// no file either; there is one, and the file must be of that very instance. Else the reaper would save over holds and
// reserved tokens that are nowhere else. The same is asked again at each save (coordination/save.hpp), since others
// restore and save too.
//
// If we die here: the file is the old one or the new one, and the segment is there as a whole or not at all. A file
// that is ahead of its segment (restoring wrote it, the segment was not named yet) is restored by the next one.

namespace shmcoord::tool {

class ReapFile {
 public:
  using Tell = std::function<void(const ReapEvent&)>;
  /// A relative path is taken from the working directory as it is now. Throws UsageError.
  ReapFile(const Global& global, const std::string& file, std::chrono::nanoseconds interval, Tell tell);

  /// The segment: as it is, or restored, or made. Throws what is wrong with the file or the segment; nothing was
  /// changed then.
  [[nodiscard]] std::shared_ptr<engine::Mapping> open_segment() const;
  /// Tells of the first one. Throws what keeps it from being saved.
  void save(const engine::Mapping& mapping);
  /// The same; but what keeps it is told, once until it works again.
  void try_to_save(const engine::Mapping& mapping);

 private:
  [[nodiscard]] std::shared_ptr<engine::Mapping> try_to_open() const;

  const Global& global_;
  std::string file_;
  std::chrono::nanoseconds interval_;
  Tell tell_;
  bool saved_ = false;
  bool fails_ = false;
};

}  // namespace shmcoord::tool
