#include "shmcoord/pipeline_view.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <boost/json.hpp>

#include "base/printable.hpp"
#include "process/clock.hpp"
#include "shmcoord/display_width.hpp"
#include "shmcoord/durations.hpp"
#include "shmcoord/json_writer.hpp"
#include "shmcoord/messages.hpp"
#include "shmcoord/render.hpp"
#include "shmcoord/terminal.hpp"

namespace shmcoord::tool {
namespace {

namespace json = boost::json;

constexpr int redraw_ms = 1000;
constexpr std::size_t widest_name = 30;       // columns
constexpr std::size_t longest_command = 120;  // bytes that are shown of it

std::int64_t now_ns() { return process::real_clock().now_ns(); }

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

TerminalSize size_of_terminal() {
  TerminalSize known;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0) return known;
  if (size.ws_col != 0) known.columns = size.ws_col;
  if (size.ws_row != 0) known.rows = size.ws_row;
  return known;
}

/// Its control sequences are ours; the texts in it were made printable.
void write_terminal(const std::string& text) { (void)!::write(STDERR_FILENO, text.data(), text.size()); }

/// As much of it as tells it from others.
std::string words_of(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    text += (text.empty() ? "" : " ") + word;
    if (text.size() > longest_command) break;
  }
  return base::shortened(text, longest_command);
}

}  // namespace

PipelineView::PipelineView(bool for_programs)
    : for_programs_(for_programs), live_(!for_programs && obeys_sequences(STDERR_FILENO)) {}

json::value PipelineView::id() const { return pipeline_ ? json::value(printable(pipeline_->id())) : json::value(); }

/// The present state, if it is worth a line of a log: one that lasts, and is not over, which the last line says.
std::string PipelineView::state_text() const {
  const Pipeline& p = *pipeline_;
  const std::string where = fmt::format("[{}/{}] {}", p.current() + 1, p.phases().size(), printable(p.phase().name));
  if (p.blocked()) return where + ": waiting: " + printable(p.blocked()->waiting_on);
  return in_command_ ? where + ": " + words_of(p.phase().command) : std::string();
}

void PipelineView::tell() {
  const std::string text = state_text();
  if (text.empty() || text == told_) return;
  say("pipeline '" + printable(pipeline_->id()) + "': " + text);
  told_ = text;
}

void PipelineView::changed(const Pipeline& pipeline) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t now = now_ns();
  if (!pipeline_) {
    times_.resize(pipeline.phases().size());
    for (const GuardedPhase& phase : pipeline.phases()) {
      name_columns_ = std::max(name_columns_, std::min(columns_of(printable(phase.name)), widest_name));
    }
  }
  // A step may lead over several phases at once.
  for (std::size_t n = pipeline_ ? pipeline_->current() : pipeline.current(); n <= pipeline.current(); ++n) {
    if (times_[n].begun_ns == 0) times_[n].begun_ns = now;
    if ((n < pipeline.current() || is_over(pipeline.status())) && times_[n].ended_ns == 0) times_[n].ended_ns = now;
  }
  pipeline_ = pipeline;
  if (for_programs_) {
    json::object document{{"time", rfc3339(process::real_clock().wall_ns())}};
    for (auto& [key, value] : pipeline_members(pipeline)) document[key] = value;
    return say_document(json_text(document));
  }
  if (live_) return draw();
  tell();
}

void PipelineView::warn(const std::string& guard, const std::string& reason) {
  const std::scoped_lock lock(mutex_);
  if (for_programs_) {
    return say_document(
        json_text(json::object{{"time", rfc3339(process::real_clock().wall_ns())},
                               {"id", id()},
                               {"warning", json::object{{"guard", printable(guard)}, {"reason", printable(reason)}}}}));
  }
  say("warning: guard '" + printable(guard) + "' not passed: " + reason);
  drawn_ = 0;  // it stands below what is there
}

void PipelineView::command_begins() {
  const std::scoped_lock lock(mutex_);
  in_command_ = true;
  drawn_ = 0;  // what stands there stays
  in_midline_ = true;
  if (!live_ && !for_programs_) tell();
}

void PipelineView::command_ended() {
  const std::scoped_lock lock(mutex_);
  in_command_ = false;
}

void PipelineView::ended(PipelineRunResult result) {
  if (!for_programs_) return;
  const std::string_view text = to_string(result);
  say_document(json_text(json::object{{"time", rfc3339(process::real_clock().wall_ns())},
                                      {"id", id()},
                                      {"result", json::string_view(text.data(), text.size())}}));
}

int PipelineView::tick() {
  const std::scoped_lock lock(mutex_);
  if (live_ && pipeline_ && !in_command_) draw();
  return redraw_ms;
}

std::string PipelineView::line_of(std::size_t phase, std::int64_t now) const {
  const Pipeline& p = *pipeline_;
  const Times& times = times_[phase];
  const auto took = [&] {
    if (times.begun_ns == 0) return std::string();  // by an earlier runner
    return format_duration_ns((times.ended_ns == 0 ? now : times.ended_ns) - times.begun_ns);
  };
  std::string name = printable(p.phases()[phase].name);
  name.append(name_columns_ - std::min(columns_of(name), name_columns_), ' ');
  const bool left = phase < p.current() || p.status() == PipelineStatus::done;
  if (left) return fmt::format("  done     {}  {}", name, took());
  if (phase > p.current()) return "           " + name;
  const auto state = [&](const char* word, const std::string& why) {
    return fmt::format("  {:<8} {}  {}{}{}", word, name, took(), why.empty() ? "" : "  ", why);
  };
  if (p.blocked()) return state("waiting", printable(p.blocked()->waiting_on));
  if (p.status() == PipelineStatus::failed) return state("failed", printable(p.failure()));
  if (p.status() == PipelineStatus::cancelled) return state("cancel", "");
  if (p.runs_command()) return state("running", words_of(p.phase().command));
  return state(p.step() == PhaseStep::acquiring ? "acquires" : "guard", "");
}

void PipelineView::draw() {
  const TerminalSize terminal = size_of_terminal();
  const std::int64_t now = now_ns();
  std::string out;
  // As many blanks as fill a line: from its start the cursor stays in it, from anywhere else it gets to the next one.
  if (std::exchange(in_midline_, false)) out += std::string(terminal.columns, ' ') + '\r';
  if (drawn_ > 0) out += fmt::format("\x1b[{}A", drawn_);
  const auto line = [&](std::string text) {
    if (columns_of(text) >= terminal.columns) text = text.substr(0, bytes_within(text, terminal.columns - 2)) + "…";
    out += "\r\x1b[2K" + text + '\n';
  };
  line("pipeline " + printable(pipeline_->id()) + ": " + std::string(to_string(pipeline_->status())));
  // What does not fit onto the screen could not be drawn over.
  const std::size_t count = pipeline_->phases().size();
  const std::size_t shown = std::min(count, std::max<std::size_t>(terminal.rows, 4) - 2);
  const std::size_t before = std::min(pipeline_->current() - std::min(pipeline_->current(), shown / 2), count - shown);
  for (std::size_t n = before; n < before + shown; ++n) line(line_of(n, now));
  drawn_ = shown + 1;
  write_terminal(out);
}

}  // namespace shmcoord::tool
