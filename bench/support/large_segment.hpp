#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/name_index.hpp"
#include "engine/segment_file.hpp"
#include "process/participant.hpp"

// Segments with very many names and holds, and the tool that is let loose on them.

namespace shmcoord::bench {

/// A segment for the time of a case.
class Made {
 public:
  Made(std::string name, const engine::Sizes& sizes);
  ~Made();
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

/// Short names of equal length, "job-0000042".
std::string name_of(std::uint32_t number);
/// The lock of that name, made if there is none.
engine::Found insert(process::Participant& me, std::uint32_t number);
/// The first `count` of them, by a process of its own.
void insert_all(const std::string& segment, std::uint32_t count);

std::vector<std::uint32_t> shuffled(std::uint32_t count, unsigned seed);

/// What the segment takes of the memory.
std::int64_t allocated_bytes(const engine::Mapping& mapping);

/// Puts an entry into its word, and brings that to its end.
enum class Into : std::uint8_t { hold, queue };
/// What somebody who gives a name and a reason asks for.
struct Asked {
  std::string holder = "pipeline";
  std::string reason = "build of the day";
};
void put(process::Participant& me, const engine::Found& lock, Into into, const Asked& asked);

/// A process that holds those locks of the segment, each on an entry of its own, until it is killed.
pid_t holding(const std::string& segment, const std::vector<std::uint32_t>& numbers, engine::SlotIndex* slot = nullptr,
              engine::RecordIndex* first = nullptr);

struct Spent {
  double wall_ms;
  double cpu_ms;  // what a busy machine does not add to
};

/// A command as a whole process, whose words nobody reads.
Spent spent_by(const std::vector<std::string>& command);

}  // namespace shmcoord::bench
