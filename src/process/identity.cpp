#include "process/identity.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "engine/own_namespace.hpp"

namespace shmcoord::process {

namespace {

constexpr std::uint64_t task_exiting =
    0x4;  // PF_EXITING: the task has begun to exit and enters no system call any more

std::optional<std::string> read_file(const std::string& path, std::size_t at_most = 65536) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
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

struct Tasks {
  std::vector<pid_t> ids;
  bool all_exiting = true;
};

std::optional<Tasks> tasks_of(pid_t pid) {
  const std::string folder = proc(pid, "task");
  DIR* const dir = ::opendir(folder.c_str());
  if (dir == nullptr) return std::nullopt;
  Tasks tasks;
  while (const dirent* const item = ::readdir(dir)) {
    const pid_t id = std::atoi(item->d_name);
    if (id <= 0) continue;
    const auto text = read_file(folder + "/" + item->d_name + "/stat");
    if (!text) continue;  // it is gone
    const auto line = parse_stat(*text);
    tasks.all_exiting = tasks.all_exiting && line && past_its_last_call(*line);
    tasks.ids.push_back(id);
  }
  ::closedir(dir);
  std::sort(tasks.ids.begin(), tasks.ids.end());
  return tasks;
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

bool proc_shows_own_namespace() {
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

std::optional<StatLine> parse_stat(const std::string& text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  StatLine line;
  line.comm = text.substr(open + 1, close - open - 1);
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  if (!(rest >> line.state)) return std::nullopt;
  for (int number = 4; number <= 22; ++number) {
    if (!(rest >> field)) return std::nullopt;
    const char* const end = field.data() + field.size();
    std::uint64_t* const to = number == 9 ? &line.flags : number == 22 ? &line.start_time : nullptr;
    if (to != nullptr && std::from_chars(field.data(), end, *to).ptr != end) return std::nullopt;
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
  const auto text = read_file(proc(pid, "stat"));
  const auto line = text ? parse_stat(*text) : std::nullopt;
  if (!line) return no_such_process(pid) ? ProcessState::gone : ProcessState::unknown;
  if (start_time != 0 && line->start_time != start_time) return ProcessState::gone;
  // Twice: a task that began to exit makes no new ones, so whoever is not in the second list, or new there, tells.
  const auto first = tasks_of(pid);
  if (!first) return no_such_process(pid) ? ProcessState::gone : ProcessState::unknown;
  if (!first->all_exiting) return ProcessState::running;
  const auto second = tasks_of(pid);
  if (!second) return no_such_process(pid) ? ProcessState::gone : ProcessState::unknown;
  const bool nobody_new = std::includes(first->ids.begin(), first->ids.end(), second->ids.begin(), second->ids.end());
  if (!second->all_exiting || !nobody_new) return ProcessState::running;
  return ProcessState::exiting;
}

Sight sight_of(pid_t pid, std::uint64_t pid_namespace) {
  const std::uint64_t own = own_pid_namespace();
  if (own == 0 || pid_namespace == 0) return Sight::unknown;
  if (own != pid_namespace) return Sight::elsewhere;
  return no_such_process(pid) || start_time_of(pid) || no_such_process(pid) ? Sight::seen : Sight::hidden;
}

}  // namespace shmcoord::process
