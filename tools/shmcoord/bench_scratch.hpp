#pragma once

#include <string>

// A directory in /dev/shm for one run of `bench`: its segment and the file that flock(1) and flock(2) lock. It has a
// random name, so no run finds another one's files. Its owner keeps it flock'ed, and so do the children it forked, so
// whatever nobody has locked was left by one that was killed: the next run removes that.

namespace shmcoord::tool {

class BenchScratch {
 public:
  /// Removes what is left of runs that were killed, and makes a new one. Throws Refusal.
  BenchScratch();
  /// Removes it. All that used it have ended.
  ~BenchScratch();
  BenchScratch(const BenchScratch&) = delete;
  BenchScratch& operator=(const BenchScratch&) = delete;

  [[nodiscard]] std::string segment() const { return path_ + "/segment"; }
  [[nodiscard]] std::string file() const { return path_ + "/flock"; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace shmcoord::tool
