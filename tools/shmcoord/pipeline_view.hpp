#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/value.hpp>

#include "shmcoord/segment_pipeline.hpp"

// How a pipeline that runs here is told, on standard error, since standard output belongs to its commands.
//
// On a terminal: all phases, one a line, drawn again in their place each second and with each change, while it waits;
// while a command runs the terminal is the command's, and afterwards they are drawn anew below what that wrote.
// Otherwise, also on a terminal that obeys no control sequences, a line for each change. For programs a document: of
// each change, of each guard that warned, and of the end.

namespace shmcoord::tool {

class PipelineView {
 public:
  explicit PipelineView(bool for_programs);

  /// By the thread that runs it.
  void changed(const Pipeline& pipeline);
  void warn(const std::string& guard, const std::string& reason);
  void command_begins();
  void command_ended();
  void ended(PipelineRunResult result);
  /// By another one, which calls again after so many milliseconds.
  int tick();

 private:
  struct Times {
    std::int64_t begun_ns = 0;
    std::int64_t ended_ns = 0;
  };

  void draw();
  void tell();
  [[nodiscard]] std::string line_of(std::size_t phase, std::int64_t now_ns) const;
  [[nodiscard]] std::string state_text() const;
  [[nodiscard]] boost::json::value id() const;  // null: not known yet

  const bool for_programs_;
  const bool live_;
  std::mutex mutex_;
  std::optional<Pipeline> pipeline_;
  std::vector<Times> times_;  // of each phase
  std::size_t name_columns_ = 0;
  std::string told_;
  std::size_t drawn_ = 0;  // lines that stand there, to be drawn over
  bool in_command_ = false;
  bool in_midline_ = false;  // perhaps: whatever a command wrote last may lack a line break
};

}  // namespace shmcoord::tool
