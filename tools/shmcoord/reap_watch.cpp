#include "shmcoord/reap_watch.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "process/identity.hpp"
#include "process/liveness.hpp"
#include "shmcoord/error.hpp"
#include "shmcoord/render.hpp"

namespace shmcoord::tool {
namespace {

using P = engine::RealPolicy;

constexpr std::uint64_t signal_event = ~std::uint64_t{0};

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

bool add_to(int epoll, int fd, std::uint64_t data) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = data;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/// A text of shared memory that may lack its end.
template <std::size_t N>
std::string text_of(const std::array<char, N>& row) {
  const auto end = std::find(row.begin(), row.end(), '\0');
  return printable(std::string(row.begin(), end));
}

}  // namespace

void DeathWatch::block_ending_signals() {
  const sigset_t set = ending_signals();
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

DeathWatch::DeathWatch(std::shared_ptr<engine::Mapping> mapping) : mapping_(std::move(mapping)) {
  const sigset_t set = ending_signals();
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (epoll_ < 0 || signals_ < 0 || !add_to(epoll_, signals_, signal_event)) {
    throw Error(Errc::system, std::string("epoll, signalfd: ") + std::strerror(errno));
  }
}

DeathWatch::~DeathWatch() {
  for (Watched& w : watched_) drop(w);
  ::close(signals_);
  ::close(epoll_);
}

void DeathWatch::drop(Watched& watched) {
  if (watched.pidfd >= 0) ::close(std::exchange(watched.pidfd, -1));
}

auto DeathWatch::wait(int timeout_ms) -> Woken {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms);
  Woken woken = Woken::looked;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    if (data == signal_event) {
      woken = Woken::signalled;
    } else if (data < watched_.size()) {
      drop(watched_[data]);
      fired_.push_back(static_cast<engine::SlotIndex>(data));
    }
  }
  return woken;
}

auto DeathWatch::look() -> std::vector<Death> {
  const engine::View& view = mapping_->view();
  std::vector<Death> deaths;
  const std::uint64_t high = P::load(view.header().slot_high);
  for (engine::SlotIndex s = 1; s < high && view.has_slot(s); ++s) {
    if (!view.slot_exists(s)) continue;
    const engine::SlotId id = engine::unpack_slot(P::load(view.slot(s).id));
    if (id.state == engine::SlotState::free) {
      if (s < watched_.size()) drop(watched_[s]);
      continue;
    }
    // A process whose notice was lost (no robust list in its kernel) is found by the thorough look that its pidfd asks
    // for.
    const bool ended = std::find(fired_.begin(), fired_.end(), s) != fired_.end();
    const process::Look look = ended ? process::Look::thorough : process::Look::quick;
    const process::Life life = process::life_of(*mapping_, s, id.incarnation, look).life;
    if (life == process::Life::dying || life == process::Life::dead) {
      deaths.push_back({s, id.incarnation, describe(s)});
    } else if (id.state == engine::SlotState::alive) {
      watch(s, id.incarnation);
    }
  }
  fired_.clear();
  return deaths;
}

void DeathWatch::watch(engine::SlotIndex s, std::uint64_t incarnation) {
  if (s >= watched_.size()) watched_.resize(std::size_t{s} + 1);
  Watched& w = watched_[s];
  if (w.incarnation == incarnation) return;  // watched, or has fired, or cannot be watched
  drop(w);
  w.incarnation = incarnation;
  const engine::SessionSlot& slot = mapping_->view().slot(s);
  const pid_t pid = slot.pid;
  if (pid <= 0 || pid == ::getpid() || slot.pid_namespace != process::own_pid_namespace()) return;
  const auto fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return;
  // Opened first and compared then: a pid that was reused in between shows another start.
  if (process::start_time_of(pid) != slot.start_time || !add_to(epoll_, fd, s)) {
    ::close(fd);
    return;
  }
  w.pidfd = fd;
}

std::string DeathWatch::describe(engine::SlotIndex s) const {
  const engine::SessionSlot& slot = mapping_->view().slot(s);
  const std::string label = text_of(slot.label);
  const std::string command = text_of(slot.command);
  std::string text = fmt::format("session {:016x} (pid {}", slot.session_id, slot.pid);
  if (!label.empty()) text += ", " + label;
  if (!command.empty()) text += ", " + command;
  return text + ")";
}

}  // namespace shmcoord::tool
