#include "process/keeper.hpp"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "engine/segment_file.hpp"
#include "engine/wait.hpp"
#include "process/fork_guard.hpp"
#include "process/host.hpp"
#include "process/lease.hpp"
#include "shmcoord/error.hpp"

namespace shmcoord::process {

using engine::RealPolicy;
using engine::Safety;
using engine::SessionSlot;
using engine::SlotIndex;
using engine::WaitOn;

struct Keeper::RobustPage {
  robust_list_head head;
  robust_list node;
};

namespace {

constexpr std::int64_t look_again_ns = 1'000'000'000;

enum Phase : std::uint32_t { starting, holding, refused, going };

}  // namespace

Keeper::Keeper(std::shared_ptr<engine::Mapping> mapping, SlotIndex slot, Options options)
    : mapping_(std::move(mapping)), slot_(slot), options_(options), process_(process_number()) {}

Keeper::~Keeper() { stop(); }

SessionSlot& Keeper::slot() const noexcept { return mapping_->view().slot(slot_); }

bool Keeper::start() {
  const int sharing = RealPolicy::keeps(Safety::robust_page_is_shared) ? MAP_SHARED : MAP_PRIVATE;
  void* const page = ::mmap(nullptr, engine::page_size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw Error(Errc::system, std::string("mmap: ") + std::strerror(errno));
  ::madvise(page, engine::page_size, MADV_DONTFORK);
  page_ = static_cast<RobustPage*>(page);
  // Signals are the program's own business; a thread inherits its creator's mask. Those that an instruction of this
  // thread raises (a truncated segment: SIGBUS) must reach the program's handler: blocked, they would end the process.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  for (const int own : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&thread_, nullptr, thread_main, this);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    ::munmap(page_, engine::page_size);
    page_ = nullptr;
    throw Error(Errc::system, std::string("cannot start the session's keeper thread: ") + std::strerror(error));
  }
  pthread_setname_np(thread_, "shmcoord");
  running_ = true;
  while (RealPolicy::load(phase_) == starting) {
    const WaitOn word{&phase_, starting};
    RealPolicy::wait({&word, 1}, RealPolicy::now_ns() + look_again_ns);
  }
  return RealPolicy::load(phase_) == holding;
}

void Keeper::go() {
  RealPolicy::store(phase_, going);
  RealPolicy::wake(phase_);
}

void Keeper::stop() {
  if (!running_) return;
  running_ = false;
  RealPolicy::store(stopping_, 1);
  go();
  poke();
  pthread_join(thread_, nullptr);
  ::munmap(page_, engine::page_size);
  page_ = nullptr;
}

void Keeper::abandon() noexcept {
  // The page was not copied into this child; something else may stand at its address.
  running_ = false;
  page_ = nullptr;
}

void Keeper::need_interval(std::int64_t interval_ns) {
  if (!same_process(process_)) return;
  {
    const std::lock_guard guard(mutex_);
    intervals_.push_back(interval_ns);
  }
  poke();
}

void Keeper::drop_interval(std::int64_t interval_ns) {
  if (!same_process(process_)) return;
  const std::lock_guard guard(mutex_);
  const auto at = std::find(intervals_.begin(), intervals_.end(), interval_ns);
  if (at != intervals_.end()) intervals_.erase(at);
}

std::int64_t Keeper::current_interval() noexcept {
  const std::lock_guard guard(mutex_);
  std::int64_t interval = options_.interval_ns;
  for (const std::int64_t i : intervals_) interval = std::min(interval, i);
  return std::max<std::int64_t>(interval, 1);
}

std::uint64_t Keeper::add_tick(std::function<void()> callback) {
  if (!same_process(process_)) return 0;
  const std::lock_guard guard(mutex_);
  ticks_.emplace_back(next_tick_id_, std::make_shared<const std::function<void()>>(std::move(callback)));
  return next_tick_id_++;
}

void Keeper::remove_tick(std::uint64_t id) {
  if (!same_process(process_)) return;  // the mutex may be held for ever by a thread that is not here
  std::unique_lock lock(mutex_);
  std::erase_if(ticks_, [&](const auto& tick) { return tick.first == id; });
  if (pthread_equal(pthread_self(), thread_) != 0) return;
  tick_done_.wait(lock, [&] { return running_tick_ != id; });
}

void Keeper::run_ticks() noexcept {
  std::uint64_t done = 0;  // ids only grow, so this walks through a list that changes meanwhile
  for (;;) {
    std::shared_ptr<const std::function<void()>> callback;
    {
      const std::lock_guard guard(mutex_);
      running_tick_ = 0;
      const auto next = std::upper_bound(ticks_.begin(), ticks_.end(), done,
                                         [](std::uint64_t id, const auto& tick) { return id < tick.first; });
      if (next != ticks_.end()) {
        running_tick_ = done = next->first;
        callback = next->second;
      }
    }
    tick_done_.notify_all();
    if (!callback) return;
    (*callback)();
  }
}

void Keeper::poke() noexcept { slots_of(*mapping_).call(slot()); }

void Keeper::beat(std::int64_t now_ns) noexcept {
  SessionSlot& s = slot();
  const auto last = static_cast<std::int64_t>(RealPolicy::load(s.heartbeat_ns));
  const auto interval = static_cast<std::int64_t>(RealPolicy::load(s.beat_interval_ns));
  if (core::age_ns(last, now_ns) / 2 > interval) note_silence(mapping_->view(), now_ns);
  RealPolicy::store(s.heartbeat_ns, static_cast<std::uint64_t>(now_ns));
}

void* Keeper::thread_main(void* self) noexcept {
  static_cast<Keeper*>(self)->run();
  return nullptr;
}

bool Keeper::hold_life_word() noexcept {
  SessionSlot& s = slot();
  const auto tid = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  RealPolicy::set(s.keeper_tid, tid);
  RobustPage& page = *page_;
  page.node.next = &page.head.list;
  page.head.list.next = &page.node;
  page.head.futex_offset = reinterpret_cast<const char*>(&s.life) - reinterpret_cast<const char*>(&page.node);
  page.head.list_op_pending = nullptr;
  if (tid == 0 || (tid & ~engine::life_tid_mask) != 0) return false;
  if (::syscall(SYS_set_robust_list, &page.head, sizeof page.head) != 0) return false;
  RealPolicy::store(s.life, tid | engine::life_waiters);
  return true;
}

void Keeper::look_at_segment(std::int64_t now_ns) noexcept {
  if (mapping_->removed()) RealPolicy::store(gone_, 1);
  if (now_ns < next_identity_ns_) return;
  next_identity_ns_ = now_ns + look_again_ns;
  if (mapping_->check_identity() != engine::Mapping::Identity::same) RealPolicy::store(gone_, 1);
}

void Keeper::run() noexcept {
  SessionSlot& s = slot();
  RealPolicy::store(phase_, hold_life_word() ? holding : refused);
  RealPolicy::wake(phase_);
  for (std::uint32_t phase = RealPolicy::load(phase_); phase != going; phase = RealPolicy::load(phase_)) {
    const WaitOn word{&phase_, phase};
    RealPolicy::wait({&word, 1}, RealPolicy::now_ns() + look_again_ns);
  }
  std::int64_t beaten_ns = static_cast<std::int64_t>(RealPolicy::load(s.heartbeat_ns));
  std::int64_t now = 0;
  std::int64_t interval = 0;
  std::int64_t look_again = 0;
  std::int64_t noticed_ns = 0;  // != 0: since when a death waits for its confirmation
  const auto begin = [&] {
    now = RealPolicy::now_ns();
    interval = current_interval();
    RealPolicy::store(s.beat_interval_ns, static_cast<std::uint64_t>(interval));
    if (!options_.manual_heartbeat && now - beaten_ns >= interval) {
      beat(now);
      beaten_ns = now;
    }
    const bool due = now >= look_again;
    if (due) look_again = now + look_again_ns;
    look_at_segment(now);
    run_ticks();
    return due ? Look::thorough : Look::quick;
  };
  const auto end = [&](const Neighbour& next) {
    std::int64_t deadline = look_again;
    if (!options_.manual_heartbeat) deadline = std::min(deadline, beaten_ns + interval);
    if (!next.unconfirmed) {
      noticed_ns = 0;
      return deadline;
    }
    if (noticed_ns == 0) noticed_ns = now;
    // Whoever waits for the dead one asks more often; we are the last resort, and asking slows an exit down.
    const std::int64_t pause = std::max<std::int64_t>(engine::confirm_pause(now - noticed_ns), 1'000'000);
    return std::min(deadline, RealPolicy::now_ns() + pause);
  };
  slots_of(*mapping_).keep(slot_, stopping_, begin, end);
}

}  // namespace shmcoord::process
