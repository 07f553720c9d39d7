#include "adapters/shell.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <stdexcept>

#include "adapters/process_group.hpp"
#include "adapters/read_file.hpp"
#include "adapters/time_left.hpp"
#include "base/printable.hpp"
#include "engine/descriptor.hpp"

// A shell command, run to its end.
//
// Problem: the command may hang, write without end, leave children that keep its output open, or ignore being asked to
// end; the host program may have threads, descriptors, and any setting of SIGCHLD. What must hold: the caller comes
// back soon after its deadline, and no process, zombie or descriptor is left.
//
// - posix_spawn, because a fork copies the page tables of a large program, and because what runs between fork and exec
//   in a program of many threads may not even allocate. It can close what the command is not to inherit (glibc 2.34).
// - The end of the command is told by its pidfd, never by the end of its output, which whoever inherited it keeps open.
// - Its output is read all the time, so that it never waits for us; the last part is kept, where the reason of a
//   failure stands. What lies in the pipe when the command has ended is taken, once.
// - Where SIGCHLD is ignored the kernel forgets how a child ended. Then an outer shell, whose own SIGCHLD is as it
//   should be, writes the exit code into a pipe that the command does not have.
// If we die here, the command goes on, with its output broken; and with what it was to keep open, by which others see
// that something of us still runs.

namespace shmcoord::adapters {
namespace {

using engine::Descriptor;

constexpr int cannot_execute = 126;  // a shell's exit codes for that
constexpr int not_found = 127;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::runtime_error(what + ": " + error_text(error));
}

struct Pipe {
  Descriptor read;
  Descriptor write;
};

// Reads do not wait. The end that the command gets lies above those that the shell's redirections name, also where the
// host program has closed its standard streams.
Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("no pipe can be made", errno);
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  if (::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK) != 0) fail("no pipe can be made", errno);
  pipe.write = Descriptor(::fcntl(ends[1], F_DUPFD_CLOEXEC, 10));
  if (!pipe.write.valid()) fail("no pipe can be made", errno);
  return pipe;
}

// One stream of the command: all is read, the end is kept.
class Capture {
 public:
  Capture(Descriptor read, std::size_t keep) : read_(std::move(read)), keep_(keep) {}

  [[nodiscard]] int descriptor() const noexcept { return read_.get(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

  /// What there is, but no more than a pipe may hold: somebody may write without end.
  void take() {
    std::array<char, 65'536> buffer;
    for (std::size_t taken = 0; read_.valid() && taken < most_at_once;) {
      const ssize_t got = ::read(read_.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return read_.reset();
      taken += static_cast<std::size_t>(got);
      bytes_ += static_cast<std::size_t>(got);
      text_.append(buffer.data(), static_cast<std::size_t>(got));
      if (text_.size() / 2 > keep_) cut();
    }
  }

  [[nodiscard]] std::string text() && {
    cut();
    return std::move(text_);
  }

 private:
  static constexpr std::size_t most_at_once = 1U << 20U;

  void cut() {
    if (text_.size() > keep_) text_.erase(0, text_.size() - keep_);
  }

  Descriptor read_;
  std::size_t keep_;
  std::uint64_t bytes_ = 0;
  std::string text_;
};

class SpawnActions {
 public:
  SpawnActions() { check(::posix_spawn_file_actions_init(&actions_)); }
  ~SpawnActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void from_null(int fd) { check(::posix_spawn_file_actions_addopen(&actions_, fd, "/dev/null", O_RDONLY, 0)); }
  void to(const Descriptor& from, int fd) { check(::posix_spawn_file_actions_adddup2(&actions_, from.get(), fd)); }
  void close(int fd) { check(::posix_spawn_file_actions_addclose(&actions_, fd)); }
  void close_from(int fd) { check(::posix_spawn_file_actions_addclosefrom_np(&actions_, fd)); }
  void directory(const std::string& path) { check(::posix_spawn_file_actions_addchdir_np(&actions_, path.c_str())); }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

  static void check(int error) {
    if (error != 0) fail("it cannot be started", error);
  }

 private:
  posix_spawn_file_actions_t actions_{};
};

// A group of its own; each signal as if nobody had ever touched it.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    SpawnActions::check(::posix_spawnattr_init(&attributes_));
    sigset_t all;
    sigset_t none;
    ::sigfillset(&all);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> all;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced = std::any_of(more.begin(), more.end(), [&](const auto& variable) {
      return text.substr(0, text.find('=')) == variable.first;
    });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : more) {
    std::string entry = name;
    (entry += '=') += value;
    all.push_back(std::move(entry));
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

bool children_are_forgotten() {
  struct sigaction action {};
  if (::sigaction(SIGCHLD, nullptr, &action) != 0) return false;
  if ((action.sa_flags & SA_NOCLDWAIT) != 0) return true;
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

// Above what shell scripts use for their own descriptors.
constexpr int kept = 59;

// Each of these ends is closed here once the command has its own.
pid_t spawn(const ShellRun& run, int kept_open, const Descriptor& out, const Descriptor& errors,
            const Descriptor& exit_code) {
  std::vector<std::string> arguments = run.launcher;
  arguments.insert(arguments.end(), {"/bin/sh", "-c"});
  if (exit_code.valid()) arguments.insert(arguments.end(), {"/bin/sh -c \"$1\" 3>&-; echo $? >&3", "sh"});
  arguments.push_back(run.command);
  std::vector<std::string> environment = environment_with(run.environment);
  SpawnActions actions;
  actions.from_null(0);
  actions.to(out, 1);
  actions.to(errors, 2);
  if (exit_code.valid()) actions.to(exit_code, 3);
  const int first_closed = exit_code.valid() ? 4 : 3;
  const Descriptor held(kept_open < 0 ? -1 : ::fcntl(kept_open, F_DUPFD_CLOEXEC, 10));  // its number may be 1 to 3
  if (kept_open >= 0) {
    if (!held.valid()) fail("it cannot be started", errno);
    actions.to(held, kept);  // when all others have theirs
    for (int fd = first_closed; fd < kept; ++fd) actions.close(fd);
  }
  actions.close_from(held.valid() ? kept + 1 : first_closed);
  if (!run.directory.empty()) actions.directory(run.directory);
  const SpawnAttributes attributes;
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0].c_str(), actions.get(), attributes.get(),
                                   pointers_to(arguments).data(), pointers_to(environment).data());
  if (error != 0) {
    fail("it cannot be started" + (run.directory.empty() ? "" : " in '" + base::printable(run.directory) + "'"), error);
  }
  return pid;
}

// The other end of a stop token: a descriptor that poll() can wait for.
class StopSignal {
 public:
  explicit StopSignal(const std::stop_token& stop)
      : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Notify{descriptor_.get()}) {
    if (!descriptor_.valid()) fail("it cannot be waited for", errno);
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.get(); }

 private:
  struct Notify {
    int fd;
    void operator()() const noexcept { (void)::eventfd_write(fd, 1); }
  };
  Descriptor descriptor_;
  std::stop_callback<Notify> callback_;
};

// What is being waited for while the command runs.
struct Streams {
  Capture out;
  Capture errors;
  Capture exit_code;

  void take() {
    out.take();
    errors.take();
    exit_code.take();
  }
  void wait(int process, int stop, std::chrono::nanoseconds most) {
    std::array<pollfd, 5> watched{{{process, POLLIN, 0},
                                   {stop, POLLIN, 0},
                                   {out.descriptor(), POLLIN, 0},
                                   {errors.descriptor(), POLLIN, 0},
                                   {exit_code.descriptor(), POLLIN, 0}}};
    (void)::poll(watched.data(), watched.size(), poll_timeout(most));
    take();
  }
};

void wait_for_end(ProcessGroup& group, Streams& streams, const ShellRun& run, const GuardDeadline& deadline) {
  const StopSignal stop(deadline.stop);
  while (group.status() == ProcessGroup::Status::running) {
    if (is_over(deadline)) {
      // Only the time and the command's output are waited for now: the stop has been heard.
      const auto wait = [&](std::chrono::nanoseconds most) {
        const bool leads = group.status() == ProcessGroup::Status::running;
        streams.wait(leads ? group.descriptor() : -1, -1, most);
      };
      if (!group.end(run.grace, wait)) throw std::runtime_error("it did not end in time, and could not be ended");
      throw_over(deadline);
    }
    const auto left = time_left(deadline.at);
    const bool wakes = group.descriptor() >= 0;
    streams.wait(group.descriptor(), stop.descriptor(),
                 wakes ? left : std::min<std::chrono::nanoseconds>(left, look_again));
  }
}

ShellResult result_of(ProcessGroup& group, std::string told_code) {
  ShellResult result;
  switch (group.status()) {
    case ProcessGroup::Status::exited: result.exit_code = group.code(); break;
    case ProcessGroup::Status::signalled: result.signal = group.code(); break;
    default: result.exit_code = -1; break;
  }
  if (!told_code.empty()) {
    const auto read = std::from_chars(told_code.data(), told_code.data() + told_code.size(), result.exit_code);
    if (read.ec != std::errc()) result.exit_code = -1;
  }
  return result;
}

}  // namespace

std::string ShellResult::detail() const {
  std::string text = "exit code " + std::to_string(exit_code);
  if (signal != 0) {
    const char* const name = ::sigdescr_np(signal);
    text = "ended by signal " + std::to_string(signal) + (name == nullptr ? "" : " (" + std::string(name) + ")");
  }
  std::string_view said = errors.empty() ? output : errors;
  constexpr std::string_view blanks = " \t\r\n";
  const auto end = said.find_last_not_of(blanks);
  if (end == std::string_view::npos) return text;
  said = said.substr(0, end + 1);
  const auto line = said.find_last_of("\r\n");
  if (line != std::string_view::npos) said.remove_prefix(line + 1);
  return text + ": " + base::shortened(said, 300);
}

ShellResult run_shell(const ShellRun& run, const GuardDeadline& deadline) {
  if (run.command.empty()) throw std::runtime_error("the command is empty");
  for (const auto& text : {run.command, run.directory}) {
    if (text.find('\0') != std::string::npos) throw std::runtime_error("the command contains a zero byte");
  }
  check_time(deadline);
  Pipe out = make_pipe();
  Pipe errors = run.separate_errors ? make_pipe() : Pipe{};
  Pipe exit_code = children_are_forgotten() ? make_pipe() : Pipe{};
  ProcessGroup group(
      spawn(run, deadline.kept_open, out.write, run.separate_errors ? errors.write : out.write, exit_code.write));
  out.write.reset();
  errors.write.reset();
  exit_code.write.reset();
  Streams streams{{std::move(out.read), run.max_output},
                  {std::move(errors.read), run.separate_errors ? std::size_t{4096} : 0},
                  {std::move(exit_code.read), 16}};
  wait_for_end(group, streams, run, deadline);
  streams.take();
  ShellResult result = result_of(group, std::move(streams.exit_code).text());
  result.output_bytes = streams.out.bytes();
  result.output = std::move(streams.out).text();
  result.errors = std::move(streams.errors).text();
  if (group.is_there()) {
    const auto wait = [](std::chrono::nanoseconds most) { (void)::poll(nullptr, 0, poll_timeout(most)); };
    const bool ended = group.end(run.grace, wait);
    throw std::runtime_error(std::string("it left processes behind, which were ") +
                             (ended ? "ended" : "asked to end and did not") + "; " + result.detail());
  }
  if (result.exit_code == -1) {
    throw std::runtime_error("how it ended is not known: something else in this program waited for it");
  }
  if (result.signal == 0 && (result.exit_code == cannot_execute || result.exit_code == not_found)) {
    throw std::runtime_error("it cannot be run: " + result.detail());
  }
  return result;
}

}  // namespace shmcoord::adapters
