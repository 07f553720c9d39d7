#include "process/identity.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <vector>

#include "engine/own_namespace.hpp"

namespace shmcoord::process {

namespace {

constexpr std::uint64_t task_exiting =
    0x4;  // PF_EXITING: the task has begun to exit and enters no system call any more

std::optional<std::string> read_file(const std::string& path, std::size_t at_most = 65536, int folder = AT_FDCWD) {
  const int fd = ::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return std::nullopt;
  std::string text;
  char buffer[4096];
  while (text.size() < at_most) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      ::close(fd);
      return std::nullopt;  // ESRCH: it ended while we read
    }
    if (n == 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  return text;
}

std::string proc(pid_t pid, const char* what) { return "/proc/" + std::to_string(pid) + "/" + what; }

std::optional<std::uint64_t> start_time_in(const std::string& path) {
  const auto text = read_file(path);
  const auto line = text ? parse_stat(*text) : std::nullopt;
  if (!line) return std::nullopt;
  return line->start_time;
}

// `folder`: "/proc/PID/".
std::string command_in(const std::string& folder) {
  auto text = read_file(folder + "cmdline", 4096);
  if (text && !text->empty()) {
    while (!text->empty() && text->back() == '\0') text->pop_back();
    std::replace(text->begin(), text->end(), '\0', ' ');
    return *text;
  }
  const auto stat = read_file(folder + "stat");
  const auto line = stat ? parse_stat(*stat) : std::nullopt;
  return line ? "[" + line->comm + "]" : std::string();
}

bool past_its_last_call(const StatLine& task) {
  return task.state == 'Z' || task.state == 'X' || task.state == 'x' || (task.flags & task_exiting) != 0;
}

/// Calls fn(id, folder descriptor, name in it) for each task of the process. False: it is gone, or hidden.
template <class Fn>
bool for_each_task(pid_t pid, Fn&& fn) {
  DIR* const dir = ::opendir(proc(pid, "task").c_str());
  if (dir == nullptr) return false;
  while (const dirent* const item = ::readdir(dir)) {
    if (const pid_t id = std::atoi(item->d_name); id > 0) fn(id, ::dirfd(dir), item->d_name);
  }
  ::closedir(dir);
  return true;
}

bool no_such_process(pid_t pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

}  // namespace

std::uint64_t boot_number() {
  static const std::uint64_t number = [] {
    const auto text = read_file("/proc/sys/kernel/random/boot_id");
    if (!text || text->size() < 36) return std::uint64_t{0};
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (const char c : text->substr(0, 36)) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    return h == 0 ? 1 : h;
  }();
  return number;
}

bool is_earlier_boot(std::uint64_t boot) {
  const std::uint64_t now = boot_number();
  return boot != 0 && now != 0 && boot != now;
}

std::uint64_t own_pid_namespace() { return engine::own_namespace(engine::NamespaceKind::pid); }

namespace {

bool read_whether_proc_shows_own_namespace() {
  const auto status = read_file("/proc/self/status");
  if (!status) return false;
  const auto at = status->find("\nNSpid:");
  if (at == std::string::npos) return false;
  // Our ids from the namespace of /proc down to our own: one number means that they are the same.
  std::istringstream numbers(status->substr(at + 7, status->find('\n', at + 1) - at - 7));
  pid_t first = 0;
  pid_t second = 0;
  return (numbers >> first) && first == ::getpid() && !(numbers >> second);
}

}  // namespace

bool proc_shows_own_namespace() {
  // What the answer depends on: which /proc, which namespace, who asks (a forked child has this copy of the cache).
  struct Question {
    dev_t proc;
    std::uint64_t pid_namespace;
    pid_t pid;
    bool operator==(const Question&) const = default;
  };
  struct stat st {};
  if (::stat("/proc", &st) != 0) return false;
  const Question now{st.st_dev, own_pid_namespace(), ::getpid()};
  static thread_local std::optional<Question> asked;
  static thread_local bool answer = false;
  if (asked != now) {
    answer = read_whether_proc_shows_own_namespace();
    asked = now;
  }
  return answer;
}

// By hand: who waits for a death reads several of these lines while it waits.
std::optional<StatLine> parse_stat(const std::string& text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  StatLine line;
  line.comm = text.substr(open + 1, close - open - 1);
  std::string_view rest = std::string_view(text).substr(close + 1);
  for (int number = 3; number <= 22; ++number) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
    const std::string_view field = rest.substr(0, rest.find_first_of(" \n"));
    if (field.empty()) return std::nullopt;
    rest.remove_prefix(field.size());
    if (number == 3) line.state = field.front();
    std::uint64_t* const to = number == 9 ? &line.flags : number == 22 ? &line.start_time : nullptr;
    const char* const begin = &field.front();
    const char* const end = begin + field.size();
    if (to != nullptr && std::from_chars(begin, end, *to).ptr != end) return std::nullopt;
  }
  return line;
}

std::optional<std::uint64_t> own_start_time() { return start_time_in("/proc/self/stat"); }

std::optional<std::uint64_t> start_time_of(pid_t pid) {
  return proc_shows_own_namespace() ? start_time_in(proc(pid, "stat")) : std::nullopt;
}

std::string own_command() { return command_in("/proc/self/"); }

std::string command_of(pid_t pid) { return command_in(proc(pid, "")); }

ProcessState process_state(pid_t pid, std::uint64_t start_time, std::uint64_t pid_namespace) {
  if (pid <= 0 || pid_namespace == 0 || pid_namespace != own_pid_namespace()) return ProcessState::unknown;
  if (no_such_process(pid)) return ProcessState::gone;
  if (!proc_shows_own_namespace()) return ProcessState::unknown;
  std::vector<pid_t> exiting;
  bool all = true;
  std::uint64_t started = 0;
  const bool listed = for_each_task(pid, [&](pid_t id, int folder, const char* name) {
    if (!all && id != pid) return;
    const auto text = read_file(std::string(name) + "/stat", 65536, folder);
    if (!text) return;  // it is gone
    const auto line = parse_stat(*text);
    if (line && id == pid) started = line->start_time;
    all = all && line && past_its_last_call(*line);
    exiting.push_back(id);
  });
  // The first task is there as long as any is.
  if (!listed || started == 0) return no_such_process(pid) ? ProcessState::gone : ProcessState::unknown;
  if (start_time != 0 && started != start_time) return ProcessState::gone;
  if (!all) return ProcessState::running;
  // Twice: a task that began to exit makes no new ones, but one may have been made since the list was read, and one
  // that calls exec() takes over the first one's id.
  bool still = true;
  const bool again = for_each_task(pid, [&](pid_t id, int folder, const char* name) {
    const auto text = read_file(std::string(name) + "/stat", 65536, folder);
    if (!text) return;  // it is gone
    const auto line = parse_stat(*text);
    const bool known = std::find(exiting.begin(), exiting.end(), id) != exiting.end();
    still = still && known && line && past_its_last_call(*line);
  });
  if (!again) return no_such_process(pid) ? ProcessState::gone : ProcessState::unknown;
  return still ? ProcessState::exiting : ProcessState::running;
}

Sight sight_of(pid_t pid, std::uint64_t pid_namespace) {
  const std::uint64_t own = own_pid_namespace();
  if (own == 0 || pid_namespace == 0) return Sight::unknown;
  if (own != pid_namespace) return Sight::elsewhere;
  return no_such_process(pid) || start_time_of(pid) || no_such_process(pid) ? Sight::seen : Sight::hidden;
}

}  // namespace shmcoord::process
